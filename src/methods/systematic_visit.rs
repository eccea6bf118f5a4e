//! One systematic set per group, with the success rate of the prompt's earlier visit as its baseline.

use super::{Aggregate, Clip, MethodSpec, Provenance, shared};
use crate::assignment::EarlierVisit;
use crate::group::InputKind;
use crate::settings::Param;
use crate::systematic::Guard;

/// Rewards minus the success rate of the prompt's earlier visit, inside a guard; see [`EarlierVisit`] and [`Guard`].
///
/// Expected update on-policy: the policy gradient exactly, given the earlier visit.
pub static SPEC: MethodSpec = MethodSpec {
    name: "systematic_visit",
    title: "Systematic set, earlier visit",
    about: "rewards minus the mean reward of the prompt's earlier visit, for a group that is one systematic set; outside a guard minus the mean of the other sets: unbiased; no clip, sum over tokens",
    source: "ours; after Arithmetic Sampling (Vilnis et al. 2023, arXiv 2210.15458) and QuasiMoTTo (arXiv 2607.01179)",
    provenance: Provenance::Ours,
    samples: &["", "sets=3 low=0 high=1"],
    params: || {
        let own = vec![
            Param::number("low", 0.1, 0.0, 1.0, "the earlier rate is a baseline above this"),
            Param::number("high", 0.9, 0.0, 1.0, "the earlier rate is a baseline below this"),
            shared::sets(),
        ];
        [own, shared::loss(Clip::None, Aggregate::ResponseSum)].concat()
    },
    extra_inputs: |settings| shared::with_kl(settings, InputKind::RewardParts),
    build: |settings| {
        let (low, high) = (settings.number("low"), settings.number("high"));
        let guard = Guard { low, high, closed: shared::sets_of(settings) };
        shared::plain(settings, Box::new(EarlierVisit { guard }))
    },
};
