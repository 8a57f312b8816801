//! How tables look.

use comfy_table::Table;
use comfy_table::presets::UTF8_HORIZONTAL_ONLY;

/// An empty table with this header.
pub(crate) fn new_table(header: &[&str]) -> Table {
    let mut table = Table::new();
    table.load_preset(UTF8_HORIZONTAL_ONLY).set_header(header.to_vec());
    table
}
