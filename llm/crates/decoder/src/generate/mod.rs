//! Sampling: the responses of a request are decoded as one ragged batch, all at once or some at a time ([`slots`]).
//!
//! A prompt is prefilled once, and its responses share its pages of the KV cache; on the CPU, prompts that start together share the full pages
//! that they begin with, too. A finished response leaves the batch, and the next in the
//! queue takes its place. A token's random number is addressed by (step, prompt, response, position), and its scores do not depend on other
//! rows: a response does not depend on the batch, the number of slots, the number of threads or an interruption. A response whose address has a
//! [`Code`] is decoded from it instead (systematic sampling), which depends on its own tokens alone.

mod cpu;
#[cfg(test)]
mod tests;

use grpo_lambda::systematic::Code;

use crate::device::DeviceError;
use crate::distribution::{Distribution, ScoreError, greedy};
use crate::model::Error as ModelError;
use crate::model::ops::parallel;
use crate::rng::Address;
use crate::slots::{self, Slots, most_pages};
use crate::truncation::Truncation;

/// Scores below which drawing tokens is not worth a second thread: a score takes an exponential, in f64.
const SERIAL: usize = 1 << 13;

/// The lowest temperature above 0; dividing logits by less could overflow f32.
pub const MIN_TEMPERATURE: f64 = 1e-6;
/// The highest temperature; sampling is practically uniform there.
pub const MAX_TEMPERATURE: f64 = 1e6;

/// Length limits and temperature.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SamplingParams {
    /// Length limit of a response, at least 1.
    pub max_new_tokens: usize,
    /// No end token is sampled before this many tokens, as with `min_new_tokens` of transformers. Training needs 0: sampler and trainer must
    /// use the same distribution.
    pub min_new_tokens: usize,
    /// Divides the logits; 0 takes the most probable token.
    pub temperature: f64,
}

impl SamplingParams {
    /// Responses of at most so many tokens, which may end at any of them.
    pub fn new(max_new_tokens: usize, temperature: f64) -> Self {
        SamplingParams { max_new_tokens, min_new_tokens: 0, temperature }
    }
}

/// A sampled response.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SampledResponse {
    /// Its tokens, the end token included.
    pub tokens: Vec<u32>,
    /// `log pi(token)` of each, at the sampling temperature (1 for greedy), in nats: the trainer's numbers to the bit, unless tokens were cut
    /// off (top-k, top-p, no end token yet) and the others renormalised.
    pub logps: Vec<f64>,
    /// Entropy of the distribution at the sampling temperature before tokens were cut off, in nats. Empty if the sampler reports none.
    pub entropies: Vec<f64>,
    /// True if it was cut off at the limit.
    pub truncated: bool,
}

impl SampledResponse {
    /// Cuts it after the first token at which `test` finds it complete.
    pub fn end_where(&mut self, test: &dyn CompletionTest) {
        let complete = |n: &usize| test.is_complete(&self.tokens[..*n]);
        if let Some(n) = (1..=self.tokens.len()).find(complete) {
            self.tokens.truncate(n);
            self.logps.truncate(n);
            self.entropies.truncate(n);
            self.truncated = false;
        }
    }
}

/// A failure of sampling.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RolloutError {
    /// The model refused its input.
    #[error(transparent)]
    Model(#[from] ModelError),
    /// The device failed.
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// Scores that cannot be sampled from.
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
        /// The reason.
        source: ScoreError,
    },
    /// A sampler outside this process failed.
    #[error(transparent)]
    External(Box<dyn std::error::Error + Send + Sync>),
    /// The prompt with its response exceeds the context.
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

/// A request for responses.
#[derive(Clone, Copy)]
pub struct SamplingRequest<'a> {
    /// Token ids of the prompts.
    pub prompts: &'a [&'a [u32]],
    /// Responses to each.
    pub group: usize,
    /// End tokens.
    pub eos: &'a [u32],
    /// Length limits and temperature.
    pub sampling: SamplingParams,
    /// Top-k and top-p.
    pub truncation: Truncation,
    /// Further stopping criteria.
    pub stopping: StoppingCriteria<'a>,
    /// Responses decoded at a time, at least 1; `None` for all. Changes no response, except for rounding on a GPU.
    pub slots: Option<usize>,
    /// The address of a response's random numbers: `address(prompt, response)`.
    pub address: &'a AddressOf<'a>,
    /// Receives the progress now and then.
    pub watch: Option<&'a (dyn Fn(SamplingProgress) + Sync)>,
}

/// The progress of a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SamplingProgress {
    /// Tokens sampled.
    pub tokens: usize,
    /// Responses that ended.
    pub ended: usize,
    /// Responses in all.
    pub responses: usize,
    /// The most tokens that they can have.
    pub most: usize,
}

impl SamplingProgress {
    /// The tokens sampled over those expected in all, from 0 to 1. A response is expected to have `tokens / ended` tokens, the maximum-likelihood
    /// mean of a geometric length with running responses censored, and no more than its limit.
    pub fn share(&self) -> f64 {
        let [of_limits, of_ends] = [(self.tokens, self.most), (self.ended, self.responses)]
            .map(|(part, whole)| part as f64 / whole.max(1) as f64);
        of_limits.max(of_ends)
    }
}

impl<'a> SamplingRequest<'a> {
    /// `group` responses to each prompt, from the whole distribution.
    pub fn new(
        prompts: &'a [&'a [u32]],
        group: usize,
        eos: &'a [u32],
        sampling: SamplingParams,
        address: &'a AddressOf<'a>,
    ) -> Self {
        let (truncation, stopping) = (Truncation::default(), StoppingCriteria::default());
        SamplingRequest {
            prompts,
            group,
            eos,
            sampling,
            truncation,
            stopping,
            slots: None,
            address,
            watch: None,
        }
    }
}

/// The distribution of the next token of a response, and its random number.
struct Next<'a> {
    scores: &'a [f32],
    address: Address,
    position: usize,
    /// The rest of the code that the response is decoded from.
    code: Option<Code>,
}

/// A token that was drawn, its log-probability, and what is left of its response's code.
type Drawn = (usize, f64, Option<Code>);

/// The responses to each prompt of a request, in order.
pub type Responses = Result<Vec<Vec<SampledResponse>>, RolloutError>;

/// A model that generates responses.
pub trait Sampler {
    /// Generates the responses, by prompt.
    ///
    /// # Errors
    /// [`RolloutError`].
    fn generate(&self, request: &SamplingRequest<'_>) -> Responses;
}

/// Decodes the responses of a rollout; response `r` to prompt `p` has the index `p * group + r`.
pub trait DecodeBackend {
    /// Starts these responses, in ascending order and after all that started before.
    fn start(&mut self, responses: &[usize]) -> Result<(), RolloutError>;

    /// Log-probabilities of the next token of an unfinished response, at the sampling temperature.
    fn scores(&self, response: usize) -> &[f32];

    /// Ends a response.
    fn end(&mut self, response: usize);

    /// Appends a token to each of these responses: all that have started and are unfinished.
    fn read(&mut self, responses: &[usize], tokens: &[u32]) -> Result<(), RolloutError>;
}

impl SamplingRequest<'_> {
    /// The length limit of a response to `prompt`.
    pub fn limit(&self, prompt: usize) -> usize {
        let most = self.sampling.max_new_tokens;
        self.stopping.max_lengths.get(prompt).map_or(most, |own| most.min(*own))
    }

    /// The temperature of the reported log-probabilities.
    pub fn temperature(&self) -> f64 {
        if self.sampling.temperature > 0.0 { self.sampling.temperature } else { 1.0 }
    }

    /// Number of responses.
    pub fn responses(&self) -> usize {
        self.prompts.len() * self.group
    }

    /// Refuses a prompt that, with its response, exceeds a context of `limit` tokens.
    pub fn check(&self, limit: usize) -> Result<(), RolloutError> {
        for (prompt, ids) in self.prompts.iter().enumerate() {
            let (tokens, new) = (ids.len(), self.limit(prompt));
            if tokens + new > limit {
                return Err(RolloutError::TooLong { prompt, tokens, new, limit });
            }
        }
        Ok(())
    }

    /// The progress before the first token.
    pub fn untouched(&self) -> SamplingProgress {
        let limits = (0..self.prompts.len()).map(|prompt| self.group * self.limit(prompt));
        SamplingProgress { responses: self.responses(), most: limits.sum(), ..SamplingProgress::default() }
    }

    /// Reports the progress.
    pub fn tell(&self, progress: SamplingProgress) {
        self.watch.iter().for_each(|watch| watch(progress));
    }

    /// Responses decoded at a time.
    pub fn at_a_time(&self) -> usize {
        slots::count(self.responses(), self.slots)
    }

    /// The most pages of `page` tokens that its responses hold at a time: see [`most_pages`].
    pub fn pages(&self, page: usize) -> usize {
        let prompts = self.prompts.iter().enumerate().map(|(prompt, ids)| (ids.len(), self.limit(prompt)));
        most_pages(prompts, self.group, self.slots, page)
    }

    /// Samples tokens until every response is finished.
    pub fn run(&self, decode: &mut impl DecodeBackend) -> Responses {
        let mut out = vec![vec![SampledResponse::default(); self.group]; self.prompts.len()];
        let mut codes: Vec<Option<Code>> = vec![None; self.responses()];
        let mut slots = Slots::new(self.responses(), self.slots);
        let mut progress = self.untouched();
        loop {
            let started: Vec<usize> = slots.fill().into_iter().map(|(_, response)| response).collect();
            if !started.is_empty() {
                decode.start(&started)?;
            }
            for one in started {
                codes[one] = (self.address)(one / self.group, one % self.group).code();
            }
            let running: Vec<(usize, usize)> = slots.running().collect();
            if running.is_empty() {
                return Ok(out);
            }
            let next: Vec<Next<'_>> = running
                .iter()
                .map(|&(_, one)| {
                    let (prompt, response) = (one / self.group, one % self.group);
                    let position = out[prompt][response].tokens.len();
                    let address = (self.address)(prompt, response);
                    Next { scores: decode.scores(one), address, position, code: codes[one] }
                })
                .collect();
            let numbers: usize = next.iter().map(|next| next.scores.len()).sum();
            let drawn = parallel::map(&next, numbers >= SERIAL, |next| self.choose(next));
            drop(next);
            let (mut still, mut tokens) = (Vec::new(), Vec::new());
            for ((slot, one), drawn) in running.into_iter().zip(drawn) {
                let (prompt, response) = (one / self.group, one % self.group);
                let made = &mut out[prompt][response];
                let position = made.tokens.len();
                let ((token, logp, code), entropy) =
                    drawn.map_err(|source| RolloutError::Scores { prompt, response, position, source })?;
                codes[one] = code;
                made.tokens.push(token as u32);
                made.logps.push(logp);
                made.entropies.push(entropy);
                let ended = self.eos.contains(&(token as u32))
                    || self.stopping.complete.is_some_and(|test| test.is_complete(&made.tokens));
                made.truncated = !ended && position + 1 == self.limit(prompt);
                progress.tokens += 1;
                if ended || made.truncated {
                    progress.ended += 1;
                    decode.end(one);
                    slots.free(slot);
                } else {
                    still.push(one);
                    tokens.push(token as u32);
                }
            }
            self.tell(progress);
            if !still.is_empty() {
                decode.read(&still, &tokens)?;
            }
        }
    }

    /// The next token, and the entropy of the distribution before truncation.
    fn choose(&self, next: &Next<'_>) -> Result<(Drawn, f64), ScoreError> {
        let scores = next.scores;
        let whole = Distribution::new(scores, 1.0)?;
        let early = next.position < self.sampling.min_new_tokens;
        if !early && self.truncation.is_none() {
            let (token, code) = self.draw(&whole, next)?;
            return Ok(((token, f64::from(scores[token]), code), whole.entropy()));
        }
        let mut kept = scores.to_vec();
        if early {
            self.eos.iter().for_each(|&id| kept[id as usize] = f32::NEG_INFINITY);
        }
        self.truncation.apply(&mut kept);
        let (token, code) = self.draw(&Distribution::new(&kept, 1.0)?, next)?;
        let mass: f64 = kept.iter().map(|&x| f64::from(x).exp()).sum();
        Ok(((token, f64::from(kept[token]) - mass.ln(), code), whole.entropy()))
    }

    /// A token of a distribution of log-probabilities at the sampling temperature.
    fn draw(
        &self,
        distribution: &Distribution<'_>,
        &Next { address, position, code, .. }: &Next<'_>,
    ) -> Result<(usize, Option<Code>), ScoreError> {
        if self.sampling.temperature == 0.0 {
            return Ok((greedy(distribution.scores())?, code));
        }
        let own = || address.unit(position as u64);
        let token = distribution.token(code.map_or_else(own, |code| code.number(own)));
        let taken = code.map(|mut code| {
            let (below, share) = distribution.interval(token);
            code.take(below, share);
            code
        });
        Ok((token, taken))
    }
}

/// The address of the random numbers of a response, by prompt and response.
pub type AddressOf<'a> = dyn Fn(usize, usize) -> Address + Sync + 'a;

/// A test for responses that are complete without an end token.
pub trait CompletionTest: Sync {
    /// True if these tokens are a complete response; called on every prefix in turn, until one is.
    fn is_complete(&self, tokens: &[u32]) -> bool;
}

impl<F: Fn(&[u32]) -> bool + Sync> CompletionTest for F {
    fn is_complete(&self, tokens: &[u32]) -> bool {
        self(tokens)
    }
}

/// Stopping criteria besides an end token and [`SamplingParams::max_new_tokens`].
#[derive(Clone, Copy, Default)]
pub struct StoppingCriteria<'a> {
    /// A lower length limit for the responses to each prompt, at least 1; empty for none.
    pub max_lengths: &'a [usize],
    /// Ends a response without an end token.
    pub complete: Option<&'a dyn CompletionTest>,
}
