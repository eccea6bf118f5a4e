//! The report of a measured step: a table for people, and a JSON line.

use std::fmt::Write as _;

use grpo_lambda_gpu::Dtype;
use grpo_lambda_gpu::probe::Reached;
use serde_json::{Map, Value, json};

use super::super::gib;
use super::BenchArgs;
use super::plan::{Bench, Counts};
use super::predict::memory;
use grpo_lambda_trainer::plan::memory::peak_rss_mib;
use grpo_lambda_trainer::plan::synthetic::{StepPrediction, StepTimings};

pub(super) struct CardMemory {
    pub(super) predicted: StepPrediction,
    /// Bytes asked for at the peak.
    pub(super) counted: u64,
    /// Bytes that the driver held for them, at its peak.
    pub(super) found: u64,
    /// Bytes in use on the card beside them: see [`grpo_lambda_gpu::DriverMemory`].
    pub(super) outside: u64,
    /// Seconds to make the weights.
    pub(super) made: f64,
}

pub(super) struct BenchReport<'a> {
    pub(super) bench: &'a Bench,
    pub(super) args: &'a BenchArgs,
    pub(super) dtype: Dtype,
    pub(super) device: String,
    pub(super) phases: StepTimings,
    /// The device's peak rates, and where they are from.
    pub(super) peaks: Vec<(&'static str, Reached)>,
}

/// Rates that the seconds of a step give.
struct Rates {
    /// Tokens sampled and updated a second.
    rollout: f64,
    update: f64,
    /// Bytes a second in decoding.
    bandwidth: f64,
    /// Operations a second in the update's passes.
    operations: f64,
    hours: f64,
    cost: Option<f64>,
}

impl BenchReport<'_> {
    pub(super) fn text(&self, held: Option<CardMemory>) -> String {
        let counts = self.bench.counts(self.dtype);
        let rates = self.rates(&counts);
        let mut text = self.bench.describe(&self.device, self.dtype);
        self.write_phases(&mut text);
        self.write_rates(&mut text, &rates);
        if let Some(held) = &held {
            let predicted = held.predicted.peak().0;
            let off = 100.0 * (held.found as f64 / predicted as f64 - 1.0);
            let _ = writeln!(
                text,
                "memory {} at the peak, as the driver counts it; {} were predicted ({off:+.1} %); beside it {} of the card are in use",
                gib(held.found),
                gib(predicted),
                gib(held.outside)
            );
        }
        let costs = rates.cost.map_or(String::new(), |cost| format!(", {cost:.2} at the price given"));
        let (steps, hours) = (self.args.projected_steps, rates.hours);
        let _ = writeln!(text, "{steps} steps would take {hours:.1} hours{costs}");
        format!("{text}{}\n", self.line(&counts, &rates, held.as_ref()))
    }

    fn rates(&self, counts: &Counts) -> Rates {
        let p = self.phases;
        let hours = p.step * self.args.projected_steps as f64 / 3600.0;
        Rates {
            rollout: counts.sampled / (p.prefill + p.decode),
            update: counts.updated / (p.forward + p.backward + p.prompts + p.optimiser + p.packing),
            bandwidth: counts.decode_bytes / p.decode,
            operations: counts.update_operations / (p.forward + p.backward + p.prompts),
            hours,
            cost: self.args.price_per_hour.map(|price| price * hours),
        }
    }

    fn write_phases(&self, text: &mut String) {
        let p = self.phases;
        for (name, seconds) in [
            ("prefill", p.prefill),
            ("decode", p.decode),
            ("reference", p.reference),
            ("forward", p.forward),
            ("backward", p.backward),
            ("prompts", p.prompts),
            ("optimiser", p.optimiser),
            ("packing", p.packing),
            ("step", p.step),
        ] {
            let _ = writeln!(text, "  {name:12}{:>10.4} s {:>6.1} %", seconds, 100.0 * seconds / p.step);
        }
    }

    fn write_rates(&self, text: &mut String, rates: &Rates) {
        let _ = writeln!(text, "rollout {:.0} tokens/s, update {:.0} tokens/s", rates.rollout, rates.update);
        let _ = writeln!(
            text,
            "decode reads {:.1} GB/s of weights, keys and values; the update does {:.2} Tflop/s (layers computed again not counted)",
            rates.bandwidth / 1e9,
            rates.operations / 1e12
        );
        for (source, peak) in &self.peaks {
            let _ = writeln!(
                text,
                "  of {:.0} GB/s and {:.0} Tflop/s ({source}): {:.1} % in decode, {:.1} % in the update",
                peak.bandwidth / 1e9,
                peak.operations / 1e12,
                100.0 * (rates.bandwidth / peak.bandwidth),
                100.0 * (rates.operations / peak.operations)
            );
        }
    }

    /// The rates as shares of each peak.
    fn shares(&self, rates: &Rates) -> Map<String, Value> {
        let share = |(source, peak): &(&str, Reached)| {
            let (read, done) = (rates.bandwidth / peak.bandwidth, rates.operations / peak.operations);
            let share = json!({
                "bytes_per_s": peak.bandwidth, "flop_per_s": peak.operations, "decode_share": read, "update_share": done,
            });
            ((*source).to_owned(), share)
        };
        self.peaks.iter().map(share).collect()
    }

    fn line(&self, counts: &Counts, rates: &Rates, held: Option<&CardMemory>) -> Value {
        let p = self.phases;
        json!({
            "impl": "grpo-lambda",
            "settings": self.bench.settings(&self.device, self.dtype),
            "steps": self.args.steps,
            "wall_s": {
                "prefill": p.prefill, "decode": p.decode, "generate": p.prefill + p.decode, "reference": p.reference, "fwd_loss": p.forward,
                "backward": p.backward, "logprob_loss": p.forward + p.backward, "prompts": p.prompts, "optimizer": p.optimiser,
                "packing": p.packing, "step": p.step,
                "making_weights": held.map(|h| h.made),
            },
            "rollout_tok_per_s": rates.rollout,
            "update_tok_per_s": rates.update,
            "decode_bytes_per_s": rates.bandwidth,
            "update_flop_per_s": rates.operations,
            "recomputed_flop": counts.recomputed_operations,
            "peaks": self.shares(rates),
            "logp_error": p.drift.mean(),
            "logp_error_max": p.drift.max(),
            "peak_rss_mib": peak_rss_mib(),
            "peak_device_mib": held.map(|h| h.found as f64 / f64::from(1 << 20)),
            "memory": held.map(|h| json!({
                "peak_bytes": h.found, "counted_bytes": h.counted, "outside_bytes": h.outside, "predicted": memory(&h.predicted),
            })),
            "projected": {"steps": self.args.projected_steps, "hours": rates.hours, "cost": rates.cost},
        })
    }
}
