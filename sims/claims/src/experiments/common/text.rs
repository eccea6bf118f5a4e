//! Numbers as they stand in findings.

use grpo_lambda_stats::table::significant;

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

/// Names with commas between them; `none` where there is none.
pub(crate) fn list<S: AsRef<str>>(names: &[S]) -> String {
    let names: Vec<&str> = names.iter().map(AsRef::as_ref).collect();
    if names.is_empty() { "none".into() } else { names.join(", ") }
}
