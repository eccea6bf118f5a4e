//! JSON as trainers write it: repeated keys are kept to be refused by name, and so are Python's bare `NaN` and `Infinity`.

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::Number;
use std::borrow::Cow;
use std::fmt;

/// A JSON value.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Json {
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
pub(crate) fn parse(line: &str) -> Result<Json, String> {
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

#[cfg(test)]
mod tests {
    use super::*;

    fn list(line: &str) -> Vec<Json> {
        match parse(line) {
            Ok(Json::List(items)) => items,
            other => panic!("{line}: {other:?}"),
        }
    }

    #[test]
    fn bare_tokens_are_read_as_what_python_meant() {
        let items = list("[NaN,Infinity , -Infinity,\t1.5]");
        assert!(matches!(items[0], Json::Bare(x) if x.is_nan()));
        assert_eq!(items[1..3], [Json::Bare(f64::INFINITY), Json::Bare(f64::NEG_INFINITY)]);
        assert!(matches!(parse("NaN"), Ok(Json::Bare(_))));
    }

    #[test]
    fn the_same_words_inside_strings_are_text() {
        for text in ["NaN", "say \\\"NaN\\\" -Infinity", "é NaN, [Infinity]", "\\\\"] {
            let line = format!("[\"{text}\", NaN]");
            let expected: String = serde_json::from_str(&format!("\"{text}\"")).unwrap();
            let items = list(&line);
            assert_eq!(items[0], Json::Text(expected), "{line}");
            assert!(matches!(items[1], Json::Bare(_)), "{line}");
        }
    }

    #[test]
    fn words_that_only_resemble_them_stay_syntax_errors() {
        for line in [
            "[NaNs]",
            "[xNaN]",
            "[--Infinity]",
            "[+Infinity]",
            "[1NaN]",
            "{NaN: 1}",
            "[nan]",
            "[inf]",
            "[NaN",
        ] {
            let error = parse(line).expect_err(line);
            assert!(error.starts_with("not JSON, column "), "{error}");
        }
    }

    #[test]
    fn columns_are_those_of_the_line_as_given() {
        assert!(
            parse("[NaN, Infinity, -Infinity, ?]").unwrap_err().contains("column 28:"),
            "tokens keep their length"
        );
    }

    #[test]
    fn repeated_keys_and_large_integers_are_kept() {
        let Ok(Json::Object(entries)) = parse("{\"a\": 18446744073709551615, \"a\": 2}") else {
            panic!("an object")
        };
        assert_eq!(entries.len(), 2);
        assert_eq!(entries[0].1, Json::Number(u64::MAX.into()));
    }

    #[test]
    fn a_number_beyond_f64_is_an_error_not_an_infinity() {
        assert!(parse("[1e999]").unwrap_err().contains("out of range"));
    }
}
