//! `method.max_length = auto`: the constant divisor of a loss is the completion limit of the run.
//!
//! Dr. GRPO divides by the largest length of a response, as TRL does; a constant that stays while `rl.max_new_tokens` changes would silently
//! scale the step.

use std::collections::BTreeMap;

use grpo_lambda::methods;

use super::METHOD_NAME;

/// The setting of methods whose loss can have a constant divisor, without `method.`.
const KEY: &str = "max_length";
const DIVISOR: &str = "method.max_length";
/// The value that stands for `rl.max_new_tokens`.
const AUTO: &str = "auto";

fn has_divisor(values: &BTreeMap<String, String>) -> bool {
    let method =
        methods::REGISTRY.iter().find(|m| Some(m.name) == values.get(METHOD_NAME).map(String::as_str));
    method.is_some_and(|m| (m.params)().iter().any(|p| p.key == KEY))
}

/// Makes `auto` the default, which a preset or the command line may replace by a number.
pub(super) fn set_default(values: &mut BTreeMap<String, String>) {
    if has_divisor(values) {
        values.entry(DIVISOR.to_owned()).or_insert_with(|| AUTO.to_owned());
    }
}

/// The value of a method's setting, `auto` replaced by the completion limit.
pub(super) fn resolved<'v>(values: &'v BTreeMap<String, String>, key: &str, value: &'v str) -> &'v str {
    let longest = values.get("rl.max_new_tokens").filter(|_| key == DIVISOR && value == AUTO);
    longest.map_or(value, String::as_str)
}

/// True if a setting of a method, given without `method.`, is `auto`.
pub fn is_auto(key: &str, value: &str) -> bool {
    key == KEY && value == AUTO
}

/// The value that a run takes for a setting of a method: `auto` for a divisor that was not given.
pub fn unless_said<'v>(key: &str, value: &'v str, said: bool) -> &'v str {
    if key == KEY && !said { AUTO } else { value }
}

/// True if the divisor is the completion limit.
pub(super) fn is_automatic(values: &BTreeMap<String, String>) -> bool {
    values.get(DIVISOR).is_some_and(|value| value == AUTO)
}

pub(super) fn is_named_in(line: &str) -> bool {
    line.starts_with(&format!("{KEY}="))
}

/// The word that a message on a refused divisor adds: it may be `auto` too.
pub(super) fn also_allowed(key: &str) -> &'static str {
    if key == KEY { "auto (the completion limit, rl.max_new_tokens) or " } else { "" }
}
