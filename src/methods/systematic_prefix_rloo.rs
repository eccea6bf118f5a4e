//! Systematic Prefix RLOO: values of prefixes and tokens from the other systematic sets.

use super::{Aggregate, Clip, MethodSpec, Provenance, prefix_rloo, shared};
use crate::group::InputKind;

/// Prefix RLOO whose values come from the other sets of the group; see [`PrefixControl`](crate::assignment::PrefixControl) for the formulas.
///
/// Expected update on-policy: the policy gradient exactly, as that of [`systematic_rloo`](super::systematic_rloo).
pub static SPEC: MethodSpec = MethodSpec {
    name: "systematic_prefix_rloo",
    title: "Systematic Prefix RLOO",
    about: "rewards minus values of prefix and token from the group's other systematic sets, handed back where they depend on the token: unbiased; no clip, sum over tokens",
    source: "ours; after Prefix RLOO, Arithmetic Sampling (Vilnis et al. 2023, arXiv 2210.15458) and QuasiMoTTo (arXiv 2607.01179)",
    provenance: Provenance::Ours,
    samples: &["", "sets=3 control=state shrinkage=1"],
    params: || {
        let own = [vec![shared::sets()], prefix_rloo::own()].concat();
        [own, shared::loss(Clip::None, Aggregate::ResponseSum)].concat()
    },
    extra_inputs: |settings| shared::with_kl(settings, InputKind::Tokens),
    build: |settings| {
        let control = prefix_rloo::control(settings, shared::sets_of(settings));
        shared::plain(settings, Box::new(control))
    },
};
