//! The length law of the conventions: the force on the length under noise rewards, for any reduction, trace and map of rewards to advantages.
//!
//! ```text
//! E[g] = ā U,   U = E[ ρ Σ_k c_k(T) ∇_k ],   ā = E[A]          ρ: the weight that the reduction gives a response's tokens
//! U = ∇E[ρ] without a trace (c = 1), frozen in the other responses:   constant 0,   1/T per response ∇E[1/T],   token mean ∇E[1/ΣT]
//! ```
//! **Proof.** Rewards are independent of the tokens, and ρ and c are functions of lengths, so that the mean of A comes out. Without a trace
//! `E[ρ Σ_k ∇_k] = E[ρ ∇log π(y)] = ∇E[ρ]`. ∎ No offset (ā = 0), no force. Where only stopping is decided, a weight that falls with the length
//! makes `<∇E[ρ], ∇E[T]>` negative: a positive ā shortens there, a negative one lengthens.

use super::identities::mean_advantage;
use super::{HORIZON, chain};
use crate::experiments::common::mdp::method;
use crate::experiments::common::{dot, gap, norm};
use grpo_lambda::trace::{Recent, Trace};
use grpo_lambda_mdp::Oracle;
use grpo_lambda_mdp::expected::{Situation, implied_mean};
use grpo_lambda_tools::length_direction::{CLAMP, GROUP};
use serde::Serialize;

/// The success rate of the noise.
const RATE: f64 = 0.5;
/// λ of the rows with a trace.
const LAMBDA: f64 = 0.99;
/// The shift of the baseline below the mean reward.
const SHIFT: f64 = 0.1;

/// A reduction: its setting, and the frameworks that have it.
const REDUCTIONS: [(&str, &str); 3] =
    [("response_sum", "Dr. GRPO"), ("response_mean", "GRPO, 1/T"), ("token_mean", "DAPO, token mean")];

/// A convention under noise rewards, on a chain that may end after every token; a row of `length_bonus_law.csv`.
#[derive(Clone, Debug, Serialize)]
pub(super) struct LawRow {
    pub(super) reduction: &'static str,
    pub(super) of: &'static str,
    pub(super) lambda: f64,
    /// The map from rewards to advantages.
    pub(super) advantages: &'static str,
    pub(super) mean_advantage: f64,
    /// `<E[g], ∇E[T]>`: tokens per unit of learning rate, to first order.
    pub(super) slope_of_length: f64,
    /// Largest difference of a registered method's expected update to the law, over that of the law's vector; none where no method has the map.
    pub(super) off: Option<f64>,
}

/// A map of rewards to advantages: its name, its mean advantage, and the method with the settings that has it, if one does.
type Map = (&'static str, f64, Option<(&'static str, String)>);

/// The maps with their mean advantages, and the method and settings that have them on-policy.
fn maps(trace: bool) -> Vec<Map> {
    let score = |clamp: Option<f64>| {
        let clamp = clamp.map_or("none".to_owned(), |c| c.to_string());
        let name = if trace { "grpo_lambda" } else { "grpo" };
        let lambda = if trace { format!(" lambda={LAMBDA}") } else { String::new() };
        Some((name, format!("clamp={clamp}{lambda}")))
    };
    let signed = |positive: u8, negative: u8| {
        (!trace).then(|| ("w_reinforce", format!("positive_weight={positive} negative_weight={negative}")))
    };
    // The upper clip acts where a ratio is not 1, which none is on-policy.
    let higher = (!trace).then(|| ("grpo", "clamp=none epsilon_high=0.28".to_owned()));
    vec![
        ("z-score", 0.0, score(None)),
        ("z-score, higher upper clip", 0.0, higher),
        ("z-score clamped at -0.1", mean_advantage(Some(CLAMP), GROUP, RATE), score(Some(CLAMP))),
        ("reward less a baseline 0.1 below its mean (AsymRE)", SHIFT, None),
        ("right responses only", RATE, signed(1, 0)),
        ("wrong responses only", RATE - 1.0, signed(0, 1)),
    ]
}

/// Every convention.
pub(super) fn law() -> anyhow::Result<Vec<LawRow>> {
    let (tree, policy) = chain(RATE)?;
    let oracle = Oracle::new(&tree, &policy);
    let length = oracle.update_of_credit(&oracle.expect_given_edge(|y| tree.leaf_len(y) as f64));
    let lengths = distribution(&oracle);
    let others = (1..GROUP).fold(vec![1.0], |sum, _| convolved(&sum, &lengths));
    let mut rows = Vec::new();
    for lambda in [0.0, LAMBDA] {
        for (reduction, of) in REDUCTIONS {
            // By the length of the response: its weight in the mean over responses, given the others where they matter.
            let weight = |t: usize| match reduction {
                "response_sum" => 1.0,
                "response_mean" => 1.0 / t as f64,
                _ => others.iter().enumerate().map(|(s, p)| p * GROUP as f64 / (s + t) as f64).sum(),
            };
            let weights: Vec<f64> = (0..=HORIZON).map(|t| if t > 0 { weight(t) } else { 0.0 }).collect();
            let credit = oracle.implied_credit(|y, _, w| {
                let t = tree.leaf_len(y);
                let columns = Recent { q: lambda }.column_sums(t);
                w.iter_mut().zip(columns).for_each(|(w, c)| *w = weights[t] * c);
            });
            let unit = oracle.update_of_credit(&credit);
            for (advantages, mean_advantage, registered) in maps(lambda > 0.0) {
                let off = |(name, settings): (&str, String)| -> anyhow::Result<f64> {
                    let method = method(name, &format!("{settings} reduction={reduction}"))?;
                    let update = implied_mean(method.as_ref(), &Situation::on_policy(&tree, &policy, GROUP))?;
                    let want: Vec<f64> = unit.iter().map(|u| mean_advantage * u).collect();
                    Ok(gap(&update, &want) / norm(&length))
                };
                let slope = mean_advantage * dot(&unit, &length);
                rows.push(LawRow {
                    reduction,
                    of,
                    lambda,
                    advantages,
                    mean_advantage,
                    // Under a constant reduction the vector is 0 but for rounding.
                    slope_of_length: if slope.abs() < 1e-12 { 0.0 } else { slope },
                    off: registered.map(off).transpose()?,
                });
            }
        }
    }
    Ok(rows)
}

/// The chance of every length.
fn distribution(oracle: &Oracle) -> Vec<f64> {
    let mut chances = vec![0.0; HORIZON + 1];
    oracle.tree.leaves().for_each(|y| chances[oracle.tree.leaf_len(y)] += oracle.leaf_prob(y));
    chances
}

/// The chances of a sum of two independent numbers.
fn convolved(a: &[f64], b: &[f64]) -> Vec<f64> {
    let mut sum = vec![0.0; a.len() + b.len() - 1];
    for (i, p) in a.iter().enumerate() {
        b.iter().enumerate().for_each(|(j, q)| sum[i + j] += p * q);
    }
    sum
}

#[cfg(test)]
impl LawRow {
    /// A row with these numbers.
    pub(super) fn made_up(
        reduction: &'static str,
        lambda: f64,
        mean_advantage: f64,
        slope: f64,
        off: f64,
    ) -> LawRow {
        let (of, advantages) = ("made up", "made up");
        LawRow { reduction, of, lambda, advantages, mean_advantage, slope_of_length: slope, off: Some(off) }
    }
}
