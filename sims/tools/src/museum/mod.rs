//! `sim museum`: the bugs that trainers have shipped, as inputs with right and wrong numbers, and the bug that gives someone's numbers.

mod cases;

use crate::failure::Failure;
use crate::json::{self, Json};
use crate::terminal;
pub use cases::cases;
use grpo_lambda::settings::did_you_mean;
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::path::PathBuf;

/// The command's arguments.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub struct MuseumArgs {
    /// Your trainer's numbers for the inputs of the cases: say of each whether it is right, and which bug it shows
    #[arg(long, value_name = "THEIRS.jsonl")]
    against: Option<PathBuf>,
}

const AFTER_HELP: &str = r#"Output: one case per line, as a JSON object
  {"case": NAME, "asks": TEXT, "input": {..},
   "right": [{"convention": TEXT, "numbers": [..]}..],
   "wrong": [{"bugs": ["B24"..], "what": TEXT, "numbers": [..]}..]}

THEIRS.jsonl has one object per line, for any of the cases; lists in lists are read in their order:

  {"case": NAME, "numbers": [..]}

Exit code with --against: 0 when every case given is right, 1 when one is not, 2 when the file was refused.

Examples:
  sim museum > museum.jsonl
  sim museum --against theirs.jsonl"#;

/// The file of cases, as `examples/museum.jsonl` holds it.
pub fn file() -> String {
    cases().iter().map(|case| case.line() + "\n").collect()
}

/// Prints the cases, or what someone's numbers are.
///
/// # Errors
/// [`Failure::Refused`] for a file that cannot be used, [`Failure::Failed`] when a case is not right.
pub fn run(args: &MuseumArgs) -> Result<(), Failure> {
    let Some(path) = &args.against else { return terminal::print(&file()) };
    let shown = path.display();
    let text = std::fs::read_to_string(path)
        .map_err(|e| Failure::Refused(format!("{shown}: {e}; --against must name a readable text file")))?;
    let (said, right) = report(&text, &cases())
        .map_err(|(line, what)| Failure::Refused(format!("{shown}, line {line}: {what}")))?;
    terminal::print(&said)?;
    match right {
        true => Ok(()),
        false => Err(Failure::Failed("not every case is right".to_owned())),
    }
}

/// Numbers that someone might give for a case.
#[derive(Clone, Debug, PartialEq)]
pub struct Answer {
    /// The known bugs it shows, as `B24`; empty for a right answer.
    pub bugs: Vec<&'static str>,
    /// The convention of a right answer, or what goes wrong.
    pub what: String,
    pub numbers: Vec<f64>,
}

/// An input with every answer that is known.
#[derive(Clone, Debug, PartialEq)]
pub struct Case {
    pub name: &'static str,
    /// The quantity to compute.
    pub asks: &'static str,
    pub input: Value,
    pub answers: Vec<Answer>,
}

impl Case {
    pub fn new(name: &'static str, asks: &'static str, input: Value) -> Self {
        Case { name, asks, input, answers: Vec::new() }
    }

    /// The case with one more right answer.
    #[must_use]
    pub fn right(self, convention: &str, numbers: Vec<f64>) -> Self {
        self.with(&[], convention, numbers)
    }

    /// The case with one more wrong answer.
    #[must_use]
    pub fn wrong(self, bugs: &[&'static str], what: &str, numbers: Vec<f64>) -> Self {
        self.with(bugs, what, numbers)
    }

    fn with(mut self, bugs: &[&'static str], what: &str, numbers: Vec<f64>) -> Self {
        self.answers.push(Answer { bugs: bugs.to_vec(), what: what.to_owned(), numbers });
        self
    }

    /// One line of the file of cases.
    pub fn line(&self) -> String {
        let right = |answer: &Answer| json!({"convention": answer.what, "numbers": answer.numbers});
        let wrong =
            |answer: &Answer| json!({"bugs": answer.bugs, "what": answer.what, "numbers": answer.numbers});
        let (wrongs, rights): (Vec<_>, Vec<_>) =
            self.answers.iter().partition(|answer| !answer.bugs.is_empty());
        json!({
            "case": self.name,
            "asks": self.asks,
            "input": self.input,
            "right": rights.into_iter().map(right).collect::<Vec<_>>(),
            "wrong": wrongs.into_iter().map(wrong).collect::<Vec<_>>(),
        })
        .to_string()
    }
}

/// The largest difference that counts as equal, relative to the largest number of the right answer. It covers what frameworks add to a
/// deviation; wrong answers are further away, which a test holds.
pub const TOLERANCE: f64 = 1e-3;

/// True if `numbers` are those of `answer`, a case of this scale.
fn agrees(answer: &Answer, numbers: &[f64], scale: f64) -> bool {
    answer.numbers.len() == numbers.len()
        && answer.numbers.iter().zip(numbers).all(|(a, b)| (a - b).abs() <= TOLERANCE * scale)
}

/// Names of numbers.
#[derive(Clone, Debug, PartialEq)]
pub enum Verdict<'a> {
    Right(&'a Answer),
    Wrong(&'a Answer),
    Neither,
}

/// The meaning of these numbers of a case.
pub fn verdict<'a>(case: &'a Case, numbers: &[f64]) -> Verdict<'a> {
    let rights = case.answers.iter().filter(|answer| answer.bugs.is_empty());
    let scale = rights.flat_map(|answer| &answer.numbers).fold(0.0, |m, x| f64::max(m, x.abs()));
    match case.answers.iter().find(|answer| agrees(answer, numbers, scale)) {
        None => Verdict::Neither,
        Some(answer) if answer.bugs.is_empty() => Verdict::Right(answer),
        Some(answer) => Verdict::Wrong(answer),
    }
}

/// Numbers in lists of any depth, in their order.
fn flat(place: &str, value: &Json, out: &mut Vec<f64>) -> Result<(), String> {
    match value {
        Json::List(items) => {
            items.iter().enumerate().try_for_each(|(i, item)| flat(&format!("{place}[{i}]"), item, out))
        }
        Json::Number(n) if n.as_f64().is_some() => {
            out.extend(n.as_f64());
            Ok(())
        }
        other => Err(format!("{place} = {other}; must be a finite number, or a list of such")),
    }
}

/// One line of someone's file: the case, and their numbers.
fn read<'a>(line: &str, cases: &'a [Case]) -> Result<(&'a Case, Vec<f64>), String> {
    let Json::Object(entries) = json::parse(line)? else {
        return Err("the line must be one JSON object, as {\"case\": NAME, \"numbers\": [..]}".to_owned());
    };
    let known = ["case", "numbers"];
    if let Some((key, _)) = entries.iter().find(|(key, _)| !known.contains(&key.as_str())) {
        return Err(format!("`{key}`: unknown field; the fields are case, numbers"));
    }
    let one = |name: &str| {
        let mut found = entries.iter().filter(|(key, _)| key == name).map(|(_, value)| value);
        match (found.next(), found.next()) {
            (Some(value), None) => Ok(value),
            (None, _) => Err(format!("{name}: missing; every line needs case, numbers")),
            (Some(_), Some(_)) => Err(format!("{name}: given twice")),
        }
    };
    let name = match one("case")? {
        Json::Text(name) => name,
        other => return Err(format!("case = {other}; must be the name of a case")),
    };
    let names = || cases.iter().map(|case| case.name);
    let case = cases.iter().find(|case| case.name == name).ok_or_else(|| {
        let hint = did_you_mean(name, names());
        format!("case = `{name}`: unknown{hint}; the cases are {}", names().collect::<Vec<_>>().join(", "))
    })?;
    let mut numbers = Vec::new();
    flat("numbers", one("numbers")?, &mut numbers)?;
    let wanted = case.answers[0].numbers.len();
    if numbers.len() != wanted {
        return Err(format!("numbers: {} of them; {name} has {wanted}", numbers.len()));
    }
    Ok((case, numbers))
}

/// The verdict on someone's numbers, a line per case, and true if all are right.
///
/// # Errors
/// The number of a line that cannot be used, and why.
pub fn report(text: &str, cases: &[Case]) -> Result<(String, bool), (usize, String)> {
    let mut given: Vec<(&Case, Vec<f64>)> = Vec::new();
    for (number, line) in (1..).zip(text.lines()).filter(|(_, line)| !line.trim().is_empty()) {
        let (case, numbers) =
            read(line.trim_start_matches('\u{feff}'), cases).map_err(|what| (number, what))?;
        if given.iter().any(|(other, _)| other.name == case.name) {
            return Err((number, format!("case = `{}`: given on an earlier line already", case.name)));
        }
        given.push((case, numbers));
    }
    if given.is_empty() {
        return Err((1, "no line; every line is {\"case\": NAME, \"numbers\": [..]}".to_owned()));
    }
    let (mut said, mut wrong, mut right) = (String::new(), 0, 0);
    for (case, numbers) in &given {
        let words = match verdict(case, numbers) {
            Verdict::Right(answer) => {
                right += 1;
                format!("right ({})", answer.what)
            }
            Verdict::Wrong(answer) => {
                wrong += 1;
                format!("the bug {}: {}", answer.bugs.join(" or "), answer.what)
            }
            Verdict::Neither => "neither right nor a bug that is known here".to_owned(),
        };
        let _ = writeln!(said, "{:<28} {words}", case.name);
    }
    let _ = writeln!(
        said,
        "{right} right, {wrong} of a known bug, {} neither, {} of {} cases not given",
        given.len() - right - wrong,
        cases.len() - given.len(),
        cases.len()
    );
    Ok((said, right == given.len()))
}
