//! Runs of the language model that were recorded: this program reads their file and trains nothing.

use anyhow::Context as _;
use grpo_lambda_stats::table::{Cell, Table};

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
