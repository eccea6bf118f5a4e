//! Cost estimate of a cell: tokens, operations, hours on a stated accelerator, disk.
//!
//! Tokens and operations follow from the model's shape and the preset ([`crate::plan::roofline`] counts them). Everything else is an assumption, kept in
//! [`Assumptions`] and printed with the numbers: how long prompts and responses are, what the accelerator can do, and what share of that is reached.

use grpo_lambda::group::EvidenceKind;
use grpo_lambda_decoder::lora::LoraSettings;
use grpo_lambda_decoder::model::ModelConfig as Shape;

use super::paper::BENCHMARKS;
use crate::config::Config as Preset;
use crate::plan::roofline;

/// An accelerator, by its data sheet.
#[derive(Debug, PartialEq)]
pub struct Accelerator {
    /// As in `--gpu`.
    pub name: &'static str,
    pub about: &'static str,
    /// Operations per second at best, dense, in the precision of `bytes`.
    pub flops: f64,
    /// Bytes of memory read per second at best.
    pub bandwidth: f64,
    /// Bytes of a weight while computing.
    pub bytes: f64,
    /// Where the numbers come from.
    pub source: &'static str,
}

/// Every accelerator that `--gpu` knows; the first is the default.
#[rustfmt::skip]
pub static ACCELERATORS: &[Accelerator] = &[
    Accelerator { name: "h100", about: "NVIDIA H100 SXM, bf16", flops: 989e12, bandwidth: 3.35e12, bytes: 2.0, source: "data sheet" },
    Accelerator { name: "h200", about: "NVIDIA H200 SXM, bf16", flops: 989e12, bandwidth: 4.8e12, bytes: 2.0, source: "data sheet" },
    Accelerator { name: "a100", about: "NVIDIA A100 80 GB SXM, bf16", flops: 312e12, bandwidth: 2.039e12, bytes: 2.0, source: "data sheet" },
    Accelerator { name: "cpu", about: "two cores of a Zen 5, f32: what this trainer runs on today", flops: 462e9, bandwidth: 50e9, bytes: 4.0, source: "llm-train bench (operations); the bandwidth is a guess" },
];

/// The accelerator with this name by its driver, as in `NVIDIA H100 80GB HBM3`, where it is listed.
pub fn of_device(name: &str) -> Option<&'static Accelerator> {
    // Cards of like names are slower: H100 PCIe, H200 NVL, A100 of 40 GB.
    let listed = match name {
        "NVIDIA H200" => "h200",
        "NVIDIA H100 80GB HBM3" => "h100",
        "NVIDIA A100-SXM4-80GB" => "a100",
        _ => return None,
    };
    ACCELERATORS.iter().find(|a| a.name == listed)
}

/// Assumptions of the estimate.
#[derive(Clone, Debug, PartialEq)]
pub struct Assumptions {
    pub accelerator: &'static Accelerator,
    /// The share of its best that is reached, in `(0, 1]`, of operations and of bandwidth.
    pub utilisation: f64,
    pub prompt_tokens: usize,
    /// Tokens of a demonstration with its prompt.
    pub demonstration_tokens: usize,
    /// Tokens of a response to a benchmark's problem.
    pub eval_tokens: usize,
    /// Responses decoded together in an evaluation.
    pub eval_batch: usize,
}

impl Assumptions {
    /// As the paper's settings allow at most: every demonstration of 4096 tokens (Table 2), every response at its limit, 3000 tokens in evaluation
    /// (the default of the evaluation code it names), prompts of half the limit of 256.
    pub fn new(accelerator: &'static Accelerator, utilisation: f64) -> Assumptions {
        Assumptions {
            accelerator,
            utilisation,
            prompt_tokens: 128,
            demonstration_tokens: 4096,
            eval_tokens: 3000,
            eval_batch: 128,
        }
    }

    /// In words, a line each.
    pub fn lines(&self) -> Vec<String> {
        let a = self.accelerator;
        vec![
            format!(
                "counted from the models' shapes: tokens, operations (matrix products and attention, a multiply-add is two), parameters; \
                 from the presets: steps, problems, responses"
            ),
            format!(
                "assumed: prompts of {} tokens, demonstrations of {}, every response at its limit (so an upper bound), {} tokens in evaluation",
                self.prompt_tokens, self.demonstration_tokens, self.eval_tokens
            ),
            format!(
                "assumed: {} ({}: {:.3e} operations/s, {:.3e} bytes/s) at {:.0} % of both; decoding takes the longer of its operations and of \
                 reading the weights once a token (keys and values, communication and idle devices count nothing)",
                a.about,
                a.source,
                a.flops,
                a.bandwidth,
                100.0 * self.utilisation
            ),
            "hours are of one device; the paper used 4 of a kind it does not name. No hour of this trainer on a card has been measured: llm-train bench --model-shape does"
                .to_owned(),
            "disk: a checkpoint has the weights and the optimiser's numbers of every trained parameter in f32, as many as checkpoint.keep and one being written; the frozen reference (with LoRA the base, always) is there once, where the file system has hard links"
                .to_owned(),
        ]
    }
}

/// Estimated cost of a piece of work.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct WorkEstimate {
    /// Tokens sampled.
    pub sampled: f64,
    /// Tokens of demonstrations.
    pub demonstrated: f64,
    /// Operations, of decoding too.
    pub flops: f64,
    /// Of these, decoding.
    pub decode_flops: f64,
    /// Numbers of weights that decoding reads.
    pub decode_reads: f64,
    /// Bytes of checkpoints that stay.
    pub disk: f64,
}

impl std::ops::Add for WorkEstimate {
    type Output = WorkEstimate;

    fn add(self, other: WorkEstimate) -> WorkEstimate {
        WorkEstimate {
            sampled: self.sampled + other.sampled,
            demonstrated: self.demonstrated + other.demonstrated,
            flops: self.flops + other.flops,
            decode_flops: self.decode_flops + other.decode_flops,
            decode_reads: self.decode_reads + other.decode_reads,
            disk: self.disk + other.disk,
        }
    }
}

impl std::iter::Sum for WorkEstimate {
    fn sum<I: Iterator<Item = WorkEstimate>>(work: I) -> WorkEstimate {
        work.fold(WorkEstimate::default(), std::ops::Add::add)
    }
}

impl WorkEstimate {
    /// Hours on one device.
    pub fn hours(&self, a: &Assumptions) -> f64 {
        let (flops, bandwidth) =
            (a.accelerator.flops * a.utilisation, a.accelerator.bandwidth * a.utilisation);
        let decoding = (self.decode_flops / flops).max(self.decode_reads * a.accelerator.bytes / bandwidth);
        ((self.flops - self.decode_flops) / flops + decoding) / 3600.0
    }
}

/// Bytes of a number in a checkpoint.
const F32: f64 = 4.0;

/// Parameters: all of them.
fn all(shape: &Shape) -> f64 {
    shape.parameter_shapes().iter().map(|(_, s)| s.iter().product::<usize>() as f64).sum()
}

/// Parameters that are trained: all, or the pairs of matrices of LoRA.
pub fn trained(shape: &Shape, lora: Option<&LoraSettings>) -> f64 {
    lora.map_or_else(|| all(shape), |lora| lora.parameters(shape) as f64)
}

/// Bytes of the checkpoints of a run: weights, what is trained in the optimiser's copies, and once for all of them the reference where there
/// is one. With LoRA the reference is the base, always there, and the pairs are once more beside the optimiser.
fn disk(shape: &Shape, preset: &Preset, reference: bool) -> f64 {
    let copies = if preset.rl.adam.compensated { 4.0 } else { 3.0 };
    let kept = (preset.checkpoint.keep + 1) as f64;
    let frozen = if reference || preset.lora.is_some() { 1.0 } else { 0.0 };
    let pairs = if preset.lora.is_some() { 1.0 } else { 0.0 };
    let numbers = all(shape) + trained(shape, preset.lora.as_ref()) * (copies + pairs);
    F32 * (numbers * kept + all(shape) * frozen)
}

/// Operations of an update's forward and backward over `tokens` tokens whose forward pass takes `forward`: the gradient of inputs is worth a pass,
/// that of the weights another, and computing layers again another. With LoRA the weights are the adapted matrices, two operations a number
/// and token; what the pairs add is left out.
fn update(shape: &Shape, preset: &Preset, forward: f64, tokens: f64) -> f64 {
    let weights = match &preset.lora {
        None => forward,
        Some(lora) => 2.0 * tokens * lora.adapted(shape) as f64,
    };
    forward * if preset.memory.recompute_layers { 3.0 } else { 2.0 } + weights
}

/// The supervised stage of a model, shared by its cells.
pub fn supervised(shape: &Shape, preset: &Preset, a: &Assumptions) -> WorkEstimate {
    let rows = preset.sft.steps as f64 * preset.sft.batch as f64;
    let row = roofline::forward(shape, [(a.demonstration_tokens, a.demonstration_tokens)]);
    WorkEstimate {
        demonstrated: rows * a.demonstration_tokens as f64,
        flops: update(shape, preset, rows * row, rows * a.demonstration_tokens as f64),
        disk: disk(shape, preset, false),
        ..WorkEstimate::default()
    }
}

/// The reinforcement learning of a cell.
pub fn reinforced(shape: &Shape, preset: &Preset, a: &Assumptions) -> WorkEstimate {
    let rl = &preset.rl;
    let (prompts, new, steps) = (rl.prompts_per_step, rl.max_new_tokens, rl.steps as f64);
    let responses = (prompts * rl.group_size) as f64;
    let decode_flops = steps * roofline::decode(shape, &vec![a.prompt_tokens; prompts], rl.group_size, new);
    let forward = steps * responses * roofline::forward(shape, [(a.prompt_tokens + new, new)]);
    let reference = preset.configured().evidence().contains(&EvidenceKind::RefLogps);
    let scored = if reference { forward } else { 0.0 };
    let tokens = steps * responses * (a.prompt_tokens + new) as f64;
    let updates = rl.inner_updates as f64 * update(shape, preset, forward, tokens);
    WorkEstimate {
        sampled: steps * responses * new as f64,
        flops: decode_flops + scored + updates,
        decode_flops,
        decode_reads: steps * roofline::decode_weight_bytes(shape, new) / F32,
        disk: disk(shape, preset, reference),
        ..WorkEstimate::default()
    }
}

/// The evaluation of a cell on the five benchmarks, one greedy response a problem.
pub fn evaluated(shape: &Shape, a: &Assumptions) -> WorkEstimate {
    let items: u64 = BENCHMARKS.iter().map(|b| b.items).sum();
    let decode_flops = roofline::decode(shape, &[a.prompt_tokens], 1, a.eval_tokens) * items as f64;
    let batches: u64 = BENCHMARKS.iter().map(|b| b.items.div_ceil(a.eval_batch as u64)).sum();
    WorkEstimate {
        sampled: items as f64 * a.eval_tokens as f64,
        flops: decode_flops,
        decode_flops,
        decode_reads: batches as f64 * roofline::decode_weight_bytes(shape, a.eval_tokens) / F32,
        ..WorkEstimate::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use grpo_lambda_decoder::model::{Architecture::Qwen2, ModelShape};

    fn small() -> Shape {
        Qwen2.config(ModelShape { vocab: 50, hidden: 32, layers: 2, heads: 4, kv_heads: 2 })
    }

    fn preset(overrides: &[&str]) -> Preset {
        Preset::resolve("tiny", overrides).expect("accepted")
    }

    fn assumptions() -> Assumptions {
        Assumptions {
            prompt_tokens: 3,
            demonstration_tokens: 5,
            eval_tokens: 7,
            ..Assumptions::new(&ACCELERATORS[0], 0.5)
        }
    }

    #[test]
    fn a_card_is_known_by_its_drivers_name_and_not_taken_for_another() {
        let found = |name: &str| of_device(name).map(|a| a.name);
        assert_eq!(found("NVIDIA H100 80GB HBM3"), Some("h100"));
        assert_eq!(found("NVIDIA H200"), Some("h200"));
        assert_eq!(found("NVIDIA A100-SXM4-80GB"), Some("a100"));
        for other in ["NVIDIA H100 PCIe", "NVIDIA A100-SXM4-40GB", "NVIDIA H200 NVL", "NVIDIA GH200 480GB"] {
            assert_eq!(found(other), None, "{other}");
        }
    }

    #[test]
    fn rl_counts_what_a_step_does() {
        let shape = small();
        let settings = [
            "rl.steps=10",
            "rl.prompts_per_step=2",
            "rl.group_size=4",
            "rl.max_new_tokens=6",
            "method.name=grpo",
        ];
        let a = assumptions();
        let without = reinforced(&shape, &preset(&settings), &a);
        assert_eq!(without.sampled, 10.0 * 8.0 * 6.0);
        let forward = 80.0 * roofline::forward(&shape, [(9, 6)]);
        let decode = 10.0 * roofline::decode(&shape, &[3, 3], 4, 6);
        assert!((without.flops - (decode + 3.0 * forward)).abs() < 1e-6 * without.flops);
        // A reference is one pass more, another inner update three, computing layers again one per update.
        let more = |extra: &[&str]| {
            let all: Vec<&str> = settings.iter().chain(extra).copied().collect();
            (reinforced(&shape, &preset(&all), &a).flops - without.flops) / forward
        };
        for (extra, passes) in [
            (&["method.beta=0.04"][..], 1.0),
            (&["rl.inner_updates=2"], 3.0),
            (&["memory.recompute_layers=true"], 1.0),
            (&["method.beta=0.04", "rl.inner_updates=2", "memory.recompute_layers=true"], 6.0),
        ] {
            assert!((more(extra) - passes).abs() < 1e-9, "{extra:?}: {}", more(extra));
        }
    }

    #[test]
    fn lora_trains_the_pairs_of_its_targets_only() {
        let shape = small(); // heads of 8, two of keys
        let p = preset(&["lora.rank=3", "lora.targets=q_proj,down_proj", "method.name=grpo"]);
        let f = shape.intermediate_size as f64;
        let pairs = 2.0 * 3.0 * ((32.0 + 32.0) + (32.0 + f));
        assert_eq!(trained(&shape, p.lora.as_ref()), pairs);
        let numbers: usize = shape.parameter_shapes().iter().map(|(_, s)| s.iter().product::<usize>()).sum();
        assert_eq!(trained(&shape, None), numbers as f64);
        // Weights, the optimiser's copies of the pairs and the pairs themselves; the base once.
        let kept = (p.checkpoint.keep + 1) as f64;
        let copies = if p.rl.adam.compensated { 4.0 } else { 3.0 };
        let bytes = 4.0 * (kept * (numbers as f64 + (copies + 1.0) * pairs) + numbers as f64);
        assert_eq!((disk(&shape, &p, false), disk(&shape, &p, true)), (bytes, bytes));
        // Of the weights' gradient only that of the adapted matrices is left.
        let full = preset(&["method.name=grpo"]);
        let dense = 2.0 * 7.0 * 2.0 * (32.0 * 32.0 + 32.0 * f);
        assert_eq!(update(&shape, &full, 1e6, 7.0) - update(&shape, &p, 1e6, 7.0), 1e6 - dense);
    }

    #[test]
    fn a_checkpoint_takes_what_a_run_writes() {
        // weights + 4 of the optimiser, two kept and one being written, and the reference once: 4 x (5 x 3 + 1) bytes a parameter.
        let shape = small();
        let p = preset(&["method.beta=0.04", "checkpoint.keep=2"]);
        let work = reinforced(&shape, &p, &assumptions());
        assert_eq!(work.disk, 64.0 * trained(&shape, None));
    }

    #[test]
    fn hours_are_the_longer_of_reading_and_computing() {
        let fast =
            Accelerator { name: "x", about: "", flops: 1000.0, bandwidth: 100.0, bytes: 2.0, source: "" };
        let fast: &'static Accelerator = Box::leak(Box::new(fast));
        let a = Assumptions::new(fast, 0.5);
        let work =
            WorkEstimate { flops: 36e5, decode_flops: 18e5, decode_reads: 0.0, ..WorkEstimate::default() };
        assert!((work.hours(&a) - 2.0).abs() < 1e-12);
        let bound = WorkEstimate { decode_reads: 36e4, ..work };
        // 18e5 / 500 + 36e4 · 2 / 50 seconds
        assert!((bound.hours(&a) - (3600.0 + 14400.0) / 3600.0).abs() < 1e-12);
    }

    #[test]
    fn an_evaluation_is_one_response_to_each_of_the_five_benchmarks_problems() {
        let shape = small();
        assert_eq!(evaluated(&shape, &assumptions()).sampled, (30 + 500 + 83 + 675 + 272) as f64 * 7.0);
    }
}
