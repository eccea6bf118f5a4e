//! What the subcommands of `llm-train` do.

mod asked;
pub mod bench;
pub mod chat;
pub mod compare;
pub mod data;
pub mod doctor;
pub mod engine;
pub mod eval;
pub mod explain;
pub mod export;
pub mod generate;
pub mod gpu_check;
pub mod grade;
pub mod info;
mod lines;
pub mod merge;
pub mod plot;
pub mod records;
pub mod reproduce;
pub mod score;
pub mod serve;
pub mod shell;
pub mod train;

use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use grpo_lambda_decoder::device::OUT_OF_MEMORY;
use grpo_lambda_decoder::generate::Sampler;
use grpo_lambda_decoder::generate::{MAX_TEMPERATURE, MIN_TEMPERATURE};
use grpo_lambda_decoder::model::{self, Decoder, weights};
use grpo_lambda_gpu::Dtype;
use grpo_lambda_gpu::select::{self, ComputeDevice, DevicePreference};

use crate::input::tokens::ModelTokenizer;
use crate::run::model_directory;
use crate::run::progress::say;
use crate::run::{self, HeldCheckpoint};
use crate::step::engine::GpuModel;

/// What a command prints its result as.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum OutputFormat {
    /// For a person
    #[default]
    Text,
    /// Every number, for a program
    Json,
}

/// A JSON value as it is printed.
fn json_text(value: &serde_json::Value) -> Result<String, Failure> {
    let text = serde_json::to_string_pretty(value).map_err(Failure::broke)?;
    Ok(text + "\n")
}

/// Why a command stops.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// One line.
    pub message: String,
    /// 2 when the input was refused and nothing was done, 1 when the work broke off.
    pub code: u8,
}

impl Failure {
    /// The input was refused.
    pub fn refused(message: impl ToString) -> Self {
        Failure { message: one_line(&message.to_string()), code: 2 }
    }

    /// The work broke off.
    pub fn broke(message: impl ToString) -> Self {
        let mut message = one_line(&message.to_string());
        if message.contains(OUT_OF_MEMORY) {
            message += LESS_MEMORY;
        }
        Failure { message, code: 1 }
    }
}

impl Failure {
    /// A signal asked for the end; what was done is kept.
    pub fn stopped(message: impl ToString, signal: u8) -> Self {
        Failure { message: one_line(&message.to_string()), code: SIGNALLED + signal }
    }

    /// The result is printed and says what there is to say; only the exit code differs.
    pub fn silent() -> Self {
        Failure { message: String::new(), code: 1 }
    }

    /// The signal that asked for it, so that it is no error.
    pub fn signal(&self) -> Option<u8> {
        self.code.checked_sub(SIGNALLED).filter(|signal| *signal > 0)
    }
}

/// Advice after a device ran out of memory.
const LESS_MEMORY: &str = "; in training lower memory.micro_batch_tokens or set memory.recompute_layers=true (the run resumes from its last \
                           checkpoint), in evaluation lower --batch";

/// What a shell adds to the number of the signal that ended a program.
const SIGNALLED: u8 = 128;

fn one_line(text: &str) -> String {
    let lines: Vec<String> = text.lines().map(str::trim).filter(|l| !l.is_empty()).map(visible).collect();
    lines.join("; ").replace(":; ", ": ")
}

/// A text of a file for a terminal, which takes some control characters for commands: all but tabs and ends of lines are spelt out.
fn visible(text: &str) -> String {
    let spelt = |c: char| match c {
        '\n' | '\t' => c.to_string(),
        c if c.is_control() => c.escape_default().to_string(),
        // They change the order in which what stands beside them is shown.
        '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => c.escape_default().to_string(),
        c => c.to_string(),
    };
    text.chars().map(spelt).collect()
}

/// The checkpoint that `--model` names: the directory itself, the latest checkpoint of a run directory, or with `RUN/best` that of its best
/// evaluation.
fn checkpoint(directory: &Path) -> Result<PathBuf, Failure> {
    let refused = |what: String| Failure::refused(format!("--model {what}"));
    if let Some(run) = model_directory::run_of_best(directory) {
        let none = || {
            refused(format!(
                "{}: the run keeps no best checkpoint; train it with checkpoint.best=true",
                directory.display()
            ))
        };
        return hold(run::hold_best(run).map_err(Failure::refused)?.ok_or_else(none)?);
    }
    let located = model_directory::locate(directory).map_err(refused)?;
    let of_a_run = ["checkpoints", "config.toml"].iter().any(|name| located.join(name).exists());
    if located.join("config.json").exists() || !of_a_run {
        model_directory::check(&located, false).map_err(refused)?;
        return Ok(located);
    }
    let none = || refused(format!("{}: a run without a complete checkpoint", located.display()));
    hold(run::hold_latest(&located).map_err(Failure::refused)?.ok_or_else(none)?)
}

/// Where a checkpoint lies that is sound and stays as long as this command runs.
fn hold(checkpoint: HeldCheckpoint) -> Result<PathBuf, Failure> {
    checkpoint.verify().map_err(Failure::refused)?;
    let path = checkpoint.path().to_owned();
    HELD.lock().unwrap_or_else(PoisonError::into_inner).push(checkpoint);
    Ok(path)
}

/// The checkpoints of runs that this command reads: a run that is under way leaves them there until it ends.
static HELD: Mutex<Vec<HeldCheckpoint>> = Mutex::new(Vec::new());

/// The model of a checkpoint directory.
fn load_model(directory: &Path) -> Result<Decoder<f32>, Failure> {
    let load = || {
        let shape = model::ModelConfig::load(directory)?;
        let parameters = weights::load(directory, &shape)?;
        Decoder::new(shape, parameters)
    };
    load().map_err(Failure::refused)
}

/// A checkpoint's model where it computes, with its tokenizer.
struct Loaded {
    model: Box<dyn Sampler>,
    shape: model::ModelConfig,
    tokens: ModelTokenizer,
    /// `f32` on the CPU, the card's type and name, or the server.
    numbers: String,
    /// On a card: its type, and the bytes that were free before the weights were there.
    card: Option<(Dtype, u64)>,
}

/// The model of a checkpoint directory, on the device that `device` and `dtype` (as in a configuration) choose, or on a server.
fn load(
    directory: &Path,
    (device, dtype): (&str, &str),
    engine: &engine::EngineArgs,
) -> Result<Loaded, Failure> {
    let shape = model::ModelConfig::load(directory).map_err(Failure::refused)?;
    let tokens = ModelTokenizer::load(directory).map_err(Failure::refused)?;
    tokens.check(shape.vocab_size).map_err(Failure::refused)?;
    if let Some((server, numbers)) = engine.server(shape.vocab_size)? {
        let model = Box::new(engine::remote(server, load_model(directory)?));
        return Ok(Loaded { model, shape, tokens, numbers, card: None });
    }
    let wanted = DevicePreference::parse(device).unwrap_or(DevicePreference::Auto);
    let (chosen, told) =
        select::choose(wanted, select::parse_dtype(dtype), |dtype| select::find_card(dtype, say))
            .map_err(Failure::refused)?;
    if let Some(line) = told {
        say(&line);
    }
    match chosen {
        ComputeDevice::Cpu => {
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
fn load_tokens(directory: &Path, model: &Decoder<f32>) -> Result<ModelTokenizer, Failure> {
    let tokens = ModelTokenizer::load(directory).map_err(Failure::refused)?;
    tokens.check(model.config().vocab_size).map_err(Failure::refused)?;
    Ok(tokens)
}

/// More threads than any machine this runs on has processors.
const MAX_THREADS: usize = 1024;

/// Parses a number of at least 1.
fn count(text: &str) -> Result<usize, String> {
    const MOST: usize = 1_000_000_000;
    let number = text.parse().ok().filter(|n| (1..=MOST).contains(n));
    number.ok_or_else(|| format!("must be a whole number from 1 to {MOST}"))
}

fn whole<T: std::str::FromStr>(text: &str) -> Result<T, String> {
    text.parse().map_err(|_| "must be a whole number of at least 0".to_owned())
}

/// Refuses a temperature that logits cannot be divided by; `hint` says what else there is.
fn check_temperature(temperature: f64, hint: &str) -> Result<(), Failure> {
    if (MIN_TEMPERATURE..=MAX_TEMPERATURE).contains(&temperature) {
        return Ok(());
    }
    Err(Failure::refused(format!(
        "--temperature {temperature:?}: must be a number from {MIN_TEMPERATURE:e} to {MAX_TEMPERATURE}{hint}"
    )))
}

/// Uses so many threads from now on; 0 for as many as the machine has.
fn use_threads(threads: usize) -> Result<(), Failure> {
    if threads > MAX_THREADS {
        let right = "must be a whole number from 0 (as many as the machine has) to";
        return Err(Failure::refused(format!("--threads {threads}: {right} {MAX_THREADS}")));
    }
    rayon::ThreadPoolBuilder::new().num_threads(threads).build_global().map_err(Failure::broke)
}

/// The text of a file, or of stdin for none or `-`.
fn input(file: Option<&Path>) -> Result<(String, String), Failure> {
    let file = file.filter(|f| f.as_os_str() != "-");
    let name = file.map_or("stdin".to_owned(), |f| f.display().to_string());
    let text = match file {
        Some(path) if is_endless(path) => Err(std::io::Error::other("a device; must be a file")),
        Some(path) => std::fs::read_to_string(path),
        None => std::io::read_to_string(std::io::stdin()),
    };
    text.map(|t| (name.clone(), t))
        .map_err(|e| Failure::refused(format!("{name}: cannot be read as UTF-8 text: {e}")))
}

/// Whether it is a device, which may never end. A pipe is fine: a shell makes one for `<(command)`.
#[cfg(unix)]
fn is_endless(path: &Path) -> bool {
    use std::os::unix::fs::FileTypeExt;
    let is_device =
        |found: std::fs::Metadata| found.file_type().is_char_device() || found.file_type().is_block_device();
    std::fs::metadata(path).is_ok_and(is_device)
}

#[cfg(not(unix))]
fn is_endless(_: &Path) -> bool {
    false
}

/// Writes to stdout; a reader that went away is no failure.
pub(crate) fn print(text: &str) -> Result<(), Failure> {
    use std::io::Write as _;
    let mut out = std::io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(e) if e.kind() != std::io::ErrorKind::BrokenPipe => Err(Failure::broke(format!("stdout: {e}"))),
        _ => Ok(()),
    }
}
