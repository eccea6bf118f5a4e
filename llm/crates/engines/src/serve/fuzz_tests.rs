//! Damaged requests: none panics or is answered with a number that is none, and a model that was served stays served.
#![allow(clippy::unwrap_used)]

use std::sync::Arc;

use grpo_lambda_decoder::model::weights::SaveDtype;
use grpo_lambda_decoder::model::{Architecture::Qwen2, Decoder, ModelConfig, ModelShape, weights};
use serde_json::{Value, json};
use tokio::runtime::Builder;

use super::completion_request::Limits;
use super::model::ServedModel;
use super::routes::Site;
use crate::fuzzer::fuzz;
use grpo_lambda_trainer::input::tokens::ModelTokenizer;

const CONTEXT: usize = 24;

fn site(reload_from: &std::path::Path) -> Arc<Site> {
    let tokens = ModelTokenizer::tiny();
    let shape = ModelConfig {
        intermediate_size: 32,
        ..Qwen2.config(ModelShape { vocab: tokens.len(), hidden: 16, layers: 1, heads: 2, kv_heads: 1 })
    };
    let parameters = weights::initialise(&shape, 1, 0.3);
    std::fs::create_dir(reload_from.join("weights")).unwrap();
    weights::save(&reload_from.join("weights"), &shape, &parameters, SaveDtype::F32, usize::MAX).unwrap();
    let limits = Limits { vocabulary: tokens.len(), context: CONTEXT, tokens: 4 * CONTEXT };
    let decoder = Decoder::new(shape, parameters).unwrap();
    let model = ServedModel::new(decoder, 2, Some(reload_from.canonicalize().unwrap()));
    Arc::new(Site { model, tokens, name: "tiny".to_owned(), limits })
}

fn answer(site: &Arc<Site>, path: &str, bytes: &[u8]) -> Result<Value, String> {
    let runtime = Builder::new_current_thread().build().unwrap();
    let endpoint = site.endpoint("POST", path).unwrap();
    let answer = runtime.block_on(site.answer(endpoint, bytes.to_vec()));
    answer.map(|text| serde_json::from_str(&text).unwrap()).map_err(|e| {
        // What the request says is the request's fault, and told as such.
        assert!((400..500).contains(&e.status), "{}: {}", e.status, e.message);
        e.message
    })
}

fn seeds(values: &[Value]) -> Vec<Vec<u8>> {
    values.iter().map(|value| value.to_string().into_bytes()).collect()
}

#[test]
fn completions() {
    let dir = tempfile::tempdir().unwrap();
    let site = site(dir.path());
    let seeds = seeds(&[
        json!({"model": "tiny", "prompt": [[5, 6, 7], [8, 9]], "n": 2, "max_tokens": 4, "min_tokens": 1, "temperature": 0.75, "top_p": 0.95,
            "top_k": 5, "seed": 1, "logprobs": 0, "prompt_logprobs": 0, "return_token_ids": true, "ignore_eos": true}),
        json!({"prompt": "1 + 2 =", "max_tokens": 3, "temperature": 0, "stop": ["4", "\n"], "include_stop_str_in_output": true, "min_p": 0,
            "stop_token_ids": [3], "return_tokens_as_token_ids": true, "logprobs": 0}),
        json!({"prompt": [5, 6], "max_tokens": 2, "logit_bias": {}, "stream": false, "seed": 9007199254740993_u64,
            "address": {"seed": 3, "purpose": "rollout", "step": 1, "prompt": 2, "response": 0}}),
    ]);
    fuzz("POST /v1/completions", 400, &seeds, |bytes| {
        let found = answer(&site, "/v1/completions", bytes)?;
        for choice in found["choices"].as_array().unwrap() {
            let lists = [&choice["logprobs"]["token_logprobs"], &choice["logprobs"]["token_entropies"]];
            // A number that is none would be written as null.
            let numbers = lists.iter().filter_map(|list| list.as_array()).flatten();
            assert!(numbers.clone().all(Value::is_number), "{choice}");
        }
        Ok(())
    });
}

#[test]
fn what_changes_the_server() {
    let dir = tempfile::tempdir().unwrap();
    let site = site(dir.path());
    let path = dir.path().join("weights");
    let reload = json!({"method": "reload_weights", "kwargs": {"weights_path": path}});
    fuzz("POST /collective_rpc", 300, &seeds(&[reload]), |bytes| {
        answer(&site, "/collective_rpc", bytes).map(drop)
    });
    let version = json!({"new_version": "step-7"});
    fuzz("POST /update_weight_version", 300, &seeds(&[version]), |bytes| {
        answer(&site, "/update_weight_version", bytes).map(drop)
    });
    assert!(answer(&site, "/v1/completions", br#"{"prompt": [5], "max_tokens": 2}"#).is_ok());
}
