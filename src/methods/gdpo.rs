//! GDPO: every part of the reward normalised by itself.

use super::{Aggregate, Clip, Divisor, MethodSpec, Preset, Provenance, reinforce_pp, shared};
use crate::advantage::Baseline;
use crate::assignment::{Assignment, Decoupled, OverResponses};
use crate::group::InputKind;
use crate::settings::{Param, choice};

choice! {
    /// The units that whitening counts.
    enum Over { "tokens" => Tokens, "responses" => Responses }
}

/// GDPO, group reward-decoupled normalisation. See [`Decoupled`].
///
/// ```text
/// A_i,t = whiten( sum_k w_k (r_i^k - mean r^k) / (std r^k + 1e-6) )          over all tokens of the batch
/// ```
/// With one part of weight 1 it is GRPO, whitened.
pub static SPEC: MethodSpec = MethodSpec {
    name: "gdpo",
    title: "GDPO",
    about: "z-scores of each part of the reward in its group, added up, whitened over all tokens of the batch, PPO clip, token mean",
    source: "arXiv 2601.05242; verl adv_estimator=gdpo, TRL multi_objective_aggregation=normalize_then_sum",
    provenance: Provenance::Published,
    samples: &["weight_2=0.5", "whiten_over=responses std_preset=trl", "whiten=false scale=none"],
    params: || {
        let weight = |key| Param::number(key, 1.0, 0.0, 1e6, "weight of this part of the reward");
        let over = Param::choice(
            "whiten_over",
            Over::Tokens,
            "what whitening takes its statistics over: all tokens of the batch (verl), or all responses (TRL)",
        )
        .idle_under("whiten", &["false"]);
        let own =
            vec![weight("weight_1"), weight("weight_2"), weight("weight_3"), reinforce_pp::whiten(), over];
        let loss = [shared::loss(Clip::Ppo, Aggregate::TokenMean)].concat();
        [own, shared::scale(Divisor::Group, Preset::Verl), loss].concat()
    },
    extra_inputs: |settings| shared::with_kl(settings, InputKind::RewardParts),
    build: |settings| {
        let weights = ["weight_1", "weight_2", "weight_3"].map(|key| settings.number(key)).to_vec();
        let outcome = shared::outcome(settings, Baseline::GroupMean);
        let inner: Box<dyn Assignment> = Box::new(Decoupled { outcome, weights });
        let credit = match (settings.flag("whiten"), settings.choice("whiten_over")) {
            (false, _) => inner,
            (true, Over::Tokens) => reinforce_pp::whitened(inner, false),
            (true, Over::Responses) => Box::new(OverResponses { inner, masked: false }),
        };
        shared::plain(settings, credit)
    },
};
