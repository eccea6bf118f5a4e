//! The fields of a configuration: key, kind of value, default and meaning, declared once.

use std::fmt;

use grpo_lambda::settings::{Kind, did_you_mean};
use grpo_lambda_decoder::generate::{MAX_TEMPERATURE, MIN_TEMPERATURE};
use grpo_lambda_decoder::lora::TARGETS;
use grpo_lambda_gpu::StatePlace;
use grpo_lambda_gpu::select::{DTYPES, DevicePreference};

use super::rollout::ENGINES;
use super::sampling::SAMPLING;
use crate::config::schedule::ScheduleShape;
use crate::input::data::OnBadRow;
use crate::input::task::Level;

/// The values that a field accepts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ValueKind {
    /// A value as methods take it: a number in a range, a choice, a flag.
    Setting(Kind),
    /// A whole number in `min..=max`.
    Integer { min: u64, max: u64 },
    /// `none` or a whole number in `min..=max`.
    OptionalInteger { min: u64, max: u64 },
    /// Whole numbers in `min..=max`, at least one.
    Integers { min: u64, max: u64 },
    /// Some of these words, each once, at least one; written in this order.
    Words(&'static [&'static str]),
    /// A finite number greater than 0.
    Positive,
    /// `none` or a finite number greater than 0.
    OptionalPositive,
    /// `none` or a path.
    OptionalPath,
    /// A text of at least one character; this is the default.
    Text(&'static str),
}

impl fmt::Display for ValueKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            ValueKind::Setting(kind) => write!(f, "{kind}"),
            ValueKind::Integer { min, max: ANY } => {
                write!(f, "a whole number of at least {min} (and at most {ANY})")
            }
            ValueKind::Integer { min, max } => write!(f, "a whole number from {min} to {max}"),
            ValueKind::OptionalInteger { min, .. } => write!(f, "none or a whole number of at least {min}"),
            ValueKind::Integers { min, max } => {
                write!(f, "a list of whole numbers from {min} to {max}, as in 1,2")
            }
            ValueKind::Words(words) => write!(f, "a list of {}", words.join(", ")),
            ValueKind::Positive => write!(f, "a number greater than 0"),
            ValueKind::OptionalPositive => write!(f, "none or a number greater than 0"),
            ValueKind::OptionalPath => write!(f, "none or a directory"),
            ValueKind::Text(unsaid) => write!(f, "{unsaid}, or a text of at least one character"),
        }
    }
}

/// The words of `a,b`, also in brackets and quotes.
fn split_words(text: &str) -> Vec<&str> {
    let text = text.trim();
    let inner = text.strip_prefix('[').and_then(|t| t.strip_suffix(']')).unwrap_or(text);
    inner.split(',').map(|w| w.trim().trim_matches('"')).collect()
}

impl ValueKind {
    /// The canonical spelling of a value, or `None` when it is invalid.
    pub(super) fn canonical(self, text: &str) -> Option<String> {
        let text = text.trim();
        let whole = |t: &str| t.trim().replace('_', "").parse::<u64>().ok();
        let positive = |t: &str| {
            let number = t.parse::<f64>().ok().filter(|x| x.is_finite() && *x > 0.0);
            number.map(|x| x.to_string())
        };
        match self {
            ValueKind::Setting(kind) => kind.canonical(text),
            ValueKind::Integer { min, max } => {
                whole(text).filter(|n| (min..=max).contains(n)).map(|n| n.to_string())
            }
            ValueKind::OptionalInteger { .. } if text == "none" => Some(text.to_owned()),
            ValueKind::OptionalInteger { min, max } => ValueKind::Integer { min, max }.canonical(text),
            ValueKind::Integers { min, max } => {
                let inner = text.strip_prefix('[').and_then(|t| t.strip_suffix(']')).unwrap_or(text);
                let numbers: Option<Vec<u64>> = inner.split(',').map(whole).collect();
                let numbers = numbers.filter(|l| l.iter().all(|n| (min..=max).contains(n)))?;
                Some(numbers.iter().map(u64::to_string).collect::<Vec<_>>().join(","))
            }
            ValueKind::Words(words) => {
                let given = split_words(text);
                let distinct = given.iter().enumerate().all(|(i, w)| !given[..i].contains(w));
                let known = given.iter().all(|w| words.contains(w));
                let ordered: Vec<&str> = words.iter().copied().filter(|w| given.contains(w)).collect();
                (distinct && known).then(|| ordered.join(","))
            }
            ValueKind::Positive => positive(text),
            ValueKind::OptionalPositive if text == "none" => Some(text.to_owned()),
            ValueKind::OptionalPositive => positive(text),
            ValueKind::OptionalPath | ValueKind::Text(_) => (!text.is_empty()).then(|| text.to_owned()),
        }
    }

    /// A hint for an unknown word of a list: ` (did you mean ..?)`, or empty.
    pub(super) fn hint(self, text: &str) -> String {
        let ValueKind::Words(words) = self else { return String::new() };
        let other = split_words(text).into_iter().find(|w| !words.contains(w));
        other.map_or(String::new(), |w| did_you_mean(w, words.iter().copied()))
    }

    /// A canonical value as TOML.
    pub(super) fn toml(self, value: &str) -> String {
        match self {
            ValueKind::OptionalInteger { .. } if value != "none" => value.to_owned(),
            ValueKind::Integer { .. } | ValueKind::Setting(Kind::Flag) => value.to_owned(),
            ValueKind::Setting(Kind::Choice(_)) if value.parse::<u64>().is_ok() => value.to_owned(),
            ValueKind::Integers { .. } => format!("[{}]", value.replace(',', ", ")),
            ValueKind::Words(_) => {
                let quoted: Vec<String> = value.split(',').map(|w| format!("\"{w}\"")).collect();
                format!("[{}]", quoted.join(", "))
            }
            _ => toml_scalar(value),
        }
    }
}

/// A word, number or flag as TOML.
pub(super) fn toml_scalar(text: &str) -> String {
    match text.parse::<f64>() {
        _ if matches!(text, "true" | "false") => text.to_owned(),
        Ok(x) if x.is_finite() => {
            format!("{x:?}") // always with a point or an exponent, so that TOML reads a float
        }
        _ => toml::Value::String(text.to_owned()).to_string(),
    }
}

/// A field: its dotted key, the values it accepts, its default and its description.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Field {
    /// The dotted key.
    pub key: &'static str,
    pub kind: ValueKind,
    pub default: &'static str,
    /// Its meaning on one line.
    pub about: &'static str,
    /// True if the value affects the result; a run is resumed with the same value.
    pub affects_result: bool,
}

const fn field(key: &'static str, kind: ValueKind, default: &'static str, about: &'static str) -> Field {
    Field { key, kind, default, about, affects_result: true }
}

const fn resumable(field: Field) -> Field {
    Field { affects_result: false, ..field }
}

const fn integer(min: u64, max: u64) -> ValueKind {
    ValueKind::Integer { min, max }
}

const fn number(min: f64, max: f64) -> ValueKind {
    ValueKind::Setting(Kind::Number { min, max })
}

const fn choice(words: &'static [&'static str]) -> ValueKind {
    ValueKind::Setting(Kind::Choice(words))
}

const FLAG: ValueKind = ValueKind::Setting(Kind::Flag);

/// A bound that is never reached in practice; its double still fits TOML's integers.
const ANY: u64 = 1_000_000_000_000_000;
const WEIGHT: ValueKind = number(0.0, 1000.0);
const LORA_TARGETS: [&str; TARGETS.len()] = {
    let mut names = [""; TARGETS.len()];
    let mut i = 0;
    while i < names.len() {
        names[i] = TARGETS[i].0;
        i += 1;
    }
    names
};
/// Powers of two, the leaves of complete trees.
const SHARDS: [&str; 9] = ["1", "2", "4", "8", "16", "32", "64", "128", "256"];
const SCHEDULES: ValueKind = choice(&ScheduleShape::NAMES);

/// Every field but those of the method, in the order in which they are written.
#[rustfmt::skip]
pub static FIELDS: &[Field] = &[
    field("seed", integer(0, i64::MAX as u64), "0", "what all random numbers derive from"),
    resumable(field("threads", integer(0, 1024), "0", "worker threads; 0: as many as the machine has; changes no result")),
    resumable(field("device", choice(&DevicePreference::NAMES), "auto", "where a run computes: auto is a CUDA card where this program was built for one and finds it, else the CPU; the two sum in another order, so results agree to rounding only")),
    field("dtype", choice(&DTYPES), "auto", "numbers of weights and activations on a card: auto is bf16; on the CPU everything is f32"),
    field("shards", choice(&SHARDS), "1", "parts of a batch whose gradients are added in a fixed order, a power of two: at least as many as the processes of mpirun; belongs to the result, as the number of processes does not"),
    resumable(field("memory.micro_batch_tokens", integer(1, ANY), "8192", "tokens per forward pass; changes no result on the CPU, and on a card its rounding")),
    resumable(field("memory.slots", integer(0, 1 << 20), "0", "responses decoded at a time, in steps and evaluations; when one ends, the next takes its slot in the cache of keys and values; 0: all of a step, 128 of an evaluation; changes no result on the CPU, and on a card its rounding")),
    resumable(field("memory.recompute_layers", choice(&["auto", "true", "false"]), "auto", "compute activations again in the backward pass instead of keeping them; auto: only where a step that keeps them is counted to exceed the memory; changes no result")),
    resumable(field("memory.optimiser", choice(&StatePlace::NAMES), "device", "where the optimiser's 16 bytes a weight are on a card: in its memory, or in that of the machine (host), whose processors then move the weights: slower, for models that the card has no room for; changes no result")),
    field("model.checkpoint", ValueKind::OptionalPath, "none", "directory of a Hugging Face checkpoint to start from, or none for random weights"),
    field("model.hidden", integer(8, 65536), "128", "width"),
    field("model.layers", integer(1, 512), "4", "blocks"),
    field("model.heads", integer(1, 512), "4", "attention heads"),
    field("model.kv_heads", integer(1, 512), "2", "heads of keys and values; divides heads"),
    field("model.intermediate", integer(8, 1 << 20), "352", "width inside the feed-forward part"),
    field("lora.rank", integer(0, 1 << 16), "0", "rank of the adapter that is trained instead of the weights; 0: every weight is trained"),
    field("lora.alpha", ValueKind::Positive, "32", "the adapter's product is multiplied by alpha / rank"),
    field("lora.targets", ValueKind::Words(&LORA_TARGETS), "q_proj,v_proj", "the projections that get an adapter"),
    field("task.kind", choice(&["stories", "addition", "dataset"]), "stories", "word problems, sums of two digits (for tests), or the rows of a data set"),
    field("task.levels", ValueKind::Integers { min: 1, max: Level::MAX_STEPS as u64 }, "1,2,3", "steps of the word problems, equally often"),
    field("task.max_operand", integer(Level::MIN_OPERAND as u64, Level::MAX_OPERAND as u64), "12", "largest number in a word problem"),
    field("task.data", ValueKind::Text("none"), "none", "the data set: a file, a directory, or owner/name in the Hugging Face cache; :SPLIT or :SUBSET/SPLIT after it chooses one"),
    field("task.test", ValueKind::Text("none"), "none", "the held-out problems, given likewise; none: a tenth of task.data, chosen by a hash of each problem, and another for validation"),
    field("task.columns.problem", ValueKind::Text("auto"), "auto", "the column with the problem"),
    field("task.columns.answer", ValueKind::Text("auto"), "auto", "the column with the answer, or the list of accepted ones"),
    field("task.columns.solution", ValueKind::Text("auto"), "auto", "the column with the worked solution"),
    field("task.template", ValueKind::Text("line"), "line", "how a problem becomes a prompt: no, line, qwen_math, r1, open_reasoner, open_r1, chat (the checkpoint's own), or a Jinja file"),
    field("task.system", ValueKind::Text("none"), "none", "system prompt; none: the template's own"),
    field("task.extract", choice(&["template", "auto", "boxed", "tag", "lenient-tag", "any", "free"]), "template", "where the answer stands in a response, for reward and held-out accuracy: where the template asks for it, or as --extract of grade"),
    field("task.rules", ValueKind::Text("strict"), "strict", "by which rules it is compared with the reference, as --rules of grade: strict, lenient, lenient,-solutions, ..."),
    field("task.on_bad_row", choice(&OnBadRow::NAMES), "refuse", "what happens to rows that cannot be used"),
    field("task.max_prompt_tokens", ValueKind::OptionalInteger { min: 1, max: ANY }, "none", "rows with a longer prompt are left out and counted, of training and of what is held out; none: only those that do not fit into the model, which task.on_bad_row decides on"),
    field("task.max_solution_tokens", ValueKind::OptionalInteger { min: 1, max: ANY }, "none", "the same of the worked solution"),
    field("adam.beta1", number(0.0, 0.99999), "0.9", "decay of the mean gradient"),
    field("adam.beta2", number(0.0, 0.99999999), "0.999", "decay of the mean squared gradient"),
    field("adam.epsilon", number(1e-30, 1.0), "1e-8", "added to the root of the mean square"),
    field("adam.weight_decay", number(0.0, 100.0), "0.01", "decoupled decay of matrices; biases and norms are spared"),
    field("adam.compensated", FLAG, "true", "keep what rounding to f32 takes from each update, one more number per weight: small updates of large weights are then exact"),
    field("sft.steps", integer(0, ANY), "400", "supervised steps before RL; 0: none"),
    field("sft.batch", integer(1, 1 << 20), "32", "examples per supervised step"),
    field("sft.worked_share", number(0.0, 1.0), "1", "share of the examples that show their working; the others state the answer at once"),
    field("sft.lr", ValueKind::Positive, "0.002", "peak learning rate"),
    field("sft.warmup", integer(0, ANY), "20", "steps of linear warm-up"),
    field("sft.schedule", SCHEDULES, "cosine", "learning rate after warm-up"),
    field("sft.grad_clip", ValueKind::OptionalPositive, "1", "largest gradient norm; none: no clipping"),
    field("rl.steps", integer(0, ANY), "100", "RL steps; 0: none"),
    field("rl.prompts_per_step", integer(1, 1 << 20), "16", "problems per step"),
    field("rl.group_size", integer(2, 1 << 16), "8", "responses per problem; one alone has no baseline"),
    field("rl.sampling", choice(&SAMPLING), "independent", "systematic: the responses of a group are decoded from evenly spaced codes, in rl.sets sets with a random shift each; each response alone has the policy's distribution, and their mean varies less; for methods that compare sets, as systematic_rloo; on the CPU alone"),
    field("rl.sets", integer(1, 1 << 16), "2", "sets of a systematic group: method.sets must be the same"),
    field("rl.inner_updates", integer(1, 1000), "1", "gradient steps per sampled batch (mu)"),
    field("rl.lr", ValueKind::Positive, "0.0002", "peak learning rate"),
    field("rl.warmup", integer(0, ANY), "5", "steps of linear warm-up"),
    field("rl.schedule", SCHEDULES, "constant", "learning rate after warm-up"),
    field("rl.max_new_tokens", integer(1, 1 << 20), "64", "a response is cut off here"),
    field("rl.temperature", number(MIN_TEMPERATURE, MAX_TEMPERATURE), "1", "sampling temperature; log-probabilities use it too"),
    field("rl.grad_clip", ValueKind::OptionalPositive, "1", "largest gradient norm; none: no clipping"),
    field("rl.dynamic_sampling", FLAG, "false", "sample further prompts, four times as many at most, until enough groups have both right and wrong responses; reward and accuracy are then those of the groups kept"),
    field("rl.max_nan_steps", integer(1, ANY), "3", "consecutive steps skipped for a NaN gradient before the run stops"),
    field("rl.max_logp_error", number(1.0, f64::INFINITY), "1.05", "where sampler and trainer round differently (on a card, or with another rollout.engine): the factor between their probabilities of a token, on average, above which the run stops"),
    field("rollout.engine", choice(&ENGINES), "local", "what samples the responses: local is this program; vllm is a server that gets the weights of every step through a checkpoint on disk (docs/engines.md)"),
    resumable(field("rollout.url", ValueKind::Text("none"), "none", "address of that server, as in http://127.0.0.1:8000")),
    resumable(field("rollout.model", ValueKind::Text("auto"), "auto", "the name under which it serves the model; auto: the only one it has")),
    resumable(field("rollout.weights", ValueKind::Text("auto"), "auto", "directory through which it gets the weights, which it sees under the same path; auto: rollout in the run directory")),
    resumable(field("rollout.timeout", number(0.1, 86400.0), "600", "seconds that a request may take, and for which a server that went away is waited for")),
    resumable(field("rollout.retries", integer(0, 1000), "3", "how often in a row the server may fail without a response in between; what it has answered is kept")),
    resumable(field("rollout.concurrency", integer(1, 1024), "64", "requests under way at a time, one for each prompt; changes no seed")),
    field("reward.accuracy", WEIGHT, "1", "weight of the right answer, which is worth 1; an answer that cannot be read leaves the response out"),
    field("reward.format", WEIGHT, "0", "weight of the layout <think>..</think><answer>..</answer>, which is worth 1"),
    field("reward.tag_count", WEIGHT, "0", "weight of the layout's four tags, each worth 0.25 when it stands there once"),
    field("reward.overlong", WEIGHT, "0", "weight of the penalty of long responses, down to -1 (DAPO's soft overlong punishment)"),
    field("reward.overlong_limit", ValueKind::OptionalPositive, "none", "tokens at which that penalty reaches -1; none: rl.max_new_tokens"),
    field("reward.overlong_cache", ValueKind::OptionalPositive, "none", "tokens before the limit over which it grows; none: a fifth of the limit, as in DAPO"),
    field("reward.regex", ValueKind::Text("none"), "none", "a regular expression; a response in which it matches gets 1, else 0"),
    field("reward.regex_weight", WEIGHT, "1", "weight of reward.regex, where there is one"),
    field("reward.command", ValueKind::Text("none"), "none", "a program of your own, as in python3 my_reward.py: a JSON line with prompt, completion, gold, tokens and token_ids for each response in, a number a line out; it is kept open"),
    field("reward.command_weight", WEIGHT, "1", "weight of reward.command, where there is one; reward.accuracy=0 makes it the only reward"),
    resumable(field("reward.command_timeout", ValueKind::Positive, "60", "seconds that it may take over the responses to one prompt")),
    field("reward.coin", WEIGHT, "0", "weight of a control: 1 for half of all responses, whatever they say; with reward.accuracy=0, what training does without a signal"),
    field("reward.stuck_steps", integer(0, ANY), "20", "warn of a component that gave every response the same for so many steps in a row; 0: never"),
    field("eval.n", integer(1, 1_000_000), "500", "held-out problems, no two alike; all there are where the task has fewer"),
    field("eval.every", integer(0, ANY), "20", "steps between evaluations; 0: only before and after"),
    field("eval.temperature", number(0.0, MAX_TEMPERATURE), "0", "0: the most probable token; else sampling"),
    field("eval.patience", integer(0, ANY), "0", "RL stops after so many evaluations in a row without a higher held-out accuracy; 0: never"),
    resumable(field("checkpoint.every", integer(1, ANY), "20", "steps between checkpoints")),
    resumable(field("checkpoint.keep", integer(1, ANY), "2", "how many of the latest checkpoints stay")),
    field("checkpoint.best", FLAG, "false", "keep the checkpoint of the highest held-out accuracy, too; its accuracy is too high by chance, as the largest of several is"),
];
