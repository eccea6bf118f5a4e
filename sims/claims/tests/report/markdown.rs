//! Markdown that is as readable raw as rendered: short lines, short cells, links that lead somewhere, figures that a
//! page shows.

#![allow(clippy::unwrap_used)] // the lint spares test functions but not their helpers

use crate::{root, text};
use grpo_lambda_claims::report::markdown::{CELL, LINE};
use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

/// The files that git knows and that end in `ending`; none, with a word about it, where there is no git.
fn tracked(ending: &str) -> Vec<String> {
    let listing = Command::new("git").args(["ls-files", "-z"]).current_dir(root()).output();
    let names = match listing {
        Ok(out) if out.status.success() => String::from_utf8(out.stdout).unwrap(),
        _ => {
            println!("skipped: git does not list the files of {}", root().display());
            return Vec::new();
        }
    };
    let names = names.split('\0').filter(|name| name.ends_with(ending)).map(str::to_owned);
    names.filter(|name| root().join(name).symlink_metadata().is_ok_and(|m| m.is_file())).collect()
}

/// The lines of a page that are not inside a code fence, with their numbers.
fn prose(text: &str) -> Vec<(usize, &str)> {
    let mut fenced = false;
    let mut lines = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        let fence = line.trim_start().starts_with("```");
        if !fence && !fenced {
            lines.push((number, line));
        }
        fenced ^= fence;
    }
    lines
}

/// The cells of a table row; `\|` is a character of a cell.
fn cells(row: &str) -> Vec<String> {
    let row = row.replace("\\|", "\u{0}");
    row.split('|').map(|cell| cell.trim().replace('\u{0}', "\\|")).collect()
}

/// Lines and cells of a page that are too long.
fn too_long(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    for (number, line) in prose(text) {
        if line.trim_start().starts_with('|') {
            let longest = cells(line).iter().map(|cell| cell.chars().count()).max().unwrap_or(0);
            if longest > CELL {
                found.push(format!("{number}: a cell of {longest} characters"));
            }
        } else if line.chars().count() > LINE {
            found.push(format!("{number}: {} characters", line.chars().count()));
        }
    }
    found
}

/// The addresses of links and pictures outside code.
fn links(text: &str) -> Vec<String> {
    let prose: Vec<&str> = prose(text).into_iter().map(|(_, line)| line).collect();
    let mut links = Vec::new();
    let joined = prose.join("\n");
    // Code is every other piece between backticks; a link around code keeps its brackets.
    let without_code: String = joined.split('`').step_by(2).collect::<Vec<_>>().join("``");
    for rest in without_code.split("](").skip(1) {
        links.extend(rest.split_once(')').map(|(link, _)| link.to_owned()));
    }
    links
}

/// The anchors of a page's headings, as GitHub makes them.
fn anchors(text: &str) -> BTreeSet<String> {
    let headings = prose(text).into_iter().filter_map(|(_, line)| line.strip_prefix('#'));
    let kept = |c: &char| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_');
    let anchor = |heading: &str| -> String {
        let heading = heading.trim_start_matches('#').trim().to_lowercase();
        heading.chars().filter(kept).map(|c| if c == ' ' { '-' } else { c }).collect()
    };
    headings.map(anchor).collect()
}

/// Why a link of the page `from` leads nowhere.
fn broken(from: &str, link: &str) -> Option<String> {
    if link.starts_with("https://") || link.starts_with("http://") {
        return None;
    }
    let (file, anchor) = link.split_once('#').unwrap_or((link, ""));
    let here = root().join(from);
    let target = if file.is_empty() { here.clone() } else { here.parent().unwrap().join(file) };
    if !target.exists() {
        return Some(format!("{from}: {link} leads nowhere"));
    }
    let page = || std::fs::read_to_string(&target).unwrap();
    // What follows the name of the explorer is a view of it; the tests of the page open these.
    let heading = !anchor.is_empty() && !file.ends_with(".html");
    (heading && !anchors(&page()).contains(anchor)).then(|| format!("{from}: {link} has no such heading"))
}

#[test]
fn lines_and_table_cells_of_every_page_are_short() {
    let mut wrong = Vec::new();
    for page in tracked(".md") {
        let text = text(&page);
        wrong.extend(too_long(&text).into_iter().map(|what| format!("{page}:{what}")));
    }
    assert!(wrong.is_empty(), "at most {LINE} a line, {CELL} a cell:\n{}", wrong.join("\n"));
}

#[test]
fn every_relative_link_leads_to_a_file_and_its_heading() {
    let mut wrong = Vec::new();
    for page in tracked(".md") {
        let text = text(&page);
        wrong.extend(links(&text).iter().filter_map(|link| broken(&page, link)));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// A picture that no page shows is weight: `sim` writes it again whenever it is wanted.
#[test]
fn every_committed_picture_is_shown_on_a_page() {
    let mut shown = BTreeSet::new();
    for page in tracked(".md") {
        let text = text(&page);
        let folder = Path::new(&page).parent().unwrap().to_owned();
        shown.extend(
            links(&text).iter().filter_map(|link| root().join(&folder).join(link).canonicalize().ok()),
        );
    }
    for picture in [tracked(".png"), tracked(".svg")].concat() {
        assert!(shown.contains(&root().join(&picture).canonicalize().unwrap()), "no page shows {picture}");
    }
}

/// The results that a line of prose quotes: shares, intervals, counts of cases, decimals of at least two digits.
fn results(line: &str) -> Vec<String> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let number = |word: &str| {
        let word = word.trim_matches(|c: char| !c.is_ascii_digit());
        (!word.is_empty() && word.chars().all(|c| c.is_ascii_digit() || c == '.')).then(|| word.to_owned())
    };
    let mut found = Vec::new();
    for (i, word) in words.iter().enumerate() {
        let Some(n) = number(word) else { continue };
        let next = words.get(i + 1).copied().unwrap_or("");
        let counts = next == "of" && words.get(i + 2).is_some_and(|w| number(w).is_some());
        let long = n.split_once('.').is_some_and(|(_, digits)| digits.len() >= 2);
        if next.starts_with('%') || counts || long {
            found.push(n);
        }
    }
    found
}

/// Decimals of the atlas's prose that are settings, not results.
const SETTINGS: [&str; 6] = ["0.0003", "0.95", "0.99", "0.76", "0.25", "95"];

#[test]
fn prose_of_the_atlas_quotes_no_result_that_a_new_run_would_not_change() {
    let page = text("paper/atlas.md");
    let written = page.split("## Findings").next().unwrap();
    let mut generated = false;
    for (number, line) in prose(written) {
        generated |= line.starts_with("<!-- generated");
        let found = if generated { Vec::new() } else { results(line) };
        generated &= !line.starts_with("<!-- end");
        let found: Vec<_> = found.into_iter().filter(|n| !SETTINGS.contains(&n.as_str())).collect();
        assert!(found.is_empty(), "paper/atlas.md:{number} quotes {found:?}: link to the finding instead");
    }
    assert_eq!(results("in 36 of 38 cases, 11.6 % and -0.48, with 8 of them"), ["36", "11.6", "0.48"]);
}

#[test]
fn what_is_long_or_broken_is_found() {
    let long = "x".repeat(LINE + 1);
    assert_eq!(too_long(&format!("short\n{long}\n```\n{long}\n```\n")), ["2: 161 characters"]);
    let cell = "x".repeat(CELL - 1);
    assert!(too_long(&format!("| {cell}x | {cell} |")).is_empty());
    assert_eq!(too_long(&format!("| {cell}\\| | y |")), ["1: a cell of 301 characters"]);

    let text = "[a](b.md) ![`c`](d/e.png) `[no](link)` [two\nlines](#f)\n```\n[no](link)\n```";
    assert_eq!(links(text), ["b.md", "d/e.png", "#f"]);
    assert_eq!(broken("README.md", "no-such-file.md").unwrap(), "README.md: no-such-file.md leads nowhere");
    assert!(broken("README.md", "paper/README.md#no-such-heading").is_some());
    assert_eq!(broken("paper/README.md", "#our-questions"), None);
    assert_eq!(anchors("# A: b_c, 2d\n## `E`"), ["a-b_c-2d", "e"].map(String::from).into());
}
