//! REINFORCE++-baseline: centred group rewards, whitened over the batch.

use super::{Aggregate, Clip, MethodSpec, Provenance, reinforce_pp, shared};
use crate::advantage::{Baseline, OutcomeAdvantage, Scale};
use crate::assignment::{Assignment, OutcomeCredit};

/// REINFORCE++-baseline (Hu 2025): the group mean is subtracted first, the batch scales.
///
/// ```text
/// A_i,t = whiten( r_i - mean_group r )          over all tokens of the batch
/// ```
/// One standard deviation for all prompts, as in `grpo_batch_std`, but over tokens: long responses have more say, and the second
/// centring subtracts what is left of the mean when right and wrong responses differ in length.
pub static SPEC: MethodSpec = MethodSpec {
    name: "reinforce_pp_baseline",
    title: "REINFORCE++-baseline",
    about: "centred group rewards, whitened over all tokens of the batch, PPO clip, token mean",
    source: "Hu 2025, arXiv 2501.03262; verl reinforce_plus_plus_baseline, OpenRLHF reinforce_baseline",
    provenance: Provenance::Published,
    samples: &["whiten=false"],
    params: || [vec![reinforce_pp::whiten()], shared::loss(Clip::Ppo, Aggregate::TokenMean)].concat(),
    extra_inputs: shared::kl_inputs,
    build: |settings| {
        let centred = OutcomeAdvantage { baseline: Baseline::GroupMean, scale: Scale::None, clamp: None };
        let inner: Box<dyn Assignment> = Box::new(OutcomeCredit::constant(centred));
        let whiten = settings.flag("whiten");
        shared::plain(settings, if whiten { reinforce_pp::whitened(inner, true) } else { inner })
    },
};
