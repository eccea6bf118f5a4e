//! [`SetMoments`]: the exact variance of updates over systematic sets.

use super::shifts::{Piece, shifts};
use crate::policy::pull_back;
use crate::{Oracle, Tree};

/// Moments of one systematic set of `h` responses, by the integral over its shift; rewards are drawn independently.
///
/// With `r̄` and `s̄` the set's mean reward and mean score, `s = Σ_t ∇log π(a_t|s_t)`, and `A` the set's mean of `(r - J) s`:
///
/// ```text
/// one set, its own mean       E[mean of (r - r̄) s] = ∇J - Cov(r̄, s̄)
/// M sets, the others' mean    tr Var = (tr Var A + (Var r̄ · tr Var s̄ + |Cov(r̄, s̄)|²) / (M - 1)) / M
/// one set, a baseline b       tr Var = tr Var A - 2 (b - J) E<A, s̄> + (b - J)² tr Var s̄
/// ```
/// `h = 1` is independent sampling, and `M = G` then RLOO. Proof of the second: an update of a set is `A_m - e_m s̄_m`, `e_m` the error of
/// the others' mean, independent of set `m` with variance `Var r̄ / (M - 1)`; of the products of different sets only those of `e_m s̄_m` and
/// `e_m' s̄_m'` have a mean, `|Cov|² / (M - 1)²`, and there are `M (M - 1)` of them. Rewards are not discounted.
#[derive(Clone, Debug, PartialEq)]
pub struct SetMoments {
    /// `J`, the mean reward.
    pub mean: f64,
    /// `∇J = E A`, per edge.
    pub gradient: Vec<f64>,
    /// `tr Var A`.
    pub credit: f64,
    /// `E<A, s̄>`.
    pub along: f64,
    /// `tr Var s̄ = E|s̄|²`.
    pub score: f64,
    /// `Var r̄`.
    pub reward: f64,
    /// `Cov(r̄, s̄)`, per edge.
    pub covariance: Vec<f64>,
}

impl SetMoments {
    /// The moments of sets of `h` responses of the oracle's policy.
    ///
    /// # Panics
    /// If `h` is 0.
    pub fn new(oracle: &Oracle, h: usize) -> SetMoments {
        assert!(h > 0, "a set has at least one response");
        let edges = oracle.tree.edge_count();
        let mean = oracle.expect(|leaf| oracle.tree.reward(leaf));
        let zero = vec![0.0; edges];
        let mut m = SetMoments {
            mean,
            gradient: zero.clone(),
            credit: 0.0,
            along: 0.0,
            score: 0.0,
            reward: 0.0,
            covariance: zero,
        };
        for piece in shifts(oracle, h) {
            m.add(oracle, &piece);
        }
        m.credit -= square(&m.gradient);
        m
    }

    fn add(&mut self, oracle: &Oracle, Piece { width, leaves }: &Piece) {
        let (tree, share) = (oracle.tree, 1.0 / leaves.len() as f64);
        let (mut visits, mut rewarded) = (vec![0.0; tree.edge_count()], vec![0.0; tree.edge_count()]);
        let (mut above, mut noise, mut noise_of_credit) = (0.0, 0.0, 0.0);
        for &leaf in leaves {
            let expected = tree.reward(leaf);
            let spread = tree.reward_squared(leaf) - expected * expected;
            let path = tree.path(leaf);
            for &edge in &path {
                visits[edge] += share;
                rewarded[edge] += share * (expected - self.mean);
            }
            above += share * (expected - self.mean);
            noise += share * share * spread;
            noise_of_credit += share * share * spread * score_square(oracle, &path);
        }
        let score = pull_back(tree, &oracle.probs, &visits);
        let credit = pull_back(tree, &oracle.probs, &rewarded);
        self.credit += width * (square(&credit) + noise_of_credit);
        self.along += width * credit.iter().zip(&score).map(|(a, s)| a * s).sum::<f64>();
        self.score += width * square(&score);
        self.reward += width * (above * above + noise);
        for edge in tree.edges() {
            self.gradient[edge] += width * credit[edge];
            self.covariance[edge] += width * above * score[edge];
        }
    }

    /// The trace of the covariance of an update over `sets` such sets, each with the mean reward of the others as its baseline.
    ///
    /// # Panics
    /// If there are fewer than two sets.
    pub fn cross_variance(&self, sets: usize) -> f64 {
        assert!(sets > 1, "one set has no others");
        let others = (sets - 1) as f64;
        let of_baseline = (self.reward * self.score + square(&self.covariance)) / others;
        (self.credit + of_baseline) / sets as f64
    }

    /// The trace of the covariance of an update over one set whose baseline is the number `b`.
    pub fn variance_around(&self, b: f64) -> f64 {
        let off = b - self.mean;
        self.credit - 2.0 * off * self.along + off * off * self.score
    }
}

/// `|s|²` of a response: at each of its tokens `1 - 2 π(a|s) + Σ π²`.
fn score_square(oracle: &Oracle, path: &[usize]) -> f64 {
    let tree: &Tree = oracle.tree;
    let at = |&edge: &usize| {
        let squares: f64 = tree.edges_of(tree.edge_node(edge)).map(|e| oracle.probs[e].powi(2)).sum();
        1.0 - 2.0 * oracle.probs[edge] + squares
    };
    path.iter().map(at).sum()
}

fn square(vector: &[f64]) -> f64 {
    vector.iter().map(|x| x * x).sum()
}
