//! [`Tree`]: an MDP over tokens in flat arrays.

use super::error::is_real_reward;
use std::ops::Range;

/// Index of a non-terminal prefix, in breadth-first order; 0 is the prompt.
pub type NodeId = usize;
/// Index of a (prefix, legal token) pair. The edges of one prefix are contiguous, those of earlier prefixes
/// come first.
pub type EdgeId = usize;
/// Index of a complete response, in the order of its last edge.
pub type LeafId = usize;

/// The target of an edge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// To a longer prefix.
    Node(NodeId),
    /// To a complete response.
    Leaf(LeafId),
}

/// The meaning of the number at a leaf.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RewardKind {
    /// The reward is 0 or 1 and the leaf holds `P(R=1 | response)`, in `[0,1]`: noisy graders are exact.
    #[default]
    Binary,
    /// The leaf holds the reward itself, at most [`MAX_REWARD`](super::MAX_REWARD) in magnitude.
    Real,
}

/// Marks a target as a leaf.
pub(super) const LEAF: u32 = 1 << 31;

/// An MDP over tokens: deterministic transitions, a state is a prefix.
///
/// Built by [`Rules::build`](super::Rules::build). Nodes are the non-terminal prefixes in breadth-first
/// order, so that `0..node_count` is a forward sweep (parents first) and its reverse a backward sweep. A
/// prefix has one edge per legal token; an edge leads to a longer prefix or to a leaf, which is a complete
/// response.
///
/// Every accessor panics if its index is out of range.
#[derive(Clone, Debug)]
pub struct Tree {
    pub(super) tokens: Vec<String>,
    pub(super) eos: u32,
    pub(super) horizon: usize,
    pub(super) gamma: f64,
    pub(super) kind: RewardKind,
    /// `first_edge[n]..first_edge[n+1]` are the edges of node `n`.
    pub(super) first_edge: Vec<u32>,
    /// The edge into node `n`; meaningless for the prompt.
    pub(super) parent_edge: Vec<u32>,
    /// `first_node[d]..first_node[d+1]` are the nodes of depth `d`.
    pub(super) first_node: Vec<u32>,
    pub(super) depth: Vec<u32>,
    pub(super) edge_node: Vec<u32>,
    pub(super) edge_token: Vec<u32>,
    /// A node id, or a leaf id with the [`LEAF`] bit.
    pub(super) edge_target: Vec<u32>,
    pub(super) leaf_edge: Vec<u32>,
    pub(super) leaf_reward: Vec<f64>,
}

impl Tree {
    /// Names of the vocabulary, EOS included; a token is an index into it.
    pub fn tokens(&self) -> &[String] {
        &self.tokens
    }

    /// The end-of-sequence token.
    pub fn eos(&self) -> u32 {
        self.eos
    }

    /// The greatest number of tokens in a response, EOS included.
    pub fn horizon(&self) -> usize {
        self.horizon
    }

    /// The length of the longest response that the legal tokens allow, at most [`horizon`](Tree::horizon).
    pub fn max_len(&self) -> usize {
        self.first_node.len() - 1
    }

    /// The discount γ, in `[0,1]`.
    pub fn gamma(&self) -> f64 {
        self.gamma
    }

    /// Replaces the discount.
    ///
    /// # Panics
    /// If `gamma` is not in `[0,1]`.
    pub fn with_gamma(mut self, gamma: f64) -> Tree {
        assert!((0.0..=1.0).contains(&gamma), "gamma = {gamma} must be in [0, 1]");
        self.gamma = gamma;
        self
    }

    /// Replaces the rewards by others of their kind: `reward(leaf)` is the number at the leaf.
    ///
    /// # Panics
    /// If a reward is beyond [`MAX_REWARD`](super::MAX_REWARD), or not in `[0,1]` where rewards are binary.
    pub fn with_rewards(mut self, reward: impl Fn(LeafId) -> f64) -> Tree {
        let kind = self.kind;
        let allowed = |r: f64| match kind {
            RewardKind::Binary => (0.0..=1.0).contains(&r),
            RewardKind::Real => is_real_reward(r),
        };
        for leaf in 0..self.leaf_reward.len() {
            let r = reward(leaf);
            assert!(allowed(r), "reward {r} of response {leaf} is not one of a {:?} tree", self.kind);
            self.leaf_reward[leaf] = r;
        }
        self
    }

    /// The meaning of the number at a leaf.
    pub fn reward_kind(&self) -> RewardKind {
        self.kind
    }

    /// Number of non-terminal prefixes, at least 1.
    pub fn node_count(&self) -> usize {
        self.parent_edge.len()
    }

    /// Number of (prefix, legal token) pairs: the number of parameters of a tabular policy.
    pub fn edge_count(&self) -> usize {
        self.edge_token.len()
    }

    /// Number of complete responses.
    pub fn leaf_count(&self) -> usize {
        self.leaf_edge.len()
    }

    /// All prefixes, parents first.
    pub fn nodes(&self) -> Range<NodeId> {
        0..self.node_count()
    }

    /// All (prefix, token) pairs, in the order of their prefix.
    pub fn edges(&self) -> Range<EdgeId> {
        0..self.edge_count()
    }

    /// All complete responses.
    pub fn leaves(&self) -> Range<LeafId> {
        0..self.leaf_count()
    }

    /// The prefixes of `depth` tokens; empty beyond the longest response.
    pub fn nodes_at(&self, depth: usize) -> Range<NodeId> {
        match self.first_node.get(depth + 1) {
            Some(&end) => self.first_node[depth] as usize..end as usize,
            None => self.node_count()..self.node_count(),
        }
    }

    /// The edges of a prefix, one per legal token, in the order in which they were declared legal.
    #[inline]
    pub fn edges_of(&self, node: NodeId) -> Range<EdgeId> {
        self.first_edge[node] as usize..self.first_edge[node + 1] as usize
    }

    /// Number of tokens `t` in the prefix: the position at which its next token is generated.
    #[inline]
    pub fn depth(&self, node: NodeId) -> usize {
        self.depth[node] as usize
    }

    /// The edge that leads into a prefix, `None` for the prompt.
    #[inline]
    pub fn parent_edge(&self, node: NodeId) -> Option<EdgeId> {
        (node > 0).then(|| self.parent_edge[node] as usize)
    }

    /// The prefix at which an edge starts.
    #[inline]
    pub fn edge_node(&self, edge: EdgeId) -> NodeId {
        self.edge_node[edge] as usize
    }

    /// The token of an edge.
    #[inline]
    pub fn token(&self, edge: EdgeId) -> u32 {
        self.edge_token[edge]
    }

    /// The name of an edge's token.
    pub fn token_name(&self, edge: EdgeId) -> &str {
        &self.tokens[self.edge_token[edge] as usize]
    }

    /// The target of an edge.
    #[inline]
    pub fn target(&self, edge: EdgeId) -> Target {
        let target = self.edge_target[edge];
        if target & LEAF == 0 {
            Target::Node(target as usize)
        } else {
            Target::Leaf((target & !LEAF) as usize)
        }
    }

    /// The edge by which a prefix ends the response with EOS, `None` where EOS is not legal.
    pub fn eos_edge(&self, node: NodeId) -> Option<EdgeId> {
        self.edges_of(node).find(|&e| self.edge_token[e] == self.eos)
    }

    /// The edge of `token` at a prefix, `None` where it is not legal.
    pub fn edge(&self, node: NodeId, token: u32) -> Option<EdgeId> {
        self.edges_of(node).find(|&e| self.edge_token[e] == token)
    }

    /// The last edge of a response.
    #[inline]
    pub fn leaf_edge(&self, leaf: LeafId) -> EdgeId {
        self.leaf_edge[leaf] as usize
    }

    /// Number of tokens `T >= 1` in a response, EOS included.
    #[inline]
    pub fn leaf_len(&self, leaf: LeafId) -> usize {
        self.depth(self.edge_node(self.leaf_edge(leaf))) + 1
    }

    /// True if a response was cut at the horizon instead of ending with EOS.
    #[inline]
    pub fn truncated(&self, leaf: LeafId) -> bool {
        self.edge_token[self.leaf_edge(leaf)] != self.eos
    }

    /// The expected reward of a response, `E[R | y]`: the number at the leaf.
    #[inline]
    pub fn reward(&self, leaf: LeafId) -> f64 {
        self.leaf_reward[leaf]
    }

    /// `E[R² | y]`: the leaf's number for binary rewards, its square for real ones.
    #[inline]
    pub fn reward_squared(&self, leaf: LeafId) -> f64 {
        let reward = self.leaf_reward[leaf];
        match self.kind {
            RewardKind::Binary => reward,
            RewardKind::Real => reward * reward,
        }
    }

    /// The possible rewards of a response with their probabilities; outcomes of probability 0 are left out.
    ///
    /// ```text
    /// Binary, leaf number p:   (0, 1-p), (1, p)
    /// Real, leaf number r:     (r, 1)
    /// ```
    pub fn outcomes(&self, leaf: LeafId) -> impl Iterator<Item = (f64, f64)> + use<> {
        let number = self.leaf_reward[leaf];
        let pairs = match self.kind {
            RewardKind::Binary => [(0.0, 1.0 - number), (1.0, number)],
            RewardKind::Real => [(number, 1.0), (0.0, 0.0)],
        };
        pairs.into_iter().filter(|&(_, probability)| probability > 0.0)
    }

    /// The edges of a response from the prompt to its last token, length `T`.
    pub fn path(&self, leaf: LeafId) -> Vec<EdgeId> {
        let mut path = Vec::new();
        self.path_into(leaf, &mut path);
        path
    }

    /// [`path`](Tree::path) into a buffer, which is cleared first.
    pub fn path_into(&self, leaf: LeafId, path: &mut Vec<EdgeId>) {
        let edge = self.leaf_edge(leaf);
        path.clear();
        path.push(edge);
        let mut node = self.edge_node(edge);
        while let Some(edge) = self.parent_edge(node) {
            path.push(edge);
            node = self.edge_node(edge);
        }
        path.reverse();
    }

    /// The tokens of a prefix, length [`depth`](Tree::depth).
    pub fn prefix(&self, node: NodeId) -> Vec<u32> {
        let mut tokens = Vec::new();
        self.prefix_into(node, &mut tokens);
        tokens
    }

    /// [`prefix`](Tree::prefix) into a buffer, which is cleared first.
    pub(super) fn prefix_into(&self, mut node: NodeId, tokens: &mut Vec<u32>) {
        tokens.clear();
        while let Some(edge) = self.parent_edge(node) {
            tokens.push(self.token(edge));
            node = self.edge_node(edge);
        }
        tokens.reverse();
    }

    /// The tokens of a response, length `T`.
    pub fn response(&self, leaf: LeafId) -> Vec<u32> {
        self.path(leaf).into_iter().map(|e| self.token(e)).collect()
    }

    /// The target of a token sequence from the prompt: `None` if one of its tokens is illegal or follows the
    /// end.
    ///
    /// The empty sequence is the prompt, `Target::Node(0)`.
    pub fn find(&self, tokens: &[u32]) -> Option<Target> {
        tokens.iter().try_fold(Target::Node(0), |at, &token| match at {
            Target::Node(node) => self.edge(node, token).map(|e| self.target(e)),
            Target::Leaf(_) => None,
        })
    }

    /// Token names joined by spaces, for tables and messages; the empty sequence is `(prompt)`.
    ///
    /// # Panics
    /// If a token is not in the vocabulary.
    pub fn text(&self, tokens: &[u32]) -> String {
        text(&self.tokens, tokens)
    }
}

/// Token names joined by spaces; the empty sequence is `(prompt)`.
pub(super) fn text(names: &[String], tokens: &[u32]) -> String {
    if tokens.is_empty() {
        return "(prompt)".into();
    }
    tokens.iter().map(|&token| names[token as usize].as_str()).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::super::{Rules, zoo};
    use super::*;

    /// `a` and EOS at every prefix, horizon 2: `E`, `a a` (cut), `a E`.
    fn small() -> Tree {
        let rules = Rules::new(["a", "E"], 2);
        rules.build(|_| vec![0, 1], |tokens, cut| if cut { 0.25 } else { tokens.len() as f64 / 2.0 }).unwrap()
    }

    #[test]
    fn a_small_tree_by_hand() {
        let tree = small();
        assert_eq!((tree.node_count(), tree.edge_count(), tree.leaf_count()), (2, 4, 3));
        assert_eq!((tree.nodes_at(0), tree.nodes_at(1), tree.nodes_at(2)), (0..1, 1..2, 2..2));
        assert_eq!(tree.max_len(), 2);
        assert_eq!((tree.edges_of(0), tree.edges_of(1)), (0..2, 2..4));
        assert_eq!(tree.target(0), Target::Node(1));
        assert_eq!(tree.target(1), Target::Leaf(0));
        assert_eq!(tree.parent_edge(1), Some(0));
        assert_eq!(tree.parent_edge(0), None);
        assert_eq!(tree.eos_edge(1), Some(3));
        let rows: Vec<_> = tree.leaves().map(|l| (tree.text(&tree.response(l)), tree.leaf_len(l))).collect();
        assert_eq!(rows, [("E".into(), 1), ("a a".into(), 2), ("a E".into(), 2)]);
        assert_eq!(tree.leaves().map(|l| tree.truncated(l)).collect::<Vec<_>>(), [false, true, false]);
        assert_eq!(tree.leaves().map(|l| tree.reward(l)).collect::<Vec<_>>(), [0.5, 0.25, 1.0]);
        assert_eq!(tree.path(2), [0, 3]);
        assert_eq!(tree.outcomes(0).collect::<Vec<_>>(), [(0.0, 0.5), (1.0, 0.5)]);
        assert_eq!(tree.outcomes(2).collect::<Vec<_>>(), [(1.0, 1.0)]);
        assert_eq!(tree.find(&[0, 1]), Some(Target::Leaf(2)));
        assert_eq!(tree.find(&[1, 0]), None);
        assert_eq!(tree.find(&[]), Some(Target::Node(0)));
    }

    #[test]
    #[should_panic(expected = "of a Real tree")]
    fn a_reward_beyond_the_limit_of_the_builders_is_refused() {
        let rules = Rules { reward_kind: RewardKind::Real, ..Rules::new(["a", "E"], 1) };
        let tree = rules.build(|_| vec![0, 1], |_, _| 1e30).unwrap().with_rewards(|_| -1e30);
        tree.with_rewards(|_| 1e31);
    }

    #[test]
    fn every_zoo_tree_is_consistent() {
        for entry in zoo::all() {
            let tree = (entry.build)();
            let mut leaves = 0;
            for node in tree.nodes() {
                assert_eq!(tree.find(&tree.prefix(node)), Some(Target::Node(node)), "{}", entry.name);
                assert_eq!(tree.prefix(node).len(), tree.depth(node));
                assert!(tree.nodes_at(tree.depth(node)).contains(&node));
                assert!(!tree.edges_of(node).is_empty());
                for edge in tree.edges_of(node) {
                    assert_eq!(tree.edge_node(edge), node);
                    match tree.target(edge) {
                        Target::Node(child) => assert_eq!(tree.parent_edge(child), Some(edge)),
                        Target::Leaf(leaf) => {
                            assert_eq!(tree.leaf_edge(leaf), edge);
                            assert_eq!(leaf, leaves, "leaves are numbered in edge order");
                            leaves += 1;
                        }
                    }
                }
            }
            assert_eq!(leaves, tree.leaf_count());
            for leaf in tree.leaves() {
                let response = tree.response(leaf);
                assert_eq!(tree.find(&response), Some(Target::Leaf(leaf)));
                assert_eq!(response.len(), tree.leaf_len(leaf));
                assert!(!tree.truncated(leaf) || response.len() == tree.horizon());
            }
        }
    }
}
