//! `sampler`: groups that are sampled in systematic sets, with baselines from other sets only.
//!
//! ```text
//! set           h responses at the codes U + k/h mod 1 of one uniform U, decoded by inverse distribution functions
//! update        1/G Σ_i Σ_t (r_i - b(s_t)) ∇log π(a_t|s_t),     b from the other sets, or from an earlier visit of the prompt
//! ```
//! Unbiased at every group size, with an exact variance (`tests/theory/sampler.rs`); see `grpo_lambda::systematic` and
//! `grpo_lambda_mdp::expected::{SetMoments, PrefixMoments}`. Next to them stand bounds of independent sampling: a known
//! `J`, the posterior means of an estimator that knows how the trees are drawn, exact values and the best baseline of
//! prefixes. `trees` gives the methods that branch
//! trees of their own.

mod chains;
mod findings;
mod shown;
mod tasks;
mod trees;

use crate::experiment::{Context, Experiment, Parts};
use chains::{ChainRow, chains};
use findings::findings;
use rayon::prelude::*;
use shown::{figures, tables};
use tasks::{Row, tasks};
use trees::{TreeRow, trees};

pub(super) static EXPERIMENT: Experiment = Experiment {
    id: "sampler",
    title: "How far does systematic sampling of a group lower the variance without a bias?",
    claim: "Two systematic sets, each with the other's mean as its baseline, have at most 0.85 of RLOO's variance on \
        four tasks of five",
    source: "Our question, after Arithmetic Sampling (arXiv 2210.15458) and QuasiMoTTo (arXiv 2607.01179); the \
        numbers were predicted before the measurement",
    run: |context| Parts { measure, findings, tables, figures }.report(context),
};

/// Group sizes.
const GROUPS: [usize; 3] = [8, 16, 32];
/// The share of RLOO's variance that was hoped for.
const GOAL: f64 = 0.85;

/// The estimators, in the order of tables.
const METHODS: [&str; 11] = [
    "Prefix RLOO",
    "prefix only",
    "two systematic sets",
    "two systematic sets, prefix Q",
    "four systematic sets",
    "one systematic set, earlier visit",
    "known J",
    "posterior values",
    "exact values",
    "best baseline of prefixes",
    "exact values of tokens",
];
/// The places of the methods in [`METHODS`].
const PREFIX: usize = 0;
const STATE: usize = 1;
const HALVES: usize = 2;
const HALVES_Q: usize = 3;
const QUARTERS: usize = 4;
const VISIT: usize = 5;
const KNOWN: usize = 6;
const POSTERIOR: usize = 7;
const VALUES: usize = 8;
const BEST: usize = 9;
const TOKENS: usize = 10;

struct Numbers {
    rows: Vec<Row>,
    chains: Vec<ChainRow>,
    trees: Vec<TreeRow>,
    /// Groups of 8 simulated per task.
    simulated: usize,
}

/// The amount of simulation; what is exact is computed on all tasks.
#[derive(Clone, Copy)]
struct Size {
    /// Random trees.
    simulated_trees: usize,
    /// Groups of 8 per task.
    groups: usize,
    /// Groups per chain.
    chain_groups: usize,
    /// Trees of samples per task and method.
    branched: usize,
}

fn measure(context: &Context) -> anyhow::Result<Numbers> {
    let size = if context.full {
        Size { simulated_trees: 300, groups: 4000, chain_groups: 50_000, branched: 20_000 }
    } else {
        Size { simulated_trees: 40, groups: 120, chain_groups: 1500, branched: 1200 }
    };
    (context.progress)(0.05, "systematic sets on trees");
    let tasks = tasks(context.seed)?;
    let rows = tasks.par_iter().enumerate().map(|(t, task)| {
        let simulated = if task.simulated(size.simulated_trees) { size.groups } else { 0 };
        let seed = context.seed.wrapping_add((t as u64) << 20);
        context.store.piece(&format!("tree/{t}"), || task.rows(simulated, seed))
    });
    let rows = rows.collect::<anyhow::Result<Vec<_>>>()?.concat();
    (context.progress)(0.7, "systematic sets on chains");
    let chains = chains(size.chain_groups, context.seed)?;
    (context.progress)(0.85, "trees of samples");
    Ok(Numbers { rows, chains, trees: trees(size.branched, context.seed)?, simulated: size.groups })
}
