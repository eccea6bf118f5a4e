//! What a step takes, counted on a device that computes nothing.

use std::cell::RefCell;
use std::sync::Arc;

use grpo_lambda_decoder::model::Config as Shape;
use grpo_lambda_gpu::dry::{Dry, Work};
use grpo_lambda_gpu::ledger::Uses;
use grpo_lambda_gpu::{Device, DeviceError, Dtype};

use super::SyntheticStepError;
use super::step::{RATE, generate, prompts, run, synthetic_engine};
use crate::config::Config;
use crate::eval::EVAL_BATCH;
use crate::problems::MaxLengths;
use crate::step::engine::{GpuEngine, SyntheticWeights, TrainingSetup};
use crate::step::sft::{self, Example};
use crate::step::{Observer, Phase};

/// Memory and operations of a step, counted before it is run.
#[derive(Clone, Debug, PartialEq)]
pub struct StepPrediction {
    /// Bytes held all the time, by use.
    pub state: Uses,
    /// The most that is held while responses are sampled, in training or in an evaluation, and what it is made of.
    pub sampling: (u64, Uses),
    /// The most that is held in an update.
    pub update: (u64, Uses),
    /// The most that is held in a supervised step; none without supervised learning.
    pub supervised: Option<(u64, Uses)>,
    /// Operations of a step of training.
    pub operations: f64,
    /// Work of one step of decoding.
    pub decode: Work,
}

impl StepPrediction {
    /// The most that is held at once, and what it is made of.
    pub fn peak(&self) -> &(u64, Uses) {
        let others = [Some(&self.update), self.supervised.as_ref()];
        others
            .into_iter()
            .flatten()
            .fold(&self.sampling, |most, one| if one.0 >= most.0 { one } else { most })
    }
}

/// Takes down the most that was held until responses were there; the ledger's peak begins again then.
struct SamplingPeak<'a> {
    device: &'a dyn Device,
    peak: RefCell<(u64, Uses)>,
}

impl Observer for SamplingPeak<'_> {
    fn end(&self, phase: Phase) -> Result<(), DeviceError> {
        if phase == Phase::Sample {
            self.peak.replace(self.device.ledger().peak());
            self.device.ledger().forget_peak();
        }
        Ok(())
    }
}

/// Counts a step of `config` on a model of this shape, the sampling of an evaluation and, where examples have a length, a supervised step.
///
/// # Errors
/// [`SyntheticStepError`], when the settings do not fit together.
pub fn predict(
    shape: &Shape,
    config: &Config,
    dtype: Dtype,
    longest: MaxLengths,
) -> Result<StepPrediction, SyntheticStepError> {
    let prompt_tokens = longest.prompt;
    let supervised = supervised_peak(shape, config, dtype, longest.example)?;
    let dry = Arc::new(Dry::default());
    let device: Arc<dyn Device> = dry.clone();
    let mut engine = synthetic_engine(&device, shape, config, dtype, SyntheticWeights::Uninitialised)?;
    let (_, state) = device.ledger().peak();
    let rl = &config.rl;
    if config.eval.n > 0 {
        let evaluated = prompts(config.eval.n.min(EVAL_BATCH), prompt_tokens, shape.vocab_size, 0);
        generate(&engine, config, &evaluated, (1, rl.max_new_tokens), 0)?;
    }
    // Two tokens take one step more than one: none is recorded yet.
    let trained = prompts(rl.prompts_per_step, prompt_tokens, shape.vocab_size, 0);
    let work_of = |new: usize| {
        let before = dry.work();
        generate(&engine, config, &trained, (rl.group_size, new), 0)?;
        Ok::<_, SyntheticStepError>(difference(dry.work(), before))
    };
    let decode = difference(work_of(2)?, work_of(1)?);
    let before = dry.work();
    let sampling = SamplingPeak { device: device.as_ref(), peak: RefCell::default() };
    run(&mut engine, config, Some(&device), (prompt_tokens, 0), &sampling)?;
    let operations = difference(dry.work(), before).operations;
    let (sampling, update) = (sampling.peak.into_inner(), device.ledger().peak());
    Ok(StepPrediction { state, sampling, update, supervised, operations, decode })
}

/// Counts a supervised step on examples of this many tokens, as many together as a micro-batch takes.
fn supervised_peak(
    shape: &Shape,
    config: &Config,
    dtype: Dtype,
    example: usize,
) -> Result<Option<(u64, Uses)>, SyntheticStepError> {
    if config.sft.steps == 0 || example < 2 {
        return Ok(None);
    }
    let device: Arc<dyn Device> = Arc::new(Dry::default());
    let setup = TrainingSetup { lora: config.lora.clone(), ..TrainingSetup::new(config.sft.adam.clone()) };
    let mut engine =
        GpuEngine::synthetic(&device, dtype, shape, setup, false, SyntheticWeights::Uninitialised)?;
    let together = (config.memory.micro_batch_tokens / example).clamp(1, config.sft.batch);
    let example = Example { prompt: vec![0], response: vec![0; example - 1] };
    sft::step(&mut engine, &vec![example; together], RATE, config.memory)?;
    Ok(Some(device.ledger().peak()))
}

fn difference(after: Work, before: Work) -> Work {
    Work {
        launches: after.launches - before.launches,
        products: after.products - before.products,
        operations: after.operations - before.operations,
    }
}
