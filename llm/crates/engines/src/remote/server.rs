//! [`Server`]: a server that samples, asked for the responses to many prompts at a time.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use grpo_lambda_decoder::generate::{CompletionTest, SampledResponse, SamplingRequest};

use super::answer::{Answered, Ask, copies};
use super::error::EngineError;
use super::http::Http;
use super::vllm::Vllm;
use grpo_lambda_trainer::config::RolloutConfig;
use grpo_lambda_trainer::run::progress::say;
use grpo_lambda_trainer::run::stop;

/// Between two questions whether a server is there again.
const PAUSE: Duration = Duration::from_millis(500);

/// The answers to the questions of a request; `None` for those that are open.
pub type Answers = Vec<Option<Vec<Answered>>>;

/// New answers by question, and the failure that ended an attempt.
pub type Attempt = (Vec<(usize, Vec<Answered>)>, Option<EngineError>);

/// Asks the questions that have no answer yet.
pub type Asking<'a> = dyn Fn(&[Ask<'_>], &Answers) -> Result<Attempt, EngineError> + 'a;

/// A server with the model it serves.
pub struct Server {
    pub vllm: Vllm,
    pub(super) settings: RolloutConfig,
    /// Token ids of the model, which end below it.
    vocabulary: usize,
    /// True once it was said that seeds make no difference.
    reported_copies: AtomicBool,
}

impl Server {
    /// The server of `settings`, which is there and serves the model.
    pub fn connect(settings: &RolloutConfig, vocabulary: usize) -> Result<Server, EngineError> {
        let http = Http::new(&settings.url, settings.timeout);
        let vllm = Vllm::find(http, settings.model.as_deref())
            .map_err(|e| e.at(&format!("rollout.url = {}", settings.url)))?;
        let (settings, reported_copies) = (settings.clone(), AtomicBool::new(false));
        Ok(Server { vllm, settings, vocabulary, reported_copies })
    }

    /// Asks the questions that have no answer yet, several at a time, until one fails.
    pub(super) fn ask(&self, asks: &[Ask<'_>], answers: &Answers) -> Attempt {
        let open: Vec<usize> = (0..asks.len()).filter(|i| answers[*i].is_none()).collect();
        let (next, failed) = (AtomicUsize::new(0), AtomicBool::new(false));
        let (answers, errors) = (Mutex::new(Vec::new()), Mutex::new(Vec::new()));
        let work = || {
            while !failed.load(Ordering::SeqCst) {
                let Some(&i) = open.get(next.fetch_add(1, Ordering::SeqCst)) else { return };
                match self.vllm.sample(&asks[i]) {
                    Ok(answer) => lock(&answers).push((i, answer)),
                    Err(e) => {
                        failed.store(true, Ordering::SeqCst);
                        lock(&errors).push(e);
                    }
                }
            }
        };
        std::thread::scope(|scope| {
            for _ in 0..self.settings.concurrency.min(open.len()) {
                scope.spawn(work);
            }
        });
        // What no repetition helps is reported before what passes.
        let mut errors = errors.into_inner().unwrap_or_else(PoisonError::into_inner);
        errors.sort_by_key(EngineError::is_passing);
        (answers.into_inner().unwrap_or_else(PoisonError::into_inner), errors.into_iter().next())
    }

    /// The responses of answers to `asks`, if they can be learned from.
    pub fn checked(
        &self,
        asks: &[Ask<'_>],
        answers: Vec<Vec<Answered>>,
        complete: Option<&dyn CompletionTest>,
    ) -> Result<Vec<Vec<SampledResponse>>, EngineError> {
        let of_prompt = |(prompt, answers): (usize, Vec<Answered>)| {
            let one = |answer: Answered| answer.checked(&asks[prompt], self.vocabulary, complete);
            let responses: Result<Vec<_>, _> = answers.into_iter().map(one).collect();
            responses.map_err(|e| e.at(&format!("{}, prompt {prompt}", self.settings.url)))
        };
        let responses: Vec<Vec<_>> =
            answers.into_iter().enumerate().map(of_prompt).collect::<Result<_, _>>()?;
        let copies = asks.iter().zip(&responses).find_map(|(ask, responses)| copies(ask, responses));
        if let Some(n) = copies.filter(|_| !self.reported_copies.swap(true, Ordering::SeqCst)) {
            say(&format!(
                "warning: {}: {n} seeds gave the same response {n} times, which its log-probabilities rule out: the server ignores seeds, or \
                 answers from a cache; a group of equal responses teaches nothing",
                self.settings.url
            ));
        }
        Ok(responses)
    }

    /// Waits until the server answers again, at most as long as a request may take.
    pub fn wait(&self) -> Result<(), EngineError> {
        let until = Instant::now() + self.settings.timeout;
        loop {
            std::thread::sleep(PAUSE);
            match self.vllm.http.get("/health") {
                Ok(_) => return Ok(()),
                Err(e) if Instant::now() >= until => return Err(e),
                Err(e) if stop::requested().is_some() => return Err(e),
                Err(_) => {}
            }
        }
    }
}

/// A panic elsewhere left nothing half-done: whole answers are pushed.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The questions of a request, one for each prompt.
pub fn questions<'a>(request: &SamplingRequest<'a>) -> Vec<Ask<'a>> {
    let one = |prompt: usize| Ask {
        prompt: request.prompts[prompt],
        n: request.group,
        limit: request.limit(prompt),
        at_least: request.sampling.min_new_tokens,
        temperature: request.sampling.temperature,
        truncation: request.truncation,
        eos: request.eos,
        address: (request.address)(prompt, 0),
    };
    (0..request.prompts.len()).map(one).collect()
}
