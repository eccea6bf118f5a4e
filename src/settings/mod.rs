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

    /// The settings that were changed but have no effect beside the others, in words:
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

#[cfg(test)]
mod tests {
    use super::Silence;
    use crate::methods::{REGISTRY, parse};

    #[test]
    fn silence_is_told_from_the_setting_that_is_read() {
        assert!(idle("high_entropy", "top_fraction=0.05 entropy_scope=response").is_empty());
        assert_eq!(
            idle("high_entropy", "top_fraction=0.05 entropy_scope=response entropy_threshold=0.5"),
            ["top_fraction=0.05", "entropy_scope=response"]
                .map(|own| format!("{own} has no effect with entropy_threshold=0.5"))
        );
        // A number is one number however it is spelt.
        assert_eq!(idle("grpo", "kl=k1 beta=0.0"), ["kl=k1 has no effect with beta=0.0"]);
        assert!(idle("grpo", "epsilon_low=0.20 clip=none").is_empty(), "the default");
        // The clipped trace reads the bounds whatever the clip.
        assert!(idle("p_trace_reconstructed", "form=clipped clip=none epsilon_low=0.1").is_empty());
        let other_form = idle("p_trace_reconstructed", "form=history clip=none epsilon_low=0.1");
        assert_eq!(other_form, ["epsilon_low=0.1 has no effect with clip=none"]);
    }

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
                for (key, silence) in &p.idle_under {
                    let other =
                        params.iter().find(|o| o.key == *key).unwrap_or_else(|| panic!("{}: {key}", p.key));
                    let taken = |value: &&str| other.kind.canonical(value).is_some();
                    let fits = match silence {
                        Silence::Of(values) => values.iter().all(taken),
                        Silence::AllBut(value) => taken(value),
                    };
                    assert!(fits, "{}: {key} never takes {silence:?}", p.key);
                }
            }
        }
    }
}
