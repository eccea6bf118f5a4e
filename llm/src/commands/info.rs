//! `llm-train info`.

use std::path::PathBuf;

use super::{Failure, load_model, print};

/// Arguments of `info`.
#[derive(Clone, Debug, clap::Args)]
pub struct InfoArgs {
    /// Checkpoint directory
    #[arg(long, value_name = "DIR")]
    pub model: PathBuf,
}

/// Prints what a checkpoint is and what training it would take.
///
/// # Errors
/// When the checkpoint is refused.
pub fn run(args: &InfoArgs) -> Result<(), Failure> {
    let model = load_model(&args.model)?;
    let c = model.config();
    let parameters: usize = model.parameters().values().map(|t| t.data.len()).sum();
    let mib = |bytes: f64| bytes / (1 << 20) as f64;
    // Weights, packed weights, gradients, two moments and the rounding residual, 4 bytes each.
    let copies = [
        "weights",
        "weights packed for the product",
        "gradients",
        "first moments",
        "second moments",
        "master weights",
        "rounding residuals",
    ];
    let state = mib(4.0 * (parameters * copies.len()) as f64);
    let cache = mib(4.0 * (2 * c.num_hidden_layers * c.num_key_value_heads * c.head_dim) as f64);
    let lines = [
        format!("architecture    {:?}", c.architecture),
        format!("parameters      {parameters}"),
        format!(
            "layers          {}, width {}, MLP {}",
            c.num_hidden_layers, c.hidden_size, c.intermediate_size
        ),
        format!(
            "heads           {} ({} of keys and values), dimension {}",
            c.num_attention_heads, c.num_key_value_heads, c.head_dim
        ),
        format!(
            "vocabulary      {}{}",
            c.vocab_size,
            if c.tie_word_embeddings { ", head tied to the embedding" } else { "" }
        ),
        format!("context         {}", c.max_position_embeddings),
        format!("training state  {state:.1} MiB in f32: {}", copies.join(", ")),
        format!("KV cache        {:.4} MiB per token of a response", cache),
    ];
    print(&(lines.join("\n") + "\n"))
}
