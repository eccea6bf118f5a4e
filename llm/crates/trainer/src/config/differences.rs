//! In what two configurations differ.

use std::fmt;

use super::keys::{METHOD, METHOD_NAME};
use super::{Config, FIELDS};

/// A field in which two configurations differ.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SettingDifference {
    /// The dotted key.
    pub key: String,
    /// Its value in the first, if it has one.
    pub old: Option<String>,
    /// Its value in the second, if it has one.
    pub new: Option<String>,
    /// Whether a run with the one value cannot be resumed with the other.
    pub affects_result: bool,
}

impl fmt::Display for SettingDifference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let show = |v: &Option<String>| v.clone().unwrap_or_else(|| "(absent)".to_owned());
        write!(f, "{}: {} -> {}", self.key, show(&self.old), show(&self.new))
    }
}

impl Config {
    /// Whether a setting of the method has no effect beside the others, as the divisor of a loss that is a mean.
    fn is_idle(&self, key: &str) -> bool {
        let known = |key: &str| self.values.contains_key(&format!("{METHOD}{key}"));
        key != METHOD_NAME
            && key.strip_prefix(METHOD).is_some_and(|key| {
                known(key) && !self.effective_method_settings().iter().any(|(effective, _)| effective == key)
            })
    }

    /// The fields in which `other` differs from this configuration.
    pub fn differences(&self, other: &Config) -> Vec<SettingDifference> {
        let mut keys: Vec<&str> = self.entries().chain(other.entries()).map(|(k, _)| k).collect();
        let mut seen = std::collections::BTreeSet::new();
        keys.retain(|key| seen.insert(*key));
        let differ = |key: &&str| self.values.get(*key) != other.values.get(*key);
        let difference = |key: &str| SettingDifference {
            key: key.to_owned(),
            old: self.values.get(key).cloned(),
            new: other.values.get(key).cloned(),
            affects_result: FIELDS.iter().find(|f| f.key == key).is_none_or(|f| f.affects_result)
                && !(self.is_idle(key) && other.is_idle(key)),
        };
        keys.into_iter().filter(differ).map(difference).collect()
    }
}
