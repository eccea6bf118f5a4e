//! A tokenizer's files against transformers, and the page with every field of a checkpoint.

use std::fmt::Write as _;

use grpo_lambda_decoder::model::config::known::{ADAPTER, CONFIG, FieldUse, FileFields, GENERATION};
use grpo_lambda_stats::hanging;
use grpo_lambda_trainer::input::prompt::{RenderedPrompt, Template};
use grpo_lambda_trainer::input::tokens::ModelTokenizer;
use grpo_lambda_trainer::input::tokens::known::{TOKENIZER_CONFIG_FIELDS, TOKENIZER_FIELDS};
use serde_json::{Map, Value, json};

use crate::common::{assert_has, fixture};
use crate::documents::page;

/// A tokenizer with these fields in place of those of the recording.
fn tokenizer(recorded: &Value, change: &Value) -> Option<ModelTokenizer> {
    ModelTokenizer::load(directory(recorded, change).path()).ok()
}

/// Its files, and those of the change.
fn directory(recorded: &Value, change: &Value) -> tempfile::TempDir {
    let directory = tempfile::tempdir().unwrap();
    let merged = |base: &Value, change: &Value| {
        let mut fields: Map<String, Value> = base.as_object().unwrap().clone();
        fields.extend(change.as_object().cloned().unwrap_or_default());
        Value::Object(fields).to_string()
    };
    let tokenizer = merged(&recorded["tokenizer"], &change["tokenizer"]);
    let config = merged(&recorded["config"], &change["config"]);
    for (name, text) in
        [("tokenizer.json", tokenizer.as_str()), ("tokenizer_config.json", &config), ("config.json", "{}")]
    {
        std::fs::write(directory.path().join(name), text).unwrap();
    }
    for (name, content) in change["files"].as_object().into_iter().flatten() {
        std::fs::write(directory.path().join(name), content.to_string()).unwrap();
    }
    directory
}

/// The recorded part of a tokenizer.
fn read(tokens: &ModelTokenizer, text: &str) -> Value {
    let ids = tokens.prompt(text).unwrap().ids().to_vec();
    let plain = tokens.rendered(&RenderedPrompt { text: text.to_owned(), special_tokens: false });
    json!({"ids": ids, "plain": plain.unwrap().ids(), "decoded": tokens.text(&ids).unwrap()})
}

fn recorded() -> Value {
    serde_json::from_slice(&crate::recorded::read(&fixture("tokenizers.json.gz"))).unwrap()
}

#[test]
fn the_tokens_of_a_text_are_those_of_transformers_whatever_the_files_say() {
    let recorded = recorded();
    let text = recorded["text"].as_str().unwrap();
    let (mut agree, mut silent) = (0, Vec::new());
    for case in recorded["cases"].as_array().unwrap() {
        if case["found"].is_null() {
            continue;
        }
        let Some(tokens) = tokenizer(&recorded, case) else { continue };
        let ours = read(&tokens, text);
        if ours == case["found"] {
            agree += 1;
        } else {
            silent.push(format!("{} {}\n  {ours}\n  {}", case["tokenizer"], case["config"], case["found"]));
        }
    }
    assert!(silent.is_empty(), "{} differ:\n{}", silent.len(), silent.join("\n"));
    assert!(agree > 150, "most files must be read: {agree}");
}

/// Files that transformers 5 still reads where `tokenizer_config.json` lists no tokens, and fields that it uses whatever their name.
#[test]
fn older_files_and_named_tokens_are_read_as_by_transformers() {
    let recorded = recorded();
    let text = recorded["text"].as_str().unwrap();
    let mut refused = Vec::new();
    for case in recorded["older"].as_array().unwrap() {
        let directory = directory(&recorded, case);
        let Ok(tokens) = ModelTokenizer::load(directory.path()) else {
            refused.push(&case["config"]);
            continue;
        };
        let mut ours = read(&tokens, text);
        let template = Template::load("chat", Some(directory.path())).unwrap();
        ours["names"] = template.asked(&[], "q").unwrap().text.into();
        assert_eq!(ours, case["found"], "{} {}", case["config"], case["files"]);
        let eos = tokens.token(tokens.eos()[0]);
        assert_eq!(eos.as_deref(), case["found"]["names"].as_str().unwrap().split('|').nth(1));
    }
    assert!(refused.len() == 1 && refused[0]["fast_tokenizer_files"].is_array(), "{refused:?}");
}

/// Fields that transformers uses by chance or not at all are refused or named.
#[test]
fn what_a_tokenizer_passes_over_is_said_and_dropout_refused() {
    let recorded = recorded();
    let with = |fields: &str, config: &str| {
        let parsed = |text: &str| serde_json::from_str::<Value>(text).unwrap();
        tokenizer(&recorded, &json!({"tokenizer": parsed(fields), "config": parsed(config)}))
    };
    let mut model = recorded["tokenizer"]["model"].clone();
    model["dropout"] = 0.1.into();
    assert!(with(&json!({"model": model}).to_string(), "{}").is_none());
    assert!(with(r#"{"post_tokenizer": {"type": "Mine"}}"#, "{}").is_none());
    let notes = |config: &str| with("{}", config).unwrap().notes().join("; ");
    let said = notes(r#"{"add_bos_token": true}"#);
    assert_has(&said, "add_bos_token = true, which transformers 5 passes over");
    let said = notes(r#"{"unk_token": "<unk>"}"#);
    assert_has(&said, "`<unk>` of tokenizer_config.json are no tokens of tokenizer.json");
    assert_eq!(notes(r#"{"add_bos_token": false}"#), "");
}

/// The table of a file's fields.
fn table(of: &FileFields) -> String {
    let mut text = format!("## `{}`\n\n", of.file);
    let words = |fate: FieldUse| match fate {
        FieldUse::Used => "used".to_owned(),
        FieldUse::Harmless(why) => format!("ignored: {why}"),
        FieldUse::Only(&[], why) => format!("refused unless off: {why}"),
        FieldUse::Only(values, why) => format!("refused unless off or {}: {why}", values.join(" or ")),
    };
    for (fate, names) in of.fields {
        let names: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
        let _ = writeln!(text, "{}", hanging("- ", &format!("{}: {}", names.join(", "), words(*fate)), 120));
    }
    let _ = writeln!(text, "{}\n", hanging("- ", &format!("every other: {}", words(of.others)), 120));
    text
}

#[test]
fn the_page_of_fields_is_what_the_code_declares() {
    let files = [&CONFIG, &GENERATION, &TOKENIZER_CONFIG_FIELDS, &TOKENIZER_FIELDS, &ADAPTER];
    let tables: String = files.into_iter().map(table).collect();
    page::hold("checkpoints.md", "fields", &format!("{}\n", tables.trim_end()));
}
