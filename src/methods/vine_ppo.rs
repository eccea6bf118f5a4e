//! VinePPO: Monte-Carlo values at the starts of reasoning steps.

use super::{Aggregate, Clip, MethodSpec, Provenance, shared};
use crate::assignment::StepDifference;
use crate::group::InputKind;

/// VinePPO (Kazemnejad et al. 2024).
///
/// ```text
/// V(s_step) = mean reward of K fresh completions,      A = V(next step) - V(step),      r - V(step) in the last step
/// ```
/// The completions are extra inputs and cost `K` rollouts per step; the variance of a binary value is `p (1-p) / K`. The MATH configuration
/// has `K = 9` and a KL term of 1e-4 (`beta=0.0001`).
pub static SPEC: MethodSpec = MethodSpec {
    name: "vine_ppo",
    title: "VinePPO",
    about: "differences of Monte-Carlo values between steps, PPO clip, token mean",
    source: "Kazemnejad et al. 2024, arXiv 2410.01679; the authors' code",
    provenance: Provenance::Published,
    samples: &[""],
    params: || shared::loss(Clip::Ppo, Aggregate::TokenMean),
    extra_inputs: |settings| shared::with_kl(settings, InputKind::Steps),
    build: |settings| shared::plain(settings, Box::new(StepDifference { sure: None, drop: false })),
};
