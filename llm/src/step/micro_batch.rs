//! A batch of groups as rows for the model: packed into micro-batches, and scored by the reference policy.

use std::ops::Range;

use grpo_lambda::group::{Group, Response};
use grpo_lambda_decoder::model::{Error, ForwardOptions, Rows};
use grpo_lambda_decoder::pack::pack;

use crate::step::engine::Engine;

/// The responses of a batch with the index of their group, in flat order.
pub fn flat(batch: &[Group]) -> impl Iterator<Item = (usize, &Response)> {
    batch.iter().enumerate().flat_map(|(g, group)| group.responses.iter().map(move |r| (g, r)))
}

/// [`pack`] for the rows `prompt + response` of a batch; `prompts[i]` is that of group `i`.
pub fn parts(prompts: &[&[u32]], batch: &[Group], budget: usize) -> Vec<Range<usize>> {
    pack(flat(batch).map(|(g, r)| prompts[g].len() + r.len()), budget)
}

/// The rows `prompt + response` of the responses `part` of a batch, scored from the response on.
pub fn rows(prompts: &[&[u32]], batch: &[Group], part: Range<usize>) -> Rows {
    let mut rows = Rows::new();
    for (group, response) in flat(batch).skip(part.start).take(part.len()) {
        let prompt = prompts[group];
        let row: Vec<u32> = prompt.iter().chain(&response.tokens).copied().collect();
        rows.push(&row, prompt.len());
    }
    rows
}

/// Writes the reference policy's log-probabilities into the responses, at most `budget` tokens per forward pass.
///
/// # Errors
/// When the engine refuses or its device fails.
pub fn score_with_reference<E: Engine>(
    engine: &mut E,
    prompts: &[&[u32]],
    batch: &mut [Group],
    budget: usize,
    options: ForwardOptions,
) -> Result<(), Error> {
    let parts: Vec<Rows> =
        parts(prompts, batch, budget).into_iter().map(|part| rows(prompts, batch, part)).collect();
    let scored = engine.score_reference(&parts, options)?.into_iter().flat_map(|s| s.logps);
    for (response, logps) in batch.iter_mut().flat_map(|g| &mut g.responses).zip(scored) {
        response.ref_logps = Some(logps);
    }
    Ok(())
}

/// Writes the entropies of the policy's distributions into the responses, at most `budget` tokens per forward pass.
///
/// # Errors
/// When the engine refuses or its device fails.
pub fn score_entropies<E: Engine>(
    engine: &E,
    prompts: &[&[u32]],
    batch: &mut [Group],
    budget: usize,
    options: ForwardOptions,
) -> Result<(), Error> {
    // The tape is not used: with checkpoints it holds little.
    let options = ForwardOptions { entropy: true, checkpoint: true, ..options };
    let mut scored = Vec::new();
    for part in parts(prompts, batch, budget) {
        scored.extend(engine.forward(&rows(prompts, batch, part), options)?.0.entropies);
    }
    for (response, entropies) in batch.iter_mut().flat_map(|g| &mut g.responses).zip(scored) {
        response.evidence.entropies = Some(entropies);
    }
    Ok(())
}
