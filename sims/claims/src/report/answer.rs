//! The answer in five lines with its figure, from the data.

use std::path::Path;

use anyhow::Context as _;
use grpo_lambda_stats::table::{Cell, Table};

use super::markdown::wrapped;

/// A table of the data folder; none where it is not there.
fn table(data: &Path, name: &str) -> anyhow::Result<Option<Table>> {
    let path = data.join(name);
    let Ok(text) = std::fs::read_to_string(&path) else { return Ok(None) };
    Ok(Some(Table::from_csv(&text).with_context(|| path.display().to_string())?))
}

/// The number in `column` of the first row whose other columns are as said.
fn number(table: &Table, wanted: &[(&str, &str)], column: &str) -> Option<f64> {
    let place = |name: &str| table.columns.iter().position(|c| c == name);
    let keys: Vec<(usize, &str)> =
        wanted.iter().map(|(name, value)| Some((place(name)?, *value))).collect::<Option<_>>()?;
    let row = table.rows.iter().find(|row| keys.iter().all(|(at, value)| row[*at].format(12) == *value))?;
    match &row[place(column)?] {
        Cell::Number(x) => Some(*x),
        other => other.format(12).parse().ok(),
    }
}

/// The answer as Markdown; none where the experiments that it rests on are not in the folder.
///
/// # Errors
/// When a table cannot be read as one.
pub(super) fn answer(data: &Path) -> anyhow::Result<Option<String>> {
    let tables = [
        "length_bonus_horizon.csv",
        "learning.csv",
        "prefix_values.csv",
        "clamp_gain_weights.csv",
        "noise_rewards.csv",
        "clamp_parts_overall.csv",
    ];
    let mut read = Vec::new();
    for name in tables {
        match table(data, name)? {
            Some(table) => read.push(table),
            None => return Ok(None),
        }
    }
    Ok(lines(&read))
}

fn lines(read: &[Table]) -> Option<String> {
    let [horizon, learning, prefix, clamp, noise, parts] = read else { return None };
    let cosine = |arm: &str, policy: &str, at: &str| {
        number(horizon, &[("arm", arm), ("policy", policy), ("horizon", at)], "cosine_with_gradient")
    };
    let paper = "GRPO-λ (trace and clamp)";
    let (five, eight) = (cosine(paper, "as in the zoo", "5")?, cosine(paper, "as in the zoo", "8")?);
    let long = cosine(paper, "EOS a tenth as likely", "32")?;
    let (trace, clamped) = (
        cosine("trace only", "EOS a tenth as likely", "32")?,
        cosine("clamp only", "EOS a tenth as likely", "32")?,
    );
    let gain = |regime: &str, column: &str| {
        number(learning, &[("regime", regime), ("method", "recent trace .99")], column)
    };
    let (small, tuned) = (gain("equal_rate_16th", "gain")?, gain("own_best_rate", "gain")?);
    let [low, high] = ["gain_low_over_tasks", "gain_high_over_tasks"].map(|c| gain("own_best_rate", c));
    let ratios =
        |group: &str| mean_of(prefix, &[("method", "Prefix RLOO"), ("group", group)], "variance_over_rloo");
    let weight = |arm: &str| number(clamp, &[("arm", arm), ("success_rate", "0.9")], "multiple_of_gradient");
    let share = weight("both (the clamp)")? / weight("none (GRPO)")?;
    let coins = |part: &str| {
        let arm = [("optimiser", "SGD"), ("lambda", "0.99"), ("clamp", "-0.1"), ("part", part)];
        number(noise, &arm, "change")
    };
    let (together, traced) = (coins("both (the clamp)")?, coins("none")?);
    let addition = |optimiser: &str, gain_of: &str| {
        number(parts, &[("optimiser", optimiser), ("gain_of", gain_of)], "gain")
    };
    let [(sgd, sgd_weights), (adam, adam_weights)] =
        ["SGD", "AdamW"].map(|o| (addition(o, "both (the clamp)"), addition(o, "re-weighting only")));
    let items = [
        "On-policy the trace is a weight per token that falls from the first token to the last and grows with the length of the response.".to_owned(),
        format!(
            "With the clamp it lengthens responses whatever the reward says. With the paper's settings the cosine of the expected update with ∇J is {five:.2} at a horizon of 5 tokens, \
             {eight:.2} at 8, and {long:.2} at 32 where responses are longer; the trace alone has {trace:.2} there, the clamp alone {clamped:.2}. \
             Responses of a small transformer whose rewards are coins change by {together:+.1} tokens with both, by {traced:+.1} with the trace alone."
        ),
        format!(
            "On nine small exact tasks and under plain SGD it gains {small:+.3} of the area under J/J* at a sixteenth of GRPO's best rate and {tuned:+.3} \
             (over tasks {:+.3} to {:+.3}) where each method has its own best rate.",
            low?, high?
        ),
        format!(
            "The clamp is a curriculum: a prompt solved nine times in ten keeps {:.0} % of its weight. It changes the share of additions that a small transformer solves, averaged over \
             learning rates, by {:+.3} under SGD and {:+.3} under AdamW; these weights alone by {:+.3} and {:+.3}.",
            100.0 * share,
            sgd?,
            adam?,
            sgd_weights?,
            adam_weights?
        ),
        format!(
            "Values of prefixes from the other responses of the group take {:.0} % of RLOO's variance away in groups of 8 and {:.0} % in groups of 32, without a bias.",
            100.0 * (1.0 - ratios("8")?),
            100.0 * (1.0 - ratios("32")?)
        ),
    ];
    let mut text =
        wrapped("", "", "Does a trace without a critic assign credit better than GRPO? No:") + "\n";
    for (i, item) in items.iter().enumerate() {
        text += &wrapped(&format!("{}. ", i + 1), "   ", item);
    }
    text += "\n![Direction of the expected update against the horizon](figures/length_bonus.png)\n";
    Some(text)
}

/// The mean of a column over the rows whose other columns are as said.
fn mean_of(table: &Table, wanted: &[(&str, &str)], column: &str) -> Option<f64> {
    let place = |name: &str| table.columns.iter().position(|c| c == name);
    let keys: Vec<(usize, &str)> =
        wanted.iter().map(|(name, value)| Some((place(name)?, *value))).collect::<Option<_>>()?;
    let at = place(column)?;
    let rows = table.rows.iter().filter(|row| keys.iter().all(|(k, value)| row[*k].format(12) == *value));
    let values: Vec<f64> = rows.filter_map(|row| row[at].format(12).parse().ok()).collect();
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}
