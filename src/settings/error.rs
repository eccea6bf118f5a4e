//! [`SettingError`]: why a setting was refused.

/// A setting that was refused. `hint` is ` (did you mean ..?)` or empty.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[allow(missing_docs, reason = "the message shows what each field holds")]
#[non_exhaustive]
pub enum SettingError {
    /// The registry has no method of this name.
    #[error("unknown method `{name}`{}", guess(.hint, .known))]
    UnknownMethod { name: String, hint: String, known: String },
    /// The method has no setting of this name.
    #[error("unknown key `{key}` for method {method}{hint}; its keys: {known}")]
    UnknownKey { method: &'static str, key: String, hint: String, known: String },
    /// A value outside what the key takes.
    #[error("{key}={value}: must be {expected}")]
    Invalid { key: String, value: String, expected: String },
    /// A key was given twice.
    #[error("{key} is given twice: {first} and {second}")]
    Twice { key: String, first: String, second: String },
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

/// The hint, or all that is known where there is none.
fn guess(hint: &str, known: &str) -> String {
    if hint.is_empty() { format!("; known methods: {known}") } else { hint.to_owned() }
}

/// ` (did you mean `x`?)` for the [`closest`] candidate, or nothing when none is close.
pub fn did_you_mean<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> String {
    closest(word, candidates).map_or(String::new(), |c| format!(" (did you mean `{c}`?)"))
}

/// The candidate whose spelling is closest to `word`, none where none is close. Capitals do not count: `GRPO` is close to `grpo`.
pub fn closest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let word = word.to_lowercase();
    candidates
        .into_iter()
        .map(|c| (strsim::jaro_winkler(&word, &c.to_lowercase()), c))
        .filter(|(score, _)| *score > 0.75)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, c)| c)
}
