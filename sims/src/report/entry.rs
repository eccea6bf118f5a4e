//! A claim on a page: its row in the tables, its section among the findings.

use std::path::Path;

use anyhow::Context as _;
use grpo_lambda::table::{Cell, Table};

use super::markdown::{cell, short_cell, wrapped};
use crate::experiment::Experiment;

/// A claim with what stands in the output folder about it.
pub(super) struct Entry<'a> {
    experiment: &'a Experiment,
    findings: Findings,
    /// File names in `figures/`.
    pictures: Vec<String>,
}

impl<'a> Entry<'a> {
    /// Reads the claim's verdicts from `out`.
    pub(super) fn read(
        experiment: &'a Experiment,
        out: &Path,
        pictures: Vec<String>,
    ) -> anyhow::Result<Self> {
        let findings = Findings::read(&out.join("data"), experiment.id)?;
        Ok(Entry { experiment, findings, pictures })
    }

    /// The row of the page's own table: the numbers stand in the section that it links.
    pub(super) fn row(&self) -> String {
        let Experiment { id, title, .. } = self.experiment;
        let link = self.pictures.first().map_or(String::new(), |p| format!("[figure](figures/{p})"));
        let verdict = short_cell(&self.findings.verdict(0));
        format!("| [`{id}`](#{id}) | {} | {verdict} | `sim {id}` | {link} |\n", cell(title))
    }

    /// The row of the table in the repository's README.
    pub(super) fn brief_row(&self) -> String {
        let Experiment { id, title, .. } = self.experiment;
        let verdict = short_cell(&self.findings.verdict(0));
        format!("| [`{id}`](paper/README.md#{id}) | {} | {verdict} |\n", cell(title))
    }

    /// The claim's words, every finding with its numbers, and the figures.
    pub(super) fn section(&self) -> String {
        let Experiment { id, title, claim, source, .. } = self.experiment;
        let mut text = format!("### {id}\n\n{}\n", wrapped("", "", title));
        text += &format!("{}\n", wrapped("> ", "> ", &format!("{claim} ({source})")));
        for row in 0..self.findings.len() {
            text += &wrapped("- ", "  ", &self.findings.text(row, STATEMENT));
            text += &wrapped("  - ", "    ", &self.findings.verdict(row));
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

/// The findings of a claim as committed.
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

    /// Verdict and detail of a finding in Markdown.
    fn verdict(&self, row: usize) -> String {
        let (word, detail) = (self.text(row, VERDICT), self.text(row, DETAIL));
        if detail.is_empty() { format!("**{word}**") } else { format!("**{word}**: {detail}") }
    }
}
