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

/// The paths that `GET` asks for.
const GET: [&str; 5] = ["/health", "/version", "/v1/models", "/is_paused", "/weight_info"];
/// The paths that `POST` asks for, with a body; all but the first change the server.
pub(super) const POST: [&str; 6] =
    [COMPLETIONS, "/pause", "/resume", "/reset_prefix_cache", RELOAD, "/update_weight_version"];
const COMPLETIONS: &str = "/v1/completions";
const RELOAD: &str = "/collective_rpc";

impl Site {
    /// The path that is asked for, if it is answered.
    pub(super) fn endpoint(&self, method: &str, path: &str) -> Result<&'static str, ApiError> {
        let mut known = GET.map(|path| ("GET", path)).into_iter().chain(POST.map(|path| ("POST", path)));
        if let Some((_, path)) = known.find(|known| *known == (method, path)) {
            let changes = POST.contains(&path) && path != COMPLETIONS;
            return if changes { self.model.check_reloads().map(|()| path) } else { Ok(path) };
        }
        let paths = [&GET[..], &POST[..]].concat();
        let status = if paths.contains(&path) { 405 } else { 404 };
        Err(ApiError::new(status, format!("{method} {path}: there are {}", paths.join(", "))))
    }

    /// A place among those that take the model's time or memory, if the path does.
    pub(super) fn place(&self, path: &str) -> Result<Option<SemaphorePermit<'_>>, ApiError> {
        let (places, full) = match path {
            COMPLETIONS => (&self.model.places, "as many requests wait already as may (--queue)"),
            RELOAD => (&self.model.reload_place, "another request reloads weights"),
            _ => return Ok(None),
        };
        let full = |_| ApiError::new(429, format!("{full}; ask again later"));
        places.try_acquire().map(Some).map_err(full)
    }

    /// The JSON of the answer to a path of [`Self::endpoint`]. Paths that change the server are those of vLLM's development mode.
    pub(super) async fn answer(self: &Arc<Self>, path: &str, body: Vec<u8>) -> Result<String, ApiError> {
        let value = match path {
            "/health" => return Ok(String::new()),
            COMPLETIONS => return self.completions(body).await,
            "/version" => json!({"version": env!("CARGO_PKG_VERSION")}),
            "/v1/models" => self.models(),
            "/is_paused" => json!({"is_paused": self.model.is_paused()}),
            "/weight_info" => json!({"weight_version": self.model.version()}),
            "/pause" => {
                self.model.pause(true);
                json!({"status": "paused"})
            }
            "/resume" => {
                self.model.pause(false);
                json!({"status": "resumed"})
            }
            // Nothing is cached between requests.
            "/reset_prefix_cache" => json!({"success": true}),
            RELOAD => {
                let path = self.model.prepare(move || weights_path(&fields(&body)?)).await?;
                self.model.reload(path).await?;
                json!({"results": [null]})
            }
            _ => {
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
