//! An experiment on a page: its rows in the tables, its section among the findings.

use super::markdown::{cell, short_cell, wrapped};
use crate::endpoints::{self, Endpoint};
use crate::experiment::Experiment;
use crate::run::VerdictRow;
use crate::sentences;
use anyhow::Context as _;
use grpo_lambda_stats::table::Table;
use std::path::Path;

/// An experiment with its results in the output folder.
pub(super) struct Entry<'a> {
    experiment: &'a Experiment,
    endpoint: &'static Endpoint,
    findings: Vec<VerdictRow>,
    /// File names in `figures/`.
    pictures: Vec<String>,
}

impl<'a> Entry<'a> {
    /// Reads the experiment's verdicts from `out`.
    pub(super) fn read(
        experiment: &'a Experiment,
        out: &Path,
        pictures: Vec<String>,
    ) -> anyhow::Result<Self> {
        let findings = read_verdicts(&out.join("data"), experiment.id)?;
        let endpoint = endpoints::endpoint(experiment.id)?;
        Ok(Entry { experiment, endpoint, findings, pictures })
    }

    /// Verdict and detail of a finding in Markdown: on a sentence of the paper in the words for those.
    fn verdict(&self, finding: &VerdictRow) -> String {
        let VerdictRow { statement, verdict, detail, .. } = finding;
        let tested = sentences::tested_by(self.experiment.id, statement);
        let word = tested.map_or(verdict.as_str(), |_| sentences::verdict(verdict));
        if detail.is_empty() { format!("**{word}**") } else { format!("**{word}**: {detail}") }
    }

    /// A row per sentence of the paper that this experiment tests.
    pub(super) fn sentence_rows(&self) -> String {
        let id = self.experiment.id;
        let row = |finding: &VerdictRow| {
            let sentence = sentences::tested_by(id, &finding.statement)?;
            let words = cell(&format!("\"{}\" ({})", sentence.words, sentence.place));
            let (statement, verdict) = (short_cell(&finding.statement), short_cell(&self.verdict(finding)));
            Some(format!("| {words} | {statement} | {verdict} | [`{id}`](#{id}) |\n"))
        };
        self.findings.iter().filter_map(row).collect()
    }

    /// The row of the page's own table: the first of the experiment's statements.
    pub(super) fn row(&self) -> String {
        let Experiment { id, title, .. } = self.experiment;
        let link = self.pictures.first().map_or(String::new(), |p| format!("[figure](figures/{p})"));
        let verdict = short_cell(&self.verdict(&self.findings[0]));
        let statement = short_cell(&self.findings[0].statement);
        format!("| [`{id}`](#{id}) | {} | {statement} | {verdict} | {link} |\n", cell(title))
    }

    /// The claim under test, every finding with its numbers, and the figures.
    pub(super) fn section(&self) -> String {
        let Experiment { id, title, claim, source, .. } = self.experiment;
        let mut text = format!("### {id}\n\n{}\n", wrapped("", "", title));
        text += &format!("{}\n", wrapped("> ", "> ", &format!("{claim} ({source})")));
        text += &format!("{}\n", wrapped("", "", &format!("Primary endpoint: {}.", self.endpoint.endpoint)));
        for finding in &self.findings {
            let decides = finding.statement.starts_with(&self.endpoint.decided_by);
            let primary = if decides { " (primary endpoint)" } else { "" };
            text += &wrapped("- ", "  ", &format!("{}{primary}", finding.statement));
            text += &wrapped("  - ", "    ", &self.verdict(finding));
            if !finding.numbers.is_empty() {
                text += &wrapped("  - ", "    ", &format!("Numbers: {}", finding.numbers));
            }
        }
        for picture in &self.pictures {
            text += &format!("\n![{}](figures/{picture})\n", picture.trim_end_matches(".png"));
        }
        text + "\n"
    }
}

/// Reads `<id>_verdicts.csv` from the data folder.
fn read_verdicts(data: &Path, id: &str) -> anyhow::Result<Vec<VerdictRow>> {
    let path = data.join(format!("{id}_verdicts.csv"));
    let text = std::fs::read_to_string(&path)
        .with_context(|| format!("{}: cannot be read; run `sim {id}`", path.display()))?;
    let rows: Vec<VerdictRow> = Table::from_csv(&text)
        .and_then(|table| table.to_rows())
        .with_context(|| path.display().to_string())?;
    anyhow::ensure!(!rows.is_empty(), "{}: has no row; run `sim {id}`", path.display());
    Ok(rows)
}
