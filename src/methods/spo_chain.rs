//! SPO-chain: Monte-Carlo values at cut points of a response.

use super::{Aggregate, Clip, MethodSpec, Provenance, shared};
use crate::assignment::StepDifference;
use crate::group::InputKind;
use crate::settings::Param;

/// SPO-chain (arXiv 2505.23564): VinePPO over segments that end where the policy was unsure, on unsure tokens only.
///
/// ```text
/// A_t = (V(next cut) - V(cut)) 1{ pi_old(a_t|s_t) <= 0.9 }
/// ```
/// The segments come with the extra inputs: the authors cut at every fifth token with a probability below 0.9. Their
/// `use_prob_mask` takes sure tokens out of the loss mask, and with it out of the denominator: `drop_sure=true`. By default the denominator
/// keeps them, so that what a token weighs does not depend on how sure the policy was elsewhere; with a token mean the two differ by one
/// factor per batch and in the KL term.
pub static SPEC: MethodSpec = MethodSpec {
    name: "spo_chain",
    title: "SPO-chain",
    about: "differences of Monte-Carlo values between segments at the tokens the policy was unsure of, PPO clip, token mean",
    source: "arXiv 2505.23564; the authors' code",
    provenance: Provenance::Published,
    samples: &["sure=0.6", "sure=0.6 drop_sure=true", "sure=0.4 drop_sure=true reduction=response_mean"],
    params: || {
        let own = vec![
            Param::number(
                "sure",
                0.9,
                0.0,
                1.0,
                "tokens sampled with a larger probability get no policy term",
            ),
            Param::flag(
                "drop_sure",
                false,
                "those tokens leave the batch: no KL term, no place in a denominator (authors' code)",
            ),
        ];
        [own, shared::loss(Clip::Ppo, Aggregate::TokenMean)].concat()
    },
    extra_inputs: |settings| shared::with_kl(settings, InputKind::Steps),
    build: |settings| {
        let (sure, drop) = (Some(settings.number("sure")), settings.flag("drop_sure"));
        shared::plain(settings, Box::new(StepDifference { sure, drop }))
    },
};
