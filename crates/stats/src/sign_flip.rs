//! The paired permutation test, exactly, where differences are multiples of one unit.

/// Additions that the exact test may take: a second or so.
const MOST_WORK: u64 = 1 << 29;

/// The two-sided p-value of the paired permutation test of whole-number differences, over all 2ⁿ sign flips, however many
/// there are: the share of flips whose sum is at least as far from 0 as the one observed.
///
/// The distribution of the sum is built pair by pair, so the work grows with n times the sum of all |dᵢ|, not with 2ⁿ. For
/// differences of −1, 0 and 1 (one attempt each, right or wrong) it is McNemar's exact test. Pairs without a difference have no
/// influence. 1 when there is no difference at all; `None` where the work would be excessive (draw flips then, with
/// [`paired_permutation`](super::paired_permutation)).
///
/// ```
/// # use grpo_lambda_stats::sign_flip_test;
/// // Five of five discordant pairs on one side: 2 of 32 flips are as extreme.
/// assert_eq!(sign_flip_test(&[1, 1, 0, 1, 1, 0, 1]), Some(2.0 / 32.0));
/// // 3 + 1 is reached by + + and - -, of four flips.
/// assert_eq!(sign_flip_test(&[3, 1]), Some(0.5));
/// ```
pub fn sign_flip_test(differences: &[i64]) -> Option<f64> {
    let observed = differences.iter().try_fold(0i64, |sum, d| sum.checked_add(*d))?.unsigned_abs();
    let mut sizes: Vec<u64> = differences.iter().filter(|d| **d != 0).map(|d| d.unsigned_abs()).collect();
    let unit = sizes.iter().fold(0, |a, &b| gcd(a, b));
    if unit == 0 {
        return Some(1.0);
    }
    sizes.iter_mut().for_each(|size| *size /= unit);
    let observed = observed / unit;
    let total = sizes.iter().try_fold(0u64, |sum, size| sum.checked_add(*size))?;
    if total.checked_mul(sizes.len() as u64).is_none_or(|work| work > MOST_WORK) {
        return None;
    }
    // share[s] is the share of flips in which the differences that are negative add up to s.
    let mut share = vec![0.0f64; total as usize + 1];
    share[0] = 1.0;
    let mut reach = 0;
    for size in sizes.iter().map(|s| *s as usize) {
        reach += size;
        for s in (0..=reach).rev() {
            let stays = if s + size <= reach { share[s] } else { 0.0 };
            let flips = if s >= size { share[s - size] } else { 0.0 };
            share[s] = 0.5 * (stays + flips);
        }
    }
    // The sum is total - 2 s.
    let extreme = |s: usize| total.abs_diff(2 * s as u64) >= observed;
    Some(share.iter().enumerate().filter(|(s, _)| extreme(*s)).map(|(_, p)| p).sum::<f64>().min(1.0))
}

fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}
