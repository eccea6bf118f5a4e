//! Sampling tokens, and counting the rows that are still active.

use super::launch::{Kernel, ROW};
use super::log_prob::VOCABULARY;
use crate::ptr::{Arg, Ptr, PtrMut};

/// Whether a row goes on, or why it does not: the numbers in [`SampleState::status`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Status {
    /// It goes on.
    Active = 0,
    /// It sampled an end token.
    Ended = 1,
    /// It reached its limit.
    Truncated = 2,
    /// Its logits have no distribution: a NaN or +infinity among them, or nothing but -infinity.
    NotNumbers = 3,
}

/// State of sampling on the device, one element a row unless said.
#[derive(Clone, Copy, Debug)]
pub struct SampleState {
    /// Rows.
    pub rows: u32,
    /// Most tokens of a response: from one row to the next of `uniforms` and of the three outputs.
    pub max_new_tokens: u32,
    /// Tokens in the cache, prompt and response; raised by one for every active row that is read.
    pub lengths: PtrMut<u32>,
    /// Tokens sampled so far.
    pub produced: PtrMut<u32>,
    /// [`Status`].
    pub status: PtrMut<u32>,
    /// Limit of a row's response, at most `max_new_tokens`.
    pub limits: Ptr<u32>,
    /// The token to read next.
    pub next: PtrMut<u32>,
    /// `[rows, max_new_tokens]`: uniform numbers in [0, 1), one per position.
    pub uniforms: Ptr<f64>,
    /// `[rows, max_new_tokens]`: tokens.
    pub tokens: PtrMut<u32>,
    /// `[rows, max_new_tokens]`: their log-probabilities.
    pub logps: PtrMut<f32>,
    /// `[rows, max_new_tokens]`: entropies of the distributions they were drawn from.
    pub entropies: PtrMut<f32>,
    /// `[eos_len]`: end tokens.
    pub eos: Ptr<u32>,
    /// How many end tokens.
    pub eos_len: u32,
    /// `[1]`: rows that were active at the last [`Advance`].
    pub active: PtrMut<u32>,
}

/// Draws the next token of every active row from `softmax(logits / temperature)`, by inversion of the cumulative sum in id order at
/// `uniforms[row][produced]`.
///
/// Writes token, log-probability (at `inverse_temperature`) and entropy, and updates `produced`, `next` and `status`; a row without a
/// distribution gets a status and no token. The same token as [`grpo_lambda_decoder::rng::categorical`] draws from the log-probabilities, where
/// no sum's rounding decides.
#[derive(Clone, Copy, Debug)]
pub struct Sample {
    /// `[rows, vocabulary]`; with `source`, as many rows as it names.
    pub logits: Ptr<f32>,
    /// `[rows]`: the row of logits that each row draws from, where that is not its own.
    pub source: Option<Ptr<u32>>,
    /// Elements of a row of logits.
    pub vocabulary: u32,
    /// `1 / temperature`.
    pub inverse_temperature: f32,
    /// Whether the largest logit is taken, the first of equals, instead of a draw.
    pub greedy: bool,
    /// The rows.
    pub state: SampleState,
}

impl Kernel for Sample {
    const NAME: &'static str = "sample";
    const BLOCK: u32 = VOCABULARY;

    fn grid(&self) -> (u32, u32) {
        (self.state.rows, 1)
    }

    fn args(&self) -> Vec<Arg> {
        let state = self.state;
        vec![
            self.logits.into(),
            self.source.into(),
            self.vocabulary.into(),
            self.inverse_temperature.into(),
            self.greedy.into(),
            state.max_new_tokens.into(),
            state.produced.into(),
            state.status.into(),
            state.limits.into(),
            state.next.into(),
            state.uniforms.into(),
            state.tokens.into(),
            state.logps.into(),
            state.entropies.into(),
            state.eos.into(),
            state.eos_len.into(),
        ]
    }
}

/// After a step of decoding: `lengths[row] += 1` for the active rows, whose token was read, and `active` becomes how many they are.
///
/// Launched before [`Sample`] of that step, so that a row which ends keeps its length and `active` is one step old at most.
#[derive(Clone, Copy, Debug)]
pub struct Advance {
    /// The rows.
    pub state: SampleState,
}

impl Kernel for Advance {
    const NAME: &'static str = "advance";
    const BLOCK: u32 = ROW;

    fn grid(&self) -> (u32, u32) {
        (1, 1)
    }

    fn args(&self) -> Vec<Arg> {
        let state = self.state;
        vec![state.rows.into(), state.lengths.into(), state.status.read().into(), state.active.into()]
    }
}
