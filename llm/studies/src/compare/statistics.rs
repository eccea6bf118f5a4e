//! Statistics over seeds: intervals, tests and conclusions.
//!
//! One number a seed: the held-out accuracy of the final weights. Location is the interquartile mean over seeds;
//! intervals are 95 % percentile bootstraps over seeds (one task, so a single stratum), somewhat too narrow with few
//! seeds. Differences are taken within a seed, whose runs share start and problems. Next to the interval stands the
//! sign-flip test of the paired differences, which cannot be below 2/2ⁿ with n seeds: from 5 seeds no p below 0.05 can
//! come, whatever the differences. Where several methods are compared with the first, verdicts are by p-values that
//! Holm's method corrects for their number, and the smallest possible one is larger.

use crate::curves::Points;
use crate::significance::Significance;
use grpo_lambda_stats::{
    Bootstrap, Interval, fewest_discordant, holm, iqm, paired_permutation, probability_of_improvement,
};

/// The level of the sign-flip test.
pub(super) const ALPHA: f64 = 0.05;

/// The fewest seeds with which sign flips can show a difference of each of `methods` from the first: 6 for two methods, 7 for three.
pub fn fewest_seeds(methods: usize) -> u64 {
    fewest_discordant(ALPHA / methods.saturating_sub(1).max(1) as f64)
}

/// An interquartile mean over seeds with its interval, which a single seed does not have.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct IqmEstimate {
    /// The interquartile mean.
    pub mid: f64,
    /// 95 % bootstrap interval.
    pub ends: Option<[f64; 2]>,
}

/// A method against another, as a rule the first.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MethodDifference {
    /// Accuracy minus that of the first method with the same seed.
    pub paired: IqmEstimate,
    /// The probability that a run of the method beats one of the first, over all pairs of runs; ties count half.
    pub improvement: IqmEstimate,
    /// Two-sided p-value of the sign-flip test of the paired differences.
    pub p: f64,
    /// That p-value, corrected by Holm's method for all comparisons with the first method.
    pub adjusted: f64,
    /// The number of those comparisons.
    pub of: usize,
    /// Seeds in which the method is better, equal, worse.
    pub seeds: [usize; 3],
    /// None from one seed. A difference leans where its interval does not cover 0, but sign flips do not reject.
    pub verdict: Option<Significance>,
}

impl MethodDifference {
    /// A word for files.
    pub fn word(&self) -> &'static str {
        self.verdict.map_or("one seed", Significance::word)
    }

    /// The smallest corrected p-value that so many seeds can give.
    pub(super) fn least(&self) -> f64 {
        let seeds = i32::try_from(self.seeds.iter().sum::<usize>()).unwrap_or(i32::MAX);
        (self.of as f64 * 2.0 / 2.0f64.powi(seeds)).min(1.0)
    }

    /// A sentence for a reader.
    pub fn sentence(&self) -> String {
        let lies = |better| {
            let side = if better { "above" } else { "below" };
            format!("{}: the interval of the difference lies {side} 0", self.word())
        };
        let (p, few) = (self.adjusted, self.least() > ALPHA);
        let by = match self.of {
            1 => "by sign flips".to_owned(),
            of => format!("by sign flips, corrected for {of} comparisons"),
        };
        match self.verdict {
            None => "one seed: no interval, no verdict".to_owned(),
            Some(Significance::NotShown) => {
                format!("{}: the interval of the difference covers 0", self.word())
            }
            Some(Significance::Leans { better }) => {
                let few = few.then(|| format!(" (so few seeds give {:.2} at least)", self.least()));
                format!("{}, but p = {p:.2} {by}{}", lies(better), few.unwrap_or_default())
            }
            Some(Significance::Clear { better }) => format!("{}, p = {p:.3} {by}", lies(better)),
        }
    }

    /// Takes a p-value that is corrected for `of` comparisons.
    fn correct(&mut self, p: f64, of: usize) {
        (self.adjusted, self.of, self.verdict) = (p, of, verdict(self.paired, p));
    }
}

/// Statistics of a method.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MethodStanding {
    /// Accuracy before RL.
    pub before: IqmEstimate,
    /// Accuracy after RL.
    pub after: IqmEstimate,
    /// After minus before, by seed.
    pub gain: IqmEstimate,
    /// Against the first method; none for the first itself.
    pub difference: Option<MethodDifference>,
}

/// Sign flips drawn when there are too many seeds to count all.
const DRAWS: usize = 10_000;

/// Statistics of every method from (before, after) of each seed, with methods in order and seeds in the same order for
/// all.
///
/// # Panics
/// When a method has no seeds or a value is not finite.
pub fn standings(scores: &[(&[f64], &[f64])]) -> Vec<MethodStanding> {
    let minus = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a - b).collect::<Vec<f64>>();
    let first = scores.first().map_or(&[][..], |s| s.1);
    let standing = |(i, &(before, after)): (usize, &(&[f64], &[f64]))| MethodStanding {
        before: spread(before),
        after: spread(after),
        gain: spread(&minus(after, before)),
        difference: (i > 0).then(|| difference(after, first)),
    };
    let mut all: Vec<MethodStanding> = scores.iter().enumerate().map(standing).collect();
    correct(all.iter_mut().filter_map(|s| s.difference.as_mut()).collect());
    all
}

/// Corrects p-values, and the verdicts by them, for the number of these comparisons.
fn correct(compared: Vec<&mut MethodDifference>) {
    let corrected = holm(&compared.iter().map(|d| d.p).collect::<Vec<_>>());
    compared.into_iter().zip(&corrected).for_each(|(d, p)| d.correct(*p, corrected.len()));
}

/// Interquartile mean and bootstrap interval of one value a seed.
pub(super) fn spread(values: &[f64]) -> IqmEstimate {
    let ends = Bootstrap::default().iqm(&[values.to_vec()]).map(|i| [i.low, i.high]);
    IqmEstimate { mid: iqm(values).expect("at least one seed"), ends }
}

/// A method against another, from one value a seed, seeds in the same order.
///
/// # Panics
/// When there are no seeds, their numbers differ or a value is not finite.
fn difference(x: &[f64], first: &[f64]) -> MethodDifference {
    let by_seed: Vec<f64> = x.iter().zip(first).map(|(x, y)| x - y).collect();
    let paired = spread(&by_seed);
    let p = paired_permutation(x, first, DRAWS, 0).expect("at least one seed").p;
    let (xs, ys) = ([x.to_vec()], [first.to_vec()]);
    let ends = Bootstrap::default().probability_of_improvement(&xs, &ys);
    let improvement = IqmEstimate {
        mid: probability_of_improvement(&xs, &ys).expect("at least one seed"),
        ends: ends.map(|i: Interval| [i.low, i.high]),
    };
    let count = |f: fn(&f64) -> bool| by_seed.iter().filter(|d| f(d)).count();
    let seeds = [count(|d| *d > 0.0), count(|d| *d == 0.0), count(|d| *d < 0.0)];
    MethodDifference { paired, improvement, p, adjusted: p, of: 1, seeds, verdict: verdict(paired, p) }
}

/// The conclusion from an interval and a corrected p-value.
fn verdict(paired: IqmEstimate, p: f64) -> Option<Significance> {
    let [low, high] = paired.ends?;
    Some(match (low > 0.0, high < 0.0) {
        (false, false) => Significance::NotShown,
        (better, _) if p <= ALPHA => Significance::Clear { better },
        (better, _) => Significance::Leans { better },
    })
}

/// Interquartile mean and interval over seeds at every step that all curves have.
pub(super) fn bands(curves: &[Points]) -> Vec<(f64, IqmEstimate)> {
    let Some(first) = curves.first() else { return Vec::new() };
    let at = |x: f64| {
        let value = |c: &Points| c.iter().find(|p| p.0 == x).map(|p| p.1);
        curves.iter().map(value).collect::<Option<Vec<f64>>>()
    };
    first.iter().filter_map(|p| Some((p.0, spread(&at(p.0)?)))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bands_stand_where_all_seeds_have_a_value() {
        let curves = [vec![(0.0, 0.2), (5.0, 0.4), (10.0, 0.6)], vec![(0.0, 0.4), (10.0, 0.8)]];
        let bands = bands(&curves);
        assert_eq!(bands.iter().map(|b| b.0).collect::<Vec<_>>(), [0.0, 10.0]);
        // Of two seeds the interquartile mean is the mean, and the bootstrap reaches both.
        let (mid, ends) = (bands[1].1.mid, bands[1].1.ends);
        assert!((mid - 0.7).abs() < 1e-12);
        assert_eq!(ends, Some([0.6, 0.8]));
    }

    fn against(first: &[f64], other: &[f64]) -> MethodDifference {
        let start = vec![0.25; first.len()];
        standings(&[(&start, first), (&start, other)])[1].difference.expect("not the first")
    }

    #[test]
    fn locations_are_interquartile_means_and_differences_are_taken_within_a_seed() {
        // n = 5: (0.75·x2 + x3 + 0.75·x4) / 2.5 of the sorted values.
        let (before, after) = ([0.1, 0.2, 0.3, 0.4, 0.5], [0.2, 0.3, 0.4, 0.5, 0.6]);
        let other = [0.25, 0.35, 0.45, 0.55, 0.65];
        let s = standings(&[(&before, &after), (&before, &other)]);
        assert!((s[0].after.mid - 0.4).abs() < 1e-12 && (s[0].gain.mid - 0.1).abs() < 1e-12);
        assert_eq!(s[0].difference, None);
        // Every seed gains exactly 0.05: no spread at all within seeds, however wide it is between them.
        let d = s[1].difference.expect("second");
        let [low, high] = d.paired.ends.expect("five seeds");
        assert!((low - 0.05).abs() < 1e-12 && (high - 0.05).abs() < 1e-12 && d.seeds == [5, 0, 0]);
        let [low, high] = s[1].after.ends.expect("five seeds");
        assert!(low < 0.40 && high > 0.50, "{low} {high}");
        // Of 25 pairs of runs the other is above in 15 and never equal.
        assert!((d.improvement.mid - 15.0 / 25.0).abs() < 1e-12);
    }

    #[test]
    fn five_seeds_lean_and_six_can_tell() {
        let five = against(&[0.4; 5], &[0.5, 0.51, 0.52, 0.53, 0.54]);
        assert_eq!((five.verdict, five.adjusted), (Some(Significance::Leans { better: true }), 0.0625));
        assert_eq!((five.least(), five.of), (0.0625, 1));
        assert_eq!([1, 2, 3, 4, 7, 8].map(fewest_seeds), [6, 6, 7, 7, 8, 9]);
        let six = against(&[0.4; 6], &[0.3, 0.31, 0.32, 0.33, 0.34, 0.35]);
        assert_eq!((six.verdict, six.adjusted), (Some(Significance::Clear { better: false }), 0.03125));
        assert!(six.sentence().starts_with("worse: the interval of the difference lies below 0"));
    }

    #[test]
    fn several_methods_are_corrected_for_their_number() {
        let (start, first, other) = ([0.25; 6], [0.4; 6], [0.5, 0.51, 0.52, 0.53, 0.54, 0.55]);
        let equal: Vec<f64> = (0..6).map(|i| 0.4 + 0.01 * f64::from(i % 2 * 2 - 1)).collect();
        let all = standings(&[(&start, &first), (&start, &other), (&start, &equal), (&start, &other)]);
        let d = all[1].difference.expect("not the first");
        // Of three comparisons the smallest of p is multiplied by three.
        assert_eq!((d.p, d.adjusted), (0.03125, 0.09375));
        assert_eq!((d.verdict, d.least(), d.of), (Some(Significance::Leans { better: true }), 0.09375, 3));
        assert!(d.sentence().contains("p = 0.09 by sign flips, corrected for 3 comparisons"));
        assert_eq!(all[2].difference.expect("not the first").verdict, Some(Significance::NotShown));
    }

    #[test]
    fn an_interval_over_zero_is_a_tie_and_one_seed_is_nothing() {
        assert_eq!(
            against(&[0.4, 0.5, 0.6, 0.5], &[0.5, 0.4, 0.6, 0.5]).verdict,
            Some(Significance::NotShown)
        );
        assert_eq!(against(&[0.4; 4], &[0.4; 4]).verdict, Some(Significance::NotShown));
        let one = against(&[0.1], &[0.9]);
        assert_eq!((one.verdict, one.paired.ends), (None, None));
        assert!((one.paired.mid - 0.8).abs() < 1e-12);
    }

    #[test]
    fn equal_methods_are_distinguished_no_more_often_than_the_level_says() {
        // Differences that are symmetric around 0, from a small generator of their own: 200 comparisons with 8 seeds.
        let mut state = 1u64;
        let mut noise = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) as f64 / (1u64 << 31) as f64 - 0.5
        };
        let clear = (0..200)
            .filter(|_| {
                let draw: Vec<f64> = (0..8).map(|_| 0.1 * noise()).collect();
                matches!(against(&[0.0; 8], &draw).verdict, Some(Significance::Clear { .. }))
            })
            .count();
        // Binomial(200, 0.05) exceeds 20 with probability 0.001.
        assert!(clear <= 20, "{clear} of 200");
    }
}
