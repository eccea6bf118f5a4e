//! [`ConfigError`]: the reason why a configuration was refused.

use std::path::PathBuf;

use grpo_lambda::settings::SettingError;

use super::METHOD;

/// A configuration that was refused.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    #[error("`{name}` is neither a preset nor a file{hint}; presets: {known}")]
    UnknownPreset { name: String, hint: String, known: String },
    #[error("cannot read {path}: {source}")]
    Read { path: PathBuf, source: std::io::Error },
    #[error(
        "{0}: says nothing, and a preset without a setting is a mistake; at least one is needed, as in seed = 0, or leave --preset out for the \
         preset tiny"
    )]
    EmptyPreset(String),
    /// A preset for the user's own model and data, without them.
    #[error("preset {preset}: {missing} missing; give {example}")]
    Needed { preset: String, missing: String, example: String },
    #[error("{origin}: {problem}")]
    Syntax { origin: String, problem: String },
    /// An override without `=`.
    #[error("`{0}` is not of the form key=value")]
    NotAPair(String),
    #[error("{origin}: unknown key `{key}`{hint}")]
    UnknownKey { origin: String, key: String, hint: String },
    #[error(
        "{origin}: {key}: training samples from the whole distribution, because the log-probability of a truncated one differs \
         from the trainer's by the mass cut off; leave it out (rl.temperature sharpens, and llm-train generate has --top-p and --top-k)"
    )]
    Truncated { origin: String, key: String },
    #[error("{key} is given twice: {first} and {second}")]
    Twice { key: String, first: String, second: String },
    #[error("{origin}: {key} = {value}: must be {expected}")]
    Invalid { origin: String, key: String, value: String, expected: String },
    /// Values that are valid one by one but conflict.
    #[error("{0}")]
    Conflict(String),
    #[error("{origin}: {}", of_method(.source))]
    Method { origin: String, source: Box<SettingError> },
}

/// Names a refused value by its dotted key; the other messages already name the method.
fn of_method(error: &SettingError) -> String {
    match error {
        SettingError::Invalid { .. } | SettingError::Twice { .. } => format!("{METHOD}{error}"),
        _ => error.to_string(),
    }
}
