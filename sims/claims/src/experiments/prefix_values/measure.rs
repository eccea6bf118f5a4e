//! What is computed.

use std::sync::atomic::{AtomicUsize, Ordering};

use grpo_lambda::methods::Method;
use grpo_lambda_mdp::zoo::{self, Random};
use rayon::prelude::*;

use super::simulate::{Draws, simulate};
use crate::experiment::Context;
use crate::experiments::common::mdp::{Mdp, random_mdps};
use crate::experiments::common::methods::method;

/// RLOO, whose variance is the unit; two unbiased ones; one with exact values; a biased one; and an unbiased one whose values are regressed on features,
/// with its own shrinkage first.
pub(crate) const METHODS: [(&str, &str, &str); 8] = [
    ("RLOO", "rloo", ""),
    ("Prefix RLOO", "prefix_rloo", ""),
    ("prefix only", "prefix_rloo", "control=state"),
    ("exact values", "ppo", "whiten=false lambda=1 clip=none reduction=response_sum"),
    ("TEMPO, no std", "tempo", "scale=none clip=none reduction=response_sum"),
    ("Ridge RLOO", "ridge_rloo", ""),
    ("Ridge RLOO, κ = 1", "ridge_rloo", "shrinkage=1"),
    ("Ridge RLOO, κ = 16", "ridge_rloo", "shrinkage=16"),
];
/// The places of the methods in [`METHODS`].
pub(crate) const PREFIX: usize = 1;
pub(super) const STATE: usize = 2;
pub(super) const EXACT_VALUES: usize = 3;
pub(super) const TEMPO: usize = 4;
pub(super) const RIDGE: usize = 5;
pub(super) const OTHER_RIDGES: [usize; 2] = [6, 7];

/// Group sizes; the first is the paper's.
pub(super) const GROUPS: [usize; 3] = [8, 16, 32];
/// The values of λ.
pub(super) const LAMBDAS: [f64; 8] = [0.0, 0.2, 0.4, 0.6, 0.8, 0.9, 0.95, 1.0];
/// Responses of the largest task.
const LARGEST: usize = 300;
/// The least share of RLOO's variance that was hoped for.
pub(super) const GOAL: f64 = 0.85;

/// A task at a group size.
#[derive(Clone, Debug)]
pub(super) struct Row {
    pub(super) task: String,
    pub(super) of_zoo: bool,
    pub(super) group: usize,
    /// `E|g - ∇J|²` over RLOO's, with its standard error, by method.
    pub(super) ratio: Vec<(f64, f64)>,
    /// The error at the best step, by method.
    pub(super) error: Vec<f64>,
}

/// The error at the best step of a task, by λ.
#[derive(Clone, Debug)]
pub(super) struct ByLambda {
    pub(super) task: String,
    pub(super) of_zoo: bool,
    /// With values of prefixes from the other responses.
    pub(super) estimated: Vec<f64>,
    /// With exact values.
    pub(super) exact: Vec<f64>,
}

impl ByLambda {
    /// The best λ, and by how much its error is below that of λ = 1, relatively.
    pub(super) fn best(errors: &[f64]) -> (f64, f64) {
        let least = (0..errors.len()).min_by(|&a, &b| errors[a].total_cmp(&errors[b])).unwrap_or(0);
        let at_one = errors[errors.len() - 1];
        // Where every response is known the error is 0 at every λ.
        (LAMBDAS[least], if at_one > 0.0 { 1.0 - errors[least] / at_one } else { 0.0 })
    }
}

pub(super) struct Numbers {
    pub(super) rows: Vec<Row>,
    pub(super) by_lambda: Vec<ByLambda>,
    /// Groups simulated per task at the first group size.
    pub(super) simulated: usize,
}

/// How much is run.
struct Size {
    /// Random trees.
    trees: usize,
    /// Of them, those that larger groups and λ are asked of.
    fewer: usize,
    /// Groups of 8 simulated per task.
    simulated: usize,
}

pub(super) fn measure(context: &Context) -> anyhow::Result<Numbers> {
    let size = if context.full {
        Size { trees: 300, fewer: 300, simulated: 20_000 }
    } else {
        Size { trees: 300, fewer: 40, simulated: 200 }
    };
    let tasks = tasks(context.seed, size.trees)?;
    let of = |&(name, settings): &(&str, &str)| method(name, settings);
    let methods: Vec<Box<dyn Method>> =
        METHODS.iter().map(|(_, name, settings)| of(&(name, settings))).collect::<anyhow::Result<_>>()?;
    let done = AtomicUsize::new(0);
    let all = tasks.len() * (GROUPS.len() + 1);
    let tick = || {
        let share = (done.fetch_add(1, Ordering::Relaxed) + 1) as f64 / all as f64;
        (context.progress)(0.95 * share, "simulated groups");
    };
    let zoo = tasks.iter().filter(|t| t.of_zoo).count();
    let fewer = &tasks[..zoo + size.fewer];
    let mut rows = Vec::new();
    for group in GROUPS {
        // The same number of responses at every group size.
        let groups = size.simulated * GROUPS[0] / group;
        let asked = if group == GROUPS[0] { &tasks[..] } else { fewer };
        let of = |(t, task): (usize, &Task)| {
            let work = || {
                let mdp = (&task.mdp.tree, &task.mdp.policy);
                let draws = simulate(mdp, &methods, (groups, group), seed(context, t));
                let ratio = |d: &Draws| d.variance_ratio(&draws[0]);
                Ok((draws.iter().map(ratio).collect(), draws.iter().map(Draws::error).collect()))
            };
            let (ratio, error) = context.store.piece(&format!("methods/{group}/{t}"), work)?;
            tick();
            anyhow::Ok(Row { task: task.mdp.name.clone(), of_zoo: task.of_zoo, group, ratio, error })
        };
        rows.extend(asked.par_iter().enumerate().map(of).collect::<anyhow::Result<Vec<_>>>()?);
    }
    let by_lambda = by_lambda(context, fewer, size.simulated, &tick)?;
    Ok(Numbers { rows, by_lambda, simulated: size.simulated })
}

/// The errors of every λ on these tasks; `tick` is told of each that is done.
fn by_lambda(
    context: &Context,
    tasks: &[Task],
    simulated: usize,
    tick: &(dyn Fn() + Sync),
) -> anyhow::Result<Vec<ByLambda>> {
    let lambdas = |kind: &str| -> anyhow::Result<Vec<Box<dyn Method>>> {
        let (name, settings) = match kind {
            "estimated" => ("prefix_rloo", "control=state"),
            _ => ("ppo", "whiten=false clip=none reduction=response_sum"),
        };
        LAMBDAS.iter().map(|l| method(name, &format!("{settings} lambda={l}"))).collect()
    };
    let both: Vec<Box<dyn Method>> =
        [lambdas("estimated")?, lambdas("exact")?].into_iter().flatten().collect();
    let of = |(t, task): (usize, &Task)| {
        let work = || {
            let mdp = (&task.mdp.tree, &task.mdp.policy);
            let draws = simulate(mdp, &both, (simulated, GROUPS[0]), seed(context, 10_000 + t));
            Ok(draws.iter().map(Draws::error).collect())
        };
        let errors: Vec<f64> = context.store.piece(&format!("lambda/{t}"), work)?;
        tick();
        let (estimated, exact) = (errors[..LAMBDAS.len()].to_vec(), errors[LAMBDAS.len()..].to_vec());
        Ok(ByLambda { task: task.mdp.name.clone(), of_zoo: task.of_zoo, estimated, exact })
    };
    tasks.par_iter().enumerate().map(of).collect()
}

struct Task {
    mdp: Mdp,
    of_zoo: bool,
}

/// The zoo but its largest trees, and random trees.
fn tasks(seed: u64, random: usize) -> anyhow::Result<Vec<Task>> {
    let mut tasks = Vec::new();
    for entry in zoo::all() {
        let mdp = Mdp::named(entry.name)?;
        if mdp.tree.leaf_count() <= LARGEST {
            tasks.push(Task { mdp, of_zoo: true });
        }
    }
    let random = random_mdps(random, seed, Random::default())?;
    tasks.extend(random.into_iter().map(|mdp| Task { mdp, of_zoo: false }));
    Ok(tasks)
}

fn seed(context: &Context, task: usize) -> u64 {
    context.seed.wrapping_add((task as u64) << 20)
}
