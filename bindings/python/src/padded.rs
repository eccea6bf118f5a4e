//! Reading of padded arrays with a mask, the form of trainers, into groups of responses without padding.

use grpo_lambda::group::{
    ExtraInputs, Group, InputKind, InputSource, PerStep, Response, StatePerToken, StepValue,
};
use grpo_lambda::settings::did_you_mean;
use grpo_lambda_stats::table::significant;
use numpy::PyReadonlyArray2;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use std::collections::HashMap;

use crate::groups::{rewards, states, steps, tokens, truncated};
use crate::layout::{Layout, Slots};
use crate::values::{axes, matrix, numbers, quoted, refused, shown};

/// Optional inputs besides rewards, log-probabilities and the mask.
pub(crate) struct Extras<'a, 'py> {
    pub(crate) ref_logps: Option<&'a Bound<'py, PyAny>>,
    pub(crate) tokens: Option<&'a Bound<'py, PyAny>>,
    pub(crate) truncated: Option<&'a Bound<'py, PyAny>>,
    pub(crate) extra_inputs: Option<&'a Bound<'py, PyDict>>,
}

/// The mask of a batch: the slots of the policy's tokens in each row.
pub(crate) struct Mask {
    pub(crate) width: usize,
    pub(crate) slots: Vec<Slots>,
}

impl Mask {
    /// Reads a mask of zeros and ones with at least one token in each row.
    pub(crate) fn read(value: &Bound<'_, PyAny>) -> PyResult<Mask> {
        let array = matrix("mask", value)?;
        let view = array.as_array();
        let (rows, width) = view.dim();
        let flat = array.as_slice()?;
        let mut slots = Vec::with_capacity(rows);
        for row in 0..rows {
            let mask = &flat[row * width..(row + 1) * width];
            if let Some(t) = mask.iter().position(|m| *m != 0.0 && *m != 1.0) {
                return Err(refused(format!(
                    "mask[{row}][{t}] = {}; must be 0 or 1",
                    significant(mask[t], 17)
                )));
            }
            slots.push(Slots::from_mask(mask));
        }
        Ok(Mask { width, slots })
    }

    /// An array with the shape of the mask.
    pub(crate) fn like<'py>(
        &self,
        name: &str,
        value: &Bound<'py, PyAny>,
    ) -> PyResult<PyReadonlyArray2<'py, f64>> {
        let array = matrix(name, value)?;
        let (expected, found) = ([self.slots.len(), self.width], array.as_array().shape().to_vec());
        if found != expected {
            return Err(refused(format!("{name} has shape {found:?}; must be {expected:?}, the mask's")));
        }
        Ok(array)
    }

    /// The tokens' entries of an array with the shape of the mask, row by row.
    pub(crate) fn rows(&self, name: &str, value: &Bound<'_, PyAny>) -> PyResult<Vec<Vec<f64>>> {
        let array = self.like(name, value)?;
        let flat = array.as_slice()?;
        let row =
            |(row, slots): (usize, &Slots)| slots.compress(&flat[row * self.width..(row + 1) * self.width]);
        Ok(self.slots.iter().enumerate().map(row).collect())
    }
}

/// The rows of each group in order of its first row. `of_row` numbers the groups from 0 in that order.
fn rows_of_groups(of_row: &[usize]) -> Vec<Vec<usize>> {
    let groups = of_row.iter().max().map_or(0, |last| last + 1);
    let mut rows = vec![Vec::new(); groups];
    for (row, &group) in of_row.iter().enumerate() {
        rows[group].push(row);
    }
    rows
}

/// A padded batch as groups, with the layout that brings results back to rows.
///
/// A row without a token counts with its reward. It stands as a response of one token that was cut off; [`Layout::is_empty`] tells it.
pub(crate) fn read(
    reward_of_row: &Bound<'_, PyAny>,
    old_logps: &Bound<'_, PyAny>,
    mask: &Bound<'_, PyAny>,
    group_of_row: &[usize],
    extras: &Extras,
) -> PyResult<(Vec<Group>, Layout)> {
    let mask = Mask::read(mask)?;
    let n = mask.slots.len();
    let rewards = rewards(reward_of_row)?;
    for (name, len) in [("rewards", rewards.len()), ("group", group_of_row.len())] {
        if len != n {
            return Err(refused(format!(
                "{name}: {len} entries for {n} rows of the mask; one per row is needed"
            )));
        }
    }
    let mut old_logps = mask.rows("old_logps", old_logps)?;
    let mut ref_logps = extras.ref_logps.map(|v| mask.rows("ref_logps", v)).transpose()?;
    let truncated = extras.truncated.map(|v| truncated(n, v)).transpose()?;
    let tokens = extras.tokens.map(|v| tokens_of(&mask, v)).transpose()?;
    if let Some(extra_inputs) = extras.extra_inputs {
        refuse_unknown(extra_inputs)?;
    }
    let mut source = Rows::new(&mask, extras.extra_inputs)?;
    let mut of_row = Vec::with_capacity(n);
    let substitute =
        |row: usize, values: Vec<f64>| if mask.slots[row].len() == 0 { vec![0.0] } else { values };
    for row in 0..n {
        source.row = row;
        let empty = mask.slots[row].len() == 0;
        let own_tokens = |tokens: &Vec<Vec<u32>>| if empty { vec![0] } else { tokens[row].clone() };
        of_row.push(Response {
            tokens: tokens.as_ref().map_or_else(Vec::new, own_tokens),
            old_logps: substitute(row, std::mem::take(&mut old_logps[row])),
            ref_logps: ref_logps.as_mut().map(|rows| substitute(row, std::mem::take(&mut rows[row]))),
            reward: rewards[row],
            truncated: empty || truncated.as_ref().is_some_and(|flags| flags[row]),
            extra_inputs: ExtraInputs::read(&mut source)?,
        });
    }
    let rows = rows_of_groups(group_of_row);
    let mut of_row: Vec<Option<Response>> = of_row.into_iter().map(Some).collect();
    let mut group =
        |rows: &Vec<usize>| Group { responses: rows.iter().filter_map(|&r| of_row[r].take()).collect() };
    let batch = rows.iter().map(&mut group).collect();
    let rows = rows.concat();
    let slots = rows.iter().map(|&row| mask.slots[row].clone()).collect();
    Ok((batch, Layout::Padded { width: mask.width, slots, rows }))
}

/// Token ids: an array with the shape of the mask, or a list per row without padding.
fn tokens_of(mask: &Mask, value: &Bound<'_, PyAny>) -> PyResult<Vec<Vec<u32>>> {
    if axes(value)? != Some(2) {
        return tokens(mask.slots.len(), value);
    }
    let id = |(row, ids): (usize, Vec<f64>)| {
        let whole = |x: &f64| *x >= 0.0 && x.fract() == 0.0 && *x <= f64::from(u32::MAX);
        match ids.iter().position(|x| !whole(x)) {
            Some(t) => Err(refused(format!(
                "tokens[{row}][{}] = {}; must be a whole number from 0 to 4294967295",
                mask.slots[row].slot(t),
                ids[t]
            ))),
            None => Ok(ids.into_iter().map(|x| x as u32).collect()),
        }
    };
    mask.rows("tokens", value)?.into_iter().enumerate().map(id).collect()
}

fn refuse_unknown(extra_inputs: &Bound<'_, PyDict>) -> PyResult<()> {
    let known = ExtraInputs::KINDS.map(InputKind::name);
    for key in extra_inputs.keys() {
        let key: String = key.extract()?;
        if !known.contains(&key.as_str()) {
            let hint = did_you_mean(&key, known);
            let all = known.join(", ");
            return Err(refused(format!(
                "extra_inputs: {}: unknown kind{hint}; the kinds are {all}",
                quoted(&key)
            )));
        }
    }
    Ok(())
}

/// Extra inputs row by row: an array with the shape of the mask (hidden states: and their width), or a list per row without padding.
struct Rows<'a, 'py> {
    mask: &'a Mask,
    extra_inputs: Option<&'a Bound<'py, PyDict>>,
    /// The tokens' entries of every array with the shape of the mask.
    arrays: HashMap<InputKind, Vec<Vec<f64>>>,
    row: usize,
}

impl<'a, 'py> Rows<'a, 'py> {
    fn new(mask: &'a Mask, extra_inputs: Option<&'a Bound<'py, PyDict>>) -> PyResult<Self> {
        let mut rows = Rows { mask, extra_inputs, arrays: HashMap::new(), row: 0 };
        for kind in ExtraInputs::KINDS {
            // The parts of a reward belong to a response, not to its tokens.
            if kind != InputKind::RewardParts
                && let Some(value) = rows.field(kind)?
                && axes(&value)? == Some(2)
            {
                rows.arrays.insert(kind, mask.rows(kind.name(), &value)?);
            }
        }
        Ok(rows)
    }

    fn field(&self, kind: InputKind) -> PyResult<Option<Bound<'py, PyAny>>> {
        let found = self.extra_inputs.map(|e| e.get_item(kind.name())).transpose()?;
        Ok(found.flatten().filter(|value| !value.is_none()))
    }

    /// True if the row has no token.
    fn empty(&self) -> bool {
        self.mask.slots[self.row].len() == 0
    }

    /// The width of the first state in a list per row; 1 if no row has one, or if it is no list (its own row says so).
    fn width(&self, kind: InputKind) -> PyResult<usize> {
        let Some(value) = self.field(kind)? else { return Ok(1) };
        let first = value.try_iter()?.flatten().find(|row| row.len().is_ok_and(|n| n > 0));
        Ok(first.and_then(|row| row.get_item(0).and_then(|state| state.len()).ok()).unwrap_or(1))
    }

    /// The place and the entry of this row in a list per row.
    fn item(&self, kind: InputKind) -> PyResult<Option<(String, Bound<'py, PyAny>)>> {
        let Some(value) = self.field(kind)? else { return Ok(None) };
        let (name, n) = (kind.name(), self.mask.slots.len());
        match value.len() {
            Ok(found) if found == n => Ok(Some((format!("{name}[{}]", self.row), value.get_item(self.row)?))),
            Ok(found) => Err(refused(format!(
                "{name}: {found} entries for {n} rows of the mask; one per row is needed"
            ))),
            Err(_) => Err(refused(format!(
                "{name} = {}; must be an array with the shape of the mask, or a list per row",
                shown(&value)
            ))),
        }
    }
}

impl InputSource for Rows<'_, '_> {
    type Error = PyErr;

    fn numbers(&mut self, kind: InputKind) -> PyResult<Option<Vec<f64>>> {
        if self.empty() && kind != InputKind::RewardParts {
            return Ok(self.field(kind)?.map(|_| vec![0.0]));
        }
        if let Some(rows) = self.arrays.get_mut(&kind) {
            return Ok(Some(std::mem::take(&mut rows[self.row])));
        }
        let of_row = |(place, row): (String, Bound<'_, PyAny>)| {
            numbers(&place, &row, "a list of numbers, one per token")
        };
        self.item(kind)?.map(of_row).transpose()
    }

    fn steps(&mut self, kind: InputKind) -> PyResult<Option<PerStep>> {
        if self.empty() {
            return Ok(self.field(kind)?.map(|_| vec![StepValue { start: 0, value: 0.0 }]));
        }
        self.item(kind)?.map(|(place, row)| steps(&place, &row)).transpose()
    }

    fn states(&mut self, kind: InputKind) -> PyResult<Option<StatePerToken>> {
        let Some((place, row)) = self.item(kind)? else { return Ok(None) };
        if self.empty() && row.len().is_ok_and(|n| n == 0) {
            return Ok(Some(vec![vec![0.0; self.width(kind)?]]));
        }
        if axes(&row)? != Some(2) || row.len()? != self.mask.width {
            return states(&place, &row).map(Some);
        }
        let array = matrix(&place, &row)?;
        if self.empty() {
            return Ok(Some(vec![vec![0.0; array.as_array().ncols()]]));
        }
        let slots = &self.mask.slots[self.row];
        Ok(Some((0..slots.len()).map(|t| array.as_array().row(slots.slot(t)).to_vec()).collect()))
    }
}
