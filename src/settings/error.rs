//! [`SettingError`]: why a setting was refused.

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
