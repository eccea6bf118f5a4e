//! SHEAR: advantages weighted by the Wasserstein distance of spans of hidden states.

use super::{Aggregate, MethodSpec, Provenance, shared};
use crate::advantage::Baseline;
use crate::assignment::{Sinkhorn, SpanWeighted};
use crate::group::InputKind;
use crate::settings::Param;

/// SHEAR, by its Algorithm 1.
///
/// ```text
/// d_{i,k} = min over opposite responses j and windows q of W(window k of i, window q of j)        entropic W_1 of hidden states
/// A_{i,t} = A_i  max_{k holding t} d_{i,k} / mean |h|,        A_i without an opposite response
/// ```
/// The paper has windows of 100 tokens every 25 on the states before the head, the mean norm over the group, and ratios between 0.8 and 1.28. Ours: the
/// token mean; responses are opposite by the sign of their advantage, which is their correctness where rewards are 0 or 1; windows end with the first that
/// reaches the end; the weight of the entropy is in mean distances, where the paper's is a number of about 4.5 (its `e log n` is 20.8); the iterations.
/// Costs no model pass beyond keeping states; the distances take `(T/stride)^2 window^2` operations per pair of opposite responses and iteration.
pub static SPEC: MethodSpec = MethodSpec {
    name: "shear",
    title: "SHEAR",
    about: "z-scored group rewards weighted by the transport distance of spans of hidden states from opposite responses, PPO clip with a higher upper bound, token mean",
    source: "Chen et al. 2026, arXiv 2604.23318, Algorithm 1, as a public summary of its sections quotes it",
    provenance: Provenance::PaperOnly,
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
                "weight of the entropy in the transport plan, in mean distances; the paper's is absolute",
            ),
            Param::number(
                "sinkhorn_steps",
                50.0,
                1.0,
                200.0,
                "iterations of a transport plan at most, rounded",
            ),
        ];
        let clip = shared::clip_at(0.2, 0.28);
        [own, shared::z_score(), clip, shared::kl(), shared::reduction(Aggregate::TokenMean)].concat()
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
