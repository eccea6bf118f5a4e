//! The presets that ship with the program.

use super::{Config, ConfigError, ModelSource};
use crate::input::task::TaskSource;

/// A preset that ships with the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Preset {
    pub name: &'static str,
    pub text: &'static str,
}

/// Every shipped preset.
pub static PRESETS: &[Preset] = &[
    Preset { name: "tiny", text: include_str!("../../../../presets/tiny.toml") },
    Preset { name: "paper-qwen-1.5b", text: include_str!("../../../../presets/paper-qwen-1.5b.toml") },
    Preset { name: "paper-r1-qwen-1.5b", text: include_str!("../../../../presets/paper-r1-qwen-1.5b.toml") },
    Preset { name: "paper-r1-llama-3b", text: include_str!("../../../../presets/paper-r1-llama-3b.toml") },
    Preset { name: "paper-r1-qwen-7b", text: include_str!("../../../../presets/paper-r1-qwen-7b.toml") },
    Preset { name: "paper-tiny", text: include_str!("../../../../presets/paper-tiny.toml") },
    Preset { name: "finetune", text: include_str!("../../../../presets/finetune.toml") },
    Preset { name: "finetune-lora", text: include_str!("../../../../presets/finetune-lora.toml") },
    Preset { name: "smollm2", text: include_str!("../../../../presets/smollm2.toml") },
    Preset { name: "gpu-learn", text: include_str!("../../../../presets/gpu-learn.toml") },
];

/// The presets that begin with a checkpoint and a data set of the user's.
const OWN: [&str; 2] = ["finetune", "finetune-lora"];

/// Refuses a preset for the user's own model and data without them.
pub(super) fn check_needs(preset: &str, config: Config) -> Result<Config, ConfigError> {
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
