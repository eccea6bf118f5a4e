//! An experiment on a page: its rows in the tables, its section among the findings.

use std::path::Path;

use anyhow::Context as _;
use grpo_lambda_stats::table::{Cell, Table};

use super::markdown::{cell, short_cell, wrapped};
use super::sentences::{self, Sentence};
use crate::experiment::Experiment;

/// An experiment with what stands in the output folder about it.
pub(super) struct Entry<'a> {
    experiment: &'a Experiment,
    findings: Findings,
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
        let findings = Findings::read(&out.join("data"), experiment.id)?;
        Ok(Entry { experiment, findings, pictures })
    }

    /// The sentence of the paper that a finding tests.
    fn sentence(&self, row: usize) -> Option<&'static Sentence> {
        sentences::tested_by(self.experiment.id, &self.findings.text(row, STATEMENT))
    }

    /// Verdict and detail of a finding in Markdown: on a sentence of the paper in the words for those.
    fn verdict(&self, row: usize) -> String {
        let (word, detail) = (self.findings.text(row, VERDICT), self.findings.text(row, DETAIL));
        let word = if self.sentence(row).is_some() { sentences::verdict(&word).to_owned() } else { word };
        if detail.is_empty() { format!("**{word}**") } else { format!("**{word}**: {detail}") }
    }

    /// A row per sentence of the paper that this experiment tests.
    pub(super) fn sentence_rows(&self) -> String {
        let id = self.experiment.id;
        let row = |k| {
            let sentence = self.sentence(k)?;
            let words = cell(&format!("\"{}\" ({})", sentence.words, sentence.place));
            let statement = short_cell(&self.findings.text(k, STATEMENT));
            Some(format!("| {words} | {statement} | {} | [`{id}`](#{id}) |\n", short_cell(&self.verdict(k))))
        };
        (0..self.findings.len()).filter_map(row).collect()
    }

    /// The row of the page's own table: the first of the experiment's statements.
    pub(super) fn row(&self) -> String {
        let Experiment { id, title, .. } = self.experiment;
        let link = self.pictures.first().map_or(String::new(), |p| format!("[figure](figures/{p})"));
        let verdict = short_cell(&self.verdict(0));
        let statement = short_cell(&self.findings.text(0, STATEMENT));
        format!("| [`{id}`](#{id}) | {} | {statement} | {verdict} | {link} |\n", cell(title))
    }

    /// The words that were the occasion, every finding with its numbers, and the figures.
    pub(super) fn section(&self) -> String {
        let Experiment { id, title, claim, source, .. } = self.experiment;
        let mut text = format!("### {id}\n\n{}\n", wrapped("", "", title));
        text += &format!("{}\n", wrapped("> ", "> ", &format!("{claim} ({source})")));
        for row in 0..self.findings.len() {
            text += &wrapped("- ", "  ", &self.findings.text(row, STATEMENT));
            text += &wrapped("  - ", "    ", &self.verdict(row));
            let numbers = self.findings.text(row, NUMBERS);
            if !numbers.is_empty() {
                text += &wrapped("  - ", "    ", &format!("Numbers: {numbers}"));
            }
        }
        for picture in &self.pictures {
            text += &format!("\n![{}](figures/{picture})\n", picture.trim_end_matches(".png"));
        }
        text + "\n"
    }
}

/// The findings of an experiment as committed.
struct Findings(Table);

const COLUMNS: [&str; 4] = ["statement", "verdict", "detail", "numbers"];
const STATEMENT: usize = 0;
const VERDICT: usize = 1;
const DETAIL: usize = 2;
const NUMBERS: usize = 3;

impl Findings {
    /// Reads `<id>_verdicts.csv` from the data folder.
    fn read(data: &Path, id: &str) -> anyhow::Result<Self> {
        let path = data.join(format!("{id}_verdicts.csv"));
        let text = std::fs::read_to_string(&path)
            .with_context(|| format!("{}: cannot be read; run `sim {id}`", path.display()))?;
        let table = Table::from_csv(&text).with_context(|| path.display().to_string())?;
        anyhow::ensure!(
            table.columns == COLUMNS && !table.rows.is_empty(),
            "{}: expected the columns statement, verdict, detail, numbers and at least one row",
            path.display()
        );
        Ok(Findings(table))
    }

    fn len(&self) -> usize {
        self.0.rows.len()
    }

    fn text(&self, row: usize, column: usize) -> String {
        match &self.0.rows[row][column] {
            Cell::Text(text) => text.clone(),
            other => other.format(12),
        }
    }
}
