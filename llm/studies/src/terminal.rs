//! Tables for a terminal.

use comfy_table::{Row, Table, presets};

/// An empty table with these heads, in the one style of all commands.
pub fn table(heads: impl Into<Row>) -> Table {
    let mut table = Table::new();
    table.load_preset(presets::UTF8_FULL_CONDENSED).set_header(heads);
    table
}
