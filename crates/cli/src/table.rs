//! Layout of tables.

use comfy_table::presets::{NOTHING, UTF8_HORIZONTAL_ONLY};
use comfy_table::{CellAlignment, ColumnConstraint, ContentArrangement, Table};

/// Spaces between columns.
const GAP: u16 = 2;

/// An empty table with this header.
pub(crate) fn new_table(header: &[&str]) -> Table {
    let mut table = Table::new();
    table.load_preset(UTF8_HORIZONTAL_ONLY).set_header(header.to_vec());
    table
}

/// A column: its header, and the text for a row.
pub(crate) struct Column<'a, R> {
    header: String,
    kind: Kind,
    cell: Box<dyn Fn(&R) -> String + 'a>,
}

/// Alignment and wrapping of a column.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Words,
    Word,
    Number,
}

impl<R> Column<'_, R> {
    /// The header.
    pub(crate) fn header(&self) -> &str {
        &self.header
    }

    /// The text for a row.
    pub(crate) fn cell(&self, row: &R) -> String {
        (self.cell)(row)
    }
}

/// A column of text, which is wrapped if the table would be too wide.
pub(crate) fn words<'a, R>(header: impl Into<String>, cell: impl Fn(&R) -> String + 'a) -> Column<'a, R> {
    Column { header: header.into(), kind: Kind::Words, cell: Box::new(cell) }
}

/// A column of short words, which are not wrapped.
pub(crate) fn word<'a, R>(header: impl Into<String>, cell: impl Fn(&R) -> String + 'a) -> Column<'a, R> {
    Column { header: header.into(), kind: Kind::Word, cell: Box::new(cell) }
}

/// A column of numbers, aligned to the right.
pub(crate) fn number<'a, R>(header: impl Into<String>, cell: impl Fn(&R) -> String + 'a) -> Column<'a, R> {
    Column { header: header.into(), kind: Kind::Number, cell: Box::new(cell) }
}

/// Renders a table without lines. With a `width` in characters, text columns are wrapped to fit.
pub(crate) fn table_of<R>(columns: &[Column<'_, R>], rows: &[R], width: Option<u16>) -> String {
    let mut table = Table::new();
    table.load_preset(NOTHING).set_header(columns.iter().map(|column| &column.header));
    if let Some(width) = width {
        // The gap behind the last column is trimmed.
        table.set_content_arrangement(ContentArrangement::Dynamic).set_width(width + GAP);
    }
    for row in rows {
        table.add_row(columns.iter().map(|column| (column.cell)(row)));
    }
    for (made, column) in table.column_iter_mut().zip(columns) {
        made.set_padding((0, GAP));
        if column.kind != Kind::Words {
            made.set_constraint(ColumnConstraint::ContentWidth);
        }
        if column.kind == Kind::Number {
            made.set_cell_alignment(CellAlignment::Right);
        }
    }
    table.trim_fmt()
}
