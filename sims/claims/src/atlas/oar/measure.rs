//! Rank correlations of scores with the true advantage and with exact counterfactuals, over random policies.

use crate::experiment::Context;
use grpo_lambda_mdp::{Answers, Maskable, Oracle, Rules, Tree};
use grpo_lambda_stats::{Interval, spearman, t_interval};

/// Hidden units, and the spread of their weights: large enough that tokens matter.
const WIDTH: usize = 8;
const SCALE: f64 = 1.2;
/// Confidence level of the intervals over policies.
pub(super) const LEVEL: f64 = 0.95;

pub(super) struct Numbers {
    pub(super) policies: usize,
    /// Against `|A|`, `[reward][score]`.
    pub(super) credit: Vec<Vec<Agreement>>,
    /// Against the exact counterfactuals, `[of Score::EXACT][score]`.
    pub(super) exact: Vec<Vec<Agreement>>,
    pub(super) pinsker: Pinsker,
}

impl Numbers {
    /// A score against `|A|` under a reward.
    pub(super) fn credit(&self, reward: usize, score: Score) -> Agreement {
        self.credit[reward][score as usize]
    }

    /// A score against [`Score::Hindsight`].
    pub(super) fn hindsight(&self, score: Score) -> Agreement {
        self.exact[0][score as usize]
    }

    /// A score against [`Score::Gain`].
    pub(super) fn gain(&self, score: Score) -> Agreement {
        self.exact[1][score as usize]
    }
}

/// Agreement of two orders of tokens: means over policies with their intervals.
#[derive(Clone, Copy)]
pub(super) struct Agreement {
    pub(super) correlation: f64,
    pub(super) correlation_interval: Interval,
    /// The share of responses whose highest scored token has most of what is compared.
    pub(super) top: f64,
    pub(super) top_interval: Interval,
}

/// The largest `|A| - sqrt(D / 2)`.
#[derive(Clone, Copy)]
pub(super) struct Pinsker {
    /// Agreement if the answer decides.
    pub(super) by_answer: f64,
    pub(super) elsewhere: f64,
}

pub(super) fn measure(context: &Context) -> anyhow::Result<Numbers> {
    let policies = if context.full { 400 } else { 40 };
    let trees = REWARDS.iter().map(|reward| reward.tree()).collect::<anyhow::Result<Vec<Tree>>>()?;
    let mut samples = Samples::default();
    for n in 0..policies {
        (context.progress)(n as f64 / policies as f64, "policies");
        samples.add(&trees, context.seed.wrapping_add(n as u64));
    }
    let agreements = |series: &[Series; 6]| series.iter().map(Series::agreement).collect();
    Ok(Numbers {
        policies,
        credit: samples.credit.iter().map(agreements).collect::<anyhow::Result<_>>()?,
        exact: samples.exact.iter().map(agreements).collect::<anyhow::Result<_>>()?,
        pinsker: samples.pinsker,
    })
}

/// One number per policy.
struct Samples {
    credit: [[Series; 6]; REWARDS.len()],
    exact: [[Series; 6]; Score::EXACT.len()],
    pinsker: Pinsker,
}

impl Default for Samples {
    fn default() -> Samples {
        let below = f64::NEG_INFINITY;
        Samples {
            credit: Default::default(),
            exact: Default::default(),
            pinsker: Pinsker { by_answer: below, elsewhere: below },
        }
    }
}

#[derive(Default)]
struct Series {
    correlations: Vec<f64>,
    tops: Vec<f64>,
}

impl Series {
    fn push(&mut self, mean: &Mean) {
        if mean.mass > ZERO {
            self.correlations.push(mean.correlation / mean.mass);
            self.tops.push(mean.top / mean.mass);
        }
    }

    fn agreement(&self) -> anyhow::Result<Agreement> {
        let (correlation, correlation_interval) = with_interval(&self.correlations)?;
        let (top, top_interval) = with_interval(&self.tops)?;
        Ok(Agreement { correlation, correlation_interval, top, top_interval })
    }
}

fn with_interval(values: &[f64]) -> anyhow::Result<(f64, Interval)> {
    let mean = values.iter().sum::<f64>() / values.len().max(1) as f64;
    let interval = t_interval(values, LEVEL)
        .ok_or_else(|| anyhow::anyhow!("fewer than two policies of which a response could be ranked"))?;
    Ok((mean, interval))
}

/// Expectations over the responses of one policy.
#[derive(Default)]
struct Mean {
    correlation: f64,
    top: f64,
    mass: f64,
}

impl Mean {
    /// Adds a response of probability `p`, if both orders exist.
    fn add(&mut self, p: f64, score: &[f64], target: &[f64]) {
        let Some(correlation) = spearman(score, target) else { return };
        let best = |v: &[f64]| v.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let (highest, largest) = (best(score), best(target));
        // The first of the highest scored tokens, and whether no other token has more of the target.
        let hit = score.iter().position(|s| *s == highest).is_some_and(|t| target[t] == largest);
        self.correlation += p * correlation;
        self.top += p * f64::from(hit);
        self.mass += p;
    }
}

impl Samples {
    /// Adds a random policy. Trees differ in their rewards only.
    fn add(&mut self, trees: &[Tree], seed: u64) {
        let tree = &trees[0];
        let policy = Maskable::random(tree, WIDTH, SCALE, seed);
        let table = policy.tabular(tree);
        let oracles: Vec<Oracle> = trees.iter().map(|tree| Oracle::new(tree, &table)).collect();
        let answers = Answers::new(&oracles[0]);
        let mut credit: [[Mean; 6]; REWARDS.len()] = Default::default();
        let mut exact: [[Mean; 6]; Score::EXACT.len()] = Default::default();
        for leaf in tree.leaves() {
            let path = tree.path(leaf);
            let p = oracles[0].leaf_prob(leaf);
            let scores = scores(tree, &policy, &answers, &path, seed);
            for (means, target) in exact.iter_mut().zip(Score::EXACT) {
                means.iter_mut().zip(&scores).for_each(|(m, s)| m.add(p, s, &scores[target as usize]));
            }
            for (r, (means, oracle)) in credit.iter_mut().zip(&oracles).enumerate() {
                let advantages = advantages(oracle, &path);
                means.iter_mut().zip(&scores).for_each(|(m, s)| m.add(p, s, &advantages));
                self.pinsker.add(REWARDS[r].by_answer, &advantages, &scores[Score::Gain as usize]);
            }
        }
        push(&mut self.credit, &credit);
        push(&mut self.exact, &exact);
    }
}

fn push(series: &mut [[Series; 6]], means: &[[Mean; 6]]) {
    series.iter_mut().flatten().zip(means.iter().flatten()).for_each(|(series, mean)| series.push(mean));
}

/// `|A|` of the reasoning tokens.
fn advantages(oracle: &Oracle, path: &[usize]) -> Vec<f64> {
    let sizes = path[..LEN - 1].iter().map(|&e| oracle.advantage(e).abs());
    sizes.map(|a| if a < ZERO { 0.0 } else { a }).collect()
}

impl Pinsker {
    fn add(&mut self, by_answer: bool, advantages: &[f64], divergences: &[f64]) {
        let excess = if by_answer { &mut self.by_answer } else { &mut self.elsewhere };
        for (a, d) in advantages.iter().zip(divergences) {
            *excess = excess.max(a - ((d + ZERO) / 2.0).sqrt());
        }
    }
}

/// Perturbation of OAR-G.
const NOISE: f64 = 1e-3;
/// Rounding error of a number that is 0.
pub(super) const ZERO: f64 = 1e-12;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Score {
    /// OAR-P.
    Masked,
    /// OAR-G.
    Gradient,
    /// OAR-G with one perturbation.
    SingleGradient,
    /// `KL` of the answer's distribution from that without the token, all others known.
    Hindsight,
    /// `KL(P(z|s_{t+1}) || P(z|s_t))`, `z` the answer.
    Gain,
    Position,
}

impl Score {
    pub(super) const ALL: [Score; 6] = [
        Score::Masked,
        Score::Gradient,
        Score::SingleGradient,
        Score::Hindsight,
        Score::Gain,
        Score::Position,
    ];
    /// The exact counterfactuals, which the others are compared with.
    pub(super) const EXACT: [Score; 2] = [Score::Hindsight, Score::Gain];

    /// The name in tables and figures.
    pub(super) fn name(self) -> &'static str {
        match self {
            Score::Masked => "OAR-P (token masked)",
            Score::Gradient => "OAR-G, 8 draws",
            Score::SingleGradient => "OAR-G, 1 draw",
            Score::Hindsight => "exact, in hindsight",
            Score::Gain => "exact, when written",
            Score::Position => "position",
        }
    }

    /// The score of every reasoning token of one response.
    fn values(
        self,
        tree: &Tree,
        policy: &Maskable,
        answers: &Answers,
        path: &[usize],
        seed: u64,
    ) -> Vec<f64> {
        match self {
            Score::Masked => without_rounding(policy.shifts(tree, path)),
            Score::Gradient => policy.saliencies(tree, path, NOISE, 8, seed),
            Score::SingleGradient => policy.saliencies(tree, path, NOISE, 1, seed),
            Score::Hindsight => without_rounding(answers.hindsights(path)),
            Score::Gain => without_rounding(answers.gains(path)),
            Score::Position => (0..path.len() - 1).map(|t| t as f64).collect(),
        }
    }
}

/// Every score of every reasoning token of one response, in the order of [`Score::ALL`].
pub(super) fn scores(
    tree: &Tree,
    policy: &Maskable,
    answers: &Answers,
    path: &[usize],
    seed: u64,
) -> [Vec<f64>; 6] {
    Score::ALL.map(|score| score.values(tree, policy, answers, path, seed))
}

fn without_rounding(values: Vec<f64>) -> Vec<f64> {
    values.into_iter().map(|x| if x.abs() < ZERO { 0.0 } else { x }).collect()
}

/// Symbols of the alphabet, and tokens of every response, the last of which is the answer.
pub(super) const SYMBOLS: u32 = 3;
pub(super) const LEN: usize = 6;

/// A rule that rewards responses.
pub(super) struct Reward {
    pub(super) name: &'static str,
    /// True if the reward is a function of the answer alone.
    pub(super) by_answer: bool,
    rule: fn(&[u32]) -> bool,
}

/// The first is the one in which the answer decides.
pub(super) const REWARDS: [Reward; 4] = [
    Reward { name: "answer is right", by_answer: true, rule: |y| y[LEN - 1] == 0 },
    Reward { name: "answer repeats the first token", by_answer: false, rule: |y| y[LEN - 1] == y[0] },
    Reward {
        name: "sum of all tokens",
        by_answer: false,
        rule: |y| y.iter().sum::<u32>().is_multiple_of(SYMBOLS),
    },
    Reward { name: "first token alone", by_answer: false, rule: |y| y[0] == 0 },
];

impl Reward {
    /// All responses with their rewards.
    fn tree(&self) -> anyhow::Result<Tree> {
        let names = (0..SYMBOLS).map(|s| format!("t{s}")).chain(["EOS".to_owned()]);
        Ok(Rules::new(names, LEN).build(|_| (0..SYMBOLS).collect(), |y, _| f64::from((self.rule)(y)))?)
    }
}
