//! SAPO: a soft gate in place of the clip.

use super::{Aggregate, MethodSpec, Provenance, shared};
use crate::advantage::Baseline;
use crate::settings::Param;
use crate::surrogate::Surrogate;

/// SAPO, soft adaptive policy optimisation.
///
/// ```text
/// L = (1/B) sum_i (1/T_i) sum_t -(4/tau) sigma(tau (rho - 1)) A_i,      tau = 1 where A > 0, else 1.05
/// ```
/// On-policy its gradient is GRPO's (its value is another number). Off-policy the gradient of a token falls smoothly with the distance of its ratio from 1, on both
/// sides and for both signs of the advantage; no token loses it altogether.
pub static SPEC: MethodSpec = MethodSpec {
    name: "sapo",
    title: "SAPO",
    about: "z-scored group rewards, a sigmoid gate of the ratio in place of the clip, mean over responses of their token mean",
    source: "arXiv 2511.20347; TRL loss_type=sapo, verl loss_mode=sapo",
    provenance: Provenance::Published,
    samples: &["tau_negative=2"],
    params: || {
        let temperature = |key, default, about| Param::number(key, default, 0.1, 10.0, about);
        let gate = vec![
            temperature("tau_positive", 1.0, "temperature of the gate where the advantage is positive"),
            temperature("tau_negative", 1.05, "temperature of the gate where the advantage is not positive"),
        ];
        [gate, shared::z_score(), shared::kl(), shared::reduction(Aggregate::ResponseMean)].concat()
    },
    extra_inputs: shared::kl_inputs,
    build: |settings| {
        let gate = Surrogate::SoftGate {
            positive: settings.number("tau_positive"),
            negative: settings.number("tau_negative"),
        };
        shared::with_surrogate(settings, shared::spread(settings, Baseline::GroupMean), gate)
    },
};
