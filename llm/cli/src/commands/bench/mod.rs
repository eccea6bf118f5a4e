//! `llm-train bench`: a training step on random weights of a model's shape: the time of its phases, its share of the
//! device's peak, and the
//! time of a run.

mod measure;
mod plan;
mod report;
#[cfg(test)]
mod tests;

use grpo_lambda_gpu::select::{NoCard, find_card};
use measure::{card, cpu};
use plan::Bench;
use report::counted;

use super::{Command, Failure, Result, count, print, use_threads, whole};
use grpo_lambda_trainer::plan::memory;
use grpo_lambda_trainer::run::progress::say;

/// The device of a bench.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum BenchDevice {
    /// A CUDA card.
    Cuda,
    /// This processor, in f32.
    Cpu,
    /// Nowhere: launches, operations and memory are counted.
    Dry,
}

/// Arguments of `bench`.
#[derive(Clone, Debug, clap::Args)]
pub struct BenchArgs {
    /// A published model, as in qwen2.5-math-1.5b, or a checkpoint or run directory: its shape, with random weights
    #[arg(value_name = "NAME|DIR")]
    pub shape: String,
    /// Device; the default is a CUDA card if there is one, else dry
    #[arg(long, value_name = "DEVICE")]
    pub device: Option<BenchDevice>,
    /// On a card and dry
    #[arg(long, value_name = "DTYPE", default_value = "bf16", value_parser = ["f32", "bf16"])]
    pub dtype: String,
    /// Free memory of the card that a dry run counts for, in GiB; it decides memory.recompute_layers=auto and the slots
    /// of an evaluation
    #[arg(long, value_name = "GIB", default_value_t = 78.0)]
    pub card_memory: f64,
    /// Worker threads; 0: as many as the machine has
    #[arg(long, default_value_t = 0, value_parser = whole::<usize>, allow_negative_numbers = true)]
    pub threads: usize,
    /// Steps measured
    #[arg(long, default_value_t = 5, value_parser = count, allow_negative_numbers = true)]
    pub steps: usize,
    /// Steps before measuring
    #[arg(long, default_value_t = 2, value_parser = whole::<usize>, allow_negative_numbers = true)]
    pub warmup: usize,
    /// Prompts per step, in place of the preset's
    #[arg(long, value_parser = count, allow_negative_numbers = true)]
    pub prompts: Option<usize>,
    /// Responses per prompt, in place of the preset's
    #[arg(long, value_parser = count, allow_negative_numbers = true)]
    pub group: Option<usize>,
    /// Tokens per response, in place of the preset's; every response has full length
    #[arg(long, value_parser = count, allow_negative_numbers = true)]
    pub completion: Option<usize>,
    /// Tokens of a prompt; the default is half the paper's limit
    #[arg(long, default_value_t = 128, value_parser = count, allow_negative_numbers = true)]
    pub prompt_tokens: usize,
    /// Train an adapter, that of the preset or of rank 16
    #[arg(long)]
    pub lora: bool,
    /// The settings of a step
    #[arg(long, value_name = "NAME|FILE", default_value = "paper-qwen-1.5b")]
    pub preset: String,
    /// Steps of the run whose time is projected
    #[arg(long, value_name = "N", default_value_t = 10_000, value_parser = count)]
    pub projected_steps: usize,
    /// Price of an hour of the device, in any currency; without it no cost is projected
    #[arg(long, value_name = "PRICE")]
    pub price_per_hour: Option<f64>,
    /// Settings over the preset's, as in rl.group_size=16
    #[arg(value_name = "key=value")]
    pub overrides: Vec<String>,
}

impl Command for BenchArgs {
    fn run(&self) -> Result<()> {
        if let Some(price) = self.price_per_hour.filter(|p| !p.is_finite() || *p < 0.0) {
            return Err(Failure::refused(format!(
                "--price-per-hour {price}: must be a number of at least 0"
            )));
        }
        let gib = self.card_memory;
        if !(gib.is_finite() && gib > 0.0) {
            return Err(Failure::refused(format!(
                "--card-memory {gib}: must be a number of GiB greater than 0"
            )));
        }
        let bench = Bench::new(self)?;
        use_threads(self.threads)?;
        print(&self.measured(bench, (gib * f64::from(1 << 30)) as u64)?)
    }
}

impl BenchArgs {
    /// The report; counted for a card with `free` bytes where nothing computes.
    fn measured(&self, bench: Bench, free: u64) -> Result<String> {
        let counted = |bench: Bench| {
            let (bench, prediction) = bench.decided(free)?;
            counted(&bench, self, &prediction, free)
        };
        match self.device {
            Some(BenchDevice::Dry) => counted(bench),
            Some(BenchDevice::Cpu) => {
                let config = memory::decided(&bench.config, &bench.shape, bench.prompt_tokens);
                cpu(&Bench { config, ..bench }, self)
            }
            asked => match find_card(bench.dtype, say) {
                Ok(device) => {
                    let (free, _) = device.memory().map_err(Failure::broke)?;
                    let (bench, prediction) = bench.decided(free)?;
                    card(&bench, prediction, self, &device)
                }
                Err(NoCard::NotBuilt) if asked.is_some() => Err(Failure::refused(
                    "--device cuda: this llm-train was built without CUDA; build it with --features cuda, or give \
                     --device dry or cpu",
                )),
                Err(NoCard::Unusable(reason)) if asked.is_some() => {
                    Err(Failure::refused(format!("--device cuda: {reason}")))
                }
                found => {
                    if let Err(NoCard::Unusable(reason)) = found {
                        say(&format!("nothing is measured: {reason}"));
                    }
                    counted(bench)
                }
            },
        }
    }
}
