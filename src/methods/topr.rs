//! TOPR: positive responses unweighted, the ratio of negative ones cut at 1.

use super::{Aggregate, MethodSpec, Provenance, shared};
use crate::advantage::Baseline;
use crate::ratio::{HeldWeight, PolicyRatio};
use crate::settings::{Param, choice};
use crate::surrogate::Surrogate;

choice! {
    /// The ratio that a weight is.
    enum Ratio { "product" => Product, "token" => Token }
}

/// TOPR, tapered off-policy REINFORCE.
///
/// ```text
/// L = (1/B) sum_i sum_t -f_i A_i log pi(a_t|s_t),      f_i = 1 where A_i > 0, else sg( min(prod_t rho_t, 1) )
/// ```
/// On-policy every `f` is 1 and the update is REINFORCE's. Off-policy a response that the policy has already made unlikely pushes no further, which
/// the floor of GRPO-lambda's advantage aims at, too, and pays for with a positive bias. `ratio=token` is ROLL's form; its sign is that of the
/// reward, where the paper has a reward of either sign and here the advantage decides.
pub static SPEC: MethodSpec = MethodSpec {
    name: "topr",
    title: "TOPR",
    about: "centred group rewards, REINFORCE with the response's ratio cut at 1 as a held weight of negative responses, sum over tokens",
    source: "Le Roux et al. 2025, arXiv 2503.14286, Eq. 8; ROLL pg_variant=topr",
    provenance: Provenance::Published,
    samples: &["", "ratio=token reduction=token_mean"],
    params: || {
        let ratio = Param::choice(
            "ratio",
            Ratio::Product,
            "ratio that weighs a negative response: the product over its tokens (the paper), or each token's own (ROLL)",
        );
        let scale = shared::scale(super::Divisor::None, super::Preset::Trl);
        [vec![ratio], scale, shared::kl(), shared::reduction(Aggregate::ResponseSum)].concat()
    },
    extra_inputs: shared::kl_inputs,
    build: |settings| {
        let spread = shared::spread(settings, Baseline::GroupMean);
        let product = HeldWeight { positive: (1.0, 1.0), negative: (0.0, 1.0) };
        let (ratio, surrogate): (Box<dyn PolicyRatio>, Surrogate) = match settings.choice("ratio") {
            Ratio::Product => (Box::new(product), Surrogate::Score),
            Ratio::Token => (shared::token_ratio(), Surrogate::Tapered),
        };
        Box::new(shared::objective(settings, spread, ratio, surrogate))
    },
};
