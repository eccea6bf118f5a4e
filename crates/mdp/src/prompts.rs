//! [`PromptPolicy`]: one-token answers to many prompts, from parameters that the prompts share or not.

use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;

use super::draw::normal;

/// A softmax over answers for each of several prompts: the smallest policy in which an update for one prompt moves another.
///
/// ```text
/// table    logit(v | x) = W[x,v]                                              no prompt moves another
/// shared   u = tanh(c + sum_(f in x) E[f]),    logit(v | x) = b_v + V[v] u    x: the features of a prompt
/// ```
/// The parameters lie in one vector, so that any optimiser can step them.
///
/// ```
/// use grpo_lambda_mdp::PromptPolicy;
/// let policy = PromptPolicy::shared(vec![vec![0, 2], vec![1, 2]], 3, 4, 0.5, 1);
/// let p: f64 = policy.log_probs(0).iter().map(|x| x.exp()).sum();
/// assert!((p - 1.0).abs() < 1e-12);
/// let table = policy.as_table();
/// assert_eq!(table.log_probs(1), policy.log_probs(1)); // the same start, without what is shared
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct PromptPolicy {
    /// The features of each prompt, indices into the embeddings.
    prompts: Vec<Vec<usize>>,
    answers: usize,
    /// Hidden units; none in a table.
    hidden: Option<usize>,
    /// Number of embeddings.
    features: usize,
    parameters: Vec<f64>,
}

impl PromptPolicy {
    /// Random parameters of standard deviation `scale` from ChaCha8 seeded with `seed`. `prompts[x]` are the features of prompt `x`.
    ///
    /// # Panics
    /// If there is no prompt, no answer or no hidden unit.
    pub fn shared(prompts: Vec<Vec<usize>>, answers: usize, hidden: usize, scale: f64, seed: u64) -> Self {
        assert!(
            !prompts.is_empty() && answers > 0 && hidden > 0,
            "a policy has prompts, answers and hidden units"
        );
        let features = prompts.iter().flatten().max().map_or(0, |f| f + 1);
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let number = features * hidden + hidden + answers * hidden + answers;
        let parameters = (0..number).map(|_| scale * normal(&mut rng)).collect();
        PromptPolicy { prompts, answers, hidden: Some(hidden), features, parameters }
    }

    /// The table that gives every prompt the same probabilities.
    pub fn as_table(&self) -> PromptPolicy {
        let prompts = self.prompts.len();
        PromptPolicy {
            parameters: (0..prompts).flat_map(|x| self.log_probs(x)).collect(),
            prompts: (0..prompts).map(|x| vec![x]).collect(),
            answers: self.answers,
            hidden: None,
            features: prompts,
        }
    }

    /// Number of prompts.
    pub fn prompt_count(&self) -> usize {
        self.prompts.len()
    }

    /// The parameters, for an optimiser.
    pub fn parameters_mut(&mut self) -> &mut [f64] {
        &mut self.parameters
    }

    /// The ends of embeddings, hidden biases and output weights.
    fn places(&self, hidden: usize) -> [usize; 3] {
        let embeddings = self.features * hidden;
        [embeddings, embeddings + hidden, embeddings + hidden + self.answers * hidden]
    }

    /// `tanh(c + Σ E[f])` of a prompt.
    fn units(&self, prompt: usize, hidden: usize) -> Vec<f64> {
        let [bias, ..] = self.places(hidden);
        let unit = |h: usize| {
            let sum: f64 = self.prompts[prompt].iter().map(|f| self.parameters[f * hidden + h]).sum();
            (self.parameters[bias + h] + sum).tanh()
        };
        (0..hidden).map(unit).collect()
    }

    /// `log π(v | x)` of every answer, in nats.
    ///
    /// # Panics
    /// If there is no such prompt.
    pub fn log_probs(&self, prompt: usize) -> Vec<f64> {
        let logits: Vec<f64> = match self.hidden {
            None => self.parameters[prompt * self.answers..][..self.answers].to_vec(),
            Some(hidden) => {
                let [_, weights, bias] = self.places(hidden);
                let units = self.units(prompt, hidden);
                let logit = |v: usize| {
                    let row = &self.parameters[weights + v * hidden..][..hidden];
                    self.parameters[bias + v] + row.iter().zip(&units).map(|(w, u)| w * u).sum::<f64>()
                };
                (0..self.answers).map(logit).collect()
            }
        };
        let max = logits.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let norm = max + logits.iter().map(|x| (x - max).exp()).sum::<f64>().ln();
        logits.iter().map(|x| x - norm).collect()
    }

    /// Adds to `gradient` that of `Σ_v cotangent[v] log π(v | x)` in the parameters.
    ///
    /// # Panics
    /// If lengths differ.
    pub fn backward(&self, prompt: usize, cotangent: &[f64], gradient: &mut [f64]) {
        assert_eq!(
            (cotangent.len(), gradient.len()),
            (self.answers, self.parameters.len()),
            "one per answer and parameter"
        );
        let total: f64 = cotangent.iter().sum();
        let log_probs = self.log_probs(prompt);
        let logits: Vec<f64> = cotangent.iter().zip(&log_probs).map(|(c, l)| c - total * l.exp()).collect();
        let Some(hidden) = self.hidden else {
            let own = gradient[prompt * self.answers..].iter_mut();
            own.zip(&logits).for_each(|(g, l)| *g += l);
            return;
        };
        let [units_bias, weights, bias] = self.places(hidden);
        let units = self.units(prompt, hidden);
        let mut slopes = vec![0.0; hidden];
        for (v, l) in logits.iter().enumerate() {
            gradient[bias + v] += l;
            for h in 0..hidden {
                gradient[weights + v * hidden + h] += l * units[h];
                slopes[h] += l * self.parameters[weights + v * hidden + h] * (1.0 - units[h] * units[h]);
            }
        }
        for (h, slope) in slopes.iter().enumerate() {
            gradient[units_bias + h] += slope;
            self.prompts[prompt].iter().for_each(|f| gradient[f * hidden + h] += slope);
        }
    }

    /// A gradient of zeros.
    pub fn zero_gradient(&self) -> Vec<f64> {
        vec![0.0; self.parameters.len()]
    }

    /// `J`: the probability of the right answer, averaged over prompts. `right[x]` is the right answer to prompt `x`.
    pub fn j(&self, right: &[usize]) -> f64 {
        let prob = |(x, &v): (usize, &usize)| self.log_probs(x)[v].exp();
        right.iter().enumerate().map(prob).sum::<f64>() / right.len() as f64
    }

    /// `∇J` in the parameters, exactly.
    pub fn grad_j(&self, right: &[usize]) -> Vec<f64> {
        let mut gradient = self.zero_gradient();
        for (x, &v) in right.iter().enumerate() {
            let mut cotangent = vec![0.0; self.answers];
            cotangent[v] = self.log_probs(x)[v].exp() / right.len() as f64;
            self.backward(x, &cotangent, &mut gradient);
        }
        gradient
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gradients_agree_with_finite_differences_with_and_without_sharing() {
        let prompts = vec![vec![0, 3], vec![1, 3], vec![1, 4], vec![2, 4]];
        let shared = PromptPolicy::shared(prompts, 3, 5, 0.7, 3);
        let right = [0, 1, 2, 0];
        for policy in [shared.as_table(), shared] {
            let gradient = policy.grad_j(&right);
            for (i, g) in gradient.iter().enumerate() {
                let at = |h: f64| {
                    let mut moved = policy.clone();
                    moved.parameters_mut()[i] += h;
                    moved.j(&right)
                };
                let h = 1e-3;
                let numeric = (8.0 * (at(h) - at(-h)) - (at(2.0 * h) - at(-2.0 * h))) / (12.0 * h);
                assert!((g - numeric).abs() < 1e-9, "{i}: {g} {numeric}");
            }
        }
    }

    #[test]
    fn the_network_is_that_of_the_equation_with_parameters_in_order() {
        let mut policy = PromptPolicy::shared(vec![vec![0, 2], vec![1]], 3, 2, 0.0, 0);
        assert_eq!(policy.prompt_count(), 2);
        // 3 embeddings of 2, hidden biases, 3 rows of output weights, output biases.
        assert_eq!(policy.parameters_mut().len(), 6 + 2 + 6 + 3);
        let values: Vec<f64> = (0..17).map(|i| 0.1 * f64::from(i) - 0.8).collect();
        policy.parameters_mut().copy_from_slice(&values);
        for (x, features) in [(0, vec![0, 2]), (1, vec![1])] {
            let unit =
                |h: usize| (values[6 + h] + features.iter().map(|f| values[2 * f + h]).sum::<f64>()).tanh();
            let logit = |v: usize| values[14 + v] + values[8 + 2 * v] * unit(0) + values[9 + 2 * v] * unit(1);
            let total = (0..3).map(|v| logit(v).exp()).sum::<f64>();
            for (v, found) in policy.log_probs(x).into_iter().enumerate() {
                let expected = (logit(v).exp() / total).ln();
                assert!((found - expected).abs() < 1e-14, "{x}, {v}: {found}, not {expected}");
            }
        }
        assert_eq!(policy.grad_j(&[0, 1]).len(), 17);
        let start = |scale: f64| PromptPolicy::shared(vec![vec![0]], 2, 2, scale, 4).parameters;
        assert!(start(1.0).iter().zip(start(3.0)).all(|(a, b)| (3.0 * a - b).abs() < 1e-14 && *a != 0.0));
    }

    #[test]
    fn only_shared_parameters_move_another_prompt() {
        let shared = PromptPolicy::shared(vec![vec![0, 2], vec![1, 2]], 2, 3, 0.7, 1);
        for (policy, moves) in [(shared.as_table(), false), (shared, true)] {
            let mut gradient = policy.zero_gradient();
            policy.backward(0, &[1.0, 0.0], &mut gradient);
            let mut moved = policy.clone();
            moved.parameters_mut().iter_mut().zip(&gradient).for_each(|(p, g)| *p += 0.1 * g);
            assert!(moved.log_probs(0)[0] > policy.log_probs(0)[0]);
            assert_eq!(moved.log_probs(1) != policy.log_probs(1), moves);
        }
    }
}
