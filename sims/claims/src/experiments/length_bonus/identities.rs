//! The statements of the theorem on random trees, to the last digits.

use crate::experiments::common::mdp::{Mdp, mean_update, random_mdps};
use crate::experiments::common::record::bounded;
use crate::experiments::common::{average, cosine, gap, largest, norm};
use grpo_lambda::advantage::{Baseline, OutcomeAdvantage, Scale, Std};
use grpo_lambda_mdp::Oracle;
use grpo_lambda_mdp::zoo::{Random, RandomRewards};
use grpo_lambda_tools::length_direction::CLAMP;
use rayon::prelude::*;
use serde::Serialize;

/// Random trees.
const TREES: usize = 100;
pub(super) const LAMBDAS: [f64; 5] = [0.5, 0.9, 0.98, 0.99, 1.0];
/// Success rates of the noise.
const RATES: [f64; 3] = [0.1, 0.5, 0.9];

/// One λ over all trees; a row of `length_bonus.csv`.
#[derive(Clone, Debug, Default, Serialize)]
pub(super) struct AtLambda {
    pub(super) lambda: f64,
    /// Updates compared.
    #[serde(rename = "updates")]
    pub(super) cases: usize,
    /// Largest difference to statement N, noise rewards.
    #[serde(rename = "largest_difference_to_formula_below", serialize_with = "bounded")]
    pub(super) off_noise: f64,
    /// Largest difference to `ā ∇E[T]`, relative to its norm.
    #[serde(rename = "largest_relative_difference_to_bonus_below", serialize_with = "bounded")]
    pub(super) off_bonus: f64,
    /// Cosine with `∇E[T]`, noise rewards and the clamp.
    pub(super) cosine_with_length_gradient_least: f64,
    pub(super) cosine_with_length_gradient_mean: f64,
    /// Mean of the norm over that of `ā ∇E[T]`.
    pub(super) norm_over_bonus_mean: f64,
}

/// The z-score of TRL, with the clamp or without it.
fn outcome(clamp: Option<f64>) -> OutcomeAdvantage {
    OutcomeAdvantage { baseline: Baseline::GroupMean, scale: Scale::Group(Std::TRL), clamp }
}

/// `E[A_i | r_i]` for `r_i` = 0 and 1, where the `group - 1` others are right with probability `p`.
pub(super) fn advantage_given(clamp: Option<f64>, group: usize, p: f64) -> [f64; 2] {
    let outcome = outcome(clamp);
    let given = |own: f64| {
        let mut chance = (1.0 - p).powi(group as i32 - 1);
        let mut sum = 0.0;
        for right in 0..group {
            let others = (1..group).map(|i| f64::from(u8::from(i <= right)));
            let rewards = std::iter::once(own).chain(others).map(Some).collect();
            sum += chance * outcome.of_batch(&[rewards])[0][0];
            chance *= p / (1.0 - p) * (group - 1 - right) as f64 / (right + 1) as f64;
        }
        sum
    };
    [given(0.0), given(1.0)]
}

/// `ā = E[A]` under noise of success rate `p`.
pub(super) fn mean_advantage(clamp: Option<f64>, group: usize, p: f64) -> f64 {
    let [wrong, right] = advantage_given(clamp, group, p);
    (1.0 - p) * wrong + p * right
}

/// The trees of all checks: every prefix can end.
fn trees(seed: u64) -> anyhow::Result<Vec<Mdp>> {
    let knobs = Random {
        symbols: 2,
        horizon: 5,
        eos: 1.0,
        rewards: RandomRewards::Probabilities,
        ..Random::default()
    };
    random_mdps(TREES, seed, knobs)
}

/// `∇E[T]`.
pub(super) fn length_gradient(oracle: &Oracle) -> Vec<f64> {
    let tree = oracle.tree;
    oracle.update_of_credit(&oracle.expect_given_edge(|y| tree.leaf_len(y) as f64))
}

fn settings(lambda: f64, clamp: Option<f64>) -> String {
    let clamp = clamp.map_or("none".into(), |c| c.to_string());
    format!("lambda={lambda} clamp={clamp} reduction=response_sum")
}

/// Statements N and B.
pub(super) fn noise(seed: u64) -> anyhow::Result<Vec<AtLambda>> {
    let trees = trees(seed)?;
    let at = |lambda: f64| -> anyhow::Result<AtLambda> {
        let cases = trees.par_iter().map(|mdp| noise_on(mdp, lambda)).collect::<anyhow::Result<Vec<_>>>()?;
        let all: Vec<Noise> = cases.into_iter().flatten().collect();
        let clamped: Vec<&Noise> = all.iter().filter(|c| c.clamped).collect();
        let least = clamped.iter().map(|c| c.cosine).fold(1.0, f64::min);
        let mean = |f: fn(&Noise) -> f64| average(clamped.iter().map(|c| f(c)));
        Ok(AtLambda {
            lambda,
            cases: all.len(),
            off_noise: largest(all.iter().map(|c| c.off)),
            off_bonus: largest(clamped.iter().map(|c| c.off_bonus)),
            cosine_with_length_gradient_least: least,
            cosine_with_length_gradient_mean: mean(|c| c.cosine),
            norm_over_bonus_mean: mean(|c| c.norm),
        })
    };
    LAMBDAS.into_iter().map(at).collect()
}

struct Noise {
    clamped: bool,
    off: f64,
    off_bonus: f64,
    cosine: f64,
    norm: f64,
}

fn noise_on(mdp: &Mdp, lambda: f64) -> anyhow::Result<Vec<Noise>> {
    let mut all = Vec::new();
    for p in RATES {
        let tree = mdp.tree.clone().with_rewards(|_| p);
        let oracle = Oracle::new(&tree, &mdp.policy);
        let length = length_gradient(&oracle);
        let decayed = decayed_survival(&oracle, lambda);
        for (group, clamp) in [(2, Some(CLAMP)), (8, Some(CLAMP)), (8, None)] {
            let update = mean_update(("grpo_lambda", &settings(lambda, clamp)), (&tree, &mdp.policy), group)?;
            let a = mean_advantage(clamp, group, p);
            let scaled = |v: &[f64]| v.iter().map(|x| a * x).collect::<Vec<f64>>();
            let bonus = scaled(&length);
            all.push(Noise {
                clamped: clamp.is_some(),
                off: gap(&update, &scaled(&decayed)),
                off_bonus: gap(&update, &bonus) / norm(&bonus),
                cosine: cosine(&update, &length),
                norm: norm(&update) / norm(&bonus),
            });
        }
    }
    Ok(all)
}

/// `Σ_t Σ_(k≤t) λ^(t-k) E[∇_k 1{T>t}]`, from the chance of each token to be written.
fn decayed_survival(oracle: &Oracle, lambda: f64) -> Vec<f64> {
    let tree = oracle.tree;
    let mut sum = vec![0.0; tree.edge_count()];
    for t in 0..tree.max_len() {
        let written = oracle.expect_given_edge(|y| f64::from(u8::from(tree.leaf_len(y) > t)));
        for (e, g) in oracle.update_of_credit(&written).into_iter().enumerate() {
            let k = tree.depth(tree.edge_node(e));
            if k <= t {
                sum[e] += lambda.powi((t - k) as i32) * g;
            }
        }
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mean_advantage_of_a_fair_coin_in_groups_of_eight_is_0_384() {
        // By enumeration of all 256 groups.
        let mut sum = 0.0;
        for bits in 0..256u32 {
            let rewards = (0..8).map(|i| Some(f64::from(bits >> i & 1))).collect();
            sum += outcome(Some(CLAMP)).of_batch(&[rewards])[0][0] / 256.0;
        }
        let ours = mean_advantage(Some(CLAMP), 8, 0.5);
        assert!((ours - sum).abs() < 1e-14 && (ours - 0.384).abs() < 5e-4, "{ours} {sum}");
        assert!(mean_advantage(None, 8, 0.3).abs() < 1e-15);
    }
}
