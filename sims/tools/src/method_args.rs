//! `--method NAME key=value ...`, the same in every command.

use crate::failure::{Failure, one_line, quoted};
use crate::program::{call, program};
use grpo_lambda::methods::{self, Configured, MethodSpec, REGISTRY};
use grpo_lambda::settings::SettingError;
use std::path::Path;

/// A method and its settings on the command line.
#[derive(Clone, Debug, clap::Args)]
pub struct MethodArgs {
    /// The method: a name `sim methods` lists
    #[arg(long, value_name = "NAME")]
    pub method: String,
    /// Settings of the method, as in lambda=0.9 style=both; `sim methods NAME` lists its keys
    #[arg(value_name = "key=value")]
    pub settings: Vec<String>,
}

impl MethodArgs {
    /// The configured method.
    ///
    /// # Errors
    /// For words without `=` and whatever [`methods::configure`] refuses.
    pub fn configure(&self) -> Result<Configured, Failure> {
        let spec = find(&self.method).map_err(|what| Failure::Refused(format!("--method: {what}")))?;
        let (pairs, stray): (Vec<_>, Vec<_>) =
            self.settings.iter().partition(|word| word.find('=') > Some(0));
        if let Some(first) = stray.first() {
            let words = stray.iter().map(|w| quoted(w)).collect::<Vec<_>>().join(", ");
            let hint = if Path::new(first.as_str()).exists() {
                format!("; to read that file write --input {first}")
            } else {
                String::new()
            };
            let right = "settings are written key=value, as in lambda=0.9";
            return Err(Failure::Refused(format!("{words}: no setting; {right}{hint}")));
        }
        let pairs: Vec<_> = pairs
            .iter()
            .filter_map(|word| word.split_once('='))
            .map(|(key, value)| (key.to_owned(), value.to_owned()))
            .collect();
        methods::configure(spec.name, &pairs).map_err(|e| Failure::Refused(e.to_string()))
    }
}

/// The method of this name.
///
/// # Errors
/// The nearest name, and the command that lists them all.
pub(crate) fn find(name: &str) -> Result<&'static MethodSpec, String> {
    methods::find(name).map_err(|error| match error {
        SettingError::UnknownMethod { name, hint, .. } => {
            format!("unknown method `{name}`{hint}; `{} methods` lists all {}", program(), REGISTRY.len())
        }
        other => other.to_string(),
    })
}

/// Says on one line of stderr which settings were changed but have no effect with the others.
pub(crate) fn warn_of_idle_settings(configured: &Configured, command: &str) {
    let idle = configured.idle();
    if !idle.is_empty() {
        eprintln!("{}: warning: {}", call(command), one_line(&idle.join("; ")));
    }
}

/// The settings of a method that changes none.
pub(crate) const DEFAULTS: &str = "defaults";

/// `key=value` of every setting that is not its default, or [`DEFAULTS`].
pub(crate) fn settings_that_differ(configured: &Configured) -> String {
    let params = (configured.spec.params)();
    let differs = |(key, value): &(&str, &str)| params.iter().any(|p| p.key == *key && p.default != *value);
    let words: Vec<String> =
        configured.settings.entries().filter(differs).map(|(k, v)| format!("{k}={v}")).collect();
    if words.is_empty() { DEFAULTS.to_owned() } else { words.join(" ") }
}
