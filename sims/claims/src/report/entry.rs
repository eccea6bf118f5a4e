//! An experiment on a page: its rows in the tables, its section among the findings.

use super::markdown::{cell, short_cell, wrapped};
use crate::endpoints::{self, Endpoint};
use crate::experiment::{Experiment, Rows, listed, shown};
use crate::run::VerdictRow;
use crate::sentences;
use anyhow::Context as _;
use grpo_lambda_stats::table::{Cell, Table};
use serde_json::{Map, Value};
use std::path::Path;

/// An experiment with its results in the output folder.
pub(super) struct Entry<'a> {
    experiment: &'a Experiment,
    endpoint: &'static Endpoint,
    findings: Vec<VerdictRow>,
    /// Values of every finding in a line, and the tables that it shows.
    shown: Vec<(String, [String; 2])>,
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
        let data = out.join("data");
        let findings = read_verdicts(&data, experiment.id)?;
        let shown = findings.iter().map(|finding| {
            let (line, table) = values(finding)?;
            anyhow::Ok((line, [table, rows(finding, &data, experiment.id)?]))
        });
        let shown = shown.collect::<anyhow::Result<_>>()?;
        let endpoint = endpoints::endpoint(experiment.id)?;
        Ok(Entry { experiment, endpoint, findings, shown, pictures })
    }

    /// Verdict and detail of a finding in Markdown: on a sentence of the paper in the words for those.
    fn verdict(&self, finding: &VerdictRow) -> String {
        let VerdictRow { key, verdict, detail, .. } = finding;
        let tested = sentences::tested_by(self.experiment.id, key);
        let word = tested.map_or(verdict.as_str(), |_| sentences::verdict(verdict));
        if detail.is_empty() { format!("**{word}**") } else { format!("**{word}**: {detail}") }
    }

    /// A row per sentence of the paper that this experiment tests.
    pub(super) fn sentence_rows(&self) -> String {
        let id = self.experiment.id;
        let row = |finding: &VerdictRow| {
            let sentence = sentences::tested_by(id, &finding.key)?;
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
        for (finding, (values, tables)) in self.findings.iter().zip(&self.shown) {
            let primary = if finding.key == self.endpoint.decided_by { " (primary endpoint)" } else { "" };
            text += &wrapped("- ", "  ", &format!("{}{primary}", finding.statement));
            text += &wrapped("  - ", "    ", &self.verdict(finding));
            for line in [values, &finding.note] {
                if !line.is_empty() {
                    text += &wrapped("  - ", "    ", line);
                }
            }
            for table in tables.iter().filter(|table| !table.is_empty()) {
                text += &format!("\n{table}\n");
            }
        }
        for picture in &self.pictures {
            text += &format!("\n![{}](figures/{picture})\n", picture.trim_end_matches(".png"));
        }
        text + "\n"
    }
}

/// Rows that a page shows in full; of more it names the file.
const MOST_ROWS: usize = 48;

/// The rows that a finding shows, as a table in its list item; empty if it shows none.
fn rows(finding: &VerdictRow, data: &Path, id: &str) -> anyhow::Result<String> {
    if finding.rows.is_empty() {
        return Ok(String::new());
    }
    let rows: Rows = serde_json::from_str(&finding.rows)?;
    let file = format!("{}.csv", crate::run::stem(id, &rows.table));
    let context = || format!("data/{file}, which finding `{}` of {id} shows", finding.key);
    let text = std::fs::read_to_string(data.join(&file)).with_context(context)?;
    let mut table = Table::from_csv(&text).with_context(context)?;
    let place = |table: &Table, name: &String| {
        table.column(name).with_context(|| format!("no column {name}")).with_context(context)
    };
    for (column, texts) in &rows.only {
        let at = place(&table, column)?;
        table.rows.retain(|row| texts.contains(&row[at].format(4)));
    }
    anyhow::ensure!(!table.rows.is_empty(), "{}: no row is shown", context());
    if table.rows.len() > MOST_ROWS {
        return Ok(format!("  {} rows: [`{file}`](data/{file})\n", table.rows.len()));
    }
    if !rows.columns.is_empty() {
        let places = rows.columns.iter().map(|column| place(&table, column));
        let places = places.collect::<anyhow::Result<Vec<_>>>()?;
        table.rows =
            table.rows.iter().map(|row| places.iter().map(|&at| row[at].clone()).collect()).collect();
        table.columns = rows.columns;
    }
    table.columns.iter_mut().for_each(|column| *column = column.replace('_', " "));
    Ok(indented(&table))
}

/// The values of a finding: in a line, and as a table those called `row: column`, if some row has two of them.
fn values(finding: &VerdictRow) -> anyhow::Result<(String, String)> {
    if finding.values.is_empty() {
        return Ok(Default::default());
    }
    let all: Map<String, Value> = serde_json::from_str(&finding.values)?;
    let (mut line, mut rows, mut columns) = (Map::new(), Vec::<(String, Map<_, _>)>::new(), Vec::new());
    for (name, value) in all {
        let Some((row, column)) = name.rsplit_once(": ") else {
            line.insert(name, value);
            continue;
        };
        if !columns.contains(&column.to_owned()) {
            columns.push(column.to_owned());
        }
        match rows.iter_mut().find(|(known, _)| known == row) {
            Some((_, cells)) => _ = cells.insert(column.to_owned(), value),
            None => rows.push((row.to_owned(), Map::from_iter([(column.to_owned(), value)]))),
        }
    }
    let mut table = Table { columns: [vec![String::new()], columns].concat(), rows: Vec::new() };
    for (row, cells) in rows {
        let cell = |column: &String| cells.get(column).map_or(Cell::Empty, |value| shown(value, 4).into());
        table.rows.push([vec![Cell::from(row)], table.columns[1..].iter().map(cell).collect()].concat());
    }
    let indented = if table.rows.is_empty() { String::new() } else { indented(&table) };
    Ok((listed(&line, 4), indented))
}

/// A table in a list item.
fn indented(table: &Table) -> String {
    table.to_markdown().lines().map(|line| format!("  {line}\n")).collect()
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
