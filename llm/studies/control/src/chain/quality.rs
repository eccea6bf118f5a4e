//! The direction and the noise of every arm's update on the chains, against a gradient from many responses.
//!
//! ```text
//! m          the mean update from one group of each prompt; T: the gradient of the mean reward of the same prompts
//! cosine     <m, T> / (|m| |T|)
//! noise      Σ_p E|g_p - m_p|² / P² · |T|² / <m, T>²       at the scale at which the mean goes as far along T as T
//! itself
//! ```
//! Products are of vectors from different halves of the responses, so that they have no bias from noise that both
//! would share. The arms see the same groups but for one of systematic sets, whose groups are its own. They are
//! measured at the start of a seed and at two places of its run with RLOO.

use std::path::Path;

use grpo_lambda::group::Group;
use grpo_lambda::methods::{self, Configured};
use grpo_lambda::systematic::Sets;
use grpo_lambda_decoder::model::ForwardOptions;
use grpo_lambda_decoder::model::weights::Parameters;
use grpo_lambda_stats::spearman;
use grpo_lambda_trainer::run::progress::say;
use grpo_lambda_trainer::step::Rollout;
use grpo_lambda_trainer::step::engine::CpuEngine;
use grpo_lambda_trainer::step::micro_batch::Batch;
use grpo_lambda_trials::{Method, Trial};
use serde::{Deserialize, Serialize};

use super::credit::{self, Credit, Judged};
use super::run::{MEMORY, Start, configured};
use super::setup::COMMITTED;
use crate::Result;
use crate::fill::{Job, fill};
use crate::gradient::{dot, pulled};
use crate::store::{Results, cells_of};
use crate::trials::rate;

/// The places of a seed's run with RLOO.
const PLACES: [&str; 3] = ["start", "middle", "end"];
/// Numbers of prompts, of groups of each on which the arms are measured, and of groups whose responses give the
/// gradient.
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
    /// Mean size of the credit of a token of wrong responses, before the first wrong token and after it.
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
    /// Sizes of credit and numbers of tokens before the first wrong token, and after it.
    before: [f64; 2],
    after: [f64; 2],
    credit: Vec<f64>,
    exact: Vec<f64>,
}

/// Measures what is missing on the first `seeds` evaluation seeds, at the rate that the rows in `runs` choose for RLOO.
pub fn quality(path: &Path, runs: &Path, seeds: u64) -> Result<()> {
    let study = &*COMMITTED;
    let words = format!("quality FILE RUNS SEEDS (protocol {})", study.version);
    let results = Results::open::<Row>(path, &words, 3)?;
    let rloo = &study.methods[0];
    let trials = Results::open::<Trial>(runs, &super::words(study), Trial::KEYS)?;
    let rate = rate(study, runs, &trials, rloo)?;
    let seeds: Vec<u64> = study.seeds.evaluation.iter().copied().take(seeds as usize).collect();
    let key = |seed: u64, place: &str, m: &Method| {
        vec![(seed as usize).into(), place.into(), m.name.as_str().into()]
    };
    let job = |seed, i: usize| {
        let keys = study.methods.iter().map(|m| key(seed, PLACES[i], m)).collect();
        Job { keys, what: (seed, i) }
    };
    let jobs = |seed| (0..PLACES.len()).map(|i| job(seed, i)).collect();
    let start = |seed| {
        let start = Start::new(study, seed)?;
        let mut weights = vec![(0, start.model.parameters().clone())];
        let settings = start.settings_of(&configured(rloo));
        let mut keep = |steps, engine: &CpuEngine| weights.push((steps, engine.model.parameters().clone()));
        start.run(rloo, &settings, rate, &mut keep)?;
        Ok((start, weights))
    };
    let rows = |(start, weights): &(Start<'_>, Vec<(u64, Parameters<f32>)>), (seed, i): &(u64, usize)| {
        let (steps, weights) = &weights[i * (weights.len() - 1) / (PLACES.len() - 1)];
        let mut engine = start.engine_with(weights.clone(), None, false)?;
        let rows = measured(start, &mut engine, &study.methods, SIZES)?;
        say(&format!("seed {seed}, {} of the run (step {steps})", PLACES[*i]));
        let row = |row| Row { seed: *seed, place: PLACES[*i].to_owned(), steps: *steps, ..row };
        Ok(rows.into_iter().map(row).map(|row| cells_of(&row)).collect())
    };
    fill(&results, &seeds, jobs, start, rows)
}

/// The rows of all methods at an engine's weights, without their place.
fn measured(start: &Start<'_>, engine: &mut CpuEngine, methods: &[Method], sizes: Sizes) -> Result<Vec<Row>> {
    let all: Vec<Configured> = methods.iter().map(configured).collect();
    let mut sums = vec![Sums::default(); all.len()];
    let mut gradient: [Vec<f64>; 2] = Default::default();
    for prompt in 0..sizes.prompts {
        for sets in [None, Some(Sets::new(2))] {
            let size = if sets.is_none() { sizes.pool } else { sizes.groups };
            let mut rollout = start.pool(engine, sets, prompt, size)?;
            if sets.is_none() {
                for (half, sum) in gradient.iter_mut().enumerate() {
                    add(sum, &gradient_of(engine, &rollout, half)?, 1.0 / sizes.prompts as f64);
                }
            }
            let exact = exact(start, engine, &rollout)?;
            for (method, (configured, sums)) in methods.iter().zip(all.iter().zip(&mut sums)) {
                if configured.sets() == sets {
                    start.add_credit(method, engine, &mut rollout)?;
                    sums.add_prompt(engine, configured, &rollout, &exact, sizes)?;
                }
            }
        }
    }
    let row = |(method, sums): (&Method, &Sums)| sums.row(&method.name, &gradient, sizes);
    Ok(methods.iter().zip(&sums).map(row).collect())
}

/// Every response of a pool with its credit `Q - V`.
fn exact(start: &Start<'_>, engine: &CpuEngine, rollout: &Rollout) -> Result<Vec<(Judged, Vec<f64>)>> {
    let judged = credit::judged(&engine.model, &start.verifier.form, &start.settings, rollout)?;
    Ok(judged.into_iter().map(|own| (own.clone(), own.credit(Credit::QMinusV))).collect())
}

/// The gradient of the loss `-E[R]` of one prompt, from the half of a pool whose groups have this parity.
fn gradient_of(engine: &mut CpuEngine, rollout: &Rollout, half: usize) -> Result<Vec<f32>> {
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
) -> Result<Vec<f32>> {
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
        engine: &mut CpuEngine,
        method: &Configured,
        rollout: &Rollout,
        exact: &[(Judged, Vec<f64>)],
        Sizes { prompts, groups: count, .. }: Sizes,
    ) -> Result<()> {
        let size = engine.model.parameters().values().map(|t| t.data.len()).sum();
        let mut halves = [0, 1].map(|_| vec![0.0; size]);
        let mut exact = exact.iter();
        for (k, group) in rollout.groups.iter().take(count).enumerate() {
            let groups = std::slice::from_ref(group);
            let logps: Vec<Vec<f64>> = group.responses.iter().map(|r| r.old_logps.clone()).collect();
            let loss = methods::evaluate(method.method.as_ref(), groups, &logps);
            loss.dlogps.iter().zip(&mut exact).for_each(|(pull, exact)| self.add_credit(pull, exact));
            if loss.dlogps.iter().flatten().any(|w| *w != 0.0) {
                let gradient = pulled_of(engine, rollout, groups, &loss.dlogps)?;
                self.square += dot(&gradient, &gradient) / (count as f64 * (prompts * prompts) as f64);
                add(&mut halves[k % 2], &gradient, 2.0 / count as f64);
            }
        }
        self.own_square += dot_of(&halves[0], &halves[1]) / (prompts * prompts) as f64;
        for (sum, half) in self.halves.iter_mut().zip(&halves) {
            sum.resize(half.len(), 0.0);
            sum.iter_mut().zip(half).for_each(|(s, x)| *s += x / prompts as f64);
        }
        Ok(())
    }

    /// Adds the credit that a response's tokens have.
    fn add_credit(&mut self, pull: &[f64], (judged, exact): &(Judged, Vec<f64>)) {
        if let Some(wrong) = judged.wrong {
            for (t, w) in pull.iter().enumerate() {
                let [size, tokens] = if t > wrong { &mut self.after } else { &mut self.before };
                (*size, *tokens) = (*size + w.abs(), *tokens + 1.0);
            }
        }
        self.credit.extend(judged.places.iter().map(|t| -pull[*t]));
        self.exact.extend(judged.places.iter().map(|t| exact[*t]));
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
            mean_square: dot_of(a, b),
            along: (dot_of(a, &gradient[1]) + dot_of(b, &gradient[0])) / 2.0,
            gradient_square: dot_of(&gradient[0], &gradient[1]),
            credit_before: mean(self.before),
            credit_after: mean(self.after),
            rank_correlation: spearman(&self.credit, &self.exact),
            ..Row::default()
        }
    }
}

fn dot_of(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

#[cfg(test)]
mod tests {
    use super::super::setup::tiny;
    use super::*;
    use grpo_lambda_decoder::rng::{Address, Purpose};

    const SMALL: Sizes = Sizes { prompts: 2, groups: 32, pool: 32 };

    /// A pool in which the demonstrations of chains of which a tenth of the values is wrong stand for responses.
    fn pool(start: &Start, engine: &mut CpuEngine) -> Rollout {
        let mut rollout = start.pool(engine, None, 0, SMALL.pool).expect("it samples");
        let form = &start.verifier.form;
        let chain = form.read(&rollout.prompts[0].tokens);
        for (k, group) in rollout.groups.iter_mut().enumerate() {
            for (i, response) in group.responses.iter_mut().enumerate() {
                let draws = Address::new(9, Purpose::Demonstrations).prompt(k as u64).response(i as u64);
                response.tokens = form.demonstration(&chain, 0.1, draws).response;
                response.old_logps = vec![-1.0; response.tokens.len()];
                let is_right = form.first_wrong(&chain, &response.tokens).is_none();
                response.reward = Some(f64::from(u8::from(is_right)));
            }
        }
        rollout
    }

    fn sums(start: &Start, engine: &mut CpuEngine, name: &str, rollout: &mut Rollout) -> Sums {
        let method = COMMITTED.methods.iter().find(|m| m.name == name).expect("a method");
        start.add_credit(method, engine, rollout).expect("scored");
        let exact = exact(start, engine, rollout).expect("scored");
        let mut sums = Sums::default();
        sums.add_prompt(engine, &configured(method), rollout, &exact, SMALL).expect("it is pulled");
        sums
    }

    /// The gradient is that of RLOO with all responses in one group, whose factor is that of its reduction.
    #[test]
    fn the_gradient_is_rloos_of_one_large_group() {
        let study = tiny();
        let start = Start::new(&study, 3).expect("it learns");
        let mut engine = start.engine(None).expect("an engine");
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
    fn rloo_credits_a_wrong_response_evenly_and_the_verifier_nothing_after_its_error() {
        let study = tiny();
        let start = Start::new(&study, 3).expect("it learns");
        let mut engine = start.engine(None).expect("an engine");
        let mut rollout = pool(&start, &mut engine);
        let gradient = [0, 1].map(|half| {
            let mut sum = Vec::new();
            add(&mut sum, &gradient_of(&mut engine, &rollout, half).expect("it is pulled"), 1.0);
            sum
        });
        let rloo = sums(&start, &mut engine, "rloo", &mut rollout).row("rloo", &gradient, SMALL);
        assert!((rloo.credit_after / rloo.credit_before - 1.0).abs() < 0.1, "{rloo:?}");
        assert!(rloo.square > rloo.own_square && rloo.along > 0.0, "{rloo:?}");
        let verifier =
            sums(&start, &mut engine, "verifier_q_v", &mut rollout).row("verifier_q_v", &gradient, SMALL);
        // Equal credit of two tokens differs by rounding, which a rank does not forgive.
        assert_eq!(verifier.credit_after, 0.0);
        assert!(verifier.credit_before > 0.0 && verifier.rank_correlation > Some(0.99), "{verifier:?}");
    }
}
