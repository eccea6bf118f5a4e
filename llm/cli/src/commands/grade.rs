//! `llm-train grade`.

use std::path::PathBuf;

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use grpo_lambda::settings::did_you_mean;
use grpo_lambda_grade::{Extraction, Found, Grader, Kind, Prediction, Response, Rule, Rules, Verdict};
use rayon::prelude::*;
use serde::Serialize;
use serde_json::{Map, Value};

use super::lines::{JsonLine, each_line};
use super::{Failure, Result, input, print};

/// Arguments of `grade`.
#[derive(Clone, Debug, clap::Args)]
pub struct GradeArgs {
    /// JSON lines `{"gold": "1/2", "answer": "0.5"}`, the gold one text or a list of right ones; `problem`, its text, and `finish`, which is
    /// `length` for an answer that was cut off, may be there, and further fields such as `id` come back; stdin when not given
    #[arg(long, value_name = "FILE")]
    pub input: Option<PathBuf>,
    /// Place of the final answer in `answer`; `free` looks in `gold`, too
    #[arg(long, value_parser = extraction(), default_value = Extraction::default().name())]
    pub extract: Extraction,
    /// The rules by which spellings count as the same: strict, lenient, and changes to them (`strict,+unit_converted,-six_digits`); lenient
    /// with `--extract free`, else strict
    #[arg(long, value_name = "RULES", value_parser = |text: &str| Rules::parse(text))]
    pub rules: Option<Rules>,
    /// Print line number, verdict, reason, rules, the answer found and the error of each line
    #[arg(long)]
    pub json: bool,
    /// Print the answer found in each line with its place in `answer`, in bytes, the rule that found it, and what kinds of thing gold and
    /// answer are
    #[arg(long)]
    pub explain: bool,
    /// List the rules and what each says
    #[arg(long)]
    pub list_rules: bool,
}

/// Reads an extraction by its name; the help lists them all.
pub(super) fn extraction() -> impl TypedValueParser<Value = Extraction> {
    let names = Extraction::ALL.iter().map(|way| PossibleValue::new(way.name()).help(way.about()));
    PossibleValuesParser::new(names).try_map(|name| Extraction::find(&name).ok_or("not a way of extraction"))
}

/// The fields of a line that are read.
const FIELDS: [&str; 4] = ["gold", "answer", "problem", "finish"];
/// The fields of the output, which none of a line replaces.
const OUTPUT: [&str; 7] = ["line", "equal", "reason", "rules", "extracted", "error", "found"];

/// A verdict, a hint at an answer that a strict extraction does not see, and the answer found.
struct Judged {
    verdict: Verdict,
    hint: String,
    found: Option<Found>,
    /// Further fields of the line.
    others: Map<String, Value>,
}

/// A line in the output.
#[derive(Serialize)]
struct Graded {
    /// Further fields of the line, such as its id.
    #[serde(flatten)]
    others: Map<String, Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    line: Option<usize>,
    equal: Option<bool>,
    reason: String,
    #[serde(flatten)]
    more: Option<More>,
    #[serde(skip_serializing_if = "Option::is_none")]
    found: Option<Explained>,
}

/// The answer found, as `--explain` shows it.
#[derive(Serialize)]
struct Explained {
    found: String,
    /// The value that an equation states.
    #[serde(skip_serializing_if = "Option::is_none")]
    value: Option<String>,
    span: [usize; 2],
    rule: &'static str,
    why: &'static str,
    /// Kinds of thing that gold and answer are.
    #[serde(skip_serializing_if = "Option::is_none")]
    kinds: Option<[&'static str; 2]>,
}

impl Explained {
    fn new(Found { answer, value, span, rule }: Found, kinds: Option<(Kind, Kind)>) -> Explained {
        let span = [span.start, span.end];
        let kinds = kinds.map(|(gold, answer)| [gold.name(), answer.name()]);
        Explained { found: answer, value, span, rule: rule.name(), why: rule.about(), kinds }
    }
}

/// The fields that `--json` adds.
#[derive(Serialize)]
struct More {
    rules: Vec<&'static str>,
    extracted: Option<String>,
    /// The reason why the line was refused.
    error: Option<String>,
}

impl Graded {
    fn judged(judged: Judged, line: Option<usize>, explain: bool) -> Graded {
        let Judged { verdict, hint, found, others } = judged;
        let found = found.filter(|_| explain).map(|found| Explained::new(found, verdict.kinds));
        let reason = format!("{verdict}{hint}");
        let rules = verdict.rules.iter().map(Rule::name).collect();
        let more = line.is_some().then_some(More { rules, extracted: verdict.extracted, error: None });
        Graded { others, line, equal: verdict.equal, reason, more, found }
    }

    fn refused(failure: &Failure, line: Option<usize>) -> Graded {
        let error = failure.message.clone();
        let more = line.is_some().then(|| More { rules: Vec::new(), extracted: None, error: Some(error) });
        let reason = format!("refused: {}", failure.message);
        Graded { others: Map::new(), line, equal: None, reason, more, found: None }
    }
}

/// Grades every line. A refused line has its error as verdict and makes the exit code 2; if no line can be graded and `--json` is
/// not given, only that error is printed.
pub fn run(args: &GradeArgs) -> Result<()> {
    if args.list_rules {
        return print(&listed());
    }
    let default = if args.extract == Extraction::Free { Rules::LENIENT } else { Rules::STRICT };
    let grader = Grader { extraction: args.extract, rules: args.rules.unwrap_or(default) };
    let (name, text) = input(args.input.as_deref())?;
    let lines: Vec<_> = each_line(&name, &text, &FIELDS, true).collect();
    let graded: Vec<(usize, Result<Judged>)> =
        lines.into_par_iter().map(|(n, line)| (n, line.and_then(|line| one(&grader, &line)))).collect();
    let lines = graded.len();
    let refused: Vec<String> =
        graded.iter().filter_map(|(_, found)| Some(found.as_ref().err()?.message.clone())).collect();
    let mut out = String::new();
    if args.json || refused.len() < lines {
        for (n, judged) in graded {
            let line = args.json.then_some(n);
            let record = match judged {
                Ok(judged) => Graded::judged(judged, line, args.explain),
                Err(failure) => Graded::refused(&failure, line),
            };
            out += &serde_json::to_string(&record).map_err(Failure::broke)?;
            out.push('\n');
        }
    }
    print(&out)?;
    match (refused.first(), refused.len()) {
        (None, _) => Ok(()),
        (Some(first), 1) => Err(Failure::refused(first)),
        (Some(first), n) => Err(Failure::refused(format!("{first} ({n} of {lines} lines were refused)"))),
    }
}

fn one(grader: &Grader, line: &JsonLine) -> Result<Judged> {
    let right = "a line is {\"gold\": \"1/2\", \"answer\": \"0.5\"}";
    // Further fields are let through, but one that is nearly `answer` was meant.
    let missing = |name: &'static str| {
        let others = line.others(&FIELDS);
        let near =
            others.keys().map(|key| (key, did_you_mean(key, [name]))).find(|(_, hint)| !hint.is_empty());
        match near {
            Some((key, hint)) => line.refused(format!("{key}: unknown field{hint}; {right}")),
            None => line.refused(format!("{name}: missing; {right}")),
        }
    };
    let golds = line.texts("gold")?.ok_or_else(|| missing("gold"))?;
    let answer = line.text("answer")?.ok_or_else(|| missing("answer"))?;
    let gold = grader.gold(golds).map_err(|e| line.refused(format!("gold: {e}")))?;
    let cut_off = line.text("finish")? == Some("length");
    let response = Response { text: answer, problem: line.text("problem")?, cut_off };
    let verdict = grader.grade(&gold, response);
    let mut hint = String::new();
    if verdict.no_answer()
        && grader.extraction != Extraction::Free
        && let Some(found) = Prediction::extract(answer, Extraction::Free).answer()
    {
        hint = format!("; --extract free would read `{}`", shown(found));
    }
    let found = Prediction::extract(answer, grader.extraction).into_found();
    let others = line.others(&[&FIELDS[..], &OUTPUT[..]].concat());
    Ok(Judged { verdict, hint, found, others })
}

/// The beginning of a text, on one line.
fn shown(text: &str) -> String {
    text.chars().take(60).map(|c| if c.is_control() { ' ' } else { c }).collect()
}

/// The rules as a table.
fn listed() -> String {
    let line = |rule: &Rule| {
        let modes = match (Rules::STRICT.has(*rule), Rules::LENIENT.has(*rule)) {
            (true, _) => "strict, lenient",
            (false, true) => "lenient",
            (false, false) => "off",
        };
        format!("{:<20} {modes:<16} {}\n", rule.name(), rule.about())
    };
    Rule::ALL.iter().map(line).collect()
}
