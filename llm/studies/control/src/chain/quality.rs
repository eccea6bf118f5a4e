//! The direction and the noise of every arm's update on the chains, against a gradient from many responses.
//!
//! ```text
//! m          the mean update from one group of each prompt; T: the gradient of the mean reward of the same prompts
//! cosine     <m, T> / (|m| |T|)
//! noise      Σ_p E|g_p - m_p|² / P² · |T|² / <m, T>²       at the scale at which the mean goes as far along T as T itself
//! ```
//! Products are of vectors from different halves of the responses, so that they have no bias from noise that both would share. The arms see the same
//! groups but for one of systematic sets, whose groups are its own. They are measured at the start of a seed and at two places of its run with RLOO.
//! VinePPO and the learned critic are left out: one would complete 4,096 responses per prompt, the other learns from past rollouts.

use std::path::Path;
use std::sync::Mutex;

use grpo_lambda::group::Group;
use grpo_lambda::methods::{self, Configured};
use grpo_lambda_decoder::model::ForwardOptions;
use grpo_lambda_stats::spearman;
use grpo_lambda_trainer::run::progress::say;
use grpo_lambda_trainer::step::Rollout;
use grpo_lambda_trainer::step::engine::CpuEngine;
use grpo_lambda_trainer::step::micro_batch::Batch;
use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use super::credit::{self, Evidence, Exact, Source};
use super::protocol::{Arm, Protocol, Sampling};
use super::run::{MEMORY, Start};
use super::verdict::Reading;
use crate::LabError;
use crate::force::{dot, pulled};
use crate::store::Results;

/// The places of a seed's run with RLOO.
const PLACES: [&str; 3] = ["start", "middle", "end"];
/// Numbers of prompts, of groups of each on which the arms are measured, and of groups whose responses give the gradient.
#[derive(Clone, Copy)]
struct Sizes {
    prompts: u64,
    groups: usize,
    pool: usize,
}

/// 4,096 responses per prompt give the gradient.
const SIZES: Sizes = Sizes { prompts: 16, groups: 256, pool: 512 };

/// An arm's update at a place of a run; the first three fields say whose it is.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Row {
    seed: u64,
    place: String,
    arm: String,
    steps: u64,
    prompts: u64,
    groups: usize,
    /// `Σ_p E|g_p|² / P²` and `Σ_p |m_p|² / P²`, whose difference is the variance.
    square: f64,
    own_square: f64,
    /// `|m|²`, `<m, T>` and `|T|²`.
    mean_square: f64,
    along: f64,
    gradient_square: f64,
    /// Mean size of the credit of a token of wrong responses, before the first wrong token and behind it.
    credit_before: f64,
    credit_after: f64,
    /// Rank correlation of a value token's credit with its exact one.
    rank_correlation: Option<f64>,
}

/// The sums of an arm over the prompts.
#[derive(Clone, Default)]
struct Sums {
    halves: [Vec<f64>; 2],
    square: f64,
    own_square: f64,
    /// Sizes of credit and numbers of tokens before the first wrong token, and behind it.
    before: [f64; 2],
    after: [f64; 2],
    credit: Vec<f64>,
    exact: Vec<f64>,
}

/// Measures what is missing on the first `seeds` evaluation seeds, at the rate that the rows in `runs` choose for RLOO.
pub fn quality(path: &Path, runs: &Path, seeds: u64) -> Result<(), LabError> {
    let protocol = Protocol::committed();
    let command = format!("quality FILE RUNS SEEDS (protocol {})", protocol.version);
    let results = Mutex::new(Results::open_typed::<Row>(path, &command, 3)?);
    let (_, rows) = super::open(protocol, runs)?;
    let (cell, rloo) = (&protocol.cells[0], &protocol.arms[0]);
    let rate = Reading { protocol, rows: &rows }
        .chosen(cell, &rloo.name)
        .ok_or_else(|| LabError::NoRate { file: runs.display().to_string(), arm: rloo.name.clone() })?;
    let seeds: Vec<u64> = protocol.seeds.evaluation.iter().copied().take(seeds as usize).collect();
    seeds.into_par_iter().try_for_each(|seed| of_seed(protocol, rate, seed, &results))
}

fn arms(protocol: &'static Protocol) -> Vec<&'static Arm> {
    let is_paid = |arm: &&Arm| matches!(arm.evidence, Source::Completions | Source::Critic);
    protocol.arms.iter().filter(|arm| !is_paid(arm)).collect()
}

fn of_seed(
    protocol: &'static Protocol,
    rate: f64,
    seed: u64,
    results: &Mutex<Results>,
) -> Result<(), LabError> {
    let locked = || results.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let arms = arms(protocol);
    let (cell, rloo) = (&protocol.cells[0], &protocol.arms[0]);
    let is_missing = |place: &str| {
        let has =
            |arm: &&Arm| locked().has(&[(seed as usize).into(), place.into(), arm.name.as_str().into()]);
        !arms.iter().all(has)
    };
    if !PLACES.into_iter().any(is_missing) {
        return Ok(());
    }
    let start = Start::new(protocol, protocol.form(cell), seed)?;
    let mut weights = vec![(0, start.model.parameters().clone())];
    start.run(rloo, rate, |run, engine| {
        weights.push((run.steps, engine.model.parameters().clone()));
        false
    })?;
    let last = weights.len() - 1;
    for (place, at) in PLACES.into_iter().zip([0, last / 2, last]).filter(|(place, _)| is_missing(place)) {
        let (steps, weights) = &weights[at];
        let mut engine = start.engine_at(weights.clone(), None)?;
        for row in measured(&start, &mut engine, &arms, SIZES)? {
            let row = Row { seed, place: place.to_owned(), steps: *steps, ..row };
            if !locked().has(&[(seed as usize).into(), place.into(), row.arm.as_str().into()]) {
                locked().add_typed(&row)?;
            }
        }
        say(&format!("seed {seed}, {place} of the run (step {steps})"));
    }
    Ok(())
}

/// The rows of all arms at an engine's weights, without their place.
fn measured(
    start: &Start,
    engine: &mut CpuEngine,
    arms: &[&Arm],
    sizes: Sizes,
) -> Result<Vec<Row>, LabError> {
    let parsed = |arm: &&Arm| methods::parse(&arm.method, &arm.settings).expect("a test parses the protocol");
    let methods: Vec<Configured> = arms.iter().map(parsed).collect();
    let mut sums = vec![Sums::default(); arms.len()];
    let mut gradient: [Vec<f64>; 2] = Default::default();
    for prompt in 0..sizes.prompts {
        for sampling in [Sampling::Independent, Sampling::Systematic] {
            let size = if sampling == Sampling::Independent { sizes.pool } else { sizes.groups };
            let of_sampling = |arm: &&Arm| arm.sampling == sampling;
            let Some(first) = arms.iter().copied().find(of_sampling) else { continue };
            let mut rollout = start.pool(engine, first, prompt, size)?;
            if sampling == Sampling::Independent {
                for (half, sum) in gradient.iter_mut().enumerate() {
                    add(sum, &gradient_of(engine, &rollout, half)?, 1.0 / sizes.prompts as f64);
                }
            }
            for (arm, (method, sums)) in arms.iter().zip(methods.iter().zip(&mut sums)) {
                if arm.sampling == sampling {
                    let mut evidence = Evidence::new(arm.evidence, &start.settings, &start.verifier);
                    evidence.add(engine, &mut rollout)?;
                    sums.add_prompt(start, engine, method, &rollout, sizes)?;
                }
            }
        }
    }
    let row = |(arm, sums): (&&Arm, &Sums)| sums.row(&arm.name, &gradient, sizes);
    Ok(arms.iter().zip(&sums).map(row).collect())
}

/// The gradient of the loss `-E[R]` of one prompt, from the half of a pool whose groups have this parity.
fn gradient_of(engine: &mut CpuEngine, rollout: &Rollout, half: usize) -> Result<Vec<f32>, LabError> {
    let responses =
        rollout.groups.iter().skip(half).step_by(2).flat_map(|g| g.responses.iter().cloned()).collect();
    let pool = [Group { responses }];
    let rewards: Vec<f64> = pool[0].responses.iter().map(|r| r.reward.unwrap_or(0.0)).collect();
    let (n, sum) = (rewards.len() as f64, rewards.iter().sum::<f64>());
    // Less the mean of the others: unbiased.
    let pull = |(r, reward): (&grpo_lambda::group::Response, &f64)| {
        vec![-(reward - (sum - reward) / (n - 1.0)) / n; r.len()]
    };
    let pull: Vec<Vec<f64>> = pool[0].responses.iter().zip(&rewards).map(pull).collect();
    pulled_of(engine, rollout, &pool, &pull)
}

fn pulled_of(
    engine: &mut CpuEngine,
    rollout: &Rollout,
    groups: &[Group],
    pull: &[Vec<f64>],
) -> Result<Vec<f32>, LabError> {
    let prompts = vec![rollout.prompts[0].tokens.as_slice(); groups.len()];
    let (batch, options) = (Batch::new(&prompts, groups), ForwardOptions::default());
    pulled(engine, batch, pull, options, MEMORY.micro_batch_tokens)
}

fn add(sum: &mut Vec<f64>, vector: &[f32], factor: f64) {
    sum.resize(vector.len(), 0.0);
    sum.iter_mut().zip(vector).for_each(|(s, x)| *s += factor * f64::from(*x));
}

impl Sums {
    /// Adds the updates of one prompt's groups, each of which is alone in its batch.
    fn add_prompt(
        &mut self,
        start: &Start,
        engine: &mut CpuEngine,
        method: &Configured,
        rollout: &Rollout,
        Sizes { prompts, groups: count, .. }: Sizes,
    ) -> Result<(), LabError> {
        let mut halves =
            [0, 1].map(|_| vec![0.0; start.model.parameters().values().map(|t| t.data.len()).sum()]);
        let p = start.verifier.step_accuracy(rollout);
        for (k, group) in rollout.groups.iter().take(count).enumerate() {
            let groups = std::slice::from_ref(group);
            let logps: Vec<Vec<f64>> = group.responses.iter().map(|r| r.old_logps.clone()).collect();
            let loss = methods::evaluate(method.method.as_ref(), groups, &logps);
            self.add_credit(start, rollout, group, &loss.dlogps, p);
            if loss.dlogps.iter().flatten().any(|w| *w != 0.0) {
                let gradient = pulled_of(engine, rollout, groups, &loss.dlogps)?;
                self.square += dot(&gradient, &gradient) / (count as f64 * (prompts * prompts) as f64);
                add(&mut halves[k % 2], &gradient, 2.0 / count as f64);
            }
        }
        self.own_square += credit::dot(&halves[0], &halves[1]) / (prompts * prompts) as f64;
        for (sum, half) in self.halves.iter_mut().zip(&halves) {
            sum.resize(half.len(), 0.0);
            sum.iter_mut().zip(half).for_each(|(s, x)| *s += x / prompts as f64);
        }
        Ok(())
    }

    /// Adds the credit that a group's tokens have, `p` the share of right values in its pool.
    fn add_credit(&mut self, start: &Start, rollout: &Rollout, group: &Group, pull: &[Vec<f64>], p: f64) {
        let form = &start.verifier.form;
        let chain = form.read(&rollout.prompts[0].tokens);
        for (response, pull) in group.responses.iter().zip(pull) {
            let Exact { places, wrong, credit } = Exact::new(form, &chain, response, p);
            if let Some(wrong) = wrong {
                for (t, w) in pull.iter().enumerate() {
                    let [size, tokens] = if t > wrong { &mut self.after } else { &mut self.before };
                    (*size, *tokens) = (*size + w.abs(), *tokens + 1.0);
                }
            }
            self.credit.extend(places.iter().map(|t| -pull[*t]));
            self.exact.extend(places.iter().map(|t| credit[*t]));
        }
    }

    fn row(&self, arm: &str, gradient: &[Vec<f64>; 2], sizes: Sizes) -> Row {
        let [a, b] = &self.halves;
        let mean = |[size, tokens]: [f64; 2]| if tokens > 0.0 { size / tokens } else { 0.0 };
        Row {
            arm: arm.to_owned(),
            prompts: sizes.prompts,
            groups: sizes.groups,
            square: self.square,
            own_square: self.own_square,
            mean_square: credit::dot(a, b),
            along: (credit::dot(a, &gradient[1]) + credit::dot(b, &gradient[0])) / 2.0,
            gradient_square: credit::dot(&gradient[0], &gradient[1]),
            credit_before: mean(self.before),
            credit_after: mean(self.after),
            rank_correlation: spearman(&self.credit, &self.exact),
            ..Row::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use grpo_lambda_decoder::rng::{Address, Purpose};

    const SMALL: Sizes = Sizes { prompts: 2, groups: 32, pool: 32 };

    /// A start with a tiny model, and a pool in which the demonstrations of half-wrong chains stand for responses.
    fn start() -> Start {
        let mut protocol = Protocol::read();
        (protocol.model.hidden, protocol.model.intermediate) = (16, 16);
        (protocol.start.most_steps, protocol.start.batch, protocol.exam.prompts) = (1, 2, 2);
        let protocol: &'static Protocol = Box::leak(Box::new(protocol));
        Start::new(protocol, protocol.form(&protocol.cells[0]), 3).expect("it learns")
    }

    fn pool(start: &Start, engine: &mut CpuEngine) -> Rollout {
        let arm = &Protocol::committed().arms[0];
        let mut rollout = start.pool(engine, arm, 0, SMALL.pool).expect("it samples");
        let form = &start.verifier.form;
        let chain = form.read(&rollout.prompts[0].tokens);
        for (k, group) in rollout.groups.iter_mut().enumerate() {
            for (i, response) in group.responses.iter_mut().enumerate() {
                let draws = Address::new(9, Purpose::Demonstrations).prompt(k as u64).response(i as u64);
                response.tokens = form.demonstration(&chain, 0.1, draws).response;
                response.old_logps = vec![-1.0; response.tokens.len()];
                response.reward = Some(start.verifier.reward(&rollout.prompts[k], i, &response.tokens));
            }
        }
        rollout
    }

    fn sums(start: &Start, engine: &mut CpuEngine, arm: &str, rollout: &mut Rollout) -> Sums {
        let arm = Protocol::committed().arms.iter().find(|a| a.name == arm).expect("an arm");
        let method = methods::parse(&arm.method, &arm.settings).expect("a test parses the protocol");
        let mut evidence = Evidence::new(arm.evidence, &start.settings, &start.verifier);
        evidence.add(engine, rollout).expect("evidence");
        let mut sums = Sums::default();
        sums.add_prompt(start, engine, &method, rollout, SMALL).expect("it is pulled");
        sums
    }

    /// The gradient is that of RLOO with all responses in one group, whose factor is that of its reduction.
    #[test]
    fn the_gradient_is_rloos_of_one_large_group() {
        let start = start();
        let mut engine = start.engine_at(start.model.parameters().clone(), None).expect("an engine");
        let rollout = pool(&start, &mut engine);
        let own = gradient_of(&mut engine, &rollout, 1).expect("it is pulled");
        let responses: Vec<_> =
            rollout.groups.iter().skip(1).step_by(2).flat_map(|g| g.responses.clone()).collect();
        let groups = [Group { responses }];
        let logps: Vec<Vec<f64>> = groups[0].responses.iter().map(|r| r.old_logps.clone()).collect();
        let rloo = methods::parse("rloo", "reduction=response_sum").expect("settings");
        let pull = methods::evaluate(rloo.method.as_ref(), &groups, &logps).dlogps;
        let other = pulled_of(&mut engine, &rollout, &groups, &pull).expect("it is pulled");
        assert!(dot(&own, &own) > 0.0);
        assert!(own.iter().zip(&other).all(|(a, b)| (a - b).abs() <= 1e-6 * dot(&own, &own).sqrt() as f32));
    }

    #[test]
    fn rloo_credits_a_wrong_response_evenly_and_the_oracle_nothing_behind_its_error() {
        let start = start();
        let mut engine = start.engine_at(start.model.parameters().clone(), None).expect("an engine");
        let mut rollout = pool(&start, &mut engine);
        let gradient = [0, 1].map(|half| {
            let mut sum = Vec::new();
            add(&mut sum, &gradient_of(&mut engine, &rollout, half).expect("it is pulled"), 1.0);
            sum
        });
        let rloo = sums(&start, &mut engine, "rloo", &mut rollout).row("rloo", &gradient, SMALL);
        assert!((rloo.credit_after / rloo.credit_before - 1.0).abs() < 0.1, "{rloo:?}");
        assert!(rloo.square > rloo.own_square && rloo.along > 0.0, "{rloo:?}");
        let oracle = sums(&start, &mut engine, "oracle", &mut rollout).row("oracle", &gradient, SMALL);
        // Equal credit of two tokens differs by rounding, which a rank does not forgive.
        assert_eq!(oracle.credit_after, 0.0);
        assert!(oracle.credit_before > 0.0 && oracle.rank_correlation > Some(0.99), "{oracle:?}");
    }
}
