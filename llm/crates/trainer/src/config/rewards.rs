//! The section `[reward]`, and the conflicts between its values.

use std::collections::BTreeMap;
use std::time::Duration;

use grpo_lambda::assignment::Overlong;

use super::ConfigError;
use crate::reward::{ACCURACY, Pattern, ProgramConfig, REGISTRY, RewardComponent, RewardConfig};

/// The default share of the limit over which the overlong penalty grows: DAPO's 4096 of 20480 tokens.
const CACHE_SHARE: f64 = 0.2;

/// Reads the section from canonical values.
///
/// # Errors
/// [`ConfigError::Conflict`].
pub(super) fn read(values: &BTreeMap<String, String>) -> Result<RewardConfig, ConfigError> {
    let number = |key: &str| values.get(key).and_then(|value| value.parse::<f64>().ok());
    let text = |key: &str| values.get(key).filter(|value| *value != "none").cloned();
    // A component with a text has a weight if the text is given.
    let weight = |component: &RewardComponent| {
        let key = format!("reward.{}", component.name);
        match component.name {
            "regex" | "command" => text(&key).and_then(|_| number(&format!("{key}_weight"))),
            _ => number(&key),
        }
    };
    let weights: Vec<f64> = REGISTRY.iter().map(|c| weight(c).unwrap_or(0.0)).collect();
    let pattern = text("reward.regex").map(|text| {
        Pattern::new(&text).map_err(|problem| {
            ConfigError::Conflict(format!(
                "reward.regex = {text}: {problem}; must be a regular expression, as in (?s)^<think>.*</think>"
            ))
        })
    });
    let timeout = Duration::try_from_secs_f64(number("reward.command_timeout").unwrap_or(60.0));
    let timeout = timeout.map_err(|e| ConfigError::Conflict(format!("reward.command_timeout: {e}")))?;
    let command = text("reward.command").map(|line| ProgramConfig { line, timeout });
    let longest = number("rl.max_new_tokens").unwrap_or(f64::INFINITY);
    let limit = number("reward.overlong_limit").unwrap_or(longest);
    let cache = number("reward.overlong_cache").unwrap_or(CACHE_SHARE * limit);
    let stuck_steps = values["reward.stuck_steps"].parse().unwrap_or(u64::MAX);
    let config = RewardConfig {
        weights,
        overlong: Overlong { limit, cache },
        pattern: pattern.transpose()?,
        command,
        stuck_steps,
    };
    check(&config, values, longest).map_or(Ok(config), |problem| Err(ConfigError::Conflict(problem)))
}

/// A conflict between values that are valid one by one.
fn check(config: &RewardConfig, values: &BTreeMap<String, String>, longest: f64) -> Option<String> {
    let on = |name: &str| config.active().any(|(_, component)| component.name == name);
    let is = |key: &str, value: &str| values.get(key).is_some_and(|v| v == value);
    let Overlong { limit, cache } = config.overlong;
    if config.active().next().is_none() {
        let names: Vec<String> = REGISTRY.iter().map(|c| format!("reward.{}", c.name)).collect();
        return Some(format!(
            "{} are all 0, so no response would earn anything; give one a weight, as in reward.accuracy=1",
            names.join(", ")
        ));
    }
    if is("rl.dynamic_sampling", "true") && config.weights[ACCURACY] == 0.0 {
        return Some(
            "rl.dynamic_sampling = true: keeps groups with right and wrong responses, so reward.accuracy must be greater than 0"
                .to_owned(),
        );
    }
    if !on("overlong") {
        return None;
    }
    if values.get("method.overlong_limit").is_some_and(|v| v != "none") {
        return Some(
            "reward.overlong and method.overlong_limit are the same penalty, which would count twice; leave one out".to_owned(),
        );
    }
    if cache > limit {
        return Some(format!(
            "reward.overlong_cache = {cache}: must be at most reward.overlong_limit = {limit}, or every response is penalised"
        ));
    }
    if limit - cache >= longest {
        return Some(format!(
            "reward.overlong_limit = {limit} less reward.overlong_cache = {cache} must be below rl.max_new_tokens = {longest}, \
             or no response is ever penalised"
        ));
    }
    None
}
