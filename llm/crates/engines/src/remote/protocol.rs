//! The operations that any server has to offer.

use super::answer::{Answered, Ask, Probe, Probed};
use super::error::EngineError;
use super::http::Http;

/// A server's description of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Served {
    /// The name under which it serves the model.
    pub(super) model: String,
    /// Its context in tokens, if it says so.
    pub(super) context: Option<usize>,
    /// True for [`crate::serve`], which takes the address of a response's random numbers in place of a seed.
    pub(super) takes_addresses: bool,
}

/// A server's endpoints.
pub(super) trait Protocol: Send + Sync {
    /// The model of this name, or the only one.
    fn served(&self, http: &Http, model: Option<&str>) -> Result<Served, EngineError>;

    /// Responses to one prompt.
    fn sample(&self, http: &Http, served: &Served, ask: &Ask<'_>) -> Result<Vec<Answered>, EngineError>;

    /// Scores a known sequence and continues it.
    fn probe(&self, http: &Http, served: &Served, probe: Probe<'_>) -> Result<Probed, EngineError>;

    /// The name of the weights that the server has now.
    fn version(&self, http: &Http) -> Result<String, EngineError>;

    /// Makes the server read the weights in `directory` and call them `version`.
    fn load(&self, http: &Http, directory: &str, version: &str) -> Result<(), EngineError>;
}
