//! The report of a run: one self-contained page, made from the files of its directory.

use std::path::{Path, PathBuf};

use grpo_lambda_decoder::disk::Disk;
use grpo_lambda_stats::wilson;
use serde_json::{Value, json};

use crate::doctor::{self, diagnose};
use crate::figures::{DrawError, of_record};
use crate::paired::{self, report as paired_report};
use crate::record::RunRecord;
use grpo_lambda_trainer::config::ModelSource;
use grpo_lambda_trainer::eval::CONFIDENCE_LEVEL;
use grpo_lambda_trainer::eval::answers::HeldOutAnswers;
use grpo_lambda_trainer::eval::completion::CompletionRecord;
use grpo_lambda_trainer::eval::power;
use grpo_lambda_trainer::eval::report::{ReportBenchmark, changed, inlined, render, section};
use grpo_lambda_trainer::eval::score::Tally;
use grpo_lambda_trainer::eval::store::StoreError;
use grpo_lambda_trainer::eval::summary::{ASSUMED, percent};
use grpo_lambda_trainer::run::{RunError, read_log};

const PAGE: &str = include_str!("page.html");

/// The name of the page in a run directory.
pub const FILE: &str = "report.html";

/// Problems shown that were won, and lost.
const CHANGED: usize = 4;
/// Samples shown of the first steps of RL, and of the last.
const SAMPLES: usize = 2;
/// Characters of a sample that are shown.
const LONGEST: usize = 4000;

/// Writes the report of a run into its directory.
///
/// # Errors
/// [`DrawError`] when a file is damaged, or the page cannot be made or written. A part whose file is missing is left
/// out.
pub fn write(record: &RunRecord, run: &Path) -> Result<PathBuf, DrawError> {
    let failed =
        |e: &dyn std::fmt::Display| DrawError::Figure { name: FILE.to_owned(), problem: e.to_string() };
    let svgs: Result<Vec<String>, _> =
        of_record(record).iter().enumerate().map(|(i, (_, f))| inlined(f, i)).collect();
    let mut page = json!({
        "finding": record.finding(),
        "facts": facts(record, run),
        "svgs": svgs.map_err(|e| failed(&e))?,
        "doctor": findings(run),
        "samples": samples(run)?,
        "command": command(run),
        "config": record.config.to_toml(),
        "version": env!("CARGO_PKG_VERSION"),
        "directory": run.display().to_string(),
    });
    match HeldOutAnswers::ends(run) {
        Ok(answers) => add_answers(&mut page, run, &answers).map_err(|e| failed(&e))?,
        Err(StoreError::NoAnswers { .. }) => {}
        Err(damaged) => return Err(damaged.into()),
    }
    let page = render(PAGE, page).map_err(|e| failed(&e))?;
    let path = run.join(FILE);
    Disk::default().inside(run)?.replace(&path, page.as_bytes())?;
    Ok(path)
}

/// The facts of a run, in a line.
fn facts(record: &RunRecord, run: &Path) -> Vec<[String; 2]> {
    let config = &record.config;
    let model = match &config.model {
        ModelSource::Checkpoint(path) => path.display().to_string(),
        ModelSource::Random(shape) => {
            format!("random weights, {} layers of width {}", shape.layers, shape.hidden)
        }
    };
    let entry = |key: &str, value: String| [key.to_owned(), value];
    vec![
        entry("run", run.display().to_string()),
        entry("method", config.method.clone()),
        entry("model", model),
        entry("RL steps", format!("{} of {}", record.curves.steps("rl"), config.rl.steps)),
        entry("supervised steps", format!("{} of {}", record.curves.steps("sft"), config.sft.steps)),
        entry("seed", config.seed.to_string()),
    ]
}

/// The findings of the doctor; null where the log has no step of RL.
fn findings(run: &Path) -> Value {
    let Ok(log) = doctor::read(run) else { return Value::Null };
    let found = diagnose(&log).findings;
    let one = found.iter().map(|(check, evidence)| {
        json!({
            "title": check.title,
            "text": evidence.text,
            "first": evidence.steps.0,
            "last": evidence.steps.1,
            "change": check.advice.for_framework(log.framework),
            "page": check.page(),
        })
    });
    one.collect()
}

/// The first samples of RL and the last.
fn samples(run: &Path) -> Result<Vec<Value>, RunError> {
    let name = "samples.jsonl";
    let text = if run.join(name).exists() { read_log(run, name)? } else { String::new() };
    let mut all: Vec<Value> = text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    if all.len() > 2 * SAMPLES {
        all.drain(SAMPLES..all.len() - SAMPLES);
    }
    for sample in &mut all {
        for field in ["prompt", "response"] {
            if let Some(text) = sample[field].as_str().filter(|text| text.len() > LONGEST) {
                sample[field] = text.chars().take(LONGEST).collect::<String>().into();
            }
        }
    }
    Ok(all)
}

/// The command that wrote the log, from its first line.
fn command(run: &Path) -> String {
    let text = std::fs::read_to_string(run.join("metrics.csv")).unwrap_or_default();
    text.lines().next().and_then(|line| line.strip_prefix("# ")).unwrap_or_default().to_owned()
}

/// The held-out answers before RL and at the latest evaluation.
fn add_answers(page: &mut Value, run: &Path, [start, latest]: &[HeldOutAnswers; 2]) -> anyhow::Result<()> {
    let ([a, b], steps) = paired::StoredEvaluation::ends_of_run(run)?;
    let pair = paired::pair(&a, &b)?;
    let after = format!("after RL step {}", steps[1]);
    let right = |completions: &[Vec<CompletionRecord>], name: &str| {
        let tallies: Vec<Tally> = completions.iter().map(|c| Tally::new(c)).collect();
        let (right, n) = tallies.iter().fold((0, 0), |(right, n), t| (right + t.right, n + t.graded));
        let ends = wilson(right, n, CONFIDENCE_LEVEL);
        let [share, ends] = ends.map_or(["none counts".to_owned(), String::new()], |i| {
            [percent(i.mid), format!("{} to {}", percent(i.low), percent(i.high))]
        });
        [name.to_owned(), share, ends]
    };
    page["paired"] = json!({
        "sentence": paired_report::of_run(&pair, steps[1]),
        "n": start.problems.len(),
        "rows": [right(&start.completions, "before RL"), right(&latest.completions, &after)],
        "sides": pair.benchmarks.iter().map(paired_report::sides).collect::<Vec<_>>().join("; "),
        "notes": paired_report::notes(&pair, ["before", "after"]),
    });
    let answers = [start.completions.as_slice(), &latest.completions];
    let [won, lost] = changed(&start.problems, answers, ["before RL:", &format!("{after}:")], CHANGED);
    page["changed"] = json!([
        {"title": "Right after, not before", "problems": won},
        {"title": "Right before, not after", "problems": lost},
    ]);
    let name = format!("Held-out answers {after}");
    let part = ReportBenchmark { name: &name, problems: &latest.problems, completions: &latest.completions };
    let tallies: Vec<Tally> = latest.completions.iter().map(|c| Tally::new(c)).collect();
    let limits = power::limits(&tallies).map_or(String::new(), |limits| limits.sentence(ASSUMED));
    page["answers"] = serde_json::to_value(section(&part, limits))?;
    Ok(())
}
