//! Problems become prompts, and prompts responses.

use grpo_lambda_decoder::generate::Sampler;
use grpo_lambda_decoder::model::ModelConfig as Shape;
use grpo_lambda_gpu::Dtype;

use super::store_failure;
use crate::commands::{Failure, Result};
use grpo_lambda_trainer::eval::benchmark::{self, Benchmark};
use grpo_lambda_trainer::eval::completion::{CompletionRecord, ResponseOutcome};
use grpo_lambda_trainer::eval::sampler::BenchmarkSampler;
use grpo_lambda_trainer::eval::settings::Settings;
use grpo_lambda_trainer::eval::store::{EvalDir, ProblemRecord};
use grpo_lambda_trainer::eval::{EVAL_BATCH, EvalError, QUEUE};
use grpo_lambda_trainer::input::prompt::{RenderedPrompt, Template};
use grpo_lambda_trainer::input::stops::Stops;
use grpo_lambda_trainer::input::tokens::{ModelTokenizer, TextTokens};
use grpo_lambda_trainer::plan::synthetic::EvaluationShape;
use grpo_lambda_trainer::run::progress::{SharedProgress, say};
use grpo_lambda_trainer::run::stop;

/// A model with the settings of an evaluation.
pub(super) struct EvalJob<'a> {
    pub(super) model: &'a dyn Sampler,
    pub(super) tokens: &'a ModelTokenizer,
    pub(super) settings: &'a Settings,
    pub(super) template: &'a Template,
    /// On a card: the model's shape, its type, and the bytes that were free before it was there.
    pub(super) card: Option<(&'a Shape, Dtype, u64)>,
    /// The slots that are asked for.
    pub(super) asked: Option<usize>,
}

impl EvalJob<'_> {
    /// The number of responses decoded at a time: on a card no more than its memory holds.
    pub(super) fn slots<'p>(&self, prompts: impl Iterator<Item = &'p TextTokens>) -> Result<usize> {
        let Some((shape, dtype, free)) = self.card else { return Ok(self.asked.unwrap_or(EVAL_BATCH)) };
        let context = self.settings.context;
        let lengths = prompts.map(|prompt| prompt.ids().len()).filter(|tokens| *tokens < context);
        let Some(prompt_tokens) = lengths.max() else { return Ok(1) };
        let new_tokens = self.settings.max_new_tokens.min(context - prompt_tokens);
        let longest = EvaluationShape { shape, dtype, prompt_tokens, new_tokens };
        let slots = longest.slots(self.asked, EVAL_BATCH, free).map_err(Failure::broke)?;
        slots.map_err(|line| match self.asked {
            Some(asked) => Failure::refused(format!("--batch {asked}: {line}")),
            None => Failure::refused(format!("--max-new-tokens {}: {line}", self.settings.max_new_tokens)),
        })
    }

    /// Every problem as it is asked.
    pub(super) fn prompts(&self, benchmark: &Benchmark) -> Result<(Vec<ProblemRecord>, Vec<TextTokens>)> {
        let mut problems = Vec::new();
        let mut prompts = Vec::new();
        let mut misspelt = 0;
        for item in &benchmark.items {
            let refused =
                |what: &str| Failure::refused(format!("{}, problem {}: {what}", benchmark.name, item.id));
            let rendered = match benchmark.embedded {
                true => RenderedPrompt { text: item.problem.clone(), special_tokens: true },
                false => {
                    self.template.asked(&item.before, &item.problem).map_err(|e| refused(&e.to_string()))?
                }
            };
            let prompt = self.tokens.rendered(&rendered).map_err(|e| {
                refused(&format!("the model's tokenizer has no tokens for it: {}", short(&e.to_string())))
            })?;
            misspelt += usize::from(!self.spells(&item.problem));
            if prompt.ids().is_empty() {
                return Err(refused("the prompt has no token; at least one is needed"));
            }
            prompts.push(prompt);
            let (id, problem, golds) = (item.id.clone(), item.problem.clone(), item.golds.clone());
            problems.push(ProblemRecord { id, problem, golds, prompt: rendered.text });
        }
        if misspelt > 0 {
            let (name, all) = (&benchmark.name, problems.len());
            say(&format!(
                "warning: {name}: {misspelt} of {all} problems do not read back from their tokens as they are, so the model is asked \
                 something else; its tokenizer is not made for them"
            ));
        }
        Ok((problems, prompts))
    }

    /// True if a text survives the tokenizer, blanks at its ends apart.
    fn spells(&self, text: &str) -> bool {
        let back = self.tokens.prompt(text).and_then(|prompt| self.tokens.text(prompt.ids()));
        back.is_ok_and(|back| back.trim() == text.trim())
    }

    /// All responses to a benchmark; missing ones are sampled.
    pub(super) fn responses(
        &self,
        dir: &EvalDir,
        benchmark: &Benchmark,
        problems: &[ProblemRecord],
        prompts: &[TextTokens],
        slots: usize,
    ) -> Result<Vec<Vec<CompletionRecord>>> {
        let (mut log, mut all) = dir.benchmark(&benchmark.name, problems).map_err(store_failure)?;
        if all.len() == problems.len() {
            return Ok(all);
        }
        let mut settings = self.settings.clone();
        let mut stops = self.template.stop();
        if benchmark.embedded {
            (settings.extract, stops) = (benchmark::EMBEDDED_EXTRACTION, &[]);
        }
        let stops = Stops::new(self.tokens, stops);
        let sampler = BenchmarkSampler { model: self.model, settings: &settings, stops: &stops, slots };
        let progress = SharedProgress::new(&benchmark.name, all.len() as u64, problems.len() as u64);
        let together = (QUEUE * slots / settings.samples).max(1);
        while all.len() < problems.len() {
            // Only where training listens for signals: by itself an evaluation ends at once, and resumes.
            if let Some(signal) = stop::requested() {
                let (done, name) = (all.len(), stop::name(signal));
                let line = format!(
                    "stopped by {name} after {done} problems of {}; the same command goes on from there",
                    benchmark.name
                );
                return Err(Failure::stopped(line, signal));
            }
            let start = all.len();
            let end = problems.len().min(start + together);
            let watch = |under_way| {
                progress.lock().evaluated(start as u64, settings.samples as u64, Some(under_way));
            };
            let fresh = sampler.generate(benchmark, start, &prompts[start..end], Some(&watch));
            let fresh = fresh.map_err(|e| match e {
                EvalError::Rollout(e) => {
                    Failure::broke(format!("{}, problems from {start} on: {e}", benchmark.name))
                }
                EvalError::Token(e) => Failure::broke(e),
            })?;
            log.append(&fresh.concat()).map_err(store_failure)?;
            let tokens: usize = fresh.iter().flatten().map(|c| c.tokens).sum();
            all.extend(fresh);
            let counted = || all.iter().flatten().filter(|c| c.verdict.score().is_some());
            let right = counted().filter(|c| c.verdict == ResponseOutcome::Right).count() as f64;
            let share = right / counted().count().max(1) as f64;
            progress.lock().step(end as u64, &[("right", share)], tokens as u64);
        }
        progress.finish();
        Ok(all)
    }
}

/// A text on one line, cut short when it is long.
fn short(text: &str) -> String {
    match text.char_indices().nth(160) {
        Some((end, _)) => format!("{} ...", &text[..end]),
        None => text.to_owned(),
    }
}
