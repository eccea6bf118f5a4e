//! Intervals and tests of the library, with exceptions instead of panics for callers' mistakes.

use grpo_lambda_stats::table::significant;
use grpo_lambda_stats::{self as stats, Bootstrap, Interval};
use pyo3::prelude::*;

use crate::values::{numbers, refused};

/// Ends, estimate and level of an interval.
type Ends = (f64, f64, f64, f64);

fn ends(interval: Interval) -> Ends {
    (interval.low, interval.mid, interval.high, interval.level)
}

fn check_level(level: f64) -> PyResult<()> {
    let inside = level > 0.0 && level < 1.0;
    if inside {
        Ok(())
    } else {
        Err(refused(format!("level = {}; must lie between 0 and 1", significant(level, 17))))
    }
}

/// A count.
fn count(name: &str, x: i64) -> PyResult<u64> {
    u64::try_from(x).map_err(|_| refused(format!("{name} = {x}; must be at least 0")))
}

/// Successes among `n` attempts.
fn counts(successes: i64, n: i64) -> PyResult<(u64, u64)> {
    let (successes, n) = (count("successes", successes)?, count("n", n)?);
    let right = successes <= n;
    if right {
        Ok((successes, n))
    } else {
        Err(refused(format!("successes = {successes}; must be at most n = {n}")))
    }
}

/// Finite numbers.
fn sample(name: &str, values: &Bound<'_, PyAny>) -> PyResult<Vec<f64>> {
    let values = numbers(name, values, "a list of numbers")?;
    match values.iter().position(|x| !x.is_finite()) {
        Some(i) => Err(refused(format!("{name}[{i}] = {}; must be a finite number", values[i]))),
        None => Ok(values),
    }
}

/// A list of samples.
fn samples(name: &str, tasks: &[Bound<'_, PyAny>]) -> PyResult<Vec<Vec<f64>>> {
    tasks.iter().enumerate().map(|(i, task)| sample(&format!("{name}[{i}]"), task)).collect()
}

#[pyfunction]
fn wilson(successes: i64, n: i64, level: f64) -> PyResult<Option<Ends>> {
    let (successes, n) = counts(successes, n)?;
    check_level(level)?;
    Ok(stats::wilson(successes, n, level).map(ends))
}

#[pyfunction]
fn clopper_pearson(successes: i64, n: i64, level: f64) -> PyResult<Option<Ends>> {
    let (successes, n) = counts(successes, n)?;
    check_level(level)?;
    Ok(stats::clopper_pearson(successes, n, level).map(ends))
}

#[pyfunction]
fn t_interval(values: &Bound<'_, PyAny>, level: f64) -> PyResult<Option<Ends>> {
    check_level(level)?;
    Ok(stats::t_interval(&sample("values", values)?, level).map(ends))
}

#[pyfunction]
fn two_proportions(
    successes_1: i64,
    n_1: i64,
    successes_2: i64,
    n_2: i64,
    level: f64,
) -> PyResult<Option<Ends>> {
    let ((successes_1, n_1), (successes_2, n_2)) = (counts(successes_1, n_1)?, counts(successes_2, n_2)?);
    check_level(level)?;
    let difference = stats::two_proportions(successes_1, n_1, successes_2, n_2);
    Ok(difference.map(|d| ends(d.interval(level))))
}

#[pyfunction]
fn paired_permutation(
    py: Python<'_>,
    x: &Bound<'_, PyAny>,
    y: &Bound<'_, PyAny>,
    draws: usize,
    seed: u64,
) -> PyResult<Option<(f64, f64, bool)>> {
    let (x, y) = (sample("x", x)?, sample("y", y)?);
    if x.len() != y.len() {
        return Err(refused(format!("y has {} entries, x has {}; the values are pairs", y.len(), x.len())));
    }
    if draws == 0 {
        return Err(refused("draws = 0; must be at least 1"));
    }
    let test = py.detach(|| stats::paired_permutation(&x, &y, draws, seed));
    Ok(test.map(|t| (t.difference, t.p, t.exact)))
}

#[pyfunction]
fn sign_flip_test(py: Python<'_>, differences: Vec<i64>) -> Option<f64> {
    py.detach(|| stats::sign_flip_test(&differences))
}

#[pyfunction]
fn holm(p: &Bound<'_, PyAny>) -> PyResult<Vec<f64>> {
    let p = sample("p", p)?;
    match p.iter().position(|x| !(0.0..=1.0).contains(x)) {
        Some(i) => Err(refused(format!("p[{i}] = {}; must lie between 0 and 1", significant(p[i], 17)))),
        None => Ok(stats::holm(&p)),
    }
}

#[pyfunction]
fn pass_at_k(n: i64, successes: i64, k: i64) -> PyResult<Option<f64>> {
    let (successes, n) = counts(successes, n)?;
    if k < 1 {
        return Err(refused(format!("k = {k}; must be at least 1")));
    }
    Ok(stats::pass_at_k(n, successes, count("k", k)?))
}

#[pyfunction]
fn bootstrap_iqm(
    py: Python<'_>,
    tasks: Vec<Bound<'_, PyAny>>,
    level: f64,
    resamples: usize,
    seed: u64,
) -> PyResult<Option<Ends>> {
    check_level(level)?;
    if resamples == 0 {
        return Err(refused("resamples = 0; must be at least 1"));
    }
    let tasks = samples("tasks", &tasks)?;
    Ok(py.detach(|| Bootstrap { resamples, level, seed }.iqm(&tasks)).map(ends))
}

#[pyfunction]
fn probability_of_improvement(x: Vec<Bound<'_, PyAny>>, y: Vec<Bound<'_, PyAny>>) -> PyResult<Option<f64>> {
    if x.len() != y.len() {
        return Err(refused(format!("y has {} tasks, x has {}; one per task is needed", y.len(), x.len())));
    }
    Ok(stats::probability_of_improvement(&samples("x", &x)?, &samples("y", &y)?))
}

/// Adds every function to the module.
pub(crate) fn register(m: &Bound<'_, PyModule>) -> PyResult<()> {
    m.add_function(wrap_pyfunction!(wilson, m)?)?;
    m.add_function(wrap_pyfunction!(clopper_pearson, m)?)?;
    m.add_function(wrap_pyfunction!(t_interval, m)?)?;
    m.add_function(wrap_pyfunction!(two_proportions, m)?)?;
    m.add_function(wrap_pyfunction!(paired_permutation, m)?)?;
    m.add_function(wrap_pyfunction!(sign_flip_test, m)?)?;
    m.add_function(wrap_pyfunction!(holm, m)?)?;
    m.add_function(wrap_pyfunction!(pass_at_k, m)?)?;
    m.add_function(wrap_pyfunction!(bootstrap_iqm, m)?)?;
    m.add_function(wrap_pyfunction!(probability_of_improvement, m)?)
}
