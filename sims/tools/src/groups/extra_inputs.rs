//! Extra inputs of a line besides rewards and log-probabilities, read by the declared kinds.

use super::values::{LIST, LISTS, items, number, numbers, wrong};
use crate::json::Json;
use grpo_lambda::group::{ExtraInputs, InputKind, InputSource, PerStep, StatePerToken, StepValue};
use std::collections::HashMap;

const STEP: &str = "[first token, value]";

/// The extra inputs of every response. `read` takes a field's entries, one per response, from the line; the whole field must be what its second
/// argument says.
pub(super) fn of_responses(
    responses: usize,
    read: impl FnMut(&'static str, &str) -> Result<Option<Vec<Json>>, String>,
) -> Result<Vec<ExtraInputs>, String> {
    let mut columns = InputColumns { read, columns: HashMap::new(), response: 0 };
    let of_response = |i| {
        columns.response = i;
        ExtraInputs::read(&mut columns)
    };
    (0..responses).map(of_response).collect()
}

/// The fields of a line that hold extra inputs, as the responses read it one after the other.
struct InputColumns<F> {
    read: F,
    /// Each kind's field for every response; `None` if there is no such field.
    columns: HashMap<InputKind, Option<Vec<Json>>>,
    /// The response that reads.
    response: usize,
}

impl<F: FnMut(&'static str, &str) -> Result<Option<Vec<Json>>, String>> InputColumns<F> {
    /// A kind's field for the response, and its place as in `values[2]`. The whole field must be `right`.
    fn item(&mut self, kind: InputKind, right: &str) -> Result<Option<(String, Json)>, String> {
        let (field, i) = (kind.name(), self.response);
        if !self.columns.contains_key(&kind) {
            let column = (self.read)(field, right)?;
            self.columns.insert(kind, column);
        }
        let column = self.columns.get_mut(&kind).and_then(Option::as_mut);
        Ok(column.map(|items| (format!("{field}[{i}]"), std::mem::replace(&mut items[i], Json::Null))))
    }
}

impl<F: FnMut(&'static str, &str) -> Result<Option<Vec<Json>>, String>> InputSource for InputColumns<F> {
    type Error = String;

    fn numbers(&mut self, kind: InputKind) -> Result<Option<Vec<f64>>, String> {
        self.item(kind, LISTS)?.map(|(place, item)| numbers(&place, item, LIST)).transpose()
    }

    fn steps(&mut self, kind: InputKind) -> Result<Option<PerStep>, String> {
        let Some((place, item)) = self.item(kind, "a list of lists of [first token, value]")? else {
            return Ok(None);
        };
        let pairs = items(&place, item, "a list of [first token, value]")?.into_iter().enumerate();
        pairs.map(|(t, pair)| step(&place, t, &pair)).collect::<Result<_, _>>().map(Some)
    }

    fn states(&mut self, kind: InputKind) -> Result<Option<StatePerToken>, String> {
        const RIGHT: &str = "a list of lists of states, one per token, each a list of numbers";
        let Some((place, item)) = self.item(kind, RIGHT)? else { return Ok(None) };
        let states = items(&place, item, "a list of states, one per token")?.into_iter().enumerate();
        let state = |(t, state)| numbers(&format!("{place}[{t}]"), state, "a list of numbers");
        states.map(state).collect::<Result<_, _>>().map(Some)
    }
}

/// A step of a response, `[first token, value]`.
fn step(place: &str, index: usize, pair: &Json) -> Result<StepValue, String> {
    let Json::List(entries) = pair else { return Err(wrong(place, index, pair, STEP)) };
    let start = entries.first().and_then(|start| match start {
        Json::Number(n) => n.as_u64().and_then(|n| usize::try_from(n).ok()),
        _ => None,
    });
    match (start, entries.get(1).and_then(number), entries.len()) {
        (Some(start), Some(value), 2) => Ok(StepValue { start, value }),
        _ => Err(wrong(place, index, pair, STEP)),
    }
}
