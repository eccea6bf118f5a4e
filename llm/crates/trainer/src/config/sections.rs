//! The sections of a configuration: every key with its type, kind, default and meaning, in the order in which they are written.

use std::collections::BTreeMap;
use std::path::PathBuf;

use grpo_lambda::settings::Kind;
use grpo_lambda::systematic::Sets;
use grpo_lambda_decoder::generate::{MAX_TEMPERATURE, MIN_TEMPERATURE};
use grpo_lambda_decoder::lora::TARGETS;
use grpo_lambda_decoder::optim::AdamWSettings;
use grpo_lambda_gpu::select::{DTYPES, DevicePreference};
use grpo_lambda_gpu::{Dtype, StatePlace};

use super::fields::{ANY, Field, ValueKind};
use super::sampling::{Sampling, StepStart};
use super::schedule::{Schedule, ScheduleShape};
use super::section::{read_value, section};
use super::words::{EngineKind, TaskKind};
use crate::input::data::OnBadRow;
use crate::input::task::Level;

/// The origin of the model.
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
    pub heads: usize,
    /// Heads of keys and values.
    pub kv_heads: usize,
    /// Width inside the feed-forward part.
    pub intermediate: usize,
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
const STEP_STARTS: [&str; 4] = {
    let [line, interval, unsure] = StepStart::NAMES;
    ["auto", line, interval, unsure]
};
const SCHEDULES: ValueKind = choice(&ScheduleShape::NAMES);

/// The values of `rollout.engine`: this program, or a server with vLLM's endpoints.
pub const ENGINES: [&str; 2] = ["local", "vllm"];

/// Every field but those of the method, in the order in which they are written.
pub fn fields() -> impl Iterator<Item = &'static Field> {
    let sections = [
        RunFields::FIELDS,
        MemoryConfig::FIELDS,
        GpuConfig::FIELDS,
        ModelFields::FIELDS,
        LoraFields::FIELDS,
        TaskFields::FIELDS,
        ColumnFields::FIELDS,
        AdamConfig::FIELDS,
        SftConfig::FIELDS,
        RlConfig::FIELDS,
        CriticConfig::FIELDS,
        RolloutFields::FIELDS,
        RewardFields::FIELDS,
        EvalConfig::FIELDS,
        CheckpointConfig::FIELDS,
    ];
    sections.into_iter().flatten()
}

#[rustfmt::skip]
section! {
    /// The fields without a section.
    #[derive(Clone, Debug, PartialEq)]
    pub(super) struct RunFields in "" {
        seed: u64 = integer(0, i64::MAX as u64), "0", "what all random numbers derive from";
        [resumable] threads: usize = integer(0, 1024), "0", "worker threads; 0: as many as the machine has; changes no result";
        [resumable] engine: EngineKind = choice(&EngineKind::NAMES), "own", "what computes: own are this program's decoders; candle, in a program built with it, is slower and runs on a Mac as well; results agree to rounding, and a run may go on with either";
        [resumable] device: DevicePreference = choice(&DevicePreference::ALL), "auto", "where a run computes: auto is a CUDA card where this program was built for one and finds it, else the CPU, and with engine=candle always the CPU; metal, a Mac's graphics processor, takes engine=candle; devices sum in another order, so results agree to rounding only";
        dtype: Option<Dtype> = choice(&DTYPES), "auto", "numbers of weights and activations on a card: auto is bf16; on the CPU everything is f32, unless candle is asked for bf16";
    }
}

#[rustfmt::skip]
section! {
    /// Trades memory for time; changes no result on the CPU, and on a card its rounding.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct MemoryConfig in "memory." {
        [resumable] micro_batch_tokens: usize = integer(1, ANY), "8192", "tokens per forward pass; changes no result on the CPU, and on a card its rounding";
        [resumable] slots: Option<usize> = integer(0, 1 << 20), "0", "responses decoded at a time, in steps and evaluations; when one ends, the next takes its slot in the cache of keys and values; 0: all of a step, 128 of an evaluation; changes no result on the CPU, and on a card its rounding";
        [resumable] recompute_layers: bool = choice(&["auto", "true", "false"]), "auto", "compute activations again in the backward pass instead of keeping them; auto: only where a step that keeps them is counted to exceed the memory; changes no result";
        [resumable] optimiser: StatePlace = choice(&StatePlace::NAMES), "device", "where the optimiser's 16 bytes a weight are on a card: in its memory, or in that of the machine (host), whose processors then move the weights: slower, for models that the card has no room for; changes no result";
    }
}

#[rustfmt::skip]
section! {
    /// The card.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct GpuConfig in "gpu." {
        [resumable] trust: bool = FLAG, "false", "train on a card that has not proved itself: before its first run, and after a change of the driver, the libraries or the kernels, its kernels and 64 tokens of a model of the run's shape are compared with the CPU, and a card that fails does not train";
    }
}

#[rustfmt::skip]
section! {
    /// The model to start from, and the shape of a new one.
    #[derive(Clone, Debug, PartialEq)]
    pub(super) struct ModelFields in "model." {
        checkpoint: Option<PathBuf> = ValueKind::Optional(&ValueKind::Path), "none", "directory of a Hugging Face checkpoint to start from, or none for random weights";
        hidden: usize = integer(8, 65536), "128", "width";
        layers: usize = integer(1, 512), "4", "blocks";
        heads: usize = integer(1, 512), "4", "attention heads";
        kv_heads: usize = integer(1, 512), "2", "heads of keys and values; divides heads";
        intermediate: usize = integer(8, 1 << 20), "352", "width inside the feed-forward part";
    }
}

#[rustfmt::skip]
section! {
    /// The adapter.
    #[derive(Clone, Debug, PartialEq)]
    pub(super) struct LoraFields in "lora." {
        rank: usize = integer(0, 1 << 16), "0", "rank of the adapter that is trained instead of the weights; 0: every weight is trained";
        alpha: f64 = ValueKind::Positive, "32", "the adapter's product is multiplied by alpha / rank";
        targets: Vec<String> = ValueKind::Words(&LORA_TARGETS), "q_proj,v_proj", "the projections that get an adapter";
    }
}

#[rustfmt::skip]
section! {
    /// The problems.
    #[derive(Clone, Debug, PartialEq)]
    pub(super) struct TaskFields in "task." {
        kind: TaskKind = choice(&TaskKind::NAMES), "stories", "word problems, sums of two digits (for tests), or the rows of a data set";
        levels: Vec<usize> = ValueKind::Integers { min: 1, max: Level::MAX_STEPS as u64 }, "1,2,3", "steps of the word problems, equally often";
        max_operand: u32 = integer(Level::MIN_OPERAND as u64, Level::MAX_OPERAND as u64), "12", "largest number in a word problem";
        data: Option<String> = ValueKind::Text("none"), "none", "the data set: a file, a directory, owner/name in the Hugging Face cache, or tiny:sums, which the program holds; :SPLIT or :SUBSET/SPLIT after it chooses one";
        test: Option<String> = ValueKind::Text("none"), "none", "the held-out problems, given likewise; none: a tenth of task.data, chosen by a hash of each problem, and another for validation";
        template: String = ValueKind::Text("line"), "line", "how a problem becomes a prompt: no, line, qwen_math, r1, open_reasoner, open_r1, chat (the checkpoint's own), or a Jinja file";
        system: Option<String> = ValueKind::Text("none"), "none", "system prompt; none: the template's own";
        template_args: Option<String> = ValueKind::Text("none"), "none", "arguments of a chat template as a JSON object, as in {\"enable_thinking\": false}; none: its defaults";
        extract: String = choice(&["template", "auto", "boxed", "tag", "lenient-tag", "any", "free"]), "template", "where the answer stands in a response, for reward and held-out accuracy: where the template asks for it, or as --extract of grade";
        rules: String = ValueKind::Text("strict"), "strict", "by which rules it is compared with the reference, as --rules of grade: strict, lenient, lenient,-solutions, ...";
        on_bad_row: OnBadRow = choice(&OnBadRow::NAMES), "refuse", "what happens to rows that cannot be used";
        max_prompt_tokens: Option<usize> = ValueKind::Optional(&integer(1, ANY)), "none", "rows with a longer prompt are left out and counted, of training and of what is held out; none: only those that do not fit into the model, which task.on_bad_row decides on";
        max_solution_tokens: Option<usize> = ValueKind::Optional(&integer(1, ANY)), "none", "the same of the worked solution";
    }
}

#[rustfmt::skip]
section! {
    /// The data set's columns.
    #[derive(Clone, Debug, PartialEq)]
    pub(super) struct ColumnFields in "task.columns." {
        problem: Option<String> = ValueKind::Text("auto"), "auto", "the column with the problem";
        answer: Option<String> = ValueKind::Text("auto"), "auto", "the column with the answer, or the list of accepted ones";
        solution: Option<String> = ValueKind::Text("auto"), "auto", "the column with the worked solution";
    }
}

#[rustfmt::skip]
section! {
    /// The optimiser, in both stages.
    #[derive(Clone, Debug, PartialEq)]
    pub struct AdamConfig in "adam." {
        beta1: f64 = number(0.0, 0.99999), "0.9", "decay of the mean gradient";
        beta2: f64 = number(0.0, 0.99999999), "0.999", "decay of the mean squared gradient";
        epsilon: f64 = number(1e-30, 1.0), "1e-8", "added to the root of the mean square";
        weight_decay: f64 = number(0.0, 100.0), "0.01", "decoupled decay of matrices; biases and norms are spared";
        compensated: bool = FLAG, "true", "keep what rounding to f32 takes from each update, one more number per weight: small updates of large weights are then exact";
    }
}

#[rustfmt::skip]
section! {
    /// Supervised training.
    #[derive(Clone, Debug, PartialEq)]
    pub struct SftConfig in "sft." {
        steps: u64 = integer(0, ANY), "400", "supervised steps before RL; 0: none";
        batch: usize = integer(1, 1 << 20), "32", "examples per supervised step";
        worked_share: f64 = number(0.0, 1.0), "1", "share of the examples that show their working; the others state the answer at once";
        lr: f64 = ValueKind::Positive, "0.002", "peak learning rate";
        warmup: u64 = integer(0, ANY), "20", "steps of linear warm-up";
        schedule: ScheduleShape = SCHEDULES, "cosine", "learning rate after warm-up";
        grad_clip: Option<f64> = ValueKind::Optional(&ValueKind::Positive), "1", "largest gradient norm; none: no clipping";
    }
}

#[rustfmt::skip]
section! {
    /// Training by rewards.
    #[derive(Clone, Debug, PartialEq)]
    pub struct RlConfig in "rl." {
        steps: u64 = integer(0, ANY), "100", "RL steps; 0: none";
        prompts_per_step: usize = integer(1, 1 << 20), "16", "problems per step";
        group_size: usize = integer(2, 1 << 16), "8", "responses per problem; one alone has no baseline";
        sampling: Sampling = choice(&Sampling::NAMES), "independent", "systematic: the responses of a group are decoded from evenly spaced codes, in rl.sets sets with a random shift each; each response alone has the policy's distribution, and their mean varies less; for methods that compare sets, as systematic_rloo; tree and entropy_search: the responses are the leaves of a tree, for spo_tree, tree_rl and tree_rpo_reconstructed, at fixed intervals (rl.children, rl.segment) or at the least probable tokens of some first responses (rl.forks, rl.branches: TreeRL's search)";
        sets: usize = integer(1, 1 << 16), "2", "sets of a systematic group: method.sets must be the same";
        children: Vec<usize> = ValueKind::Integers { min: 1, max: 1 << 16 }, "4,2,2", "with rl.sampling=tree, the children of a node by level; their product is rl.group_size";
        segment: usize = integer(1, 1 << 20), "5", "tokens of a segment: of every level of such a tree but the last, which writes to the end; of a step with rl.step_start=interval; with unsure it counts the tokens of which the policy was unsure";
        forks: usize = integer(1, 1 << 8), "2", "with rl.sampling=entropy_search, the places of a first response that are sampled again; it has rl.group_size / (1 + forks branches) first responses";
        branches: usize = integer(1, 1 << 8), "2", "with rl.sampling=entropy_search, the completions from each of these places";
        completions: usize = integer(1, 1 << 16), "9", "for methods that read values of steps (vine_ppo, spo_chain), the completions of the prefix before each step, whose mean reward is its value";
        step_start: Option<StepStart> = choice(&STEP_STARTS), "auto", "where steps start: after a line break, after every rl.segment tokens (interval), or after every rl.segment-th token of which the policy was unsure (a probability of at most method.sure, or 0.9); auto: unsure for spo_chain, else line";
        inner_updates: usize = integer(1, 1000), "1", "gradient steps per sampled batch (mu)";
        entropy_coef: f64 = WEIGHT, "0", "coefficient of the entropy bonus: the loss loses this times the entropy of each token's distribution, reduced as the loss is (verl entropy_coeff, TRL entropy_coef)";
        entropy_target: Option<f64> = ValueKind::Optional(&ValueKind::Positive), "none", "mean entropy of a rollout's tokens, in nats, up to which the bonus is on; after each step the coefficient rises by rl.entropy_delta at or below it and falls above it (Skywork-OR1, 0.2); none: the coefficient is fixed and always on";
        entropy_delta: f64 = ValueKind::Positive, "0.005", "change of an adaptive coefficient in a step";
        entropy_coef_max: f64 = ValueKind::Positive, "1", "largest adaptive coefficient; the smallest is 0";
        lr: f64 = ValueKind::Positive, "0.0002", "peak learning rate";
        warmup: u64 = integer(0, ANY), "5", "steps of linear warm-up";
        schedule: ScheduleShape = SCHEDULES, "constant", "learning rate after warm-up";
        max_new_tokens: usize = integer(1, 1 << 20), "64", "a response is cut off here";
        temperature: f64 = number(MIN_TEMPERATURE, MAX_TEMPERATURE), "1", "sampling temperature; log-probabilities use it too";
        grad_clip: Option<f64> = ValueKind::Optional(&ValueKind::Positive), "1", "largest gradient norm; none: no clipping";
        dynamic_sampling: bool = FLAG, "false", "sample further prompts, four times as many at most, until enough groups have both right and wrong responses; rows of a data set for this come from epochs of their own; reward and accuracy are then those of the groups kept";
        dynamic_band: Option<[f64; 2]> = ValueKind::Optional(&ValueKind::Range), "none", "with rl.dynamic_sampling, the groups to keep: those whose mean reward is from one number to the other, as in 0.1,0.9, for rewards that are not 0 or 1; none: those with both right and wrong responses";
        max_nan_steps: u64 = integer(1, ANY), "3", "consecutive steps skipped for a NaN gradient before the run stops";
        max_logp_error: f64 = number(1.0, f64::INFINITY), "1.05", "where sampler and trainer round differently (on a card, or with another rollout.engine): the factor between their probabilities of a token, on average, above which the run stops";
    }
}

#[rustfmt::skip]
section! {
    /// The critic of a method that reads values.
    #[derive(Clone, Debug, PartialEq)]
    pub struct CriticConfig in "critic." {
        lr: Option<f64> = ValueKind::Optional(&ValueKind::Positive), "none", "peak learning rate of the critic; none: 1e-5 with model.checkpoint, else 0.001. The critic is a copy of the model that RL starts from, with a linear head, that learns next to the policy where the method reads values (method.name=ppo), on the CPU only; warm-up, schedule and largest gradient norm are those of rl";
        updates: usize = integer(1, 1000), "4", "gradient steps of the critic per sampled batch; the policy takes rl.inner_updates";
        clip: Option<f64> = ValueKind::Optional(&ValueKind::Positive), "0.2", "how far a value may move on a sampled batch before its loss stops falling (verl and TRL cliprange_value); none: no bound";
    }
}

#[rustfmt::skip]
section! {
    /// The sampler of responses.
    #[derive(Clone, Debug, PartialEq)]
    pub(super) struct RolloutFields in "rollout." {
        engine: String = choice(&ENGINES), "local", "what samples the responses: local is this program; vllm is a server that gets the weights of every step through a checkpoint on disk (docs/engines.md)";
        [resumable] url: String = ValueKind::Text("none"), "none", "address of that server, as in http://127.0.0.1:8000";
        [resumable] model: Option<String> = ValueKind::Text("auto"), "auto", "the name under which it serves the model; auto: the only one it has";
        [resumable] weights: Option<PathBuf> = ValueKind::Text("auto"), "auto", "directory through which it gets the weights, which it sees under the same path; auto: rollout in the run directory";
        [resumable] timeout: f64 = number(0.1, 86400.0), "600", "seconds that a request may take, and for which a server that went away is waited for";
        [resumable] retries: u64 = integer(0, 1000), "3", "how often in a row the server may fail without a response in between; what it has answered is kept";
        [resumable] concurrency: usize = integer(1, 1024), "64", "requests under way at a time, one for each prompt; changes no seed";
    }
}

#[rustfmt::skip]
section! {
    /// The weights of the reward components and their settings.
    #[derive(Clone, Debug, PartialEq)]
    pub(super) struct RewardFields in "reward." {
        accuracy: f64 = WEIGHT, "1", "weight of the right answer, which is worth 1; an answer that cannot be read leaves the response out";
        format: f64 = WEIGHT, "0", "weight of the layout <think>..</think><answer>..</answer>, which is worth 1";
        tag_count: f64 = WEIGHT, "0", "weight of the layout's four tags, each worth 0.25 when it stands there once";
        overlong: f64 = WEIGHT, "0", "weight of the penalty of long responses, down to -1 (DAPO's soft overlong punishment)";
        overlong_limit: Option<f64> = ValueKind::Optional(&ValueKind::Positive), "none", "tokens at which that penalty reaches -1; none: rl.max_new_tokens";
        overlong_cache: Option<f64> = ValueKind::Optional(&ValueKind::Positive), "none", "tokens before the limit over which it grows; none: a fifth of the limit, as in DAPO";
        regex: Option<String> = ValueKind::Text("none"), "none", "a regular expression; a response in which it matches gets 1, else 0";
        regex_weight: f64 = WEIGHT, "1", "weight of reward.regex, where there is one";
        command: Option<String> = ValueKind::Text("none"), "none", "a program of your own, as in python3 my_reward.py: a JSON line with prompt, completion, gold, tokens, token_ids, step and the row's other columns for each response in, a number a line out; it is kept open";
        command_weight: f64 = WEIGHT, "1", "weight of reward.command, where there is one; reward.accuracy=0 makes it the only reward";
        [resumable] command_timeout: f64 = ValueKind::Positive, "60", "seconds that it may take over the responses to one prompt";
        coin: f64 = WEIGHT, "0", "weight of a control: 1 for half of all responses, whatever they say; with reward.accuracy=0, what training does without a signal";
        stuck_steps: u64 = integer(0, ANY), "20", "warn of a component that gave every response the same for so many steps in a row; 0: never";
    }
}

#[rustfmt::skip]
section! {
    /// Evaluations during training.
    #[derive(Clone, Debug, PartialEq)]
    pub struct EvalConfig in "eval." {
        n: usize = integer(1, 1_000_000), "500", "held-out problems, no two equal; all there are where the task has fewer";
        every: u64 = integer(0, ANY), "20", "steps between evaluations; 0: only before and after";
        temperature: f64 = number(0.0, MAX_TEMPERATURE), "0", "0: the most probable token; else sampling";
        patience: u64 = integer(0, ANY), "0", "RL stops after so many evaluations in a row without a higher held-out accuracy; 0: never";
    }
}

#[rustfmt::skip]
section! {
    /// Checkpoints during training.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct CheckpointConfig in "checkpoint." {
        [resumable] every: u64 = integer(1, ANY), "20", "steps between checkpoints";
        [resumable] keep: usize = integer(1, ANY), "2", "how many of the latest checkpoints stay";
        best: bool = FLAG, "false", "keep the checkpoint of the highest held-out accuracy, too; its accuracy is too high by chance, as the largest of several is";
    }
}

/// A stage's learning rates, by its fields.
macro_rules! learning_rates {
    ($($Stage:ident)+) => {
        $(impl $Stage {
            /// The learning rate of every step.
            pub fn learning_rates(&self) -> Schedule {
                Schedule { peak: self.lr, warmup: self.warmup, steps: self.steps, shape: self.schedule }
            }
        })+
    };
}
learning_rates!(SftConfig RlConfig);

impl RlConfig {
    /// The sets in which the responses of a group are sampled systematically; `None` for independent responses.
    pub fn systematic_sets(&self) -> Option<Sets> {
        (self.sampling == Sampling::Systematic).then(|| Sets::new(self.sets))
    }

    /// The coefficient of an adaptive entropy bonus in a step, and that of the next: from `coef`, at first `entropy_coef`, by whether the entropy of the
    /// step's rollout is at most the target.
    pub fn adapted(&self, coef: Option<f64>, low: bool) -> (f64, f64) {
        let coef = coef.unwrap_or(self.entropy_coef);
        match low {
            true => (coef, (coef + self.entropy_delta).min(self.entropy_coef_max)),
            false => (0.0, (coef - self.entropy_delta).max(0.0)),
        }
    }
}

impl AdamConfig {
    /// The optimiser of a stage that clips gradients at this norm.
    pub(super) fn clipped(&self, max_grad_norm: Option<f64>) -> AdamWSettings {
        AdamWSettings {
            beta1: self.beta1,
            beta2: self.beta2,
            epsilon: self.epsilon,
            weight_decay: self.weight_decay,
            compensated: self.compensated,
            max_grad_norm,
            ..AdamWSettings::default()
        }
    }
}
