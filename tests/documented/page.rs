//! Generated parts of the pages in `docs/`.
#![allow(dead_code, unreachable_pub, clippy::unwrap_used)] // not every test that includes this file uses everything

use std::path::Path;
use std::sync::{Mutex, PoisonError};

/// Two tests of one program may write parts of one page at a time.
static WRITING: Mutex<()> = Mutex::new(());

/// Checks that the part `name` of `docs/PAGE` is `text`, or writes it if `UPDATE_DOCS` is set.
pub fn hold(page: &str, name: &str, text: &str) {
    let _alone = WRITING.lock().unwrap_or_else(PoisonError::into_inner);
    let folders = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors();
    let path = folders.map(|folder| folder.join("docs").join(page)).find(|path| path.is_file()).unwrap();
    let found = std::fs::read_to_string(&path).unwrap();
    let expected = filled(&found, name, text);
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(&path, &expected).unwrap();
    } else {
        assert!(
            found == expected,
            "docs/{page}, {name}: out of date; run the tests once with UPDATE_DOCS=1 and review the changes"
        );
    }
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
