//! Length and value as processes in time: survival, the stopped value martingale, path products.

use super::oracle::Oracle;
use super::tree::Tree;

/// Knowledge after `t` tokens, on average over responses; see [`Oracle::process`].
///
/// `τ` is the length of the response: `τ <= t` means that EOS is among its first `t` tokens, or that it was
/// cut at a horizon `H <= t`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ProcessStep {
    /// `P(τ > t)`: the response is still being written after `t` tokens.
    pub survival: f64,
    /// `E[V(S_t); τ > t]`, not discounted; divided by `survival` it is `E[V(S_t) | τ > t]`.
    pub alive_value: f64,
    /// `E[γ^(τ-1) R; τ <= t]`, the reward already received.
    pub finished_reward: f64,
    /// `E M_t` of the stopped value process; equal to `V(s_0)` for every `t`.
    pub mean: f64,
    /// `E (M_t - V(s_0))²`; starts at 0, never decreases, and ends at the variance of the discounted reward.
    pub spread: f64,
    /// `E Var(γ^(τ-1) R | what is known after t tokens)`; never increases. `spread + remaining` is constant.
    pub remaining: f64,
}

impl Oracle<'_> {
    /// The process for `t = 0 ..= max_len`, in O(nodes + leaves).
    ///
    /// The stopped value process is
    ///
    /// ```text
    /// M_t = γ^t V(S_t)        while t < τ
    /// M_t = γ^(τ-1) R         from t = τ on, once the reward is known
    /// ```
    ///
    /// a martingale: `V(s_0) = E[γ^(τ-1) R; τ <= t] + γ^t E[V(S_t); τ > t]` for every `t`, the corrected form
    /// of GRPO-lambda's Lemma 1. For binary rewards in `[0,1]` it bounds `V(s_0) - γ^t E[V(S_t); τ > t]` by
    /// `P(τ <= t)`.
    pub fn process(&self) -> Vec<ProcessStep> {
        let tree = self.tree;
        let (v0, discount, variances) = (self.j, self.discounts(), self.variances());
        let zero = ProcessStep {
            survival: 0.0,
            alive_value: 0.0,
            finished_reward: 0.0,
            mean: 0.0,
            spread: 0.0,
            remaining: 0.0,
        };
        let mut steps = vec![zero; tree.max_len() + 1];
        // What ends at length T counts from t = T on.
        for leaf in tree.leaves() {
            let (step, g, p) = (tree.leaf_len(leaf), discount[tree.leaf_len(leaf) - 1], self.leaf_prob(leaf));
            steps[step].finished_reward += p * g * tree.reward(leaf);
            steps[step].spread +=
                tree.outcomes(leaf).map(|(r, weight)| p * weight * (g * r - v0).powi(2)).sum::<f64>();
        }
        for t in 1..steps.len() {
            steps[t].finished_reward += steps[t - 1].finished_reward;
            steps[t].spread += steps[t - 1].spread;
        }
        for (t, step) in steps.iter_mut().enumerate() {
            let g = discount[t];
            for node in tree.nodes_at(t) {
                let p = self.visit[node];
                step.survival += p;
                step.alive_value += p * self.v[node];
                step.spread += p * (g * self.v[node] - v0).powi(2);
                step.remaining += p * g * g * variances[node];
            }
            step.mean = step.finished_reward + g * step.alive_value;
        }
        steps
    }

    /// `P(τ > t)`; 1 at `t = 0`, 0 from the longest response on.
    pub fn survival(&self, t: usize) -> f64 {
        self.tree.nodes_at(t).map(|node| self.visit[node]).sum()
    }

    /// `E[V(S_t); τ > t]`, not discounted.
    pub fn alive_value(&self, t: usize) -> f64 {
        self.tree.nodes_at(t).map(|node| self.visit[node] * self.v[node]).sum()
    }

    /// `P(T = t)` for `t = 0 ..= max_len`; the entry at 0 is 0.
    pub fn length_distribution(&self) -> Vec<f64> {
        let mut out = vec![0.0; self.tree.max_len() + 1];
        for leaf in self.tree.leaves() {
            out[self.tree.leaf_len(leaf)] += self.leaf_prob(leaf);
        }
        out
    }

    /// The mean response length `E[T]`, in tokens.
    pub fn mean_length(&self) -> f64 {
        self.expect(|leaf| self.tree.leaf_len(leaf) as f64)
    }

    /// `1 - π(EOS|s)` per node, summed over the other legal tokens so that it does not cancel.
    fn continue_probs(&self) -> Vec<f64> {
        let tree = self.tree;
        let other = |node| -> f64 {
            tree.edges_of(node).filter(|&e| tree.token(e) != tree.eos()).map(|e| self.probs[e]).sum()
        };
        tree.nodes().map(other).collect()
    }

    /// `Π_{k<t} (1 - π(EOS|s_k))` per node, over the prefixes `s_0 .. s_{t-1}` that lead to it; 1 at the
    /// prompt.
    ///
    /// GRPO-lambda reads it as the probability of not generating EOS in `t` steps. It is a quantity of one
    /// path; the probability is its mean over paths, weighted by
    /// [`visits_without_eos`](Oracle::visits_without_eos).
    pub fn path_products(&self) -> Vec<f64> {
        let go_on = self.continue_probs();
        forward(self.tree, |_, parent| go_on[parent])
    }

    /// The visit probabilities `d̃(s)` of the policy that never chooses EOS,
    /// `π̃(a|s) = π(a|s) / (1 - π(EOS|s))`, per node.
    ///
    /// ```text
    /// P(τ > t) = Σ_{s of depth t} d̃(s) Π_{k<t} (1 - π(EOS|s_k))
    /// ```
    ///
    /// They sum to 1 at each depth as long as every shorter prefix has a legal token other than EOS; where
    /// EOS is the only legal token that branch's mass is dropped.
    pub fn visits_without_eos(&self) -> Vec<f64> {
        let go_on = self.continue_probs();
        forward(
            self.tree,
            |edge, parent| if go_on[parent] > 0.0 { self.probs[edge] / go_on[parent] } else { 0.0 },
        )
    }
}

/// A product along the path to each node, of a factor per edge; 1 at the prompt.
fn forward(tree: &Tree, factor: impl Fn(usize, usize) -> f64) -> Vec<f64> {
    let mut out = vec![1.0; tree.node_count()];
    for node in tree.nodes() {
        if let Some(edge) = tree.parent_edge(node) {
            let parent = tree.edge_node(edge);
            out[node] = out[parent] * factor(edge, parent);
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::super::testing::{EXACT, any_mdp};
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn survival_is_the_probability_of_a_longer_response((tree, policy) in any_mdp()) {
            let oracle = Oracle::new(&tree, &policy);
            let (lengths, process) = (oracle.length_distribution(), oracle.process());
            prop_assert_eq!(lengths[0], 0.0);
            for t in 0..=tree.max_len() {
                let longer = oracle.expect(|leaf| f64::from(tree.leaf_len(leaf) > t));
                prop_assert!((oracle.survival(t) - longer).abs() < EXACT);
                prop_assert!((process[t].survival - longer).abs() < EXACT);
                prop_assert!((lengths[t + 1..].iter().sum::<f64>() - longer).abs() < EXACT);
                prop_assert!((process[t].alive_value - oracle.alive_value(t)).abs() < EXACT);
            }
            let mean: f64 = lengths.iter().enumerate().map(|(t, p)| t as f64 * p).sum();
            prop_assert!((oracle.mean_length() - mean).abs() < EXACT * 10.0);
            prop_assert_eq!(oracle.survival(tree.max_len()), 0.0);
        }

        #[test]
        fn the_stopped_value_is_a_martingale_with_growing_spread((tree, policy) in any_mdp()) {
            let oracle = Oracle::new(&tree, &policy);
            let process = oracle.process();
            let total = oracle.variances()[0];
            prop_assert!(process[0].spread.abs() < EXACT);
            prop_assert!(process[tree.max_len()].remaining.abs() < EXACT);
            for (t, step) in process.iter().enumerate() {
                prop_assert!((step.mean - oracle.j).abs() < EXACT);
                prop_assert!((step.spread + step.remaining - total).abs() < EXACT * 10.0);
                prop_assert!(t == 0 || step.spread >= process[t - 1].spread - EXACT);
                prop_assert!(t == 0 || step.remaining <= process[t - 1].remaining + EXACT);
            }
        }

        #[test]
        fn v0_is_the_reward_received_plus_the_discounted_value_alive((tree, policy) in any_mdp()) {
            // The reward received, directly: E[Σ_{k<t} γ^k r_k] with r_k = R at k = τ - 1.
            let oracle = Oracle::new(&tree, &policy);
            for t in 0..=tree.max_len() {
                let received = oracle.expect(|leaf| {
                    (0..t).map(|k| {
                        let last = k + 1 == tree.leaf_len(leaf);
                        if last { tree.gamma().powi(k as i32) * tree.reward(leaf) } else { 0.0 }
                    }).sum()
                });
                let alive = tree.gamma().powi(t as i32) * oracle.alive_value(t);
                prop_assert!((received + alive - oracle.j).abs() < EXACT);
                prop_assert!((oracle.process()[t].finished_reward - received).abs() < EXACT);
            }
        }

        #[test]
        fn survival_is_the_mean_path_product_without_eos((tree, policy) in any_mdp()) {
            let oracle = Oracle::new(&tree, &policy);
            let (products, visits) = (oracle.path_products(), oracle.visits_without_eos());
            let end = |node| tree.eos_edge(node).map_or(0.0, |e| oracle.probs[e]);
            for node in tree.nodes() {
                let mut product = 1.0;
                let mut at = node;
                while let Some(edge) = tree.parent_edge(at) {
                    at = tree.edge_node(edge);
                    product *= 1.0 - end(at);
                }
                prop_assert!((products[node] - product).abs() < EXACT);
            }
            for t in 0..=tree.max_len() {
                let mean: f64 = tree.nodes_at(t).map(|n| visits[n] * products[n]).sum();
                prop_assert!((mean - oracle.survival(t)).abs() < EXACT);
                prop_assert!(tree.nodes_at(t).map(|n| visits[n]).sum::<f64>() < 1.0 + EXACT);
            }
        }

        #[test]
        fn the_variance_of_the_return_agrees_with_enumeration((tree, policy) in any_mdp()) {
            let oracle = Oracle::new(&tree, &policy);
            let g = |leaf| tree.gamma().powi(tree.leaf_len(leaf) as i32 - 1);
            let variance = oracle.expect_outcome(|leaf, r| (g(leaf) * r - oracle.j).powi(2));
            prop_assert!((oracle.variances()[0] - variance).abs() < EXACT * 10.0);
        }
    }
}
