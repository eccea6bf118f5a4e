//! Words of doc comments, names of functions, and lines of pages.

use super::workspace;
use std::fs;
use std::process::Command;

/// First words of a doc comment that hide its noun or verb.
const OPENINGS: [&str; 11] =
    ["What", "How", "Where", "Those", "As", "Of", "Whose", "Who", "Which", "If", "Whether"];
/// Names that do not say what a function returns.
const NAMES: [&str; 4] = ["fn of(", "fn of<", "fn again(", "let of ="];

/// The number and the text of each line with a forbidden opening or name.
fn unclear(rust: &str) -> Vec<(usize, &str)> {
    let mut found = Vec::new();
    let mut before = "";
    for (number, line) in (1..).zip(rust.lines().map(str::trim)) {
        let doc = ["///", "//!"].into_iter().find(|sign| line.starts_with(sign));
        let opening = doc.filter(|sign| !before.starts_with(sign)).map(|sign| line[sign.len()..].trim());
        let is_unclear = match opening {
            Some(text) => {
                let first = text.split(|c: char| !c.is_alphanumeric()).next();
                text.starts_with("The same") || first.is_some_and(|word| OPENINGS.contains(&word))
            }
            None => !line.starts_with("//") && NAMES.iter().any(|name| line.contains(name)),
        };
        if is_unclear {
            found.push((number, line));
        }
        before = line;
    }
    found
}

/// The lines of a page, empty where they are no prose that a person wrote.
pub(super) fn prose(page: &str) -> Vec<&str> {
    let (mut fenced, mut generated) = (false, false);
    let mut prose = Vec::new();
    for line in page.lines().map(str::trim) {
        let fence = line.starts_with("```");
        generated |= line.starts_with("<!-- generated") || line.starts_with("<!-- written by");
        let skipped = fenced || fence || generated || line.starts_with(['|', '#', '<', '>', '!']);
        prose.push(if skipped { "" } else { line });
        fenced ^= fence;
        generated &= !line.starts_with("<!-- end");
    }
    prose
}

/// The number and the text of each line of a page that holds one word of a paragraph that goes on.
fn broken(page: &str) -> Vec<(usize, &str)> {
    let prose = prose(page);
    let is_item = |line: &str| {
        let marker = line.split_whitespace().next().unwrap_or_default();
        let number = marker.strip_suffix('.').unwrap_or_default();
        ["-", "*", "+"].contains(&marker)
            || (!number.is_empty() && number.bytes().all(|b| b.is_ascii_digit()))
    };
    let one_word = |line: &str| line.split_whitespace().count() == 1;
    let goes_on = |line: &str| !line.is_empty() && !is_item(line);
    let pairs = prose.windows(2).enumerate();
    pairs.filter(|(_, w)| one_word(w[0]) && goes_on(w[1])).map(|(i, w)| (i + 1, w[0])).collect()
}

fn listed(place: &str, lines: Vec<(usize, &str)>) -> Vec<String> {
    lines.into_iter().map(|(number, line)| format!("{place}:{number}: {line}")).collect()
}

#[test]
fn doc_comments_open_with_a_noun_or_a_verb() {
    let mut found = Vec::new();
    for member in workspace::members().into_iter().chain(["bindings/python".to_owned()]) {
        for (place, text) in workspace::files(&member) {
            found.extend(listed(&format!("{member}/src/{place}"), unclear(&text)));
        }
    }
    assert!(found.is_empty(), "{} unclear words:\n{}", found.len(), found.join("\n"));
}

/// Pages that a program writes as a whole, or that it fills with results.
const WRITTEN: [&str; 4] =
    ["paper/README.md", "paper/atlas.md", "paper/grader_disputes.md", "src/methods/README.md"];

/// The pages that git knows, with their text; none where there is no git.
fn all_pages() -> Vec<(String, String)> {
    let git = Command::new("git").args(["ls-files", "*.md"]).current_dir(workspace::root()).output();
    let Some(git) = git.ok().filter(|git| git.status.success()) else { return Vec::new() };
    let text = |page: &str| Some((page.to_owned(), fs::read_to_string(workspace::root().join(page)).ok()?));
    String::from_utf8_lossy(&git.stdout).lines().filter_map(text).collect()
}

/// The pages that people write.
pub(super) fn pages() -> Vec<(String, String)> {
    all_pages().into_iter().filter(|(page, _)| !WRITTEN.contains(&page.as_str())).collect()
}

#[test]
fn no_line_of_a_page_is_left_with_one_word() {
    let found: Vec<_> = all_pages().iter().flat_map(|(page, text)| listed(page, broken(text))).collect();
    assert!(found.is_empty(), "{} broken lines:\n{}", found.len(), found.join("\n"));
}

#[test]
fn an_opening_a_name_and_a_broken_line_are_found() {
    let rust = "/// What it is.\n/// More.\n/// Size of it.\n    //! Whether\n// What\nlet of = 1;\nfn of(x: u8) {}\n";
    assert_eq!(unclear(rust).iter().map(|(n, _)| *n).collect::<Vec<_>>(), [1, 4, 6, 7]);
    let page = "one two\nthree\nfour five\n\nsix\n\n- seven\n- eight\n```\na\nb\n```\n<!-- generated: x -->\nc\nd e\n<!-- end -->\n";
    assert_eq!(broken(page), [(2, "three")]);
}
