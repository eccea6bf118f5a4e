//! In which direction the expected updates point.

use crate::atlas::entrants::{ENTRANTS, Family};
use crate::atlas::updates::measure::Atlas;
use crate::atlas::updates::overall::{Overall, SHARP, names, unbiased};
use crate::atlas::updates::row::{Column, GROUP};
use crate::experiment::{Finding, Verdict};
use crate::experiments::common::findings::{finding, holds_or};
use crate::experiments::common::text::{list, short};

pub(super) fn headline(atlas: &Atlas, all: &[Overall]) -> Finding {
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
        let lowest = rows.iter().filter_map(|r| r.get(Column::Cosine)).fold(1.0, f64::min);
        match (everywhere, when_equal) {
            (true, _) => {}
            (false, true) => good.push(format!("{} {}", entrant.name, short(lowest))),
            (false, false) => bad.push(format!("{} {}", entrant.name, short(lowest))),
        }
    }
    let numbers = format!(
        "unbiased where lengths are equal ({}), with their lowest cosine elsewhere: {}",
        equal.join(", "),
        list(&good)
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

pub(super) fn reversal(all: &[Overall], [grpo, traced]: [f64; 2]) -> Finding {
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
        format!(
            "reversed as a whole (cosine below 0) on a task of this list: {turned}. The list cuts eos_hazard_dependent to a horizon of 5; at its own horizon of 8 the cosine \
             of GRPO-λ recent is {traced:.3} and that of GRPO {grpo:.3}; `length_bonus` sweeps the horizon"
        ),
    )
}

pub(super) fn lambda(traced: &Overall, plain: &Overall) -> Finding {
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

/// Prefix-tree methods and the direction within prefixes.
pub(super) fn rescaling(atlas: &Atlas) -> Finding {
    let mut numbers = Vec::new();
    let mut ok = true;
    for name in ["TEMPO, no std", "TEMPO", "TreeRL", "SPO-tree", "TreeRPO (recon.)"] {
        let Some(e) = ENTRANTS.iter().position(|e| e.name == name) else { continue };
        let rows: Vec<_> = atlas.rows_of(e, GROUP).filter(|r| r.exact()).collect();
        let worst = |column| rows.iter().filter_map(|r| r.get(column)).fold(0.0, f64::max);
        let (direction, rescaling) = (worst(Column::BiasDirection), worst(Column::BiasRescaling));
        let cv = worst(Column::KappaCv);
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
