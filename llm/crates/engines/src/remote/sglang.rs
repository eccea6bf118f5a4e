//! SGLang: its own endpoints. Written from its documentation; not yet run against a server.

use serde::Deserialize;
use serde_json::{Value, json};

use super::answer::{Answered, Ask, Finish, PROBE_TEMPERATURE, Probe, Probed};
use super::error::EngineError;
use super::http::{Http, SHORT};
use super::protocol::{Protocol, Served};

pub(super) struct Sglang;

#[derive(Deserialize)]
struct Generated {
    meta_info: MetaInfo,
}

#[derive(Deserialize)]
struct MetaInfo {
    finish_reason: Option<FinishReason>,
    /// `[logp, id, text or null]` of each sampled token.
    output_token_logprobs: Option<Vec<(Option<f64>, u32, Value)>>,
    /// The same of the prompt; the first token has no log-probability.
    input_token_logprobs: Option<Vec<(Option<f64>, u32, Value)>>,
}

#[derive(Deserialize)]
struct FinishReason {
    #[serde(rename = "type")]
    kind: String,
}

impl Protocol for Sglang {
    fn served(&self, http: &Http, model: Option<&str>) -> Result<Served, EngineError> {
        http.get("/health")?;
        let info = http.get("/get_model_info")?;
        let path = info.get("model_path").and_then(Value::as_str).unwrap_or("default").to_owned();
        if let Some(name) = model.filter(|name| *name != path) {
            return Err(EngineError::refused(format!("rollout.model = {name}: the server has {path}")));
        }
        let context = http.get("/get_server_info").ok();
        let context = context.and_then(|info| info.get("context_length")?.as_u64());
        let context = context.and_then(|n| usize::try_from(n).ok());
        Ok(Served { model: path, context, takes_addresses: false })
    }

    /// Each response is an entry of its own, with its own seed: with `n`, all would have the same one.
    fn sample(&self, http: &Http, _: &Served, ask: &Ask<'_>) -> Result<Vec<Answered>, EngineError> {
        let one = |i: usize| {
            json!({
                "max_new_tokens": ask.limit,
                "min_new_tokens": ask.at_least,
                "temperature": ask.temperature,
                "top_p": ask.truncation.top_p.unwrap_or(1.0),
                "top_k": ask.truncation.top_k.map_or(-1, |k| i64::try_from(k).unwrap_or(-1)),
                "min_p": 0.0,
                "frequency_penalty": 0.0,
                "presence_penalty": 0.0,
                "repetition_penalty": 1.0,
                "stop_token_ids": ask.eos,
                "no_stop_trim": true,
                "skip_special_tokens": false,
                // A seed of 31 bits, which is what its sampler takes; used with --enable-deterministic-inference.
                "sampling_seed": (ask.seed() + i as u64) & 0x7fff_ffff,
            })
        };
        let body = json!({
            "input_ids": vec![ask.prompt; ask.n],
            "sampling_params": (0..ask.n).map(one).collect::<Vec<_>>(),
            "return_logprob": true,
            "logprob_start_len": -1,
            "stream": false,
        });
        responses(http.post("/generate", Some(&body), ask.longest_answer())?, ask)
    }

    fn probe(&self, http: &Http, _: &Served, probe: Probe<'_>) -> Result<Probed, EngineError> {
        let body = json!({
            "input_ids": [probe.prompt],
            "sampling_params": [{
                "max_new_tokens": probe.limit,
                "temperature": PROBE_TEMPERATURE,
                "top_p": 1.0,
                "top_k": -1,
                "min_p": 0.0,
                "frequency_penalty": 0.0,
                "presence_penalty": 0.0,
                "repetition_penalty": 1.0,
                "ignore_eos": true,
                "no_stop_trim": true,
            }],
            "return_logprob": true,
            "logprob_start_len": 0,
            "stream": false,
        });
        let longest = SHORT + 2048 * (probe.prompt.len() + probe.limit) as u64;
        probed(http.post("/generate", Some(&body), longest)?, probe)
    }

    fn version(&self, http: &Http) -> Result<String, EngineError> {
        let info = http.get("/get_model_info")?;
        let version = info.get("weight_version").and_then(Value::as_str).map(str::to_owned);
        version.ok_or_else(|| EngineError::refused("/get_model_info has no weight_version (SGLang 0.5 has)"))
    }

    fn load(&self, http: &Http, directory: &str, version: &str) -> Result<(), EngineError> {
        http.post("/pause_generation", Some(&json!({})), SHORT)?;
        let body = json!({"model_path": directory, "flush_cache": true, "weight_version": version});
        let loaded = http.post("/update_weights_from_disk", Some(&body), SHORT);
        let resumed = http.post("/continue_generation", Some(&json!({})), SHORT);
        let loaded = loaded.map_err(|e| e.at(&format!("reloading the weights in {directory}")))?;
        if loaded.get("success").and_then(Value::as_bool) != Some(true) {
            return Err(EngineError::refused(format!("reloading the weights in {directory}: {loaded}")));
        }
        resumed.map(drop)
    }
}

/// The responses of an answer to `ask`.
pub(super) fn responses(answer: Value, ask: &Ask<'_>) -> Result<Vec<Answered>, EngineError> {
    let answers: Vec<Generated> = read(answer)?;
    if answers.len() != ask.n {
        let (there, n) = (answers.len(), ask.n);
        return Err(EngineError::refused(format!("{there} responses to a prompt, and {n} were asked for")));
    }
    answers.into_iter().map(Generated::answered).collect()
}

/// What an answer says of `probe`.
pub(super) fn probed(answer: Value, probe: Probe<'_>) -> Result<Probed, EngineError> {
    let mut answers: Vec<Generated> = read(answer)?;
    let Some(mut answer) = answers.pop() else {
        return Err(EngineError::refused("the answer is empty; one response was asked for"));
    };
    let listed = answer.meta_info.input_token_logprobs.take().unwrap_or_default();
    let fits = listed.iter().map(|(_, id, _)| id).eq(probe.prompt);
    let prompt: Option<Vec<f64>> = listed.iter().skip(1).map(|(logp, ..)| *logp).collect();
    let prompt = prompt.filter(|_| fits).ok_or_else(|| {
        EngineError::refused("input_token_logprobs do not fit the prompt; one entry per token")
    })?;
    let answered = answer.answered()?;
    Ok(Probed { prompt, tokens: answered.tokens, logps: answered.logps.into_iter().flatten().collect() })
}

fn read<T: serde::de::DeserializeOwned>(answer: Value) -> Result<T, EngineError> {
    serde_json::from_value(answer)
        .map_err(|e| EngineError::refused(format!("the answer has not the form of SGLang's: {e}")))
}

impl Generated {
    fn answered(self) -> Result<Answered, EngineError> {
        let listed = self.meta_info.output_token_logprobs.ok_or_else(|| {
            EngineError::refused("output_token_logprobs is null; the server must return log-probabilities")
        })?;
        let finish = self.meta_info.finish_reason.map_or("none".to_owned(), |reason| reason.kind);
        let (logps, tokens) = listed.into_iter().map(|(logp, id, _)| (logp, id)).unzip();
        Ok(Answered { tokens, logps, entropies: None, finish: Finish::parse(&finish) })
    }
}
