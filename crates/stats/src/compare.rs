//! Tests of differences.

use super::interval::{Estimate, check_count};
use super::{check, mean};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// The difference of two proportions, p₁ − p₂, with its standard error. `None` when a sample is empty.
///
/// ```text
/// se² = p̂₁(1−p̂₁)/n₁ + p̂₂(1−p̂₂)/n₂
/// ```
///
/// The error is 0 when both proportions are 0 or 1; such samples say nothing about it.
///
/// # Panics
/// When there are more successes than trials.
///
/// ```
/// # use grpo_lambda_stats::two_proportions;
/// let d = two_proportions(60, 100, 50, 100).unwrap();
/// assert!((d.value - 0.1).abs() < 1e-15 && (d.se - 0.07).abs() < 1e-15);
/// ```
#[track_caller]
pub fn two_proportions(successes_1: u64, n_1: u64, successes_2: u64, n_2: u64) -> Option<Estimate> {
    check_count(successes_1, n_1);
    check_count(successes_2, n_2);
    if n_1 == 0 || n_2 == 0 {
        return None;
    }
    let part = |k: u64, n: u64| {
        let p = k as f64 / n as f64;
        (p, p * (1.0 - p) / n as f64)
    };
    let ((p1, v1), (p2, v2)) = (part(successes_1, n_1), part(successes_2, n_2));
    Some(Estimate { value: p1 - p2, se: (v1 + v2).sqrt() })
}

/// The result of a permutation test.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Permutation {
    /// The mean of x − y.
    pub difference: f64,
    /// The two-sided p-value, in (0, 1].
    pub p: f64,
    /// True if all sign flips were counted, rather than drawn.
    pub exact: bool,
}

/// Up to this many pairs all sign flips are counted: half of the 2²⁰, since a flip of all signs changes no distance from 0.
const EXACT: usize = 20;

/// The paired permutation test: when x and y are exchangeable within each pair, each difference is as
/// likely with either sign, and p is the share of sign flips whose mean difference is at least as far
/// from 0 as the one observed. `None` for no pairs.
///
/// Up to 20 pairs all 2ⁿ flips are counted. Beyond that, `draws` random flips are, and
///
/// ```text
/// p = (b + 1) / (draws + 1),   b = number of draws at least as extreme
/// ```
///
/// which never is 0 and keeps the level of the test exact.
///
/// # Panics
/// When the lengths differ, a value is not finite, or flips must be drawn and `draws` is 0.
///
/// ```
/// # use grpo_lambda_stats::paired_permutation;
/// let test = paired_permutation(&[2.0, 3.0, 4.0], &[1.0, 1.0, 1.0], 0, 0).unwrap();
/// // Of 8 flips only + + + and − − − are as extreme.
/// assert_eq!((test.difference, test.p, test.exact), (2.0, 0.25, true));
/// ```
#[track_caller]
pub fn paired_permutation(x: &[f64], y: &[f64], draws: usize, seed: u64) -> Option<Permutation> {
    assert_eq!(x.len(), y.len(), "the test compares pairs");
    check(x);
    check(y);
    let d: Vec<f64> = x.iter().zip(y).map(|(x, y)| x - y).collect();
    let difference = mean(&d)?;
    // Sums that are equal on paper may differ by rounding, which must not make a tie more or less extreme.
    let slack = 1e-12 * d.iter().map(|v| v.abs()).sum::<f64>();
    let observed = d.iter().sum::<f64>().abs() - slack;
    let exact = d.len() <= EXACT;
    let p = if exact {
        let flips = 1u32 << (d.len() - 1);
        let sum = |mask: u32| -> f64 {
            d.iter().enumerate().map(|(i, v)| if mask >> i & 1 == 1 { -v } else { *v }).sum()
        };
        (0..flips).filter(|&mask| sum(mask).abs() >= observed).count() as f64 / f64::from(flips)
    } else {
        assert!(draws > 0, "{} pairs need draws", d.len());
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let mut extreme =
            || d.iter().map(|v| if rng.random::<bool>() { -v } else { *v }).sum::<f64>().abs() >= observed;
        let b = (0..draws).filter(|_| extreme()).count();
        (b + 1) as f64 / (draws + 1) as f64
    };
    Some(Permutation { difference, p, exact })
}

/// Holm's correction: adjusted p-values, in the order given. Rejecting where the adjusted p is at most α
/// keeps the chance of any false rejection at α, whatever the dependence between the tests; it rejects
/// whatever Bonferroni rejects, and more.
///
/// ```text
/// p̃₍ᵢ₎ = max over j ≤ i of min(1, (m − j + 1) p₍ⱼ₎),   p₍₁₎ ≤ … ≤ p₍ₘ₎
/// ```
///
/// # Panics
/// When a p-value lies outside 0..=1.
///
/// ```
/// # use grpo_lambda_stats::holm;
/// assert_eq!(holm(&[0.04, 0.01, 0.03]), [0.06, 0.03, 0.06]);
/// ```
#[track_caller]
pub fn holm(p: &[f64]) -> Vec<f64> {
    for p in p {
        assert!((0.0..=1.0).contains(p), "a p-value of {p}");
    }
    let mut order: Vec<usize> = (0..p.len()).collect();
    order.sort_by(|&a, &b| p[a].total_cmp(&p[b]));
    let mut adjusted = vec![0.0; p.len()];
    let mut least = 0.0f64;
    for (rank, &i) in order.iter().enumerate() {
        least = least.max(((p.len() - rank) as f64 * p[i]).min(1.0));
        adjusted[i] = least;
    }
    adjusted
}
