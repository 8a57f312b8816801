//! How tables look.

use comfy_table::presets::{NOTHING, UTF8_HORIZONTAL_ONLY};
use comfy_table::{CellAlignment, ColumnConstraint, ContentArrangement, Table};

/// Spaces between two columns.
const GAP: u16 = 2;

/// An empty table with this header.
pub(crate) fn new_table(header: &[&str]) -> Table {
    let mut table = Table::new();
    table.load_preset(UTF8_HORIZONTAL_ONLY).set_header(header.to_vec());
    table
}

/// A column: its header, and what it says of a row.
pub(crate) struct Column<'a, R> {
    header: String,
    kind: Kind,
    cell: Box<dyn Fn(&R) -> String + 'a>,
}

/// How a column stands.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Words,
    Word,
    Number,
}

impl<R> Column<'_, R> {
    /// Its header.
    pub(crate) fn header(&self) -> &str {
        &self.header
    }

    /// What it says of a row.
    pub(crate) fn cell(&self, row: &R) -> String {
        (self.cell)(row)
    }
}

/// A column of words, which is wrapped where the table would be too wide.
pub(crate) fn words<'a, R>(header: impl Into<String>, cell: impl Fn(&R) -> String + 'a) -> Column<'a, R> {
    Column { header: header.into(), kind: Kind::Words, cell: Box::new(cell) }
}

/// A column of short words.
pub(crate) fn word<'a, R>(header: impl Into<String>, cell: impl Fn(&R) -> String + 'a) -> Column<'a, R> {
    Column { header: header.into(), kind: Kind::Word, cell: Box::new(cell) }
}

/// A column of numbers, which stand at its right edge.
pub(crate) fn number<'a, R>(header: impl Into<String>, cell: impl Fn(&R) -> String + 'a) -> Column<'a, R> {
    Column { header: header.into(), kind: Kind::Number, cell: Box::new(cell) }
}

/// A table of rows, without lines. With a width its words are wrapped to stay within so many
/// characters.
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
