//! An object of JSON, each of whose keys is given once.

use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;

use serde::Deserialize;
use serde::de::{Deserializer, Error, MapAccess, Visitor};

/// The fields of an object.
///
/// # Errors
/// For what is no object, and for a key that is given twice, of which other readers take the last value.
pub fn fields<'de, V: Deserialize<'de>>(text: &'de str) -> Result<BTreeMap<String, V>, serde_json::Error> {
    let mut reader = serde_json::Deserializer::from_str(text);
    let fields = reader.deserialize_map(Once(PhantomData))?;
    reader.end()?;
    Ok(fields)
}

struct Once<V>(PhantomData<V>);

impl<'de, V: Deserialize<'de>> Visitor<'de> for Once<V> {
    type Value = BTreeMap<String, V>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut fields = BTreeMap::new();
        while let Some((key, value)) = map.next_entry::<String, V>()? {
            if fields.contains_key(&key) {
                return Err(A::Error::custom(format_args!("`{key}` is given twice; leave one of them out")));
            }
            fields.insert(key, value);
        }
        Ok(fields)
    }
}
