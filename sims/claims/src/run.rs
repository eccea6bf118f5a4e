//! Runs experiments one after the other, writes each report as soon as it is there, and ends with the verdicts.

use crate::experiment::{Context, Experiment, Finding, Report, listed};
use crate::store::Store;
use anyhow::{Context as _, anyhow, bail, ensure};
use comfy_table::{Row, presets};
use grpo_lambda_stats::table::Table;
use grpo_lambda_tools::failure::{Failure, one_line};
use grpo_lambda_tools::write::Output;
use grpo_lambda_tools::{PNG_SCALE, terminal};
use indicatif::{ProgressBar, ProgressState, ProgressStyle};
use rayon::prelude::*;
use serde::{Deserialize, Serialize};
use std::any::Any;
use std::fmt::Write as _;
use std::io::IsTerminal;
use std::panic::{self, AssertUnwindSafe};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

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

/// Runs `experiments`, one after the other. A refuted claim is a result like any other; an experiment that breaks down
/// is reported on one line while the others go on.
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

/// Every data file of a report: its name in `data/` and its content, the verdicts last.
pub fn tables(id: &str, report: &Report) -> Vec<(String, Table)> {
    let named = report.tables.iter().map(|(name, table)| (format!("{}.csv", stem(id, name)), table.clone()));
    named.chain([(format!("{id}_verdicts.csv"), verdicts(&report.findings))]).collect()
}

/// The names of a report's pictures in `figures/`, without `.svg` and `.png`.
pub fn figure_stems(id: &str, report: &Report) -> Vec<String> {
    report.figures.iter().map(|(name, _)| stem(id, name)).collect()
}

/// Every file of a report. All are made before the first is written, so that a figure that cannot be drawn leaves the
/// files of the last run together.
fn render(id: &str, report: &Report, command: &str) -> anyhow::Result<Vec<(String, Vec<u8>)>> {
    ensure!(!report.findings.is_empty(), "the report has no findings");
    let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    let names = report.tables.iter().map(|(name, _)| name).chain(report.figures.iter().map(|(name, _)| name));
    for name in names {
        ensure!(name.chars().all(plain), "{name:?} cannot be part of a file name: a-z, 0-9 and _ only");
    }
    let mut files: Vec<_> = tables(id, report)
        .iter()
        .map(|(file, table)| (format!("data/{file}"), table.to_csv(command).into_bytes()))
        .collect();
    let drawn = report.figures.par_iter().map(|(name, figure)| {
        let stem = stem(id, name);
        let context = || format!("figure {stem}");
        let svg = figure.to_svg().with_context(context)?.into_bytes();
        let png = figure.to_png(PNG_SCALE).with_context(context)?;
        Ok([(format!("figures/{stem}.svg"), svg), (format!("figures/{stem}.png"), png)])
    });
    files.extend(drawn.collect::<anyhow::Result<Vec<_>>>()?.into_iter().flatten());
    let mut names: Vec<_> = files.iter().map(|(name, _)| name).collect();
    names.sort();
    if let Some(pair) = names.windows(2).find(|pair| pair[0] == pair[1]) {
        bail!("the report has two files {}", pair[0]);
    }
    Ok(files)
}

pub(crate) fn stem(id: &str, name: &str) -> String {
    if name.is_empty() { id.to_owned() } else { format!("{id}_{name}") }
}

/// A row of `<id>_verdicts.csv`.
#[derive(Serialize, Deserialize)]
pub(crate) struct VerdictRow {
    pub(crate) key: String,
    pub(crate) statement: String,
    pub(crate) verdict: String,
    pub(crate) detail: String,
    /// [`Finding::values`] in JSON; empty if there is none, as the next two.
    pub(crate) values: String,
    /// [`Finding::rows`] in JSON.
    pub(crate) rows: String,
    pub(crate) note: String,
}

fn verdicts(findings: &[Finding]) -> Table {
    let json = |values: &serde_json::Map<_, _>| serde_json::Value::Object(values.clone()).to_string();
    Table::from_rows(findings.iter().map(|f| VerdictRow {
        key: f.key.clone(),
        statement: f.statement.clone(),
        verdict: f.verdict.word().to_owned(),
        detail: f.verdict.detail().to_owned(),
        values: if f.values.is_empty() { String::new() } else { json(&f.values) },
        rows: f.rows.as_ref().map_or(String::new(), |rows| serde_json::json!(rows).to_string()),
        note: f.note.clone(),
    }))
}

/// The result of one experiment.
struct Outcome {
    id: &'static str,
    /// Findings and the figures written, or why there are none.
    result: anyhow::Result<(Vec<Finding>, Vec<PathBuf>)>,
}

/// Lines of a finding in the summary of several experiments; alone, an experiment is shown in full.
const SUMMARY_LINES: usize = 5;

/// Up to so many experiments show all their findings; more show their headline, the paper's claim itself.
const SHOWN_WITH_ALL_FINDINGS: usize = 3;

fn summary(outcomes: &[Outcome], out: &Path) -> String {
    let mut table = terminal::table(&["claim", "statement", "verdict", "numbers"]);
    table.load_preset(presets::UTF8_FULL); // findings run over several lines: a rule sets them apart
    let headlines = outcomes.len() > SHOWN_WITH_ALL_FINDINGS;
    for outcome in outcomes {
        match &outcome.result {
            Ok((findings, _)) => {
                let shown = if headlines { &findings[..1] } else { &findings[..] };
                for (k, f) in shown.iter().enumerate() {
                    let id = match (k, findings.len() - shown.len()) {
                        (0, 0) => outcome.id.to_owned(),
                        (0, more) => format!("{}\n(+{more})", outcome.id),
                        _ => String::new(),
                    };
                    let mut numbers =
                        vec![f.verdict.detail().to_owned(), listed(&f.values, 4), f.note.clone()];
                    numbers.retain(|text| !text.is_empty());
                    let numbers = numbers.join("\n");
                    let mut row = Row::from([id.as_str(), &f.statement, f.verdict.word(), &numbers]);
                    if outcomes.len() > 1 {
                        row.max_height(SUMMARY_LINES);
                    }
                    table.add_row(row);
                }
            }
            Err(error) => {
                let why = one_line(&format!("{error:#}"));
                table.add_row([outcome.id, "(no result: the experiment failed)", "-", &why]);
            }
        }
    }
    let figures: Vec<_> =
        outcomes.iter().filter_map(|o| o.result.as_ref().ok()).flat_map(|(_, f)| f).collect();
    let mut text = format!("{table}\n");
    if outcomes.len() > 1 {
        let data = out.join("data").join("ID_verdicts.csv");
        let more = if headlines { "(+n): n further findings. " } else { "" };
        writeln!(text, "{more}Long ones are cut (..). In full: sim ID, or {}", data.display())
            .expect("writing to memory");
    }
    if !figures.is_empty() {
        text += "\nFigures, each as .svg and .png:\n";
    }
    for figure in figures {
        writeln!(text, "  {}", figure.display()).expect("writing to memory");
    }
    writeln!(text, "Data: {}", out.join("data").display()).expect("writing to memory");
    text
}

/// Keeps quiet about panics, which are shown on the experiment's line and not across the progress bar, and remembers
/// where the last one happened.
struct Panics {
    place: Arc<Mutex<String>>,
}

impl Panics {
    fn catch() -> Self {
        let place = Arc::new(Mutex::new(String::new()));
        let slot = Arc::clone(&place);
        panic::set_hook(Box::new(move |info| {
            let place = info.location().map_or(String::new(), |l| format!(" ({}:{})", l.file(), l.line()));
            *slot.lock().unwrap_or_else(PoisonError::into_inner) = place;
        }));
        Panics { place }
    }

    /// A panic's message and place.
    fn describe(&self, payload: &(dyn Any + Send)) -> String {
        let text = payload.downcast_ref::<&str>().map(|s| (*s).to_owned());
        let text = text.or_else(|| payload.downcast_ref::<String>().cloned()).unwrap_or_default();
        format!("panicked: {text}{}", self.place.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Drop for Panics {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            let _ = panic::take_hook(); // back to the standard hook
        }
    }
}
