//! DRO: REINFORCE with a quadratic pull to the policy that sampled.

use super::{Aggregate, MethodSpec, Provenance, shared};
use crate::advantage::Baseline;
use crate::settings::Param;
use crate::surrogate::Surrogate;

/// Direct reward optimisation, its policy loss, on centred group rewards in place of a critic. See [`Surrogate::Quadratic`].
///
/// ```text
/// L = 1/(sum_i T_i) sum_i sum_t [ -A_i log pi(a_t|s_t) + (beta/2) x_t^2 ]
/// ```
/// On-policy the pull has no gradient and the update is REINFORCE's.
pub static SPEC: MethodSpec = MethodSpec {
    name: "dro",
    title: "DRO",
    about: "z-scored group rewards, REINFORCE with a quadratic penalty of the log-ratio in place of the clip, token mean",
    source: "Richemond et al. 2024, arXiv 2405.19107 (the policy loss); verl loss_mode=dro",
    provenance: Provenance::Published,
    samples: &["pull=0.3"],
    params: || {
        let pull = Param::number(
            "pull",
            0.5,
            0.0,
            1e6,
            "beta, coefficient of the squared log-ratio (verl: dro_beta)",
        );
        [vec![pull], shared::z_score(), shared::kl(), shared::reduction(Aggregate::TokenMean)].concat()
    },
    extra_inputs: shared::kl_inputs,
    build: |settings| {
        let pull = Surrogate::Quadratic { beta: settings.number("pull") };
        shared::with_surrogate(settings, shared::spread(settings, Baseline::GroupMean), pull)
    },
};
