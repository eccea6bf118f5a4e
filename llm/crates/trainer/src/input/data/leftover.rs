//! Columns of a row that are not read, where leaving them out would change the question or the answer.

use grpo_lambda_grade::{Gold, Prediction};
use serde_json::value::RawValue;

use super::cells::{column, is_on, scalar, spelt};
use super::form::{AnswerForm, form_of};
use super::key::words;
use super::names::{ANSWERS, LABEL, PROBLEMS};
use super::turns::{self, is_conversation, turns};
use crate::input::json::Fields;
use crate::input::prompt::Message;

/// Columns that belong to the problem where they are no part of it as it is asked.
const BELONGS: [&str; 22] = [
    "choices",
    "options",
    "history",
    "tools",
    "chat_template_kwargs",
    "instruction",
    "input",
    "inputs",
    "body",
    "passage",
    "context",
    "contexts",
    "document",
    "documents",
    "article",
    "story",
    "table",
    "hint",
    "hints",
    "premise",
    "premises",
    "scenario",
];
/// Names of columns that hold what no text is; see [`is_picture`].
const PICTURES: [&str; 6] = ["image", "img", "picture", "figure", "video", "audio"];

/// True for a name of [`PICTURES`] in any case: alone, as a plural, numbered, or of its path, address or bytes. `image_count` is none.
fn is_picture(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    let name = name.trim_end_matches(|c: char| c.is_ascii_digit()).trim_end_matches('_');
    let content =
        ["_path", "_paths", "_url", "_urls", "_bytes"].iter().find_map(|end| name.strip_suffix(end));
    let stem = content.unwrap_or(name);
    PICTURES.contains(&stem.strip_suffix('s').unwrap_or(stem))
}

/// A row with the columns that are read.
pub(super) struct Leftover<'a> {
    pub(super) fields: &'a Fields,
    pub(super) used: &'a [&'a str],
}

impl Leftover<'_> {
    /// The columns that are not read and say something.
    fn columns(&self) -> impl Iterator<Item = (&String, &RawValue)> {
        let left =
            self.fields.iter().filter(|(name, value)| !self.used.contains(&name.as_str()) && is_on(value));
        left.map(|(name, value)| (name, value.as_ref()))
    }

    /// Refuses a column that belongs to the problem.
    pub(super) fn belongs(&self) -> Result<(), String> {
        let is_number = |value: &RawValue| value.get().starts_with(|c: char| c == '-' || c.is_ascii_digit());
        let is_part = |name: &str, value: &RawValue| {
            BELONGS.iter().any(|known| known.eq_ignore_ascii_case(name))
                || (is_picture(name) && !is_number(value))
        };
        match self.columns().find(|(name, value)| is_part(name, value)) {
            None => Ok(()),
            Some((name, _)) => Err(format!(
                "{name}: belongs to the problem and is not read; write it into the text of the problem, or name the problem's column to ask \
                 without it (task.columns.problem, --column problem=NAME)"
            )),
        }
    }

    /// Refuses a second column of a problem's name that asks something else.
    pub(super) fn asks_otherwise(
        &self,
        asked: &str,
        before: &[Message],
        problem: &str,
    ) -> Result<(), String> {
        let is_same = |name: &str, value: &RawValue| {
            if is_conversation(value) {
                let found = turns(value, name).and_then(|turns| turns::question(&turns, name, true));
                // The turns of the row say which system prompt they have; a problem in a column of its own may have one next to it.
                return found.is_ok_and(|(turns, text)| {
                    words(&text) == words(problem) && (turns.is_empty() || turns == before)
                });
            }
            scalar(value).is_none_or(|text| words(&text) == words(problem))
        };
        let is_problem = |name: &str| PROBLEMS.iter().any(|known| known.eq_ignore_ascii_case(name));
        match self.columns().find(|(name, value)| is_problem(name) && !is_same(name, value)) {
            None => Ok(()),
            Some((name, _)) => Err(format!(
                "{name}: asks something else than `{asked}`; name the column that is asked (task.columns.problem, --column problem=NAME)"
            )),
        }
    }

    /// Refuses a second column of an answer's name that the first one contradicts.
    pub(super) fn answers_otherwise(&self, read: &str, answers: &[String]) -> Result<(), String> {
        let gold = || Gold::any_of(answers.iter().map(String::as_str));
        let is_same = |text: &str| {
            let text = match form_of(text) {
                AnswerForm::Hashes => text.rsplit_once("####").map_or(text, |(_, after)| after),
                AnswerForm::Boxed | AnswerForm::Whole => text,
            };
            let boxed = match form_of(text) {
                AnswerForm::Boxed => text.to_owned(),
                AnswerForm::Hashes | AnswerForm::Whole => format!("\\boxed{{{}}}", text.trim()),
            };
            answers.iter().any(|answer| words(answer) == words(text))
                || gold().is_ok_and(|gold| gold.grade(&Prediction::boxed(&boxed)).equal == Some(true))
        };
        // A label may be of the row's topic, but a number next to an answer that some text ends in is an answer.
        let is_numeric = |label: &String| {
            let text = self.fields[label].get();
            text.trim_matches('"').parse::<f64>().is_ok() && text.starts_with('"')
        };
        let ends = !ANSWERS.iter().any(|known| known.eq_ignore_ascii_case(read));
        let label = spelt(self.fields, LABEL).filter(|label| ends && is_numeric(label));
        let others = ANSWERS.iter().filter_map(|name| spelt(self.fields, name)).chain(label);
        for name in others.filter(|name| name != read) {
            let Some(value) = column(self.fields, &name).filter(|value| is_on(value)) else { continue };
            let texts: Vec<String> = match serde_json::from_str::<Vec<Box<RawValue>>>(value.get()) {
                Ok(list) => list.iter().filter_map(|value| scalar(value)).collect(),
                Err(_) => scalar(&value).into_iter().collect(),
            };
            if !texts.is_empty() && !texts.iter().any(|text| is_same(text)) {
                return Err(format!(
                    "{name}: another answer than `{read}`; name the column of the answer (task.columns.answer, --column answer=NAME)"
                ));
            }
        }
        Ok(())
    }
}
