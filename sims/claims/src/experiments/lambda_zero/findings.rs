//! What the numbers say.

use super::measure::{BATCHES, Distance, LEN, Numbers, Reading};
use crate::experiment::Finding;
use crate::experiments::common::findings::{finding, finding_on, holds_or, holds_when};
use crate::experiments::common::text::short;
use crate::experiments::common::vectors::EXACT;
use crate::sentences::SentenceId;

pub(super) fn findings(n: &Numbers) -> Vec<Finding> {
    vec![falls_back(n), style_both(n), weight(n), constant_critic(n)]
}

/// A reading by name; one that is not there differs by NaN and is not GRPO.
fn reading(n: &Numbers, name: &'static str) -> Reading {
    let unknown = Distance { loss: f64::NAN, gradient: f64::NAN };
    let missing = Reading { name, on_policy: unknown, off_policy: unknown };
    n.readings.iter().find(|r| r.name == name).copied().unwrap_or(missing)
}

fn list(weights: &[f64]) -> String {
    weights.iter().map(|w| short(*w)).collect::<Vec<_>>().join(", ")
}

/// The largest relative difference of the gradient, on and off policy.
fn gradients(r: &Reading) -> String {
    format!("{} on policy and {} off policy", short(r.on_policy.gradient), short(r.off_policy.gradient))
}

fn falls_back(n: &Numbers) -> Finding {
    let recent = reading(n, "recent");
    let same: Vec<&str> = n.readings.iter().filter(|r| r.is_grpo()).map(|r| r.name).collect();
    finding_on(
        SentenceId::FallsBackToGrpo,
        holds_when(
            n.readings.iter().all(Reading::is_grpo),
            recent.is_grpo(),
            format!(
                "the style is recent, advantages are not clamped and the clip is PPO's (these readings are GRPO exactly, on and off policy: {}). The paper's own settings clamp at -0.1 and are not",
                same.iter().map(|name| format!("\"{name}\"")).collect::<Vec<_>>().join(", ")
            ),
            format!("recent without clamp differs by {}", short(recent.off_policy.gradient)),
        ),
        format!(
            "{BATCHES} random batches each on and off policy; recent without clamp: largest difference of loss {} and gradient {}; with the clamp at -0.1: relative gradient difference up to {}",
            short(recent.off_policy.loss),
            short(recent.off_policy.gradient),
            gradients(&reading(n, "recent, A clamped at -0.1"))
        ),
    )
}

fn style_both(n: &Numbers) -> Finding {
    let both = reading(n, "both");
    finding(
        "λ = 0 gives GRPO for the style both",
        holds_or(
            both.is_grpo(),
            format!(
                "weights at T = 6: [{}]; max(0^l, 0^(t-l)) keeps token 0 in every ratio",
                list(&n.weights.both)
            ),
        ),
        format!(
            "recent: [{}]; relative gradient difference of both up to {}",
            list(&n.weights.recent),
            gradients(&both)
        ),
    )
}

fn weight(n: &Numbers) -> Finding {
    let weight = reading(n, "ϵ-weight");
    finding(
        "λ = 0 gives GRPO for ϵ-weight",
        holds_or(
            weight.is_grpo(),
            format!("the soft clamp stays: weights at T = 6, log π = -0.5: [{}]", list(&n.weights.weight)),
        ),
        format!("relative gradient difference up to {}", gradients(&weight)),
    )
}

fn constant_critic(n: &Numbers) -> Finding {
    let end = |of: Option<&super::measure::AtLambda>| of.map_or(f64::NAN, |at| at.implied_critic);
    let (at_zero, at_one) = (end(n.by_lambda.first()), end(n.by_lambda.last()));
    finding(
        "GAE with the critic GRPO implies, V = V(s₀) everywhere, is GRPO at λ = 1 (not at λ = 0)",
        holds_or(
            at_one == 0.0 && at_zero > EXACT && n.terminal_at_one < EXACT,
            format!("at λ = 1 it differs by {}", short(at_one)),
        ),
        format!(
            "relative difference from r - V(s₀) at every token (T = {LEN}): {} at λ = 1, {} at λ = 0; the method with delta=terminal, λ = 1, on-policy: gradient differs by {}",
            short(at_one),
            short(at_zero),
            short(n.terminal_at_one)
        ),
    )
}

#[cfg(test)]
mod tests {
    use super::super::measure::{AtLambda, Weights};
    use super::*;
    use crate::experiments::common::findings::words;

    fn numbers(different: &[&str], at_one: f64) -> Numbers {
        let reading = |name| {
            let gradient = f64::from(different.contains(&name));
            let distance = Distance { loss: 0.0, gradient };
            Reading { name, on_policy: distance, off_policy: distance }
        };
        let at = |lambda, implied_critic| AtLambda { lambda, implied_critic, recent: 0.0 };
        let six = || vec![1.0; 6];
        Numbers {
            readings: ["recent", "recent, A clamped at -0.1", "both", "ϵ-weight"].map(reading).into(),
            by_lambda: vec![at(0.0, 0.5), at(1.0, at_one)],
            terminal_at_one: 0.0,
            weights: Weights { recent: six(), both: six(), weight: six(), terminal: six() },
        }
    }

    #[test]
    fn each_verdict_follows_its_own_numbers() {
        let of = |n: Numbers| words(&findings(&n));
        assert_eq!(of(numbers(&[], 0.0)), ["Holds"; 4]);
        assert_eq!(of(numbers(&["both"], 0.0)), ["Holds when", "Fails", "Holds", "Holds"]);
        assert_eq!(of(numbers(&["recent", "ϵ-weight"], 0.1)), ["Fails", "Holds", "Fails", "Fails"]);
        let mut unknown = numbers(&[], 0.0);
        unknown.readings.retain(|r| r.name != "both");
        assert_eq!(of(unknown), ["Holds", "Fails", "Holds", "Holds"], "what was not measured does not hold");
    }
}
