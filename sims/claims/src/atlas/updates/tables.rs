use grpo_lambda_mdp::Oracle;
use grpo_lambda_stats::table::{Table, significant};

use super::measure::{Atlas, Size, seed_of};
use super::overall::{MEANS, overall};
use super::piece::{MaskedTask, piece};
use super::row::{Column, GROUP, Row};
use crate::atlas::entrants::{ENTRANTS, Entrant, Extra};
use crate::atlas::tasks::tasks;
use crate::experiments::common::record::{Record, table};
use crate::training::task::Task;

pub(super) fn tables(atlas: &Atlas) -> Vec<(String, Table)> {
    vec![
        (String::new(), long(atlas)),
        ("error".into(), error(atlas)),
        ("summary".into(), summary(atlas)),
        ("parts".into(), parts(atlas)),
        ("costs".into(), costs(atlas)),
        ("tasks".into(), task_list(atlas)),
    ]
}

/// A row of the long form.
pub(super) fn long_row(row: &Row, entrant: &Entrant, task: &Task) -> Record {
    let names = Record::default()
        .with("task", task.name.as_str())
        .with("method", entrant.name)
        .with("family", entrant.family.name())
        .with("provenance", entrant.provenance().name())
        .with("group", row.group)
        .with("how", row.how.as_str());
    numbers(names, row, &Column::ALL).with("reason", row.reason.as_str())
}

/// Adds some numbers of a row.
fn numbers(record: Record, row: &Row, columns: &[Column]) -> Record {
    columns.iter().fold(record, |record, &column| record.with(column.name(), row.get(column)))
}

/// One row per task and entrant, in groups of [`GROUP`].
fn long(atlas: &Atlas) -> Table {
    table(atlas.tasks.iter().zip(&atlas.rows).flat_map(|(task, by_entrant)| {
        ENTRANTS.iter().zip(by_entrant).flat_map(move |(entrant, rows)| {
            rows.iter().filter(|row| row.group == GROUP).map(move |row| long_row(row, entrant, task))
        })
    }))
}

/// One row per task, entrant and group size: the error of one update.
fn error(atlas: &Atlas) -> Table {
    use Column::{Cosine, Mse, MseBias, MseSe, MseVariance, TraceCovariance};
    let possible = atlas.rows.iter().flatten().flatten().filter(|row| row.how != "impossible");
    table(possible.map(|row| {
        let names = Record::default()
            .with("task", row.task.as_str())
            .with("method", row.method.as_str())
            .with("group", row.group)
            .with("sampled", if row.exact() { "" } else { "sampled" });
        numbers(names, row, &[Cosine, TraceCovariance, Mse, MseBias, MseVariance, MseSe])
    }))
}

/// One row per entrant: what a reader asks first.
fn summary(atlas: &Atlas) -> Table {
    table(overall(atlas).into_iter().map(|o| {
        let (sign_agreement, rank_correlation) =
            (o.mean(Column::SignAgreement), o.mean(Column::CreditRankCorrelation));
        let (reversed, at) = o.reversed;
        let reversed =
            if reversed > 0.0 { format!("{} ({at})", significant(reversed, 2)) } else { "0".into() };
        let (worst, on_task) = o.worst;
        Record::default()
            .with("method", o.entrant.name)
            .with("provenance", o.entrant.provenance().name())
            .with("unbiased on", format!("{} of {}", o.unbiased, o.tasks))
            .with("mean cosine", o.mean_cosine)
            .with("lowest cosine", worst)
            .with("on task", if worst > 1.0 - 1e-9 { "-".into() } else { on_task })
            .with("sign agreement", sign_agreement)
            .with("reversed visits, most", reversed)
            .with("credit rank correlation", rank_correlation)
            .with("error, G = 8", o.mse)
            .with("error, equal cost", o.mse_at_budget)
            .with("cost", o.passes)
    }))
}

/// One row per entrant: its bias and its error taken apart.
fn parts(atlas: &Atlas) -> Table {
    table(overall(atlas).into_iter().map(|o| {
        let names = Record::default().with("method", o.entrant.name).with("family", o.entrant.family.name());
        let means = MEANS.into_iter().zip(o.means);
        means
            .fold(names, |record, (column, mean)| record.with(column.name(), mean))
            .with("mse_bias", o.mse_bias)
            .with("mse_variance", o.mse_variance)
            .with("tasks", o.tasks)
            .with("of_them_sampled", o.sampled)
    }))
}

/// One row per entrant: what it costs, needs and rests on, and its command.
fn costs(atlas: &Atlas) -> Table {
    table(overall(atlas).into_iter().map(|o| {
        let e = o.entrant;
        Record::default()
            .with("method", e.name)
            .with("family", e.family.name())
            .with("provenance", e.provenance().name())
            .with("extra_forwards", words(e.cost.forwards))
            .with("extra_rollouts", words(e.cost.rollouts))
            .with("needs", e.cost.needs)
            .with("responses_in_all", o.passes)
            .with("command", e.command())
    }))
}

/// An extra in words, per response.
fn words(extra: Extra) -> String {
    match extra {
        Extra::None => "0".into(),
        Extra::PerResponse(n) => n.to_string(),
        Extra::PerToken => "1 a token".into(),
        Extra::Completions(k) => format!("{k} a token"),
        Extra::Limit => "∞ a step".into(),
    }
}

fn task_list(atlas: &Atlas) -> Table {
    table(atlas.tasks.iter().zip(&atlas.residuals).map(|(task, kl)| {
        Record::default()
            .with("task", task.name.as_str())
            .with("shows", task.about.as_str())
            .with("responses", task.tree.leaf_count())
            .with("logits", task.tree.edge_count())
            .with("shortest", task.shortest)
            .with("longest", task.longest)
            .with("mean_length", Oracle::new(&task.tree, &task.start).mean_length())
            .with("j", task.start_j)
            .with("j_best", task.best)
            .with("masked_fit_kl", *kl)
    }))
}

/// `entrants` by name on the first `tasks_taken` tasks, as the quick version has them at the group size of its main table.
///
/// # Errors
/// If a task or an entrant cannot be built.
pub fn excerpt(seed: u64, tasks_taken: usize, entrants: &[&str]) -> anyhow::Result<Table> {
    let effort = Size::new(false).effort;
    let mut records = Vec::new();
    for (t, task) in tasks(false)?.into_iter().take(tasks_taken).enumerate() {
        let masked = MaskedTask::new(task, seed);
        for (e, entrant) in ENTRANTS.iter().enumerate().filter(|(_, e)| entrants.contains(&e.name)) {
            for row in piece(&masked, entrant, &[GROUP], effort, seed_of(seed, t, e))? {
                records.push(long_row(&row, entrant, &masked.task));
            }
        }
    }
    Ok(table(records))
}
