//! Checks on a batch before any loss is computed: a wrong shape or a number that is not one is named with its place.

use crate::group::{Group, InputKind, Response, Series, StepValue};

/// A fault in a group, with its place (indices from 0). Every message starts with the field and ends with what would be right.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[allow(missing_docs, reason = "the message shows what each field holds")]
#[non_exhaustive]
pub enum BatchError {
    /// A group without responses.
    #[error("rewards: the group has no responses; a group-relative baseline needs at least 2")]
    EmptyGroup,
    /// A group with one response.
    #[error("rewards: the group has one response; a group-relative baseline needs at least 2")]
    SingleResponse,
    /// No response of a group has a reward.
    #[error("rewards: all {0} are missing; at least one response must be graded")]
    NoRewards(usize),
    /// A field that does not have one entry per response.
    #[error("{field}: {found} entries for {expected} rewards; one per response is needed")]
    Count { field: &'static str, found: usize, expected: usize },
    /// Two arrays of one response that differ in length.
    #[error(
        "{field}[{response}] has {found} entries, logps[{response}] has {expected}; one per token is needed"
    )]
    Length { field: &'static str, response: usize, found: usize, expected: usize },
    /// A number that is NaN or infinite.
    #[error("{field}[{response}][{token}] = {value}; must be a finite number")]
    NotFinite { field: &'static str, response: usize, token: usize, value: f64 },
    /// A reward that is NaN or infinite.
    #[error(
        "rewards[{response}] = {value}; must be a finite number, or null when the response could not be graded"
    )]
    Reward { response: usize, value: f64 },
    /// Steps that do not cover a response in order.
    #[error(
        "{field}[{response}]: the first step must start at token 0, each later one after it and before token {len}"
    )]
    Steps { field: &'static str, response: usize, len: usize },
    /// States of different widths.
    #[error(
        "{field}[{response}][{token}] has {found} numbers, {field}[{first}][0] has {expected}; all states of a group have one width"
    )]
    Width { field: &'static str, response: usize, token: usize, found: usize, first: usize, expected: usize },
    /// Lists of which some are empty, or longer than others, where all responses have as many numbers.
    #[error(
        "{field}[{response}] has {found} entries, {field}[0] has {expected}; every response has as many, at least one"
    )]
    Parts { field: &'static str, response: usize, found: usize, expected: usize },
    /// Extra inputs the method needs and the response lacks.
    #[error("{}: missing for response {response}; {}", kind.name(), why(*kind))]
    MissingInput { kind: InputKind, response: usize },
}

/// The extra input that is missing, and the way out.
fn why(kind: InputKind) -> String {
    let (name, provider) = (kind.name(), kind.provided_by());
    match kind.json() {
        None if kind == InputKind::RefLogps => {
            "beta is not 0, so every token needs its log-probability under the reference; give them, or set beta=0"
                .to_owned()
        }
        None => format!("{name} come from {provider}; give them, or choose another method"),
        Some((_, what)) => {
            format!("needed: {what}, from {provider}; give `{name}`, or choose another method")
        }
    }
}

/// Checks one group and the current log-probabilities of its responses against what a method needs.
///
/// # Errors
/// The first [`BatchError`] found.
///
/// ```
/// use grpo_lambda::{check, group::{Group, Response}};
/// let group = Group { responses: vec![Response::graded(vec![-0.7], 1.0), Response::graded(vec![-0.7, -0.1], 0.0)] };
/// let error = check::group(&group, &[vec![-0.7], vec![-0.7, f64::NAN]], &[]).unwrap_err();
/// assert_eq!(error.to_string(), "logps[1][1] = NaN; must be a finite number");
/// ```
pub fn group(group: &Group, logps: &[Vec<f64>], needs: &[InputKind]) -> Result<(), BatchError> {
    if group.responses.len() == 1 && logps.len() == 1 {
        return Err(BatchError::SingleResponse);
    }
    graded(group, logps, needs)
}

/// [`group`] for a method that compares no rewards of a group, so that one response is enough.
///
/// # Errors
/// The first [`BatchError`] found.
pub fn graded(group: &Group, logps: &[Vec<f64>], needs: &[InputKind]) -> Result<(), BatchError> {
    responses(group, logps, needs)?;
    if group.responses.iter().all(|r| r.reward.is_none()) {
        return Err(BatchError::NoRewards(group.responses.len()));
    }
    Ok(())
}

/// [`group`] without what a comparison of rewards needs: for a group whose advantages are given.
///
/// # Errors
/// The first [`BatchError`] found.
pub fn responses(group: &Group, logps: &[Vec<f64>], needs: &[InputKind]) -> Result<(), BatchError> {
    let responses = group.responses.len();
    if logps.len() != responses {
        return Err(BatchError::Count { field: "logps", found: logps.len(), expected: responses });
    }
    if responses == 0 {
        return Err(BatchError::EmptyGroup);
    }
    let tokens = group.responses.iter().any(|r| !r.tokens.is_empty());
    for (i, (response, logps)) in group.responses.iter().zip(logps).enumerate() {
        check_response(i, response, logps, needs)?;
        if tokens && response.tokens.is_empty() && !logps.is_empty() {
            return Err(BatchError::Length { field: "tokens", response: i, found: 0, expected: logps.len() });
        }
    }
    check_parts(group)?;
    check_widths(group)
}

/// Hidden states as wide as those of the first response that has any; each response's own are known to agree.
fn check_widths(group: &Group) -> Result<(), BatchError> {
    let width = |(i, r): (usize, &Response)| Some((i, r.extra_inputs.hidden.as_ref()?.first()?.len()));
    let mut widths = group.responses.iter().enumerate().filter_map(width);
    let Some((first, expected)) = widths.next() else { return Ok(()) };
    match widths.find(|(_, found)| *found != expected) {
        None => Ok(()),
        Some((response, found)) => {
            let (field, token) = (InputKind::Hidden.name(), 0);
            Err(BatchError::Width { field, response, token, found, first, expected })
        }
    }
}

/// Checks that every response has as many numbers, at least one.
fn check_parts(group: &Group) -> Result<(), BatchError> {
    let counts = |r: &Response| r.extra_inputs.reward_parts.as_ref().map(Vec::len);
    let expected = group.responses.first().and_then(counts);
    let found = group.responses.iter().map(counts).enumerate();
    let differs = |(response, found): (usize, Option<usize>)| match (found, expected) {
        (Some(found), Some(expected)) if found != expected || found == 0 => {
            Some(BatchError::Parts { field: "reward_parts", response, found, expected })
        }
        _ => None,
    };
    found.filter_map(differs).next().map_or(Ok(()), Err)
}

fn check_response(i: usize, r: &Response, logps: &[f64], needs: &[InputKind]) -> Result<(), BatchError> {
    // A response without a token counts with its reward alone: it needs no extra inputs, and has none of a token.
    let has_tokens = !(logps.is_empty() && r.old_logps.is_empty());
    if let Some(&kind) = needs.iter().find(|kind| has_tokens && !kind.is_in(r)) {
        return Err(BatchError::MissingInput { kind, response: i });
    }
    let len = logps.len();
    let reference = r.ref_logps.as_deref().map(|values| ("ref_logps", values));
    for (field, values) in
        [("logps", logps), ("old_logps", r.old_logps.as_slice())].into_iter().chain(reference)
    {
        check_series(i, field, Series::PerToken(values), len)?;
    }
    for (kind, series) in r.extra_inputs.series() {
        check_series(i, kind.name(), series, len)?;
    }
    if !r.tokens.is_empty() && r.tokens.len() != len {
        return Err(BatchError::Length {
            field: "tokens",
            response: i,
            found: r.tokens.len(),
            expected: len,
        });
    }
    match r.reward {
        Some(value) if !value.is_finite() => Err(BatchError::Reward { response: i, value }),
        _ => Ok(()),
    }
}

/// The form of `field` in response `i`, which has `len` tokens.
fn check_series(i: usize, field: &'static str, series: Series, len: usize) -> Result<(), BatchError> {
    match series {
        Series::PerToken(values) if values.len() != len => {
            Err(BatchError::Length { field, response: i, found: values.len(), expected: len })
        }
        Series::PerReasoningToken(values) if values.len() > len => {
            Err(BatchError::Length { field, response: i, found: values.len(), expected: len })
        }
        Series::PerToken(values) | Series::PerReasoningToken(values) | Series::PerReward(values) => {
            check_finite(i, field, values)
        }
        Series::PerStep([]) if len == 0 => Ok(()),
        Series::PerStep(steps) => check_steps(i, field, steps, len),
        Series::StatePerToken(states) => check_states(i, field, states, len),
    }
}

fn check_finite(i: usize, field: &'static str, values: &[f64]) -> Result<(), BatchError> {
    match values.iter().enumerate().find(|(_, v)| !v.is_finite()) {
        Some((token, &value)) => Err(BatchError::NotFinite { field, response: i, token, value }),
        None => Ok(()),
    }
}

/// One state per token, all of one width, their numbers finite.
fn check_states(i: usize, field: &'static str, states: &[Vec<f64>], len: usize) -> Result<(), BatchError> {
    if states.len() != len {
        return Err(BatchError::Length { field, response: i, found: states.len(), expected: len });
    }
    let expected = states.first().map_or(0, Vec::len);
    for (token, state) in states.iter().enumerate() {
        if state.len() != expected {
            let (response, found) = (i, state.len());
            return Err(BatchError::Width { field, response, token, found, first: i, expected });
        }
        if let Some(&value) = state.iter().find(|x| !x.is_finite()) {
            return Err(BatchError::NotFinite { field, response: i, token, value });
        }
    }
    Ok(())
}

/// Steps begin at token 0, each starts after the one before and inside the response, and their values are finite.
fn check_steps(i: usize, field: &'static str, steps: &[StepValue], len: usize) -> Result<(), BatchError> {
    let ordered = steps.windows(2).all(|w| w[0].start < w[1].start);
    if steps.first().map(|s| s.start) != Some(0) || !ordered || steps.iter().any(|s| s.start >= len) {
        return Err(BatchError::Steps { field, response: i, len });
    }
    match steps.iter().enumerate().find(|(_, s)| !s.value.is_finite()) {
        Some((token, s)) => Err(BatchError::NotFinite { field, response: i, token, value: s.value }),
        None => Ok(()),
    }
}
