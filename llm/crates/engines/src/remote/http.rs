//! A blocking client for JSON over HTTP without TLS: timeouts, bounded answers, no redirects, no proxies.

use std::time::Duration;

use serde_json::Value;
use ureq::{Agent, RequestBuilder};

use super::error::EngineError;

/// The most time that a connection may take to open.
const CONNECT: Duration = Duration::from_secs(5);
/// The longest answer of an endpoint that says little, in bytes.
pub const SHORT: u64 = 1 << 20;
/// The environment variable with the token of a server that asks for one.
const TOKEN: &str = "LLM_TRAIN_TOKEN";

/// A server.
pub struct Http {
    agent: Agent,
    url: String,
    token: Option<String>,
}

impl Http {
    /// The server at `url`; a request may take `timeout`.
    pub fn new(url: &str, timeout: Duration) -> Self {
        let config = Agent::config_builder()
            .http_status_as_error(false)
            .max_redirects(0)
            .proxy(None)
            // Servers close connections that lie idle for a few seconds, which a training step takes: each request opens its own.
            .max_idle_connections(0)
            .timeout_connect(Some(CONNECT.min(timeout)))
            .timeout_global(Some(timeout))
            .build();
        let token = std::env::var(TOKEN).ok().filter(|token| !token.is_empty());
        Http { agent: config.new_agent(), url: url.to_owned(), token }
    }

    /// The answer to `GET path`.
    pub fn get(&self, path: &str) -> Result<Value, EngineError> {
        let request = self.authorized(self.agent.get(format!("{}{path}", self.url)));
        self.answer(&format!("GET {path}"), request.call(), SHORT)
    }

    /// The answer to `POST path`, of at most `longest` bytes.
    pub fn post(&self, path: &str, body: Option<&Value>, longest: u64) -> Result<Value, EngineError> {
        let request = self.authorized(self.agent.post(format!("{}{path}", self.url)));
        let sent = match body {
            Some(body) => request.header("Content-Type", "application/json").send(body.to_string()),
            None => request.send_empty(),
        };
        self.answer(&format!("POST {path}"), sent, longest)
    }

    fn authorized<B>(&self, request: RequestBuilder<B>) -> RequestBuilder<B> {
        match &self.token {
            Some(token) => request.header("Authorization", format!("Bearer {token}")),
            None => request,
        }
    }

    pub fn url(&self) -> &str {
        &self.url
    }

    /// The JSON of a successful answer.
    fn answer(
        &self,
        asked: &str,
        answer: Result<ureq::http::Response<ureq::Body>, ureq::Error>,
        longest: u64,
    ) -> Result<Value, EngineError> {
        let place = format!("{}: {asked}", self.url);
        let mut answer = answer.map_err(|e| EngineError::passing(e.to_string()).at(&place))?;
        let status = answer.status().as_u16();
        let text = answer.body_mut().with_config().limit(longest).read_to_string();
        let text = text.map_err(|e| broken_body(e, longest).at(&place))?;
        value_of(&place, status, &text)
    }
}

/// The JSON of an answer, if it is a successful one; an empty one is null.
pub fn value_of(place: &str, status: u16, text: &str) -> Result<Value, EngineError> {
    let value = if text.trim().is_empty() { Ok(Value::Null) } else { serde_json::from_str(text) };
    if !(200..300).contains(&status) {
        let said = value.map_or_else(|_| line(text), |value| complaint(&value));
        let message = format!("{place}: status {status}: {said}");
        // Too many requests, and failures of the server itself, pass; a request that is refused does not.
        let passes = status == 429 || status >= 500;
        return Err(if passes { EngineError::passing(message) } else { EngineError::refused(message) });
    }
    value.map_err(|e| EngineError::refused(format!("{place}: the answer is not JSON: {e}")))
}

fn broken_body(error: ureq::Error, longest: u64) -> EngineError {
    match error {
        ureq::Error::BodyExceedsLimit(_) => {
            EngineError::refused(format!("the answer is longer than the {longest} bytes it may have"))
        }
        other => EngineError::passing(format!("the answer broke off: {other}")),
    }
}

/// The server's words about a failure: vLLM's and OpenAI's `error.message`, the framework's `detail`, or everything.
fn complaint(body: &Value) -> String {
    let said = body.pointer("/error/message").or_else(|| body.get("detail")).or_else(|| body.get("message"));
    match said {
        Some(Value::String(text)) => line(text),
        _ => line(&body.to_string()),
    }
}

/// A text on one line, cut short when it is long.
fn line(text: &str) -> String {
    cut(&text.split_whitespace().collect::<Vec<_>>().join(" "), 300)
}

/// The first `most` characters of a text.
fn cut(text: &str, most: usize) -> String {
    match text.char_indices().nth(most) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text.to_owned(),
    }
}
