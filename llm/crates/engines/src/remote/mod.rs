//! Responses from a vLLM server.
//!
//! ```text
//! weights moved -> checkpoint on disk -> reload on the server -> a known sequence scored and compared     follower, weights, check
//! prompt ids -> one request with its seed -> token ids, log-probabilities -> checked -> responses          server, vllm, answer
//! ```
//! Token ids go in and come out; no text is tokenised twice. What a server could get wrong silently is refused by name.

mod answer;
mod check;
mod error;
mod follower;
#[cfg(test)]
mod fuzz_tests;
mod http;
mod sampler;
mod server;
#[cfg(test)]
mod tests;
mod vllm;
mod weights;

pub use error::EngineError;
pub use follower::ServerFollower;
pub use sampler::RemoteSampler;
pub use server::Server;
