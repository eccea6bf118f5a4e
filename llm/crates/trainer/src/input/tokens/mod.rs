//! Text to token ids and back.
//!
//! The text of a response is for graders and logs, and never becomes ids again, so every trained token was sampled.

use std::borrow::Borrow;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use grpo_lambda_decoder::disk::read_regular;
use grpo_lambda_decoder::model::config::known::{FieldUse, is_off};
use serde_json::value::RawValue;
use tokenizers::{ModelWrapper, Tokenizer};

use crate::bounded::limits::{self, LARGEST_FILE, TextLimits};
use crate::bounded::{self, Stopped};
use crate::input::prompt::RenderedPrompt;
use crate::input::tokenizer_config::{self, OLDER};

mod files;
pub mod known;

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
    /// A text that no context can hold.
    #[error(
        "a text of {bytes} bytes, which begins {text:?}: at most {longest} bytes are tokenised for this model's context; shorten it"
    )]
    TooLong { text: String, bytes: usize, longest: usize },
    #[error("cannot encode {text:?}: {problem}")]
    Encode { text: String, problem: String },
}

/// Token ids of a prompt or of a target response, encoded once.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct TextTokens(Vec<u32>);

impl TextTokens {
    /// A prompt given as ids, for a model with `vocab_size` embeddings.
    pub fn from_ids(ids: Vec<u32>, vocab_size: usize) -> Result<TextTokens, TokenError> {
        match ids.iter().find(|&&id| id as usize >= vocab_size) {
            Some(&id) => Err(TokenError::UnknownId { id, vocab_size }),
            None => Ok(TextTokens(ids)),
        }
    }

    pub fn ids(&self) -> &[u32] {
        &self.0
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
    /// Bounds on the work of a tokenizer from a file; the shipped one is trusted.
    pub limits: Option<TextLimits>,
    /// The tokenizer's files as they were read, for checkpoints.
    files: Vec<(String, Vec<u8>)>,
    /// Fields of the files that are passed over, in lines for people.
    notes: Vec<String>,
}

/// A tokenizer's files in a checkpoint directory, next to `tokenizer.json`.
const FILES: [&str; 5] =
    [tokenizer_config::FILE, "generation_config.json", OLDER[0], OLDER[1], "chat_template.jinja"];

impl ModelTokenizer {
    /// A tokenizer whose files are part of the program: the name and bytes of each, `tokenizer.json` first.
    ///
    /// # Panics
    /// When they are not a tokenizer with this end token: the files are part of the program and tested.
    pub(crate) fn embedded(files: Vec<(String, Vec<u8>)>, end: &str) -> ModelTokenizer {
        let (name, bytes) = &files[0];
        let tokenizer = parse(bytes).unwrap_or_else(|problem| panic!("{name} is shipped: {problem}"));
        let eos = tokenizer.token_to_id(end).expect("it has an end token");
        ModelTokenizer {
            tokenizer: Arc::new(tokenizer),
            eos: vec![eos],
            limits: None,
            files,
            notes: Vec::new(),
        }
    }

    /// The tokenizer of a Hugging Face checkpoint directory.
    ///
    /// The end tokens are `eos_token` of `tokenizer_config.json`, which is the one to train with, and `eos_token_id` (a number or a list) of
    /// `generation_config.json`, or else of `config.json`.
    ///
    /// The special tokens around a text are those of `tokenizer.json`, as in transformers 5.
    ///
    /// # Errors
    /// [`TokenError`] for a missing or unreadable file and when no end token is named.
    pub fn load(directory: &Path) -> Result<ModelTokenizer, TokenError> {
        let path = directory.join("tokenizer.json");
        let read = |source| TokenError::Read { path: path.clone(), source };
        let bytes = Arc::new(read_regular(&path, LARGEST_FILE).map_err(read)?);
        let theirs = bytes.clone();
        let parsed = bounded::run(limits::tokenizer_file(bytes.len()), move || parse(&theirs));
        let invalid = |problem: String| TokenError::Invalid {
            path: path.clone(),
            problem: format!("not a tokenizer: {problem}"),
        };
        let mut tokenizer = parsed.map_err(|e| invalid(e.to_string()))?.map_err(invalid)?;
        let mut notes = files::set_tokens(directory, &mut tokenizer)?;
        let eos = files::eos_ids(directory, &tokenizer)?;
        let (tokenizer, limits) = (Arc::new(tokenizer), TextLimits::for_context(files::context(directory)?));
        let mut files = vec![("tokenizer.json".to_owned(), Arc::unwrap_or_clone(bytes))];
        for name in FILES {
            let path = directory.join(name);
            match read_regular(&path, LARGEST_FILE) {
                Ok(bytes) => files.push((name.to_owned(), bytes)),
                Err(e) if e.kind() == std::io::ErrorKind::NotFound => {}
                Err(source) => return Err(TokenError::Read { path, source }),
            }
        }
        let mut tokens = ModelTokenizer { tokenizer, eos, limits: Some(limits), files, notes: Vec::new() };
        tokens.check_eos(tokens.len())?;
        notes.extend(files::contradiction(directory, tokens.around().map(|ids| !ids.is_empty()))?);
        tokens.notes = notes;
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

    /// Fields of the checkpoint's files that are passed over, in lines for people.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// A token's spelling.
    pub fn token(&self, id: u32) -> Option<String> {
        self.tokenizer.id_to_token(id)
    }

    /// The special tokens before and after a text.
    pub fn around(&self) -> [Vec<u32>; 2] {
        let ids = |special| self.encode("0", special).unwrap_or_default();
        let (plain, whole) = (ids(false), ids(true));
        let place = whole.windows(plain.len().max(1)).position(|part| part == plain).unwrap_or(0);
        [whole[..place].to_vec(), whole.get(place + plain.len()..).unwrap_or_default().to_vec()]
    }

    /// The fields of `generation_config.json` about sampling that ask for something, as in `top_p = 0.8`.
    pub fn sampling_fields(&self) -> Vec<String> {
        #[rustfmt::skip]
        const FIELDS: [&str; 12] = [
            "temperature", "top_k", "top_p", "min_p", "typical_p", "repetition_penalty", "no_repeat_ngram_size",
            "bad_words_ids", "suppress_tokens", "begin_suppress_tokens", "forced_eos_token_id", "max_new_tokens",
        ];
        let file = self.files.iter().find(|(name, _)| name == "generation_config.json");
        let json: serde_json::Value =
            file.and_then(|(_, bytes)| serde_json::from_slice(bytes).ok()).unwrap_or_default();
        let asks = |name: &&&str| !is_off(&json[**name]) && json[**name].as_f64() != Some(1.0);
        FIELDS.iter().filter(asks).map(|name| format!("{name} = {}", json[*name])).collect()
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

    /// Does `work` on `input` of so many bytes or ids, within the limits of a tokenizer from a file.
    fn within<I: ToOwned + ?Sized, T: Send + 'static>(
        &self,
        (input, length): (&I, usize),
        work: impl FnOnce(&Tokenizer, &I) -> tokenizers::Result<T> + Send + 'static,
    ) -> Result<T, String>
    where
        I::Owned: Send + 'static,
    {
        let done: Result<_, Stopped> = match &self.limits {
            None => bounded::run_here(|| work(&self.tokenizer, input)),
            Some(limits) => {
                let (tokenizer, owned) = (self.tokenizer.clone(), input.to_owned());
                bounded::run(limits.for_length(length), move || work(&tokenizer, owned.borrow()))
            }
        };
        done.map_err(|e| e.to_string())?.map_err(|e| e.to_string())
    }

    fn encode(&self, text: &str, add_special_tokens: bool) -> Result<Vec<u32>, TokenError> {
        let bytes = text.len();
        if let Some(longest) = self.limits.map(|l| l.longest).filter(|longest| bytes > *longest) {
            return Err(TokenError::TooLong { text: shown(text), bytes, longest });
        }
        let ids = self.within((text, bytes), move |tokenizer, text: &str| {
            Ok(tokenizer.encode(text, add_special_tokens)?.get_ids().to_vec())
        });
        ids.map_err(|problem| TokenError::Encode { text: shown(text), problem })
    }

    /// A prompt, with the special tokens that the tokenizer puts around a text (a leading BOS, for example).
    pub fn prompt(&self, text: &str) -> Result<TextTokens, TokenError> {
        self.encode(text, true).map(TextTokens)
    }

    /// A prompt that a template wrote; special tokens are put around it only where the template leaves that to the tokenizer.
    pub fn rendered(&self, prompt: &RenderedPrompt) -> Result<TextTokens, TokenError> {
        self.encode(&prompt.text, prompt.special_tokens).map(TextTokens)
    }

    /// A target response: the text's ids, then the end token.
    pub fn target(&self, text: &str) -> Result<TextTokens, TokenError> {
        let mut ids = self.encode(text, false)?;
        ids.push(self.eos[0]);
        Ok(TextTokens(ids))
    }

    /// The text of ids, without special tokens: for graders, logs and people.
    pub fn text(&self, ids: &[u32]) -> Result<String, TokenError> {
        let text = self.within((ids, ids.len()), |tokenizer, ids: &[u32]| tokenizer.decode(ids, true));
        text.map_err(|e| TokenError::Invalid {
            path: PathBuf::from("tokenizer.json"),
            problem: format!("cannot decode: {e}"),
        })
    }
}

/// The beginning of a text, for an error.
fn shown(text: &str) -> String {
    const MOST: usize = 200;
    match text.char_indices().nth(MOST) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text.to_owned(),
    }
}

fn parse(bytes: &[u8]) -> Result<Tokenizer, String> {
    if bytes.starts_with(b"version https://git-lfs") {
        return Err("a pointer of Git LFS; fetch the file with `git lfs pull`".to_owned());
    }
    let fields = || serde_json::from_slice::<BTreeMap<String, &RawValue>>(bytes);
    // The library names no field that it does not know.
    let unknown = || {
        fields().ok()?.into_keys().find_map(|name| match known::TOKENIZER_FIELDS.fate(&name) {
            FieldUse::Only(_, reason) => Some(format!("`{name}` is {reason}")),
            _ => None,
        })
    };
    let mut tokenizer =
        Tokenizer::from_bytes(bytes).map_err(|e| unknown().unwrap_or_else(|| e.to_string()))?;
    for (name, value) in fields().map_err(|e| e.to_string())? {
        if let FieldUse::Only(_, reason) = known::TOKENIZER_FIELDS.fate(&name)
            && !["null", "false", "[]", "{}"].contains(&value.get())
        {
            return Err(format!("`{name}` is {reason}"));
        }
    }
    if let ModelWrapper::BPE(model) = tokenizer.get_model()
        && let Some(dropout) = model.dropout.filter(|share| *share > 0.0)
    {
        return Err(format!(
            "model.dropout is {dropout}, with which a text has other tokens each time; set it to null"
        ));
    }
    // A file may ask for padding or truncation; both would silently change ids.
    tokenizer.with_padding(None);
    tokenizer.with_truncation(None).map_err(|e| e.to_string())?;
    Ok(tokenizer)
}
