//! Lists and numbers of a line, refused with their place.

use crate::json::Json;

pub(super) const LISTS: &str = "a list of lists of numbers";
pub(super) const LIST: &str = "a list of numbers, one per token";

pub(super) fn items(place: &str, value: Json, right: &str) -> Result<Vec<Json>, String> {
    match value {
        Json::List(items) => Ok(items),
        other => Err(format!("{place} = {other}; must be {right}")),
    }
}

/// A list of numbers; what is no list is said to be no `right`.
pub(super) fn numbers(place: &str, value: Json, right: &str) -> Result<Vec<f64>, String> {
    let entry = |(t, x): (usize, Json)| number(&x).ok_or_else(|| wrong(place, t, &x, "a number"));
    items(place, value, right)?.into_iter().enumerate().map(entry).collect()
}

/// The number; a bare `NaN` or `Infinity` too, for [`group`](grpo_lambda::check::group) to refuse with its place.
pub(super) fn number(value: &Json) -> Option<f64> {
    match value {
        Json::Number(n) => n.as_f64(),
        Json::Bare(x) => Some(*x),
        _ => None,
    }
}

pub(super) fn wrong(place: &str, index: usize, found: &Json, right: &str) -> String {
    format!("{place}[{index}] = {found}; must be {right}")
}
