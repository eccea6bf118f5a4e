//! [`Oracle`]: `V`, `Q`, `A`, visit probabilities, `J` and its gradient by dynamic programming.

use super::policy::Tabular;
use super::tree::{EdgeId, LeafId, NodeId, Target, Tree};

/// The exact quantities of a policy on a [`Tree`], in O(edges) time and memory.
///
/// The reward comes with the last token, so that at a prefix of `t` tokens
///
/// ```text
/// Q(s,a) = E[R|y]  where s,a completes the response y,  else  γ V(s')
/// V(s)   = Σ_a π(a|s) Q(s,a) = E[γ^(T-1-t) R | s_t = s]
/// A(s,a) = Q(s,a) - V(s)
/// d(s')  = d(s) π(a|s),  d(s_0) = 1
/// J      = V(s_0)
/// ```
///
/// ```
/// use grpo_lambda_mdp::{Oracle, zoo, zoo::Family};
/// let family = zoo::LemmaCounterexample;
/// let tree = family.tree()?;
/// let oracle = Oracle::new(&tree, &family.initial(&tree));
/// assert_eq!((oracle.j, oracle.v[1], oracle.v[2]), (0.5, 1.0, 0.0));     // prompt, after A, after B
/// assert_eq!(oracle.advantage(0), 0.5);                                  // choosing A
/// # Ok::<(), grpo_lambda_mdp::TreeError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Oracle<'t> {
    /// The MDP.
    pub tree: &'t Tree,
    /// `log π(a|s)` per edge, in nats.
    pub log_probs: Vec<f64>,
    /// `π(a|s)` per edge.
    pub probs: Vec<f64>,
    /// `V(s)` per node.
    pub v: Vec<f64>,
    /// `Q(s,a)` per edge.
    pub q: Vec<f64>,
    /// `d(s)` per node: the probability that the response passes the prefix.
    pub visit: Vec<f64>,
    /// `J = V(s_0)`, the expected discounted reward.
    pub j: f64,
}

impl<'t> Oracle<'t> {
    /// Evaluates `policy` on `tree`.
    ///
    /// # Panics
    /// If the policy belongs to a tree of another size.
    pub fn new(tree: &'t Tree, policy: &Tabular) -> Oracle<'t> {
        let log_probs = policy.log_probs(tree);
        let probs: Vec<f64> = log_probs.iter().map(|x| x.exp()).collect();
        let (mut v, mut q) = (vec![0.0; tree.node_count()], vec![0.0; tree.edge_count()]);
        for node in tree.nodes().rev() {
            for edge in tree.edges_of(node) {
                q[edge] = match tree.target(edge) {
                    Target::Leaf(leaf) => tree.reward(leaf),
                    Target::Node(child) => tree.gamma() * v[child],
                };
                v[node] += probs[edge] * q[edge];
            }
        }
        let mut visit = vec![1.0; tree.node_count()];
        for node in tree.nodes() {
            if let Some(edge) = tree.parent_edge(node) {
                visit[node] = visit[tree.edge_node(edge)] * probs[edge];
            }
        }
        let j = v[0];
        Oracle { tree, log_probs, probs, v, q, visit, j }
    }

    /// `A(s,a) = Q(s,a) - V(s)` of one edge.
    #[inline]
    pub fn advantage(&self, edge: EdgeId) -> f64 {
        self.q[edge] - self.v[self.tree.edge_node(edge)]
    }

    /// `A(s,a)` per edge.
    pub fn advantages(&self) -> Vec<f64> {
        self.tree.edges().map(|e| self.advantage(e)).collect()
    }

    /// `d(s) π(a|s)`: the probability that the response takes this edge.
    #[inline]
    pub fn edge_visit(&self, edge: EdgeId) -> f64 {
        self.visit[self.tree.edge_node(edge)] * self.probs[edge]
    }

    /// The policy gradient per edge, with respect to the logits.
    ///
    /// ```text
    /// ∂J/∂θ(s,a) = γ^t d(s) π(a|s) A(s,a)          t = depth of s
    /// ```
    pub fn grad_j(&self) -> Vec<f64> {
        let discount = self.discounts();
        let component =
            |e| discount[self.tree.depth(self.tree.edge_node(e))] * self.edge_visit(e) * self.advantage(e);
        self.tree.edges().map(component).collect()
    }

    /// `γ^t` for `t = 0 ..= max_len`.
    pub(super) fn discounts(&self) -> Vec<f64> {
        (0..=self.tree.max_len()).map(|t| self.tree.gamma().powi(t as i32)).collect()
    }

    /// `P(y)`, the probability of a response.
    #[inline]
    pub fn leaf_prob(&self, leaf: LeafId) -> f64 {
        self.edge_visit(self.tree.leaf_edge(leaf))
    }

    /// `P(y)` of every response; they sum to 1.
    pub fn leaf_probs(&self) -> Vec<f64> {
        self.tree.leaves().map(|leaf| self.leaf_prob(leaf)).collect()
    }

    /// `E[f(y)]`: the exact expectation of a function of the response.
    pub fn expect(&self, mut f: impl FnMut(LeafId) -> f64) -> f64 {
        self.tree.leaves().map(|leaf| self.leaf_prob(leaf) * f(leaf)).sum()
    }

    /// `E[f(y, R)]`: the exact expectation of a function of the response and its reward, which may be noisy.
    pub fn expect_outcome(&self, mut f: impl FnMut(LeafId, f64) -> f64) -> f64 {
        self.expect(|leaf| self.tree.outcomes(leaf).map(|(reward, p)| p * f(leaf, reward)).sum())
    }

    /// `E[f(y) | s_t = s, a_t = a]` per edge, of a function of the complete response that passes the edge.
    ///
    /// With `f` the weight that a method gives to token `t` this is its *implied credit* `ω(s,a)`; a weight
    /// that depends on `t` as well goes into [`implied_credit`](Oracle::implied_credit).
    pub fn expect_given_edge(&self, mut f: impl FnMut(LeafId) -> f64) -> Vec<f64> {
        let mut given = vec![0.0; self.tree.edge_count()];
        for node in self.tree.nodes().rev() {
            for edge in self.tree.edges_of(node) {
                given[edge] = match self.tree.target(edge) {
                    Target::Leaf(leaf) => f(leaf),
                    Target::Node(child) => self.tree.edges_of(child).map(|e| self.probs[e] * given[e]).sum(),
                };
            }
        }
        given
    }

    /// `ω(s,a) = E[w_t | s_t = s, a_t = a]` per edge, of the weights a method puts on the tokens of a
    /// response.
    ///
    /// `weigh(leaf, reward, w)` fills `w`, which has one zero per token of the response. The expected
    /// on-policy update of `Σ_t w_t ∇log π(a_t|s_t)` is then
    ///
    /// ```text
    /// E[g](s,a) = d(s) π(a|s) ( ω(s,a) - Σ_b π(b|s) ω(s,b) )
    /// ```
    ///
    /// which [`update_of_credit`](Oracle::update_of_credit) computes. An edge that no response of positive
    /// probability takes has credit 0. Time O(sum of response lengths).
    pub fn implied_credit(&self, mut weigh: impl FnMut(LeafId, f64, &mut [f64])) -> Vec<f64> {
        let mut credit = vec![0.0; self.tree.edge_count()];
        let (mut path, mut weights) = (Vec::new(), Vec::new());
        for leaf in self.tree.leaves() {
            let leaf_prob = self.leaf_prob(leaf);
            self.tree.path_into(leaf, &mut path);
            for (reward, p) in self.tree.outcomes(leaf) {
                weights.clear();
                weights.resize(path.len(), 0.0);
                weigh(leaf, reward, &mut weights);
                for (&edge, w) in path.iter().zip(&weights) {
                    credit[edge] += leaf_prob * p * w;
                }
            }
        }
        for edge in self.tree.edges() {
            let visit = self.edge_visit(edge);
            if visit > 0.0 {
                credit[edge] /= visit;
            }
        }
        credit
    }

    /// The expected update `d(s) π(a|s) (ω(s,a) - Σ_b π(b|s) ω(s,b))` per edge, of a credit per edge.
    ///
    /// With `ω = Q` or `A` and γ = 1 it is [`grad_j`](Oracle::grad_j).
    ///
    /// # Panics
    /// If `credit` does not have one entry per edge.
    pub fn update_of_credit(&self, credit: &[f64]) -> Vec<f64> {
        assert_eq!(credit.len(), self.tree.edge_count(), "one credit per edge");
        let mut update = vec![0.0; credit.len()];
        for node in self.tree.nodes() {
            let edges = self.tree.edges_of(node);
            let mean: f64 = edges.clone().map(|e| self.probs[e] * credit[e]).sum();
            for edge in edges {
                update[edge] = self.edge_visit(edge) * (credit[edge] - mean);
            }
        }
        update
    }

    /// The distribution of the reward `R` (not discounted): values in ascending order with their
    /// probabilities, equal values merged, probability 0 left out.
    pub fn reward_distribution(&self) -> Vec<(f64, f64)> {
        let outcomes =
            |leaf| self.tree.outcomes(leaf).map(move |(reward, p)| (reward, self.leaf_prob(leaf) * p));
        let mut all: Vec<(f64, f64)> = self.tree.leaves().flat_map(outcomes).collect();
        all.sort_by(|a, b| a.0.total_cmp(&b.0));
        let mut merged: Vec<(f64, f64)> = Vec::new();
        for (reward, p) in all {
            match merged.last_mut() {
                Some(last) if last.0 == reward => last.1 += p,
                _ => merged.push((reward, p)),
            }
        }
        merged.retain(|&(_, p)| p > 0.0);
        merged
    }

    /// `Var(γ^(T-1-t) R | s_t = s)` per node; with γ = 1 it is `Var(R | s)`. The noise of binary rewards
    /// counts.
    pub fn variances(&self) -> Vec<f64> {
        let mut square = vec![0.0; self.tree.node_count()];
        for node in self.tree.nodes().rev() {
            square[node] =
                self.tree.edges_of(node).map(|e| self.probs[e] * self.square_after(e, &square)).sum();
        }
        square.iter().zip(&self.v).map(|(m, v)| (m - v * v).max(0.0)).collect()
    }

    /// The second moment of the discounted reward after an edge, given those of the nodes.
    fn square_after(&self, edge: EdgeId, square: &[f64]) -> f64 {
        match self.tree.target(edge) {
            Target::Leaf(leaf) => self.tree.reward_squared(leaf),
            Target::Node(child) => self.tree.gamma() * self.tree.gamma() * square[child],
        }
    }

    /// Entropy `-Σ_a π(a|s) log π(a|s)` per node, in nats.
    pub fn entropies(&self) -> Vec<f64> {
        // `p log p` tends to 0: where the exponential underflows the product is an exact 0.
        let entropy =
            |node: NodeId| -self.tree.edges_of(node).map(|e| self.probs[e] * self.log_probs[e]).sum::<f64>();
        self.tree.nodes().map(entropy).collect()
    }
}
