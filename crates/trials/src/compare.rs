//! [`Difference`]: two methods paired by seed; [`verdicts`] over a family of comparisons.

use grpo_lambda_stats::{Interval, holm, paired_permutation, t_interval};

/// The scores of a method minus those of another, by seed.
#[derive(Clone, Debug, PartialEq)]
pub struct Difference {
    pub values: Vec<f64>,
    /// The t interval of the mean.
    pub interval: Interval,
    /// That at the level of two one-sided tests, for equivalence.
    pub narrow: Interval,
    /// The two-sided p-value of sign flips.
    pub p: f64,
}

/// Drawn sign flips where there are too many to count, and the seed that draws them.
const FLIPS: usize = 100_000;
const DRAWN_BY: u64 = 1;

impl Difference {
    /// The difference of scores in the same order of seeds; none of fewer than two.
    pub fn new(scores: &[f64], with: &[f64], level: f64) -> Option<Difference> {
        let values: Vec<f64> = scores.iter().zip(with).map(|(a, b)| a - b).collect();
        let interval = t_interval(&values, level)?;
        let narrow = t_interval(&values, 2.0 * level - 1.0)?;
        let p = paired_permutation(scores, with, FLIPS, DRAWN_BY)?.p;
        Some(Difference { values, interval, narrow, p })
    }
}

/// The verdict on a comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    Higher,
    Lower,
    Equivalent,
    Inconclusive,
}

/// The verdicts on a family at `level`, with p-values that Holm corrects: equivalence first, which needs the narrow
/// interval within `margin`.
pub fn verdicts(family: &[Difference], level: f64, margin: f64) -> Vec<(f64, Verdict)> {
    let corrected = holm(&family.iter().map(|d| d.p).collect::<Vec<_>>());
    let of_one = |(d, p): (&Difference, f64)| {
        let is_equivalent = d.narrow.low >= -margin && d.narrow.high <= margin;
        let verdict = match (is_equivalent, p <= 1.0 - level, d.interval.mid > 0.0) {
            (true, _, _) => Verdict::Equivalent,
            (false, true, true) => Verdict::Higher,
            (false, true, false) => Verdict::Lower,
            (false, false, _) => Verdict::Inconclusive,
        };
        (p, verdict)
    };
    family.iter().zip(corrected).map(of_one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn difference(values: &[f64]) -> Difference {
        Difference::new(values, &vec![0.0; values.len()], 0.95).expect("pairs")
    }

    #[test]
    fn verdicts_by_hand() {
        // Six of one sign: p = 2/64, which Holm doubles in a family of two.
        let (up, down) = ([0.3, 0.31, 0.29, 0.3, 0.32, 0.28], [-0.3, -0.31, -0.29, -0.3, -0.32, -0.28]);
        assert_eq!(verdicts(&[difference(&up)], 0.95, 0.02), [(0.03125, Verdict::Higher)]);
        assert_eq!(verdicts(&[difference(&down)], 0.95, 0.02), [(0.03125, Verdict::Lower)]);
        let two = verdicts(&[difference(&up), difference(&down)], 0.95, 0.02);
        assert_eq!(two, [(0.0625, Verdict::Inconclusive); 2]);
        let small = [0.001, -0.002, 0.001, 0.0, 0.002, -0.001];
        assert_eq!(verdicts(&[difference(&small)], 0.95, 0.02)[0].1, Verdict::Equivalent);
        assert_eq!(verdicts(&[difference(&small)], 0.95, 0.0005)[0].1, Verdict::Inconclusive);
    }

    #[test]
    fn the_interval_of_equivalence_is_the_narrower_one() {
        let d = difference(&[0.1, 0.2, 0.3, 0.4]);
        assert!(
            d.narrow.low > d.interval.low
                && d.narrow.high < d.interval.high
                && d.interval.mid == d.narrow.mid
        );
        assert!((d.interval.mid - 0.25).abs() < 1e-12);
    }
}
