//! The check that a server has the weights that were handed to it, and gives the log-probabilities of the distribution it samples from.

use grpo_lambda_decoder::mismatch::Mismatch;
use grpo_lambda_decoder::model::{Error, ForwardOptions, Rows};

use super::answer::{PROBE_TEMPERATURE, Probed};
use super::error::EngineError;
use super::vllm::raw_mode;

/// Scores a row from the token at `from` on, at a temperature.
pub type Score<'a> = dyn Fn(&Rows, ForwardOptions) -> Result<Vec<Vec<f64>>, Error> + 'a;

/// The weights that a server should have, with the largest mean factor between its probabilities and ours.
#[derive(Clone, Copy, Debug)]
pub enum Weights {
    /// The weights that a run has just handed over.
    HandedOver(f64),
    /// The weights of the model that the user names.
    Named(f64),
}

impl Weights {
    /// The limit, also in words, and the words about a server with other weights.
    fn limit(self) -> (f64, String, [&'static str; 2]) {
        match self {
            Weights::HandedOver(limit) => (
                limit,
                format!("rl.max_logp_error = {limit}"),
                ["than those just handed to it", "the run stops rather than learn from another policy"],
            ),
            Weights::Named(limit) => (
                limit,
                format!("at most {limit} is rounding"),
                ["than the model of --model", "start the server with that checkpoint"],
            ),
        }
    }
}

/// Compares what the server made of `prompt` with our own log-probabilities.
pub fn compare(
    prompt: &[u32],
    probed: &Probed,
    weights: Weights,
    score: &Score<'_>,
) -> Result<(), EngineError> {
    let refused = |problem: String| Err(EngineError::refused(problem));
    let (limit, allowed, [than, so]) = weights.limit();
    if probed.tokens.is_empty() || probed.logps.len() != probed.tokens.len() {
        return refused("it continued a known sequence without a log-probability for each token".to_owned());
    }
    let whole: Vec<u32> = prompt.iter().chain(&probed.tokens).copied().collect();
    let own = |from: usize, to: usize, temperature: f64| {
        let mut rows = Rows::new();
        rows.push(&whole[..to], from);
        let options = ForwardOptions { temperature, ..ForwardOptions::default() };
        let scored = score(&rows, options).map_err(|e| EngineError::refused(e.to_string()))?;
        Ok::<_, EngineError>(scored.into_iter().flatten().collect::<Vec<f64>>())
    };
    let (start, end) = (prompt.len(), whole.len());
    let of_prompt = factor(&probed.prompt, &if start > 1 { own(1, start, 1.0)? } else { Vec::new() });
    if of_prompt.is_nan() || of_prompt > limit {
        return refused(format!(
            "it has other weights {than}: it scores a known sequence with probabilities that differ from ours by a factor of {of_prompt:.4} on \
             average, and {allowed}; {so}"
        ));
    }
    let of_sample = factor(&probed.logps, &own(start, end, PROBE_TEMPERATURE)?);
    if of_sample <= limit {
        return Ok(());
    }
    if factor(&probed.logps, &own(start, end, 1.0)?) <= limit {
        return refused(raw_mode());
    }
    refused(format!(
        "it gives the tokens it samples at temperature {PROBE_TEMPERATURE} probabilities that differ from ours by a factor of {of_sample:.4} on \
         average, and {allowed}; the prompt it scores right, so its sampler changes the distribution"
    ))
}

/// The mean factor between two lists of probabilities; NaN where they do not fit each other.
fn factor(theirs: &[f64], ours: &[f64]) -> f64 {
    if theirs.len() != ours.len() {
        return f64::NAN;
    }
    let mut mismatch = Mismatch::default();
    mismatch.add(theirs, ours);
    mismatch.mean()
}
