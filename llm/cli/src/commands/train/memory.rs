//! The model of a run and the memory that its steps take, item by item: from the shape, without weights or a card.

use std::fmt::Write as _;

use grpo_lambda_decoder::model;
use grpo_lambda_gpu::Dtype;
use grpo_lambda_gpu::ledger::Uses;
use grpo_lambda_gpu::select::{NoCard, find_card};

use crate::commands::gib;
use grpo_lambda_trainer::config::Config;
use grpo_lambda_trainer::plan::memory::{self, MemoryItem, StepShape};
use grpo_lambda_trainer::plan::synthetic::{ALLOWANCE, memory_check, predict};
use grpo_lambda_trainer::problems::MaxLengths;
use grpo_lambda_trainer::run::progress::say;

/// The model, and the memory of a step on the CPU and on a card.
pub(super) fn section(
    config: &Config,
    (shape, files): (&model::ModelConfig, &str),
    step: &StepShape,
) -> String {
    let (model, cpu) = (described(shape, files), on_cpu(config, shape, step));
    format!("{model}\n{cpu}\n{}", on_card(shape, config, step.prompt_tokens))
}

/// The shape of the model, and a line on its files.
fn described(c: &model::ModelConfig, files: &str) -> String {
    let parameters: usize = c.parameter_shapes().iter().map(|(_, s)| s.iter().product::<usize>()).sum();
    let tied = if c.tie_word_embeddings { ", head tied to the embedding" } else { "" };
    [
        format!("architecture    {:?}", c.architecture),
        format!("parameters      {parameters}"),
        format!("files           {files}"),
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
        + "\n"
}

/// The memory of a step on the CPU.
fn on_cpu(config: &Config, shape: &model::ModelConfig, step: &StepShape) -> String {
    let mut text = format!(
        "Memory of a step on the CPU in f32: {} prompts of {} tokens x {} responses of up to {}, micro-batches of {} tokens\n",
        step.prompts, step.prompt_tokens, step.group, step.new_tokens, step.micro_batch_tokens
    );
    let estimate = memory::estimate(shape, step, config.lora.as_ref());
    items(&mut text, "held all the time", &estimate.state);
    items(&mut text, "while sampling", &estimate.rollout);
    items(&mut text, "in an update", &estimate.update);
    items(&mut text, "in an update with memory.recompute_layers=true", &estimate.update_checkpointed);
    text += &format!(
        "\npeak: {} (state, and the larger of sampling and update); with memory.recompute_layers=true {}\n",
        gib(estimate.peak(false) as u64),
        gib(estimate.peak(true) as u64)
    );
    text
}

fn items(text: &mut String, name: &str, items: &[MemoryItem]) {
    *text += &format!("{name}: {}\n", gib(memory::total(items) as u64));
    for item in items {
        *text += &format!("  {:16}{:>14}   = {}\n", item.name, gib(item.bytes as u64), item.formula);
    }
}

/// The memory of a step on a card, counted by running one without computing, and whether it fits the card that is here.
fn on_card(shape: &model::ModelConfig, config: &Config, prompt_tokens: usize) -> String {
    let mut text = format!(
        "Memory of the same on a card, counted by running a step without computing (every response at its limit), and {} for the driver's context, \
         machine code and rounding (an allowance, not counted):\n",
        gib(ALLOWANCE)
    );
    let free = free_memory();
    for dtype in [Dtype::Bf16, Dtype::F32] {
        let found = predict(shape, config, dtype, MaxLengths { prompt: prompt_tokens, example: 0 });
        let line = match &found {
            Ok(p) => {
                let (peak, of) = p.peak();
                let host = match p.host {
                    0 => String::new(),
                    bytes => format!("; the optimiser's {} are in the machine's memory", gib(bytes)),
                };
                let verdict = match &free {
                    Ok((_, free)) => match memory_check(p, *free, config) {
                        Ok(()) => "; it fits".to_owned(),
                        Err(line) => format!("; {line}"),
                    },
                    Err(_) => String::new(),
                };
                format!(
                    "{:>10}   sampling {}, update {}; at the peak: {}{host}{verdict}",
                    gib(*peak),
                    gib(p.sampling.0),
                    gib(p.update.0),
                    uses(of)
                )
            }
            Err(error) => format!("  {error}"),
        };
        let _ = writeln!(text, "  {:5}{line}", dtype.name());
    }
    text + &match free {
        Ok((name, free)) => format!("card: {name} with {} free\n", gib(free)),
        Err(why) => format!("card: {why}\n"),
    }
}

/// The name of the card that is here, and its free bytes.
fn free_memory() -> Result<(String, u64), String> {
    let card = find_card(Dtype::Bf16, say).map_err(|none| match none {
        NoCard::NotBuilt => "not searched for, because this llm-train was built without CUDA".to_owned(),
        NoCard::Unusable(reason) => reason.to_string(),
    })?;
    let (free, _) = card.memory().map_err(|e| e.to_string())?;
    Ok((card.name(), free))
}

/// The uses that matter, largest first.
fn uses(uses: &Uses) -> String {
    let mut all: Vec<(&str, u64)> = uses.iter().map(|(name, bytes)| (*name, *bytes)).collect();
    all.retain(|(_, bytes)| *bytes > 0);
    all.sort_by_key(|(_, bytes)| std::cmp::Reverse(*bytes));
    all.iter().map(|(name, bytes)| format!("{name} {}", gib(*bytes))).collect::<Vec<_>>().join(", ")
}
