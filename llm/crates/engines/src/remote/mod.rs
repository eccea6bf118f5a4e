//! Responses from a vLLM server.
//!
//! ```text
//! weights moved -> checkpoint on disk -> reload on the server -> a known sequence scored and compared     follower, weights, check
//! prompt ids -> one request with its seed -> token ids, log-probabilities -> checked -> responses          server, vllm, answer
//! ```
//! Token ids go in and come out; no text is tokenised twice. What a server could get wrong silently is refused by name.

#[doc(hidden)]
pub mod answer;
#[doc(hidden)]
pub mod check;
mod error;
mod follower;
#[doc(hidden)]
pub mod http;
#[doc(hidden)]
pub mod sampler;
#[doc(hidden)]
pub mod server;
#[doc(hidden)]
pub mod vllm;
#[doc(hidden)]
pub mod weights;

pub use error::EngineError;
pub use follower::ServerFollower;
pub use sampler::RemoteSampler;
pub use server::Server;
