//! [`EntropySearch`]: the trees that TreeRL samples.

use rand_chacha::ChaCha8Rng;

use super::{TreeLeaf, TreeSampling};
use crate::{EdgeId, LeafId, NodeId, Oracle, Sampler, sample_reward};

/// TreeRL's search (EPTree), one round of it: from each of `chains` responses the `forks` most surprising tokens are sampled again, `branches`
/// times each, to the end.
///
/// ```text
/// surprise(t) = -log π(a_t | s_t)            of the token that was written; of equal ones the first
/// leaves      = chains (1 + forks branches)
/// ```
/// A segment ends where the tree forks. The place of a fork depends on the token that the chain wrote there, which is therefore no draw from
/// the policy among its siblings: it is unlikely by choice.
///
/// Source: arXiv 2506.11902 and the authors' code, whose `(M, N, L, T)` are `chains`, `forks`, the rounds, here 1 as theirs, and `branches`. Every
/// leaf is used; the code then draws some of them. Its mask of tokens after the words `answer` and `conclusion` has no meaning on a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EntropySearch {
    /// Responses that a tree begins with.
    pub chains: usize,
    /// Places of a response where the tree forks; fewer in a response that is shorter.
    pub forks: usize,
    /// Completions from each of them.
    pub branches: usize,
}

impl EntropySearch {
    /// The defaults of the paper: 30 leaves.
    pub const PUBLISHED: EntropySearch = EntropySearch { chains: 6, forks: 2, branches: 2 };

    /// The positions of a response that are sampled again, the most surprising first.
    fn positions(&self, path: &[EdgeId], behaviour: &Oracle) -> Vec<usize> {
        let mut positions: Vec<usize> = (0..path.len()).collect();
        positions.sort_by(|&a, &b| behaviour.log_probs[path[a]].total_cmp(&behaviour.log_probs[path[b]]));
        positions.truncate(self.forks);
        positions
    }
}

impl TreeSampling for EntropySearch {
    fn leaves(&self) -> usize {
        self.chains * (1 + self.forks * self.branches)
    }

    /// `chains E[T + branches Σ_fork E[T - t | s_t]]`.
    fn tokens(&self, oracle: &Oracle) -> f64 {
        let tree = oracle.tree;
        let length = oracle.expect_given_edge(|y| tree.leaf_len(y) as f64);
        let rest = |node: NodeId| -> f64 {
            let total: f64 = tree.edges_of(node).map(|e| oracle.probs[e] * length[e]).sum();
            total - tree.depth(node) as f64
        };
        let written = |y: LeafId| {
            let path = tree.path(y);
            let again = self.positions(&path, oracle).into_iter().map(|t| rest(tree.edge_node(path[t])));
            path.len() as f64 + self.branches as f64 * again.sum::<f64>()
        };
        self.chains as f64 * oracle.expect(written)
    }

    fn grow(&self, sampler: &Sampler, behaviour: &Oracle, rng: &mut ChaCha8Rng) -> Vec<TreeLeaf> {
        let (tree, mut named) = (sampler.tree(), 0);
        // Every token has a name of its own at first.
        let mut draw = |path: &[EdgeId], segments: &[u32], node: NodeId| {
            let (mut path, mut segments) = (path.to_vec(), segments.to_vec());
            let leaf = sampler.complete_into(node, rng, &mut path);
            while segments.len() < path.len() {
                segments.push(named);
                named += 1;
            }
            TreeLeaf { leaf, path, segments, reward: sample_reward(tree, leaf, rng) }
        };
        let mut leaves = Vec::with_capacity(self.leaves());
        for _ in 0..self.chains {
            let chain = leaves.len();
            leaves.push(draw(&[], &[], 0));
            for t in self.positions(&leaves[chain].path, behaviour) {
                for _ in 0..self.branches {
                    let TreeLeaf { path, segments, .. } = &leaves[chain];
                    let again = draw(&path[..t], &segments[..t], tree.edge_node(path[t]));
                    leaves.push(again);
                }
            }
        }
        join_segments(&mut leaves, named);
        leaves
    }
}

/// Gives the tokens that the same leaves share, one after the other, the name of the first; so far each of the `named` has its own.
fn join_segments(leaves: &mut [TreeLeaf], named: u32) {
    let mut shared = vec![0usize; named as usize];
    leaves.iter().flat_map(|leaf| &leaf.segments).for_each(|&name| shared[name as usize] += 1);
    for TreeLeaf { segments, .. } in leaves {
        let mut first = 0;
        let own = segments.clone();
        for t in 1..own.len() {
            if shared[own[t] as usize] != shared[own[t - 1] as usize] {
                first = t;
            }
            segments[t] = own[first];
        }
    }
}
