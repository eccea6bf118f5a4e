//! Responses of a model to the problems of a benchmark, graded.

use grpo_lambda_decoder::rng::{Address, Purpose};
use grpo_lambda_decoder::rollout::{Ask, Sampler};
use grpo_lambda_decoder::rollout::{Ending, RolloutError, Sampled, Sampling};
use grpo_lambda_grade::{Prediction, grade};

use super::benchmark::{Benchmark, Item};
use super::completion::{Completion, Finish, Outcome};
use super::settings::Settings;
use super::stops::Stops;
use crate::input::tokens::{Prompt, TokenError, Tokens};

/// A model with what is asked of it.
#[derive(Clone, Copy)]
pub struct Respondent<'a> {
    /// The model.
    pub model: &'a dyn Sampler,
    /// Its tokenizer.
    pub tokens: &'a Tokens,
    /// The settings; their context is at most the model's.
    pub settings: &'a Settings,
    /// Texts that end a response.
    pub stops: &'a [String],
}

impl Respondent<'_> {
    /// The prompt as tokens.
    ///
    /// # Errors
    /// When the tokenizer cannot encode it.
    pub fn encode(&self, prompt: &str) -> Result<Prompt, TokenError> {
        self.tokens.prompt(prompt)
    }

    /// Tokens that a response to this prompt may have; 0 when the prompt fills the context.
    fn room(&self, prompt: &Prompt) -> usize {
        let (limit, used) = (self.settings.context, prompt.ids().len());
        if used == 0 { 0 } else { limit.saturating_sub(used).min(self.settings.max_new_tokens) }
    }

    /// All samples of some problems, which stand from `start` on in their benchmark. They do not depend on which problems are asked together.
    ///
    /// # Errors
    /// When the model or its tokenizer fails.
    pub fn respond(
        &self,
        benchmark: &Benchmark,
        start: usize,
        prompts: &[Prompt],
    ) -> Result<Vec<Vec<Completion>>, RespondError> {
        let items = &benchmark.items[start..start + prompts.len()];
        let fits: Vec<usize> = (0..prompts.len()).filter(|&i| self.room(&prompts[i]) > 0).collect();
        let ids: Vec<&[u32]> = fits.iter().map(|&i| prompts[i].ids()).collect();
        let limits: Vec<usize> = fits.iter().map(|&i| self.room(&prompts[i])).collect();
        let s = self.settings;
        let sampling =
            Sampling { max_new_tokens: s.max_new_tokens, min_new_tokens: 0, temperature: s.temperature };
        let stops = self.stops();
        let complete = |tokens: &[u32]| stops.reached(tokens);
        let ending =
            Ending { limits: &limits, complete: if self.stops.is_empty() { None } else { Some(&complete) } };
        // Benchmarks share no random numbers.
        let base = Address::new(s.seed, Purpose::Evaluation).step(benchmark.stream());
        let address = |i: usize, k: usize| base.prompt((start + fits[i]) as u64).response(k as u64);
        let eos = self.tokens.eos();
        let sampled = if ids.is_empty() {
            Vec::new()
        } else {
            let (prompts, group, truncation) = (ids.as_slice(), s.samples, s.truncation);
            self.model.respond(&Ask {
                prompts,
                group,
                eos,
                sampling,
                truncation,
                ending,
                address: &address,
            })?
        };
        let mut out: Vec<Vec<Completion>> = items.iter().map(|item| self.no_room(item)).collect();
        for (&at, samples) in fits.iter().zip(sampled) {
            let graded = samples.into_iter().enumerate().map(|(k, one)| self.graded(&items[at], k, &one));
            out[at] = graded.collect::<Result<_, _>>()?;
        }
        Ok(out)
    }

    fn stops(&self) -> Stops<'_> {
        Stops { tokens: self.tokens, texts: self.stops }
    }

    fn no_room(&self, item: &Item) -> Vec<Completion> {
        let one = |sample| Completion {
            problem: item.id.clone(),
            sample,
            verdict: Outcome::NoRoom,
            reason: format!("the prompt leaves no room in a context of {} tokens", self.settings.context),
            answer: None,
            finish: Finish::NoRoom,
            tokens: 0,
            text: String::new(),
        };
        (0..self.settings.samples).map(one).collect()
    }

    fn graded(&self, item: &Item, sample: usize, response: &Sampled) -> Result<Completion, RespondError> {
        let mut text = self.tokens.text(&response.tokens)?;
        self.stops().cut(&mut text);
        let finish = Finish::of(response, self.tokens.eos());
        let prediction = Prediction::extract(&text, self.settings.extract);
        let verdict = grade(&prediction, &item.gold);
        Ok(Completion {
            problem: item.id.clone(),
            sample,
            verdict: Outcome::from(&verdict),
            reason: verdict.to_string(),
            answer: prediction.answer().map(str::to_owned),
            finish,
            tokens: response.tokens.len(),
            text,
        })
    }
}

/// Why a response could not be had.
#[derive(Debug, thiserror::Error)]
pub enum RespondError {
    /// Sampling failed.
    #[error(transparent)]
    Rollout(#[from] RolloutError),
    /// The tokenizer failed.
    #[error(transparent)]
    Token(#[from] TokenError),
}
