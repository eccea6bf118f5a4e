//! The arms, and the expected weight of a prompt under each.

use crate::experiments::common::{norm, stream};
use crate::training::GROUP;
use grpo_lambda::advantage::{Baseline, ClampPart, OutcomeAdvantage, Scale, Std};
use grpo_lambda_mdp::PromptPolicy;
use rand::RngExt;
use rand_chacha::ChaCha8Rng;
use serde::{Deserialize, Serialize};

/// The paper's clamp.
const CLAMP: f64 = -0.1;

/// A choice among the parts of the clamp.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Arm {
    pub(crate) name: &'static str,
    part: ClampPart,
    /// True if the advantages of the part are multiplied by the clamp's weight over GRPO's at the prompt's true success rate, which only a
    /// table or a small network knows: its expected update is that of the clamp, without the clamp's contrast within a group.
    with_weights_of_clamp: bool,
}

const fn arm(name: &'static str, part: ClampPart) -> Arm {
    Arm { name, part, with_weights_of_clamp: false }
}

/// The arms; the first is GRPO.
pub(crate) const ARMS: [Arm; 5] = [
    arm("none (GRPO)", ClampPart::None),
    arm("re-weighting only", ClampPart::Reweighting),
    arm("offset only", ClampPart::Offset),
    arm("both (the clamp)", ClampPart::Both),
    Arm { name: "the clamp's weights", part: ClampPart::None, with_weights_of_clamp: true },
];
/// The places of the arms.
pub(crate) const REWEIGHTING: usize = 1;
pub(crate) const OFFSET: usize = 2;
pub(crate) const CLAMPED: usize = 3;
pub(crate) const WEIGHTS: usize = 4;

/// Advantages of a group whose first `right` responses are right.
fn advantages(clamp: Option<f64>, right: usize) -> Vec<f64> {
    let outcome = OutcomeAdvantage { baseline: Baseline::GroupMean, scale: Scale::Group(Std::TRL), clamp };
    let rewards = (0..GROUP).map(|i| Some(f64::from(u8::from(i < right)))).collect();
    outcome.of_batch(&[rewards]).remove(0)
}

/// The advantages of a wrong and of a right response in a group, by the number of right ones; 0 if all agree.
type ByRight = [[f64; 2]; GROUP + 1];

/// An arm, ready for many groups.
pub(super) struct Prepared {
    own: ByRight,
    /// The clamp's, where the arm has its weights.
    clamp: Option<ByRight>,
}

impl Arm {
    pub(super) fn prepared(self) -> Prepared {
        let of_part = |part: ClampPart| {
            std::array::from_fn(|right| {
                let all = part.of_group(&advantages(None, right), &advantages(Some(CLAMP), right));
                [all[GROUP - 1], all[0]]
            })
        };
        let clamp = self.with_weights_of_clamp.then(|| of_part(ClampPart::Both));
        Prepared { own: of_part(self.part), clamp }
    }
}

impl Prepared {
    /// The advantages of a wrong and of a right response in a group with `right` right ones, to a prompt of success rate `p`.
    fn advantages(&self, right: usize, p: f64) -> [f64; 2] {
        let factor = self.clamp.as_ref().map_or(1.0, |clamp| weight(clamp, p) / weight(&self.own, p));
        self.own[right].map(|advantage| factor * advantage)
    }

    /// The multiple of `∇p` that is the expected update of a group at success rate `p`, per response.
    pub(super) fn weight(&self, p: f64) -> f64 {
        weight(self.clamp.as_ref().unwrap_or(&self.own), p)
    }
}

/// The multiple of `∇p` by Stein's identity, which divides by nothing:
///
/// ```text
/// w(p) = (G-1)/G E[β_(k+1)] + E[α_(k+1) - α_k],    k of Bin(G-2, p) and of Bin(G-1, p)
/// ```
fn weight(advantages: &ByRight, p: f64) -> f64 {
    let n = GROUP as f64;
    let offset = |k: usize| {
        let [wrong, right] = advantages[k];
        (k as f64 * right + (n - k as f64) * wrong) / n
    };
    let contrast = binomial(GROUP - 2, p, |k| advantages[k + 1][1] - advantages[k + 1][0]);
    (n - 1.0) / n * contrast + binomial(GROUP - 1, p, |k| offset(k + 1) - offset(k))
}

/// `E[f(k)]` for `k` of Bin(n, p), by `n` mixtures of neighbours.
fn binomial(n: usize, p: f64, f: impl Fn(usize) -> f64) -> f64 {
    let mut values: Vec<f64> = (0..=n).map(f).collect();
    for left in (0..n).rev() {
        (0..=left).for_each(|k| values[k] += p * (values[k + 1] - values[k]));
    }
    values[0]
}

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

/// The policy that is trained, its optimiser, learning rate and number of updates.
#[derive(Clone, Copy, Debug)]
pub(super) struct Setting {
    pub(super) shared: bool,
    pub(super) kind: Kind,
    pub(super) rate: f64,
    pub(super) updates: usize,
}

#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub(super) struct Course {
    /// Mean of `J` over the updates, by trapezoids: unlike the last `J` it tells runs apart that all end near 1.
    pub(super) area: f64,
    /// `J` after the last update.
    pub(super) last: f64,
    /// Updates until `J` reaches [`LEARNED`], if it does.
    pub(super) learned: Option<usize>,
}

/// Updates between two looks at `J`.
const EVERY: usize = 10;
/// The `J` that counts as learned.
pub(super) const LEARNED: f64 = 0.8;

/// Trains and watches `J`.
pub(super) fn train(sums: &Sums, arm: Arm, setting: Setting, seed: u64) -> Course {
    let mut policy = if setting.shared { sums.shared.clone() } else { sums.table.clone() };
    let mut optimiser = Optimiser::new(setting.kind, setting.rate, policy.zero_gradient().len());
    let (advantages, mut rng) = (arm.prepared(), stream(seed, 7));
    let mut j = policy.j(&sums.right);
    let mut course = Course::default();
    for update in 1..=setting.updates {
        let mut gradient = policy.zero_gradient();
        for _ in 0..PROMPTS {
            let x = rng.random_range(0..policy.prompt_count() as u32) as usize;
            let log_probs = policy.log_probs(x);
            let answers = sample(&log_probs, &mut rng);
            let right = answers.iter().filter(|&&v| v == sums.right[x]).count();
            let [wrong, own] = advantages.advantages(right, log_probs[sums.right[x]].exp());
            let mut cotangent = vec![0.0; DIGITS];
            for v in answers {
                let advantage = if v == sums.right[x] { own } else { wrong };
                cotangent[v] += advantage / (GROUP * PROMPTS) as f64;
            }
            policy.backward(x, &cotangent, &mut gradient);
        }
        optimiser.ascend(policy.parameters_mut(), &gradient);
        if update % EVERY == 0 {
            let next = policy.j(&sums.right);
            course.area += (j + next) / 2.0 * EVERY as f64 / setting.updates as f64;
            if next >= LEARNED {
                course.learned.get_or_insert(update);
            }
            j = next;
        }
    }
    Course { last: j, ..course }
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

/// An optimiser without its state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Plain gradient ascent.
    Sgd,
    /// AdamW (Loshchilov & Hutter 2019) with betas 0.9 and 0.999, epsilon 1e-8, no weight decay, gradients clipped to norm 1: as
    /// language models are trained.
    AdamW,
}

impl Kind {
    pub(super) const ALL: [Kind; 2] = [Kind::Sgd, Kind::AdamW];

    pub(super) fn name(self) -> &'static str {
        match self {
            Kind::Sgd => "SGD",
            Kind::AdamW => "AdamW",
        }
    }
}

/// An optimiser with its state.
struct Optimiser {
    kind: Kind,
    rate: f64,
    step: i32,
    first: Vec<f64>,
    second: Vec<f64>,
}

const BETAS: [f64; 2] = [0.9, 0.999];
const EPSILON: f64 = 1e-8;
const NORM: f64 = 1.0;

impl Optimiser {
    fn new(kind: Kind, rate: f64, parameters: usize) -> Optimiser {
        Optimiser { kind, rate, step: 0, first: vec![0.0; parameters], second: vec![0.0; parameters] }
    }

    /// Moves the parameters up the gradient.
    fn ascend(&mut self, parameters: &mut [f64], gradient: &[f64]) {
        if self.kind == Kind::Sgd {
            parameters.iter_mut().zip(gradient).for_each(|(p, g)| *p += self.rate * g);
            return;
        }
        let shrink = (NORM / norm(gradient).max(NORM)).min(1.0);
        self.step += 1;
        let corrections = BETAS.map(|b| 1.0 - b.powi(self.step));
        let moments = self.first.iter_mut().zip(&mut self.second);
        for ((p, g), (m, v)) in parameters.iter_mut().zip(gradient).zip(moments) {
            let g = g * shrink;
            *m = BETAS[0] * *m + (1.0 - BETAS[0]) * g;
            *v = BETAS[1] * *v + (1.0 - BETAS[1]) * g * g;
            *p += self.rate * (*m / corrections[0]) / ((*v / corrections[1]).sqrt() + EPSILON);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use grpo_lambda::methods;
    use grpo_lambda_mdp::expected::{Situation, implied_mean};
    use grpo_lambda_mdp::{Oracle, Rules, Tabular};

    #[test]
    fn both_parts_together_are_the_clamp_and_none_is_grpo() {
        for right in 1..GROUP {
            for (arm, clamp) in [(ARMS[0], None), (ARMS[3], Some(CLAMP))] {
                let (ours, want) = (arm.prepared().advantages(right, 0.3), advantages(clamp, right));
                assert_eq!(ours, [want[GROUP - 1], want[0]], "{right}");
            }
            // The offset is what the group's advantages sum to.
            let sum = |arm: Arm| {
                let [wrong, own] = arm.prepared().advantages(right, 0.3);
                wrong * (GROUP - right) as f64 + own * right as f64
            };
            assert!(sum(ARMS[1]).abs() < 1e-12 && (sum(ARMS[2]) - sum(ARMS[3])).abs() < 1e-12);
        }
    }

    /// The sum over groups of the module's page, which divides by p (1 - p); the advantages of the last arm are the clamp's weights apart.
    #[test]
    fn weights_are_the_sum_over_groups() {
        for arm in ARMS {
            let prepared = arm.prepared();
            for p in [0.01, 0.3, 0.5, 0.9, 0.99] {
                let (n, mut chance, mut sum) = (GROUP as f64, (1.0f64 - p).powi(GROUP as i32), 0.0);
                for right in 0..=GROUP {
                    let [wrong, own] = prepared.advantages(right, p);
                    let k = right as f64;
                    sum += chance * (own * k / p - wrong * (n - k) / (1.0 - p)) / n;
                    chance *= p / (1.0 - p) * (n - k) / (k + 1.0);
                }
                assert!((prepared.weight(p) - sum).abs() < 1e-12, "{} {p}: {sum}", arm.name);
            }
            let ends = [0.0, 1.0].map(|p| prepared.weight(p));
            assert!(ends.iter().all(|w| w.is_finite()), "{}: {ends:?}", arm.name);
        }
        assert_eq!(ARMS[WEIGHTS].prepared().weight(0.9), ARMS[CLAMPED].prepared().weight(0.9));
    }

    #[test]
    fn weights_are_those_of_the_oracle_on_a_two_armed_prompt() {
        let names = ["wrong", "right", "EOS"].map(String::from);
        let tree = Rules::new(names, 1).build(|_| vec![0, 1], |y, _| f64::from(y[0])).unwrap();
        for p in [0.05, 0.3, 0.8, 0.95] {
            let policy = Tabular::from_weights(&tree, |_, e| if tree.token(e) == 1 { p } else { 1.0 - p });
            let gradient = Oracle::new(&tree, &policy).grad_j();
            for (arm, settings) in [(ARMS[0], "clamp=none"), (ARMS[3], "clamp=-0.1")] {
                let method = methods::parse("grpo", settings).unwrap().method;
                let update =
                    implied_mean(method.as_ref(), &Situation::on_policy(&tree, &policy, GROUP)).unwrap();
                assert!(
                    (update[1] - arm.prepared().weight(p) * gradient[1]).abs() < 1e-12,
                    "{p} {}",
                    arm.name
                );
            }
        }
    }

    #[test]
    fn the_first_step_of_adamw_is_the_rate_whatever_the_size_of_the_gradient() {
        for g in [1e-3, 5.0] {
            let mut p = [0.0, 0.0];
            Optimiser::new(Kind::AdamW, 0.1, 2).ascend(&mut p, &[g, -g]);
            assert!((p[0] - 0.1).abs() < 1e-5 && (p[1] + 0.1).abs() < 1e-5, "{p:?}");
        }
    }

    #[test]
    fn two_steps_of_adamw_by_hand() {
        // g = 0.5, then -0.25 (norms below 1): m = 0.05, 0.02; v = 0.00025, 0.00031225.
        let mut p = [0.0];
        let mut adam = Optimiser::new(Kind::AdamW, 1.0, 1);
        adam.ascend(&mut p, &[0.5]);
        adam.ascend(&mut p, &[-0.25]);
        let second = (0.02 / 0.19) / ((0.000_312_25_f64 / 0.001_999).sqrt() + 1e-8);
        assert!((p[0] - (1.0 / (1.0 + 2e-8) + second)).abs() < 1e-9, "{p:?}");
        let mut q = [0.0];
        Optimiser::new(Kind::Sgd, 0.1, 1).ascend(&mut q, &[0.5]);
        assert!((q[0] - 0.05).abs() < 1e-15);
    }
}
