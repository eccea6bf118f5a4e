//! A Python callable as a method: what the exact oracle needs of one.

use grpo_lambda::group::{Group, Response};
use grpo_lambda::methods::{Coupling, Credit, Loss, Method};
use grpo_lambda::metrics::Metrics;
use numpy::PyArray1;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};
use std::sync::{Mutex, PoisonError};

use crate::groups::lists;
use crate::values::{items, refused, shown};

/// A function of a batch and its log-probabilities to the loss and its gradient, on-policy.
///
/// It is called where credit is fixed, at the log-probabilities of the policy that sampled; the gradient that it returns is the credit.
#[derive(Debug)]
pub(crate) struct Callable {
    function: Py<PyAny>,
    failure: Mutex<Option<PyErr>>,
}

impl Callable {
    pub(crate) fn new(function: Py<PyAny>) -> Callable {
        Callable { function, failure: Mutex::new(None) }
    }

    /// The exception of the first call that failed; its numbers are worth nothing then.
    pub(crate) fn failure(&self) -> Option<PyErr> {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// The gradient at the log-probabilities of the policy that sampled, response by response in flat order.
    fn gradient(&self, py: Python<'_>, batch: &[Group]) -> PyResult<Vec<Vec<f64>>> {
        let (groups, logps) = (PyList::empty(py), PyList::empty(py));
        for group in batch {
            let old = || {
                let rows = group.responses.iter().map(|r| PyArray1::from_slice(py, &r.old_logps));
                PyList::new(py, rows)
            };
            let entry = PyDict::new(py);
            entry.set_item("rewards", group.responses.iter().map(|r| r.reward).collect::<Vec<_>>())?;
            entry.set_item("old_logps", old()?)?;
            entry.set_item("tokens", group.responses.iter().map(|r| r.tokens.clone()).collect::<Vec<_>>())?;
            groups.append(entry)?;
            logps.append(old()?)?;
        }
        let found = self.function.bind(py).call1((groups, logps))?;
        let Ok((_, dlogps)) = found.extract::<(f64, Bound<'_, PyAny>)>() else {
            return Err(refused(format!(
                "method(groups, logps) = {}; must be (loss, dlogps)",
                shown(&found)
            )));
        };
        let of_groups = items("dlogps", &dlogps, "a list of groups, each a list of lists of numbers")?;
        if of_groups.len() != batch.len() {
            let (found, expected) = (of_groups.len(), batch.len());
            return Err(refused(format!(
                "dlogps: {found} entries for {expected} groups; one per group is needed"
            )));
        }
        let mut all = Vec::new();
        for (g, (group, of_group)) in batch.iter().zip(&of_groups).enumerate() {
            let rows = lists("dlogps", group.responses.len(), of_group)?;
            for (i, (row, response)) in rows.into_iter().zip(&group.responses).enumerate() {
                if row.len() != response.len() || row.iter().any(|x| !x.is_finite()) {
                    let expected = response.len();
                    return Err(refused(format!(
                        "dlogps[{g}][{i}]: must be {expected} finite numbers, one per token"
                    )));
                }
                all.push(row);
            }
        }
        Ok(all)
    }
}

impl Method for Callable {
    fn credit(&self, batch: &[Group]) -> Vec<Credit> {
        let mut failure = self.failure.lock().unwrap_or_else(PoisonError::into_inner);
        let zero = || batch.iter().flat_map(|g| &g.responses).map(|r| vec![0.0; r.len()]).collect();
        let gradient = match *failure {
            Some(_) => zero(),
            None => Python::attach(|py| self.gradient(py, batch)).unwrap_or_else(|error| {
                *failure = Some(error);
                zero()
            }),
        };
        let credit = |row: Vec<f64>| Credit {
            weights: vec![1.0; row.len()],
            advantages: row.into_iter().map(|x| -x).collect(),
            eligible: None,
        };
        gradient.into_iter().map(credit).collect()
    }

    fn loss_around(&self, _: &Response, credit: &Credit, logps: &[f64], _: &[f64]) -> Loss {
        let dlogps: Vec<f64> = credit.advantages.iter().map(|a| -a).collect();
        let value = dlogps.iter().zip(logps).map(|(d, l)| d * l).sum();
        Loss { value, dlogps, metrics: Metrics::default() }
    }

    fn coupling(&self) -> Coupling {
        Coupling::Everything
    }
}
