//! A batch of rows of different lengths, laid end to end: no padding, hence no masks.

use super::config::Config;
use super::error::{Error, Result};

/// Rows of tokens, packed, with the part of each row that is to be scored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rows {
    tokens: Vec<u32>,
    offsets: Vec<usize>,
    scored_from: Vec<usize>,
}

impl Default for Rows {
    fn default() -> Self {
        Self::new()
    }
}

impl Rows {
    /// No rows.
    pub fn new() -> Self {
        Self { tokens: Vec::new(), offsets: vec![0], scored_from: Vec::new() }
    }

    /// Adds a row of which tokens `scored_from..` are scored, each given all tokens before it: a prompt of that length and its
    /// response. The first token has nothing before it, so `scored_from` is at least 1; a row's length scores nothing.
    pub fn push(&mut self, tokens: &[u32], scored_from: usize) {
        self.tokens.extend_from_slice(tokens);
        self.offsets.push(self.tokens.len());
        self.scored_from.push(scored_from);
    }

    /// How many rows.
    pub fn len(&self) -> usize {
        self.scored_from.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.scored_from.is_empty()
    }

    /// All tokens, row after row.
    pub fn tokens(&self) -> &[u32] {
        &self.tokens
    }

    /// Where each row begins in [`Rows::tokens`], and after the last where it ends.
    pub fn offsets(&self) -> &[usize] {
        &self.offsets
    }

    /// Scored tokens of row `i`.
    pub fn scored(&self, i: usize) -> usize {
        self.offsets[i + 1] - self.offsets[i] - self.scored_from[i]
    }

    /// Position of every token in its row.
    pub fn positions(&self) -> Vec<u32> {
        self.offsets.windows(2).flat_map(|pair| 0..(pair[1] - pair[0]) as u32).collect()
    }

    /// For every scored token: the place of the token before it, whose hidden state predicts it, and the token.
    pub fn targets(&self) -> (Vec<usize>, Vec<u32>) {
        let places =
            self.offsets.windows(2).zip(&self.scored_from).flat_map(|(pair, from)| pair[0] + from..pair[1]);
        places.map(|at| (at - 1, self.tokens[at])).unzip()
    }

    /// Refuses what `config` cannot take.
    ///
    /// # Errors
    /// Naming the row: when it is empty or too long, has a token outside the vocabulary, or scores its first token.
    pub fn check(&self, config: &Config) -> Result<()> {
        for (row, pair) in self.offsets.windows(2).enumerate() {
            check_tokens(row, &self.tokens[pair[0]..pair[1]], config)?;
            let (from, len) = (self.scored_from[row], pair[1] - pair[0]);
            if from == 0 || from > len {
                let reason = format!("scoring starts at token {from}, which must lie in 1..={len}");
                return Err(Error::Input { row, reason });
            }
        }
        Ok(())
    }
}

/// Refuses a row that is empty, too long, or has a token outside the vocabulary.
pub fn check_tokens(row: usize, tokens: &[u32], config: &Config) -> Result<()> {
    let fail = |reason: String| Err(Error::Input { row, reason });
    let longest = config.max_position_embeddings;
    if tokens.is_empty() || tokens.len() > longest {
        return fail(format!(
            "{} tokens; 1 to max_position_embeddings = {longest} are possible",
            tokens.len()
        ));
    }
    match tokens.iter().position(|&t| t as usize >= config.vocab_size) {
        Some(i) => {
            fail(format!("token {} at {i} is outside the vocabulary of {}", tokens[i], config.vocab_size))
        }
        None => Ok(()),
    }
}
