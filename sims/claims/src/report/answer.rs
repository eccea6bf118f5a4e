//! The answer in five lines with its figure, from the data.

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use grpo_lambda::advantage::ClampPart;
use grpo_lambda_stats::table::Table;
use grpo_lambda_tools::length_direction::{ARMS, POLICIES};
use serde::de::DeserializeOwned;

use super::markdown::wrapped;
use crate::experiments::clamp_gain::shown::WeightRow;
use crate::experiments::clamp_gain::weights::ARMS as CLAMP_ARMS;
use crate::experiments::clamp_parts::shown::GainRow;
use crate::experiments::common::vectors::mean;
use crate::experiments::learning::reading::PAPER;
use crate::experiments::learning::scores::Regime;
use crate::experiments::learning::tables::OverallRow;
use crate::experiments::length_bonus::shown::HorizonRow;
use crate::experiments::noise_rewards::shown::ArmRow;
use crate::experiments::prefix_values::shown::VarianceRow;
use crate::experiments::prefix_values::{METHODS, PREFIX};

/// The experiments whose data the answer quotes.
pub(super) const EXPERIMENTS: [&str; 6] =
    ["length_bonus", "learning", "prefix_values", "clamp_gain", "noise_rewards", "clamp_parts"];

/// The rows of a data file.
struct Data<R> {
    path: PathBuf,
    rows: Vec<R>,
}

impl<R: DeserializeOwned> Data<R> {
    fn read(folder: &Path, file: &str) -> anyhow::Result<Self> {
        let path = folder.join(file);
        let text = std::fs::read_to_string(&path).with_context(|| path.display().to_string())?;
        let rows = Table::from_csv(&text).and_then(|table| table.to_rows());
        Ok(Data { rows: rows.with_context(|| path.display().to_string())?, path })
    }

    /// The rows that fit, at least one.
    fn fitting(&self, wanted: &[String], fits: impl Fn(&R) -> bool) -> anyhow::Result<Vec<&R>> {
        let rows: Vec<&R> = self.rows.iter().filter(|row| fits(row)).collect();
        let (path, wanted) = (self.path.display(), wanted.join(", "));
        anyhow::ensure!(!rows.is_empty(), "{path}: no row has {wanted}, which the front page quotes");
        Ok(rows)
    }
}

/// The rows of a [`Data`] whose columns have these values; an error names the file and the columns if there is none.
macro_rules! rows {
    ($data:expr, $($column:ident = $value:expr),+) => {
        $data.fitting(&[$(format!("{} = {:?}", stringify!($column), $value)),+], |row| $(row.$column == $value)&&+)
    };
}

/// The answer as Markdown.
pub(super) fn answer(folder: &Path) -> anyhow::Result<String> {
    let items = [
        "On-policy the trace is a weight per token that falls from the first token to the last and grows with the length of the response.".to_owned(),
        lengthens(folder)?,
        gains(folder)?,
        curriculum(folder)?,
        prefix_values(folder)?,
    ];
    let mut text =
        wrapped("", "", "Does a trace without a critic assign credit better than GRPO? No:") + "\n";
    for (i, item) in items.iter().enumerate() {
        text += &wrapped(&format!("{}. ", i + 1), "   ", item);
    }
    text += "\n![Direction of the expected update against the horizon](figures/length_bonus.png)\n";
    Ok(text)
}

fn lengthens(folder: &Path) -> anyhow::Result<String> {
    let horizons = Data::<HorizonRow>::read(folder, "length_bonus_horizon.csv")?;
    let cosine = |arm: usize, policy: usize, at: usize| {
        let found = rows!(horizons, arm = ARMS[arm].name, policy = POLICIES[policy], horizon = at)?;
        anyhow::Ok(found[0].cosine_with_gradient)
    };
    let (clamp, trace, paper) = (1, 2, 3);
    let noise = Data::<ArmRow>::read(folder, "noise_rewards.csv")?;
    let coins = |part: ClampPart| {
        let found = rows!(noise, optimiser = "SGD", lambda = 0.99, clamp = -0.1, part = part.name())?;
        anyhow::Ok(found[0].change)
    };
    Ok(format!(
        "With the clamp it lengthens responses whatever the reward says. With the paper's settings the cosine of the expected update with ∇J is {:.2} at a horizon of 5 tokens, \
         {:.2} at 8, and {:.2} at 32 where responses are longer; the trace alone has {:.2} there, the clamp alone {:.2}. \
         Responses of a small transformer whose rewards are coins change by {:+.1} tokens with both, by {:+.1} with the trace alone.",
        cosine(paper, 0, 5)?,
        cosine(paper, 0, 8)?,
        cosine(paper, 1, 32)?,
        cosine(trace, 1, 32)?,
        cosine(clamp, 1, 32)?,
        coins(ClampPart::Both)?,
        coins(ClampPart::None)?,
    ))
}

fn gains(folder: &Path) -> anyhow::Result<String> {
    let learning = Data::<OverallRow>::read(folder, "learning.csv")?;
    let row = |regime: Regime| anyhow::Ok(rows!(learning, regime = regime.name(), method = PAPER[0])?[0]);
    let tuned = row(Regime::OwnBest)?;
    Ok(format!(
        "On nine small exact tasks and under plain SGD it gains {:+.3} of the area under J/J* at a sixteenth of GRPO's best rate and {:+.3} \
         (over tasks {:+.3} to {:+.3}) where each method has its own best rate.",
        row(Regime::Cautious)?.gain,
        tuned.gain,
        tuned.gain_low_over_tasks,
        tuned.gain_high_over_tasks
    ))
}

fn curriculum(folder: &Path) -> anyhow::Result<String> {
    let weights = Data::<WeightRow>::read(folder, "clamp_gain_weights.csv")?;
    let weight = |arm: usize| {
        anyhow::Ok(rows!(weights, arm = CLAMP_ARMS[arm].name, success_rate = 0.9)?[0].multiple_of_gradient)
    };
    let parts = Data::<GainRow>::read(folder, "clamp_parts_overall.csv")?;
    let addition = |optimiser: &str, part: ClampPart| {
        anyhow::Ok(rows!(parts, optimiser = optimiser, gain_of = part.name())?[0].gain)
    };
    Ok(format!(
        "The clamp is a curriculum: a prompt solved nine times in ten keeps {:.0} % of its weight. It changes the share of additions that a small transformer solves, averaged over \
         learning rates, by {:+.3} under SGD and {:+.3} under AdamW; these weights alone by {:+.3} and {:+.3}.",
        100.0 * (weight(3)? / weight(0)?),
        addition("SGD", ClampPart::Both)?,
        addition("AdamW", ClampPart::Both)?,
        addition("SGD", ClampPart::Reweighting)?,
        addition("AdamW", ClampPart::Reweighting)?
    ))
}

fn prefix_values(folder: &Path) -> anyhow::Result<String> {
    let values = Data::<VarianceRow>::read(folder, "prefix_values.csv")?;
    let saved = |group: usize| {
        let found = rows!(values, method = METHODS[PREFIX].0, group = group)?;
        let ratios: Vec<f64> = found.iter().filter_map(|row| row.variance_over_rloo).collect();
        anyhow::Ok(100.0 * (1.0 - mean(&ratios)))
    };
    Ok(format!(
        "Values of prefixes from the other responses of the group take {:.0} % of RLOO's variance away in groups of 8 and {:.0} % in groups of 32, without a bias.",
        saved(8)?,
        saved(32)?
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

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
