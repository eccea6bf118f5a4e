//! A batch of groups as rows for the model: packed into micro-batches, and scored by the reference policy.
//!
//! The responses of a group continue their prompt as one prefix, which a micro-batch computes once however
//! many of them are in it. The last token of the prompt predicts the first of a response, so it belongs to each response's row.

use std::ops::Range;

use grpo_lambda::group::{Group, Response};
use grpo_lambda_decoder::model::{Error, ForwardOptions, Rows, TokenScores};

use crate::step::critic::Critic;
use crate::step::engine::Engine;
use crate::step::{PolicyError, Result};

/// The responses of a batch with the index of their group, in flat order.
pub fn flat(batch: &[Group]) -> impl Iterator<Item = (usize, &Response)> {
    batch.iter().enumerate().flat_map(|(g, group)| group.responses.iter().map(move |r| (g, r)))
}

/// A batch with its prompts: `prompts[i]` is that of group `i`.
#[derive(Clone, Copy, Debug)]
pub struct Batch<'a> {
    prompts: &'a [&'a [u32]],
    groups: &'a [Group],
}

impl<'a> Batch<'a> {
    /// These groups with their prompts.
    pub fn new(prompts: &'a [&'a [u32]], groups: &'a [Group]) -> Self {
        Batch { prompts, groups }
    }

    /// Micro-batches of at most `budget` tokens, in flat order; a longer row is one of its own.
    pub fn parts(&self, budget: usize) -> Vec<Range<usize>> {
        self.parts_of(budget, |_| true)
    }

    /// [`Batch::parts`], where responses that are not `computed` have no tokens.
    pub fn parts_of(&self, budget: usize, computed: impl Fn(usize) -> bool) -> Vec<Range<usize>> {
        let mut parts: Vec<Range<usize>> = Vec::new();
        let (mut filled, mut last) = (0, None);
        for (i, (group, response)) in flat(self.groups).enumerate() {
            let (shared, first) = split_prompt(self.prompts[group]);
            let own = if computed(i) { first.len() + response.tokens.len() } else { 0 };
            let prefix = if own == 0 { 0 } else { shared.len() };
            let more = if last == Some(group) { own } else { prefix + own };
            match parts.last_mut() {
                Some(part) if filled + more <= budget => {
                    part.end = i + 1;
                    filled += more;
                }
                _ => {
                    parts.push(i..i + 1);
                    filled = prefix + own;
                    last = None;
                }
            }
            if own > 0 {
                last = Some(group);
            }
        }
        parts
    }

    /// All rows, micro-batch by micro-batch.
    pub fn passes(&self, budget: usize) -> Vec<Rows> {
        self.parts(budget).into_iter().map(|part| self.rows(part)).collect()
    }

    /// The rows of these responses, in flat order, scored from the response on.
    pub fn rows(&self, part: impl IntoIterator<Item = usize>) -> Rows {
        let all: Vec<(usize, &Response)> = flat(self.groups).collect();
        let mut rows = Rows::new();
        let mut last = None;
        for (group, response) in part.into_iter().map(|i| all[i]) {
            let (shared, first) = split_prompt(self.prompts[group]);
            if last != Some(group) {
                rows.share(shared);
            }
            rows.push(&[first, &response.tokens].concat(), first.len());
            last = Some(group);
        }
        rows
    }
}

/// A prompt as what rows share and what each row has of its own: the last token.
pub fn split_prompt(prompt: &[u32]) -> (&[u32], &[u32]) {
    prompt.split_at(prompt.len().saturating_sub(1))
}

/// Writes the reference policy's log-probabilities into the responses, at most `budget` tokens per forward pass.
pub fn score_with_reference(
    engine: &mut dyn Engine,
    prompts: &[&[u32]],
    batch: &mut [Group],
    budget: usize,
    options: ForwardOptions,
) -> Result<(), Error> {
    let parts = Batch::new(prompts, batch).passes(budget);
    let scored = engine.score_reference(&parts, options)?.into_iter().flat_map(|s| s.logps);
    for (response, logps) in batch.iter_mut().flat_map(|g| &mut g.responses).zip(scored) {
        response.ref_logps = Some(logps);
    }
    Ok(())
}

/// Writes the entropies of the policy's distributions into the responses, at most `budget` tokens per forward pass.
pub fn score_entropies(
    engine: &dyn Engine,
    prompts: &[&[u32]],
    batch: &mut [Group],
    budget: usize,
    options: ForwardOptions,
) -> Result<(), Error> {
    let scored = scored(engine, prompts, batch, budget, ForwardOptions { entropy: true, ..options })?.0;
    let entropies = scored.into_iter().flat_map(|s| s.entropies);
    for (response, entropies) in batch.iter_mut().flat_map(|g| &mut g.responses).zip(entropies) {
        response.extra_inputs.entropies = Some(entropies);
    }
    Ok(())
}

/// Writes a critic's values of the states before the responses' tokens into the responses, at most `budget` tokens per forward pass, and returns
/// the tokens read.
///
/// # Errors
/// [`PolicyError::Critic`] if a value is not finite. Nothing is written then.
pub fn score_values(
    critic: &Critic,
    prompts: &[&[u32]],
    batch: &mut [Group],
    budget: usize,
) -> Result<usize> {
    let passes = Batch::new(prompts, batch).passes(budget);
    let values = critic.values(&passes)?;
    for (response, own) in values.iter().enumerate() {
        if let Some((token, &value)) = own.iter().enumerate().find(|(_, value)| !value.is_finite()) {
            return Err(PolicyError::Critic { response, token, value });
        }
    }
    for (response, values) in batch.iter_mut().flat_map(|g| &mut g.responses).zip(values) {
        response.extra_inputs.values = Some(values);
    }
    Ok(passes.iter().map(|rows| rows.tokens().len()).sum())
}

/// Writes the log-probabilities of the policy that reads `prompts` in place of the batch's own into the responses as a teacher's, and returns the tokens
/// read.
pub fn score_teacher(
    engine: &dyn Engine,
    prompts: &[&[u32]],
    batch: &mut [Group],
    budget: usize,
    options: ForwardOptions,
) -> Result<usize, Error> {
    let (scored, tokens) = scored(engine, prompts, batch, budget, options)?;
    let logps = scored.into_iter().flat_map(|s| s.logps);
    for (response, logps) in batch.iter_mut().flat_map(|g| &mut g.responses).zip(logps) {
        response.extra_inputs.teacher_logps = Some(logps);
    }
    Ok(tokens)
}

/// The scores of the responses after these prompts, part by part, and the tokens read.
fn scored(
    engine: &dyn Engine,
    prompts: &[&[u32]],
    batch: &[Group],
    budget: usize,
    options: ForwardOptions,
) -> Result<(Vec<TokenScores>, usize), Error> {
    // The tape is not used: with recomputation it holds little.
    let options = ForwardOptions { recompute: true, ..options };
    let (packed, mut scored, mut tokens) = (Batch::new(prompts, batch), Vec::new(), 0);
    for part in packed.parts(budget) {
        let rows = packed.rows(part);
        tokens += rows.tokens().len();
        scored.push(engine.forward(&rows, options)?.0);
    }
    Ok((scored, tokens))
}
