//! Evidence the language model finds by asking itself again: how the answer of a response depends on its reasoning tokens.
//!
//! | evidence | question | cost | file |
//! | --- | --- | --- | --- |
//! | `shifts` (OAR-P) | how far does the answer move when this token is masked? | a forward pass per reasoning token | [`shifts`] |
//! | `hidden` (SHEAR) | what is the last layer's state, behind the final norm, at each token? | a forward pass | here |
//! | `saliencies` (OAR-G) | how steeply does it depend on this token's embedding? | `n_noise + 1` forward passes and `n_noise` backward | [`saliencies`] |
//!
//! The answer is what stands in the last closed `\boxed{}` ([`Span`]); its distribution is that of the policy, logits divided by the
//! sampling temperature. A response that answers nothing has no reasoning token to ask about: its list of scores is empty, which leaves
//! every token its plain advantage. So has every response of a group whose rewards agree: its advantages are 0 whatever the scores are. (Of
//! hidden states such a group has empty ones.)
//!
//! A score depends on its response alone, on the weights and on random numbers addressed by (step, prompt, response, draw): it has the
//! same bits in any batch, with any number of threads and after an interruption.

pub mod saliencies;
pub mod shifts;
mod span;

use grpo_lambda::advantage::all_equal;
use grpo_lambda::assignment::Answer;
use grpo_lambda::group::{EvidenceKind, Group};
use grpo_lambda::methods::Configured;
use grpo_lambda_decoder::model::{Decoder, Error as ModelError, Rows};
use grpo_lambda_decoder::rng::Address;

use crate::input::tokens::{TokenError, Tokens};

pub use span::Span;

/// What the language model provides beside log-probabilities and rewards.
pub const PROVIDED: &[EvidenceKind] = &[
    EvidenceKind::Tokens,
    EvidenceKind::Entropies,
    EvidenceKind::RefLogps,
    EvidenceKind::Shifts,
    EvidenceKind::Saliencies,
    EvidenceKind::Hidden,
];

/// Why the language model has none of this evidence; empty for what it provides.
pub fn why_not(kind: EvidenceKind) -> &'static str {
    match kind {
        EvidenceKind::Values => "llm-train trains no critic beside the policy",
        EvidenceKind::Collisions => "llm-train keeps the entropy of a distribution, not its sum of squares",
        EvidenceKind::Steps => "llm-train samples whole responses and does not complete prefixes of them",
        EvidenceKind::TeacherLogps => "llm-train does not score a response with its answer in the prompt",
        EvidenceKind::Tokens
        | EvidenceKind::Entropies
        | EvidenceKind::RefLogps
        | EvidenceKind::Shifts
        | EvidenceKind::Saliencies
        | EvidenceKind::Hidden => "",
    }
}

/// What it takes to find this evidence, for a reader of the objective; `None` where it comes with sampling.
pub fn price(kind: EvidenceKind) -> Option<&'static str> {
    match kind {
        EvidenceKind::Shifts => Some(
            "one forward pass over prompt and response up to the answer per reasoning token, and one more, of every response that ends in \
             \\boxed{} and whose group's rewards differ",
        ),
        EvidenceKind::Saliencies => Some(
            "method.n_noise forward and backward passes over prompt and response up to the answer, and a clean one, of every response that \
             ends in \\boxed{} and whose group's rewards differ",
        ),
        EvidenceKind::Hidden => {
            Some("one forward pass over prompt and response, of every response whose group's rewards differ")
        }
        _ => None,
    }
}

/// A question to ask of every response, with its settings.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Question {
    /// How far the answer moves when a token is masked.
    Shifts {
        /// What moves.
        answer: Answer,
        /// The id that takes a token's place.
        mask: u32,
    },
    /// How steeply the answer depends on a token's embedding.
    Saliencies {
        /// What moves.
        answer: Answer,
        /// Standard deviation of the perturbations.
        noise: f64,
        /// Perturbations averaged, at least 1.
        draws: u64,
    },
    /// The last layer's state at every token.
    Hidden,
}

/// A setting of the method that this model or tokenizer cannot take.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("method.{key} = {value}: must be {expected}")]
pub struct QuestionError {
    /// The setting.
    pub key: &'static str,
    /// Its value.
    pub value: String,
    /// What would be right.
    pub expected: String,
}

impl Question {
    /// What a method asks of a model with `vocabulary` tokens, if anything.
    ///
    /// # Errors
    /// [`QuestionError`], for a number that is not whole or a token the model does not have.
    pub fn of(
        configured: &Configured,
        tokens: &Tokens,
        vocabulary: usize,
    ) -> Result<Option<Question>, QuestionError> {
        let (evidence, settings) = (configured.evidence(), &configured.settings);
        let answer = || Answer::parse(settings.word("pfinal")).unwrap_or(Answer::Mean);
        let whole = |key: &'static str, end: f64, expected: &dyn Fn() -> String| {
            let value = settings.optional(key);
            match value {
                Some(x) if x.fract() != 0.0 || x >= end => {
                    Err(QuestionError { key, value: x.to_string(), expected: expected() })
                }
                whole => Ok(whole),
            }
        };
        if evidence.contains(&EvidenceKind::Shifts) {
            let right = || format!("none or the id of a token, a whole number below {vocabulary}");
            let given = whole("mask_token", vocabulary as f64, &right)?.map(|id| id as u32);
            let mask = given.or(tokens.pad().filter(|&id| (id as usize) < vocabulary));
            return Ok(Some(Question::Shifts { answer: answer(), mask: mask.unwrap_or(tokens.eos()[0]) }));
        }
        if evidence.contains(&EvidenceKind::Saliencies) {
            let draws = whole("n_noise", f64::INFINITY, &|| "a whole number of at least 1".to_owned())?;
            let (noise, draws) = (settings.number("noise_std"), draws.unwrap_or(1.0) as u64);
            return Ok(Some(Question::Saliencies { answer: answer(), noise, draws }));
        }
        Ok(evidence.contains(&EvidenceKind::Hidden).then_some(Question::Hidden))
    }
}

/// What asking cost beyond sampling and training.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cost {
    /// Tokens read in forward passes.
    pub forward: usize,
    /// Tokens differentiated in backward passes.
    pub backward: usize,
}

impl std::ops::AddAssign for Cost {
    fn add_assign(&mut self, other: Cost) {
        self.forward += other.forward;
        self.backward += other.backward;
    }
}

/// Why a question has no answer.
#[derive(Debug, thiserror::Error)]
pub enum EvidenceError {
    /// The model refused its input.
    #[error(transparent)]
    Model(#[from] ModelError),
    /// A response could not be decoded.
    #[error(transparent)]
    Token(#[from] TokenError),
    /// A score that is none.
    #[error(
        "evidence of response {response}: the score of token {token} is {value}; the weights give logits that are not finite"
    )]
    NotFinite {
        /// The response, in flat order.
        response: usize,
        /// The token.
        token: usize,
        /// The score.
        value: f64,
    },
}

/// How to compute: none of it changes a result, but for the temperature.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pass {
    /// Divides the logits.
    pub temperature: f64,
    /// Tokens per forward pass; a longer row is a pass of its own.
    pub tokens: usize,
    /// Whether layers are computed again in the backward pass.
    pub recompute: bool,
}

/// A response to ask about.
#[derive(Clone, Debug, PartialEq)]
pub struct Item<'a> {
    /// Its prompt.
    pub prompt: &'a [u32],
    /// Its tokens.
    pub response: &'a [u32],
    /// Its parts.
    pub span: Span,
    /// Where its random numbers are.
    pub address: Address,
}

impl Item<'_> {
    /// Prompt and response up to `end` tokens of it.
    fn row(&self, end: usize) -> Vec<u32> {
        self.prompt.iter().chain(&self.response[..end]).copied().collect()
    }
}

/// Most numbers of logits held at a time (32 MiB of `f32`), unless a single row needs more.
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

/// Asks `question` about every response of `batch` and writes the scores into it; `prompt(g)` and `address(g, i)` belong to group `g`
/// and its response `i`.
///
/// # Errors
/// [`EvidenceError`].
pub fn ask<'a>(
    model: &Decoder<f32>,
    question: Question,
    tokens: &Tokens,
    pass: Pass,
    batch: &mut [Group],
    prompt: impl Fn(usize) -> &'a [u32],
    address: impl Fn(usize, usize) -> Address,
) -> Result<Cost, EvidenceError> {
    if question == Question::Hidden {
        return hidden(model, pass, batch, prompt);
    }
    let mut places = Vec::new();
    let mut items = Vec::new();
    for (g, group) in batch.iter().enumerate() {
        let known: Vec<f64> = group.responses.iter().filter_map(|r| r.reward).collect();
        if all_equal(&known) {
            continue;
        }
        for (i, response) in group.responses.iter().enumerate() {
            let span = Span::of(tokens, &response.tokens)?.filter(|s| s.reasoning > 0);
            if let (Some(span), Some(_)) = (span, response.reward) {
                places.push((g, i));
                items.push(Item {
                    prompt: prompt(g),
                    response: &response.tokens,
                    span,
                    address: address(g, i),
                });
            }
        }
    }
    let (scores, cost) = match question {
        Question::Shifts { answer, mask } => shifts::shifts(model, &items, answer, mask, pass)?,
        Question::Saliencies { answer, noise, draws } => {
            saliencies::saliencies(model, &items, answer, (noise, draws), pass)?
        }
        Question::Hidden => Default::default(),
    };
    let mut all: Vec<Vec<Vec<f64>>> = batch.iter().map(|g| vec![Vec::new(); g.responses.len()]).collect();
    for ((g, i), scores) in places.into_iter().zip(scores) {
        let response = i + batch[..g].iter().map(|g| g.responses.len()).sum::<usize>();
        if let Some((token, &value)) = scores.iter().enumerate().find(|(_, x)| !x.is_finite()) {
            return Err(EvidenceError::NotFinite { response, token, value });
        }
        all[g][i] = scores;
    }
    for (group, scores) in batch.iter_mut().zip(all) {
        for (response, scores) in group.responses.iter_mut().zip(scores) {
            match question {
                Question::Shifts { .. } => response.evidence.shifts = Some(scores),
                Question::Saliencies { .. } => response.evidence.saliencies = Some(scores),
                Question::Hidden => {}
            }
        }
    }
    Ok(cost)
}

/// Writes the last layer's state at every token of every response whose group has something to compare.
fn hidden<'a>(
    model: &Decoder<f32>,
    pass: Pass,
    batch: &mut [Group],
    prompt: impl Fn(usize) -> &'a [u32],
) -> Result<Cost, EvidenceError> {
    let mut cost = Cost::default();
    let mut wanted = Vec::new();
    for (g, group) in batch.iter_mut().enumerate() {
        let known: Vec<f64> = group.responses.iter().filter_map(|r| r.reward).collect();
        for response in &mut group.responses {
            match all_equal(&known) {
                true => response.evidence.hidden = Some(vec![Vec::new(); response.len()]),
                false => wanted.push((prompt(g), response)),
            }
        }
    }
    let sizes = wanted.iter().map(|(prompt, response)| prompt.len() + response.len());
    for part in grpo_lambda_decoder::pack::pack(sizes, pass.tokens) {
        let mut rows = Rows::new();
        for (prompt, response) in &wanted[part.clone()] {
            let row: Vec<u32> = prompt.iter().chain(&response.tokens).copied().collect();
            rows.push(&row, row.len());
        }
        cost.forward += tokens_of(&rows);
        let (states, h) = (model.states(&rows)?, model.config().hidden_size);
        for ((prompt, response), &start) in wanted[part].iter_mut().zip(rows.offsets()) {
            let own = &states[(start + prompt.len()) * h..][..response.len() * h];
            let vector = |state: &[f32]| state.iter().map(|&x| f64::from(x)).collect();
            response.evidence.hidden = Some(own.chunks_exact(h).map(vector).collect());
        }
    }
    Ok(cost)
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

/// The tokens of a row.
fn tokens_of(rows: &Rows) -> usize {
    rows.tokens().len()
}

#[cfg(test)]
mod tests;
