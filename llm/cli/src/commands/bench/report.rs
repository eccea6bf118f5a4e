//! The report of a step: one JSON value, printed as text for people and as a line.

use grpo_lambda_decoder::mismatch::Mismatch;
use grpo_lambda_gpu::dry::Work;
use grpo_lambda_gpu::ledger::Uses;
use grpo_lambda_gpu::probe::Reached;
use grpo_lambda_gpu::{DriverMemory, Dtype};
use grpo_lambda_stats::table::significant;
use serde_json::{Map, Value, json};

use super::super::{Result, gib};
use super::BenchArgs;
use super::plan::{Bench, failed};
use grpo_lambda_trainer::eval::EVAL_BATCH;
use grpo_lambda_trainer::plan::cards::UTILISATION;
use grpo_lambda_trainer::plan::memory::peak_rss_mib;
use grpo_lambda_trainer::plan::synthetic::{Clocked, EvaluationShape, StepPrediction, StepTimings};

/// New tokens of the evaluation that is counted, where the context has room for them.
const EVALUATED: usize = 32_768;
/// Kernels that the text lists: the longest.
const LISTED: usize = 8;

/// The memory of a card, measured.
pub(super) struct CardMemory {
    pub(super) predicted: StepPrediction,
    /// Bytes asked for at the peak.
    pub(super) counted: u64,
    /// Bytes that the driver held before the step, and its account after it.
    pub(super) before: u64,
    pub(super) now: DriverMemory,
    /// Seconds to make the weights.
    pub(super) made: f64,
}

impl CardMemory {
    /// Bytes that the driver held for what was asked for, at its peak.
    fn peak(&self) -> u64 {
        self.now.peak.saturating_sub(self.before)
    }
}

/// A measured step.
pub(super) struct Measured {
    pub(super) device: String,
    pub(super) dtype: Dtype,
    pub(super) phases: Clocked<StepTimings>,
    /// The phases of a model without layers, where they were measured: embeddings, the last norm, the head and its sampling.
    pub(super) head: Option<Clocked<StepTimings>>,
    /// The distance between the trainer's log-probabilities and the sampler's.
    pub(super) mismatch: Mismatch,
    /// The device's peak rates, and where they are from.
    pub(super) peaks: Vec<(&'static str, Reached)>,
    pub(super) held: Option<CardMemory>,
}

/// The report of a measured step.
pub(super) fn measured(bench: &Bench, args: &BenchArgs, measured: &Measured) -> String {
    let Measured { device, dtype, phases, head, mismatch, peaks, held } = measured;
    let p = &phases.wall;
    let counts = bench.counts(*dtype);
    let update = p.forward + p.backward + p.prompts;
    let (bandwidth, operations) = (counts.decode_bytes / p.decode, counts.update_operations / update);
    let hours = p.step * args.projected_steps as f64 / 3600.0;
    let share = |(source, peak): &(&str, Reached)| {
        let shares = json!({
            "bytes_per_s": peak.bandwidth, "flop_per_s": peak.operations,
            "decode_share": bandwidth / peak.bandwidth, "update_share": operations / peak.operations,
        });
        ((*source).to_owned(), shares)
    };
    let Clocked { mut wall, cpu } = phases.map(seconds);
    wall["making_weights"] = json!(held.as_ref().map(|h| h.made));
    let row = json!({
        "impl": "grpo-lambda",
        "settings": bench.settings(device, *dtype),
        "steps": args.steps,
        "wall_s": wall,
        "cpu_s": cpu,
        "head": head.as_ref().map(of_head),
        "rollout_tok_per_s": counts.sampled / (p.prefill + p.decode),
        "update_tok_per_s": counts.updated / (update + p.optimiser + p.packing),
        "decode_bytes_per_s": bandwidth,
        "update_flop_per_s": operations,
        "recomputed_flop": counts.recomputed_operations,
        "peaks": peaks.iter().map(share).collect::<Map<_, _>>(),
        "logp_error": mismatch.mean(),
        "logp_error_max": mismatch.max(),
        "peak_rss_mib": peak_rss_mib(),
        "peak_device_mib": held.as_ref().map(|h| h.peak() as f64 / f64::from(1 << 20)),
        "memory": held.as_ref().map(|h| json!({
            "peak_bytes": h.peak(), "counted_bytes": h.counted, "outside_bytes": h.now.outside,
            "predicted": memory(&h.predicted),
        })),
        "projected": {
            "steps": args.projected_steps, "hours": hours,
            "cost": args.price_per_hour.map(|price| price * hours),
        },
    });
    printed(&bench.describe(device, *dtype), &row)
}

fn seconds(p: &StepTimings) -> Value {
    json!({
        "prefill": p.prefill, "decode": p.decode, "generate": p.prefill + p.decode, "reference": p.reference,
        "fwd_loss": p.forward, "backward": p.backward, "logprob_loss": p.forward + p.backward,
        "prompts": p.prompts, "optimizer": p.optimiser, "packing": p.packing, "step": p.step,
    })
}

/// The part of the head, its sampling and the embeddings in a step's phases.
fn of_head(phases: &Clocked<StepTimings>) -> Value {
    let Clocked { wall, cpu } = phases.map(seconds);
    let row = |phase: &str| (phase.to_owned(), json!({"wall_s": wall[phase], "cpu_s": cpu[phase]}));
    ["generate", "fwd_loss", "backward"].map(row).into_iter().collect::<Map<_, _>>().into()
}

/// The report of a step, and of an evaluation, that are counted for a card with `free` bytes.
pub(super) fn counted(bench: &Bench, args: &BenchArgs, p: &StepPrediction, free: u64) -> Result<String> {
    let Bench { shape, dtype, prompt_tokens, .. } = bench;
    let counts = bench.counts(*dtype);
    let new_tokens = EVALUATED.min(shape.max_position_embeddings - prompt_tokens);
    let long = EvaluationShape { shape, dtype: *dtype, prompt_tokens: *prompt_tokens, new_tokens };
    let evaluation = long.most(EVAL_BATCH, free).map_err(failed)?;
    let (decode, seconds) = (p.decode, p.work.total().seconds);
    let decode_steps = (bench.config.rl.max_new_tokens as f64 - 1.0).max(1.0);
    let row = json!({
        "impl": "grpo-lambda",
        "settings": bench.settings("dry", *dtype),
        "decode_step": {
            "launches": decode.launches, "products": decode.products, "gflop": decode.operations / 1e9,
            "bytes": counts.decode_bytes / decode_steps,
        },
        "predicted_step_s": seconds,
        "predicted": work(p),
        "projected": {
            "steps": args.projected_steps, "utilisation": UTILISATION,
            "hours": seconds / UTILISATION * args.projected_steps as f64 / 3600.0,
        },
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
    Ok(printed(&bench.describe("no device", *dtype), &row))
}

/// The least work of each phase and kernel, and the rates that its seconds are computed with.
fn work(p: &StepPrediction) -> Value {
    let phase = |(name, work): (&str, Work)| {
        let counts = json!({
            "launches": work.launches, "products": work.products, "bytes": work.bytes, "flop": work.operations,
            "link_bytes": work.link, "seconds": work.seconds,
        });
        (name.to_owned(), counts)
    };
    let kernel =
        |((phase, kernel), seconds): (&(&str, &str), &f64)| (format!("{phase} {kernel}"), json!(seconds));
    let c = p.ceilings;
    json!({
        "bytes_per_s": c.bandwidth, "flop_per_s": c.operations, "gap_s": c.gap, "link_bytes_per_s": c.link,
        "host_bytes_per_s": c.host, "phases": p.work.phases().map(phase).into_iter().collect::<Map<_, _>>(),
        "kernels": p.kernels.iter().map(kernel).collect::<Map<_, _>>(),
    })
}

/// The memory of a prediction.
fn memory(p: &StepPrediction) -> Value {
    let held = |uses: &Uses| uses.iter().filter(|(_, b)| **b > 0).map(|(n, b)| (*n, *b)).collect::<Uses>();
    let (peak, uses) = p.peak();
    json!({
        "state": held(&p.state), "host_bytes": p.host, "sampling_bytes": p.sampling.0,
        "update_bytes": p.update.0, "peak_bytes": peak, "at_peak": held(uses),
    })
}

/// A report as text, and as the line that programs read.
fn printed(description: &str, row: &Value) -> String {
    let shown = row.as_object().into_iter().flatten().filter(|(key, _)| *key != "impl" && *key != "settings");
    let text: String = shown.map(|(key, value)| lines(key, value, 0)).collect();
    format!("{description}{text}{row}\n")
}

/// A value under its name: an object of like objects as a table, numbers of bytes in their unit.
fn lines(key: &str, value: &Value, depth: usize) -> String {
    let indent = "  ".repeat(depth);
    match value {
        Value::Null => String::new(),
        Value::Object(inner) => {
            let rows: Vec<(&String, &Map<String, Value>)> =
                inner.iter().filter_map(|(name, value)| Some((name, value.as_object()?))).collect();
            let body = match rows.len() == inner.len() && !rows.is_empty() {
                true => table(&rows, &indent),
                false => listed(key, inner).map(|(name, value)| lines(name, value, depth + 1)).collect(),
            };
            format!("{indent}{key}\n{body}")
        }
        number => format!("{indent}{key:26}{:>16}\n", shown(key, number)),
    }
}

/// The entries of an object; of kernels the longest alone.
fn listed<'a>(key: &str, object: &'a Map<String, Value>) -> impl Iterator<Item = (&'a String, &'a Value)> {
    let mut all: Vec<(&String, &Value)> = object.iter().collect();
    if key == "kernels" {
        let seconds = |value: &Value| value.as_f64().unwrap_or(0.0);
        all.sort_by(|a, b| seconds(b.1).total_cmp(&seconds(a.1)));
        all.truncate(LISTED);
    }
    all.into_iter()
}

fn table(rows: &[(&String, &Map<String, Value>)], indent: &str) -> String {
    let heads: String = rows[0].1.keys().map(|key| format!("{key:>14}")).collect();
    let row = |(name, values): &(&String, &Map<String, Value>)| {
        let cells: String = values.iter().map(|(key, value)| format!("{:>14}", shown(key, value))).collect();
        format!("{indent}  {name:14}{cells}\n")
    };
    format!("{indent}  {:14}{heads}\n{}", "", rows.iter().map(row).collect::<String>())
}

fn shown(key: &str, value: &Value) -> String {
    match (value.as_u64(), value.as_f64()) {
        (Some(bytes), _) if key.ends_with("bytes") => gib(bytes),
        (None, Some(x)) if key.ends_with("bytes") => gib(x as u64),
        (None, Some(x)) if x.abs() >= 1e6 => format!("{x:.3e}"),
        (None, Some(x)) => significant(x, 4),
        (Some(_), _) | (None, None) => value.to_string(),
    }
}
