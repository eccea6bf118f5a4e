//! BNPO in the sense of TRL and GRPO-lambda: GRPO with a token mean over the local batch.

use super::{Aggregate, Clip, Divisor, MethodSpec, Provenance, shared};
use crate::advantage::Baseline;

/// BNPO as an aggregation (TRL `loss_type="bnpo"`; not the Beta normalisation of the same name, which is `bnpo_beta`).
///
/// ```text
/// L = (1/N) sum_b ( sum_{i in b} sum_t l_i,t ) / ( sum_{i in b} T_i )          b: the N local batches
/// ```
/// A local batch is whatever one device holds at once, so the result depends on how a batch was split. Two splits do not depend on
/// the order of responses and are offered: one group each (`reduction=group_token_mean`, the default) and the whole
/// batch (`reduction=token_mean`, which is DAPO's).
pub static SPEC: MethodSpec = MethodSpec {
    name: "bnpo",
    title: "BNPO (local token mean)",
    about: "z-scored group rewards, PPO clip, token mean over each local batch (a group), averaged",
    source: "TRL loss_type=bnpo",
    provenance: Provenance::Published,
    samples: &[""],
    params: || shared::baseline_params(Divisor::Group, Clip::Ppo, Aggregate::GroupTokenMean),
    extra_inputs: shared::kl_inputs,
    build: |settings| shared::baseline_method(settings, Baseline::GroupMean),
};
