//! The tables.

use grpo_lambda::mdp::Oracle;
use grpo_lambda::table::{Cell, Table, significant};

use super::row::{NUMBERS, Row};
use super::{Atlas, GROUP, agreement};
use crate::atlas::entrants::{ENTRANTS, Entrant, Extra};
use crate::atlas::tasks::Task;

/// Responses written or scored for one update, at which costs are compared.
pub(super) const BUDGET: f64 = 16.0;

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
pub(super) fn long(atlas: &Atlas) -> Table {
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
pub(super) fn error(atlas: &Atlas) -> Table {
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

/// What one entrant is over all tasks.
pub(super) struct Overall {
    pub(super) entrant: &'static Entrant,
    pub(super) tasks: usize,
    pub(super) sampled: usize,
    pub(super) unbiased: usize,
    pub(super) mean_cosine: f64,
    /// The lowest cosine with its task.
    pub(super) worst: (f64, String),
    /// The largest share of visits at reversed prefixes with its task.
    pub(super) reversed: (f64, String),
    /// Mean of `1 - cos²`.
    pub(super) lost: f64,
    pub(super) mse: f64,
    pub(super) mse_bias: f64,
    pub(super) mse_variance: f64,
    /// Mean error at equal cost; `None` where a group of two costs more on some task.
    pub(super) mse_at_budget: Option<f64>,
    pub(super) passes: f64,
    means: Vec<Option<f64>>,
}

impl Overall {
    /// The mean of a column of [`MEANS`] over tasks.
    fn mean(&self, column: &str) -> Option<f64> {
        self.means[MEANS.iter().position(|c| *c == column)?]
    }
}

/// What is averaged for the summary beside the rest.
const MEANS: [&str; 7] = [
    "bias",
    "bias_direction",
    "bias_rescaling",
    "kappa_cv",
    "sign_agreement",
    "credit_rank_correlation",
    "credit_r2",
];

/// The largest standard error of a cosine that can show an update unbiased: with a larger one anything would be.
pub(super) const SHARP: f64 = 0.0003;

/// Whether a row's expected update is a positive multiple of the gradient: to rounding where it is exact; where it was simulated, within three standard
/// errors of at most [`SHARP`].
pub(super) fn unbiased(row: &Row) -> bool {
    let (Some(cosine), Some(error)) = (row.get("cosine"), row.get("cosine_se")) else { return false };
    if row.exact() {
        cosine > 0.0 && row.get("bias").is_some_and(|b| b < 1e-6)
    } else {
        1.0 - cosine <= 3.0 * error && error <= SHARP
    }
}

fn mean(values: impl Iterator<Item = f64>) -> Option<f64> {
    let values: Vec<f64> = values.collect();
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

/// Every entrant over all tasks, in groups of [`GROUP`].
pub(super) fn overall(atlas: &Atlas) -> Vec<Overall> {
    let of = |(e, entrant): (usize, &'static Entrant)| {
        let rows: Vec<&Row> = atlas.of(e, GROUP).filter(|row| row.how != "impossible").collect();
        let column = |name: &'static str| rows.iter().filter_map(move |row| row.get(name));
        let extreme = |name: &'static str, sign: f64| {
            let found = rows.iter().filter_map(|row| Some((row.get(name)?, row.task.clone())));
            found.max_by(|a, b| (sign * a.0).total_cmp(&(sign * b.0))).unwrap_or((f64::NAN, String::new()))
        };
        // Per task the largest group that the budget pays for.
        let at_budget = |row: &Row| {
            let passes = row.get("passes")?;
            let t = atlas.tasks.iter().position(|t| t.name == row.task)?;
            let paid = |r: &&Row| r.group as f64 * passes <= BUDGET * (1.0 + 1e-12);
            atlas.rows[t][e].iter().rfind(paid)?.get("mse")
        };
        let paid: Option<Vec<f64>> = rows.iter().map(|row| at_budget(row)).collect();
        Overall {
            entrant,
            tasks: rows.len(),
            sampled: rows.iter().filter(|row| !row.exact()).count(),
            unbiased: rows.iter().filter(|row| unbiased(row)).count(),
            mean_cosine: mean(column("cosine")).unwrap_or(f64::NAN),
            worst: extreme("cosine", -1.0),
            reversed: extreme("reversed_visits", 1.0),
            lost: mean(column("cosine").map(|c| 1.0 - c * c)).unwrap_or(f64::NAN),
            mse: mean(column("mse")).unwrap_or(f64::NAN),
            mse_bias: mean(column("mse_bias")).unwrap_or(f64::NAN),
            mse_variance: mean(column("mse_variance")).unwrap_or(f64::NAN),
            mse_at_budget: paid.and_then(|v| mean(v.into_iter())),
            passes: mean(column("passes")).unwrap_or(f64::NAN),
            means: MEANS.map(|name| mean(column(name))).to_vec(),
        }
    };
    ENTRANTS.iter().enumerate().map(of).collect()
}

/// One row per entrant: what a reader asks first.
pub(super) fn summary(atlas: &Atlas) -> Table {
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
pub(super) fn parts(atlas: &Atlas) -> Table {
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
pub(super) fn costs(atlas: &Atlas) -> Table {
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
pub(super) fn tasks(atlas: &Atlas) -> Table {
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
pub(super) fn identities(atlas: &Atlas) -> Table {
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
