//! The table of what agrees and what does not, as a committed file, and its reasons on a page.

use super::Outcome;
use std::fmt::Write as _;

/// The lines of the table: all outcomes that share one, with their number and their largest difference.
fn lines(outcomes: &[Outcome]) -> Vec<(usize, Outcome)> {
    let mut lines: Vec<(usize, Outcome)> = Vec::new();
    for o in outcomes {
        let same = |(_, l): &&mut (usize, Outcome)| {
            (l.kind, &l.words, &l.setting, l.reason) == (o.kind, &o.words, &o.setting, o.reason)
        };
        match lines.iter_mut().find(same) {
            Some((cases, line)) => {
                *cases += 1;
                line.difference = line.difference.zip(o.difference).map(|(a, b)| a.max(b));
            }
            None => lines.push((1, o.clone())),
        }
    }
    lines
}

/// The power of ten above a difference: rounding that differs between machines does not show.
fn power(x: f64) -> String {
    match x {
        0.0..1e-9 => "below 1e-9".to_owned(),
        _ => format!("1e{}", x.log10().ceil()),
    }
}

/// A line for all cases that share names and reason, with the largest difference of them.
pub(super) fn csv(outcomes: &[Outcome]) -> String {
    let mut text = "kind,verl,here,cases,difference,reason\n".to_owned();
    for (cases, line) in lines(outcomes) {
        let worst = line.difference.map_or(String::new(), power);
        let reason = line.reason.unwrap_or_default();
        let _ = writeln!(text, "{},{},{},{cases},{worst},\"{reason}\"", line.kind, line.words, line.setting);
    }
    text
}

/// The number of cases that agree, and a line for each reason why others do not.
pub(super) fn reasons(outcomes: &[Outcome]) -> String {
    let mut reasons: Vec<(&str, usize, Vec<&str>)> = Vec::new();
    for (reason, o) in outcomes.iter().filter_map(|o| Some((o.reason?, o))) {
        match reasons.iter_mut().find(|(known, ..)| *known == reason) {
            Some((_, cases, names)) => {
                *cases += 1;
                names.extend((!names.contains(&o.words.as_str())).then_some(o.words.as_str()));
            }
            None => reasons.push((reason, 1, vec![&o.words])),
        }
    }
    let differing: usize = reasons.iter().map(|(_, cases, _)| cases).sum();
    let mut text =
        format!("{} cases agree. {differing} differ by definition:\n\n", outcomes.len() - differing);
    text += "| what differs | cases | names in verl |\n| --- | --- | --- |\n";
    for (reason, cases, names) in reasons {
        let names: Vec<String> = names.into_iter().map(|name| format!("`{name}`")).collect();
        let _ = writeln!(text, "| {} | {cases} | {} |", reason.replace('|', "\\|"), names.join(", "));
    }
    text
}

/// Checks that a committed file is what was just computed, or writes it.
pub(super) fn check(file: &str, fill: impl FnOnce(&str) -> String) {
    let path = crate::root().join(file);
    let committed = std::fs::read_to_string(&path).unwrap_or_default();
    let text = fill(&committed);
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(&path, text).expect("the page can be written");
    } else {
        assert!(
            committed == text,
            "{file} is not what this run found; run this test with UPDATE_DOCS=1 to write it"
        );
    }
}
