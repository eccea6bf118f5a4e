//! Steps that are timed, on the CPU and on a card.

use std::sync::Arc;
use std::time::Instant;

use grpo_lambda::group::InputKind;
use grpo_lambda_decoder::mismatch::Mismatch;
use grpo_lambda_decoder::model::{Decoder, ModelConfig as Shape, weights};
use grpo_lambda_gpu::dry::Ceilings;
use grpo_lambda_gpu::probe::{self, Reached};
use grpo_lambda_gpu::{Device, Dtype};

use super::super::{Failure, Result};
use super::BenchArgs;
use super::plan::{Bench, failed};
use super::report::{CardMemory, Measured, measured};
use grpo_lambda_trainer::plan::synthetic::{
    self, Clocked, Moment, StepPrediction, StepTimings, SyntheticStepError, synthetic_engine,
};
use grpo_lambda_trainer::plan::{cards, memory};
use grpo_lambda_trainer::step::engine::{CpuEngine, SyntheticWeights, TrainingSetup};

/// The median of at least one value.
fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// Medians of the measured steps; `step` takes the step of a number.
fn measure(
    args: &BenchArgs,
    mut step: impl FnMut(u64) -> Result<(Clocked<StepTimings>, Mismatch), SyntheticStepError>,
) -> Result<(Clocked<StepTimings>, Mismatch)> {
    let mut all = Vec::new();
    for number in 0..args.warmup + args.steps {
        let measured = step(number as u64).map_err(failed)?;
        if number >= args.warmup {
            all.push(measured);
        }
    }
    let phases = |clock: fn(&Clocked<StepTimings>) -> &StepTimings| {
        let median = |pick: fn(&StepTimings) -> f64| median(all.iter().map(|(step, _)| pick(clock(step))));
        StepTimings {
            prefill: median(|p| p.prefill),
            decode: median(|p| p.decode),
            reference: median(|p| p.reference),
            forward: median(|p| p.forward),
            backward: median(|p| p.backward),
            prompts: median(|p| p.prompts),
            optimiser: median(|p| p.optimiser),
            packing: median(|p| p.packing),
            step: median(|p| p.step),
        }
    };
    let timed = Clocked { wall: phases(|step| &step.wall), cpu: phases(|step| &step.cpu) };
    Ok((timed, all.last().map(|(_, mismatch)| *mismatch).unwrap_or_default()))
}

/// On this processor, whose peak rates are not known.
pub(super) fn cpu(bench: &Bench, args: &BenchArgs) -> Result<String> {
    let (phases, mismatch) = cpu_step(bench, args, &bench.shape)?;
    let no_layers = Shape { num_hidden_layers: 0, ..bench.shape.clone() };
    // An adapter of no layers has nothing to train.
    let head = bench.config.lora.is_none().then(|| cpu_step(bench, args, &no_layers)).transpose()?;
    let head = head.map(|(phases, _)| phases);
    let (device, dtype, peaks) = ("the CPU".to_owned(), Dtype::F32, Vec::new());
    let measured_step = Measured { device, dtype, phases, head, mismatch, peaks, held: None };
    Ok(measured(bench, args, &measured_step))
}

/// The step of a model of this shape.
fn cpu_step(bench: &Bench, args: &BenchArgs, shape: &Shape) -> Result<(Clocked<StepTimings>, Mismatch)> {
    let parameters = weights::initialise(shape, 0, 0.02);
    let reference = bench.config.configured().extra_inputs().contains(&InputKind::RefLogps);
    let setup = TrainingSetup {
        lora: bench.config.lora.clone(),
        reference: (reference && bench.config.lora.is_none()).then(|| parameters.clone()),
        ..TrainingSetup::new(bench.config.rl_optimiser())
    };
    let model = Decoder::new(shape.clone(), parameters).map_err(Failure::refused)?;
    let mut engine = CpuEngine::new(model, setup).map_err(Failure::refused)?;
    measure(args, |number| {
        let (timed, mismatch) =
            synthetic::step(&mut engine, &bench.config, None, bench.prompt_tokens, number)?;
        // The weights are packed once more, to know how long that takes.
        let clock = Moment::now();
        engine.model.update(|_| ());
        let timed = timed.with(clock.elapsed(), |timed, packing| StepTimings {
            packing,
            optimiser: (timed.optimiser - packing).max(0.0),
            ..timed
        });
        Ok((timed, mismatch))
    })
}

/// On a card, after a look whether the step fits.
pub(super) fn card(
    bench: &Bench,
    prediction: StepPrediction,
    args: &BenchArgs,
    device: &Arc<dyn Device>,
) -> Result<String> {
    let (free, _) = device.memory().map_err(Failure::broke)?;
    synthetic::memory_check(&prediction, free, &bench.config).map_err(Failure::refused)?;
    synthetic::host_check(&prediction, memory::total_mib()).map_err(Failure::refused)?;
    let reached = probe::measure(device, bench.dtype).map_err(Failure::broke)?;
    let (before, counted_before) = (held_now(device)?, device.ledger().total());
    device.ledger().forget_peak();
    let clock = Instant::now();
    let mut engine =
        synthetic_engine(device, &bench.shape, &bench.config, bench.dtype, SyntheticWeights::Random)
            .map_err(Failure::broke)?;
    device.synchronize().map_err(Failure::broke)?;
    let made = clock.elapsed().as_secs_f64();
    let (phases, mismatch) = measure(args, |number| {
        synthetic::step(&mut engine, &bench.config, Some(device), bench.prompt_tokens, number)
    })?;
    let mut peaks = vec![("measured here", reached)];
    if let Some(card) = cards::of_driver(&device.name()).filter(|card| card.dtype == bench.dtype) {
        let Ceilings { bandwidth, operations, .. } = card.ceilings;
        peaks.push(("expected", Reached { bandwidth, operations }));
    }
    let (now, counted) = (device.driver_memory().map_err(Failure::broke)?, device.ledger().peak().0);
    let counted = counted - counted_before;
    let held = CardMemory { predicted: prediction, counted, before, now, made };
    let (device, dtype) = (device.name(), bench.dtype);
    let measured_step = Measured { device, dtype, phases, head: None, mismatch, peaks, held: Some(held) };
    Ok(measured(bench, args, &measured_step))
}

/// Bytes that the driver holds for what is allocated now, from where its peak begins again.
fn held_now(device: &Arc<dyn Device>) -> Result<u64> {
    device.restart_driver_peak().map_err(Failure::broke)?;
    Ok(device.driver_memory().map_err(Failure::broke)?.held)
}
