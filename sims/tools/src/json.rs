//! JSON as trainers write it: repeated keys are kept to be refused by name, and so are Python's bare `NaN` and `Infinity`.

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::Number;
use std::borrow::Cow;
use std::fmt;

/// A JSON value.
#[derive(Clone, Debug, PartialEq)]
pub enum Json {
    /// `null`.
    Null,
    /// `true` or `false`.
    Bool(bool),
    /// A number, integers kept exactly up to 64 bits.
    Number(Number),
    /// `NaN`, `Infinity` or `-Infinity`: not JSON, but what Python's `json.dumps` writes.
    Bare(f64),
    /// A string.
    Text(String),
    /// An array.
    List(Vec<Json>),
    /// An object in its own order, repeated keys included.
    Object(Vec<(String, Json)>),
}

/// Reads one line.
///
/// # Errors
/// Its fault as JSON, with the column (in bytes, from 1).
pub fn parse(line: &str) -> Result<Json, String> {
    serde_json::from_str(&quote_bare(line)).map_err(|e| {
        let text = e.to_string();
        let what = text.rsplit_once(" at line ").map_or(text.as_str(), |(what, _)| what);
        format!("not JSON, column {}: {what}", e.column())
    })
}

/// Stands for a bare token inside the quotes that replace its ends. A delete character, so that no text a trainer writes
/// is mistaken for one; repeated so that columns stay what they were.
const MARK: &str = "\u{7f}";
const BARE: [(&str, f64); 3] =
    [("-Infinity", f64::NEG_INFINITY), ("Infinity", f64::INFINITY), ("NaN", f64::NAN)];

/// Turns every bare token outside a string into a string of the same length. Not a word that goes on (`NaNs`),
/// nor one used as a key: those stay syntax errors.
fn quote_bare(line: &str) -> Cow<'_, str> {
    if !BARE.iter().any(|(token, _)| line.contains(token)) {
        return Cow::Borrowed(line);
    }
    let is_word =
        |c: Option<char>| c.is_some_and(|c| c.is_alphanumeric() || matches!(c, '_' | '-' | '+' | '.'));
    let mut out = String::with_capacity(line.len());
    let (mut rest, mut in_string, mut previous) = (line, false, None);
    while let Some(c) = rest.chars().next() {
        let bare = BARE.iter().find(|(token, _)| {
            let after = rest.strip_prefix(token);
            !in_string
                && !is_word(previous)
                && after.is_some_and(|a| !is_word(a.chars().next()) && !a.trim_start().starts_with(':'))
        });
        let taken = match (bare, c) {
            (Some((token, _)), _) => {
                out += &format!("\"{}\"", MARK.repeat(token.len() - 2));
                token.len()
            }
            (None, '\\') if in_string => {
                let pair: String = rest.chars().take(2).collect();
                out += &pair;
                pair.len()
            }
            (None, _) => {
                in_string ^= c == '"';
                out.push(c);
                c.len_utf8()
            }
        };
        previous = rest[..taken].chars().last();
        rest = &rest[taken..];
    }
    Cow::Owned(out)
}

fn bare_value(text: &str) -> Option<f64> {
    BARE.iter().find(|(token, _)| text == MARK.repeat(token.len() - 2)).map(|(_, value)| *value)
}

impl fmt::Display for Json {
    /// For messages: numbers and words as they are, containers by name.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Json::Null => write!(f, "null"),
            Json::Bool(b) => write!(f, "{b}"),
            Json::Number(n) => write!(f, "{n}"),
            Json::Bare(x) => write!(f, "{x}"),
            Json::Text(s) => write!(f, "the text {}", crate::failure::quoted(s)),
            Json::List(items) => write!(f, "a list of {}", items.len()),
            Json::Object(_) => write!(f, "an object"),
        }
    }
}

impl<'de> Deserialize<'de> for Json {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Any;
        impl<'de> Visitor<'de> for Any {
            type Value = Json;
            fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
                f.write_str("a JSON value")
            }
            fn visit_unit<E>(self) -> Result<Json, E> {
                Ok(Json::Null)
            }
            fn visit_bool<E>(self, b: bool) -> Result<Json, E> {
                Ok(Json::Bool(b))
            }
            fn visit_u64<E>(self, n: u64) -> Result<Json, E> {
                Ok(Json::Number(n.into()))
            }
            fn visit_i64<E>(self, n: i64) -> Result<Json, E> {
                Ok(Json::Number(n.into()))
            }
            fn visit_f64<E>(self, x: f64) -> Result<Json, E> {
                Ok(Number::from_f64(x).map_or(Json::Bare(x), Json::Number))
            }
            fn visit_str<E>(self, s: &str) -> Result<Json, E> {
                Ok(bare_value(s).map_or_else(|| Json::Text(s.to_owned()), Json::Bare))
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Json, A::Error> {
                let mut items = Vec::with_capacity(seq.size_hint().unwrap_or(0));
                while let Some(item) = seq.next_element()? {
                    items.push(item);
                }
                Ok(Json::List(items))
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Json, A::Error> {
                let mut entries = Vec::new();
                while let Some(entry) = map.next_entry()? {
                    entries.push(entry);
                }
                Ok(Json::Object(entries))
            }
        }
        deserializer.deserialize_any(Any)
    }
}
