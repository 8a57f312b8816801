//! Layout of tables.

use comfy_table::presets::{NOTHING, UTF8_HORIZONTAL_ONLY};
use comfy_table::{CellAlignment, ColumnConstraint, ContentArrangement, Table};

/// Spaces between columns.
const GAP: u16 = 2;
/// Characters that a clipped column keeps, however narrow the table.
const LEAST_CLIPPED: usize = 12;

/// An empty table with this header.
pub fn new_table(header: &[&str]) -> Table {
    let mut table = Table::new();
    table.load_preset(UTF8_HORIZONTAL_ONLY).set_header(header.to_vec());
    table
}

/// A column: its header, and the text for a row.
pub struct Column<'a, R> {
    header: String,
    kind: ColumnKind,
    cell: Box<dyn Fn(&R) -> String + 'a>,
}

/// Alignment and wrapping of a column.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ColumnKind {
    Words,
    Word,
    Clipped,
    Number,
}

impl<R> Column<'_, R> {
    /// The header.
    pub fn header(&self) -> &str {
        &self.header
    }

    /// The text for a row.
    pub fn cell(&self, row: &R) -> String {
        (self.cell)(row)
    }
}

/// A column of text, which is wrapped if the table would be too wide.
pub fn words<'a, R>(header: impl Into<String>, cell: impl Fn(&R) -> String + 'a) -> Column<'a, R> {
    Column { header: header.into(), kind: ColumnKind::Words, cell: Box::new(cell) }
}

/// A column of short words, which are not wrapped.
pub fn word<'a, R>(header: impl Into<String>, cell: impl Fn(&R) -> String + 'a) -> Column<'a, R> {
    Column { header: header.into(), kind: ColumnKind::Word, cell: Box::new(cell) }
}

/// A column of names, which lose their middle if the table would be too wide.
pub fn clipped<'a, R>(header: impl Into<String>, cell: impl Fn(&R) -> String + 'a) -> Column<'a, R> {
    Column { header: header.into(), kind: ColumnKind::Clipped, cell: Box::new(cell) }
}

/// A column of numbers, aligned to the right.
pub fn number<'a, R>(header: impl Into<String>, cell: impl Fn(&R) -> String + 'a) -> Column<'a, R> {
    Column { header: header.into(), kind: ColumnKind::Number, cell: Box::new(cell) }
}

/// Renders a table without lines. With a `width` in characters, names are clipped and other text is
/// wrapped to fit.
pub fn table_of<R>(columns: &[Column<'_, R>], rows: &[R], width: Option<u16>) -> String {
    let mut table = Table::new();
    table.load_preset(NOTHING).set_header(columns.iter().map(|column| &column.header));
    let mut cells: Vec<Vec<String>> =
        rows.iter().map(|row| columns.iter().map(|column| (column.cell)(row)).collect()).collect();
    if let Some(width) = width {
        clip(columns, &mut cells, width.into());
        // The gap behind the last column is trimmed.
        table.set_content_arrangement(ContentArrangement::Dynamic).set_width(width + GAP);
    }
    for row in cells {
        table.add_row(row);
    }
    for (made, column) in table.column_iter_mut().zip(columns) {
        made.set_padding((0, GAP));
        if column.kind != ColumnKind::Words {
            made.set_constraint(ColumnConstraint::ContentWidth);
        }
        if column.kind == ColumnKind::Number {
            made.set_cell_alignment(CellAlignment::Right);
        }
    }
    table.trim_fmt()
}

/// Shortens the cells of clipped columns, the widest column first, until the table fits.
fn clip<R>(columns: &[Column<'_, R>], cells: &mut [Vec<String>], width: usize) {
    let of_cells = |at: usize| cells.iter().map(|row| row[at].chars().count()).max().unwrap_or(0);
    let mut widths: Vec<usize> =
        (0..columns.len()).map(|at| of_cells(at).max(columns[at].header.chars().count())).collect();
    let is_clipped = |at: &usize| columns[*at].kind == ColumnKind::Clipped;
    let gaps = usize::from(GAP) * columns.len().saturating_sub(1);
    fit(&mut widths, &is_clipped, width.saturating_sub(gaps));
    for row in cells {
        for at in (0..columns.len()).filter(is_clipped) {
            row[at] = shortened(&row[at], widths[at]);
        }
    }
}

/// Makes the widest of some columns narrower, but not too narrow to tell names apart, until all
/// columns together have at most `room` characters.
pub fn fit(widths: &mut [usize], is_clipped: &dyn Fn(&usize) -> bool, room: usize) {
    while widths.iter().sum::<usize>() > room {
        let widest = (0..widths.len()).filter(is_clipped).max_by_key(|at| widths[*at]);
        let Some(widest) = widest.filter(|at| widths[*at] > LEAST_CLIPPED) else { break };
        widths[widest] -= 1;
    }
}

/// At most `width` characters of a text: its two ends, as names often differ only there, with `…`
/// between them.
pub fn shortened(text: &str, width: usize) -> String {
    let len = text.chars().count();
    if len <= width {
        return text.to_owned();
    }
    let kept = width.saturating_sub(1);
    let (head, tail) = (kept.div_ceil(2), kept / 2);
    let ends = text.chars().take(head).chain(['…']).chain(text.chars().skip(len - tail));
    ends.take(width).collect()
}

/// Breaks a text between words into lines of at most `width` characters; the first begins with
/// `label`, and the others are indented as far.
pub fn folded(label: &str, text: &str, width: usize) -> String {
    let indent = label.chars().count();
    let (mut out, mut at) = (label.to_owned(), indent);
    for word in text.split(' ') {
        let len = word.chars().count();
        if at > indent && at + 1 + len > width {
            out.push('\n');
            out.extend(std::iter::repeat_n(' ', indent));
            at = indent;
        } else if at > indent {
            out.push(' ');
            at += 1;
        }
        out.push_str(word);
        at += len;
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_clipped_only_where_a_table_would_be_too_wide() {
        let columns = || {
            [clipped("name", |name: &String| name.clone()), number("count", |_: &String| "12345".to_owned())]
        };
        let names = ["a-rather-long-name".to_owned(), "short".to_owned()];
        assert_eq!(
            table_of(&columns(), &names, Some(25)),
            "name                count\na-rather-long-name  12345\nshort               12345"
        );
        assert_eq!(
            table_of(&columns(), &names, Some(20)),
            "name           count\na-rath…g-name  12345\nshort          12345"
        );
    }

    #[test]
    fn text_is_folded_between_words_and_indented_by_its_label() {
        assert_eq!(folded("at: ", "one two three", 11), "at: one two\n    three");
        assert_eq!(folded("", "a-word-that-is-too-long for it", 10), "a-word-that-is-too-long\nfor it");
    }
}
