//! OAR-G: advantages reshaped by input-gradient saliency.

use super::{MethodSpec, Provenance, oar_p, shared};
use crate::assignment::TokenScores;
use crate::group::InputKind;
use crate::settings::Param;

/// OAR-G (arXiv 2601.07408): as OAR-P with the gradient of a perturbed answer divergence in the input embeddings.
///
/// ```text
/// S_t = | <d J / d e_t, e_t> |,      J = KL( P(answer) || P(answer | embeddings + noise) )
/// ```
/// At the clean embeddings the gradient of the divergence is exactly 0, so `S_t` is linear in the noise draw: a random projection of the
/// local Fisher matrix. One draw has a coefficient of variation of about 0.75, so `n_noise` of them are averaged. With the authors' noise
/// of 1e-3 scores are so small that `log1p` does nothing. (Their README calls the saliency `|d KL / d e|`, without the input.)
pub static SPEC: MethodSpec = MethodSpec {
    name: "oar_g",
    title: "OAR-G",
    about: "z-scored group rewards times bi-level weights of input-gradient saliency, PPO clip, mean over responses of their token mean",
    source: "arXiv 2601.07408; the authors' code (Valsure/Outcome-Grounded-Advantage-Reshaping) and README",
    provenance: Provenance::Published,
    samples: &["threshold_on=raw log1p=false preserve_mass=false"],
    params: || {
        let own = vec![
            oar_p::pfinal(),
            Param::number(
                "noise_std",
                1e-3,
                1e-12,
                1e3,
                "standard deviation of the perturbation of the input embeddings",
            ),
            Param::number("n_noise", 8.0, 1.0, 1e6, "perturbations averaged per response (the authors: 1)"),
        ];
        [own, oar_p::reshaping()].concat()
    },
    extra_inputs: |settings| shared::with_kl(settings, InputKind::Saliencies),
    build: |settings| {
        let (noise, draws) = (settings.number("noise_std"), settings.number("n_noise"));
        oar_p::build(settings, TokenScores::Saliencies { answer: settings.choice("pfinal"), noise, draws })
    },
};
