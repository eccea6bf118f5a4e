//! The columns of a data set, found in a row.

use serde_json::value::RawValue;

use grpo_lambda::settings::did_you_mean;

use super::cells::{column, listed, scalar, spelt};
use super::form::{AnswerForm, form_of};
use super::layout::{DatasetLayout, TextSource};
use super::names::{ANSWERS, LABEL, PROBLEMS};
use super::row_text::BARE;
use super::turns::{self, is_conversation, turns};
use crate::input::json::Fields;

/// The columns of problem, answer and solution; `None` means that the column is found by name. A dot leads into an object:
/// `reward_model.ground_truth`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Columns {
    /// The problem: a text, or the turns of a conversation.
    pub problem: Option<String>,
    /// The answer: a text, a number, or a list of accepted ones.
    pub answer: Option<String>,
    /// The worked solution.
    pub solution: Option<String>,
}

/// The problem with the columns of a data set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ColumnProblem {
    pub(super) text: String,
    /// `problem` or `answer`, where its column was not found and can be named.
    pub(super) missing: Option<&'static str>,
}

impl From<String> for ColumnProblem {
    fn from(text: String) -> Self {
        ColumnProblem { text, missing: None }
    }
}

const SOLUTIONS: [&str; 2] = ["solution", "rationale"];
/// Columns with the answer, or a text that ends in it, where there is neither an answer nor a solution.
const RESPONSES: [&str; 3] = ["output", "response", "completion"];
/// Most bytes of such a text that is the answer itself.
const LONGEST_BARE: usize = 60;
const SYSTEMS: [&str; 3] = ["system", "system_prompt", "system_message"];
/// Two columns that belong together, in the order in which they are asked.
const PAIRS: [(&str, &str, &str); 4] = [
    ("instruction", "input", "\n"),
    ("body", "question", " "),
    ("passage", "question", "\n"),
    ("context", "question", "\n"),
];

/// A row in which columns are looked for, with those that the user named.
struct Search<'a> {
    fields: &'a Fields,
    columns: &'a Columns,
}

/// The layout of a data set by its first row.
pub(super) fn layout(fields: &Fields, columns: &Columns) -> Result<DatasetLayout, ColumnProblem> {
    let search = Search { fields, columns };
    let name = search.chosen("problem", &columns.problem, &PROBLEMS)?;
    let name = name.ok_or_else(|| search.missing("problem", &PROBLEMS))?;
    let is_named = columns.problem.is_some();
    let problem = match search.is_conversation(&name) {
        true => TextSource::Turn(name),
        false => paired(fields, &name).filter(|_| !is_named).unwrap_or(TextSource::Column(name)),
    };
    let solution = search.chosen("solution", &columns.solution, &SOLUTIONS)?.map(TextSource::Column);
    let answer = search.answer(&problem, solution.as_ref())?;
    let mut layout = DatasetLayout {
        solution: search.solution(&problem, solution, &answer),
        problem,
        answer,
        form: AnswerForm::Whole,
        is_list: false,
        system: system(fields),
        mapped: columns != &Columns::default(),
        is_named,
    };
    let (texts, is_list) = layout.answer_texts(fields)?;
    layout.is_list = is_list;
    layout.form = texts.first().map_or(AnswerForm::Whole, |text| form_of(text));
    if layout.solution.as_ref() == Some(&layout.answer) && layout.form == AnswerForm::Whole {
        let text = format!(
            "{}: no \\boxed{{}} and no #### in it, and there is no column with the answer; the columns are {}",
            layout.answer.column(),
            listed(fields)
        );
        return Err(ColumnProblem { text, missing: Some("answer") });
    }
    if layout.solution.is_none() && layout.form != AnswerForm::Whole {
        layout.solution = Some(layout.answer.clone());
    }
    Ok(layout)
}

impl Search<'_> {
    fn value(&self, name: &str) -> Option<Box<RawValue>> {
        column(self.fields, name)
    }

    fn is_conversation(&self, name: &str) -> bool {
        self.value(name).is_some_and(|value| is_conversation(&value))
    }

    /// The column that the user named, else the first of these names that there is.
    fn chosen(&self, what: &str, given: &Option<String>, names: &[&str]) -> Result<Option<String>, String> {
        match given {
            Some(name) if self.value(name).is_some() => Ok(Some(name.clone())),
            Some(name) => {
                let hint = did_you_mean(name, self.fields.keys().map(String::as_str));
                let listed = listed(self.fields);
                Err(format!("no column `{name}` for the {what}{hint}; the columns are {listed}"))
            }
            None => Ok(names.iter().find_map(|name| spelt(self.fields, name))),
        }
    }

    fn missing(&self, what: &'static str, names: &[&str]) -> ColumnProblem {
        let names: Vec<&str> = names.iter().copied().filter(|n| *n != BARE).collect();
        let text = format!(
            "no column that looks like the {what} ({}); the columns are {}",
            names.join(", "),
            listed(self.fields)
        );
        ColumnProblem { text, missing: Some(what) }
    }

    /// True if the conversation of the problem's column goes on to what the assistant says.
    fn is_answered(&self, problem: &TextSource) -> bool {
        let TextSource::Turn(name) = problem else { return false };
        let turns = self.value(name).and_then(|value| turns(&value, name).ok());
        turns.is_some_and(|turns| turns.last().is_some_and(turns::Turn::is_answer))
    }

    fn answer(
        &self,
        problem: &TextSource,
        solution: Option<&TextSource>,
    ) -> Result<TextSource, ColumnProblem> {
        if let Some(name) = self.chosen("answer", &self.columns.answer, &ANSWERS)? {
            return Ok(TextSource::Column(name));
        }
        if let Some(solution) = solution {
            return Ok(solution.clone());
        }
        // A long text without a mark of the answer is prose, which no answer can equal.
        let states = |name: &String| {
            let text = self.value(name).and_then(|value| scalar(&value));
            text.is_none_or(|text| form_of(&text) != AnswerForm::Whole || text.len() <= LONGEST_BARE)
        };
        let response = RESPONSES.iter().find_map(|name| spelt(self.fields, name)).filter(states);
        if let Some(name) = response.filter(|_| !self.is_answered(problem)) {
            return Ok(match self.is_conversation(&name) {
                true => TextSource::Turn(name),
                false => TextSource::Column(name),
            });
        }
        let turns = |name: &str| self.value(name).and_then(|value| turns(&value, name).ok());
        let said = match problem {
            TextSource::Turn(name) => {
                let refers =
                    turns(name).is_some_and(|turns| turns.last().is_some_and(turns::Turn::is_reference));
                refers.then(|| problem.clone())
            }
            // Many datasets have a column for the problem besides the conversation.
            TextSource::Column(_) | TextSource::Pair(..) => {
                let answers = |name: &&str| {
                    turns(name).is_some_and(|turns| turns.iter().any(turns::Turn::is_reference))
                };
                PROBLEMS.into_iter().find(answers).map(|name| TextSource::Turn(name.to_owned()))
            }
        };
        let missing = || self.missing("answer", &[&ANSWERS[..], &[LABEL]].concat());
        said.or_else(|| self.label()).ok_or_else(missing)
    }

    /// A label that is a text.
    fn label(&self) -> Option<TextSource> {
        let name = spelt(self.fields, LABEL)?;
        self.value(&name)
            .is_some_and(|value| value.get().starts_with('"'))
            .then_some(TextSource::Column(name))
    }

    /// The column of the solution; without one what the assistant says after the problem, unless the column is a prompt alone.
    fn solution(
        &self,
        problem: &TextSource,
        solution: Option<TextSource>,
        answer: &TextSource,
    ) -> Option<TextSource> {
        // A column that the user names as the answer is no solution, whatever its name.
        let is_answer = self.columns.answer.is_some() && self.columns.solution.is_none();
        let is_own = problem.column() != "prompt" && matches!(answer, TextSource::Column(_));
        let said = || (is_own && self.is_answered(problem)).then(|| problem.clone());
        solution.filter(|solution| !(is_answer && solution == answer)).or_else(said)
    }
}

/// The column of a row with a system prompt of its own.
fn system(fields: &Fields) -> Option<String> {
    SYSTEMS.iter().find_map(|name| spelt(fields, name))
}

/// The column of the problem with the one that belongs to it.
fn paired(fields: &Fields, name: &str) -> Option<TextSource> {
    let of_pair = |(first, second, between): &(&str, &str, &'static str)| {
        let [first, second] = [spelt(fields, first)?, spelt(fields, second)?];
        let is_text =
            |n: &String| column(fields, n).is_some_and(|v| scalar(&v).is_some() || v.get() == "null");
        let belongs = [&first, &second].iter().any(|half| *half == name);
        (belongs && is_text(&first) && is_text(&second)).then_some(TextSource::Pair(first, second, between))
    };
    PAIRS.iter().find_map(of_pair)
}

/// Takes in the columns that belong to the problem and that rows before this one did not have: the second of a pair, and the system prompt.
/// Earlier rows are read as before.
pub(super) fn widen(layout: &mut DatasetLayout, fields: &Fields) {
    if layout.system.is_none() {
        layout.system = system(fields);
    }
    if let (TextSource::Column(name), false) = (&layout.problem, layout.is_named)
        && let Some(pair) = paired(fields, name).filter(|pair| pair.main() == name)
    {
        layout.problem = pair;
    }
}
