//! The report: blocks of Markdown generated from the CSVs, kept between markers in `paper/README.md`, `paper/atlas.md`,
//! `README.md`,
//! `docs/conventions.md` and `llm/results/README.md`.
//!
//! A block is everything between `<!-- generated: NAME -->` and `<!-- end -->`; the rest of a file is never touched.

mod answer;
mod catalogue;
mod chain;
mod data;
mod entry;
mod front;
pub mod markdown;

use crate::atlas;
use crate::experiment::Experiment;
use crate::sentences::{NOT_TESTED, NotTested};
use anyhow::{Context as _, bail};
use entry::Entry;
use std::path::{Path, PathBuf};

/// The contents of the generated blocks of pages, by name.
pub struct Blocks {
    named: Vec<(&'static str, String)>,
    data: PathBuf,
}

impl Blocks {
    /// A block by name; `rows FILE COLUMN ..` is a table of the data folder.
    fn content(&self, name: &str) -> anyhow::Result<String> {
        match (name.strip_prefix("rows "), self.named.iter().find(|(known, _)| *known == name)) {
            (Some(words), _) => entry::rows(&self.data, words),
            (None, Some((_, content))) => Ok(content.clone()),
            (None, None) => bail!("no generated block is called `{name}`"),
        }
    }

    /// Replaces the content of every block of `text`.
    ///
    /// # Errors
    /// When a block is opened and not closed, or its name is not known.
    pub fn fill(&self, text: &str) -> anyhow::Result<String> {
        let (open, end) = ("<!-- generated: ", "<!-- end -->");
        let mut out = String::new();
        let mut rest = text;
        while let Some(at) = rest.find(open) {
            let after = &rest[at + open.len()..];
            let (name, _) =
                after.split_once(" -->").context("a `<!-- generated:` marker that is not closed")?;
            let content = self.content(name)?;
            let Some(stop) = after.find(end) else { bail!("block `{name}` has no `{end}`") };
            out += &rest[..at];
            out += &format!("{open}{name} -->\n{}\n{end}", content.trim_end());
            rest = &after[stop + end.len()..];
        }
        Ok(out + rest)
    }
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

/// The blocks of all pages, from the CSVs and figures under `out`.
///
/// # Errors
/// When a claim's verdicts cannot be read.
pub fn blocks(experiments: &[&Experiment], out: &Path) -> anyhow::Result<Blocks> {
    let ids: Vec<&str> = experiments.iter().map(|e| e.id).collect();
    let data = out.join("data");
    let mut entries = Vec::new();
    for experiment in experiments {
        entries.push(Entry::read(experiment, out, figures(&out.join("figures"), experiment.id, &ids))?);
    }
    let sentences = "| the paper's words | verdict | experiment |\n| --- | --- | --- |\n".to_owned();
    let claims =
        "| experiment | question | verdict on its first statement |\n| --- | --- | --- |\n".to_owned();
    let mut named = vec![
        ("sentences", sentences + &all(&entries, Entry::sentence_rows) + &not_tested()),
        ("claims", claims + &all(&entries, Entry::row)),
        ("findings", all(&entries, Entry::section)),
        ("methods", catalogue::methods()),
        ("left out", catalogue::left_out_of_the_atlas()),
    ];
    if answer::EXPERIMENTS.iter().all(|id| ids.contains(id)) {
        named.push(("front answer", front::front(&data)?));
        named.push(("answer", answer::answer(&data)?));
    }
    if let Ok(text) = std::fs::read_to_string(data.join("atlas_updates_summary.csv")) {
        named.push((
            "atlas summary",
            atlas::updates::on_page(&text).context("data/atlas_updates_summary.csv")?,
        ));
    }
    Ok(Blocks { named, data })
}

/// The rows of the paper's sentences that nothing tests.
fn not_tested() -> String {
    let row = |s: &NotTested| {
        let words = markdown::cell(&format!("\"{}\" ({})", s.words, s.place));
        format!("| {words} | **NOT TESTED HERE**: {} | |\n", markdown::cell(s.why))
    };
    NOT_TESTED.iter().map(row).collect()
}

fn all<'a>(entries: &[Entry<'a>], part: impl Fn(&Entry<'a>) -> String) -> String {
    entries.iter().map(part).collect()
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
        let new = blocks(experiments, out)?.fill(&text).with_context(|| path.display().to_string())?;
        if new != text {
            grpo_lambda_tools::write::atomically(path, new.as_bytes())?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fill(text: &str, content: &str) -> anyhow::Result<String> {
        Blocks { named: vec![("x", content.into())], data: PathBuf::new() }.fill(text)
    }

    #[test]
    fn blocks_are_replaced_and_the_rest_is_kept() {
        let text = "a\n<!-- generated: x -->\nold\n<!-- end -->\nb\n";
        let new = fill(text, "new\n").unwrap();
        assert_eq!(new, "a\n<!-- generated: x -->\nnew\n<!-- end -->\nb\n");
        assert_eq!(fill(&new, "new\n").unwrap(), new);
    }

    #[test]
    fn broken_markers_are_refused() {
        assert!(fill("<!-- generated: x -->\nold", "").is_err());
        assert!(fill("<!-- generated: y -->\n<!-- end -->", "").is_err());
    }

    #[test]
    fn a_file_belongs_to_the_longest_id_that_fits() {
        let ids = ["clip", "clip_form"];
        assert_eq!(owner("clip_form_map", &ids), Some("clip_form"));
        assert_eq!(owner("clip_x", &ids), Some("clip"));
        assert_eq!(owner("clipped", &ids), None);
    }
}
