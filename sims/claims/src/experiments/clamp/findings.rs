//! The findings.

use super::{ClampEffect, GROUP, LARGE, Numbers, PROBABILITIES, PromptWeight};
use crate::experiment::Finding;
use crate::experiments::common::{EXACT, holds_or, holds_when, keyed, largest, short};

pub(super) fn findings(n: &Numbers) -> Vec<Finding> {
    vec![turns(n), raises_j(n), sums_to_zero(n), relative_weights(n), formula(n), limit(n)]
}

/// The kept row with the lowest cosine of clamped and unclamped update.
fn most_turned(n: &Numbers, keep: impl Fn(&ClampEffect) -> bool) -> Option<&ClampEffect> {
    n.effects.iter().filter(|t| keep(t)).min_by(|a, b| a.cosine.total_cmp(&b.cosine))
}

fn turns(n: &Numbers) -> Finding {
    let uniform = most_turned(n, |t| t.binary() && t.uniform());
    let traced = most_turned(n, |t| t.binary() && !t.uniform());
    let real = most_turned(n, |t| !t.binary() && t.uniform());
    let cosine = |t: Option<&ClampEffect>| t.map_or(f64::NAN, |t| t.cosine);
    let named = |t: Option<&ClampEffect>| {
        t.map_or(String::new(), |t| format!("{} ({}, {})", short(t.cosine), t.mdp, t.weights))
    };
    let kept = (cosine(uniform) - 1.0).abs() < EXACT;
    let changed = |t: Option<&ClampEffect>| cosine(t) < 1.0 - 1e-6;
    let mdps = n.effects.iter().filter(|t| t.binary() && t.uniform()).count();
    keyed(
        "turns",
        "Clamping negative advantages changes in which direction a prompt's expected update moves the policy, not only how far",
        holds_when(
            !kept,
            changed(traced) && changed(real),
            format!(
                "rewards are not binary, or token weights differ between responses (a trace and varying lengths). With binary rewards and uniform weights (GRPO) pulling towards right responses and pushing away from wrong ones is the same expected direction: cosine 1 on {mdps} MDPs, so nothing destructive is taken out, the prompt only counts less"
            ),
            format!("lowest cosines: traces {}, real rewards {}", short(cosine(traced)), short(cosine(real))),
        ),
        format!(
            "lowest cosine of clamped and unclamped expected update (G = {GROUP}): uniform weights, binary rewards 1 - {}; with traces {}; real rewards {}",
            short((1.0 - cosine(uniform)).abs()),
            named(traced),
            named(real)
        ),
    )
}

fn raises_j(n: &Numbers) -> Finding {
    let traces = || n.effects.iter().filter(|t| t.binary() && !t.uniform());
    let lowest = traces().min_by(|a, b| a.clamped_with_gradient.total_cmp(&b.clamped_with_gradient));
    let clamped = lowest.map_or(f64::NAN, |t| t.clamped_with_gradient);
    let unclamped = traces().map(|t| t.unclamped_with_gradient).fold(f64::MAX, f64::min);
    keyed(
        "raises_j",
        "With a trace the clamped expected update still raises J (its cosine with ∇J is positive)",
        holds_or(
            clamped > 0.0,
            format!(
                "MDP {}, style {}, λ = 0.99: cosine {} clamped, {} unclamped. The push the clamp leaves over is weighted by traces that grow with the response's length",
                lowest.map_or("", |t| t.mdp.as_str()),
                lowest.map_or("", |t| t.weights),
                short(clamped),
                short(lowest.map_or(f64::NAN, |t| t.unclamped_with_gradient))
            ),
        ),
        format!(
            "lowest cosine with ∇J over binary MDPs and traces: {} clamped, {} unclamped",
            short(clamped),
            short(unclamped)
        ),
    )
}

fn sums_to_zero(n: &Numbers) -> Finding {
    let half = n.sums.iter().find(|s| s.right == GROUP / 2 && s.clamp.is_some());
    let at_half = half.map_or(f64::NAN, |s| s.sum);
    let unclamped = largest(n.sums.iter().filter(|s| s.clamp.is_none()).map(|s| s.sum.abs()));
    keyed(
        "sums_to_zero",
        "The clamped advantages of a group still sum to 0",
        holds_or(
            at_half.abs() < EXACT,
            format!(
                "with 4 of 8 right they sum to +{at_half:.2}: the batch pushes up the likelihood of whatever was sampled"
            ),
        ),
        format!("unclamped: at most {} from 0", short(unclamped)),
    )
}

/// A number of a prompt in groups of [`GROUP`]; NaN if it was not measured.
fn at(n: &Numbers, p: f64, clamped: bool, number: fn(&PromptWeight) -> f64) -> f64 {
    let here = |w: &&PromptWeight| w.p == p && w.group == GROUP && w.clamp.is_some() == clamped;
    n.prompts.iter().find(here).map_or(f64::NAN, number)
}

fn relative_weights(n: &Numbers) -> Finding {
    let weight = |p: f64, clamped: bool| at(n, p, clamped, |w| w.by_oracle);
    let snr = |clamped: bool| short(at(n, 0.5, clamped, |w| w.signal_to_noise));
    let ratio = |clamped: bool| weight(0.95, clamped) / weight(0.05, clamped);
    keyed(
        "relative_weights",
        "The clamp leaves the relative weight of prompts alone",
        holds_or(
            (ratio(true) - ratio(false)).abs() < 0.01,
            format!(
                "a prompt solved 95 % of the time has weight w_G = {:.3} instead of {:.3}, one solved 5 % {:.3} instead of {:.3}: solved prompts are nearly switched off",
                weight(0.95, true),
                weight(0.95, false),
                weight(0.05, true),
                weight(0.05, false)
            ),
        ),
        format!(
            "G = {GROUP}, TRL std; unclamped p = .05: {:.3}, .25: {:.3}, .5: {:.3}; clamped .25: {:.3}, .5: {:.3}; |E[update]|² over tr Cov(update) at p = .5: {} clamped, {} unclamped",
            weight(0.05, false),
            weight(0.25, false),
            weight(0.5, false),
            weight(0.25, true),
            weight(0.5, true),
            snr(true),
            snr(false)
        ),
    )
}

fn formula(n: &Numbers) -> Finding {
    let error = largest(n.prompts.iter().map(PromptWeight::formula_error));
    let off_direction = largest(n.prompts.iter().map(|w| (w.cosine - 1.0).abs()));
    keyed(
        "formula",
        "E[update] = w_G(p) ∇p, with w_G(p) = Σ_k Bin(k; G-1, p) [A(k+1 right, r=1) - A(k right, r=0)], clamped or not",
        holds_or(
            error < 1e-10 && off_direction < EXACT,
            format!("relative difference {}, cosine off by {}", short(error), short(off_direction)),
        ),
        format!(
            "G = 8, 32, {LARGE}; {} probabilities: relative difference of oracle and formula {}",
            PROBABILITIES.len(),
            short(error)
        ),
    )
}

fn limit(n: &Numbers) -> Finding {
    // The limit is only near a finite group that is mixed almost surely.
    let error = |group: usize| {
        let mixed = n.prompts.iter().filter(|w| w.group == group && (0.1..=0.9).contains(&w.p));
        largest(mixed.map(PromptWeight::limit_error))
    };
    keyed(
        "limit",
        "For large groups the clamped weight is sqrt((1-p)/p) + min(0.1, sqrt(p/(1-p)))",
        holds_or(error(LARGE) < 0.03, format!("G = {LARGE} differs by {}", short(error(LARGE)))),
        format!(
            "p = .95: {:.2} clamped, {:.2} unclamped; relative difference for p in [.1, .9]: {} at G = 8, {} at G = {LARGE}",
            at(n, 0.95, true, |w| w.limit),
            at(n, 0.95, false, |w| w.limit),
            short(error(GROUP)),
            short(error(LARGE))
        ),
    )
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
