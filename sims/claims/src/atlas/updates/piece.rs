//! An entrant on a task: its rows at every group size.

use grpo_lambda_mdp::evidence::{Exact, Provider, critic, rollouts::Completions};
use grpo_lambda_mdp::expected::Situation;
use grpo_lambda_mdp::{Maskable, MaskableEvidence, Oracle, Tabular};

use super::anatomy::Anatomy;
use super::expectation::{Effort, expectation};
use super::row::{Column, GROUP, Row};
use crate::atlas::entrants::{Entrant, Source};
use crate::training::task::Task;

/// Hidden units and steps of the fit of the policy with maskable input.
const MASKED: (usize, usize) = (8, 400);

/// The most responses of a task on which an entrant that compares responses in pairs at length takes part.
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

    /// The policy that an entrant samples from and updates.
    fn policy(&self, entrant: &Entrant) -> &Tabular {
        if entrant.source == Source::Masked { &self.table } else { &self.task.start }
    }
}

/// The evidence of an entrant, and whether asking twice gives it twice.
fn provider<'t>(
    entrant: &Entrant,
    masked: &'t MaskedTask,
    oracle: &Oracle<'t>,
    seed: u64,
) -> (Box<dyn Provider + 't>, bool) {
    let exact = Exact::new(oracle);
    match entrant.source {
        Source::Table => (Box::new(exact), true),
        Source::NoisyCritic(scale) => (Box::new(exact.with_critic(critic::noisy(oracle, scale, seed))), true),
        Source::ConstantCritic => (Box::new(exact.with_critic(critic::constant(oracle, oracle.j))), true),
        Source::Completions(k) => (Box::new(Completions::new(oracle, &masked.task.start, k, seed)), false),
        Source::Masked => (Box::new(MaskableEvidence::new(&masked.task.tree, masked.maskable.clone())), true),
    }
}

/// The rows of an entrant at these group sizes.
pub(super) fn piece(
    masked: &MaskedTask,
    entrant: &Entrant,
    groups: &[usize],
    effort: Effort,
    seed: u64,
) -> anyhow::Result<Vec<Row>> {
    groups.iter().map(|&g| row(masked, entrant, g, effort, seed)).collect()
}

fn row(masked: &MaskedTask, entrant: &Entrant, g: usize, effort: Effort, seed: u64) -> anyhow::Result<Row> {
    let tree = &masked.task.tree;
    let policy = masked.policy(entrant);
    let oracle = Oracle::new(tree, policy);
    let method = entrant.build(tree)?;
    let (evidence, repeats) = provider(entrant, masked, &oracle, seed);
    let mut row = Row::new(&masked.task, entrant, g);
    row.set(Column::J, oracle.j);
    row.set(Column::Passes, entrant.cost.responses(&oracle));
    if entrant.source == Source::Masked {
        row.set(Column::FitKl, masked.residual);
    }
    if let Err(missing) = method.require(&evidence.kinds()) {
        row.impossible(&missing.to_string());
        return Ok(row);
    }
    if entrant.pairwise && tree.leaf_count() > PAIRWISE {
        row.impossible(&format!(
            "a transport problem per pair of responses: simulated on tasks of at most {PAIRWISE} responses only"
        ));
        return Ok(row);
    }
    let situation = Situation { evidence: Some(evidence.as_ref()), ..Situation::on_policy(tree, policy, g) };
    // The error at other group sizes is mostly spread, to which the mean adds little.
    let effort = if g == GROUP { effort } else { effort.over(4.0) };
    let effort = if entrant.pairwise { effort.over(8.0) } else { effort };
    let found = expectation(method.method.as_ref(), &situation, effort, repeats, seed);
    row.fill(&Anatomy::new(&found, &oracle), &found);
    Ok(row)
}
