//! Values of a row as JSON has them.

use std::collections::BTreeMap;

use serde_json::value::RawValue;

/// A row as columns. Values keep their spelling, so that no digit of a number is lost.
pub(super) type Fields = BTreeMap<String, Box<RawValue>>;

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
