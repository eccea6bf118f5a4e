//! A model behind vLLM's completion endpoint, for whoever samples over HTTP.
//!
//! ```text
//! request -> guard (who asks, token) -> routes -> completion_request (read, checked) -> model (its turn) -> completion (answer)
//! ```
//! Everything is bounded: the body, the tokens of a request, who waits.

mod completion;
mod completion_request;
mod error;
mod fields;
#[cfg(test)]
mod fuzz_tests;
mod guard;
mod model;
mod routes;

use std::io::Read;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use grpo_lambda_decoder::model::Decoder;
use serde_json::{Map, Value};
use tiny_http::{Header, Method, Request, Response, Server};

use completion_request::Limits;
use error::ApiError;
use grpo_lambda_trainer::input::tokens::ModelTokenizer;
use grpo_lambda_trainer::run::stop;
use model::ServedModel;
use routes::Site;

/// The time after which a thread without a request looks for a signal.
const LOOK: Duration = Duration::from_millis(200);
/// Threads that answer while all places of the queue are taken.
const SPARE: usize = 4;

/// The settings of a server.
#[derive(Clone, Debug)]
pub struct ServeSettings {
    pub address: SocketAddr,
    /// The name under which the model is served.
    pub name: String,
    /// Requests that may wait or compute.
    pub queue: usize,
    /// The longest body of a request, in bytes.
    pub body: usize,
    /// Prompts times responses times their longest length, of a request.
    pub tokens: usize,
    /// The token that requests must carry.
    pub token: Option<String>,
    /// The canonical directory from which weights may be reloaded.
    pub reload_from: Option<PathBuf>,
}

/// A server that listens.
pub struct Listening {
    server: Server,
    site: Site,
    settings: ServeSettings,
}

impl Listening {
    /// Begins to listen.
    ///
    /// # Errors
    /// If the system refuses the address.
    pub fn open(
        settings: ServeSettings,
        model: Decoder<f32>,
        tokens: ModelTokenizer,
    ) -> Result<Listening, String> {
        let refused = |e: &dyn std::fmt::Display| format!("cannot listen on {}: {e}", settings.address);
        let server = Server::http(settings.address).map_err(|e| refused(&e))?;
        let shape = model.config();
        let limits = Limits {
            vocabulary: shape.vocab_size,
            context: shape.max_position_embeddings,
            tokens: settings.tokens,
        };
        let name = settings.name.clone();
        let model = ServedModel::new(model, settings.queue, settings.reload_from.clone());
        Ok(Listening { server, site: Site { model, tokens, name, limits }, settings })
    }

    /// The address that it listens on; with port 0, the port that the system chose.
    pub fn address(&self) -> SocketAddr {
        self.server.server_addr().to_ip().unwrap_or(self.settings.address)
    }

    /// Answers until a signal asks for the end.
    pub fn run(&self) {
        std::thread::scope(|scope| {
            for _ in 0..self.settings.queue + SPARE {
                scope.spawn(|| {
                    while stop::requested().is_none() {
                        if let Ok(Some(request)) = self.server.recv_timeout(LOOK) {
                            self.serve(request);
                        }
                    }
                    // Who waits for the end of a pause would wait for ever.
                    self.site.model.pause(false);
                });
            }
        });
    }

    fn serve(&self, mut request: Request) {
        let answer = self.answer(&mut request);
        let (status, text) = match answer {
            Ok(Value::Null) => (200, String::new()),
            Ok(value) => (200, value.to_string()),
            Err(error) => (error.status, error.body().to_string()),
        };
        let mut response = Response::from_string(text).with_status_code(status);
        if let Ok(header) = Header::from_bytes("Content-Type", "application/json") {
            response.add_header(header);
        }
        // A client that went away does not hear the answer.
        drop(request.respond(response));
    }

    fn answer(&self, request: &mut Request) -> Result<Value, ApiError> {
        let path = request.url().split('?').next().unwrap_or_default().to_owned();
        guard::check(request, &path, self.settings.token.as_deref())?;
        guard::check_type(request)?;
        let method = request.method().to_string();
        let body = if *request.method() == Method::Post { self.body(request)? } else { None };
        self.site.answer(&method, &path, body)
    }

    /// The body as a JSON object; none where it is empty.
    fn body(&self, request: &mut Request) -> Result<Option<Map<String, Value>>, ApiError> {
        let most = self.settings.body;
        let too_long = || ApiError::new(413, format!("the body has more than {most} bytes (--max-body)"));
        if request.body_length().is_some_and(|length| length > most) {
            return Err(too_long());
        }
        let mut text = String::new();
        let read = request.as_reader().take(most as u64 + 1).read_to_string(&mut text);
        read.map_err(|e| ApiError::new(400, format!("the body cannot be read as UTF-8 text: {e}")))?;
        if text.len() > most {
            return Err(too_long());
        }
        fields(&text)
    }
}

/// A body as a JSON object; none where it is empty.
fn fields(text: &str) -> Result<Option<Map<String, Value>>, ApiError> {
    if text.trim().is_empty() {
        return Ok(None);
    }
    match serde_json::from_str(text) {
        Ok(Value::Object(fields)) => Ok(Some(fields)),
        Ok(_) => Err(ApiError::new(400, "the body is JSON, but no object")),
        Err(e) => Err(ApiError::new(400, format!("the body is not JSON: {e}"))),
    }
}
