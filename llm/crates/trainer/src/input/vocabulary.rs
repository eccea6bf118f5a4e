//! The tokenizer of the `tiny` preset, which lies in `llm/presets/tiny`.
//!
//! A digit, a sign or a line break is a token; so is every word of the embedded task, together with the blank before it. Any other
//! printable ASCII text falls apart into single characters, so nothing but text beyond ASCII is unknown, and decoding
//! gives back exactly what was encoded.

use crate::input::tokens::{EOS, ModelTokenizer};

/// Its `tokenizer.json`, in the format of the tokenizers library: byte-pair encoding without merges.
pub const TINY: &str = include_str!("../../../../presets/tiny/tokenizer.json");

/// Its `tokenizer_config.json`, so that other tools load it with its special tokens.
const TINY_CONFIG: &str = include_str!("../../../../presets/tiny/tokenizer_config.json");

impl ModelTokenizer {
    /// The tokenizer of the `tiny` preset: one token per digit and sign, one per word of the embedded task.
    pub fn tiny() -> ModelTokenizer {
        let files = [("tokenizer.json", TINY), ("tokenizer_config.json", TINY_CONFIG)];
        ModelTokenizer::embedded(files.map(|(name, text)| (name.to_owned(), text.into())).into(), EOS)
    }
}
