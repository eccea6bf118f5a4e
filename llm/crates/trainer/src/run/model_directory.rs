//! The directory of a model by the name that a user gives it: a checkpoint, a run, or a name of the Hugging Face hub.

use std::path::{Path, PathBuf};

use super::latest;
use crate::input::hub::{self, RepositoryKind, hub_cache};

/// The names of a model.
const RIGHT: &str = "a model is a checkpoint directory with config.json, model.safetensors and tokenizer.json, or owner/name of the Hugging Face hub";

/// The directory that `given` names: itself, or the snapshot of a name of the hub in the local cache.
///
/// # Errors
/// A line: no such directory, a file, or a name that is not in the cache, with the command that downloads it.
pub fn locate(given: &Path) -> Result<PathBuf, String> {
    let shown = given.display();
    if given.is_dir() {
        return Ok(given.to_owned());
    }
    if given.exists() {
        return Err(format!("{shown}: not a directory; {RIGHT}"));
    }
    // A missing run is no repository of someone called `runs`.
    let local = given.starts_with("runs") || given.parent().is_some_and(Path::is_dir);
    match given.to_str() {
        Some(name) if hub::is_hub_name(name) && !local => {
            hub::snapshot(RepositoryKind::Model, name, &hub_cache())
        }
        _ => Err(format!("{shown}: no such directory; {RIGHT}")),
    }
}

/// The run whose best checkpoint `given` names: `RUN/best`, if nothing of that name is there.
pub fn run_of_best(given: &Path) -> Option<&Path> {
    let run = given.parent().filter(|_| given.file_name().is_some_and(|name| name == "best"))?;
    (run.join("config.toml").is_file() && !given.exists()).then_some(run)
}

/// Refuses a directory that lacks a part of a checkpoint.
///
/// # Errors
/// A line: the checkpoints of a run, weights in another format, no tokenizer.
pub fn check(directory: &Path, needs_tokenizer: bool) -> Result<(), String> {
    let shown = directory.display();
    let has = |name: &str| directory.join(name).exists();
    if !has("config.json") && directory.file_name().is_some_and(|name| name == "checkpoints") {
        let run = directory.parent().unwrap_or(directory);
        if let Ok(Some(latest)) = latest(run) {
            return Err(format!(
                "{shown}: the checkpoints of a run, not one of them; name one (its latest is {}) or the run {}",
                latest.path().display(),
                run.display()
            ));
        }
    }
    if !has("model.safetensors") && !has("model.safetensors.index.json") {
        let torch = ["pytorch_model.bin", "pytorch_model.bin.index.json"].into_iter().find(|name| has(name));
        if let Some(found) = torch {
            return Err(format!(
                "{shown}: holds {found}, which is not read, and no model.safetensors; write it once with transformers: python3 -c \
                 \"from transformers import AutoModelForCausalLM as M; M.from_pretrained('{shown}').save_pretrained('{shown}')\""
            ));
        }
    }
    if needs_tokenizer && has("config.json") && !has("tokenizer.json") {
        let slow = if has("tokenizer.model") { " (tokenizer.model is not read)" } else { "" };
        return Err(format!(
            "cannot read {}: No such file{slow}; write it once with transformers: python3 -c \"from transformers import AutoTokenizer as T; \
             T.from_pretrained('{shown}').save_pretrained('{shown}')\"",
            directory.join("tokenizer.json").display()
        ));
    }
    Ok(())
}
