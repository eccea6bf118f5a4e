//! `lambda_zero`: the variants of GRPO-lambda that are GRPO at λ = 0, and the λ at which GAE becomes GRPO.

use crate::experiment::{Context, Experiment, Finding, Parts};
use crate::experiments::common::chart::chart;
use crate::experiments::common::claim::claim;
use crate::experiments::common::mdp::{evaluate, group, on_policy_weights};
use crate::experiments::common::{
    EXACT, difference, distinct, gap, holds_or, holds_when, indexed, noise, norm, rounding_error, stream,
    symmetric,
};
use crate::figure::{Axis, Figure, Panel};
use crate::sentences::SentenceId;
use grpo_lambda::advantage::gae;
use grpo_lambda::group::Group;
use grpo_lambda_stats::table::Table;
use serde::Serialize;

pub(super) static EXPERIMENT: Experiment = Experiment {
    id: "lambda_zero",
    title: "Which variants of GRPO-λ are GRPO at λ = 0?",
    claim: "\"GRPO-λ is also a generalization of GRPO, as it falls back to GRPO with λ=0.\"",
    source: "GRPO-λ, Section 3",
    run: |context| Parts { measure, findings, tables, figures }.report(context),
};

/// GRPO with the reduction of the code base the paper builds on.
const GRPO: &str = "reduction=token_mean";
const BATCHES: usize = 200;
/// Tokens of the response whose advantages are followed along λ.
const LEN: usize = 16;

/// The variants compared with GRPO.
const VARIANTS: [(&str, &str); 12] = [
    ("recent", "clamp=none"),
    ("recent, Eq. 18 as printed", "clamp=none matrix=as_printed"),
    ("recent, rows normalised", "clamp=none normalise=rows"),
    ("recent, A clamped at -0.1", ""),
    ("recent, printed clip", "clamp=none clip=printed"),
    ("recent, terminal δ", "clamp=none delta=terminal"),
    ("both", "clamp=none style=both"),
    ("both, Eq. 17 as printed", "clamp=none style=both matrix=as_printed"),
    ("both, rows normalised", "clamp=none style=both normalise=rows"),
    ("both, mean normalised", "clamp=none style=both normalise=mean"),
    ("ϵ-weight", "clamp=none update=weight"),
    ("ϵ-weight, no soft gradient", "clamp=none update=weight soft_gradient=false"),
];

struct Numbers {
    variants: Vec<Variant>,
    by_lambda: Vec<AtLambda>,
    /// Largest difference of the gradient of delta=terminal at λ = 1 from GRPO's, on-policy.
    terminal_at_one: f64,
    /// Weights of the six tokens of a response at λ = 0, by name.
    weights: Vec<(&'static str, Vec<f64>)>,
}

/// A variant at λ = 0 against GRPO, on or off policy: largest differences over the batches.
#[derive(Clone, Copy, Serialize)]
struct Variant {
    variant: &'static str,
    policy: &'static str,
    batches: usize,
    #[serde(rename = "largest_loss_difference")]
    loss: f64,
    /// Relative to GRPO's gradient.
    #[serde(rename = "largest_relative_gradient_difference")]
    gradient: f64,
}

/// A relative distance from GRPO's advantages at one λ.
#[derive(Clone, Copy, Serialize)]
struct AtLambda {
    lambda: f64,
    quantity: Quantity,
    relative_difference_from_grpo: f64,
}

#[derive(Clone, Copy, PartialEq, Serialize)]
enum Quantity {
    /// `V(s_0)` everywhere.
    #[serde(rename = "GAE with the implied critic")]
    Implied,
    #[serde(rename = "GRPO-lambda, recent")]
    Recent,
}

impl Quantity {
    /// Its name in the figure.
    fn legend(self) -> &'static str {
        match self {
            Quantity::Implied => "TD errors of the critic GRPO implies",
            Quantity::Recent => "δ_t = A_NAE at every token (the paper)",
        }
    }
}

fn measure(context: &Context) -> anyhow::Result<Numbers> {
    let mut variants = Vec::new();
    for (i, (name, settings)) in VARIANTS.into_iter().enumerate() {
        (context.progress)(0.8 * i as f64 / VARIANTS.len() as f64, name);
        for (policy, distance) in [("on-policy", 0.0), ("off-policy", 0.5)] {
            variants.push(against_grpo((name, settings), policy, distance, context.seed)?);
        }
    }
    let mut by_lambda = Vec::new();
    for step in 0..=20 {
        by_lambda.extend(at_lambda(f64::from(step) / 20.0)?);
    }
    let mut weights = Vec::new();
    for (name, settings) in [
        ("recent", ""),
        ("both", "style=both"),
        ("ϵ-weight", "update=weight"),
        ("recent, terminal δ", "delta=terminal"),
    ] {
        weights.push((name, on_policy_weights(&format!("lambda=0 {settings}"), &[-0.5; 6])?));
    }
    Ok(Numbers { variants, by_lambda, terminal_at_one: terminal_at_one(context.seed)?, weights })
}

/// A seeded group of five with binary rewards, lengths 1 to 9, and current log-probabilities that differ by up to
/// `distance`.
fn batch(seed: u64, index: usize, distance: f64) -> (Group, Vec<Vec<f64>>) {
    let mut rng = stream(seed, index as u64);
    let mut sampled =
        |i: usize| (0..1 + (index + 2 * i) % 9).map(|_| -1.0 + 0.9 * symmetric(&mut rng)).collect();
    let old: Vec<Vec<f64>> = (0..5).map(&mut sampled).collect();
    let mut moved =
        |o: &Vec<f64>| o.iter().zip(noise(&mut rng, o.len())).map(|(o, d)| o + distance * d).collect();
    let logps = old.iter().map(&mut moved).collect();
    let rewards: Vec<f64> = (0..5).map(|i| f64::from((index + i) % 5 < 1 + index % 4)).collect();
    (group(&rewards, &old), logps)
}

/// The largest differences of a variant at λ = 0 from GRPO over all batches.
fn against_grpo(
    (variant, settings): (&'static str, &str),
    policy: &'static str,
    distance: f64,
    seed: u64,
) -> anyhow::Result<Variant> {
    let mut worst = Variant { variant, policy, batches: BATCHES, loss: 0.0, gradient: 0.0 };
    for index in 0..BATCHES {
        let (group, logps) = batch(seed, index, distance);
        let ours = evaluate("grpo_lambda", &format!("lambda=0 {settings}"), &group, &logps)?;
        let grpo = evaluate("grpo", GRPO, &group, &logps)?;
        let (a, b) = (ours.dlogps.concat(), grpo.dlogps.concat());
        worst.loss = worst.loss.max((ours.value - grpo.value).abs());
        worst.gradient = worst.gradient.max(gap(&a, &b) / norm(&b).max(f64::MIN_POSITIVE));
    }
    Ok(worst)
}

/// The GAE of a constant critic against `r - V(s_0)` at every token, and the weights of GRPO-lambda against 1.
fn at_lambda(lambda: f64) -> anyhow::Result<[AtLambda; 2]> {
    let (reward, v0) = (1.0, 0.375);
    let mut rewards = vec![0.0; LEN];
    rewards[LEN - 1] = reward;
    let relative = |x: &[f64], y: &[f64]| norm(&difference(x, y)) / norm(y);
    let advantages = gae(&rewards, &[v0; LEN], 1.0, lambda);
    let weights = on_policy_weights(&format!("lambda={lambda}"), &[-0.5; LEN])?;
    let distances = [
        (Quantity::Implied, relative(&advantages, &[reward - v0; LEN])),
        (Quantity::Recent, relative(&weights, &[1.0; LEN])),
    ];
    Ok(distances.map(|(quantity, relative_difference_from_grpo)| AtLambda {
        lambda,
        quantity,
        relative_difference_from_grpo,
    }))
}

fn terminal_at_one(seed: u64) -> anyhow::Result<f64> {
    let (group, logps) = batch(seed, 1, 0.0);
    let ours = evaluate("grpo_lambda", "lambda=1 delta=terminal clamp=none", &group, &logps)?;
    let grpo = evaluate("grpo", GRPO, &group, &logps)?;
    Ok(gap(&ours.dlogps.concat(), &grpo.dlogps.concat()))
}

/// True if a variant was measured and is GRPO to the last bit, on and off policy.
fn is_grpo(n: &Numbers, name: &str) -> bool {
    let mut own = n.variants.iter().filter(|r| r.variant == name).peekable();
    own.peek().is_some() && own.all(|r| r.loss == 0.0 && r.gradient == 0.0)
}

fn findings(n: &Numbers) -> Vec<Finding> {
    let shown = |finding: Finding, names: &[&str]| {
        finding
            .rows("", &["variant", "policy", "largest_relative_gradient_difference"])
            .only("variant", names)
    };
    let weights = |finding: Finding, name: &str| {
        let own = n.weights.iter().find(|(known, _)| *known == name);
        finding.value(format!("weights of {name} at T = 6"), own.map(|(_, weights)| weights))
    };
    let names = distinct(n.variants.iter().map(|r| r.variant));
    let (same, other): (Vec<&str>, Vec<&str>) = names.into_iter().partition(|name| is_grpo(n, name));
    let falls_back = holds_when(
        other.is_empty(),
        is_grpo(n, "recent"),
        "the style is recent, advantages are not clamped, and the clip is PPO's; the paper itself clamps at -0.1",
        "recent without clamp differs",
    );
    let both = holds_or(is_grpo(n, "both"), "the weight max(0^l, 0^(t-l)) of token 0 is 1 in every ratio");
    let weight = holds_or(is_grpo(n, "ϵ-weight"), "the soft clamp still changes the loss");
    let implied: Vec<&AtLambda> = n.by_lambda.iter().filter(|at| at.quantity == Quantity::Implied).collect();
    let distance = |at: Option<&&AtLambda>| at.map(|at| at.relative_difference_from_grpo);
    let (at_zero, at_one) = (distance(implied.first()), distance(implied.last()));
    let at_the_other_end =
        at_one == Some(0.0) && at_zero.is_some_and(|d| d > EXACT) && n.terminal_at_one < EXACT;
    vec![
        shown(
            Finding::on(SentenceId::FallsBackToGrpo, falls_back)
                .value("variants that are GRPO exactly", same),
            &["recent", "recent, A clamped at -0.1"],
        ),
        shown(
            weights(Finding::new("style_both", "With style `both`, λ = 0 gives GRPO", both), "both"),
            &["both"],
        ),
        shown(
            weights(Finding::new("weight", "With ϵ-weight, λ = 0 gives GRPO", weight), "ϵ-weight"),
            &["ϵ-weight"],
        ),
        claim(
            "constant_critic",
            "GAE with the constant critic V = V(s₀), which GRPO implies, equals GRPO at λ = 1 but not at λ = 0",
        )
        .holds_or(at_the_other_end, "it is not")
        .value("relative difference from r - V(s₀) at λ = 1", at_one)
        .value("at λ = 0", at_zero)
        .value(
            "difference of the gradient with delta=terminal, λ = 1, on-policy",
            rounding_error(n.terminal_at_one),
        ),
    ]
}

fn tables(n: &Numbers) -> Vec<(String, Table)> {
    vec![(String::new(), Table::from_rows(&n.variants)), ("by_lambda".into(), Table::from_rows(&n.by_lambda))]
}

fn figures(n: &Numbers) -> Vec<(String, Figure)> {
    let bars = Panel::new("Token weights at λ = 0, T = 6")
        .x(Axis::new("token k").categories((0..6).map(|k| k.to_string())))
        .y("weight (GRPO = 1)");
    let bars = n.weights.iter().fold(bars, |bars, (name, weights)| bars.bars(*name, indexed(weights)));
    let figure =
        Figure::new("λ = 0 gives GRPO for the style recent only; with true TD errors GRPO is \
            λ = 1, the other end").caption(
            "Exact, on-policy, no advantage clamp, γ = 1; ϵ-weight at log π = -0.5. Left: style recent, Euclidean \
             distance of the T weights from 1, over √T. Right: the weights themselves; a missing bar is 0.",
        )
        .names([Quantity::Recent.legend()]);
    let figure = chart(&n.by_lambda)
        .panels(|_| format!("Distance from GRPO, T = {LEN}"))
        .x("λ")
        .y("distance of weights (0 = GRPO)")
        .lines(|at| at.quantity.legend(), |at| (at.lambda, at.relative_difference_from_grpo))
        .hline(0.0, "GRPO")
        .on(figure);
    vec![(String::new(), figure.panel(bars.hline(1.0, "GRPO")))]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiments::common::words;

    fn numbers(different: &[&str], at_one: f64) -> Numbers {
        let variant = |variant| {
            let gradient = f64::from(different.contains(&variant));
            Variant { variant, policy: "on-policy", batches: 1, loss: 0.0, gradient }
        };
        let at = |lambda, relative_difference_from_grpo| AtLambda {
            lambda,
            quantity: Quantity::Implied,
            relative_difference_from_grpo,
        };
        Numbers {
            variants: ["recent", "recent, A clamped at -0.1", "both", "ϵ-weight"].map(variant).into(),
            by_lambda: vec![at(0.0, 0.5), at(1.0, at_one)],
            terminal_at_one: 0.0,
            weights: Vec::new(),
        }
    }

    #[test]
    fn each_verdict_follows_its_own_numbers() {
        let verdicts = |n: Numbers| words(&findings(&n));
        assert_eq!(verdicts(numbers(&[], 0.0)), ["Holds"; 4]);
        assert_eq!(verdicts(numbers(&["both"], 0.0)), ["Holds when", "Fails", "Holds", "Holds"]);
        assert_eq!(verdicts(numbers(&["recent", "ϵ-weight"], 0.1)), ["Fails", "Holds", "Fails", "Fails"]);
        let mut unknown = numbers(&[], 0.0);
        unknown.variants.retain(|r| r.variant != "both");
        assert_eq!(
            verdicts(unknown),
            ["Holds", "Fails", "Holds", "Holds"],
            "what was not measured does not hold"
        );
    }
}
