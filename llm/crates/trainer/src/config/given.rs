//! Values of a preset and the command line before they are checked.

use std::collections::BTreeMap;

use toml::de::{DeTable, DeValue};

use super::error::ConfigError;
use super::hints;
use super::{METHOD, METHOD_NAME, fields};

/// Other trainers' keys that would silently make training off-policy.
const TRUNCATIONS: [&str; 3] = ["rl.top_p", "rl.top_k", "rl.min_p"];

/// The origin of a value on the command line.
pub(super) const COMMAND_LINE: &str = "command line";

/// Values given so far by key, each with its origin.
#[derive(Default)]
pub struct RawSettings(pub BTreeMap<String, (String, String)>);

impl RawSettings {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Adds the values of a TOML text; `origin` names it in errors.
    pub fn read(&mut self, text: &str, origin: &str) -> Result<(), ConfigError> {
        let refused = |e: toml::de::Error| ConfigError::Syntax {
            origin: origin.to_owned(),
            problem: problem(text, &e),
        };
        let table: toml::Table = text.parse().map_err(refused)?;
        let places = DeTable::parse(text).map_err(refused)?;
        self.table((origin, text), "", &table, places.get_ref())
    }

    /// Applies `key=value` words.
    pub(super) fn overridden(mut self, overrides: &[impl AsRef<str>]) -> Result<RawSettings, ConfigError> {
        let mut pairs: Vec<(&str, &str)> = Vec::new();
        for word in overrides {
            let word = word.as_ref();
            let (key, value) = word.split_once('=').ok_or_else(|| ConfigError::NotAPair(word.to_owned()))?;
            if let Some((_, first)) = pairs.iter().find(|(k, _)| *k == key) {
                let (first, second) = ((*first).to_owned(), value.to_owned());
                return Err(ConfigError::Twice { key: key.to_owned(), first, second });
            }
            pairs.push((key, value));
        }
        pairs.sort_by_key(|(key, _)| *key != METHOD_NAME);
        for &(key, value) in &pairs {
            self.insert(COMMAND_LINE, key, value.to_owned())?;
        }
        Ok(self)
    }

    fn insert(&mut self, origin: &str, key: &str, value: String) -> Result<(), ConfigError> {
        if TRUNCATIONS.contains(&key) {
            return Err(ConfigError::Truncated { origin: origin.to_owned(), key: key.to_owned() });
        }
        if !key.starts_with(METHOD) && !fields().any(|f| f.key == key) {
            let hint = hints::of_key(key);
            return Err(ConfigError::UnknownKey { origin: origin.to_owned(), key: key.to_owned(), hint });
        }
        // Another method does not know the settings of this one.
        if key == METHOD_NAME && self.0.get(METHOD_NAME).is_some_and(|(name, _)| *name != value) {
            self.0.retain(|key, _| !key.starts_with(METHOD));
        }
        self.0.insert(key.to_owned(), (value, origin.to_owned()));
        Ok(())
    }

    /// Adds `table`; `text` is the file, `places` the table with the positions of its keys.
    fn table(
        &mut self,
        (origin, text): (&str, &str),
        prefix: &str,
        table: &toml::Table,
        places: &DeTable<'_>,
    ) -> Result<(), ConfigError> {
        // The name comes first: it decides which other settings survive.
        let name_first = |key: &&String| *key != "name";
        let mut entries: Vec<_> = table.iter().collect();
        entries.sort_by_key(|(key, _)| name_first(key));
        for (name, value) in entries {
            let key = format!("{prefix}{name}");
            let Some((spot, place)) = places.iter().find(|(k, _)| k.get_ref() == name) else { continue };
            match (value, place.get_ref()) {
                (toml::Value::Table(table), DeValue::Table(places)) => {
                    self.table((origin, text), &format!("{key}."), table, places)?;
                }
                (value, _) => {
                    let line = line_of(text, spot.span().start);
                    self.insert(&format!("{origin}, line {line}"), &key, plain(value))?;
                }
            }
        }
        Ok(())
    }
}

/// The place and the message of an error in a TOML text, in a line.
pub fn problem(text: &str, e: &toml::de::Error) -> String {
    let start = e.span().map_or(0, |span| span.start).min(text.len());
    let column = text[..start].chars().rev().take_while(|c| *c != '\n').count() + 1;
    format!("line {}, column {column}: {}", line_of(text, start), e.message().replace('\n', "; "))
}

/// A TOML value as typed in an override.
pub fn plain(value: &toml::Value) -> String {
    match value {
        toml::Value::String(text) => text.clone(),
        toml::Value::Float(x) => x.to_string(),
        toml::Value::Array(list) => list.iter().map(plain).collect::<Vec<_>>().join(","),
        other => other.to_string(),
    }
}

/// The line, from 1, of a byte.
fn line_of(text: &str, byte: usize) -> usize {
    text[..byte.min(text.len())].matches('\n').count() + 1
}
