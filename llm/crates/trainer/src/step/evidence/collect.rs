//! A question asked of a whole batch.

use grpo_lambda::advantage::all_equal;
use grpo_lambda::group::{Evidence, Group};
use grpo_lambda_decoder::model::Decoder;
use grpo_lambda_decoder::rng::Address;

use super::hidden::hidden;
use super::{
    EvidenceCost, EvidenceError, EvidenceInput, EvidenceRequest, ForwardSettings, ResponseSpan, saliencies,
    shifts,
};
use crate::input::tokens::{ModelTokenizer, TokenError};

/// Computes the requested evidence for every response of `batch` and writes it into the batch; `prompt(g)` and `address(g, i)` belong to
/// group `g` and its response `i`.
pub fn collect<'a>(
    model: &Decoder<f32>,
    request: EvidenceRequest,
    tokens: &ModelTokenizer,
    pass: ForwardSettings,
    batch: &mut [Group],
    prompt: impl Fn(usize) -> &'a [u32],
    address: impl Fn(usize, usize) -> Address,
) -> Result<EvidenceCost, EvidenceError> {
    match request {
        EvidenceRequest::Hidden => hidden(model, pass, batch, prompt),
        EvidenceRequest::Shifts { answer, mask } => {
            let (places, items) = eligible(tokens, batch, prompt, address)?;
            let (scores, cost) = shifts::shifts(model, &items, answer, mask, pass)?;
            write(batch, &places, scores, |evidence| &mut evidence.shifts)?;
            Ok(cost)
        }
        EvidenceRequest::Saliencies { answer, noise, draws } => {
            let (places, items) = eligible(tokens, batch, prompt, address)?;
            let (scores, cost) = saliencies::saliencies(model, &items, answer, (noise, draws), pass)?;
            write(batch, &places, scores, |evidence| &mut evidence.saliencies)?;
            Ok(cost)
        }
    }
}

/// A response of a batch: its group, and its place there.
type ResponseIndex = (usize, usize);

/// The responses that have an answer, a reasoning token before it, and a group whose rewards differ.
fn eligible<'b, 'a: 'b>(
    tokens: &ModelTokenizer,
    batch: &'b [Group],
    prompt: impl Fn(usize) -> &'a [u32],
    address: impl Fn(usize, usize) -> Address,
) -> Result<(Vec<ResponseIndex>, Vec<EvidenceInput<'b>>), TokenError> {
    let (mut places, mut items) = (Vec::new(), Vec::new());
    for (g, group) in batch.iter().enumerate() {
        let known: Vec<f64> = group.responses.iter().filter_map(|r| r.reward).collect();
        if all_equal(&known) {
            continue;
        }
        for (i, response) in group.responses.iter().enumerate() {
            let span = ResponseSpan::of(tokens, &response.tokens)?.filter(|s| s.reasoning > 0);
            if let (Some(span), Some(_)) = (span, response.reward) {
                places.push((g, i));
                let (prompt, response) = (prompt(g), response.tokens.as_slice());
                items.push(EvidenceInput { prompt, response, span, address: address(g, i) });
            }
        }
    }
    Ok((places, items))
}

/// Writes the scores of the responses at `places`, in their order, and an empty list into all others.
fn write(
    batch: &mut [Group],
    places: &[ResponseIndex],
    scores: Vec<Vec<f64>>,
    field: fn(&mut Evidence) -> &mut Option<Vec<f64>>,
) -> Result<(), EvidenceError> {
    let mut scored = places.iter().zip(scores).peekable();
    let mut response = 0;
    for (g, group) in batch.iter_mut().enumerate() {
        for (i, r) in group.responses.iter_mut().enumerate() {
            let own = scored.next_if(|(place, _)| **place == (g, i)).map_or(Vec::new(), |(_, own)| own);
            if let Some((token, &value)) = own.iter().enumerate().find(|(_, x)| !x.is_finite()) {
                return Err(EvidenceError::NotFinite { response, token, value });
            }
            *field(&mut r.evidence) = Some(own);
            response += 1;
        }
    }
    Ok(())
}
