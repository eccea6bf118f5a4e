//! What stays the same from one step of a run to the next.

use grpo_lambda::group::{EvidenceKind, Group};
use grpo_lambda_decoder::generate::SamplingParams;
use grpo_lambda_decoder::model::{Decoder, ForwardOptions};
use grpo_lambda_decoder::rng::{Address, Purpose};

use super::evidence::{self, EvidenceCost, EvidenceError, EvidenceRequest, ForwardSettings};
use super::prompt::TrainingPrompt;
use crate::config::{Config, MemoryConfig};
use crate::input::stops::Stops;
use crate::input::tokens::ModelTokenizer;

/// How responses are sampled and scored, and how the weights move.
#[derive(Clone, Debug)]
pub struct StepSettings {
    /// How responses are drawn; its temperature divides the logits wherever a response is scored.
    pub sampling: SamplingParams,
    /// Tokens that end a response; without any, every response has full length.
    pub eos: Vec<u32>,
    /// Texts that end a response as well.
    pub stops: Option<StopSource>,
    /// Random numbers are addressed by it.
    pub seed: u64,
    /// Gradient steps on a rollout.
    pub inner_updates: usize,
    /// How much is computed at a time.
    pub memory: MemoryConfig,
    /// Whether the method needs log-probabilities of the frozen reference.
    pub reference: bool,
    /// The evidence that the method needs beside log-probabilities.
    pub evidence: Option<EvidenceSource>,
    /// The largest mean factor between the probabilities that sampler and trainer give a token.
    pub max_logp_error: f64,
}

/// A question to ask of every response.
#[derive(Clone, Debug)]
pub struct EvidenceSource {
    /// The question.
    pub request: EvidenceRequest,
    /// Decodes a response, whose answer is looked for.
    pub tokens: ModelTokenizer,
}

/// The stop strings of a run's template: see [`Stops`].
#[derive(Clone, Debug)]
pub struct StopSource {
    /// Spells a response.
    pub tokens: ModelTokenizer,
    /// At least one.
    pub texts: Vec<String>,
}

impl StopSource {
    /// These texts; none without any.
    pub fn of(tokens: &ModelTokenizer, texts: &[String]) -> Option<StopSource> {
        (!texts.is_empty()).then(|| StopSource { tokens: tokens.clone(), texts: texts.to_vec() })
    }
}

impl StepSettings {
    /// Those of a configuration with these end tokens, without stop strings and without a question: that depends on the model, too (see
    /// [`EvidenceRequest::of`]).
    pub fn new(config: &Config, eos: &[u32]) -> Self {
        let rl = &config.rl;
        StepSettings {
            sampling: SamplingParams {
                max_new_tokens: rl.max_new_tokens,
                min_new_tokens: 0,
                temperature: rl.temperature,
            },
            eos: eos.to_vec(),
            stops: None,
            seed: config.seed,
            inner_updates: rl.inner_updates,
            memory: config.memory,
            reference: config.configured().evidence().contains(&EvidenceKind::RefLogps),
            evidence: None,
            max_logp_error: rl.max_logp_error,
        }
    }

    /// What ends a response beside its end tokens.
    pub(super) fn stops(&self) -> Option<Stops<'_>> {
        self.stops.as_ref().map(|source| Stops::new(&source.tokens, &source.texts))
    }

    /// How a response is scored.
    pub(super) fn options(&self) -> ForwardOptions {
        ForwardOptions {
            temperature: self.sampling.temperature,
            entropy: false,
            recompute: self.memory.recompute_layers,
        }
    }

    /// Where the random numbers of a response of this step are.
    pub(super) fn address<'a>(
        &self,
        purpose: Purpose,
        step: u64,
        prompts: &'a [TrainingPrompt],
    ) -> impl Fn(usize, usize) -> Address + use<'a> {
        let base = Address::new(self.seed, purpose).step(step);
        move |prompt, response| base.prompt(prompts[prompt].number).response(response as u64)
    }

    /// Asks `source` about every response of `batch`.
    pub(super) fn collect_evidence(
        &self,
        source: &EvidenceSource,
        model: &Decoder<f32>,
        step: u64,
        prompts: &[TrainingPrompt],
        batch: &mut [Group],
    ) -> Result<EvidenceCost, EvidenceError> {
        let pass = ForwardSettings {
            temperature: self.sampling.temperature,
            tokens: self.memory.micro_batch_tokens,
            recompute: self.memory.recompute_layers,
        };
        let prompt = |g: usize| prompts[g].tokens.as_slice();
        let address = self.address(Purpose::Perturbation, step, prompts);
        evidence::collect(model, source.request, &source.tokens, pass, batch, prompt, address)
    }
}
