//! Settings of a tokenizer in the files next to `tokenizer.json`.

use std::path::Path;

use grpo_lambda_decoder::disk::read_regular;
use serde_json::{Value, json};
use tokenizers::normalizers::NFC;
use tokenizers::pre_tokenizers::PreTokenizerWrapper;
use tokenizers::{AddedToken, Tokenizer};

use super::TokenError;
use super::known::TOKENIZER_CONFIG_FIELDS;
use crate::bounded::limits::LARGEST_FILE;
use crate::input::tokenizer_config::{self, TokenizerConfig, Unusable};

fn config(directory: &Path) -> Result<Option<TokenizerConfig>, TokenError> {
    TokenizerConfig::read(directory)
        .map_err(|Unusable { path, problem }| TokenError::Invalid { path, problem })
}

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

/// The ids that end a response, the one to train with first: the tokenizer's `eos_token`, which ends a turn, and those that the model's files name.
pub(super) fn eos_ids(directory: &Path, tokenizer: &Tokenizer) -> Result<Vec<u32>, TokenError> {
    let path = directory.join(tokenizer_config::FILE);
    let config = config(directory)?.unwrap_or_default();
    let token = config.fields.get("eos_token").and_then(tokenizer_config::text);
    let id = token.as_ref().and_then(|token| tokenizer.token_to_id(token));
    let mut found: Vec<u32> = id.into_iter().collect();
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
        let Some(ids) = ids.filter(|ids| !ids.is_empty()) else {
            let problem = format!("eos_token_id is {}, not an id or a list of ids", json["eos_token_id"]);
            return Err(TokenError::Invalid { path, problem });
        };
        let others: Vec<u32> = ids.into_iter().filter(|id| !found.contains(id)).collect();
        found.extend(others);
        break;
    }
    match (found.is_empty(), token) {
        (false, _) => Ok(found),
        (true, Some(token)) => Err(TokenError::Invalid {
            path,
            problem: format!("eos_token `{token}` is not a token of tokenizer.json"),
        }),
        (true, None) => Err(TokenError::NoEos { path: directory.to_owned() }),
    }
}

/// Sets what `tokenizer_config.json` says about tokens as transformers 5 does: `added_tokens_decoder` has the last word on how a token is found in
/// a text, named tokens are special, and a Qwen2 tokenizer has pieces of its own. Returns lines about what is passed over.
pub(super) fn set_tokens(directory: &Path, tokenizer: &mut Tokenizer) -> Result<Vec<String>, TokenError> {
    let path = directory.join(tokenizer_config::FILE);
    let Some(config) = config(directory)? else { return Ok(Vec::new()) };
    TOKENIZER_CONFIG_FIELDS.refuse_unknown(&config.fields, &path.display().to_string()).map_err(|e| {
        let problem = e.to_string();
        let shown = format!("{}: ", path.display());
        TokenError::Invalid {
            path: path.clone(),
            problem: problem.strip_prefix(&shown).unwrap_or(&problem).to_owned(),
        }
    })?;
    let invalid = |problem: String| TokenError::Invalid { path: path.clone(), problem };
    let special = config.special();
    let listed: Vec<String> = config.added.into_iter().filter(|token| !special.contains(token)).collect();
    let config = Value::Object(config.fields);
    let (mut added, mut missing) = (Vec::new(), Vec::new());
    let renumbered = renumbers(&model_type(directory)?, config["tokenizer_class"].as_str());
    for (id, token) in config["added_tokens_decoder"].as_object().into_iter().flatten() {
        let content = token["content"].as_str().unwrap_or_default();
        // A token that tokenizer.json has keeps its id, or gets another one; any other gets one after all of them.
        let is_kept = !renumbered && tokenizer.token_to_id(content).is_some();
        let other = id.parse().ok().and_then(|id| tokenizer.id_to_token(id));
        if let Some(other) = other.filter(|other| other != content && !is_kept) {
            return Err(invalid(format!(
                "added_tokens_decoder: token {id} is `{content}`, and `{other}` in tokenizer.json; leave one of them out"
            )));
        }
        let flag = |name: &str| token[name].as_bool().unwrap_or(false);
        let is_special = flag("special") || special.iter().any(|name| name == content);
        let token = AddedToken::from(content, is_special)
            .single_word(flag("single_word"))
            .lstrip(flag("lstrip"))
            .rstrip(flag("rstrip"))
            .normalized(token["normalized"].as_bool().unwrap_or(!is_special));
        added.push(token);
    }
    let decoded: Vec<String> = added.iter().map(|token| token.content.clone()).collect();
    let vocabulary = tokenizer.get_added_tokens_decoder();
    let known = |content: &str| decoded.iter().any(|other| other == content);
    // One that tokenizer.json adds keeps how it is found in a text, and is special all the same.
    let own = |content: &str| vocabulary.values().find(|token| token.content == content).cloned();
    let named = special.iter().filter(|content| !known(content)).map(|content| AddedToken {
        special: true,
        ..own(content).unwrap_or_else(|| AddedToken::from(content.as_str(), true))
    });
    let listed = listed
        .iter()
        .map(|content| own(content).unwrap_or_else(|| AddedToken::from(content.as_str(), false)));
    added.extend(named.chain(listed).collect::<Vec<_>>());
    added.retain(|token| {
        let there = tokenizer.token_to_id(&token.content).is_some();
        missing.extend((!there).then(|| format!("`{}`", token.content)));
        there
    });
    tokenizer.add_tokens(added).map_err(|e| invalid(format!("its tokens: {e}")))?;
    tokenizer.set_encode_special_tokens(config["split_special_tokens"].as_bool().unwrap_or(false));
    if config["tokenizer_class"].as_str().is_some_and(|class| class.starts_with("Qwen2Tokenizer")) {
        let pieces = serde_json::from_value::<PreTokenizerWrapper>(qwen2_pieces())
            .map_err(|e| invalid(e.to_string()))?;
        tokenizer.with_pre_tokenizer(Some(pieces));
        tokenizer.with_normalizer(Some(NFC)).map_err(|e| invalid(e.to_string()))?;
    }
    let absent = (!missing.is_empty()).then(|| {
        let tokens = missing.join(", ");
        format!("{tokens} of tokenizer_config.json are no tokens of tokenizer.json, and a text with them is spelt out")
    });
    let replaced = replaced_pieces(directory, config["tokenizer_class"].as_str(), tokenizer)?;
    Ok(absent.into_iter().chain(replaced).collect())
}

fn model_type(directory: &Path) -> Result<String, TokenError> {
    let model = read_json(&directory.join("config.json"))?.unwrap_or_default();
    Ok(model["model_type"].as_str().unwrap_or_default().to_owned())
}

/// True if transformers 5 takes Qwen2's tokenizer, whatever the files say.
fn is_qwen2(model: &str, class: Option<&str>) -> bool {
    model == "qwen2" || (model == "qwen3" && class.is_none())
}

/// True if transformers 5.24 builds the tokenizer from its vocabulary alone and numbers added tokens itself, in the order of `added_tokens_decoder`;
/// elsewhere those of tokenizer.json keep theirs, whatever ids `added_tokens_decoder` has for them.
fn renumbers(model: &str, class: Option<&str>) -> bool {
    let builds = |class: &str| ["Qwen2Tokenizer", "GPT2Tokenizer"].iter().any(|own| class.starts_with(own));
    is_qwen2(model, class) || class.is_some_and(builds)
}

/// A line where transformers 5 cuts a text by the class of the tokenizer, whatever `tokenizer.json` says: Qwen2's for every model of type qwen2, and
/// GPT-2's where the file names it.
fn replaced_pieces(
    directory: &Path,
    class: Option<&str>,
    tokenizer: &Tokenizer,
) -> Result<Option<String>, TokenError> {
    let model = model_type(directory)?;
    let json = |value: Option<Value>| {
        let mut value = value.unwrap_or_default();
        // Of offsets, which no id depends on.
        let pieces = value.get_mut("pretokenizers").and_then(Value::as_array_mut);
        pieces.into_iter().flatten().for_each(|piece| {
            drop(piece.as_object_mut().and_then(|piece| piece.remove("trim_offsets")));
        });
        value
    };
    let own = json(tokenizer.get_pre_tokenizer().and_then(|pieces| serde_json::to_value(pieces).ok()));
    let normalizer =
        tokenizer.get_normalizer().and_then(|own| serde_json::to_value(own).ok()).unwrap_or_default();
    let is_gpt2 = class.is_some_and(|class| class.starts_with("GPT2Tokenizer"))
        && ["llama", "qwen3"].contains(&model.as_str());
    let (name, is_same) = if is_qwen2(&model, class) {
        ("Qwen2", own == json(Some(qwen2_pieces())) && normalizer["type"] == "NFC")
    } else if is_gpt2 {
        ("GPT-2", own["type"] == "ByteLevel" && own["use_regex"] != false && normalizer.is_null())
    } else {
        return Ok(None);
    };
    Ok((!is_same).then(|| {
        format!(
            "texts are cut as tokenizer.json says; transformers 5 cuts them as {name} does, by model_type = {model} of config.json and \
             tokenizer_class = {} of tokenizer_config.json",
            class.unwrap_or("none")
        )
    }))
}

/// The pieces into which a Qwen2 tokenizer of transformers cuts a text.
fn qwen2_pieces() -> Value {
    const REGEX: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";
    json!({"type": "Sequence", "pretokenizers": [
        {"type": "Split", "pattern": {"Regex": REGEX}, "behavior": "Isolated", "invert": false},
        {"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": false, "use_regex": false},
    ]})
}

/// A line where `add_bos_token` or `add_eos_token` asks for something else than what stands around a text: as in transformers 5, the
/// post-processor of tokenizer.json decides.
pub(super) fn contradiction(
    directory: &Path,
    [before, after]: [bool; 2],
) -> Result<Option<String>, TokenError> {
    let config = Value::Object(config(directory)?.unwrap_or_default().fields);
    let asked = [("add_bos_token", before), ("add_eos_token", after)];
    let found =
        asked.iter().find(|(flag, there)| config[*flag].as_bool().is_some_and(|asked| asked != *there));
    Ok(found.map(|(flag, _)| {
        format!("tokenizer_config.json says {flag} = {}, which transformers 5 passes over: tokenizer.json decides", config[*flag])
    }))
}
