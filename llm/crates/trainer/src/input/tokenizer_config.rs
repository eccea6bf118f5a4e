//! `tokenizer_config.json`, with the files that transformers reads in addition to one that lists no tokens.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use grpo_lambda_decoder::disk::read_regular;
use serde_json::{Map, Value};

use crate::bounded::limits::LARGEST_FILE;

/// The file's name.
pub const FILE: &str = "tokenizer_config.json";
/// The files that name special tokens, and tokens, where that one has no `added_tokens_decoder`.
pub const OLDER: [&str; 2] = ["special_tokens_map.json", "added_tokens.json"];

/// The settings of a tokenizer.
#[derive(Debug, Default)]
pub struct TokenizerConfig {
    pub fields: Map<String, Value>,
    /// Tokens of `added_tokens.json`.
    pub added: Vec<String>,
}

/// A file that cannot be used.
#[derive(Debug)]
pub struct Unusable {
    pub path: PathBuf,
    pub problem: String,
}

impl TokenizerConfig {
    /// The settings in a checkpoint directory; `None` where none of the files is there.
    pub fn read(directory: &Path) -> Result<Option<TokenizerConfig>, Unusable> {
        let own = object(&directory.join(FILE))?;
        let is_listed = own.as_ref().is_some_and(|own| own.contains_key("added_tokens_decoder"));
        let [special, added] = OLDER.map(|name| match is_listed {
            true => Ok(None),
            false => object(&directory.join(name)),
        });
        let (special, added) = (special?, added?);
        if own.is_none() && special.is_none() && added.is_none() {
            return Ok(None);
        }
        let mut fields = own.unwrap_or_default();
        fields.extend(special.unwrap_or_default().into_iter().map(|(name, value)| match value {
            Value::Object(mut token) if name != EXTRA => {
                token.insert(TYPE.to_owned(), ADDED_TOKEN.into());
                (name, token.into())
            }
            value => (name, value),
        }));
        Ok(Some(TokenizerConfig {
            fields,
            added: added.unwrap_or_default().into_iter().map(|(token, _)| token).collect(),
        }))
    }

    /// The tokens with a name, which a chat template may write by it: each field whose name ends in `_token`.
    pub fn named(&self) -> Vec<(String, String)> {
        let is_token = |(name, value): &(&String, &Value)| {
            name.ends_with("_token")
                && (NAMES.contains(&name.as_str()) || value.is_string() || value[TYPE] == ADDED_TOKEN)
        };
        let extra = self.fields.get(EXTRA).and_then(Value::as_object).into_iter().flatten();
        let tokens = self.fields.iter().filter(is_token).chain(extra);
        tokens.filter_map(|(name, value)| Some((name.clone(), text(value)?))).collect()
    }

    /// Every special token.
    pub fn special(&self) -> Vec<String> {
        let lists =
            ["additional_special_tokens", EXTRA].map(|name| self.fields.get(name).and_then(Value::as_array));
        let listed = lists.into_iter().flatten().flatten().filter_map(text);
        self.named().into_iter().map(|(_, token)| token).chain(listed).collect()
    }
}

const EXTRA: &str = "extra_special_tokens";
const TYPE: &str = "__type";
const ADDED_TOKEN: &str = "AddedToken";
/// Names that may hold a token without saying that it is one.
const NAMES: [&str; 7] =
    ["bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token"];

/// The text of a token, which may be an object with more.
pub fn text(token: &Value) -> Option<String> {
    token.as_str().or_else(|| token["content"].as_str()).map(str::to_owned)
}

fn object(path: &Path) -> Result<Option<Map<String, Value>>, Unusable> {
    let unusable = |problem| Unusable { path: path.to_owned(), problem };
    let bytes = match read_regular(path, LARGEST_FILE) {
        Ok(bytes) => bytes,
        Err(e) if e.kind() == ErrorKind::NotFound => return Ok(None),
        Err(e) => return Err(unusable(format!("cannot be read: {e}"))),
    };
    let fields: Map<String, Value> =
        serde_json::from_slice(&bytes).map_err(|e| unusable(format!("not a JSON configuration: {e}")))?;
    let is_odd = |(_, value): &(&str, &Value)| !value.is_null() && text(value).is_none();
    match NAMES.iter().filter_map(|name| Some((*name, fields.get(*name)?))).find(is_odd) {
        None => Ok(Some(fields)),
        Some((name, value)) => Err(unusable(format!(
            "{name} = {value}: must be the text of a token, an object with its text as `content`, or null"
        ))),
    }
}
