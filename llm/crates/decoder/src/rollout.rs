//! Sampling: all prompts times all responses of a step, decoded as one ragged batch.
//!
//! A prompt is read once and its keys are shared by its responses. A response that ends leaves the batch. The random
//! number of a token is addressed by (step, prompt, response, position), and a token's scores do not depend on the rows beside it,
//! so a response does not depend on batch composition, thread count or an interruption.

use crate::device::DeviceError;
use crate::model::{Decoder, Decoding, Error as ModelError, NextTokens, RowId};
use crate::rng::{Address, ScoreError, categorical, greedy};
use crate::truncation::Truncation;

/// The lowest temperature above 0: logits divided by less could leave the range of f32.
pub const MIN_TEMPERATURE: f64 = 1e-6;
/// The highest temperature, at which every token is as probable as another.
pub const MAX_TEMPERATURE: f64 = 1e6;

/// How tokens are chosen.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SamplingParams {
    /// Length limit of a response, at least 1.
    pub max_new_tokens: usize,
    /// No end token among the first so many tokens, as `min_new_tokens` of transformers; 0 in training, where it would make the sampler's distribution another than the trainer's.
    pub min_new_tokens: usize,
    /// Divides the logits; 0 takes the most probable token.
    pub temperature: f64,
}

/// A sampled response.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SampledResponse {
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
    /// The device failed.
    #[error(transparent)]
    Device(#[from] DeviceError),
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

/// What is asked of a sampler.
#[derive(Clone, Copy)]
pub struct SamplingRequest<'a> {
    /// Token ids of the prompts.
    pub prompts: &'a [&'a [u32]],
    /// Responses to each.
    pub group: usize,
    /// End tokens.
    pub eos: &'a [u32],
    /// How tokens are chosen.
    pub sampling: SamplingParams,
    /// From which tokens.
    pub truncation: Truncation,
    /// What else ends a response.
    pub stopping: StoppingCriteria<'a>,
    /// Where the random numbers of a response are: `address(prompt, response)`.
    pub address: &'a dyn Fn(usize, usize) -> Address,
}

impl<'a> SamplingRequest<'a> {
    /// `group` responses to each prompt, from the whole distribution.
    pub fn new(
        prompts: &'a [&'a [u32]],
        group: usize,
        eos: &'a [u32],
        sampling: SamplingParams,
        address: &'a dyn Fn(usize, usize) -> Address,
    ) -> Self {
        let (truncation, stopping) = (Truncation::default(), StoppingCriteria::default());
        SamplingRequest { prompts, group, eos, sampling, truncation, stopping, address }
    }
}

/// Something that can be sampled from.
pub trait Sampler {
    /// The responses, by prompt.
    ///
    /// # Errors
    /// [`RolloutError`].
    fn generate(&self, request: &SamplingRequest<'_>) -> Result<Vec<Vec<SampledResponse>>, RolloutError>;
}

impl Sampler for Decoder<f32> {
    fn generate(&self, request: &SamplingRequest<'_>) -> Result<Vec<Vec<SampledResponse>>, RolloutError> {
        request.check(self.config().max_position_embeddings)?;
        request.run(&mut CpuBackend::start(self, request)?)
    }
}

/// What decodes the responses of a rollout, which are numbered `prompt * group + response`.
pub trait DecodeBackend {
    /// Log-probabilities, at the sampling temperature, of the token after a response that has not ended.
    fn scores(&self, response: usize) -> &[f32];

    /// A response has ended; nothing more is asked about it.
    fn end(&mut self, response: usize);

    /// Reads a token of each of these responses, in rising order and all that have not ended.
    fn read(&mut self, responses: &[usize], tokens: &[u32]) -> Result<(), RolloutError>;
}

impl SamplingRequest<'_> {
    /// The length limit of a response to `prompt`.
    pub fn limit(&self, prompt: usize) -> usize {
        let most = self.sampling.max_new_tokens;
        self.stopping.max_lengths.get(prompt).map_or(most, |own| most.min(*own))
    }

    /// What divides the logits of the reported log-probabilities.
    pub fn temperature(&self) -> f64 {
        if self.sampling.temperature > 0.0 { self.sampling.temperature } else { 1.0 }
    }

    /// How many responses there are.
    pub fn responses(&self) -> usize {
        self.prompts.len() * self.group
    }

    /// Refuses a prompt that leaves no room for its responses in a model whose rows have at most `limit` tokens.
    pub fn check(&self, limit: usize) -> Result<(), RolloutError> {
        for (prompt, ids) in self.prompts.iter().enumerate() {
            let (tokens, new) = (ids.len(), self.limit(prompt));
            if tokens + new > limit {
                return Err(RolloutError::TooLong { prompt, tokens, new, limit });
            }
        }
        Ok(())
    }

    /// Chooses tokens until every response has ended.
    pub fn run(&self, decode: &mut impl DecodeBackend) -> Result<Vec<Vec<SampledResponse>>, RolloutError> {
        let mut out = vec![vec![SampledResponse::default(); self.group]; self.prompts.len()];
        let mut live: Vec<usize> = (0..self.responses()).collect();
        while !live.is_empty() {
            let (mut still, mut tokens) = (Vec::new(), Vec::new());
            for one in live {
                let (prompt, response) = (one / self.group, one % self.group);
                let scores = decode.scores(one);
                let made = &mut out[prompt][response];
                let position = made.tokens.len();
                let token = self
                    .choose(scores, (self.address)(prompt, response), position)
                    .map_err(|source| RolloutError::Scores { prompt, response, position, source })?;
                made.tokens.push(token as u32);
                made.logps.push(f64::from(scores[token]));
                made.entropies.push(entropy(scores));
                let ended = self.eos.contains(&(token as u32))
                    || self.stopping.complete.is_some_and(|complete| complete(&made.tokens));
                made.truncated = !ended && position + 1 == self.limit(prompt);
                if ended || made.truncated {
                    decode.end(one);
                } else {
                    still.push(one);
                    tokens.push(token as u32);
                }
            }
            if !still.is_empty() {
                decode.read(&still, &tokens)?;
            }
            live = still;
        }
        Ok(out)
    }

    fn choose(&self, scores: &[f32], address: Address, position: usize) -> Result<usize, ScoreError> {
        let mut changed = Vec::new();
        let early = position < self.sampling.min_new_tokens;
        let scores = if early || !self.truncation.is_none() {
            changed.extend_from_slice(scores);
            if early {
                self.eos.iter().for_each(|&id| changed[id as usize] = f32::NEG_INFINITY);
            }
            self.truncation.apply(&mut changed);
            &changed
        } else {
            scores
        };
        if self.sampling.temperature > 0.0 {
            // The scores are log-probabilities at the sampling temperature already.
            categorical(scores, 1.0, address.unit(position as u64))
        } else {
            greedy(scores)
        }
    }
}

/// The decoder of this process's processor, which leaves out the rows that have ended.
struct CpuBackend<'m> {
    decoding: Decoding<'m, f32>,
    next: NextTokens<f32>,
    temperature: f64,
    /// Of each response: its row, and the line of `next` it draws from: its prompt's at first, its own later.
    rows: Vec<RowId>,
    lines: Vec<usize>,
}

impl<'m> CpuBackend<'m> {
    fn start(model: &'m Decoder<f32>, request: &SamplingRequest<'_>) -> Result<Self, RolloutError> {
        let mut decoding = Decoding::new(model);
        let (prompts, mut next) = decoding.prefill(request.prompts)?;
        let (mut rows, mut lines) = (Vec::new(), Vec::new());
        for (prompt, &row) in prompts.iter().enumerate() {
            for response in 0..request.group {
                rows.push(if response + 1 == request.group { row } else { decoding.fork(row) });
                lines.push(prompt);
            }
        }
        let temperature = request.temperature();
        next.log_softmax(temperature);
        Ok(CpuBackend { decoding, next, temperature, rows, lines })
    }
}

impl DecodeBackend for CpuBackend<'_> {
    fn scores(&self, response: usize) -> &[f32] {
        self.next.row(self.lines[response])
    }
    fn end(&mut self, response: usize) {
        self.decoding.finish(self.rows[response]);
    }
    fn read(&mut self, responses: &[usize], tokens: &[u32]) -> Result<(), RolloutError> {
        let rows: Vec<RowId> = responses.iter().map(|&r| self.rows[r]).collect();
        self.next = self.decoding.step(&rows, tokens)?;
        self.next.log_softmax(self.temperature);
        responses.iter().enumerate().for_each(|(line, &r)| self.lines[r] = line);
        Ok(())
    }
}

/// Whether a response of these tokens is complete.
pub type CompletionTest<'a> = dyn Fn(&[u32]) -> bool + 'a;

/// What ends a response beside an end token and [`SamplingParams::max_new_tokens`]: for evaluation, not for training.
#[derive(Clone, Copy, Default)]
pub struct StoppingCriteria<'a> {
    /// A lower length limit for the responses to each prompt, at least 1; empty for none.
    pub max_lengths: &'a [usize],
    /// Whether a response of these tokens is complete without an end token.
    pub complete: Option<&'a CompletionTest<'a>>,
}

/// `-sum p log p` of log-probabilities, in f64 in id order.
fn entropy(log_probs: &[f32]) -> f64 {
    let term = |&l: &f32| if l > f32::NEG_INFINITY { f64::from(l) * f64::from(l).exp() } else { 0.0 };
    -log_probs.iter().map(term).sum::<f64>()
}
