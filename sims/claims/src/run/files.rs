//! The files of a report: data as CSV, figures as SVG and PNG.

use crate::experiment::{Finding, Report};
use anyhow::{Context as _, bail, ensure};
use grpo_lambda_stats::table::Table;
use grpo_lambda_tools::PNG_SCALE;
use serde::{Deserialize, Serialize};

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
pub(super) fn render(id: &str, report: &Report, command: &str) -> anyhow::Result<Vec<(String, Vec<u8>)>> {
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
    for (name, figure) in &report.figures {
        let stem = stem(id, name);
        let context = || format!("figure {stem}");
        files.push((format!("figures/{stem}.svg"), figure.to_svg().with_context(context)?.into_bytes()));
        files.push((format!("figures/{stem}.png"), figure.to_png(PNG_SCALE).with_context(context)?));
    }
    let mut names: Vec<_> = files.iter().map(|(name, _)| name).collect();
    names.sort();
    if let Some(pair) = names.windows(2).find(|pair| pair[0] == pair[1]) {
        bail!("the report has two files {}", pair[0]);
    }
    Ok(files)
}

fn stem(id: &str, name: &str) -> String {
    if name.is_empty() { id.to_owned() } else { format!("{id}_{name}") }
}

/// A row of `<id>_verdicts.csv`.
#[derive(Serialize, Deserialize)]
pub(crate) struct VerdictRow {
    pub(crate) statement: String,
    pub(crate) verdict: String,
    pub(crate) detail: String,
    pub(crate) numbers: String,
}

fn verdicts(findings: &[Finding]) -> Table {
    Table::from_rows(findings.iter().map(|f| VerdictRow {
        statement: f.statement.clone(),
        verdict: f.verdict.word().to_owned(),
        detail: f.verdict.detail().to_owned(),
        numbers: f.numbers.clone(),
    }))
}
