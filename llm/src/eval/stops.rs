//! Texts that end a response, beside the end tokens; such a text belongs to the response.

use crate::input::tokens::ModelTokenizer;

/// Extra tokens that are decoded before a stop string: a character may be split over several byte tokens, and a part of one would spoil the
/// text.
const STOP_STRING_SLACK: usize = 8;

/// The stop strings of a template, with the tokenizer that spells them.
#[derive(Clone, Copy, Debug)]
pub struct Stops<'a> {
    pub tokens: &'a ModelTokenizer,
    pub texts: &'a [String],
}

impl Stops<'_> {
    /// Whether the end of these tokens holds a stop string.
    pub fn reached(&self, tokens: &[u32]) -> bool {
        let longest = self.texts.iter().map(String::len).max().unwrap_or(0);
        let tail = &tokens[tokens.len().saturating_sub(longest + STOP_STRING_SLACK)..];
        // A decoding error is reported with the whole response.
        self.tokens.text(tail).is_ok_and(|text| self.texts.iter().any(|stop| text.contains(stop.as_str())))
    }

    /// Leaves out what follows the first stop string.
    pub fn cut(&self, text: &mut String) {
        let ends = self.texts.iter().filter_map(|stop| Some(text.find(stop.as_str())? + stop.len()));
        if let Some(end) = ends.min() {
            text.truncate(end);
        }
    }
}
