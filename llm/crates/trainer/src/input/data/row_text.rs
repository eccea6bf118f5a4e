//! The text of a row as its columns.

use serde_json::value::RawValue;

use super::cells::short;
use super::turns::is_conversation;
use crate::input::json::{self, Fields, not_json};

/// The column of a row that is nothing but a list of turns.
pub(super) const BARE: &str = "conversation";

/// The line of a file that is one JSON array under the name of JSON lines.
const ARRAY: &str = "the line begins a JSON array that is no list of turns; a file that is one array of rows must have a name that ends in .json";

/// A row's columns.
pub(super) fn parse(text: &[u8]) -> Result<Fields, String> {
    let text = std::str::from_utf8(text)
        .map_err(|e| format!("not UTF-8: byte {} of the row is no text", e.valid_up_to() + 1))?;
    match text.as_bytes().first() {
        Some(b'{') => {
            let fields = json::fields(text)?;
            // The hub shows a row that is a list of turns as columns 0 and 1.
            match (fields.len(), fields.get("0"), fields.get("1")) {
                (2, Some(first), Some(second)) => {
                    bare(RawValue::from_string(format!("[{first},{second}]")).map_err(not_json)?)
                }
                _ => Ok(fields),
            }
        }
        Some(b'[') => match serde_json::from_str::<Box<RawValue>>(text) {
            Ok(turns) if is_conversation(&turns) => bare(turns),
            Err(e) if text.trim() != "[" => Err(not_json(e)),
            Ok(_) | Err(_) => Err(ARRAY.to_owned()),
        },
        _ => {
            serde_json::from_str::<&RawValue>(text).map_err(not_json)?;
            Err(format!("found {}; a row is an object with columns, or a list of turns", short(text)))
        }
    }
}

/// A row that is a list of turns.
fn bare(turns: Box<RawValue>) -> Result<Fields, String> {
    json::check(&turns)?;
    Ok(Fields::from([(BARE.to_owned(), turns)]))
}
