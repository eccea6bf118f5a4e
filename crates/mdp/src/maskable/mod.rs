//! [`Maskable`]: a small parametric policy. Its input tokens can be masked and differentiated, for the scores of OAR; its hidden units can
//! be compared, for SHEAR.

mod extra_inputs;
mod fit;
mod scores;

pub use extra_inputs::MaskableInputs;

use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;

use super::draw::normal;
use super::{EdgeId, NodeId, Tabular, Tree};

/// An embedding and one layer on the tokens of a prefix.
///
/// ```text
/// c       = sum_k g_k * e(a_k)                          g_k: a gain per position and unit, e: an embedding per token and for the mask
/// u       = tanh(c),      logit(v | s) = sum_h W[v,h] u_h + b_v          over the legal tokens of the prefix
/// ```
/// The answer of a response is its last token at a prefix with more than one legal token; the tokens before it are its reasoning. (Where
/// EOS is the only legal token it is no answer, since its probability is always 1.) Masking token `t` replaces its embedding by the mask's.
#[derive(Clone, Debug, PartialEq)]
pub struct Maskable {
    width: usize,
    /// Embeddings, one row per token; the last row is the mask's.
    embeddings: Vec<Vec<f64>>,
    /// Gains, one row per position.
    gains: Vec<Vec<f64>>,
    /// Output weights, one row per token.
    output: Vec<Vec<f64>>,
    bias: Vec<f64>,
}

impl Maskable {
    /// Random parameters of standard deviation `scale` (gains around 1) for `tree`, from ChaCha8 seeded with `seed`.
    pub fn random(tree: &Tree, width: usize, scale: f64, seed: u64) -> Maskable {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let tokens = tree.tokens().len();
        let mut rows = |n: usize, mean: f64| -> Vec<Vec<f64>> {
            (0..n).map(|_| (0..width).map(|_| mean + scale * normal(&mut rng)).collect()).collect()
        };
        let (embeddings, gains, output) =
            (rows(tokens + 1, 0.0), rows(tree.horizon(), 1.0), rows(tokens, 0.0));
        Maskable { width, embeddings, gains, output, bias: vec![0.0; tokens] }
    }

    /// The embedding that stands for a masked token.
    pub fn mask(&self) -> &[f64] {
        &self.embeddings[self.embeddings.len() - 1]
    }

    /// The position of a response's answer: its last token at a prefix with more than one legal token, or its last token where there is no
    /// such prefix.
    pub fn answer(tree: &Tree, path: &[EdgeId]) -> usize {
        let choice = |&e: &EdgeId| tree.edges_of(tree.edge_node(e)).len() > 1;
        path.iter().rposition(choice).unwrap_or(path.len() - 1)
    }

    /// The embeddings of a response's reasoning tokens: all before its answer.
    pub fn inputs(&self, tree: &Tree, path: &[EdgeId]) -> Vec<Vec<f64>> {
        let reasoning = &path[..Maskable::answer(tree, path)];
        reasoning.iter().map(|&e| self.embeddings[tree.token(e) as usize].clone()).collect()
    }

    /// The hidden units once each token of a response has been read, one vector per token.
    pub fn states(&self, tree: &Tree, path: &[EdgeId]) -> Vec<Vec<f64>> {
        let all: Vec<Vec<f64>> =
            path.iter().map(|&e| self.embeddings[tree.token(e) as usize].clone()).collect();
        (1..=all.len()).map(|n| self.hidden(&all[..n])).collect()
    }

    /// The hidden units of a prefix given by its embeddings.
    fn hidden(&self, inputs: &[Vec<f64>]) -> Vec<f64> {
        let unit = |h: usize| inputs.iter().zip(&self.gains).map(|(e, g)| g[h] * e[h]).sum::<f64>().tanh();
        (0..self.width).map(unit).collect()
    }

    /// `log π` over the edges of `node`, whose prefix has the embeddings `inputs`.
    ///
    /// # Panics
    /// If there are more embeddings than positions.
    pub fn log_probs_at(&self, tree: &Tree, node: NodeId, inputs: &[Vec<f64>]) -> Vec<f64> {
        assert!(inputs.len() <= self.gains.len(), "one gain per position");
        let hidden = self.hidden(inputs);
        let logit = |e: EdgeId| {
            let v = tree.token(e) as usize;
            self.bias[v] + self.output[v].iter().zip(&hidden).map(|(w, u)| w * u).sum::<f64>()
        };
        let logits: Vec<f64> = tree.edges_of(node).map(logit).collect();
        let max = logits.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let norm = max + logits.iter().map(|x| (x - max).exp()).sum::<f64>().ln();
        logits.iter().map(|x| x - norm).collect()
    }

    /// This policy as a table, for the oracle and the sampler.
    pub fn tabular(&self, tree: &Tree) -> Tabular {
        let mut logits = Vec::with_capacity(tree.edge_count());
        for node in tree.nodes() {
            let mut path = Vec::new();
            let mut at = node;
            while let Some(edge) = tree.parent_edge(at) {
                path.push(edge);
                at = tree.edge_node(edge);
            }
            let inputs: Vec<Vec<f64>> =
                path.iter().rev().map(|&e| self.embeddings[tree.token(e) as usize].clone()).collect();
            logits.extend(self.log_probs_at(tree, node, &inputs));
        }
        Tabular::from_logits(tree, logits)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::zoo::{self, Family};

    #[test]
    fn the_mask_has_an_embedding_of_its_own() {
        let tree = zoo::Chain::default().tree().unwrap();
        let policy = Maskable::random(&tree, 3, 1.0, 1);
        assert_eq!(policy.embeddings.len(), tree.tokens().len() + 1);
        assert_eq!((policy.gains.len(), policy.output.len()), (tree.horizon(), tree.tokens().len()));
    }
}
