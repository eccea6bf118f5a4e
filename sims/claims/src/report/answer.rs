//! The answer of the report in five points with their figure, from the data.

use super::chain;
use super::data::{Data, percent, quoted, rows};
use super::markdown::wrapped;
use crate::experiments::addition::shown::{ArmRow as AdditionRow, ShareRow};
use crate::experiments::chain::{CLAMP, GRPO};
use crate::experiments::clamp_gain::measure::{ARMS as CLAMP_ARMS, CLAMPED, REWEIGHTING};
use crate::experiments::clamp_gain::shown::WeightRow;
use crate::experiments::clamp_parts::shown::GainRow;
use crate::experiments::common::mean;
use crate::experiments::learning::reading::PAPER;
use crate::experiments::learning::scores::Regime;
use crate::experiments::learning::tables::OverallRow;
use crate::experiments::length_bonus::shown::{HorizonRow, TaskRow};
use crate::experiments::length_bonus::spread::{ARMS as OF_TASKS, PAPER as PAPER_ON_TASKS, REDUCTIONS};
use crate::experiments::noise_rewards::shown::ArmRow;
use crate::experiments::prefix_values::shown::VarianceRow;
use crate::experiments::prefix_values::{METHODS, OPTIMAL, PREFIX};
use grpo_lambda::advantage::ClampPart;
use grpo_lambda_stats::table::significant;
use grpo_lambda_tools::length_direction::{ARMS, POLICIES};
use std::path::Path;

/// The experiments whose data the answer quotes.
pub(super) const EXPERIMENTS: [&str; 8] = [
    "length_bonus",
    "learning",
    "prefix_values",
    "clamp_gain",
    "noise_rewards",
    "clamp_parts",
    "addition",
    "chain",
];

/// The place of GRPO with the clamp among the arms of the tasks.
const CLAMP_ON_TASKS: usize = 1;

/// The answer as Markdown.
pub(super) fn answer(folder: &Path) -> anyhow::Result<String> {
    let items = [
        format!(
            "**The trace knows position and length, nothing else.** On-policy it is a weight per token that falls from the first token to the last and grows with the length of the response. Scope: a theorem, for every task, policy and reduction. {} Scope: a transformer of two layers, one task ([Credit on chains](#credit-on-chains)).",
            chain::in_short(folder)?
        ),
        direction(folder)?,
        gains(folder)?,
        curriculum(folder)?,
        prefix_values(folder)?,
    ];
    let mut text = wrapped(
        "",
        "",
        "Does a trace without a critic assign credit better than GRPO? Nothing here shows that it does. Five points, each with its scope:",
    ) + "\n";
    for (i, item) in items.iter().enumerate() {
        text += &wrapped(&format!("{}. ", i + 1), "   ", item);
    }
    text += "\n![Direction of the expected update over tasks](figures/length_bonus_tasks.png)\n";
    Ok(text)
}

/// Cosines of an arm's expected update with the gradient over the tasks, each with the cosine of ∇E[T] with it.
pub(super) fn cosines(folder: &Path, arm: usize, reduction: &str) -> anyhow::Result<Vec<(f64, Option<f64>)>> {
    let tasks = Data::<TaskRow>::read(folder, "length_bonus_tasks.csv")?;
    let rows = rows!(tasks, arm = OF_TASKS[arm].0, reduction = reduction)?;
    Ok(rows.iter().map(|row| (row.cosine_with_gradient, row.longer_is_better)).collect())
}

/// The share of tasks on which the expected update lowers J.
fn reversed(rows: &[(f64, Option<f64>)]) -> String {
    percent(rows.iter().filter(|row| row.0 < 0.0).count() as f64 / rows.len() as f64)
}

/// The change of length under random rewards, with the number of seeds.
pub(super) fn random_rewards(folder: &Path, part: ClampPart) -> anyhow::Result<(f64, usize)> {
    let noise = Data::<ArmRow>::read(folder, "noise_rewards.csv")?;
    let found = rows!(
        noise,
        optimiser = "SGD",
        reduction = "token mean",
        lambda = 0.99,
        clamp = -0.1,
        part = part.name()
    )?;
    Ok((found[0].change, found[0].seeds))
}

fn direction(folder: &Path) -> anyhow::Result<String> {
    let [token_mean, per_response] =
        REDUCTIONS.map(|(_, reduction)| cosines(folder, PAPER_ON_TASKS, reduction));
    let (token_mean, per_response) = (token_mean?, per_response?);
    let where_better = |sign: f64| {
        let fits = |row: &&(f64, Option<f64>)| row.1.is_some_and(|c| c * sign > 0.0);
        token_mean.iter().filter(fits).copied().collect::<Vec<_>>()
    };
    let horizons = Data::<HorizonRow>::read(folder, "length_bonus_horizon.csv")?;
    let cosine = |arm: usize, policy: usize, at: usize| {
        let found = rows!(horizons, arm = ARMS[arm].name, policy = POLICIES[policy], horizon = at)?;
        anyhow::Ok(found[0].cosine_with_gradient)
    };
    let (trace, paper) = (2, 3);
    let (both, seeds) = random_rewards(folder, ClampPart::Both)?;
    Ok(format!(
        "**Trace and clamp together favour long responses, also where shorter ones are better.** Their expected update lowers J on {} of {} exact tasks (named small ones and random trees, G = 8) under a token mean \
         and on {} under 1/T per response, which the paper leaves open; under the token mean on {} of those where shorter responses are better and on {} of those where longer ones are. The clamp alone lowers it on {}, the trace \
         alone on {}. The worst case, a task made for it, has cosine {:.2} with ∇J. Under random rewards a small transformer changes the length of its responses by {both:+.1} tokens with both, by {:+.1} with the trace alone. Scope: start \
         policies; one transformer, {seeds} seeds, plain gradient descent.",
        reversed(&token_mean),
        token_mean.len(),
        reversed(&per_response),
        reversed(&where_better(-1.0)),
        reversed(&where_better(1.0)),
        reversed(&cosines(folder, CLAMP_ON_TASKS, REDUCTIONS[0].1)?),
        reversed(&cosines(folder, trace, REDUCTIONS[0].1)?),
        cosine(paper, 1, 32)?,
        random_rewards(folder, ClampPart::None)?.0,
    ))
}

/// The words for a gain over tasks: shown where Student's t and sign flips agree.
fn shown(row: &OverallRow) -> &'static str {
    match (row.gain_low_over_tasks > 0.0, row.gain_high_over_tasks < 0.0, row.p_over_tasks <= 0.05) {
        (true, _, true) => "a gain is shown",
        (_, true, true) => "a loss is shown",
        _ => "no difference is shown",
    }
}

fn gains(folder: &Path) -> anyhow::Result<String> {
    let learning = Data::<OverallRow>::read(folder, "learning.csv")?;
    let row = |regime: Regime, reading: usize| {
        anyhow::Ok(rows!(learning, regime = regime.name(), method = PAPER[reading])?[0])
    };
    let said = |row: &OverallRow| {
        format!(
            "{} ({:+.3}, 95 % {:+.3} to {:+.3}, sign flips p = {})",
            shown(row),
            row.gain,
            row.gain_low_over_tasks,
            row.gain_high_over_tasks,
            significant(row.p_over_tasks, 2)
        )
    };
    let [grpo, clamp, trace, both] = long_budget(folder)?;
    let of_trace = trace.interval()?;
    Ok(format!(
        "**No gain from the shape of the trace is shown.** Where each method has its own best rate {}; at a sixteenth of GRPO's best rate, where larger weights make \
         longer steps, {}, and with style `both` {}; with weights of mean 1, so that only their shape is left, {}. Scope: area under J/J*, nine small exact tasks as the \
         sample, plain SGD. On single-digit addition with a long budget GRPO-λ ends at {:.3} of the problems and GRPO at {:.3}; the clamp alone has that gain ({:.3}), the trace alone is not shown to have any ({:.3}, {:+.3} [{:+.3}, {:+.3}]). \
         Scope: one small transformer, {} paired seeds, each method at its own rate.",
        said(row(Regime::OwnBest, 0)?),
        said(row(Regime::Cautious, 0)?),
        said(row(Regime::Cautious, 1)?),
        said(row(Regime::UnitMean, 0)?),
        both.mean,
        grpo.mean,
        clamp.mean,
        trace.mean,
        of_trace[0],
        of_trace[1],
        of_trace[2],
        grpo.seeds,
    ))
}

fn curriculum(folder: &Path) -> anyhow::Result<String> {
    let weights = Data::<WeightRow>::read(folder, "clamp_gain_weights.csv")?;
    let share = |arm: usize| {
        let at = |arm: usize| {
            anyhow::Ok(
                rows!(weights, arm = CLAMP_ARMS[arm].name, success_rate = 0.9)?[0].multiple_of_gradient,
            )
        };
        anyhow::Ok(percent(at(arm)? / at(0)?))
    };
    let addition = |part: ClampPart| {
        let gain = |optimiser: &str| {
            let row = addition(folder, part, optimiser)?;
            anyhow::Ok(format!(
                "{:+.3} [{:+.3}, {:+.3}] under {optimiser} (p = {})",
                row.gain,
                row.gain_low,
                row.gain_high,
                significant(row.p_holm, 2)
            ))
        };
        anyhow::Ok(format!("{} and {}", gain("SGD")?, gain("AdamW")?))
    };
    let on_chains = chain::ratio(folder, CLAMP, GRPO)?;
    Ok(format!(
        "**The clamp is partly a re-weighting towards prompts that are rarely solved.** In expectation a prompt solved nine times in ten keeps {} of its weight. On single-digit addition the clamp changes the share of solved training problems \
         by {}. Its contrast within a group alone, which keeps {}, does by {}; its offset alone by {}. Scope: one small transformer, twelve paired seeds, each rate chosen on the other seeds, corrected p, a comparison fixed after the runs. On the chains of point 1, all of one length, GRPO with the clamp needs {on_chains} of GRPO's tokens, so that its gain there is no curriculum over prompts of different length; from which of its parts it comes was not measured.",
        share(CLAMPED)?,
        addition(ClampPart::Both)?,
        share(REWEIGHTING)?,
        addition(ClampPart::Reweighting)?,
        addition(ClampPart::Offset)?,
    ))
}

/// GRPO, with the clamp, with the trace, and with both, at the end of a long budget on addition.
pub(super) fn long_budget(folder: &Path) -> anyhow::Result<[AdditionRow; 4]> {
    let at_end = |arm: &str| trial(folder, "long budget", arm);
    let [grpo, clamp, trace, both] = [
        at_end("grpo")?,
        at_end("grpo clamp=-0.1")?,
        at_end("grpo_lambda clamp=none")?,
        at_end("grpo_lambda")?,
    ];
    anyhow::ensure!(
        trace.interval()?[1] <= 0.0,
        "addition.csv: the trace alone gains on addition, against the pages that quote it"
    );
    Ok([grpo, clamp, trace, both])
}

/// An arm of a protocol on addition.
fn trial(folder: &Path, protocol: &str, arm: &str) -> anyhow::Result<AdditionRow> {
    let trials = Data::<AdditionRow>::read(folder, "addition.csv")?;
    Ok(rows!(trials, protocol = protocol, arm = arm)?[0].clone())
}

impl AdditionRow {
    /// The difference from the first arm of its protocol, with its interval.
    fn interval(&self) -> anyhow::Result<[f64; 3]> {
        quoted("addition.csv", [self.difference, self.difference_low, self.difference_high])
    }
}

/// The gain of a part of the clamp on single-digit addition.
fn addition(folder: &Path, part: ClampPart, optimiser: &str) -> anyhow::Result<GainRow> {
    let parts = Data::<GainRow>::read(folder, "clamp_parts_overall.csv")?;
    Ok(rows!(parts, optimiser = optimiser, gain_of = part.name())?[0].clone())
}

fn prefix_values(folder: &Path) -> anyhow::Result<String> {
    let values = Data::<VarianceRow>::read(folder, "prefix_values.csv")?;
    let ratios = |method: usize, group: usize| {
        let found = rows!(values, method = METHODS[method].0, group = group, common = "yes")?;
        anyhow::Ok(found.iter().filter_map(|row| row.variance_over_rloo).collect::<Vec<f64>>())
    };
    let saved = |method: usize, group: usize| anyhow::Ok(percent(1.0 - mean(&ratios(method, group)?)));
    let sets = "systematic_rloo";
    let shares = Data::<ShareRow>::read(folder, "addition_variance.csv")?;
    let share = rows!(shares, method = sets)?[0];
    let learnt = trial(folder, "systematic groups", sets)?.interval()?;
    Ok(format!(
        "**Values of prefixes from the other responses lower the variance without a bias.** They take {} of RLOO's variance away in groups of 8 and {} in groups of 32; the best baseline of prefixes there is would take {} and {}. That this \
         makes learning faster is not shown anywhere. Two systematic sets of eight keep {:.2} of RLOO's variance on addition at the start and {:.2} after RL, at no further token, and change the mean reward of a token in training by {:+.3} \
         [{:+.3}, {:+.3}]. Scope: the same {} exact tasks at every size; one small transformer, each method at the rate that other seeds choose.",
        saved(PREFIX, 8)?,
        saved(PREFIX, 32)?,
        saved(OPTIMAL, 8)?,
        saved(OPTIMAL, 32)?,
        share.start,
        share.after_rl,
        learnt[0],
        learnt[1],
        learnt[2],
        ratios(PREFIX, 8)?.len(),
    ))
}
