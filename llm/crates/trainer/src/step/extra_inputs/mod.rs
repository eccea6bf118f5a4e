//! Extra inputs from further passes of the language model: how the answer of a response depends on its reasoning tokens.
//!
//! | extra inputs | question | cost | file |
//! | --- | --- | --- | --- |
//! | `shifts` (OAR-P) | how far does the answer move when this token is masked? | a forward pass per reasoning token | [`shifts`] |
//! | `hidden` (SHEAR, ridge RLOO) | what is the last layer's state, after the final norm, at each token? | a forward pass | `hidden.rs` |
//! | `collisions` (optimal token baseline) | how concentrated is the distribution of each token? | a forward pass | `collisions.rs` |
//! | `saliencies` (OAR-G) | how steeply does it depend on this token's embedding? | `n_noise + 1` forward passes and `n_noise` backward | [`saliencies`] |
//!
//! The answer is the text of the last closed `\boxed{}` ([`ResponseSpan`]); its distribution is that of the policy, logits divided by the
//! sampling temperature. A response without an answer has no reasoning tokens: its list of scores is empty, which leaves
//! every token its plain advantage. So has every response of a group whose rewards agree: its advantages are 0 whatever the scores are. (Of
//! hidden states such a group has empty ones.)
//!
//! A score depends on its response alone, on the weights and on random numbers addressed by (step, prompt, response, draw): it has the
//! same bits in any batch, with any number of threads and after an interruption.

mod collisions;
mod hidden;
mod request;
pub mod saliencies;
pub mod shifts;
mod span;

use grpo_lambda::advantage::all_equal;
use grpo_lambda::group::{ExtraInputs, Group};
use grpo_lambda_decoder::model::{Decoder, Error as ModelError, Rows};
use grpo_lambda_decoder::rng::Address;

use crate::input::tokens::{ModelTokenizer, TokenError};
use collisions::collisions;
use hidden::hidden;

pub use request::{
    InputRequest, InputSettingError, PROVIDED, describe_cost, is_of_the_cpu, provided, why_unavailable,
};
pub use span::ResponseSpan;

/// Computation beyond sampling and training.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct InputCost {
    /// Tokens read in forward passes.
    pub forward: usize,
    /// Tokens differentiated in backward passes.
    pub backward: usize,
}

impl std::ops::AddAssign for InputCost {
    fn add_assign(&mut self, other: InputCost) {
        self.forward += other.forward;
        self.backward += other.backward;
    }
}

/// The reason why extra inputs could not be computed.
#[derive(Debug, thiserror::Error)]
pub enum InputError {
    #[error(transparent)]
    Model(#[from] ModelError),
    #[error(transparent)]
    Token(#[from] TokenError),
    #[error(
        "extra inputs of response {response}: the score of token {token} is {value}; the weights give logits that are not finite"
    )]
    NotFinite {
        /// The response, in flat order.
        response: usize,
        token: usize,
        value: f64,
    },
}

/// Settings of the passes; only the temperature affects a result.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ForwardSettings {
    /// Divides the logits.
    pub temperature: f64,
    /// Tokens per forward pass; a longer row is a pass of its own.
    pub tokens: usize,
    /// True if the backward pass recomputes layers.
    pub recompute: bool,
}

/// A response whose extra inputs are computed.
#[derive(Clone, Debug, PartialEq)]
pub struct InputFields<'a> {
    pub prompt: &'a [u32],
    pub response: &'a [u32],
    pub span: ResponseSpan,
    /// The address of its random numbers.
    pub address: Address,
}

impl InputFields<'_> {
    /// Prompt and response up to `end` tokens of it.
    pub fn row(&self, end: usize) -> Vec<u32> {
        self.prompt.iter().chain(&self.response[..end]).copied().collect()
    }
}

/// Computes the requested extra inputs for every response of `batch` and writes them into the batch; `prompt(g)` and `address(g, i)` belong to
/// group `g` and its response `i`.
pub fn collect<'a>(
    model: &Decoder<f32>,
    request: InputRequest,
    tokens: &ModelTokenizer,
    pass: ForwardSettings,
    batch: &mut [Group],
    prompt: impl Fn(usize) -> &'a [u32],
    address: impl Fn(usize, usize) -> Address,
) -> Result<InputCost, InputError> {
    match request {
        InputRequest::Hidden => hidden(model, pass, batch, prompt),
        InputRequest::Collisions => collisions(model, pass, batch, prompt),
        InputRequest::Shifts { answer, mask } => {
            let (places, items) = eligible(tokens, batch, prompt, address)?;
            let (scores, cost) = shifts::shifts(model, &items, answer, mask, pass)?;
            write(batch, &places, scores, |extra_inputs| &mut extra_inputs.shifts)?;
            Ok(cost)
        }
        InputRequest::Saliencies { answer, noise, draws } => {
            let (places, items) = eligible(tokens, batch, prompt, address)?;
            let (scores, cost) = saliencies::saliencies(model, &items, answer, (noise, draws), pass)?;
            write(batch, &places, scores, |extra_inputs| &mut extra_inputs.saliencies)?;
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
) -> Result<(Vec<ResponseIndex>, Vec<InputFields<'b>>), TokenError> {
    let (mut places, mut items) = (Vec::new(), Vec::new());
    for (g, group) in batch.iter().enumerate() {
        let known: Vec<f64> = group.responses.iter().filter_map(|r| r.reward).collect();
        if all_equal(&known) {
            continue;
        }
        for (i, response) in group.responses.iter().enumerate() {
            let span = ResponseSpan::find(tokens, &response.tokens)?.filter(|s| s.reasoning > 0);
            if let (Some(span), Some(_)) = (span, response.reward) {
                places.push((g, i));
                let (prompt, response) = (prompt(g), response.tokens.as_slice());
                items.push(InputFields { prompt, response, span, address: address(g, i) });
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
    field: fn(&mut ExtraInputs) -> &mut Option<Vec<f64>>,
) -> Result<(), InputError> {
    let mut scored = places.iter().zip(scores).peekable();
    let mut response = 0;
    for (g, group) in batch.iter_mut().enumerate() {
        for (i, r) in group.responses.iter_mut().enumerate() {
            let own = scored.next_if(|(place, _)| **place == (g, i)).map_or(Vec::new(), |(_, own)| own);
            if let Some((token, &value)) = own.iter().enumerate().find(|(_, x)| !x.is_finite()) {
                return Err(InputError::NotFinite { response, token, value });
            }
            *field(&mut r.extra_inputs) = Some(own);
            response += 1;
        }
    }
    Ok(())
}

/// The most logits held at a time (32 MiB of `f32`), unless a single row needs more.
const LOGITS: usize = 1 << 23;

/// Runs of consecutive jobs, given as (tokens, scored tokens), within the budget of tokens and of logits.
fn packed(
    jobs: impl Iterator<Item = (usize, usize)>,
    tokens: usize,
    vocabulary: usize,
) -> Vec<std::ops::Range<usize>> {
    // One budget for both: a row counts what it takes of the scarcer one.
    let scale = |n: usize, of: usize| (n as u128 * 1_000_000).div_ceil(of.max(1) as u128) as usize;
    let share = |(len, scored): (usize, usize)| scale(len, tokens).max(scale(scored * vocabulary, LOGITS));
    grpo_lambda_decoder::pack::pack(jobs.map(share), 1_000_000)
}

/// Log-probabilities of the mean of `rows` rows of logits divided by the temperature, in f64.
fn log_softmax_of_mean(logits: &[f32], rows: usize, temperature: f64) -> Vec<f64> {
    let vocabulary = logits.len() / rows;
    let scale = 1.0 / (rows as f64 * temperature);
    let mut z = vec![0.0; vocabulary];
    for row in logits.chunks_exact(vocabulary) {
        z.iter_mut().zip(row).for_each(|(z, &x)| *z += f64::from(x));
    }
    z.iter_mut().for_each(|z| *z *= scale);
    let max = z.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let norm = max + z.iter().map(|z| (z - max).exp()).sum::<f64>().ln();
    z.iter_mut().for_each(|z| *z -= norm);
    z
}

/// The number of scored tokens of each row with their logits.
fn each_row<'a>(
    rows: &'a Rows,
    logits: &'a [f32],
    vocabulary: usize,
) -> impl Iterator<Item = (usize, &'a [f32])> {
    let mut rest = logits;
    (0..rows.len()).map(move |i| {
        let (own, after) = rest.split_at(rows.scored(i) * vocabulary);
        rest = after;
        (rows.scored(i), own)
    })
}

/// The tokens of a row.
fn tokens_of(rows: &Rows) -> usize {
    rows.tokens().len()
}
