//! TreeRL: local and global tree advantages.

use super::{MethodSpec, Provenance, shared, spo_tree};
use crate::advantage::Baseline;
use crate::assignment::TreeCredit;
use crate::group::EvidenceKind;

/// TreeRL (arXiv 2506.11902), its step reward on the prefix tree of the group.
///
/// ```text
/// R_i = r_i - mean of the others,      V: mean of R over the leaves of a prefix
/// A_t = ( V(s_{t+1}) - V(s_t) ) + V(s_{t+1})          local + global
/// ```
/// The entropy-guided tree is the policy's to sample. Left out: the optional `1/sqrt(leaves)` weight, and the filling of zero values from
/// the node before.
pub(super) static SPEC: MethodSpec = MethodSpec {
    name: "tree_rl",
    title: "TreeRL",
    about: "difference of prefix-tree values plus the value itself, of leave-one-out rewards, PPO clip, token mean",
    source: "arXiv 2506.11902; the authors' code (step reward; the tree is sampled by the policy)",
    provenance: Provenance::Published,
    params: || [shared::clip("ppo"), shared::kl(), shared::reduction("token_mean")].concat(),
    evidence: |settings| shared::with_kl(settings, EvidenceKind::Tokens),
    build: |settings| spo_tree::tree(settings, Baseline::LeaveOneOut, TreeCredit::LocalAndGlobal),
};
