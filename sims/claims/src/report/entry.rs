//! An experiment on a page: its rows in the tables, its section among the findings.

use super::markdown::{cell, short_cell, wrapped};
use crate::endpoints;
use crate::experiment::{Experiment, Rows};
use crate::run::VerdictRow;
use crate::sentences;
use anyhow::Context as _;
use grpo_lambda_stats::table::{Cell, Table};
use std::path::{Path, PathBuf};

/// An experiment with its results in the output folder.
pub(super) struct Entry<'a> {
    experiment: &'a Experiment,
    /// The key of the finding that decides on the primary endpoint.
    primary: &'static str,
    findings: Vec<VerdictRow>,
    /// The rows that decide.
    tables: Vec<Deciding>,
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
        let mut tables: Vec<Deciding> = Vec::new();
        for finding in findings.iter().filter(|finding| !finding.rows.is_empty()) {
            let rows = serde_json::from_str(&finding.rows)?;
            Deciding::add(&mut tables, rows, &data, experiment.id)
                .with_context(|| format!("finding `{}` of {}", finding.key, experiment.id))?;
        }
        let primary = &endpoints::endpoint(experiment.id)?.decided_by;
        Ok(Entry { experiment, primary, findings, tables, pictures })
    }

    /// The verdict on a finding in the words for sentences of the paper, where it is on one.
    fn word<'f>(&self, finding: &'f VerdictRow) -> &'f str {
        let tested = sentences::tested_by(self.experiment.id, &finding.key);
        tested.map_or(finding.verdict.as_str(), |_| sentences::verdict(&finding.verdict))
    }

    /// Verdict and detail of a finding in Markdown.
    fn verdict(&self, finding: &VerdictRow) -> String {
        let (word, detail) = (self.word(finding), &finding.detail);
        if detail.is_empty() { format!("**{word}**") } else { format!("**{word}**: {detail}") }
    }

    /// A row per sentence of the paper that this experiment tests.
    pub(super) fn sentence_rows(&self) -> String {
        let id = self.experiment.id;
        let row = |finding: &VerdictRow| {
            let sentence = sentences::tested_by(id, &finding.key)?;
            let words = cell(&format!("\"{}\" ({})", sentence.words, sentence.place));
            Some(format!("| {words} | {} | [`{id}`](#{id}) |\n", short_cell(&self.verdict(finding))))
        };
        self.findings.iter().filter_map(row).collect()
    }

    /// The row of the page's own table: the question, and the verdict on the first statement.
    pub(super) fn row(&self) -> String {
        let Experiment { id, title, .. } = self.experiment;
        format!("| [`{id}`](#{id}) | {} | **{}** |\n", cell(title), self.word(&self.findings[0]))
    }

    /// Every finding with its verdict, the rows that decide, and the figures.
    pub(super) fn section(&self) -> String {
        let Experiment { id, source, .. } = self.experiment;
        let mut text = format!("### {id}\n\n{}\n", wrapped("", "", &format!("*{source}*")));
        let primary = |f: &VerdictRow| if f.key == *self.primary { " (primary endpoint)" } else { "" };
        let (judged, own): (Vec<&VerdictRow>, Vec<_>) =
            self.findings.iter().partition(|f| sentences::tested_by(id, &f.key).is_some());
        let place = |f: &&VerdictRow| {
            let sentence = sentences::tested_by(id, &f.key)?;
            Some(format!("{}{}", sentence.place, primary(f)))
        };
        let mut known = std::collections::BTreeSet::new();
        let places = judged.iter().filter_map(place).filter(|place| known.insert(place.clone()));
        let places = places.collect::<Vec<_>>().join(", ");
        if !places.is_empty() {
            let tested = format!("Tested [sentences of the paper](#what-the-paper-says): {places}");
            text += &format!("{}\n", wrapped("", "", &tested));
        }
        if !own.is_empty() {
            let row = |f: &VerdictRow| {
                let statement = format!("{}{}", f.statement, primary(f));
                format!("| {} | {} |\n", cell(&statement), short_cell(&self.verdict(f)))
            };
            let rows: String = own.into_iter().map(row).collect();
            text += &format!("| statement | verdict |\n| --- | --- |\n{rows}\n");
        }
        text += &self.tables.iter().map(Deciding::markdown).collect::<String>();
        let files = self.tables.iter().map(|Deciding { file, .. }| format!("[`{file}`](data/{file}), "));
        let files: String = files.collect();
        text += &wrapped("", "", &format!("Data: {files}[all values](data/{id}_verdicts.csv)"));
        for picture in &self.pictures {
            text += &format!("\n![{}](figures/{picture})\n", picture.trim_end_matches(".png"));
        }
        text + "\n"
    }
}

/// Rows and columns of a table on a page; one with more rows is not shown.
const MOST_ROWS: usize = 5;
const MOST_COLUMNS: usize = 5;

/// The rows of a table on which findings of an experiment decide.
struct Deciding {
    file: String,
    table: Table,
    columns: Vec<String>,
    /// True for a row that is shown.
    kept: Vec<bool>,
}

impl Deciding {
    /// Marks rows, in the table if another finding shows it, else in a new one.
    fn add(tables: &mut Vec<Deciding>, rows: Rows, data: &Path, id: &str) -> anyhow::Result<()> {
        let file = format!("{}.csv", crate::run::stem(id, &rows.table));
        if !tables.iter().any(|known| known.file == file) {
            let table = read_table(&data.join(&file))?;
            let kept = vec![false; table.rows.len()];
            tables.push(Deciding { file: file.clone(), table, columns: Vec::new(), kept });
        }
        let own = tables.iter_mut().find(|known| known.file == file).context("a table that was just read")?;
        let place =
            |name: &String| own.table.column(name).with_context(|| format!("{file}: no column {name}"));
        let only = rows.only.iter().map(|(column, texts)| Ok((place(column)?, texts)));
        let only = only.collect::<anyhow::Result<Vec<_>>>()?;
        rows.columns.iter().try_for_each(|column| place(column).map(drop))?;
        let fits = |row: &[Cell]| only.iter().all(|(at, texts)| texts.contains(&row[*at].format(4)));
        let fitting: Vec<bool> = own.table.rows.iter().map(|row| fits(row)).collect();
        anyhow::ensure!(fitting.contains(&true), "{file}: no row is shown");
        let named = if rows.columns.is_empty() { &own.table.columns } else { &rows.columns };
        let new: Vec<String> = named.iter().filter(|column| !own.columns.contains(column)).cloned().collect();
        own.columns.extend(new);
        own.kept.iter_mut().zip(fitting).for_each(|(kept, fits)| *kept |= fits);
        Ok(())
    }

    /// The rows that decide, if they are few.
    fn markdown(&self) -> String {
        let columns = &self.columns[..self.columns.len().min(MOST_COLUMNS)];
        match self.kept.iter().filter(|kept| **kept).count() {
            few if few <= MOST_ROWS => format!("{}\n", shown_columns(&self.table, columns, &self.kept)),
            _ => String::new(),
        }
    }
}

/// These columns of the rows that are kept.
fn shown_columns(table: &Table, columns: &[String], kept: &[bool]) -> String {
    let places: Vec<usize> = columns.iter().filter_map(|column| table.column(column)).collect();
    let row = |row: &Vec<Cell>| places.iter().map(|&at| row[at].clone()).collect();
    let rows = table.rows.iter().zip(kept).filter(|(_, kept)| **kept).map(|(own, _)| row(own)).collect();
    Table { columns: columns.iter().map(|column| column.replace('_', " ")).collect(), rows }.to_markdown()
}

fn read_table(path: &PathBuf) -> anyhow::Result<Table> {
    let text = std::fs::read_to_string(path).with_context(|| path.display().to_string())?;
    Table::from_csv(&text).with_context(|| path.display().to_string())
}

/// A table of the data folder for a page that asks for it: `FILE COLUMN COLUMN ..`, every column if it names none.
pub(super) fn rows(data: &Path, words: &str) -> anyhow::Result<String> {
    let mut words = words.split(' ').map(str::to_owned);
    let table = words.next().unwrap_or_default();
    let mut found = Vec::new();
    Deciding::add(
        &mut found,
        Rows { table: String::new(), columns: words.collect(), only: Vec::new() },
        data,
        &table,
    )?;
    let Deciding { table, columns, .. } = &found[0];
    Ok(shown_columns(table, columns, &vec![true; table.rows.len()]))
}

/// Reads `<id>_verdicts.csv` from the data folder.
fn read_verdicts(data: &Path, id: &str) -> anyhow::Result<Vec<VerdictRow>> {
    let path = data.join(format!("{id}_verdicts.csv"));
    let table = read_table(&path).with_context(|| format!("run `sim {id}`"))?;
    let rows: Vec<VerdictRow> = table.to_rows().with_context(|| path.display().to_string())?;
    anyhow::ensure!(!rows.is_empty(), "{}: has no row; run `sim {id}`", path.display());
    Ok(rows)
}
