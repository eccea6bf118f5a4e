//! [`ServerFollower`]: a server that samples for an engine, from the engine's weights.

use std::cell::RefCell;
use std::path::{Path, PathBuf};

use grpo_lambda_decoder::generate::{Responses, SamplingRequest};
use grpo_lambda_decoder::model::{ForwardOptions, Rows};

use super::answer::Ask;
use super::check::Weights;
use super::error::EngineError;
use super::server::{Answers, Attempt, Server};
use super::weights::HandOver;
use grpo_lambda_trainer::run::progress::say;
use grpo_lambda_trainer::step::engine::{Engine, WeightFollower};

/// The beginning of every version of weights that a run of this program handed over.
const VERSION: &str = "grpo-lambda:";

/// A server that samples for one engine and gets its weights whenever they have moved.
pub struct ServerFollower {
    server: Server,
    /// See [`grpo_lambda_trainer::config::RlConfig::max_logp_error`].
    max_logp_error: f64,
    state: RefCell<State>,
}

struct State {
    hand_over: HandOver,
    /// The version that the server was given last, with the engine's steps then.
    loaded: Option<(String, u64)>,
}

impl ServerFollower {
    /// Follows an engine with `server`. Weights are handed over in the directory `run` of the run, unless the server's settings name another.
    pub fn new(server: Server, run: &Path, max_logp_error: f64) -> Self {
        let directory: PathBuf = server.settings.weights.clone().unwrap_or_else(|| run.join("rollout"));
        let state = State { hand_over: HandOver::new(directory, run.to_owned()), loaded: None };
        ServerFollower { server, max_logp_error, state: RefCell::new(state) }
    }

    /// Asks for the answers that are missing. They count only if the server has the engine's weights before and after.
    fn attempt(
        &self,
        engine: &dyn Engine,
        request: &SamplingRequest<'_>,
        asks: &[Ask<'_>],
        answers: &Answers,
    ) -> Result<Attempt, EngineError> {
        let version = self.bring_up_to_date(engine, request)?;
        let attempt = self.server.ask(asks, answers);
        let now = self.server.vllm.version()?;
        if now == version { Ok(attempt) } else { Err(self.other_weights(&now, "while it sampled")) }
    }

    /// Hands the weights over unless the server has them, and returns their version.
    fn bring_up_to_date(
        &self,
        engine: &dyn Engine,
        request: &SamplingRequest<'_>,
    ) -> Result<String, EngineError> {
        let mut state = self.state.borrow_mut();
        if let Some((loaded, _)) = state.loaded.as_ref().filter(|(_, steps)| *steps == engine.steps()) {
            let now = self.server.vllm.version()?;
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
        let directory = state.hand_over.directory(engine);
        let directory = directory.map_err(|e| EngineError::refused(e.to_string()))?;
        let directory = directory.display().to_string();
        let version = format!("{VERSION}{directory}");
        self.server.vllm.load(&directory, &version)?;
        let score = |rows: &Rows, options: ForwardOptions| Ok(engine.forward(rows, options)?.0.logps);
        self.server.check_weights(request, Weights::HandedOver(self.max_logp_error), &score)?;
        state.loaded = Some((version.clone(), engine.steps()));
        Ok(version)
    }

    /// The error of a server that has the weights `now`: those of another run, or its own after a restart.
    fn other_weights(&self, now: &str, when: &str) -> EngineError {
        let url = &self.server.settings.url;
        if now.starts_with(VERSION) {
            return EngineError::refused(format!(
                "{url}: another run has loaded its weights {when} (version {now}): a server serves one run at a time; give each run a server"
            ));
        }
        EngineError::passing(format!(
            "{url}: it has been restarted {when} (its weights are now version {now})"
        ))
    }
}

impl WeightFollower for ServerFollower {
    fn generate(&self, engine: &dyn Engine, request: &SamplingRequest<'_>) -> Responses {
        let context = engine.shape().max_position_embeddings;
        let attempt = |asks: &[Ask<'_>], answers: &Answers| self.attempt(engine, request, asks, answers);
        self.server.responses(request, context, &attempt)
    }
}
