//! Accuracy on held-out problems, with its interval.

use grpo_lambda_decoder::generate::{
    RolloutError, Sampler, SamplingParams, SamplingProgress, SamplingRequest, StoppingCriteria,
};
use grpo_lambda_decoder::rng::{Address, Purpose};
use grpo_lambda_stats::{Interval, wilson};
use serde::{Deserialize, Serialize};

use super::completion::{CompletionRecord, RecordedFinish, ResponseOutcome};
use crate::input::stops::Stops;
use crate::input::task::Problem;
use crate::input::tokens::TokenError;

/// Level of every interval.
pub const CONFIDENCE_LEVEL: f64 = 0.95;

/// Responses decoded at a time, at most.
pub const EVAL_BATCH: usize = 128;

/// Responses of a request for each of its slots, which keeps most slots busy. The responses of a request are written once all are there.
pub const QUEUE: usize = 4;

/// Slots of an evaluation during a run, from [`MemoryConfig::slots`](crate::config::MemoryConfig::slots).
pub fn eval_slots(slots: Option<usize>) -> usize {
    slots.map_or(EVAL_BATCH, |slots| slots.min(EVAL_BATCH))
}

/// An accuracy.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize, Serialize)]
pub struct Evaluation {
    /// Right answers.
    pub correct: u64,
    /// Problems with a gradable response.
    pub n: u64,
    /// Problems whose response could not be graded; not in `n`.
    pub ungradable: u64,
    pub truncated: u64,
    /// Mean length of a response, in tokens.
    pub mean_length: f64,
}

impl Evaluation {
    /// The counts of one response to each problem.
    pub fn counted(answers: &[CompletionRecord]) -> Evaluation {
        let count =
            |which: &dyn Fn(&CompletionRecord) -> bool| answers.iter().filter(|a| which(a)).count() as u64;
        let n = count(&|a| a.verdict.score().is_some());
        Evaluation {
            correct: count(&|a| a.verdict == ResponseOutcome::Right),
            n,
            ungradable: answers.len() as u64 - n,
            truncated: count(&|a| a.finish == RecordedFinish::Length),
            mean_length: answers.iter().fold(0.0, |sum, a| sum + a.tokens as f64 / answers.len() as f64),
        }
    }

    /// `correct / n`; NaN without a graded problem.
    pub fn accuracy(&self) -> f64 {
        self.correct as f64 / self.n as f64
    }

    /// Wilson's 95 % interval; `None` without a graded problem.
    pub fn interval(&self) -> Option<Interval> {
        wilson(self.correct, self.n, CONFIDENCE_LEVEL)
    }
}

/// The reason why an evaluation failed.
#[derive(Debug, thiserror::Error)]
pub enum EvalError {
    #[error(transparent)]
    Rollout(#[from] RolloutError),
    #[error(transparent)]
    Token(#[from] TokenError),
}

/// The response of `model` to each of `problems`, decoded in so many `slots` and ended by `stops` too; `seed` addresses the sampler's random
/// numbers. [`Evaluation::counted`] counts them.
///
/// `on_progress(done, under_way)` gets the number of finished problems and the progress of the others.
pub fn evaluate(
    model: &dyn Sampler,
    stops: &Stops,
    (problems, seed): (&[Problem], u64),
    (sampling, slots): (SamplingParams, usize),
    on_progress: &(dyn Fn(usize, Option<SamplingProgress>) + Sync),
) -> Result<Vec<CompletionRecord>, EvalError> {
    let mut out = Vec::with_capacity(problems.len());
    let base = Address::new(seed, Purpose::Evaluation);
    let tokens = &stops.tokens;
    let together = QUEUE * slots.max(1);
    for (chunk, problems) in problems.chunks(together).enumerate() {
        let start = chunk * together;
        let prompts = problems.iter().map(|p| p.encode(tokens)).collect::<Result<Vec<_>, _>>()?;
        let ids: Vec<&[u32]> = prompts.iter().map(|p| p.ids()).collect();
        let address = |prompt: usize, _| base.prompt((start + prompt) as u64);
        let watch = |under_way| on_progress(start, Some(under_way));
        let responses = model.generate(&SamplingRequest {
            slots: Some(slots),
            stopping: StoppingCriteria { max_lengths: &[], complete: stops.test() },
            watch: Some(&watch),
            ..SamplingRequest::new(&ids, 1, tokens.eos(), sampling, &address)
        })?;
        for (problem, response) in problems.iter().zip(responses.iter().flatten()) {
            let (id, asked) = (out.len().to_string(), (&problem.gold, problem.extraction));
            out.push(CompletionRecord::graded((&id, 0, problem.text()), asked, response, stops)?);
        }
        on_progress(start + problems.len(), None);
    }
    Ok(out)
}
