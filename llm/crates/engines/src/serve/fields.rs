//! The fields of a request's JSON, each refused by name and value.

use std::fmt::Display;
use std::ops::RangeInclusive;

use serde_json::{Map, Value};

use super::error::ApiError;
use crate::remote::cut;

/// An object whose fields are read one by one.
pub(super) struct Fields<'a>(pub(super) &'a Map<String, Value>);

impl Fields<'_> {
    /// Refuses a field that is none of these.
    pub(super) fn only(&self, known: &[&str]) -> Result<(), ApiError> {
        match self.0.keys().find(|key| !known.contains(&key.as_str())) {
            Some(key) => Err(ApiError::field(
                key,
                format!("{key}: unknown field; the fields are {}", known.join(", ")),
            )),
            None => Ok(()),
        }
    }

    /// A field that is there and not null.
    pub(super) fn get(&self, field: &str) -> Option<&Value> {
        self.0.get(field).filter(|value| !value.is_null())
    }

    /// A whole number in `range`.
    pub(super) fn whole(&self, field: &str, range: RangeInclusive<u64>) -> Result<Option<u64>, ApiError> {
        self.ranged(field, range, ("a whole number", Value::as_u64))
    }

    /// A number in `range`.
    pub(super) fn number(&self, field: &str, range: RangeInclusive<f64>) -> Result<Option<f64>, ApiError> {
        self.ranged(field, range, ("a number", Value::as_f64))
    }

    fn ranged<T: PartialOrd + Display>(
        &self,
        field: &str,
        range: RangeInclusive<T>,
        (kind, read): (&str, fn(&Value) -> Option<T>),
    ) -> Result<Option<T>, ApiError> {
        let Some(value) = self.get(field) else { return Ok(None) };
        let number = read(value).filter(|number| range.contains(number));
        let right = || format!("{kind} from {} to {}", range.start(), range.end());
        number.map(Some).ok_or_else(|| wrong(field, value, &right()))
    }

    /// `true` or `false`; false when it is not there.
    pub(super) fn flag(&self, field: &str) -> Result<bool, ApiError> {
        match self.get(field) {
            None => Ok(false),
            Some(Value::Bool(flag)) => Ok(*flag),
            Some(value) => Err(wrong(field, value, "true or false")),
        }
    }

    /// A text or a list of at most `most` texts, of at most so many bytes each.
    pub(super) fn texts(&self, field: &str, most: usize, bytes: usize) -> Result<Vec<String>, ApiError> {
        let right = format!("a text of 1 to {bytes} bytes, or a list of at most {most} such texts");
        let text = |value: &Value| {
            let text = value.as_str().filter(|text| (1..=bytes).contains(&text.len()));
            text.map(str::to_owned).ok_or_else(|| wrong(field, value, &right))
        };
        match self.get(field) {
            None => Ok(Vec::new()),
            Some(Value::Array(list)) if list.len() <= most => list.iter().map(text).collect(),
            Some(value) => Ok(vec![text(value)?]),
        }
    }

    /// A list of token ids below `vocabulary`.
    pub(super) fn ids(&self, field: &str, vocabulary: usize) -> Result<Vec<u32>, ApiError> {
        match self.get(field) {
            None => Ok(Vec::new()),
            Some(value) => ids(field, value, vocabulary),
        }
    }

    /// Refuses a value other than the one with which the field has no effect: what it asks for is not computed here.
    pub(super) fn neutral(&self, field: &str, neutral: &Value) -> Result<(), ApiError> {
        let same = |value: &Value| match (value.as_f64(), neutral.as_f64()) {
            (Some(a), Some(b)) => a == b,
            _ => value == neutral,
        };
        match self.get(field) {
            Some(value) if !same(value) => Err(wrong(field, value, &format!("{neutral} or left out"))),
            _ => Ok(()),
        }
    }
}

/// A list of token ids below `vocabulary`.
pub(super) fn ids(field: &str, value: &Value, vocabulary: usize) -> Result<Vec<u32>, ApiError> {
    let id = |value: &Value| value.as_u64().filter(|id| *id < vocabulary as u64).map(|id| id as u32);
    let ids = value.as_array().and_then(|list| list.iter().map(id).collect());
    ids.ok_or_else(|| wrong(field, value, &format!("a list of token ids from 0 to {}", vocabulary - 1)))
}

/// `field = value: must be ..`, with a long value cut short.
pub(super) fn wrong(field: &str, value: &Value, right: &str) -> ApiError {
    let shown = cut(&value.to_string(), 80);
    ApiError::field(field, format!("{field} = {shown}: must be {right}"))
}
