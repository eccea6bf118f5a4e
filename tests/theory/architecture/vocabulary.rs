//! Words of Rust files, in names, comments and messages alike: none that was struck from the pages.

use super::prose::STRUCK;
use super::workspace;
use std::fs;
use std::process::Command;

/// Places where a struck word has its ordinary sense, or is a name in files that users have: the beginning of a path, and the word.
const ORDINARY: [(&str, &str); 13] = [
    // These rules.
    ("tests/theory/architecture/", ""),
    // Words of the texts that are graded, and of word problems.
    ("llm/crates/grade/tests/", ""),
    ("llm/crates/grade/src/units.rs", "coins"),
    ("llm/crates/trainer/src/input/task/stories.rs", "coins"),
    ("llm/crates/trainer/tests/trainer/input/task.rs", "coins"),
    // The evidence of a diagnosis.
    ("llm/studies/src/doctor/", "evidence"),
    ("llm/cli/src/commands/doctor.rs", "evidence"),
    ("llm/studies/src/report/", "evidence"),
    ("llm/studies/src/figures.rs", "evidence"),
    ("llm/tests/llm/compare.rs", "evidence"),
    // Columns of metrics.csv.
    ("llm/crates/trainer/src/train/metrics.rs", "evidence"),
    ("llm/tests/llm/train.rs", "evidence"),
    // Words of the grids that users have.
    ("llm/studies/src/reproduce/run.rs", "stand-in"),
];

/// The words of a text: names are split at underscores and at capitals.
fn words(text: &str) -> impl Iterator<Item = String> {
    let mut spaced = String::with_capacity(text.len());
    let mut before = ' ';
    for c in text.chars() {
        if c.is_uppercase() && before.is_lowercase() {
            spaced.push(' ');
        }
        spaced.push(if c.is_alphabetic() || c == '-' { c } else { ' ' });
        before = c;
    }
    spaced.to_lowercase().split_whitespace().map(str::to_owned).collect::<Vec<_>>().into_iter()
}

/// The number of each line with a struck word, and the word.
fn struck(text: &str) -> Vec<(usize, &'static str)> {
    let is = |word: &str, struck: &str| {
        word == struck || word != "besides" && word.strip_suffix('s') == Some(struck)
    };
    let found = |line: &str| {
        let all: Vec<String> = words(line).collect();
        STRUCK.iter().map(|(struck, _)| *struck).find(|struck| all.iter().any(|word| is(word, struck)))
    };
    (1..).zip(text.lines()).filter_map(|(number, line)| Some((number, found(line)?))).collect()
}

#[test]
fn names_comments_and_messages_hold_no_struck_word() {
    let git = Command::new("git").args(["ls-files", "*.rs"]).current_dir(workspace::root()).output();
    let Some(git) = git.ok().filter(|git| git.status.success()) else { return };
    let mut found = Vec::new();
    for path in String::from_utf8_lossy(&git.stdout).lines() {
        let Ok(text) = fs::read_to_string(workspace::root().join(path)) else { continue };
        let is_ordinary = |word: &str| {
            ORDINARY.iter().any(|(place, ordinary)| path.starts_with(place) && ["", word].contains(ordinary))
        };
        let lines = struck(&text).into_iter().filter(|(_, word)| !is_ordinary(word));
        found.extend(lines.map(|(number, word)| format!("{path}:{number}: `{word}`")));
    }
    assert!(found.is_empty(), "{} struck words:\n{}", found.len(), found.join("\n"));
}

#[test]
fn a_struck_word_is_found_in_names_and_in_text() {
    let text = "let not_told = 1;\n// is sold\nstruct TwinOf;\nlet x = \"begin anew\";\n/// A stand-in, besides.\nlet coin = 2;";
    assert_eq!(struck(text), [(1, "told"), (3, "twin"), (4, "anew"), (5, "stand-in")]);
}
