//! `atlas_updates`: the expected update of every entrant on every task against the policy gradient, exactly where a sum is feasible.
//!
//! One update is one group of `G` responses to one prompt, on-policy, from the task's start policy. A row is an entrant on a task at a group size.

mod agreement;
mod anatomy;
mod expectation;
mod figures;
mod row;
mod tables;
mod verdicts;

use std::sync::atomic::{AtomicUsize, Ordering};

use grpo_lambda::mdp::evidence::{Exact, Provider, critic, rollouts::Completions};
use grpo_lambda::mdp::expected::Situation;
use grpo_lambda::mdp::{Maskable, MaskableEvidence, Oracle, Tabular};
use rayon::prelude::*;

use super::entrants::{ENTRANTS, Entrant, Source};
use super::tasks::{Task, tasks};
use crate::experiment::{Context, Experiment, Report};
use anatomy::Anatomy;
use expectation::{Effort, expectation};
use row::Row;

/// The experiment.
pub static EXPERIMENT: Experiment = Experiment {
    id: "atlas_updates",
    title: "what every method's update is, in expectation and in spread, against the policy gradient",
    claim: "Finer credit than one number per response moves the policy along the gradient of expected reward",
    source: "ours; the premise of GRPO-λ, P-trace and S-trace, OAR, TEMPO and their rivals",
    run: |ctx| run(ctx, &Size::of(ctx.full)),
};

/// The group size of everything but the error of an update.
pub(crate) const GROUP: usize = 8;
/// Hidden units and steps of the fit of the policy with maskable input.
const MASKED: (usize, usize) = (8, 400);

/// The most responses of a task on which an entrant that compares responses in pairs at length takes part.
const PAIRWISE: usize = 64;

/// How much is run.
struct Size {
    groups: Vec<usize>,
    effort: Effort,
    full: bool,
    /// Only the first so many tasks; all where none.
    tasks: Option<usize>,
}

impl Size {
    fn of(full: bool) -> Size {
        if full {
            let effort = Effort { multisets: 1e6, evaluations: 200_000.0, samples: 20_000 };
            return Size { groups: vec![2, 4, 8, 16, 32], effort, full, tasks: None };
        }
        let effort = Effort { multisets: 4000.0, evaluations: 14_000.0, samples: 400 };
        Size { groups: vec![2, 4, 8, 16], effort, full, tasks: None }
    }
}

/// A task with the maskable policy nearest to its start policy.
struct Laboratory {
    task: Task,
    masked: Maskable,
    /// That policy as a table.
    table: Tabular,
    /// `KL` of the start policy from it, in nats per response.
    residual: f64,
}

impl Laboratory {
    fn new(task: Task, seed: u64) -> Laboratory {
        let (masked, residual) = Maskable::fitted(&task.tree, &task.start, MASKED.0, seed, MASKED.1);
        let table = masked.tabular(&task.tree);
        Laboratory { task, masked, table, residual }
    }

    /// The policy that an entrant samples from and updates.
    fn policy(&self, entrant: &Entrant) -> &Tabular {
        if entrant.source == Source::Masked { &self.table } else { &self.task.start }
    }
}

/// The evidence of an entrant, and whether asking twice gives it twice.
fn provider<'t>(
    entrant: &Entrant,
    lab: &'t Laboratory,
    oracle: &Oracle<'t>,
    seed: u64,
) -> (Box<dyn Provider + 't>, bool) {
    let exact = Exact::new(oracle);
    match entrant.source {
        Source::Table => (Box::new(exact), true),
        Source::NoisyCritic(scale) => (Box::new(exact.with_critic(critic::noisy(oracle, scale, seed))), true),
        Source::ConstantCritic => (Box::new(exact.with_critic(critic::constant(oracle, oracle.j))), true),
        Source::Completions(k) => (Box::new(Completions::new(oracle, &lab.task.start, k, seed)), false),
        Source::Masked => (Box::new(MaskableEvidence::new(&lab.task.tree, lab.masked.clone())), true),
    }
}

/// An entrant on a task at every group size.
fn piece(lab: &Laboratory, entrant: &Entrant, size: &Size, seed: u64) -> anyhow::Result<Vec<Row>> {
    let tree = &lab.task.tree;
    let policy = lab.policy(entrant);
    let oracle = Oracle::new(tree, policy);
    let method = entrant.build(tree)?;
    let row = |g: usize| -> Row {
        let (evidence, repeats) = provider(entrant, lab, &oracle, seed);
        let mut row = Row::new(&lab.task, entrant, g);
        row.set("j", oracle.j);
        row.set("passes", entrant.cost.responses(&oracle));
        if entrant.source == Source::Masked {
            row.set("fit_kl", lab.residual);
        }
        if let Err(missing) = method.require(&evidence.kinds()) {
            row.impossible(&missing.to_string());
            return row;
        }
        if entrant.pairwise && tree.leaf_count() > PAIRWISE {
            row.impossible(&format!(
                "a transport problem per pair of responses: simulated on tasks of at most {PAIRWISE} responses only"
            ));
            return row;
        }
        let situation =
            Situation { evidence: Some(evidence.as_ref()), ..Situation::on_policy(tree, policy, g) };
        // The error at other group sizes is mostly spread, to which the mean adds little.
        let effort = if g == GROUP { size.effort } else { size.effort.over(4.0) };
        let effort = if entrant.pairwise { effort.over(8.0) } else { effort };
        let found = expectation(method.method.as_ref(), &situation, effort, repeats, seed);
        row.fill(&Anatomy::of(&found, &oracle), &found);
        row
    };
    Ok(size.groups.iter().map(|&g| row(g)).collect())
}

/// Everything that was computed.
struct Atlas {
    tasks: Vec<Task>,
    groups: Vec<usize>,
    /// `[task][entrant][group]`.
    rows: Vec<Vec<Vec<Row>>>,
    residuals: Vec<f64>,
    agreement: Vec<agreement::Check>,
}

impl Atlas {
    fn compute(ctx: &Context, size: &Size) -> anyhow::Result<Atlas> {
        let mut tasks = tasks(size.full)?;
        tasks.truncate(size.tasks.unwrap_or(usize::MAX));
        (ctx.progress)(0.0, "policies whose input can be masked");
        let labs: Vec<Laboratory> =
            tasks.into_par_iter().map(|task| Laboratory::new(task, ctx.seed)).collect();
        let pairs: Vec<(usize, usize)> =
            (0..labs.len()).flat_map(|t| (0..ENTRANTS.len()).map(move |e| (t, e))).collect();
        let done = AtomicUsize::new(0);
        let work = |&(t, e): &(usize, usize)| -> anyhow::Result<Vec<Row>> {
            let (lab, entrant) = (&labs[t], &ENTRANTS[e]);
            let key = format!("{} | {}", lab.task.name, entrant.name);
            // Streams of their own, whatever runs beside: the pair's place fixes them.
            let seed = ctx.seed.wrapping_add(((t as u64) << 32) + ((e as u64) << 16));
            let rows = ctx
                .store
                .rows(&key, || Ok(piece(lab, entrant, size, seed)?.iter().map(Row::cells).collect()))?;
            let share = (done.fetch_add(1, Ordering::Relaxed) + 1) as f64 / pairs.len() as f64;
            (ctx.progress)(0.05 + 0.85 * share, lab.task.name);
            rows.iter().map(|cells| Row::read(cells)).collect()
        };
        let flat = pairs.par_iter().map(work).collect::<anyhow::Result<Vec<_>>>()?;
        let rows = flat.chunks(ENTRANTS.len()).map(<[_]>::to_vec).collect();
        (ctx.progress)(0.9, "the specification's identities");
        let residuals = labs.iter().map(|lab| lab.residual).collect();
        let tasks: Vec<Task> = labs.into_iter().map(|lab| lab.task).collect();
        let agreement = agreement::checks(&tasks)?;
        Ok(Atlas { tasks, groups: size.groups.clone(), rows, residuals, agreement })
    }

    /// An entrant's rows over tasks at a group size.
    fn of(&self, entrant: usize, g: usize) -> impl Iterator<Item = &Row> {
        let k = self.groups.iter().position(|&x| x == g);
        self.rows.iter().filter_map(move |task| task[entrant].get(k?))
    }
}

fn run(ctx: &Context, size: &Size) -> anyhow::Result<Report> {
    let atlas = Atlas::compute(ctx, size)?;
    (ctx.progress)(0.95, "tables and figures");
    let findings = verdicts::of(&atlas);
    let tables = vec![
        (String::new(), tables::long(&atlas)),
        ("error".into(), tables::error(&atlas)),
        ("summary".into(), tables::summary(&atlas)),
        ("parts".into(), tables::parts(&atlas)),
        ("costs".into(), tables::costs(&atlas)),
        ("tasks".into(), tables::tasks(&atlas)),
        ("identities".into(), tables::identities(&atlas)),
    ];
    let figures = vec![("".into(), figures::map(&atlas)), ("error".into(), figures::error(&atlas))];
    (ctx.progress)(1.0, "done");
    Ok(Report { findings, tables, figures })
}

/// A few rows of the atlas computed afresh: `entrants` by name on the first `tasks` tasks, as the quick version has them at the group size of its main
/// table. For tests of committed results.
///
/// # Errors
/// If a task or an entrant cannot be built.
pub fn excerpt(
    seed: u64,
    tasks_taken: usize,
    entrants: &[&str],
) -> anyhow::Result<grpo_lambda::table::Table> {
    let size = Size { groups: vec![GROUP], ..Size::of(false) };
    let mut table = tables::empty_long();
    for (t, task) in tasks(false)?.into_iter().take(tasks_taken).enumerate() {
        let lab = Laboratory::new(task, seed);
        for (e, entrant) in ENTRANTS.iter().enumerate().filter(|(_, e)| entrants.contains(&e.name)) {
            let seed = seed.wrapping_add(((t as u64) << 32) + ((e as u64) << 16));
            for row in piece(&lab, entrant, &size, seed)? {
                table.push(tables::long_row(&row, entrant, &lab.task));
            }
        }
    }
    Ok(table)
}

#[cfg(test)]
mod tests;
