//! Every entrant on every task at every group size.

use std::sync::atomic::{AtomicUsize, Ordering};

use grpo_lambda::methods;
use grpo_lambda_mdp::Oracle;
use grpo_lambda_mdp::expected::{Situation, cosine, implied_mean};
use grpo_lambda_mdp::zoo::{EosHazardDependent, Family as _};
use rayon::prelude::*;

use super::expectation::Effort;
use super::piece::{MaskedTask, piece};
use super::row::Row;
use crate::atlas::entrants::ENTRANTS;
use crate::atlas::tasks::tasks;
use crate::experiment::Context;
use crate::training::task::Task;

pub(super) struct Size {
    pub(super) groups: Vec<usize>,
    pub(super) effort: Effort,
    pub(super) full: bool,
    /// Only the first so many tasks; all where none.
    pub(super) tasks: Option<usize>,
}

impl Size {
    pub(super) fn new(full: bool) -> Size {
        if full {
            let effort = Effort { multisets: 1e6, evaluations: 200_000.0, samples: 20_000 };
            return Size { groups: vec![2, 4, 8, 16, 32], effort, full, tasks: None };
        }
        let effort = Effort { multisets: 4000.0, evaluations: 14_000.0, samples: 400 };
        Size { groups: vec![2, 4, 8, 16], effort, full, tasks: None }
    }
}

/// Everything that was computed.
pub(super) struct Atlas {
    pub(super) tasks: Vec<Task>,
    pub(super) groups: Vec<usize>,
    /// `[task][entrant][group]`.
    pub(super) rows: Vec<Vec<Vec<Row>>>,
    /// Distance of the start policies from those whose input can be masked, by task.
    pub(super) residuals: Vec<f64>,
    /// Cosine with ∇J of GRPO and of GRPO-λ (recent, clamped) on `eos_hazard_dependent` at the zoo's own horizon, which the quick run cuts.
    pub(super) uncut: [f64; 2],
}

/// The seed of an entrant on a task: streams of their own, whatever runs beside.
pub(super) fn seed_of(seed: u64, task: usize, entrant: usize) -> u64 {
    seed.wrapping_add(((task as u64) << 32) + ((entrant as u64) << 16))
}

pub(super) fn measure(context: &Context, size: &Size) -> anyhow::Result<Atlas> {
    let mut tasks = tasks(size.full)?;
    tasks.truncate(size.tasks.unwrap_or(usize::MAX));
    (context.progress)(0.0, "policies whose input can be masked");
    let masked_tasks: Vec<MaskedTask> =
        tasks.into_par_iter().map(|task| MaskedTask::new(task, context.seed)).collect();
    let pairs: Vec<(usize, usize)> =
        (0..masked_tasks.len()).flat_map(|t| (0..ENTRANTS.len()).map(move |e| (t, e))).collect();
    let done = AtomicUsize::new(0);
    let work = |&(t, e): &(usize, usize)| -> anyhow::Result<Vec<Row>> {
        let (masked, entrant) = (&masked_tasks[t], &ENTRANTS[e]);
        let key = format!("{} | {}", masked.task.name, entrant.name);
        let rows = context
            .store
            .piece(&key, || piece(masked, entrant, &size.groups, size.effort, seed_of(context.seed, t, e)))?;
        let share = (done.fetch_add(1, Ordering::Relaxed) + 1) as f64 / pairs.len() as f64;
        (context.progress)(0.05 + 0.85 * share, &masked.task.name);
        Ok(rows)
    };
    let flat = pairs.par_iter().map(work).collect::<anyhow::Result<Vec<_>>>()?;
    let rows = flat.chunks(ENTRANTS.len()).map(<[_]>::to_vec).collect();
    let residuals = masked_tasks.iter().map(|masked| masked.residual).collect();
    let tasks: Vec<Task> = masked_tasks.into_iter().map(|masked| masked.task).collect();
    Ok(Atlas { tasks, groups: size.groups.clone(), rows, residuals, uncut: uncut()? })
}

/// Cosines that the cut of a horizon hides.
fn uncut() -> anyhow::Result<[f64; 2]> {
    let family = EosHazardDependent::default();
    let tree = family.tree()?;
    let start = family.initial(&tree);
    let gradient = Oracle::new(&tree, &start).grad_j();
    let cosine_of = |name: &str, settings: &str| -> anyhow::Result<f64> {
        let method = methods::parse(name, settings)?.method;
        Ok(cosine(&implied_mean(method.as_ref(), &Situation::on_policy(&tree, &start, 8))?, &gradient))
    };
    Ok([cosine_of("grpo", "reduction=token_mean")?, cosine_of("grpo_lambda", "")?])
}

impl Atlas {
    /// An entrant's rows over tasks at a group size.
    pub(super) fn rows_of(&self, entrant: usize, g: usize) -> impl Iterator<Item = &Row> {
        let k = self.groups.iter().position(|&x| x == g);
        self.rows.iter().filter_map(move |task| task[entrant].get(k?))
    }
}
