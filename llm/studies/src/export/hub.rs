//! Files next to a model on the Hugging Face hub: a model card, and the state of transformers' `Trainer`.

use std::path::Path;

use serde_json::{Map, Value, json};

use super::metrics::{Row, rows};
use super::{ExportError, Files, file};
use crate::record::{RunRecord, summary};
use grpo_lambda_trainer::config::{Config, ModelSource};
use grpo_lambda_trainer::train::RunSummary;

/// `README.md` and `trainer_state.json` of a run.
pub fn hub(run: &Path) -> Result<Files, ExportError> {
    let record = RunRecord::read(run)?;
    let rows = rows(run)?;
    let found = summary(run)?;
    let card = card(&record, found.as_ref());
    Ok(vec![
        ("README.md".to_owned(), card.into_bytes()),
        ("trainer_state.json".to_owned(), file(&trainer_state(&record.config, &rows))),
    ])
}

/// The names that transformers gives our columns.
fn theirs(column: &str) -> &str {
    match column {
        "lr" => "learning_rate",
        other => other,
    }
}

fn trainer_state(config: &Config, rows: &[Row]) -> Value {
    let total = config.sft.steps + config.rl.steps;
    let entry = |row: &Row| {
        let mut object = Map::from_iter([
            ("step".to_owned(), json!(row.step)),
            ("epoch".to_owned(), json!(row.step as f64 / total.max(1) as f64)),
            ("stage".to_owned(), json!(row.stage)),
        ]);
        object.extend(row.values.iter().map(|(name, x)| (theirs(name).to_owned(), json!(x))));
        Value::Object(object)
    };
    let done = rows.iter().map(|row| row.step).max().unwrap_or(0);
    json!({
        "best_global_step": null,
        "best_metric": null,
        "best_model_checkpoint": null,
        "epoch": done as f64 / total.max(1) as f64,
        "eval_steps": config.eval.every,
        "global_step": done,
        "is_hyper_param_search": false,
        "is_local_process_zero": true,
        "is_world_process_zero": true,
        "log_history": rows.iter().map(entry).collect::<Vec<_>>(),
        "logging_steps": 1,
        "max_steps": total,
        "num_input_tokens_seen": 0,
        "num_train_epochs": 1,
        "save_steps": config.checkpoint.every,
        "stateful_callbacks": {},
        "total_flos": 0.0,
        "train_batch_size": config.rl.prompts_per_step * config.rl.group_size,
        "trial_name": null,
        "trial_params": null,
    })
}

/// The `owner/name` of a checkpoint: as it is named, of its folder in the Hugging Face cache, or in its `config.json`.
fn name_on_hub(checkpoint: &Path) -> Option<String> {
    let is_name = |name: &&str| !name.starts_with(['/', '.', '~']) && name.matches('/').count() == 1;
    let parts = checkpoint.iter().filter_map(|part| part.to_str());
    let cached = parts.filter_map(|part| part.strip_prefix("models--")).next_back();
    if let Some(name) = cached.map(|part| part.replacen("--", "/", 1)) {
        return Some(name);
    }
    let config = std::fs::read(checkpoint.join("config.json")).ok();
    let config: Option<Value> = config.and_then(|bytes| serde_json::from_slice(&bytes).ok());
    match &config {
        Some(config) => config.get("_name_or_path")?.as_str().filter(is_name).map(str::to_owned),
        None => checkpoint.to_str().filter(is_name).map(str::to_owned),
    }
}

fn card(record: &RunRecord, found: Option<&RunSummary>) -> String {
    let config = &record.config;
    let base = match &config.model {
        ModelSource::Checkpoint(path) => Some(path.display().to_string()),
        ModelSource::Random(_) => None,
    };
    // A base model of the hub is a name of the form owner/name; a folder of this machine would be a dead link there.
    let hub = match &config.model {
        ModelSource::Checkpoint(path) => name_on_hub(path),
        ModelSource::Random(_) => None,
    };
    let method = config.method.split(':').next().unwrap_or_default();
    let mut front = format!(
        "library_name: transformers\npipeline_tag: text-generation\ntags:\n- {}\n- reinforcement-learning\n",
        method.replace('_', "-")
    );
    if let Some(base) = hub {
        front += &format!("base_model: {}\n", json!(base));
    }
    let start = match &base {
        Some(base) => format!("It starts from `{base}`."),
        None => "It starts from random weights.".to_owned(),
    };
    let result = match found {
        Some(s) => format!(
            "| held-out accuracy | value | 95 % interval (Wilson) | problems |\n| --- | --- | --- | --- |\n| before \
             RL | {:.3} | {:.3} to {:.3} | {} |\n| after RL | {:.3} | {:.3} to {:.3} | {} |\n",
            s.accuracy_before,
            s.accuracy_before_interval[0],
            s.accuracy_before_interval[1],
            s.n_before,
            s.accuracy_after,
            s.accuracy_after_interval[0],
            s.accuracy_after_interval[1],
            s.n,
        ),
        None => "The run is not finished.\n".to_owned(),
    };
    let settings = config.to_toml();
    format!(
        "---\n{front}---\n\n# A model trained with {title}\n\nThis model was trained by `llm-train` of grpo-lambda: {sft} supervised steps, then {rl} steps \
         of reinforcement\nlearning. {start}\n\n## Results\n\n{result}\n## Settings\n\n`llm-train train --preset FILE` repeats the run from these \
         settings.\n\n```toml\n{settings}```\n",
        title = record.title,
        sft = config.sft.steps,
        rl = found.map_or(record.curves.steps("rl") as u64, |s| s.steps[1]),
    )
}
