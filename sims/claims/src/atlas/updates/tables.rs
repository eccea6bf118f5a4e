//! The tables.

use grpo_lambda_mdp::Oracle;
use grpo_lambda_stats::table::{Cell, Table, significant};

use super::agreement;
use super::measure::Atlas;
use super::overall::{MEANS, overall};
use super::row::{GROUP, NUMBERS, Row};
use crate::atlas::entrants::{ENTRANTS, Entrant, Extra};
use crate::atlas::tasks::Task;

pub(super) fn tables(atlas: &Atlas) -> Vec<(String, Table)> {
    vec![
        (String::new(), long(atlas)),
        ("error".into(), error(atlas)),
        ("summary".into(), summary(atlas)),
        ("parts".into(), parts(atlas)),
        ("costs".into(), costs(atlas)),
        ("tasks".into(), tasks(atlas)),
        ("identities".into(), identities(atlas)),
    ]
}

/// The long form without rows.
pub(super) fn empty_long() -> Table {
    let texts = ["task", "method", "family", "provenance", "group", "how"];
    Table::new(&texts.into_iter().chain(NUMBERS).chain(["reason"]).collect::<Vec<_>>())
}

/// A row of the long form.
pub(super) fn long_row(row: &Row, entrant: &Entrant, task: &Task) -> Vec<Cell> {
    let mut cells: Vec<Cell> = vec![
        task.name.into(),
        entrant.name.into(),
        entrant.family.name().into(),
        entrant.provenance().name().into(),
        row.group.into(),
        row.how.as_str().into(),
    ];
    cells.extend(NUMBERS.map(|column| Cell::from(row.get(column))));
    cells.push(row.reason.as_str().into());
    cells
}

/// One row per task and entrant, in groups of [`GROUP`].
fn long(atlas: &Atlas) -> Table {
    let mut table = empty_long();
    for (t, task) in atlas.tasks.iter().enumerate() {
        for (e, entrant) in ENTRANTS.iter().enumerate() {
            for row in atlas.rows[t][e].iter().filter(|row| row.group == GROUP) {
                table.push(long_row(row, entrant, task));
            }
        }
    }
    table
}

/// One row per task, entrant and group size: the error of one update.
fn error(atlas: &Atlas) -> Table {
    let columns = ["cosine", "trace_covariance", "mse", "mse_bias", "mse_variance", "mse_se"];
    let texts = ["task", "method", "group", "sampled"];
    let mut table = Table::new(&texts.into_iter().chain(columns).collect::<Vec<_>>());
    for row in atlas.rows.iter().flatten().flatten().filter(|row| row.how != "impossible") {
        let sampled = if row.exact() { "" } else { "sampled" };
        let mut cells: Vec<Cell> =
            vec![row.task.as_str().into(), row.method.as_str().into(), row.group.into(), sampled.into()];
        cells.extend(columns.map(|column| Cell::from(row.get(column))));
        table.push(cells);
    }
    table
}

/// One row per entrant: what a reader asks first.
fn summary(atlas: &Atlas) -> Table {
    let mut table = Table::new(&[
        "method",
        "provenance",
        "unbiased on",
        "mean cosine",
        "lowest cosine",
        "on task",
        "sign agreement",
        "reversed visits, most",
        "credit rank correlation",
        "error, G = 8",
        "error, equal cost",
        "cost",
    ]);
    for o in overall(atlas) {
        let reversed = format!("{} ({})", significant(o.reversed.0, 2), o.reversed.1);
        table.push(vec![
            o.entrant.name.into(),
            o.entrant.provenance().name().into(),
            format!("{} of {}", o.unbiased, o.tasks).into(),
            o.mean_cosine.into(),
            o.worst.0.into(),
            (if o.worst.0 > 1.0 - 1e-9 { "-" } else { o.worst.1.as_str() }).into(),
            o.mean("sign_agreement").into(),
            if o.reversed.0 > 0.0 { reversed } else { "0".into() }.into(),
            o.mean("credit_rank_correlation").into(),
            o.mse.into(),
            o.mse_at_budget.into(),
            o.passes.into(),
        ]);
    }
    table
}

/// One row per entrant: its bias and its error taken apart.
fn parts(atlas: &Atlas) -> Table {
    let last = ["mse_bias", "mse_variance", "tasks", "of_them_sampled"];
    let columns: Vec<&str> = ["method", "family"].into_iter().chain(MEANS).chain(last).collect();
    let mut table = Table::new(&columns);
    for o in overall(atlas) {
        let mut row: Vec<Cell> = vec![o.entrant.name.into(), o.entrant.family.name().into()];
        row.extend(o.means.iter().map(|m| Cell::from(*m)));
        row.extend([o.mse_bias.into(), o.mse_variance.into(), Cell::from(o.tasks), o.sampled.into()]);
        table.push(row);
    }
    table
}

/// One row per entrant: what it costs, needs and rests on, and its command.
fn costs(atlas: &Atlas) -> Table {
    let mut table = Table::new(&[
        "method",
        "family",
        "provenance",
        "extra_forwards",
        "extra_rollouts",
        "needs",
        "responses_in_all",
        "command",
    ]);
    for o in overall(atlas) {
        let e = o.entrant;
        table.push(vec![
            e.name.into(),
            e.family.name().into(),
            e.provenance().name().into(),
            words(e.cost.forwards).into(),
            words(e.cost.rollouts).into(),
            e.cost.needs.into(),
            o.passes.into(),
            e.command().into(),
        ]);
    }
    table
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

/// One row per task.
fn tasks(atlas: &Atlas) -> Table {
    let mut table = Table::new(&[
        "task",
        "shows",
        "responses",
        "logits",
        "shortest",
        "longest",
        "mean_length",
        "j",
        "j_best",
        "masked_fit_kl",
    ]);
    for (task, kl) in atlas.tasks.iter().zip(&atlas.residuals) {
        table.push(vec![
            task.name.into(),
            task.about.into(),
            task.tree.leaf_count().into(),
            task.tree.edge_count().into(),
            task.shortest.into(),
            task.longest.into(),
            Oracle::new(&task.tree, &task.start).mean_length().into(),
            task.j.into(),
            task.best.into(),
            (*kl).into(),
        ]);
    }
    table
}

/// One row per closed form.
fn identities(atlas: &Atlas) -> Table {
    let mut table = Table::new(&["method", "statement", "tasks", "largest_error", "holds"]);
    for check in &atlas.agreement {
        let holds = if check.worst < agreement::EXACT { "yes" } else { "no" };
        table.push(vec![
            check.method.into(),
            check.statement.into(),
            check.tasks.into(),
            check.worst.into(),
            holds.into(),
        ]);
    }
    table
}
