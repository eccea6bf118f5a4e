//! A training step on random weights of a published model shape: where its time goes, how close it is to the device's peak, and how long a
//! run would take.

mod measure;
mod plan;
mod predict;
mod report;
#[cfg(test)]
mod tests;

use grpo_lambda_gpu::select::{NoCard, find_card};
use measure::{card, cpu};
use plan::Bench;
use predict::dry;

use super::super::{Failure, print, use_threads};
use super::BenchArgs;
use grpo_lambda_trainer::plan::memory;
use grpo_lambda_trainer::run::progress::say;

/// Where a bench computes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum BenchDevice {
    /// A CUDA card.
    Cuda,
    /// This processor, in f32.
    Cpu,
    /// Nowhere: launches, operations and memory are counted.
    Dry,
}

/// Arguments of `bench` with a shape.
#[derive(Clone, Debug, clap::Args)]
pub struct ShapeArgs {
    /// Instead of a checkpoint, the shape of a published model, as in qwen2.5-math-1.5b
    #[arg(long, value_name = "NAME", conflicts_with = "model", requires = "random_weights")]
    pub model_shape: Option<String>,
    /// With --model-shape: the weights are random numbers
    #[arg(long, requires = "model_shape")]
    pub random_weights: bool,
    /// With --model-shape: where to compute; the default is a CUDA card if there is one, else dry
    #[arg(long, value_name = "DEVICE", requires = "model_shape")]
    pub device: Option<BenchDevice>,
    /// With --model-shape: f32 or bf16 on a card and dry
    #[arg(long, value_name = "DTYPE", default_value = "bf16", value_parser = ["f32", "bf16"], requires = "model_shape")]
    pub dtype: String,
    /// With --model-shape: free memory of the card that a dry run counts for, in GiB; it decides memory.recompute_layers=auto and the slots of an evaluation
    #[arg(long, value_name = "GIB", default_value_t = 78.0, requires = "model_shape")]
    pub card_memory: f64,
    /// With --model-shape: train an adapter, that of the preset or of rank 16
    #[arg(long, requires = "model_shape")]
    pub lora: bool,
    /// With --model-shape: the settings of a step
    #[arg(long, value_name = "NAME|FILE", default_value = "paper-qwen-1.5b", requires = "model_shape")]
    pub preset: String,
    /// With --model-shape: steps of the run whose time is projected
    #[arg(long, value_name = "N", default_value_t = 10_000, value_parser = super::count, requires = "model_shape")]
    pub projected_steps: usize,
    /// With --model-shape: what an hour of the device costs, in any currency; without it no cost is projected
    #[arg(long, value_name = "PRICE", requires = "model_shape")]
    pub price_per_hour: Option<f64>,
    /// With --model-shape: settings over the preset's, as in rl.group_size=16
    #[arg(value_name = "key=value", requires = "model_shape")]
    pub overrides: Vec<String>,
}

/// Runs it.
///
/// # Errors
/// When an argument is refused, there is too little memory, or the device fails.
pub(super) fn run(args: &BenchArgs, name: &str) -> Result<(), Failure> {
    if let Some(price) = args.shape.price_per_hour.filter(|p| !p.is_finite() || *p < 0.0) {
        return Err(Failure::refused(format!("--price-per-hour {price}: must be a number of at least 0")));
    }
    let gib = args.shape.card_memory;
    if !(gib.is_finite() && gib > 0.0) {
        return Err(Failure::refused(format!("--card-memory {gib}: must be a number of GiB greater than 0")));
    }
    let bench = Bench::new(args, name)?;
    let free = (gib * f64::from(1 << 30)) as u64;
    let counted = |bench: Bench| {
        let (bench, prediction) = bench.decided(free)?;
        dry(&bench, &prediction, free)
    };
    use_threads(args.threads.unwrap_or(0))?;
    match args.shape.device {
        Some(BenchDevice::Dry) => print(&counted(bench)?),
        Some(BenchDevice::Cpu) => {
            let config = memory::decided(&bench.config, &bench.shape, bench.prompt_tokens);
            print(&cpu(&Bench { config, ..bench }, args)?)
        }
        other => match find_card(bench.dtype, say) {
            Ok(device) => {
                let (free, _) = device.memory().map_err(Failure::broke)?;
                let (bench, prediction) = bench.decided(free)?;
                print(&card(&bench, prediction, args, &device)?)
            }
            Err(NoCard::NotBuilt) if other.is_some() => Err(Failure::refused(
                "--device cuda: this llm-train was built without CUDA: build it with --features cuda, or give --device dry or cpu",
            )),
            Err(NoCard::Unusable(reason)) if other.is_some() => {
                Err(Failure::refused(format!("--device cuda: {reason}")))
            }
            found => {
                if let Err(NoCard::Unusable(reason)) = found {
                    eprintln!("nothing is measured: {reason}");
                }
                print(&counted(bench)?)
            }
        },
    }
}
