//! Values of a row as JSON has them.

use serde_json::value::RawValue;

use crate::input::json::Fields;

/// A text cut to what fits in a message.
pub(super) fn short(text: &str) -> String {
    match text.char_indices().nth(60) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text.to_owned(),
    }
}

/// False for null, false and an empty text, list or object.
pub(super) fn is_on(value: &RawValue) -> bool {
    !["null", "false", "\"\"", "[]", "{}"].contains(&value.get())
}

/// A text, or a number as it is spelt.
pub(super) fn scalar(value: &RawValue) -> Option<String> {
    let text = value.get();
    match text.as_bytes().first() {
        Some(b'"') => serde_json::from_str(text).ok(),
        Some(b'-' | b'0'..=b'9') => Some(text.to_owned()),
        _ => None,
    }
}

/// The spelling of a name among the columns: exactly this one, or else one that differs in case.
pub(super) fn spelt(fields: &Fields, name: &str) -> Option<String> {
    if column(fields, name).is_some() {
        return Some(name.to_owned());
    }
    fields.keys().find(|key| key.eq_ignore_ascii_case(name)).cloned()
}

/// The value of a column; a dot leads into an object.
pub(super) fn column(fields: &Fields, name: &str) -> Option<Box<RawValue>> {
    if let Some(value) = fields.get(name) {
        return Some(value.clone());
    }
    let (first, rest) = name.split_once('.')?;
    let inner: Fields = serde_json::from_str(fields.get(first)?.get()).ok()?;
    column(&inner, rest)
}

/// The names of the columns in a list.
pub(super) fn listed(fields: &Fields) -> String {
    fields.keys().map(String::as_str).collect::<Vec<_>>().join(", ")
}
