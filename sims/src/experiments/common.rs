//! What several experiments share: verdicts from numbers, small groups, seeded numbers.

use grpo_lambda::group::{Group, Response};
use grpo_lambda::methods::{self, BatchLoss, Method};
use grpo_lambda::table::significant;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::experiment::{Finding, Verdict};

/// Tolerance of identities between sums of a few hundred numbers of order 1.
pub(crate) const EXACT: f64 = 1e-12;

/// A finding.
pub(crate) fn finding(statement: impl Into<String>, verdict: Verdict, numbers: impl Into<String>) -> Finding {
    Finding { statement: statement.into(), verdict, numbers: numbers.into() }
}

/// `Holds` if `ok`, else `Fails` with the counterexample.
pub(crate) fn holds_or(ok: bool, counterexample: impl Into<String>) -> Verdict {
    if ok { Verdict::Holds } else { Verdict::Fails(counterexample.into()) }
}

/// `Holds` if it does everywhere, `HoldsWhen` if it does exactly under the condition, else `Fails`.
pub(crate) fn holds_when(
    everywhere: bool,
    under_condition: bool,
    condition: impl Into<String>,
    counterexample: impl Into<String>,
) -> Verdict {
    match (everywhere, under_condition) {
        (true, _) => Verdict::Holds,
        (false, true) => Verdict::HoldsWhen(condition.into()),
        (false, false) => Verdict::Fails(counterexample.into()),
    }
}

/// `x` to three significant digits.
pub(crate) fn short(x: f64) -> String {
    significant(x, 3)
}

/// The largest absolute difference.
pub(crate) fn gap(a: &[f64], b: &[f64]) -> f64 {
    assert_eq!(a.len(), b.len());
    a.iter().zip(b).map(|(x, y)| (x - y).abs()).fold(0.0, f64::max)
}

/// The mean.
pub(crate) fn mean(x: &[f64]) -> f64 {
    x.iter().sum::<f64>() / x.len() as f64
}

/// The Euclidean norm.
pub(crate) fn norm(x: &[f64]) -> f64 {
    x.iter().map(|x| x * x).sum::<f64>().sqrt()
}

/// The generator of a run's stream `stream`.
pub(crate) fn stream(seed: u64, stream: u64) -> ChaCha8Rng {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    rng.set_stream(stream);
    rng
}

/// A number in `(-1, 1)` on a grid of 2^-31.
pub(crate) fn symmetric(rng: &mut ChaCha8Rng) -> f64 {
    f64::from(rng.next_u32()) / f64::from(1u32 << 31) - 1.0
}

/// A registered method by name and settings.
pub(crate) fn method(name: &str, settings: &str) -> anyhow::Result<Box<dyn Method>> {
    Ok(methods::parse(name, settings)?.method)
}

/// A group whose responses have these rewards and sampling log-probabilities.
pub(crate) fn group(rewards: &[f64], old_logps: &[Vec<f64>]) -> Group {
    let response = |(&r, logps): (&f64, &Vec<f64>)| Response::graded(logps.clone(), r);
    Group { responses: rewards.iter().zip(old_logps).map(response).collect() }
}

/// Loss and gradient of a method on one group at current log-probabilities.
pub(crate) fn evaluate(
    name: &str,
    settings: &str,
    group: &Group,
    logps: &[Vec<f64>],
) -> anyhow::Result<BatchLoss> {
    Ok(methods::evaluate(method(name, settings)?.as_ref(), std::slice::from_ref(group), logps))
}

/// The on-policy weight of every token of a response under a reading of GRPO-lambda: its `dlogps` over that of GRPO
/// (token mean) on the same group of two responses, one right and one wrong, sampled with log-probabilities `logps`.
///
/// # Errors
/// If the settings are refused.
pub(crate) fn on_policy_weights(settings: &str, logps: &[f64]) -> anyhow::Result<Vec<f64>> {
    let both = vec![logps.to_vec(); 2];
    let pair = group(&[1.0, 0.0], &both);
    let ours = evaluate("grpo_lambda", &format!("clamp=none {settings}"), &pair, &both)?;
    let grpo = evaluate("grpo", "reduction=token_mean", &pair, &both)?;
    Ok(ours.dlogps[0].iter().zip(&grpo.dlogps[0]).map(|(a, b)| a / b).collect())
}
