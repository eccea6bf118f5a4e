//! The findings, computed.

use grpo_lambda::table::significant;

use super::tables::{BUDGET, Overall, SHARP, overall, unbiased};
use super::{Atlas, GROUP, agreement};
use crate::atlas::entrants::{BASELINE, ENTRANTS, Family};
use crate::experiment::{Finding, Verdict};

fn holds_or(ok: bool, counterexample: String) -> Verdict {
    if ok { Verdict::Holds } else { Verdict::Fails(counterexample) }
}

fn finding(statement: impl Into<String>, verdict: Verdict, numbers: impl Into<String>) -> Finding {
    Finding { statement: statement.into(), verdict, numbers: numbers.into() }
}

fn short(x: f64) -> String {
    significant(x, 3)
}

fn names<'a>(all: impl Iterator<Item = &'a Overall>) -> String {
    let list: Vec<&str> = all.map(|o| o.entrant.name).collect();
    if list.is_empty() { "none".into() } else { list.join(", ") }
}

/// The findings; the first is the headline.
pub(super) fn of(atlas: &Atlas) -> Vec<Finding> {
    let all = overall(atlas);
    let named = |name: &str| all.iter().find(|o| o.entrant.name == name);
    let mut findings =
        vec![headline(atlas, &all), equal_lengths(atlas), reversal(&all), tracing(atlas, &all)];
    findings.extend(named("GRPO-λ recent").zip(named(BASELINE)).map(|(l, g)| lambda(l, g)));
    findings.push(rescaling(atlas));
    findings.push(equal_cost(&all));
    findings.push(credit(atlas));
    findings.push(identities(atlas));
    findings
}

fn headline(atlas: &Atlas, all: &[Overall]) -> Finding {
    let good: Vec<&Overall> = all.iter().filter(|o| o.unbiased == o.tasks).collect();
    let partly = all.iter().filter(|o| o.unbiased < o.tasks);
    let sampled: usize = all.iter().map(|o| o.sampled).sum();
    let rows: usize = all.iter().map(|o| o.tasks).sum();
    let mut worst: Vec<&Overall> = partly.collect();
    worst.sort_by(|a, b| a.worst.0.total_cmp(&b.worst.0));
    let worst: Vec<String> = worst
        .iter()
        .take(5)
        .map(|o| format!("{} {} ({})", o.entrant.name, short(o.worst.0), o.worst.1))
        .collect();
    let statement =
        "Finer credit than one number per response moves the policy along the gradient of expected reward";
    let verdict = if good.len() == all.len() {
        Verdict::Holds
    } else {
        let of = |families: &[Family]| {
            names(good.iter().copied().filter(|o| families.contains(&o.entrant.family)))
        };
        Verdict::HoldsWhen(format!(
            "the finer credit is the difference of sound values. Unbiased up to scale on all {} tasks are {} of {} readings: with one number per response {}; with a trace {}; \
             with scores {}; with values {}",
            atlas.tasks.len(),
            good.len(),
            all.len(),
            of(&[Family::Group]),
            of(&[Family::Trace]),
            of(&[Family::Score]),
            of(&[Family::Value])
        ))
    };
    finding(
        statement,
        verdict,
        format!(
            "lowest cosines of expected update and ∇J: {}; {} of {rows} cells exact, {sampled} simulated (unbiased there: within three standard errors of at most {SHARP})",
            worst.join(", "),
            rows - sampled
        ),
    )
}

/// Where all responses have one length.
fn equal_lengths(atlas: &Atlas) -> Finding {
    let equal: Vec<&str> = atlas.tasks.iter().filter(|t| t.equal_lengths()).map(|t| t.name).collect();
    let (mut good, mut bad) = (Vec::new(), Vec::new());
    for (e, entrant) in ENTRANTS.iter().enumerate() {
        if entrant.family != Family::Group {
            continue;
        }
        let rows: Vec<_> = atlas.of(e, GROUP).filter(|r| r.how != "impossible").collect();
        let everywhere = rows.iter().all(|r| unbiased(r));
        let when_equal = rows.iter().filter(|r| equal.contains(&r.task.as_str())).all(|r| unbiased(r));
        let lowest = rows.iter().filter_map(|r| r.get("cosine")).fold(1.0, f64::min);
        match (everywhere, when_equal) {
            (true, _) => {}
            (false, true) => good.push(format!("{} {}", entrant.name, short(lowest))),
            (false, false) => bad.push(format!("{} {}", entrant.name, short(lowest))),
        }
    }
    let numbers = format!(
        "unbiased where lengths are equal ({}), with their lowest cosine elsewhere: {}",
        equal.join(", "),
        if good.is_empty() { "none".into() } else { good.join(", ") }
    );
    let verdict = if bad.is_empty() {
        Verdict::HoldsWhen("all responses have one length; an average over tokens or responses turns the update away where lengths vary".into())
    } else {
        Verdict::Fails(format!("turned even at equal lengths: {}", bad.join(", ")))
    };
    finding(
        "One number per response keeps the direction of the gradient, whatever the normalisation",
        verdict,
        numbers,
    )
}

fn reversal(all: &[Overall]) -> Finding {
    let mut reversing: Vec<&Overall> = all.iter().filter(|o| o.reversed.0 > 0.0).collect();
    reversing.sort_by(|a, b| b.reversed.0.total_cmp(&a.reversed.0));
    let list = |o: &&Overall| {
        format!("{} ({} % of visits on {})", o.entrant.name, short(100.0 * o.reversed.0), o.reversed.1)
    };
    let some: Vec<String> = reversing.iter().take(8).map(list).collect();
    let turned = names(all.iter().filter(|o| o.worst.0 < 0.0));
    let verdict = if reversing.is_empty() {
        Verdict::Holds
    } else {
        Verdict::Fails(format!(
            "{} of {} readings reverse a prefix somewhere: {}",
            reversing.len(),
            all.len(),
            some.join(", ")
        ))
    };
    finding(
        "No method turns the update of a prefix against the gradient (κ(s) ≥ 0 wherever the gradient is)",
        verdict,
        format!("reversed as a whole (cosine below 0 on some task): {turned}"),
    )
}

/// A reading with a trace against the reading of GRPO that differs from it only by the trace.
fn tracing(atlas: &Atlas, all: &[Overall]) -> Finding {
    let place = |name: &str| ENTRANTS.iter().position(|e| e.name == name);
    let mut numbers = Vec::new();
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
            .of(t, GROUP)
            .zip(atlas.of(p, GROUP))
            .filter_map(|(a, b)| Some((a.get("mse")?, b.get("mse")?)))
            .collect();
        // Differences that rounding could make are none.
        let (down, up) = (
            pairs.iter().filter(|(a, b)| *a < b - 1e-6).count(),
            pairs.iter().filter(|(a, b)| *a > b + 1e-6).count(),
        );
        lower += down;
        higher += up;
        numbers.push(format!(
            "{traced} {} against {} ({plain}); lower on {down} and higher on {up} of {} tasks",
            short(all[t].mse),
            short(all[p].mse),
            pairs.len()
        ));
    }
    let statement = format!("A trace lowers the error of one update at the best step size (G = {GROUP})");
    let numbers = format!("mean error relative to |∇J|²: {}", numbers.join("; "));
    let verdict = match (lower, higher) {
        (_, 0) => Verdict::Holds,
        (0, _) => Verdict::Fails(format!("higher in all {higher} cases that differ")),
        _ if higher > lower => {
            Verdict::Fails(format!("higher in {higher} of {} cases that differ", lower + higher))
        }
        _ => Verdict::HoldsWhen(format!("lower in {lower} of {} cases that differ", lower + higher)),
    };
    finding(statement, verdict, numbers)
}

fn lambda(traced: &Overall, plain: &Overall) -> Finding {
    let ok = traced.mean_cosine >= plain.mean_cosine - 1e-6;
    let numbers = format!(
        "mean cosine {} against {}; lowest {} ({}) against {} ({})",
        short(traced.mean_cosine),
        short(plain.mean_cosine),
        short(traced.worst.0),
        traced.worst.1,
        short(plain.worst.0),
        plain.worst.1
    );
    let statement = "GRPO-λ (recent) turns away from the gradient no more than GRPO";
    let counterexample = format!("{} by cosine {}", traced.worst.1, short(traced.worst.0));
    finding(statement, holds_or(ok, counterexample), numbers)
}

/// Whether prefix-tree methods keep the direction within prefixes.
fn rescaling(atlas: &Atlas) -> Finding {
    let mut numbers = Vec::new();
    let mut ok = true;
    for name in ["TEMPO, no std", "TEMPO", "TreeRL", "SPO-tree", "TreeRPO (recon.)"] {
        let Some(e) = ENTRANTS.iter().position(|e| e.name == name) else { continue };
        let rows: Vec<_> = atlas.of(e, GROUP).filter(|r| r.exact()).collect();
        let worst = |column| rows.iter().filter_map(|r| r.get(column)).fold(0.0, f64::max);
        let (direction, rescaling) = (worst("bias_direction"), worst("bias_rescaling"));
        let cv = worst("kappa_cv");
        ok &= name != "TEMPO, no std" || direction < 1e-6;
        numbers.push(format!(
            "{name}: direction {}, rescaling {}, variation of κ(s) {} ({} exact tasks)",
            short(direction),
            short(rescaling),
            short(cv),
            rows.len()
        ));
    }
    let verdict = if ok {
        Verdict::HoldsWhen("rewards are not divided by the group's std and losses not by token counts (TEMPO, no std: direction error below 1e-6)".into())
    } else {
        Verdict::Fails("TEMPO without std turns the update within a prefix".into())
    };
    finding(
        "Prefix-tree credit only re-weights prefixes against each other; within a prefix the direction is the gradient's",
        verdict,
        format!("largest on any exact task: {}", numbers.join("; ")),
    )
}

fn equal_cost(all: &[Overall]) -> Finding {
    let mut paid: Vec<(&Overall, f64)> = all.iter().filter_map(|o| Some((o, o.mse_at_budget?))).collect();
    paid.sort_by(|a, b| a.1.total_cmp(&b.1));
    let top: Vec<String> = paid
        .iter()
        .filter(|(o, _)| o.entrant.name != BASELINE)
        .take(6)
        .map(|(o, m)| format!("{} {}", o.entrant.name, short(*m)))
        .collect();
    let base = paid.iter().find(|(o, _)| o.entrant.name == BASELINE).map_or(f64::NAN, |p| p.1);
    let beyond = names(all.iter().filter(|o| o.mse_at_budget.is_none()));
    let best_traced = paid.iter().find(|(o, _)| o.entrant.family == Family::Trace);
    let first = paid.first().map_or("", |(o, _)| o.entrant.name);
    let free: Vec<&(&Overall, f64)> =
        paid.iter().filter(|(o, _)| o.entrant.family == Family::Group).collect();
    let plain = free.first().map_or((f64::NAN, ""), |(o, m)| (*m, o.entrant.name));
    let ok = paid.first().is_some_and(|(o, _)| o.entrant.family != Family::Group);
    let traced =
        best_traced.map_or(String::new(), |(o, m)| format!("; best trace: {} {}", o.entrant.name, short(*m)));
    let numbers = format!(
        "mean error of one update that costs {BUDGET} responses written or scored: {}; {BASELINE} {}{traced}. Beyond the budget even in groups of two on some task: {beyond}",
        top.join(", "),
        short(base)
    );
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
    finding(statement, verdict, numbers)
}

fn credit(atlas: &Atlas) -> Finding {
    let mut ranked: Vec<(&str, f64, f64)> = Vec::new();
    for (e, entrant) in ENTRANTS.iter().enumerate() {
        let rows: Vec<_> = atlas.of(e, GROUP).collect();
        let mean = |column| {
            let values: Vec<f64> = rows.iter().filter_map(|r| r.get(column)).collect();
            values.iter().sum::<f64>() / values.len().max(1) as f64
        };
        ranked.push((entrant.name, mean("credit_rank_correlation"), mean("credit_r2")));
    }
    ranked.sort_by(|a, b| a.1.total_cmp(&b.1));
    let show = |(name, rank, r2): &(&str, f64, f64)| format!("{name} {} ({})", short(*rank), short(*r2));
    let lowest: Vec<String> = ranked.iter().take(6).map(show).collect();
    let base = ranked.iter().find(|r| r.0 == BASELINE);
    let (below, all) = (base.map_or(0, |b| ranked.iter().filter(|r| r.1 < b.1 - 1e-9).count()), ranked.len());
    let numbers = format!(
        "rank correlation (and R²) of implied credit with A, mean over tasks: {} {}; lowest {}",
        BASELINE,
        base.map_or(String::new(), |b| format!("{} ({})", short(b.1), short(b.2))),
        lowest.join(", ")
    );
    let statement =
        "Methods that assign credit per token rank a prefix's tokens better, in expectation, than GRPO";
    let verdict = if below == 0 {
        Verdict::Holds
    } else {
        Verdict::Fails(format!(
            "{below} of {all} readings rank them worse than {BASELINE}, {} the worst",
            ranked.first().map_or("", |r| r.0)
        ))
    };
    finding(statement, verdict, numbers)
}

fn identities(atlas: &Atlas) -> Finding {
    let failing: Vec<&str> = atlas
        .agreement
        .iter()
        .filter(|c| c.worst >= agreement::EXACT || c.tasks == 0)
        .map(|c| c.method)
        .collect();
    let worst = atlas.agreement.iter().map(|c| c.worst).fold(0.0, f64::max);
    let verdict = if failing.is_empty() { Verdict::Holds } else { Verdict::Fails(failing.join(", ")) };
    let tested: usize = atlas.agreement.iter().map(|c| c.tasks).sum();
    let bound = if worst < agreement::EXACT { format!("below {:e}", agreement::EXACT) } else { short(worst) };
    finding(
        "Closed forms of expected updates hold on every task where the sums are feasible",
        verdict,
        format!("{} closed forms, {tested} cases, largest relative error {bound}", atlas.agreement.len()),
    )
}
