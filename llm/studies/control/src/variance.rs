//! The variance of the gradient of one group, by baseline and by sampling.
//!
//! ```text
//! variance   1/2 E|g - g'|²        g, g': gradients of two independent groups of the same prompt, averaged over
//! prompts
//! ```
//! All are unbiased, so that the variance is all in which their gradients differ. They see the same groups, at the
//! start weights and after RL with the first method; methods of systematic sets see groups of their own, of the same
//! prompts. A group whose rewards agree has the gradient 0 with every baseline.

use grpo_lambda::group::Group;
use grpo_lambda::methods::{self, Configured};
use grpo_lambda::settings::SettingError;
use grpo_lambda::systematic::Sets;
use grpo_lambda_stats::table::Cell;
use serde::Deserialize;

use super::arm::Arm;
use super::fill::{Job, fill};
use super::force::{APART, pulled_in};
use super::lab::{Lab, LabError, Optimiser};
use super::store::Results;
use grpo_lambda_trainer::step::engine::CpuEngine;
use grpo_lambda_trainer::step::micro_batch::Batch;
use grpo_lambda_trainer::step::{Rollout, StepContext, TrainingPrompt};

/// The weights at which variances are measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub(super) enum Weights {
    #[serde(rename = "start")]
    Start,
    #[serde(rename = "after RL")]
    AfterRl,
}

impl Weights {
    fn name(self) -> &'static str {
        match self {
            Weights::Start => "start",
            Weights::AfterRl => "after RL",
        }
    }
}

/// The part of a protocol that asks for variances in place of runs.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Variances {
    weights: Vec<Weights>,
    /// Pairs of groups.
    pairs: u64,
    /// The learning rate of RL.
    rate: f64,
}

/// Columns of the results; the first three say whose a row is.
pub(super) const COLUMNS: [&str; 7] =
    ["seed", "weights", "method", "pairs", "mixed_groups", "variance", "over_rloo"];
pub(super) const KEYS: usize = 3;

/// Measures what is missing of the arms at all weights of all seeds.
pub(super) fn go_on(
    own: &Variances,
    arms: &[Arm],
    seeds: &[u64],
    settings: [&[String]; 2],
    results: &Results,
) -> Result<(), LabError> {
    let key = |seed: u64, weights: Weights, name: String| {
        vec![(seed as usize).into(), weights.name().into(), name.into()]
    };
    let jobs = |seed| {
        let keys = |weights| arms.iter().map(|arm| key(seed, weights, arm.name())).collect();
        own.weights.iter().map(|w| Job { keys: keys(*w), what: (seed, *w) }).collect()
    };
    let rows = |lab: &Lab, (seed, weights): &(u64, Weights)| {
        let measured = at_weights(arms, own, lab, *weights)?;
        let of_first = measured.first().map_or(0.0, |m| m.variance);
        let row = |(arm, m): (&Arm, &Measured)| {
            // Where no group is mixed there is no variance to compare.
            let ratio = (of_first > 0.0).then(|| m.variance / of_first);
            let numbers: Vec<Cell> =
                vec![(own.pairs as usize).into(), m.mixed.into(), m.variance.into(), ratio.into()];
            [key(*seed, *weights, arm.name()), numbers].concat()
        };
        Ok(arms.iter().zip(&measured).map(row).collect())
    };
    fill(results, seeds, jobs, |seed| Lab::of_seed(seed, settings), rows)
}

/// A method's variance, and the number of its groups whose rewards differ.
#[derive(Clone, Copy, Default)]
struct Measured {
    mixed: usize,
    variance: f64,
}

/// The variance of every arm, in their order.
fn at_weights(arms: &[Arm], own: &Variances, lab: &Lab, weights: Weights) -> Result<Vec<Measured>, LabError> {
    let arms: Vec<Configured> =
        arms.iter().map(|arm| arm.configured()).collect::<Result<_, SettingError>>()?;
    let mut engine = match (weights, arms.first()) {
        (Weights::AfterRl, Some(first)) => {
            lab.train(&lab.session.settings, first.method.as_ref(), Optimiser::AdamW, own.rate)?.0
        }
        (Weights::Start, _) | (Weights::AfterRl, None) => lab.engine(Optimiser::AdamW)?.0,
    };
    let mut measured = vec![Measured::default(); arms.len()];
    for sampling in [None, Some(Sets::new(2))] {
        let (prompts, rollout) = pairs(lab, &mut engine, own.pairs, sampling)?;
        for (prompt, (first, second)) in
            prompts.iter().zip(rollout.groups.iter().zip(&rollout.groups[prompts.len()..]))
        {
            let these = measured.iter_mut().zip(&arms).filter(|(_, method)| method.sets() == sampling);
            for (found, configured) in these {
                let [a, b] =
                    [first, second].map(|g| of_group(lab, &mut engine, configured, &prompt.tokens, g));
                found.variance += half_squared_distance(a?.as_deref(), b?.as_deref()) / own.pairs as f64;
                found.mixed += [first, second].iter().filter(|g| differ(g)).count();
            }
        }
    }
    Ok(measured)
}

/// Prompts, and two independent groups of each: the second ones come after all first ones.
fn pairs(
    lab: &Lab,
    engine: &mut CpuEngine,
    pairs: u64,
    sets: Option<Sets>,
) -> Result<(Vec<TrainingPrompt>, Rollout), LabError> {
    let once = lab.session.prompts(APART..APART + pairs)?;
    let again = |(p, k): (&TrainingPrompt, u64)| TrainingPrompt { number: APART + pairs + k, ..p.clone() };
    let twice = once.iter().cloned().chain(once.iter().zip(0..pairs).map(again)).collect();
    let settings = lab.settings(sets);
    let context = StepContext { settings: &settings, ..lab.session.context() };
    let rollout = context.sample(engine, twice, lab.session.config.rl.group_size, APART)?;
    Ok((once, rollout))
}

fn differ(group: &Group) -> bool {
    let rewards: Vec<f64> = group.responses.iter().filter_map(|r| r.reward).collect();
    !grpo_lambda::advantage::all_equal(&rewards)
}

/// The gradient of the loss of one group; none where it is 0.
fn of_group(
    lab: &Lab,
    engine: &mut CpuEngine,
    configured: &Configured,
    prompt: &[u32],
    group: &Group,
) -> Result<Option<Vec<f32>>, LabError> {
    if !differ(group) {
        return Ok(None);
    }
    let groups = std::slice::from_ref(group);
    let logps: Vec<Vec<f64>> = group.responses.iter().map(|r| r.old_logps.clone()).collect();
    let loss = methods::evaluate(configured.method.as_ref(), groups, &logps);
    Ok(Some(pulled_in(lab, engine, Batch::new(&[prompt], groups), &loss.dlogps)?))
}

/// `|a - b|²/2`, where none stands for 0.
fn half_squared_distance(a: Option<&[f32]>, b: Option<&[f32]>) -> f64 {
    let square = |x: f64| x * x;
    let sum: f64 = match (a, b) {
        (None, None) => 0.0,
        (Some(x), None) | (None, Some(x)) => x.iter().map(|x| square(f64::from(*x))).sum(),
        (Some(a), Some(b)) => a.iter().zip(b).map(|(a, b)| square(f64::from(*a) - f64::from(*b))).sum(),
    };
    sum / 2.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_the_squared_distance_of_two_draws_is_on_average_the_variance() {
        // Over all pairs of 0 and [3, 4], each drawn with probability 1/2: the variance is 25/4.
        let draws = [None, Some(&[3.0f32, 4.0][..])];
        let pairs = draws.iter().flat_map(|a| draws.iter().map(move |b| half_squared_distance(*a, *b)));
        assert_eq!(pairs.sum::<f64>() / 4.0, 25.0 / 4.0);
    }
}
