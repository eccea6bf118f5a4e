//! The predicted change of the mean length: the inner product of an expected update with the gradient of the
//! expected length.
//!
//! ```text
//! g_λ = E[ Σ_k c_k(T) ∇log π_k ],   c_k(T) = Σ_{t=k}^{T-1} λ^(t-k);        g_1 = ∇E[T]
//! update under noise rewards and a token mean    ā g_λ / E[T]
//! change of E[T] per step of gradient descent    lr ā <g_λ, ∇E[T]> / E[T]
//! ```
//! Under 1/T per response `Σ_k c_k(T) ∇log π_k / T` stands in the place of the sum; under it and under a constant no
//! `E[T]` divides. Each expectation is estimated from batches that are independent of each other, the inner product
//! from pairs of different batches: it has no bias from the square of an estimate's noise. The baseline of a token's
//! weight is the mean over the other responses of its group that are as long, which has no bias either, since a
//! response's score sums to 0 given its prefix.

use grpo_lambda::trace::{Recent, Trace};
use grpo_lambda_decoder::model::ForwardOptions;
use serde::Deserialize;

use super::lab::{Lab, LabError, Optimiser};
use grpo_lambda_trainer::step::Rollout;
use grpo_lambda_trainer::step::engine::{CpuEngine, Engine};
use grpo_lambda_trainer::step::micro_batch::Batch;

/// The weight of the tokens of a response of `T`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub(crate) enum Weighing {
    /// All tokens equally, over the batch's number of tokens.
    #[serde(rename = "token mean")]
    TokenMean,
    /// `1/T` each.
    #[serde(rename = "1/T per response")]
    PerResponse,
    /// All tokens equally, over a constant, which the learning rate holds.
    #[serde(rename = "constant")]
    Constant,
}

impl Weighing {
    /// The name in results, and the value of `reduction`.
    pub(crate) fn names(self) -> (&'static str, &'static str) {
        match self {
            Weighing::TokenMean => ("token mean", "token_mean"),
            Weighing::PerResponse => ("1/T per response", "response_mean"),
            Weighing::Constant => ("constant", "response_sum"),
        }
    }
}

/// The prediction for one decay and reduction.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Force {
    pub lambda: f64,
    pub weighing: Weighing,
    /// `<g_λ, ∇E[T]> / E[T]`, whose quotient a token mean alone has: the change of the mean length per step over `lr
    /// ā`.
    pub slope: f64,
    /// Standard error of the same, over batches left out in turn.
    pub error: f64,
    /// Mean length, in tokens.
    pub length: f64,
}

/// Independent batches.
const BATCHES: u64 = 6;
/// Prompts of a batch, and responses to each.
const PROMPTS: u64 = 32;
const GROUP: usize = 16;
/// Prompts and steps that no run trains on.
pub(super) const APART: u64 = 1 << 30;

/// Estimates [`Force`] at the start weights for these decays and reductions.
pub(crate) fn force(lab: &Lab, kinds: &[(f64, Weighing)]) -> Result<Vec<Force>, LabError> {
    let (mut engine, _) = lab.engine(Optimiser::Sgd)?;
    let mut gradients: Vec<Vec<Vec<f32>>> = Vec::new();
    let mut lengths = Vec::new();
    for batch in 0..BATCHES {
        let first = APART + batch * PROMPTS;
        let rollout =
            lab.sample(&mut engine, lab.session.prompts(first..first + PROMPTS)?, GROUP, APART + batch)?;
        let all = rollout.groups.iter().flat_map(|g| &g.responses).map(|r| r.len() as f64);
        lengths.push(all.sum::<f64>() / (PROMPTS as usize * GROUP) as f64);
        let with_length = kinds.iter().chain(&[(1.0, Weighing::TokenMean)]);
        gradients
            .push(with_length.map(|k| gradient(lab, &mut engine, &rollout, *k)).collect::<Result<_, _>>()?);
    }
    let length = lengths.iter().sum::<f64>() / lengths.len() as f64;
    let force = |(i, &(lambda, weighing)): (usize, &(f64, Weighing))| {
        let over = if weighing == Weighing::TokenMean { length } else { 1.0 };
        let products: Vec<Vec<f64>> = gradients
            .iter()
            .map(|a| gradients.iter().map(|b| dot(&a[i], &b[kinds.len()]) / over).collect())
            .collect();
        let (slope, error) = of_pairs(&products);
        Force { lambda, weighing, slope, error, length }
    };
    Ok(kinds.iter().enumerate().map(force).collect())
}

/// The mean of `products[a][b]` over `a != b`, with its jackknife standard error.
fn of_pairs(products: &[Vec<f64>]) -> (f64, f64) {
    let n = products.len();
    let mean_without = |out: Option<usize>| {
        let kept: Vec<usize> = (0..n).filter(|i| Some(*i) != out).collect();
        let pairs = kept.iter().flat_map(|&a| kept.iter().map(move |&b| (a, b))).filter(|(a, b)| a != b);
        let all: Vec<f64> = pairs.map(|(a, b)| products[a][b]).collect();
        all.iter().sum::<f64>() / all.len() as f64
    };
    let left: Vec<f64> = (0..n).map(|i| mean_without(Some(i))).collect();
    let centre = left.iter().sum::<f64>() / n as f64;
    let spread = left.iter().map(|x| (x - centre).powi(2)).sum::<f64>();
    (mean_without(None), ((n - 1) as f64 / n as f64 * spread).sqrt())
}

pub(super) fn dot(a: &[f32], b: &[f32]) -> f64 {
    a.iter().zip(b).map(|(x, y)| f64::from(*x) * f64::from(*y)).sum()
}

/// `Σ_i Σ_k (c_k(T_i) - b_ik) ∇log π_ik / n` of a rollout.
fn gradient(
    lab: &Lab,
    engine: &mut CpuEngine,
    rollout: &Rollout,
    (lambda, weighing): (f64, Weighing),
) -> Result<Vec<f32>, LabError> {
    let prompts: Vec<&[u32]> = rollout.prompts.iter().map(|p| p.tokens.as_slice()).collect();
    let lengths = |g: &grpo_lambda::group::Group| g.responses.iter().map(|r| r.len()).collect::<Vec<_>>();
    let weights: Vec<Vec<f64>> =
        rollout.groups.iter().flat_map(|g| weights(&Recent { q: lambda }, weighing, &lengths(g))).collect();
    let n = weights.len() as f64;
    let pull: Vec<Vec<f64>> = weights.iter().map(|row| row.iter().map(|w| w / n).collect()).collect();
    pulled_in(lab, engine, Batch::new(&prompts, &rollout.groups), &pull)
}

/// [`pulled`] under the settings of a laboratory.
pub(super) fn pulled_in(
    lab: &Lab,
    engine: &mut CpuEngine,
    batch: Batch,
    pull: &[Vec<f64>],
) -> Result<Vec<f32>, LabError> {
    let config = &lab.session.config;
    let options = ForwardOptions { temperature: config.rl.temperature, ..ForwardOptions::default() };
    pulled(engine, batch, pull, options, config.memory.micro_batch_tokens)
}

/// `Σ_i Σ_k pull_ik ∇log π_ik` of a batch, with respect to all parameters in their order.
pub(super) fn pulled(
    engine: &mut CpuEngine,
    batch: Batch,
    pull: &[Vec<f64>],
    options: ForwardOptions,
    micro_batch_tokens: usize,
) -> Result<Vec<f32>, LabError> {
    engine.gradients().clear();
    for part in batch.parts(micro_batch_tokens) {
        let (_, tape) = engine.forward(&batch.rows(part.clone()), options)?;
        engine.backward(tape, (&pull[part]).into())?;
    }
    Ok(engine.gradients().by_name().into_iter().flat_map(|(_, g)| g.iter().copied()).collect())
}

/// `c_k(T_i) - b_ik` of every response of a group, by token, or `c_k(T_i) / T_i - b_ik`.
fn weights(trace: &Recent, weighing: Weighing, lengths: &[usize]) -> Vec<Vec<f64>> {
    let share = |len: usize| if weighing == Weighing::PerResponse { 1.0 / len as f64 } else { 1.0 };
    let weighed = |&len: &usize| trace.column_sums(len).iter().map(|c| c * share(len)).collect();
    let sums: Vec<Vec<f64>> = lengths.iter().map(weighed).collect();
    let weight = |i: usize, k: usize| {
        let others: Vec<f64> =
            (0..sums.len()).filter(|j| *j != i).filter_map(|j| sums[j].get(k).copied()).collect();
        // A response that outlives all others has none; the least weight that it can have stands in, which is 1.
        let baseline = if others.is_empty() { 1.0 } else { others.iter().sum::<f64>() / others.len() as f64 };
        sums[i][k] - baseline
    };
    (0..sums.len()).map(|i| (0..sums[i].len()).map(|k| weight(i, k)).collect()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weights_by_hand() {
        // At λ = 1 the sums are T - k: 3 2 1 and 1. The baseline of the first token of one is that of the other;
        // then 1.
        let weights = |q, lengths: &[usize]| weights(&Recent { q }, Weighing::TokenMean, lengths);
        assert_eq!(weights(1.0, &[3, 1]), [vec![2.0, 1.0, 0.0], vec![-2.0]]);
        // Without a trace every weight is 1, and nothing is left of any.
        assert!(weights(0.0, &[3, 1, 2]).iter().flatten().all(|w| *w == 0.0));
        // 1/T: a half and a quarter, and the token that the shorter one lacks is left its own 1/4 minus 1.
        let each = super::weights(&Recent { q: 0.0 }, Weighing::PerResponse, &[4, 2]);
        assert_eq!(each, [vec![-0.25, -0.25, -0.75, -0.75], vec![0.25, 0.25]]);
    }

    #[test]
    fn pairs_leave_the_square_of_the_noise_out() {
        // <a, b> of 1 + noise of opposite signs: the diagonal would add the noise squared.
        let x = [1.5, 0.5, 1.25, 0.75];
        let products: Vec<Vec<f64>> = x.iter().map(|a| x.iter().map(|b| a * b).collect()).collect();
        let (mean, error) = of_pairs(&products);
        let want = (4.0f64.powi(2) - x.iter().map(|a| a * a).sum::<f64>()) / 12.0;
        assert!((mean - want).abs() < 1e-12 && error > 0.0);
    }
}
