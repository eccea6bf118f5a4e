//! `rl.sampling`: groups of independent responses, or of systematic ones, which not every method and sampler can take.

use super::words::words;
use super::{Config, ConfigError};

words! {
    /// The ways to sample the responses of a group.
    pub enum Sampling {
        /// Each by itself.
        Independent = "independent",
        /// From evenly spaced codes.
        Systematic = "systematic",
    }
}

/// Refuses systematic groups where the update would be biased, or where nothing can sample them.
///
/// A baseline must not look at responses of the same set: `sets` of the method are those of the sampler. One set would need a baseline from outside
/// the group, after a guard, and no extra input of a training run is one.
pub(super) fn check(config: &Config) -> Result<(), ConfigError> {
    let (rl, method) = (&config.rl, &config.method);
    let (sets, group) = (rl.sets, rl.group_size);
    if rl.sampling == Sampling::Independent {
        return Ok(());
    }
    let own = config.configured().settings.entries().find(|(key, _)| *key == "sets").map(|(_, own)| own);
    let problem = match own {
        _ if sets == 1 => {
            "rl.sets = 1 needs a guarded baseline from outside the group, which no training run has; give at least 2 sets"
                .to_owned()
        }
        None => format!(
            "method.name = {method} compares responses of one set, which biases the update; choose systematic_rloo or systematic_prefix_rloo"
        ),
        Some(own) if own != sets.to_string() => format!(
            "rl.sets = {sets} and method.sets = {own} must be the same; give both the same number"
        ),
        Some(_) if sets > group => format!(
            "rl.sets = {sets} exceeds rl.group_size = {group}; give at most as many sets as responses"
        ),
        Some(_) if config.rollout.is_some() => format!(
            "rollout.engine = {} draws its own numbers and cannot be steered; use rollout.engine=local",
            config.values["rollout.engine"]
        ),
        Some(_) => return Ok(()),
    };
    Err(ConfigError::Conflict(format!("rl.sampling = systematic: {problem}")))
}
