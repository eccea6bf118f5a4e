//! Findings: the direction of the expected updates, and the error of one at the best step size.

use super::measure::Atlas;
use super::overall::{BUDGET, Overall, SHARP, names, overall, unbiased};
use super::row::{Column, GROUP, Row};
use crate::atlas::entrants::{BASELINE, ENTRANTS, Entrant, Family};
use crate::experiment::{Finding, Verdict};
use crate::experiments::common::{holds_or, list, short};
use grpo_lambda_stats::mean;

pub(super) fn findings(atlas: &Atlas) -> Vec<Finding> {
    let all = overall(atlas);
    let named = |name: &str| all.iter().find(|o| o.entrant.name == name);
    let mut findings =
        vec![headline(atlas, &all), equal_lengths(atlas), reversal(&all, atlas.uncut), tracing(atlas, &all)];
    findings.extend(named("GRPO-λ recent").zip(named(BASELINE)).map(|(l, g)| lambda(l, g)));
    findings.push(rescaling(atlas));
    findings.push(equal_cost(&all));
    findings.push(credit(atlas));
    findings
}

/// Shows these columns of some readings.
fn showing(finding: Finding, readings: &[&str], columns: &[&str]) -> Finding {
    finding.rows("summary", &[&["method"], columns].concat()).only("method", readings)
}

fn headline(atlas: &Atlas, all: &[Overall]) -> Finding {
    let good: Vec<&Overall> = all.iter().filter(|o| o.unbiased == o.tasks).collect();
    let partly = all.iter().filter(|o| o.unbiased < o.tasks);
    let sampled: usize = all.iter().map(|o| o.sampled).sum();
    let rows: usize = all.iter().map(|o| o.tasks).sum();
    let mut worst: Vec<&Overall> = partly.collect();
    worst.sort_by(|a, b| a.worst.0.total_cmp(&b.worst.0));
    let worst: Vec<&str> = worst.iter().take(5).map(|o| o.entrant.name).collect();
    let statement =
        "Finer credit than one number per response moves the policy along the gradient of expected reward";
    let verdict = if good.len() == all.len() {
        Verdict::Holds
    } else {
        let names_in = |families: &[Family]| {
            names(good.iter().copied().filter(|o| families.contains(&o.entrant.family)))
        };
        Verdict::HoldsWhen(format!(
            "the finer credit is the difference of sound values. Unbiased up to scale on all {} tasks are {} of {} readings: with one number per response {}; with a trace {}; \
             with scores {}; with values {}",
            atlas.tasks.len(),
            good.len(),
            all.len(),
            names_in(&[Family::Group]),
            names_in(&[Family::Trace]),
            names_in(&[Family::Score]),
            names_in(&[Family::Value])
        ))
    };
    let finding = Finding::new("headline", statement, verdict)
        .value("cells", rows)
        .value("cells simulated", sampled)
        .value("largest standard error of an unbiased one", SHARP);
    showing(finding, &worst, &["unbiased on", "mean cosine", "lowest cosine", "on task"])
        .note("Of the others those with the lowest cosines are shown. Where a cell is simulated, unbiased means within three standard errors.")
}

/// Tasks whose responses have one length.
pub(super) fn equal_lengths(atlas: &Atlas) -> Finding {
    let equal: Vec<&str> =
        atlas.tasks.iter().filter(|t| t.equal_lengths()).map(|t| t.name.as_str()).collect();
    let (mut good, mut bad) = (Vec::new(), Vec::new());
    for (e, entrant) in ENTRANTS.iter().enumerate() {
        if entrant.family != Family::Group {
            continue;
        }
        let rows: Vec<_> = atlas.rows_of(e, GROUP).filter(|r| r.how != "impossible").collect();
        let everywhere = rows.iter().all(|r| unbiased(r));
        let when_equal = rows.iter().filter(|r| equal.contains(&r.task.as_str())).all(|r| unbiased(r));
        match (everywhere, when_equal) {
            (true, _) => {}
            (false, true) => good.push(entrant.name),
            (false, false) => bad.push(entrant.name),
        }
    }
    let verdict = if bad.is_empty() {
        Verdict::HoldsWhen("all responses have one length; an average over tokens or responses turns the update away where lengths vary".into())
    } else {
        Verdict::Fails(format!("turned even at equal lengths: {}", bad.join(", ")))
    };
    let statement = "One number per response keeps the direction of the gradient, whatever the normalisation";
    let finding = Finding::new("equal_lengths", statement, verdict).value("tasks of one length", equal);
    showing(finding, &good, &["lowest cosine", "on task"]).note("These are unbiased where lengths are equal.")
}

pub(super) fn reversal(all: &[Overall], [grpo, traced]: [f64; 2]) -> Finding {
    let mut reversing: Vec<&Overall> = all.iter().filter(|o| o.reversed.0 > 0.0).collect();
    reversing.sort_by(|a, b| b.reversed.0.total_cmp(&a.reversed.0));
    let some: Vec<&str> = reversing.iter().take(8).map(|o| o.entrant.name).collect();
    let turned = names(all.iter().filter(|o| o.worst.0 < 0.0));
    let verdict = if reversing.is_empty() {
        Verdict::Holds
    } else {
        Verdict::Fails(format!(
            "{} of {} readings reverse a prefix somewhere: {}",
            reversing.len(),
            all.len(),
            list(&some)
        ))
    };
    let finding = Finding::new(
        "reversal",
        "No method turns the update of a prefix against the gradient (κ(s) ≥ 0 wherever the gradient is)",
        verdict,
    );
    let finding = finding
        .value("reversed as a whole on a task", turned)
        .value("cosine of GRPO-λ recent on eos_hazard_dependent at its own horizon of 8", traced)
        .value("cosine of GRPO there", grpo);
    if some.is_empty() {
        return finding;
    }
    showing(finding, &some, &["reversed visits, most"])
        .note("The list cuts eos_hazard_dependent to a horizon of 5; `length_bonus` sweeps the horizon.")
}

fn lambda(traced: &Overall, plain: &Overall) -> Finding {
    let ok = traced.mean_cosine >= plain.mean_cosine - 1e-6;
    let statement = "GRPO-λ (recent) turns away from the gradient no more than GRPO";
    let counterexample = format!("{} by cosine {}", traced.worst.1, short(traced.worst.0));
    let names = [traced.entrant.name, plain.entrant.name];
    let finding = Finding::new("lambda", statement, holds_or(ok, counterexample));
    showing(finding, &names, &["mean cosine", "lowest cosine", "on task"])
}

/// Prefix-tree methods and the direction within prefixes.
pub(super) fn rescaling(atlas: &Atlas) -> Finding {
    let mut values = Vec::new();
    let mut ok = true;
    for name in ["TEMPO, no std", "TEMPO", "TreeRL", "SPO-tree", "TreeRPO (recon.)"] {
        let Some(e) = ENTRANTS.iter().position(|e| e.name == name) else { continue };
        let rows: Vec<_> = atlas.rows_of(e, GROUP).filter(|r| r.exact()).collect();
        let worst = |column| rows.iter().filter_map(|r| r.get(column)).fold(0.0, f64::max);
        let (direction, rescaling) = (worst(Column::BiasDirection), worst(Column::BiasRescaling));
        let cv = worst(Column::KappaCv);
        ok &= name != "TEMPO, no std" || direction < 1e-6;
        values.push((format!("{name}: direction"), direction));
        values.push((format!("{name}: rescaling"), rescaling));
        values.push((format!("{name}: variation of κ(s)"), cv));
        values.push((format!("{name}: exact tasks"), rows.len() as f64));
    }
    let verdict = if ok {
        Verdict::HoldsWhen("rewards are not divided by the group's std and losses not by token counts (TEMPO, no std: direction error below 1e-6)".into())
    } else {
        Verdict::Fails("TEMPO without std turns the update within a prefix".into())
    };
    let statement = "Prefix-tree credit only re-weights prefixes against each other; within a prefix the direction is the gradient's";
    let finding = Finding::new("rescaling", statement, verdict).note("Largest on any exact task.");
    values.into_iter().fold(finding, |finding, (name, value)| finding.value(name, value))
}

/// A reading with a trace against the reading of GRPO that differs from it only by the trace.
fn tracing(atlas: &Atlas, all: &[Overall]) -> Finding {
    let place = |name: &str| ENTRANTS.iter().position(|e| e.name == name);
    let mut values = Vec::new();
    let (mut lower, mut higher) = (0, 0);
    for (traced, plain) in [
        ("GRPO-λ recent, no clamp", BASELINE),
        ("GRPO-λ both, no clamp", BASELINE),
        ("GRPO-λ recent", "GRPO, clamp -0.1"),
        ("GRPO-λ both", "GRPO, clamp -0.1"),
        ("P-trace (recon.)", BASELINE),
    ] {
        let (Some(t), Some(p)) = (place(traced), place(plain)) else { continue };
        let pairs: Vec<(f64, f64)> = atlas
            .rows_of(t, GROUP)
            .zip(atlas.rows_of(p, GROUP))
            .filter_map(|(a, b)| Some((a.get(Column::Mse)?, b.get(Column::Mse)?)))
            .collect();
        // Differences that rounding could make are none.
        let (down, up) = (
            pairs.iter().filter(|(a, b)| *a < b - 1e-6).count(),
            pairs.iter().filter(|(a, b)| *a > b + 1e-6).count(),
        );
        lower += down;
        higher += up;
        values.push((format!("{traced}: error"), all[t].mse));
        values.push((format!("{traced}: error of {plain}"), all[p].mse));
        values.push((format!("{traced}: lower on"), down as f64));
        values.push((format!("{traced}: higher on"), up as f64));
    }
    let statement = format!("A trace lowers the error of one update at the best step size (G = {GROUP})");
    let verdict = match (lower, higher) {
        (_, 0) => Verdict::Holds,
        (0, _) => Verdict::Fails(format!("higher in all {higher} cases that differ")),
        _ if higher > lower => {
            Verdict::Fails(format!("higher in {higher} of {} cases that differ", lower + higher))
        }
        _ => Verdict::HoldsWhen(format!("lower in {lower} of {} cases that differ", lower + higher)),
    };
    let finding =
        Finding::new("tracing", statement, verdict).note("Mean error relative to |∇J|², over tasks.");
    values.into_iter().fold(finding, |finding, (name, value)| finding.value(name, value))
}

fn equal_cost(all: &[Overall]) -> Finding {
    let mut paid: Vec<(&Overall, f64)> = all.iter().filter_map(|o| Some((o, o.mse_at_budget?))).collect();
    paid.sort_by(|a, b| a.1.total_cmp(&b.1));
    let mut shown: Vec<&str> = paid.iter().take(7).map(|(o, _)| o.entrant.name).collect();
    shown.push(BASELINE);
    let beyond = names(all.iter().filter(|o| o.mse_at_budget.is_none()));
    let first = paid.first().map_or("", |(o, _)| o.entrant.name);
    let free: Vec<&(&Overall, f64)> =
        paid.iter().filter(|(o, _)| o.entrant.family == Family::Group).collect();
    let plain = free.first().map_or((f64::NAN, ""), |(o, m)| (*m, o.entrant.name));
    let ok = paid.first().is_some_and(|(o, _)| o.entrant.family != Family::Group);
    let statement = "At equal cost a method with finer credit has the lowest error of one update";
    let verdict = if ok {
        Verdict::HoldsWhen(format!(
            "it is {first} ({}; best with one number per response: {} {})",
            short(paid.first().map_or(f64::NAN, |p| p.1)),
            plain.1,
            short(plain.0)
        ))
    } else {
        Verdict::Fails(format!("the lowest is {} with {}", plain.1, short(plain.0)))
    };
    let finding = Finding::new("equal_cost", statement, verdict)
        .value("responses written or scored", BUDGET)
        .value("beyond the budget even in groups of two on some task", beyond);
    showing(finding, &shown, &["error, equal cost", "cost"])
}

pub(super) fn credit(atlas: &Atlas) -> Finding {
    let rank = |row: &Row| row.get(Column::CreditRankCorrelation).filter(|_| row.exact());
    // A reading's correlations, and the baseline's on the same tasks.
    let paired = |e: usize| -> (Vec<f64>, Vec<f64>) {
        let pairs = atlas.rows_of(e, GROUP).zip(atlas.rows_of(0, GROUP));
        pairs.filter_map(|(own, base)| Some((rank(own)?, rank(base)?))).unzip()
    };
    let per_token = |e: &Entrant| e.family != Family::Group && e.method != ENTRANTS[0].method;
    let mut ranked = Vec::new();
    for (e, entrant) in ENTRANTS.iter().enumerate().filter(|(_, e)| per_token(e)) {
        let (own, base) = paired(e);
        if let (Some(mean), Some(plain)) = (mean(&own), mean(&base)) {
            ranked.push((mean - plain, entrant.name, [mean, plain], own.len()));
        }
    }
    ranked.sort_by(|a, b| a.0.total_cmp(&b.0));
    let below = ranked.iter().filter(|r| r.0 < -1e-9).count();
    let statement =
        "Methods that assign credit per token rank a prefix's tokens better, in expectation, than GRPO";
    let verdict = holds_or(
        below == 0 && !ranked.is_empty(),
        format!(
            "{below} of {} readings rank them worse than {BASELINE}, {} the worst",
            ranked.len(),
            ranked.first().map_or("", |r| r.1)
        ),
    );
    let finding = Finding::new("credit", statement, verdict).note(
        "Rank correlation of implied credit with A, and GRPO's, mean over the tasks on which both are exact: those furthest below it, or least above.",
    );
    ranked.iter().take(6).fold(finding, |finding, (_, name, both, tasks)| {
        finding.value(format!("{name}: correlations"), both).value(format!("{name}: tasks"), tasks)
    })
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::atlas::tasks::tasks;
    use crate::experiments::common::words;

    /// Two tasks, of equal and of varying lengths, on which every entrant's expected update is a multiple of the gradient.
    fn unbiased() -> Atlas {
        unbiased_on(|task| ["pivot", "fork"].contains(&task))
    }

    /// An atlas of some tasks, as [`unbiased`] has it. TEMPO errs less than all others.
    pub(in crate::atlas::updates) fn unbiased_on(keep: impl Fn(&str) -> bool) -> Atlas {
        let tasks: Vec<_> = tasks(false).unwrap().into_iter().filter(|t| keep(&t.name)).collect();
        let rows = tasks.iter().map(|task| ENTRANTS.iter().map(|e| vec![row(task, e)]).collect()).collect();
        Atlas { residuals: vec![0.0; tasks.len()], tasks, groups: vec![GROUP], rows, uncut: [1.0; 2] }
    }

    fn row(task: &crate::training::Task, entrant: &crate::atlas::entrants::Entrant) -> Row {
        let mut row = Row::new(task, entrant, GROUP);
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
        row.set(Column::Mse, if entrant.name == "TEMPO" { 0.4 } else { 0.5 });
        row
    }

    pub(in crate::atlas::updates) fn row_of<'a>(
        atlas: &'a mut Atlas,
        task: &str,
        entrant: &str,
    ) -> &'a mut Row {
        let t = atlas.tasks.iter().position(|t| t.name == task).unwrap();
        let e = ENTRANTS.iter().position(|e| e.name == entrant).unwrap();
        &mut atlas.rows[t][e][0]
    }

    const H: &str = "Holds";
    const W: &str = "Holds when";
    const F: &str = "Fails";

    /// The verdicts after changes to [`unbiased`]: task, entrant, column, value.
    fn after(changes: &[(&str, &str, Column, f64)]) -> Vec<&'static str> {
        let mut atlas = unbiased();
        for &(task, entrant, column, value) in changes {
            row_of(&mut atlas, task, entrant).set(column, value);
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
        row_of(&mut atlas, "fork", "GRPO, 1/T, beside OAR").set(rank, 0.5);
        let sampled = row_of(&mut atlas, "fork", "VinePPO, K = 8");
        sampled.how = "sampled".into();
        sampled.set(rank, 0.7);
        assert_eq!(credit(&atlas).verdict, Verdict::Holds);
        let vine = |atlas: &Atlas| overall(atlas).into_iter().find(|o| o.entrant.name == "VinePPO, K = 8");
        assert_eq!(vine(&atlas).unwrap().mean(rank), None, "no cell of a table has the noise of a mean");
        assert_eq!(vine(&unbiased()).unwrap().mean(rank), Some(1.0));
        // Where one has no number the other's does not count.
        row_of(&mut atlas, "fork", "SHEAR (recon.)").set(rank, f64::NAN);
        for name in ["SHEAR (recon.)", BASELINE] {
            row_of(&mut atlas, "pivot", name).set(rank, 0.9);
        }
        assert_eq!(credit(&atlas).verdict, Verdict::Holds);
        row_of(&mut atlas, "pivot", "SHEAR (recon.)").set(rank, 0.8);
        assert_eq!(credit(&atlas).verdict.word(), F);
        let mut sampled = unbiased();
        sampled.rows.iter_mut().flatten().flatten().for_each(|row| row.how = "sampled".into());
        assert_eq!(credit(&sampled).verdict.word(), F, "without an exact row nothing holds");
    }
}
