//! Memory of training on the CPU: an estimate from shapes, and this process's use so far.

use grpo_lambda::group::InputKind;
use grpo_lambda_decoder::lora::LoraSettings;
use grpo_lambda_decoder::model::ModelConfig;
use grpo_lambda_decoder::model::config::layer::Linear;
use grpo_lambda_decoder::model::ops::attention::PAGE;
use grpo_lambda_decoder::model::ops::log_prob;
use grpo_lambda_decoder::model::ops::matmul::packed_len;
use grpo_lambda_decoder::slots;

use super::stems::Stems;
use crate::config::Config as RunConfig;
use crate::eval::eval_slots;

/// The largest resident size so far, in MiB, where the system tells (Linux).
pub fn peak_rss_mib() -> Option<f64> {
    read_mib("/proc/self/status", "VmHWM:")
}

/// All memory of this machine, in MiB, where the system tells (Linux).
pub fn total_mib() -> Option<f64> {
    read_mib("/proc/meminfo", "MemTotal:")
}

fn read_mib(file: &str, name: &str) -> Option<f64> {
    let text = std::fs::read_to_string(file).ok()?;
    let line = text.lines().find_map(|l| l.strip_prefix(name))?;
    let kib: f64 = line.trim().trim_end_matches(" kB").trim().parse().ok()?;
    Some(kib / 1024.0)
}

/// The sizes, besides the model's, that determine the memory of a training step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StepShape {
    pub prompts: usize,
    /// Responses per prompt.
    pub group: usize,
    pub prompt_tokens: usize,
    /// Length limit of a response.
    pub new_tokens: usize,
    /// Responses decoded at a time; none: all.
    pub slots: Option<usize>,
    /// Tokens per forward pass.
    pub micro_batch_tokens: usize,
    /// True if a frozen reference model scores the responses (beta is not 0).
    pub reference: bool,
    /// True if a critic learns next to the policy.
    pub critic: bool,
    /// True if the optimiser uses compensated summation.
    pub compensated: bool,
    /// True if responses are sampled in this process, false if a server samples them.
    pub sampled_here: bool,
    /// Problems of an evaluation; 0: there is none.
    pub evaluated: usize,
    /// Prefixes of responses that others continue; none where every response starts at its prompt.
    pub stems: Option<Stems>,
}

impl StepShape {
    /// The step of a configuration on prompts of so many tokens.
    pub fn new(config: &RunConfig, prompt_tokens: usize) -> StepShape {
        let rl = &config.rl;
        StepShape {
            prompts: rl.prompts_per_step,
            group: rl.group_size,
            prompt_tokens,
            new_tokens: rl.max_new_tokens,
            slots: config.memory.slots,
            micro_batch_tokens: config.memory.micro_batch_tokens,
            reference: config.configured().extra_inputs().contains(&InputKind::RefLogps),
            critic: config.has_critic(),
            compensated: config.adam.compensated,
            sampled_here: config.rollout.is_none(),
            evaluated: config.eval.n,
            stems: Stems::new(config),
        }
    }

    /// The responses that continue prefixes: no more at a time than a step has responses.
    fn continued(&self) -> Option<StepShape> {
        let Stems { prefixes, each, tokens } = self.stems?;
        Some(StepShape {
            prompts: self.prompts * prefixes,
            group: each,
            prompt_tokens: self.prompt_tokens + tokens,
            new_tokens: self.new_tokens.saturating_sub(tokens),
            slots: self.slots.into_iter().chain([self.prompts * self.group]).min(),
            ..*self
        })
    }

    /// The prompts of an evaluation that are answered at a time, once each.
    fn evaluation(&self) -> StepShape {
        StepShape { prompts: self.evaluated.min(eval_slots(self.slots)), group: 1, slots: None, ..*self }
    }
}

/// The configuration with `memory.recompute_layers=auto` decided for this machine: layers are kept where the estimate of a step that keeps
/// them is at most three quarters of the memory, or where the system does not tell how much there is.
pub fn decided(config: &RunConfig, shape: &ModelConfig, prompt_tokens: usize) -> RunConfig {
    decided_for(total_mib(), config, shape, prompt_tokens)
}

pub fn decided_for(
    there: Option<f64>,
    config: &RunConfig,
    shape: &ModelConfig,
    prompt_tokens: usize,
) -> RunConfig {
    let fits = |kept: &RunConfig| {
        let estimate = estimate(shape, &StepShape::new(kept, prompt_tokens), kept.lora.as_ref());
        let needed = estimate.peak(false) as f64 / f64::from(1 << 20);
        Ok::<_, std::convert::Infallible>(there.is_none_or(|mib| needed <= 0.75 * mib))
    };
    let Ok(decided) = config.deciding_recomputation(fits);
    decided
}

/// One use of memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemoryItem {
    pub name: &'static str,
    pub bytes: usize,
    pub formula: String,
}

/// An estimate for training in f32, item by item.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemoryEstimate {
    /// Held all the time.
    pub state: Vec<MemoryItem>,
    /// Held while responses are sampled, in a step or in an evaluation, whichever takes more.
    pub rollout: Vec<MemoryItem>,
    /// Held in an update, every activation kept.
    pub update: Vec<MemoryItem>,
    /// Held in an update, each layer computed again in the backward pass.
    pub update_checkpointed: Vec<MemoryItem>,
}

/// Bytes of some items.
pub fn total(items: &[MemoryItem]) -> usize {
    items.iter().map(|i| i.bytes).sum()
}

impl MemoryEstimate {
    /// The most that is held at once: the state, and the larger of rollout and update.
    pub fn peak(&self, checkpointed: bool) -> usize {
        let update = if checkpointed { &self.update_checkpointed } else { &self.update };
        total(&self.state) + total(&self.rollout).max(total(update))
    }
}

const F32: usize = size_of::<f32>();

/// Number of elements of the weights packed for matrix products.
fn packed(c: &ModelConfig) -> usize {
    let layer: usize = c.layer().linears().map(Linear::packed).sum();
    c.num_hidden_layers * layer + packed_len(c.hidden_size, c.vocab_size)
}

/// Number of elements that the tape keeps per token and layer.
fn per_token(c: &ModelConfig) -> usize {
    c.layer().tape_numbers()
}

/// Numbers that the tape keeps of a scored token, of which so many are scored.
fn per_scored(c: &ModelConfig, scored: usize, checkpointed: bool) -> usize {
    let logits = if !checkpointed && log_prob::keeps(scored, c.vocab_size) { c.vocab_size } else { 0 };
    2 * c.hidden_size + 5 + logits
}

/// Bytes of the tape of a forward pass over rows of `tokens` tokens of their own, of which `scored` are scored, and `shared` tokens of
/// prefixes.
pub fn tape_bytes(c: &ModelConfig, tokens: usize, shared: usize, scored: usize, checkpointed: bool) -> usize {
    let layer = if checkpointed { c.hidden_size } else { per_token(c) };
    let layers = c.num_hidden_layers * (tokens * layer + shared * c.heads().stride());
    F32 * (layers + scored * per_scored(c, scored, checkpointed))
}

/// Bytes of the pages that hold keys and values when every response has full length.
pub fn cache_bytes(c: &ModelConfig, step: &StepShape) -> usize {
    F32 * page(c) * pages(step)
}

fn pages(step: &StepShape) -> usize {
    let prompts = std::iter::repeat_n((step.prompt_tokens, step.new_tokens), step.prompts);
    slots::most_pages(prompts, step.group, step.slots, PAGE)
}

fn page(c: &ModelConfig) -> usize {
    c.num_hidden_layers * c.num_key_value_heads * c.heads().page()
}

fn item(name: &'static str, bytes: usize, formula: String) -> MemoryItem {
    MemoryItem { name, bytes, formula }
}

/// The memory of training `c`, or an adapter of it, with steps of this size.
pub fn estimate(c: &ModelConfig, step: &StepShape, lora: Option<&LoraSettings>) -> MemoryEstimate {
    let update = Update::new(c, step);
    MemoryEstimate {
        state: state(c, step, lora),
        rollout: if step.sampled_here { most_sampled(c, step) } else { Vec::new() },
        update: vec![update.activations(), update.prompts(), update.work_space()],
        update_checkpointed: vec![
            update.layer_inputs(),
            update.one_layer(),
            update.prompts(),
            update.work_space(),
        ],
    }
}

/// Memory held from the first step to the last.
fn state(c: &ModelConfig, step: &StepShape, lora: Option<&LoraSettings>) -> Vec<MemoryItem> {
    let parameters: usize = c.parameter_shapes().iter().map(|(_, s)| s.iter().product::<usize>()).sum();
    let adapted = lora.map(|lora| lora.adapted(c));
    let trained = lora.map_or(parameters, |lora| lora.parameters(c));
    let rows = tied_rows(c, step);
    let plus_rows = match rows {
        0 => String::new(),
        _ => format!(" + 4 x {rows} tokens x {} (of a tied embedding)", c.hidden_size),
    };
    let moments = moments(step);
    // The weights of the model are moved where they lie; an adapter's are the optimiser's own.
    let copies = if lora.is_some() { moments + 1 } else { moments };
    let (numbers, each) = match adapted {
        None => (parameters + rows * c.hidden_size, format!("4 x {parameters}{plus_rows}")),
        Some(n) => (n, format!("4 x {n} (whole, of the adapted matrices)")),
    };
    let packed = packed(c);
    let mut state = vec![
        item("weights", F32 * parameters, format!("4 bytes x {parameters} parameters")),
        item("packed weights", F32 * packed, format!("4 x {packed} (matrices laid out for products)")),
        item("gradients", F32 * numbers, each),
        item(
            "optimiser",
            copies * F32 * trained,
            format!(
                "{copies} x 4 x {trained} ({}two moments{})",
                if lora.is_some() { "the adapter, " } else { "" },
                if step.compensated { ", rounding residuals" } else { "" }
            ),
        ),
    ];
    state.extend(adapted.map(|n| item("base", F32 * n, format!("4 x {n} (what is under the adapter)"))));
    state.extend(step.reference.then(|| match adapted {
        None => {
            item("reference model", F32 * (parameters + packed), format!("4 x ({parameters} + {packed})"))
        }
        Some(n) => {
            item("reference", F32 * n, format!("4 x {n} (what is adapted, put aside while it is asked)"))
        }
    }));
    state.extend(step.critic.then(|| critic(c, parameters, moments, rows)));
    state
}

/// Rows of a tied embedding that a step may give gradients of their own: one per token that occurs.
fn tied_rows(c: &ModelConfig, step: &StepShape) -> usize {
    let tokens = step.prompts * (step.prompt_tokens + step.group * step.new_tokens);
    if c.tie_word_embeddings { tokens.min(c.vocab_size) } else { 0 }
}

/// The numbers that an optimiser keeps of each weight.
fn moments(step: &StepShape) -> usize {
    if step.compensated { 3 } else { 2 }
}

/// A critic: weights, their packed form, gradients and optimiser of a copy of the model, whose output matrix nothing trains unless it is the
/// embedding.
fn critic(c: &ModelConfig, parameters: usize, moments: usize, tied_rows: usize) -> MemoryItem {
    let matrix = c.vocab_size * c.hidden_size;
    let value_head = c.hidden_size + 1;
    // An output matrix of its own has no gradient, and no optimiser.
    let (gradients, trained) = match c.tie_word_embeddings {
        true => (parameters + tied_rows * c.hidden_size, parameters + value_head),
        false => (parameters - matrix, parameters - matrix + value_head),
    };
    let packed = packed(c);
    let formula = format!(
        "4 x ({parameters} weights + {value_head} of the head + {packed} packed + {gradients} gradients + {moments} x {trained} of the optimiser)"
    );
    item("critic", F32 * (parameters + value_head + packed + gradients + moments * trained), formula)
}

/// Memory held while responses are sampled, from prompts or prefixes in a step or in an evaluation, whichever takes most.
fn most_sampled(c: &ModelConfig, step: &StepShape) -> Vec<MemoryItem> {
    let of_step = rollout(c, step, "a step");
    let of_evaluation = rollout(c, &step.evaluation(), "an evaluation");
    let of_prefixes = step.continued().map(|continued| rollout(c, &continued, "prefixes"));
    let larger = |most: Vec<MemoryItem>, other: Vec<MemoryItem>| {
        if total(&other) > total(&most) { other } else { most }
    };
    [of_evaluation].into_iter().chain(of_prefixes).fold(of_step, larger)
}

/// Memory held while the responses of this batch are sampled.
fn rollout(c: &ModelConfig, step: &StepShape, batch: &str) -> Vec<MemoryItem> {
    let responses = slots::count(step.prompts * step.group, step.slots);
    let shared = step.prompt_tokens / PAGE;
    let own = (step.prompt_tokens + step.new_tokens).div_ceil(PAGE) - shared;
    let pages = format!(
        "{} bytes a page of {PAGE} tokens x {} pages: {responses} responses of {batch} at a time, {shared} pages of a prompt shared, {own} each",
        F32 * page(c),
        pages(step),
    );
    let logits = format!("4 x {responses} responses x {} tokens of the vocabulary", c.vocab_size);
    vec![
        item("KV cache", cache_bytes(c, step), pages),
        item("logits", F32 * responses * c.vocab_size, logits),
    ]
}

/// Memory held in an update, on the largest micro-batch.
struct Update<'c> {
    c: &'c ModelConfig,
    /// Own tokens of rows, tokens of prefixes, and scored tokens of the micro-batch.
    tokens: usize,
    shared: usize,
    scored: usize,
    /// Tokens of the prefixes of all prompts of a step.
    prompts: usize,
}

impl<'c> Update<'c> {
    /// A micro-batch takes whole rows, at least one, and the prompt of a group once, but for its last token, which each row has.
    fn new(c: &'c ModelConfig, step: &StepShape) -> Self {
        let (group, shared) = (step.group.max(1), step.prompt_tokens.saturating_sub(1));
        let row = step.prompt_tokens - shared + step.new_tokens;
        let whole = step.micro_batch_tokens / (shared + group * row);
        let left = step.micro_batch_tokens % (shared + group * row);
        let rows = whole * group + left.saturating_sub(shared) / row;
        let rows = rows.clamp(1, (step.prompts * group).max(1));
        let prompts = step.prompts * shared;
        Update {
            c,
            tokens: rows * row,
            shared: rows.div_ceil(group) * shared,
            scored: rows * step.new_tokens,
            prompts,
        }
    }

    /// Gradients of the prompts, which wait for all rows that continue them.
    fn prompts(&self) -> MemoryItem {
        let (tokens, layers, cached) = (self.prompts, self.c.num_hidden_layers, self.c.heads().cached());
        let formula = format!("4 x {layers} layers x {tokens} tokens x {cached} (keys and values)");
        item("gradients of prompts", F32 * layers * tokens * cached, formula)
    }

    fn work_space(&self) -> MemoryItem {
        let Update { c, scored, .. } = self;
        let tokens = self.tokens.max(self.shared);
        let (h, f) = (c.hidden_size, c.intermediate_size);
        let chunk = log_prob::chunk(c.vocab_size).min((*scored).max(1));
        let formula = format!(
            "4 x {tokens} tokens x (2 x {h} + 2 x {f}) + 4 x {chunk} tokens' logits x {}",
            c.vocab_size
        );
        item("work space", F32 * (tokens * (2 * h + 2 * f) + chunk * c.vocab_size), formula)
    }

    fn activations(&self) -> MemoryItem {
        self.tape("activations", per_token(self.c), false)
    }

    fn layer_inputs(&self) -> MemoryItem {
        self.tape("layer inputs", self.c.hidden_size, true)
    }

    fn tape(&self, name: &'static str, per_layer: usize, checkpointed: bool) -> MemoryItem {
        let Update { c, tokens, shared, scored, .. } = self;
        let (layers, stride) = (c.num_hidden_layers, c.heads().stride());
        let per_scored = per_scored(c, *scored, checkpointed);
        let formula = format!(
            "4 x {layers} layers x ({tokens} tokens x {per_layer} + {shared} of prompts x {stride}) + 4 x {scored} scored x {per_scored}"
        );
        item(name, tape_bytes(c, *tokens, *shared, *scored, checkpointed), formula)
    }

    fn one_layer(&self) -> MemoryItem {
        let numbers = per_token(self.c);
        let formula = format!("4 x {} tokens x {numbers}", self.tokens);
        item("one layer again", F32 * self.tokens * numbers, formula)
    }
}
