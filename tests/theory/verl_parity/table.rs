//! The table of what is met and what is not, as a committed page.

use super::Outcome;
use std::fmt::Write as _;

const HEAD: &str = "\
# verl's recorded numbers, case by case

What verl 0.9.1 computed on six batches (64 bits, CPU) against the methods here. The test `verl_parity` writes this page when the variable `BLESS` is
set and holds it otherwise. The batches: 0 has full masks, 1 ragged ones, 2 masks with holes, 3 groups of 1, 2 and 5 responses, 4 rewards of 0 and
1 with one group all equal, 5 rewards on every token and one row without a token.

*Difference* is the largest one of all cases of a line, as a power of ten: of advantages, of loss and gradient, of value and slope. A line with a reason
is a difference of definition, and a test fails when it does not show. Recorded there and not compared here: 6 cases of the KL `full` and 42 of reductions,
which are errors there, and 30 of the value loss, since no method here trains a critic.
";

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

pub(super) fn page(outcomes: &[Outcome]) -> String {
    let mut text = HEAD.to_owned();
    let all = lines(outcomes);
    for kind in ["advantages", "losses", "KL", "reductions"] {
        let _ = write!(
            text,
            "\n## {kind}\n\n| verl | here | cases | difference | reason |\n| --- | --- | --- | --- | --- |\n"
        );
        for (cases, line) in all.iter().filter(|(_, line)| line.kind == kind) {
            let setting =
                if line.setting.is_empty() { "none".to_owned() } else { format!("`{}`", line.setting) };
            let worst = line.difference.map_or("-".to_owned(), power);
            let reason = line.reason.unwrap_or("-").replace('|', "\\|");
            let _ = writeln!(text, "| `{}` | {setting} | {cases} | {worst} | {reason} |", line.words);
        }
    }
    text
}

/// Holds a committed page to what was just computed, or writes it.
pub(super) fn check(file: &str, text: &str) {
    let path = crate::root().join(file);
    if std::env::var_os("BLESS").is_some() {
        std::fs::write(&path, text).expect("the page can be written");
    }
    let committed = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(committed == text, "{file} is not what this run found; run this test with BLESS=1 to write it");
}
