//! A [`Credit`] in a pickle: its numbers row by row, without the extra inputs that only fixed them.

use grpo_lambda::group::{ExtraInputs, Response};
use grpo_lambda::methods;
use grpo_lambda::metrics::Metrics;
use numpy::{PyArray1, PyArrayMethods};
use pyo3::prelude::*;
use std::sync::Arc;

use crate::credit::Credit;
use crate::layout::{Layout, Slots};
use crate::values::refused;

/// Numbers of a response, as an array.
type Row<'py> = Bound<'py, PyArray1<f64>>;

/// Old log-probabilities, those of the reference and of the sampler, advantages, weights, and eligibility.
type Travelling<'py> = (Row<'py>, Option<Row<'py>>, Option<Row<'py>>, Row<'py>, Row<'py>, Option<Vec<bool>>);

/// Sizes of the groups, or width, slots and rows of a padded batch.
type Form = (Option<Vec<usize>>, Option<(usize, Vec<Vec<usize>>, Vec<usize>)>);

/// Responses of a group, and the counts that its metrics begin with: groups, those of equal rewards, responses without a reward.
type Counted = (usize, usize, usize, usize);

/// All of a credit.
pub(crate) type State<'py> =
    (String, Vec<(String, String)>, Form, Vec<Travelling<'py>>, Vec<Counted>, Option<Vec<Row<'py>>>);

impl Credit {
    /// The state from which [`restored_credit`] makes an equal one.
    pub(crate) fn state<'py>(&self, py: Python<'py>) -> State<'py> {
        let array = |values: &[f64]| PyArray1::from_slice(py, values);
        let form = match &self.layout {
            Layout::Groups(sizes) => (Some(sizes.clone()), None),
            Layout::Padded { width, slots, rows } => {
                let of_row = |slots: &Slots| (0..slots.len()).map(|t| slots.slot(t)).collect();
                (None, Some((*width, slots.iter().map(of_row).collect(), rows.clone())))
            }
        };
        let row = |(response, credit): &(Response, methods::Credit)| {
            (
                array(&response.old_logps),
                response.ref_logps.as_deref().map(array),
                response.extra_inputs.sampler_logps.as_deref().map(array),
                array(&credit.advantages),
                array(&credit.weights),
                credit.eligible.clone(),
            )
        };
        let counted = |(size, m): &(usize, Metrics)| (*size, m.groups, m.zero_variance_groups, m.ungraded);
        (
            self.method.spec.name.to_owned(),
            self.method.settings.entries().map(|(k, v)| (k.to_owned(), v.to_owned())).collect(),
            form,
            self.responses.iter().map(row).collect(),
            self.of_groups.iter().map(counted).collect(),
            self.logps.as_ref().map(|rows| rows.iter().map(|row| array(row)).collect()),
        )
    }
}

/// The credit of a state: its losses are those of the first.
#[pyfunction]
#[pyo3(name = "_restored_credit")]
pub(crate) fn restored_credit(state: State<'_>) -> PyResult<Credit> {
    let (method, settings, form, rows, counted, logps) = state;
    let layout = match form {
        (_, Some((width, slots, rows))) => {
            let of_row = |slots: Vec<usize>| Slots::from_slots(slots);
            Layout::Padded { width, slots: slots.into_iter().map(of_row).collect(), rows }
        }
        (sizes, None) => Layout::Groups(sizes.unwrap_or_default()),
    };
    let of_row = |(old, reference, sampler, advantages, weights, eligible): Travelling<'_>| {
        let sampler_logps = sampler.map(|row| row.to_vec()).transpose()?;
        let extra_inputs = ExtraInputs { sampler_logps, ..ExtraInputs::default() };
        let ref_logps = reference.map(|row| row.to_vec()).transpose()?;
        let response = Response { ref_logps, extra_inputs, ..Response::graded(old.to_vec()?, 0.0) };
        let credit =
            methods::Credit { advantages: advantages.to_vec()?, weights: weights.to_vec()?, eligible };
        PyResult::Ok((response, credit))
    };
    let of_group = |(size, groups, zero_variance_groups, ungraded): Counted| {
        (size, Metrics { groups, zero_variance_groups, ungraded, ..Metrics::default() })
    };
    let logps = logps.map(|rows| rows.iter().map(|row| PyResult::Ok(row.to_vec()?)).collect::<PyResult<_>>());
    Ok(Credit {
        method: Arc::new(methods::configure(&method, &settings).map_err(refused)?),
        responses: rows.into_iter().map(of_row).collect::<PyResult<_>>()?,
        of_groups: counted.into_iter().map(of_group).collect(),
        layout,
        logps: logps.transpose()?,
    })
}
