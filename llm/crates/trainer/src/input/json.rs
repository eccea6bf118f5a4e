//! An object of JSON in which each key is given once, at every depth.

use std::collections::BTreeMap;
use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

/// An object by its keys. Values keep their spelling, so that no digit of a number is lost.
pub type Fields = BTreeMap<String, Box<RawValue>>;

/// Deepest nesting of lists and objects, that of the parser of whole values.
const DEEPEST: usize = 127;

/// The fields of an object.
///
/// # Errors
/// For what is no object, for a key that is given twice, of which other readers take the last value, and for a value that is nested too deep.
pub fn fields(text: &str) -> Result<Fields, String> {
    within(text, DEEPEST)
}

fn within(text: &str, depth: usize) -> Result<Fields, String> {
    let Pairs(pairs) = serde_json::from_str(text).map_err(not_json)?;
    let mut fields = Fields::new();
    for (name, value) in pairs {
        check_within(&value, depth)?;
        if fields.contains_key(&name) {
            return Err(format!("`{name}` is given twice; leave one of them out"));
        }
        fields.insert(name, value);
    }
    Ok(fields)
}

/// Refuses a key that is given twice anywhere in a value.
pub fn check(value: &RawValue) -> Result<(), String> {
    check_within(value, DEEPEST)
}

fn check_within(value: &RawValue, depth: usize) -> Result<(), String> {
    let text = value.get();
    let Some(depth) = depth.checked_sub(1) else {
        return Err("not JSON: nested too deep; unfold its lists and objects".to_owned());
    };
    match text.as_bytes().first() {
        Some(b'{') => within(text, depth).map(drop),
        Some(b'[') => {
            let items: Vec<&RawValue> = serde_json::from_str(text).map_err(not_json)?;
            items.into_iter().try_for_each(|item| check_within(item, depth))
        }
        _ => Ok(()),
    }
}

/// An error of the parser, which counts lines within the text that it is given.
pub fn not_json(error: serde_json::Error) -> String {
    format!("not JSON: {}", error.to_string().replace(" at line 1 column ", " at column "))
}

/// The keys and values of an object, in its order.
struct Pairs(Vec<(String, Box<RawValue>)>);

impl<'de> Deserialize<'de> for Pairs {
    fn deserialize<D: Deserializer<'de>>(reader: D) -> Result<Self, D::Error> {
        struct InOrder;
        impl<'de> Visitor<'de> for InOrder {
            type Value = Pairs;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Pairs, A::Error> {
                let mut pairs = Vec::new();
                while let Some(pair) = map.next_entry()? {
                    pairs.push(pair);
                }
                Ok(Pairs(pairs))
            }
        }
        reader.deserialize_map(InOrder)
    }
}
