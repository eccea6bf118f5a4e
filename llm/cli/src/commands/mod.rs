//! The subcommands of `llm-train`: a file for each, and their table.

mod asked;
mod bench;
mod chat;
mod compare;
mod data;
mod doctor;
mod engine;
mod eval;
mod export;
mod generate;
mod gpu_check;
pub mod grade;
mod lines;
mod model;
mod options;
mod plot;
mod records;
mod reproduce;
mod score;
mod shell;
pub mod train;

use std::path::Path;

use grpo_lambda_decoder::generate::{MAX_TEMPERATURE, MIN_TEMPERATURE};

pub use grpo_lambda_studies::failure::{Failure, Result};
use model::{Loaded, checkpoint, load, load_model, load_tokens};

/// The arguments of a subcommand, which know how to run it.
pub trait Command {
    fn run(&self) -> Result<()>;
}

/// Train a language model on problems by reinforcement learning, from a checkpoint to held-out accuracy
///
/// Without arguments: the preset `tiny` learns arithmetic word problems from nothing, by imitation and then by
/// GRPO-lambda, on this machine's processor, in a few minutes.
#[derive(Debug, clap::Parser)]
#[command(name = "llm-train", bin_name = "llm-train", version = VERSION, after_help = AFTER_HELP, args_conflicts_with_subcommands = true)]
pub struct Cli {
    #[command(subcommand)]
    pub command: Option<Subcommand>,
    #[command(flatten)]
    pub train: train::TrainArgs,
    /// Say nothing but warnings, errors and the result
    #[arg(long, global = true)]
    pub quiet: bool,
}

/// Number, commit and features.
const VERSION: &str = concat!(
    env!("CARGO_PKG_VERSION"),
    " (commit: ",
    env!("LLM_TRAIN_COMMIT"),
    "; features: ",
    env!("LLM_TRAIN_FEATURES"),
    ")"
);

// A paragraph is one line: the terminal's width decides where it breaks.
const AFTER_HELP: &str = include_str!("help/llm-train.txt").trim_ascii_end();

macro_rules! commands {
    ($($(#[$about:meta])* $name:ident($args:ty),)*) => {
        #[derive(Debug, clap::Subcommand)]
        pub enum Subcommand {
            $($(#[$about])* $name($args),)*
        }

        impl Command for Subcommand {
            fn run(&self) -> Result<()> {
                match self {
                    $(Subcommand::$name(args) => args.run(),)*
                }
            }
        }
    };
}

commands! {
    /// Supervised learning, then RL, with held-out accuracy before and after; resumes an interrupted run
    #[command(after_help = train::settings_help())]
    Train(train::TrainArgs),
    /// Supervised learning only, into runs/NAME-sft; llm-train train model.checkpoint=DIR sft.steps=0 goes on from there
    #[command(after_help = train::settings_help())]
    Sft(train::SftArgs),
    /// Draw the curves of a run into RUN/figures
    Plot(plot::PlotArgs),
    /// Diagnose a run by its log; also of TRL and verl. Exit code 0 without a finding, 1 with one
    Doctor(doctor::DoctorArgs),
    /// Write the records of a run or an evaluation in the format of another tool
    Records(records::RecordsArgs),
    /// Several methods from the same supervised starts over several seeds, with intervals; resumes
    Compare(compare::CompareArgs),
    /// The paper's tables: plan, run or resume their cells, and ours next to the paper's numbers
    Reproduce(reproduce::ReproduceArgs),
    /// Sample or decode responses to prompts
    Generate(generate::GenerateArgs),
    /// Log-probabilities and entropies of given tokens
    Score(score::ScoreArgs),
    /// Accuracy on benchmarks, with intervals and a report; resumes
    Eval(eval::EvalArgs),
    /// Describe a data set: layout, bad rows, lengths, and its first rows as the model would see them
    Data(data::DataArgs),
    /// Compare answers with references, a JSON line each
    Grade(grade::GradeArgs),
    /// Time the phases of a training step on a model's shape, or count its work without a device
    Bench(bench::BenchArgs),
    /// Talk to a model in the terminal
    Chat(chat::ChatArgs),
    /// The model of a run as a plain checkpoint in the type it came in, its adapter, or a model with an adapter merged
    Export(export::ExportArgs),
    /// Completions for a shell, on standard output
    Completions(shell::CompletionsArgs),
    /// Manual pages, one for each command
    Man(shell::ManArgs),
    /// Every kernel on a CUDA card against what it should compute
    GpuCheck(gpu_check::GpuCheckArgs),
}

impl Command for grade::GradeArgs {
    fn run(&self) -> Result<()> {
        grade::run(self)
    }
}

/// The form of a command's printed result.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum OutputFormat {
    /// For a person
    #[default]
    Text,
    /// Every number, for a program
    Json,
}

/// A JSON value as it is printed.
fn json_text(value: &serde_json::Value) -> Result<String> {
    let text = serde_json::to_string_pretty(value).map_err(Failure::broke)?;
    Ok(text + "\n")
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
fn check_temperature(temperature: f64, hint: &str) -> Result<()> {
    if (MIN_TEMPERATURE..=MAX_TEMPERATURE).contains(&temperature) {
        return Ok(());
    }
    Err(Failure::refused(format!(
        "--temperature {temperature:?}: must be a number from {MIN_TEMPERATURE:e} to {MAX_TEMPERATURE}{hint}"
    )))
}

/// Uses so many threads from now on; 0 for as many as the machine has.
fn use_threads(threads: usize) -> Result<()> {
    if threads > MAX_THREADS {
        let right = "must be a whole number from 0 (as many as the machine has) to";
        return Err(Failure::refused(format!("--threads {threads}: {right} {MAX_THREADS}")));
    }
    rayon::ThreadPoolBuilder::new().num_threads(threads).build_global().map_err(Failure::broke)
}

/// The text of a file, or of stdin for none or `-`.
fn input(file: Option<&Path>) -> Result<(String, String)> {
    let file = file.filter(|f| f.as_os_str() != "-");
    let name = file.map_or("stdin".to_owned(), |f| f.display().to_string());
    let text = match file {
        Some(path) if is_endless(path) => Err(std::io::Error::other("a device; must be a file")),
        Some(path) => std::fs::read(path),
        None => {
            let mut bytes = Vec::new();
            std::io::Read::read_to_end(&mut std::io::stdin(), &mut bytes).map(|_| bytes)
        }
    };
    let bytes = text.map_err(|e| Failure::refused(format!("{name}: cannot be read: {e}")))?;
    let text = String::from_utf8(bytes).map_err(|e| {
        let before = &e.as_bytes()[..e.utf8_error().valid_up_to()];
        let line = before.iter().filter(|byte| **byte == b'\n').count() + 1;
        Failure::refused(format!("{name}:{line}: not UTF-8 text; the file must be UTF-8"))
    })?;
    Ok((name, text))
}

/// True for a device, which may never end. A pipe is fine: a shell makes one for `<(command)`.
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
pub(crate) fn print(text: &str) -> Result<()> {
    use std::io::Write as _;
    let mut out = std::io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(e) if e.kind() != std::io::ErrorKind::BrokenPipe => Err(Failure::broke(format!("stdout: {e}"))),
        _ => Ok(()),
    }
}

/// The smallest of sorted lengths, of which there is one, that so large a share is not longer than.
fn quantile(sorted: &[usize], share: f64) -> usize {
    sorted[((sorted.len() as f64 * share).ceil() as usize).clamp(1, sorted.len()) - 1]
}

/// Bytes for people.
fn gib(bytes: u64) -> String {
    let mib = bytes as f64 / f64::from(1 << 20);
    if mib < 1024.0 { format!("{mib:.1} MiB") } else { format!("{:.2} GiB", mib / 1024.0) }
}
