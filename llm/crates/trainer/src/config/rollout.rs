//! The server that samples in this program's place.

use std::path::PathBuf;
use std::time::Duration;

use super::ConfigError;
use super::sections::RolloutFields;

/// A server with the settings of its requests.
#[derive(Clone, Debug, PartialEq)]
pub struct RolloutConfig {
    /// `http://HOST:PORT`, without a path.
    pub url: String,
    /// The served model; `None` for the only one.
    pub model: Option<String>,
    /// The directory for handing over weights; `None` for the run directory.
    pub weights: Option<PathBuf>,
    /// Time limit of a request.
    pub timeout: Duration,
    /// Attempts to sample after the first.
    pub retries: u64,
    /// Requests under way at a time.
    pub concurrency: usize,
}

/// The server of the section `rollout`; `None` if this program samples.
///
/// # Errors
/// [`ConfigError::Conflict`] without an address, or with one that is not usable.
pub(super) fn read(fields: RolloutFields) -> Result<Option<RolloutConfig>, ConfigError> {
    let RolloutFields { engine, url, model, weights, timeout, retries, concurrency } = fields;
    if engine == "local" {
        return Ok(None);
    }
    let (url, timeout) = (rollout_url(&engine, &url)?, Duration::from_secs_f64(timeout));
    Ok(Some(RolloutConfig { url, model, weights, timeout, retries, concurrency }))
}

/// The address without a slash at its end.
///
/// # Errors
/// [`ConfigError::Conflict`] without an address (`none`), or with one that is not usable.
pub fn rollout_url(engine: &str, given: &str) -> Result<String, ConfigError> {
    let conflict = |problem: String| Err(ConfigError::Conflict(problem));
    if given == "none" {
        return conflict(format!(
            "rollout.engine = {engine}: rollout.url is missing; give the server's address, as in rollout.url=http://127.0.0.1:8000"
        ));
    }
    if given.starts_with("https://") {
        return conflict(format!(
            "rollout.url = {given}: this program speaks no TLS; give http://HOST:PORT, of a tunnel (ssh -L) if the server is elsewhere"
        ));
    }
    let host = given.strip_prefix("http://").map(|rest| rest.trim_end_matches('/'));
    match host {
        Some(host) if !host.is_empty() && !host.contains(['/', '?', '#', '@', ' ']) => {
            Ok(format!("http://{host}"))
        }
        _ => conflict(format!(
            "rollout.url = {given}: must be http://HOST:PORT without a path, as in http://127.0.0.1:8000"
        )),
    }
}
