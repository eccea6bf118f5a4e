//! Compares the public items of the published libraries with their lists in `docs/api`; `UPDATE_DOCS=1` writes the lists.

use anyhow::{Context, Result, ensure};
use std::path::Path;
use std::process::{Command, ExitCode};

const LIBRARIES: [&str; 6] = [
    "grpo-lambda",
    "grpo-lambda-conventions",
    "grpo-lambda-decoder",
    "grpo-lambda-grade",
    "grpo-lambda-mdp",
    "grpo-lambda-stats",
];

/// The version of rustdoc's JSON that the pinned crate `public-api` reads.
const FORMAT: u64 = 57;

fn main() -> Result<ExitCode> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut differs = false;
    for name in LIBRARIES {
        let Some(items) = items(&root, name)? else {
            println!(
                "{name}: this rustdoc does not write version {FORMAT} of its JSON (Rust 1.95 does): not compared"
            );
            continue;
        };
        let list = root.join(format!("docs/api/{name}.txt"));
        if std::env::var_os("UPDATE_DOCS").is_some() {
            std::fs::write(&list, &items)?;
            continue;
        }
        let recorded = std::fs::read_to_string(&list).unwrap_or_default();
        let lines = |mark, text: &str, other: &str| {
            let absent = |line: &&str| !other.lines().any(|l| l == *line);
            text.lines().filter(absent).map(|line| format!("{mark} {line}")).collect::<Vec<_>>()
        };
        let changes = [lines('-', &recorded, &items), lines('+', &items, &recorded)].concat();
        differs |= recorded != items;
        println!("{name}: {} public items, {} changes", items.lines().count(), changes.len());
        changes.iter().for_each(|line| println!("  {line}"));
    }
    if differs {
        println!(
            "docs/api: not the public items of the libraries; review the changes, then run with UPDATE_DOCS=1"
        );
    }
    Ok(ExitCode::from(u8::from(differs)))
}

/// The public items of a library, one a line; `None` if the installed rustdoc writes another version of its JSON.
fn items(root: &Path, name: &str) -> Result<Option<String>> {
    let arguments =
        ["rustdoc", "--quiet", "-p", name, "--lib", "--", "-Zunstable-options", "--output-format=json"];
    // The script lets rustdoc alone have unstable options: a variable of all of cargo would compile every dependency anew.
    let rustdoc = root.join("tests/api/rustdoc.sh");
    let status =
        Command::new(env!("CARGO")).args(arguments).env("RUSTDOC", rustdoc).current_dir(root).status();
    ensure!(status.context("cargo rustdoc")?.success(), "cargo rustdoc -p {name}: failed");
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or(root.join("target"), Into::into);
    let json = target.join(format!("doc/{}.json", name.replace('-', "_")));
    let text = std::fs::read_to_string(&json).with_context(|| json.display().to_string())?;
    let document: serde_json::Value = serde_json::from_str(&text)?;
    if document["format_version"] != FORMAT {
        return Ok(None);
    }
    let listed = public_api::Builder::from_rustdoc_json(&json);
    let listed = listed.omit_blanket_impls(true).omit_auto_trait_impls(true).omit_auto_derived_impls(true);
    Ok(Some(listed.build()?.to_string()))
}
