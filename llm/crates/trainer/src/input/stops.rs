//! Stop strings: texts of a template that end a response, besides end tokens and the length limit, wherever responses are sampled.
//!
//! A stop string belongs to the response, as in TRL and verl, and the token that completes it is the response's last: it has a log-probability,
//! is trained on and counts in the length, and no end token follows it. Such a response is complete, not truncated. The graded text ends with the
//! stop string, even if the last token goes on.

use grpo_lambda_decoder::generate::CompletionTest;

use super::tokens::{ModelTokenizer, TokenError};

/// Extra tokens decoded before a stop string, since a character may be split over several byte tokens.
const STOP_STRING_SLACK: usize = 8;

/// The stop strings of a template, with the tokenizer that spells them.
#[derive(Clone, Debug)]
pub struct Stops {
    pub tokens: ModelTokenizer,
    pub texts: Vec<String>,
    /// The first tokens of a response, in which a stop string is passed over.
    pub passed_over: usize,
}

impl Stops {
    pub fn new(tokens: &ModelTokenizer, texts: &[String]) -> Self {
        Stops { tokens: tokens.clone(), texts: texts.to_vec(), passed_over: 0 }
    }

    /// The test that ends a response; `None` without a stop string.
    pub fn test(&self) -> Option<&dyn CompletionTest> {
        if self.texts.is_empty() { None } else { Some(self) }
    }

    /// The text of a response, up to its first stop string and with it.
    pub fn text(&self, ids: &[u32]) -> Result<String, TokenError> {
        let mut text = self.tokens.text(ids)?;
        if let Some((start, stop)) = self.first(ids, &text)? {
            text.truncate(start + stop.len());
        }
        Ok(text)
    }

    /// The stop string that ends first in the text of some tokens, and where it starts.
    pub fn first(&self, ids: &[u32], text: &str) -> Result<Option<(usize, &str)>, TokenError> {
        self.first_after(self.passed_over, ids, text)
    }

    fn first_after(&self, n: usize, ids: &[u32], text: &str) -> Result<Option<(usize, &str)>, TokenError> {
        let passed = self.tokens.text(&ids[..n.min(ids.len())])?.len();
        Ok(first_beyond(&self.texts, text, passed))
    }
}

/// The stop string that ends first beyond `passed` bytes of a text, and where it starts.
pub fn first_beyond<'a>(stops: &'a [String], text: &str, passed: usize) -> Option<(usize, &'a str)> {
    let found = stops.iter().filter_map(|stop| {
        let from = text.ceil_char_boundary((passed + 1).saturating_sub(stop.len()));
        Some((from + text[from..].find(stop.as_str())?, stop.as_str()))
    });
    found.min_by_key(|(start, stop)| (start + stop.len(), *start))
}

impl CompletionTest for Stops {
    /// True if the last tokens hold a stop string.
    fn is_complete(&self, tokens: &[u32]) -> bool {
        if tokens.len() <= self.passed_over {
            return false;
        }
        let longest = self.texts.iter().map(String::len).max().unwrap_or(0);
        let start = tokens.len().saturating_sub(longest + STOP_STRING_SLACK);
        let (tokens, passed_over) = (&tokens[start..], self.passed_over.saturating_sub(start));
        let found = |text: String| Ok(self.first_after(passed_over, tokens, &text)?.is_some());
        // A decoding error is reported with the whole response.
        self.tokens.text(tokens).and_then(found).unwrap_or(false)
    }
}
