//! Every entry on every task at every group size.

use super::anatomy::anatomy;
use super::expectation::{Effort, expectation};
use super::row::{Column, GROUP, Row};
use crate::atlas::entries::{ENTRIES, Entry, Source, stream};
use crate::atlas::tasks::tasks;
use crate::experiment::Context;
use crate::training::{Task, crossed};
use grpo_lambda::methods;
use grpo_lambda_mdp::expected::{Situation, cosine, implied_mean};
use grpo_lambda_mdp::extra_inputs::{Exact, Provider, critic, rollouts::Completions};
use grpo_lambda_mdp::zoo::{EosHazardDependent, Family as _};
use grpo_lambda_mdp::{Maskable, MaskableInputs, Oracle, Tabular};
use rayon::prelude::*;

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
    /// `[task][entry][group]`.
    pub(super) rows: Vec<Vec<Vec<Row>>>,
    /// Distance of the start policies from those whose input can be masked, by task.
    pub(super) residuals: Vec<f64>,
    /// Cosine with ∇J of GRPO and of GRPO-λ (recent, clamped) on `eos_hazard_dependent` at the zoo's own horizon, which the quick run cuts.
    pub(super) uncut: [f64; 2],
}

/// The seed of an entry on a task: streams of their own, whatever runs at the same time.
pub(super) fn seed_of(seed: u64, task: usize, entry: usize) -> u64 {
    seed.wrapping_add(((task as u64) << 32) + ((stream(entry) as u64) << 16))
}

pub(super) fn measure(context: &Context, size: &Size) -> anyhow::Result<Atlas> {
    let mut tasks = tasks(size.full)?;
    tasks.truncate(size.tasks.unwrap_or(usize::MAX));
    (context.progress)(0.0, "policies whose input can be masked");
    let masked_tasks: Vec<MaskedTask> =
        tasks.into_par_iter().map(|task| MaskedTask::new(task, context.seed)).collect();
    let done = context.pieces(0.05..0.9, masked_tasks.len() * ENTRIES.len());
    let work = |t: usize, e: usize| -> anyhow::Result<Vec<Row>> {
        let (masked, entry) = (&masked_tasks[t], &ENTRIES[e]);
        let key = format!("{} | {}", masked.task.name, entry.name);
        let rows = context
            .store
            .piece(&key, || piece(masked, entry, &size.groups, size.effort, seed_of(context.seed, t, e)))?;
        done(&masked.task.name);
        Ok(rows)
    };
    let rows = crossed(masked_tasks.len(), ENTRIES.len(), work)?;
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
    /// An entry's rows over tasks at a group size.
    pub(super) fn rows_of(&self, entry: usize, g: usize) -> impl Iterator<Item = &Row> {
        let k = self.groups.iter().position(|&x| x == g);
        self.rows.iter().filter_map(move |task| task[entry].get(k?))
    }
}

/// Hidden units and steps of the fit of the policy with maskable input.
const MASKED: (usize, usize) = (8, 400);

/// The most responses of a task on which an entry that compares responses in pairs at length takes part.
const PAIRWISE: usize = 64;

/// A task with the maskable policy nearest to its start policy.
pub(super) struct MaskedTask {
    pub(super) task: Task,
    maskable: Maskable,
    /// That policy as a table.
    table: Tabular,
    /// `KL` of the start policy from it, in nats per response.
    pub(super) residual: f64,
}

impl MaskedTask {
    pub(super) fn new(task: Task, seed: u64) -> MaskedTask {
        let (maskable, residual) = Maskable::fitted(&task.tree, &task.start, MASKED.0, seed, MASKED.1);
        let table = maskable.tabular(&task.tree);
        MaskedTask { task, maskable, table, residual }
    }

    /// The policy that an entry samples from and updates.
    fn policy(&self, entry: &Entry) -> &Tabular {
        if entry.source == Source::Masked { &self.table } else { &self.task.start }
    }
}

/// The extra inputs of an entry, and whether asking twice gives them twice.
fn provider<'t>(
    entry: &Entry,
    masked: &'t MaskedTask,
    oracle: &Oracle<'t>,
    seed: u64,
) -> (Box<dyn Provider + 't>, bool) {
    let exact = Exact::new(oracle);
    match entry.source {
        Source::Table => (Box::new(exact), true),
        Source::NoisyCritic(scale) => (Box::new(exact.with_critic(critic::noisy(oracle, scale, seed))), true),
        Source::ConstantCritic => (Box::new(exact.with_critic(critic::constant(oracle, oracle.j))), true),
        Source::Completions(k) => (Box::new(Completions::new(oracle, &masked.task.start, k, seed)), false),
        Source::Masked => (Box::new(MaskableInputs::new(&masked.task.tree, masked.maskable.clone())), true),
    }
}

/// The rows of an entry at these group sizes.
pub(super) fn piece(
    masked: &MaskedTask,
    entry: &Entry,
    groups: &[usize],
    effort: Effort,
    seed: u64,
) -> anyhow::Result<Vec<Row>> {
    groups.iter().map(|&g| row(masked, entry, g, effort, seed)).collect()
}

fn row(masked: &MaskedTask, entry: &Entry, g: usize, effort: Effort, seed: u64) -> anyhow::Result<Row> {
    let tree = &masked.task.tree;
    let policy = masked.policy(entry);
    let oracle = Oracle::new(tree, policy);
    let method = entry.build(tree)?;
    let (extra_inputs, repeats) = provider(entry, masked, &oracle, seed);
    let mut row = Row::new(&masked.task, entry, g);
    row.set(Column::J, oracle.j);
    row.set(Column::Passes, entry.cost.responses(&oracle));
    if entry.source == Source::Masked {
        row.set(Column::FitKl, masked.residual);
    }
    if let Err(missing) = method.require(&extra_inputs.kinds()) {
        row.impossible(&missing.to_string());
        return Ok(row);
    }
    if entry.pairwise && tree.leaf_count() > PAIRWISE {
        row.impossible(&format!(
            "a transport problem per pair of responses: simulated on tasks of at most {PAIRWISE} responses only"
        ));
        return Ok(row);
    }
    let situation =
        Situation { extra_inputs: Some(extra_inputs.as_ref()), ..Situation::on_policy(tree, policy, g) };
    // The error at other group sizes is mostly spread, to which the mean adds little.
    let effort = if g == GROUP { effort } else { effort.over(4.0) };
    let effort = if entry.pairwise { effort.over(8.0) } else { effort };
    let found = expectation(method.method.as_ref(), &situation, effort, repeats, seed);
    row.fill(&found, anatomy(&found, &oracle));
    Ok(row)
}
