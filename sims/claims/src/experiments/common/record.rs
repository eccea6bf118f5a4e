//! Rows of tables in which every value stands beside its column, and recorded tables of the language model, which this program only reads.

use anyhow::Context as _;
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

/// A recorded table, by column.
pub(crate) struct Recorded(Table);

impl Recorded {
    /// Reads the text of a file.
    pub(crate) fn new(text: &str) -> anyhow::Result<Recorded> {
        Ok(Recorded(Table::from_csv(text).context("the recorded runs")?))
    }

    pub(crate) fn rows(&self) -> impl Iterator<Item = RecordedRow<'_>> {
        self.0.rows.iter().map(|cells| RecordedRow { table: &self.0, cells })
    }
}

pub(crate) struct RecordedRow<'a> {
    table: &'a Table,
    cells: &'a [Cell],
}

impl RecordedRow<'_> {
    fn cell(&self, column: &str) -> anyhow::Result<&Cell> {
        let at = self.table.column(column).with_context(|| format!("no column {column}"))?;
        Ok(&self.cells[at])
    }

    /// The number in a column.
    pub(crate) fn number(&self, column: &str) -> anyhow::Result<f64> {
        self.cell(column)?.number().with_context(|| format!("column {column} holds no number"))
    }

    /// The number in a column, where there is one.
    pub(crate) fn optional(&self, column: &str) -> anyhow::Result<Option<f64>> {
        Ok(self.cell(column)?.number().filter(|x| x.is_finite()))
    }

    /// The text in a column.
    pub(crate) fn text(&self, column: &str) -> anyhow::Result<String> {
        Ok(self.cell(column)?.format(12))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_is_named() {
        let recorded = Recorded::new("# x\na,b\n1,two\n").unwrap();
        let row = recorded.rows().next().unwrap();
        assert_eq!((row.number("a").unwrap(), row.text("b").unwrap()), (1.0, "two".to_owned()));
        assert_eq!(row.number("b").unwrap_err().to_string(), "column b holds no number");
        assert_eq!(row.text("c").unwrap_err().to_string(), "no column c");
        assert_eq!(row.optional("b").unwrap(), None);
    }
}
