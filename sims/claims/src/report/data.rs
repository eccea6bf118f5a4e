//! Rows of data files that pages quote, found by the values of their columns.

use anyhow::Context as _;
use grpo_lambda_stats::table::Table;
use serde::Deserialize;
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

/// The columns of a comparison of two methods that pages quote.
#[derive(Deserialize)]
struct Compared {
    /// `gate`, `family` (which Holm corrects) or `reported`; none in a file that holds the family alone.
    role: Option<String>,
    method: String,
    with: String,
    difference: f64,
    difference_low: f64,
    difference_high: f64,
    /// `higher`, `lower`, `equivalent` or `inconclusive`; outside the family nothing.
    verdict: String,
}

impl Difference {
    /// A comparison of the family of a file; refused if its verdict is not the one that pages say in words.
    pub(super) fn of_family(
        folder: &Path,
        file: &str,
        method: &str,
        with: &str,
        verdict: &str,
    ) -> anyhow::Result<Difference> {
        let found = Data::<Compared>::read(folder, file)?;
        let rows = rows!(found, method = method, with = with)?;
        let row = rows.into_iter().find(|row| row.role.as_deref().is_none_or(|role| role == "family"));
        let row = row.with_context(|| {
            format!("{file}: {method} against {with} is not of the family, and a page quotes it")
        })?;
        anyhow::ensure!(
            row.verdict == verdict,
            "{file}: {method} against {with} is {}, and the pages say {verdict}; mend their words",
            row.verdict
        );
        Ok(Difference { mid: row.difference, low: row.difference_low, high: row.difference_high })
    }

    /// A comparison of the gate of a file; refused if its interval does not lie above 0.
    pub(super) fn of_gate(folder: &Path, file: &str, method: &str, with: &str) -> anyhow::Result<Difference> {
        let found = Data::<Compared>::read(folder, file)?;
        let row = rows!(found, role = Some("gate".to_owned()), method = method, with = with)?[0];
        anyhow::ensure!(
            row.difference_low > 0.0,
            "{file}: the gate is not passed, against the pages that interpret comparisons"
        );
        Ok(Difference { mid: row.difference, low: row.difference_low, high: row.difference_high })
    }

    /// The difference of a method from GRPO on the pretrained model; see [`Difference::of_family`].
    pub(super) fn pretrained(folder: &Path, method: &str, verdict: &str) -> anyhow::Result<Difference> {
        Difference::of_family(folder, "pretrained_compared.csv", method, "grpo", verdict)
    }

    /// [`Difference::pretrained`] from GRPO at the method's rate.
    pub(super) fn at_one_rate(folder: &Path, method: &str, verdict: &str) -> anyhow::Result<Difference> {
        Difference::of_family(folder, "pretrained_one_rate.csv", method, "grpo", verdict)
    }

    /// The number, then its interval.
    pub(super) fn with_ends(&self) -> String {
        format!("{:+.3} ({:+.3} to {:+.3})", self.mid, self.low, self.high)
    }
}

/// The columns of `learning.csv` that pages quote.
#[derive(Deserialize)]
pub(super) struct LearningRow {
    pub(super) regime: String,
    pub(super) method: String,
    pub(super) gain: f64,
    pub(super) gain_low_over_tasks: f64,
    pub(super) gain_high_over_tasks: f64,
    pub(super) p_over_tasks: f64,
}

/// The columns of `length_bonus_tasks.csv` that pages quote.
#[derive(Deserialize)]
pub(super) struct TaskRow {
    pub(super) reduction: String,
    pub(super) longer_is_better: Option<f64>,
    pub(super) arm: String,
    pub(super) cosine_with_gradient: f64,
}

/// The columns of `noise_rewards.csv` that pages quote.
#[derive(Deserialize)]
pub(super) struct NoiseRow {
    pub(super) optimiser: String,
    pub(super) lambda: f64,
    pub(super) part: String,
    pub(super) clamp: f64,
    pub(super) reduction: String,
    pub(super) seeds: usize,
    pub(super) change: f64,
}

/// The columns of `prefix_values.csv` that pages quote.
#[derive(Deserialize)]
pub(super) struct ValuesRow {
    pub(super) group: usize,
    pub(super) method: String,
    pub(super) tasks: usize,
    pub(super) variance_over_rloo: Option<f64>,
}

/// The columns of `addition.csv` that pages quote.
#[derive(Clone, Deserialize)]
pub(super) struct AdditionRow {
    pub(super) protocol: String,
    pub(super) arm: String,
    pub(super) seeds: usize,
    pub(super) mean: f64,
    pub(super) difference: Option<f64>,
    pub(super) difference_low: Option<f64>,
    pub(super) difference_high: Option<f64>,
}

/// The columns of `addition_variance.csv` that pages quote.
#[derive(Deserialize)]
pub(super) struct ShareRow {
    pub(super) method: String,
    pub(super) start: f64,
    pub(super) after_rl: f64,
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
