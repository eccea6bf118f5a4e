//! Stop strings: texts of a template that end a response, beside end tokens and the length limit, wherever responses are sampled.
//!
//! A stop string belongs to the response, as in TRL and verl, and the token that completes it is the response's last: it has a log-probability,
//! is trained on and counts in the length, and no end token follows it. Such a response is complete, not truncated. The graded text ends with the
//! stop string, even if the last token goes on.

use grpo_lambda_decoder::generate::CompletionTest;

use super::tokens::{ModelTokenizer, TokenError};

/// Extra tokens decoded before a stop string, since a character may be split over several byte tokens.
const STOP_STRING_SLACK: usize = 8;

/// The stop strings of a template, with the tokenizer that spells them.
#[derive(Clone, Copy, Debug)]
pub struct Stops<'a> {
    pub tokens: &'a ModelTokenizer,
    pub texts: &'a [String],
    /// The fewest tokens of a complete response.
    pub at_least: usize,
}

impl<'a> Stops<'a> {
    pub fn new(tokens: &'a ModelTokenizer, texts: &'a [String]) -> Self {
        Stops { tokens, texts, at_least: 0 }
    }

    /// The test that ends a response; `None` without a stop string.
    pub fn test(&self) -> Option<&dyn CompletionTest> {
        if self.texts.is_empty() { None } else { Some(self) }
    }

    /// The text of a response, up to its first stop string and with it.
    ///
    /// # Errors
    /// If the tokens cannot be decoded.
    pub fn text(&self, ids: &[u32]) -> Result<String, TokenError> {
        let mut text = self.tokens.text(ids)?;
        let ends = self.texts.iter().filter_map(|stop| Some(text.find(stop.as_str())? + stop.len()));
        if let Some(end) = ends.min() {
            text.truncate(end);
        }
        Ok(text)
    }
}

impl CompletionTest for Stops<'_> {
    /// True if the last tokens hold a stop string.
    fn is_complete(&self, tokens: &[u32]) -> bool {
        if tokens.len() < self.at_least {
            return false;
        }
        let longest = self.texts.iter().map(String::len).max().unwrap_or(0);
        let tail = &tokens[tokens.len().saturating_sub(longest + STOP_STRING_SLACK)..];
        // A decoding error is reported with the whole response.
        self.tokens.text(tail).is_ok_and(|text| self.texts.iter().any(|stop| text.contains(stop.as_str())))
    }
}
