//! ReMax: the reward of the greedy response as the baseline.

use super::{Aggregate, Clip, MethodSpec, Provenance, shared};
use crate::assignment::GivenBaseline;
use crate::group::InputKind;

/// ReMax. See [`GivenBaseline`].
///
/// ```text
/// A_i = r_i - r_greedy
/// L   = (1/B) sum_i sum_t -rho A
/// ```
/// One more response per prompt, without sampling. Expected update on-policy: the policy gradient exactly.
pub static SPEC: MethodSpec = MethodSpec {
    name: "remax",
    title: "ReMax",
    about: "rewards minus the reward of the greedy response, no clip, sum over tokens, mean over responses",
    source: "Li et al. 2023, arXiv 2310.10505; verl adv_estimator=remax",
    provenance: Provenance::Published,
    samples: &["", "clip=ppo reduction=token_mean"],
    params: || shared::loss(Clip::None, Aggregate::ResponseSum),
    extra_inputs: |settings| shared::with_kl(settings, InputKind::RewardParts),
    build: |settings| shared::plain(settings, Box::new(GivenBaseline)),
};
