//! The endpoints: method and path to an answer.

use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::{Map, Value, json};

use super::completion::complete;
use super::completion_request::{CompletionRequest, Limits};
use super::error::ApiError;
use super::model::ServedModel;
use crate::remote::vllm::OURS;
use grpo_lambda_trainer::input::tokens::ModelTokenizer;

/// The model behind the endpoints.
pub(super) struct Site {
    pub(super) model: ServedModel,
    pub(super) tokens: ModelTokenizer,
    /// The name under which the model is served.
    pub(super) name: String,
    pub(super) limits: Limits,
}

type Body = Option<Map<String, Value>>;

impl Site {
    /// Answers a request that may be answered.
    pub(super) fn answer(&self, method: &str, path: &str, body: Body) -> Result<Value, ApiError> {
        match (method, path) {
            ("GET", "/health") => Ok(Value::Null),
            ("GET", "/version") => Ok(json!({"version": env!("CARGO_PKG_VERSION")})),
            ("GET", "/v1/models") => Ok(self.models()),
            ("POST", "/v1/completions") => self.completions(&needed(body)?),
            ("GET", "/is_paused") => Ok(json!({"is_paused": self.model.is_paused()})),
            ("GET", "/weight_info") => Ok(json!({"weight_version": self.model.version()})),
            (
                "POST",
                "/pause" | "/resume" | "/reset_prefix_cache" | "/collective_rpc" | "/update_weight_version",
            ) => {
                self.model.check_reloads()?;
                self.change(path, body)
            }
            (_, path) => self.unknown(method, path),
        }
    }

    fn unknown(&self, method: &str, path: &str) -> Result<Value, ApiError> {
        let known = [
            "/health",
            "/version",
            "/v1/models",
            "/v1/completions",
            "/is_paused",
            "/weight_info",
            "/pause",
            "/resume",
            "/reset_prefix_cache",
            "/collective_rpc",
            "/update_weight_version",
        ];
        let status = if known.contains(&path) { 405 } else { 404 };
        Err(ApiError::new(status, format!("{method} {path}: there are {}", known.join(", "))))
    }

    fn models(&self) -> Value {
        let one = json!({
            "id": self.name,
            "object": "model",
            "created": 0,
            "owned_by": OURS,
            "max_model_len": self.limits.context,
        });
        json!({"object": "list", "data": [one]})
    }

    fn completions(&self, body: &Map<String, Value>) -> Result<Value, ApiError> {
        if let Some(model) =
            body.get("model").filter(|model| !model.is_null() && **model != self.name.as_str())
        {
            let message = format!("model = {model}: the server has \"{}\"", self.name);
            return Err(ApiError { status: 404, ..ApiError::field("model", message) });
        }
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        // Without a seed, a response is another one every time.
        let fallback = now.as_nanos() as u64 >> 1;
        let request = CompletionRequest::read(body, &self.tokens, self.limits, fallback)?;
        self.model.with(|decoder| complete(&request, decoder, &self.tokens, &self.name, now.as_secs()))
    }

    /// Changes the server; the endpoints and their answers are those of vLLM's development mode.
    fn change(&self, path: &str, body: Body) -> Result<Value, ApiError> {
        match path {
            "/pause" => {
                self.model.pause(true);
                Ok(json!({"status": "paused"}))
            }
            "/resume" => {
                self.model.pause(false);
                Ok(json!({"status": "resumed"}))
            }
            // Nothing is cached between requests.
            "/reset_prefix_cache" => Ok(json!({"success": true})),
            "/update_weight_version" => {
                let body = needed(body)?;
                let version = body.get("new_version").and_then(Value::as_str);
                let version =
                    version.ok_or_else(|| ApiError::field("new_version", "new_version: must be a text"))?;
                self.model.set_version(version);
                Ok(json!({"success": true, "new_version": version}))
            }
            _ => self.call(&needed(body)?),
        }
    }

    fn call(&self, body: &Map<String, Value>) -> Result<Value, ApiError> {
        let method = body.get("method").and_then(Value::as_str).unwrap_or_default();
        if method != "reload_weights" {
            return Err(ApiError::field(
                "method",
                format!("method = {method:?}: must be \"reload_weights\""),
            ));
        }
        let path = body.get("kwargs").and_then(|kwargs| kwargs.get("weights_path")?.as_str());
        let path = path.ok_or_else(|| {
            ApiError::field("kwargs", "kwargs.weights_path: must be the path of a checkpoint directory")
        })?;
        self.model.reload(path)?;
        Ok(json!({"results": [null]}))
    }
}

fn needed(body: Body) -> Result<Map<String, Value>, ApiError> {
    body.ok_or_else(|| ApiError::new(400, "the request has no body; it must be a JSON object"))
}
