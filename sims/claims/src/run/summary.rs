//! The summary at the end of a run: the verdicts as a table, and the files.

use crate::experiment::Finding;
use comfy_table::{Row, presets};
use grpo_lambda_tools::failure::one_line;
use grpo_lambda_tools::terminal;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

/// The result of one experiment.
pub(super) struct Outcome {
    pub(super) id: &'static str,
    /// Findings and the figures written, or why there are none.
    pub(super) result: anyhow::Result<(Vec<Finding>, Vec<PathBuf>)>,
}

/// Lines of a finding in the summary of several experiments; alone, an experiment is shown in full.
const SUMMARY_LINES: usize = 5;

/// Up to so many experiments show all their findings; more show their headline, the paper's claim itself.
const SHOWN_WITH_ALL_FINDINGS: usize = 3;

pub(super) fn summary(outcomes: &[Outcome], out: &Path) -> String {
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
                    let detail = f.verdict.detail();
                    let gap = if f.numbers.is_empty() || detail.is_empty() { "" } else { "\n" };
                    let numbers = format!("{detail}{gap}{}", f.numbers);
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
