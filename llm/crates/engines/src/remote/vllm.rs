//! vLLM: its completions endpoint, and the development endpoints that reload weights (`VLLM_SERVER_DEV_MODE=1`).

use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::answer::{Answered, Ask, Finish, PROBE_TEMPERATURE, Probe, Probed};
use super::error::EngineError;
use super::http::{Http, SHORT};

/// A server and the model that it has.
pub struct Vllm {
    pub http: Http,
    /// The name under which it serves the model.
    pub model: String,
    /// Its context in tokens. `None` if it does not say.
    pub context: Option<usize>,
    /// True for a server with this program's own sampler (a test has one): it takes the address of a response's random numbers in place of a seed.
    pub takes_addresses: bool,
}

const COMPLETIONS: &str = "/v1/completions";
/// The owner that such a server states for its model.
const OURS: &str = "grpo-lambda";
/// The option of a server whose log-probabilities are those of the distribution a token was drawn from.
const MODE: &str = "start the server with --logprobs-mode processed_logprobs";

#[derive(Deserialize)]
struct Models {
    data: Vec<Model>,
}

#[derive(Deserialize)]
struct Model {
    id: String,
    max_model_len: Option<usize>,
    owned_by: Option<String>,
}

#[derive(Deserialize)]
struct Completions {
    choices: Vec<Choice>,
}

#[derive(Deserialize)]
struct Choice {
    token_ids: Option<Vec<u32>>,
    prompt_token_ids: Option<Vec<u32>>,
    finish_reason: Option<String>,
    logprobs: Option<Logprobs>,
    prompt_logprobs: Option<Vec<Option<Map<String, Value>>>>,
}

#[derive(Deserialize)]
struct Logprobs {
    token_logprobs: Vec<Option<f64>>,
    /// Entropies, from a server that gives them.
    token_entropies: Option<Vec<f64>>,
}

impl Vllm {
    /// The model of this name, or the only one.
    pub fn find(http: Http, model: Option<&str>) -> Result<Vllm, EngineError> {
        http.get("/health")?;
        let models: Models = read(http.get("/v1/models")?)?;
        let names = || models.data.iter().map(|m| m.id.as_str()).collect::<Vec<_>>().join(", ");
        let found = match model {
            Some(name) => models.data.iter().find(|m| m.id == name),
            None if models.data.len() == 1 => models.data.first(),
            None => {
                return Err(EngineError::refused(format!(
                    "the server has {} models ({}); choose one with rollout.model=NAME",
                    models.data.len(),
                    names()
                )));
            }
        };
        let found = found.ok_or_else(|| {
            let name = model.unwrap_or_default();
            EngineError::refused(format!("rollout.model = {name}: the server has {}", names()))
        })?;
        Ok(Vllm {
            http,
            model: found.id.clone(),
            context: found.max_model_len,
            takes_addresses: found.owned_by.as_deref() == Some(OURS),
        })
    }

    /// Responses to one prompt.
    pub fn sample(&self, ask: &Ask<'_>) -> Result<Vec<Answered>, EngineError> {
        let mut more = json!({
            "n": ask.n,
            "top_p": ask.truncation.top_p.unwrap_or(1.0),
            "top_k": ask.truncation.top_k.unwrap_or(0),
            "min_tokens": ask.at_least,
            "seed": ask.seed(),
            // The end tokens are ours, and no others: those of the server's files may differ.
            "ignore_eos": true,
            "stop_token_ids": ask.eos,
        });
        if self.takes_addresses {
            more["address"] = json!(ask.address);
        }
        let body = self.question(ask.prompt, ask.limit, ask.temperature, more);
        let answer = self.http.post(COMPLETIONS, Some(&body), ask.longest_answer())?;
        responses(answer, ask).map_err(|e| e.at(self.http.url()))
    }

    /// Scores a known sequence and continues it.
    pub fn probe(&self, probe: Probe<'_>) -> Result<Probed, EngineError> {
        let more = json!({"n": 1, "top_p": 1.0, "top_k": 0, "seed": 0, "prompt_logprobs": 0});
        let body = self.question(probe.prompt, probe.limit, PROBE_TEMPERATURE, more);
        let longest = SHORT + 2048 * (probe.prompt.len() + probe.limit) as u64;
        probed(self.http.post(COMPLETIONS, Some(&body), longest)?, probe)
    }

    /// The name of the weights that the server has.
    pub fn version(&self) -> Result<String, EngineError> {
        let info = self.http.get("/weight_info").map_err(needs_dev_mode)?;
        let version = info.get("weight_version").and_then(Value::as_str).map(str::to_owned);
        version.ok_or_else(|| EngineError::refused(format!("/weight_info has no weight_version: {info}")))
    }

    /// Makes the server read the weights in `directory` and call them `version`.
    ///
    /// Requests wait from `/pause` to `/resume`; without the reset, cached keys and values would be those of the old weights.
    pub fn load(&self, directory: &str, version: &str) -> Result<(), EngineError> {
        let http = &self.http;
        http.post("/pause?mode=keep", None, SHORT).map_err(needs_dev_mode)?;
        let reload = json!({"method": "reload_weights", "kwargs": {"weights_path": directory}});
        let loaded = http
            .post("/collective_rpc", Some(&reload), SHORT)
            .and_then(|_| http.post("/reset_prefix_cache", None, SHORT))
            .and_then(|_| http.post("/update_weight_version", Some(&json!({"new_version": version})), SHORT));
        // Also after a failure: whoever else asks must not wait for ever.
        let resumed = http.post("/resume", None, SHORT);
        loaded.map_err(|e| e.at(&format!("reloading the weights in {directory}")))?;
        resumed.map(drop)
    }

    /// The fields of every request, each that a server would otherwise fill from its own files, and these.
    fn question(&self, prompt: &[u32], limit: usize, temperature: f64, more: Value) -> Value {
        let mut fields = json!({
            "model": self.model,
            "prompt": [prompt],
            "max_tokens": limit,
            "temperature": temperature,
            "min_p": 0.0,
            "presence_penalty": 0.0,
            "frequency_penalty": 0.0,
            "repetition_penalty": 1.0,
            "logprobs": 0,
            "return_token_ids": true,
            "return_tokens_as_token_ids": true,
            "stream": false,
        });
        if let (Some(fields), Value::Object(more)) = (fields.as_object_mut(), more) {
            fields.extend(more);
        }
        fields
    }
}

/// The responses of an answer to `ask`.
pub fn responses(answer: Value, ask: &Ask<'_>) -> Result<Vec<Answered>, EngineError> {
    let choices = read::<Completions>(answer)?.choices;
    if choices.len() != ask.n {
        return Err(EngineError::refused(format!(
            "{} responses to a prompt, and {} were asked for",
            choices.len(),
            ask.n
        )));
    }
    choices.into_iter().map(|choice| choice.answered(ask.prompt)).collect()
}

/// The result of `probe` in an answer.
pub fn probed(answer: Value, probe: Probe<'_>) -> Result<Probed, EngineError> {
    let mut choices = read::<Completions>(answer)?.choices;
    let Some(mut choice) = choices.pop() else {
        return Err(EngineError::refused("the answer has no choice; one was asked for"));
    };
    let prompt = prompt_logps(choice.prompt_logprobs.take(), probe.prompt)?;
    let answered = choice.answered(probe.prompt)?;
    let logps = answered.logps.into_iter().flatten().collect();
    Ok(Probed { prompt, tokens: answered.tokens, logps })
}

fn read<T: serde::de::DeserializeOwned>(answer: Value) -> Result<T, EngineError> {
    serde_json::from_value(answer)
        .map_err(|e| EngineError::refused(format!("the answer has not the form of vLLM's: {e}")))
}

impl Choice {
    fn answered(self, prompt: &[u32]) -> Result<Answered, EngineError> {
        let finish = match self.finish_reason.as_deref() {
            Some("abort" | "error") => return Err(EngineError::passing("the server aborted a response")),
            Some("stop") => Finish::Stop,
            Some("length") => Finish::Length,
            other => Finish::Other(other.unwrap_or("none").to_owned()),
        };
        let refused = |problem: &str| EngineError::refused(problem.to_owned());
        let tokens = self.token_ids.ok_or_else(|| {
            refused("token_ids is null; the server must know return_token_ids (vLLM 0.11 or later)")
        })?;
        let Logprobs { token_logprobs: logps, token_entropies: entropies } =
            self.logprobs.ok_or_else(|| {
                refused("logprobs is null; the server must return log-probabilities (see --max-logprobs)")
            })?;
        if self.prompt_token_ids.is_some_and(|echoed| echoed != prompt) {
            return Err(refused("prompt_token_ids are not those that were sent"));
        }
        Ok(Answered { tokens, logps, entropies, finish })
    }
}

/// The log-probabilities of a prompt from its second token on: `[null, {"197": {"logprob": -7.0}}, ..]`.
fn prompt_logps(
    listed: Option<Vec<Option<Map<String, Value>>>>,
    prompt: &[u32],
) -> Result<Vec<f64>, EngineError> {
    let listed = listed
        .filter(|listed| listed.len() == prompt.len())
        .ok_or_else(|| EngineError::refused("prompt_logprobs do not fit the prompt; one entry per token"))?;
    let logp = |(entry, token): (Option<Map<String, Value>>, &u32)| {
        let entry = entry.as_ref().and_then(|entry| entry.get(&token.to_string()));
        entry.and_then(|entry| entry.get("logprob")?.as_f64())
    };
    let known: Option<Vec<f64>> = listed.into_iter().zip(prompt).skip(1).map(logp).collect();
    known.ok_or_else(|| EngineError::refused("prompt_logprobs lacks a token of the prompt"))
}

/// The error of a server without a development endpoint.
fn needs_dev_mode(error: EngineError) -> EngineError {
    if error.to_string().contains("status 404") {
        return EngineError::refused(format!(
            "{error}: the server reloads no weights; start vLLM with VLLM_SERVER_DEV_MODE=1 in its environment"
        ));
    }
    error
}

/// The line about a server in raw mode.
pub fn raw_mode() -> String {
    format!("its log-probabilities leave the temperature out (raw_logprobs); {MODE}")
}
