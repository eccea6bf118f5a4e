//! Settings of a method: declared once, the same keys in every command and configuration file.

mod choice;
mod error;
mod param;

pub use choice::Choice;
pub(crate) use choice::choice;
pub use error::{SettingError, closest, did_you_mean};
pub use param::{Kind, Param, Silence, Value};

use std::collections::BTreeMap;

/// Resolved settings of a method: every key with its value, checked.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    values: BTreeMap<&'static str, String>,
}

impl Settings {
    /// Checks `overrides` against `params` and fills in defaults.
    ///
    /// # Errors
    /// [`SettingError`] for an unknown or repeated key and for a value outside its range.
    pub fn resolve(
        method: &'static str,
        params: &[Param],
        overrides: &[(String, String)],
    ) -> Result<Settings, SettingError> {
        let mut values: BTreeMap<_, _> = params.iter().map(|p| (p.key, p.default.clone())).collect();
        for (i, (key, value)) in overrides.iter().enumerate() {
            let Some(param) = params.iter().find(|p| p.key == key) else {
                let keys: Vec<_> = params.iter().map(|p| p.key).collect();
                let hint = did_you_mean(key, keys.iter().copied());
                return Err(SettingError::UnknownKey {
                    method,
                    key: key.clone(),
                    hint,
                    known: keys.join(", "),
                });
            };
            if let Some((_, first)) = overrides[..i].iter().find(|(k, _)| k == key) {
                return Err(SettingError::Twice {
                    key: key.clone(),
                    first: first.clone(),
                    second: value.clone(),
                });
            }
            if param.kind.canonical(value).is_none() {
                let expected = param.kind.to_string();
                return Err(SettingError::Invalid { key: key.clone(), value: value.clone(), expected });
            }
            values.insert(param.key, value.clone());
        }
        Ok(Settings { values })
    }

    fn raw(&self, key: &str) -> &str {
        self.values.get(key).unwrap_or_else(|| panic!("setting `{key}` is not declared by the method"))
    }

    /// The value of `key` as it was written.
    ///
    /// # Panics
    /// If the method did not declare `key`; so for the other getters.
    pub fn word(&self, key: &str) -> &str {
        self.raw(key)
    }

    /// The value of a setting that is one of the words of `T`.
    ///
    /// # Panics
    /// If `key` was not declared with words of `T`.
    pub fn choice<T: Choice>(&self, key: &str) -> T {
        let word = self.raw(key);
        T::parse(word).unwrap_or_else(|| panic!("setting `{key}`: `{word}` is none of {:?}", T::WORDS))
    }

    /// The value of a setting that is a number.
    ///
    /// # Panics
    /// If `key` was not declared as a number.
    pub fn number(&self, key: &str) -> f64 {
        self.optional(key).unwrap_or_else(|| panic!("setting `{key}` is not a number"))
    }

    /// The value of a setting that is a number or `none`.
    pub fn optional(&self, key: &str) -> Option<f64> {
        self.raw(key).parse().ok()
    }

    /// True if a setting that is a flag is on.
    pub fn flag(&self, key: &str) -> bool {
        self.raw(key) == "true"
    }

    /// True if the method declared `key`.
    pub fn has(&self, key: &str) -> bool {
        self.values.contains_key(key)
    }

    /// The settings that were changed but have no effect given the others, in words:
    /// `soft_clamp=inner has no effect with update=trace`.
    pub fn idle(&self, params: &[Param]) -> Vec<String> {
        let message = |p: &Param| {
            let (value, key) = (self.word(p.key), p.silenced_by(self)?);
            let is_default = Some(&p.default) == p.kind.canonical(value).as_ref();
            (!is_default).then(|| format!("{}={value} has no effect with {key}={}", p.key, self.word(key)))
        };
        params.iter().filter_map(message).collect()
    }

    /// Every key with its value, sorted by key.
    pub fn entries(&self) -> impl Iterator<Item = (&str, &str)> {
        self.values.iter().map(|(k, v)| (*k, v.as_str()))
    }
}
