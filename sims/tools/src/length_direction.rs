//! The direction of the expected update against the horizon: towards the reward, and towards longer responses.

use grpo_lambda::advantage::{Baseline, OutcomeAdvantage, Scale, Std};
use grpo_lambda_mdp::zoo::EosHazardDependent;
use serde::Serialize;

/// Classes of prefixes of one length: the prompt, after `s0`, after `s1`.
const CLASSES: usize = 3;
/// Tokens: `s0`, `s1`, EOS.
const TOKENS: usize = 3;

/// `[reward][T]`: how likely a response gets the reward and has the length.
type Outcomes = [Vec<f64>; 2];

/// The task with its policy.
pub struct Lumped {
    horizon: usize,
    /// `[class][token]`.
    probability: [[f64; TOKENS]; CLASSES],
    /// `[depth][class]`: the sum of squared visit probabilities.
    squares: Vec<[f64; CLASSES]>,
    /// `[depth][class][token]`: what follows the token.
    after: Vec<[[Outcomes; TOKENS]; CLASSES]>,
    /// The chances after the prompt.
    start: Outcomes,
}

/// `[depth][class][token]`: implied credit.
type Credit = Vec<[[f64; TOKENS]; CLASSES]>;

impl Lumped {
    /// The family's default policy with every chance of EOS multiplied by `scale`, for two symbols.
    pub fn new(horizon: usize, scale: f64) -> Lumped {
        let family = EosHazardDependent::default();
        let hazards = [family.start, family.after_first, family.after_other].map(|h| h * scale);
        let probability = hazards.map(|h| [(1.0 - h) / 2.0, (1.0 - h) / 2.0, h]);
        let mut squares = vec![[1.0, 0.0, 0.0]];
        for k in 1..horizon {
            let before = squares[k - 1];
            let into = |token: usize| (0..CLASSES).map(|l| before[l] * probability[l][token].powi(2)).sum();
            squares.push([0.0, into(0), into(1)]);
        }
        let (after, start) = outcomes(horizon, &probability);
        Lumped { horizon, probability, squares, after, start }
    }

    /// `E[T]`.
    pub fn mean_length(&self) -> f64 {
        self.start.iter().flat_map(|by_len| by_len.iter().enumerate()).map(|(t, p)| t as f64 * p).sum()
    }

    /// The credit `ω(s,a) = E[weight(reward, T, k) | s, a]`.
    fn credit(&self, weight: impl Fn(usize, usize, usize) -> f64) -> Credit {
        let expectation = |k: usize, outcomes: &Outcomes| {
            let with = |r: usize| outcomes[r].iter().enumerate().filter(|(_, p)| **p > 0.0);
            (0..2)
                .flat_map(|r| with(r).map(move |(t, p)| (r, t, p)))
                .map(|(r, t, p)| p * weight(r, t, k))
                .sum()
        };
        let credit = |(k, classes): (usize, &[[Outcomes; TOKENS]; CLASSES])| {
            std::array::from_fn(|l| std::array::from_fn(|a| expectation(k, &classes[l][a])))
        };
        self.after.iter().enumerate().map(credit).collect()
    }

    /// The inner product of the expected updates of two credits.
    fn inner(&self, u: &Credit, v: &Credit) -> f64 {
        let mut sum = 0.0;
        for k in 0..self.horizon {
            for l in 0..CLASSES {
                let (pi, u, v) = (&self.probability[l], &u[k][l], &v[k][l]);
                let mean = |w: &[f64; TOKENS]| (0..TOKENS).map(|a| pi[a] * w[a]).sum::<f64>();
                let (mu, mv) = (mean(u), mean(v));
                let here: f64 = (0..TOKENS).map(|a| pi[a] * pi[a] * (u[a] - mu) * (v[a] - mv)).sum();
                sum += self.squares[k][l] * here;
            }
        }
        sum
    }

    /// The cosine of the expected updates of two credits.
    fn cosine(&self, u: &Credit, v: &Credit) -> f64 {
        self.inner(u, v) / (self.inner(u, u) * self.inner(v, v)).sqrt()
    }

    /// `[reward][T]`: the mean of advantage over the group's number of tokens (the token mean), of a response with this reward and length
    /// among `others`. Advantages are those of `outcome`.
    fn token_mean_weights(&self, outcome: &OutcomeAdvantage, others: &Others) -> [Vec<f64>; 2] {
        let group = others.len();
        let advantage = |r: usize, right: usize| {
            let own = std::iter::once(r == 1).chain((1..group).map(|i| i <= right));
            let rewards = own.map(|right| Some(f64::from(u8::from(right)))).collect();
            outcome.of_batch(&[rewards])[0][0]
        };
        let weights_by_length = |r: usize| {
            let a: Vec<f64> = (0..group).map(|right| advantage(r, right)).collect();
            let share = |len: usize, by_total: &[f64]| {
                by_total.iter().enumerate().map(|(total, p)| p / (total + len) as f64).sum::<f64>()
            };
            let at = |len: usize| others.iter().zip(&a).map(|(by_total, a)| a * share(len, by_total)).sum();
            // No response is empty.
            std::iter::once(0.0).chain((1..=self.horizon).map(at)).collect()
        };
        [weights_by_length(0), weights_by_length(1)]
    }

    /// The probability that `n` responses have so many right ones and so many tokens.
    fn others(&self, n: usize) -> Others {
        let none = vec![vec![0.0; n * self.horizon + 1]; n + 1];
        let mut all = none.clone();
        all[0][0] = 1.0;
        for drawn in 0..n {
            let mut next = none.clone();
            for right in 0..=drawn {
                for total in drawn..=drawn * self.horizon {
                    for (r, by_len) in self.start.iter().enumerate() {
                        let p = all[right][total];
                        let into = next[right + r][total..].iter_mut().zip(by_len);
                        into.for_each(|(sum, q)| *sum += p * q);
                    }
                }
            }
            all = next;
        }
        all
    }
}

/// `[right ones][tokens]`: how likely.
type Others = Vec<Vec<f64>>;

/// Moments after every token of every class, and the prompt, from the last token to the first.
fn outcomes(
    horizon: usize,
    probability: &[[f64; TOKENS]; CLASSES],
) -> (Vec<[[Outcomes; TOKENS]; CLASSES]>, Outcomes) {
    let none = || -> Outcomes { [vec![0.0; horizon + 1], vec![0.0; horizon + 1]] };
    let ends = |r: usize, len: usize| {
        let mut outcomes = none();
        outcomes[r][len] = 1.0;
        outcomes
    };
    let mixed = |of_tokens: &[Outcomes; TOKENS], pi: &[f64; TOKENS]| {
        let mut sum = none();
        for (outcomes, p) in of_tokens.iter().zip(pi) {
            for r in 0..2 {
                sum[r].iter_mut().zip(&outcomes[r]).for_each(|(s, o)| *s += p * o);
            }
        }
        sum
    };
    let mut after: Vec<[[Outcomes; TOKENS]; CLASSES]> = Vec::with_capacity(horizon);
    let mut values: [Outcomes; CLASSES] = std::array::from_fn(|_| none());
    for k in (0..horizon).rev() {
        let last = k + 1 == horizon;
        let here: [[Outcomes; TOKENS]; CLASSES] = std::array::from_fn(|l| {
            std::array::from_fn(|a| match a {
                2 => ends(usize::from(l == 1), k + 1),
                _ if last => ends(0, horizon),
                symbol => values[symbol + 1].clone(),
            })
        });
        values = std::array::from_fn(|l| mixed(&here[l], &probability[l]));
        after.push(here);
    }
    after.reverse();
    let [start, ..] = values;
    (after, start)
}

/// Group size of the paper's Table 2.
pub const GROUP: usize = 8;
/// λ of the paper's best variant.
const LAMBDA: f64 = 0.99;
/// The paper's clamp.
pub const CLAMP: f64 = -0.1;
/// The horizons of the sweep.
pub const HORIZONS: [usize; 17] = [2, 3, 4, 5, 6, 7, 8, 10, 12, 16, 20, 24, 32, 48, 64, 96, 128];

/// GRPO with or without the trace and the clamp.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Arm {
    pub name: &'static str,
    pub trace: bool,
    pub clamp: bool,
}

/// The four arms; the last one is the paper's algorithm.
pub const ARMS: [Arm; 4] = [
    Arm { name: "GRPO", trace: false, clamp: false },
    Arm { name: "clamp only", trace: false, clamp: true },
    Arm { name: "trace only", trace: true, clamp: false },
    Arm { name: "GRPO-λ (trace and clamp)", trace: true, clamp: true },
];

impl Arm {
    /// Method and settings as registered: what the tests compare with.
    pub fn registered(self) -> (&'static str, String) {
        let clamp = if self.clamp { CLAMP.to_string() } else { "none".into() };
        match self.trace {
            false => ("grpo", format!("reduction=token_mean clamp={clamp}")),
            true => ("grpo_lambda", format!("lambda={LAMBDA} clamp={clamp}")),
        }
    }
}

/// An arm at a horizon; a row of `length_bonus_horizon.csv`.
#[derive(Clone, Debug, Serialize)]
pub struct Point {
    /// The chances of EOS: those of the zoo, or smaller ones.
    pub policy: &'static str,
    pub horizon: usize,
    pub mean_length: f64,
    pub arm: &'static str,
    /// With ∇J.
    #[serde(rename = "cosine_with_gradient")]
    pub cosine: f64,
    /// With `∇E[T]`.
    #[serde(rename = "cosine_with_length_gradient")]
    pub cosine_length: f64,
}

/// Names of the policies.
pub const POLICIES: [&str; 2] = ["as in the zoo", "EOS a tenth as likely"];
/// The factors of their chances of EOS.
const EOS_SCALES: [f64; 2] = [1.0, 0.1];

/// Every arm at every horizon, exactly.
pub fn sweep() -> Vec<Point> {
    let of_policy = |(policy, scale): (&'static str, f64)| {
        HORIZONS.into_iter().flat_map(move |horizon| at(policy, &Lumped::new(horizon, scale), horizon))
    };
    POLICIES.into_iter().zip(EOS_SCALES).flat_map(of_policy).collect()
}

/// Every arm at one horizon of at least 2 under one of [`POLICIES`], exactly.
///
/// # Panics
/// If there is no such policy.
pub fn at_horizon(policy: usize, horizon: usize) -> Vec<Point> {
    at(POLICIES[policy], &Lumped::new(horizon, EOS_SCALES[policy]), horizon)
}

pub fn at(policy: &'static str, task: &Lumped, horizon: usize) -> Vec<Point> {
    let reward = task.credit(|r, _, _| r as f64);
    let length = task.credit(|_, t, _| t as f64);
    let others = task.others(GROUP - 1);
    let point = |arm: Arm| {
        let scale = Scale::Group(Std::TRL);
        let clamp = arm.clamp.then_some(CLAMP);
        let outcome = OutcomeAdvantage { baseline: Baseline::GroupMean, scale, clamp };
        let weights = task.token_mean_weights(&outcome, &others);
        let credit = task.credit(|r, t, k| weights[r][t] * if arm.trace { column_sum(t - k) } else { 1.0 });
        Point {
            policy,
            horizon,
            mean_length: task.mean_length(),
            arm: arm.name,
            cosine: task.cosine(&credit, &reward),
            cosine_length: task.cosine(&credit, &length),
        }
    };
    ARMS.into_iter().map(point).collect()
}

/// `c_k(T)`, by the tokens left: a geometric sum.
fn column_sum(left: usize) -> f64 {
    (1.0 - LAMBDA.powi(left as i32)) / (1.0 - LAMBDA)
}
