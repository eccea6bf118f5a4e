//! TreeRPO, its normaliser reconstructed.

use super::{
    MethodSpec, Provenance,
    shared::{self, Aggregate, Clip},
    spo_tree,
};
use crate::advantage::Baseline;
use crate::assignment::TreeCredit;
use crate::group::InputKind;

/// TreeRPO (arXiv 2506.05183): each step against its siblings. **Reconstructed**: known from summaries only, which do not give the
/// normaliser of rewards that are not binary.
///
/// ```text
/// A_t = (V(s_{t+1}) - mean of the siblings) / (std of the siblings + 1e-4)          where responses part, else 0
/// ```
pub static SPEC: MethodSpec = MethodSpec {
    name: "tree_rpo_reconstructed",
    title: "TreeRPO (reconstructed)",
    about: "z-scores of prefix-tree values among siblings, PPO clip, token mean; reconstructed from summaries",
    source: "summaries of arXiv 2506.05183; the normaliser is ours",
    provenance: Provenance::Reconstructed,
    samples: &[""],
    params: || shared::loss(Clip::Ppo, Aggregate::TokenMean),
    extra_inputs: |settings| shared::with_kl(settings, InputKind::Tokens),
    build: |settings| spo_tree::tree(settings, Baseline::GroupMean, TreeCredit::SiblingScore),
};
