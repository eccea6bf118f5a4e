//! [`Server`]: a server that samples, asked for the responses to many prompts at a time.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use grpo_lambda_decoder::rollout::{SampledResponse, SamplingRequest};

use super::answer::{Ask, Probe, Probed};
use super::error::EngineError;
use super::http::Http;
use super::protocol::{Protocol, Served};
use super::{sglang, vllm};
use crate::config::{EngineKind, RolloutConfig};
use crate::run::stop;

/// Between two questions whether a server is there again.
const PAUSE: Duration = Duration::from_millis(500);

/// A server with the model it serves.
pub struct Server {
    http: Http,
    protocol: Box<dyn Protocol>,
    served: Served,
    settings: RolloutConfig,
    /// Token ids of the model, which end below it.
    vocabulary: usize,
}

impl Server {
    /// The server of `settings`, which is there and serves the model.
    ///
    /// # Errors
    /// When it does not answer, or has no such model.
    pub fn connect(settings: &RolloutConfig, vocabulary: usize) -> Result<Server, EngineError> {
        let http = Http::new(&settings.url, settings.timeout);
        let protocol: Box<dyn Protocol> = match settings.engine {
            EngineKind::Vllm => Box::new(vllm::Vllm),
            EngineKind::Sglang => Box::new(sglang::Sglang),
        };
        let served = protocol
            .served(&http, settings.model.as_deref())
            .map_err(|e| e.at(&format!("rollout.url = {}", settings.url)))?;
        Ok(Server { http, protocol, served, settings: settings.clone(), vocabulary })
    }

    /// The longest prompt with its response, where the server says so.
    pub fn context(&self) -> Option<usize> {
        self.served.context
    }

    pub(super) fn settings(&self) -> &RolloutConfig {
        &self.settings
    }

    pub(super) fn version(&self) -> Result<String, EngineError> {
        self.protocol.version(&self.http)
    }

    pub(super) fn load(&self, directory: &str, version: &str) -> Result<(), EngineError> {
        self.protocol.load(&self.http, directory, version)
    }

    pub(super) fn probe(&self, probe: Probe<'_>) -> Result<Probed, EngineError> {
        self.protocol.probe(&self.http, &self.served, probe)
    }

    /// The responses, by prompt; one request for each prompt, several at a time.
    pub(super) fn sample(
        &self,
        request: &SamplingRequest<'_>,
    ) -> Result<Vec<Vec<SampledResponse>>, EngineError> {
        let asks: Vec<Ask<'_>> = (0..request.prompts.len()).map(|prompt| ask(request, prompt)).collect();
        let answers = self.ask_all(&asks)?;
        // Not in the threads: whoever judges completeness decodes texts, and need not be made for threads.
        let checked = |(prompt, answers): (usize, Vec<super::answer::Answered>)| {
            let one = |answer: super::answer::Answered| {
                answer.checked(&asks[prompt], self.vocabulary, request.stopping.complete)
            };
            let responses: Result<Vec<_>, _> = answers.into_iter().map(one).collect();
            responses.map_err(|e| e.at(&format!("{}, prompt {prompt}", self.settings.url)))
        };
        answers.into_iter().enumerate().map(checked).collect()
    }

    fn ask_all(&self, asks: &[Ask<'_>]) -> Result<Vec<Vec<super::answer::Answered>>, EngineError> {
        let (next, failed) = (AtomicUsize::new(0), AtomicBool::new(false));
        let answers: Vec<Mutex<Option<Result<_, EngineError>>>> =
            asks.iter().map(|_| Mutex::new(None)).collect();
        let work = || {
            while !failed.load(Ordering::SeqCst) {
                let i = next.fetch_add(1, Ordering::SeqCst);
                let Some(ask) = asks.get(i) else { return };
                let answer = self.protocol.sample(&self.http, &self.served, ask);
                failed.fetch_or(answer.is_err(), Ordering::SeqCst);
                if let Ok(mut place) = answers[i].lock() {
                    *place = Some(answer);
                }
            }
        };
        std::thread::scope(|scope| {
            for _ in 0..self.settings.concurrency.min(asks.len()) {
                scope.spawn(work);
            }
        });
        let all: Vec<_> = answers.into_iter().filter_map(|place| place.into_inner().ok().flatten()).collect();
        // What no repetition helps is told before what passes.
        let failure = |passing: bool| {
            all.iter().find_map(|a| a.as_ref().err().filter(|e| e.is_passing() == passing).cloned())
        };
        if let Some(error) = failure(false).or_else(|| failure(true)) {
            return Err(error);
        }
        all.into_iter().collect()
    }

    /// Waits until the server answers again, at most as long as a request may take.
    pub(super) fn wait(&self) -> Result<(), EngineError> {
        let until = Instant::now() + self.settings.timeout;
        loop {
            std::thread::sleep(PAUSE);
            match self.http.get("/health") {
                Ok(_) => return Ok(()),
                Err(e) if Instant::now() >= until => return Err(e),
                Err(e) if stop::requested().is_some() => return Err(e),
                Err(_) => {}
            }
        }
    }
}

/// The request for the responses to one prompt.
fn ask<'a>(request: &SamplingRequest<'a>, prompt: usize) -> Ask<'a> {
    Ask {
        prompt: request.prompts[prompt],
        n: request.group,
        limit: request.limit(prompt),
        at_least: request.sampling.min_new_tokens,
        temperature: request.sampling.temperature,
        truncation: request.truncation,
        eos: request.eos,
        address: (request.address)(prompt, 0),
    }
}
