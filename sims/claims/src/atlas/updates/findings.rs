//! Findings: the direction of the expected updates, and the error of one at the best step size.

use super::measure::Atlas;
use super::overall::{BUDGET, Overall, SHARP, names, overall, unbiased};
use super::row::{Column, GROUP, Row};
use crate::atlas::entries::{BASELINE, ENTRIES, Entry, Family};
use crate::experiment::{Finding, Verdict};
use crate::experiments::common::{holds_or, largest};
use grpo_lambda_stats::mean;

pub(super) fn findings(atlas: &Atlas) -> Vec<Finding> {
    let all = overall(atlas);
    vec![
        headline(&all),
        equal_lengths(atlas, &all),
        reversal(&all, atlas.uncut),
        tracing(atlas, &all),
        lambda(&all),
        rescaling(atlas),
        equal_cost(&all),
        credit(atlas),
    ]
}

/// The most variants that a finding shows.
const MOST: usize = 5;

/// Shows these columns of the first of some variants.
fn showing(finding: Finding, variants: &[&str], columns: &[&str]) -> Finding {
    let some = &variants[..variants.len().min(MOST)];
    if some.is_empty() {
        return finding;
    }
    finding.rows("summary", &[&["method"], columns].concat()).only("method", some)
}

/// The names of some variants in the order of a number.
fn by<'a>(all: impl Iterator<Item = &'a Overall<'a>>, number: fn(&Overall) -> f64) -> Vec<&'static str> {
    let mut all: Vec<&Overall> = all.collect();
    all.sort_by(|a, b| number(a).total_cmp(&number(b)));
    all.into_iter().map(|o| o.entry.name).collect()
}

fn place(name: &str) -> Option<usize> {
    ENTRIES.iter().position(|e| e.name == name)
}

fn headline(all: &[Overall]) -> Finding {
    let good = || all.iter().filter(|o| o.is_unbiased_everywhere());
    let turned = by(all.iter().filter(|o| !o.is_unbiased_everywhere()), |o| o.worst.0);
    let statement = "With finer credit than one number per response the expected update follows the gradient of expected \
         reward";
    let verdict = match turned.is_empty() {
        true => Verdict::Holds,
        false => Verdict::HoldsWhen(format!(
            "the finer credit is a difference of unbiased values. On all tasks {} of {} methods are unbiased up \
             to scale",
            good().count(),
            all.len()
        )),
    };
    let finding = Finding::new("headline", statement, verdict)
        .value("cells", all.iter().map(Overall::tasks).sum::<usize>())
        .value("cells simulated", all.iter().map(Overall::sampled).sum::<usize>())
        .value("largest standard error of an unbiased one", SHARP);
    let families = [
        ("unbiased with one number per response", Family::Group),
        ("with a trace", Family::Trace),
        ("with scores", Family::Score),
        ("with values", Family::Value),
    ];
    let finding = families.into_iter().fold(finding, |finding, (name, family)| {
        finding.value(name, names(good().filter(|o| o.entry.family == family)))
    });
    showing(finding, &turned, &["unbiased on", "mean cosine", "lowest cosine", "on task"])
        .note("Of the others those with the lowest cosines are shown. Where a cell is simulated, unbiased means within three standard errors.")
}

/// Tasks whose responses have one length.
fn equal_lengths(atlas: &Atlas, all: &[Overall]) -> Finding {
    let equal: Vec<&str> =
        atlas.tasks.iter().filter(|t| t.equal_lengths()).map(|t| t.name.as_str()).collect();
    let turned = || all.iter().filter(|o| o.entry.family == Family::Group && !o.is_unbiased_everywhere());
    let turned_when_equal = |o: &&Overall| {
        let rows = place(o.entry.name).into_iter().flat_map(|e| atlas.rows_of(e, GROUP));
        let mut possible = rows.filter(|row| row.how != "impossible");
        possible.any(|row| equal.contains(&row.task.as_str()) && !unbiased(row))
    };
    let bad = names(turned().filter(turned_when_equal));
    let good = by(turned().filter(|o| !turned_when_equal(o)), |o| o.worst.0);
    let verdict = match turned().any(|o| turned_when_equal(&o)) {
        false => Verdict::HoldsWhen(
            "all responses have one length. If lengths vary, dividing by numbers of tokens changes the \
             direction"
                .into(),
        ),
        true => Verdict::Fails(format!("these methods change the direction even at equal lengths: {bad}")),
    };
    let statement = "With one number per response the expected update keeps the direction of the gradient under \
        every normalisation";
    let finding = Finding::new("equal_lengths", statement, verdict)
        .value("tasks of one length", equal.len())
        .value("methods that are unbiased there alone", good.len());
    showing(finding, &good, &["lowest cosine", "on task"]).note("Of these the most turned are shown.")
}

fn reversal(all: &[Overall], [grpo, traced]: [f64; 2]) -> Finding {
    let reversing = by(all.iter().filter(|o| o.reversed.0 > 0.0), |o| -o.reversed.0);
    let finding = Finding::new(
        "reversal",
        "No method reverses the update of a prefix: κ(s) ≥ 0 wherever the gradient is not 0",
        holds_or(
            reversing.is_empty(),
            format!("{} of {} methods reverse at least one prefix", reversing.len(), all.len()),
        ),
    )
    .value("reversed as a whole on a task", names(all.iter().filter(|o| o.worst.0 < 0.0)))
    .value("cosine of GRPO-λ recent on eos_hazard_dependent at its own horizon of 8", traced)
    .value("cosine of GRPO there", grpo)
    .note("The list cuts eos_hazard_dependent to a horizon of 5; `length_bonus` sweeps the horizon.");
    showing(finding, &reversing, &["reversed visits, most"])
}

fn lambda(all: &[Overall]) -> Finding {
    let names = ["GRPO-λ recent", BASELINE];
    let [traced, plain] =
        names.map(|name| all.iter().find(|o| o.entry.name == name).and_then(|o| o.mean(Column::Cosine)));
    let statement = "The expected update of GRPO-λ (recent) is as close to the gradient as GRPO's";
    let ok = traced.zip(plain).is_some_and(|(traced, plain)| traced >= plain - 1e-6);
    let finding = Finding::new("lambda", statement, holds_or(ok, "the mean cosine of GRPO-λ is lower"));
    showing(finding, &names, &["mean cosine", "lowest cosine", "on task"])
}

/// Prefix-tree methods and the direction within prefixes.
fn rescaling(atlas: &Atlas) -> Finding {
    const SOUND: &str = "TEMPO, no std";
    let worst = |name: &str, column| {
        let rows = place(name).into_iter().flat_map(|e| atlas.rows_of(e, GROUP)).filter(|r| r.exact());
        largest(rows.filter_map(|r| r.get(column)))
    };
    let verdict = match worst(SOUND, Column::BiasDirection) < 1e-6 {
        true => Verdict::HoldsWhen(
            "neither rewards are divided by the group's standard deviation nor losses by token counts, as in \
             *TEMPO, no std*".into(),
        ),
        false => Verdict::Fails("*TEMPO, no std* changes the direction within a prefix".into()),
    };
    let statement = "Prefix-tree credit (TEMPO, TreeRL, SPO-tree, TreeRPO) changes only the relative weights of \
        prefixes: within a prefix the update has the gradient's direction";
    let finding = Finding::new("rescaling", statement, verdict).note("Largest on any exact task.");
    let shown = [SOUND, "TEMPO", "TreeRL", "SPO-tree", "TreeRPO (recon.)"];
    shown.into_iter().fold(finding, |finding, name| {
        finding
            .value(format!("bias of {name}: within prefixes (direction)"), worst(name, Column::BiasDirection))
            .value(
                format!("bias of {name}: between prefixes (rescaling)"),
                worst(name, Column::BiasRescaling),
            )
            .value(format!("{name}: variation of κ(s)"), worst(name, Column::KappaCv))
    })
}

/// A variant with a trace against the variant of GRPO that differs from it only by the trace.
fn tracing(atlas: &Atlas, all: &[Overall]) -> Finding {
    const CLAMPED: &str = "GRPO, clamp -0.1";
    let pairs = [
        ("GRPO-λ recent, no clamp", BASELINE),
        ("GRPO-λ both, no clamp", BASELINE),
        ("GRPO-λ recent", CLAMPED),
        ("GRPO-λ both", CLAMPED),
        ("P-trace (recon.)", BASELINE),
    ];
    let compared = pairs.iter().filter_map(|(traced, plain)| {
        let (t, p) = (place(traced)?, place(plain)?);
        let both = atlas.rows_of(t, GROUP).zip(atlas.rows_of(p, GROUP));
        let differences = both.filter_map(|(a, b)| Some(a.get(Column::Mse)? - b.get(Column::Mse)?));
        let differences: Vec<f64> = differences.collect();
        // Differences that rounding could make are none.
        let count = |side: f64| differences.iter().filter(|d| side * **d > 1e-6).count();
        Some((traced, [t, p].map(|k| all[k].mean(Column::Mse)), [count(-1.0), count(1.0)]))
    });
    let compared: Vec<_> = compared.collect();
    let [lower, higher] = [0, 1].map(|side| compared.iter().map(|(.., counts)| counts[side]).sum::<usize>());
    let verdict = match (lower, higher) {
        (_, 0) => Verdict::Holds,
        _ if higher > lower => Verdict::Fails(format!(
            "the trace changes the error in {} pairs of a trace and a task and raises it in {higher} of them",
            lower + higher
        )),
        _ => Verdict::HoldsWhen(format!("the case is one of {lower} of the {} that differ", lower + higher)),
    };
    let statement = format!(
        "A trace lowers the error (MSE) of one update at the best step size in groups of \
        {GROUP}"
    );
    let finding = Finding::new("tracing", statement, verdict)
        .note("Mean error relative to |∇J|², over tasks; without the trace the clamp stays as it is.");
    compared.iter().fold(finding, |finding, (name, [own, plain], [lower, higher])| {
        finding
            .value(format!("{name}: error"), own)
            .value(format!("{name}: error without the trace"), plain)
            .value(format!("{name}: lower on"), lower)
            .value(format!("{name}: higher on"), higher)
    })
}

fn equal_cost(all: &[Overall]) -> Finding {
    let paid = |o: &&Overall| o.mse_at_budget.is_some();
    let order = by(all.iter().filter(paid), |o| o.mse_at_budget.unwrap_or(f64::INFINITY));
    let family = |name: &&&str| place(name).is_some_and(|e| ENTRIES[e].family == Family::Group);
    let plain = order.iter().find(family).copied();
    let first = order.first().copied();
    let verdict = match first.filter(|first| Some(*first) != plain) {
        Some(first) => Verdict::HoldsWhen(format!("the method is {first}")),
        None => Verdict::Fails("a method with one number per response has the lowest error".into()),
    };
    let statement = "At equal cost a method with finer credit has the lowest error of one update";
    let finding =
        Finding::new("equal_cost", statement, verdict).value("responses written or scored", BUDGET).value(
            "beyond the budget even in groups of two on some task",
            names(all.iter().filter(|o| !paid(o))),
        );
    let shown: Vec<&str> = order.iter().take(MOST - 1).copied().chain(plain).collect();
    showing(finding, &shown, &["error, equal cost", "cost"])
}

fn credit(atlas: &Atlas) -> Finding {
    let rank = |row: &Row| row.get(Column::CreditRankCorrelation).filter(|_| row.exact());
    let per_token = |e: &Entry| e.family != Family::Group && e.method != ENTRIES[0].method;
    // A variant's mean correlation, and the baseline's on the same tasks.
    let compared = ENTRIES.iter().enumerate().filter(|(_, e)| per_token(e)).filter_map(|(e, entry)| {
        let pairs = atlas.rows_of(e, GROUP).zip(atlas.rows_of(0, GROUP));
        let (own, base): (Vec<f64>, Vec<f64>) =
            pairs.filter_map(|(own, base)| Some((rank(own)?, rank(base)?))).unzip();
        Some((entry.name, [mean(&own)?, mean(&base)?], own.len()))
    });
    let mut ranked: Vec<_> = compared.collect();
    ranked.sort_by(|(_, [a, b], _), (_, [c, d], _)| (a - b).total_cmp(&(c - d)));
    let below = ranked.iter().filter(|(_, [own, base], _)| own - base < -1e-9).count();
    let statement = "In expectation methods with credit per token rank the possible next tokens of a prefix better than GRPO \
         does";
    let verdict = holds_or(
        below == 0 && !ranked.is_empty(),
        format!("{below} of {} methods rank them worse", ranked.len()),
    );
    let finding = Finding::new("credit", statement, verdict).note(
        "Rank correlation of implied credit with A, and GRPO's, mean over the tasks on which both are exact: those furthest below it, or least above.",
    );
    ranked.iter().take(MOST).fold(finding, |finding, (name, both, tasks)| {
        finding
            .value(format!("{name}: its correlation and GRPO's"), both)
            .value(format!("{name}: tasks"), tasks)
    })
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::atlas::tasks::tasks;
    use crate::experiments::common::words;

    /// Two tasks, of equal and of varying lengths, on which every entry's expected update is a multiple of the gradient.
    fn unbiased() -> Atlas {
        unbiased_on(|task| ["pivot", "fork"].contains(&task))
    }

    /// An atlas of some tasks, as [`unbiased`] has it. TEMPO errs less than all others.
    pub(in crate::atlas::updates) fn unbiased_on(keep: impl Fn(&str) -> bool) -> Atlas {
        let tasks: Vec<_> = tasks(false).unwrap().into_iter().filter(|t| keep(&t.name)).collect();
        let rows = tasks.iter().map(|task| ENTRIES.iter().map(|e| vec![row(task, e)]).collect()).collect();
        Atlas { residuals: vec![0.0; tasks.len()], tasks, groups: vec![GROUP], rows, uncut: [1.0; 2] }
    }

    fn row(task: &crate::training::Task, entry: &crate::atlas::entries::Entry) -> Row {
        let mut row = Row::new(task, entry, GROUP);
        row.how = "exact".into();
        for column in [
            Column::Bias,
            Column::BiasDirection,
            Column::BiasRescaling,
            Column::CosineSe,
            Column::KappaCv,
            Column::ReversedVisits,
        ] {
            row.set(column, 0.0);
        }
        for column in [Column::Cosine, Column::Passes, Column::CreditRankCorrelation, Column::CreditR2] {
            row.set(column, 1.0);
        }
        row.set(Column::Mse, if entry.name == "TEMPO" { 0.4 } else { 0.5 });
        row
    }

    pub(in crate::atlas::updates) fn row_of<'a>(
        atlas: &'a mut Atlas,
        task: &str,
        entry: &str,
    ) -> &'a mut Row {
        let t = atlas.tasks.iter().position(|t| t.name == task).unwrap();
        let e = ENTRIES.iter().position(|e| e.name == entry).unwrap();
        &mut atlas.rows[t][e][0]
    }

    const H: &str = "Holds";
    const W: &str = "Holds when";
    const F: &str = "Fails";

    /// The verdicts after changes to [`unbiased`]: task, entry, column, value.
    fn after(changes: &[(&str, &str, Column, f64)]) -> Vec<&'static str> {
        let mut atlas = unbiased();
        for &(task, entry, column, value) in changes {
            row_of(&mut atlas, task, entry).set(column, value);
        }
        words(&findings(&atlas))
    }

    #[test]
    fn each_verdict_follows_its_own_numbers() {
        assert_eq!(after(&[]), [H, W, H, H, H, W, W, H]);
        assert_eq!(after(&[("fork", BASELINE, Column::Bias, 0.1)])[..2], [W, W], "turned where lengths vary");
        assert_eq!(after(&[("pivot", BASELINE, Column::Bias, 0.1)])[..2], [W, F], "turned at equal lengths");
        assert_eq!(after(&[("fork", "TreeRL", Column::ReversedVisits, 0.2)])[2], F);
        let recent = "GRPO-λ recent, no clamp";
        assert_eq!(after(&[("fork", recent, Column::Mse, 0.9)])[3], F, "the trace only adds error");
        assert_eq!(after(&[("fork", recent, Column::Mse, 0.1)])[3], H, "it only takes error away");
        let both = [("fork", recent, Column::Mse, 0.1), ("pivot", recent, Column::Mse, 0.9)];
        assert_eq!(after(&both)[3], W);
        assert_eq!(after(&[("fork", "GRPO-λ recent", Column::Cosine, 0.2)])[4], F);
        assert_eq!(after(&[("fork", "TEMPO, no std", Column::BiasDirection, 0.2)])[5], F);
        assert_eq!(after(&[("fork", "RLOO", Column::Mse, 0.01)])[6], F, "one number per response errs least");
        assert_eq!(after(&[("fork", "OAR-P", Column::CreditRankCorrelation, 0.1)])[7], F);
    }

    #[test]
    fn the_order_of_credit_is_judged_on_exact_rows_of_methods_with_credit_per_token() {
        let rank = Column::CreditRankCorrelation;
        let mut atlas = unbiased();
        row_of(&mut atlas, "fork", "RLOO").set(rank, 0.5);
        row_of(&mut atlas, "fork", "GRPO, 1/T, with OAR's policy").set(rank, 0.5);
        let sampled = row_of(&mut atlas, "fork", "VinePPO, K = 8");
        sampled.how = "sampled".into();
        sampled.set(rank, 0.7);
        assert_eq!(credit(&atlas).verdict, Verdict::Holds);
        let of_vine = |atlas: &Atlas| {
            let all = overall(atlas);
            all.iter().find(|o| o.entry.name == "VinePPO, K = 8").and_then(|o| o.mean(rank))
        };
        assert_eq!(of_vine(&atlas), None, "no cell of a table has the noise of a mean");
        assert_eq!(of_vine(&unbiased()), Some(1.0));
        // Where one has no number the other's does not count.
        row_of(&mut atlas, "fork", "SHEAR").set(rank, f64::NAN);
        for name in ["SHEAR", BASELINE] {
            row_of(&mut atlas, "pivot", name).set(rank, 0.9);
        }
        assert_eq!(credit(&atlas).verdict, Verdict::Holds);
        row_of(&mut atlas, "pivot", "SHEAR").set(rank, 0.8);
        assert_eq!(credit(&atlas).verdict.word(), F);
        let mut sampled = unbiased();
        sampled.rows.iter_mut().flatten().flatten().for_each(|row| row.how = "sampled".into());
        assert_eq!(credit(&sampled).verdict.word(), F, "without an exact row nothing holds");
    }
}
