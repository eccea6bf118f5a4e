//! The section `[reward]`, and the conflicts between its values.

use std::collections::BTreeMap;
use std::time::Duration;

use grpo_lambda::assignment::Overlong;
use grpo_lambda::methods::{gdpo, grpo_lead};

use super::ConfigError;
use super::METHOD_NAME;
use super::section::read_value;
use super::sections::{RewardFields, RlConfig};
use crate::reward::{ACCURACY, Pattern, ProgramConfig, REGISTRY, RewardComponent, RewardConfig};

/// The default share of the limit over which the overlong penalty grows: DAPO's 4096 of 20480 tokens.
const CACHE_SHARE: f64 = 0.2;

/// The rewards of the section.
pub(super) fn read(
    fields: RewardFields,
    rl: &RlConfig,
    values: &BTreeMap<String, String>,
) -> Result<RewardConfig, ConfigError> {
    let weight = |component: &RewardComponent| match component.name {
        // A component with a text has a weight if the text is given.
        "regex" => fields.regex.as_ref().map_or(0.0, |_| fields.regex_weight),
        "command" => fields.command.as_ref().map_or(0.0, |_| fields.command_weight),
        name => read_value(values, &format!("reward.{name}"), "0"),
    };
    let weights = REGISTRY.iter().map(weight).collect();
    let pattern = fields.regex.as_ref().map(|text| {
        Pattern::new(text).map_err(|problem| {
            ConfigError::Conflict(format!(
                "reward.regex = {text}: {problem}; must be a regular expression, as in (?s)^<think>.*</think>"
            ))
        })
    });
    let timeout = Duration::try_from_secs_f64(fields.command_timeout);
    let timeout = timeout.map_err(|e| ConfigError::Conflict(format!("reward.command_timeout: {e}")))?;
    let limit = fields.overlong_limit.unwrap_or(rl.max_new_tokens as f64);
    let cache = fields.overlong_cache.unwrap_or(CACHE_SHARE * limit);
    let config = RewardConfig {
        weights,
        overlong: Overlong { limit, cache },
        pattern: pattern.transpose()?,
        command: fields.command.map(|line| ProgramConfig { line, timeout }),
        stuck_steps: fields.stuck_steps,
    };
    check(&config, rl, values).map_or(Ok(config), |problem| Err(ConfigError::Conflict(problem)))
}

/// The settings of GDPO that weigh the first components of the reward.
pub(super) const WEIGHTS: [&str; 3] = ["weight_1", "weight_2", "weight_3"];

/// The components of the reward that have a weight, in their order: the key that gives it, and its value.
pub(super) fn weighted(values: &BTreeMap<String, String>) -> impl Iterator<Item = (String, String)> {
    REGISTRY.iter().filter_map(|component| {
        let name = component.name;
        let key = match name {
            "regex" | "command" if values[&format!("reward.{name}")] == "none" => return None,
            "regex" | "command" => format!("reward.{name}_weight"),
            _ => format!("reward.{name}"),
        };
        let weight = values[&key].clone();
        (weight.parse() != Ok(0.0)).then_some((key, weight))
    })
}

/// Refuses components of the reward that the method would lose, or take for correctness.
pub(super) fn check_parts(values: &BTreeMap<String, String>) -> Result<(), ConfigError> {
    let method = values.get(METHOD_NAME).map_or("", String::as_str);
    let problem = if method == gdpo::SPEC.name {
        let first = WEIGHTS.len();
        let other = weighted(values).skip(first).find(|(_, weight)| weight.parse() != Ok(1.0));
        other.map(|(key, weight)| {
            format!(
                "{key} = {weight}: method.name=gdpo weighs the first three components of the reward; give this one weight 1"
            )
        })
    } else if method == grpo_lead::SPEC.name {
        weighted(values).find(|(key, _)| key != "reward.accuracy").map(|(key, weight)| {
            format!(
                "{key} = {weight}: method.name=grpo_lead takes every response with a reward above 0 as right, so the reward must be \
                 reward.accuracy alone; leave this component out, or choose another method"
            )
        })
    } else {
        None
    };
    problem.map_or(Ok(()), |problem| Err(ConfigError::Conflict(problem)))
}

/// A conflict between values that are valid one by one.
fn check(config: &RewardConfig, rl: &RlConfig, values: &BTreeMap<String, String>) -> Option<String> {
    let on = |name: &str| config.active().any(|(_, component)| component.name == name);
    let longest = rl.max_new_tokens as f64;
    let Overlong { limit, cache } = config.overlong;
    if config.active().next().is_none() {
        let names: Vec<String> = REGISTRY.iter().map(|c| format!("reward.{}", c.name)).collect();
        return Some(format!(
            "{} are all 0, so no response would earn anything; give one a weight, as in reward.accuracy=1",
            names.join(", ")
        ));
    }
    if let Some([low, high]) = rl.dynamic_band.filter(|_| !rl.dynamic_sampling) {
        return Some(format!(
            "rl.dynamic_band = {low},{high}: chooses the groups of rl.dynamic_sampling, which is false; set it to true"
        ));
    }
    if rl.dynamic_sampling && rl.dynamic_band.is_none() && config.weights[ACCURACY] == 0.0 {
        return Some(
            "rl.dynamic_sampling = true: keeps groups with right and wrong responses, so reward.accuracy must be greater than 0, or rl.dynamic_band say which rewards to keep"
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
