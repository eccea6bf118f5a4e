//! Numbers as they stand in findings.

use grpo_lambda_stats::OverTasks;
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

/// A mean with the tasks as the sample: Student's t interval, median, p of sign flips, and the mean without the task that moves it most.
pub(crate) fn over_tasks<'a>(o: &OverTasks, name: impl Fn(usize) -> &'a str) -> String {
    let (task, without) = o.carried_by();
    let i = o.interval;
    format!(
        "{:+.3} [{:+.3}, {:+.3}], median {:+.4}, sign flips p = {}, without {} {without:+.4}",
        i.mid,
        i.low,
        i.high,
        o.median,
        significant(o.p, 2),
        name(task)
    )
}

/// Names with commas between them; `none` where there is none.
pub(crate) fn list<S: AsRef<str>>(names: &[S]) -> String {
    let names: Vec<&str> = names.iter().map(AsRef::as_ref).collect();
    if names.is_empty() { "none".into() } else { names.join(", ") }
}
