//! The responses of a systematic set at every shift.

use crate::{LeafId, Oracle, Target};

/// Shifts at which a set has the same responses.
pub(super) struct Piece {
    /// The share of these shifts.
    pub(super) width: f64,
    /// The responses at the codes `U + k/h`.
    pub(super) leaves: Vec<LeafId>,
}

/// The pieces of the shifts in `[0, 1/h)`, whose shares add up to 1; other shifts give the same responses in another order.
///
/// A response of the set changes where a code passes the end of a response's interval.
pub(super) fn shifts(oracle: &Oracle, h: usize) -> Vec<Piece> {
    let ends = code_intervals(oracle);
    let mut breaks: Vec<f64> = ends.iter().map(|(end, _)| (end * h as f64).fract()).collect();
    breaks.extend([0.0, 1.0]);
    breaks.sort_by(f64::total_cmp);
    let piece = |pair: &[f64]| {
        let middle = 0.5 * (pair[0] + pair[1]);
        let leaves = (0..h).map(|k| response_at(&ends, (middle + k as f64) / h as f64)).collect();
        Piece { width: pair[1] - pair[0], leaves }
    };
    breaks.windows(2).filter(|pair| pair[1] > pair[0]).map(piece).collect()
}

/// The end of every response's interval of codes with the response, in the order of codes: a prefix's interval is parted among its tokens
/// in their order. Responses that are never sampled have none.
pub fn code_intervals(oracle: &Oracle) -> Vec<(f64, LeafId)> {
    let tree = oracle.tree;
    let mut start = vec![0.0; tree.node_count()];
    let mut ends = Vec::with_capacity(tree.leaf_count());
    for node in tree.nodes() {
        let mut below = start[node];
        for edge in tree.edges_of(node) {
            match tree.target(edge) {
                Target::Node(child) => start[child] = below,
                Target::Leaf(leaf) if oracle.leaf_prob(leaf) > 0.0 => {
                    ends.push((below + oracle.leaf_prob(leaf), leaf));
                }
                Target::Leaf(_) => {}
            }
            below += oracle.edge_visit(edge);
        }
    }
    ends.sort_by(|a, b| a.0.total_cmp(&b.0));
    ends
}

/// The response at a code, among the intervals that [`code_intervals`] gives.
///
/// # Panics
/// If there is no interval.
pub fn response_at(intervals: &[(f64, LeafId)], code: f64) -> LeafId {
    // The last end may be off 1 by rounding.
    intervals[intervals.partition_point(|(end, _)| *end <= code).min(intervals.len() - 1)].1
}
