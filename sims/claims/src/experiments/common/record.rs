//! Rows of tables in which every value stands beside its column.

use grpo_lambda_stats::Interval;
use grpo_lambda_stats::table::{Cell, Table};

/// A row under construction.
#[derive(Default)]
pub(crate) struct Record {
    columns: Vec<String>,
    cells: Vec<Cell>,
}

impl Record {
    /// Adds a column.
    pub(crate) fn with(mut self, column: impl Into<String>, value: impl Into<Cell>) -> Self {
        self.columns.push(column.into());
        self.cells.push(value.into());
        self
    }

    /// Adds the columns of an interval: `column`, `column_low`, `column_high`.
    pub(crate) fn interval(self, column: &str, interval: impl Into<Option<Interval>>) -> Self {
        let interval = interval.into();
        self.with(column, interval.map(|i| i.mid)).bounds(column, interval)
    }

    /// Adds the columns `column_low`, `column_high`.
    pub(crate) fn bounds(self, column: &str, interval: impl Into<Option<Interval>>) -> Self {
        let interval = interval.into();
        self.with(format!("{column}_low"), interval.map(|i| i.low))
            .with(format!("{column}_high"), interval.map(|i| i.high))
    }
}

/// The table of some records, which have the same columns.
///
/// # Panics
/// If two records differ in their columns.
pub(crate) fn table(records: impl IntoIterator<Item = Record>) -> Table {
    let mut table = Table::default();
    for Record { columns, cells } in records {
        if table.rows.is_empty() {
            table.columns = columns;
        } else {
            assert_eq!(columns, table.columns, "a table of unlike records");
        }
        table.push(cells);
    }
    table
}

/// `yes` or `no`.
pub(crate) fn yes(condition: bool) -> &'static str {
    if condition { "yes" } else { "no" }
}
