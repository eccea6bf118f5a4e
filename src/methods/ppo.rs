//! PPO with generalised advantage estimation.

use super::{Aggregate, Clip, MethodSpec, Provenance, reinforce_pp, shared};
use crate::assignment::Gae;
use crate::group::InputKind;
use crate::settings::Param;

/// PPO (Schulman et al. 2017) with GAE over a critic's values, which are extra inputs: exact, noisy or constant.
///
/// ```text
/// A_t = sum_l (gamma lambda)^l delta_{t+l},      whitened over all tokens of the batch
/// L   = 1/(sum T) sum_i sum_t -min(rho A, clip(rho) A)
/// ```
/// Training the critic is the trainer's. Whitening subtracts the batch mean of advantages, which with an exact critic is noise, and
/// couples responses; without it the exact critic makes the expected update the policy gradient at every `lambda`.
pub static SPEC: MethodSpec = MethodSpec {
    name: "ppo",
    title: "PPO with GAE",
    about: "generalised advantage estimation over a critic's values, whitened over the batch, PPO clip, token mean",
    source: "Schulman et al. 2016, 2017; verl adv_estimator=gae",
    provenance: Provenance::Published,
    samples: &["whiten=false", ""],
    params: || {
        let own = vec![
            Param::number("gamma", 1.0, 0.0, 1.0, "discount"),
            Param::number(
                "lambda",
                0.95,
                0.0,
                1.0,
                "decay of later TD errors; language-model trainers use 1 or 0.95",
            ),
            reinforce_pp::whiten(),
        ];
        [own, shared::loss(Clip::Ppo, Aggregate::TokenMean)].concat()
    },
    extra_inputs: |settings| shared::with_kl(settings, InputKind::Values),
    build: |settings| {
        let critic = Gae { gamma: settings.number("gamma"), lambda: settings.number("lambda") };
        let inner = Box::new(critic);
        let whiten = settings.flag("whiten");
        shared::plain(settings, if whiten { reinforce_pp::whitened(inner, false) } else { inner })
    },
};
