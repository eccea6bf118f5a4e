//! Chains of 5 to 40 tokens, every step of which must be right; half of the responses succeed.

use super::GROUPS;
use crate::experiments::common::{dot, mean, stream};
use grpo_lambda::systematic::Sets;
use grpo_lambda_mdp::Oracle;
use grpo_lambda_mdp::expected::SetMoments;
use grpo_lambda_mdp::zoo::{Chain, Family};
use rand::Rng;
use rayon::prelude::*;
use serde::Serialize;

/// Tokens of a response.
const LENGTHS: [usize; 4] = [5, 10, 20, 40];
/// The success rate.
const RATE: f64 = 0.5;

/// The consequence of an error, and the other choices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// An error ends the response: a tree, computed exactly.
    Ends,
    /// An error costs the reward and the tokens go on, each position with logits of its own.
    GoesOn,
    /// Next to such steps, three tokens of four are a free choice of three.
    Free,
}

impl Kind {
    pub(super) const ALL: [Kind; 3] = [Kind::Ends, Kind::GoesOn, Kind::Free];

    pub(super) fn name(self) -> &'static str {
        match self {
            Kind::Ends => "an error ends it",
            Kind::GoesOn => "an error costs the reward",
            Kind::Free => "three of four tokens free",
        }
    }
}

/// Two systematic sets on a chain; a row of `sampler_chains.csv`.
#[derive(Clone, Debug, Serialize)]
pub(super) struct ChainRow {
    /// The name of its kind.
    pub(super) chain: &'static str,
    pub(super) tokens: usize,
    pub(super) group: usize,
    /// Mean bits of a response.
    pub(super) bits: f64,
    /// Share of RLOO's variance, with its standard error: none where it is exact.
    #[serde(rename = "two_systematic_sets")]
    pub(super) ratio: f64,
    pub(super) standard_error: Option<f64>,
}

pub(super) fn chains(groups: usize, seed: u64) -> anyhow::Result<Vec<ChainRow>> {
    let cases: Vec<_> = Kind::ALL
        .into_iter()
        .flat_map(|kind| LENGTHS.into_iter().flat_map(move |tokens| GROUPS.map(|g| (kind, tokens, g))))
        .collect();
    let row = |(place, &(kind, tokens, group)): (usize, &(Kind, usize, usize))| {
        let ((ratio, error), bits) = match kind {
            Kind::Ends => on_tree(tokens, group)?,
            _ => Positions::new(tokens, kind).measure(group, groups, seed.wrapping_add(place as u64)),
        };
        Ok(ChainRow {
            chain: kind.name(),
            tokens,
            group,
            bits,
            ratio,
            standard_error: (error > 0.0).then_some(error),
        })
    };
    cases.par_iter().enumerate().map(row).collect()
}

/// Exactly, where an error ends the response. Its EOS is no choice.
fn on_tree(tokens: usize, g: usize) -> anyhow::Result<((f64, f64), f64)> {
    let chain = Chain { steps: tokens, ..Chain::default() };
    let tree = chain.tree()?;
    let start = Oracle::new(&tree, &chain.initial(&tree));
    let policy = start.at_success_rate(RATE).ok_or_else(|| anyhow::anyhow!("a chain has a success rate"))?;
    let oracle = Oracle::new(&tree, &policy);
    let rloo = SetMoments::new(&oracle, 1).cross_variance(g);
    let halves = SetMoments::new(&oracle, g / 2).cross_variance(2);
    Ok(((halves / rloo, 0.0), oracle.expect(|leaf| -oracle.leaf_prob(leaf).log2())))
}

/// A policy with logits by position.
struct Positions(Vec<Position>);

struct Position {
    probs: Vec<f64>,
    /// True for a step, whose first token is right.
    step: bool,
}

impl Positions {
    fn new(tokens: usize, kind: Kind) -> Positions {
        let step = |t: usize| kind == Kind::GoesOn || t % 4 == 3;
        let steps = (0..tokens).filter(|&t| step(t)).count();
        let right = RATE.powf(1.0 / steps as f64);
        let position = |t: usize| match step(t) {
            true => Position { probs: vec![right, 1.0 - right], step: true },
            false => Position { probs: vec![1.0 / 3.0; 3], step: false },
        };
        Positions((0..tokens).map(position).collect())
    }

    /// A sum over positions of a function of its probabilities.
    fn sum(&self, at: impl Fn(&Position) -> f64) -> f64 {
        self.0.iter().map(at).sum()
    }

    /// `∇J`, by position and token: `E[r ∇log π]` is that of the right token times `J`.
    fn gradient(&self) -> Vec<f64> {
        let at = |p: &Position| match p.step {
            true => vec![RATE * (1.0 - p.probs[0]), -RATE * p.probs[1]],
            false => vec![0.0; p.probs.len()],
        };
        self.0.iter().flat_map(at).collect()
    }

    /// RLOO's variance, by the formula of independent responses.
    fn rloo(&self, g: usize) -> f64 {
        let gradient = self.gradient();
        let (square, collision) = (dot(&gradient, &gradient), |p: &Position| dot(&p.probs, &p.probs));
        let all = self.sum(|p| 1.0 - collision(p));
        let right =
            self.sum(|p| if p.step { 1.0 - 2.0 * p.probs[0] + collision(p) } else { 1.0 - collision(p) });
        let credit = RATE * (1.0 - RATE).powi(2) * right + RATE * RATE * (all - RATE * right) - square;
        (credit + (RATE * (1.0 - RATE) * all + square) / (g - 1) as f64) / g as f64
    }

    /// The ratio of two systematic sets with its standard error, and the bits of a response.
    fn measure(&self, g: usize, groups: usize, seed: u64) -> ((f64, f64), f64) {
        let (mut rng, sets, gradient) = (stream(seed, g as u64), Sets::new(2), self.gradient());
        let mut unit = || (rng.next_u64() >> 11) as f64 / (1u64 << 53) as f64;
        let mut errors = Vec::with_capacity(groups);
        for _ in 0..groups {
            let shifts = [unit(), unit()];
            let mut drawn = Vec::with_capacity(g);
            for place in 0..g {
                let mut code = sets.code(place, g, shifts[sets.set_of(place, g)]);
                drawn.push(self.0.iter().map(|p| code.token(&p.probs, &mut unit)).collect::<Vec<_>>());
            }
            let right = |tokens: &Vec<usize>| self.0.iter().zip(tokens).all(|(p, &a)| !p.step || a == 0);
            let rewards: Vec<f64> = drawn.iter().map(|tokens| f64::from(right(tokens))).collect();
            let mut update: Vec<f64> = gradient.iter().map(|d| -d).collect();
            for (i, tokens) in drawn.iter().enumerate() {
                let other = sets.members(1 - sets.set_of(i, g), g);
                let weight = (rewards[i] - mean(&rewards[other])) / g as f64;
                let mut at = 0;
                for (p, &token) in self.0.iter().zip(tokens) {
                    p.probs.iter().enumerate().for_each(|(a, q)| {
                        update[at + a] += weight * (f64::from(a == token) - q);
                    });
                    at += p.probs.len();
                }
            }
            errors.push(dot(&update, &update));
        }
        let (rloo, level, n) = (self.rloo(g), mean(&errors), groups as f64);
        let spread: f64 = errors.iter().map(|e| (e - level).powi(2)).sum();
        let bits = self.sum(|p| -p.probs.iter().map(|q| q * q.log2()).sum::<f64>());
        ((level / rloo, (spread / (n - 1.0) / n).sqrt() / rloo), bits)
    }
}
