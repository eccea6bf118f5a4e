//! The run directory where `--run` is not given.

use std::path::{Path, PathBuf};

use grpo_lambda_trainer::config::{Config, ModelSource, PRESETS};
use grpo_lambda_trainer::eval::origin::Origin;
use grpo_lambda_trainer::input::data::SUMS;
use grpo_lambda_trainer::input::task::TaskSource;

/// `runs/NAME`: of the model and the data where the command line names them, else of the preset.
pub(super) fn default_directory(
    preset: &str,
    config: &Config,
    overrides: &[String],
    supervised_only: bool,
) -> PathBuf {
    let said = |key: &str| overrides.iter().any(|word| word.split_once('=').is_some_and(|(k, _)| k == key));
    let mut parts = Vec::new();
    if let (ModelSource::Checkpoint(path), true) = (&config.model, said("model.checkpoint")) {
        parts.push(name_of_model(path));
    }
    if let (TaskSource::Dataset(task), true) = (&config.task, said("task.data")) {
        parts.push(name_of_data(&task.data));
    }
    if parts.is_empty() {
        parts.push(name_of_preset(preset));
    } else if config.lora.is_some() {
        parts.push("lora".to_owned());
    }
    if supervised_only {
        parts.push("sft".to_owned());
    }
    Path::new("runs").join(parts.join("-"))
}

/// Letters, digits, `.`, `-` and `_`; whatever else stands there is a dash.
fn plain(text: &str) -> String {
    let kept = |c: char| if c.is_ascii_alphanumeric() || "._-".contains(c) { c } else { '-' };
    text.chars().map(kept).collect::<String>().trim_matches(['-', '.']).to_owned()
}

/// A shipped preset has its name; a file that without its ending.
pub(super) fn name_of_preset(preset: &str) -> String {
    if PRESETS.iter().any(|p| p.name == preset) {
        return preset.to_owned();
    }
    Path::new(preset).file_stem().map_or("run".to_owned(), |stem| plain(&stem.to_string_lossy()))
}

/// The last part of a path or name; of a checkpoint of a run the run's.
fn name_of_model(path: &Path) -> String {
    let run = Origin::directory(path).filter(|run| run.file_name().is_some());
    let named = run.as_deref().unwrap_or(path);
    named.file_name().map_or("model".to_owned(), |name| plain(&name.to_string_lossy()))
}

/// `gsm8k` of `openai/gsm8k:main/train` and of `data/gsm8k.jsonl`; `tiny-sums` of the one that the program holds.
fn name_of_data(data: &str) -> String {
    if data == SUMS {
        return plain(data);
    }
    let path = data.rsplit_once(':').map_or(data, |(path, _)| path);
    let name = Path::new(path).file_name().map_or(path.into(), |name| name.to_string_lossy());
    let endings = [".jsonl", ".ndjson", ".json", ".parquet"];
    let stem = endings.iter().find_map(|ending| name.strip_suffix(ending));
    plain(stem.unwrap_or(&name))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(preset: &str, words: &[&str], supervised_only: bool) -> String {
        let words: Vec<String> = words.iter().map(|w| (*w).to_owned()).collect();
        let config = Config::resolve(preset, &words).expect("valid");
        default_directory(preset, &config, &words, supervised_only).display().to_string()
    }

    #[test]
    fn a_run_is_named_after_what_it_trains_and_on_what() {
        let own = ["model.checkpoint=models/Qwen2.5-0.5B", "task.data=my data.jsonl"];
        assert_eq!(at("finetune", &own, false), "runs/Qwen2.5-0.5B-my-data");
        assert_eq!(at("finetune-lora", &own, false), "runs/Qwen2.5-0.5B-my-data-lora");
        let hub = ["model.checkpoint=Qwen/Qwen2.5-0.5B", "task.data=openai/gsm8k:main/train"];
        assert_eq!(at("finetune", &hub, false), "runs/Qwen2.5-0.5B-gsm8k");
        assert_eq!(at("tiny", &["rl.steps=3"], false), "runs/tiny");
        assert_eq!(at("tiny", &[], true), "runs/tiny-sft");
        assert_eq!(at("tiny", &["task.kind=dataset", "task.data=sums.jsonl"], false), "runs/sums");
        assert_eq!(at("tiny", &["task.kind=dataset", "task.data=tiny:sums"], false), "runs/tiny-sums");
        // A dot in a shipped preset's name is not the ending of a file.
        assert_eq!(at("paper-qwen-1.5b", &[], false), "runs/paper-qwen-1.5b");
        assert_eq!(name_of_preset("../my.preset.toml"), "my.preset");
    }
}
