//! Checks on a batch before any loss is computed: a wrong shape or a number that is not one is named with its place.

use crate::group::{EvidenceKind, Group, Response};

/// What is wrong with a batch, and where (indices from 0).
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum BatchError {
    /// A group without responses.
    #[error("the group has no responses; it needs at least 2")]
    EmptyGroup,
    /// A group with one response.
    #[error("the group has one response; a group-relative baseline needs at least 2")]
    SingleResponse,
    /// No response of a group has a reward.
    #[error("rewards: all {0} are missing; at least one response must be graded")]
    NoRewards(usize),
    /// A response without tokens.
    #[error("{field}[{response}] is empty; a response has at least one token (its EOS)")]
    EmptyResponse {
        /// The field.
        field: &'static str,
        /// The response.
        response: usize,
    },
    /// Two arrays of one response that differ in length.
    #[error("{field}[{response}] has {found} entries; the response has {expected} tokens")]
    Length {
        /// The field.
        field: &'static str,
        /// The response.
        response: usize,
        /// Its length.
        found: usize,
        /// The response's length.
        expected: usize,
    },
    /// A number that is NaN or infinite.
    #[error("{field}[{response}][{token}] = {value}; must be a finite number")]
    NotFinite {
        /// The field.
        field: &'static str,
        /// The response.
        response: usize,
        /// The token.
        token: usize,
        /// The value.
        value: f64,
    },
    /// A reward that is NaN or infinite.
    #[error(
        "rewards[{response}] = {value}; must be a finite number, or null when the response could not be graded"
    )]
    Reward {
        /// The response.
        response: usize,
        /// The value.
        value: f64,
    },
    /// Evidence the method needs and the response lacks.
    #[error("{} is missing for response {response}; the method's settings need it", kind.name())]
    MissingEvidence {
        /// What is missing.
        kind: EvidenceKind,
        /// The response.
        response: usize,
    },
}

/// Checks one group and the current log-probabilities of its responses against what a method needs.
///
/// # Errors
/// The first [`BatchError`] found.
pub fn group(group: &Group, logps: &[Vec<f64>], needs: &[EvidenceKind]) -> Result<(), BatchError> {
    match group.responses.len() {
        0 => return Err(BatchError::EmptyGroup),
        1 => return Err(BatchError::SingleResponse),
        _ => {}
    }
    for (i, response) in group.responses.iter().enumerate() {
        check_response(i, response, &logps[i], needs)?;
    }
    if group.responses.iter().all(|r| r.reward.is_none()) {
        return Err(BatchError::NoRewards(group.responses.len()));
    }
    Ok(())
}

fn check_response(i: usize, r: &Response, logps: &[f64], needs: &[EvidenceKind]) -> Result<(), BatchError> {
    if logps.is_empty() {
        return Err(BatchError::EmptyResponse { field: "logps", response: i });
    }
    let expected = logps.len();
    if let Some(&kind) = needs.iter().find(|kind| !kind.is_in(r)) {
        return Err(BatchError::MissingEvidence { kind, response: i });
    }
    let optional = |name, values: &'_ Option<Vec<f64>>| values.clone().map(|v| (name, v));
    let fields = [
        Some(("logps", logps.to_vec())),
        Some(("old_logps", r.old_logps.clone())),
        optional("ref_logps", &r.ref_logps),
        optional("entropies", &r.evidence.entropies),
        optional("values", &r.evidence.values),
    ];
    for (field, values) in fields.into_iter().flatten() {
        if values.len() != expected {
            return Err(BatchError::Length { field, response: i, found: values.len(), expected });
        }
        if let Some((token, &value)) = values.iter().enumerate().find(|(_, v)| !v.is_finite()) {
            return Err(BatchError::NotFinite { field, response: i, token, value });
        }
    }
    if !r.tokens.is_empty() && r.tokens.len() != expected {
        return Err(BatchError::Length { field: "tokens", response: i, found: r.tokens.len(), expected });
    }
    match r.reward {
        Some(value) if !value.is_finite() => Err(BatchError::Reward { response: i, value }),
        _ => Ok(()),
    }
}
