//! [`RemoteEngine`]: an engine that trains here and samples on a server.

use std::borrow::Cow;
use std::cell::RefCell;
use std::io::Write;
use std::path::{Path, PathBuf};

use grpo_lambda_decoder::generate::{RolloutError, SampledResponse, Sampler, SamplingRequest};
use grpo_lambda_decoder::lora::LoraSettings;
use grpo_lambda_decoder::model::weights::Parameters;
use grpo_lambda_decoder::model::{Decoder, Error, ForwardOptions, ModelConfig, Rows, TokenScores};
use grpo_lambda_decoder::optim::{OptimError, StepOutcome, WriteStateError};

use super::answer::Ask;
use super::check::Weights;
use super::error::EngineError;
use super::sampler::{Answers, Attempted, merge};
use super::server::Server;
use super::weights::HandOver;
use crate::run::progress::say;
use crate::step::engine::Engine;

/// What versions of weights begin with that a run of this program handed over.
const VERSION: &str = "grpo-lambda:";

/// An engine whose responses are sampled by a server, which gets the weights whenever they have moved.
pub struct RemoteEngine<E> {
    inner: E,
    server: Server,
    /// See [`crate::config::RlConfig::max_logp_error`].
    max_logp_error: f64,
    state: RefCell<State>,
}

/// What the server has.
struct State {
    hand_over: HandOver,
    /// The version it was given last, while the weights are still those.
    loaded: Option<String>,
}

impl<E: Engine> RemoteEngine<E> {
    /// `inner`, sampled by `server`; `run` is the directory of the run, in which weights are handed over unless the settings say where.
    pub fn new(inner: E, server: Server, run: &Path, max_logp_error: f64) -> Self {
        let directory: PathBuf = server.settings().weights.clone().unwrap_or_else(|| run.join("rollout"));
        let state = State { hand_over: HandOver::new(directory), loaded: None };
        RemoteEngine { inner, server, max_logp_error, state: RefCell::new(state) }
    }

    /// The weights are others than before.
    fn moved(&mut self) {
        let state = self.state.get_mut();
        state.hand_over.forget();
        state.loaded = None;
    }

    /// Asks for the answers that are missing, from the weights as they are now; whether there are more of them afterwards. Answers count only if
    /// the server has the same weights before and after.
    fn attempt(&self, request: &SamplingRequest<'_>, asks: &[Ask<'_>], answers: &mut Answers) -> Attempted {
        let asked = self.bring_up_to_date(request).and_then(|version| {
            let (fresh, failure) = self.server.ask_open(asks, answers);
            let now = self.server.version()?;
            if now == version {
                Ok((fresh, failure))
            } else {
                Err(self.other_weights(&now, "while it sampled"))
            }
        });
        match asked {
            Ok((fresh, failure)) => (merge(answers, fresh), failure.map_or(Ok(()), Err)),
            Err(e) => (false, Err(e)),
        }
    }

    /// Hands the weights over unless the server has them; the version it then has.
    fn bring_up_to_date(&self, request: &SamplingRequest<'_>) -> Result<String, EngineError> {
        let mut state = self.state.borrow_mut();
        if let Some(loaded) = &state.loaded {
            let now = self.server.version()?;
            if now == *loaded {
                return Ok(now);
            }
            let error = self.other_weights(&now, "since the last step");
            if !error.is_passing() {
                return Err(error);
            }
            say(&format!("{error}; the weights are handed over again"));
            state.loaded = None;
        }
        let directory = state.hand_over.directory(self.inner.shape(), || self.inner.parameters());
        let directory = directory.map_err(|e| EngineError::refused(e.to_string()))?;
        let directory = directory.display().to_string();
        let version = format!("{VERSION}{directory}");
        self.server.load(&directory, &version)?;
        let score = |rows: &Rows, options: ForwardOptions| Ok(self.inner.forward(rows, options)?.0.logps);
        self.server.check_weights(request, Weights::HandedOver(self.max_logp_error), &score)?;
        state.loaded = Some(version.clone());
        Ok(version)
    }

    /// What it means that the server has the weights `now`: of another run that uses it, or of none after a restart.
    fn other_weights(&self, now: &str, when: &str) -> EngineError {
        let url = &self.server.settings().url;
        if now.starts_with(VERSION) {
            return EngineError::refused(format!(
                "{url}: another run has loaded its weights {when} (version {now}); a server serves one run at a time"
            ));
        }
        EngineError::passing(format!(
            "{url}: it has been restarted {when} (its weights are now version {now})"
        ))
    }
}

impl<E: Engine> Sampler for RemoteEngine<E> {
    fn generate(&self, request: &SamplingRequest<'_>) -> Result<Vec<Vec<SampledResponse>>, RolloutError> {
        let context = self.inner.shape().max_position_embeddings;
        self.server.responses(request, context, &|asks, answers| self.attempt(request, asks, answers))
    }
}

impl<E: Engine> Engine for RemoteEngine<E> {
    type Tape = E::Tape;

    fn shape(&self) -> &ModelConfig {
        self.inner.shape()
    }

    /// The server computes in another order, or another precision.
    fn exact(&self) -> bool {
        false
    }

    fn processes(&self) -> usize {
        self.inner.processes()
    }

    fn forward(&self, rows: &Rows, options: ForwardOptions) -> Result<(TokenScores, E::Tape), Error> {
        self.inner.forward(rows, options)
    }

    fn score_reference(&mut self, rows: &[Rows], options: ForwardOptions) -> Result<Vec<TokenScores>, Error> {
        self.inner.score_reference(rows, options)
    }

    fn backward(&mut self, tape: E::Tape, dlogps: &[Vec<f64>]) -> Result<(), Error> {
        self.inner.backward(tape, dlogps)
    }

    fn step(&mut self, rate: f64) -> Result<StepOutcome, OptimError> {
        self.moved();
        self.inner.step(rate)
    }

    fn parameters(&self) -> Result<Cow<'_, Parameters<f32>>, Error> {
        self.inner.parameters()
    }

    fn frozen_weights(&self) -> Result<Option<Cow<'_, Parameters<f32>>>, Error> {
        self.inner.frozen_weights()
    }

    fn adapter(&self) -> Result<Option<(LoraSettings, Parameters<f32>)>, Error> {
        self.inner.adapter()
    }

    fn write_optimiser(&self, to: &mut dyn Write) -> Result<(), WriteStateError> {
        self.inner.write_optimiser(to)
    }

    fn restore_optimiser(&mut self, state: &[u8]) -> Result<(), OptimError> {
        self.moved();
        self.inner.restore_optimiser(state)
    }

    fn cpu_decoder(&self) -> Option<&Decoder<f32>> {
        self.inner.cpu_decoder()
    }
}
