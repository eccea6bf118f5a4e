//! What the proof assumes of rewards and values.

use super::prefixes::VISIBLE;
use crate::experiments::common::mdp::Mdp;

/// The step `E[Σ γ^k r_k] <= P(τ<=t)` of the proof.
pub(super) struct Success {
    /// MDPs whose rewards are all 1, as the proof assumes.
    pub(super) all_rewarded: usize,
    /// The largest excess of the step's left side.
    pub(super) worst: f64,
}

pub(super) fn success(mdps: &[Mdp]) -> Success {
    let mut found = Success { all_rewarded: 0, worst: f64::NEG_INFINITY };
    for mdp in mdps {
        found.all_rewarded += usize::from(mdp.tree.leaves().all(|l| mdp.tree.reward(l) == 1.0));
        for step in mdp.oracle().process() {
            found.worst = found.worst.max(step.finished_reward - (1.0 - step.survival));
        }
    }
    found
}

/// How values and variances change along a response.
pub(super) struct Values {
    /// The largest `|V(s_t) - V(s_0)|`.
    pub(super) moved: f64,
    /// Prefixes whose `Var(R|s_t)` exceeds their parent's, and all.
    pub(super) noisier: usize,
    pub(super) prefixes: usize,
    /// The largest rise of `E[Var(R|S_t)]` with t.
    pub(super) mean_rise: f64,
}

pub(super) fn values(mdps: &[Mdp]) -> Values {
    let mut found = Values { moved: 0.0, noisier: 0, prefixes: 0, mean_rise: 0.0 };
    for mdp in mdps {
        let oracle = mdp.oracle();
        let variances = oracle.variances();
        for node in mdp.tree.nodes().skip(1) {
            found.moved = found.moved.max((oracle.v[node] - oracle.j).abs());
            let parent = mdp.tree.parent_edge(node).map_or(0, |e| mdp.tree.edge_node(e));
            found.noisier += usize::from(variances[node] > variances[parent] + VISIBLE);
            found.prefixes += 1;
        }
        for pair in oracle.process().windows(2) {
            found.mean_rise = found.mean_rise.max(pair[1].remaining - pair[0].remaining);
        }
    }
    found
}
