//! W-REINFORCE: wrong responses weigh more than right ones.

use super::{Aggregate, Clip, MethodSpec, Provenance, shared};
use crate::assignment::Signed;
use crate::settings::Param;

/// W-REINFORCE, weighted REINFORCE, with its two parts: positive sample reinforcement (PSR) at `negative_weight=0`, negative (NSR) at
/// `positive_weight=0`. See [`Signed`].
///
/// ```text
/// L = lambda L_PSR + L_NSR,      L_PSR = -E[ sum over right y of pi(y|x) ],      L_NSR = E[ sum over wrong y of pi(y|x) ]
/// A_i = lambda where the response is right, -1 where it is wrong
/// ```
/// Expected update on-policy for binary rewards and a sum over tokens: `positive_weight + negative_weight` times the policy gradient, for groups of
/// any size: the weights change the variance, and what is learnt off-policy, but not the direction.
pub static SPEC: MethodSpec = MethodSpec {
    name: "w_reinforce",
    title: "W-REINFORCE",
    about: "a small weight for right responses, 1 against wrong ones, no baseline, PPO clip, token mean",
    source: "Zhu et al. 2025, arXiv 2506.01347; TianHongZXY/RLVR-Decomposed adv_estimator=psr_nsr",
    provenance: Provenance::Published,
    samples: &["", "positive_weight=1 negative_weight=0.5 clip=none reduction=response_sum"],
    params: || {
        let weight = |key, default, about| Param::number(key, default, 0.0, 1e3, about);
        let own = vec![
            weight(
                "positive_weight",
                0.1,
                "weight of right responses, whose reward is above 0 (their lambda)",
            ),
            weight("negative_weight", 1.0, "weight of wrong responses"),
        ];
        [own, shared::loss(Clip::Ppo, Aggregate::TokenMean)].concat()
    },
    extra_inputs: shared::kl_inputs,
    build: |settings| {
        let (positive, negative) = (settings.number("positive_weight"), settings.number("negative_weight"));
        shared::plain(settings, Box::new(Signed { positive, negative }))
    },
};
