//! Rewards that are fair coins: what a trace with clamped advantages does where there is nothing to learn.
//!
//! Every arm starts from the same weights and takes as many steps on the same prompts. The mean length before and
//! after is that of the same prompts, on which no arm trains, with the same random numbers. The predicted change of
//! plain gradient descent is `force`'s at the start weights; under AdamW nothing is predicted.

use std::path::Path;

use grpo_lambda::advantage::ClampPart;
use grpo_lambda::methods;
use grpo_lambda_stats::table::Cell;

use super::arm::{Advantages, MOST_COINS};
use super::fill::{Job, fill};
use super::force::{APART, Force, Weighing, force};
use super::lab::{Lab, LabError, Optimiser};
use super::store::Results;
use grpo_lambda_trainer::step::engine::CpuEngine;

/// Decays of the trace; 0 is GRPO with a token mean.
pub const LAMBDAS: [f64; 3] = [0.0, 0.9, 0.99];
/// The parts of a clamp at -0.1 that are on: none, both, and both put back to a mean of 0.
pub const PARTS: [ClampPart; 3] = [ClampPart::None, ClampPart::Both, ClampPart::Reweighting];
/// The paper's clamp, weaker ones for the dose, and the one that leaves positive advantages alone, or from above
/// negative ones.
pub const CLAMP: f64 = -0.1;
pub const WEAKER: [f64; 2] = [-0.5, -0.8];
pub const ZERO: f64 = 0.0;
/// The name in results of a clamp from above.
const ABOVE: &str = "upper clamp";
/// The learning rate of AdamW.
const ADAMW_RATE: f64 = 2e-4;
/// The constant of the reduction that has one, about the mean length at the start.
const CONSTANT: f64 = 12.0;
/// The model, the length of the runs and the learning rate of plain gradient descent.
const SETTINGS: [&str; 21] = [
    "task.kind=stories",
    "task.levels=1,2",
    "task.max_operand=6",
    "model.hidden=48",
    "model.layers=2",
    "model.heads=2",
    "model.kv_heads=1",
    "model.intermediate=96",
    "adam.weight_decay=0",
    "sft.steps=150",
    "sft.worked_share=0.5",
    "sft.lr=3e-3",
    "rl.steps=40",
    "rl.prompts_per_step=16",
    "rl.group_size=8",
    "rl.warmup=0",
    "rl.grad_clip=none",
    "rl.max_new_tokens=32",
    "rl.lr=0.0006",
    "reward.accuracy=0",
    "reward.coin=1",
];

/// Columns of the results; the first six say whose a row is.
const COLUMNS: [&str; 15] = [
    "optimiser",
    "lambda",
    "part",
    "clamp",
    "reduction",
    "seed",
    "steps",
    "learning_rate",
    "mean_advantage",
    "length_before",
    "length_after",
    "change",
    "predicted_change",
    "predicted_error",
    "grad_norm",
];
const KEYS: usize = 6;

/// One of the compared settings.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Arm {
    pub optimiser: Optimiser,
    pub lambda: f64,
    pub part: ClampPart,
    pub clamp: f64,
    /// True for a clamp from above.
    pub above: bool,
    pub weighing: Weighing,
}

impl Arm {
    /// All arms: every decay with every part of the paper's clamp, the longest trace with weaker clamps, and under
    /// AdamW GRPO and the longest trace, all with a token mean; and for the length law, with no trace and the
    /// longest one, under each reduction no clamp, the paper's, its offset alone, and positive and negative
    /// advantages alone.
    pub fn all() -> Vec<Arm> {
        let (above, weighing) = (false, Weighing::TokenMean);
        let arms = |optimiser| {
            move |lambda| PARTS.map(|part| Arm { optimiser, lambda, part, clamp: CLAMP, above, weighing })
        };
        let full = LAMBDAS.into_iter().flat_map(arms(Optimiser::Sgd));
        let (optimiser, longest, part) = (Optimiser::Sgd, LAMBDAS[2], ClampPart::Both);
        let weaker = WEAKER.map(|clamp| Arm { optimiser, lambda: longest, part, clamp, above, weighing });
        let ends = [LAMBDAS[0], longest];
        let adam = ends.into_iter().flat_map(arms(Optimiser::AdamW));
        let maps = [
            (ClampPart::None, CLAMP, false),
            (ClampPart::Both, CLAMP, false),
            (ClampPart::Offset, CLAMP, false),
            (ClampPart::Both, ZERO, false),
            (ClampPart::Both, ZERO, true),
        ];
        let law = Weighing::ALL.into_iter().flat_map(|weighing| {
            ends.into_iter().flat_map(move |lambda| {
                maps.map(|(part, clamp, above)| Arm { optimiser, lambda, part, clamp, above, weighing })
            })
        });
        let mut all: Vec<Arm> = full.chain(weaker).chain(adam).collect();
        for arm in law {
            if !all.contains(&arm) {
                all.push(arm);
            }
        }
        all
    }

    fn rate(self, lab: &Lab) -> f64 {
        match (self.optimiser, self.weighing) {
            (Optimiser::Sgd, Weighing::Constant) => lab.session.config.rl.lr / CONSTANT,
            (Optimiser::Sgd, _) => lab.session.config.rl.lr,
            (Optimiser::AdamW, _) => ADAMW_RATE,
        }
    }

    fn method(self) -> Advantages {
        let settings = format!("lambda={} clamp=none reduction={}", self.lambda, self.weighing.names().1);
        let configured = methods::parse("grpo_lambda", &settings).expect("the settings are the method's");
        Advantages { method: configured.method, clamp: self.clamp, above: self.above, part: self.part }
    }

    fn key(self, seed: u64) -> Vec<Cell> {
        vec![
            self.optimiser.name().into(),
            self.lambda.into(),
            if self.above { ABOVE } else { self.part.name() }.into(),
            self.clamp.into(),
            self.weighing.names().0.into(),
            (seed as usize).into(),
        ]
    }
}

/// Runs what is left of the experiment; `overrides` come after its own settings.
pub fn run(path: &Path, command: &str, seeds: u64, overrides: &[String]) -> Result<(), LabError> {
    let size = Lab::config(0, &SETTINGS, overrides)?.rl.group_size;
    if size > MOST_COINS {
        return Err(LabError::Coins { size, most: MOST_COINS });
    }
    let results = Results::open(path, command, &COLUMNS, KEYS)?;
    let seeds: Vec<u64> = (0..seeds).collect();
    let jobs = |seed| Arm::all().into_iter().map(|arm| Job::one(arm.key(seed), (arm, seed))).collect();
    let row = |start: &Start, (arm, seed): &(Arm, u64)| {
        Ok(vec![[arm.key(*seed), of_arm(&start.lab, *arm, &start.forces, start.length)?].concat()])
    };
    fill(&results, &seeds, jobs, |seed| Start::new(seed, overrides), row)
}

/// The start of a seed, with what its weights predict.
struct Start {
    lab: Lab,
    forces: Vec<Force>,
    length: f64,
}

impl Start {
    fn new(seed: u64, overrides: &[String]) -> Result<Start, LabError> {
        let lab = Lab::of_seed(seed, &SETTINGS, overrides)?;
        let mut kinds: Vec<(f64, Weighing)> = Vec::new();
        for arm in Arm::all().into_iter().filter(|arm| arm.optimiser == Optimiser::Sgd) {
            if !kinds.contains(&(arm.lambda, arm.weighing)) {
                kinds.push((arm.lambda, arm.weighing));
            }
        }
        let forces = force(&lab, &kinds)?;
        let length = length(&lab, &mut lab.engine(Optimiser::Sgd)?.0)?;
        Ok(Start { lab, forces, length })
    }
}

fn of_arm(lab: &Lab, arm: Arm, forces: &[Force], before: f64) -> Result<Vec<Cell>, LabError> {
    let (method, rl, rate) = (arm.method(), &lab.session.config.rl, arm.rate(lab));
    let (mut engine, records) = lab.train(&method, arm.optimiser, rate)?;
    let after = length(lab, &mut engine)?;
    let mean_advantage = method.mean_of_coins(rl.group_size);
    let of_lambda = forces
        .iter()
        .find(|f| (f.lambda, f.weighing) == (arm.lambda, arm.weighing) && arm.optimiser == Optimiser::Sgd);
    let scale = rl.steps as f64 * rate * mean_advantage;
    let norms = records.iter().map(|r| r.grad_norm).sum::<f64>() / records.len() as f64;
    Ok(vec![
        (rl.steps as usize).into(),
        rate.into(),
        mean_advantage.into(),
        before.into(),
        after.into(),
        (after - before).into(),
        of_lambda.map(|f| scale * f.slope).into(),
        of_lambda.map(|f| scale.abs() * f.error).into(),
        norms.into(),
    ])
}

/// Mean length of the responses to prompts that no run trains on.
fn length(lab: &Lab, engine: &mut CpuEngine) -> Result<f64, LabError> {
    const PROMPTS: u64 = 128;
    const GROUP: usize = 16;
    let first = 2 * APART;
    let rollout = lab.sample(engine, lab.session.prompts(first..first + PROMPTS)?, GROUP, first)?;
    let all = rollout.groups.iter().flat_map(|g| &g.responses).map(|r| r.len() as f64);
    Ok(all.sum::<f64>() / (PROMPTS as usize * GROUP) as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_with_too_many_results_of_its_coins_is_refused_and_leaves_no_file() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("noise.csv");
        let refused =
            run(&path, "noise", 1, &["rl.group_size=64".to_owned()]).expect_err("2^64 results").to_string();
        assert!(
            refused.starts_with("rl.group_size = 64: the mean advantage is over all 2^64 results"),
            "{refused}"
        );
        assert!(!path.exists());
    }
}
