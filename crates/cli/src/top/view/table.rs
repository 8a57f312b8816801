//! Tables of `convoy top`, in which no row takes more than a line.

use ratatui::Frame;
use ratatui::layout::{Alignment, Constraint, Rect};
use ratatui::style::Style;
use ratatui::text::Text;
use ratatui::widgets::{Cell, Row, Table, TableState};

use crate::table::{fit, shortened};

/// What a column has.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum ColumnContent {
    /// Names, which lose their middle where the area is too narrow.
    Name,
    Word,
    /// They are aligned to the right.
    Number,
}

/// A header, what is below it, and the least width.
pub(super) type TopColumn = (&'static str, ColumnContent, usize);

/// Draws rows below a header. Rows without room are left out, but for the selected one.
pub(super) fn draw_table(
    frame: &mut Frame<'_>,
    area: Rect,
    columns: &[TopColumn],
    mut rows: Vec<Vec<String>>,
    selected: Option<usize>,
    style: &dyn Fn(usize) -> Style,
) {
    let width_of = |at: usize| rows.iter().map(|row| row[at].chars().count()).max().unwrap_or(0);
    let mut widths: Vec<usize> =
        columns.iter().enumerate().map(|(at, (_, _, least))| width_of(at).max(*least)).collect();
    let gaps = 2 * columns.len().saturating_sub(1);
    let room = usize::from(area.width).saturating_sub(gaps);
    fit(&mut widths, &|at| columns[*at].1 == ColumnContent::Name, room);
    for row in &mut rows {
        for (at, text) in row.iter_mut().enumerate().filter(|(at, _)| columns[*at].1 == ColumnContent::Name) {
            *text = shortened(text, widths[at]);
        }
    }
    let cell = |text: String, (_, kind, _): &TopColumn| {
        let alignment = if *kind == ColumnContent::Number { Alignment::Right } else { Alignment::Left };
        Cell::from(Text::from(text).alignment(alignment))
    };
    let line = |cells: Vec<String>| {
        Row::new(cells.into_iter().zip(columns).map(|(text, column)| cell(text, column)))
    };
    let header = line(columns.iter().map(|(name, ..)| (*name).to_owned()).collect());
    let rows = rows.into_iter().enumerate().map(|(at, row)| line(row).style(style(at)));
    let table = Table::new(rows, widths.iter().map(|width| Constraint::Length(*width as u16)))
        .header(header.style(Style::new().bold().underlined()))
        .column_spacing(2)
        .row_highlight_style(Style::new().reversed());
    frame.render_stateful_widget(table, area, &mut TableState::new().with_selected(selected));
}
