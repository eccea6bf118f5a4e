//! Methods by name with their settings, and their descriptions.

use grpo_lambda::equation::BatchSize;
use grpo_lambda::group::InputKind;
use grpo_lambda::methods::{self as registry, Configured, MethodSpec};
use grpo_lambda::settings::{Kind, Param};
use pyo3::exceptions::PyUserWarning;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyList};
use std::ffi::CString;

use crate::values::{is_flag, refused, shown};

/// The method `name` under `settings`. A trailing underscore of a key is dropped, so that `lambda_` can be written.
pub(crate) fn configure(name: &str, settings: Option<&Bound<'_, PyDict>>) -> PyResult<Configured> {
    let mut pairs = Vec::new();
    for (key, value) in settings.into_iter().flatten() {
        let key: String = key.extract()?;
        let key = key.strip_suffix('_').unwrap_or(&key).to_owned();
        let value = word(&key, &value)?;
        pairs.push((key, value));
    }
    registry::configure(name, &pairs).map_err(refused)
}

/// A setting's value as the command line takes it.
fn word(key: &str, value: &Bound<'_, PyAny>) -> PyResult<String> {
    if value.is_none() {
        return Ok("none".to_owned());
    }
    if is_flag(value) {
        return Ok(value.is_truthy()?.to_string());
    }
    if let Ok(text) = value.extract::<String>() {
        return Ok(text);
    }
    // `to_string` writes the shortest text that reads back to this number.
    let number = value.extract::<f64>();
    number.map(|x| x.to_string()).map_err(|_| {
        refused(format!("{key} = {}; must be a number, a text, a truth value or None", shown(value)))
    })
}

/// Warns of changed settings that have no effect given the others.
pub(crate) fn warn_of_idle(py: Python<'_>, configured: &Configured) -> PyResult<()> {
    let idle = configured.idle();
    if idle.is_empty() { Ok(()) } else { warn(py, &idle.join("; ")) }
}

/// Raises a Python warning, placed at the caller of the package's function.
pub(crate) fn warn(py: Python<'_>, text: &str) -> PyResult<()> {
    let text = CString::new(text.replace('\0', " ")).map_err(refused)?;
    PyErr::warn(py, &py.get_type::<PyUserWarning>(), &text, 2)
}

/// Every method as the keyword arguments of `grpo_lambda.Method`.
#[pyfunction]
pub(crate) fn methods(py: Python<'_>) -> PyResult<Bound<'_, PyList>> {
    let list = PyList::empty(py);
    for &spec in registry::REGISTRY {
        list.append(described(py, spec)?)?;
    }
    Ok(list)
}

fn described<'py>(py: Python<'py>, spec: &MethodSpec) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    dict.set_item("name", spec.name)?;
    dict.set_item("title", spec.title)?;
    dict.set_item("about", spec.about)?;
    dict.set_item("source", spec.source)?;
    dict.set_item("provenance", spec.provenance.name())?;
    let params = PyList::empty(py);
    for param in (spec.params)() {
        params.append(setting(py, &param)?)?;
    }
    dict.set_item("settings", params)?;
    let defaults = registry::configure(spec.name, &[]).map_err(refused)?;
    dict.set_item("extra_inputs", names(&defaults.extra_inputs()))?;
    Ok(dict)
}

fn setting<'py>(py: Python<'py>, param: &Param) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    dict.set_item("key", param.key)?;
    let number = || param.default.parse::<f64>().ok();
    let (choices, range) = match param.kind {
        Kind::Number { min, max } => {
            dict.set_item("default", number())?;
            (Vec::new(), Some((min, max)))
        }
        Kind::OptionalNumber { min, max } => {
            dict.set_item("default", number())?;
            (Vec::new(), Some((min, max)))
        }
        Kind::Choice(words) => {
            dict.set_item("default", &param.default)?;
            (words.to_vec(), None)
        }
        Kind::Flag => {
            dict.set_item("default", PyBool::new(py, param.default == "true"))?;
            (Vec::new(), None)
        }
    };
    dict.set_item("takes", param.kind.to_string())?;
    dict.set_item("choices", choices)?;
    dict.set_item("range", range)?;
    dict.set_item("about", param.about)?;
    Ok(dict)
}

fn names(kinds: &[InputKind]) -> Vec<&'static str> {
    kinds.iter().map(|kind| kind.name()).collect()
}

/// Every setting of a method with its value, as text.
#[pyfunction]
#[pyo3(signature = (method, /, **settings))]
pub(crate) fn settings(
    method: &str,
    settings: Option<&Bound<'_, PyDict>>,
) -> PyResult<Vec<(String, String)>> {
    let configured = configure(method, settings)?;
    Ok(configured.settings.entries().map(|(k, v)| (k.to_owned(), v.to_owned())).collect())
}

/// The extra inputs that a method needs of a response under these settings.
#[pyfunction]
#[pyo3(signature = (method, /, **settings))]
pub(crate) fn extra_inputs(
    method: &str,
    settings: Option<&Bound<'_, PyDict>>,
) -> PyResult<Vec<&'static str>> {
    Ok(names(&configure(method, settings)?.extra_inputs()))
}

/// Errors if the method needs a kind of extra input that is not among `provided`.
#[pyfunction]
pub(crate) fn require(
    method: &str,
    provided: Vec<String>,
    settings: Option<&Bound<'_, PyDict>>,
) -> PyResult<()> {
    let has = |kind: &InputKind| provided.iter().any(|name| name == kind.name());
    let provided: Vec<InputKind> = InputKind::ALL.into_iter().filter(has).collect();
    configure(method, settings)?.require(&provided).map_err(refused)
}

/// True if a response's credit may depend on more than rewards and lengths.
#[pyfunction]
pub(crate) fn credit_reads_tokens(method: &str, settings: Option<&Bound<'_, PyDict>>) -> PyResult<bool> {
    Ok(configure(method, settings)?.method.credit_reads_tokens())
}

/// The objective of a method as text, with the numbers of a batch of this size.
#[pyfunction]
pub(crate) fn explain(
    method: &str,
    groups: usize,
    group_size: usize,
    max_len: usize,
    settings: Option<&Bound<'_, PyDict>>,
) -> PyResult<String> {
    for (name, value, least) in
        [("groups", groups, 1), ("group_size", group_size, 2), ("max_len", max_len, 1)]
    {
        if value < least {
            return Err(refused(format!("{name} = {value}; must be at least {least}")));
        }
    }
    let configured = configure(method, settings)?;
    let spec = configured.spec;
    let mut text =
        format!("{} ({}; {})\n{}\n\n", spec.title, spec.source, spec.provenance.name(), spec.about);
    match configured.method.equation(&BatchSize { groups, group_size, max_len }) {
        Some(equation) => text += &equation.to_string(),
        None => text += "This method does not describe itself; its settings are below.\n",
    }
    text += "\nSettings:\n";
    for (key, value) in configured.settings.entries() {
        text += &format!("  {key:14} {value}\n");
    }
    for idle in configured.idle() {
        text += &format!("  note: {idle}\n");
    }
    let needs = names(&configured.extra_inputs());
    if !needs.is_empty() {
        text += &format!("Extra inputs needed: {}.\n", needs.join(", "));
    }
    Ok(text)
}
