//! DPPO: a trust region of probabilities in place of the clip of ratios.

use super::{Aggregate, MethodSpec, Provenance, shared};
use crate::advantage::Baseline;
use crate::settings::{Param, choice};
use crate::surrogate::{Divergence, Surrogate};

choice!(Divergence { "tv" => TotalVariation, "kl" => Kl });

/// DPPO, divergence proximal policy optimisation, in its form for one token against all others. See [`Surrogate::TrustRegion`].
///
/// ```text
/// L = 1/(sum_i T_i) sum_i sum_t -sg(min(rho, cap) m) A_i log pi(a_t|s_t)
/// ```
/// The clip of ratios stops a rare token after a small change of its probability and a likely one after none; the divergence measures the change itself.
/// On-policy it is GRPO's gradient.
pub static SPEC: MethodSpec = MethodSpec {
    name: "dppo",
    title: "DPPO",
    about: "z-scored group rewards, the cut ratio as a held weight of log pi inside a region of total variation or KL, token mean",
    source: "arXiv 2602.04879; verl loss_mode=dppo_tv, dppo_kl",
    provenance: Provenance::Published,
    samples: &[
        "divergence_low=0.05 divergence_high=0.1",
        "divergence=kl divergence_low=0.01 divergence_high=0.02 reduction=response_mean",
    ],
    params: || {
        let bound = |key, about| Param::number(key, 0.2, 0.0, 100.0, about);
        let region = vec![
            Param::choice(
                "divergence",
                Divergence::TotalVariation,
                "how far a probability has moved: total variation, or KL of this token against all others",
            ),
            bound("divergence_low", "largest divergence of a token that becomes less likely"),
            bound("divergence_high", "largest divergence of a token that becomes more likely"),
            Param::number("cap", 20.0, 1.0, 1e9, "largest weight of log pi (verl: clip_ratio_c)"),
        ];
        [region, shared::z_score(), shared::kl(), shared::reduction(Aggregate::TokenMean)].concat()
    },
    extra_inputs: shared::kl_inputs,
    build: |settings| {
        let divergence = settings.choice("divergence");
        let (low, high) = (settings.number("divergence_low"), settings.number("divergence_high"));
        let region = Surrogate::TrustRegion { divergence, low, high, cap: settings.number("cap") };
        shared::with_surrogate(settings, shared::spread(settings, Baseline::GroupMean), region)
    },
};
