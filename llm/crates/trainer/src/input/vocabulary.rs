//! The vocabulary of the embedded task, and `tokenizer.json` made from it.
//!
//! A digit, a sign or a line break is a token; so is every word of the task, together with the blank before it. Any other
//! printable ASCII text falls apart into single characters, so nothing but text beyond ASCII is unknown, and decoding
//! gives back exactly what was encoded.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use crate::input::task::{Level, Split, Task};
use crate::input::tokens::{EOS, ModelTokenizer, PAD, UNKNOWN};

/// `tokenizer.json` of the `tiny` preset.
pub const TINY: &str = include_str!("../../../../presets/tiny/tokenizer.json");

impl ModelTokenizer {
    /// The tokenizer of the `tiny` preset: one token per digit and sign, one per word of the embedded task.
    pub fn tiny() -> ModelTokenizer {
        let files = [("tokenizer.json", TINY.to_owned()), ("tokenizer_config.json", tokenizer_config_json())];
        ModelTokenizer::embedded(files.map(|(name, text)| (name.to_owned(), text.into_bytes())).into(), EOS)
    }
}

/// The pieces into which text is cut: words with the blank before them, commands like `\boxed`, single characters.
const PIECES: &str = r" ?[A-Za-z]+|\\[a-z]+|[\s\S]";

/// The pieces of a text, as `PIECES` cuts it.
pub fn pieces(text: &str) -> Vec<&str> {
    let mut out = Vec::new();
    let mut rest = text;
    while !rest.is_empty() {
        let letters = |from: usize| rest[from..].bytes().take_while(u8::is_ascii_alphabetic).count();
        let lower = |from: usize| rest[from..].bytes().take_while(u8::is_ascii_lowercase).count();
        let length = match rest.as_bytes()[0] {
            b' ' if letters(1) > 0 => 1 + letters(1),
            b'\\' if lower(1) > 0 => 1 + lower(1),
            c if c.is_ascii_alphabetic() => letters(0),
            _ => rest.chars().next().map_or(1, char::len_utf8),
        };
        let (piece, tail) = rest.split_at(length);
        out.push(piece);
        rest = tail;
    }
    out
}

/// Every token in id order: the special ones, the characters, the words of the task.
pub fn tokens() -> Vec<String> {
    let mut words = BTreeSet::new();
    let mut learn = |text: &str| {
        words.extend(pieces(text).into_iter().filter(|p| p.len() > 1).map(str::to_owned));
    };
    for steps in 1..=Level::MAX_STEPS {
        let task = Task::Stories(vec![Level { steps, max_operand: 99 }]);
        for index in 0..3_000 {
            let problem = task.problem(0, Split::Train, index);
            learn(&problem.prompt);
            learn(&problem.solution);
        }
    }
    let special = [PAD, EOS, UNKNOWN].map(str::to_owned);
    let characters = std::iter::once('\n').chain(' '..='~').map(String::from);
    special.into_iter().chain(characters).chain(words).collect()
}

/// `tokenizer.json` in the format of the tokenizers library.
pub fn tokenizer_json() -> String {
    let vocab: Map<String, Value> = tokens().into_iter().enumerate().map(|(id, t)| (t, json!(id))).collect();
    let special = |id: usize, content: &str| {
        json!({"id": id, "content": content, "single_word": false, "lstrip": false, "rstrip": false,
               "normalized": false, "special": true})
    };
    let file = json!({
        "version": "1.0",
        "truncation": null,
        "padding": null,
        "added_tokens": [special(0, PAD), special(1, EOS), special(2, UNKNOWN)],
        "normalizer": null,
        "pre_tokenizer": {"type": "Split", "pattern": {"Regex": PIECES}, "behavior": "Isolated", "invert": false},
        "post_processor": null,
        "decoder": {"type": "Fuse"},
        // Byte-pair encoding without merges: a piece is one token if it is in the vocabulary, its characters otherwise.
        "model": {"type": "BPE", "dropout": null, "unk_token": UNKNOWN, "continuing_subword_prefix": null,
                  "end_of_word_suffix": null, "fuse_unk": false, "byte_fallback": false, "ignore_merges": true,
                  "vocab": vocab, "merges": []},
    });
    let mut text = serde_json::to_string_pretty(&file).expect("a JSON value can always be written");
    text.push('\n');
    text
}

/// `tokenizer_config.json`, so that other tools load the tokenizer with its special tokens.
pub fn tokenizer_config_json() -> String {
    let file = json!({
        "tokenizer_class": "PreTrainedTokenizerFast",
        "pad_token": PAD,
        "eos_token": EOS,
        "unk_token": UNKNOWN,
        "clean_up_tokenization_spaces": false,
        "model_max_length": 1024,
    });
    let mut text = serde_json::to_string_pretty(&file).expect("a JSON value can always be written");
    text.push('\n');
    text
}
