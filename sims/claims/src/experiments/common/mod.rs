//! Code shared by several experiments.

pub(crate) mod chart;
pub(crate) mod claim;
pub(crate) mod mdp;
pub(crate) mod record;

use crate::experiment::Verdict;
#[cfg(test)]
pub(crate) use claim::{words, words_after};

use crate::figure::Mark;
use grpo_lambda_stats::Interval;
use grpo_lambda_stats::table::significant;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// `Holds` if `ok`, else `Fails` with the counterexample.
pub(crate) fn holds_or(ok: bool, counterexample: impl Into<String>) -> Verdict {
    if ok { Verdict::Holds } else { Verdict::Fails(counterexample.into()) }
}

/// `Holds` if it does everywhere, `HoldsWhen` if it does exactly under the condition, else `Fails`.
pub(crate) fn holds_when(
    everywhere: bool,
    under_condition: bool,
    condition: impl Into<String>,
    counterexample: impl Into<String>,
) -> Verdict {
    match (everywhere, under_condition) {
        (true, _) => Verdict::Holds,
        (false, true) => Verdict::HoldsWhen(condition.into()),
        (false, false) => Verdict::Fails(counterexample.into()),
    }
}

/// An effect in one case, as its test shows it; the greatest of several is the worst.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Shown {
    Gain,
    Neither,
    Loss,
}

impl Shown {
    /// Reads an interval, which leaves 0 out or does not.
    pub(crate) fn by_interval(i: Interval) -> Shown {
        match i {
            _ if i.low > 0.0 => Shown::Gain,
            _ if i.high < 0.0 => Shown::Loss,
            _ => Shown::Neither,
        }
    }

    /// Reads a corrected p at 5 %, two-sided.
    pub(crate) fn by_p(effect: f64, p: f64) -> Shown {
        match p <= 0.05 {
            true if effect > 0.0 => Shown::Gain,
            true if effect < 0.0 => Shown::Loss,
            _ => Shown::Neither,
        }
    }

    /// The number of cases of which this is shown.
    pub(crate) fn count(self, cases: &[Shown]) -> usize {
        cases.iter().filter(|shown| **shown == self).count()
    }
}

/// The verdict on a gain that is said of every case: `Holds` if it is shown in all, `HoldsWhen` if in some; without any
/// it `Fails` if a loss is shown, else it is `Inconclusive`.
pub(crate) fn gains_everywhere(
    cases: &[Shown],
    condition: impl Into<String>,
    counterexample: impl Into<String>,
) -> Verdict {
    let gains = Shown::Gain.count(cases);
    if gains == 0 && !cases.contains(&Shown::Loss) {
        return Verdict::Inconclusive(counterexample.into());
    }
    holds_when(gains == cases.len(), gains > 0, condition, counterexample)
}

/// `Fails` with the names of those that are wrong, `Inconclusive` with those of which nothing is shown, else `Holds`.
pub(crate) fn unless(wrong: (&str, &[String]), open: (&str, &[String])) -> Verdict {
    let named = |(what, names): (&str, &[String])| format!("{what}: {}", names.join("; "));
    match (wrong.1.is_empty(), open.1.is_empty()) {
        (false, _) => Verdict::Fails(named(wrong)),
        (true, false) => Verdict::Inconclusive(named(open)),
        (true, true) => Verdict::Holds,
    }
}

/// The verdict on ratios that are said to lie within a range: an interval wholly outside refutes it, one that reaches
/// beyond leaves it open.
pub(crate) fn within_range(ratios: &[(&str, Interval)], [low, high]: [f64; 2]) -> Verdict {
    let outside = ratios.iter().filter(|(_, i)| i.high < low || high < i.low);
    let outside: Vec<String> = outside.map(|(place, i)| format!("{place} {}", ratio(*i))).collect();
    let within = ratios.iter().all(|(_, i)| low <= i.low && i.high <= high);
    match (outside.is_empty(), within && !ratios.is_empty()) {
        (false, _) => Verdict::Fails(outside.join("; ")),
        (true, false) => Verdict::Inconclusive("the intervals reach beyond that range".into()),
        (true, true) => Verdict::Holds,
    }
}

pub(crate) fn short(x: f64) -> String {
    significant(x, 3)
}

/// A rounding error, in coarse steps, so that machines whose `exp` differs in the last bit agree.
pub(crate) fn rounding_error(x: f64) -> String {
    match [1e-14, 1e-12, 1e-9].into_iter().find(|limit| x.abs() < *limit) {
        Some(limit) => format!("below {limit:e}"),
        None => short(x),
    }
}

pub(crate) fn percent(share: f64) -> String {
    format!("{} %", short(100.0 * share))
}

/// A number with its interval.
pub(crate) fn interval(i: Interval) -> String {
    format!("{:+.3} [{:+.3}, {:+.3}]", i.mid, i.low, i.high)
}

/// A ratio or a share with its interval.
pub(crate) fn ratio(i: Interval) -> String {
    format!("{:.3} ({:.3} to {:.3})", i.mid, i.low, i.high)
}

/// A heat map whose cells are written out.
pub(crate) fn heat(values: Vec<Vec<f64>>, range: (f64, f64), diverging: bool, label: &str) -> Mark {
    Mark::HeatMap { values, annotate: true, range: Some(range), diverging, label: label.into() }
}

/// The rows that share a key, keys in the order of the first ones.
pub(crate) fn grouped<R, K: PartialEq>(
    rows: impl IntoIterator<Item = R>,
    key: impl Fn(&R) -> K,
) -> Vec<(K, Vec<R>)> {
    let mut groups: Vec<(K, Vec<R>)> = Vec::new();
    for row in rows {
        let own = key(&row);
        match groups.iter_mut().find(|(known, _)| *known == own) {
            Some((_, rows)) => rows.push(row),
            None => groups.push((own, vec![row])),
        }
    }
    groups
}

/// The sizes for which something is so, as words.
pub(crate) fn sizes_where(sizes: &[usize], is: impl Fn(usize) -> bool) -> Vec<String> {
    sizes.iter().filter(|&&size| is(size)).map(usize::to_string).collect()
}

/// Every value once, in the order of the first ones.
pub(crate) fn distinct<T: PartialEq>(all: impl IntoIterator<Item = T>) -> Vec<T> {
    let mut found = Vec::new();
    for value in all {
        if !found.contains(&value) {
            found.push(value);
        }
    }
    found
}

/// Names with commas between them; `none` where there is none.
pub(crate) fn list<S: AsRef<str>>(names: &[S]) -> String {
    let names: Vec<&str> = names.iter().map(AsRef::as_ref).collect();
    if names.is_empty() { "none".into() } else { names.join(", ") }
}

/// Tolerance of identities between sums of a few hundred numbers of order 1.
pub(crate) const EXACT: f64 = 1e-12;

/// `difference`, at least [`EXACT`]: a bound in place of rounding, so that committed numbers do not depend on the
/// machine.
pub(crate) fn at_least_exact(difference: f64) -> f64 {
    if difference < EXACT { EXACT } else { difference }
}

/// The inner product.
pub(crate) fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(x, y)| x * y).sum()
}

pub(crate) fn norm(a: &[f64]) -> f64 {
    dot(a, a).sqrt()
}

/// Cosine of two vectors; NaN when either is 0.
pub(crate) fn cosine(a: &[f64], b: &[f64]) -> f64 {
    dot(a, b) / (norm(a) * norm(b))
}

pub(crate) fn difference(a: &[f64], b: &[f64]) -> Vec<f64> {
    a.iter().zip(b).map(|(x, y)| x - y).collect()
}

pub(crate) fn gap(a: &[f64], b: &[f64]) -> f64 {
    assert_eq!(a.len(), b.len());
    a.iter().zip(b).map(|(x, y)| (x - y).abs()).fold(0.0, f64::max)
}

/// The largest of some numbers, 0 if there is none above it.
pub(crate) fn largest(values: impl IntoIterator<Item = f64>) -> f64 {
    values.into_iter().fold(0.0, f64::max)
}

/// The least and the greatest of some numbers.
pub(crate) fn extremes(values: impl IntoIterator<Item = f64>) -> (f64, f64) {
    let none = (f64::INFINITY, f64::NEG_INFINITY);
    values.into_iter().fold(none, |(low, high), x| (low.min(x), high.max(x)))
}

pub(crate) fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

/// The mean of numbers that are made on the way.
pub(crate) fn average(values: impl IntoIterator<Item = f64>) -> f64 {
    mean(&values.into_iter().collect::<Vec<_>>())
}

/// The `p` quantile by linear interpolation of the sorted values.
pub(crate) fn quantile(values: &[f64], p: f64) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let at = p * (sorted.len() - 1) as f64;
    let (low, high) = (sorted[at.floor() as usize], sorted[at.ceil() as usize]);
    low + (high - low) * at.fract()
}

/// The ratio of two means over the same draws, with its standard error.
pub(crate) fn ratio_of_means(ours: &[f64], base: &[f64]) -> (f64, f64) {
    let (n, level) = (ours.len() as f64, mean(base));
    let ratio = mean(ours) / level;
    let spread: f64 = ours.iter().zip(base).map(|(a, b)| (a - ratio * b).powi(2)).sum();
    (ratio, (spread / (n - 1.0) / n).sqrt() / level)
}

/// The values with their positions: a line over tokens.
pub(crate) fn indexed(values: &[f64]) -> impl Iterator<Item = (f64, f64)> + '_ {
    values.iter().enumerate().map(|(k, &v)| (k as f64, v))
}

/// An interval at a place of a panel.
pub(crate) fn placed(x: f64, i: Interval) -> (f64, f64, f64, f64) {
    (x, i.low, i.mid, i.high)
}

/// The generator of a run's stream `stream`.
pub(crate) fn stream(seed: u64, stream: u64) -> ChaCha8Rng {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    rng.set_stream(stream);
    rng
}

/// A number in `(-1, 1)` on a grid of 2^-31.
pub(crate) fn symmetric(rng: &mut ChaCha8Rng) -> f64 {
    f64::from(rng.next_u32()) / f64::from(1u32 << 31) - 1.0
}

/// `n` such numbers.
pub(crate) fn noise(rng: &mut ChaCha8Rng, n: usize) -> Vec<f64> {
    (0..n).map(|_| symmetric(rng)).collect()
}
