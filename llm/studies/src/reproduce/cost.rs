//! Cost of a run: tokens, operations, hours on a stated device, disk.
//!
//! Operations and time are those of the dry device, which [counts a step](grpo_lambda_trainer::plan::synthetic) of the
//! model's shape. Everything else is an assumption, kept in [`Assumptions`] and printed with the numbers.

use std::iter::Sum;
use std::ops::Add;

use grpo_lambda_stats::table::significant;

use grpo_lambda::group::InputKind;
use grpo_lambda_decoder::lora::LoraSettings;
use grpo_lambda_decoder::model::ModelConfig as Shape;
use grpo_lambda_gpu::dry::Work;
use grpo_lambda_trainer::config::Config as Preset;
use grpo_lambda_trainer::eval::EVAL_BATCH;
use grpo_lambda_trainer::plan::cards::Card;
use grpo_lambda_trainer::plan::memory;
use grpo_lambda_trainer::plan::synthetic::{
    ALLOWANCE, EvaluationShape, SyntheticStepError, decided, predict_at,
};
use grpo_lambda_trainer::problems::MaxLengths;

use super::axes::benchmarks;
use crate::terminal;

/// The shares of an H100's rates that the steps of `docs/gpu.md` reached.
pub const REACHED: &str = "34 to 73 %";

/// Assumptions of the estimate.
#[derive(Clone, Debug, PartialEq)]
pub struct Assumptions {
    pub card: Card,
    /// The share of its best that is reached, in `(0, 1]`.
    pub utilisation: f64,
    pub prompt_tokens: usize,
    /// Tokens of a demonstration with its prompt.
    pub demonstration_tokens: usize,
    /// Tokens of a response to a benchmark's problem.
    pub eval_tokens: usize,
}

impl Assumptions {
    /// The most that the paper's settings allow: demonstrations of 4096 tokens (Table 2), responses at their limit,
    /// 3000 tokens in evaluation (the default of the evaluation code it names), prompts of half the limit of 256.
    pub fn new(card: Card, utilisation: f64) -> Assumptions {
        Assumptions { card, utilisation, prompt_tokens: 128, demonstration_tokens: 4096, eval_tokens: 3000 }
    }

    /// In words, a line each.
    pub fn lines(&self) -> Vec<String> {
        let Card { about, source, ceilings, memory, .. } = self.card;
        let (held, on_cards) = match memory {
            Some(_) => (
                "device memory: the most that the device holds at once, with 1 GiB for driver and libraries; an evaluation takes \
                 as many responses at a time as fit",
                format!(
                    ". No whole run was timed on a card; single steps on an H100 reached {REACHED} of its best (docs/gpu.md)"
                ),
            ),
            None => ("device memory: the most that a step of RL holds", String::new()),
        };
        vec![
            "counted by running each model's step without computing: operations (a multiply-add is two) and time; \
             from the presets: steps, problems, responses"
                .to_owned(),
            format!(
                "assumed: prompts of {} tokens, demonstrations of {}, every response at its limit (so an upper bound \
                 of tokens and operations), {} tokens in evaluation",
                self.prompt_tokens, self.demonstration_tokens, self.eval_tokens
            ),
            format!(
                "assumed: {about} at {:.0} % of its best, {:.3e} operations/s and {:.3e} bytes/s ({source}); each \
                 launch takes the longer of its operations and its bytes",
                100.0 * self.utilisation,
                ceilings.operations,
                ceilings.bandwidth
            ),
            format!("hours are of one device; the paper used 4 of a kind it does not name{on_cards}"),
            held.to_owned(),
            "disk: a checkpoint has the weights and the optimiser's numbers of every trained parameter in f32, as \
             many as checkpoint.keep and one being written; the frozen reference (with LoRA the base, always) is \
             there once, where the file system has hard links"
                .to_owned(),
        ]
    }
}

/// Estimated cost of a piece of work.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct WorkEstimate {
    /// Sampled tokens.
    pub sampled: f64,
    pub work: Work,
    /// Bytes that the device holds at the peak, with what its driver takes; 0 where that is not counted.
    pub memory: u64,
    /// Bytes of checkpoints that stay.
    pub disk: f64,
}

/// Work that is done one after another.
impl Add for WorkEstimate {
    type Output = WorkEstimate;

    fn add(self, other: WorkEstimate) -> WorkEstimate {
        WorkEstimate {
            sampled: self.sampled + other.sampled,
            work: self.work + other.work,
            memory: self.memory.max(other.memory),
            disk: self.disk + other.disk,
        }
    }
}

impl Sum for WorkEstimate {
    fn sum<I: Iterator<Item = WorkEstimate>>(work: I) -> WorkEstimate {
        work.fold(WorkEstimate::default(), Add::add)
    }
}

impl WorkEstimate {
    /// Hours on one device.
    pub fn hours(&self, a: &Assumptions) -> f64 {
        self.work.seconds / a.utilisation / 3600.0
    }
}

/// The stages of a run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RunEstimate {
    pub supervised: WorkEstimate,
    pub reinforced: WorkEstimate,
    /// False if the method's own extra inputs, which no card computes, are not counted.
    pub whole: bool,
}

/// The cost of both stages of a run, evaluations left out.
pub fn run(shape: &Shape, preset: &Preset, a: &Assumptions) -> Result<RunEstimate, SyntheticStepError> {
    let longest = MaxLengths { prompt: a.prompt_tokens, example: a.demonstration_tokens };
    // Supervised learning on the processor has no estimate of its memory.
    let on_processor = |preset: &Preset| {
        let preset = memory::decided(preset, shape, a.prompt_tokens);
        let step = memory::StepShape::new(&preset, a.prompt_tokens);
        let estimate = memory::estimate(shape, &step, preset.lora.as_ref());
        let peak = estimate.peak(preset.memory.recompute_layers) as u64;
        (preset, [0, peak])
    };
    let count = |preset: &Preset| {
        let (preset, peaks) = match a.card.memory {
            Some(free) => {
                let (preset, step) = decided(shape, preset, a.card.dtype, longest, free)?;
                let supervised = step.supervised.map_or(0, |(peak, _)| peak + ALLOWANCE);
                (preset, [supervised, step.sampling.0.max(step.update.0) + ALLOWANCE])
            }
            None => on_processor(preset),
        };
        Ok((predict_at(a.card.ceilings, shape, &preset, a.card.dtype, longest)?, peaks))
    };
    let ((found, [supervised, reinforced]), whole) = match (count(preset), preset.with(&["method.name=grpo"]))
    {
        (Err(SyntheticStepError::ExtraInputs { .. }), Ok(plain)) => (count(&plain)?, false),
        (found, _) => (found?, true),
    };
    let rl = &preset.rl;
    let responses = (rl.prompts_per_step * rl.group_size * rl.max_new_tokens) as f64;
    let reference = preset.configured().extra_inputs().contains(&InputKind::RefLogps);
    Ok(RunEstimate {
        supervised: WorkEstimate {
            sampled: 0.0,
            work: found.supervised_work.times(preset.sft.steps),
            memory: supervised,
            disk: disk(shape, preset, false),
        },
        reinforced: WorkEstimate {
            sampled: rl.steps as f64 * responses,
            work: found.work.total().times(rl.steps),
            memory: reinforced,
            disk: disk(shape, preset, reference),
        },
        whole,
    })
}

/// The evaluation of a cell on the five benchmarks, one response a problem.
pub fn evaluated(shape: &Shape, a: &Assumptions) -> Result<WorkEstimate, SyntheticStepError> {
    let (dtype, prompt_tokens, new_tokens) = (a.card.dtype, a.prompt_tokens, a.eval_tokens);
    let evaluation = EvaluationShape { shape, dtype, prompt_tokens, new_tokens };
    let work = |rows: usize| evaluation.work(a.card.ceilings, rows);
    let batch = work(EVAL_BATCH)?;
    let of_benchmark = |items: u64| {
        let (full, left) = (items / EVAL_BATCH as u64, items % EVAL_BATCH as u64);
        let rest = if left == 0 { Work::default() } else { work(left as usize)? };
        let sampled = (items * new_tokens as u64) as f64;
        Ok(WorkEstimate { sampled, work: batch.times(full) + rest, ..WorkEstimate::default() })
    };
    benchmarks().iter().map(|b| of_benchmark(b.items())).sum()
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

/// Bytes of the checkpoints of a run: weights, what is trained in the optimiser's copies, and once for all of them the
/// reference where there is one. With LoRA the reference is the base, always there, and the pairs are once more next to
/// the optimiser.
pub fn disk(shape: &Shape, preset: &Preset, reference: bool) -> f64 {
    let copies = if preset.adam.compensated { 4.0 } else { 3.0 };
    let kept = (preset.checkpoint.keep + 1) as f64;
    let frozen = if reference || preset.lora.is_some() { 1.0 } else { 0.0 };
    let pairs = if preset.lora.is_some() { 1.0 } else { 0.0 };
    let numbers = all(shape) + trained(shape, preset.lora.as_ref()) * (copies + pairs);
    F32 * (numbers * kept + all(shape) * frozen)
}

/// A run of the plan.
#[derive(Clone, Debug, PartialEq)]
pub struct PlanLine {
    /// Model, data set and variant.
    pub names: [String; 3],
    /// Its whole work, and hours on the device.
    pub work: WorkEstimate,
    pub hours: f64,
    pub status: &'static str,
}

/// A size in bytes, for people.
pub fn bytes(x: f64) -> String {
    let units = ["B", "KB", "MB", "GB", "TB"];
    let (mut x, mut unit) = (x, 0);
    while x >= 1000.0 && unit + 1 < units.len() {
        (x, unit) = (x / 1000.0, unit + 1);
    }
    format!("{} {}", significant(x, 3), units[unit])
}

/// Hours, or seconds where they are few.
pub fn time(hours: f64) -> String {
    match hours {
        h if h < 0.1 => format!("{} s", significant(3600.0 * h, 3)),
        h => format!("{} h", significant(h, 3)),
    }
}

/// GiB of memory on a device that has so much.
fn gib(bytes: u64, device: Option<u64>) -> String {
    let gib = |bytes: u64| format!("{:.1} GiB", bytes as f64 / f64::from(1 << 30));
    match (bytes, device) {
        (0, _) => "-".to_owned(),
        (_, Some(there)) if bytes > there => format!("{}, of {}", gib(bytes), gib(there)),
        _ => gib(bytes),
    }
}

/// The plan of a grid: what each run takes of a device with so many bytes of memory, and what is left in total.
pub fn plan(lines: &[PlanLine], device: Option<u64>) -> String {
    let heads = ["tokens sampled", "operations", "device time", "device memory", "disk", "status"];
    let mut table = terminal::table([&["model", "data set", "variant"][..], &heads].concat());
    let mut add = |names: &[String; 3], work: &WorkEstimate, hours: f64, status: &str| {
        let numbers = [
            format!("{:.2e}", work.sampled),
            format!("{:.2e}", work.work.operations),
            time(hours),
            gib(work.memory, device),
            bytes(work.disk),
            status.to_owned(),
        ];
        table.add_row(names.iter().chain(&numbers));
    };
    for line in lines {
        add(&line.names, &line.work, line.hours, line.status);
    }
    let left: Vec<&PlanLine> = lines.iter().filter(|line| line.status != "done").collect();
    for (what, these) in [("all", lines.iter().collect()), ("left:", left)] {
        let names = [format!("{what} {} runs", these.len()), String::new(), String::new()];
        let work = these.iter().map(|line| line.work).sum();
        add(&names, &work, these.iter().map(|line| line.hours).sum(), "");
    }
    format!("{table}\n")
}
