//! A [`Maskable`] policy fitted to a table.

use super::Maskable;
use crate::{Oracle, Tabular, Tree};

impl Maskable {
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

    /// A policy of this shape with every parameter 0.
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
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::zoo::{self, Family};

    /// Adam as its paper writes it: corrected moments, one parameter after the other, at a rate that falls to 0 in a line.
    #[test]
    fn the_steps_of_the_fit_are_those_of_adam() {
        let family = zoo::LuckyGuess::default();
        let tree = family.tree().unwrap();
        let target = family.initial(&tree);
        let oracle = Oracle::new(&tree, &target);
        let steps = 4;
        let mut policy = Maskable::random(&tree, 3, 0.5, 7);
        let n = policy.parameters().count();
        let mut moments = vec![(0.0, 0.0); n];
        for t in 1..=steps {
            let (_, mut gradient) = policy.divergence_from(&oracle);
            let rate = 0.05 * (steps + 1 - t) as f64 / steps as f64;
            let gradient: Vec<f64> = gradient.parameters().map(|g| *g).collect();
            for (i, x) in policy.parameters().enumerate() {
                let (m, v) = &mut moments[i];
                *m += (gradient[i] - *m) / 10.0;
                *v += (gradient[i].powi(2) - *v) / 1000.0;
                let corrected = (*m / (1.0 - 0.9f64.powi(t)), *v / (1.0 - 0.999f64.powi(t)));
                *x -= rate * corrected.0 / (corrected.1.sqrt() + 1e-8);
            }
        }
        let (mut fitted, left) = Maskable::fitted(&tree, &target, 3, 7, steps as usize);
        assert!(fitted.parameters().zip(policy.parameters()).all(|(a, b)| (*a - *b).abs() < 1e-12));
        assert!((left - policy.divergence_from(&oracle).0).abs() < 1e-12);
    }

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
}
