//! What is counted without computing.

use std::fmt::Write as _;

use grpo_lambda_gpu::Dtype;
use grpo_lambda_gpu::ledger::Uses;
use serde_json::{Value, json};

use super::super::super::Failure;
use super::super::super::info::gpu::gib;
use super::plan::Bench;
use crate::plan::synthetic::{StepPrediction, SyntheticStepError, predict};
use crate::problems::MaxLengths;

/// A step that cannot be taken, or that failed.
pub(super) fn failed(error: SyntheticStepError) -> Failure {
    match error {
        SyntheticStepError::Evidence { .. } => Failure::refused(error),
        other => Failure::broke(other),
    }
}

pub(super) fn predicted(bench: &Bench, dtype: Dtype) -> Result<StepPrediction, Failure> {
    predict(&bench.shape, &bench.config, dtype, MaxLengths { prompt: bench.prompt_tokens, example: 0 })
        .map_err(failed)
}

/// Counts without computing.
pub(super) fn dry(bench: &Bench) -> Result<String, Failure> {
    let (p, counts) = (predicted(bench, bench.dtype)?, bench.counts(bench.dtype));
    let rl = &bench.config.rl;
    let per_step = counts.decode_bytes / (rl.max_new_tokens as f64 - 1.0).max(1.0);
    let mut text = bench.describe("no device", bench.dtype);
    let _ = writeln!(
        text,
        "a step of decoding: {} kernels and {} products, {:.2} GB read on average",
        p.decode.launches,
        p.decode.products,
        per_step / 1e9
    );
    let _ = writeln!(
        text,
        "an update: {:.1} Tflop, and {:.1} for layers computed again",
        counts.update_operations / 1e12,
        counts.recomputed_operations / 1e12
    );
    let _ = writeln!(text, "memory: {} while sampling, {} in an update", gib(p.sampling.0), gib(p.update.0));
    p.peak().1.iter().filter(|(_, bytes)| **bytes > 0).for_each(|(use_, bytes)| {
        let _ = writeln!(text, "  {use_:20}{:>12}", gib(*bytes));
    });
    let line = json!({
        "impl": "grpo-lambda",
        "settings": bench.settings("dry", bench.dtype),
        "decode_step": {"launches": p.decode.launches, "products": p.decode.products, "gflop": p.decode.operations / 1e9, "bytes": per_step},
        "update_tflop": counts.update_operations / 1e12,
        "recomputed_tflop": counts.recomputed_operations / 1e12,
        "sampled_tokens": counts.sampled,
        "updated_tokens": counts.updated,
        "memory": memory(&p),
    });
    Ok(format!("{text}{line}\n"))
}

/// The memory of a prediction, for the JSON line.
pub(super) fn memory(p: &StepPrediction) -> Value {
    let held = |uses: &Uses| uses.iter().filter(|(_, b)| **b > 0).map(|(n, b)| (*n, *b)).collect::<Uses>();
    let (peak, uses) = p.peak();
    json!({
        "state": held(&p.state), "sampling_bytes": p.sampling.0, "update_bytes": p.update.0, "peak_bytes": peak, "at_peak": held(uses),
    })
}
