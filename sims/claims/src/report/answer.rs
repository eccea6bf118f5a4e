//! The answer of the report in five points with their figure, from the data.

use super::chain;
use super::data::{
    AdditionRow, Data, Difference, LearningRow, NoiseRow, ShareRow, TaskRow, ValuesRow, percent, quoted, rows,
};
use super::markdown::wrapped;
use crate::experiments::clamp_gain::measure::{ARMS as CLAMP_ARMS, CLAMPED, REWEIGHTING};
use crate::experiments::clamp_gain::shown::WeightRow;
use crate::experiments::clamp_parts::shown::GainRow;
use crate::experiments::learning::scores::Regime;
use crate::experiments::learning::variant::PAPER;
use crate::experiments::length_bonus::spread::{ARMS as OF_TASKS, PAPER as PAPER_ON_TASKS, REDUCTIONS};
use crate::experiments::prefix_values::{METHODS, OPTIMAL, PREFIX};
use anyhow::Context as _;
use grpo_lambda::advantage::ClampPart;
use std::path::Path;

/// The experiments whose data the answer quotes.
pub(super) const EXPERIMENTS: [&str; 9] = [
    "length_bonus",
    "learning",
    "prefix_values",
    "clamp_gain",
    "noise_rewards",
    "clamp_parts",
    "addition",
    "chain",
    "pretrained",
];

/// The places of GRPO with the clamp and of the trace without it among the arms of the tasks.
const CLAMP_ON_TASKS: usize = 1;
const TRACE_ON_TASKS: usize = 2;

/// The answer as Markdown.
pub(super) fn answer(folder: &Path) -> anyhow::Result<String> {
    let items = [
        format!(
            "**The trace depends on position and length alone.** On-policy the trace multiplies every token's \
             gradient by a weight. A theorem proves for every task, policy and reduction that the weight of a \
                 token under the trace falls from the first token to the last and grows with the length of the response. {} Scope: a transformer of two \
             layers, one task ([Credit on chains](#credit-on-chains)).",
            chain::in_short(folder)?
        ),
        direction(folder)?,
        gains(folder)?,
        curriculum(folder)?,
        prefix_values(folder)?,
    ];
    let first = "Nothing on this page shows that the trace of GRPO-λ assigns credit better than GRPO does. Five \
        points follow, each with its scope:";
    let mut text = wrapped("", "", first) + "\n";
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
    let noise = Data::<NoiseRow>::read(folder, "noise_rewards.csv")?;
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
    let under = |arm: usize, reduction: usize| cosines(folder, arm, REDUCTIONS[reduction].1);
    let token_mean = under(PAPER_ON_TASKS, 0)?;
    let where_better = |sign: f64| {
        let fits = |row: &&(f64, Option<f64>)| row.1.is_some_and(|c| c * sign > 0.0);
        token_mean.iter().filter(fits).copied().collect::<Vec<_>>()
    };
    let (both, seeds) = random_rewards(folder, ClampPart::Both)?;
    Ok(format!(
        "**Trace and clamp together favour long responses, even where shorter ones are better.** With trace and \
            clamp the expected update lowers J, the expected reward, on {} of {} exact tasks under a token mean \
            and on {} under 1/T per response. The paper does not say whether it uses a token mean or 1/T. Under \
                the token mean trace and clamp lower J on {} of the tasks that favour short responses, and on {} of those that \
            favour long ones. The clamp alone lowers J on {} of the tasks, and the trace alone on {}. Under \
            random rewards a small transformer changes its mean response length by {both:+.1} tokens with trace \
            and clamp, and by {:+.1} with the trace alone. Scope: policies at the start of learning; one \
            transformer, {seeds} seeds, plain SGD.",
        reversed(&token_mean),
        token_mean.len(),
        reversed(&under(PAPER_ON_TASKS, 1)?),
        reversed(&where_better(-1.0)),
        reversed(&where_better(1.0)),
        reversed(&under(CLAMP_ON_TASKS, 0)?),
        reversed(&under(TRACE_ON_TASKS, 0)?),
        random_rewards(folder, ClampPart::None)?.0,
    ))
}

/// The words for a gain over tasks: shown where Student's t and sign flips agree.
fn shown(row: &LearningRow) -> String {
    let shown =
        match (row.gain_low_over_tasks > 0.0, row.gain_high_over_tasks < 0.0, row.p_over_tasks <= 0.05) {
            (true, _, true) => "GRPO-λ is better",
            (_, true, true) => "GRPO-λ is worse",
            (_, _, _) => "no difference from GRPO is shown",
        };
    let (low, high) = (row.gain_low_over_tasks, row.gain_high_over_tasks);
    format!("{shown} ({:+.3}, 95 % {low:+.3} to {high:+.3})", row.gain)
}

fn gains(folder: &Path) -> anyhow::Result<String> {
    let learning = Data::<LearningRow>::read(folder, "learning.csv")?;
    let said =
        |regime: Regime| anyhow::Ok(shown(rows!(learning, regime = regime.name(), method = PAPER[0])?[0]));
    let [grpo, clamp, trace, both] = long_budget(folder)?;
    Ok(format!(
        "**The shape of the trace is not shown to help.** We compare GRPO-λ with GRPO by the area under the \
            learning curve J/J*, where J* is the best possible J. With tuned learning rates {}. At a sixteenth \
            of GRPO's best rate, where larger weights make longer steps, {}. With weights rescaled to mean 1, so \
            that only their shape matters, {}. Scope: nine small exact tasks as the sample, plain SGD. On \
            single-digit addition with a long budget GRPO-λ solves {:.3} of the problems, GRPO {:.3}, and GRPO \
            with the clamp {:.3}. The trace without the clamp solves {:.3}, which is not shown to be better than \
            GRPO. Scope: one small transformer, {} paired seeds, each method at its tuned rate. On a pretrained model \
            of 135 million weights, the accuracy of GRPO-λ differs from that of GRPO by {}. With the trace alone, at one \
            learning rate, it differs by {} ([A pretrained model](#a-pretrained-model)).",
        said(Regime::OwnBest)?,
        said(Regime::Cautious)?,
        said(Regime::UnitMean)?,
        both.mean,
        grpo.mean,
        clamp.mean,
        trace.mean,
        grpo.seeds,
        Difference::pretrained(folder, "grpo_lambda", "lower")?.with_ends(),
        Difference::at_one_rate(folder, "trace", "lower")?.with_ends(),
    ))
}

fn curriculum(folder: &Path) -> anyhow::Result<String> {
    let weights = Data::<WeightRow>::read(folder, "clamp_gain_weights.csv")?;
    let at = |arm: usize| {
        let row = rows!(weights, arm = CLAMP_ARMS[arm].name, success_rate = 0.9)?[0];
        anyhow::Ok(row.multiple_of_gradient)
    };
    let share = |arm: usize| anyhow::Ok(percent(at(arm)? / at(0)?));
    let parts = Data::<GainRow>::read(folder, "clamp_parts_overall.csv")?;
    let gain = |part: ClampPart| {
        let row = rows!(parts, optimiser = "SGD", gain_of = part.name())?[0];
        anyhow::Ok(format!("{:+.3} [{:+.3}, {:+.3}]", row.gain, row.gain_low, row.gain_high))
    };
    Ok(format!(
        "**The clamp is partly a re-weighting towards prompts that are rarely solved.** Under the clamp a prompt \
            that is solved nine times in ten keeps {} of its weight in the expected update. On single-digit \
            addition under SGD the clamp changes the share of solved training problems by {}. What the clamp \
            adds to the advantages is an *offset*, its mean over the group, plus a *contrast*. Under the \
                contrast alone a prompt that is solved nine times in ten keeps {} of its weight. The contrast alone changes the share of \
                solved problems by {}, and the offset alone by {}. Scope: one small \
            transformer, twelve paired seeds, each rate chosen on the other seeds. On the chains of point 1, \
            GRPO with the clamp is better than GRPO by {}. All prompts of the chain task are equally long, so \
                that no curriculum over lengths explains this difference.",
        share(CLAMPED)?,
        gain(ClampPart::Both)?,
        share(REWEIGHTING)?,
        gain(ClampPart::Reweighting)?,
        gain(ClampPart::Offset)?,
        chain::of_clamp(folder)?,
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

fn prefix_values(folder: &Path) -> anyhow::Result<String> {
    let values = Data::<ValuesRow>::read(folder, "prefix_values.csv")?;
    let row = |method: usize, group: usize| {
        anyhow::Ok(rows!(values, method = METHODS[method].0, group = group)?[0])
    };
    let saved = |method: usize, group: usize| {
        let ratio =
            row(method, group)?.variance_over_rloo.context("prefix_values.csv: no ratio of variances")?;
        anyhow::Ok(percent(1.0 - ratio))
    };
    let shares = Data::<ShareRow>::read(folder, "addition_variance.csv")?;
    let share = rows!(shares, method = "systematic_rloo")?[0];
    Ok(format!(
        "**Prefix values estimated from the other responses lower the variance without a bias.** Prefix RLOO, \
            which uses such values, removes {} of RLOO's variance in groups of 8 and {} in groups of 32. The \
                best possible baseline per prefix would remove {} in groups of 8 and {} in groups of 32. No run shows that these values make \
            learning faster. On addition a group of two systematic sets of eight responses has {:.2} times the \
            variance of RLOO with 16 independent responses at the start of RL, and {:.2} times after RL. Scope: {} \
            exact tasks, the same at every group size; one small transformer.",
        saved(PREFIX, 8)?,
        saved(PREFIX, 32)?,
        saved(OPTIMAL, 8)?,
        saved(OPTIMAL, 32)?,
        share.start,
        share.after_rl,
        row(PREFIX, 8)?.tasks,
    ))
}
