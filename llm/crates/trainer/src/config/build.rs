//! A checked configuration from given values.

use std::collections::BTreeMap;

use grpo_lambda::methods::{self, Configured};
use grpo_lambda::settings::SettingError;

use super::error::ConfigError;
use super::given::{COMMAND_LINE, RawSettings};
use super::{Config, METHOD, METHOD_NAME, divisor, fields, hints, rewards, sampling, typed};

const DEFAULT_METHOD: &str = "grpo_lambda";

/// The method with its settings.
pub(super) fn configure(values: &BTreeMap<String, String>) -> Result<Configured, SettingError> {
    let settings = values
        .iter()
        .filter_map(|(key, value)| Some((key.strip_prefix(METHOD)?, divisor::resolved(values, key, value))));
    let overrides: Vec<(String, String)> =
        settings.filter(|(k, _)| *k != "name").map(|(k, v)| (k.to_owned(), v)).collect();
    methods::configure(&values[METHOD_NAME], &overrides)
}

const SHAPE: [&str; 5] =
    ["model.hidden", "model.layers", "model.heads", "model.kv_heads", "model.intermediate"];

/// Checks every value; those not given take their defaults.
pub(super) fn build(RawSettings(mut given): RawSettings) -> Result<Config, ConfigError> {
    let mut values = BTreeMap::new();
    for field in fields() {
        let (value, origin) =
            given.remove(field.key).unwrap_or_else(|| (field.default.to_owned(), "default".to_owned()));
        let canonical = field.kind.canonical(&value).ok_or_else(|| ConfigError::Invalid {
            origin: origin.clone(),
            key: field.key.to_owned(),
            expected: format!("{}{}", field.kind, field.kind.hint(&value)),
            value,
        })?;
        // A checkpoint determines the shape; a shape on the command line next to it is a mistake.
        if SHAPE.contains(&field.key) && values.get("model.checkpoint").is_some_and(|c| c != "none") {
            if origin == COMMAND_LINE {
                let key = field.key;
                return Err(ConfigError::Conflict(format!(
                    "{key} = {canonical}: the checkpoint of model.checkpoint decides the shape of the model"
                )));
            }
            continue;
        }
        values.insert(field.key.to_owned(), canonical);
    }
    values.insert(METHOD_NAME.to_owned(), DEFAULT_METHOD.to_owned());
    let mut origins = BTreeMap::new();
    for (key, (value, origin)) in given {
        origins.insert(key.clone(), origin);
        // One spelling per number: 1e-6 and 0.000001 are the same run.
        let number = value.parse::<f64>().ok().filter(|x| x.is_finite());
        values.insert(key, number.map_or(value, |x| x.to_string()));
    }
    divisor::set_default(&mut values);
    rewards::check_parts(&values)?;
    let configured = configure(&values).map_err(|mut source| {
        if let SettingError::Invalid { key, expected, .. } = &mut source {
            expected.insert_str(0, divisor::also_allowed(key));
        }
        let origin = origins.remove(&format!("{METHOD}{}", source.key()));
        ConfigError::Method {
            origin: origin.unwrap_or_else(|| "default".to_owned()),
            source: Box::new(hints::with_method_hint(source)),
        }
    })?;
    let longest = values["rl.max_new_tokens"].parse().unwrap_or(usize::MAX);
    if let Some(max) = configured.method.max_len().filter(|max| *max < longest) {
        return Err(ConfigError::Conflict(format!(
            "rl.max_new_tokens = {longest}: the method's settings (method.matrix_length) take responses of at most {max} tokens"
        )));
    }
    for (key, value) in configured.settings.entries() {
        // `auto` is kept, so that the divisor follows a changed completion limit, and a weight a changed reward.
        values.entry(format!("{METHOD}{key}")).or_insert_with(|| value.to_owned());
    }
    let config = typed::read(values, configured)?;
    sampling::check(&config).map(|()| config)
}
