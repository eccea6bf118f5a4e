//! Suggestions for unknown words.

use grpo_lambda::methods;
use grpo_lambda::settings::{SettingError, did_you_mean};

use super::{METHOD, METHOD_NAME, fields, foreign};

/// The last part of a dotted key.
fn last(key: &str) -> &str {
    key.rsplit('.').next().unwrap_or(key)
}

/// The keys, ours and the methods', whose last part is `word`.
pub(super) fn ending_in(word: &str) -> Vec<String> {
    let matching = fields().filter(|f| last(f.key) == word).map(|f| f.key.to_owned());
    let matching: Vec<String> = matching.collect();
    if !matching.is_empty() {
        return matching;
    }
    let of_methods = methods::REGISTRY.iter().flat_map(|m| (m.params)()).map(|p| p.key);
    of_methods.filter(|key| *key == word).map(|key| format!("{METHOD}{key}")).take(1).collect()
}

/// A hint for an unknown key, or nothing.
pub fn of_key(key: &str) -> String {
    let word = last(key);
    let same = ending_in(word);
    // A name of several parts is theirs, also where one of ours has the same end.
    if let Some(hint) = foreign::hint(key, !same.is_empty()) {
        return hint;
    }
    if same.is_empty() {
        return spelt_equally(key, word);
    }
    let same: Vec<String> = same.iter().map(|key| format!("`{key}`")).collect();
    format!(" (did you mean {}?)", same.join(" or "))
}

/// The key with the most similar spelling, as a whole or in its last part.
fn spelt_equally(key: &str, word: &str) -> String {
    let whole = did_you_mean(key, fields().map(|f| f.key).chain([METHOD_NAME]));
    if !whole.is_empty() {
        return whole;
    }
    let params: Vec<&str> = methods::REGISTRY.iter().flat_map(|m| (m.params)()).map(|p| p.key).collect();
    let parts = fields().map(|f| last(f.key)).chain(params);
    let near = did_you_mean(word, parts);
    let Some(part) = near.split('`').nth(1) else { return String::new() };
    let keys: Vec<String> = ending_in(part).iter().map(|key| format!("`{key}`")).collect();
    format!(" (did you mean {}?)", keys.join(" or "))
}

/// Adds a hint to an unknown method's name in capitals or with dashes.
pub fn with_method_hint(error: SettingError) -> SettingError {
    match error {
        SettingError::UnknownMethod { name, hint, known } if hint.is_empty() => {
            let plain = name.to_lowercase().replace(['-', ' ', '.'], "_");
            let hint = did_you_mean(&plain, methods::REGISTRY.iter().map(|m| m.name));
            SettingError::UnknownMethod { name, hint, known }
        }
        error => error,
    }
}
