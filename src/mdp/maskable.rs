//! [`Maskable`]: a small parametric policy whose input tokens can be masked and differentiated, for the scores of OAR, and whose hidden units
//! can be compared, for SHEAR.

use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;

use super::draw::normal;
use super::evidence::{Exact, Provider};
use super::{EdgeId, LeafId, NodeId, Oracle, Tabular, Tree};
use crate::group::{Evidence, EvidenceKind};

/// An embedding and one layer on the tokens of a prefix.
///
/// ```text
/// c       = sum_k g_k * e(a_k)                          g_k: a gain per position and unit, e: an embedding per token and for the mask
/// u       = tanh(c),      logit(v | s) = sum_h W[v,h] u_h + b_v          over the legal tokens of the prefix
/// ```
/// Its answer is the distribution of the last token of a response that was a choice: all before it is reasoning. (An EOS that nothing else could have
/// been answers nothing: its distribution never moves.) Masking token `t` replaces its
/// embedding by the mask's.
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

    /// The policy of this shape nearest to `target`: full-batch Adam on `KL(P_target(response) || P(response))` from random parameters. With it the divergence
    /// that is left, in nats per response.
    ///
    /// The mask's embedding takes no part in any response and keeps its random start, as a padding token that was never trained.
    ///
    /// # Panics
    /// If `target` belongs to a tree of another size.
    pub fn fitted(tree: &Tree, target: &Tabular, width: usize, seed: u64, steps: usize) -> (Maskable, f64) {
        let oracle = Oracle::new(tree, target);
        let mut policy = Maskable::random(tree, width, 0.5, seed);
        let (mut mean, mut square) = (policy.zeros(), policy.zeros());
        for step in 1..=steps {
            let (_, mut gradient) = policy.divergence_from(&oracle);
            let rate = 0.05 * (1.0 - (step - 1) as f64 / steps as f64);
            let (a, b) = (1.0 - 0.9f64.powi(step as i32), 1.0 - 0.999f64.powi(step as i32));
            let moments = mean.parameters().zip(square.parameters());
            for ((x, g), (m, s)) in policy.parameters().zip(gradient.parameters()).zip(moments) {
                *m = 0.9 * *m + 0.1 * *g;
                *s = 0.999 * *s + 0.001 * *g * *g;
                *x -= rate * (*m / a) / ((*s / b).sqrt() + 1e-8);
            }
        }
        let (left, _) = policy.divergence_from(&oracle);
        (policy, left)
    }

    /// The same shape with every parameter 0.
    fn zeros(&self) -> Maskable {
        let mut zeros = self.clone();
        zeros.parameters().for_each(|x| *x = 0.0);
        zeros
    }

    fn parameters(&mut self) -> impl Iterator<Item = &mut f64> {
        let rows = self.embeddings.iter_mut().chain(&mut self.gains).chain(&mut self.output);
        rows.flatten().chain(&mut self.bias)
    }

    /// `Σ_s d(s) KL(π(.|s) || this(.|s))` and its gradient, in the shape of a policy.
    fn divergence_from(&self, target: &Oracle) -> (f64, Maskable) {
        let (tree, mut gradient, mut total) = (target.tree, self.zeros(), 0.0);
        for node in tree.nodes() {
            let (prefix, visit) = (tree.prefix(node), target.visit[node]);
            let inputs: Vec<Vec<f64>> =
                prefix.iter().map(|&token| self.embeddings[token as usize].clone()).collect();
            let hidden = self.hidden(&inputs);
            let own = self.log_probs_at(tree, node, &inputs);
            let mut slope = vec![0.0; self.width];
            for (edge, log_p) in tree.edges_of(node).zip(own) {
                total += visit * target.probs[edge] * (target.log_probs[edge] - log_p);
                let (v, d) = (tree.token(edge) as usize, visit * (log_p.exp() - target.probs[edge]));
                gradient.bias[v] += d;
                for h in 0..self.width {
                    gradient.output[v][h] += d * hidden[h];
                    slope[h] += d * self.output[v][h];
                }
            }
            for h in 0..self.width {
                let d = slope[h] * (1.0 - hidden[h] * hidden[h]);
                for (k, &token) in prefix.iter().enumerate() {
                    gradient.embeddings[token as usize][h] += d * self.gains[k][h];
                    gradient.gains[k][h] += d * inputs[k][h];
                }
            }
        }
        (total, gradient)
    }

    /// The embedding that stands for a masked token.
    pub fn mask(&self) -> &[f64] {
        &self.embeddings[self.embeddings.len() - 1]
    }

    /// The position of a response's answer: its last token that was a choice, the last of all where none was.
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

    /// The same policy as a table, for the oracle and the sampler.
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

/// The evidence of a [`Maskable`] policy: everything a table gives, both scores, and its hidden units.
#[derive(Clone, Debug)]
pub struct MaskableEvidence<'t> {
    policy: Maskable,
    tree: &'t Tree,
    exact: Exact,
    /// Standard deviation of the perturbation of OAR-G; the authors' is 1e-3.
    pub noise: f64,
    /// Perturbations averaged per response; the authors take 1.
    pub draws: usize,
    /// Seed of the perturbations.
    pub seed: u64,
}

impl<'t> MaskableEvidence<'t> {
    /// The scores of `policy` on `tree`, with eight draws of noise 1e-3.
    pub fn new(tree: &'t Tree, policy: Maskable) -> MaskableEvidence<'t> {
        let exact = Exact::new(&Oracle::new(tree, &policy.tabular(tree)));
        MaskableEvidence { policy, tree, exact, noise: 1e-3, draws: 8, seed: 0 }
    }
}

impl Provider for MaskableEvidence<'_> {
    fn evidence(&self, leaf: LeafId, path: &[EdgeId]) -> Evidence {
        Evidence {
            shifts: Some(self.policy.shifts(self.tree, path)),
            saliencies: Some(self.policy.saliencies(self.tree, path, self.noise, self.draws, self.seed)),
            hidden: Some(self.policy.states(self.tree, path)),
            ..self.exact.evidence(leaf, path)
        }
    }

    fn kinds(&self) -> Vec<EvidenceKind> {
        [self.exact.kinds(), vec![EvidenceKind::Shifts, EvidenceKind::Saliencies, EvidenceKind::Hidden]]
            .concat()
    }
}

#[cfg(test)]
mod tests {
    use super::super::zoo::{self, Family};
    use super::*;

    #[test]
    fn the_gradient_of_the_fit_is_that_of_finite_differences_and_the_fit_lowers_it() {
        let family = zoo::LuckyGuess::default();
        let tree = family.tree().unwrap();
        let target = family.initial(&tree);
        let oracle = Oracle::new(&tree, &target);
        let policy = Maskable::random(&tree, 3, 0.5, 1);
        let (start, mut gradient) = policy.divergence_from(&oracle);
        let gradient: Vec<f64> = gradient.parameters().map(|x| *x).collect();
        for (i, g) in gradient.iter().enumerate() {
            let at = |step: f64| {
                let mut moved = policy.clone();
                *moved.parameters().nth(i).unwrap() += step;
                moved.divergence_from(&oracle).0
            };
            let slope = (at(1e-5) - at(-1e-5)) / 2e-5;
            assert!((g - slope).abs() < 1e-8, "{i}: {g} {slope}");
        }
        let (fitted, left) = Maskable::fitted(&tree, &target, 6, 1, 300);
        assert!(left < 0.02 && start > 10.0 * left, "{start} {left}");
        // The divergence of whole responses, by enumeration.
        let other = Oracle::new(&tree, &fitted.tabular(&tree));
        let kl = oracle.expect(|leaf| (oracle.leaf_prob(leaf) / other.leaf_prob(leaf)).ln());
        assert!((kl - left).abs() < 1e-12);
    }

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
