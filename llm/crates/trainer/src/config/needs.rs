//! What a preset for a model and data of one's own cannot know.

use super::{Config, ConfigError, ModelSource};
use crate::input::task::TaskSource;

/// The presets that begin with a checkpoint and a data set of the user's.
pub(super) const OWN: [&str; 2] = ["finetune", "finetune-lora"];

/// Refuses such a preset without its model or data.
pub(super) fn check(preset: &str, config: Config) -> Result<Config, ConfigError> {
    if !OWN.contains(&preset) {
        return Ok(config);
    }
    let mut missing = Vec::new();
    if matches!(config.model, ModelSource::Random(_)) {
        missing.push("model.checkpoint");
    }
    if matches!(&config.task, TaskSource::Dataset(task) if task.data == Config::OWN_DATA) {
        missing.push("task.data");
    }
    if missing.is_empty() {
        return Ok(config);
    }
    let verb = if missing.len() == 1 { " is" } else { " are" };
    Err(ConfigError::Needed {
        preset: preset.to_owned(),
        missing: missing.join(" and ") + verb,
        example: "them as in model.checkpoint=DIR task.data=problems.jsonl (llm-train data FILE says whether a file is understood)".to_owned(),
    })
}
