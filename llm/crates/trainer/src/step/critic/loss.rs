//! Targets and loss of a critic.

use grpo_lambda::advantage::gae;
use grpo_lambda::group::{Group, Response};

use super::CriticSettings;

/// The values and targets of a response's tokens, when its batch was sampled.
#[derive(Clone, Debug, PartialEq)]
pub struct Targets {
    /// `V_old(s_t)`.
    pub old: Vec<f64>,
    /// `R_t = A_t + V_old(s_t)` with the advantages of [`gae`].
    pub returns: Vec<f64>,
    /// `G_t = gamma^(T-1-t) r`, which is `R_t` with lambda 1: no value is in it.
    pub outcomes: Vec<f64>,
}

impl Targets {
    /// The targets of a response with values; `None` without a reward, which teaches nothing.
    ///
    /// # Panics
    /// If it has no values.
    pub fn new(response: &Response, settings: &CriticSettings) -> Option<Targets> {
        let old = response.extra_inputs.values.clone().expect("the critic has valued every response");
        let (mut rewards, reward) = (vec![0.0; old.len()], response.reward?);
        *rewards.last_mut()? = reward;
        let advantages = gae(&rewards, &old, settings.gamma, settings.lambda);
        let returns = advantages.iter().zip(&old).map(|(a, v)| a + v).collect();
        let outcome = |left: usize| settings.gamma.powi(left as i32) * reward;
        let outcomes = (0..old.len()).rev().map(outcome).collect();
        Some(Targets { old, returns, outcomes })
    }

    /// The targets of every response of a batch, in flat order.
    pub fn all(batch: &[Group], settings: &CriticSettings) -> Vec<Option<Targets>> {
        batch.iter().flat_map(|group| &group.responses).map(|r| Targets::new(r, settings)).collect()
    }
}

/// The loss of a value and its slope in it.
///
/// ```text
/// l = 1/2 max((V - R)^2, (clip(V, V_old - c, V_old + c) - R)^2)
/// ```
/// The clipped form of PPO's reference code, and the default of TRL, verl and OpenRLHF: a value that has moved by `c` towards its target gets no further
/// push. Without `c` it is half the squared error.
pub fn value_loss(value: f64, old: f64, target: f64, clip: Option<f64>) -> (f64, f64) {
    let error = value - target;
    let kept = clip.map_or(value, |c| value.clamp(old - c, old + c)) - target;
    if kept.abs() > error.abs() { (0.5 * kept * kept, 0.0) } else { (0.5 * error * error, error) }
}

/// The share of the returns' variance that the values explain: `1 - Var(G - V_old) / Var(G)`; `None` if all returns
/// are equal, or a value is not finite. Values would explain part of `R`, which holds them, even if they said nothing of rewards.
pub fn explained_variance<'a>(targets: impl Iterator<Item = &'a Targets> + Clone) -> Option<f64> {
    let pairs = || targets.clone().flat_map(|t| t.outcomes.iter().zip(&t.old));
    let variance = |of: fn((&f64, &f64)) -> f64| {
        let n = pairs().count() as f64;
        let mean = pairs().map(of).sum::<f64>() / n;
        pairs().map(|pair| (of(pair) - mean).powi(2)).sum::<f64>() / n
    };
    let all = variance(|(outcome, _)| *outcome);
    (all > 0.0)
        .then(|| 1.0 - variance(|(outcome, old)| outcome - old) / all)
        .filter(|share| share.is_finite())
}
