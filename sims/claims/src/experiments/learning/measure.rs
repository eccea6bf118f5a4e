//! Runs, choices and their statistics.

use super::scores::{Key, Overall, Plan, Regime, Scores, train};
use super::variant::{BASELINE, PAPER, Variant, variants};
use crate::experiment::Context;
use crate::experiments::common::mean;
use crate::training::{self, Choice, GROUP, Grid, Task, crossed, tasks};
use grpo_lambda::trace::{Both, Recent, Trace};
use grpo_lambda_mdp::Oracle;
use grpo_lambda_mdp::expected::{self, Situation, compare, implied};
use grpo_lambda_stats::Bootstrap;
use rayon::prelude::*;

/// The amount of work.
pub(super) struct Size {
    pub(super) runs: usize,
    pub(super) plan: Plan,
    pub(super) grid: Grid,
    pub(super) resamples: usize,
    pub(super) full: bool,
}

impl Size {
    pub(super) fn new(full: bool) -> Size {
        let quick = Size {
            runs: 30,
            plan: Plan { updates: 80, every: 2 },
            grid: Grid { low: -1, high: 10, per_octave: 1, widen: 4, seeds: 10 },
            resamples: 1000,
            full,
        };
        if !full {
            return quick;
        }
        Size {
            runs: 100,
            plan: Plan { updates: 320, every: 8 },
            grid: Grid { per_octave: 2, seeds: 30, ..quick.grid },
            resamples: 4000,
            full,
        }
    }
}

/// Everything that was run and chosen.
pub(super) struct Comparison {
    pub(super) tasks: Vec<Task>,
    pub(super) variants: Vec<Variant>,
    pub(super) grid: Grid,
    pub(super) plan: Plan,
    pub(super) runs: usize,
    /// `[variant][task]`.
    pub(super) choices: Vec<Vec<Choice>>,
    pub(super) exact: Exact,
    pub(super) scores: Scores,
    /// `[regime][variant]`, `None` where a variant has no place in a regime.
    pub(super) overall: Vec<Vec<Option<Overall>>>,
    /// `J/J*` after the last update, each variant at its tuned rate, `[variant][task]`.
    pub(super) last: Vec<Vec<f64>>,
}

/// Exact numbers of the initial policies.
pub(super) struct Exact {
    /// The expected first update against the policy gradient, `[variant][task]`; `None` where the exact sum would take too long.
    pub(super) updates: Vec<Vec<Option<expected::Comparison>>>,
    /// The expected first update of the paper's first variant with weights of mean 1, by task.
    pub(super) unit_updates: Vec<Option<expected::Comparison>>,
    /// The mean on-policy weight of a token over the tasks: recent, both.
    pub(super) mean_weights: [f64; 2],
    /// Implied credit of the choices on the first task, by variant.
    pub(super) credits: Vec<(&'static str, Vec<f64>)>,
}

/// The variants whose credit on the first task is named in a finding.
const CREDITED: [&str; 6] =
    [BASELINE, "GRPO clamped", "RLOO", PAPER[0], PAPER[1], "recent trace .99 terminal"];

/// Runs everything.
///
/// # Errors
/// If settings are refused.
pub(super) fn measure(context: &Context, size: &Size) -> anyhow::Result<Comparison> {
    let (tasks, variants) = (tasks(size.full)?, variants());
    let Size { runs, plan, grid, .. } = *size;
    let done = context.pieces(0.0..0.5, variants.len() * tasks.len());
    let choose = |v: usize, t: usize| -> anyhow::Result<Choice> {
        let (method, task) = (variants[v].build(&tasks[t], false)?, &tasks[t]);
        let choice = training::choose(grid, context.seed, &task.name, |rate, stream| {
            train(task, method.as_ref(), rate, plan, stream).area
        });
        done("learning rates");
        Ok(choice)
    };
    let choices = crossed(variants.len(), tasks.len(), choose)?;
    (context.progress)(0.5, "exact first updates");
    let exact = Exact::new(&tasks, &variants)?;

    let best: Vec<Vec<f64>> = choices.iter().map(|c| c.iter().map(|c| c.rate).collect()).collect();
    let bootstrap = Bootstrap { resamples: size.resamples, seed: context.seed, ..Bootstrap::default() };
    let cells = Regime::ALL.len() * variants.len() * tasks.len();
    let done = context.pieces(0.5..0.9, cells);
    let tick = || done("training");
    let scores = Scores::train(&tasks, &variants, &best, (runs, plan, context.seed), bootstrap, &tick)?;
    (context.progress)(0.9, "intervals");
    let overall_at =
        |&regime: &Regime| (0..variants.len()).into_par_iter().map(|r| scores.overall((regime, r))).collect();
    let overall = Regime::ALL.par_iter().map(overall_at).collect();
    let last = |r: usize, t: usize| scores.point((Regime::OwnBest, r), t..t + 1, |run| run.last);
    let last = |r: usize| (0..tasks.len()).map(|t| last(r, t).unwrap_or(f64::NAN)).collect();
    let last = (0..variants.len()).map(last).collect();
    Ok(Comparison { tasks, variants, grid, plan, runs, choices, exact, scores, overall, last })
}

impl Exact {
    fn new(tasks: &[Task], variants: &[Variant]) -> anyhow::Result<Exact> {
        let paper = find(variants, PAPER[0]);
        let weight = |of: &dyn Fn(&Task) -> f64| mean(&tasks.iter().map(of).collect::<Vec<_>>());
        Ok(Exact {
            updates: crossed(variants.len(), tasks.len(), |v, t| {
                first_update(&tasks[t], &variants[v], false)
            })?,
            unit_updates: crossed(1, tasks.len(), |_, t| first_update(&tasks[t], &variants[paper], true))?
                .concat(),
            mean_weights: [
                weight(&|task| mean_weight(task, &Recent { q: 0.99 })),
                weight(&|task| mean_weight(task, &Both { q: 0.99 })),
            ],
            credits: CREDITED
                .into_iter()
                .map(|name| Ok((name, credit(&tasks[0], &variants[find(variants, name)])?)))
                .collect::<anyhow::Result<_>>()?,
        })
    }
}

fn find(variants: &[Variant], name: &str) -> usize {
    variants.iter().position(|r| r.name == name).expect("a name of the list of variants")
}

impl Comparison {
    pub(super) fn index(&self, name: &str) -> usize {
        find(&self.variants, name)
    }

    /// Every regime with every variant.
    pub(super) fn keys(&self) -> Vec<Key> {
        let variants = 0..self.variants.len();
        Regime::ALL.into_iter().flat_map(|regime| variants.clone().map(move |r| (regime, r))).collect()
    }

    /// A variant against GRPO.
    pub(super) fn overall(&self, regime: Regime, variant: usize) -> Option<&Overall> {
        self.overall[regime as usize][variant].as_ref()
    }

    /// A variant against GRPO, by name; every variant named in a finding has a place in every regime asked for.
    pub(super) fn against(&self, regime: Regime, name: &str) -> &Overall {
        self.overall(regime, self.index(name)).expect("the variant has a place in the regime")
    }
}

/// The expected first update of a variant against the policy gradient; `None` if the exact sum would take too long.
///
/// # Errors
/// If the settings are refused.
fn first_update(
    task: &Task,
    variant: &Variant,
    unit_mean: bool,
) -> anyhow::Result<Option<expected::Comparison>> {
    let method = variant.build(task, unit_mean)?;
    let situation = Situation::on_policy(&task.tree, &task.start, GROUP);
    let oracle = Oracle::new(&task.tree, &task.start);
    Ok(implied(method.as_ref(), &situation).ok().map(|update| compare(&update, &oracle)))
}

/// The implied credit `ω(s,a)` per edge of the expected first update.
///
/// # Errors
/// If the settings are refused or the exact sum would take too long.
pub(super) fn credit(task: &Task, variant: &Variant) -> anyhow::Result<Vec<f64>> {
    let method = variant.build(task, false)?;
    Ok(implied(method.as_ref(), &Situation::on_policy(&task.tree, &task.start, GROUP))?.credit)
}

/// The mean on-policy weight of a token under a trace, `E[Σ_k c_k] / E[T]`, for the initial policy.
fn mean_weight(task: &Task, trace: &dyn Trace) -> f64 {
    let oracle = Oracle::new(&task.tree, &task.start);
    let length = |leaf| task.tree.leaf_len(leaf);
    let mass = oracle.expect(|leaf| trace.column_sums(length(leaf)).iter().sum());
    mass / oracle.expect(|leaf| length(leaf) as f64)
}
