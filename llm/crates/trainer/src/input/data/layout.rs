//! Problem, answers and solution in a row's text.

use std::collections::BTreeSet;
use std::fmt;

use grpo_lambda_grade::{Extraction, Prediction};
use serde_json::value::RawValue;

use super::cells::{column, is_on, listed, scalar, short, spelt};
use super::form::{AnswerForm, form_of};
use super::leftover::Leftover;
use super::names::LABEL;
use super::row_text::BARE;
use super::turns::{self, turns};
use crate::input::json::Fields;
use crate::input::prompt::Message;

/// The place of a text in a row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum TextSource {
    Column(String),
    /// Two columns that belong together, and what stands between their texts; the second one, or the first, may be empty.
    Pair(String, String, &'static str),
    /// In the conversation of a column: all turns up to the user's last for the problem, the assistant's last for the rest.
    Turn(String),
}

impl TextSource {
    pub(super) fn column(&self) -> &str {
        match self {
            TextSource::Column(name) | TextSource::Turn(name) | TextSource::Pair(name, ..) => name,
        }
    }

    /// The column without which there is nothing: a body, a passage and an input say nothing alone.
    pub(super) fn main(&self) -> &str {
        match self {
            TextSource::Pair(_, second, _) if second.eq_ignore_ascii_case("question") => second,
            TextSource::Pair(name, ..) | TextSource::Column(name) | TextSource::Turn(name) => name,
        }
    }

    /// The columns of the row that it reads.
    fn reads(&self) -> impl Iterator<Item = &str> {
        let second = match self {
            TextSource::Pair(_, second, _) => Some(second.as_str()),
            TextSource::Column(_) | TextSource::Turn(_) => None,
        };
        [self.column()].into_iter().chain(second).map(|name| name.split('.').next().unwrap_or(name))
    }
}

/// The used columns of a data set.
///
/// Found by name in the first row that is an object (or a list of turns):
///
/// ```text
/// problem    problem, question, prompt, query, input, instruction, messages, conversations; with `input` after `instruction`, `Question` after
///            `Body`, `question` after `passage` or `context`, in whichever row these columns first are
/// system     system, system_prompt, system_message
/// answer     answers, answer, final_answer, ground_truth, expected_answer, reward_model.ground_truth, gold, golds, target;
///            else the \boxed{} of the solution; else output, response, completion; else what the assistant says; else label if it is a text
/// solution   solution, rationale; else the text that the answer was taken from; else what the assistant says after the problem
/// ```
/// Names are compared without regard to case where none is spelt exactly so.
///
/// A text with `####` answers what follows its last one, a text with `\boxed{}` what is in its last one, any other text answers itself. What
/// the first row has, every row must have: one without `####` in a data set of the GSM8K layout is a bad row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DatasetLayout {
    pub(super) problem: TextSource,
    pub(super) answer: TextSource,
    pub(super) form: AnswerForm,
    pub(super) is_list: bool,
    pub(super) solution: Option<TextSource>,
    /// The column with a system prompt of the row's own.
    pub(super) system: Option<String>,
    pub(super) mapped: bool,
    /// True if the user named the problem's column.
    pub(super) is_named: bool,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) struct RowContent {
    pub(super) problem: String,
    /// The turns before the problem.
    pub(super) before: Vec<Message>,
    pub(super) answers: Vec<String>,
    pub(super) solution: Option<String>,
}

impl RowContent {
    /// An unambiguous encoding as bytes, for checksums.
    pub(super) fn bytes(&self) -> Vec<u8> {
        let mut out = Vec::new();
        let texts = std::iter::once(&self.problem).chain(&self.answers).chain(&self.solution);
        out.extend((self.answers.len() as u64).to_le_bytes());
        for text in texts {
            out.extend((text.len() as u64).to_le_bytes());
            out.extend(text.as_bytes());
        }
        for text in self.before.iter().flat_map(|turn| [&turn.role, &turn.content]) {
            out.extend((text.len() as u64).to_le_bytes());
            out.extend(text.as_bytes());
        }
        out
    }
}

/// Words that data sets write in place of an answer that is unknown, or that no comparison can decide.
const NO_ANSWER: [&str; 8] = ["notfound", "not found", "proof", "n/a", "nan", "null", "unknown", "tbd"];

fn is_list(value: &RawValue) -> bool {
    value.get().starts_with('[')
}

impl DatasetLayout {
    /// The texts that the answers are taken from, and whether they are a list.
    pub(super) fn answer_texts(&self, fields: &Fields) -> Result<(Vec<String>, bool), String> {
        let name = self.answer.column();
        let value = column(fields, name).ok_or_else(|| absent(fields, name))?;
        let value = match &self.answer {
            TextSource::Column(_) | TextSource::Pair(..) => value,
            TextSource::Turn(_) => turns::reference(&turns(&value, name)?, name)?,
        };
        let wrong = |value: &RawValue| {
            format!("{name} = {}: must be a text, a number, or a list of these", short(value.get()))
        };
        if !is_list(&value) {
            return Ok((vec![scalar(&value).ok_or_else(|| wrong(&value))?], false));
        }
        let list: Vec<Box<RawValue>> = serde_json::from_str(value.get()).map_err(|_| wrong(&value))?;
        if list.is_empty() {
            return Err(format!("{name} = []: must have at least one answer"));
        }
        let texts: Option<Vec<String>> = list.iter().map(|v| scalar(v)).collect();
        Ok((texts.ok_or_else(|| wrong(&value))?, true))
    }

    /// A row's content, or the fault in it.
    pub(super) fn read(&self, fields: &Fields) -> Result<RowContent, String> {
        let leftover = Leftover { fields, used: &self.used() };
        if !self.is_named {
            leftover.belongs()?;
        }
        let (before, problem) = self.question(fields)?;
        if problem.trim().is_empty() {
            return Err(format!("{}: empty; must be the problem", self.problem.column()));
        }
        if !self.is_named {
            leftover.asks_otherwise(self.problem.column(), &before, &problem)?;
        }
        let name = self.answer.column();
        if name == "completion" && spelt(fields, LABEL).is_some_and(|label| fields[&label].get() == "false") {
            return Err(format!("label = false: says that `{name}` is not right; leave such rows out"));
        }
        let (texts, _) = self.answer_texts(fields)?;
        let answers = texts.iter().map(|text| self.answer(name, text)).collect::<Result<Vec<_>, _>>()?;
        if !self.mapped {
            leftover.answers_otherwise(name, &answers)?;
        }
        let solution = match &self.solution {
            None => None,
            Some(part) => match self.solution_text(part, fields) {
                Ok(text) => Some(text).filter(|text| !text.trim().is_empty()),
                // A missing solution does not make a row with an answer unusable.
                Err(_) if *part != self.answer => None,
                Err(reason) => return Err(reason),
            },
        };
        Ok(RowContent { problem, before, answers, solution })
    }

    /// The turns before the problem, and the problem.
    fn question(&self, fields: &Fields) -> Result<(Vec<Message>, String), String> {
        let (mut before, problem) = match &self.problem {
            TextSource::Turn(name) => {
                let value = column(fields, name).ok_or_else(|| absent(fields, name))?;
                let is_read = [Some(&self.answer), self.solution.as_ref()].contains(&Some(&self.problem));
                turns::question(&turns(&value, name)?, name, is_read)?
            }
            other => (Vec::new(), self.text(other, fields)?),
        };
        if is_written_conversation(&problem) {
            return Err(format!(
                "{}: a text that spells out a list of turns; write the list itself, as in [{{\"role\": \"user\", \"content\": \"..\"}}]",
                self.problem.column()
            ));
        }
        if let Some((name, text)) = self.system_prompt(fields)? {
            match before.first().filter(|turn| turn.role == "system") {
                Some(turn) if turn.content != text => {
                    return Err(format!(
                        "{name}: another text than the system turn of `{}`; leave one of them out",
                        self.problem.column()
                    ));
                }
                Some(_) => {}
                None => before.insert(0, Message::new("system", &text)),
            }
        }
        Ok((before, problem))
    }

    /// The row's own system prompt, with the name of its column.
    fn system_prompt(&self, fields: &Fields) -> Result<Option<(&String, String)>, String> {
        let Some(name) = &self.system else { return Ok(None) };
        let Some(value) = column(fields, name).filter(|value| is_on(value)) else { return Ok(None) };
        let text =
            scalar(&value).ok_or_else(|| format!("{name} = {}: must be a text", short(value.get())))?;
        Ok(Some((name, text)))
    }

    /// The columns of a row that are read.
    fn used(&self) -> Vec<&str> {
        let parts = [Some(&self.problem), Some(&self.answer), self.solution.as_ref()];
        parts.into_iter().flatten().flat_map(TextSource::reads).chain(self.system.as_deref()).collect()
    }

    /// The row's columns that are not asked and say something, with the solution and the answer counted as asked.
    pub(super) fn unused<'a>(
        &'a self,
        fields: &'a Fields,
    ) -> impl Iterator<Item = (&'a String, &'a RawValue)> {
        let used = self.used();
        let others =
            fields.iter().filter(move |(name, value)| !used.contains(&name.as_str()) && is_on(value));
        others.map(|(name, value)| (name, value.as_ref()))
    }

    /// The names of the fields of its turns that are not asked and say something, as in `prompt[].name`.
    pub(super) fn unread_of_turns(&self, fields: &Fields) -> BTreeSet<String> {
        let TextSource::Turn(name) = &self.problem else { return BTreeSet::new() };
        let turns = column(fields, name).and_then(|value| turns(&value, name).ok()).unwrap_or_default();
        turns::unread(&turns).map(|field| format!("{name}[].{field}")).collect()
    }

    /// The text of a solution, of which a list has several: the first one is imitated.
    fn solution_text(&self, part: &TextSource, fields: &Fields) -> Result<String, String> {
        let listed = column(fields, part.column()).filter(|value| is_list(value));
        match (part, listed.map(|value| serde_json::from_str::<Vec<String>>(value.get()))) {
            (TextSource::Column(_), Some(Ok(texts))) => Ok(texts.into_iter().next().unwrap_or_default()),
            (_, _) => self.text(part, fields),
        }
    }

    fn text(&self, part: &TextSource, fields: &Fields) -> Result<String, String> {
        let value = |name: &str| column(fields, name).ok_or_else(|| absent(fields, name));
        let text = |name: &str, value: &RawValue| {
            scalar(value).ok_or_else(|| format!("{name} = {}: must be a text", short(value.get())))
        };
        match part {
            TextSource::Column(name) => text(name, value(name)?.as_ref()),
            TextSource::Turn(name) => turns::last_text(value(name)?.as_ref(), name),
            TextSource::Pair(first, second, between) => {
                value(part.main())?;
                let half = |name: &str| match column(fields, name).filter(|v| is_on(v)) {
                    Some(value) => text(name, &value),
                    None => Ok(String::new()),
                };
                let halves = [half(first)?, half(second)?];
                Ok(halves
                    .into_iter()
                    .filter(|half| !half.trim().is_empty())
                    .collect::<Vec<_>>()
                    .join(between))
            }
        }
    }

    fn answer(&self, name: &str, text: &str) -> Result<String, String> {
        if text.starts_with('{')
            && serde_json::from_str::<Fields>(text).is_ok_and(|object| !object.is_empty())
        {
            return Err(format!("{name} = {}: a text that holds a JSON object, and no answer", short(text)));
        }
        if NO_ANSWER.iter().any(|word| text.trim().eq_ignore_ascii_case(word)) {
            return Err(format!(
                "{name} = {text}: says that there is no answer to compare with; leave the row out"
            ));
        }
        let end = |text: &str| {
            let from = text.char_indices().rev().nth(59).map_or(0, |(at, _)| at);
            format!("{}{:?}", if from > 0 { "..." } else { "" }, &text[from..])
        };
        let found = match (self.form, form_of(text)) {
            (AnswerForm::Hashes, AnswerForm::Whole | AnswerForm::Boxed) => {
                return Err(format!("{name}: no `####` before the answer in {}", end(text)));
            }
            (AnswerForm::Boxed, AnswerForm::Whole) => {
                return Err(format!("{name}: no complete \\boxed{{}} in {}", end(text)));
            }
            (AnswerForm::Hashes, _) | (_, AnswerForm::Hashes) => {
                let (_, after) = text.rsplit_once("####").unwrap_or(("", text));
                after.lines().next().unwrap_or("")
            }
            (_, AnswerForm::Boxed) => {
                let found = Prediction::extract(text, Extraction::Boxed);
                return nonempty(name, found.answer().unwrap_or(""), text, end);
            }
            (AnswerForm::Whole, AnswerForm::Whole) => text,
        };
        nonempty(name, found, text, end)
    }

    /// The name of the layout.
    pub fn name(&self) -> &'static str {
        match (&self.problem, &self.answer, self.form) {
            _ if self.mapped => "mapped columns",
            (TextSource::Turn(_), TextSource::Turn(_), _) => "conversations, as ORZ",
            (TextSource::Turn(_), ..) => "conversations",
            (_, _, AnswerForm::Hashes) => "GSM8K",
            (_, _, AnswerForm::Boxed) => "MATH",
            (_, _, AnswerForm::Whole) if self.is_list => "benchmark",
            (_, _, AnswerForm::Whole) => "problem and answer",
        }
    }

    /// The form of the answer in its column.
    pub fn form(&self) -> AnswerForm {
        self.form
    }
}

/// True for a text that is a list of turns as JSON or Python writes it.
fn is_written_conversation(text: &str) -> bool {
    let text = text.trim_start();
    let begins = ["[{", "array([{"].iter().any(|begin| text.starts_with(begin));
    begins
        && ["role", "from"]
            .iter()
            .any(|name| text.contains(&format!("\"{name}\":")) || text.contains(&format!("'{name}':")))
}

fn nonempty(name: &str, found: &str, text: &str, end: impl Fn(&str) -> String) -> Result<String, String> {
    match found.trim() {
        "" if text.trim().is_empty() => Err(format!("{name}: empty; must be the answer")),
        "" => Err(format!("{name}: the answer is empty in {}", end(text))),
        found => Ok(found.to_owned()),
    }
}

fn absent(fields: &Fields, name: &str) -> String {
    format!("no column `{name}`; the columns are {}", listed(fields))
}

impl fmt::Display for DatasetLayout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let part = |part: &TextSource, who: &str| match part {
            TextSource::Column(name) => format!("`{name}`"),
            TextSource::Pair(first, second, _) => format!("`{first}` and `{second}`"),
            TextSource::Turn(name) if name == BARE => format!("the {who}'s turn"),
            TextSource::Turn(name) => format!("the {who}'s turn of `{name}`"),
        };
        let form = match self.form {
            AnswerForm::Whole if self.is_list => "each of ",
            AnswerForm::Whole => "",
            AnswerForm::Hashes => "what follows the last #### of ",
            AnswerForm::Boxed => "the last \\boxed{} of ",
        };
        let answer = match &self.answer {
            TextSource::Turn(_) if self.solution.is_none() => {
                format!("ground_truth of {}", part(&self.answer, "assistant"))
            }
            other => part(other, "assistant"),
        };
        write!(f, "{}: problem {}, answer {form}{answer}", self.name(), part(&self.problem, "user"))?;
        if let Some(system) = &self.system {
            write!(f, ", system prompt `{system}`")?;
        }
        match &self.solution {
            Some(solution) => write!(f, ", solution {}", part(solution, "assistant")),
            None => write!(f, ", no solution"),
        }
    }
}
