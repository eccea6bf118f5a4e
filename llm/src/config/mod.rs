//! The one configuration of a training run.
//!
//! A preset (a TOML file, or the name of one shipped with the program) gives values to dotted keys, `key=value` overrides change them, and
//! every other key takes its default from [`FIELDS`]. The result is written into the run directory as TOML that is
//! itself a preset repeating the run. Settings of the method live under `method.` and are checked by
//! [`grpo_lambda::methods::configure`], so they are spelt as everywhere else.

pub mod divisor;
mod fields;
mod foreign;
pub mod hints;
mod idle;
mod needs;
mod rewards;
mod rollout;
pub mod schedule;
#[cfg(test)]
mod tests;
mod typed;

pub use fields::{FIELDS, Field, ValueKind};
pub use idle::idle_settings;
pub use rollout::{EngineKind, RolloutConfig};

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

use grpo_lambda::methods::{self, Configured};
use grpo_lambda::settings::{SettingError, did_you_mean};
use grpo_lambda_decoder::disk::read_regular_text;
use grpo_lambda_decoder::lora::LoraSettings;
use grpo_lambda_decoder::optim::AdamWSettings;
use grpo_lambda_gpu::Dtype;
use grpo_lambda_gpu::select::DevicePreference;
use grpo_lambda_grade::{Extraction, Rules};
use toml::de::{DeTable, DeValue};

use crate::config::schedule::Schedule;
use crate::input::data::{Columns, OnBadRow};
use crate::input::task::{AnswerReading, DatasetTask, LengthFilter, Level, Task, TaskSource};
use crate::reward::RewardConfig;

/// A preset that ships with the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Preset {
    pub name: &'static str,
    pub text: &'static str,
}

/// Every shipped preset.
pub static PRESETS: &[Preset] = &[
    Preset { name: "tiny", text: include_str!("../../presets/tiny.toml") },
    Preset { name: "paper-qwen-1.5b", text: include_str!("../../presets/paper-qwen-1.5b.toml") },
    Preset { name: "paper-r1-qwen-1.5b", text: include_str!("../../presets/paper-r1-qwen-1.5b.toml") },
    Preset { name: "paper-r1-llama-3b", text: include_str!("../../presets/paper-r1-llama-3b.toml") },
    Preset { name: "paper-r1-qwen-7b", text: include_str!("../../presets/paper-r1-qwen-7b.toml") },
    Preset { name: "paper-tiny", text: include_str!("../../presets/paper-tiny.toml") },
    Preset { name: "finetune", text: include_str!("../../presets/finetune.toml") },
    Preset { name: "finetune-lora", text: include_str!("../../presets/finetune-lora.toml") },
    Preset { name: "gpu-learn", text: include_str!("../../presets/gpu-learn.toml") },
];

/// A configuration that was refused.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    #[error("`{name}` is neither a preset nor a file{hint}; presets: {known}")]
    UnknownPreset { name: String, hint: String, known: String },
    #[error("cannot read {path}: {source}")]
    Read { path: PathBuf, source: std::io::Error },
    #[error(
        "{0}: says nothing, and a preset without a setting is a mistake; at least one is needed, as in seed = 0, or leave --preset out for the \
         preset tiny"
    )]
    EmptyPreset(String),
    /// A preset for a model and data of one's own, without them.
    #[error("preset {preset}: {missing} missing; give {example}")]
    Needed { preset: String, missing: String, example: String },
    #[error("{origin}: {problem}")]
    Syntax { origin: String, problem: String },
    /// An override without `=`.
    #[error("`{0}` is not of the form key=value")]
    NotAPair(String),
    #[error("{origin}: unknown key `{key}`{hint}")]
    UnknownKey { origin: String, key: String, hint: String },
    #[error(
        "{origin}: {key}: training samples from the whole distribution, because the log-probability of a truncated one differs \
         from the trainer's by the mass cut off; leave it out (rl.temperature sharpens, and llm-train generate has --top-p and --top-k)"
    )]
    Truncated { origin: String, key: String },
    #[error("{key} is given twice: {first} and {second}")]
    Twice { key: String, first: String, second: String },
    #[error("{origin}: {key} = {value}: must be {expected}")]
    Invalid { origin: String, key: String, value: String, expected: String },
    /// Values that are valid one by one and conflict with each other.
    #[error("{0}")]
    Conflict(String),
    #[error("{origin}: {}", of_method(.source))]
    Method { origin: String, source: Box<SettingError> },
}

/// Names a refused value by its dotted key; the other messages already name the method.
fn of_method(error: &SettingError) -> String {
    match error {
        SettingError::Invalid { .. } | SettingError::Twice { .. } => format!("{METHOD}{error}"),
        SettingError::UnknownMethod { .. } | SettingError::UnknownKey { .. } => error.to_string(),
    }
}

/// Where the model comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ModelSource {
    /// A Hugging Face checkpoint directory.
    Checkpoint(PathBuf),
    /// Random weights in this shape.
    Random(ModelShape),
}

/// The shape of a new model; its vocabulary is the tokenizer's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ModelShape {
    pub hidden: usize,
    pub layers: usize,
    /// Attention heads.
    pub heads: usize,
    /// Heads of keys and values.
    pub kv_heads: usize,
    /// Width inside the feed-forward part.
    pub intermediate: usize,
}

#[derive(Clone, Debug, PartialEq)]
pub struct SftConfig {
    pub steps: u64,
    /// Examples per step.
    pub batch: usize,
    /// Share of the examples that show their working; the others state the answer at once.
    pub worked_share: f64,
    /// Learning rate of every step.
    pub schedule: Schedule,
    pub adam: AdamWSettings,
}

/// Trades memory for time, in both stages; changes no result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryConfig {
    /// Tokens per forward pass; a longer row is a pass of its own.
    pub micro_batch_tokens: usize,
    /// Whether a layer's activations are computed again in the backward pass instead of kept.
    pub recompute_layers: bool,
}

#[derive(Clone, Debug, PartialEq)]
pub struct RlConfig {
    /// Steps: batches sampled.
    pub steps: u64,
    /// Problems per step.
    pub prompts_per_step: usize,
    /// Responses per problem.
    pub group_size: usize,
    /// Gradient steps per batch.
    pub inner_updates: usize,
    /// Learning rate of every step; inner updates share their step's.
    pub schedule: Schedule,
    pub adam: AdamWSettings,
    /// Length limit of a response.
    pub max_new_tokens: usize,
    /// Sampling temperature.
    pub temperature: f64,
    /// Whether to sample until enough groups are mixed.
    pub dynamic_sampling: bool,
    /// Consecutive skipped steps before the run stops.
    pub max_nan_steps: u64,
    /// The largest mean error of [`grpo_lambda_decoder::drift::Drift`] with which the run goes on.
    pub max_logp_error: f64,
}

#[derive(Clone, Debug, PartialEq)]
pub struct EvalConfig {
    pub n: usize,
    /// Steps between evaluations; 0: only before and after.
    pub every: u64,
    /// 0: greedy.
    pub temperature: f64,
    /// Evaluations in a row without a higher accuracy after which RL stops; 0: never.
    pub patience: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CheckpointConfig {
    /// Steps between them.
    pub every: u64,
    /// How many stay.
    pub keep: usize,
    /// Whether that of the best evaluation stays, too.
    pub best: bool,
}

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

/// Keys of other trainers that would silently make training off-policy.
const TRUNCATIONS: [&str; 3] = ["rl.top_p", "rl.top_k", "rl.min_p"];

/// Bytes of a configuration file; ours have about 5,000.
const LARGEST_FILE: u64 = 16 << 20;
const METHOD: &str = "method.";
const METHOD_NAME: &str = "method.name";
const DEFAULT_METHOD: &str = "grpo_lambda";

/// Values as given so far, by key, with the place each comes from.
#[derive(Default)]
struct RawSettings(BTreeMap<String, (String, String)>);

impl RawSettings {
    fn insert(&mut self, origin: &str, key: &str, value: String) -> Result<(), ConfigError> {
        if TRUNCATIONS.contains(&key) {
            return Err(ConfigError::Truncated { origin: origin.to_owned(), key: key.to_owned() });
        }
        if !key.starts_with(METHOD) && !FIELDS.iter().any(|f| f.key == key) {
            let hint = hints::of_key(key);
            return Err(ConfigError::UnknownKey { origin: origin.to_owned(), key: key.to_owned(), hint });
        }
        // Another method does not understand this one's settings.
        if key == METHOD_NAME && self.0.get(METHOD_NAME).is_some_and(|(name, _)| *name != value) {
            self.0.retain(|key, _| !key.starts_with(METHOD));
        }
        self.0.insert(key.to_owned(), (value, origin.to_owned()));
        Ok(())
    }

    /// `text` is the file, `places` the same table with where its keys stand.
    fn table(
        &mut self,
        (origin, text): (&str, &str),
        prefix: &str,
        table: &toml::Table,
        places: &DeTable<'_>,
    ) -> Result<(), ConfigError> {
        // The name first: it decides which other settings survive.
        let name_first = |key: &&String| *key != "name";
        let mut entries: Vec<_> = table.iter().collect();
        entries.sort_by_key(|(key, _)| name_first(key));
        for (name, value) in entries {
            let key = format!("{prefix}{name}");
            let Some((spot, place)) = places.iter().find(|(k, _)| k.get_ref() == name) else { continue };
            match (value, place.get_ref()) {
                (toml::Value::Table(table), DeValue::Table(places)) => {
                    self.table((origin, text), &format!("{key}."), table, places)?;
                }
                (value, _) => {
                    let line = line_of(text, spot.span().start);
                    self.insert(&format!("{origin}, line {line}"), &key, plain(value))?;
                }
            }
        }
        Ok(())
    }
}

/// A TOML value as one would type it in an override.
fn plain(value: &toml::Value) -> String {
    match value {
        toml::Value::String(text) => text.clone(),
        toml::Value::Float(x) => x.to_string(),
        toml::Value::Array(list) => list.iter().map(plain).collect::<Vec<_>>().join(","),
        other => other.to_string(),
    }
}

/// A word, number or flag as TOML.
fn toml_scalar(text: &str) -> String {
    match text.parse::<f64>() {
        _ if matches!(text, "true" | "false") => text.to_owned(),
        Ok(x) if x.is_finite() => {
            format!("{x:?}") // always with a point or an exponent, so that TOML reads a float
        }
        _ => toml::Value::String(text.to_owned()).to_string(),
    }
}

impl Config {
    /// What stands in a preset for the data set of the user's.
    pub const OWN_DATA: &'static str = "(yours)";

    /// A preset, by name or as a file, with `key=value` overrides.
    ///
    /// ```
    /// use grpo_lambda_llm::config::Config;
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
            Some(shipped) => read(&mut given, shipped.text, &format!("preset {preset}"))?,
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
                read(&mut given, &text, preset)?;
                if given.0.is_empty() {
                    return Err(ConfigError::EmptyPreset(preset.to_owned()));
                }
            }
        }
        overridden(given, overrides)
    }

    /// This configuration with `key=value` overrides.
    ///
    /// ```
    /// use grpo_lambda_llm::config::Config;
    /// let config = Config::resolve("tiny", &["rl.steps=7", "method.lambda=0.9"]).unwrap();
    /// let other = config.with(&["method.name=grpo", "seed=3"]).unwrap();
    /// assert_eq!((other.rl.steps, other.seed, other.method.as_str()), (7, 3, "grpo"));
    /// ```
    pub fn with(&self, overrides: &[impl AsRef<str>]) -> Result<Config, ConfigError> {
        let mut given = RawSettings::default();
        read(&mut given, &self.to_toml(), "configuration")?;
        overridden(given, overrides)
    }

    /// A configuration given as TOML; `origin` names it in errors.
    pub fn parse(text: &str, origin: &str) -> Result<Config, ConfigError> {
        let mut given = RawSettings::default();
        read(&mut given, text, origin)?;
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

const COMMAND_LINE: &str = "command line";

/// Builds a configuration from `given` and `key=value` words over it.
fn overridden(mut given: RawSettings, overrides: &[impl AsRef<str>]) -> Result<Config, ConfigError> {
    let mut pairs: Vec<(&str, &str)> = Vec::new();
    for word in overrides {
        let word = word.as_ref();
        let (key, value) = word.split_once('=').ok_or_else(|| ConfigError::NotAPair(word.to_owned()))?;
        if let Some((_, first)) = pairs.iter().find(|(k, _)| *k == key) {
            let (first, second) = ((*first).to_owned(), value.to_owned());
            return Err(ConfigError::Twice { key: key.to_owned(), first, second });
        }
        pairs.push((key, value));
    }
    pairs.sort_by_key(|(key, _)| *key != METHOD_NAME);
    for &(key, value) in &pairs {
        given.insert(COMMAND_LINE, key, value.to_owned())?;
    }
    build(given)
}

fn read(given: &mut RawSettings, text: &str, origin: &str) -> Result<(), ConfigError> {
    let refused = |e: toml::de::Error| {
        let start = e.span().map_or(0, |span| span.start).min(text.len());
        let column = text[..start].chars().rev().take_while(|c| *c != '\n').count() + 1;
        let problem = format!("line {}, column {column}: {}", line_of(text, start), e.message());
        ConfigError::Syntax { origin: origin.to_owned(), problem }
    };
    let table: toml::Table = text.parse().map_err(refused)?;
    let places = DeTable::parse(text).map_err(refused)?;
    given.table((origin, text), "", &table, places.get_ref())
}

/// The line, from 1, of a byte.
fn line_of(text: &str, byte: usize) -> usize {
    text[..byte.min(text.len())].matches('\n').count() + 1
}

fn configure(values: &BTreeMap<String, String>) -> Result<Configured, SettingError> {
    let settings = values
        .iter()
        .filter_map(|(key, value)| Some((key.strip_prefix(METHOD)?, divisor::resolved(values, key, value))));
    let overrides: Vec<(String, String)> =
        settings.filter(|(k, _)| *k != "name").map(|(k, v)| (k.to_owned(), v.to_owned())).collect();
    methods::configure(&values[METHOD_NAME], &overrides)
}

const SHAPE: [&str; 5] =
    ["model.hidden", "model.layers", "model.heads", "model.kv_heads", "model.intermediate"];

fn build(RawSettings(mut given): RawSettings) -> Result<Config, ConfigError> {
    let mut values = BTreeMap::new();
    for field in FIELDS {
        let (value, origin) =
            given.remove(field.key).unwrap_or_else(|| (field.default.to_owned(), "default".to_owned()));
        let canonical = field.kind.canonical(&value).ok_or_else(|| ConfigError::Invalid {
            origin: origin.clone(),
            key: field.key.to_owned(),
            expected: format!("{}{}", field.kind, field.kind.hint(&value)),
            value,
        })?;
        // A checkpoint determines the shape; another one on the command line is refused as a mistake.
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
        // What is automatic stays so: another completion limit then has its own divisor.
        values.entry(format!("{METHOD}{key}")).or_insert_with(|| value.to_owned());
    }
    typed::read(values)
}

/// Default values of the fields that only a dataset has.
const UNSET: [&str; 2] = ["none", "auto"];

fn task(values: &BTreeMap<String, String>) -> Result<TaskSource, ConfigError> {
    let word = |key: &str| values[key].as_str();
    let said = |key: &str| Some(word(key)).filter(|w| !UNSET.contains(w)).map(str::to_owned);
    if word("task.kind") == "dataset" {
        let data = said("task.data").ok_or_else(|| {
            let right = "must be a file, a directory, or owner/name in the Hugging Face cache";
            ConfigError::Conflict(format!("task.kind = dataset: task.data is missing; {right}"))
        })?;
        let column = |name: &str| said(&format!("task.columns.{name}"));
        return Ok(TaskSource::Dataset(DatasetTask {
            data,
            test: said("task.test"),
            columns: Columns {
                problem: column("problem"),
                answer: column("answer"),
                solution: column("solution"),
            },
            template: word("task.template").to_owned(),
            system: said("task.system"),
            reading: AnswerReading {
                extraction: Extraction::find(word("task.extract")),
                rules: Rules::parse(word("task.rules"))
                    .map_err(|e| ConfigError::Conflict(format!("task.rules: {e}")))?,
            },
            on_bad_row: OnBadRow::parse(word("task.on_bad_row")).expect("one of the choices"),
            lengths: LengthFilter {
                prompt: said("task.max_prompt_tokens").and_then(|n| n.parse().ok()),
                solution: said("task.max_solution_tokens").and_then(|n| n.parse().ok()),
            },
        }));
    }
    if let Some(data) = said("task.data") {
        let kind = word("task.kind");
        return Err(ConfigError::Conflict(format!(
            "task.data = {data}: task.kind is {kind}; with data it must be dataset"
        )));
    }
    let max_operand = values["task.max_operand"].parse().expect("within its bounds");
    let level = |steps: &str| Level { steps: steps.parse().expect("canonical list"), max_operand };
    Ok(TaskSource::Embedded(match word("task.kind") {
        "addition" => Task::Addition,
        _ => Task::Stories(word("task.levels").split(',').map(level).collect()),
    }))
}

fn check_shape(shape: &ModelShape) -> Result<(), ConfigError> {
    let ModelShape { hidden, heads, kv_heads, .. } = *shape;
    let conflict = |text: String| Err(ConfigError::Conflict(text));
    if hidden % heads != 0 {
        return conflict(format!("model.hidden = {hidden} is not a multiple of model.heads = {heads}"));
    }
    if heads % kv_heads != 0 {
        return conflict(format!("model.heads = {heads} is not a multiple of model.kv_heads = {kv_heads}"));
    }
    if (hidden / heads) % 2 != 0 {
        return conflict(format!(
            "model.hidden / model.heads = {} is odd, and rotary positions turn pairs",
            hidden / heads
        ));
    }
    Ok(())
}
