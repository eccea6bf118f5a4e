//! On-policy distillation: the teacher's log-ratio as the advantage of each token.

use super::{Aggregate, Clip, MethodSpec, Provenance, shared};
use crate::assignment::TeacherGap;
use crate::group::InputKind;

/// On-policy distillation as a policy gradient: no reward enters, but a response without one is left out, as everywhere.
///
/// ```text
/// A_t = log pi_teacher(a_t|s_t) - log pi_old(a_t|s_t)
/// ```
/// Expected update on-policy with a sum over tokens: at every prefix the exact gradient of `-KL(pi || pi_teacher)` of the next token, but not that of
/// the whole response's KL, in which a token also answers for the divergence of the tokens that follow it.
pub static SPEC: MethodSpec = MethodSpec {
    name: "distillation",
    title: "On-policy distillation",
    about: "the teacher's log-probability minus the policy's as the advantage of each token, no reward, PPO ratio without clip, token mean",
    source: "Agarwal et al. 2023, arXiv 2306.13649 (reverse KL on the student's samples); prime-rl algorithm opd, slime, ms-swift OPD-RL",
    provenance: Provenance::Published,
    samples: &["", "clip=ppo"],
    params: || shared::loss(Clip::None, Aggregate::TokenMean),
    extra_inputs: |settings| shared::with_kl(settings, InputKind::TeacherLogps),
    build: |settings| shared::plain(settings, Box::new(TeacherGap)),
};
