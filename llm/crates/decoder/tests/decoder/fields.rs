//! No field of `config.json` changes a number in silence: each is used as transformers uses it, or refused.
//!
//! `tests/fixtures/fields.jsonl.gz` (made by `record_fields.py` there) has the log-probabilities of transformers under each of some 1,700 changes
//! of a field, or of two that contradict each other.

use std::collections::BTreeMap;

use grpo_lambda_decoder::model::config::known::{ADAPTER, CONFIG, FieldUse};
use grpo_lambda_decoder::model::{Decoder, ForwardOptions, ModelConfig, Rows, weights};
use serde_json::{Map, Value};

use crate::parity::fixtures;
use crate::recorded;

/// Largest difference of a log-probability; those of a field that matters differ by far more.
const NEAR: f64 = 2e-3;

/// A change of a checkpoint's configuration, with what came of it in transformers.
#[derive(serde::Deserialize)]
struct Change {
    checkpoint: String,
    set: Map<String, Value>,
    #[serde(default)]
    removed: Vec<String>,
    /// Null where transformers refuses it, the text "same" for those of the unchanged file, which comes first.
    logps: Value,
}

impl Change {
    /// Our log-probabilities, or nothing where the file is refused.
    fn ours(&self) -> Option<Vec<f64>> {
        let directory = fixtures().join(&self.checkpoint);
        let text = std::fs::read_to_string(directory.join("config.json")).unwrap();
        let mut config: Map<String, Value> = serde_json::from_str(&text).unwrap();
        config.extend(self.set.clone());
        self.removed.iter().for_each(|field| drop(config.remove(field)));
        let config = ModelConfig::parse(&Value::Object(config).to_string(), "config.json").ok()?;
        let decoder = Decoder::new(config.clone(), weights::load(&directory, &config).ok()?).ok()?;
        let ids: Vec<u32> = (0..121).map(|i| (7 * i * i + 3 * i + 1) % 95).collect();
        let mut rows = Rows::new();
        rows.push(&ids, 1);
        let options = ForwardOptions { temperature: 1.0, entropy: false, recompute: false };
        let found = decoder.score(&rows, options).ok()?.logps;
        Some(found[0].iter().copied().step_by(15).collect())
    }
}

#[test]
fn every_field_is_used_as_transformers_uses_it_or_refused() {
    let recorded = String::from_utf8(recorded::read(&fixtures().join("fields.jsonl.gz"))).unwrap();
    let (mut agree, mut refused, mut silent) = (0, 0, Vec::new());
    let mut unchanged = Vec::new();
    for line in recorded.lines() {
        let change: Change = serde_json::from_str(line).unwrap();
        let theirs = match &change.logps {
            Value::Null => continue,
            Value::Array(list) => list.iter().map(|x| x.as_f64().unwrap()).collect(),
            _ => unchanged.clone(),
        };
        if change.set.is_empty() && change.removed.is_empty() {
            unchanged.clone_from(&theirs);
        }
        match change.ours() {
            None => refused += 1,
            Some(ours) if ours.iter().zip(&theirs).all(|(a, b)| (a - b).abs() < NEAR) => agree += 1,
            Some(_) => silent.push(line.to_owned()),
        }
    }
    println!("{agree} agree, {refused} are refused here alone");
    assert!(silent.is_empty(), "{} give other numbers:\n{}", silent.len(), silent.join("\n"));
    assert!(agree > 500, "most changes must be read: {agree} of {}", agree + refused);
}

#[test]
fn a_field_is_declared_once() {
    for file in [&CONFIG, &ADAPTER] {
        let mut seen = BTreeMap::new();
        for (fate, names) in file.fields {
            for name in *names {
                assert_eq!(seen.insert(*name, *fate), None, "{name} of {}", file.file);
                assert_eq!(file.fate(name), *fate);
            }
        }
        assert!(matches!(file.others, FieldUse::Only(..)));
    }
}
