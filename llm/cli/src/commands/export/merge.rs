//! `llm-train export --adapter`: base and adapter as one checkpoint.

use std::path::{Path, PathBuf};

use grpo_lambda_decoder::lora;
use grpo_lambda_decoder::model::ModelConfig;
use grpo_lambda_decoder::model::weights::{self, Parameters};

use super::{ExportArgs, empty_directory, source_dtype, write_model};
use crate::commands::model::hold_named;
use crate::commands::{Failure, Result, checkpoint};
use grpo_lambda_trainer::input::tokens::ModelTokenizer;
use grpo_lambda_trainer::run::adapter_base::{self, AdapterBase};
use grpo_lambda_trainer::run::progress::say;

/// Writes the model of `args` with `adapter` merged, and the model's tokenizer.
pub(super) fn export_merged(args: &ExportArgs, adapter: &Path) -> Result<String> {
    let base = checkpoint(&args.model)?;
    refuse_twice(&base, adapter)?;
    if adapter.is_dir() {
        hold_named(adapter)?;
    }
    empty_directory(&args.out)?;
    if !adapter.join(lora::CONFIG_FILE).exists() {
        return Err(Failure::refused(format!(
            "--adapter {}: {}: No such file; name the directory of an adapter of PEFT, or a run's CHECKPOINT/adapter",
            adapter.display(),
            lora::CONFIG_FILE
        )));
    }
    let shape = ModelConfig::load(&base).map_err(Failure::refused)?;
    let (settings, tensors) = lora::load(adapter, &shape).map_err(Failure::refused)?;
    let tokens = ModelTokenizer::load(&with_tokenizer(&base)).map_err(Failure::refused)?;
    tokens.check(shape.vocab_size).map_err(Failure::refused)?;
    let mut parameters = weights::load(&base, &shape).map_err(Failure::refused)?;
    check_base((adapter, args.any_base), &base, &parameters)?;
    lora::merge(&settings, &tensors, &shape, &mut parameters).map_err(Failure::refused)?;
    write_model(&args.out, &base, (&shape, &parameters), (&tokens, source_dtype(args, &base)?))?;
    Ok(format!(
        "{} (rank {}, alpha {}, {}) merged into {}",
        adapter.display(),
        settings.rank,
        settings.alpha,
        settings.targets.join(", "),
        base.display()
    ))
}

/// Refuses weights that the adapter was not trained on. One from elsewhere does not say what it was trained on; a line says so.
fn check_base((adapter, any_base): (&Path, bool), base: &Path, parameters: &Parameters<f32>) -> Result<()> {
    let trained_on = AdapterBase::read(adapter).map_err(Failure::refused)?;
    let (adapter, base) = (adapter.display(), base.display());
    let Some(trained_on) = trained_on else {
        say(&format!(
            "warning: {adapter}: no {}, so whether it was trained on the weights of {base} cannot be checked; an adapter of llm-train train has one",
            adapter_base::FILE
        ));
        return Ok(());
    };
    let found = AdapterBase::new(parameters);
    if found == trained_on || any_base {
        return Ok(());
    }
    Err(Failure::refused(format!(
        "--model {base}: not the weights that {adapter} was trained on (checksum {}, not {}); those of a run's adapter are in CHECKPOINT/reference; \
         --any-base merges all the same",
        found.fingerprint, trained_on.fingerprint
    )))
}

/// A run's checkpoint holds its adapter merged: merging it again would count it twice.
fn refuse_twice(base: &Path, adapter: &Path) -> Result<()> {
    let own = base.join("adapter");
    match (own.canonicalize(), adapter.canonicalize()) {
        (Ok(own), Ok(adapter)) if own == adapter => Err(Failure::refused(format!(
            "--adapter {}: already merged into the weights of {base}; its base is {base}/reference",
            adapter.display(),
            base = base.display()
        ))),
        _ => Ok(()),
    }
}

/// The directory of the base's tokenizer: a run keeps it next to `reference`, not in it.
fn with_tokenizer(base: &Path) -> PathBuf {
    let here = |directory: &Path| directory.join("tokenizer.json").exists();
    let above = base.parent().filter(|above| above.join("reference") == base);
    match above.filter(|above| !here(base) && here(above)) {
        Some(above) => above.to_owned(),
        None => base.to_owned(),
    }
}
