//! The questions to a server, and the check that its answers are fit for training.

use grpo_lambda_decoder::generate::{CompletionTest, SampledResponse};
use grpo_lambda_decoder::rng::Address;
use grpo_lambda_decoder::truncation::Truncation;

use super::error::EngineError;

/// The log-probability that vLLM writes for a token that its sampler masked, in nats.
const MASKED: f64 = -9999.0;
/// Rounding may move a log-probability or an entropy this far out of its range, in nats: servers compute both in f32 from logits, and
/// neighbouring f32 numbers are this far apart at logits of ten thousand.
const ROUNDING: f64 = 1e-3;
/// The probability below which equal responses of different seeds are no coincidence.
const COINCIDENCE: f64 = 1e-9;

/// Responses to one prompt that are asked for.
#[derive(Clone, Copy)]
pub struct Ask<'a> {
    pub prompt: &'a [u32],
    /// The number of responses.
    pub n: usize,
    /// Length limit of a response.
    pub limit: usize,
    /// No end token before so many tokens.
    pub at_least: usize,
    /// 0: the most probable token.
    pub temperature: f64,
    pub truncation: Truncation,
    /// Tokens that end a response; no others do.
    pub eos: &'a [u32],
    /// The address of the first response's random numbers.
    pub address: Address,
}

impl Ask<'_> {
    /// The seed of response 0; response `i` has this and `i` more. Below 2^62, so that it stays a signed number.
    pub fn seed(&self) -> u64 {
        // No response has this number, so that no other random number is read here.
        self.address.response(u64::MAX).bits(0) >> 2
    }

    /// The most bytes of an answer: a token takes its id, its name, and a number or two, in a few lists.
    pub fn longest_answer(&self) -> u64 {
        let tokens = self.n * self.limit + self.prompt.len() * self.n;
        (1 << 20) + 512 * tokens as u64
    }
}

/// Why a response ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Finish {
    /// At an end token.
    Stop,
    /// At the length limit.
    Length,
    /// A word that no server here says.
    Other(String),
}

/// A response as a server gave it.
#[derive(Clone, Debug, PartialEq)]
pub struct Answered {
    pub tokens: Vec<u32>,
    /// Each token's, if the server gave one.
    pub logps: Vec<Option<f64>>,
    /// Each token's, from a server that knows them.
    pub entropies: Option<Vec<f64>>,
    pub finish: Finish,
}

impl Answered {
    /// The response, if it can be learned from; `complete` ends it before its last token where it says so.
    pub fn checked(
        self,
        ask: &Ask<'_>,
        vocabulary: usize,
        complete: Option<&dyn CompletionTest>,
    ) -> Result<SampledResponse, EngineError> {
        let logps = self.checked_logps(vocabulary)?;
        self.check_entropies(vocabulary)?;
        self.check_end(ask)?;
        let entropies = self.entropies.unwrap_or_default();
        let truncated = !self.tokens.last().is_some_and(|last| ask.eos.contains(last));
        let mut response = SampledResponse { tokens: self.tokens, logps, entropies, truncated };
        if let Some(test) = complete {
            response.end_where(test);
        }
        Ok(response)
    }

    fn checked_logps(&self, vocabulary: usize) -> Result<Vec<f64>, EngineError> {
        let refused = |problem: String| Err(EngineError::refused(problem));
        if self.tokens.is_empty() {
            return refused("a response has no token; a sampler gives at least one".to_owned());
        }
        if self.logps.len() != self.tokens.len() {
            return refused(format!(
                "{} log-probabilities of {} tokens; each token needs one",
                self.logps.len(),
                self.tokens.len()
            ));
        }
        let mut known = Vec::with_capacity(self.logps.len());
        for (i, (&token, &logp)) in self.tokens.iter().zip(&self.logps).enumerate() {
            if token as usize >= vocabulary {
                return refused(format!("token {i} is id {token}, and the model has {vocabulary} of them"));
            }
            let Some(logp) = logp else {
                return refused(format!(
                    "the log-probability of token {i} (id {token}) is null; it needs one"
                ));
            };
            if logp <= MASKED {
                return refused(format!(
                    "token {i} (id {token}) has log-probability {logp}, which stands for a masked token; a sampled one cannot be masked"
                ));
            }
            if logp.is_nan() || logp > ROUNDING {
                return refused(format!(
                    "token {i} (id {token}) has log-probability {logp}; it must be a number of at most 0"
                ));
            }
            known.push(logp);
        }
        Ok(known)
    }

    fn check_entropies(&self, vocabulary: usize) -> Result<(), EngineError> {
        let Some(entropies) = &self.entropies else { return Ok(()) };
        if entropies.len() != self.tokens.len() {
            let (found, tokens) = (entropies.len(), self.tokens.len());
            return Err(EngineError::refused(format!(
                "{found} entropies of {tokens} tokens; each token needs one"
            )));
        }
        let most = (vocabulary as f64).ln();
        match entropies.iter().position(|h| !(-ROUNDING..=most + ROUNDING).contains(h)) {
            Some(i) => Err(EngineError::refused(format!(
                "token {i} has entropy {:?}; it must be a number from 0 to ln {vocabulary} = {most:.4}",
                entropies[i]
            ))),
            None => Ok(()),
        }
    }

    fn check_end(&self, ask: &Ask<'_>) -> Result<(), EngineError> {
        let refused = |problem: String| Err(EngineError::refused(problem));
        let (count, limit) = (self.tokens.len(), ask.limit);
        if count > limit {
            return refused(format!("a response has {count} tokens, and {limit} were the limit"));
        }
        let first_end = self.tokens.iter().position(|token| ask.eos.contains(token));
        if let Some(at) = first_end.filter(|at| at + 1 < count) {
            let token = self.tokens[at];
            return refused(format!(
                "a response goes on after its end token (id {token} at {at} of {count})"
            ));
        }
        match &self.finish {
            Finish::Other(word) => {
                refused(format!("finish_reason = {word:?}: must be \"stop\" or \"length\""))
            }
            Finish::Stop if first_end.is_none() => refused(format!(
                "a response stopped at id {}, which is no end token of the model here ({:?}); compare generation_config.json of both",
                self.tokens[count - 1],
                ask.eos
            )),
            Finish::Length if first_end.is_none() && count < limit => refused(format!(
                "a response was cut off after {count} of {limit} tokens; the server's context (--max-model-len) is too short"
            )),
            Finish::Stop | Finish::Length => Ok(()),
        }
    }
}

/// The number of equal responses to a prompt if their seeds should have made them differ: by the server's own log-probabilities, one response
/// is too improbable to come that often.
pub fn copies(ask: &Ask<'_>, responses: &[SampledResponse]) -> Option<usize> {
    let (first, others) = responses.split_first()?;
    let improbable = others.len() as f64 * first.logps.iter().sum::<f64>() < COINCIDENCE.ln();
    let equal = others.iter().all(|other| other.tokens == first.tokens);
    (ask.temperature > 0.0 && equal && improbable).then_some(responses.len())
}

/// A sequence whose log-probabilities are known here: the server continues it, and scores it on the way.
#[derive(Clone, Copy)]
pub struct Probe<'a> {
    pub prompt: &'a [u32],
    /// Tokens to be sampled.
    pub limit: usize,
}

/// The temperature of a probe: its log-probabilities differ from those at 1, which a server in raw mode would give.
pub const PROBE_TEMPERATURE: f64 = 0.5;

/// The server's answer to a probe.
#[derive(Clone, Debug, PartialEq)]
pub struct Probed {
    /// Log-probabilities of the prompt's tokens from the second on, at temperature 1.
    pub prompt: Vec<f64>,
    pub tokens: Vec<u32>,
    /// Log-probabilities of those tokens, at [`PROBE_TEMPERATURE`].
    pub logps: Vec<f64>,
}
