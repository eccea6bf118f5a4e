use grpo_lambda_trainer::bounded::Limits;
use grpo_lambda_trainer::input::tokens::{ModelTokenizer, PAD};
use grpo_lambda_trainer::input::vocabulary::TINY;
use serde_json::{Value, json};
use std::time::Duration;

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
    assert_eq!(eos(&[all[0], ("config.json", "{}"), ("tokenizer_config.json", named)]).expect("a name"), [1]);
}

#[test]
fn the_end_to_train_with_is_the_tokenizers_where_the_model_has_several() {
    // Llama 3: generation ends at <|end_of_text|> too, and a turn with <|eot_id|>.
    let listed = r#"{"eos_token_id": [2, 1]}"#;
    let eos = |config: &str| {
        let files =
            [("tokenizer.json", TINY), ("generation_config.json", listed), ("tokenizer_config.json", config)];
        ModelTokenizer::load(directory(&files).path()).expect("complete").eos().to_vec()
    };
    assert_eq!(eos(r#"{"eos_token": "<eos>"}"#), [1, 2]);
    assert_eq!(eos("{}"), [2, 1]);
    assert_eq!(eos(r#"{"eos_token": "<pad>"}"#), [0, 2, 1], "both end a response");
    assert_eq!(eos(r#"{"eos_token": "<none>"}"#), [2, 1], "which is no token");
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
    let number = [("tokenizer.json", TINY), ("tokenizer_config.json", r#"{"eos_token": 2}"#)];
    assert!(refused(&number).contains("tokenizer_config.json: eos_token = 2: must be the text of a token"));
}

#[test]
fn a_target_ends_with_the_end_token_and_has_its_text() {
    let tokens = ModelTokenizer::tiny();
    let target = tokens.target("3*4=12\n\\boxed{12}").expect("plain text");
    assert_eq!(*target.ids().last().expect("tokens"), tokens.eos()[0]);
    assert_eq!(tokens.text(target.ids()).expect("decodes"), "3*4=12\n\\boxed{12}");
}

/// The shipped tokenizer as a stranger's, with one part replaced and a model of this context, under small limits.
fn stranger((part, value): (&str, Value), context: usize) -> ModelTokenizer {
    let mut json: Value = serde_json::from_str(TINY).expect("JSON");
    json[part] = value;
    let config = json!({"eos_token_id": 1, "max_position_embeddings": context}).to_string();
    let files = [("tokenizer.json", &*json.to_string()), ("config.json", &config)];
    let mut tokens = ModelTokenizer::load(directory(&files).path()).expect("a tokenizer");
    let time = Some(Duration::from_millis(300));
    if let Some(limits) = &mut tokens.limits {
        limits.least = Limits { memory: 16 << 20, time, ..limits.least };
    }
    tokens
}

#[test]
fn a_tokenizer_that_takes_more_than_its_limits_is_stopped_whatever_its_parts() {
    let sequence = |name: &str, part: Value, n: usize| json!({"type": "Sequence", name: vec![part; n]});
    let replace =
        |pattern: Value, content: &str| json!({"type": "Replace", "pattern": pattern, "content": content});
    let bytes =
        json!({"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": false});
    let text = json!({"Sequence": {"id": "A", "type_id": 0}});
    let repeated = json!({"type": "TemplateProcessing", "single": vec![text.clone(); 50_000], "pair": [text], "special_tokens": {}});
    let slow = r"(?:(?=.)(?:.|\n))(?=(?:(?!q).)*)";
    let split = json!({"type": "Split", "pattern": {"Regex": slow}, "behavior": "Isolated", "invert": false});
    let patterns = [json!({"Regex": ""}), json!({"String": ""}), json!({"Regex": "(?=.)"})];
    let mut cases: Vec<(&str, Value, String)> = patterns
        .map(|pattern| ("normalizer", sequence("normalizers", replace(pattern, "a"), 40), "1+1".to_owned()))
        .into();
    let long = sequence("normalizers", replace(json!({"String": "1"}), &"1".repeat(1000)), 4);
    cases.extend([
        ("normalizer", long, "1".to_owned()),
        ("normalizer", json!({"type": "Prepend", "prepend": "1".repeat(1 << 25)}), "1".to_owned()),
        ("normalizer", sequence("normalizers", bytes.clone(), 40), "é".to_owned()),
        ("pre_tokenizer", sequence("pretokenizers", bytes, 40), "é".to_owned()),
        ("pre_tokenizer", split, "1 ".repeat(10_000)),
        ("post_processor", repeated, "1".repeat(1000)),
    ]);
    for (part, value, text) in cases {
        let shown: String = value.to_string().chars().take(120).collect();
        let error = stranger((part, value), 1024).prompt(&text).expect_err(&shown).to_string();
        assert!(error.contains("it takes more than"), "{shown}: {error}");
    }
    let decoder = sequence("decoders", replace(json!({"String": ""}), "a"), 40);
    let error = stranger(("decoder", decoder), 1024).text(&[4, 5]).expect_err("doubles").to_string();
    assert!(error.contains("cannot decode: it takes more than"), "{error}");
}

#[test]
fn a_text_that_no_context_holds_is_not_tokenised_and_any_other_as_by_the_shipped_tokenizer() {
    let tokens = stranger(("padding", Value::Null), 10);
    let whole = "1".repeat(640);
    assert_eq!(
        tokens.prompt(&whole).expect("64 bytes a token"),
        ModelTokenizer::tiny().prompt(&whole).expect("short")
    );
    let error = tokens.prompt(&(whole + "1")).expect_err("longer").to_string();
    assert!(error.contains("a text of 641 bytes") && error.contains("at most 640 bytes"), "{error}");
}
