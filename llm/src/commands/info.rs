//! `llm-train info`.

pub(super) mod gpu;

use std::path::PathBuf;

use grpo_lambda::group::EvidenceKind;
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
    let mut overrides = args.overrides.clone();
    let (c, files) = match (&args.model, &args.model_shape) {
        (_, Some(name)) => {
            (shapes::named(name).map_err(Failure::refused)?, format!("shape           {name}"))
        }
        (Some(model), None) => {
            let directory = checkpoint(model)?;
            let c = model::Config::load(&directory).map_err(Failure::refused)?;
            let files = weights::inspect(&directory, &c).map_err(Failure::refused)?;
            // The shape is the checkpoint's, whatever the preset says.
            if !overrides.iter().any(|o| o.starts_with("model.checkpoint=")) {
                overrides.push(format!("model.checkpoint={}", directory.display()));
            }
            let dtypes: Vec<&str> = files.dtypes.iter().map(String::as_str).collect();
            let line = format!(
                "files           {} with {} bytes of {}",
                files.files,
                files.bytes,
                dtypes.join(", ")
            );
            (c, line)
        }
        (None, None) => return Err(Failure::refused("--model or --model-shape: one of them must be given")),
    };
    let config = Config::resolve(&args.preset, &overrides).map_err(Failure::refused)?;
    let parameters: usize = c.parameter_shapes().iter().map(|(_, s)| s.iter().product::<usize>()).sum();
    let tied = if c.tie_word_embeddings { ", head tied to the embedding" } else { "" };
    let mut text = [
        format!("architecture    {:?}", c.architecture),
        format!("parameters      {parameters}"),
        files,
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
    .join("\n");
    let rl = &config.rl;
    let step = StepShape {
        prompts: rl.prompts_per_step,
        group: rl.group_size,
        prompt_tokens: args.prompt_tokens,
        new_tokens: rl.max_new_tokens,
        micro_batch_tokens: config.memory.micro_batch_tokens,
        reference: config.configured().evidence().contains(&EvidenceKind::RefLogps),
        compensated: rl.adam.compensated,
    };
    if let Some(lora) = &config.lora {
        lora.shapes(&c).map_err(Failure::refused)?;
    }
    let row = args.prompt_tokens + rl.max_new_tokens;
    if row > c.max_position_embeddings {
        return Err(Failure::refused(format!(
            "--prompt-tokens {}: with rl.max_new_tokens = {} it must be from 1 to the model's limit of {}",
            args.prompt_tokens, rl.max_new_tokens, c.max_position_embeddings
        )));
    }
    text += &format!(
        "\n\nMemory of RL training on the CPU in f32, preset {}: {} prompts of {} tokens x {} responses of up to {}, micro-batches of {} tokens\n",
        args.preset, step.prompts, step.prompt_tokens, step.group, step.new_tokens, step.micro_batch_tokens
    );
    let estimate = memory::estimate(&c, &step, config.lora.as_ref());
    section(&mut text, "held all the time", &estimate.state);
    section(&mut text, "while sampling", &estimate.rollout);
    section(&mut text, "in an update", &estimate.update);
    section(&mut text, "in an update with memory.recompute_layers=true", &estimate.update_checkpointed);
    text += &format!(
        "\npeak: {} (state, and the larger of sampling and update); with memory.recompute_layers=true {}\n",
        mib(estimate.peak(false)),
        mib(estimate.peak(true))
    );
    text += &gpu::section(&c, &config, args.prompt_tokens);
    print(&text)
}

fn mib(bytes: usize) -> String {
    format!("{:.1} MiB", bytes as f64 / f64::from(1 << 20))
}

fn section(text: &mut String, name: &str, items: &[MemoryItem]) {
    *text += &format!("{name}: {}\n", mib(memory::total(items)));
    for item in items {
        *text += &format!("  {:16}{:>14}   = {}\n", item.name, mib(item.bytes), item.formula);
    }
}
