//! `llm-train merge`.

use std::path::{Path, PathBuf};

use clap::ValueEnum;
use grpo_lambda_decoder::disk::Disk;
use grpo_lambda_decoder::lora;
use grpo_lambda_decoder::model::ModelConfig;
use grpo_lambda_decoder::model::weights::{self, Parameters, SaveDtype};

use super::model::hold_named;
use super::{Command, Failure, checkpoint, print};
use grpo_lambda_trainer::input::tokens::ModelTokenizer;
use grpo_lambda_trainer::run::adapter_base::{self, AdapterBase};
use grpo_lambda_trainer::run::progress::say;

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum MergeDtype {
    /// 4 bytes a number: what training computes with
    F32,
    /// 2 bytes a number, rounded
    Bf16,
}

/// Arguments of `merge`.
#[derive(Clone, Debug, clap::Args)]
pub struct MergeArgs {
    /// The checkpoint directory that the adapter was trained on; of a run's own adapter it is CHECKPOINT/reference
    #[arg(long, value_name = "DIR")]
    pub model: PathBuf,
    /// Directory with adapter_config.json and adapter_model.safetensors, from PEFT or a run's CHECKPOINT/adapter
    #[arg(long, value_name = "DIR")]
    pub adapter: PathBuf,
    /// Directory for the merged checkpoint; empty, or not there yet
    #[arg(long, value_name = "DIR")]
    pub out: PathBuf,
    /// Type of the written weights
    #[arg(long, value_enum, default_value_t = MergeDtype::F32)]
    pub dtype: MergeDtype,
    /// Merge into weights that the adapter was not trained on, as into rounded ones
    #[arg(long)]
    pub any_base: bool,
}

/// Weights of a file at most, in bytes, as transformers does it.
const SHARD: usize = 5_000_000_000;

impl Command for MergeArgs {
    /// Writes base and adapter as one checkpoint, with the base's tokenizer.
    fn run(&self) -> Result<(), Failure> {
        let base = checkpoint(&self.model)?;
        refuse_twice(&base, &self.adapter)?;
        if self.adapter.is_dir() {
            hold_named(&self.adapter)?;
        }
        let out = self.out.display();
        empty_directory(&self.out)?;
        if !self.adapter.join(lora::CONFIG_FILE).exists() {
            return Err(Failure::refused(format!(
                "--adapter {}: {}: No such file; name the directory of an adapter of PEFT, or a run's CHECKPOINT/adapter",
                self.adapter.display(),
                lora::CONFIG_FILE
            )));
        }
        let shape = ModelConfig::load(&base).map_err(|e| Failure::refused(e.to_string()))?;
        let (settings, adapter) =
            lora::load(&self.adapter, &shape).map_err(|e| Failure::refused(e.to_string()))?;
        let tokens =
            ModelTokenizer::load(&with_tokenizer(&base)).map_err(|e| Failure::refused(e.to_string()))?;
        tokens.check(shape.vocab_size).map_err(|e| Failure::refused(e.to_string()))?;
        let mut parameters = weights::load(&base, &shape).map_err(|e| Failure::refused(e.to_string()))?;
        check_base(self, &base, &parameters)?;
        lora::merge(&settings, &adapter, &shape, &mut parameters)
            .map_err(|e| Failure::refused(e.to_string()))?;
        let dtype = match self.dtype {
            MergeDtype::F32 => SaveDtype::F32,
            MergeDtype::Bf16 => SaveDtype::Bf16,
        };
        write_model(&self.out, &shape, &parameters, (&tokens, dtype))?;
        print(&format!(
            "merged {} (rank {}, alpha {}, {}) into {}: {out}\n",
            self.adapter.display(),
            settings.rank,
            settings.alpha,
            settings.targets.join(", "),
            base.display()
        ))
    }
}

/// Writes a checkpoint with its tokenizer into a directory of its own.
pub(super) fn write_model(
    out: &Path,
    shape: &ModelConfig,
    parameters: &Parameters<f32>,
    (tokens, dtype): (&ModelTokenizer, SaveDtype),
) -> Result<(), Failure> {
    Disk::default().fill(out, Failure::broke, |disk| {
        for (name, bytes) in tokens.files() {
            disk.replace(&out.join(name), bytes).map_err(Failure::broke)?;
        }
        // The configuration last: without it this is no checkpoint.
        weights::save_on(disk, out, (shape, parameters), (dtype, SHARD)).map_err(Failure::broke)
    })
}

/// Refuses a place for a checkpoint that holds something already, unless the same command was killed there.
pub(super) fn empty_directory(out: &Path) -> Result<(), Failure> {
    let shown = out.display();
    if out.exists() && !out.is_dir() {
        return Err(Failure::refused(format!("--out {shown}: a file; must be a directory, empty or new")));
    }
    match Disk::default().obstacle(out).map_err(|e| Failure::refused(e.to_string()))? {
        Some(name) => Err(Failure::refused(format!("--out {shown}: holds {name}; must be empty or new"))),
        None => Ok(()),
    }
}

/// Refuses weights that the adapter was not trained on. One from elsewhere does not say what it was trained on; a line says so.
fn check_base(args: &MergeArgs, base: &Path, parameters: &Parameters<f32>) -> Result<(), Failure> {
    let (adapter, base) = (args.adapter.display(), base.display());
    let Some(trained_on) = AdapterBase::read(&args.adapter).map_err(|e| Failure::refused(e.to_string()))?
    else {
        say(&format!(
            "warning: {adapter}: no {}, so whether it was trained on the weights of {base} cannot be checked; an adapter of llm-train train has one",
            adapter_base::FILE
        ));
        return Ok(());
    };
    let found = AdapterBase::new(parameters);
    if found == trained_on || args.any_base {
        return Ok(());
    }
    Err(Failure::refused(format!(
        "--model {base}: not the weights that {adapter} was trained on (checksum {}, not {}); those of a run's adapter are in CHECKPOINT/reference; \
         --any-base merges all the same",
        found.fingerprint, trained_on.fingerprint
    )))
}

/// A run's checkpoint holds its adapter merged: merging it again would count it twice.
fn refuse_twice(base: &Path, adapter: &Path) -> Result<(), Failure> {
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

/// The directory of the base's tokenizer: a run keeps it beside `reference`, not in it.
fn with_tokenizer(base: &Path) -> PathBuf {
    let here = |directory: &Path| directory.join("tokenizer.json").exists();
    let above = base.parent().filter(|above| above.join("reference") == base);
    match above.filter(|above| !here(base) && here(above)) {
        Some(above) => above.to_owned(),
        None => base.to_owned(),
    }
}
