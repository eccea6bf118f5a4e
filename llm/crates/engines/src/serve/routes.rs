//! The endpoints: method and path to an answer.

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use grpo_lambda_decoder::model::Decoder;
use serde_json::{Map, Value, json};
use tokio::sync::SemaphorePermit;

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

/// A method and a path that are answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Endpoint {
    Health,
    Version,
    Models,
    Completions,
    IsPaused,
    WeightInfo,
    Pause,
    Resume,
    ResetPrefixCache,
    CollectiveRpc,
    UpdateWeightVersion,
}

const ENDPOINTS: [(&str, &str, Endpoint); 11] = [
    ("GET", "/health", Endpoint::Health),
    ("GET", "/version", Endpoint::Version),
    ("GET", "/v1/models", Endpoint::Models),
    ("POST", "/v1/completions", Endpoint::Completions),
    ("GET", "/is_paused", Endpoint::IsPaused),
    ("GET", "/weight_info", Endpoint::WeightInfo),
    ("POST", "/pause", Endpoint::Pause),
    ("POST", "/resume", Endpoint::Resume),
    ("POST", "/reset_prefix_cache", Endpoint::ResetPrefixCache),
    ("POST", "/collective_rpc", Endpoint::CollectiveRpc),
    ("POST", "/update_weight_version", Endpoint::UpdateWeightVersion),
];

impl Endpoint {
    /// True if a request has a body.
    pub(super) fn takes_a_body(self) -> bool {
        ENDPOINTS.iter().any(|(method, _, endpoint)| *endpoint == self && *method == "POST")
    }

    /// True if it changes the server.
    fn changes(self) -> bool {
        self.takes_a_body() && self != Endpoint::Completions
    }
}

impl Site {
    /// The endpoint that is asked.
    pub(super) fn endpoint(&self, method: &str, path: &str) -> Result<Endpoint, ApiError> {
        let mut there = ENDPOINTS.iter().filter(|(_, known, _)| *known == path).peekable();
        let status = if there.peek().is_some() { 405 } else { 404 };
        match there.find(|(known, ..)| *known == method) {
            Some((.., endpoint)) if endpoint.changes() => self.model.check_reloads().map(|()| *endpoint),
            Some((.., endpoint)) => Ok(*endpoint),
            None => {
                let known: Vec<&str> = ENDPOINTS.iter().map(|(_, path, _)| *path).collect();
                Err(ApiError::new(status, format!("{method} {path}: there are {}", known.join(", "))))
            }
        }
    }

    /// A place among those that take the model's time or memory, if the endpoint does.
    pub(super) fn place(&self, endpoint: Endpoint) -> Result<Option<SemaphorePermit<'_>>, ApiError> {
        match endpoint {
            Endpoint::Completions => self.model.place().map(Some),
            Endpoint::CollectiveRpc => self.model.place_of_reload().map(Some),
            _ => Ok(None),
        }
    }

    /// The JSON of an answer. A changing endpoint and its answer are those of vLLM's development mode.
    pub(super) async fn answer(
        self: &Arc<Self>,
        endpoint: Endpoint,
        body: Vec<u8>,
    ) -> Result<String, ApiError> {
        let value = match endpoint {
            Endpoint::Health => return Ok(String::new()),
            Endpoint::Completions => return self.completions(body).await,
            Endpoint::Version => json!({"version": env!("CARGO_PKG_VERSION")}),
            Endpoint::Models => self.models(),
            Endpoint::IsPaused => json!({"is_paused": self.model.is_paused()}),
            Endpoint::WeightInfo => json!({"weight_version": self.model.version()}),
            Endpoint::Pause => {
                self.model.pause(true);
                json!({"status": "paused"})
            }
            Endpoint::Resume => {
                self.model.pause(false);
                json!({"status": "resumed"})
            }
            // Nothing is cached between requests.
            Endpoint::ResetPrefixCache => json!({"success": true}),
            Endpoint::CollectiveRpc => {
                let path = self.model.prepare(move || weights_path(&fields(&body)?)).await?;
                self.model.reload(path).await?;
                json!({"results": [null]})
            }
            Endpoint::UpdateWeightVersion => {
                let version = self.model.prepare(move || new_version(&fields(&body)?)).await?;
                self.model.set_version(&version);
                json!({"success": true, "new_version": version})
            }
        };
        Ok(value.to_string())
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

    async fn completions(self: &Arc<Self>, body: Vec<u8>) -> Result<String, ApiError> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let site = Arc::clone(self);
        let request = self.model.prepare(move || site.completion_request(&fields(&body)?, now)).await?;
        let site = Arc::clone(self);
        let compute = move |decoder: &Decoder<f32>| {
            Ok(complete(&request, decoder, &site.tokens, &site.name, now.as_secs())?.to_string())
        };
        self.model.with(compute).await
    }

    fn completion_request(
        &self,
        body: &Map<String, Value>,
        now: Duration,
    ) -> Result<CompletionRequest, ApiError> {
        if let Some(model) =
            body.get("model").filter(|model| !model.is_null() && **model != self.name.as_str())
        {
            let message = format!("model = {model}: the server has \"{}\"", self.name);
            return Err(ApiError { status: 404, ..ApiError::field("model", message) });
        }
        // Without a seed, a response is another one every time.
        let fallback = now.as_nanos() as u64 >> 1;
        CompletionRequest::read(body, &self.tokens, self.limits, fallback)
    }
}

/// The path in a request to reload weights.
fn weights_path(body: &Map<String, Value>) -> Result<String, ApiError> {
    let method = body.get("method").and_then(Value::as_str).unwrap_or_default();
    if method != "reload_weights" {
        return Err(ApiError::field("method", format!("method = {method:?}: must be \"reload_weights\"")));
    }
    let path = body.get("kwargs").and_then(|kwargs| kwargs.get("weights_path")?.as_str());
    path.map(str::to_owned).ok_or_else(|| {
        ApiError::field("kwargs", "kwargs.weights_path: must be the path of a checkpoint directory")
    })
}

fn new_version(body: &Map<String, Value>) -> Result<String, ApiError> {
    let version = body.get("new_version").and_then(Value::as_str);
    version.map(str::to_owned).ok_or_else(|| ApiError::field("new_version", "new_version: must be a text"))
}

/// A body as a JSON object.
fn fields(body: &[u8]) -> Result<Map<String, Value>, ApiError> {
    if body.trim_ascii().is_empty() {
        return Err(ApiError::new(400, "the request has no body; it must be a JSON object"));
    }
    match serde_json::from_slice(body) {
        Ok(Value::Object(fields)) => Ok(fields),
        Ok(_) => Err(ApiError::new(400, "the body is JSON, but no object")),
        Err(e) => Err(ApiError::new(400, format!("the body is not JSON: {e}"))),
    }
}
