//! SHEAR, reconstructed: advantages weighted by the Wasserstein distance of spans of hidden states.

use super::{Aggregate, Clip, MethodSpec, Provenance, shared};
use crate::advantage::Baseline;
use crate::assignment::{Sinkhorn, SpanWeighted};
use crate::group::InputKind;
use crate::settings::Param;

/// SHEAR (arXiv 2604.23318), **reconstructed** from a secondary note and the beginning of a page.
///
/// ```text
/// d_{i,k} = min over opposite responses j and windows q of W(window k of i, window q of j)        entropic W_1 of hidden states
/// A_{i,t} = A_i  max_{k holding t} d_{i,k} / mean |h|
/// ```
/// The note gives windows of 100 tokens every 25 on last-layer states. Ours: the weight of the entropy and the iterations, the cut-off last
/// window, the mean norm over the group, the base (z-scored rewards, PPO clip, token mean). Costs no model pass beyond keeping states; the
/// distances take `(T/stride)^2 window^2` operations per pair of opposite responses and iteration.
pub static SPEC: MethodSpec = MethodSpec {
    name: "shear_reconstructed",
    title: "SHEAR (reconstructed)",
    about: "z-scored group rewards weighted by the transport distance of spans of hidden states from opposite responses, PPO clip, token mean; reconstructed from a note",
    source: "a secondary note on arXiv 2604.23318; regularisation and normalisation are ours",
    provenance: Provenance::Reconstructed,
    samples: &["", "window=2 stride=1"],
    params: || {
        let own = vec![
            Param::number("window", 100.0, 1.0, f64::INFINITY, "tokens of a span, rounded to a whole number"),
            Param::number(
                "stride",
                25.0,
                1.0,
                f64::INFINITY,
                "tokens between the starts of spans, rounded to a whole number; beyond the window tokens are left out",
            ),
            Param::number(
                "regularisation",
                0.1,
                0.01,
                100.0,
                "weight of the entropy in the transport plan, in mean distances; no source gives it a value",
            ),
            Param::number(
                "sinkhorn_steps",
                50.0,
                1.0,
                200.0,
                "iterations of a transport plan at most, rounded",
            ),
        ];
        [own, shared::z_score(), shared::loss(Clip::Ppo, Aggregate::TokenMean)].concat()
    },
    extra_inputs: |settings| shared::with_kl(settings, InputKind::Hidden),
    build: |settings| {
        let whole = |key: &str| settings.number(key).round() as usize;
        let transport =
            Sinkhorn { regularisation: settings.number("regularisation"), steps: whole("sinkhorn_steps") };
        let inner = shared::spread(settings, Baseline::GroupMean);
        let (window, stride) = (whole("window"), whole("stride"));
        shared::plain(settings, Box::new(SpanWeighted { inner, window, stride, transport }))
    },
};
