//! Memory of a training step on a card, counted by a dry run.

use std::fmt::Write as _;

use grpo_lambda_decoder::model::ModelConfig as Shape;
use grpo_lambda_gpu::Dtype;
use grpo_lambda_gpu::ledger::Uses;
use grpo_lambda_gpu::select::{CardSearch, find_card};

use crate::config::Config;
use crate::plan::synthetic::{ALLOWANCE, StepPrediction, SyntheticStepError, memory_check, predict};
use crate::problems::MaxLengths;
use crate::run::progress::say;

/// The settings of an adapter where those of `config` have none.
const ADAPTER: &str = "lora.rank=16";
const ALL_WEIGHTS: &str = "lora.rank=0";

/// A way of training, and its predicted memory.
struct Case {
    name: String,
    config: Config,
    found: Result<StepPrediction, SyntheticStepError>,
}

fn cases(shape: &Shape, config: &Config, prompt_tokens: usize) -> Vec<Case> {
    let other = if config.lora.is_some() { ALL_WEIGHTS } else { ADAPTER };
    let other = config.with(&[other]).ok();
    let mut configs = vec![config.clone()];
    configs.extend(other);
    configs.sort_by_key(|c| c.lora.is_some());
    let case = |(config, dtype): (&Config, Dtype)| {
        let trained =
            config.lora.as_ref().map_or("all weights".to_owned(), |l| format!("lora.rank={}", l.rank));
        let found = predict(shape, config, dtype, MaxLengths { prompt: prompt_tokens, example: 0 });
        Case { name: format!("{}, {trained}", dtype.name()), config: config.clone(), found }
    };
    configs.iter().flat_map(|c| [(c, Dtype::Bf16), (c, Dtype::F32)]).map(case).collect()
}

/// The section of `info`.
pub(super) fn section(shape: &Shape, config: &Config, prompt_tokens: usize) -> String {
    let cases = cases(shape, config, prompt_tokens);
    let mut text = format!(
        "\nMemory of the same on a GPU, counted by running a step without computing ({}prompts of {prompt_tokens} tokens, every response at its limit):\n",
        if config.memory.recompute_layers { "layers recomputed, " } else { "" }
    );
    for case in &cases {
        match &case.found {
            Ok(p) => {
                let (peak, of) = p.peak();
                let (sampling, update) = (gib(p.sampling.0), gib(p.update.0));
                let host = match p.host {
                    0 => String::new(),
                    bytes => format!("; the optimiser's {} are in the machine's memory", gib(bytes)),
                };
                let _ = writeln!(
                    text,
                    "{:20}{:>10}   sampling {sampling}, update {update}; at the peak: {}{host}",
                    case.name,
                    gib(*peak),
                    uses(of)
                );
            }
            Err(error) => {
                let _ = writeln!(text, "{:20}{error}", case.name);
            }
        }
    }
    let _ = writeln!(
        text,
        "beside it {} for the driver's context, machine code and rounding (an allowance, not counted)",
        gib(ALLOWANCE)
    );
    text + &card(&cases)
}

/// Which of them fit the card, if there is one.
fn card(cases: &[Case]) -> String {
    let (device, free) = match find_card(Dtype::Bf16, say) {
        CardSearch::NotBuilt => {
            return "card: not searched for, because this llm-train was built without CUDA\n".to_owned();
        }
        CardSearch::Unusable(reason) => return format!("card: {reason}\n"),
        CardSearch::Card(device) => match device.memory() {
            Ok((free, _)) => (device, free),
            Err(reason) => return format!("card: {reason}\n"),
        },
    };
    let mut text = format!("card: {} with {} free\n", device.name(), gib(free));
    for case in cases {
        let Ok(prediction) = &case.found else { continue };
        let verdict = match memory_check(prediction, free, &case.config) {
            Ok(()) => "fits".to_owned(),
            Err(line) => line,
        };
        let _ = writeln!(text, "  {:20}{verdict}", case.name);
    }
    text
}

/// The uses that matter, largest first.
fn uses(uses: &Uses) -> String {
    let mut all: Vec<(&str, u64)> = uses.iter().map(|(name, bytes)| (*name, *bytes)).collect();
    all.retain(|(_, bytes)| *bytes > 0);
    all.sort_by_key(|(_, bytes)| std::cmp::Reverse(*bytes));
    all.iter().map(|(name, bytes)| format!("{name} {}", gib(*bytes))).collect::<Vec<_>>().join(", ")
}

/// Bytes for people.
pub(in crate::commands) fn gib(bytes: u64) -> String {
    let mib = bytes as f64 / f64::from(1 << 20);
    if mib < 1024.0 { format!("{mib:.1} MiB") } else { format!("{:.2} GiB", mib / 1024.0) }
}
