//! The noise of every method's update at the start of a seed, per sampled token.
//!
//! ```text
//! noise    (E|g|² - |E g|²) / |E g|² · tokens        g: the gradient of a step's loss on the same prompts in every draw
//! ```
//! `|E g|²` is the mean of `<g, g'>` over pairs of different draws, so that it has no bias from their noise.

use std::path::Path;

use grpo_lambda::methods::{self, Method as Credits};
use grpo_lambda_decoder::model::ForwardOptions;
use grpo_lambda_trainer::run::progress::say;
use grpo_lambda_trainer::step::engine::CpuEngine;
use grpo_lambda_trainer::step::micro_batch::Batch;
use grpo_lambda_trainer::step::{OnTree, Rollout, StepContext, TrainingPrompt};
use grpo_lambda_trials::Method;
use serde::{Deserialize, Serialize};

use super::{Branch, Task, named, read};
use crate::chain::run::{APART, Start, configured};
use crate::chain::task::Part;
use crate::fill::{Job, fill};
use crate::gradient::{dot, pulled};
use crate::lab::{Lab, Result};
use crate::store::{Results, cells_of};

/// The updates of a method on a seed.
const DRAWS: u64 = 64;

/// A method's update at the start of a seed; the first two fields say whose it is.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Row {
    seed: u64,
    method: String,
    draws: u64,
    /// Mean number of sampled tokens.
    tokens: f64,
    /// `E|g|²` and `|E g|²`.
    square: f64,
    mean_square: f64,
}

/// Measures what is missing on the first `seeds` evaluation seeds of a protocol.
///
/// # Errors
/// [`LabError`](crate::LabError) for a protocol that cannot be followed, a file of other results, or an update that fails.
pub fn noise(protocol: &Path, task: Task, file: &Path, seeds: usize) -> Result<()> {
    let branch = read(protocol)?;
    let words = named("noise", protocol, task, "FILE SEEDS", branch.study.version);
    let seeds: Vec<u64> = branch.study.seeds.evaluation.iter().copied().take(seeds).collect();
    branch.noise(task, (&words, file), &seeds, DRAWS).map(drop)
}

/// The prompts of a step, and the responses to each.
type First = (Vec<TrainingPrompt>, usize);

impl Branch {
    fn noise(&self, task: Task, (words, file): (&str, &Path), seeds: &[u64], draws: u64) -> Result<Vec<Row>> {
        let results = Results::open::<Row>(file, words, 2)?;
        let jobs = |seed: u64| {
            let job = |m: &Method| Job::one(vec![(seed as usize).into(), m.name.as_str().into()], m.clone());
            self.study.methods.iter().map(job).collect()
        };
        let row = |seed: u64, method: &Method, row: Row| {
            say(&format!("seed {seed}, {}", method.label));
            Ok(vec![cells_of(&Row { seed, method: method.name.clone(), ..row })])
        };
        match task {
            Task::Addition => {
                let lab = |seed| Lab::of_seed(seed, &self.overrides);
                fill(&results, seeds, jobs, lab, |lab, method| {
                    let own =
                        self.adding(lab, method, |e, context, first| measured(e, context, first, draws))?;
                    row(lab.session.config.seed, method, own)
                })?;
            }
            Task::Chain => {
                let start = |seed| Start::new(&self.chain, seed);
                fill(&results, seeds, jobs, start, |start, method| {
                    let own =
                        self.chaining(start, method, |e, context, first| measured(e, context, first, draws))?;
                    row(start.settings.seed, method, own)
                })?;
            }
        }
        Ok(results.rows()?)
    }

    /// Hands a method's first step on addition to `draw`: the engine, the context and the prompts.
    fn adding<T>(
        &self,
        lab: &Lab,
        method: &Method,
        draw: impl FnOnce(&mut CpuEngine, StepContext<'_>, First) -> Result<T>,
    ) -> Result<T> {
        let session = self.session(Task::Addition, method, lab.session.config.seed)?;
        let rl = &session.config.rl;
        let critic = session.settings.critic.is_some();
        let mut engine = lab.engine(critic)?;
        let prompts = session.prompts(APART..APART + rl.prompts_per_step as u64)?;
        draw(&mut engine, session.context(), (prompts, rl.group_size))
    }

    /// [`Branch::adding`] on CHAIN.
    fn chaining<T>(
        &self,
        start: &Start<'_>,
        method: &Method,
        draw: impl FnOnce(&mut CpuEngine, StepContext<'_>, First) -> Result<T>,
    ) -> Result<T> {
        let (settings, configured) = (self.on_chain(start, method)?, configured(method));
        let context = StepContext::new(&settings, configured.method.as_ref(), &start.verifier);
        let rl = &self.chain.setup.rl;
        let weights = start.model.parameters().clone();
        let mut engine = start.engine_with(weights, None, settings.critic.is_some())?;
        draw(&mut engine, context, (start.prompts(Part::Training, APART..APART + rl.prompts), rl.group))
    }
}

/// The row of so many updates, without its key.
fn measured(
    engine: &mut CpuEngine,
    context: StepContext<'_>,
    (prompts, group): First,
    draws: u64,
) -> Result<Row> {
    let mut moments = Moments::default();
    let mut tokens = 0;
    for draw in 0..draws {
        let rollout = context.sample(engine, prompts.clone(), group, APART + draw)?;
        moments.add(&gradient(engine, context, &rollout)?);
        tokens += rollout.sampled_tokens;
    }
    let [square, mean_square] = moments.squares();
    Ok(Row { draws, tokens: tokens as f64 / draws as f64, square, mean_square, ..Row::default() })
}

/// The gradient of a method's loss on a rollout, in all parameters.
fn gradient(engine: &mut CpuEngine, context: StepContext<'_>, rollout: &Rollout) -> Result<Vec<f32>> {
    let on_tree = OnTree { method: context.method, segments: &rollout.segments };
    let method: &dyn Credits = if rollout.segments.is_empty() { context.method } else { &on_tree };
    let responses = rollout.groups.iter().flat_map(|g| &g.responses);
    let logps: Vec<Vec<f64>> = responses.map(|r| r.old_logps.clone()).collect();
    let loss = methods::evaluate(method, &rollout.groups, &logps);
    let prompts: Vec<&[u32]> = rollout.prompts.iter().map(|p| p.tokens.as_slice()).collect();
    let (batch, settings) = (Batch::new(&prompts, &rollout.groups), context.settings);
    let options = ForwardOptions { temperature: settings.sampling.temperature, ..ForwardOptions::default() };
    pulled(engine, batch, &loss.dlogps, options, settings.memory.micro_batch_tokens)
}

/// Sums over draws of a vector.
#[derive(Default)]
struct Moments {
    draws: f64,
    sum: Vec<f64>,
    squares: f64,
}

impl Moments {
    fn add(&mut self, draw: &[f32]) {
        self.sum.resize(draw.len(), 0.0);
        self.sum.iter_mut().zip(draw).for_each(|(sum, x)| *sum += f64::from(*x));
        self.squares += dot(draw, draw);
        self.draws += 1.0;
    }

    /// `E|g|²`, and the mean of `<g, g'>` over pairs of different draws.
    fn squares(&self) -> [f64; 2] {
        let of_sum: f64 = self.sum.iter().map(|x| x * x).sum();
        [self.squares / self.draws, (of_sum - self.squares) / (self.draws * (self.draws - 1.0))]
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::small;
    use super::*;
    use grpo_lambda_decoder::optim::StepOutcome;

    /// Over all pairs of 0 and [3, 4], each drawn with probability 1/2: `E|g|² = 25/2` and `|E g|² = 25/4`.
    #[test]
    fn the_moments_of_two_draws_are_on_average_those_of_the_vector() {
        let draws = [[0.0f32, 0.0], [3.0, 4.0]];
        let mut mean = [0.0; 2];
        for (a, b) in draws.iter().flat_map(|a| draws.iter().map(move |b| (a, b))) {
            let mut moments = Moments::default();
            [a, b].into_iter().for_each(|draw| moments.add(draw));
            mean.iter_mut().zip(moments.squares()).for_each(|(mean, own)| *mean += own / 4.0);
        }
        assert_eq!(mean, [12.5, 6.25]);
    }

    /// The norm of the gradient that a step of a run has from the same rollout; true if it is not 0.
    fn compare(engine: &mut CpuEngine, context: StepContext<'_>, (prompts, group): First) -> Result<bool> {
        let rollout = context.sample(engine, prompts, group, APART)?;
        let own = gradient(engine, context, &rollout)?;
        engine.gradients().clear();
        let report = context.step(engine, &rollout, 0.0)?;
        let Some(StepOutcome::Applied { grad_norm, .. }) = report.update() else { panic!("{report:?}") };
        let norm = dot(&own, &own).sqrt();
        assert!((norm - grad_norm).abs() <= 1e-5 * grad_norm, "{norm} for {grad_norm}");
        Ok(norm > 0.0)
    }

    #[test]
    fn the_gradient_is_that_of_a_step() {
        let branch = small();
        let seed = branch.study.seeds.evaluation[0];
        let lab = Lab::of_seed(seed, &branch.overrides).expect("a start");
        for method in &branch.study.methods {
            assert!(branch.adding(&lab, method, compare).expect("a step"), "{}", method.name);
        }
    }

    #[test]
    fn a_stopped_measurement_goes_on_to_the_same_rows() {
        let folder = tempfile::tempdir().expect("a folder");
        let branch = small();
        for task in Task::ALL {
            let [whole, cut] =
                ["whole", "cut"].map(|name| folder.path().join(format!("{name}_{}", task.name())));
            let go_on = |path: &Path| branch.noise(task, ("x", path), &branch.study.seeds.evaluation, 3);
            let all = go_on(&whole).expect("rows");
            assert_eq!(all.len(), branch.study.methods.len());
            assert!(
                all.iter().all(|row| row.draws == 3 && row.tokens > 0.0 && row.square.is_finite()),
                "{all:?}"
            );
            let text = std::fs::read_to_string(&whole).expect("written");
            let start: Vec<&str> = text.lines().take(5).collect();
            std::fs::write(&cut, start.join("\n") + "\n").expect("written");
            assert_eq!(go_on(&cut).expect("rows"), all, "{task:?}");
        }
    }
}
