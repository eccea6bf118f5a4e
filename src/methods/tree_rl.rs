//! TreeRL: local and global tree advantages.

use super::{
    MethodSpec, Provenance,
    shared::{self, Aggregate, Clip},
    spo_tree,
};
use crate::advantage::Baseline;
use crate::assignment::TreeCredit;
use crate::group::InputKind;
use crate::settings::Param;

/// TreeRL (arXiv 2506.11902), its step reward on the prefix tree of the group.
///
/// ```text
/// R_i = r_i - mean of the others,      V: mean of R over the leaves of a prefix
/// A_t = ( V(s_{t+1}) - V(s_t) ) + V(s_{t+1})          local + global
/// ```
/// The entropy-guided tree is the policy's to sample. Two options of the authors' code, off here: `leaf_weight` divides by
/// `sqrt(leaves below s_{t+1})`, and `fill_zeros` gives a token of credit 0 that of the token before it. The code fills along the nodes of
/// its tree; a prefix tree has a node per token, which makes the filling a variant of ours.
pub static SPEC: MethodSpec = MethodSpec {
    name: "tree_rl",
    title: "TreeRL",
    about: "difference of prefix-tree values plus the value itself, of leave-one-out rewards, PPO clip, token mean",
    source: "arXiv 2506.11902; the authors' code (step reward; the tree is sampled by the policy)",
    provenance: Provenance::Published,
    samples: &["", "leaf_weight=true fill_zeros=true"],
    params: || {
        let own = vec![
            Param::flag(
                "leaf_weight",
                false,
                "divide by the square root of the number of leaves below the token",
            ),
            Param::flag("fill_zeros", false, "a token of credit 0 takes that of the token before it"),
        ];
        [own, shared::loss(Clip::Ppo, Aggregate::TokenMean)].concat()
    },
    extra_inputs: |settings| shared::with_kl(settings, InputKind::Tokens),
    build: |settings| {
        let (leaf_weight, fill) = (settings.flag("leaf_weight"), settings.flag("fill_zeros"));
        spo_tree::tree(settings, Baseline::LeaveOneOut, TreeCredit::LocalAndGlobal { leaf_weight, fill })
    },
};
