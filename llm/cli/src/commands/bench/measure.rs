//! Steps that are timed, on the CPU and on a card.

use std::sync::Arc;
use std::time::Instant;

use cpu_time::ProcessTime;
use grpo_lambda::group::InputKind;
use grpo_lambda_decoder::model::{Decoder, weights};
use grpo_lambda_gpu::dry::Ceilings;
use grpo_lambda_gpu::probe::{self, Reached};
use grpo_lambda_gpu::{Device, Dtype};

use super::super::Failure;
use super::BenchArgs;
use super::plan::{Bench, failed};
use super::report::{CardMemory, Measured, measured};
use grpo_lambda_trainer::plan::synthetic::{
    self, StepPrediction, StepTimings, SyntheticStepError, synthetic_engine,
};
use grpo_lambda_trainer::plan::{cards, memory};
use grpo_lambda_trainer::step::engine::{CpuEngine, SyntheticWeights, TrainingSetup};

/// The median of at least one value.
fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// Medians of the measured steps, in seconds that passed and in seconds of the processor; `step` takes the step of a number.
fn measure(
    args: &BenchArgs,
    mut step: impl FnMut(u64) -> Result<[StepTimings; 2], SyntheticStepError>,
) -> Result<[StepTimings; 2], Failure> {
    let mut all = Vec::new();
    for number in 0..args.warmup + args.steps {
        let phases = step(number as u64).map_err(failed)?;
        if number >= args.warmup {
            all.push(phases);
        }
    }
    Ok([0, 1].map(|kind| {
        let median = |pick: fn(&StepTimings) -> f64| median(all.iter().map(|step| pick(&step[kind])));
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
            mismatch: all.last().map_or_else(Default::default, |step| step[kind].mismatch),
        }
    }))
}

/// On this processor, whose peak rates are not known.
pub(super) fn cpu(bench: &Bench, args: &BenchArgs) -> Result<String, Failure> {
    let parameters = weights::initialise(&bench.shape, 0, 0.02);
    let reference = bench.config.configured().extra_inputs().contains(&InputKind::RefLogps);
    let setup = TrainingSetup {
        lora: bench.config.lora.clone(),
        reference: (reference && bench.config.lora.is_none()).then(|| parameters.clone()),
        ..TrainingSetup::new(bench.config.rl_optimiser())
    };
    let model = Decoder::new(bench.shape.clone(), parameters).map_err(Failure::refused)?;
    let mut engine = CpuEngine::new(model, setup).map_err(Failure::refused)?;
    let phases = measure(args, |number| {
        let timed = synthetic::step(&mut engine, &bench.config, None, bench.prompt_tokens, number)?;
        // The weights are packed once more, to know how long that takes.
        let (clock, processor) = (Instant::now(), ProcessTime::now());
        engine.model.update(|_| ());
        let packing = [clock.elapsed().as_secs_f64(), processor.elapsed().as_secs_f64()];
        Ok([0, 1].map(|kind| {
            let (timed, packing) = (timed[kind], packing[kind]);
            StepTimings { packing, optimiser: (timed.optimiser - packing).max(0.0), ..timed }
        }))
    })?;
    let (device, dtype, peaks) = ("the CPU".to_owned(), Dtype::F32, Vec::new());
    Ok(measured(bench, args, &Measured { device, dtype, phases, peaks, held: None }))
}

/// On a card, after a look whether the step fits.
pub(super) fn card(
    bench: &Bench,
    prediction: StepPrediction,
    args: &BenchArgs,
    device: &Arc<dyn Device>,
) -> Result<String, Failure> {
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
    let phases = measure(args, |number| {
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
    Ok(measured(bench, args, &Measured { device, dtype, phases, peaks, held: Some(held) }))
}

/// Bytes that the driver holds for what is allocated now, from where its peak begins again.
fn held_now(device: &Arc<dyn Device>) -> Result<u64, Failure> {
    device.restart_driver_peak().map_err(Failure::broke)?;
    Ok(device.driver_memory().map_err(Failure::broke)?.held)
}
