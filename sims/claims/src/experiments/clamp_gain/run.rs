//! The twin of addition: a hundred sums of two digits, answered modulo ten, from one small network or from a table with the same start.

use grpo_lambda_mdp::PromptPolicy;
use rand::RngExt;
use rand_chacha::ChaCha8Rng;

use super::optimiser::{Kind, Optimiser};
use super::weights::Arm;
use crate::experiments::common::random::stream;
use crate::training::GROUP;

/// Digits of a summand, and answers.
const DIGITS: usize = 10;
/// Hidden units.
const HIDDEN: usize = 24;
/// Prompts per update.
const PROMPTS: usize = 8;
/// `J` of the start policy, reached by imitation.
const START: f64 = 0.4;
/// The network's initial weights.
const SCALE: f64 = 0.4;

/// The problems with a start policy that imitation has brought to [`START`].
pub(super) struct Sums {
    pub(super) right: Vec<usize>,
    pub(super) shared: PromptPolicy,
    pub(super) table: PromptPolicy,
}

impl Sums {
    /// The start policy of a seed.
    pub(super) fn new(seed: u64) -> Sums {
        let pairs = (0..DIGITS).flat_map(|a| (0..DIGITS).map(move |b| (a, b)));
        let (prompts, right): (Vec<Vec<usize>>, Vec<usize>) =
            pairs.map(|(a, b)| (vec![a, DIGITS + b], (a + b) % DIGITS)).unzip();
        let mut shared = PromptPolicy::shared(prompts, DIGITS, HIDDEN, SCALE, seed);
        let mut adam = Optimiser::new(Kind::AdamW, 0.01, shared.zero_gradient().len());
        while shared.j(&right) < START {
            let mut gradient = shared.zero_gradient();
            for (x, &v) in right.iter().enumerate() {
                let mut cotangent = vec![0.0; DIGITS];
                cotangent[v] = 1.0 / right.len() as f64;
                shared.backward(x, &cotangent, &mut gradient);
            }
            adam.ascend(shared.parameters_mut(), &gradient);
        }
        let table = shared.as_table();
        Sums { right, shared, table }
    }

    /// The success rate of every prompt under the start policy.
    pub(super) fn start(&self) -> Vec<f64> {
        self.right.iter().enumerate().map(|(x, &v)| self.shared.log_probs(x)[v].exp()).collect()
    }
}

/// Which policy is trained, how, at which rate, for how long.
#[derive(Clone, Copy, Debug)]
pub(super) struct Setting {
    pub(super) shared: bool,
    pub(super) kind: Kind,
    pub(super) rate: f64,
    pub(super) updates: usize,
}

/// `J` after the last update.
pub(super) fn train(sums: &Sums, arm: Arm, setting: Setting, seed: u64) -> f64 {
    let mut policy = if setting.shared { sums.shared.clone() } else { sums.table.clone() };
    let mut optimiser = Optimiser::new(setting.kind, setting.rate, policy.zero_gradient().len());
    let mut rng = stream(seed, 7);
    for _ in 0..setting.updates {
        let mut gradient = policy.zero_gradient();
        for _ in 0..PROMPTS {
            let x = rng.random_range(0..policy.prompt_count() as u32) as usize;
            let answers = sample(&policy.log_probs(x), &mut rng);
            let right = answers.iter().filter(|&&v| v == sums.right[x]).count();
            let [wrong, own] = arm.advantages(right);
            let mut cotangent = vec![0.0; DIGITS];
            for v in answers {
                let advantage = if v == sums.right[x] { own } else { wrong };
                cotangent[v] += advantage / (GROUP * PROMPTS) as f64;
            }
            policy.backward(x, &cotangent, &mut gradient);
        }
        optimiser.ascend(policy.parameters_mut(), &gradient);
    }
    policy.j(&sums.right)
}

/// A group of answers.
fn sample(log_probs: &[f64], rng: &mut ChaCha8Rng) -> [usize; GROUP] {
    std::array::from_fn(|_| {
        let mut left = rng.random::<f64>();
        let last = log_probs.len() - 1;
        let taken = log_probs[..last].iter().position(|l| {
            left -= l.exp();
            left < 0.0
        });
        taken.unwrap_or(last)
    })
}
