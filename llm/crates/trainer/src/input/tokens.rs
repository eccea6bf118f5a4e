//! Text to token ids and back, with types that keep text from being tokenised twice.
//!
//! A [`Completion`] is made from sampled ids; its text is for graders and logs, and never becomes ids again, so every trained token was sampled.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use grpo_lambda_decoder::disk::read_regular;
use tokenizers::Tokenizer;

use crate::bounded::{self, Limits};
use crate::input::prompt::RenderedPrompt;

/// The reason why a tokenizer, or a text for it, was refused.
#[derive(Debug, thiserror::Error)]
pub enum TokenError {
    #[error("cannot read {path}: {source}")]
    Read { path: PathBuf, source: std::io::Error },
    #[error("{path}: {problem}")]
    Invalid { path: PathBuf, problem: String },
    /// The checkpoint directory does not say which token ends a response.
    #[error(
        "{path}: no end-of-sequence token: neither generation_config.json nor config.json has `eos_token_id`, \
         and tokenizer_config.json has no `eos_token`"
    )]
    NoEos { path: PathBuf },
    /// The tokenizer makes ids the model has no embedding for.
    #[error(
        "tokenizer and model do not fit: token `{token}` has id {id}, but the model's vocabulary ends at {}; \
         is tokenizer.json from another checkpoint?",
        vocab_size.saturating_sub(1)
    )]
    Vocabulary { token: String, id: u32, vocab_size: usize },
    /// An end-of-sequence id the tokenizer or model does not have.
    #[error("the end-of-sequence id {id} is not in a vocabulary of {vocab_size}")]
    EosOutside { id: u32, vocab_size: usize },
    #[error("id {id} is not in a vocabulary of {vocab_size}")]
    UnknownId { id: u32, vocab_size: usize },
    #[error("cannot encode {text:?}: {problem}")]
    Encode { text: String, problem: String },
}

/// Token ids of a prompt.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct PromptTokens(Vec<u32>);

impl PromptTokens {
    /// A prompt given as ids, for a model with `vocab_size` embeddings.
    ///
    /// # Errors
    /// [`TokenError::UnknownId`].
    pub fn from_ids(ids: Vec<u32>, vocab_size: usize) -> Result<PromptTokens, TokenError> {
        match ids.iter().find(|&&id| id as usize >= vocab_size) {
            Some(&id) => Err(TokenError::UnknownId { id, vocab_size }),
            None => Ok(PromptTokens(ids)),
        }
    }

    pub fn ids(&self) -> &[u32] {
        &self.0
    }
}

/// The end of a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FinishReason {
    /// With an end-of-sequence token, which is its last token.
    Eos,
    /// At the length limit.
    Length,
}

impl FinishReason {
    /// `eos` or `length`.
    pub fn name(self) -> &'static str {
        match self {
            FinishReason::Eos => "eos",
            FinishReason::Length => "length",
        }
    }
}

/// Token ids of a response, exactly as sampled (or, for supervised learning, as encoded once).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Completion {
    ids: Vec<u32>,
    finish: FinishReason,
}

impl Completion {
    /// All tokens, the end-of-sequence token included.
    pub fn ids(&self) -> &[u32] {
        &self.ids
    }

    pub fn finish(&self) -> FinishReason {
        self.finish
    }

    /// True if it was cut off.
    pub fn truncated(&self) -> bool {
        self.finish == FinishReason::Length
    }
}

/// Padding; never sampled for, never trained on.
pub const PAD: &str = "<pad>";
/// The end of a response.
pub const EOS: &str = "<eos>";
/// Anything beyond printable ASCII.
pub const UNKNOWN: &str = "<unk>";

/// A checkpoint's tokenizer with the ids that end a response.
#[derive(Clone, Debug)]
pub struct ModelTokenizer {
    tokenizer: Arc<Tokenizer>,
    eos: Vec<u32>,
    /// True if it may make long output from short input; its work is then done within limits, which costs a thread each time.
    swells: bool,
    /// The tokenizer's files as they were read, for checkpoints.
    files: Vec<(String, Vec<u8>)>,
}

/// A tokenizer's files in a checkpoint directory, beside `tokenizer.json`.
const FILES: [&str; 4] =
    ["tokenizer_config.json", "generation_config.json", "special_tokens_map.json", "chat_template.jinja"];

impl ModelTokenizer {
    /// A tokenizer whose files are part of the program: the name and bytes of each, `tokenizer.json` first.
    ///
    /// # Panics
    /// When they are not a tokenizer with this end token: the files are part of the program and tested.
    pub(crate) fn embedded(files: Vec<(String, Vec<u8>)>, end: &str) -> ModelTokenizer {
        let (name, bytes) = &files[0];
        let tokenizer =
            parse(Path::new(name), &Arc::new(bytes.clone())).expect("the shipped tokenizer is valid");
        let eos = tokenizer.token_to_id(end).expect("it has an end token");
        ModelTokenizer { tokenizer, eos: vec![eos], swells: false, files }
    }

    /// The tokenizer of a Hugging Face checkpoint directory.
    ///
    /// The end tokens are the first of: `eos_token_id` (a number or a list) of `generation_config.json`, of `config.json`, and `eos_token` of
    /// `tokenizer_config.json`.
    ///
    /// # Errors
    /// [`TokenError`] for a missing or unreadable file and when no end token is named.
    pub fn load(directory: &Path) -> Result<ModelTokenizer, TokenError> {
        let path = directory.join("tokenizer.json");
        let read = |source| TokenError::Read { path: path.clone(), source };
        let bytes = Arc::new(read_regular(&path, LARGEST_FILE).map_err(read)?);
        let tokenizer = parse(&path, &bytes)?;
        let (eos, swells) = (eos_ids(directory, &tokenizer)?, swells(&bytes));
        let mut files = vec![("tokenizer.json".to_owned(), Arc::unwrap_or_clone(bytes))];
        for name in FILES {
            let path = directory.join(name);
            match read_regular(&path, LARGEST_FILE) {
                Ok(bytes) => files.push((name.to_owned(), bytes)),
                Err(e) if e.kind() == std::io::ErrorKind::NotFound => {}
                Err(source) => return Err(TokenError::Read { path, source }),
            }
        }
        let tokens = ModelTokenizer { tokenizer, eos, swells, files };
        tokens.check_eos(tokens.len())?;
        Ok(tokens)
    }

    /// The tokenizer's files by name, as they were read: a checkpoint with them loads anywhere.
    pub fn files(&self) -> impl Iterator<Item = (&str, &[u8])> {
        self.files.iter().map(|(name, bytes)| (name.as_str(), bytes.as_slice()))
    }

    fn check_eos(&self, vocab_size: usize) -> Result<(), TokenError> {
        match self.eos.iter().find(|&&id| id as usize >= vocab_size) {
            Some(&id) => Err(TokenError::EosOutside { id, vocab_size }),
            None => Ok(()),
        }
    }

    /// One more than the largest id, added tokens included.
    pub fn len(&self) -> usize {
        self.largest().map_or(0, |(_, id)| id as usize + 1)
    }

    /// True without any token.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn largest(&self) -> Option<(String, u32)> {
        self.tokenizer.get_vocab(true).into_iter().max_by_key(|(_, id)| *id)
    }

    /// Refuses a model whose vocabulary is smaller than the tokenizer's. A larger one is fine: embeddings are often padded.
    ///
    /// # Errors
    /// [`TokenError::Vocabulary`], naming a token that would have no embedding.
    pub fn check(&self, vocab_size: usize) -> Result<(), TokenError> {
        match self.largest() {
            Some((token, id)) if id as usize >= vocab_size => {
                Err(TokenError::Vocabulary { token, id, vocab_size })
            }
            _ => self.check_eos(vocab_size),
        }
    }

    /// The ids that end a response, the one to train with first.
    pub fn eos(&self) -> &[u32] {
        &self.eos
    }

    /// The padding token of `tokenizer_config.json`, if the tokenizer has it.
    pub fn pad(&self) -> Option<u32> {
        let (_, bytes) = self.files.iter().find(|(name, _)| name == "tokenizer_config.json")?;
        let json: serde_json::Value = serde_json::from_slice(bytes).ok()?;
        self.id(json["pad_token"].as_str().or_else(|| json["pad_token"]["content"].as_str())?)
    }

    /// The id of a token by its exact spelling.
    pub fn id(&self, token: &str) -> Option<u32> {
        self.tokenizer.token_to_id(token)
    }

    fn encode(&self, text: &str, add_special_tokens: bool) -> Result<Vec<u32>, TokenError> {
        let encode = move |tokenizer: &Tokenizer, text: &str| {
            let encoding = tokenizer.encode(text, add_special_tokens).map_err(|e| e.to_string())?;
            Ok(encoding.get_ids().to_vec())
        };
        let ids = if self.swells {
            let (tokenizer, owned) = (self.tokenizer.clone(), text.to_owned());
            bounded::run(limits(text.len()), move || encode(&tokenizer, &owned))
        } else {
            bounded::run_here(|| encode(&self.tokenizer, text))
        };
        let refused = |problem| TokenError::Encode { text: shown(text), problem };
        ids.map_err(|e| refused(e.to_string()))?.map_err(refused)
    }

    /// A prompt, with the special tokens that the tokenizer puts around a text (a leading BOS, for example).
    ///
    /// # Errors
    /// [`TokenError::Encode`].
    pub fn prompt(&self, text: &str) -> Result<PromptTokens, TokenError> {
        self.encode(text, true).map(PromptTokens)
    }

    /// A prompt that a template wrote; special tokens are put around it only where the template leaves that to the tokenizer.
    ///
    /// # Errors
    /// [`TokenError::Encode`].
    pub fn rendered(&self, prompt: &RenderedPrompt) -> Result<PromptTokens, TokenError> {
        self.encode(&prompt.text, prompt.special_tokens).map(PromptTokens)
    }

    /// A target response: the text's ids, then the end token.
    ///
    /// # Errors
    /// [`TokenError::Encode`].
    pub fn target(&self, text: &str) -> Result<Completion, TokenError> {
        let mut ids = self.encode(text, false)?;
        ids.push(self.eos[0]);
        Ok(Completion { ids, finish: FinishReason::Eos })
    }

    /// A sampled response: ends at its first end token or was cut off.
    ///
    /// # Panics
    /// If an end token is not the last token, or there is no token.
    pub fn sampled(&self, ids: Vec<u32>) -> Completion {
        assert!(!ids.is_empty(), "a response has at least one token");
        let end = ids.iter().position(|id| self.eos.contains(id));
        assert!(end.is_none_or(|end| end + 1 == ids.len()), "tokens after the end token at {end:?}: {ids:?}");
        Completion { finish: if end.is_some() { FinishReason::Eos } else { FinishReason::Length }, ids }
    }

    /// The text of a response, without special tokens.
    ///
    /// # Errors
    /// The errors of [`ModelTokenizer::text`].
    pub fn completion_text(&self, completion: &Completion) -> Result<String, TokenError> {
        self.text(&completion.ids)
    }

    /// The text of ids, without special tokens: for graders, logs and people.
    ///
    /// # Errors
    /// [`TokenError::Invalid`] when the tokenizer's decoder fails.
    pub fn text(&self, ids: &[u32]) -> Result<String, TokenError> {
        let decode =
            |tokenizer: &Tokenizer, ids: &[u32]| tokenizer.decode(ids, true).map_err(|e| e.to_string());
        let text = if self.swells {
            let (tokenizer, owned) = (self.tokenizer.clone(), ids.to_vec());
            bounded::run(limits(ids.len()), move || decode(&tokenizer, &owned))
        } else {
            bounded::run_here(|| decode(&self.tokenizer, ids))
        };
        let refused = |e: String| TokenError::Invalid {
            path: PathBuf::from("tokenizer.json"),
            problem: format!("cannot decode: {e}"),
        };
        text.map_err(|e| refused(e.to_string()))?.map_err(refused)
    }
}

/// Larger than any published tokenizer; the largest have about 40 MB.
const LARGEST_FILE: u64 = 256 << 20;

/// Limits on encoding or decoding `length` characters or ids, of which a normaliser may make several.
fn limits(length: usize) -> Limits {
    let memory = (256 << 20) + length.saturating_mul(4096);
    Limits { memory, time: Some(Duration::from_secs(60)) }
}

/// True if the replacements in a `tokenizer.json`, applied in turn, can make a text more than 64 times as long. Every other part makes at most
/// a few tokens of a character.
fn swells(bytes: &[u8]) -> bool {
    const MOST: usize = 64;
    let Ok(json) = serde_json::from_slice::<serde_json::Value>(bytes) else { return true };
    let (mut factor, mut open) =
        (1usize, vec![&json["normalizer"], &json["pre_tokenizer"], &json["decoder"]]);
    while let Some(part) = open.pop() {
        match part {
            serde_json::Value::Object(fields) => {
                let texts = ["content", "prepend"].iter().filter_map(|name| fields.get(*name)?.as_str());
                texts.for_each(|text| factor = factor.saturating_mul(text.chars().count().max(1)));
                open.extend(fields.values());
            }
            serde_json::Value::Array(parts) => open.extend(parts),
            _ => {}
        }
    }
    factor > MOST
}

/// The beginning of a text, for an error.
fn shown(text: &str) -> String {
    const MOST: usize = 200;
    match text.char_indices().nth(MOST) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text.to_owned(),
    }
}

fn parse(path: &Path, bytes: &Arc<Vec<u8>>) -> Result<Arc<Tokenizer>, TokenError> {
    // A vocabulary takes about ten times its file.
    let memory = (256 << 20) + bytes.len().saturating_mul(64);
    let (bytes, limits) = (bytes.clone(), Limits { memory, time: Some(Duration::from_secs(300)) });
    let parsed = bounded::run(limits, move || {
        let mut tokenizer = Tokenizer::from_bytes(&*bytes).map_err(|e| e.to_string())?;
        // A file may ask for padding or truncation; both would silently change ids.
        tokenizer.with_padding(None);
        tokenizer.with_truncation(None).map_err(|e| e.to_string())?;
        Ok(Arc::new(tokenizer))
    });
    let refused = |problem: String| TokenError::Invalid {
        path: path.to_owned(),
        problem: format!("not a tokenizer: {problem}"),
    };
    parsed.map_err(|e| refused(e.to_string()))?.map_err(refused)
}

fn read_json(path: &Path) -> Result<Option<serde_json::Value>, TokenError> {
    match read_regular(path, LARGEST_FILE) {
        Ok(bytes) => serde_json::from_slice(&bytes).map(Some).map_err(|e| TokenError::Invalid {
            path: path.to_owned(),
            problem: format!("not a JSON configuration: {e}"),
        }),
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(source) => Err(TokenError::Read { path: path.to_owned(), source }),
    }
}

fn eos_ids(directory: &Path, tokenizer: &Tokenizer) -> Result<Vec<u32>, TokenError> {
    let invalid = |path: PathBuf, problem: String| TokenError::Invalid { path, problem };
    for name in ["generation_config.json", "config.json"] {
        let path = directory.join(name);
        let Some(json) = read_json(&path)? else { continue };
        let ids = match &json["eos_token_id"] {
            serde_json::Value::Null => continue,
            serde_json::Value::Array(list) => list.clone(),
            one => vec![one.clone()],
        };
        let number = |id: &serde_json::Value| id.as_u64().and_then(|id| u32::try_from(id).ok());
        let ids: Option<Vec<u32>> = ids.iter().map(number).collect();
        return match ids {
            Some(ids) if !ids.is_empty() => Ok(ids),
            _ => Err(invalid(
                path,
                format!("eos_token_id is {}, not an id or a list of ids", json["eos_token_id"]),
            )),
        };
    }
    let path = directory.join("tokenizer_config.json");
    if let Some(json) = read_json(&path)? {
        let token = json["eos_token"].as_str().or_else(|| json["eos_token"]["content"].as_str());
        if let Some(token) = token {
            let id = tokenizer.token_to_id(token).ok_or_else(|| {
                invalid(path, format!("eos_token `{token}` is not a token of tokenizer.json"))
            })?;
            return Ok(vec![id]);
        }
    }
    Err(TokenError::NoEos { path: directory.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::input::vocabulary::TINY;

    fn directory(files: &[(&str, &str)]) -> tempfile::TempDir {
        let dir = tempfile::tempdir().expect("a temporary directory");
        for (name, text) in files {
            std::fs::write(dir.path().join(name), text).expect("writing");
        }
        dir
    }

    #[test]
    fn ends_are_read_from_the_first_file_that_names_them() {
        let two = r#"{"eos_token_id": [1, 2]}"#;
        let one = r#"{"eos_token_id": 2}"#;
        let named = r#"{"eos_token": {"content": "<eos>"}}"#;
        let all = [("tokenizer.json", TINY), ("generation_config.json", two), ("config.json", one)];
        let eos =
            |files: &[(&str, &str)]| ModelTokenizer::load(directory(files).path()).map(|t| t.eos().to_vec());
        assert_eq!(eos(&all).expect("a list"), [1, 2]);
        assert_eq!(eos(&[all[0], all[2]]).expect("a number"), [2]);
        assert_eq!(
            eos(&[all[0], ("config.json", "{}"), ("tokenizer_config.json", named)]).expect("a name"),
            [1]
        );
    }

    #[test]
    fn texts_that_are_put_in_the_place_of_others_swell_together() {
        let replace = |n: usize| serde_json::json!({"type": "Replace", "content": "x".repeat(n)});
        let swells = |normalizers: &[serde_json::Value], decoder: serde_json::Value| {
            let json = serde_json::json!({"normalizer": {"normalizers": normalizers}, "decoder": decoder});
            super::swells(json.to_string().as_bytes())
        };
        assert!(!super::swells(TINY.as_bytes()));
        assert!(!swells(&[replace(8), replace(8)], serde_json::Value::Null));
        assert!(swells(&[replace(8), replace(8)], replace(2)));
        assert!(swells(&[replace(0), replace(65)], serde_json::Value::Null));
        assert!(swells(&[serde_json::json!({"type": "Prepend", "prepend": "x".repeat(100)})], replace(1)));
        assert!(super::swells(b"{"));
    }

    #[test]
    fn the_padding_token_is_the_configured_one() {
        assert_eq!(ModelTokenizer::tiny().pad(), ModelTokenizer::tiny().id(PAD));
        let pad = |config: &str| {
            let eos = r#"{"eos_token_id": 1}"#;
            let files = [("tokenizer.json", TINY), ("config.json", eos), ("tokenizer_config.json", config)];
            ModelTokenizer::load(directory(&files).path()).expect("complete").pad()
        };
        assert_eq!(pad(r#"{"pad_token": {"content": "<unk>"}}"#), Some(2));
        assert_eq!([pad("{}"), pad(r#"{"pad_token": "</s>"}"#), pad(r#"{"pad_token": null}"#)], [None; 3]);
    }

    #[test]
    fn bad_directories_are_refused_with_the_file_and_the_reason() {
        let refused = |files: &[(&str, &str)]| {
            ModelTokenizer::load(directory(files).path()).expect_err("must be refused").to_string()
        };
        assert!(refused(&[]).contains("tokenizer.json"));
        assert!(refused(&[("tokenizer.json", "{")]).contains("not a tokenizer"));
        assert!(refused(&[("tokenizer.json", TINY)]).contains("no end-of-sequence token"));
        let bad = [("tokenizer.json", TINY), ("config.json", r#"{"eos_token_id": "x"}"#)];
        assert!(refused(&bad).contains("config.json: eos_token_id is \"x\""));
        let far = [("tokenizer.json", TINY), ("config.json", r#"{"eos_token_id": 90000}"#)];
        assert!(refused(&far).contains("90000 is not in a vocabulary"));
        let odd = [("tokenizer.json", TINY), ("tokenizer_config.json", r#"{"eos_token": "</s>"}"#)];
        assert!(refused(&odd).contains("`</s>` is not a token"));
    }

    #[test]
    fn a_model_with_too_few_embeddings_is_refused_by_token() {
        let tokens = ModelTokenizer::tiny();
        assert!(tokens.check(tokens.len()).is_ok() && tokens.check(tokens.len() + 100).is_ok());
        let error = tokens.check(tokens.len() - 1).expect_err("one embedding is missing").to_string();
        assert!(error.contains(&format!("has id {}", tokens.len() - 1)), "{error}");
    }

    #[test]
    fn completions_keep_their_ids_and_say_how_they_ended() {
        let tokens = ModelTokenizer::tiny();
        let target = tokens.target("3*4=12\n\\boxed{12}").expect("plain text");
        assert_eq!(*target.ids().last().expect("tokens"), tokens.eos()[0]);
        assert_eq!(tokens.completion_text(&target).expect("decodes"), "3*4=12\n\\boxed{12}");
        assert_eq!(tokens.sampled(target.ids().to_vec()), target);
        let cut = tokens.sampled(target.ids()[..3].to_vec());
        assert_eq!((cut.finish(), cut.truncated()), (FinishReason::Length, true));
    }

    #[test]
    #[should_panic(expected = "tokens after the end token")]
    fn nothing_follows_the_end_token() {
        let tokens = ModelTokenizer::tiny();
        tokens.sampled(vec![5, tokens.eos()[0], 5]);
    }
}
