//! The section `[reward]`, and what its values must be together.

use std::collections::BTreeMap;

use grpo_lambda::assignment::Overlong;

use super::ConfigError;
use crate::reward::{ACCURACY, REGISTRY, RewardConfig};

/// The default share of the limit over which the overlong penalty grows: DAPO's 4096 of 20480 tokens.
const CACHE_SHARE: f64 = 0.2;

/// Reads the section from canonical values.
///
/// # Errors
/// [`ConfigError::Conflict`].
pub(super) fn read(values: &BTreeMap<String, String>) -> Result<RewardConfig, ConfigError> {
    let number = |key: &str| values.get(key).and_then(|value| value.parse::<f64>().ok());
    let weights: Vec<f64> =
        REGISTRY.iter().map(|c| number(&format!("reward.{}", c.name)).unwrap_or(0.0)).collect();
    let longest = number("rl.max_new_tokens").unwrap_or(f64::INFINITY);
    let limit = number("reward.overlong_limit").unwrap_or(longest);
    let cache = number("reward.overlong_cache").unwrap_or(CACHE_SHARE * limit);
    let stuck_steps = values["reward.stuck_steps"].parse().unwrap_or(u64::MAX);
    let config = RewardConfig { weights, overlong: Overlong { limit, cache }, stuck_steps };
    check(&config, values, longest).map_or(Ok(config), |problem| Err(ConfigError::Conflict(problem)))
}

/// The conflict between values that are valid one by one, if there is one.
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
