//! VESPO: the ratio of the whole response as a held weight, damped by a gamma density.

use super::{Aggregate, MethodSpec, Provenance, shared};
use crate::advantage::Baseline;
use crate::ratio::{Gamma, GammaWeight};
use crate::settings::Param;
use crate::surrogate::Surrogate;

/// VESPO, variational sequence-level soft policy optimisation.
///
/// ```text
/// L = 1/(sum_i T_i) sum_i sum_t -phi(w_i) A_i log pi(a_t|s_t),      w_i = prod_t rho_t
/// phi(w) = e^lambda w^k e^(-lambda w), held constant;      k, lambda = 2, 3 where A >= 0, else 3, 2
/// ```
/// On-policy `phi = 1` and the gradient is that of REINFORCE under the same aggregation.
pub static SPEC: MethodSpec = MethodSpec {
    name: "vespo",
    title: "VESPO",
    about: "z-scored group rewards, the ratio of the response in a gamma density as a held weight of log pi, token mean",
    source: "arXiv 2602.10693; TRL loss_type=vespo",
    provenance: Provenance::Published,
    samples: &[""],
    params: || {
        let shape = |key, default, about| Param::number(key, default, 0.0, 10.0, about);
        let rate = |key, default, about| Param::number(key, default, 1e-4, 10.0, about);
        let gamma = vec![
            shape("k_positive", 2.0, "exponent of the ratio where the advantage is at least 0"),
            rate("lambda_positive", 3.0, "rate of the density where the advantage is at least 0"),
            shape("k_negative", 3.0, "exponent of the ratio where the advantage is negative"),
            rate("lambda_negative", 2.0, "rate of the density where the advantage is negative"),
        ];
        [gamma, shared::z_score(), shared::kl(), shared::reduction(Aggregate::TokenMean)].concat()
    },
    extra_inputs: shared::kl_inputs,
    build: |settings| {
        let gamma = |k: &str, lambda: &str| Gamma { k: settings.number(k), lambda: settings.number(lambda) };
        let ratio = GammaWeight {
            positive: gamma("k_positive", "lambda_positive"),
            negative: gamma("k_negative", "lambda_negative"),
        };
        let spread = shared::spread(settings, Baseline::GroupMean);
        Box::new(shared::objective(settings, spread, Box::new(ratio), Surrogate::Score))
    },
};
