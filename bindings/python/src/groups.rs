//! One group as a dictionary with the keys of `sim estimate`'s lines.

use grpo_lambda::check::BatchError;
use grpo_lambda::group::{
    ExtraInputs, Group, InputKind, InputSource, PerStep, Response, StatePerToken, StepValue,
};
use grpo_lambda::settings::did_you_mean;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyInt, PyList, PyTuple};

use crate::values::{is_flag, items, number, numbers, quoted, refused, shown, wrong};

/// A group with the current log-probabilities of its responses, if given.
pub(crate) struct Line {
    pub(crate) group: Group,
    pub(crate) logps: Option<Vec<Vec<f64>>>,
}

const REQUIRED: &str = "rewards, old_logps";
const LISTS: &str = "a list of lists of numbers";
const LIST: &str = "a list of numbers, one per token";
const STEP: &str = "[first token, value]";

/// Every key of a group, in the order of messages.
fn known() -> Vec<&'static str> {
    let before = ["id", "rewards", "logps", "old_logps", "ref_logps"];
    before.into_iter().chain(ExtraInputs::KINDS.map(InputKind::name)).chain(["tokens", "truncated"]).collect()
}

/// Reads a group. Shapes and finiteness are left to [`grpo_lambda::check`].
pub(crate) fn read(value: &Bound<'_, PyAny>) -> PyResult<Line> {
    let Ok(dict) = value.cast::<PyDict>() else {
        return Err(refused(format!("the group is {}; must be a dictionary with {REQUIRED}", shown(value))));
    };
    refuse_unknown(dict)?;
    let fields = Fields { dict };
    let rewards = rewards(&fields.require("rewards")?)?;
    let n = rewards.len();
    let logps = fields.take("logps")?.map(|v| lists("logps", n, &v)).transpose()?;
    let old_logps = lists("old_logps", n, &fields.require("old_logps")?)?;
    let ref_logps = fields.take("ref_logps")?.map(|v| lists("ref_logps", n, &v)).transpose()?;
    let tokens = fields.take("tokens")?.map(|v| tokens(n, &v)).transpose()?;
    let truncated = fields.take("truncated")?.map(|v| truncated(n, &v)).transpose()?;
    let mut source = Columns { fields: &fields, responses: n, response: 0 };
    let mut ref_logps = ref_logps.map(Vec::into_iter);
    let mut tokens = tokens.map(Vec::into_iter);
    let mut responses = Vec::with_capacity(n);
    for (i, (reward, old_logps)) in rewards.into_iter().zip(old_logps).enumerate() {
        source.response = i;
        responses.push(Response {
            tokens: tokens.as_mut().and_then(Iterator::next).unwrap_or_default(),
            old_logps,
            ref_logps: ref_logps.as_mut().and_then(Iterator::next),
            reward,
            truncated: truncated.as_ref().is_some_and(|flags| flags[i]),
            extra_inputs: ExtraInputs::read(&mut source)?,
        });
    }
    Ok(Line { group: Group { responses }, logps })
}

fn refuse_unknown(dict: &Bound<'_, PyDict>) -> PyResult<()> {
    let known = known();
    for key in dict.keys() {
        let key: String = key.extract().map_err(|_| refused(format!("{}: no field", shown(&key))))?;
        if !known.contains(&key.as_str()) {
            let hint = did_you_mean(&key, known.iter().copied());
            let all = known.join(", ");
            return Err(refused(format!("{}: unknown field{hint}; the fields are {all}", quoted(&key))));
        }
    }
    Ok(())
}

struct Fields<'a, 'py> {
    dict: &'a Bound<'py, PyDict>,
}

impl<'py> Fields<'_, 'py> {
    /// The field. `None` if it is absent or Python's `None`.
    fn take(&self, field: &str) -> PyResult<Option<Bound<'py, PyAny>>> {
        Ok(self.dict.get_item(field)?.filter(|value| !value.is_none()))
    }

    fn require(&self, field: &str) -> PyResult<Bound<'py, PyAny>> {
        let missing = || refused(format!("{field}: missing; every group needs {REQUIRED}"));
        self.take(field)?.ok_or_else(missing)
    }
}

/// One reward per response, `None` if it could not be graded.
pub(crate) fn rewards(value: &Bound<'_, PyAny>) -> PyResult<Vec<Option<f64>>> {
    const RIGHT: &str = "a number, or null when the response could not be graded";
    let reward = |(i, item): (usize, Bound<'_, PyAny>)| {
        if item.is_none() {
            return Ok(None);
        }
        number(&item).map(Some).ok_or_else(|| wrong("rewards", i, &item, RIGHT))
    };
    let entries = items("rewards", value, "a list of numbers, one per response")?;
    entries.into_iter().enumerate().map(reward).collect()
}

/// A list with one entry per response.
fn per_response<'py>(
    field: &'static str,
    responses: usize,
    value: &Bound<'py, PyAny>,
    right: &str,
) -> PyResult<Vec<Bound<'py, PyAny>>> {
    let entries = items(field, value, right)?;
    if entries.len() != responses {
        return Err(refused(BatchError::Count { field, found: entries.len(), expected: responses }));
    }
    Ok(entries)
}

/// A list of numbers per response.
pub(crate) fn lists(
    field: &'static str,
    responses: usize,
    value: &Bound<'_, PyAny>,
) -> PyResult<Vec<Vec<f64>>> {
    let entries = per_response(field, responses, value, LISTS)?;
    entries.iter().enumerate().map(|(i, row)| numbers(&format!("{field}[{i}]"), row, LIST)).collect()
}

/// Token ids of every response.
pub(crate) fn tokens(responses: usize, value: &Bound<'_, PyAny>) -> PyResult<Vec<Vec<u32>>> {
    const RIGHT: &str = "a whole number from 0 to 4294967295";
    let rows = per_response("tokens", responses, value, "a list of lists of token ids")?;
    let of_response = |(i, row): (usize, &Bound<'_, PyAny>)| {
        let place = format!("tokens[{i}]");
        let ids = items(&place, row, "a list of token ids")?;
        let id = |(t, x): (usize, &Bound<'_, PyAny>)| {
            let id = if is_flag(x) { None } else { x.extract::<u32>().ok() };
            id.ok_or_else(|| wrong(&place, t, x, RIGHT))
        };
        ids.iter().enumerate().map(id).collect()
    };
    rows.iter().enumerate().map(of_response).collect()
}

/// The micro-batch of every response.
pub(crate) fn parts(field: &'static str, responses: usize, value: &Bound<'_, PyAny>) -> PyResult<Vec<usize>> {
    const RIGHT: &str = "a whole number from 0, the micro-batch of the response";
    let entries = per_response(field, responses, value, "a list of whole numbers, one per response")?;
    let part = |(i, x): (usize, &Bound<'_, PyAny>)| {
        let part = if is_flag(x) { None } else { x.extract::<usize>().ok() };
        part.ok_or_else(|| wrong(field, i, x, RIGHT))
    };
    entries.iter().enumerate().map(part).collect()
}

/// True for each response that was cut off.
pub(crate) fn truncated(responses: usize, value: &Bound<'_, PyAny>) -> PyResult<Vec<bool>> {
    let flags = per_response("truncated", responses, value, "a list of true and false")?;
    let flag = |(i, x): (usize, &Bound<'_, PyAny>)| {
        if is_flag(x) { x.is_truthy() } else { Err(wrong("truncated", i, x, "true or false")) }
    };
    flags.iter().enumerate().map(flag).collect()
}

/// The fields of the extra inputs of a group, read response by response.
struct Columns<'a, 'py> {
    fields: &'a Fields<'a, 'py>,
    responses: usize,
    response: usize,
}

impl<'py> Columns<'_, 'py> {
    /// The place (as in `values[2]`) and the entry of the response in a kind's field.
    fn item(&self, kind: InputKind, right: &str) -> PyResult<Option<(String, Bound<'py, PyAny>)>> {
        let Some(value) = self.fields.take(kind.name())? else { return Ok(None) };
        let mut entries = per_response(kind.name(), self.responses, &value, right)?;
        Ok(Some((format!("{}[{}]", kind.name(), self.response), entries.swap_remove(self.response))))
    }
}

impl InputSource for Columns<'_, '_> {
    type Error = PyErr;

    fn numbers(&mut self, kind: InputKind) -> PyResult<Option<Vec<f64>>> {
        self.item(kind, LISTS)?.map(|(place, row)| numbers(&place, &row, LIST)).transpose()
    }

    fn steps(&mut self, kind: InputKind) -> PyResult<Option<PerStep>> {
        let found = self.item(kind, "a list of lists of [first token, value]")?;
        found.map(|(place, row)| steps(&place, &row)).transpose()
    }

    fn states(&mut self, kind: InputKind) -> PyResult<Option<StatePerToken>> {
        const RIGHT: &str = "a list of lists of states, one per token, each a list of numbers";
        self.item(kind, RIGHT)?.map(|(place, row)| states(&place, &row)).transpose()
    }
}

/// The steps of a response, each `[first token, value]`.
pub(crate) fn steps(place: &str, row: &Bound<'_, PyAny>) -> PyResult<PerStep> {
    let pairs = items(place, row, "a list of [first token, value]")?;
    let step = |(t, pair): (usize, &Bound<'_, PyAny>)| {
        let refuse = || wrong(place, t, pair, STEP);
        if !pair.is_instance_of::<PyList>() && !pair.is_instance_of::<PyTuple>() {
            return Err(refuse());
        }
        let entries = items(place, pair, STEP)?;
        let [first, value] = entries.as_slice() else { return Err(refuse()) };
        let whole = first.is_instance_of::<PyInt>() && !first.is_instance_of::<PyBool>();
        match (first.extract::<usize>(), number(value)) {
            (Ok(start), Some(value)) if whole => Ok(StepValue { start, value }),
            _ => Err(refuse()),
        }
    };
    pairs.iter().enumerate().map(step).collect()
}

/// One state per token of a response.
pub(crate) fn states(place: &str, row: &Bound<'_, PyAny>) -> PyResult<StatePerToken> {
    let states = items(place, row, "a list of states, one per token")?;
    let state =
        |(t, x): (usize, &Bound<'_, PyAny>)| numbers(&format!("{place}[{t}]"), x, "a list of numbers");
    states.iter().enumerate().map(state).collect()
}
