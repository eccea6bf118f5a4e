//! Search for the framework convention that produced given numbers.

use grpo_lambda::check;
use grpo_lambda::group::{Group, InputKind};
use grpo_lambda::methods;
use grpo_lambda_conventions::{self as table, Assumptions, Candidate, Found, Theirs};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};

use crate::groups;
use crate::values::{items, number, numbers, refused};

type Rows = Vec<Vec<f64>>;

/// Explains a trainer's numbers on groups that carry their `logps`, with one dictionary per given quantity.
#[pyfunction]
#[allow(clippy::too_many_arguments, reason = "the Python function names them")]
pub(crate) fn diagnose<'py>(
    py: Python<'py>,
    groups: Vec<Bound<'py, PyAny>>,
    advantages: Option<&Bound<'py, PyAny>>,
    token_losses: Option<&Bound<'py, PyAny>>,
    gradient: Option<&Bound<'py, PyAny>>,
    loss: Option<&Bound<'py, PyAny>>,
    tolerance: f64,
    beta: Option<f64>,
    max_length: Option<f64>,
    correction: Option<String>,
    parts: Option<&Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyList>> {
    let (mut batch, mut logps) = (Vec::new(), Vec::new());
    for (g, value) in groups.iter().enumerate() {
        let named = |e: String| refused(format!("groups[{g}]: {e}"));
        let line = groups::read(value).map_err(|e| named(e.value(py).to_string()))?;
        let own = line
            .logps
            .ok_or_else(|| named("logps: missing; the numbers belong to log-probabilities".into()))?;
        check::graded(&line.group, &own, &[]).map_err(|e| named(e.to_string()))?;
        batch.push(line.group);
        logps.extend(own);
    }
    let sizes: Vec<usize> = batch.iter().map(|g| g.responses.len()).collect();
    let read = |name: &'static str, value: Option<&Bound<'py, PyAny>>| {
        value.map(|value| rows(name, value, &sizes, &logps)).transpose()
    };
    let theirs = Theirs {
        advantages: read("advantages", advantages)?,
        token_losses: read("token_losses", token_losses)?,
        gradient: read("gradient", gradient)?,
        loss: loss.map_or(Ok(Vec::new()), |value| losses(value, sizes.len()))?,
    };
    if theirs == Theirs::default() {
        return Err(refused("give at least one of advantages, token_losses, gradient and loss"));
    }
    let mut assumed = Assumptions { tolerance, beta, max_length, correction, ..Assumptions::default() };
    check_assumed(&assumed, &batch).map_err(refused)?;
    if let Some(parts) = parts {
        let parts = of_groups("parts", parts, &sizes, groups::parts)?.concat();
        assumed = assumed.with_parts(parts).map_err(refused)?;
    }
    let found = py.detach(|| table::diagnose(&batch, &logps, &theirs, &assumed));
    let reported: Vec<_> = found.found().map(|found| reported(py, found)).collect::<PyResult<_>>()?;
    PyList::new(py, reported)
}

/// The loss of the batch, or a number for each group.
fn losses(value: &Bound<'_, PyAny>, groups: usize) -> PyResult<Vec<f64>> {
    let given = match number(value) {
        Some(loss) => vec![loss],
        None => numbers("loss", value, "a number, or a list with a number for each group")?,
    };
    if given.len() != groups && given.len() != 1 {
        let found = given.len();
        return Err(refused(format!(
            "loss: {found} entries for {groups} groups; give one, or one per group"
        )));
    }
    match given.iter().find(|x| !x.is_finite()) {
        Some(x) => Err(refused(format!("loss = {x}; must be a finite number"))),
        None => Ok(given),
    }
}

/// Refuses what would make every comparison, or none, an explanation.
fn check_assumed(assumed: &Assumptions, batch: &[Group]) -> Result<(), String> {
    if !(0.0..1.0).contains(&assumed.tolerance) {
        return Err(format!("tolerance = {}; must be a number from 0 on and below 1", assumed.tolerance));
    }
    if let Some(beta) = assumed.beta.filter(|x| !(x.is_finite() && *x >= 0.0)) {
        return Err(format!("beta = {beta}; must be a number of at least 0"));
    }
    if let Some(length) = assumed.max_length.filter(|x| !(x.is_finite() && *x > 0.0)) {
        return Err(format!("max_length = {length}; must be a number above 0"));
    }
    let Some(words) = &assumed.correction else { return Ok(()) };
    // Any method without settings of its own says what is wrong with them.
    let known = methods::parse("gpg", words).map_err(|e| format!("correction: {e}"))?;
    let lacks = |kind: &InputKind| batch.iter().flat_map(|g| &g.responses).any(|r| !kind.is_in(r));
    match known.extra_inputs().into_iter().find(lacks) {
        Some(kind) => Err(format!("{}: missing; `{words}` reads it", kind.name())),
        None => Ok(()),
    }
}

/// Every convention as the keyword arguments of `grpo_lambda.Convention`.
#[pyfunction]
pub(crate) fn conventions(py: Python<'_>) -> PyResult<Bound<'_, PyList>> {
    let list = PyList::empty(py);
    for c in table::all() {
        let dict = PyDict::new(py);
        dict.set_item("framework", c.framework.name)?;
        dict.set_item("version", c.framework.version)?;
        dict.set_item("words", c.words)?;
        dict.set_item("about", c.scope.name())?;
        dict.set_item("method", c.method)?;
        let settings = c.settings.split_whitespace().filter_map(|word| word.split_once('='));
        dict.set_item("settings", settings.collect::<std::collections::BTreeMap<_, _>>())?;
        dict.set_item("differs", if c.differs == "-" { "" } else { c.differs })?;
        list.append(dict)?;
    }
    Ok(list)
}

/// The entries of a list for each group, read by a function that takes the number of responses.
fn of_groups<T>(
    name: &'static str,
    value: &Bound<'_, PyAny>,
    sizes: &[usize],
    read: impl Fn(&'static str, usize, &Bound<'_, PyAny>) -> PyResult<T>,
) -> PyResult<Vec<T>> {
    let entries = items(name, value, "a list of groups, each a list with an entry per response")?;
    if entries.len() != sizes.len() {
        let (found, expected) = (entries.len(), sizes.len());
        return Err(refused(format!(
            "{name}: {found} entries for {expected} groups; one per group is needed"
        )));
    }
    let named = |g: usize, e: PyErr| refused(format!("groups[{g}]: {}", e.value(value.py())));
    let entry = |(g, (of_group, &size)): (usize, (&Bound<'_, PyAny>, &usize))| {
        read(name, size, of_group).map_err(|e| named(g, e))
    };
    entries.iter().zip(sizes).enumerate().map(entry).collect()
}

/// Numbers of every token, group by group.
fn rows(name: &'static str, value: &Bound<'_, PyAny>, sizes: &[usize], logps: &Rows) -> PyResult<Rows> {
    let mut all = Rows::new();
    for (g, read) in of_groups(name, value, sizes, groups::lists)?.into_iter().enumerate() {
        for (i, row) in read.into_iter().enumerate() {
            let expected = logps[all.len()].len();
            if row.len() != expected {
                let found = row.len();
                return Err(refused(format!(
                    "groups[{g}]: {name}[{i}] has {found} entries, logps[{i}] has {expected}; one per token is needed"
                )));
            }
            if let Some(t) = row.iter().position(|x| !x.is_finite()) {
                return Err(refused(format!(
                    "groups[{g}]: {name}[{i}][{t}] = {}; must be a finite number",
                    row[t]
                )));
            }
            all.push(row);
        }
    }
    Ok(all)
}

fn reported<'py>(py: Python<'py>, found: &Found) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    dict.set_item("quantity", found.quantity)?;
    let matches: Vec<_> = found.matches.iter().map(|c| candidate(py, c)).collect::<PyResult<_>>()?;
    dict.set_item("matches", matches)?;
    dict.set_item("nearest", found.nearest.as_ref().map(|c| candidate(py, c)).transpose()?)?;
    let remainder = found.remainder.as_ref().map(|(what, neighbour)| (what.to_string(), neighbour.clone()));
    dict.set_item("remainder", remainder)?;
    dict.set_item("tried", found.tried)?;
    dict.set_item("note", &found.note)?;
    Ok(dict)
}

fn candidate<'py>(py: Python<'py>, c: &Candidate) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    dict.set_item("what", &c.what)?;
    dict.set_item("command", &c.command)?;
    dict.set_item("labels", &c.labels)?;
    dict.set_item("error", c.error)?;
    dict.set_item("factor", c.factor)?;
    dict.set_item("beta", c.beta)?;
    dict.set_item("of_parts", c.of_parts)?;
    Ok(dict)
}
