//! Settings of methods that follow the rest of the configuration while they are `auto`, as they are where nobody gave them.
//!
//! `method.max_length`, the constant divisor of a loss, is the completion limit of the run: Dr. GRPO divides by the largest length of a response, as
//! TRL does, and a constant that stays while `rl.max_new_tokens` changes would silently scale the step. `method.weight_K` of GDPO is the weight of the
//! K-th component of the reward that has one, which a comparison of each component in its group would lose.

use std::collections::BTreeMap;

use grpo_lambda::methods;

use super::rewards::{self, WEIGHTS};
use super::{METHOD, METHOD_NAME};

/// The setting of methods whose loss can have a constant divisor, without `method.`.
const KEY: &str = "max_length";
const AUTO: &str = "auto";

fn follows(key: &str) -> bool {
    key == KEY || WEIGHTS.contains(&key)
}

/// Makes `auto` the default, which a preset or the command line may replace by a number.
pub(super) fn set_default(values: &mut BTreeMap<String, String>) {
    let name = values.get(METHOD_NAME);
    let Some(method) = methods::REGISTRY.iter().find(|m| Some(m.name) == name.map(String::as_str)) else {
        return;
    };
    for param in (method.params)().iter().filter(|param| follows(param.key)) {
        values.entry(format!("{METHOD}{}", param.key)).or_insert_with(|| AUTO.to_owned());
    }
}

/// The value of a method's setting, `auto` replaced by what it follows.
pub(super) fn resolved(values: &BTreeMap<String, String>, key: &str, value: &str) -> String {
    let key = key.strip_prefix(METHOD).filter(|key| is_auto(key, value));
    let followed = key.and_then(|key| match WEIGHTS.iter().position(|weight| *weight == key) {
        None => values.get("rl.max_new_tokens").cloned(),
        // A weight without a component has no effect.
        Some(k) => Some(rewards::weighted(values).nth(k).map_or("1".to_owned(), |(_, weight)| weight)),
    });
    followed.unwrap_or_else(|| value.to_owned())
}

/// True if a setting of a method, given without `method.`, is `auto`.
pub fn is_auto(key: &str, value: &str) -> bool {
    follows(key) && value == AUTO
}

/// The value that a run takes for a setting of a method: `auto` for one that may be and was not given.
pub fn unless_said<'v>(key: &str, value: &'v str, said: bool) -> &'v str {
    if follows(key) && !said { AUTO } else { value }
}

/// True if the divisor is the completion limit.
pub(super) fn is_automatic(values: &BTreeMap<String, String>) -> bool {
    values.get(&format!("{METHOD}{KEY}")).is_some_and(|value| value == AUTO)
}

pub(super) fn is_named_in(line: &str) -> bool {
    line.starts_with(&format!("{KEY}="))
}

/// The word that a message on a refused value adds: it may be `auto` too.
pub(super) fn also_allowed(key: &str) -> &'static str {
    match key {
        KEY => "auto (the completion limit, rl.max_new_tokens) or ",
        key if follows(key) => "auto (the weight of the component of the reward) or ",
        _ => "",
    }
}
