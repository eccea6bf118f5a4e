//! Refusals of runs that do not fit a card, with the setting to change.

use grpo_lambda_decoder::model::ModelConfig as Shape;
use grpo_lambda_decoder::slots;
use grpo_lambda_gpu::{Dtype, StatePlace};

use super::predict::{StepPrediction, predict};
use super::{Result, SyntheticStepError};
use crate::config::Config;
use crate::eval::eval_slots;
use crate::problems::MaxLengths;

/// Memory of a card that is not counted: the driver's context, the kernels' machine code, the libraries' workspace, and what rounding
/// to the driver's pages takes. Stated, not measured: 1 GiB.
pub const ALLOWANCE: u64 = 1 << 30;

/// The ledger's names of the optimiser's state.
const OPTIMISER: [&str; 3] = ["master weights", "rounding residuals", "moments"];

fn gib(bytes: u64) -> f64 {
    bytes as f64 / (1u64 << 30) as f64
}

/// Refuses a run whose optimiser's state exceeds the memory of a machine of so many MiB, where it is there.
pub fn host_check(predicted: &StepPrediction, machine: Option<f64>) -> Result<(), String> {
    let Some(there) = machine.map(|mib| (mib * f64::from(1 << 20)) as u64) else { return Ok(()) };
    if predicted.host <= there {
        return Ok(());
    }
    Err(format!(
        "memory.optimiser=host: the optimiser's state takes {:.1} GiB, and the machine has {:.1} GiB of memory: set adam.compensated=false (a \
         quarter less), or lora.rank=16 (an adapter instead of all weights)",
        gib(predicted.host),
        gib(there)
    ))
}

/// Refuses a run whose predicted peak plus [`ALLOWANCE`] exceeds `free` bytes.
pub fn memory_check(predicted: &StepPrediction, free: u64, config: &Config) -> Result<(), String> {
    let (peak, _) = predicted.peak();
    if peak.saturating_add(ALLOWANCE) <= free {
        return Ok(());
    }
    let rl = &config.rl;
    let mut ways = Vec::new();
    // The setting with the largest effect is named first.
    let slots = config.memory.slots;
    let evaluated = config.eval.n.min(eval_slots(slots));
    let at_a_time = slots::count(rl.prompts_per_step * rl.group_size, slots).max(evaluated);
    let half = |n: usize| (n / 2).max(1);
    let sampling = *peak == predicted.sampling.0;
    let stage = if sampling {
        "sampling"
    } else if *peak == predicted.update.0 {
        "an update"
    } else {
        "a supervised step"
    };
    if sampling {
        if at_a_time > 1 {
            ways.push(format!("memory.slots={}", half(at_a_time)));
        }
        ways.push(format!("rl.max_new_tokens={}", half(rl.max_new_tokens)));
    } else {
        if !config.memory.recompute_layers {
            ways.push("memory.recompute_layers=true".to_owned());
        }
        ways.push(format!("memory.micro_batch_tokens={}", half(config.memory.micro_batch_tokens)));
    }
    let state: u64 = OPTIMISER.iter().filter_map(|name| predicted.state.get(name)).sum();
    // An adapter's is not what is short.
    if config.memory.optimiser == StatePlace::Device && config.lora.is_none() {
        ways.push(format!("memory.optimiser=host ({:.1} GiB in the machine's memory instead)", gib(state)));
    }
    if config.lora.is_none() {
        ways.push("lora.rank=16 (an adapter instead of all weights)".to_owned());
    }
    Err(format!(
        "the card has {:.1} GiB free; {} is predicted to take {:.1} GiB, and {:.1} GiB are for driver and libraries: set {}",
        gib(free),
        stage,
        gib(*peak),
        gib(ALLOWANCE),
        ways.join(", or ")
    ))
}

/// The configuration with `memory.recompute_layers=auto` decided for a card with `free` bytes, by dry runs of both ways, and the step
/// that is predicted for it.
pub fn decided(
    shape: &Shape,
    config: &Config,
    dtype: Dtype,
    longest: MaxLengths,
    free: u64,
) -> Result<(Config, StepPrediction)> {
    let mut kept = None;
    let decided = config.deciding_recomputation(|config| {
        let predicted = predict(shape, config, dtype, longest)?;
        let fits = memory_check(&predicted, free, config).is_ok();
        kept = fits.then_some(predicted);
        Ok::<_, SyntheticStepError>(fits)
    })?;
    let predicted = kept.map_or_else(|| predict(shape, &decided, dtype, longest), Ok)?;
    Ok((decided, predicted))
}
