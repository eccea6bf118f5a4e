//! The text's statements about its numbers.

use super::list;
use super::noise::common_gains;
use crate::experiment::Finding;
use crate::experiments::common::claim::{claim, quoted};
use crate::experiments::common::mean;
use crate::experiments::paper_audit::Audit;
use crate::experiments::paper_audit::gains::{self, Estimate, Gain};
use crate::sentences::SentenceId;
use grpo_lambda_printed::{Benchmark, Column, Dataset, Model, Run};

/// Printed Table 1 gains in average accuracy, in points.
fn table1_gains(audit: &Audit) -> [f64; 4] {
    Model::ALL.map(|m| {
        let pair = &audit.paper.table1[m as usize];
        f64::from(pair.lambda.average.0 - pair.grpo.average.0) / 10.0
    })
}

/// Table 1 gains recomputed from the unrounded aggregations of Tables 3-6.
fn recomputed_gains(audit: &Audit) -> [f64; 4] {
    Model::ALL.map(|m| {
        let i = 2 * m as usize;
        100.0 * (audit.table1[i + 1].best.values[5] - audit.table1[i].best.values[5])
    })
}

pub(super) fn three_points(audit: &Audit) -> Finding {
    let printed = table1_gains(audit);
    let recomputed = recomputed_gains(audit);
    let without = mean(&[printed[0], printed[1], printed[3]]);
    let same_variant = mean(&common_gains(audit).map(|e| e.points));
    let over = |x: f64| x > 3.0 + 1e-9;
    let (a, b) = (mean(&printed), mean(&recomputed));
    let table =
        format!("Table 1 itself gives {a:.2} ({b:.2} before rounding), and {without:.2} without its 3B row");
    let condition = format!("recent/ε-trace/0.99 is taken on all four models ({same_variant:.2}). {table}");
    let holds = over(a) && over(b) && over(without);
    let finding =
        quoted(SentenceId::ThreePoints).holds_when(holds, over(same_variant), condition, table.as_str());
    finding.each(Model::ALL, |finding, m| {
        finding
            .value(format!("{}: gain of Table 1", m.name()), printed[m as usize])
            .value(format!("{}: recomputed from Tables 3-6", m.name()), recomputed[m as usize])
    })
}

pub(super) fn seven_b(audit: &Audit) -> Finding {
    let four = gains::by_dataset(&audit.gains, Model::R1Qwen7, Column::COMMON);
    let mean_gain = gains::mean_gain(&audit.gains, Model::R1Qwen7, Column::COMMON);
    let printed = |g: &&Gain| g.printed_points();
    let best = four.iter().max_by(|a, b| printed(a).total_cmp(&printed(b))).expect("four runs");
    let detail = format!(
        "{:+.1} is the best of four data sets ({}). Their mean is {mean_gain}, and Table 1 prints {:+.1}",
        best.printed_points(),
        best.run.dataset.name(),
        table1_gains(audit)[3]
    );
    quoted(SentenceId::SevenBGain).holds_or(mean_gain.points >= 4.45, detail).each(&four, |finding, g| {
        let name = g.run.dataset.name();
        finding
            .value(format!("{name}: gain"), g.printed_points())
            .value(format!("{name}: z"), g.estimate().z())
    })
}

pub(super) fn math_rl(audit: &Audit) -> Finding {
    let points = |d: Dataset| {
        Model::ALL.map(|m| gains::by_dataset(&audit.gains, m, Column::COMMON)[d as usize].printed_points())
    };
    let mean_gain = mean(&points(Dataset::MathRl16k));
    quoted(SentenceId::FivePoints)
        .holds_or((mean_gain - 5.52).abs() <= 0.01, format!("the mean gain is {mean_gain:.3} points"))
        .each(Dataset::ALL, |finding, d| finding.value(d.name(), mean(&points(d))))
        .note("Mean gains over the models in points, recent/ε-trace/0.99.")
}

pub(super) fn aime_ten(audit: &Audit) -> Finding {
    let g = gains::by_dataset(&audit.gains, Model::R1Qwen7, Column::COMMON)[Dataset::MathRl16k as usize];
    let n = Benchmark::Aime.items() as f64;
    let (p1, p2) = (g.run.scores[0].value(), g.baseline.scores[0].value());
    let se = 100.0 * ((p1 * (1.0 - p1) + p2 * (1.0 - p2)) / n).sqrt();
    let e = Estimate { points: 100.0 * (p1 - p2), se };
    claim(
        "aime_ten",
        "\"a 10 point improvement on AIME24\" of the 7B model (Figure 1) exceeds the noise of its items",
    )
    .holds_or(
        e.z() > 1.96,
        format!("the improvement is {e} points ({:.0} of {n} items instead of {:.0})", p1 * n, p2 * n),
    )
    .value("z", e.z())
}

/// The training improvement in percent, in the abstract and the contributions and in Section 4.2.
const IMPROVEMENT: [(f64, f64); 2] = [(30.0, 40.0), (20.0, 50.0)];

pub(super) fn improvement_range() -> Finding {
    let [a, b] = IMPROVEMENT;
    let statement = "\"30-40 % improved performance during RL training\" (abstract, contributions) is what Section 4.2 reports";
    claim("improvement_range", statement)
        .holds_or(a == b, format!("Section 4.2 says {}-{} %", b.0, b.1))
        .note("Training curves are printed only as figures, so neither can be recomputed.")
}

/// Mean accuracy of a column per data set, and the rank of one data set (1 is best).
fn rank(runs: &[&Run], dataset: Dataset) -> usize {
    let own = runs.iter().find(|r| r.dataset == dataset).expect("every column has all data sets");
    1 + runs.iter().filter(|r| r.sum() > own.sum()).count()
}

fn by_dataset(audit: &Audit) -> Vec<(Model, Column, Vec<&Run>)> {
    let both = |m: Model| [Column::GRPO, Column::COMMON].map(|c| (m, c, audit.paper.row_of_runs(m, c)));
    Model::ALL.into_iter().flat_map(both).collect()
}

/// The finding on a data set that is said to have a rank throughout; `opposite` is what some rows show instead.
fn ranked(
    audit: &Audit,
    (id, dataset): (SentenceId, Dataset),
    (said, is_said): (&str, fn(usize) -> bool),
    (opposite, is_opposite): (&str, usize),
) -> Finding {
    let rows = by_dataset(audit);
    let as_said = rows.iter().filter(|(_, _, runs)| is_said(rank(runs, dataset))).count();
    let others: Vec<_> = rows.iter().filter(|(_, _, runs)| rank(runs, dataset) == is_opposite).collect();
    let named = list(&others, |(m, c, _)| format!("{} {}", m.name(), c.name()));
    let (all, others) = (rows.len(), others.len());
    quoted(id)
        .holds_or(
            as_said == all,
            format!(
                "the data set is {said} of four in {as_said} of {all} rows, and {opposite} in {others} \
                ({named})"
            ),
        )
        .rows("data_sets", &[])
}

pub(super) fn orz(audit: &Audit) -> Finding {
    let about = (SentenceId::OrzMathIsWorse, Dataset::OrzMath57k);
    ranked(audit, about, ("the worst", |rank| rank == 4), ("the best", 1))
}

pub(super) fn math_rl_is_good(audit: &Audit) -> Finding {
    let about = (SentenceId::MathRlIsBest, Dataset::MathRl16k);
    ranked(audit, about, ("among the better two", |rank| rank <= 2), ("the worst", 4))
}

pub(super) fn grows_with_size(audit: &Audit) -> Finding {
    let g = table1_gains(audit);
    let detail =
        format!("the gap is {:+.1} points on the 7B model and {:+.1} on R1-Distill-Qwen-1.5B", g[3], g[1]);
    quoted(SentenceId::GapGrowsWithSize)
        .holds_or(g[2].min(g[3]) > g[0].max(g[1]), detail)
        .each(Model::ALL.into_iter().zip(g), |finding, (m, g)| finding.value(m.name(), g))
}

pub(super) fn llama_is_weaker(audit: &Audit) -> Finding {
    let t = &audit.paper.table1;
    let llama = t[Model::R1Llama3 as usize];
    let holds = Model::SMALL.iter().all(|m| {
        let small = t[*m as usize];
        llama.grpo.average < small.grpo.average && llama.lambda.average < small.lambda.average
    });
    let pairs = Model::ALL.into_iter().zip(t);
    quoted(SentenceId::ThreeBIsWorse).holds_or(holds, "not in Table 1").each(pairs, |finding, (m, p)| {
        finding
            .value(format!("{}: GRPO", m.name()), p.grpo.average.value())
            .value(format!("{}: GRPO-λ", m.name()), p.lambda.average.value())
    })
}
