//! A batch of rows of different lengths, laid end to end: no padding, hence no masks.
//!
//! Rows may continue a prefix that they share, as the responses of a group continue their prompt. A prefix is computed once. A row's numbers
//! are the same if its first tokens are its own.

use super::config::ModelConfig;
use super::error::{Error, Result};

/// Rows of tokens, packed, with the part of each row that is to be scored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rows {
    tokens: Vec<u32>,
    offsets: Vec<usize>,
    scored_from: Vec<usize>,
    prefixes: Vec<Vec<u32>>,
    /// The prefix of every row.
    prefix: Vec<Option<usize>>,
    /// True if the next rows continue the last prefix.
    shares: bool,
}

impl Default for Rows {
    fn default() -> Self {
        Self::new()
    }
}

impl Rows {
    /// No rows.
    pub fn new() -> Self {
        Self {
            tokens: Vec::new(),
            offsets: vec![0],
            scored_from: Vec::new(),
            prefixes: Vec::new(),
            prefix: Vec::new(),
            shares: false,
        }
    }

    /// Adds a row of which tokens `scored_from..` are scored, each given all tokens before it: a prompt of that length and its
    /// response. The first token has nothing before it, so `scored_from` is at least 1; a row's length scores nothing.
    pub fn push(&mut self, tokens: &[u32], scored_from: usize) {
        self.tokens.extend_from_slice(tokens);
        self.offsets.push(self.tokens.len());
        self.scored_from.push(scored_from);
        self.prefix.push(self.shares.then(|| self.prefixes.len() - 1));
    }

    /// Makes rows that are added before the next call continue `prefix`: they see its tokens before their own. An empty prefix is none. Tokens
    /// of a prefix predict nothing that is scored: the last token of a prompt is the first of each response's row.
    pub fn share(&mut self, prefix: &[u32]) {
        self.shares = !prefix.is_empty();
        if self.shares {
            self.prefixes.push(prefix.to_vec());
        }
    }

    /// The prefixes, in the order in which rows continue them.
    pub fn prefixes(&self) -> &[Vec<u32>] {
        &self.prefixes
    }

    /// The prefix that row `i` continues, an index into [`Rows::prefixes`].
    pub fn prefix(&self, i: usize) -> Option<usize> {
        self.prefix[i]
    }

    /// Tokens that row `i` sees before its own.
    pub fn before(&self, i: usize) -> usize {
        self.prefix[i].map_or(0, |p| self.prefixes[p].len())
    }

    /// Tokens that are computed: those of the rows, and of every prefix once.
    pub fn computed(&self) -> usize {
        self.tokens.len() + self.prefixes.iter().map(Vec::len).sum::<usize>()
    }

    /// Number of rows.
    pub fn len(&self) -> usize {
        self.scored_from.len()
    }

    /// True without rows.
    pub fn is_empty(&self) -> bool {
        self.scored_from.is_empty()
    }

    /// Pairs of a token and one that it sees, itself included; the work of attention is proportional to them.
    pub fn pairs(&self) -> f64 {
        let segment = |before: usize, len: usize| len as f64 * (before as f64 + (len + 1) as f64 / 2.0);
        let own = (0..self.len()).map(|i| segment(self.before(i), self.offsets[i + 1] - self.offsets[i]));
        own.chain(self.prefixes.iter().map(|p| segment(0, p.len()))).sum()
    }

    /// All tokens of the rows' own, row after row.
    pub fn tokens(&self) -> &[u32] {
        &self.tokens
    }

    /// Starts of the rows in [`Rows::tokens`], and the end of the last.
    pub fn offsets(&self) -> &[usize] {
        &self.offsets
    }

    /// Scored tokens of row `i`.
    pub fn scored(&self, i: usize) -> usize {
        self.offsets[i + 1] - self.offsets[i] - self.scored_from[i]
    }

    /// The slopes of all scored tokens, row after row.
    ///
    /// # Panics
    /// If there is not one for every scored token.
    pub fn flat_slopes<'a>(&self, slopes: &'a [Vec<f64>]) -> impl Iterator<Item = f64> + use<'a> {
        assert_eq!(slopes.len(), self.len(), "rows of slopes");
        for (i, d) in slopes.iter().enumerate() {
            assert_eq!(d.len(), self.scored(i), "scored tokens of row {i}");
        }
        slopes.iter().flatten().copied()
    }

    /// Position of every token in its row, its prefix included.
    pub fn positions(&self) -> Vec<u32> {
        let positions = |(i, pair): (usize, &[usize])| {
            let before = self.before(i) as u32;
            before..before + (pair[1] - pair[0]) as u32
        };
        self.offsets.windows(2).enumerate().flat_map(positions).collect()
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
    pub fn check(&self, config: &ModelConfig) -> Result<()> {
        for (row, pair) in self.offsets.windows(2).enumerate() {
            check_tokens(row, &self.tokens[pair[0]..pair[1]], config)?;
            self.check_prefix(row, pair[1] - pair[0], config)?;
            let (from, len) = (self.scored_from[row], pair[1] - pair[0]);
            if from == 0 || from > len {
                let reason = format!("scoring starts at token {from}, which must lie in 1..={len}");
                return Err(Error::Input { row, reason });
            }
        }
        Ok(())
    }

    /// Refuses a row of `own` tokens whose prefix the model cannot take, or which is too long with it.
    fn check_prefix(&self, row: usize, own: usize, config: &ModelConfig) -> Result<()> {
        let Some(prefix) = self.prefix[row].map(|p| &self.prefixes[p]) else { return Ok(()) };
        check_tokens(row, prefix, config)?;
        let (len, longest) = (prefix.len() + own, config.max_position_embeddings);
        if len > longest {
            let reason = format!(
                "{len} tokens with its prefix; 1 to max_position_embeddings = {longest} are possible"
            );
            return Err(Error::Input { row, reason });
        }
        Ok(())
    }
}

/// Refuses a row that is empty, too long, or has a token outside the vocabulary.
pub fn check_tokens(row: usize, tokens: &[u32], config: &ModelConfig) -> Result<()> {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Architecture::Qwen2, ModelShape};

    #[test]
    fn rows_continue_the_prefix_that_was_opened_last_and_positions_count_it() {
        let mut rows = Rows::new();
        rows.push(&[1, 2], 1);
        rows.share(&[7, 8, 9]);
        rows.push(&[3, 4], 1);
        rows.push(&[5], 1);
        rows.share(&[6]);
        rows.push(&[1, 1], 1);
        rows.share(&[]);
        rows.push(&[2], 1);
        assert_eq!(
            (0..5).map(|i| rows.prefix(i)).collect::<Vec<_>>(),
            [None, Some(0), Some(0), Some(1), None]
        );
        assert_eq!(rows.prefixes(), [vec![7, 8, 9], vec![6]]);
        assert_eq!(rows.positions(), [0, 1, 3, 4, 3, 1, 2, 0]);
        assert_eq!((rows.tokens().len(), rows.computed()), (8, 12));
        // 1 + 2, 4 + 5, 4, 2 + 3, 1; of the prefixes 1 + 2 + 3 and 1.
        assert_eq!(rows.pairs(), 29.0);
    }

    #[test]
    fn a_prefix_that_the_model_cannot_take_is_refused_with_its_row() {
        let config = ModelConfig {
            max_position_embeddings: 4,
            ..Qwen2.config(ModelShape { vocab: 37, hidden: 24, layers: 2, heads: 6, kv_heads: 2 })
        };
        for (prefix, own, part) in [
            (&[1, 2, 3][..], &[4, 5][..], "5 tokens with its prefix"),
            (&[40], &[1], "token 40 at 0 is outside the vocabulary of 37"),
        ] {
            let mut rows = Rows::new();
            rows.push(&[1], 1);
            rows.share(prefix);
            rows.push(own, 1);
            let line = rows.check(&config).expect_err("refused").to_string();
            assert!(line.contains("row 1") && line.contains(part), "{line}");
        }
    }
}
