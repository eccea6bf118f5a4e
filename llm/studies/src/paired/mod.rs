//! Two evaluations on the same problems, problem by problem.
//!
//! A difference is B minus A, of shares of right answers. Problems without a gradable response on either side are left
//! out and counted; a second difference scores ungradable responses 0.
//!
//! ```text
//! d_i = score of B on problem i - score of A on problem i
//! p        paired permutation test: were A and B equal, every d_i would be as likely with either sign
//! interval percentile bootstrap over problems
//! Holm     over benchmarks; the average is one test of its own
//! ```
//! The test of a benchmark counts all sign flips (with one response each it is McNemar's exact test). That of the
//! average, whose terms have as many sizes as there are benchmarks, counts them where at most 16 problems differ, and
//! draws otherwise.

pub mod report;

use std::path::{Path, PathBuf};

use grpo_lambda_stats::{
    Bootstrap, Interval, holm, mean, mean_of_independent, paired_permutation, sign_flip_test, variance,
    wilson,
};

use crate::significance::Significance;
use grpo_lambda_trainer::eval::CONFIDENCE_LEVEL;
use grpo_lambda_trainer::eval::answers::{HeldOutAnswers, Moment};
use grpo_lambda_trainer::eval::power::{ALPHA, PowerLimits, of_several, of_single};
use grpo_lambda_trainer::eval::score::Tally;
use grpo_lambda_trainer::eval::store::{self, EvalManifest, StoreError, StoredBenchmark};

/// Why two evaluations cannot be compared.
#[derive(Debug, thiserror::Error)]
pub enum PairError {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error("{a} and {b} have no benchmark in common: {} against {}", .names[0], .names[1])]
    Apart { a: PathBuf, b: PathBuf, names: [String; 2] },
    #[error(
        "{benchmark}: its problems in {a} ({}) are not those in {b} ({}); only answers to the same problems can be compared in pairs; \
         eval leaves out what a run was trained on: ask both models RUN:held-out, or give both --with-trained",
        .problems[0], .problems[1]
    )]
    OtherProblems { benchmark: String, a: PathBuf, b: PathBuf, problems: [usize; 2] },
}

/// An evaluation to compare.
#[derive(Clone, Debug)]
pub struct StoredEvaluation {
    pub path: PathBuf,
    written: EvalManifest,
    recorded: Vec<StoredBenchmark>,
}

impl StoredEvaluation {
    /// Reads a finished evaluation: its directory, or a run directory with one in `eval`.
    pub fn read(path: &Path) -> Result<StoredEvaluation, StoreError> {
        let inside = path.join("eval");
        let own = path.join(store::FILE).exists();
        let path = if !own && inside.join(store::FILE).exists() { inside } else { path.to_owned() };
        let (written, recorded) = store::read(&path)?;
        Ok(StoredEvaluation { path, written, recorded })
    }

    /// A run's answers to its held-out problems before RL, and those at its latest evaluation; with the RL steps done
    /// at either.
    ///
    /// # Errors
    /// [`StoreError::NoAnswers`] where one of them is not there.
    pub fn ends_of_run(run: &Path) -> Result<([StoredEvaluation; 2], [u64; 2]), StoreError> {
        let [start, latest] = HeldOutAnswers::ends(run)?;
        let steps = [start.step, latest.step];
        let stored = |answers: HeldOutAnswers, moment: Moment| StoredEvaluation {
            path: run.join(moment.file()),
            written: EvalManifest::default(),
            recorded: vec![answers.benchmark()],
        };
        Ok(([stored(start, Moment::Start), stored(latest, Moment::Latest)], steps))
    }

    fn names(&self) -> String {
        self.recorded.iter().map(|r| r.head.name.as_str()).collect::<Vec<_>>().join(",")
    }
}

/// The significance of a difference by its p-value, alone and corrected for the number of benchmarks.
fn verdict(difference: f64, p: f64, adjusted: f64) -> Significance {
    let better = difference > 0.0;
    match (adjusted <= ALPHA, p <= ALPHA) {
        (true, _) => Significance::Clear { better },
        (false, true) => Significance::Leans { better },
        (false, false) => Significance::NotShown,
    }
}

/// A difference with its interval and test.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PairedDifference {
    /// B minus A, with its 95 % interval.
    pub value: Interval,
    /// Two-sided p-value of the paired permutation test.
    pub p: f64,
    /// True if all sign flips were counted rather than drawn.
    pub exact: bool,
    /// The p-value corrected for the number of benchmarks (Holm); of the average the p-value itself.
    pub adjusted: f64,
    pub verdict: Significance,
}

/// A problem on which the two differ.
#[derive(Clone, Debug, PartialEq)]
pub struct Discordant {
    pub id: String,
    /// The score of A.
    pub a: f64,
    /// The score of B.
    pub b: f64,
}

/// A benchmark that both were asked.
#[derive(Clone, Debug, PartialEq)]
pub struct Paired {
    pub name: String,
    /// Problems with gradable responses on both sides.
    pub n: usize,
    /// Problems left out because a side has no gradable response.
    pub left_out: usize,
    /// Mean score of A and of B over those `n`.
    pub means: [f64; 2],
    /// The difference; `None` if no problem is gradable on both sides.
    pub difference: Option<PairedDifference>,
    /// The difference over all problems, with ungradable responses scored 0.
    pub as_wrong: PairedDifference,
    /// Problems on which B is better, equal, worse.
    pub sides: [usize; 3],
    /// The problems on which they differ, the largest differences in favour of B first.
    pub discordant: Vec<Discordant>,
    /// The differences that this many problems can detect, at the observed spread.
    pub limits: Option<PowerLimits>,
}

/// Two evaluations compared.
#[derive(Clone, Debug, PartialEq)]
pub struct Pair {
    /// The directories, A and B.
    pub paths: [PathBuf; 2],
    /// The benchmarks both were asked, in the order of A.
    pub benchmarks: Vec<Paired>,
    /// The unweighted mean over them: means of A and B, and the difference; with several, if all of them have gradable
    /// problems.
    pub average: Option<([f64; 2], PairedDifference)>,
    /// Benchmarks that only A, or only B, was asked.
    pub alone: [Vec<String>; 2],
    /// Settings that differ: key, A's value, B's.
    pub settings: Vec<(String, String, String)>,
}

/// Sign flips drawn where they are too many to count.
const DRAWS: usize = 20_000;

/// Compares two evaluations.
pub fn pair(a: &StoredEvaluation, b: &StoredEvaluation) -> Result<Pair, PairError> {
    let mut raw = Vec::new();
    for left in &a.recorded {
        let Some(right) = b.recorded.iter().find(|r| r.head.name == left.head.name) else { continue };
        if left.head.fingerprint != right.head.fingerprint {
            return Err(PairError::OtherProblems {
                benchmark: left.head.name.clone(),
                a: a.path.clone(),
                b: b.path.clone(),
                problems: [left.head.problems, right.head.problems],
            });
        }
        let tallies = |r: &StoredBenchmark| r.completions.iter().map(|c| Tally::new(c)).collect::<Vec<_>>();
        raw.push((left, tallies(left), tallies(right)));
    }
    if raw.is_empty() {
        let names = [a.names(), b.names()];
        return Err(PairError::Apart { a: a.path.clone(), b: b.path.clone(), names });
    }
    let counted: Vec<Option<Test>> = raw.iter().map(|(_, x, y)| Test::new(x, y, of_counted)).collect();
    let all: Vec<Test> = raw.iter().filter_map(|(_, x, y)| Test::new(x, y, of_all)).collect();
    let adjusted = holm(&counted.iter().flatten().map(|t| t.p).collect::<Vec<f64>>());
    let adjusted_all = holm(&all.iter().map(|t| t.p).collect::<Vec<f64>>());
    let mut adjusted = adjusted.into_iter();
    let mut benchmarks = Vec::new();
    for (((left, x, y), counted), (all, adjusted_all)) in
        raw.iter().zip(&counted).zip(all.iter().zip(adjusted_all))
    {
        let difference = counted.as_ref().map(|t| t.difference(adjusted.next().unwrap_or(1.0)));
        let ids = left.problems.iter().map(|p| p.id.as_str());
        benchmarks.push(paired(&left.head.name, ids, x, y, difference, all.difference(adjusted_all)));
    }
    let tests: Option<Vec<&Test>> = counted.iter().map(Option::as_ref).collect();
    let average = tests.filter(|tests| tests.len() > 1).and_then(|tests| average(&tests));
    let missing = |from: &StoredEvaluation, other: &StoredEvaluation| {
        let absent = |r: &&StoredBenchmark| other.recorded.iter().all(|o| o.head.name != r.head.name);
        from.recorded.iter().filter(absent).map(|r| r.head.name.clone()).collect()
    };
    let changed = a.written.settings().filter_map(|(key, value)| {
        let other = b.written.setting(key);
        (value != other).then(|| (key.to_owned(), value, other))
    });
    Ok(Pair {
        paths: [a.path.clone(), b.path.clone()],
        benchmarks,
        average,
        alone: [missing(a, b), missing(b, a)],
        settings: changed.filter(|(key, ..)| key != "weights").collect(),
    })
}

/// Right responses and those they are a share of, which are not 0.
type CorrectShare = (u64, u64);

fn of_counted(t: &Tally) -> Option<CorrectShare> {
    (t.graded > 0).then_some((t.right, t.graded))
}

fn of_all(t: &Tally) -> Option<CorrectShare> {
    Some((t.right, t.samples))
}

/// The test of one benchmark.
struct Test {
    means: [f64; 2],
    d: Vec<f64>,
    p: f64,
    exact: bool,
}

impl Test {
    /// The test on the problems for which `share` (so many of so many) has a value on both sides; nothing where there
    /// are none.
    fn new(a: &[Tally], b: &[Tally], share: impl Fn(&Tally) -> Option<CorrectShare>) -> Option<Test> {
        let both: Vec<(CorrectShare, CorrectShare)> =
            a.iter().zip(b).filter_map(|(x, y)| Some((share(x)?, share(y)?))).collect();
        let value = |(right, n): CorrectShare| right as f64 / n as f64;
        let d: Vec<f64> = both.iter().map(|(x, y)| value(*y) - value(*x)).collect();
        let left: Vec<f64> = both.iter().map(|(x, _)| value(*x)).collect();
        let right: Vec<f64> = both.iter().map(|(_, y)| value(*y)).collect();
        let means = [mean(&left)?, mean(&right)?];
        let (p, exact) = match whole_differences(&both).and_then(|whole| sign_flip_test(&whole)) {
            Some(p) => (p, true),
            None => drawn(&d),
        };
        Some(Test { means, d, p, exact })
    }

    fn difference(&self, adjusted: f64) -> PairedDifference {
        let value = interval(&self.d);
        PairedDifference {
            value,
            p: self.p,
            exact: self.exact,
            adjusted,
            verdict: verdict(value.mid, self.p, adjusted),
        }
    }
}

/// Differences of fractions as multiples of one unit; nothing where the unit would be too small.
fn whole_differences(shares: &[(CorrectShare, CorrectShare)]) -> Option<Vec<i64>> {
    const SMALLEST_UNIT: u64 = 1 << 20;
    let mut unit = 1;
    for n in shares.iter().flat_map(|((_, m), (_, n))| [*m, *n]) {
        unit = num_integer::lcm(unit, n);
        if unit > SMALLEST_UNIT {
            return None;
        }
    }
    let scaled = |(right, n): CorrectShare| i64::try_from(right * (unit / n)).ok();
    shares.iter().map(|(a, b)| Some(scaled(*b)? - scaled(*a)?)).collect()
}

/// The permutation test of these differences: sign flips drawn, or counted where few problems differ.
fn drawn(d: &[f64]) -> (f64, bool) {
    // Pairs without a difference have no influence, and cost draws.
    let d: Vec<f64> = d.iter().copied().filter(|d| *d != 0.0).collect();
    match paired_permutation(&d, &vec![0.0; d.len()], DRAWS, 0) {
        Some(test) => (test.p, test.exact),
        None => (1.0, true),
    }
}

/// The mean difference with its interval: a percentile bootstrap over problems. Where all differences are the same the
/// bootstrap would have no width; the interval is then as wide as Wilson's upper end of the share of problems that
/// might differ from the others, with none seen.
fn interval(d: &[f64]) -> Interval {
    let mid = mean(d).unwrap_or(0.0);
    let constant = d.iter().all(|x| *x == d[0]);
    let bootstrap = Bootstrap { level: CONFIDENCE_LEVEL, ..Bootstrap::default() };
    let statistic = |strata: &[Vec<f64>]| mean(&strata[0]).unwrap_or(f64::NAN);
    match bootstrap.interval(&[d.to_vec()], statistic) {
        Some(interval) if !constant => interval,
        _ => {
            let unseen = wilson(0, d.len() as u64, CONFIDENCE_LEVEL).map_or(1.0, |i| i.high);
            Interval {
                low: (mid - unseen).max(-1.0),
                mid,
                high: (mid + unseen).min(1.0),
                level: CONFIDENCE_LEVEL,
            }
        }
    }
}

fn average(tests: &[&Test]) -> Option<([f64; 2], PairedDifference)> {
    let k = tests.len() as f64;
    let means = [0, 1].map(|side| tests.iter().map(|t| t.means[side]).sum::<f64>() / k);
    let value = mean_of_independent(&tests.iter().map(|t| interval(&t.d)).collect::<Vec<_>>())?;
    // Each problem with the weight it has in the average.
    let weighted: Vec<f64> =
        tests.iter().flat_map(|t| t.d.iter().map(move |d| d / (k * t.d.len() as f64))).collect();
    let (p, exact) = drawn(&weighted);
    Some((means, PairedDifference { value, p, exact, adjusted: p, verdict: verdict(value.mid, p, p) }))
}

fn paired<'a>(
    name: &str,
    ids: impl Iterator<Item = &'a str>,
    a: &[Tally],
    b: &[Tally],
    difference: Option<PairedDifference>,
    as_wrong: PairedDifference,
) -> Paired {
    let scores: Vec<(&str, f64, f64)> =
        ids.zip(a.iter().zip(b)).filter_map(|(id, (x, y))| Some((id, x.score()?, y.score()?))).collect();
    let n = scores.len();
    let count = |f: fn(f64) -> bool| scores.iter().filter(|(_, x, y)| f(y - x)).count();
    let sides = [count(|d| d > 0.0), count(|d| d == 0.0), count(|d| d < 0.0)];
    let average = |f: fn(&(&str, f64, f64)) -> f64| scores.iter().map(f).sum::<f64>() / n.max(1) as f64;
    let mut discordant: Vec<Discordant> = scores
        .iter()
        .filter(|(_, x, y)| x != y)
        .map(|(id, x, y)| Discordant { id: (*id).to_owned(), a: *x, b: *y })
        .collect();
    discordant.sort_by(|x, y| (y.b - y.a).total_cmp(&(x.b - x.a)));
    let most = |t: &[Tally]| t.iter().map(|t| t.samples).max().unwrap_or(1);
    let samples = most(a).max(most(b));
    let d: Vec<f64> = scores.iter().map(|(_, x, y)| y - x).collect();
    let limits = (n > 0).then(|| match samples {
        1 => of_single(n as u64, (sides[0] + sides[2]) as f64 / n as f64),
        _ => of_several(n as u64, samples, variance(&d, 0).unwrap_or(0.0).sqrt()),
    });
    Paired {
        name: name.to_owned(),
        n,
        left_out: a.len() - n,
        means: [average(|s| s.1), average(|s| s.2)],
        difference,
        as_wrong,
        sides,
        discordant,
        limits,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tallies(right: &[u64], samples: u64) -> Vec<Tally> {
        right.iter().map(|&right| Tally { right, graded: samples, samples }).collect()
    }

    fn test(a: &[u64], b: &[u64], samples: u64) -> Test {
        Test::new(&tallies(a, samples), &tallies(b, samples), of_counted).expect("problems")
    }

    #[test]
    fn single_answers_are_tested_by_their_discordant_problems() {
        // B wins 7, loses 1, of 40: 2 (1 + 8) / 2⁸.
        let a: Vec<u64> = (0..40).map(|i| u64::from(i < 10)).collect();
        let b: Vec<u64> = (0..40).map(|i| u64::from((1..17).contains(&i))).collect();
        let t = test(&a, &b, 1);
        assert!((t.p - 18.0 / 256.0).abs() < 1e-12 && t.exact);
        let d = t.difference(t.p);
        assert!((d.value.mid - 6.0 / 40.0).abs() < 1e-12 && d.value.low > -0.01 && d.value.high < 0.31);
        assert_eq!(d.verdict, Significance::NotShown);
        assert_eq!(verdict(0.1, 0.01, 0.03), Significance::Clear { better: true });
        assert_eq!(verdict(-0.1, 0.04, 0.2).word(), "leans worse");
    }

    #[test]
    fn shares_of_different_numbers_of_answers_are_counted_exactly() {
        // 1/2 against 1/3, 1/1 against 2/3, 0 against 1/3: differences -1/6, -2/6, +2/6; |sum| = 1/6.
        let tally = |right, graded| Tally { right, graded, samples: 3 };
        let a = [tally(1, 2), tally(1, 1), tally(0, 3)];
        let b = [tally(1, 3), tally(2, 3), tally(1, 3)];
        let t = Test::new(&a, &b, of_counted).expect("problems");
        // Sums of ±1 ±2 ±2 are ±1, ±1, ±3, ±5: all eight are at least 1.
        assert!(t.exact && (t.p - 1.0).abs() < 1e-12);
        let all = Test::new(&a, &b, of_all).expect("problems");
        // 1/3 against 1/3, 1/3 against 2/3, 0 against 1/3: both discordant ones on one side.
        assert!(all.exact && (all.p - 0.5).abs() < 1e-12);
    }

    #[test]
    fn equal_answers_are_a_tie_with_an_interval_that_has_width() {
        let t = test(&[1, 0, 1, 1], &[1, 0, 1, 1], 1);
        let d = t.difference(1.0);
        assert_eq!((t.p, d.verdict), (1.0, Significance::NotShown));
        assert!(d.value.mid == 0.0 && d.value.low < -0.3 && d.value.high > 0.3, "{:?}", d.value);
        let d = test(&[0; 50], &[1; 50], 1).difference(0.0);
        assert!(d.value.mid == 1.0 && d.value.low > 0.9 && d.value.high == 1.0, "{:?}", d.value);
    }

    #[test]
    fn the_average_weighs_benchmarks_and_not_problems() {
        // Ten problems all won, forty lost by one: the average is (1 - 1/40) / 2.
        let small = test(&[0; 10], &[1; 10], 1);
        let mut lost = vec![1; 40];
        lost[7] = 0;
        let large = test(&[1; 40], &lost, 1);
        let (means, d) = average(&[&small, &large]).expect("two");
        assert!((means[1] - means[0] - d.value.mid).abs() < 1e-12);
        assert!((d.value.mid - (1.0 - 0.025) / 2.0).abs() < 1e-12);
        // Eleven problems differ: counted. Ten of weight 1/20 and one of 1/80; only all ten on a side are as extreme: 4
        // of 2¹¹, less those two where the single one adds to them: |sum| ≥ 10/20 - 1/80 holds for all four.
        assert!(d.exact && (d.p - 4.0 / 2048.0).abs() < 1e-12, "{d:?}");
    }

    #[test]
    fn equal_models_are_distinguished_no_more_often_than_the_level_says() {
        // 300 pairs of evaluations with two samples of 40 problems, all of the same model.
        let mut state = 7u64;
        let mut uniform = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) as f64 / (1u64 << 31) as f64
        };
        let mut rejected = 0;
        for _ in 0..300 {
            let mut draw =
                |i: usize| u64::from(uniform() < i as f64 / 40.0) + u64::from(uniform() < i as f64 / 40.0);
            let a: Vec<u64> = (0..40).map(&mut draw).collect();
            let b: Vec<u64> = (0..40).map(&mut draw).collect();
            rejected += usize::from(test(&a, &b, 2).p <= 0.05);
        }
        // Binomial(300, 0.05) exceeds 27 with probability 0.001.
        assert!(rejected <= 27, "{rejected} of 300");
    }
}
