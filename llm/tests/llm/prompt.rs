//! Chat templates against what transformers makes of the same conversations, recorded by `tests/fixtures/record_chat.py`, and the shipped
//! templates against their format.

use std::collections::BTreeMap;
use std::path::Path;

use grpo_lambda_trainer::input::prompt::{ChatTemplate, Message, NAMED_TEMPLATES, Template};
use grpo_lambda_trainer::input::tokens::ModelTokenizer;
use serde::Deserialize;

use crate::common::fixture;

#[derive(Deserialize)]
struct Recorded {
    cases: Vec<Case>,
}

#[derive(Deserialize)]
struct Case {
    template: String,
    conversation: String,
    messages: Vec<Message>,
    add_generation_prompt: bool,
    text: Option<String>,
    refused: Option<String>,
}

/// A directory with this text as its `tokenizer_config.json`.
fn checkpoint(tokenizer_config: &str) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("tokenizer_config.json"), tokenizer_config).unwrap();
    dir
}

fn deepseek() -> tempfile::TempDir {
    checkpoint(&std::fs::read_to_string(fixture("chat/deepseek_r1_distill.json")).unwrap())
}

/// Byte for byte, for the template of a published checkpoint, for one in the format of Qwen2.5-Math, and for one that calls the Python methods
/// that published templates call.
#[test]
fn templates_render_as_in_transformers() {
    let text = crate::recorded::read(&fixture("chat/recorded.json.gz"));
    let recorded: Recorded = serde_json::from_slice(&text).unwrap();
    let mut count = BTreeMap::new();
    for case in recorded.cases {
        let path = fixture("chat").join(&case.template);
        let template = match case.template.ends_with(".json") {
            true => ChatTemplate::load(deepseek().path()).unwrap(),
            false => ChatTemplate::file(&path, None).unwrap(),
        };
        let ours = template.render(&case.messages, case.add_generation_prompt);
        let what = format!("{}, {}, {}", case.template, case.conversation, case.add_generation_prompt);
        match (ours, case.text, case.refused) {
            (Ok(ours), Some(theirs), None) => assert_eq!(ours, theirs, "{what}"),
            (Err(error), None, Some(reason)) => {
                assert!(error.to_string().contains(&reason), "{what}: {error}, not {reason}");
            }
            (ours, theirs, _) => panic!("{what}: {ours:?}, not {theirs:?}"),
        }
        *count.entry(case.template).or_insert(0) += 1;
    }
    assert!(count.len() == 4 && count.values().all(|n| *n >= 20), "{count:?}");
}

#[test]
fn the_shipped_qwen_math_is_the_chat_template_of_qwen_math() {
    let chat = ChatTemplate::file(&fixture("chat/chatml_math.jinja"), None).unwrap();
    let named = Template::load("qwen_math", None).unwrap();
    for problem in ["What is $1+1$?", "\n{problem} {{ x }} ½ {system}\n", ""] {
        let user = Message::new("user", problem);
        assert_eq!(
            named.prompt(problem).unwrap().text,
            chat.render(std::slice::from_ref(&user), true).unwrap()
        );
        let both = [Message::new("system", "Kurz {problem}."), user];
        let with = named.clone().with_system("Kurz {problem}.").unwrap();
        assert_eq!(with.prompt(problem).unwrap().text, chat.render(&both, true).unwrap());
    }
}

/// What the grader and the sampler rely on, whatever the words around it are.
#[test]
fn shipped_templates_keep_their_format() {
    let dir = deepseek();
    for named in NAMED_TEMPLATES {
        let template = Template::load(named.name, Some(dir.path())).unwrap();
        let prompt = template.prompt("PROBLEM").unwrap();
        assert_eq!(prompt.text.matches("PROBLEM").count(), 1, "{}", named.name);
        assert_eq!(prompt.special_tokens, !named.is_chat, "{}", named.name);
        let end = match named.name {
            "no" => "PROBLEM",
            "line" => "PROBLEM\n",
            "qwen_math" => "PROBLEM<|im_end|>\n<|im_start|>assistant\n",
            "r1" | "open_reasoner" => "PROBLEM\nAssistant: <think>",
            "open_r1" => "PROBLEM<｜Assistant｜>",
            other => panic!("{other} has no line here"),
        };
        assert!(prompt.text.ends_with(end), "{}: {}", named.name, prompt.text);
    }
    let open_r1 = Template::load("open_r1", Some(dir.path())).unwrap().prompt("P").unwrap().text;
    assert!(open_r1.starts_with("<｜begin▁of▁sentence｜>You solve"), "{open_r1}");
    assert!(open_r1.contains("<think>\n...\n</think>\n<answer>\n...\n</answer>"), "{open_r1}");
}

/// A chat template writes its BOS itself; the tokenizer must not write a second one.
#[test]
fn special_tokens_are_written_once() {
    let tokens = ModelTokenizer::tiny();
    let dir =
        checkpoint(r#"{"bos_token": "<eos>", "chat_template": "{{ bos_token }}{{ messages[0].content }}"}"#);
    let ids = |name: &str| {
        let template = Template::load(name, Some(dir.path())).unwrap();
        tokens.rendered(&template.prompt("3+4").unwrap()).unwrap().ids().to_vec()
    };
    assert_eq!(ids("chat"), [tokens.eos(), &ids("no")[..]].concat());
}

#[test]
fn a_template_is_found_by_name_directory_and_file() {
    let dir = deepseek();
    let path = dir.path().to_str().unwrap();
    let text =
        |name: &str, model: Option<&Path>| Template::load(name, model).unwrap().prompt("P").unwrap().text;
    let expected = "<｜begin▁of▁sentence｜><｜User｜>P<｜Assistant｜>";
    assert_eq!(text("chat", Some(dir.path())), expected);
    assert_eq!(text(path, None), expected);
    // A file of its own goes before the entry of the configuration, and several templates have a default.
    std::fs::write(dir.path().join("chat_template.jinja"), "{{ bos_token }}file {{ messages[0].content }}\n")
        .unwrap();
    assert_eq!(text(path, None), "<｜begin▁of▁sentence｜>file P");
    let jinja = dir.path().join("chat_template.jinja");
    assert_eq!(text(jinja.to_str().unwrap(), None), "file P");
    assert_eq!(text(jinja.to_str().unwrap(), Some(dir.path())), "<｜begin▁of▁sentence｜>file P");
    let several = checkpoint(
        r#"{"chat_template": [{"name": "tool_use", "template": "t"}, {"name": "default", "template": "d {{ messages[0].content }}"}]}"#,
    );
    assert_eq!(text("chat", Some(several.path())), "d P");
}

#[test]
fn the_clock_stands_still() {
    let template = ChatTemplate::new("{{ strftime_now('%Y-%m-%d') }}", serde_json::Map::new(), "x").unwrap();
    assert_eq!(template.render(&[], false).unwrap(), "2025-01-01");
}

#[test]
fn templates_that_fail_say_where_and_why() {
    let render = |source: &str| {
        ChatTemplate::new(source, serde_json::Map::new(), "t.jinja")
            .and_then(|t| t.render(&[Message::new("user", "x")], true))
            .unwrap_err()
            .to_string()
    };
    for (source, expected) in [
        ("\n{% for %}", "t.jinja: line 2 of the template: "),
        ("{{ raise_exception('roles must alternate') }}", "refuses the conversation: roles must alternate"),
        ("a\nb\n{{ messages[0].content.frobnicate() }}", "t.jinja: line 3 of the template: "),
        ("{{ x.y }}", "t.jinja: line 1 of the template: "),
        (
            "{% for i in range(9999) %}{% for j in range(9999) %}{{ j }}{% endfor %}{% endfor %}",
            "too many steps",
        ),
        ("{{ strftime_now('%Q') }}", "strftime_now cannot read \"%Q\""),
        ("{% include 'other' %}", "t.jinja: line 1 of the template: "),
    ] {
        let error = render(source);
        assert!(error.contains(expected) && !error.contains('\n'), "{source}: {error}");
    }
}
