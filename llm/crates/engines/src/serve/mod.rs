//! A model behind vLLM's completion endpoint, for whoever samples over HTTP.
//!
//! ```text
//! connection (http) -> head: who asks (guard), what (routes) -> body -> completion_request (read, checked) -> model (its turn) -> completion (answer)
//! ```
//! One thread holds the connections and never computes; what computes or reads files does so on another. Everything is bounded (limits).

mod completion;
mod completion_request;
mod error;
mod fields;
#[cfg(test)]
mod fuzz_tests;
mod guard;
mod http;
mod limits;
mod model;
mod routes;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use grpo_lambda_decoder::model::Decoder;
use tokio::net::TcpListener;
use tokio::runtime::{Builder, Runtime};

use completion_request::Limits;
use grpo_lambda_trainer::input::tokens::ModelTokenizer;
use guard::Guard;
use http::Connections;
use model::ServedModel;
use routes::Site;

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
    runtime: Runtime,
    listener: TcpListener,
    connections: Arc<Connections>,
    address: SocketAddr,
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
        let refused = |e: std::io::Error| format!("cannot listen on {}: {e}", settings.address);
        let runtime = Builder::new_current_thread().enable_io().enable_time().build().map_err(refused)?;
        let listener = runtime.block_on(TcpListener::bind(settings.address)).map_err(refused)?;
        let address = listener.local_addr().map_err(refused)?;
        let shape = model.config();
        let limits = Limits {
            vocabulary: shape.vocab_size,
            context: shape.max_position_embeddings,
            tokens: settings.tokens,
        };
        let model = ServedModel::new(model, settings.queue, settings.reload_from);
        let site = Arc::new(Site { model, tokens, name: settings.name, limits });
        let guard = Guard { token: settings.token, is_local: address.ip().is_loopback() };
        let connections = Connections { site, guard, longest: settings.body, open: Mutex::default() };
        Ok(Listening { runtime, listener, connections: Arc::new(connections), address })
    }

    /// The address that it listens on; with port 0, the port that the system chose.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Answers until a signal asks for the end.
    pub fn run(self) {
        self.runtime.block_on(self.connections.serve(self.listener));
        // A computation that has had its time, or whose client is gone.
        self.runtime.shutdown_background();
    }
}
