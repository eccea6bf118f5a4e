//! `llm-train info`.

use std::fmt::Write as _;
use std::path::PathBuf;

use grpo_lambda_decoder::model::{self, weights};
use grpo_lambda_gpu::Dtype;
use grpo_lambda_gpu::ledger::Uses;
use grpo_lambda_gpu::select::{NoCard, find_card};

use super::{Command, Failure, checkpoint, count, print};
use grpo_lambda_trainer::config::Config;
use grpo_lambda_trainer::plan::memory::{self, MemoryItem, StepShape};
use grpo_lambda_trainer::plan::shapes;
use grpo_lambda_trainer::plan::synthetic::{
    ALLOWANCE, StepPrediction, SyntheticStepError, memory_check, predict,
};
use grpo_lambda_trainer::problems::MaxLengths;
use grpo_lambda_trainer::run::progress::say;

/// Arguments of `info`.
#[derive(Clone, Debug, clap::Args)]
pub struct InfoArgs {
    /// Checkpoint directory, or a run directory for its latest
    #[arg(long, value_name = "DIR", required_unless_present = "model_shape")]
    pub model: Option<PathBuf>,
    /// Instead of a checkpoint, the shape of a published model, as in qwen2.5-math-1.5b
    #[arg(long, value_name = "NAME", conflicts_with = "model")]
    pub model_shape: Option<String>,
    /// The preset whose training the memory is estimated for
    #[arg(long, value_name = "NAME|FILE", default_value = "tiny")]
    pub preset: String,
    /// Tokens of a prompt, for the estimate
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = count, allow_negative_numbers = true)]
    pub prompt_tokens: usize,
    /// Settings over the preset's, as in rl.group_size=16
    #[arg(value_name = "key=value")]
    pub overrides: Vec<String>,
}

impl Command for InfoArgs {
    /// Prints what a checkpoint is and what training it would take, from its configuration and the headers of its files.
    fn run(&self) -> Result<(), Failure> {
        let Described { shape, files, directory } = described(self)?;
        let mut overrides = self.overrides.clone();
        // The shape is the checkpoint's, whatever the preset says.
        if let (Some(directory), false) =
            (directory, overrides.iter().any(|o| o.starts_with("model.checkpoint=")))
        {
            overrides.push(format!("model.checkpoint={}", directory.display()));
        }
        let config = Config::resolve_part(&self.preset, &overrides).map_err(Failure::refused)?;
        check(self, &config, &shape)?;
        let memory = memory_section(self, &config, &shape);
        let card = card_section(&shape, &config, self.prompt_tokens);
        print(&format!("{}\n\n{memory}{card}", model_section(&shape, &files)))
    }
}

/// A checkpoint, or a shape without weights.
struct Described {
    shape: model::ModelConfig,
    /// A line on the files.
    files: String,
    directory: Option<PathBuf>,
}

fn described(args: &InfoArgs) -> Result<Described, Failure> {
    match (&args.model, &args.model_shape) {
        (_, Some(name)) => {
            let shape = shapes::named(name).map_err(|e| Failure::refused(format!("--model-shape {e}")))?;
            Ok(Described { shape, files: format!("shape           {name}"), directory: None })
        }
        (Some(model), None) => {
            let directory = checkpoint(model)?;
            let shape = model::ModelConfig::load(&directory).map_err(Failure::refused)?;
            let found = weights::inspect(&directory, &shape).map_err(Failure::refused)?;
            let dtypes: Vec<&str> = found.dtypes.iter().map(String::as_str).collect();
            let (count, bytes) = (found.files, found.bytes);
            let files = format!("files           {count} with {bytes} bytes of {}", dtypes.join(", "));
            Ok(Described { shape, files, directory: Some(directory) })
        }
        (None, None) => Err(Failure::refused("--model or --model-shape: one of them must be given")),
    }
}

/// Refuses an adapter that does not fit the model, and rows longer than its context.
fn check(args: &InfoArgs, config: &Config, shape: &model::ModelConfig) -> Result<(), Failure> {
    if let Some(lora) = &config.lora {
        lora.shapes(shape).map_err(|e| Failure::refused(format!("lora.{e}")))?;
    }
    let new = config.rl.max_new_tokens;
    if args.prompt_tokens + new > shape.max_position_embeddings {
        return Err(Failure::refused(format!(
            "--prompt-tokens {}: with rl.max_new_tokens = {new} it must be from 1 to the model's limit of {}",
            args.prompt_tokens, shape.max_position_embeddings
        )));
    }
    Ok(())
}

/// The section on the model.
fn model_section(c: &model::ModelConfig, files: &str) -> String {
    let parameters: usize = c.parameter_shapes().iter().map(|(_, s)| s.iter().product::<usize>()).sum();
    let tied = if c.tie_word_embeddings { ", head tied to the embedding" } else { "" };
    [
        format!("architecture    {:?}", c.architecture),
        format!("parameters      {parameters}"),
        files.to_owned(),
        format!(
            "layers          {}, width {}, MLP {}",
            c.num_hidden_layers, c.hidden_size, c.intermediate_size
        ),
        format!(
            "heads           {} ({} of keys and values), dimension {}",
            c.num_attention_heads, c.num_key_value_heads, c.head_dim
        ),
        format!("vocabulary      {}{tied}", c.vocab_size),
        format!("context         {}", c.max_position_embeddings),
    ]
    .join("\n")
}

/// The memory of training it on the CPU, item by item.
fn memory_section(args: &InfoArgs, config: &Config, shape: &model::ModelConfig) -> String {
    let step = StepShape::new(config, args.prompt_tokens);
    let mut text = format!(
        "Memory of RL training on the CPU in f32, preset {}: {} prompts of {} tokens x {} responses of up to {}, micro-batches of {} tokens\n",
        args.preset, step.prompts, step.prompt_tokens, step.group, step.new_tokens, step.micro_batch_tokens
    );
    let estimate = memory::estimate(shape, &step, config.lora.as_ref());
    section(&mut text, "held all the time", &estimate.state);
    section(&mut text, "while sampling", &estimate.rollout);
    section(&mut text, "in an update", &estimate.update);
    section(&mut text, "in an update with memory.recompute_layers=true", &estimate.update_checkpointed);
    text += &format!(
        "\npeak: {} (state, and the larger of sampling and update); with memory.recompute_layers=true {}\n",
        bytes(estimate.peak(false)),
        bytes(estimate.peak(true))
    );
    text
}

/// Bytes for people: 76136.5 MiB would be a number to count the digits of.
fn bytes(bytes: usize) -> String {
    gib(bytes as u64)
}

fn section(text: &mut String, name: &str, items: &[MemoryItem]) {
    *text += &format!("{name}: {}\n", bytes(memory::total(items)));
    for item in items {
        *text += &format!("  {:16}{:>14}   = {}\n", item.name, bytes(item.bytes), item.formula);
    }
}

/// The settings of an adapter where those of `config` have none.
const ADAPTER: &str = "lora.rank=16";
const ALL_WEIGHTS: &str = "lora.rank=0";

/// A way of training, and its predicted memory.
struct Case {
    name: String,
    config: Config,
    found: Result<StepPrediction, SyntheticStepError>,
}

fn cases(shape: &model::ModelConfig, config: &Config, prompt_tokens: usize) -> Vec<Case> {
    let other = if config.lora.is_some() { ALL_WEIGHTS } else { ADAPTER };
    let other = config.with(&[other]).ok();
    let mut configs = vec![config.clone()];
    configs.extend(other);
    configs.sort_by_key(|c| c.lora.is_some());
    let case = |(config, dtype): (&Config, Dtype)| {
        let trained =
            config.lora.as_ref().map_or("all weights".to_owned(), |l| format!("lora.rank={}", l.rank));
        let found = predict(shape, config, dtype, MaxLengths { prompt: prompt_tokens, example: 0 });
        Case { name: format!("{}, {trained}", dtype.name()), config: config.clone(), found }
    };
    configs.iter().flat_map(|c| [(c, Dtype::Bf16), (c, Dtype::F32)]).map(case).collect()
}

/// The memory of a step on a card, counted by a dry run.
fn card_section(shape: &model::ModelConfig, config: &Config, prompt_tokens: usize) -> String {
    let cases = cases(shape, config, prompt_tokens);
    let mut text = format!(
        "\nMemory of the same on a GPU, counted by running a step without computing ({}prompts of {prompt_tokens} tokens, every response at its limit):\n",
        if config.memory.recompute_layers { "layers recomputed, " } else { "" }
    );
    for case in &cases {
        match &case.found {
            Ok(p) => {
                let (peak, of) = p.peak();
                let (sampling, update) = (gib(p.sampling.0), gib(p.update.0));
                let host = match p.host {
                    0 => String::new(),
                    bytes => format!("; the optimiser's {} are in the machine's memory", gib(bytes)),
                };
                let _ = writeln!(
                    text,
                    "{:20}{:>10}   sampling {sampling}, update {update}; at the peak: {}{host}",
                    case.name,
                    gib(*peak),
                    uses(of)
                );
            }
            Err(error) => {
                let _ = writeln!(text, "{:20}{error}", case.name);
            }
        }
    }
    let _ = writeln!(
        text,
        "beside it {} for the driver's context, machine code and rounding (an allowance, not counted)",
        gib(ALLOWANCE)
    );
    text + &card(&cases)
}

/// The verdict of each on the card, if there is one.
fn card(cases: &[Case]) -> String {
    let (device, free) = match find_card(Dtype::Bf16, say) {
        Err(NoCard::NotBuilt) => {
            return "card: not searched for, because this llm-train was built without CUDA\n".to_owned();
        }
        Err(NoCard::Unusable(reason)) => return format!("card: {reason}\n"),
        Ok(device) => match device.memory() {
            Ok((free, _)) => (device, free),
            Err(reason) => return format!("card: {reason}\n"),
        },
    };
    let mut text = format!("card: {} with {} free\n", device.name(), gib(free));
    for case in cases {
        let Ok(prediction) = &case.found else { continue };
        let verdict = match memory_check(prediction, free, &case.config) {
            Ok(()) => "fits".to_owned(),
            Err(line) => line,
        };
        let _ = writeln!(text, "  {:20}{verdict}", case.name);
    }
    text
}

/// The uses that matter, largest first.
fn uses(uses: &Uses) -> String {
    let mut all: Vec<(&str, u64)> = uses.iter().map(|(name, bytes)| (*name, *bytes)).collect();
    all.retain(|(_, bytes)| *bytes > 0);
    all.sort_by_key(|(_, bytes)| std::cmp::Reverse(*bytes));
    all.iter().map(|(name, bytes)| format!("{name} {}", gib(*bytes))).collect::<Vec<_>>().join(", ")
}

/// Bytes for people.
pub(super) fn gib(bytes: u64) -> String {
    let mib = bytes as f64 / f64::from(1 << 20);
    if mib < 1024.0 { format!("{mib:.1} MiB") } else { format!("{:.2} GiB", mib / 1024.0) }
}
