//! Sampling tokens.

use super::launch::{Pass, kernel};
use super::log_prob::VOCABULARY;
use crate::ptr::{Arg, Ptr, PtrMut};

/// The state of a row: the numbers in [`SampleState::status`].
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
    pub uniforms: PtrMut<f64>,
    /// The probability of the tokens so far of a row that is decoded from a code, the number of its first token: until it is used up, what is
    /// left of the code is written over the number of the next ([`grpo_lambda::systematic::Code`]). 0 for a row that is not.
    pub codes: PtrMut<f64>,
    /// `[rows, max_new_tokens]`: tokens.
    pub tokens: PtrMut<u32>,
    /// `[rows, max_new_tokens]`: their log-probabilities.
    pub logps: PtrMut<f32>,
    /// `[rows, max_new_tokens]`: entropies of the distributions they were drawn from.
    pub entropies: PtrMut<f32>,
    /// `[eos_len]`: end tokens.
    pub eos: Ptr<u32>,
    /// The number of end tokens.
    pub eos_len: u32,
}

impl Pass for SampleState {
    fn pass(self, args: &mut Vec<Arg>) {
        let SampleState { rows, max_new_tokens, eos_len, .. } = self;
        let (each, cells) = (rows as usize, rows as usize * max_new_tokens as usize);
        let state = [
            max_new_tokens.into(),
            Arg::from(self.lengths).to_elements(each),
            Arg::from(self.produced).to_elements(each),
            Arg::from(self.status).to_elements(each),
            Arg::from(self.limits).to_elements(each),
            Arg::from(self.next).to_elements(each),
            self.uniforms.into(), // a greedy draw reads none
            Arg::from(self.codes).to_elements(each),
            Arg::from(self.tokens).to_elements(cells),
            Arg::from(self.logps).to_elements(cells),
            Arg::from(self.entropies).to_elements(cells),
            Arg::from(self.eos).to_elements(eos_len as usize),
            eos_len.into(),
        ];
        state.pass(args);
    }
}

kernel! {
    /// Draws the next token of every active row from `softmax(logits / temperature)`, by inversion of the cumulative sum in id order at
    /// `uniforms[row][produced]`. Tokens may be cut off as by [`grpo_lambda_decoder::truncation::Truncation`]; the others are renormalised.
    ///
    /// Writes token, log-probability (at `inverse_temperature`) and entropy (before anything is cut off), and updates `produced`, `next` and
    /// `status`; a row without a distribution gets a status and no token. Draws the token of [`grpo_lambda_decoder::distribution::Distribution`] from the
    /// log-probabilities, unless a sum's rounding decides.
    Sample "sample" {
        /// `[rows, vocabulary]`; with `source`, as many rows as it names.
        read logits: f32[..],
        /// The row of logits that each row draws from, if that is not its own; [`Sample::NO_LINE`] if it draws nothing.
        read source: u32[state.rows] or null,
        pass vocabulary: u32,
        pass inverse_temperature: f32,
        /// True to take the largest logit, the first of equals, instead of a draw.
        pass greedy: bool,
        /// True if the row's last token was read since it was drawn: `lengths` of an active row is then raised by one.
        pass advance: bool,
        /// No end token is drawn before so many tokens.
        pass min_new_tokens: u32,
        /// The likeliest tokens that may be drawn, at least 1; `None` for all.
        pass top_k: Option<u32> = top_k.unwrap_or(vocabulary),
        /// The probability that the fewest likeliest of these must reach; `None` for all.
        read top_p: f64[1] or null,
        pass state: SampleState,
    }
    threads VOCABULARY; grid (state.rows, 1);
    bytes logits[state.rows, vocabulary];
}

impl Sample {
    /// The source of a row that draws nothing and stays as it is.
    pub const NO_LINE: u32 = u32::MAX;
}
