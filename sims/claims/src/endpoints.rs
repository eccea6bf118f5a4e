//! The primary endpoint of every experiment, from `paper/endpoints.toml`.

use anyhow::Context as _;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::sync::LazyLock;

const TEXT: &str = include_str!("../../../paper/endpoints.toml");

/// An experiment's primary endpoint.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Endpoint {
    /// The quantity, and the rule that decides on it.
    pub endpoint: String,
    /// The key of the finding that decides on it.
    pub decided_by: String,
    /// The relative change within which a setting counts as unchanged.
    margin: Option<f64>,
}

static ENDPOINTS: LazyLock<Result<BTreeMap<String, Endpoint>, toml::de::Error>> =
    LazyLock::new(|| toml::from_str(TEXT));

/// The endpoints by experiment.
///
/// # Errors
/// When the file cannot be read as a table of endpoints.
pub fn endpoints() -> anyhow::Result<&'static BTreeMap<String, Endpoint>> {
    ENDPOINTS.as_ref().map_err(|e| anyhow::anyhow!("paper/endpoints.toml: {e}"))
}

/// The endpoint of an experiment.
pub(crate) fn endpoint(id: &str) -> anyhow::Result<&'static Endpoint> {
    endpoints()?
        .get(id)
        .with_context(|| format!("paper/endpoints.toml: `{id}` has no endpoint; add its table [{id}]"))
}

/// The margin of equivalence of an experiment.
pub(crate) fn margin(id: &str) -> anyhow::Result<f64> {
    endpoint(id)?
        .margin
        .filter(|m| m.is_finite() && *m > 0.0)
        .with_context(|| format!("paper/endpoints.toml: `{id}` has no margin above 0; add `margin = 0.1`"))
}
