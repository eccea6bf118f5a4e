//! The log rows of a step: structs whose fields are the columns, in their order.

use std::time::Duration;

use grpo_lambda_decoder::optim::StepOutcome;
use grpo_lambda_stats::Interval;

use crate::config::Config;
use crate::eval::Evaluation;
use crate::plan::memory::peak_rss_mib;
use crate::reward::{RewardBreakdown, RewardComponent};
use crate::step::critic::CriticReport;
use crate::step::sft::SftReport;
use crate::step::{Rollout, StepReport};

/// Declares a row of a log. Every field is a column of the same name and of the same place; one that is `None` is empty there.
/// `docs/records.md` quotes the meanings.
macro_rules! row {
    ($(#[$about:meta])* struct $name:ident { $($column:ident: $meaning:literal,)* }) => {
        $(#[$about])*
        #[derive(Clone, Copy, Debug, Default, PartialEq)]
        pub struct $name {
            $(#[doc = $meaning] pub $column: Option<f64>,)*
        }

        impl $name {
            /// The names of the columns.
            pub const COLUMNS: &[&str] = &[$(stringify!($column)),*];

            /// The meaning of each column.
            pub const MEANINGS: &[&str] = &[$($meaning),*];

            /// The columns that have a value.
            pub fn entries(&self) -> impl Iterator<Item = (&'static str, f64)> + use<> {
                let all = [$((stringify!($column), self.$column)),*];
                all.into_iter().filter_map(|(name, value)| Some((name, value?)))
            }
        }
    };
}

row! {
    /// A row of `metrics.csv`: nothing of the clock or the machine. The columns of components, of the sampler and of a critic come after it.
    struct StepMetrics {
        loss: "loss of the update, with its KL term and without an entropy bonus; in supervised learning the \
            mean negative log-likelihood of a demonstration's tokens, in nats",
        lr: "learning rate of this step",
        grad_norm: "Euclidean norm of the gradient of all parameters before clipping; empty when the update was skipped",
        grad_scale: "factor by which clipping multiplied the gradient; 1 if it did not clip",
        skipped: "1 when the update was left out because a gradient was not finite, else 0",
        tokens: "tokens whose log-probabilities enter the loss; in RL those of the responses with their end \
            tokens",
        reward: "mean reward of the responses that have one; empty where none has",
        accuracy: "share of right responses among those that could be graded; empty where none could",
        kl: "mean over tokens of the KL estimate against the reference, in nats; empty when `method.beta` is 0, because it is not computed",
        entropy: "mean entropy of the sampling distribution over the tokens of the responses, in nats",
        ratio_mean: "mean over tokens of the importance ratio, or of the trace ratio if the method has a trace",
        ratio_max: "exp of the largest absolute log-ratio of a token: 2 means that a probability doubled or halved",
        trace_ratio_max: "exp of the largest absolute log-ratio of a trace",
        clip_fraction_low: "share of tokens clipped at the lower bound, so that their gradient is 0",
        clip_fraction_high: "share of tokens clipped at the upper bound or at a two-sided cap",
        saturated_fraction: "share of tokens whose log-ratio is so large that exp is continued by its tangent",
        logp_error: "mean over tokens of exp of the absolute difference between the log-probabilities of sampler and trainer at the same weights; 1 is exact; on the CPU only of responses that have a gradient",
        logp_error_max: "largest value of this factor over tokens",
        length: "mean length of a response, in tokens, the end token included",
        truncated: "share of responses that were cut off at `rl.max_new_tokens`",
        groups: "groups of responses in the batch",
        zero_variance_groups: "groups whose known rewards are all equal, so that a group baseline gives them zero advantage",
        ungraded: "responses without a reward",
        evidence_forward_tokens: "tokens of forward passes for extra inputs: greedy responses, completions, and scores of a \
            teacher or critic. Not counted are entropies that a server leaves out and a critic's learning steps. \
            Empty if the method needs no extra inputs",
        evidence_backward_tokens: "tokens of backward passes for extra inputs",
        eval_accuracy: "held-out accuracy with the weights after this step; empty where nothing was evaluated",
        eval_low: "lower end of the 95 % interval (Wilson) of `eval_accuracy` over problems",
        eval_high: "upper end of that interval",
    }
}

row! {
    /// The columns of a run with a critic, after all others.
    struct CriticMetrics {
        value_loss: "loss of the critic on the step's responses before it learns from them: half the squared error of a value, on average over tokens",
        explained_variance: "share of the variance of returns that the critic's values explain: 1 for exact values, 0 for a \
            constant, negative for worse values. A return is the final reward, discounted (lambda = 1). Empty if \
            all returns are equal",
        critic_grad_norm: "Euclidean norm of the gradient of the critic before clipping, in its first step on the responses; empty when that was skipped",
    }
}

impl CriticMetrics {
    /// The row of a critic's steps on a rollout.
    pub(super) fn new(report: &CriticReport) -> Self {
        let norm = match report.updates.first() {
            Some(StepOutcome::Applied { grad_norm: first, .. }) => Some(*first),
            Some(StepOutcome::Skipped { .. }) | None => None,
        };
        let value_loss = (!report.updates.is_empty()).then_some(report.loss);
        CriticMetrics { value_loss, explained_variance: report.explained, critic_grad_norm: norm }
    }
}

row! {
    /// A row of `timing.csv`.
    struct Timing {
        seconds: "wall-clock time of the step",
        sample_seconds: "part of `seconds` for sampling and grading",
        update_seconds: "remaining part, for scores, gradient and optimiser",
        tokens_per_second: "`tokens` divided by `seconds`",
        peak_rss_mib: "largest resident memory of the process so far, in MiB",
    }
}

/// The mean of a column; `None`, an empty field, where nothing has a value.
pub fn mean(values: Vec<f64>) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

impl StepMetrics {
    /// The row of a supervised step.
    pub(super) fn supervised(report: &SftReport, rate: f64) -> Self {
        StepMetrics {
            loss: Some(report.loss),
            lr: Some(rate),
            tokens: Some(report.tokens as f64),
            ..StepMetrics::default()
        }
        .with_update(&report.update)
    }

    /// The row of an RL step; `extra_inputs` is true if the method asked for any.
    pub(super) fn reinforced(rollout: &Rollout, report: &StepReport, extra_inputs: bool) -> Self {
        let m = &report.metrics;
        let row = StepMetrics {
            loss: Some(m.policy_loss + m.kl_loss),
            lr: Some(report.rate),
            kl: rollout.is_scored_by_reference().then(|| m.kl()),
            ratio_mean: Some(m.ratio_mean()),
            ratio_max: Some(m.ratio_max()),
            trace_ratio_max: Some(m.trace_ratio_max()),
            clip_fraction_low: Some(m.clip_fraction_low()),
            clip_fraction_high: Some(m.clip_fraction_high()),
            saturated_fraction: Some(m.saturated_fraction()),
            logp_error: Some(report.mismatch.mean()),
            logp_error_max: Some(report.mismatch.max()),
            groups: Some(m.groups as f64),
            zero_variance_groups: Some(m.zero_variance_groups as f64),
            ungraded: Some(m.ungraded as f64),
            evidence_forward_tokens: extra_inputs.then_some(rollout.input_cost.forward as f64),
            evidence_backward_tokens: extra_inputs.then_some(rollout.input_cost.backward as f64),
            ..StepMetrics::rollout(rollout)
        };
        match report.update() {
            Some(update) => row.with_update(update),
            None => row,
        }
    }

    /// The columns about the responses.
    fn rollout(rollout: &Rollout) -> Self {
        let responses: Vec<_> = rollout.groups.iter().flat_map(|g| &g.responses).collect();
        let entropies = responses.iter().flat_map(|r| r.extra_inputs.entropies.iter().flatten().copied());
        let accuracies = rollout.rewards.iter().flatten().filter_map(RewardBreakdown::accuracy);
        StepMetrics {
            tokens: Some(responses.iter().map(|r| r.len()).sum::<usize>() as f64),
            reward: mean(responses.iter().filter_map(|r| r.reward).collect()),
            accuracy: mean(accuracies.collect()),
            entropy: mean(entropies.collect()),
            length: mean(responses.iter().map(|r| r.len() as f64).collect()),
            truncated: mean(responses.iter().map(|r| f64::from(r.truncated)).collect()),
            ..StepMetrics::default()
        }
    }

    pub fn with_update(self, update: &StepOutcome) -> Self {
        match update {
            StepOutcome::Applied { grad_norm, scale } => StepMetrics {
                grad_norm: Some(*grad_norm),
                grad_scale: Some(*scale),
                skipped: Some(0.0),
                ..self
            },
            StepOutcome::Skipped { .. } => StepMetrics { skipped: Some(1.0), ..self },
        }
    }

    pub(super) fn with_evaluation(self, evaluation: &Evaluation) -> Self {
        let (low, high) = evaluation.interval().map(|Interval { low, high, .. }| (low, high)).unzip();
        StepMetrics { eval_accuracy: Some(evaluation.accuracy()), eval_low: low, eval_high: high, ..self }
    }
}

/// The last column: how many components of the reward have not moved for `reward.stuck_steps` steps.
pub const STUCK_COLUMN: &str = "reward_stuck";

/// The column after all others of a run with `rl.entropy_target`: the coefficient of the entropy bonus in this step.
pub const COEF_COLUMN: &str = "entropy_coef";

/// The column after these of a run whose sampler writes other tokens than those of the responses, in a tree or in completions: all tokens that it
/// wrote in this step.
pub const SAMPLED_COLUMN: &str = "sampled_tokens";

/// The value of [`SAMPLED_COLUMN`]; none where there is no such column.
pub(super) fn sampled_tokens(config: &Config, rollout: &Rollout) -> Option<(&'static str, f64)> {
    writes_others(config).then_some((SAMPLED_COLUMN, rollout.sampled_tokens as f64))
}

fn writes_others(config: &Config) -> bool {
    config.rl.branching().is_some() || config.step_start().is_some()
}

/// The columns after those of [`StepMetrics`]: one for each component with a weight, and [`STUCK_COLUMN`]; then [`COEF_COLUMN`], [`SAMPLED_COLUMN`] and
/// those of [`CriticMetrics`], if there are any.
pub(super) fn further_columns(config: &Config) -> Vec<&'static str> {
    let rewards = config.reward.active().map(|(_, component)| component.column).chain([STUCK_COLUMN]);
    let coef = config.rl.entropy_target.map(|_| COEF_COLUMN);
    let critic = if config.has_critic() { CriticMetrics::COLUMNS } else { &[] };
    let sampled = writes_others(config).then_some(SAMPLED_COLUMN);
    rewards.chain(coef).chain(sampled).chain(critic.iter().copied()).collect()
}

/// The columns of the reward that have a value: the mean of each component over the responses that it has a value for, and how many components are
/// `stuck`.
pub fn reward_entries<'a>(
    components: impl Iterator<Item = (usize, &'static RewardComponent)>,
    breakdowns: impl Iterator<Item = &'a RewardBreakdown> + Clone,
    stuck: u64,
) -> Vec<(&'static str, f64)> {
    let named = |(i, component): (usize, &'static RewardComponent)| {
        let known = breakdowns.clone().filter_map(|e| e.components[i]);
        Some((component.column, mean(known.collect())?))
    };
    components.filter_map(named).chain([(STUCK_COLUMN, stuck as f64)]).collect()
}

impl Timing {
    /// The row of a step that sampled for `sample` of its time.
    pub(super) fn new(all: Duration, sample: Duration, tokens: usize) -> Self {
        let (seconds, sample_seconds) = (all.as_secs_f64(), sample.as_secs_f64());
        Timing {
            seconds: Some(seconds),
            sample_seconds: Some(sample_seconds),
            update_seconds: Some(seconds - sample_seconds),
            tokens_per_second: Some(tokens as f64 / seconds),
            peak_rss_mib: peak_rss_mib(),
        }
    }
}
