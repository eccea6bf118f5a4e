//! Tables and figures.

use super::measure::{Atlas, MaskedTask, Size, piece, seed_of};
use super::overall::{Overall, PARTS, overall};
use super::row::{Column, GROUP, Row};
use crate::atlas::entries::{BASELINE, ENTRIES, Entry, Extra, Family};
use crate::atlas::tasks::tasks;
use crate::experiment::CASES;
use crate::experiments::common::heat;
use crate::experiments::common::record::{Record, table};
use crate::figure::{Axis, Figure, Panel};
use crate::training::Task;
use anyhow::Context as _;
use grpo_lambda_mdp::Oracle;
use grpo_lambda_stats::table::{Table, significant};

pub(super) fn tables(atlas: &Atlas) -> Vec<(String, Table)> {
    vec![
        (String::new(), long(atlas)),
        (CASES.into(), cases(atlas)),
        ("error".into(), error(atlas)),
        ("summary".into(), summary(atlas)),
        ("parts".into(), parts(atlas)),
        ("costs".into(), costs(atlas)),
        ("tasks".into(), task_list(atlas)),
    ]
}

fn long_row(row: &Row, entry: &Entry, task: &Task) -> Record {
    let names = Record::default()
        .with("task", task.name.as_str())
        .with("method", entry.name)
        .with("family", entry.family.name())
        .with("provenance", entry.provenance().name())
        .with("group", row.group)
        .with("how", row.how.as_str());
    numbers(names, row, &Column::ALL).with("reason", row.reason.as_str())
}

/// Adds some numbers of a row.
fn numbers(record: Record, row: &Row, columns: &[Column]) -> Record {
    columns.iter().fold(record, |record, &column| record.with(column.name(), row.get(column)))
}

/// One row per task and entry, in groups of [`GROUP`].
fn long(atlas: &Atlas) -> Table {
    table(atlas.tasks.iter().zip(&atlas.rows).flat_map(|(task, by_entry)| {
        ENTRIES.iter().zip(by_entry).flat_map(move |(entry, rows)| {
            rows.iter().filter(|row| row.group == GROUP).map(move |row| long_row(row, entry, task))
        })
    }))
}

/// One row per task and entry: the error of one update by the size of the group.
fn error(atlas: &Atlas) -> Table {
    let possible = atlas.rows.iter().flatten().filter(|by_group| by_group[0].how != "impossible");
    table(possible.map(|by_group| {
        let names = Record::default()
            .with("task", by_group[0].task.as_str())
            .with("method", by_group[0].method.as_str());
        by_group
            .iter()
            .fold(names, |record, row| record.with(format!("mse_{}", row.group), row.get(Column::Mse)))
    }))
}

/// One row per task, entry and group size: the error of one update and its parts.
fn cases(atlas: &Atlas) -> Table {
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

/// One row per entry: what a reader asks first.
fn summary(atlas: &Atlas) -> Table {
    table(overall(atlas).into_iter().map(|o| {
        let (reversed, at) = o.reversed;
        let reversed =
            if reversed > 0.0 { format!("{} ({at})", significant(reversed, 2)) } else { "0".into() };
        let (worst, on_task) = o.worst;
        Record::default()
            .with("method", o.entry.name)
            .with("provenance", o.entry.provenance().name())
            .with("unbiased on", format!("{} of {}", o.unbiased(), o.tasks()))
            .with("mean cosine", o.mean(Column::Cosine))
            .with("lowest cosine", worst)
            .with("on task", if worst > 1.0 - 1e-9 { "-" } else { on_task })
            .with("sign agreement", o.mean(Column::SignAgreement))
            .with("reversed visits, most", reversed)
            .with("credit rank correlation", o.mean(Column::CreditRankCorrelation))
            .with("error, G = 8", o.mean(Column::Mse))
            .with("error, equal cost", o.mse_at_budget)
            .with("cost", o.mean(Column::Passes))
    }))
}

/// One row per entry: its bias and its error taken apart.
fn parts(atlas: &Atlas) -> Table {
    table(overall(atlas).into_iter().map(|o| {
        let names = Record::default().with("method", o.entry.name).with("family", o.entry.family.name());
        PARTS
            .into_iter()
            .fold(names, |record, column| record.with(column.name(), o.mean(column)))
            .with("tasks", o.tasks())
            .with("of_them_sampled", o.sampled())
    }))
}

/// One row per entry: what it costs, needs and rests on, and its command.
fn costs(atlas: &Atlas) -> Table {
    table(overall(atlas).into_iter().map(|o| {
        let e = o.entry;
        Record::default()
            .with("method", e.name)
            .with("family", e.family.name())
            .with("provenance", e.provenance().name())
            .with("extra_forwards", words(e.cost.forwards))
            .with("extra_rollouts", words(e.cost.rollouts))
            .with("needs", e.cost.needs)
            .with("responses_in_all", o.mean(Column::Passes))
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

/// `entries` by name on the first `tasks_taken` tasks, as the quick version has them at the group size of its main table.
///
/// # Errors
/// If a task or an entry cannot be built.
pub fn excerpt(seed: u64, tasks_taken: usize, entries: &[&str]) -> anyhow::Result<Table> {
    let effort = Size::new(false).effort;
    let mut records = Vec::new();
    for (t, task) in tasks(false)?.into_iter().take(tasks_taken).enumerate() {
        let masked = MaskedTask::new(task, seed);
        for (e, entry) in ENTRIES.iter().enumerate().filter(|(_, e)| entries.contains(&e.name)) {
            for row in piece(&masked, entry, &[GROUP], effort, seed_of(seed, t, e))? {
                records.push(long_row(&row, entry, &masked.task));
            }
        }
    }
    Ok(table(records))
}

/// The variants whose rows stand on the page.
const ON_PAGE: [&str; 12] = [
    BASELINE,
    "GRPO, 1/T",
    "RLOO",
    "GRPO-λ recent",
    "GRPO-λ recent, no clamp",
    "P-trace (recon.)",
    "high entropy 80/20",
    "OAR-P",
    "Prefix RLOO",
    "TEMPO",
    "GAE, exact critic",
    "VinePPO, exact values",
];

/// Some rows and columns of the table `summary`, with a link to all.
///
/// # Errors
/// If the text is no such table.
pub(crate) fn on_page(text: &str) -> anyhow::Result<String> {
    let columns =
        ["method", "unbiased on", "mean cosine", "lowest cosine", "on task", "error, equal cost", "cost"];
    let all = Table::from_csv(text)?;
    let places = columns.iter().map(|name| all.column(name)).collect::<Option<Vec<_>>>();
    let places = places.context("the summary lacks a column of the page")?;
    let mut some = Table::new(&columns);
    for row in all.rows.iter().filter(|row| ON_PAGE.contains(&row[places[0]].format(4).as_str())) {
        some.push(places.iter().map(|&at| row[at].clone()).collect());
    }
    let link = format!("[all {}](data/atlas_updates_summary.csv)", all.rows.len());
    Ok(format!("{}\nThe table has {} of {link} methods.\n", some.to_markdown(), some.rows.len()))
}

pub(super) fn figures(atlas: &Atlas) -> Vec<(String, Figure)> {
    vec![(String::new(), map(atlas)), ("error".into(), errors(atlas))]
}

const FAMILIES: [(Family, &str); 4] = [
    (Family::Group, "one number per response"),
    (Family::Trace, "trace"),
    (Family::Score, "score"),
    (Family::Value, "values"),
];

/// Degrees by which two standard errors may turn an angle that is shown.
const BLURRED: f64 = 10.0;

/// The angle of a cosine.
fn degrees(cosine: f64) -> f64 {
    cosine.clamp(-1.0, 1.0).acos().to_degrees()
}

fn map_title(all: &[Overall]) -> String {
    let good = all.iter().filter(|o| o.is_unbiased_everywhere()).count();
    let worst = all.iter().min_by(|a, b| a.worst.0.total_cmp(&b.worst.0));
    let worst = worst.filter(|o| degrees(o.worst.0) >= 0.5).map_or(String::new(), |o| {
        format!("; the largest angle is {:.0}° ({} on {})", degrees(o.worst.0), o.entry.name, o.worst.1)
    });
    format!(
        "{good} of {} variants are shown to point along the policy gradient on every task{worst}",
        all.len()
    )
}

/// The angle between expected update and gradient, entries by tasks.
fn map(atlas: &Atlas) -> Figure {
    let all = overall(atlas);
    let angle = |row: &Row| {
        let (Some(cosine), Some(error)) = (row.get(Column::Cosine), row.get(Column::CosineSe)) else {
            return f64::NAN;
        };
        // What two standard errors more would turn it by.
        if degrees(cosine - 2.0 * error) - degrees(cosine) > BLURRED {
            f64::NAN
        } else {
            degrees(cosine).round()
        }
    };
    let values = (0..ENTRIES.len()).map(|e| atlas.rows_of(e, GROUP).map(angle).collect()).collect();
    let sampled: usize = all.iter().map(Overall::sampled).sum();
    let rows: usize = all.iter().map(Overall::tasks).sum();
    let caption = format!(
        "Angle in degrees between the expected update of one group of {GROUP} responses and ∇J, at the start policy: rounded; 0 (white) is unbiased up to scale, 90 and more (darkest) \
         no longer climbs. {} of {rows} cells are exact, {sampled} simulated (see the table); grey: impossible, for a reason in the table, or simulated and not known to {BLURRED}° (two standard errors). In the {equal} tasks at the left all responses are equally long.",
        rows - sampled,
        equal = atlas.tasks.iter().take_while(|t| t.equal_lengths()).count()
    );
    let groups = FAMILIES.map(|(family, name)| (name, ENTRIES.iter().filter(|e| e.family == family).count()));
    let panel = Panel::new("")
        .x(Axis::new("task").categories(atlas.tasks.iter().map(|t| t.name.as_str())))
        .y(Axis::new("").categories(ENTRIES.iter().map(|e| e.name)).groups(groups))
        .mark(heat(values, (0.0, 90.0), true, "angle to the policy gradient (degrees)"));
    Figure::new(map_title(&all)).caption(caption).columns(1).panel_size(1060, 1010).panel(panel)
}

/// Entries in the order of the figure.
fn error_title(order: &[&Overall]) -> String {
    let free = order
        .iter()
        .filter(|o| o.errs_less() && o.mean(Column::Passes).is_some_and(|cost| cost <= 1.0 + 1e-12));
    let free: Vec<&str> = free.map(|o| o.entry.name).collect();
    let err = match free.as_slice() {
        [] => "no method is".to_owned(),
        [one] => format!("{one} is"),
        [first @ .., last] => format!("{} and {last} are", first.join(", ")),
    };
    format!("At no extra cost {err} shown to err less in one update than {BASELINE}, over tasks")
}

/// Differences of the error of one update from the baseline's, by entry.
fn errors(atlas: &Atlas) -> Figure {
    let all = overall(atlas);
    let mut order: Vec<&Overall> = all.iter().filter(|o| o.beyond_baseline.is_some()).collect();
    order.sort_by(|a, b| middle(a).total_cmp(&middle(b)));
    let caption = format!(
        "Error of one update: E|c g - ∇J|² / |∇J|² from {GROUP} responses at the best step size c of each method; 1 is no step at all. Dots: mean over {} tasks (fewer where a task is \
         impossible) of the difference to {BASELINE} on the same task; bars: Student's t over tasks, 95 %, not corrected for the number of methods; the title is (Holm). In brackets the share of the expected step that is not along the policy \
         gradient, 1 - cos². Every method has groups of {GROUP} whatever it costs: values of a critic or of completions are not free.",
        atlas.tasks.len()
    );
    let label = |o: &&Overall| format!("{}  [{:.3}]", o.entry.name, o.lost().unwrap_or(f64::NAN));
    let mut panel = Panel::new("")
        .x(format!("error of one update minus that of {BASELINE}"))
        .y(Axis::new("").categories(order.iter().map(label)))
        .vline(0.0, BASELINE);
    for (family, name) in FAMILIES {
        let span = |(i, o): (usize, &&Overall)| {
            let over = o.beyond_baseline.as_ref().filter(|_| o.entry.family == family)?;
            Some((i as f64, over.interval.low, over.interval.mid, over.interval.high))
        };
        panel = panel.spans(name, order.iter().enumerate().filter_map(span));
    }
    Figure::new(error_title(&order))
        .caption(caption)
        .columns(1)
        .panel_size(620, 720)
        .names(FAMILIES.map(|f| f.1))
        .panel(panel)
}

/// The mean difference to the baseline.
fn middle(o: &Overall) -> f64 {
    o.beyond_baseline.as_ref().map_or(f64::NAN, |over| over.interval.mid)
}

#[cfg(test)]
mod tests {
    use super::super::findings::tests::{row_of, unbiased_on};
    use super::*;

    #[test]
    fn an_angle_that_noise_hides_is_not_said_to_turn() {
        let mut atlas = unbiased_on(|task| ["pivot", "fork"].contains(&task));
        let row = row_of(&mut atlas, "fork", "VinePPO, K = 8");
        row.how = "sampled".into();
        row.set(Column::CosineSe, 0.001);
        let (shown, all) = (ENTRIES.len() - 1, ENTRIES.len());
        let along = |shown| {
            format!("{shown} of {all} variants are shown to point along the policy gradient on every task")
        };
        assert_eq!(map_title(&overall(&atlas)), along(shown));
        row_of(&mut atlas, "pivot", "OAR-P").set(Column::Cosine, 0.5);
        row_of(&mut atlas, "pivot", "OAR-P").set(Column::Bias, 1.7);
        let turned = format!("{}; the largest angle is 60° (OAR-P on pivot)", along(shown - 1));
        assert_eq!(map_title(&overall(&atlas)), turned);
    }

    #[test]
    fn the_best_of_many_methods_is_named_only_if_it_is_better_after_correction() {
        let names = tasks(false).unwrap().into_iter().map(|t| t.name).collect::<Vec<_>>();
        // TEMPO errs less on every task.
        let after = |number: usize| {
            let atlas = unbiased_on(|task| names[..number].iter().any(|name| name == task));
            let all = overall(&atlas);
            let tempo = all.iter().find(|o| o.entry.name == "TEMPO").unwrap().beyond_baseline.clone();
            (tempo.unwrap().p, error_title(&all.iter().collect::<Vec<_>>()))
        };
        let (p, title) = after(8);
        assert!(p < 0.01 && title.contains("no method is shown to err less"), "{p}: {title}");
        let (p, title) = after(18);
        assert!(p < 1e-4 && title.contains("TEMPO is shown to err less"), "{p}: {title}");
    }
}
