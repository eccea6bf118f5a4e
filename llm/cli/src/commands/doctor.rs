//! `llm-train doctor`.

use std::path::PathBuf;

use serde_json::json;

use super::{Command, Failure, Result, json_text, print};
use grpo_lambda_stats::visible;
use grpo_lambda_studies::doctor::{Diagnosis, Log, diagnose, read};

/// Arguments of `doctor`.
#[derive(Clone, Debug, clap::Args)]
pub struct DoctorArgs {
    /// A run directory, of a run that is finished or under way; TRL's trainer_state.json or a directory with one;
    /// verl's JSON lines
    #[arg(value_name = "RUN|FILE")]
    pub run: PathBuf,
    /// Print the findings as JSON
    #[arg(long)]
    pub json: bool,
}

impl Command for DoctorArgs {
    /// Says what is wrong with a run.
    fn run(&self) -> Result<()> {
        let log = read(&self.run).map_err(Failure::refused)?;
        let diagnosis = diagnose(&log);
        let name = self.run.display().to_string();
        print(&if self.json {
            machine(&name, &log, &diagnosis)?
        } else {
            visible(&text(&name, &log, &diagnosis))
        })?;
        if diagnosis.findings.is_empty() { Ok(()) } else { Err(Failure::silent()) }
    }
}

fn text(name: &str, log: &Log, diagnosis: &Diagnosis) -> String {
    let found = match diagnosis.findings.len() {
        0 => "nothing is wrong that this log can show".to_owned(),
        1 => "1 finding".to_owned(),
        n => format!("{n} findings"),
    };
    let mut text = format!("{name}: {} steps of RL by {}: {found}\n", log.steps, log.framework.name());
    if log.repeated > 0 {
        text += &format!(
            "{} rows are of steps that were written again later; the later rows count\n",
            log.repeated
        );
    }
    for (i, (check, evidence)) in diagnosis.findings.iter().enumerate() {
        let (first, last) = evidence.steps;
        text += &format!(
            "\n{}. {} (steps {first} to {last}): {}.\n   change  {}\n   page    {}\n",
            i + 1,
            check.title,
            evidence.text,
            check.advice.for_framework(log.framework),
            check.page()
        );
    }
    for (check, missing) in &diagnosis.unseen {
        text += &format!("\nnot looked for, because the log lacks it: {} ({})", check.id, missing.join(", "));
    }
    if diagnosis.unseen.is_empty() { text } else { text + "\n" }
}

fn machine(name: &str, log: &Log, diagnosis: &Diagnosis) -> Result<String> {
    let findings = diagnosis.findings.iter().map(|(check, evidence)| {
        json!({
            "id": check.id,
            "title": check.title,
            "evidence": evidence.text,
            "first_step": evidence.steps.0,
            "last_step": evidence.steps.1,
            "page": check.page(),
            "change": check.advice.for_framework(log.framework),
        })
    });
    let unseen = diagnosis.unseen.iter().map(|(check, missing)| json!({"id": check.id, "missing": missing}));
    json_text(&json!({
        "log": name,
        "framework": log.framework.name(),
        "steps": log.steps,
        "findings": findings.collect::<Vec<_>>(),
        "not_looked_for": unseen.collect::<Vec<_>>(),
    }))
}
