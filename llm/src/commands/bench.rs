//! `llm-train bench`: where the time of a training step goes, as one JSON line.

mod checkpoint;
mod shape;

use std::path::PathBuf;

use super::{Failure, count, whole};

/// Arguments of `bench`.
#[derive(Clone, Debug, clap::Args)]
pub struct BenchArgs {
    /// Checkpoint directory, or a run directory for its latest
    #[arg(long, value_name = "DIR", required_unless_present = "model_shape")]
    pub model: Option<PathBuf>,
    /// Worker threads; 0: as many as the machine has; the default is 1, and 0 with --model-shape
    #[arg(long, value_parser = whole::<usize>, allow_negative_numbers = true)]
    pub threads: Option<usize>,
    /// Steps measured
    #[arg(long, default_value_t = 5, value_parser = count, allow_negative_numbers = true)]
    pub steps: usize,
    /// Steps before measuring
    #[arg(long, default_value_t = 2, value_parser = whole::<usize>, allow_negative_numbers = true)]
    pub warmup: usize,
    /// Prompts per step; the default is 4, and the preset's with --model-shape
    #[arg(long, value_parser = count, allow_negative_numbers = true)]
    pub prompts: Option<usize>,
    /// Responses per prompt; the default is 8, and the preset's with --model-shape
    #[arg(long, value_parser = count, allow_negative_numbers = true)]
    pub group: Option<usize>,
    /// Tokens per response; every response has full length; the default is 64, and the preset's with --model-shape
    #[arg(long, value_parser = count, allow_negative_numbers = true)]
    pub completion: Option<usize>,
    /// Tokens of the prompts, in turn; the default is 10,43,12, what the prompts of the Python peers have, and 128 with --model-shape
    #[arg(long, value_delimiter = ',', value_parser = count, allow_negative_numbers = true)]
    pub prompt_tokens: Vec<usize>,
    /// Without a checkpoint
    #[command(flatten)]
    pub shape: shape::ShapeArgs,
}

/// Times steps of training on random prompts.
///
/// # Errors
/// When the checkpoint is refused.
pub fn run(args: &BenchArgs) -> Result<(), Failure> {
    match (&args.shape.model_shape, &args.model) {
        (Some(name), _) => shape::run(args, name),
        (None, Some(model)) => checkpoint::run(args, model),
        (None, None) => Err(Failure::refused("--model or --model-shape: one of them must be given")),
    }
}

/// NaN where there is nothing.
fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}
