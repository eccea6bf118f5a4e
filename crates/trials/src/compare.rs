//! [`Difference`]: two methods paired by seed, read by a [`Verdict`] after [`correct`] over a family of them.

use grpo_lambda_stats::{Interval, holm, paired_permutation, t_interval};

use crate::study::Comparison;

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
    /// The p-value after [`correct`] for a family of differences; before it, [`Difference::p`].
    pub corrected: f64,
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
        Some(Difference { values, interval, narrow, p, corrected: p })
    }

    /// The verdict: equivalence first, which needs the narrow interval within `margin`. A difference is shown where the
    /// corrected p-value and the interval agree.
    pub fn verdict(&self, margin: f64) -> Verdict {
        let is_equivalent = self.narrow.low >= -margin && self.narrow.high <= margin;
        let is_rare = self.corrected <= 1.0 - self.interval.level;
        match (is_equivalent, is_rare && self.interval.low > 0.0, is_rare && self.interval.high < 0.0) {
            (true, _, _) => Verdict::Equivalent,
            (false, true, _) => Verdict::Higher,
            (false, _, true) => Verdict::Lower,
            (false, false, false) => Verdict::Inconclusive,
        }
    }
}

/// A comparison with what its runs give.
#[derive(Clone, Debug)]
pub struct Compared {
    pub pair: Comparison,
    pub difference: Difference,
}

impl Compared {
    /// The difference of a method from another.
    pub fn find<'a>(all: &'a [Compared], method: &str, with: &str) -> Option<&'a Difference> {
        all.iter().find(|c| c.pair.method == method && c.pair.with == with).map(|c| &c.difference)
    }
}

/// Corrects the p-values of a family by Holm. `planned` differences count in it; those that are not there yet have p = 1.
pub fn correct<'a>(family: impl IntoIterator<Item = &'a mut Difference>, planned: usize) {
    let mut family: Vec<&mut Difference> = family.into_iter().collect();
    let mut all: Vec<f64> = family.iter().map(|d| d.p).collect();
    all.resize(planned.max(all.len()), 1.0);
    family.iter_mut().zip(holm(&all)).for_each(|(d, p)| d.corrected = p);
}

/// The verdict on a comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    Higher,
    Lower,
    Equivalent,
    Inconclusive,
}

impl Verdict {
    /// Its name in tables.
    pub fn name(self) -> &'static str {
        match self {
            Verdict::Higher => "higher",
            Verdict::Lower => "lower",
            Verdict::Equivalent => "equivalent",
            Verdict::Inconclusive => "inconclusive",
        }
    }
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
        let read = |family: &[&[f64]], margin: f64| -> Vec<(f64, Verdict)> {
            let mut family: Vec<Difference> = family.iter().map(|values| difference(values)).collect();
            let planned = family.len();
            correct(&mut family, planned);
            family.iter().map(|d| (d.corrected, d.verdict(margin))).collect()
        };
        assert_eq!(read(&[&up], 0.02), [(0.03125, Verdict::Higher)]);
        assert_eq!(read(&[&down], 0.02), [(0.03125, Verdict::Lower)]);
        assert_eq!(read(&[&up, &down], 0.02), [(0.0625, Verdict::Inconclusive); 2]);
        let mut alone = [difference(&up)];
        correct(&mut alone, 3);
        assert_eq!(alone[0].corrected, 3.0 / 32.0, "two more are planned");
        let small = [0.001, -0.002, 0.001, 0.0, 0.002, -0.001];
        assert_eq!(read(&[&small], 0.02)[0].1, Verdict::Equivalent);
        assert_eq!(read(&[&small], 0.0005)[0].1, Verdict::Inconclusive);
        // Each of one sign, and one of them ten times the others: the flips show a difference, the interval does not.
        let uneven = [0.1, 0.11, 0.09, 0.1, 0.12, 1.5];
        assert!(difference(&uneven).interval.low < 0.0);
        assert_eq!(read(&[&uneven], 0.02), [(0.03125, Verdict::Inconclusive)]);
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
