//! The table of conventions as a page of Markdown.

use std::fmt::Write as _;

use super::{Convention, Framework, Scope, all};

/// The table in `docs/conventions.md`: what each framework means, and the setting here.
pub fn markdown() -> String {
    let mut text = String::from(HEAD);
    let mut frameworks: Vec<Framework> = all().map(|c| c.framework).collect();
    frameworks.dedup();
    for framework in frameworks {
        let rows: Vec<&Convention> = all().filter(|c| c.framework == framework).collect();
        let _ = write!(text, "\n### {}, {}\n\n{COLUMNS}", framework.name, framework.version);
        for row in &rows {
            let _ = writeln!(text, "{}", cells(row));
        }
        let differing: Vec<_> = rows.iter().filter(|row| row.differs != "-").collect();
        if !differing.is_empty() {
            text += "\n| words | where it departs |\n| --- | --- |\n";
        }
        for row in differing {
            let _ = writeln!(text, "| `{}` | {} |", row.words, escaped(row.differs));
        }
        let mut places: Vec<&str> = rows.iter().map(|row| row.place).collect();
        places.dedup();
        let _ = write!(text, "\nRead in:\n\n");
        for place in places {
            let _ = writeln!(text, "- {place}");
        }
    }
    text
}

const HEAD: &str = "\
## What GRPO means, framework by framework

`grpo-sim methods NAME` prints the rows of one method with its equation. `grpo-sim estimate --against` finds the row that produced given numbers.

`B` is the number of responses of a batch, `T_i` the tokens of a response, `x` and `d` a token's log-ratio to the old policy and to the reference,
`ddof` what is subtracted from `n` in a standard deviation. *About* says how much of an objective the words determine; the settings give the rest
its usual values. *Recorded* names the recording of the framework's own numbers that a test compares with.
";

const COLUMNS: &str = "\
| words | about | advantage | ddof, epsilon | reduction | clip | KL | here | recorded |
| --- | --- | --- | --- | --- | --- | --- | --- | --- |
";

fn cells(row: &Convention) -> String {
    let number = |x: Option<f64>| x.map_or("-".to_owned(), |x| x.to_string());
    let deviation = match (row.ddof, row.epsilon) {
        (None, None) => "-".to_owned(),
        (ddof, epsilon) => format!("{}, {}", number(ddof.map(f64::from)), number(epsilon)),
    };
    let about = if row.scope == Scope::Objective { "-" } else { row.scope.name() };
    let here = if row.method.is_empty() { "none".to_owned() } else { format!("`{}`", row.command()) };
    let words = format!("`{}`", row.words);
    let texts =
        [&words, about, row.advantage, &deviation, row.reduction, row.clip, row.kl, &here, row.recorded];
    format!("| {} |", texts.map(escaped).join(" | "))
}

/// A text that does not end its cell.
fn escaped(text: &str) -> String {
    text.replace('|', "\\|")
}
