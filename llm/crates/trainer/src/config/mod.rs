//! The one configuration of a training run.
//!
//! A preset (a TOML file, or the name of one shipped with the program) gives values to dotted keys, `key=value` overrides change them, and
//! every other key takes its default from [`FIELDS`]. The result is written into the run directory as TOML that is
//! itself a preset repeating the run. Settings of the method live under `method.` and are checked by
//! [`grpo_lambda::methods::configure`], so they are spelt as everywhere else.

mod build;
mod differences;
pub mod divisor;
mod error;
mod fields;
mod foreign;
mod given;
pub mod hints;
mod idle;
mod keys;
mod needs;
mod presets;
mod rewards;
mod rollout;
pub mod schedule;
mod sections;
mod task;
#[cfg(test)]
mod tests;
mod typed;

pub use differences::SettingDifference;
pub use error::ConfigError;
pub use fields::{FIELDS, Field, ValueKind};
pub use idle::idle_settings;
pub use presets::{PRESETS, Preset};
pub use rollout::{ENGINES, RolloutConfig, rollout_url};
pub use sections::{
    CheckpointConfig, EvalConfig, MemoryConfig, ModelShape, ModelSource, RlConfig, SftConfig,
};

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use grpo_lambda::methods::Configured;
use grpo_lambda::settings::did_you_mean;
use grpo_lambda_decoder::disk::read_regular_text;
use grpo_lambda_decoder::lora::LoraSettings;
use grpo_lambda_gpu::Dtype;
use grpo_lambda_gpu::select::DevicePreference;

use self::build::{build, configure};
use self::fields::toml_scalar;
use self::given::RawSettings;
use self::keys::{METHOD, METHOD_NAME};
use crate::input::task::TaskSource;
use crate::reward::RewardConfig;

/// Bytes of a configuration file; ours have about 5,000.
const LARGEST_FILE: u64 = 16 << 20;

/// A resolved configuration.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// What all random numbers derive from.
    pub seed: u64,
    /// Worker threads, 0 for all.
    pub threads: usize,
    /// Where a run computes.
    pub device: DevicePreference,
    /// Numbers of weights and activations on a card, if said.
    pub dtype: Option<Dtype>,
    /// Parts of a batch whose gradients are added in a fixed order.
    pub shards: usize,
    /// Memory against time.
    pub memory: MemoryConfig,
    /// Where the model comes from.
    pub model: ModelSource,
    /// The adapter that is trained, where not every weight is.
    pub lora: Option<LoraSettings>,
    pub task: TaskSource,
    pub sft: SftConfig,
    pub rl: RlConfig,
    /// What samples, where this program does not.
    pub rollout: Option<RolloutConfig>,
    pub reward: RewardConfig,
    pub eval: EvalConfig,
    pub checkpoint: CheckpointConfig,
    /// The method's name.
    pub method: String,
    /// The canonical spelling of every value, from which the other fields are parsed; `method.*` included.
    values: BTreeMap<String, String>,
}

impl Config {
    /// What stands in a preset for the data set of the user's.
    pub const OWN_DATA: &'static str = "(yours)";

    /// A preset, by name or as a file, with `key=value` overrides.
    ///
    /// ```
    /// use grpo_lambda_trainer::config::Config;
    /// let config = Config::resolve("tiny", &["rl.steps=7", "method.lambda=0.9"]).unwrap();
    /// assert_eq!((config.rl.steps, config.configured().settings.number("lambda")), (7, 0.9));
    /// assert_eq!(Config::parse(&config.to_toml(), "config.toml").unwrap(), config);
    /// ```
    pub fn resolve(preset: &str, overrides: &[impl AsRef<str>]) -> Result<Config, ConfigError> {
        Self::resolve_part(preset, overrides).and_then(|config| needs::check(preset, config))
    }

    /// [`Config::resolve`], also where something that the preset needs is not given yet.
    pub fn resolve_part(preset: &str, overrides: &[impl AsRef<str>]) -> Result<Config, ConfigError> {
        let mut given = RawSettings::default();
        match PRESETS.iter().find(|p| p.name == preset) {
            Some(shipped) => given.read(shipped.text, &format!("preset {preset}"))?,
            None => {
                let text =
                    read_regular_text(Path::new(preset), LARGEST_FILE).map_err(|source| {
                        match source.kind() {
                            std::io::ErrorKind::NotFound => ConfigError::UnknownPreset {
                                name: preset.to_owned(),
                                hint: did_you_mean(preset, PRESETS.iter().map(|p| p.name)),
                                known: PRESETS.iter().map(|p| p.name).collect::<Vec<_>>().join(", "),
                            },
                            _ => ConfigError::Read { path: PathBuf::from(preset), source },
                        }
                    })?;
                given.read(&text, preset)?;
                if given.is_empty() {
                    return Err(ConfigError::EmptyPreset(preset.to_owned()));
                }
            }
        }
        given.overridden(overrides).and_then(build)
    }

    /// This configuration with `memory.recompute_layers=auto` decided: layers are kept where that `fits`, which is asked of a configuration
    /// that keeps them. Any other value stays. What is written of the configuration says `auto` still.
    ///
    /// # Errors
    /// Those of `fits`.
    pub fn deciding_recomputation<E>(
        &self,
        fits: impl FnOnce(&Config) -> Result<bool, E>,
    ) -> Result<Config, E> {
        if self.values["memory.recompute_layers"] != "auto" {
            return Ok(self.clone());
        }
        let mut kept = self.clone();
        kept.memory.recompute_layers = false;
        Ok(if fits(&kept)? { kept } else { self.clone() })
    }

    /// This configuration with `key=value` overrides.
    ///
    /// ```
    /// use grpo_lambda_trainer::config::Config;
    /// let config = Config::resolve("tiny", &["rl.steps=7", "method.lambda=0.9"]).unwrap();
    /// let other = config.with(&["method.name=grpo", "seed=3"]).unwrap();
    /// assert_eq!((other.rl.steps, other.seed, other.method.as_str()), (7, 3, "grpo"));
    /// ```
    pub fn with(&self, overrides: &[impl AsRef<str>]) -> Result<Config, ConfigError> {
        let mut given = RawSettings::default();
        given.read(&self.to_toml(), "configuration")?;
        given.overridden(overrides).and_then(build)
    }

    /// A configuration given as TOML; `origin` names it in errors.
    pub fn parse(text: &str, origin: &str) -> Result<Config, ConfigError> {
        let mut given = RawSettings::default();
        given.read(text, origin)?;
        build(given)
    }

    /// Reads what [`Config::to_toml`] wrote.
    pub fn read(path: &Path) -> Result<Config, ConfigError> {
        let text = read_regular_text(path, LARGEST_FILE)
            .map_err(|source| ConfigError::Read { path: path.to_owned(), source })?;
        Config::parse(&text, &path.display().to_string())
    }

    /// The method with its settings.
    ///
    /// # Panics
    /// Never: its settings were checked when the configuration was read.
    pub fn configured(&self) -> Configured {
        configure(&self.values).expect("settings were checked when the configuration was read")
    }

    /// The settings of the method, without `method.`, as they were given or are by default.
    pub fn method_settings(&self) -> impl Iterator<Item = (String, String)> + '_ {
        let settings = self.values.iter().filter(|(key, _)| *key != METHOD_NAME);
        settings.filter_map(|(key, value)| Some((key.strip_prefix(METHOD)?.to_owned(), value.clone())))
    }

    /// The settings of the method that were changed but have no effect beside the others, in words.
    pub fn idle(&self) -> Vec<String> {
        let idle = self.configured().idle();
        // What nobody said is not told of.
        let automatic = divisor::is_automatic(&self.values);
        idle.into_iter().filter(|line| !(automatic && divisor::is_named_in(line))).collect()
    }

    /// The settings of the method that have an effect beside the others, with the values that are in force.
    pub fn effective_method_settings(&self) -> Vec<(String, String)> {
        let configured = self.configured();
        let params = (configured.spec.params)();
        let idle = |key: &str| {
            let under = params.iter().find(|p| p.key == key).and_then(|p| p.idle_under);
            under.is_some_and(|(other, values)| values.contains(&configured.settings.word(other)))
        };
        let entries = configured.settings.entries().filter(|(key, _)| !idle(key));
        entries.map(|(key, value)| (key.to_owned(), value.to_owned())).collect()
    }

    /// Every dotted key with its canonical value: fields in their order, then the method's settings.
    pub fn entries(&self) -> impl Iterator<Item = (&str, &str)> {
        let fields = FIELDS.iter().filter_map(|f| self.values.get_key_value(f.key));
        let name = self.values.get_key_value(METHOD_NAME).into_iter();
        let method = self.values.iter().filter(|(k, _)| k.starts_with(METHOD) && *k != METHOD_NAME);
        fields.chain(name).chain(method).map(|(k, v)| (k.as_str(), v.as_str()))
    }

    /// TOML that is itself a preset with the same meaning.
    pub fn to_toml(&self) -> String {
        let mut out = String::new();
        let mut section = "";
        for (key, value) in self.entries() {
            let (in_section, name) = key.split_once('.').unwrap_or(("", key));
            if in_section != section {
                out += &format!("\n[{in_section}]\n");
                section = in_section;
            }
            let value = match FIELDS.iter().find(|f| f.key == key) {
                Some(field) => field.kind.toml(value),
                None => toml_scalar(value),
            };
            out += &format!("{name} = {value}\n");
        }
        out
    }
}
