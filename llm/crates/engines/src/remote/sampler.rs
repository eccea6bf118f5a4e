//! Responses from a server, asked for again as long as it only was away; and [`RemoteSampler`], for a model that does not move.

use std::borrow::Borrow;

use grpo_lambda_decoder::generate::{Responses, RolloutError, Sampler, SamplingRequest};
use grpo_lambda_decoder::model::{Decoder, Error, ForwardOptions, Rows};

use super::answer::Probe;
use super::check::{self, Weights};
use super::error::EngineError;
use super::server::{Answers, Asking, Server, questions};
use grpo_lambda_trainer::run::progress::say;

/// Tokens of a prompt that is scored to compare weights, and tokens sampled after it.
const PROBE: (usize, usize) = (64, 8);

/// Names the server where its context is too short, and not the model's.
pub fn of_server(e: RolloutError) -> RolloutError {
    match e {
        RolloutError::TooLong { prompt, tokens, new, limit } => RolloutError::External(
            format!(
                "prompt {prompt} has {tokens} tokens; with {new} new ones it exceeds the server's context of {limit}; start the server with a larger one \
                 (vLLM: --max-model-len)"
            )
            .into(),
        ),
        other => other,
    }
}

impl Server {
    /// Samples the responses to `request`. `attempt` asks for answers that are missing; it is repeated after the server was away, with the
    /// request's seeds, and so for the same responses.
    pub fn responses(
        &self,
        request: &SamplingRequest<'_>,
        own_context: usize,
        attempt: &Asking<'_>,
    ) -> Responses {
        request.check(own_context)?;
        if let Some(theirs) = self.vllm.context {
            request.check(theirs).map_err(of_server)?;
        }
        if request.responses() == 0 {
            return Ok(vec![Vec::new(); request.prompts.len()]);
        }
        let external = |e: EngineError| RolloutError::External(e.into());
        let asks = questions(request);
        let mut answers: Answers = vec![None; asks.len()];
        let retries = self.settings.retries;
        let mut left = retries;
        loop {
            let (fresh, failure) =
                attempt(&asks, &answers).unwrap_or_else(|failure| (Vec::new(), Some(failure)));
            let progress = !fresh.is_empty();
            fresh.into_iter().for_each(|(question, answer)| answers[question] = Some(answer));
            let Some(e) = failure else { break };
            if !e.is_passing() || (left == 0 && !progress) {
                return Err(external(e));
            }
            left = if progress { retries } else { left - 1 };
            say(&format!("the server failed and is asked again: {e}"));
            self.wait().map_err(external)?;
        }
        let answers = answers.into_iter().flatten().collect();
        self.checked(&asks, answers, request.stopping.complete).map_err(external)
    }

    /// Refuses a server that does not have the weights of `score`, or gives other log-probabilities than those of the distribution it samples
    /// from. The first prompt of `request` is scored and continued.
    pub fn check_weights(
        &self,
        request: &SamplingRequest<'_>,
        weights: Weights,
        score: &check::Score<'_>,
    ) -> Result<(), EngineError> {
        let (longest, sampled) = PROBE;
        let prompt = request.prompts[0];
        let prompt = &prompt[..prompt.len().min(longest)];
        let probed = self.vllm.probe(Probe { prompt, limit: sampled.min(request.limit(0)) })?;
        let compared = check::compare(prompt, &probed, weights, score);
        compared.map_err(|e| e.at(&format!("the server {}", self.settings.url)))
    }
}

/// A model that a server samples from, and whose weights are here as well: the two are compared before every request.
pub struct RemoteSampler<D> {
    server: Server,
    own: D,
    max_logp_error: f64,
}

impl<D: Borrow<Decoder<f32>>> RemoteSampler<D> {
    /// `server`, which must have the weights of `own`, up to rounding by a mean factor of `max_logp_error`.
    pub fn new(server: Server, own: D, max_logp_error: f64) -> Self {
        RemoteSampler { server, own, max_logp_error }
    }
}

impl<D: Borrow<Decoder<f32>>> Sampler for RemoteSampler<D> {
    fn generate(&self, request: &SamplingRequest<'_>) -> Responses {
        let own: &Decoder<f32> = self.own.borrow();
        let score = |rows: &Rows, options: ForwardOptions| Ok::<_, Error>(own.score(rows, options)?.logps);
        self.server.responses(request, own.config().max_position_embeddings, &|asks, answers| {
            self.server.check_weights(request, Weights::Named(self.max_logp_error), &score)?;
            Ok(self.server.ask(asks, answers))
        })
    }
}
