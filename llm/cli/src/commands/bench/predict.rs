//! A step counted without computing.

use std::fmt::Write as _;

use grpo_lambda_gpu::dry::Work;
use grpo_lambda_gpu::ledger::Uses;
use serde_json::{Map, Value, json};

use super::super::Failure;
use super::super::gib;
use super::BenchArgs;
use super::plan::{Bench, failed};
use grpo_lambda_trainer::eval::EVAL_BATCH;
use grpo_lambda_trainer::plan::cards::UTILISATION;
use grpo_lambda_trainer::plan::synthetic::{EvaluationShape, StepPrediction};

/// New tokens of the evaluation that is counted, where the context has room for them.
const EVALUATED: usize = 32_768;

/// The prediction of a step, and of an evaluation on a card with `free` bytes.
pub(super) fn dry(bench: &Bench, args: &BenchArgs, p: &StepPrediction, free: u64) -> Result<String, Failure> {
    let counts = bench.counts(bench.dtype);
    let per_step = counts.decode_bytes / (bench.config.rl.max_new_tokens as f64 - 1.0).max(1.0);
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
    write_work(&mut text, p);
    let hours = p.work.total().seconds / UTILISATION * args.projected_steps as f64 / 3600.0;
    let (steps, share) = (args.projected_steps, 100.0 * UTILISATION);
    let _ = writeln!(
        text,
        "{steps} steps at {share:.0} % of these rates, as assumed, would take {hours:.1} hours"
    );
    let _ = writeln!(text, "memory: {} while sampling, {} in an update", gib(p.sampling.0), gib(p.update.0));
    if p.host > 0 {
        let _ = writeln!(text, "  and {} of the optimiser in the machine's memory", gib(p.host));
    }
    p.peak().1.iter().filter(|(_, bytes)| **bytes > 0).for_each(|(use_, bytes)| {
        let _ = writeln!(text, "  {use_:20}{:>12}", gib(*bytes));
    });
    let new_tokens = EVALUATED.min(bench.shape.max_position_embeddings - bench.prompt_tokens);
    let Bench { shape, dtype, prompt_tokens, .. } = bench;
    let long = EvaluationShape { shape, dtype: *dtype, prompt_tokens: *prompt_tokens, new_tokens };
    let evaluation = long.most(EVAL_BATCH, free).map_err(failed)?;
    let _ = match evaluation {
        Some(found) => writeln!(
            text,
            "an evaluation of {new_tokens} new tokens: {} responses at a time, {} of {}",
            found.slots,
            gib(found.peak),
            gib(free)
        ),
        None => writeln!(text, "an evaluation of {new_tokens} new tokens does not fit {}", gib(free)),
    };
    let line = json!({
        "impl": "grpo-lambda",
        "settings": bench.settings("dry", bench.dtype),
        "decode_step": {"launches": p.decode.launches, "products": p.decode.products, "gflop": p.decode.operations / 1e9, "bytes": per_step},
        "predicted_step_s": p.work.total().seconds,
        "predicted": work(p),
        "projected": {"steps": steps, "utilisation": UTILISATION, "hours": hours},
        "update_tflop": counts.update_operations / 1e12,
        "recomputed_tflop": counts.recomputed_operations / 1e12,
        "sampled_tokens": counts.sampled,
        "updated_tokens": counts.updated,
        "memory": memory(p),
        "evaluation": {
            "new_tokens": new_tokens,
            "slots": evaluation.map_or(0, |found| found.slots),
            "peak_bytes": evaluation.map(|found| found.peak),
        },
    });
    Ok(format!("{text}{line}\n"))
}

/// Kernels that are listed.
const LONGEST: usize = 8;

/// The work of each phase, and the time that it takes at least.
fn write_work(text: &mut String, p: &StepPrediction) {
    let c = p.ceilings;
    let _ = writeln!(
        text,
        "a step takes at least {:.3} s: each launch the longer of its bytes at {:.2} TB/s and its operations at {:.0} Tflop/s, and {:.2} us \
         after it",
        p.work.total().seconds,
        c.bandwidth / 1e12,
        c.operations / 1e12,
        c.gap * 1e6
    );
    let _ = writeln!(text, "  phase       launches  products         GB     Tflop         s");
    let all = ("step", p.work.total());
    for (name, work) in p.work.phases().into_iter().chain([all]) {
        let (bytes, operations) = (work.bytes / 1e9, work.operations / 1e12);
        let _ = writeln!(
            text,
            "  {name:10}{:>10}{:>10}{bytes:>11.1}{operations:>10.1}{:>10.4}",
            work.launches, work.products, work.seconds
        );
    }
    let mut longest: Vec<_> = p.kernels.iter().collect();
    longest.sort_by(|a, b| b.1.total_cmp(a.1));
    let _ = writeln!(text, "  the longest, at these rates:");
    for ((phase, kernel), seconds) in longest.into_iter().take(LONGEST) {
        let _ = writeln!(text, "  {phase:10}{kernel:>31}{seconds:>20.4}");
    }
    let link = p.work.total().link;
    if link > 0.0 {
        let _ = writeln!(
            text,
            "  of which {:.1} GB go between card and host at {:.0} GB/s, and the host's memory gives {:.0} GB/s: both assumed",
            link / 1e9,
            c.link / 1e9,
            c.host / 1e9
        );
    }
}

/// The work of each phase for the JSON line.
fn work(p: &StepPrediction) -> Value {
    let phase = |work: Work| {
        json!({
            "launches": work.launches, "products": work.products, "bytes": work.bytes, "flop": work.operations,
            "link_bytes": work.link, "seconds": work.seconds,
        })
    };
    let phases: Map<String, Value> =
        p.work.phases().into_iter().map(|(name, work)| (name.to_owned(), phase(work))).collect();
    let mut kernels = Map::new();
    for ((phase, kernel), seconds) in &p.kernels {
        kernels.insert(format!("{phase} {kernel}"), json!(seconds));
    }
    let c = p.ceilings;
    json!({"bytes_per_s": c.bandwidth, "flop_per_s": c.operations, "gap_s": c.gap, "link_bytes_per_s": c.link, "host_bytes_per_s": c.host, "phases": phases, "kernels": kernels})
}

/// The memory of a prediction, for the JSON line.
pub(super) fn memory(p: &StepPrediction) -> Value {
    let held = |uses: &Uses| uses.iter().filter(|(_, b)| **b > 0).map(|(n, b)| (*n, *b)).collect::<Uses>();
    let (peak, uses) = p.peak();
    json!({
        "state": held(&p.state), "host_bytes": p.host, "sampling_bytes": p.sampling.0, "update_bytes": p.update.0, "peak_bytes": peak, "at_peak": held(uses),
    })
}
