//! Generated parts of the pages in `docs/`.
#![allow(dead_code, unreachable_pub, clippy::unwrap_used)] // not every test that includes this file uses everything

use std::path::Path;
use std::sync::{Mutex, PoisonError};

/// Two tests of one program may write parts of one page at a time.
static WRITING: Mutex<()> = Mutex::new(());

/// Checks that the part `name` of `docs/PAGE` is `text`, or writes it if `UPDATE_DOCS` is set.
pub fn hold(page: &str, name: &str, text: &str) {
    hold_page(page, name, |found| filled(found, name, text));
}

/// Checks that `docs/PAGE` is what `fill` makes of it, or writes that if `UPDATE_DOCS` is set.
fn hold_page(page: &str, part: &str, fill: impl FnOnce(&str) -> String) {
    let _alone = WRITING.lock().unwrap_or_else(PoisonError::into_inner);
    let folders = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors();
    let path = folders.map(|folder| folder.join("docs").join(page)).find(|path| path.is_file()).unwrap();
    let found = std::fs::read_to_string(&path).unwrap();
    let expected = fill(&found);
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(&path, &expected).unwrap();
    } else {
        assert!(
            found == expected,
            "docs/{page}, {part}: out of date; run the tests once with UPDATE_DOCS=1 and review the changes"
        );
    }
}

/// Checks the `console` fences of README.md that call `program`, or writes them if `UPDATE_DOCS` is set. After `$ COMMAND` such a fence has the
/// output of the command, which `run` returns; a last line `..` says that only as many lines of it are shown.
pub fn hold_outputs(program: &str, run: impl Fn(&str) -> String) {
    let call = format!("$ {program}");
    let fill = |page: &str| {
        let mut shown = 0;
        let fence = |(i, part): (usize, &str)| {
            let Some((command, lines)) =
                part.strip_prefix("console\n").and_then(|text| text.split_once('\n'))
            else {
                return part.to_owned();
            };
            if i % 2 == 0 || command.split(' ').take(2).ne(call.split(' ')) {
                return part.to_owned();
            }
            shown += 1;
            let output = run(&command["$ ".len()..]);
            let lines: Vec<&str> = match lines.lines().collect::<Vec<_>>().split_last() {
                Some((&"..", first)) => output.lines().take(first.len()).chain([".."]).collect(),
                _ => output.trim_end().lines().collect(),
            };
            format!(
                "console\n{command}\n{}\n",
                lines.iter().map(|l| l.trim_end()).collect::<Vec<_>>().join("\n")
            )
        };
        let page = page.split("```").enumerate().map(fence).collect::<Vec<_>>().join("```");
        assert!(shown > 0, "README.md shows no output of {program}");
        page
    };
    hold_page("../README.md", &format!("outputs of {program}"), fill);
}

/// The page with `text` between the markers of the part `name`.
fn filled(page: &str, name: &str, text: &str) -> String {
    let open = format!("<!-- generated: {name} -->\n");
    let (before, rest) = page.split_once(&open).unwrap_or_else(|| panic!("no `{}` in the page", open.trim()));
    let (_, after) = rest.split_once("<!-- end -->").unwrap();
    format!("{before}{open}{text}<!-- end -->{after}")
}

/// A table of bounds: what is bounded, by how much, and what lies beyond.
pub fn bounds(rows: &[[String; 3]]) -> String {
    let row = |cells: &[String; 3]| format!("| {} |\n", cells.join(" | "));
    let rows: String = rows.iter().map(row).collect();
    format!("| what | bound | beyond it |\n| --- | --- | --- |\n{rows}")
}
