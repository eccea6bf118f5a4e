//! `llm-train info`.

pub(super) mod gpu;

use std::path::PathBuf;

use grpo_lambda_decoder::model::{self, weights};

use super::{Failure, checkpoint, count, print};
use crate::config::Config;
use crate::plan::memory::{self, MemoryItem, StepShape};
use crate::plan::shapes;

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

/// Prints what a checkpoint is and what training it would take, from its configuration and the headers of its files.
///
/// # Errors
/// When the checkpoint or the preset is refused.
pub fn run(args: &InfoArgs) -> Result<(), Failure> {
    let Described { shape, files, directory } = described(args)?;
    let mut overrides = args.overrides.clone();
    // The shape is the checkpoint's, whatever the preset says.
    if let (Some(directory), false) =
        (directory, overrides.iter().any(|o| o.starts_with("model.checkpoint=")))
    {
        overrides.push(format!("model.checkpoint={}", directory.display()));
    }
    let config = Config::resolve_part(&args.preset, &overrides).map_err(Failure::refused)?;
    check(args, &config, &shape)?;
    let memory = memory_section(args, &config, &shape);
    let card = gpu::section(&shape, &config, args.prompt_tokens);
    print(&format!("{}\n\n{memory}{card}", model_section(&shape, &files)))
}

/// What is described: a checkpoint, or a shape without weights.
struct Described {
    shape: model::ModelConfig,
    /// A line on the files.
    files: String,
    directory: Option<PathBuf>,
}

fn described(args: &InfoArgs) -> Result<Described, Failure> {
    match (&args.model, &args.model_shape) {
        (_, Some(name)) => {
            let shape = shapes::named(name).map_err(Failure::refused)?;
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

/// What the model is.
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
    let step = StepShape::of(config, args.prompt_tokens);
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
    gpu::gib(bytes as u64)
}

fn section(text: &mut String, name: &str, items: &[MemoryItem]) {
    *text += &format!("{name}: {}\n", bytes(memory::total(items)));
    for item in items {
        *text += &format!("  {:16}{:>14}   = {}\n", item.name, bytes(item.bytes), item.formula);
    }
}
