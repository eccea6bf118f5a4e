//! Single-digit addition with the parts of the clamp on and off, at several learning rates, with SGD and AdamW.
//!
//! All runs of a seed start from the same weights and see the same problems. Accuracy is that of all hundred
//! problems with the final weights; a response that cannot be graded counts as wrong.

use std::path::Path;

use grpo_lambda::advantage::ClampPart;
use grpo_lambda::group::Response;
use grpo_lambda::methods;
use grpo_lambda_decoder::generate::SamplingParams;
use grpo_lambda_decoder::model::ForwardOptions;
use grpo_lambda_stats::table::Cell;

use super::arm::Advantages;
use super::fill::{Job, fill};
use super::force::APART;
use super::lab::{ADDITION, Lab, LabError, Optimiser};
use super::noise::CLAMP;
use super::store::Results;
use grpo_lambda_trainer::eval::{EVAL_BATCH, EvalError, Evaluation, evaluate};
use grpo_lambda_trainer::input::stops::Stops;
use grpo_lambda_trainer::input::task::Split;
use grpo_lambda_trainer::step::engine::CpuEngine;
use grpo_lambda_trainer::step::micro_batch::Batch;
use grpo_lambda_trainer::step::{Rollout, TrainingPrompt, micro_batch};

/// Learning rates over the reference rate of the optimiser.
pub const RATIOS: [f64; 6] = [1.0 / 16.0, 1.0 / 8.0, 1.0 / 4.0, 1.0 / 2.0, 1.0, 2.0];

/// The reference rate, in the middle of what a pilot of one seed found GRPO to learn at; nothing was searched.
pub fn reference_rate(optimiser: Optimiser) -> f64 {
    match optimiser {
        Optimiser::Sgd => 0.8,
        Optimiser::AdamW => 0.002,
    }
}

/// Columns of the results; the first four say whose a row is.
const COLUMNS: [&str; 17] = [
    "optimiser",
    "rate",
    "part",
    "seed",
    "rate_over_reference",
    "accuracy_before",
    "accuracy",
    "ungradable",
    "sampled_before",
    "sampled",
    "seldom_solved_before",
    "seldom_solved",
    "often_solved_before",
    "often_solved",
    "entropy",
    "kl",
    "grad_norm",
];
const KEYS: usize = 4;

/// Success rates at the start below and above which a problem is seldom and often solved.
const SELDOM: f64 = 0.25;
const OFTEN: f64 = 0.75;
/// Responses to each problem, at the start and at the end.
const SAMPLES: usize = 16;

#[derive(Clone, Copy)]
struct Arm {
    optimiser: Optimiser,
    ratio: f64,
    part: ClampPart,
}

impl Arm {
    fn rate(self) -> f64 {
        self.ratio * reference_rate(self.optimiser)
    }

    fn key(self, seed: u64) -> Vec<Cell> {
        let part = self.part.name();
        vec![self.optimiser.name().into(), self.rate().into(), part.into(), (seed as usize).into()]
    }
}

/// The settings of the experiment.
#[derive(Clone, Debug)]
pub struct Grid {
    pub seeds: std::ops::Range<u64>,
    pub ratios: Vec<f64>,
    pub parts: Vec<ClampPart>,
    /// Settings after the experiment's own.
    pub overrides: Vec<String>,
}

/// Runs what is left of the experiment.
pub fn run(path: &Path, command: &str, grid: &Grid) -> Result<(), LabError> {
    let results = Results::open(path, command, &COLUMNS, KEYS)?;
    let seeds: Vec<u64> = grid.seeds.clone().collect();
    let jobs = |seed| {
        let arms = |optimiser| {
            let arms = move |&ratio: &f64| grid.parts.iter().map(move |&part| Arm { optimiser, ratio, part });
            grid.ratios.iter().flat_map(arms)
        };
        Optimiser::ALL.into_iter().flat_map(arms).map(|arm| Job::one(arm.key(seed), (arm, seed))).collect()
    };
    let start = |seed| {
        let lab = Lab::of_seed(seed, &ADDITION, &grid.overrides)?;
        Ok((Exam::new(&lab)?, lab))
    };
    let row = |(exam, lab): &(Exam, Lab), (arm, seed): &(Arm, u64)| {
        Ok(vec![[arm.key(*seed), exam.of_arm(lab, *arm)?].concat()])
    };
    fill(&results, &seeds, jobs, start, row)
}

/// All problems, with what the start weights make of them.
pub(super) struct Exam {
    prompts: Vec<TrainingPrompt>,
    accuracy: f64,
    solved: Vec<f64>,
}

impl Exam {
    pub(super) fn new(lab: &Lab) -> Result<Exam, LabError> {
        let problems = lab.session.problems.distinct(Split::Test, 100)?;
        let prompt = |(number, problem): (u64, &grpo_lambda_trainer::input::task::Problem)| {
            let tokens = problem.encode(&lab.session.tokens)?.ids().to_vec();
            Ok::<_, LabError>(TrainingPrompt {
                tokens,
                problem: Some(problem.text().to_owned()),
                gold: problem.gold.clone(),
                number,
                others: Default::default(),
            })
        };
        let prompts = (APART..).zip(&problems).map(prompt).collect::<Result<_, _>>()?;
        let mut exam = Exam { prompts, accuracy: 0.0, solved: Vec::new() };
        let (mut engine, _) = lab.engine(Optimiser::Sgd)?;
        exam.accuracy = greedy(lab, &engine)?[0];
        exam.solved = solved(&exam.sample(lab, &mut engine)?);
        Ok(exam)
    }

    fn sample(&self, lab: &Lab, engine: &mut CpuEngine) -> Result<Rollout, LabError> {
        lab.sample(engine, self.prompts.clone(), SAMPLES, APART)
    }

    fn of_arm(&self, lab: &Lab, arm: Arm) -> Result<Vec<Cell>, LabError> {
        let configured = methods::parse("grpo", "").expect("a method without settings");
        let method = Advantages { method: configured.method, clamp: CLAMP, above: false, part: arm.part };
        let (engine, records) = lab.train(&method, arm.optimiser, arm.rate())?;
        let end = self.at(lab, engine)?;
        let among = |rates: &[f64], of: &dyn Fn(f64) -> bool| {
            let these = rates.iter().zip(&self.solved).filter(|(_, start)| of(**start)).map(|(r, _)| *r);
            mean(these)
        };
        let (seldom, often) = (|p: f64| p < SELDOM, |p: f64| p > OFTEN);
        Ok(vec![
            arm.ratio.into(),
            self.accuracy.into(),
            end.accuracy.into(),
            end.ungradable.into(),
            mean(self.solved.iter().copied()).into(),
            mean(end.solved.iter().copied()).into(),
            among(&self.solved, &seldom).into(),
            among(&end.solved, &seldom).into(),
            among(&self.solved, &often).into(),
            among(&end.solved, &often).into(),
            end.entropy.into(),
            end.kl.into(),
            mean(records.iter().map(|r| r.grad_norm)).into(),
        ])
    }

    /// The exam of the weights with which a run ended.
    pub(super) fn at(&self, lab: &Lab, mut engine: CpuEngine) -> Result<Marks, LabError> {
        let [accuracy, ungradable] = greedy(lab, &engine)?;
        let rollout = self.sample(lab, &mut engine)?;
        let responses = || rollout.groups.iter().flat_map(|g| &g.responses);
        let entropies = responses().filter_map(|r| r.evidence.entropies.as_ref()).flatten().copied();
        Ok(Marks {
            accuracy,
            ungradable,
            solved: solved(&rollout),
            entropy: mean(entropies),
            kl: kl(lab, &rollout)?,
            length: mean(responses().map(|r| r.len() as f64)),
        })
    }
}

/// The result of an [`Exam`].
pub(super) struct Marks {
    /// Shares of all problems that the most probable response solves, and to which it cannot be graded.
    pub(super) accuracy: f64,
    ungradable: f64,
    /// Share of right responses to each problem.
    solved: Vec<f64>,
    entropy: f64,
    /// Mean over tokens of the log-ratio to the start.
    pub(super) kl: f64,
    /// Mean length of a response, in tokens.
    pub(super) length: f64,
}

/// Share of right and of ungradable answers of the most probable responses.
fn greedy(lab: &Lab, engine: &CpuEngine) -> Result<[f64; 2], LabError> {
    let problems = lab.session.problems.distinct(Split::Test, 100)?;
    let sampling = SamplingParams {
        max_new_tokens: lab.session.config.rl.max_new_tokens,
        min_new_tokens: 0,
        temperature: 0.0,
    };
    let stops = Stops::new(&lab.session.tokens, lab.session.problems.stop());
    let found =
        evaluate(engine, stops, (&problems, lab.session.config.seed), (sampling, EVAL_BATCH), &|_, _| ());
    let found = found.map_err(|e| match e {
        EvalError::Rollout(e) => LabError::Rollout(e),
        EvalError::Token(e) => LabError::Token(e),
    })?;
    let (n, found) = (problems.len() as f64, Evaluation::counted(&found));
    Ok([found.correct as f64 / n, found.ungradable as f64 / n])
}

/// The share of right responses to each problem; one that cannot be graded is none.
fn solved(rollout: &Rollout) -> Vec<f64> {
    let right = |r: &Response| f64::from(u8::from(r.reward == Some(1.0)));
    rollout.groups.iter().map(|g| mean(g.responses.iter().map(right))).collect()
}

/// Mean over tokens of `log π - log π_start`, sampled from `π`: an estimate of the KL to the start.
fn kl(lab: &Lab, rollout: &Rollout) -> Result<f64, LabError> {
    let prompts: Vec<&[u32]> = rollout.prompts.iter().map(|p| p.tokens.as_slice()).collect();
    let options =
        ForwardOptions { temperature: lab.session.config.rl.temperature, ..ForwardOptions::default() };
    let mut differences = Vec::new();
    let packed = Batch::new(&prompts, &rollout.groups);
    for part in packed.parts(lab.session.config.memory.micro_batch_tokens) {
        let rows = packed.rows(part.clone());
        let scores = lab.start.score(&rows, options)?.logps;
        let own = micro_batch::flat(&rollout.groups).skip(part.start).take(part.len());
        for ((_, response), start) in own.zip(scores) {
            differences.extend(response.old_logps.iter().zip(start).map(|(now, then)| now - then));
        }
    }
    Ok(mean(differences.into_iter()))
}

fn mean(values: impl Iterator<Item = f64>) -> f64 {
    let (sum, n) = values.fold((0.0, 0.0), |(sum, n), x| (sum + x, n + 1.0));
    sum / n
}
