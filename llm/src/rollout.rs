//! Sampling: all prompts times all responses of a step, decoded as one ragged batch.
//!
//! A prompt is read once and its keys are shared by its responses. A response that ends leaves the batch. The random
//! number of a token is addressed by (step, prompt, response, position), and a token's scores do not depend on the rows beside it,
//! so a response does not depend on batch composition, thread count or an interruption.

use crate::model::{Decoder, Decoding, Error as ModelError, RowId};
use crate::rng::{Address, ScoreError, categorical, greedy};
use crate::truncation::Truncation;

/// The lowest temperature above 0: logits divided by less could leave the range of f32.
pub const LEAST_TEMPERATURE: f64 = 1e-6;
/// The highest temperature, at which every token is as probable as another.
pub const MOST_TEMPERATURE: f64 = 1e6;

/// How tokens are chosen.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sampling {
    /// Length limit of a response, at least 1.
    pub max_new_tokens: usize,
    /// No end token among the first so many tokens, as `min_new_tokens` of transformers; 0 in training, where it would make the sampler's distribution another than the trainer's.
    pub min_new_tokens: usize,
    /// Divides the logits; 0 takes the most probable token.
    pub temperature: f64,
}

/// A sampled response.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Sampled {
    /// Its tokens, the end token included.
    pub tokens: Vec<u32>,
    /// `log pi(token)` of each, at the sampling temperature (1 for greedy), in nats: the trainer's numbers to the bit.
    pub logps: Vec<f64>,
    /// Entropy of the distribution each was drawn from, in nats.
    pub entropies: Vec<f64>,
    /// Whether it was cut off at the limit.
    pub truncated: bool,
}

/// Why sampling failed.
#[derive(Debug, thiserror::Error)]
pub enum RolloutError {
    /// The model refused its input.
    #[error(transparent)]
    Model(#[from] ModelError),
    /// The model returned scores one cannot sample from.
    #[error(
        "prompt {prompt}, response {response}, token {position}: {source}; the weights hold NaN or infinity"
    )]
    Scores {
        /// The prompt.
        prompt: usize,
        /// The response.
        response: usize,
        /// The token.
        position: usize,
        /// What is wrong.
        source: ScoreError,
    },
    /// No room for a response.
    #[error(
        "prompt {prompt} has {tokens} tokens; with {new} new ones it exceeds the model's limit of {limit}"
    )]
    TooLong {
        /// The prompt.
        prompt: usize,
        /// Its length.
        tokens: usize,
        /// Length limit of a response.
        new: usize,
        /// The model's limit.
        limit: usize,
    },
}

/// One response in the making.
struct Live {
    row: RowId,
    prompt: usize,
    response: usize,
    address: Address,
}

/// Samples `group` responses to each prompt; `address(prompt, response)` says where a response's random numbers are.
///
/// From the whole distribution, as training needs it; see [`sample_truncated`].
///
/// # Errors
/// [`RolloutError`].
pub fn sample(
    model: &Decoder<f32>,
    prompts: &[&[u32]],
    group: usize,
    eos: &[u32],
    sampling: Sampling,
    address: impl Fn(usize, usize) -> Address,
) -> Result<Vec<Vec<Sampled>>, RolloutError> {
    sample_truncated(model, prompts, group, eos, sampling, Truncation::default(), address)
}

/// [`sample`] from the most probable tokens only; log-probabilities and entropies are still those of the whole distribution.
///
/// # Errors
/// [`RolloutError`].
pub fn sample_truncated(
    model: &Decoder<f32>,
    prompts: &[&[u32]],
    group: usize,
    eos: &[u32],
    sampling: Sampling,
    truncation: Truncation,
    address: impl Fn(usize, usize) -> Address,
) -> Result<Vec<Vec<Sampled>>, RolloutError> {
    sample_until(model, prompts, group, eos, sampling, truncation, Ending::default(), address)
}

/// Whether a response of these tokens is complete.
pub type Complete<'a> = dyn Fn(&[u32]) -> bool + 'a;

/// What ends a response beside an end token and [`Sampling::max_new_tokens`]: for evaluation, not for training.
#[derive(Clone, Copy, Default)]
pub struct Ending<'a> {
    /// A lower length limit for the responses to each prompt, at least 1; empty for none.
    pub limits: &'a [usize],
    /// Whether a response of these tokens is complete without an end token.
    pub complete: Option<&'a Complete<'a>>,
}

impl Ending<'_> {
    /// The length limit of a response to `prompt`.
    fn limit(&self, prompt: usize, sampling: Sampling) -> usize {
        self.limits.get(prompt).map_or(sampling.max_new_tokens, |own| sampling.max_new_tokens.min(*own))
    }
}

/// [`sample_truncated`] with further ways for a response to end. One that is complete without an end token is not truncated.
///
/// # Errors
/// [`RolloutError`].
#[expect(clippy::too_many_arguments, reason = "the whole of what a response depends on")]
pub fn sample_until(
    model: &Decoder<f32>,
    prompts: &[&[u32]],
    group: usize,
    eos: &[u32],
    sampling: Sampling,
    truncation: Truncation,
    ending: Ending<'_>,
    address: impl Fn(usize, usize) -> Address,
) -> Result<Vec<Vec<Sampled>>, RolloutError> {
    let limit = model.config().max_position_embeddings;
    for (prompt, ids) in prompts.iter().enumerate() {
        let (tokens, new) = (ids.len(), ending.limit(prompt, sampling));
        if tokens + new > limit {
            return Err(RolloutError::TooLong { prompt, tokens, new, limit });
        }
    }
    let mut out = vec![vec![Sampled::default(); group]; prompts.len()];
    let mut decoding = Decoding::new(model);
    let (rows, mut next) = decoding.prefill(prompts)?;
    let mut live: Vec<Live> = Vec::new();
    // Which row of `next` a live response draws from: its prompt's at first, its own later.
    let mut source: Vec<usize> = Vec::new();
    for (prompt, &row) in rows.iter().enumerate() {
        for response in 0..group {
            let row = if response + 1 == group { row } else { decoding.fork(row) };
            live.push(Live { row, prompt, response, address: address(prompt, response) });
            source.push(prompt);
        }
    }
    let temperature = if sampling.temperature > 0.0 { sampling.temperature } else { 1.0 };
    loop {
        next.log_softmax(temperature);
        let (mut rows, mut tokens, mut still) = (Vec::new(), Vec::new(), Vec::new());
        for (one, &row) in live.into_iter().zip(&source) {
            let response = &mut out[one.prompt][one.response];
            let position = response.tokens.len();
            let scores = next.row(row);
            let token = choose(scores, &one, position, eos, sampling, truncation)?;
            response.tokens.push(token as u32);
            response.logps.push(f64::from(scores[token]));
            response.entropies.push(entropy(scores));
            let ended = eos.contains(&(token as u32))
                || ending.complete.is_some_and(|complete| complete(&response.tokens));
            response.truncated = !ended && position + 1 == ending.limit(one.prompt, sampling);
            if ended || response.truncated {
                decoding.finish(one.row);
            } else {
                rows.push(one.row);
                tokens.push(token as u32);
                still.push(one);
            }
        }
        if still.is_empty() {
            return Ok(out);
        }
        live = still;
        source = (0..live.len()).collect();
        next = decoding.step(&rows, &tokens)?;
    }
}

fn choose(
    scores: &[f32],
    one: &Live,
    position: usize,
    eos: &[u32],
    sampling: Sampling,
    truncation: Truncation,
) -> Result<usize, RolloutError> {
    let mut changed = Vec::new();
    let early = position < sampling.min_new_tokens;
    let scores = if early || !truncation.is_none() {
        changed.extend_from_slice(scores);
        if early {
            eos.iter().for_each(|&id| changed[id as usize] = f32::NEG_INFINITY);
        }
        truncation.apply(&mut changed);
        &changed
    } else {
        scores
    };
    let token = if sampling.temperature > 0.0 {
        // The scores are log-probabilities at the sampling temperature already.
        categorical(scores, 1.0, one.address.unit(position as u64))
    } else {
        greedy(scores)
    };
    token.map_err(|source| RolloutError::Scores {
        prompt: one.prompt,
        response: one.response,
        position,
        source,
    })
}

/// `-sum p log p` of log-probabilities, in f64 in id order.
fn entropy(log_probs: &[f32]) -> f64 {
    let term = |&l: &f32| if l > f32::NEG_INFINITY { f64::from(l) * f64::from(l).exp() } else { 0.0 };
    -log_probs.iter().map(term).sum::<f64>()
}
