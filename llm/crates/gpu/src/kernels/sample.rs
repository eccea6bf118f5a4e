//! Sampling tokens.

use super::launch::Kernel;
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
    /// Tokens in the cache, prompt and response: see [`Sample::advance`].
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
}

/// Draws the next token of every active row from `softmax(logits / temperature)`, by inversion of the cumulative sum in id order at
/// `uniforms[row][produced]`. Tokens may be cut off as [`grpo_lambda_decoder::truncation::Truncation`] says; what is left is renormalised.
///
/// Writes token, log-probability (at `inverse_temperature`) and entropy (before anything is cut off), and updates `produced`, `next` and `status`; a row without a
/// distribution gets a status and no token. The same token as [`grpo_lambda_decoder::rng::categorical`] draws from the log-probabilities, where
/// no sum's rounding decides.
#[derive(Clone, Copy, Debug)]
pub struct Sample {
    /// `[rows, vocabulary]`; with `source`, as many rows as it names.
    pub logits: Ptr<f32>,
    /// `[rows]`: the row of logits that each row draws from, where that is not its own; [`Sample::NO_LINE`] where it draws nothing.
    pub source: Option<Ptr<u32>>,
    /// Elements of a row of logits.
    pub vocabulary: u32,
    /// `1 / temperature`.
    pub inverse_temperature: f32,
    /// Whether the largest logit is taken, the first of equals, instead of a draw.
    pub greedy: bool,
    /// Whether the row's last token was read since it was drawn: `lengths` of an active row is then raised by one.
    pub advance: bool,
    /// No end token is drawn before so many tokens.
    pub min_new_tokens: u32,
    /// How many of the likeliest tokens may be drawn, at least 1; none for all.
    pub top_k: Option<u32>,
    /// `[1]`: what the probabilities of the fewest likeliest of these must reach; none for all.
    pub top_p: Option<Ptr<f64>>,
    /// The rows.
    pub state: SampleState,
}

impl Sample {
    /// The source of a row that draws nothing and stays as it is.
    pub const NO_LINE: u32 = u32::MAX;
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
            self.advance.into(),
            self.min_new_tokens.into(),
            self.top_k.unwrap_or(self.vocabulary).into(),
            self.top_p.into(),
            state.max_new_tokens.into(),
            state.lengths.into(),
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

    fn bytes(&self) -> f64 {
        self.logits.bytes(self.state.rows as usize * self.vocabulary as usize)
    }
}
