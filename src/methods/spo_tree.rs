//! SPO-tree: edge advantages of a tree of responses.

use super::{Aggregate, Clip, Method, MethodSpec, Provenance, shared};
use crate::advantage::{Baseline, OutcomeAdvantage, Scale};
use crate::assignment::{TreeAdvantage, TreeCredit};
use crate::group::InputKind;
use crate::settings::{Param, Settings, choice};

choice! {
    /// An edge's credit: minus the parent's value, or scored among the siblings.
    enum Edge { "rloo" => Rloo, "grpo" => Grpo }
}

/// SPO-tree (arXiv 2505.23564), its edge advantages on the prefix tree of the group.
///
/// ```text
/// edge=rloo   A_t = V(s_{t+1}) - V(s_t)
/// edge=grpo   A_t = (V(s_{t+1}) - mean of the siblings) / (std of the siblings + 1e-4)
/// ```
/// The authors sample a tree with fixed branching; a node's value is then the mean of its children and of its leaves. On responses
/// sampled independently it is the mean of the leaves, and the update vanishes where responses do not share a prefix.
/// Expected update of `rloo`: the policy gradient with the factor `G d - 1 + (1-d)^G` over `d` per prefix. (Their 1e-8 is 1e-4
/// here: values that differ in the last digit are no comparison.)
pub static SPEC: MethodSpec = MethodSpec {
    name: "spo_tree",
    title: "SPO-tree",
    about: "differences of prefix-tree values along each response, PPO clip, token mean",
    source: "arXiv 2505.23564; the authors' code (edge advantages; the tree is sampled by the policy)",
    provenance: Provenance::Published,
    samples: &[""],
    params: || {
        let own = vec![Param::choice(
            "edge",
            Edge::Rloo,
            "an edge's value minus its parent's, or its z-score among the siblings",
        )];
        [own, shared::loss(Clip::Ppo, Aggregate::TokenMean)].concat()
    },
    extra_inputs: |settings| shared::with_kl(settings, InputKind::Tokens),
    build: |settings| {
        let edge = match settings.choice("edge") {
            Edge::Rloo => TreeCredit::Edge,
            Edge::Grpo => TreeCredit::SiblingScore,
        };
        tree(settings, Baseline::GroupMean, edge)
    },
};

/// Tree advantages of centred rewards.
pub(super) fn tree(settings: &Settings, baseline: Baseline, credit: TreeCredit) -> Box<dyn Method> {
    let outcome = OutcomeAdvantage { baseline, scale: Scale::None, clamp: None };
    shared::plain(settings, Box::new(TreeAdvantage { outcome, credit }))
}
