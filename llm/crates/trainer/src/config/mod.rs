//! The one configuration of a training run.
//!
//! A preset (a shipped one's name or a TOML file) gives values to dotted keys, `key=value` overrides change them, and every other key takes its
//! default from [`fields`]. The result is written into the run directory as TOML, itself a preset that repeats the run.
//! [`grpo_lambda::methods::configure`] checks the method's settings, which live under `method.`.

mod build;
pub mod divisor;
mod error;
mod fields;
#[doc(hidden)]
pub mod foreign;
#[doc(hidden)]
pub mod given;
pub mod hints;
mod idle;
mod presets;
mod rewards;
mod rollout;
mod sampling;
pub mod schedule;
mod section;
mod sections;
mod task;
mod typed;
mod words;

pub use error::ConfigError;
pub use fields::{Field, ValueKind};
pub use idle::idle_settings;
pub use presets::{PRESETS, Preset};
pub use rollout::{RolloutConfig, rollout_url};
pub use sampling::{Branching, Sampling, StepStart, TREE_METHODS};
pub use sections::{
    AdamConfig, CheckpointConfig, CriticConfig, ENGINES, EvalConfig, GpuConfig, MemoryConfig, ModelShape,
    ModelSource, RlConfig, SftConfig, fields,
};
pub use words::EngineKind;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use grpo_lambda::group::InputKind;
use grpo_lambda::methods::Configured;
use grpo_lambda::settings::did_you_mean;
use grpo_lambda_decoder::disk::read_regular_text;
use grpo_lambda_decoder::lora::LoraSettings;
use grpo_lambda_decoder::optim::AdamWSettings;
use grpo_lambda_gpu::Dtype;
use grpo_lambda_gpu::select::DevicePreference;

use self::build::build;
use self::fields::toml_scalar;
use self::given::RawSettings;
use crate::input::task::TaskSource;
use crate::reward::RewardConfig;

/// Beginning of the keys of the method's settings.
pub const METHOD: &str = "method.";
const METHOD_NAME: &str = "method.name";

/// Bytes of a configuration file; ours have about 5,000.
const LARGEST_FILE: u64 = 16 << 20;

/// A resolved configuration.
#[derive(Clone)]
pub struct Config {
    /// The seed of all random numbers.
    pub seed: u64,
    /// Worker threads, 0 for all.
    pub threads: usize,
    pub engine: EngineKind,
    pub device: DevicePreference,
    /// Number format of weights and activations on a card, if given.
    pub dtype: Option<Dtype>,
    pub memory: MemoryConfig,
    pub gpu: GpuConfig,
    pub model: ModelSource,
    /// The adapter to train; `None` if every weight is trained.
    pub lora: Option<LoraSettings>,
    pub task: TaskSource,
    pub adam: AdamConfig,
    pub sft: SftConfig,
    pub rl: RlConfig,
    pub critic: CriticConfig,
    /// The server that samples, if any.
    pub rollout: Option<RolloutConfig>,
    pub reward: RewardConfig,
    pub eval: EvalConfig,
    pub checkpoint: CheckpointConfig,
    pub method: String,
    configured: Arc<Configured>,
    /// Every value in its canonical spelling, `method.*` included; the other fields are parsed from it.
    values: BTreeMap<String, String>,
}

impl PartialEq for Config {
    fn eq(&self, other: &Config) -> bool {
        self.values == other.values
    }
}

impl fmt::Debug for Config {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.values.fmt(f)
    }
}

impl Config {
    /// A preset's placeholder for the user's data set.
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
        Self::resolve_part(preset, overrides).and_then(|config| presets::check_needs(preset, config))
    }

    /// [`Config::resolve`] for a preset that may still lack its model or data.
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

    /// This configuration with `memory.recompute_layers=auto` decided: layers are kept if the configuration that keeps them `fits`. Any other value
    /// stays, and the configuration is still written with `auto`.
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

    /// Reads a file that [`Config::to_toml`] wrote.
    pub fn read(path: &Path) -> Result<Config, ConfigError> {
        let text = read_regular_text(path, LARGEST_FILE)
            .map_err(|source| ConfigError::Read { path: path.to_owned(), source })?;
        Config::parse(&text, &path.display().to_string())
    }

    /// The optimiser of supervised training.
    pub fn sft_optimiser(&self) -> AdamWSettings {
        self.adam.clipped(self.sft.grad_clip)
    }

    /// The optimiser of RL.
    pub fn rl_optimiser(&self) -> AdamWSettings {
        self.adam.clipped(self.rl.grad_clip)
    }

    /// The method with its settings.
    pub fn configured(&self) -> &Configured {
        &self.configured
    }

    /// True if a critic learns next to the policy: the method reads its values.
    pub fn has_critic(&self) -> bool {
        self.configured().extra_inputs().contains(&InputKind::Values)
    }

    /// The peak learning rate of a critic; unless it is given, a copy of a checkpoint takes one that keeps what the checkpoint knows.
    pub fn critic_rate(&self) -> f64 {
        let usual = if matches!(self.model, ModelSource::Checkpoint(_)) { 1e-5 } else { 1e-3 };
        self.critic.lr.unwrap_or(usual)
    }

    /// A line for each changed setting of the method that has no effect given the others.
    pub fn idle(&self) -> Vec<String> {
        let idle = self.configured().idle();
        // A setting that nobody gave gets no line.
        let automatic = divisor::is_automatic(&self.values);
        idle.into_iter().filter(|line| !(automatic && divisor::is_named_in(line))).collect()
    }

    /// The method's settings that have an effect given the others, with their values in force.
    pub fn effective_method_settings(&self) -> Vec<(String, String)> {
        let configured = self.configured();
        let params = (configured.spec.params)();
        let idle =
            |key: &str| params.iter().any(|p| p.key == key && p.silenced_by(&configured.settings).is_some());
        let entries = configured.settings.entries().filter(|(key, _)| !idle(key));
        entries.map(|(key, value)| (key.to_owned(), value.to_owned())).collect()
    }

    /// Every dotted key with its canonical value: fields in order, then the method's settings.
    pub fn entries(&self) -> impl Iterator<Item = (&str, &str)> {
        let fields = fields().filter_map(|f| self.values.get_key_value(f.key));
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
            let value = match fields().find(|f| f.key == key) {
                Some(field) => field.kind.toml(value),
                None => toml_scalar(value),
            };
            out += &format!("{name} = {value}\n");
        }
        out
    }
}

/// A field in which two configurations differ.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SettingDifference {
    /// The dotted key.
    pub key: String,
    /// Its value in the first, if it has one.
    pub old: Option<String>,
    /// Its value in the second, if it has one.
    pub new: Option<String>,
    /// True if a run with the one value cannot be resumed with the other.
    pub affects_result: bool,
}

impl fmt::Display for SettingDifference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let show = |v: &Option<String>| v.clone().unwrap_or_else(|| "(absent)".to_owned());
        write!(f, "{}: {} -> {}", self.key, show(&self.old), show(&self.new))
    }
}

impl Config {
    /// True if a setting of the method has no effect given the others, as the divisor of a loss that is a mean.
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
        let mut seen = BTreeSet::new();
        keys.retain(|key| seen.insert(*key));
        let in_force = |config: &Config, key: &str| {
            config.values.get(key).map(|value| divisor::resolved(&config.values, key, value))
        };
        // `auto` is the number that it stands for, and where both are, what it follows is the difference.
        let differ = |key: &&str| {
            self.values.get(*key) != other.values.get(*key) && in_force(self, key) != in_force(other, key)
        };
        let difference = |key: &str| SettingDifference {
            key: key.to_owned(),
            old: self.values.get(key).cloned(),
            new: other.values.get(key).cloned(),
            affects_result: fields().find(|f| f.key == key).is_none_or(|f| f.affects_result)
                && !(self.is_idle(key) && other.is_idle(key)),
        };
        keys.into_iter().filter(differ).map(difference).collect()
    }
}
