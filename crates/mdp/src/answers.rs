//! [`Answers`]: what a prefix says about the answer, exactly; the ground truth of scores that ask how far a token moves it.

use super::{EdgeId, NodeId, Oracle, Target, Tree};

/// The distribution of a response's last token, its answer, given each prefix, on a tree whose responses all have one length.
///
/// ```text
/// P(z | s) = sum_a pi(a|s) P(z | s a)                  by dynamic programming from the leaves
/// ```
/// Two exact counterfactuals of a reasoning token `a_t` (all but the last) follow:
///
/// ```text
/// gain       D_t = KL( P(z | s_{t+1}) || P(z | s_t) )                    what the token tells when it is written
/// hindsight  M_t = KL( P(z | a_0 .. a_{T-2}) || P(z | the same without a_t) )     what it still tells once all others are known
/// ```
/// where "without `a_t`" marginalises it by its posterior given the tokens before and after it: an ideal mask. The mean of `D_t` over
/// `a_t` is the mutual information of token and answer. If the reward is a function of the answer with values in `[0, 1]`, Pinsker's
/// inequality gives `|A(s_t, a_t)| <= sqrt(D_t / 2)`.
#[derive(Clone, Debug)]
pub struct Answers<'t> {
    tree: &'t Tree,
    probs: Vec<f64>,
    /// `P(z | s)` per node, over tokens.
    given: Vec<Vec<f64>>,
}

impl<'t> Answers<'t> {
    /// The distributions under the oracle's policy.
    ///
    /// # Panics
    /// If the responses have different lengths.
    pub fn new(oracle: &Oracle<'t>) -> Answers<'t> {
        let tree = oracle.tree;
        let len = tree.max_len();
        assert!(tree.leaves().all(|leaf| tree.leaf_len(leaf) == len), "responses of one length");
        let mut given = vec![vec![0.0; tree.tokens().len()]; tree.node_count()];
        for node in tree.nodes().rev() {
            let mut own = vec![0.0; tree.tokens().len()];
            for e in tree.edges_of(node) {
                match tree.target(e) {
                    Target::Leaf(_) => own[tree.token(e) as usize] += oracle.probs[e],
                    Target::Node(child) => {
                        own.iter_mut().zip(&given[child]).for_each(|(o, p)| *o += oracle.probs[e] * p);
                    }
                }
            }
            given[node] = own;
        }
        Answers { tree, probs: oracle.probs.clone(), given }
    }

    /// `P(z | s)` of every token `z`.
    pub fn given(&self, node: NodeId) -> &[f64] {
        &self.given[node]
    }

    /// `D_t` of every reasoning token of a response, in nats.
    pub fn gains(&self, path: &[EdgeId]) -> Vec<f64> {
        let nodes: Vec<NodeId> = path.iter().map(|&e| self.tree.edge_node(e)).collect();
        nodes.windows(2).map(|w| divergence(&self.given[w[1]], &self.given[w[0]])).collect()
    }

    /// `M_t` of every reasoning token of a response, in nats.
    pub fn hindsights(&self, path: &[EdgeId]) -> Vec<f64> {
        let reasoning = &path[..path.len() - 1];
        let clean = &self.given[self.tree.edge_node(path[path.len() - 1])];
        let gain = |t: usize| {
            let mut mixed = vec![0.0; clean.len()];
            let mut mass = 0.0;
            for other in self.tree.edges_of(self.tree.edge_node(path[t])) {
                let Some((weight, end)) = self.with(other, &reasoning[t + 1..]) else { continue };
                mass += weight;
                mixed.iter_mut().zip(&self.given[end]).for_each(|(m, p)| *m += weight * p);
            }
            mixed.iter_mut().for_each(|m| *m /= mass);
            divergence(clean, &mixed)
        };
        (0..reasoning.len()).map(gain).collect()
    }

    /// The probability of `edge` followed by the tokens of `rest`, and the prefix they lead to; `None` where they cannot follow.
    fn with(&self, edge: EdgeId, rest: &[EdgeId]) -> Option<(f64, NodeId)> {
        let mut weight = self.probs[edge];
        let mut at = self.tree.target(edge);
        for &e in rest {
            let Target::Node(node) = at else { return None };
            let next = self.tree.edge(node, self.tree.token(e))?;
            weight *= self.probs[next];
            at = self.tree.target(next);
        }
        match at {
            Target::Node(node) => Some((weight, node)),
            Target::Leaf(_) => None,
        }
    }
}

/// `KL(p || q)` where `q` is positive wherever `p` is.
fn divergence(p: &[f64], q: &[f64]) -> f64 {
    let term = |(p, q): (&f64, &f64)| if *p > 0.0 { p * (p / q).ln() } else { 0.0 };
    p.iter().zip(q).map(term).sum::<f64>().max(0.0)
}
