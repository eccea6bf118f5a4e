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

#[cfg(test)]
mod tests {
    use super::super::testing::{EXACT, any_mdp, brute_j};
    use super::super::zoo;
    use super::*;
    use proptest::prelude::*;

    fn close(a: f64, b: f64) -> bool {
        (a - b).abs() < EXACT * (1.0 + b.abs())
    }

    /// For each edge: `P` of taking it, and the sum over responses through it of `P(y) γ^(T-1-t) E[R|y]`.
    fn enumerate(tree: &Tree, probs: &[f64]) -> (Vec<f64>, Vec<f64>) {
        let (mut visit, mut value) = (vec![0.0; tree.edge_count()], vec![0.0; tree.edge_count()]);
        for leaf in tree.leaves() {
            let path = tree.path(leaf);
            let p: f64 = path.iter().map(|&e| probs[e]).product();
            for (t, &edge) in path.iter().enumerate() {
                visit[edge] += p;
                value[edge] += p * tree.gamma().powi((path.len() - 1 - t) as i32) * tree.reward(leaf);
            }
        }
        (visit, value)
    }

    proptest! {
        #[test]
        fn everything_agrees_with_brute_force_enumeration((tree, policy) in any_mdp()) {
            let oracle = Oracle::new(&tree, &policy);
            let (visit, value) = enumerate(&tree, &oracle.probs);
            prop_assert!(close(oracle.j, brute_j(&tree, &oracle.probs)));
            prop_assert!(close(oracle.leaf_probs().iter().sum(), 1.0));
            for node in tree.nodes() {
                let edges = tree.edges_of(node);
                prop_assert!(close(oracle.probs[edges.clone()].iter().sum(), 1.0));
                prop_assert!(close(oracle.visit[node], edges.clone().map(|e| visit[e]).sum()));
                let expected: f64 = edges.clone().map(|e| value[e]).sum();
                prop_assert!(close(oracle.visit[node] * oracle.v[node], expected));
                prop_assert!(close(edges.clone().map(|e| oracle.probs[e] * oracle.advantage(e)).sum(), 0.0));
                for edge in edges {
                    prop_assert!(close(oracle.edge_visit(edge), visit[edge]));
                    prop_assert!(close(oracle.edge_visit(edge) * oracle.q[edge], value[edge]));
                }
            }
            for leaf in tree.leaves() {
                let log_prob: f64 = tree.path(leaf).iter().map(|&e| oracle.log_probs[e]).sum();
                prop_assert!(close(oracle.leaf_prob(leaf), log_prob.exp()));
            }
        }

        #[test]
        fn the_gradient_agrees_with_finite_differences_of_j((tree, policy) in any_mdp()) {
            let gradient = Oracle::new(&tree, &policy).grad_j();
            for edge in tree.edges() {
                let at = |h: f64| {
                    let mut moved = policy.clone();
                    moved.logits[edge] += h;
                    brute_j(&tree, &moved.probs(&tree))
                };
                let h = 1e-3;
                // Five points: the error is of order h^4.
                let numeric = (8.0 * (at(h) - at(-h)) - (at(2.0 * h) - at(-2.0 * h))) / (12.0 * h);
                prop_assert!((numeric - gradient[edge]).abs() < 1e-8, "{} {}", numeric, gradient[edge]);
            }
        }

        #[test]
        fn expectations_of_outcomes_and_the_reward_distribution_agree((tree, policy) in any_mdp()) {
            let tree = tree.with_gamma(1.0);
            let oracle = Oracle::new(&tree, &policy);
            let distribution = oracle.reward_distribution();
            prop_assert!(close(distribution.iter().map(|&(_, p)| p).sum(), 1.0));
            prop_assert!(distribution.windows(2).all(|w| w[0].0 < w[1].0));
            let mean: f64 = distribution.iter().map(|&(r, p)| r * p).sum();
            prop_assert!(close(mean, oracle.j));
            prop_assert!(close(oracle.expect_outcome(|_, r| r), oracle.j));
            let variance: f64 = distribution.iter().map(|&(r, p)| p * (r - mean) * (r - mean)).sum();
            prop_assert!(close(oracle.variances()[0], variance));
        }

        #[test]
        fn conditional_expectations_of_the_reward_are_q((tree, policy) in any_mdp()) {
            let tree = tree.with_gamma(1.0);
            let oracle = Oracle::new(&tree, &policy);
            let given = oracle.expect_given_edge(|leaf| tree.reward(leaf));
            let credit = oracle.implied_credit(|_, reward, w| w.fill(reward));
            for edge in tree.edges() {
                prop_assert!(close(given[edge], oracle.q[edge]));
                prop_assert!(close(credit[edge], oracle.q[edge]));
            }
            for (a, b) in oracle.update_of_credit(&credit).iter().zip(oracle.grad_j()) {
                prop_assert!((a - b).abs() < EXACT);
            }
        }

        #[test]
        fn the_expected_update_of_any_weights_follows_from_their_implied_credit((tree, policy) in any_mdp()) {
            // Weights that depend on position, length and reward, checked against E[Σ_t w_t ∇log π(a_t|s_t)].
            let weight = |t: usize, len: usize, reward: f64| {
                (reward - 0.3) * 0.9f64.powi((len - t) as i32) + t as f64
            };
            let oracle = Oracle::new(&tree, &policy);
            let credit = oracle.implied_credit(|leaf, reward, w| {
                let len = tree.leaf_len(leaf);
                (0..len).for_each(|t| w[t] = weight(t, len, reward));
            });
            let mut cotangent = vec![0.0; tree.edge_count()];
            for leaf in tree.leaves() {
                let path = tree.path(leaf);
                for (reward, p) in tree.outcomes(leaf) {
                    for (t, &edge) in path.iter().enumerate() {
                        cotangent[edge] += oracle.leaf_prob(leaf) * p * weight(t, path.len(), reward);
                    }
                }
            }
            for (a, b) in oracle.update_of_credit(&credit).iter().zip(policy.backward(&tree, &cotangent)) {
                prop_assert!((a - b).abs() < EXACT * 10.0);
            }
        }
    }

    #[test]
    fn a_uniform_policy_has_the_greatest_entropy() {
        let tree = zoo::full_tree(4, 2).unwrap();
        let entropies = Oracle::new(&tree, &Tabular::uniform(&tree)).entropies();
        assert!(entropies.iter().all(|h| close(*h, 4f64.ln())));
        let entropies = Oracle::new(&tree, &Tabular::random(&tree, 1, 3000.0)).entropies();
        assert!(entropies.iter().all(|h| (0.0..4f64.ln()).contains(h)), "{entropies:?}");
    }
}
