//! GPG: REINFORCE on centred group rewards.

use super::{Aggregate, MethodSpec, Provenance, shared};
use crate::assignment::{GroupPolicyGradient, Stretch};
use crate::settings::{Param, choice};
use crate::surrogate::Surrogate;

choice!(Stretch { "rewarded" => Rewarded, "mixed" => Mixed, "one" => One });

/// GPG, group policy gradient: no ratio, no clip, no standard deviation. See [`GroupPolicyGradient`] for the advantages.
///
/// ```text
/// L = 1/(sum_i T_i) sum_i sum_t -A_i log pi(a_t|s_t),      A_i = alpha (r_i - mean r) / f
/// ```
/// The old policy does not enter: on a batch that is used twice it is not the gradient of expected reward.
pub static SPEC: MethodSpec = MethodSpec {
    name: "gpg",
    title: "GPG",
    about: "centred group rewards stretched by a factor of the batch, REINFORCE without a ratio, token mean",
    source: "Chu et al. 2025, arXiv 2504.02546; verl adv_estimator=gpg with loss_mode=gpg",
    provenance: Provenance::Published,
    samples: &["", "alpha=mixed divisor=2 reduction=response_sum"],
    params: || {
        let own = vec![
            Param::choice(
                "alpha",
                Stretch::Rewarded,
                "factor of the batch: responses over those whose reward is not 0 (verl), or over those in groups whose rewards differ (the paper), or 1",
            ),
            Param::number("divisor", 1.0, 1e-6, 1e6, "f, what advantages are divided by (verl: f_norm)"),
        ];
        [own, shared::kl(), shared::reduction(Aggregate::TokenMean)].concat()
    },
    extra_inputs: shared::kl_inputs,
    build: |settings| {
        let (stretch, divisor) = (settings.choice("alpha"), settings.number("divisor"));
        let credit = GroupPolicyGradient { stretch, divisor };
        shared::with_surrogate(settings, Box::new(credit), Surrogate::Score)
    },
};
