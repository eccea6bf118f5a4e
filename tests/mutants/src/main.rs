//! `grpo-lambda-mutants LIST TREE ROOTS STATUS [SKIP]`: rewrites the sources under `TREE` in place, so that every mutant of `LIST` (the output of
//! `cargo mutants --list --json`) is compiled in behind a switch: the environment variable `MUTANT` holds the number of the one that is on.
//!
//! One build then serves all mutants, where cargo-mutants builds once for each. `ROOTS` are the root files of the crates, separated by commas, each
//! of which gets the module of the switches; `STATUS` is a table of each mutant's fate; `SKIP` lists the numbers of those that do not compile, which
//! are left out.
//! `tests/mutants/run.py` does all of it.

mod edits;
mod lazy;
mod mutant;
mod rewrite;
mod source;
mod switch;

use std::collections::{BTreeMap, HashSet};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use lazy::Constants;
use mutant::{Mutant, Numbered, Status};
use source::Source;

fn main() -> Result<()> {
    let arguments: Vec<PathBuf> = std::env::args_os().skip(1).map(PathBuf::from).collect();
    let [list, tree, roots, status, skip @ ..] = arguments.as_slice() else {
        bail!("usage: grpo-lambda-mutants LIST.json TREE ROOT.rs,.. STATUS.csv [SKIP.txt]");
    };
    let mutants: Vec<Mutant> = serde_json::from_str(&read(list)?).context("the list of cargo-mutants")?;
    let skipped: HashSet<usize> = match skip {
        [file, ..] => read(file)?.lines().filter_map(|line| line.parse().ok()).collect(),
        [] => HashSet::new(),
    };
    let found = rewrite_all(&mutants, tree, &skipped)?;
    for root in roots.to_string_lossy().split(',').map(|root| tree.join(root)) {
        write(&root, &(read(&root)? + &switch::module(mutants.len())))?;
    }
    write(status, &table(&mutants, &found))
}

/// Rewrites every file that has mutants, and every file that reads a constant which is a function now.
fn rewrite_all(mutants: &[Mutant], tree: &Path, skipped: &HashSet<usize>) -> Result<BTreeMap<usize, Status>> {
    let mut by_file: BTreeMap<&Path, Vec<Numbered>> = BTreeMap::new();
    let mut status = BTreeMap::new();
    for (number, mutant) in mutants.iter().enumerate() {
        let of_file = by_file.entry(&mutant.file).or_default();
        if skipped.contains(&number) {
            status.insert(number, Status::DoesNotCompile);
        } else {
            of_file.push(Numbered { number, mutant });
        }
    }
    let mut sources = Vec::new();
    for (file, own) in by_file {
        sources.push((Source::parse(file, read(&tree.join(file))?)?, own));
    }
    let constants = Constants::find(&sources);
    for (source, own) in &sources {
        let (text, found) = rewrite::rewrite(source, own, &constants);
        status.extend(found);
        write(&tree.join(source.file), &text)?;
    }
    Ok(status)
}

fn table(mutants: &[Mutant], found: &BTreeMap<usize, Status>) -> String {
    let mut out = String::from("number,status,mutant\n");
    for (number, mutant) in mutants.iter().enumerate() {
        let status = found.get(&number).copied().unwrap_or(Status::NotFound);
        out += &format!("{number},{},\"{}\"\n", status.words(), mutant.name.replace('"', "\"\""));
    }
    out
}

fn read(file: &Path) -> Result<String> {
    std::fs::read_to_string(file).with_context(|| file.display().to_string())
}

fn write(file: &Path, text: &str) -> Result<()> {
    std::fs::write(file, text).with_context(|| file.display().to_string())
}
