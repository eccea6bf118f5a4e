//! The report: blocks of Markdown generated from the CSVs, kept between markers in `paper/README.md` and `README.md`.
//!
//! A block is everything between `<!-- generated: NAME -->` and `<!-- end -->`; the rest of a file is never touched.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use grpo_lambda::table::{Cell, Table};

use crate::experiment::Experiment;

/// Replaces the content of every known block of `text`.
///
/// # Errors
/// When a block is opened and not closed, or its name is not in `blocks`.
pub fn fill(text: &str, blocks: &[(&str, String)]) -> anyhow::Result<String> {
    let (open, end) = ("<!-- generated: ", "<!-- end -->");
    let mut out = String::new();
    let mut rest = text;
    while let Some(at) = rest.find(open) {
        let after = &rest[at + open.len()..];
        let (name, _) = after.split_once(" -->").context("a `<!-- generated:` marker that is not closed")?;
        let Some((_, content)) = blocks.iter().find(|(known, _)| *known == name) else {
            bail!("no generated block is called `{name}`");
        };
        let Some(stop) = after.find(end) else { bail!("block `{name}` has no `{end}`") };
        out += &rest[..at];
        out += &format!("{open}{name} -->\n{}\n{end}", content.trim_end());
        rest = &after[stop + end.len()..];
    }
    Ok(out + rest)
}

/// The findings of a claim as committed: statement, verdict, detail, numbers.
pub struct Findings(Table);

impl Findings {
    /// Reads `<id>_verdicts.csv` from the data folder.
    ///
    /// # Errors
    /// When the file is missing or has other columns.
    pub fn read(data: &Path, id: &str) -> anyhow::Result<Self> {
        let path = data.join(format!("{id}_verdicts.csv"));
        let text = std::fs::read_to_string(&path)
            .with_context(|| format!("{}: cannot be read; run `sim {id}`", path.display()))?;
        let table = Table::from_csv(&text).with_context(|| path.display().to_string())?;
        anyhow::ensure!(
            table.columns == ["statement", "verdict", "detail", "numbers"] && !table.rows.is_empty(),
            "{}: expected the columns statement, verdict, detail, numbers and at least one row",
            path.display()
        );
        Ok(Findings(table))
    }

    fn text(&self, row: usize, column: usize) -> String {
        match &self.0.rows[row][column] {
            Cell::Text(text) => text.clone(),
            other => other.format(12),
        }
    }

    /// Verdict and detail of a finding in Markdown.
    fn verdict(&self, row: usize) -> String {
        let (word, detail) = (self.text(row, 1), self.text(row, 2));
        if detail.is_empty() { format!("**{word}**") } else { format!("**{word}**: {detail}") }
    }
}

fn cell(text: &str) -> String {
    text.replace('|', "\\|").replace('\n', " ")
}

/// The figures of a claim, file names sorted.
fn figures(folder: &Path, id: &str, ids: &[&str]) -> Vec<String> {
    let Ok(entries) = std::fs::read_dir(folder) else { return Vec::new() };
    let mut names: Vec<String> = entries
        .filter_map(|e| e.ok()?.file_name().into_string().ok())
        .filter(|name| name.strip_suffix(".png").is_some_and(|stem| owner(stem, ids) == Some(id)))
        .collect();
    names.sort();
    names
}

/// The claim a file stem `<id>` or `<id>_<name>` belongs to: the longest id that fits.
pub fn owner<'a>(stem: &str, ids: &[&'a str]) -> Option<&'a str> {
    let fits = |id: &&&str| stem == **id || stem.strip_prefix(**id).is_some_and(|rest| rest.starts_with('_'));
    ids.iter().filter(fits).max_by_key(|id| id.len()).copied()
}

/// The blocks of both README files, from the CSVs and figures under `out`.
///
/// # Errors
/// When a claim's verdicts cannot be read.
pub fn blocks(experiments: &[&Experiment], out: &Path) -> anyhow::Result<Vec<(&'static str, String)>> {
    let ids: Vec<&str> = experiments.iter().map(|e| e.id).collect();
    let mut table = String::from(
        "| claim | in the paper's words | verdict | numbers | command | figure |\n| --- | --- | --- | --- | --- | --- |\n",
    );
    let mut brief = String::from("| claim | what was asked | verdict |\n| --- | --- | --- |\n");
    let mut sections = String::new();
    for e in experiments {
        let found = Findings::read(&out.join("data"), e.id)?;
        let pictures = figures(&out.join("figures"), e.id, &ids);
        let link = pictures.first().map_or(String::new(), |p| format!("[figure](figures/{p})"));
        table += &format!(
            "| `{id}` | {claim} ({source}) | {verdict} | {numbers} | `sim {id}` | {link} |\n",
            id = e.id,
            claim = cell(e.claim),
            source = cell(e.source),
            verdict = cell(&found.verdict(0)),
            numbers = cell(&found.text(0, 3)),
        );
        brief += &format!(
            "| [`{id}`](paper/README.md#{id}) | {} | {} |\n",
            cell(e.title),
            cell(&found.verdict(0)),
            id = e.id
        );
        sections += &format!(
            "### {}\n\n{}\n\n| statement | verdict | numbers |\n| --- | --- | --- |\n",
            e.id, e.title
        );
        for row in 0..found.0.rows.len() {
            sections += &format!(
                "| {} | {} | {} |\n",
                cell(&found.text(row, 0)),
                cell(&found.verdict(row)),
                cell(&found.text(row, 3))
            );
        }
        for picture in &pictures {
            sections += &format!("\n![{}](figures/{picture})\n", picture.trim_end_matches(".png"));
        }
        sections += "\n";
    }
    let mut blocks = vec![("claims", table), ("claims in brief", brief), ("findings", sections)];
    // A table short enough for a page.
    if let Ok(text) = std::fs::read_to_string(out.join("tables").join("atlas_updates_summary.md")) {
        blocks.push(("atlas summary", text));
    }
    Ok(blocks)
}

/// Rewrites the generated blocks of those of `pages` that exist, from the results under `out`.
///
/// # Errors
/// When a verdict file is missing, a marker is broken, or a file cannot be written.
pub fn refresh(experiments: &[&Experiment], out: &Path, pages: &[PathBuf]) -> anyhow::Result<()> {
    for path in pages {
        let Ok(text) = std::fs::read_to_string(path) else { continue };
        if !text.contains("<!-- generated: ") {
            continue;
        }
        let new = fill(&text, &blocks(experiments, out)?).with_context(|| path.display().to_string())?;
        if new != text {
            crate::write::atomically(path, new.as_bytes())?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_replaced_and_the_rest_is_kept() {
        let text = "a\n<!-- generated: x -->\nold\n<!-- end -->\nb\n";
        let new = fill(text, &[("x", "new\n".into())]).unwrap();
        assert_eq!(new, "a\n<!-- generated: x -->\nnew\n<!-- end -->\nb\n");
        assert_eq!(fill(&new, &[("x", "new\n".into())]).unwrap(), new);
    }

    #[test]
    fn broken_markers_are_refused() {
        assert!(fill("<!-- generated: x -->\nold", &[("x", String::new())]).is_err());
        assert!(fill("<!-- generated: y -->\n<!-- end -->", &[("x", String::new())]).is_err());
    }

    #[test]
    fn a_file_belongs_to_the_longest_id_that_fits() {
        let ids = ["clip", "clip_form"];
        assert_eq!(owner("clip_form_map", &ids), Some("clip_form"));
        assert_eq!(owner("clip_x", &ids), Some("clip"));
        assert_eq!(owner("clipped", &ids), None);
    }
}
