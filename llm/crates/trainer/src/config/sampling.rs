//! `rl.sampling`: groups of independent responses, or of systematic ones, which not every method and sampler can take.

use std::collections::BTreeMap;

use grpo_lambda::methods::Configured;

use super::ConfigError;

/// The values of `rl.sampling`.
pub(super) const SAMPLING: [&str; 2] = ["independent", "systematic"];

/// Refuses systematic groups where the update would be biased, or where nothing can sample them.
///
/// A baseline must not look at responses of the same set: `sets` of the method are those of the sampler. One set would need a baseline from outside
/// the group, behind a guard, and no evidence of a training run is one.
pub(super) fn check(values: &BTreeMap<String, String>, configured: &Configured) -> Result<(), ConfigError> {
    let word = |key: &str| values[key].as_str();
    if word("rl.sampling") == SAMPLING[0] {
        return Ok(());
    }
    let refused =
        |problem: String| Err(ConfigError::Conflict(format!("rl.sampling = systematic: {problem}")));
    let (sets, group, method) = (word("rl.sets"), word("rl.group_size"), configured.spec.name);
    if sets == "1" {
        return refused(
            "rl.sets = 1 needs a guarded baseline from outside the group, which no training run has; give at least 2 sets"
                .to_owned(),
        );
    }
    match configured.settings.entries().find(|(key, _)| *key == "sets") {
        None => refused(format!(
            "method.name = {method} compares responses of one set, which biases the update; choose systematic_rloo or systematic_prefix_rloo"
        )),
        Some((_, own)) if own != sets => refused(format!(
            "rl.sets = {sets} and method.sets = {own} must be the same; give both the same number"
        )),
        _ if sets.parse::<usize>().ok() > group.parse().ok() => refused(format!(
            "rl.sets = {sets} exceeds rl.group_size = {group}; give at most as many sets as responses"
        )),
        _ if word("rollout.engine") != "local" => refused(format!(
            "rollout.engine = {} draws its own numbers and cannot be steered; use rollout.engine=local",
            word("rollout.engine")
        )),
        _ => Ok(()),
    }
}
