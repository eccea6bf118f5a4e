//! Diagnosis of a run by its log: a pure function from columns to findings.
//!
//! ```text
//! checks.toml  the findings in words, and what each framework calls the quantities that are looked at
//! column.rs    those quantities
//! log.rs       a log as columns over steps, and the windows at its ends
//! read.rs      a run directory of llm-train, TRL's trainer_state.json, verl's JSON lines -> a log
//! findings.rs  the checks: when each finding holds, with the numbers that show it
//! ```

mod column;
mod findings;
mod log;
mod read;

pub use column::{Column, Framework};
pub use log::Log;
use log::{Ends, Window};
pub use read::{LogError, read};

use std::sync::LazyLock;

use column::ColumnNames;
use findings::EXAMINERS;
use grpo_lambda_stats::table::significant;
use serde::Deserialize;

/// `checks.toml`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Words {
    checks: Vec<Check>,
    columns: Vec<ColumnNames>,
}

static WORDS: LazyLock<Words> = LazyLock::new(|| {
    toml::from_str(include_str!("checks.toml")).expect("the compiled-in file is read by a test")
});

/// A value for each framework.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PerFramework<T> {
    ours: T,
    trl: T,
    verl: T,
}

impl<T> PerFramework<T> {
    pub fn for_framework(&self, framework: Framework) -> &T {
        match framework {
            Framework::Ours => &self.ours,
            Framework::Trl => &self.trl,
            Framework::Verl => &self.verl,
        }
    }
}

/// Something that can be wrong with a run.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Check {
    /// Its name in JSON, and its anchor on the page that explains it.
    pub id: String,
    /// Its words for a reader.
    pub title: String,
    /// When it is found, with the bound.
    pub sign: String,
    /// Its meaning and its causes.
    pub meaning: String,
    /// The setting to change, in the spelling of each framework.
    pub advice: PerFramework<String>,
    /// The columns without which it cannot be seen.
    pub needs: Vec<Column>,
}

impl Check {
    /// The page that explains it.
    pub fn page(&self) -> String {
        format!("docs/doctor.md#{}", self.id)
    }

    /// The evidence, where there is any.
    fn examine(&self, log: &Log) -> Option<Evidence> {
        EXAMINERS.iter().find(|(id, _)| *id == self.id).and_then(|(_, examine)| examine(log))
    }
}

/// All checks, the gravest first.
pub fn checks() -> &'static [Check] {
    &WORDS.checks
}

/// The numbers that show a finding.
#[derive(Clone, Debug, PartialEq)]
pub struct Evidence {
    /// A sentence with them.
    pub text: String,
    /// First and last step that it is about.
    pub steps: (f64, f64),
}

impl Evidence {
    /// A mean in nats per token over the last steps next to that over the first.
    fn nats(quantity: &str, ends: &Ends) -> Evidence {
        let [recent, early] = [&ends.recent, &ends.early].map(|window| significant(window.mean(), 3));
        Evidence {
            text: format!("the mean {quantity} is {recent} nats per token, after {early} at first"),
            steps: ends.recent.steps,
        }
    }

    /// A mean share over some steps.
    fn share(of: &Window, what: &str) -> Evidence {
        Evidence { text: format!("{} % of the {what}", significant(100.0 * of.mean(), 3)), steps: of.steps }
    }
}

/// The findings in a log.
#[derive(Debug)]
pub struct Diagnosis {
    pub findings: Vec<(&'static Check, Evidence)>,
    /// Checks that were impossible, and the columns that the log lacks for them.
    pub unseen: Vec<(&'static Check, Vec<&'static str>)>,
}

/// Looks for every one of [`checks`].
pub fn diagnose(log: &Log) -> Diagnosis {
    let mut diagnosis = Diagnosis { findings: Vec::new(), unseen: Vec::new() };
    for check in checks() {
        let missing: Vec<&str> =
            check.needs.iter().filter(|column| !log.has(**column)).map(|c| c.name()).collect();
        if missing.is_empty() {
            diagnosis.findings.extend(check.examine(log).map(|evidence| (check, evidence)));
        } else {
            diagnosis.unseen.push((check, missing));
        }
    }
    diagnosis
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::page;

    /// A log of a run that learns: every column there is, and nothing wrong.
    fn healthy(n: usize) -> Log {
        Column::all().fold(Log::new(Framework::Ours, true), |log, column| {
            log.with(column, n, |i| {
                let x = i as f64 / n as f64;
                match column {
                    Column::Reward => 0.3 + 0.4 * x + 0.02 * (i % 3) as f64,
                    Column::ZeroVariance => 0.3,
                    Column::Kl => 0.02 * x,
                    Column::RatioMean | Column::RatioMax | Column::Mismatch => 1.0,
                    Column::Truncated => 0.05,
                    Column::ClipLow | Column::ClipHigh | Column::Clipped | Column::Skipped => 0.0,
                    Column::GradNorm => 0.5 + 0.1 * (i % 5) as f64,
                    Column::Length => 80.0 + 20.0 * x,
                    Column::Entropy => 0.8 - 0.3 * x,
                    Column::Loss => 0.01,
                    Column::Accuracy | Column::HeldOutHigh => 0.5,
                }
            })
        })
    }

    #[test]
    fn a_healthy_log_has_no_finding_whatever_its_length() {
        for n in [1, 2, 9, 10, 20, 50, 1000] {
            let diagnosis = diagnose(&healthy(n));
            let found: Vec<_> = diagnosis.findings.iter().map(|(c, e)| (&c.id, &e.text)).collect();
            assert!(found.is_empty(), "{n}: {found:?}");
            assert!(diagnosis.unseen.is_empty());
        }
    }

    #[test]
    fn what_a_log_lacks_is_named_and_nothing_is_found_in_it() {
        let diagnosis = diagnose(&Log::new(Framework::Verl, false));
        assert!(diagnosis.findings.is_empty());
        assert_eq!(diagnosis.unseen.len(), checks().len());
        assert!(diagnosis.unseen.iter().all(|(_, missing)| !missing.is_empty()));
    }

    #[test]
    fn every_check_has_a_name_of_its_own_and_its_words() {
        assert!(checks().iter().map(|c| c.id.as_str()).eq(EXAMINERS.map(|(id, _)| id)));
        assert!(Column::all().enumerate().all(|(i, column)| column as usize == i), "the order of the table");
        for check in checks() {
            assert!(check.id.bytes().all(|b| b.is_ascii_lowercase() || b == b'-'), "{}", check.id);
            assert!(!check.needs.is_empty(), "{}", check.id);
            for framework in [Framework::Ours, Framework::Trl, Framework::Verl] {
                assert!(check.advice.for_framework(framework).len() > 20, "{}", check.id);
            }
        }
    }

    /// Lines of at most 160 characters; those after the first begin with `indent`.
    fn wrapped(text: &str, indent: &str) -> String {
        let mut lines = vec![String::new()];
        for word in text.split(' ') {
            let line = lines.last_mut().expect("at least one");
            match line.is_empty() {
                true => line.push_str(word),
                false if line.chars().count() + 1 + word.chars().count() > 158 => {
                    lines.push(format!("{indent}{word}"));
                }
                false => line.extend([" ", word]),
            }
        }
        lines.join("\n")
    }

    #[test]
    fn the_page_explains_every_finding() {
        let section = |check: &Check| {
            let list = |framework| format!("- {framework}: ", framework = Framework::name(framework));
            let advice: String = [Framework::Ours, Framework::Trl, Framework::Verl]
                .map(|framework| {
                    wrapped(&(list(framework) + check.advice.for_framework(framework)), "  ") + "\n"
                })
                .concat();
            let columns: Vec<&str> = check.needs.iter().map(|c| c.name()).collect();
            let when = format!("Found when {} (columns: {}).", check.sign, columns.join(", "));
            let text = wrapped(&format!("{when} {}", check.meaning), "");
            format!("### {}\n\n{}.\n\n{text}\n\nWhat to change:\n\n{advice}\n", check.id, check.title)
        };
        let columns: String = Column::all()
            .map(|column| {
                let names = |framework| match column.names(framework) {
                    [] => "none".to_owned(),
                    names => names.iter().map(|n| format!("`{n}`")).collect::<Vec<_>>().join(" or "),
                };
                let [ours, trl, verl] = [Framework::Ours, Framework::Trl, Framework::Verl].map(names);
                format!("| {} | {ours} | {trl} | {verl} |\n", column.name())
            })
            .collect();
        let head = "| quantity | llm-train | TRL | verl |\n| --- | --- | --- | --- |\n";
        page::hold("doctor.md", "findings", &checks().iter().map(section).collect::<String>());
        page::hold("doctor.md", "columns", &format!("{head}{columns}"));
    }
}
