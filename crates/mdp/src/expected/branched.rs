//! [`branched`]: the expected update of tree methods on groups that a policy samples as a tree, at fixed intervals ([`Branching`]) or by
//! another [`TreeSampling`].

use rand_chacha::ChaCha8Rng;

use super::sampled::moments;
use super::{Evaluated, Sampled, Situation};
use crate::{EdgeId, LeafId, NodeId, Oracle, Sampler, Target, sample_reward};
use grpo_lambda::group::{Group, Response};
use grpo_lambda::methods::{Method, evaluate};

/// A rule by which a policy samples a group as a tree.
///
/// Two siblings are two samples even where they wrote the same tokens: the nodes are those of the sampling, not those of the prefix tree. Every leaf
/// counts once in the loss, so that a segment counts as often as it has leaves.
pub trait TreeSampling {
    /// The number of leaves; fewer where a response is too short to branch as often as asked.
    fn leaves(&self) -> usize;

    /// The mean number of tokens that a tree writes.
    fn tokens(&self, oracle: &Oracle) -> f64;

    /// One tree; `behaviour` is the policy that samples.
    fn grow(&self, sampler: &Sampler, behaviour: &Oracle, rng: &mut ChaCha8Rng) -> Vec<TreeLeaf>;
}

/// A leaf of a sampled tree, with the path to it.
#[derive(Clone, Debug, PartialEq)]
pub struct TreeLeaf {
    /// The response.
    pub leaf: LeafId,
    /// Its edges.
    pub path: Vec<EdgeId>,
    /// The segment of every token, by a name of its own in the tree.
    pub segments: Vec<u32>,
    /// Its reward, as it was drawn.
    pub reward: f64,
}

/// Fixed intervals: every node of level `l` is continued `children[l]` times, each time by a segment of tokens; the last level writes to the end.
///
/// ```text
/// V(node)      mean reward of its leaves; a response that ends early stands for all leaves below it
/// A(segment)   the method's credit of the segment's first token, where its siblings part from it, for every token of the segment
/// ```
/// With `b` children at every level the update of SPO-tree is `(b-1)/b ∇J` on average: given the node its children are independent, and the
/// mean of the siblings takes `1/b` of an edge's own value.
///
/// Sources: SPO-tree (arXiv 2505.23564) and TreeRPO (arXiv 2506.05183) branch at fixed intervals. TreeRL (arXiv 2506.11902) does not: its search
/// is [`EntropySearch`](super::EntropySearch).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Branching {
    /// Children of a node, by level; not empty, none 0.
    pub children: Vec<usize>,
    /// Tokens of a segment, at least 1.
    pub segment: usize,
}

impl Branching {
    /// The level that writes the token at a position.
    pub fn level(&self, position: usize) -> usize {
        (position / self.segment).min(self.children.len() - 1)
    }
}

impl TreeSampling for Branching {
    fn leaves(&self) -> usize {
        self.children.iter().product()
    }

    /// `P(T > t)` times the nodes of the level that writes token `t`, summed over `t`.
    fn tokens(&self, oracle: &Oracle) -> f64 {
        let nodes = |t: usize| self.children[..=self.level(t)].iter().product::<usize>() as f64;
        oracle.expect(|y| (0..oracle.tree.leaf_len(y)).map(nodes).sum())
    }

    fn grow(&self, sampler: &Sampler, _: &Oracle, rng: &mut ChaCha8Rng) -> Vec<TreeLeaf> {
        let mut leaves = Vec::with_capacity(self.leaves());
        let mut open: Vec<(NodeId, Vec<EdgeId>, Vec<u32>)> = vec![(0, Vec::new(), Vec::new())];
        let mut named = 0;
        for (level, &children) in self.children.iter().enumerate() {
            let below: usize = self.children[level + 1..].iter().product();
            for (node, path, segments) in std::mem::take(&mut open) {
                for _ in 0..children {
                    named += 1;
                    let (mut at, mut path, mut segments) = (node, path.clone(), segments.clone());
                    let ended = loop {
                        let edge = sampler.step(at, rng);
                        path.push(edge);
                        segments.push(named);
                        match sampler.tree().target(edge) {
                            Target::Leaf(leaf) => break Some(leaf),
                            Target::Node(next) => at = next,
                        }
                        if self.level(path.len()) > level {
                            break None;
                        }
                    };
                    let Some(leaf) = ended else {
                        open.push((at, path, segments));
                        continue;
                    };
                    let reward = sample_reward(sampler.tree(), leaf, rng);
                    leaves.extend((0..below).map(|_| TreeLeaf {
                        leaf,
                        path: path.clone(),
                        segments: segments.clone(),
                        reward,
                    }));
                }
            }
        }
        leaves
    }
}

/// The expected update of a method on trees that the policy samples, and its variance, estimated from `groups` simulated trees.
///
/// # Panics
/// If `groups < 2`, or the situation's groups have not as many responses as a tree has leaves.
pub fn branched(
    method: &dyn Method,
    situation: &Situation,
    sampling: &dyn TreeSampling,
    groups: usize,
    seed: u64,
) -> Sampled {
    assert_eq!(situation.group_size, sampling.leaves(), "a group is a tree's leaves");
    let evaluated = Evaluated::new(situation);
    let sampler = Sampler::new(evaluated.tree, situation.behaviour);
    moments(&evaluated, groups, seed, |rng| {
        let leaves = sampling.grow(&sampler, &evaluated.behaviour, rng);
        let response = |l: &TreeLeaf| Response {
            tokens: l.segments.clone(),
            ..evaluated.response(l.leaf, &l.path, l.reward)
        };
        let logps = |l: &TreeLeaf| l.path.iter().map(|&e| evaluated.current.log_probs[e]).collect::<Vec<_>>();
        let group = Group { responses: leaves.iter().map(response).collect() };
        let batch = evaluate(method, &[group], &leaves.iter().map(logps).collect::<Vec<_>>());
        let spread = |(l, dlogps): (TreeLeaf, Vec<f64>)| {
            let first = |t: usize| l.segments.iter().position(|n| *n == l.segments[t]).unwrap_or(t);
            let along = (0..dlogps.len()).map(|t| dlogps[first(t)]).collect();
            (l.path, along)
        };
        leaves.into_iter().zip(batch.dlogps).map(spread).collect()
    })
}
