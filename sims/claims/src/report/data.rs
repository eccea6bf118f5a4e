//! Rows of data files that pages quote, found by the values of their columns.

use anyhow::Context as _;
use grpo_lambda_stats::table::Table;
use serde::de::DeserializeOwned;
use std::path::{Path, PathBuf};

/// The rows of a data file.
pub(super) struct Data<R> {
    path: PathBuf,
    pub(super) rows: Vec<R>,
}

impl<R: DeserializeOwned> Data<R> {
    pub(super) fn read(folder: &Path, file: &str) -> anyhow::Result<Self> {
        let path = folder.join(file);
        let text = std::fs::read_to_string(&path).with_context(|| path.display().to_string())?;
        let rows = Table::from_csv(&text).and_then(|table| table.to_rows());
        Ok(Data { rows: rows.with_context(|| path.display().to_string())?, path })
    }

    /// The rows that fit, at least one.
    pub(super) fn fitting(&self, wanted: &[String], fits: impl Fn(&R) -> bool) -> anyhow::Result<Vec<&R>> {
        let rows: Vec<&R> = self.rows.iter().filter(|row| fits(row)).collect();
        let (path, wanted) = (self.path.display(), wanted.join(", "));
        anyhow::ensure!(!rows.is_empty(), "{path}: no row has {wanted}, which a page quotes");
        Ok(rows)
    }
}

/// The rows of a [`Data`] whose columns have these values; an error names the file and the columns if there is none.
macro_rules! rows {
    ($data:expr, $($column:ident = $value:expr),+) => {
        $data.fitting(&[$(format!("{} = {:?}", stringify!($column), $value)),+], |row| $(row.$column == $value)&&+)
    };
}

pub(super) use rows;

/// A number with the ends of its interval, all of which are in the file.
pub(super) fn quoted(file: &str, numbers: [Option<f64>; 3]) -> anyhow::Result<[f64; 3]> {
    let [Some(mid), Some(low), Some(high)] = numbers else {
        anyhow::bail!("{file}: a number that a page quotes, or an end of its interval, is missing");
    };
    Ok([mid, low, high])
}

/// A difference with its interval.
pub(super) struct Difference {
    pub(super) mid: f64,
    pub(super) low: f64,
    pub(super) high: f64,
}

impl Difference {
    /// The number, then its interval.
    pub(super) fn with_ends(&self) -> String {
        format!("{:+.3} ({:+.3} to {:+.3})", self.mid, self.low, self.high)
    }
}

/// A share in percent: one decimal below 10, in words at 0.
pub(super) fn percent(share: f64) -> String {
    match 100.0 * share {
        0.0 => "none".into(),
        below if below < 10.0 => format!("{below:.1} %"),
        percent => format!("{percent:.0} %"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiments::clamp_gain::shown::WeightRow;

    #[test]
    fn a_renamed_row_or_column_is_an_error_that_names_it() {
        let folder = tempfile::tempdir().unwrap();
        let read = |text: &str| {
            std::fs::write(folder.path().join("w.csv"), text).unwrap();
            let data = Data::<WeightRow>::read(folder.path(), "w.csv")?;
            rows!(data, arm = "offset only", success_rate = 0.9).map(|rows| rows.len())
        };
        let text = "# x\nsuccess_rate,arm,multiple_of_gradient\n0.9,offset only,2\n";
        assert_eq!(read(text).unwrap(), 1);
        let row = format!("{:#}", read(&text.replace("offset", "shift")).unwrap_err());
        assert!(row.contains("w.csv: no row has arm = \"offset only\", success_rate = 0.9"), "{row}");
        let column = format!("{:#}", read(&text.replace("_of_gradient", "")).unwrap_err());
        assert!(
            column.contains("w.csv") && column.contains("missing field `multiple_of_gradient`"),
            "{column}"
        );
    }
}
