//! The table of conventions as a page of Markdown.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::{Convention, Framework, Scope, all};

/// The table in `docs/conventions.md`: what each framework means, and the setting here.
pub fn markdown() -> String {
    let mut text = String::from(HEAD);
    let mut frameworks: Vec<Framework> = all().map(|c| c.framework).collect();
    frameworks.dedup();
    for framework in frameworks {
        let rows: Vec<&Convention> = all().filter(|c| c.framework == framework).collect();
        let mut places: Vec<&str> = Vec::new();
        for row in &rows {
            if !places.contains(&row.place) {
                places.push(row.place);
            }
        }
        let _ = write!(text, "\n### {}, {}\n\n", framework.name, framework.version);
        let _ = write!(text, "{}\nRead in:\n\n- {}\n", table(&rows), places.join("\n- "));
    }
    text
}

const HEAD: &str = "\
## What GRPO means, framework by framework

`grpo-sim methods NAME` prints the rows of one method with its equation. `grpo-sim estimate --against` finds the row that produced given numbers.

`B` is the number of responses of a batch, `T_i` the tokens of a response, `x` and `d` a token's log-ratio to the old policy and to the reference,
`ddof` what is subtracted from `n` in a standard deviation. *About* names the part of an objective that the words determine, where it is not the
whole. The settings give the rest its usual values. *Recorded* names the recording of the framework's own numbers that a test compares with.
";

/// The columns of a table, the words of the framework first.
const COLUMNS: [&str; 10] = [
    "words",
    "about",
    "advantage",
    "ddof, epsilon",
    "reduction",
    "clip",
    "KL",
    "here",
    "recorded",
    "departure",
];

/// A value that so many rows of a framework share stands above its table, and the cells say *usual*.
const USUAL: usize = 3;

/// The conventions of one framework, without the columns that say nothing of it.
fn table(rows: &[&Convention]) -> String {
    let mut cells: Vec<[String; COLUMNS.len()]> = rows.iter().map(|row| cells(row)).collect();
    let mut usual = String::new();
    for (column, name) in COLUMNS.iter().enumerate().filter(|(_, name)| !["words", "here"].contains(name)) {
        let mut counts: BTreeMap<String, usize> = BTreeMap::new();
        cells.iter().for_each(|row| *counts.entry(row[column].clone()).or_default() += 1);
        let long = counts.into_iter().filter(|(cell, count)| cell.contains(' ') && *count >= USUAL);
        let Some((value, _)) = long.max_by_key(|(_, count)| *count) else { continue };
        let _ = writeln!(usual, "- {name}: {value}");
        for row in cells.iter_mut().filter(|row| row[column] == value) {
            row[column] = "usual".to_owned();
        }
    }
    let kept = |column: &usize| cells.iter().any(|row| !row[*column].is_empty());
    let columns: Vec<usize> = (0..COLUMNS.len()).filter(kept).collect();
    let line = |row: &[String]| {
        format!("| {} |\n", columns.iter().map(|&at| row[at].as_str()).collect::<Vec<_>>().join(" | "))
    };
    let body: String = cells.iter().map(|row| line(row)).collect();
    let legend = if usual.is_empty() { usual } else { format!("*Usual* stands for:\n\n{usual}\n") };
    legend + &line(&COLUMNS.map(str::to_owned)) + &line(&COLUMNS.map(|_| "---".to_owned())) + &body
}

fn cells(row: &Convention) -> [String; COLUMNS.len()] {
    let number = |x: Option<f64>| x.map_or("-".to_owned(), |x| x.to_string());
    let deviation = match (row.ddof, row.epsilon) {
        (None, None) => String::new(),
        (ddof, epsilon) => format!("{}, {}", number(ddof.map(f64::from)), number(epsilon)),
    };
    let about = if row.scope == Scope::Objective { "" } else { row.scope.name() };
    let here = if row.method.is_empty() { "none".to_owned() } else { format!("`{}`", row.command()) };
    let words = format!("`{}`", row.words);
    let texts = [
        &words,
        about,
        row.advantage,
        &deviation,
        row.reduction,
        row.clip,
        row.kl,
        &here,
        row.recorded,
        row.differs,
    ];
    // What the words leave open is empty; a bar does not end its cell.
    texts.map(|text| if text == "-" { String::new() } else { text.replace('|', "\\|") })
}
