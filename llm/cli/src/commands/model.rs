//! The model of a checkpoint directory or a run directory.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use grpo_lambda_decoder::generate::Sampler;
use grpo_lambda_decoder::model::{self, Decoder, weights};
use grpo_lambda_gpu::Dtype;
use grpo_lambda_gpu::select::{self, ComputeDevice, DevicePreference};
use grpo_lambda_trainer::input::tokens::ModelTokenizer;
use grpo_lambda_trainer::run::{self, HeldCheckpoint, model_directory};
use grpo_lambda_trainer::step::engine::GpuModel;
use grpo_lambda_trainer::train::choose_device;

use super::{Failure, Result, engine};

/// The checkpoint that `--model` names: the directory itself, the latest checkpoint of a run directory, or with `RUN/best` that of its best
/// evaluation.
pub(super) fn checkpoint(directory: &Path) -> Result<PathBuf> {
    let refused = |what: String| Failure::refused(format!("--model {what}"));
    if let Some(run) = model_directory::run_of_best(directory) {
        let none = || {
            refused(format!(
                "{}: the run keeps no best checkpoint; train it with checkpoint.best=true",
                directory.display()
            ))
        };
        return Ok(hold(run::hold_best(run).map_err(Failure::refused)?.ok_or_else(none)?));
    }
    let located = model_directory::locate(directory).map_err(refused)?;
    let of_a_run = ["checkpoints", "config.toml"].iter().any(|name| located.join(name).exists());
    let is_model = located.join("config.json").exists();
    if is_model || !of_a_run {
        model_directory::check(&located, false).map_err(refused)?;
        if !is_model {
            let shown = located.display();
            return Err(refused(format!("{shown}: config.json: No such file; name a checkpoint or a run")));
        }
        hold_named(&located)?;
        return Ok(located);
    }
    let none = || refused(format!("{}: a run without a complete checkpoint", located.display()));
    Ok(hold(run::hold_latest(&located).map_err(Failure::refused)?.ok_or_else(none)?))
}

/// Keeps a directory that is a checkpoint of a run, or a part of one, as long as this command runs, and refuses one that was changed.
pub(super) fn hold_named(directory: &Path) -> Result<()> {
    let held = run::hold_directory(directory).map_err(Failure::refused)?;
    drop(held.map(hold));
    Ok(())
}

/// The path of a checkpoint, kept there as long as this command runs.
fn hold(checkpoint: HeldCheckpoint) -> PathBuf {
    let path = checkpoint.path().to_owned();
    HELD.lock().unwrap_or_else(PoisonError::into_inner).push(checkpoint);
    path
}

/// The checkpoints of runs that this command reads: a run that is under way leaves them there until it ends.
static HELD: Mutex<Vec<HeldCheckpoint>> = Mutex::new(Vec::new());

/// The model of a checkpoint directory.
pub(super) fn load_model(directory: &Path) -> Result<Decoder<f32>> {
    let load = || {
        let shape = model::ModelConfig::load(directory)?;
        let parameters = weights::load(directory, &shape)?;
        Decoder::new(shape, parameters)
    };
    load().map_err(Failure::refused)
}

/// A checkpoint's model where it computes, with its tokenizer.
pub(super) struct Loaded {
    pub(super) model: Box<dyn Sampler>,
    pub(super) shape: model::ModelConfig,
    pub(super) tokens: ModelTokenizer,
    /// `f32` on the CPU, the card's type and name, or the server.
    pub(super) numbers: String,
    /// On a card: its type, and the bytes that were free before the weights were there.
    pub(super) card: Option<(Dtype, u64)>,
}

/// The model of a checkpoint directory, on the device that `device` and `dtype` (as in a configuration) choose, or on a server.
pub(super) fn load(
    directory: &Path,
    (device, dtype): (&str, &str),
    engine: &engine::EngineArgs,
) -> Result<Loaded> {
    let shape = model::ModelConfig::load(directory).map_err(Failure::refused)?;
    let tokens = ModelTokenizer::load(directory).map_err(Failure::refused)?;
    tokens.check(shape.vocab_size).map_err(Failure::refused)?;
    if let Some((server, numbers)) = engine.server(shape.vocab_size)? {
        let model = Box::new(engine::remote(server, load_model(directory)?));
        return Ok(Loaded { model, shape, tokens, numbers, card: None });
    }
    let wanted = DevicePreference::parse(device).unwrap_or(DevicePreference::Auto);
    let chosen = choose_device(wanted, select::parse_dtype(dtype), false).map_err(Failure::refused)?;
    match chosen {
        // None of candle's is ever chosen here.
        ComputeDevice::Cpu | ComputeDevice::Candle(..) => {
            let model = Box::new(load_model(directory)?);
            Ok(Loaded { model, shape, tokens, numbers: "f32".to_owned(), card: None })
        }
        ComputeDevice::Cuda(card, dtype) => {
            let (free, _) = card.memory().map_err(Failure::broke)?;
            let found = GpuModel::load(&card, dtype, &shape, directory);
            let model = found.map_err(|e| match e {
                model::Error::Device(e) => Failure::broke(e),
                e => Failure::refused(e),
            })?;
            let adapter = model.adapter_bytes();
            let unmerged = if adapter > 0 { ", the adapter unmerged," } else { "" };
            let numbers = format!("{}{unmerged} on {}", dtype.name(), card.name());
            Ok(Loaded {
                model: Box::new(model),
                shape,
                tokens,
                numbers,
                card: Some((dtype, free.saturating_sub(adapter))),
            })
        }
    }
}

/// The tokenizer of a checkpoint directory, checked against its model.
pub(super) fn load_tokens(directory: &Path, model: &Decoder<f32>) -> Result<ModelTokenizer> {
    let tokens = ModelTokenizer::load(directory).map_err(Failure::refused)?;
    tokens.check(model.config().vocab_size).map_err(Failure::refused)?;
    Ok(tokens)
}
