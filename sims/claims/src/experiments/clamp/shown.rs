//! Findings, tables and figures.

use super::{ClampEffect, GROUP, LARGE, Numbers, PROBABILITIES, PromptWeight};
use crate::experiment::Finding;
use crate::experiments::common::chart::chart;
use crate::experiments::common::claim::claim;
use crate::experiments::common::{EXACT, largest, rounding_error, short};
use crate::figure::{Axis, Figure, Panel};
use grpo_lambda_stats::table::Table;

pub(super) fn findings(n: &Numbers) -> Vec<Finding> {
    vec![turns(n), raises_j(n), sums_to_zero(n), relative_weights(n), formula(n), limit(n)]
}

/// The least of a number over some updates, with where it is.
fn least(
    n: &Numbers,
    keep: impl Fn(&ClampEffect) -> bool,
    number: fn(&ClampEffect) -> f64,
) -> Option<(f64, String)> {
    let kept = n.effects.iter().filter(|t| keep(t)).map(|t| (number(t), format!("{}, {}", t.mdp, t.weights)));
    kept.min_by(|a, b| a.0.total_cmp(&b.0))
}

fn turns(n: &Numbers) -> Finding {
    let lowest = |keep: fn(&ClampEffect) -> bool| least(n, keep, |t| t.cosine);
    let uniform = lowest(|t| t.binary() && t.uniform());
    let traced = lowest(|t| t.binary() && !t.uniform());
    let real = lowest(|t| !t.binary() && t.uniform());
    let changed =
        |found: &Option<(f64, String)>| found.as_ref().is_some_and(|(cosine, _)| *cosine < 1.0 - 1e-6);
    let kept = uniform.as_ref().is_some_and(|(cosine, _)| (cosine - 1.0).abs() < EXACT);
    claim(
        "turns",
        "Clamping negative advantages changes the direction of a prompt's expected update, not only its length",
    )
    .holds_when(
        !kept,
        changed(&traced) && changed(&real),
        "rewards are not binary, or token weights differ between responses, as with a trace and varying lengths. \
         Otherwise the clamp only shortens the update",
        "the direction is kept with traces, or with real rewards",
    )
    .value("MDPs with binary rewards", n.effects.iter().filter(|t| t.binary() && t.uniform()).count())
    .value("lowest cosine of clamped and unclamped update, uniform weights", uniform.map(|u| u.0))
    .value("with traces", traced)
    .value("with real rewards", real)
    .note(format!(
        "Groups of {GROUP}. With binary rewards and uniform weights pulling towards right responses and pushing away \
         from wrong ones is the same expected direction."
    ))
}

fn raises_j(n: &Numbers) -> Finding {
    let lowest = |number| least(n, |t| t.binary() && !t.uniform(), number);
    let clamped = lowest(|t| t.clamped_with_gradient);
    claim(
        "raises_j",
        "With trace and clamp the expected update raises J: its cosine with ∇J is positive",
    )
    .holds_or(
        clamped.as_ref().is_some_and(|c| c.0 > 0.0),
        format!(
            "the lowest cosine is {}. The clamp makes the mean advantage positive, and the trace multiplies it by \
             a weight that grows with the length",
            clamped.as_ref().map_or(String::new(), |c| short(c.0))
        ),
    )
    .value("lowest cosine with ∇J, clamped", clamped)
    .value("unclamped", lowest(|t| t.unclamped_with_gradient))
}

fn sums_to_zero(n: &Numbers) -> Finding {
    let half = n.sums.iter().find(|s| s.right == GROUP / 2 && s.clamp.is_some()).map(|s| s.sum);
    let unclamped = largest(n.sums.iter().filter(|s| s.clamp.is_none()).map(|s| s.sum.abs()));
    claim("sums_to_zero", "The clamped advantages of a group still sum to 0")
        .holds_or(
            half.is_some_and(|sum| sum.abs() < EXACT),
            "their sum is positive, so that on average the update raises the probabilities of the sampled \
                responses",
        )
        .value("sum with 4 of 8 right", half)
        .value("unclamped", rounding_error(unclamped))
}

fn relative_weights(n: &Numbers) -> Finding {
    let weight = |p: f64, clamped: bool| {
        let own = |w: &&PromptWeight| w.p == p && w.group == GROUP && w.clamp.is_some() == clamped;
        n.prompts.iter().find(own).map(|w| w.by_oracle)
    };
    let ratio = |clamped: bool| Some(weight(0.95, clamped)? / weight(0.05, clamped)?);
    let kept = ratio(true).zip(ratio(false)).is_some_and(|(a, b)| (a - b).abs() < 0.01);
    claim("relative_weights", "The clamp does not change the relative weights of prompts")
        .holds_or(kept, "prompts that are nearly always solved keep little of their weight")
        .rows("", &["p", "clamp", "weight_by_oracle", "large_group_limit", "signal_to_noise"])
        .only("group", &[GROUP])
        .only("p", &[0.05, 0.5, 0.95])
}

fn formula(n: &Numbers) -> Finding {
    let error = largest(n.prompts.iter().map(PromptWeight::formula_error));
    let off_direction = largest(n.prompts.iter().map(|w| (w.cosine - 1.0).abs()));
    claim(
        "formula",
        "With and without the clamp E[update] = w_G(p) ∇p, where w_G(p) = Σ_k Bin(k; G-1, p) [A(k+1 right, r=1) \
         - A(k right, r=0)]",
    )
    .holds_or(error < 1e-10 && off_direction < EXACT, "enumeration and formula differ")
    .value("group sizes", [GROUP, 32, LARGE])
    .value("probabilities", PROBABILITIES.len())
    .value("largest relative difference", rounding_error(error))
    .value("largest distance of the cosine from 1", rounding_error(off_direction))
}

fn limit(n: &Numbers) -> Finding {
    // The limit is only near a finite group that is mixed almost surely.
    let error = |group: usize| {
        let mixed = n.prompts.iter().filter(|w| w.group == group && (0.1..=0.9).contains(&w.p));
        largest(mixed.map(PromptWeight::limit_error))
    };
    claim("limit", "In large groups the clamped weight w_G(p) is sqrt((1-p)/p) + min(0.1, sqrt(p/(1-p)))")
        .holds_or(error(LARGE) < 0.03, "it differs by more than 3 %")
        .value("largest relative difference for p in [.1, .9], G = 8", error(GROUP))
        .value("G = 128", error(LARGE))
}

pub(super) fn tables(n: &Numbers) -> Vec<(String, Table)> {
    vec![
        ("push".into(), Table::from_rows(&n.sums)),
        (String::new(), Table::from_rows(&n.prompts)),
        ("direction".into(), Table::from_rows(&n.effects)),
    ]
}

pub(super) fn figures(n: &Numbers) -> Vec<(String, Figure)> {
    vec![(String::new(), effect(n))]
}

fn effect(n: &Numbers) -> Figure {
    let own = || n.prompts.iter().filter(|w| w.group == GROUP);
    let named = |w: &PromptWeight| if w.clamp.is_some() { "A ≥ -0.1" } else { "unclamped" };
    let of_group = own().map(|w| (w, format!("{}, G = 8", named(w)), w.by_oracle));
    let limits = own().map(|w| (w, format!("{}, large G", named(w)), w.limit));
    let clamped = n.sums.iter().filter(|s| s.clamp.is_some());
    let sums = Panel::new("Sum of a group's advantages")
        .x(Axis::new("right responses of 8").categories((0..=GROUP).map(|k| k.to_string())))
        .y("sum of the advantages Σ A_i")
        .bars("A ≥ -0.1, G = 8", clamped.map(|s| (s.right as f64, s.sum)))
        .hline(0.0, "unclamped");
    let title = "Clamping at -0.1 all but switches off solved prompts and gives mixed groups a net push up";
    let figure = Figure::new(title).caption(
        "Exact, z-scores with TRL's std. Left: one prompt's expected update is w(p) ∇p; at p = 0.95, G = 8 the clamp \
         leaves w = 0.22 of 2.31. Dashed: G → ∞, clamped sqrt((1-p)/p) + min(0.1, sqrt(p/(1-p))). Right: G = 8; \
         unclamped advantages sum to 0.",
    );
    chart(of_group.chain(limits))
        .panels(|_| "Weight of a prompt in the update")
        .x("p, probability of a right response")
        .y(Axis::new("weight w(p), E[update] = w(p) ∇p").log())
        .dashed(
            |name| name.ends_with("large G"),
            |(_, name, _)| name.clone(),
            |(w, _, weight)| (w.p, *weight),
        )
        .on(figure)
        .panel(sums)
}

#[cfg(test)]
mod tests {
    use super::super::{CLAMPS, Sum};
    use super::*;
    use crate::experiments::common::{words, words_after};

    /// A clamp that scales nothing, turns nothing and pushes nothing.
    fn harmless() -> Numbers {
        let prompt = |p, clamp| PromptWeight {
            p,
            group: GROUP,
            clamp,
            by_oracle: 2.0,
            by_formula: 2.0,
            limit: 2.0,
            signal_to_noise: 1.0,
            cosine: 1.0,
        };
        let effect = |rewards, weights| ClampEffect {
            mdp: "fork".into(),
            rewards,
            weights,
            cosine: 1.0,
            unclamped_with_gradient: 0.9,
            clamped_with_gradient: 0.9,
        };
        Numbers {
            sums: CLAMPS.map(|clamp| Sum { right: 4, clamp, sum: 0.0 }).into(),
            prompts: [0.05, 0.25, 0.5, 0.95].into_iter().flat_map(|p| CLAMPS.map(|c| prompt(p, c))).collect(),
            effects: vec![effect("binary", "uniform"), effect("binary", "both"), effect("real", "uniform")],
        }
    }

    #[test]
    fn a_harmless_clamp_changes_no_direction_and_the_rest_holds() {
        assert_eq!(words(&findings(&harmless())), ["Fails", "Holds", "Holds", "Holds", "Holds", "Holds"]);
    }

    #[test]
    fn each_verdict_follows_its_own_numbers() {
        let verdicts = |change| words_after(harmless(), findings, change);
        assert_eq!(verdicts(|n| n.effects[0].cosine = 0.5)[0], "Holds", "turned under uniform weights too");
        let lengths_vary = |n: &mut Numbers| (n.effects[1].cosine, n.effects[2].cosine) = (0.5, 0.5);
        assert_eq!(verdicts(lengths_vary)[0], "Holds when");
        assert_eq!(verdicts(|n| n.effects[1].clamped_with_gradient = -0.1)[1], "Fails");
        assert_eq!(verdicts(|n| n.sums[1].sum = 2.7)[2], "Fails");
        assert_eq!(verdicts(|n| n.prompts[7].by_oracle = 0.2)[3], "Fails");
        assert_eq!(verdicts(|n| n.prompts[2].by_formula = 3.0)[4], "Fails");
        assert_eq!(
            verdicts(|n| n.prompts.push(PromptWeight { group: LARGE, limit: 9.0, ..n.prompts[4].clone() }))
                [5],
            "Fails"
        );
    }
}
