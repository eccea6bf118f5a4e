//! Samples and grades a model's responses to a benchmark.

use grpo_lambda_decoder::generate::{
    Sampler, SamplingParams, SamplingProgress, SamplingRequest, StoppingCriteria,
};
use grpo_lambda_decoder::rng::{Address, Purpose};
use grpo_lambda_grade::Grader;

use super::EvalError;
use super::benchmark::{Benchmark, BenchmarkProblem};
use super::completion::{CompletionRecord, RecordedFinish, ResponseOutcome};
use super::settings::Settings;
use crate::input::stops::Stops;
use crate::input::tokens::{TextTokens, TokenError};

/// A model with the settings of an evaluation.
#[derive(Clone, Copy)]
pub struct BenchmarkSampler<'a> {
    pub model: &'a dyn Sampler,
    /// The settings; their context is at most the model's.
    pub settings: &'a Settings,
    /// The tokenizer, and the texts that end a response.
    pub stops: &'a Stops,
    /// Responses decoded at a time.
    pub slots: usize,
}

impl BenchmarkSampler<'_> {
    /// The prompt as tokens.
    pub fn encode(&self, prompt: &str) -> Result<TextTokens, TokenError> {
        self.stops.tokens.prompt(prompt)
    }

    /// Most tokens of a response to this prompt; 0 if the prompt fills the context.
    fn response_budget(&self, prompt: &TextTokens) -> usize {
        let (limit, used) = (self.settings.context, prompt.ids().len());
        if used == 0 { 0 } else { limit.saturating_sub(used).min(self.settings.max_new_tokens) }
    }

    /// All samples of the problems from `start` on, independent of which problems are decoded together. `watch` gets the progress.
    pub fn generate(
        &self,
        benchmark: &Benchmark,
        start: usize,
        prompts: &[TextTokens],
        watch: Option<&(dyn Fn(SamplingProgress) + Sync)>,
    ) -> Result<Vec<Vec<CompletionRecord>>, EvalError> {
        let items = &benchmark.items[start..start + prompts.len()];
        let fits: Vec<usize> =
            (0..prompts.len()).filter(|&i| self.response_budget(&prompts[i]) > 0).collect();
        let ids: Vec<&[u32]> = fits.iter().map(|&i| prompts[i].ids()).collect();
        let limits: Vec<usize> = fits.iter().map(|&i| self.response_budget(&prompts[i])).collect();
        let s = self.settings;
        let sampling = SamplingParams::new(s.max_new_tokens, s.temperature);
        let stopping = StoppingCriteria { max_lengths: &limits, complete: self.stops.test() };
        // Benchmarks share no random numbers.
        let base = Address::new(s.seed, Purpose::Evaluation).step(benchmark.rng_prompt());
        let address = |i: usize, k: usize| base.prompt((start + fits[i]) as u64).response(k as u64);
        let eos = self.stops.tokens.eos();
        let sampled = if ids.is_empty() {
            Vec::new()
        } else {
            self.model.generate(&SamplingRequest {
                truncation: s.truncation,
                stopping,
                slots: Some(self.slots),
                watch,
                ..SamplingRequest::new(&ids, s.samples, eos, sampling, &address)
            })?
        };
        let grader = Grader { extraction: s.extract, rules: s.rules };
        let mut out: Vec<Vec<CompletionRecord>> =
            items.iter().map(|item| self.prompt_too_long(item)).collect();
        for (&at, samples) in fits.iter().zip(sampled) {
            // Read once for all responses to the problem.
            let gold = grader.reference(&items[at].gold);
            let asked = (&gold, s.extract);
            let BenchmarkProblem { id, problem, .. } = &items[at];
            let graded = samples
                .iter()
                .enumerate()
                .map(|(k, one)| CompletionRecord::graded((id, k, problem), asked, one, self.stops));
            out[at] = graded.collect::<Result<_, _>>()?;
        }
        Ok(out)
    }

    fn prompt_too_long(&self, item: &BenchmarkProblem) -> Vec<CompletionRecord> {
        let one = |sample| CompletionRecord {
            problem: item.id.clone(),
            sample,
            verdict: ResponseOutcome::NoRoom,
            lenient: false,
            reason: format!("the prompt leaves no room in a context of {} tokens", self.settings.context),
            answer: None,
            finish: RecordedFinish::NoRoom,
            tokens: 0,
            text: String::new(),
            crc32c: None,
        };
        (0..self.settings.samples).map(one).collect()
    }
}
