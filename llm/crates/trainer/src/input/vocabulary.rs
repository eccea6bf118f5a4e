//! The tokenizer of the embedded task.
//!
//! A digit, a sign or a line break is a token; so is every word of the task, together with the blank before it. Any other
//! printable ASCII text falls apart into single characters, so nothing but text beyond ASCII is unknown, and decoding
//! gives back exactly what was encoded.

use serde_json::json;

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

/// `tokenizer_config.json`, so that other tools load the tokenizer with its special tokens.
fn tokenizer_config_json() -> String {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::input::task::{Level, Split, Task};
    use proptest::prelude::*;

    #[test]
    fn every_problem_is_whole_words_round_trips_and_is_short() {
        let tokenizer = ModelTokenizer::tiny();
        let unknown = tokenizer.id(UNKNOWN).expect("a token");
        let letter =
            |id: u32| (3 + 1..3 + 1 + 95).contains(&id) && char::from((id - 4) as u8 + b' ').is_alphabetic();
        let (mut longest_prompt, mut longest_solution) = (0, 0);
        for steps in 1..=Level::MAX_STEPS {
            for max_operand in [3, 20, 99] {
                let task = Task::Stories(vec![Level { steps, max_operand }]);
                for split in Split::ALL {
                    for index in 0..400 {
                        let problem = task.problem(5, split, index);
                        let prompt = tokenizer.prompt(&problem.prompt).expect("encodes");
                        let target = tokenizer.target(&problem.solution).expect("encodes");
                        assert_eq!(tokenizer.text(prompt.ids()).expect("decodes"), problem.prompt);
                        assert_eq!(tokenizer.text(&target).expect("decodes"), problem.solution);
                        for &id in prompt.ids().iter().chain(&target) {
                            assert!(id != unknown && !letter(id), "token {id} in {problem:?}");
                        }
                        longest_prompt = longest_prompt.max(prompt.ids().len());
                        longest_solution = longest_solution.max(target.len());
                    }
                }
            }
        }
        assert!(longest_prompt <= 80 && longest_solution <= 60, "{longest_prompt} {longest_solution}");
        for index in 0..200 {
            let problem = Task::Addition.problem(5, Split::Train, index);
            let prompt = tokenizer.prompt(&problem.prompt).expect("encodes");
            assert_eq!(prompt.ids().len(), 6, "{}", problem.prompt);
            assert_eq!(tokenizer.text(prompt.ids()).expect("decodes"), problem.prompt);
        }
    }

    proptest! {
        #[test]
        fn ascii_text_round_trips(text in "[ -~\n]{0,60}") {
            prop_assume!(![PAD, EOS, UNKNOWN].iter().any(|s| text.contains(s)));
            let tokenizer = ModelTokenizer::tiny();
            let prompt = tokenizer.prompt(&text).expect("encodes");
            prop_assert_eq!(tokenizer.text(prompt.ids()).expect("decodes"), text.clone());
        }
    }
}
