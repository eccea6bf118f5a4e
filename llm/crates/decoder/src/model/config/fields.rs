//! Typed reading of a JSON object, with errors that name field and value.

use serde_json::{Map, Value};

use crate::model::error::{Error, Result};

/// An object of the file, with typed reading and errors that name field and value.
pub(super) struct Fields<'a> {
    pub(super) map: &'a Map<String, Value>,
    pub(super) file: &'a str,
    pub(super) prefix: &'a str,
}

impl<'a> Fields<'a> {
    /// The value, unless absent or null.
    pub(super) fn get(&self, field: &str) -> Option<&'a Value> {
        self.map.get(field).filter(|v| !v.is_null())
    }

    pub(super) fn has(&self, field: &str) -> bool {
        self.get(field).is_some()
    }

    pub(super) fn error(&self, field: &str, reason: impl Into<String>) -> Error {
        let value = self.map.get(field).map_or("missing".to_string(), Value::to_string);
        Error::Config {
            file: self.file.into(),
            field: format!("{}{field}", self.prefix),
            value,
            reason: reason.into(),
        }
    }

    pub(super) fn refuse<T>(&self, field: &str, reason: impl Into<String>) -> Result<T> {
        Err(self.error(field, reason))
    }

    /// A whole number from 1 to `most`.
    pub(super) fn size(&self, field: &str, default: Option<usize>, most: usize) -> Result<usize> {
        let found = self.get(field).map(|v| v.as_u64().and_then(|n| usize::try_from(n).ok()));
        match (found, default) {
            (None, Some(default)) => Ok(default),
            (Some(Some(n)), _) if (1..=most).contains(&n) => Ok(n),
            _ => self.refuse(field, format!("a positive integer is needed, at most {most}")),
        }
    }

    /// A number above 0 and at most `most`.
    pub(super) fn positive(&self, field: &str, default: Option<f64>, most: f64) -> Result<f64> {
        match (self.get(field).map(Value::as_f64), default) {
            (None, Some(default)) => Ok(default),
            (Some(Some(x)), _) if x > 0.0 && x <= most => Ok(x),
            _ => self.refuse(field, format!("a positive number is needed, at most {most:e}")),
        }
    }

    pub(super) fn flag(&self, field: &str, default: bool) -> Result<bool> {
        match self.get(field) {
            None => Ok(default),
            Some(Value::Bool(b)) => Ok(*b),
            Some(_) => self.refuse(field, "true or false is needed"),
        }
    }

    /// The one of two names of a field that is there; two that contradict each other are refused.
    pub(super) fn one_of(&self, names: [&'static str; 2]) -> Result<&'static str> {
        let [first, second] = names;
        match (self.get(first), self.get(second)) {
            (Some(a), Some(b)) if a != b => {
                self.refuse(first, format!("`{second}` says {b}; leave one of them out"))
            }
            (None, Some(_)) => Ok(second),
            _ => Ok(first),
        }
    }

    /// A token id, a list of them, or none.
    pub(super) fn tokens(&self, field: &str) -> Result<Vec<u32>> {
        let one = |v: &Value| v.as_u64().and_then(|n| u32::try_from(n).ok());
        let found = match self.get(field) {
            None => Some(Vec::new()),
            Some(Value::Array(list)) => list.iter().map(one).collect(),
            Some(v) => one(v).map(|n| vec![n]),
        };
        found.ok_or_else(|| self.error(field, "a token id or a list of token ids is needed"))
    }
}

/// The largest accepted numbers of a `config.json`: far above any model, and far below what takes memory by itself or overflows a product of
/// two of them.
pub(super) mod limits {
    /// Bytes of the file.
    pub(in crate::model::config) const FILE: u64 = 16 << 20;
    /// Layers; the deepest published models have about 200.
    pub(in crate::model::config) const LAYERS: usize = 10_000;
    /// Tokens of the vocabulary, and widths of the residual stream and of the MLP.
    pub(in crate::model::config) const WIDTH: usize = 1 << 24;
    /// Heads.
    pub(in crate::model::config) const HEADS: usize = 1 << 16;
    /// Numbers per head.
    pub(in crate::model::config) const HEAD_DIM: usize = 1 << 16;
    /// Positions.
    pub(in crate::model::config) const POSITIONS: usize = 1 << 32;
    /// Added under the root of a norm, whose argument has mean square around 1.
    pub(in crate::model::config) const EPS: f64 = 1.0;
    /// Base of the rotary frequencies.
    pub(in crate::model::config) const ROPE_THETA: f64 = 1e15;
    /// Divisors of rotary frequencies.
    pub(in crate::model::config) const ROPE_FACTOR: f64 = 1e6;
}
