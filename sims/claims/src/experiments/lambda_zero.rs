//! `lambda_zero`: the readings of GRPO-lambda that are GRPO at λ = 0, and the λ at which GAE becomes GRPO.

use crate::experiment::{Context, Experiment, Finding, Parts};
use crate::experiments::common::mdp::{evaluate, group, on_policy_weights};
use crate::experiments::common::record::{Record, table};
use crate::experiments::common::{
    EXACT, difference, finding_on, gap, holds_or, holds_when, indexed, keyed, noise, norm, short, stream,
    symmetric,
};
use crate::figure::{Axis, Figure, Panel};
use crate::sentences::SentenceId;
use grpo_lambda::advantage::gae;
use grpo_lambda::group::Group;
use grpo_lambda_stats::table::Table;

pub(super) static EXPERIMENT: Experiment = Experiment {
    id: "lambda_zero",
    title: "Which readings of GRPO-λ are GRPO at λ = 0?",
    claim: "\"GRPO-λ is also a generalization of GRPO, as it falls back to GRPO with λ=0.\"",
    source: "GRPO-lambda (arXiv 2510.00194v1), Section 3",
    run: |context| Parts { measure, findings, tables, figures }.report(context),
};

/// GRPO with the reduction of the code base the paper builds on.
const GRPO: &str = "reduction=token_mean";
const BATCHES: usize = 200;
/// Tokens of the response whose advantages are followed along λ.
const LEN: usize = 16;

/// The readings compared with GRPO.
const READINGS: [(&str, &str); 12] = [
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
    readings: Vec<Reading>,
    by_lambda: Vec<AtLambda>,
    /// Largest difference of the gradient of delta=terminal at λ = 1 from GRPO's, on-policy.
    terminal_at_one: f64,
    /// Weights of the six tokens of a response at λ = 0.
    weights: Weights,
}

/// One reading at λ = 0 against GRPO.
#[derive(Clone, Copy)]
struct Reading {
    name: &'static str,
    on_policy: Distance,
    off_policy: Distance,
}

/// Largest differences over the batches.
#[derive(Clone, Copy, Default, PartialEq)]
struct Distance {
    loss: f64,
    /// Relative to GRPO's gradient.
    gradient: f64,
}

impl Reading {
    /// True if loss and gradient are GRPO's to the last bit, on and off policy.
    fn is_grpo(&self) -> bool {
        [self.on_policy, self.off_policy].iter().all(|d| *d == Distance::default())
    }
}

/// Relative distances from GRPO's advantages at one λ.
#[derive(Clone, Copy)]
struct AtLambda {
    lambda: f64,
    /// GAE with the critic GRPO implies, `V(s_0)` everywhere.
    implied_critic: f64,
    /// GRPO-lambda, style recent.
    recent: f64,
}

struct Weights {
    recent: Vec<f64>,
    both: Vec<f64>,
    weight: Vec<f64>,
    terminal: Vec<f64>,
}

fn measure(context: &Context) -> anyhow::Result<Numbers> {
    let mut readings = Vec::new();
    for (i, (name, settings)) in READINGS.into_iter().enumerate() {
        (context.progress)(0.8 * i as f64 / READINGS.len() as f64, name);
        let distance = |drift| distance(settings, context.seed, drift);
        readings.push(Reading { name, on_policy: distance(0.0)?, off_policy: distance(0.5)? });
    }
    let six = [-0.5; 6];
    Ok(Numbers {
        readings,
        by_lambda: (0..=20).map(|step| at_lambda(f64::from(step) / 20.0)).collect::<Result<_, _>>()?,
        terminal_at_one: terminal_at_one(context.seed)?,
        weights: Weights {
            recent: on_policy_weights("lambda=0", &six)?,
            both: on_policy_weights("lambda=0 style=both", &six)?,
            weight: on_policy_weights("lambda=0 update=weight", &six)?,
            terminal: on_policy_weights("lambda=0 delta=terminal", &six)?,
        },
    })
}

/// A seeded group of five with binary rewards, lengths 1 to 9, and current log-probabilities that differ by up to `drift`.
fn batch(seed: u64, index: usize, drift: f64) -> (Group, Vec<Vec<f64>>) {
    let mut rng = stream(seed, index as u64);
    let mut sampled =
        |i: usize| (0..1 + (index + 2 * i) % 9).map(|_| -1.0 + 0.9 * symmetric(&mut rng)).collect();
    let old: Vec<Vec<f64>> = (0..5).map(&mut sampled).collect();
    let mut moved =
        |o: &Vec<f64>| o.iter().zip(noise(&mut rng, o.len())).map(|(o, d)| o + drift * d).collect();
    let logps = old.iter().map(&mut moved).collect();
    let rewards: Vec<f64> = (0..5).map(|i| f64::from((index + i) % 5 < 1 + index % 4)).collect();
    (group(&rewards, &old), logps)
}

/// The largest distance of a reading at λ = 0 from GRPO over all batches.
fn distance(settings: &str, seed: u64, drift: f64) -> anyhow::Result<Distance> {
    let mut worst = Distance::default();
    for index in 0..BATCHES {
        let (group, logps) = batch(seed, index, drift);
        let ours = evaluate("grpo_lambda", &format!("lambda=0 {settings}"), &group, &logps)?;
        let grpo = evaluate("grpo", GRPO, &group, &logps)?;
        let (a, b) = (ours.dlogps.concat(), grpo.dlogps.concat());
        worst.loss = worst.loss.max((ours.value - grpo.value).abs());
        worst.gradient = worst.gradient.max(gap(&a, &b) / norm(&b).max(f64::MIN_POSITIVE));
    }
    Ok(worst)
}

/// The GAE of a constant critic against `r - V(s_0)` at every token, and the weights of GRPO-lambda against 1.
fn at_lambda(lambda: f64) -> anyhow::Result<AtLambda> {
    let (reward, v0) = (1.0, 0.375);
    let mut rewards = vec![0.0; LEN];
    rewards[LEN - 1] = reward;
    let relative = |x: &[f64], y: &[f64]| norm(&difference(x, y)) / norm(y);
    let advantages = gae(&rewards, &[v0; LEN], 1.0, lambda);
    let weights = on_policy_weights(&format!("lambda={lambda}"), &[-0.5; LEN])?;
    Ok(AtLambda {
        lambda,
        implied_critic: relative(&advantages, &[reward - v0; LEN]),
        recent: relative(&weights, &[1.0; LEN]),
    })
}

fn terminal_at_one(seed: u64) -> anyhow::Result<f64> {
    let (group, logps) = batch(seed, 1, 0.0);
    let ours = evaluate("grpo_lambda", "lambda=1 delta=terminal clamp=none", &group, &logps)?;
    let grpo = evaluate("grpo", GRPO, &group, &logps)?;
    Ok(gap(&ours.dlogps.concat(), &grpo.dlogps.concat()))
}

fn findings(n: &Numbers) -> Vec<Finding> {
    vec![falls_back(n), style_both(n), weight(n), constant_critic(n)]
}

/// A reading by name; an unknown one differs by NaN and is not GRPO.
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
    keyed(
        "style_both",
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
    keyed(
        "weight",
        "λ = 0 gives GRPO for ϵ-weight",
        holds_or(
            weight.is_grpo(),
            format!("the soft clamp stays: weights at T = 6, log π = -0.5: [{}]", list(&n.weights.weight)),
        ),
        format!("relative gradient difference up to {}", gradients(&weight)),
    )
}

fn constant_critic(n: &Numbers) -> Finding {
    let distance = |at: Option<&AtLambda>| at.map_or(f64::NAN, |at| at.implied_critic);
    let (at_zero, at_one) = (distance(n.by_lambda.first()), distance(n.by_lambda.last()));
    keyed(
        "constant_critic",
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

fn tables(n: &Numbers) -> Vec<(String, Table)> {
    let readings = n.readings.iter().flat_map(|r| {
        [("on-policy", r.on_policy), ("off-policy", r.off_policy)].map(|(policy, d)| {
            Record::default()
                .with("reading", r.name)
                .with("policy", policy)
                .with("batches", BATCHES)
                .with("largest_loss_difference", d.loss)
                .with("largest_relative_gradient_difference", d.gradient)
        })
    });
    let by_lambda = n.by_lambda.iter().flat_map(|at| {
        [("GAE with the implied critic", at.implied_critic), ("GRPO-lambda, recent", at.recent)].map(
            |(quantity, relative_difference_from_grpo)| {
                Record::default()
                    .with("lambda", at.lambda)
                    .with("quantity", quantity)
                    .with("relative_difference_from_grpo", relative_difference_from_grpo)
            },
        )
    });
    vec![(String::new(), table(readings)), ("by_lambda".into(), table(by_lambda))]
}

fn figures(n: &Numbers) -> Vec<(String, Figure)> {
    let along = |distance: fn(&AtLambda) -> f64| n.by_lambda.iter().map(move |at| (at.lambda, distance(at)));
    let distances = Panel::new(format!("Distance from GRPO, T = {LEN}"))
        .x("λ")
        .y("distance of weights (0 = GRPO)")
        .line("δ_t = A_NAE at every token (the paper)", along(|at| at.recent))
        .line("TD errors of the critic GRPO implies", along(|at| at.implied_critic))
        .hline(0.0, "GRPO");
    let bars = Panel::new("Token weights at λ = 0, T = 6")
        .x(Axis::new("token k").categories((0..6).map(|k| k.to_string())))
        .y("weight (GRPO = 1)")
        .bars("recent", indexed(&n.weights.recent))
        .bars("both", indexed(&n.weights.both))
        .bars("ϵ-weight", indexed(&n.weights.weight))
        .bars("recent, terminal δ", indexed(&n.weights.terminal))
        .hline(1.0, "GRPO");
    let figure = Figure::new("λ = 0 gives GRPO for the style recent only; with true TD errors GRPO is λ = 1, the other end")
        .caption("Exact, on-policy, no advantage clamp, γ = 1; ϵ-weight at log π = -0.5. Left: style recent, Euclidean distance of the T weights from 1, over √T. Right: the weights themselves; a missing bar is 0.")
        .panel(distances)
        .panel(bars);
    vec![(String::new(), figure)]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiments::common::words;

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
        let verdicts = |n: Numbers| words(&findings(&n));
        assert_eq!(verdicts(numbers(&[], 0.0)), ["Holds"; 4]);
        assert_eq!(verdicts(numbers(&["both"], 0.0)), ["Holds when", "Fails", "Holds", "Holds"]);
        assert_eq!(verdicts(numbers(&["recent", "ϵ-weight"], 0.1)), ["Fails", "Holds", "Fails", "Fails"]);
        let mut unknown = numbers(&[], 0.0);
        unknown.readings.retain(|r| r.name != "both");
        assert_eq!(
            verdicts(unknown),
            ["Holds", "Fails", "Holds", "Holds"],
            "what was not measured does not hold"
        );
    }
}
