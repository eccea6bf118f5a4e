//! `llm-train export`: the model of a run as a plain checkpoint, its adapter, or a model with an adapter merged.

mod merge;

use std::path::{Path, PathBuf};

use clap::ValueEnum;
use grpo_lambda_decoder::disk::Disk;
use grpo_lambda_decoder::lora;
use grpo_lambda_decoder::model::ModelConfig;
use grpo_lambda_decoder::model::config::known::{CONFIG, FieldUse};
use grpo_lambda_decoder::model::weights::{self, Parameters, SaveDtype};
use serde_json::{Map, Value};

use super::{Command, Failure, Result, checkpoint, print};
use grpo_lambda_stats::visible;
use grpo_lambda_trainer::config::ModelSource;
use grpo_lambda_trainer::eval::origin::Origin;
use grpo_lambda_trainer::input::tokens::ModelTokenizer;
use grpo_lambda_trainer::run::{adapter_base, model_directory};

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ExportDtype {
    /// Type of the checkpoint that the run began with, or of a model that is from no run; f32 for a model of the run's own
    Source,
    /// 4 bytes a number: what training computes with
    F32,
    /// 2 bytes a number, rounded
    Bf16,
}

/// Arguments of `export`.
#[derive(Clone, Debug, clap::Args)]
pub struct ExportArgs {
    /// A run directory, for its latest checkpoint, or one of its checkpoints; with --adapter, the checkpoint that the adapter was trained on
    #[arg(long, value_name = "DIR")]
    pub model: PathBuf,
    /// Directory for it; empty, or not there yet
    #[arg(long, value_name = "DIR")]
    pub out: PathBuf,
    /// Type of the written weights
    #[arg(long, value_enum, default_value_t = ExportDtype::Source)]
    pub dtype: ExportDtype,
    /// Write base and adapter as one plain checkpoint, instead of the adapter alone
    #[arg(long)]
    pub merge: bool,
    /// An adapter to merge into --model: of PEFT, or a run's CHECKPOINT/adapter, whose model is CHECKPOINT/reference
    #[arg(long, value_name = "DIR", conflicts_with = "merge")]
    pub adapter: Option<PathBuf>,
    /// Merge --adapter into weights that it was not trained on, as into rounded ones
    #[arg(long, requires = "adapter")]
    pub any_base: bool,
}

impl Command for ExportArgs {
    /// Writes the model.
    fn run(&self) -> Result<()> {
        let written = match &self.adapter {
            Some(adapter) => merge::export_merged(self, adapter),
            None => self.of_run(),
        }?;
        print(&visible(&format!("wrote {written} to {}\n", self.out.display())))
    }
}

impl ExportArgs {
    fn of_run(&self) -> Result<String> {
        let directory = checkpoint(&self.model)?;
        let adapter = directory.join("adapter");
        let has_adapter = adapter.join(lora::CONFIG_FILE).exists();
        if self.merge && !has_adapter {
            return Err(Failure::refused(format!(
                "--merge: {} has no adapter, so there is nothing to merge; leave it out",
                directory.display()
            )));
        }
        empty_directory(&self.out)?;
        if has_adapter && !self.merge {
            export_adapter(&directory, &self.out)
        } else {
            export_model(&directory, self)
        }
    }
}

/// Weights of a file at most, in bytes, as transformers does it.
const SHARD: usize = 5_000_000_000;

/// Writes a checkpoint with its tokenizer into a directory of its own; fields of `config.json` that no number depends on are those of `source`.
fn write_model(
    out: &Path,
    source: &Path,
    (shape, parameters): (&ModelConfig, &Parameters<f32>),
    (tokens, dtype): (&ModelTokenizer, SaveDtype),
) -> Result<()> {
    let carried = carried(source);
    Disk::default().fill(out, Failure::broke, |disk| {
        for (name, bytes) in tokens.files() {
            disk.replace(&out.join(name), bytes).map_err(Failure::broke)?;
        }
        // The configuration last: without it this is no checkpoint.
        weights::save_on(disk, out, (shape, parameters), (dtype, SHARD)).map_err(Failure::broke)?;
        let path = out.join(CONFIG.file);
        let written = std::fs::read_to_string(&path).map_err(Failure::broke)?;
        let mut fields: Map<String, Value> = serde_json::from_str(&written).map_err(Failure::broke)?;
        fields.extend(carried);
        disk.replace(&path, super::json_text(&Value::Object(fields))?.as_bytes()).map_err(Failure::broke)
    })
}

/// The fields of a checkpoint's `config.json` that this program passes over: notes of others, such as the range of a start.
fn carried(source: &Path) -> Map<String, Value> {
    let text = std::fs::read_to_string(source.join(CONFIG.file)).unwrap_or_default();
    let mut fields: Map<String, Value> = serde_json::from_str(&text).unwrap_or_default();
    fields.retain(|name, _| matches!(CONFIG.fate(name), FieldUse::Harmless(_)));
    fields
}

/// The checkpoint that a run began with, where it is still there; for others, the directory itself.
fn source(args: &ExportArgs, directory: &Path) -> PathBuf {
    let origin = Origin::find(&args.model).ok().flatten().map(|origin| origin.config.model);
    match origin {
        Some(ModelSource::Checkpoint(began_with)) => model_directory::locate(&began_with).ok(),
        Some(ModelSource::Random(_)) | None => None,
    }
    .unwrap_or_else(|| directory.to_owned())
}

/// Refuses a place for a checkpoint that holds something already, unless the same command was killed there.
pub(super) fn empty_directory(out: &Path) -> Result<()> {
    let shown = out.display();
    if out.exists() && !out.is_dir() {
        return Err(Failure::refused(format!("--out {shown}: a file; must be a directory, empty or new")));
    }
    match Disk::default().obstacle(out).map_err(|e| Failure::refused(e.to_string()))? {
        Some(name) => Err(Failure::refused(format!("--out {shown}: holds {name}; must be empty or new"))),
        None => Ok(()),
    }
}

/// All weights, with the tokenizer.
fn export_model(directory: &Path, args: &ExportArgs) -> Result<String> {
    let shape = ModelConfig::load(directory).map_err(Failure::refused)?;
    let parameters = weights::load(directory, &shape).map_err(Failure::refused)?;
    let tokens = ModelTokenizer::load(directory).map_err(Failure::refused)?;
    let dtype = source_dtype(args, directory)?;
    write_model(&args.out, &source(args, directory), (&shape, &parameters), (&tokens, dtype))?;
    let merged = if args.merge { " with its adapter merged" } else { "" };
    Ok(format!("the model of {}{merged} in {}", directory.display(), name(dtype)))
}

/// The adapter in PEFT's layout, with an absolute path to its base: PEFT reads a relative one from where it is started.
fn export_adapter(directory: &Path, out: &Path) -> Result<String> {
    let adapter = directory.join("adapter");
    let shape = ModelConfig::load(directory).map_err(Failure::refused)?;
    let (settings, tensors) = lora::load(&adapter, &shape).map_err(Failure::refused)?;
    let base = base(&adapter)?;
    Disk::default().fill(out, Failure::broke, |disk| {
        lora::save_on(disk, out, (&settings, &tensors), &base).map_err(Failure::broke)?;
        match std::fs::read(adapter.join(adapter_base::FILE)) {
            Ok(bytes) => disk.replace(&out.join(adapter_base::FILE), &bytes).map_err(Failure::broke),
            Err(_) => Ok(()), // an adapter from elsewhere
        }
    })?;
    Ok(format!("the adapter of {} (rank {}, on {base})", directory.display(), settings.rank))
}

/// The base that the adapter names, as an absolute path.
fn base(adapter: &Path) -> Result<String> {
    let path = adapter.join(lora::CONFIG_FILE);
    let text =
        std::fs::read_to_string(&path).map_err(|e| Failure::refused(format!("{}: {e}", path.display())))?;
    let config: Value =
        serde_json::from_str(&text).map_err(|e| Failure::refused(format!("{}: {e}", path.display())))?;
    let said = config["base_model_name_or_path"].as_str().unwrap_or_default();
    // A run's own reference stands next to the adapter.
    let inside = adapter.join(said);
    let found =
        if said.starts_with("..") && inside.exists() { inside.canonicalize() } else { Ok(said.into()) };
    found.map(|path| path.display().to_string()).map_err(Failure::refused)
}

/// The type that is asked for; where it is the source's, that of the checkpoint that the run began with, or of a model of no run its own.
fn source_dtype(args: &ExportArgs, directory: &Path) -> Result<SaveDtype> {
    match args.dtype {
        ExportDtype::F32 => return Ok(SaveDtype::F32),
        ExportDtype::Bf16 => return Ok(SaveDtype::Bf16),
        ExportDtype::Source => {}
    }
    let origin = Origin::find(&args.model).map_err(Failure::refused)?;
    let began_with = match origin.map(|origin| origin.config.model) {
        None => return dtype_of(directory),
        Some(ModelSource::Random(_)) => return Ok(SaveDtype::F32),
        Some(ModelSource::Checkpoint(began_with)) => began_with,
    };
    let began_with = model_directory::locate(&began_with).map_err(|e| {
        Failure::refused(format!(
            "--dtype source: what the run began with is gone: {e}; --dtype f32 or bf16 does without it"
        ))
    })?;
    dtype_of(&began_with)
}

/// The type in which a checkpoint's tensors lose nothing.
fn dtype_of(directory: &Path) -> Result<SaveDtype> {
    let shape = ModelConfig::load(directory).map_err(Failure::refused)?;
    let found = weights::inspect(directory, &shape).map_err(Failure::refused)?;
    Ok(if found.dtypes.iter().all(|dtype| dtype == "BF16") { SaveDtype::Bf16 } else { SaveDtype::F32 })
}

fn name(dtype: SaveDtype) -> &'static str {
    match dtype {
        SaveDtype::F32 => "f32",
        SaveDtype::Bf16 => "bf16",
    }
}
