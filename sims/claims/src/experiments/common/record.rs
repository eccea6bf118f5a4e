//! Rows of tables whose columns a run decides, and recorded tables, which this program only reads. Rows with known
//! columns are structs (`Table::from_rows`).

use super::at_least_exact;
use anyhow::Context as _;
use grpo_lambda_stats::Interval;
use grpo_lambda_stats::table::{Cell, Table};
use serde::de::DeserializeOwned;
use serde::{Serialize, Serializer};

/// A row under construction.
#[derive(Clone, Default)]
pub(crate) struct Record {
    columns: Vec<String>,
    cells: Vec<Cell>,
}

impl Record {
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

/// `yes` or `no` in a table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Yes(pub(crate) bool);

impl Serialize for Yes {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(yes(self.0))
    }
}

/// Serializes a rounding error as its bound; see [`at_least_exact`].
pub(crate) fn bounded<S: Serializer>(difference: &f64, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_f64(at_least_exact(*difference))
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

/// The rows of a file that was recorded, by the columns that `R` names.
pub(crate) fn recorded<R: DeserializeOwned>(text: &str) -> anyhow::Result<Vec<R>> {
    Table::from_csv(text).and_then(|table| table.to_rows()).context("the recorded runs")
}
