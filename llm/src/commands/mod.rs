//! What the subcommands of `llm-train` do.

pub mod bench;
pub mod compare;
pub mod explain;
pub mod generate;
pub mod grade;
pub mod info;
mod lines;
pub mod plot;
pub mod score;
pub mod train;

use std::path::{Path, PathBuf};

use crate::model::{self, Decoder, weights};
use crate::run_dir;
use crate::tokens::Tokens;

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
        Failure { message: one_line(&message.to_string()), code: 1 }
    }
}

/// Lines joined by `; `.
fn one_line(text: &str) -> String {
    text.lines().map(str::trim).filter(|l| !l.is_empty()).collect::<Vec<_>>().join("; ").replace(":; ", ": ")
}

/// The checkpoint that `--model` names: the directory itself, or the latest checkpoint of a run directory.
fn checkpoint(directory: &Path) -> Result<PathBuf, Failure> {
    let refused = |what: &str| {
        let right =
            "must be a checkpoint directory with config.json and model.safetensors, or a run directory";
        Err(Failure::refused(format!("--model {}: {what}; {right}", directory.display())))
    };
    if !directory.is_dir() {
        return refused("no such directory");
    }
    if directory.join("config.json").exists() || !directory.join("checkpoints").is_dir() {
        return Ok(directory.to_owned());
    }
    match run_dir::latest(directory).map_err(Failure::refused)? {
        Some(latest) => Ok(latest.path().to_owned()),
        None => refused("a run without a complete checkpoint"),
    }
}

/// The model of a checkpoint directory.
fn load_model(directory: &Path) -> Result<Decoder<f32>, Failure> {
    let load = || {
        let shape = model::Config::load(directory)?;
        let parameters = weights::load(directory, &shape)?;
        Decoder::new(shape, parameters)
    };
    load().map_err(Failure::refused)
}

/// The tokenizer of a checkpoint directory, checked against its model.
fn load_tokens(directory: &Path, model: &Decoder<f32>) -> Result<Tokens, Failure> {
    let tokens = Tokens::load(directory).map_err(Failure::refused)?;
    tokens.check(model.config().vocab_size).map_err(Failure::refused)?;
    Ok(tokens)
}

/// Uses so many threads from now on; 0 for as many as the machine has.
fn use_threads(threads: usize) -> Result<(), Failure> {
    rayon::ThreadPoolBuilder::new().num_threads(threads).build_global().map_err(Failure::broke)
}

/// The text of a file, or of stdin for none.
fn input(file: Option<&Path>) -> Result<(String, String), Failure> {
    let name = file.map_or("stdin".to_owned(), |f| f.display().to_string());
    let text = match file {
        Some(path) => std::fs::read_to_string(path),
        None => std::io::read_to_string(std::io::stdin()),
    };
    text.map(|t| (name.clone(), t))
        .map_err(|e| Failure::refused(format!("{name}: cannot be read as UTF-8 text: {e}")))
}

/// Writes to stdout; a reader that went away is no failure.
fn print(text: &str) -> Result<(), Failure> {
    use std::io::Write as _;
    let mut out = std::io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(e) if e.kind() != std::io::ErrorKind::BrokenPipe => Err(Failure::broke(format!("stdout: {e}"))),
        _ => Ok(()),
    }
}
