//! Rows by method, over the tasks.

use grpo_lambda_stats::mean;

use super::regions::Regions;
use super::row::{Mode, Row};

/// Rows by mode, method and x, ratios taken from the sampler.
pub(super) fn select<'a>(
    rows: &'a [Row],
    mode: Mode,
    method: &'a str,
    x: f64,
) -> impl Iterator<Item = &'a Row> {
    rows.iter().filter(move |r| r.mode == mode && r.method == method && r.x == x && !r.ignored)
}

/// Names of the methods in the order of the rows.
pub(super) fn methods(rows: &[Row]) -> Vec<&str> {
    let mut names: Vec<&str> = Vec::new();
    for row in rows {
        if !names.contains(&row.method.as_str()) {
            names.push(&row.method);
        }
    }
    names
}

/// Mean cosine over the tasks; a silent update counts 0.
pub(super) fn mean_cosine(rows: &[Row], mode: Mode, method: &str, x: f64) -> f64 {
    let cosines: Vec<f64> = select(rows, mode, method, x).map(Row::cosine).collect();
    mean(&cosines).unwrap_or(f64::NAN)
}

/// Mean of a share over the tasks.
pub(super) fn mean_share(
    rows: &[Row],
    mode: Mode,
    method: &str,
    x: f64,
    of: impl Fn(&Regions) -> f64,
) -> f64 {
    let shares: Vec<f64> =
        select(rows, mode, method, x).filter_map(|r| r.regions.as_ref().map(&of)).collect();
    mean(&shares).unwrap_or(f64::NAN)
}
