//! Systematic RLOO: RLOO for groups that are sampled in systematic sets.

use super::{Aggregate, Clip, Divisor, MethodSpec, Provenance, shared};
use crate::advantage::Baseline;

/// RLOO whose baseline is the mean reward of the other sets of the group; see [`systematic`](crate::systematic) for the sampler.
///
/// ```text
/// A_i = r_i - mean reward of the responses outside i's set
/// L   = (1/B) sum_i sum_t -rho A
/// ```
/// Expected update on-policy: the policy gradient exactly, under the sampler's sets and under independent responses. With sets of one
/// response it is RLOO.
pub static SPEC: MethodSpec = MethodSpec {
    name: "systematic_rloo",
    title: "Systematic RLOO",
    about: "rewards minus the mean of the group's other systematic sets, which share no shift of the sampler: unbiased; no clip, sum over tokens",
    source: "ours; after RLOO, Arithmetic Sampling (Vilnis et al. 2023, arXiv 2210.15458) and QuasiMoTTo (arXiv 2607.01179)",
    provenance: Provenance::Ours,
    samples: &["", "sets=3 reduction=response_mean"],
    params: || {
        let usual = shared::baseline_params(Divisor::None, Clip::None, Aggregate::ResponseSum);
        [vec![shared::sets()], usual].concat()
    },
    extra_inputs: shared::kl_inputs,
    build: |settings| shared::baseline_method(settings, Baseline::OtherSets(shared::sets_of(settings))),
};
