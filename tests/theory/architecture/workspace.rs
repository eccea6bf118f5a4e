//! The crates of the workspace and their files.

use super::imports::File;
use std::fs;
use std::path::{Path, PathBuf};

pub(super) use crate::root;

/// The folders of the workspace's crates as its `Cargo.toml` names them, `folder/*` being every folder in it that holds a package.
pub(super) fn members() -> Vec<String> {
    let manifest = fs::read_to_string(root().join("Cargo.toml")).expect("the workspace has a Cargo.toml");
    named_members(&manifest).into_iter().flat_map(|member| expand(&member)).collect()
}

/// The strings of the list `members` of the table `[workspace]`.
pub(super) fn named_members(manifest: &str) -> Vec<String> {
    let table = manifest.split("[workspace]").nth(1).expect("a table [workspace]");
    let list = table.split("\nmembers").nth(1).expect("a list of members");
    let list = list.split(['[', ']']).nth(1).expect("a list in brackets");
    list.split('"').skip(1).step_by(2).map(str::to_owned).collect()
}

fn expand(member: &str) -> Vec<String> {
    let Some(folder) = member.strip_suffix("/*") else { return vec![member.to_owned()] };
    let inside = entries(&root().join(folder)).into_iter().filter(|path| path.join("Cargo.toml").is_file());
    inside.map(|path| format!("{folder}/{}", name(&path))).collect()
}

/// Every Rust file under the `src` of a crate; the packages of the benchmarks and of these tests have none, that of `sim` has the files of `sims`.
pub(super) fn files(member: &str) -> Vec<File> {
    let (mut files, folder) = (Vec::new(), root().join(member).join("src"));
    if !["benches", "sims/sim", "tests/theory"].contains(&member) {
        collect(&folder, "", &mut files);
    }
    files
}

fn collect(folder: &Path, prefix: &str, files: &mut Vec<File>) {
    for path in entries(folder) {
        let place = format!("{prefix}{}", name(&path));
        if path.is_dir() {
            collect(&path, &format!("{place}/"), files);
        } else if place.ends_with(".rs") {
            let text = fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
            files.push((place, text));
        }
    }
}

/// A folder's entries, sorted.
fn entries(folder: &Path) -> Vec<PathBuf> {
    let listed = fs::read_dir(folder).unwrap_or_else(|e| panic!("{}: {e}", folder.display()));
    let mut entries: Vec<PathBuf> = listed.map(|entry| entry.expect("a readable entry").path()).collect();
    entries.sort();
    entries
}

fn name(path: &Path) -> String {
    path.file_name().expect("entries have names").to_string_lossy().into_owned()
}
