//! RLSD, reconstructed: group advantages re-weighted by a teacher that knows the answer.

use super::{Aggregate, Clip, MethodSpec, Provenance, shared};
use crate::advantage::Baseline;
use crate::assignment::TeacherWeighted;
use crate::group::EvidenceKind;
use crate::settings::Param;

/// RLSD (arXiv 2604.03128), **reconstructed** from a secondary note, which does not give the bound of the weight.
///
/// ```text
/// A_t = A ( (1 - share) + share clip( exp(sign(A) D_t), 1 - weight_epsilon, 1 + weight_epsilon ) ),
/// D_t = log pi(a_t|x, answer, y_<t) - log pi_old(a_t|x, y_<t)
/// ```
/// The weight is positive, so every response keeps the sign of its advantage. The share falls from 0.5 to 0 in the course of training,
/// which is the trainer's to do.
pub static SPEC: MethodSpec = MethodSpec {
    name: "rlsd_reconstructed",
    title: "RLSD (reconstructed)",
    about: "z-scored group rewards re-weighted by the likelihood ratio of a teacher that knows the answer, PPO clip, token mean; reconstructed from a note",
    source: "a secondary note on arXiv 2604.03128; the bound of the weight is ours",
    provenance: Provenance::Reconstructed,
    samples: &[""],
    params: || {
        let own = vec![
            Param::number("share", 0.5, 0.0, 1.0, "the teacher's share of the weight (their lambda)"),
            Param::number(
                "weight_epsilon",
                0.2,
                0.0,
                1.0,
                "the weight is clipped to 1 -/+ this; no source gives it a value",
            ),
        ];
        [own, shared::z_score(), shared::loss(Clip::Ppo, Aggregate::TokenMean)].concat()
    },
    evidence: |settings| shared::with_kl(settings, EvidenceKind::TeacherLogps),
    build: |settings| {
        let inner = shared::spread(settings, Baseline::GroupMean);
        let (share, epsilon) = (settings.number("share"), settings.number("weight_epsilon"));
        shared::plain(settings, Box::new(TeacherWeighted { inner, share, epsilon }))
    },
};
