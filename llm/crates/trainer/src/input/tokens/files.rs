//! Settings of a tokenizer in the files beside `tokenizer.json`.

use std::path::Path;

use grpo_lambda_decoder::disk::read_regular;
use serde_json::Value;
use tokenizers::Tokenizer;
use tokenizers::processors::template::{SpecialToken, TemplateProcessing};

use super::TokenError;
use crate::bounded::limits::LARGEST_FILE;

const TOKENIZER_CONFIG: &str = "tokenizer_config.json";

/// The context in tokens that `config.json` names, if it does.
pub(super) fn context(directory: &Path) -> Result<Option<usize>, TokenError> {
    let json = read_json(&directory.join("config.json"))?;
    let named = |json: Value| json["max_position_embeddings"].as_u64();
    Ok(json.and_then(named).map(|n| usize::try_from(n).unwrap_or(usize::MAX)))
}

fn read_json(path: &Path) -> Result<Option<Value>, TokenError> {
    match read_regular(path, LARGEST_FILE) {
        Ok(bytes) => serde_json::from_slice(&bytes).map(Some).map_err(|e| TokenError::Invalid {
            path: path.to_owned(),
            problem: format!("not a JSON configuration: {e}"),
        }),
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(source) => Err(TokenError::Read { path: path.to_owned(), source }),
    }
}

/// The ids that end a response, the one to train with first.
pub(super) fn eos_ids(directory: &Path, tokenizer: &Tokenizer) -> Result<Vec<u32>, TokenError> {
    let path = directory.join(TOKENIZER_CONFIG);
    let config = read_json(&path)?.unwrap_or_default();
    let token = named(&config, "eos_token");
    let ends_a_turn = token.and_then(|token| tokenizer.token_to_id(token));
    for name in ["generation_config.json", "config.json"] {
        let path = directory.join(name);
        let Some(json) = read_json(&path)? else { continue };
        let ids = match &json["eos_token_id"] {
            Value::Null => continue,
            Value::Array(list) => list.clone(),
            one => vec![one.clone()],
        };
        let number = |id: &Value| id.as_u64().and_then(|id| u32::try_from(id).ok());
        let ids: Option<Vec<u32>> = ids.iter().map(number).collect();
        return match ids {
            Some(mut ids) if !ids.is_empty() => {
                // The first of the list may end a document, not a turn: Llama 3's does.
                let place = ids.iter().position(|id| Some(*id) == ends_a_turn);
                ids[..=place.unwrap_or(0)].rotate_right(1);
                Ok(ids)
            }
            _ => Err(TokenError::Invalid {
                path,
                problem: format!("eos_token_id is {}, not an id or a list of ids", json["eos_token_id"]),
            }),
        };
    }
    match token {
        Some(token) => Ok(vec![id_of(tokenizer, &path, "eos_token", token)?]),
        None => Err(TokenError::NoEos { path: directory.to_owned() }),
    }
}

/// Puts the special tokens around a text that `tokenizer_config.json` asks for, as transformers 5 does: where `add_bos_token` or `add_eos_token` is there, the
/// two take the place of what `tokenizer.json` has. One that is absent is false; in a Llama tokenizer `add_bos_token` is true, as in transformers 4.
pub(super) fn set_special_tokens(directory: &Path, tokenizer: &mut Tokenizer) -> Result<(), TokenError> {
    let path = directory.join(TOKENIZER_CONFIG);
    let Some(config) = read_json(&path)? else { return Ok(()) };
    let flag = |name: &str| match &config[name] {
        Value::Null => Ok(None),
        Value::Bool(on) => Ok(Some(*on)),
        other => Err(TokenError::Invalid {
            path: path.clone(),
            problem: format!("{name} is {other}; it must be true or false"),
        }),
    };
    let (bos, eos) = (flag("add_bos_token")?, flag("add_eos_token")?);
    if bos.is_none() && eos.is_none() {
        return Ok(());
    }
    let of_llama =
        config["tokenizer_class"].as_str().is_some_and(|class| class.starts_with("LlamaTokenizer"));
    let asked = [("bos_token", bos.unwrap_or(of_llama)), ("eos_token", eos.unwrap_or(false))];
    let (mut single, mut special) = (vec!["$A"], Vec::new());
    for (name, on) in asked {
        // Without such a token there is none to add.
        let Some(token) = named(&config, name).filter(|_| on) else { continue };
        let ids = vec![id_of(tokenizer, &path, name, token)?];
        special.extend(SpecialToken::new(name.to_owned(), ids, vec![token.to_owned()]));
        single.insert(if name == "bos_token" { 0 } else { single.len() }, name);
    }
    let invalid =
        |e: String| TokenError::Invalid { path: path.clone(), problem: format!("no special tokens: {e}") };
    let template = TemplateProcessing::builder()
        .try_single(single)
        .map_err(invalid)?
        .special_tokens(special)
        .build()
        .map_err(|e| invalid(e.to_string()))?;
    tokenizer.with_post_processor(Some(template));
    Ok(())
}

/// A token that a configuration names, as text or as an object with its text.
fn named<'a>(config: &'a Value, name: &str) -> Option<&'a str> {
    config[name].as_str().or_else(|| config[name]["content"].as_str())
}

fn id_of(tokenizer: &Tokenizer, path: &Path, name: &str, token: &str) -> Result<u32, TokenError> {
    tokenizer.token_to_id(token).ok_or_else(|| TokenError::Invalid {
        path: path.to_owned(),
        problem: format!("{name} `{token}` is not a token of tokenizer.json"),
    })
}
