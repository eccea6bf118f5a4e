//! [`EntropySearch`]: the trees that TreeRL samples.

use std::collections::BTreeMap;

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

/// A path, the name of each of its tokens, its leaf and its reward.
type Drawn = (Vec<EdgeId>, Vec<u32>, LeafId, f64);

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
        let tree = sampler.tree();
        let (mut drawn, mut named): (Vec<Drawn>, u32) = (Vec::new(), 0);
        let mut draw = |path: &[EdgeId], names: &[u32], node: NodeId| {
            let (mut path, mut names) = (path.to_vec(), names.to_vec());
            let leaf = sampler.complete_into(node, rng, &mut path);
            while names.len() < path.len() {
                names.push(named);
                named += 1;
            }
            let reward = sample_reward(tree, leaf, rng);
            drawn.push((path.clone(), names.clone(), leaf, reward));
            (path, names)
        };
        for _ in 0..self.chains {
            let (path, names) = draw(&[], &[], 0);
            for t in self.positions(&path, behaviour) {
                for _ in 0..self.branches {
                    draw(&path[..t], &names[..t], tree.edge_node(path[t]));
                }
            }
        }
        in_segments(drawn)
    }
}

/// Leaves whose tokens are named by their segment: the run of tokens that the same leaves share.
fn in_segments(drawn: Vec<Drawn>) -> Vec<TreeLeaf> {
    let mut leaves: BTreeMap<u32, usize> = BTreeMap::new();
    for name in drawn.iter().flat_map(|(_, names, ..)| names) {
        *leaves.entry(*name).or_default() += 1;
    }
    let segmented = |(path, names, leaf, reward): Drawn| {
        let mut first = 0;
        let segment = |t: usize| {
            if t > 0 && leaves[&names[t]] != leaves[&names[t - 1]] {
                first = t;
            }
            names[first]
        };
        TreeLeaf { leaf, segments: (0..path.len()).map(segment).collect(), path, reward }
    };
    drawn.into_iter().map(segmented).collect()
}
