//! JSON lines that people write: objects with a few known fields, refused by line, field and value.

use grpo_lambda::settings::did_you_mean;
use grpo_lambda_trainer::input::json;
use serde_json::{Map, Value};

use super::{Failure, Result};

/// One line: its place in the input and its fields.
#[derive(Clone, Debug)]
pub(super) struct JsonLine {
    place: String,
    fields: Map<String, Value>,
}

/// The lines of `text`, empty ones passed over; `input` names it in refusals, `known` are the fields a line may have.
pub(super) fn lines(input: &str, text: &str, known: &[&str]) -> Result<Vec<JsonLine>> {
    each_line(input, text, known, false).map(|(_, line)| line).collect()
}

/// The lines with their numbers, refused ones among the others; with `more` they may have further fields.
pub(super) fn each_line<'a>(
    input: &'a str,
    text: &'a str,
    known: &'a [&str],
    more: bool,
) -> impl Iterator<Item = (usize, Result<JsonLine>)> + 'a {
    // A byte-order mark, as Windows editors write.
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let numbered = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
    numbered.map(move |(i, line)| (i + 1, JsonLine::read(format!("{input}:{}", i + 1), line, known, more)))
}

impl JsonLine {
    fn read(place: String, text: &str, known: &[&str], more: bool) -> Result<JsonLine> {
        let fields = match serde_json::from_str(text) {
            Ok(Value::Object(map)) => match json::fields(text) {
                Ok(_) => map,
                Err(twice) => return Err(Failure::refused(format!("{place}: {twice}"))),
            },
            Ok(other) => {
                let what = format!("{}; a line is an object with {}", shown(&other), known.join(" or "));
                return Err(Failure::refused(format!("{place}: found {what}")));
            }
            Err(error) => return Err(Failure::refused(format!("{place}: {}", json::not_json(error)))),
        };
        let line = JsonLine { place, fields };
        match line.fields.keys().find(|key| !more && !known.contains(&key.as_str())) {
            Some(key) => {
                let hint = did_you_mean(key, known.iter().copied());
                Err(line.refused(format!("{key}: unknown field{hint}; the fields are {}", known.join(", "))))
            }
            None => Ok(line),
        }
    }

    /// A refusal of this line.
    pub(super) fn refused(&self, what: impl std::fmt::Display) -> Failure {
        Failure::refused(format!("{}: {what}", self.place))
    }

    /// The fields besides these, as they stand.
    pub(super) fn others(&self, known: &[&str]) -> serde_json::Map<String, Value> {
        let others = self.fields.iter().filter(|(key, _)| !known.contains(&key.as_str()));
        others.map(|(key, value)| (key.clone(), value.clone())).collect()
    }

    /// Its place: `input:3`.
    pub(super) fn place(&self) -> &str {
        &self.place
    }

    /// A field that is a text, where it is present.
    pub(super) fn text(&self, field: &str) -> Result<Option<&str>> {
        match self.fields.get(field) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(other) => Err(self.refused(format!("{field} = {}: must be a text in quotes", shown(other)))),
        }
    }

    /// A field that is a text or a list of texts, where it is present.
    pub(super) fn texts(&self, field: &str) -> Result<Option<Vec<&str>>> {
        let Some(Value::Array(list)) = self.fields.get(field) else {
            return Ok(self.text(field)?.map(|text| vec![text]));
        };
        let text = |(i, value): (usize, &'_ Value)| {
            let wrong = || self.refused(format!("{field}[{i}] = {}: must be a text in quotes", shown(value)));
            value.as_str().ok_or_else(wrong).map(|_| i)
        };
        list.iter().enumerate().try_for_each(|pair| text(pair).map(drop))?;
        Ok(Some(list.iter().filter_map(Value::as_str).collect()))
    }

    /// A field that is a list of token ids below `vocabulary`, at least one and at most `longest`, where it is present.
    pub(super) fn ids(&self, field: &str, vocabulary: usize, longest: usize) -> Result<Option<Vec<u32>>> {
        let list = match self.fields.get(field) {
            None | Some(Value::Null) => return Ok(None),
            Some(Value::Array(list)) => list,
            Some(other) => {
                return Err(self.refused(format!("{field} = {}: must be a list of token ids", shown(other))));
            }
        };
        if list.is_empty() || list.len() > longest {
            let count = list.len();
            return Err(self.refused(format!("{field}: {count} token ids; must be 1 to {longest}")));
        }
        let id = |(i, value): (usize, &Value)| {
            let id = value.as_u64().filter(|id| *id < vocabulary as u64);
            id.map(|id| id as u32).ok_or_else(|| {
                let right = format!("must be a token id, a whole number from 0 to {}", vocabulary - 1);
                self.refused(format!("{field}[{i}] = {}: {right}", shown(value)))
            })
        };
        list.iter().enumerate().map(id).collect::<Result<_, _>>().map(Some)
    }
}

/// A value on one line, cut short when it is long.
fn shown(value: &Value) -> String {
    let text = value.to_string();
    match text.char_indices().nth(60) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text,
    }
}
