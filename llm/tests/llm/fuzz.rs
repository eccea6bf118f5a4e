//! Every reader of files under damaged input, as `tests/fuzzer` makes it: `cargo test -p grpo-lambda-llm --test llm fuzz`.

use std::fs;
use std::path::Path;

use grpo_lambda_decoder::model::{self, weights};
use grpo_lambda_studies::doctor;
use grpo_lambda_trainer::config::Config;
use grpo_lambda_trainer::input::data::{Columns, OnBadRow, open};
use grpo_lambda_trainer::input::prompt::{ChatTemplate, Message};
use grpo_lambda_trainer::input::tokens::ModelTokenizer;
use grpo_lambda_trainer::run;

use crate::common::{checkpoint, shape};
use crate::fuzzer::{fuzz, texts};

/// A file that each input is written into.
fn in_file<T, E: std::fmt::Display>(
    path: &Path,
    read: impl Fn() -> Result<T, E>,
) -> impl FnMut(&[u8]) -> Result<(), String> {
    move |bytes| {
        fs::write(path, bytes).unwrap();
        read().map(drop).map_err(|e| e.to_string())
    }
}

#[test]
fn configurations() {
    let seeds = [Config::resolve("tiny", &[""; 0]).unwrap().to_toml().into_bytes()];
    fuzz("config.toml", 300, &seeds, |bytes| {
        let text = String::from_utf8_lossy(bytes);
        Config::parse(&text, "config.toml").map(drop).map_err(|e| e.to_string())
    });
}

#[test]
fn parts_of_a_model() {
    let dir = tempfile::tempdir().unwrap();
    checkpoint(dir.path(), &shape(), usize::MAX);
    let load = || {
        let shape = model::ModelConfig::load(dir.path())?;
        weights::load(dir.path(), &shape)
    };
    for (name, times) in [("config.json", 300), ("model.safetensors", 100)] {
        let path = dir.path().join(name);
        let whole = fs::read(&path).unwrap();
        // Of the weights only the header is worth damaging; the numbers after it may be any.
        let header = whole.len().min(4096);
        let rest = whole[header..].to_vec();
        fuzz(name, times, &[whole[..header].to_vec()], |bytes| {
            fs::write(&path, [bytes, &rest].concat()).unwrap();
            load().map(drop).map_err(|e| e.to_string())
        });
        fs::write(&path, whole).unwrap();
    }
    let path = dir.path().join("tokenizer.json");
    let seeds = [fs::read(&path).unwrap()];
    let tokenize = || {
        let tokens = ModelTokenizer::load(dir.path())?;
        let ids = tokens.prompt("What is 1 + 1?")?;
        tokens.text(ids.ids())
    };
    fuzz("tokenizer.json", 200, &seeds, in_file(&path, tokenize));
}

#[test]
fn chat_templates() {
    let seeds = texts(&[
        "{% for m in messages %}<|{{ m.role }}|>{{ m['content'] | trim }}{% if not loop.last %}\n{% endif %}{% endfor %}{{ eos_token }}",
        "{%- set ns = namespace(x='') -%}{%- macro f(a, b=1) %}{{ a ~ b }}{% endmacro -%}{{ f(messages[0].content[:3], [1, {'a': 2}]) | tojson }}",
        "{% generation %}{{ messages | map(attribute='role') | join(', ') }}{% endgeneration %}{{ raise_exception('no') if 0 else '' }}",
        "{{ strftime_now('%Y-%m-%d') }}{{ '%5.2f' | format(1.5) }}{{ messages[-1].content.split('a') | length * 3 // 2 }}",
    ]);
    fuzz("chat template", 300, &seeds, |bytes| {
        let template = ChatTemplate::new(&String::from_utf8_lossy(bytes), serde_json::Map::new(), "file");
        let messages = [Message::new("system", "be brief"), Message::new("user", "what is 1 + 1?")];
        template.and_then(|t| t.render(&messages, true)).map(drop).map_err(|e| e.to_string())
    });
}

#[test]
fn data_sets() {
    let dir = tempfile::tempdir().unwrap();
    let seeds = texts(&[
        "{\"problem\": \"1+1?\", \"answer\": \"2\"}\n{\"problem\": \"2+2?\", \"answer\": [\"4\", 4]}\n",
        "{\"question\": \"a\", \"answer\": \"so 5\\n#### 5\"}\n",
        "{\"messages\": [{\"role\": \"user\", \"content\": \"q\"}, {\"role\": \"assistant\", \"content\": \"\\\\boxed{1}\"}]}\n",
    ]);
    let lines = dir.path().join("data.jsonl");
    let read = |path: &Path| open(&path.display().to_string(), &Columns::default(), OnBadRow::Refuse);
    fuzz("data.jsonl", 300, &seeds, in_file(&lines, || read(&lines)));
    let array = dir.path().join("data.json");
    let seeds =
        texts(&["[{\"problem\": \"1+1?\", \"answer\": \"2\"}, {\"problem\": \"2+2?\", \"answer\": 4}]"]);
    fuzz("data.json", 300, &seeds, in_file(&array, || read(&array)));
    let packed = dir.path().join("data.parquet");
    crate::hostile::bomb(&packed, 30, 40);
    let seeds = [fs::read(&packed).unwrap()];
    fuzz("data.parquet", 300, &seeds, in_file(&packed, || read(&packed)));
}

#[test]
fn manifests_and_logs() {
    let dir = tempfile::tempdir().unwrap();
    let settings: &[&str] =
        &["task.kind=addition", "sft.steps=1", "rl.steps=0", "sft.batch=1", "eval.n=1", "checkpoint.every=1"];
    crate::common::train(dir.path(), &[settings]).output();
    // Every run has another number, so that the same damage meets other bytes the next time.
    let manifest = dir.path().join("checkpoints/step-00000001/manifest.json");
    let seeds = [fs::read(&manifest).unwrap()];
    fuzz("manifest.json", 300, &seeds, |bytes| {
        fs::write(&manifest, bytes).unwrap();
        let found = run::latest(dir.path()).map_err(|e| e.to_string())?.ok_or("passed over")?;
        // What is read is what was written.
        found.verify().unwrap_or_else(|e| panic!("{e}"));
        assert_eq!(found.step(), 1);
        Ok(())
    });
    let log = dir.path().join("log.jsonl");
    let seeds = texts(&[
        "{\"step\":0,\"stage\":\"rl\",\"reward\":0.5,\"zero_variance_groups\":3,\"groups\":4,\"grad_norm\":null}\n",
        "{\"log_history\": [{\"step\": 10, \"reward\": 0.25, \"loss\": NaN}, {\"step\": 20, \"reward\": 1}]}",
        "{\"step\": 3, \"data\": {\"actor/pg_clipfrac\": 0.5, \"critic/score/mean\": 0.25}}\n",
    ]);
    let examine = || doctor::read(&log).map(|found| doctor::diagnose(&found));
    fuzz("log", 300, &seeds, in_file(&log, examine));
}
