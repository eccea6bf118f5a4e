//! The token scores of OAR, of a [`Maskable`] policy.

use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;

use super::Maskable;
use crate::draw::normal;
use crate::{EdgeId, NodeId, Tree};

impl Maskable {
    /// OAR-P: `KL(P(answer) || P(answer | token t masked))` of every reasoning token.
    pub fn shifts(&self, tree: &Tree, path: &[EdgeId]) -> Vec<f64> {
        let node = tree.edge_node(path[Maskable::answer(tree, path)]);
        let mut inputs = self.inputs(tree, path);
        let clean = self.log_probs_at(tree, node, &inputs);
        let mut shift = |t: usize| {
            let own = std::mem::replace(&mut inputs[t], self.mask().to_vec());
            let masked = self.log_probs_at(tree, node, &inputs);
            inputs[t] = own;
            divergence(&clean, &masked)
        };
        (0..Maskable::answer(tree, path)).map(&mut shift).collect()
    }

    /// The gradient of `J = KL(p0 || P(answer | inputs))` in the embeddings of the reasoning tokens, `log p0` held.
    pub fn answer_gradient(
        &self,
        tree: &Tree,
        node: NodeId,
        inputs: &[Vec<f64>],
        log_p0: &[f64],
    ) -> Vec<Vec<f64>> {
        let hidden = self.hidden(inputs);
        let now = self.log_probs_at(tree, node, inputs);
        // dJ/dlogit = p - p0.
        let mut slope = vec![0.0; self.width];
        for ((e, p), p0) in tree.edges_of(node).zip(&now).zip(log_p0) {
            for (s, w) in slope.iter_mut().zip(&self.output[tree.token(e) as usize]) {
                *s += (p.exp() - p0.exp()) * w;
            }
        }
        let through =
            |g: &Vec<f64>| (0..self.width).map(|h| slope[h] * (1.0 - hidden[h] * hidden[h]) * g[h]).collect();
        self.gains[..inputs.len()].iter().map(through).collect()
    }

    /// OAR-G: `|<dJ/de_t, e_t>|` of every reasoning token, averaged over `draws` perturbations of standard deviation `noise`.
    ///
    /// The gradient is taken at the perturbed embeddings and multiplied with the clean ones, as the authors' code does. The draws of a
    /// response are its own: seeded with `seed` and its last edge.
    pub fn saliencies(&self, tree: &Tree, path: &[EdgeId], noise: f64, draws: usize, seed: u64) -> Vec<f64> {
        let last = path[path.len() - 1];
        let node = tree.edge_node(path[Maskable::answer(tree, path)]);
        let inputs = self.inputs(tree, path);
        let clean = self.log_probs_at(tree, node, &inputs);
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        rng.set_stream(last as u64);
        let mut scores = vec![0.0; inputs.len()];
        for _ in 0..draws {
            let moved: Vec<Vec<f64>> =
                inputs.iter().map(|e| e.iter().map(|x| x + noise * normal(&mut rng)).collect()).collect();
            let gradient = self.answer_gradient(tree, node, &moved, &clean);
            for ((score, g), e) in scores.iter_mut().zip(&gradient).zip(&inputs) {
                *score += g.iter().zip(e).map(|(g, e)| g * e).sum::<f64>().abs() / draws as f64;
            }
        }
        scores
    }
}

/// `KL(p || q)` of log-probabilities over the same tokens.
fn divergence(log_p: &[f64], log_q: &[f64]) -> f64 {
    log_p.iter().zip(log_q).map(|(p, q)| p.exp() * (p - q)).sum::<f64>().max(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::zoo::{self, Family};

    #[test]
    fn the_answer_is_the_last_choice() {
        let tree = zoo::LuckyGuess::default().tree().unwrap();
        let path = tree.path(0); // step, three of work, answer, EOS
        assert_eq!((path.len(), Maskable::answer(&tree, &path)), (6, 4));
        let policy = Maskable::random(&tree, 4, 0.8, 2);
        assert_eq!(policy.shifts(&tree, &path).len(), 4);
        assert!(policy.shifts(&tree, &path).iter().any(|s| *s > 1e-6));
    }
}
