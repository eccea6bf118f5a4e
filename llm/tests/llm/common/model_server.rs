//! A server that speaks as vLLM does and samples with this program's own decoder, so that a run through it can be compared byte for byte.
#![allow(unreachable_pub, clippy::unwrap_used)] // also a module of a program, for tests/faults

use std::path::Path;
use std::sync::{Mutex, RwLock};

use grpo_lambda_decoder::generate::{Sampler, SamplingParams, SamplingRequest};
use grpo_lambda_decoder::model::{Decoder, ForwardOptions, ModelConfig, Rows, weights};
use grpo_lambda_decoder::rng::{Address, Purpose};
use grpo_lambda_decoder::truncation::Truncation;
use serde_json::{Value, json};

use super::http::{Asked, LoopbackServer, Reply};

/// The model that is served, and the name of its weights.
struct Served {
    shape: ModelConfig,
    decoder: RwLock<Decoder<f32>>,
    version: Mutex<String>,
}

/// Serves the checkpoint in `directory` under the name `model`, as long as the test lives.
pub fn serve(directory: &Path) -> LoopbackServer {
    let shape = ModelConfig::load(directory).unwrap();
    let decoder = RwLock::new(load(directory, &shape));
    let served = Served { shape, decoder, version: Mutex::new("default".to_owned()) };
    LoopbackServer::start(move |asked| served.answer(asked))
}

fn load(directory: &Path, shape: &ModelConfig) -> Decoder<f32> {
    Decoder::new(shape.clone(), weights::load(directory, shape).unwrap()).unwrap()
}

impl Served {
    fn answer(&self, asked: &Asked) -> Reply {
        let path = asked.path.split('?').next().unwrap();
        let answer = match path {
            "/health" | "/pause" | "/resume" | "/reset_prefix_cache" => Value::Null,
            "/v1/models" => {
                let context = self.shape.max_position_embeddings;
                // The owner by which the client knows that addresses are understood.
                json!({"data": [{"id": "model", "owned_by": "grpo-lambda", "max_model_len": context}]})
            }
            "/weight_info" => json!({"weight_version": *self.version.lock().unwrap()}),
            "/update_weight_version" => {
                *self.version.lock().unwrap() = asked.body["new_version"].as_str().unwrap().to_owned();
                json!({"success": true})
            }
            "/collective_rpc" => {
                assert_eq!(asked.body["method"], "reload_weights");
                let directory = asked.body["kwargs"]["weights_path"].as_str().unwrap();
                *self.decoder.write().unwrap() = load(Path::new(directory), &self.shape);
                json!({"results": [null]})
            }
            "/v1/completions" => completions(&asked.body, &self.decoder.read().unwrap()),
            other => return Reply::Answer(404, json!({"detail": other}).to_string()),
        };
        Reply::Answer(200, answer.to_string())
    }
}

/// The responses to the one prompt of a request.
fn completions(asked: &Value, decoder: &Decoder<f32>) -> Value {
    let whole = |field: &str| asked[field].as_u64().map(|n| usize::try_from(n).unwrap());
    let prompt: Vec<u32> = serde_json::from_value(asked["prompt"][0].clone()).unwrap();
    let eos: Vec<u32> =
        asked.get("stop_token_ids").map_or(Vec::new(), |ids| serde_json::from_value(ids.clone()).unwrap());
    let first: Address = match asked.get("address") {
        Some(address) => serde_json::from_value(address.clone()).unwrap(),
        None => Address::new(asked["seed"].as_u64().unwrap(), Purpose::Rollout),
    };
    let sampling = SamplingParams {
        max_new_tokens: whole("max_tokens").unwrap(),
        min_new_tokens: whole("min_tokens").unwrap_or(0),
        temperature: asked["temperature"].as_f64().unwrap(),
    };
    let (prompts, address) =
        ([prompt.as_slice()], |_: usize, response: usize| first.response(response as u64));
    let request = SamplingRequest {
        truncation: Truncation {
            top_k: whole("top_k").filter(|k| *k > 0),
            top_p: asked["top_p"].as_f64().filter(|p| *p < 1.0),
        },
        ..SamplingRequest::new(&prompts, whole("n").unwrap(), &eos, sampling, &address)
    };
    let scored = asked.get("prompt_logprobs").map(|_| prompt_logps(&prompt, decoder));
    let sampled = decoder.generate(&request).unwrap();
    let choices = sampled[0].iter().map(|response| {
        json!({
            "token_ids": response.tokens,
            "prompt_token_ids": prompt,
            "finish_reason": if response.truncated { "length" } else { "stop" },
            "logprobs": {"token_logprobs": response.logps, "token_entropies": response.entropies},
            "prompt_logprobs": scored,
        })
    });
    json!({ "choices": choices.collect::<Vec<_>>() })
}

/// The log-probability of each token of a prompt, in vLLM's form: none of the first.
fn prompt_logps(prompt: &[u32], decoder: &Decoder<f32>) -> Vec<Value> {
    let mut rows = Rows::new();
    rows.push(prompt, 1);
    let logps = decoder.score(&rows, ForwardOptions::default()).unwrap().logps;
    let known = prompt[1..].iter().zip(&logps[0]);
    let known = known.map(|(id, logp)| json!({ id.to_string(): {"logprob": logp} }));
    std::iter::once(Value::Null).chain(known).collect()
}
