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
