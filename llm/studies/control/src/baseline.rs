//! The variance of the gradient of one group on addition, by baseline and by sampling.
//!
//! ```text
//! variance   1/2 E|g - g'|²        g, g': gradients of two independent groups of the same prompt, averaged over prompts
//! ```
//! All are unbiased, so that the variance is all in which their gradients differ. They see the same groups, at the
//! start weights and after RL with RLOO; methods of systematic sets see groups of their own, of the same prompts. A
//! group whose rewards agree has the gradient 0 with every baseline.

use std::path::Path;

use grpo_lambda::group::Group;
use grpo_lambda::methods::{self, Configured};
use grpo_lambda::systematic::Sets;
use grpo_lambda_stats::table::Cell;

use super::fill::{Job, fill};
use super::force::{APART, pulled_in};
use super::lab::{ADDITION, Lab, LabError, Optimiser};
use super::store::Results;
use grpo_lambda_trainer::step::engine::CpuEngine;
use grpo_lambda_trainer::step::micro_batch::Batch;
use grpo_lambda_trainer::step::{Rollout, StepContext, TrainingPrompt};

/// RLOO, whose variance is the unit, and the others.
const METHODS: [(&str, &str); 8] = [
    ("rloo", ""),
    ("ridge_rloo", ""),
    ("ridge_rloo", "shrinkage=1"),
    ("ridge_rloo", "shrinkage=16"),
    ("prefix_rloo", ""),
    ("prefix_rloo", "control=state"),
    ("systematic_rloo", ""),
    ("systematic_prefix_rloo", ""),
];

/// The weights at which it is measured.
const WEIGHTS: [&str; 2] = ["start", "after RL"];
/// The learning rate of RL, at which AdamW solved most additions in [`clamp`](super::clamp).
const RATE: f64 = 0.001;
/// Pairs of groups.
const PAIRS: u64 = 100;

/// Columns of the results; the first three say whose a row is.
const COLUMNS: [&str; 7] = ["seed", "weights", "method", "pairs", "mixed_groups", "variance", "over_rloo"];
const KEYS: usize = 3;

/// Runs what is left of the experiment; `overrides` come after its own settings.
pub fn run(path: &Path, command: &str, seeds: u64, overrides: &[String]) -> Result<(), LabError> {
    let results = Results::open(path, command, &COLUMNS, KEYS)?;
    let seeds: Vec<u64> = (0..seeds).collect();
    let job = |seed, weights| Job {
        keys: METHODS.iter().map(|m| key(seed, weights, m)).collect(),
        what: (seed, weights),
    };
    let jobs = |seed| WEIGHTS.map(|weights| job(seed, weights)).into_iter().collect();
    // The method of the configuration says which evidence is kept; those that need none do not read it.
    let settings = [&ADDITION[..], &["method.name=ridge_rloo"]].concat();
    let rows = |lab: &Lab, (seed, weights): &(u64, &str)| at_weights(lab, *seed, weights);
    fill(&results, &seeds, jobs, |seed| Lab::of_seed(seed, &settings, overrides), rows)
}

fn key(seed: u64, weights: &str, method: &(&str, &str)) -> Vec<Cell> {
    vec![(seed as usize).into(), weights.into(), Cell::Text(words(method))]
}

/// The rows of all methods.
fn at_weights(lab: &Lab, seed: u64, weights: &str) -> Result<Vec<Vec<Cell>>, LabError> {
    let mut engine = match weights == WEIGHTS[0] {
        true => lab.engine(Optimiser::AdamW)?.0,
        false => lab.train(parsed(&METHODS[0]).method.as_ref(), Optimiser::AdamW, RATE)?.0,
    };
    let measured = variances(lab, &mut engine)?;
    let of_rloo = measured[0].variance;
    let row = |(method, Measured { mixed, variance }): (&(&str, &str), &Measured)| {
        // Where no group is mixed there is no variance to compare.
        let ratio = (of_rloo > 0.0).then(|| variance / of_rloo);
        let numbers = vec![(PAIRS as usize).into(), (*mixed).into(), (*variance).into(), ratio.into()];
        [key(seed, weights, method), numbers].concat()
    };
    Ok(METHODS.iter().zip(&measured).map(row).collect())
}

fn words((name, settings): &(&str, &str)) -> String {
    format!("{name} {settings}").trim_end().to_owned()
}

fn parsed((name, settings): &(&str, &str)) -> Configured {
    methods::parse(name, settings).expect("the settings are the methods'")
}

/// A method's variance, and the number of its groups whose rewards differ.
#[derive(Clone, Copy, Default)]
struct Measured {
    mixed: usize,
    variance: f64,
}

/// The variance of every method, in their order.
fn variances(lab: &Lab, engine: &mut CpuEngine) -> Result<Vec<Measured>, LabError> {
    let methods: Vec<Configured> = METHODS.iter().map(parsed).collect();
    let mut measured = vec![Measured::default(); methods.len()];
    for sampling in [None, Some(Sets::new(2))] {
        let (prompts, rollout) = pairs(lab, engine, sampling)?;
        for (k, prompt) in prompts.iter().enumerate() {
            let pair = [&rollout.groups[k], &rollout.groups[k + PAIRS as usize]];
            let these = measured.iter_mut().zip(&methods).filter(|(_, method)| method.sets() == sampling);
            for (own, configured) in these {
                let mut gradient = |group: &Group| of_group(lab, engine, configured, &prompt.tokens, group);
                let apart =
                    half_squared_distance(gradient(pair[0])?.as_deref(), gradient(pair[1])?.as_deref());
                own.variance += apart / PAIRS as f64;
                own.mixed += pair.iter().filter(|g| differ(g)).count();
            }
        }
    }
    Ok(measured)
}

/// Prompts, and two independent groups of each: the second ones come behind all first ones.
fn pairs(
    lab: &Lab,
    engine: &mut CpuEngine,
    sets: Option<Sets>,
) -> Result<(Vec<TrainingPrompt>, Rollout), LabError> {
    let once = lab.session.prompts(APART..APART + PAIRS)?;
    let again = |(p, k): (&TrainingPrompt, u64)| TrainingPrompt { number: APART + PAIRS + k, ..p.clone() };
    let twice = once.iter().cloned().chain(once.iter().zip(0..PAIRS).map(again)).collect();
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

    #[test]
    fn groups_of_two_have_the_same_variance_with_every_baseline_but_that_of_actions() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("rows.csv");
        // Coins for rewards: half of all groups are mixed, whatever the model knows.
        let small = [
            "rl.group_size=2",
            "rl.steps=1",
            "sft.steps=1",
            "model.hidden=16",
            "model.intermediate=16",
            "reward.accuracy=0",
            "reward.coin=1",
        ];
        run(&path, "test", 1, &small.map(str::to_owned)).expect("it runs");
        let text = std::fs::read_to_string(&path).expect("written");
        let table = grpo_lambda_stats::table::Table::from_csv(&text).expect("a table");
        assert_eq!(table.rows.len(), METHODS.len() * WEIGHTS.len());
        let (method, ratio) = (table.column("method"), table.column("over_rloo"));
        for row in &table.rows {
            let (method, ratio) =
                (row[method.expect("there")].format(12), row[ratio.expect("there")].number());
            let off = (ratio.expect("a number") - 1.0).abs();
            let has_own_groups = method.starts_with("systematic");
            assert!(off < 1e-6 || method == "prefix_rloo" || has_own_groups, "{method}: {off}");
        }
    }
}
