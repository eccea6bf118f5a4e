//! Runs experiments one after the other, writes each report as soon as it is there, and ends with the verdicts.

mod files;
mod panics;
mod summary;

pub(crate) use files::VerdictRow;
pub use files::{figure_stems, tables};

use crate::experiment::{Context, Experiment};
use crate::store::Store;
use anyhow::anyhow;
use files::render;
use grpo_lambda_tools::failure::{Failure, one_line};
use grpo_lambda_tools::write::Output;
use indicatif::{ProgressBar, ProgressState, ProgressStyle};
use panics::Panics;
use std::io::IsTerminal;
use std::panic::AssertUnwindSafe;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};
use summary::{Outcome, summary};

/// Settings of a run.
#[derive(Clone, Debug)]
pub struct Options {
    /// The folder that gets `data/` and `figures/`.
    pub out: PathBuf,
    /// Seed of every random stream.
    pub seed: u64,
    /// The long version of every experiment.
    pub full: bool,
}

impl Options {
    /// The command that repeats an experiment, as it stands in the first line of its data.
    pub fn command(&self, id: &str) -> String {
        format!("sim {id} --seed {}{}", self.seed, if self.full { " --full" } else { "" })
    }
}

/// The end of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Summary {
    /// The verdicts as a table as wide as the terminal, and where the files are.
    pub text: String,
    /// Ids of experiments that broke down.
    pub failed: Vec<&'static str>,
}

/// Runs `experiments`, one after the other. A refuted claim is a result like any other; an experiment that breaks down is
/// reported on one line while the others go on.
///
/// # Errors
/// [`Failure::Refused`] when the output folder cannot be written to, before any work.
pub fn run(experiments: &[&'static Experiment], options: &Options) -> Result<Summary, Failure> {
    let output = Output::open(&options.out)
        .map_err(|e| Failure::Refused(format!("--out: {e:#}; give a folder this user can write to")))?;
    let panics = Panics::catch();
    let bar = bar(experiments.len());
    let mut outcomes = Vec::new();
    for (i, experiment) in experiments.iter().enumerate() {
        let start = Instant::now();
        bar.set_message(experiment.id);
        let outcome = one(experiment, (i, experiments.len()), options, &output, &bar, &panics);
        bar.set_position((i as u64 + 1) * STEPS);
        let line = plain_line(i, experiments.len(), &outcome, start.elapsed());
        if outcome.result.is_err() || bar.is_hidden() {
            bar.suspend(|| eprintln!("{line}"));
        }
        outcomes.push(outcome);
    }
    bar.finish_and_clear();
    let failed = outcomes.iter().filter(|o| o.result.is_err()).map(|o| o.id).collect();
    Ok(Summary { text: summary(&outcomes, &options.out), failed })
}

/// Minimum time between two lines of progress where there is no bar.
const PLAIN_EVERY: Duration = Duration::from_secs(5);

/// Steps of the progress bar per experiment.
const STEPS: u64 = 1000;

fn bar(experiments: usize) -> ProgressBar {
    if !std::io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let bar = ProgressBar::new(experiments as u64 * STEPS);
    let template = "{bar:18} {percent:>3}%  {done}  {rate}  eta {eta}  {wide_msg}";
    let style = ProgressStyle::with_template(template)
        .expect("the template is well formed")
        .with_key("done", |state: &ProgressState, w: &mut dyn std::fmt::Write| {
            let _ = write!(w, "{}/{}", state.pos() / STEPS, state.len().unwrap_or(0) / STEPS);
        })
        .with_key("rate", |state: &ProgressState, w: &mut dyn std::fmt::Write| {
            let _ = write!(w, "{:.1}/min", state.per_sec() * 60.0 / STEPS as f64);
        });
    bar.set_style(style);
    bar.enable_steady_tick(Duration::from_millis(120));
    bar
}

fn one(
    experiment: &'static Experiment,
    (index, total): (usize, usize),
    options: &Options,
    output: &Output,
    bar: &ProgressBar,
    panics: &Panics,
) -> Outcome {
    let said = Mutex::new(Instant::now());
    // Experiments report from several threads, not always in order: the bar never goes back.
    let progress = |done: f64, doing: &str| {
        let mut last = said.lock().unwrap_or_else(PoisonError::into_inner);
        if bar.is_hidden() && last.elapsed() >= PLAIN_EVERY {
            *last = Instant::now();
            let percent = 100.0 * done.clamp(0.0, 1.0);
            eprintln!("[{}/{total}] {}: {percent:.0} %, {doing}", index + 1, experiment.id);
        }
        let within = (done.clamp(0.0, 1.0) * STEPS as f64) as u64;
        bar.set_position(bar.position().max(index as u64 * STEPS + within));
        let space = if doing.is_empty() { "" } else { ": " };
        bar.set_message(format!("{}{space}{doing}", experiment.id));
    };
    let work = || {
        let command = options.command(experiment.id);
        let partial = output.path("partial").join(format!("{}.pieces", experiment.id));
        let store = if options.full { Store::open(&partial, &command)? } else { Store::none() };
        if !store.is_empty() {
            bar.suspend(|| eprintln!("{}: resuming after {} pieces of work", experiment.id, store.len()));
        }
        let context = Context { seed: options.seed, full: options.full, progress: &progress, store: &store };
        let report = (experiment.run)(&context)?;
        let files = render(experiment.id, &report, &command)?;
        let mut figures = Vec::new();
        for (name, content) in files {
            let path = output.write(&name, &content)?;
            if name.ends_with(".svg") {
                figures.push(path);
            }
        }
        store.finish()?;
        Ok((report.findings, figures))
    };
    let result = std::panic::catch_unwind(AssertUnwindSafe(work))
        .unwrap_or_else(|payload| Err(anyhow!(panics.describe(&*payload))));
    Outcome { id: experiment.id, result }
}

fn plain_line(index: usize, total: usize, outcome: &Outcome, took: Duration) -> String {
    let what = match &outcome.result {
        Ok((findings, _)) => findings.first().map_or(String::new(), |f| short(&f.said())),
        Err(error) => format!("FAILED: {}", one_line(&format!("{error:#}"))),
    };
    format!("[{}/{total}] {}: {what} ({:.1} s)", index + 1, outcome.id, took.as_secs_f64())
}

/// Characters of a verdict in a line of progress.
const LONGEST: usize = 160;

fn short(text: &str) -> String {
    match text.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{} ..", text[..end].trim_end()),
        None => text.to_owned(),
    }
}
