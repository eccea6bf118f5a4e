//! Settings of a method: declared once, the same keys in every command and configuration file.

use std::collections::BTreeMap;
use std::fmt;

/// What values a setting takes.
#[derive(Clone, Debug, PartialEq)]
pub enum Kind {
    /// A finite number in `min..=max`.
    Number {
        /// Smallest allowed value.
        min: f64,
        /// Largest allowed value.
        max: f64,
    },
    /// `none`, or a finite number in `min..=max`.
    OptionalNumber {
        /// Smallest allowed value.
        min: f64,
        /// Largest allowed value.
        max: f64,
    },
    /// One of these words.
    Choice(&'static [&'static str]),
    /// `true` or `false`.
    Flag,
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let range = |f: &mut fmt::Formatter<'_>, min: f64, max: f64| match (min.is_finite(), max.is_finite())
        {
            (true, true) => write!(f, "a number from {min} to {max}"),
            (true, false) => write!(f, "a number of at least {min}"),
            (false, true) => write!(f, "a number of at most {max}"),
            (false, false) => write!(f, "a finite number"),
        };
        match *self {
            Kind::Number { min, max } => range(f, min, max),
            Kind::OptionalNumber { min, max } => {
                write!(f, "none or ")?;
                range(f, min, max)
            }
            Kind::Choice(words) => write!(f, "one of {}", words.join(", ")),
            Kind::Flag => write!(f, "true or false"),
        }
    }
}

/// A setting: its key, what it takes, its default and its meaning.
#[derive(Clone, Debug, PartialEq)]
pub struct Param {
    /// The key of `key=value`.
    pub key: &'static str,
    /// What values it takes.
    pub kind: Kind,
    /// The default, spelt as a user would.
    pub default: String,
    /// Its meaning, one line.
    pub about: &'static str,
    /// Another setting, and the values of it under which this one has no effect.
    pub idle_under: Option<(&'static str, &'static [&'static str])>,
}

impl Param {
    /// A number in a range.
    pub fn number(key: &'static str, default: f64, min: f64, max: f64, about: &'static str) -> Self {
        Param { key, kind: Kind::Number { min, max }, default: default.to_string(), about, idle_under: None }
    }
    /// `none` or a number in a range.
    pub fn optional(
        key: &'static str,
        default: Option<f64>,
        min: f64,
        max: f64,
        about: &'static str,
    ) -> Self {
        let default = default.map_or("none".to_owned(), |x| x.to_string());
        Param { key, kind: Kind::OptionalNumber { min, max }, default, about, idle_under: None }
    }
    /// One of some words.
    pub fn choice(
        key: &'static str,
        default: &str,
        words: &'static [&'static str],
        about: &'static str,
    ) -> Self {
        Param { key, kind: Kind::Choice(words), default: default.to_owned(), about, idle_under: None }
    }
    /// `true` or `false`.
    pub fn flag(key: &'static str, default: bool, about: &'static str) -> Self {
        Param { key, kind: Kind::Flag, default: default.to_string(), about, idle_under: None }
    }

    /// Has no effect where the setting `key` has one of these values.
    pub fn idle_under(mut self, key: &'static str, values: &'static [&'static str]) -> Self {
        self.idle_under = Some((key, values));
        self
    }

    fn accepts(&self, value: &str) -> bool {
        let within =
            |min: f64, max: f64| value.parse::<f64>().is_ok_and(|x| x.is_finite() && min <= x && x <= max);
        match self.kind {
            Kind::Number { min, max } => within(min, max),
            Kind::OptionalNumber { min, max } => value == "none" || within(min, max),
            Kind::Choice(words) => words.contains(&value),
            Kind::Flag => matches!(value, "true" | "false"),
        }
    }
}

/// A setting that was refused.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum SettingError {
    /// No such method.
    #[error("unknown method `{name}`{hint}; known methods: {known}")]
    UnknownMethod {
        /// What was asked for.
        name: String,
        /// ` (did you mean ..?)` or empty.
        hint: String,
        /// All names.
        known: String,
    },
    /// No such key.
    #[error("unknown key `{key}` for method {method}{hint}; its keys: {known}")]
    UnknownKey {
        /// The method.
        method: &'static str,
        /// What was given.
        key: String,
        /// ` (did you mean ..?)` or empty.
        hint: String,
        /// All keys.
        known: String,
    },
    /// A value outside what the key takes.
    #[error("{key}={value}: must be {expected}")]
    Invalid {
        /// The key.
        key: String,
        /// What was given.
        value: String,
        /// What would be right.
        expected: String,
    },
    /// The same key twice.
    #[error("{key} is given twice: {first} and {second}")]
    Twice {
        /// The key.
        key: String,
        /// First value.
        first: String,
        /// Second value.
        second: String,
    },
}

impl SettingError {
    /// The key it is about; `name` where the method itself is unknown.
    pub fn key(&self) -> &str {
        match self {
            Self::UnknownMethod { .. } => "name",
            Self::UnknownKey { key, .. } | Self::Invalid { key, .. } | Self::Twice { key, .. } => key,
        }
    }
}

/// ` (did you mean `x`?)` for the closest candidate, or nothing when none is close.
pub fn did_you_mean<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> String {
    candidates
        .into_iter()
        .map(|c| (strsim::jaro_winkler(word, c), c))
        .filter(|(score, _)| *score > 0.75)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map_or(String::new(), |(_, c)| format!(" (did you mean `{c}`?)"))
}

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
            if !param.accepts(value) {
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

    /// A word.
    ///
    /// # Panics
    /// If the method did not declare `key`; so for the other getters.
    pub fn word(&self, key: &str) -> &str {
        self.raw(key)
    }

    /// A number.
    ///
    /// # Panics
    /// If `key` was not declared as a number.
    pub fn number(&self, key: &str) -> f64 {
        self.optional(key).unwrap_or_else(|| panic!("setting `{key}` is not a number"))
    }

    /// A number, or `None` for `none`.
    pub fn optional(&self, key: &str) -> Option<f64> {
        self.raw(key).parse().ok()
    }

    /// A flag.
    pub fn flag(&self, key: &str) -> bool {
        self.raw(key) == "true"
    }

    /// Whether the method declared `key`.
    pub fn has(&self, key: &str) -> bool {
        self.values.contains_key(key)
    }

    /// The settings that were changed but have no effect beside the others, in words:
    /// `soft_clamp=inner has no effect with update=trace`.
    pub fn idle(&self, params: &[Param]) -> Vec<String> {
        let message = |p: &Param| {
            let (key, values) = p.idle_under?;
            let (value, other) = (self.word(p.key), self.word(key));
            let idle = value != p.default && values.contains(&other);
            idle.then(|| format!("{}={value} has no effect with {key}={other}", p.key))
        };
        params.iter().filter_map(message).collect()
    }

    /// Every key with its value, sorted by key.
    pub fn entries(&self) -> impl Iterator<Item = (&str, &str)> {
        self.values.iter().map(|(k, v)| (*k, v.as_str()))
    }
}

#[cfg(test)]
mod tests {
    use crate::methods::{REGISTRY, parse};

    fn idle(method: &str, settings: &str) -> Vec<String> {
        parse(method, settings).expect("valid").idle()
    }

    #[test]
    fn a_changed_setting_without_effect_is_named_with_the_one_that_silences_it() {
        for (settings, expected) in [
            ("soft_clamp=inner", "soft_clamp=inner has no effect with update=trace"),
            ("floor=0.1", "floor=0.1 has no effect with matrix=equation"),
            ("max_length=64", "max_length=64 has no effect with reduction=token_mean"),
            ("kl=k2", "kl=k2 has no effect with beta=0"),
            ("clip_max=3", "clip_max=3 has no effect with clip=ppo"),
            ("clip=printed epsilon_low=0.1", "epsilon_low=0.1 has no effect with clip=printed"),
            ("clip=none epsilon_high=0.1", "epsilon_high=0.1 has no effect with clip=none"),
            ("scale=none std_ddof=0", "std_ddof=0 has no effect with scale=none"),
        ] {
            assert_eq!(idle("grpo_lambda", settings), [expected]);
        }
        assert!(idle("grpo_lambda", "update=weight soft_clamp=inner matrix=row_index floor=0.1").is_empty());
        assert!(
            idle("grpo_lambda", "soft_clamp=matrix clip_max=4 max_length=256").is_empty(),
            "the defaults"
        );
    }

    #[test]
    fn what_silences_a_setting_is_a_value_the_other_setting_takes() {
        for &spec in REGISTRY {
            let params = (spec.params)();
            for p in &params {
                let Some((key, values)) = p.idle_under else { continue };
                let other =
                    params.iter().find(|o| o.key == key).unwrap_or_else(|| panic!("{}: {key}", p.key));
                assert!(values.iter().all(|v| other.accepts(v)), "{}: {key} never takes {values:?}", p.key);
            }
        }
    }
}
