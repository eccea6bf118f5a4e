//! REINFORCE++: returns per token, whitened over the batch.

use super::{Aggregate, Clip, MethodSpec, Provenance, shared};
use crate::assignment::{Assignment, ReturnsToGo, Whitened};
use crate::settings::Param;

/// REINFORCE++ (Hu 2025), without groups: the baseline is the batch.
///
/// ```text
/// r_t = -reward_beta (log pi_old - log pi_ref) + 1{t = T-1} r,      G_t = r_t + gamma G_{t+1}
/// A_t = (G_t - mean G) / std G          over all tokens of the batch
/// ```
/// The mean over tokens is a baseline that depends on the lengths of responses, and every prompt shares it. A prompt whose
/// responses all agree still teaches when another prompt of the batch differs.
pub static SPEC: MethodSpec = MethodSpec {
    name: "reinforce_pp",
    title: "REINFORCE++",
    about: "discounted rewards from each token on, whitened over all tokens of the batch, PPO clip, token mean",
    source: "Hu 2025, arXiv 2501.03262; verl reinforce_plus_plus, OpenRLHF",
    provenance: Provenance::Published,
    samples: &["whiten=false gamma=0.8 reward_beta=0.1", ""],
    params: || {
        let own = vec![
            Param::number("gamma", 1.0, 0.0, 1.0, "discount of later rewards"),
            Param::number(
                "reward_beta",
                0.0,
                0.0,
                1e3,
                "coefficient of a KL penalty in the reward of each token; not 0 needs ref_logps",
            ),
            whiten(),
        ];
        [own, shared::loss(Clip::Ppo, Aggregate::TokenMean)].concat()
    },
    extra_inputs: shared::reward_kl_inputs,
    build: |settings| {
        let (gamma, beta) = (settings.number("gamma"), settings.number("reward_beta"));
        let uniform = gamma == 1.0 && beta == 0.0;
        let inner = Box::new(ReturnsToGo { gamma, beta });
        shared::plain(settings, if settings.flag("whiten") { whitened(inner, uniform) } else { inner })
    },
};

/// `whiten`.
pub(super) fn whiten() -> Param {
    Param::flag("whiten", true, "centre and scale advantages over all tokens of the batch")
}

/// [`Whitened`].
pub(super) fn whitened(inner: Box<dyn Assignment>, uniform: bool) -> Box<dyn Assignment> {
    Box::new(Whitened { inner, uniform })
}
