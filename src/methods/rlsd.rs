//! RLSD: group advantages re-weighted by a teacher that knows the answer.

use super::{Aggregate, Clip, MethodSpec, Provenance, shared};
use crate::advantage::Baseline;
use crate::assignment::TeacherWeighted;
use crate::group::InputKind;
use crate::settings::Param;

/// RLSD, self-distilled reinforcement learning with verifiable rewards.
///
/// ```text
/// A_t = A ( (1 - share) + share clip( exp(sign(A) D_t), 1 - weight_epsilon, 1 + weight_epsilon ) ),
/// D_t = log pi(a_t|x, answer, y_<t) - log pi_old(a_t|x, y_<t)
/// ```
/// The weight is positive, so every response keeps the sign of its advantage. In the paper the share falls from 0.5 to 0 in the first 50 steps;
/// here it is a setting, which `llm-train` keeps constant. SERL (arXiv 2605.19447) is `gap_max=20` with a teacher that has hindsight and differs
/// from the policy at action tokens alone: give the policy's own log-probabilities elsewhere.
pub static SPEC: MethodSpec = MethodSpec {
    name: "rlsd",
    title: "RLSD",
    about: "z-scored group rewards re-weighted by the likelihood ratio of a teacher that knows the answer, PPO clip, token mean",
    source: "arXiv 2604.03128; iie-ycx/RLSD, ms-swift advantage_reweight=rlsd",
    provenance: Provenance::Published,
    samples: &["", "negative_only=true gap_max=0.1"],
    params: || {
        let own = vec![
            Param::number(
                "share",
                0.5,
                0.0,
                1.0,
                "the teacher's share of the weight (their lambda), the same in every step",
            ),
            Param::number("weight_epsilon", 0.2, 0.0, 1.0, "the weight is clipped to 1 -/+ this"),
            Param::flag("negative_only", false, "re-weight responses of negative advantage alone"),
            Param::optional(
                "gap_max",
                None,
                0.0,
                f64::INFINITY,
                "the teacher's log-ratio is cut at -/+ this (SERL: 20)",
            ),
        ];
        [own, shared::z_score(), shared::loss(Clip::Ppo, Aggregate::TokenMean)].concat()
    },
    extra_inputs: |settings| shared::with_kl(settings, InputKind::TeacherLogps),
    build: |settings| {
        let weighted = TeacherWeighted {
            inner: shared::spread(settings, Baseline::GroupMean),
            share: settings.number("share"),
            epsilon: settings.number("weight_epsilon"),
            negative_only: settings.flag("negative_only"),
            gap_max: settings.optional("gap_max").unwrap_or(f64::INFINITY),
        };
        shared::plain(settings, Box::new(weighted))
    },
};
