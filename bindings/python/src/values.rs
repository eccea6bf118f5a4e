//! Reading of numbers and lists from Python values; each refusal names its place as `sim estimate` does.

use numpy::{
    PyArray1, PyArray2, PyArrayDyn, PyArrayMethods, PyReadonlyArray1, PyReadonlyArray2, PyUntypedArray,
};
use numpy::{PyArrayDescrMethods, PyUntypedArrayMethods};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyFloat, PyInt, PyList, PyMapping, PyString, PyTuple};

/// An exception with one line of text.
pub(crate) fn refused(what: impl std::fmt::Display) -> PyErr {
    PyValueError::new_err(what.to_string())
}

/// The refusal of an entry of a list.
pub(crate) fn wrong(place: &str, index: usize, found: &Bound<'_, PyAny>, right: &str) -> PyErr {
    refused(format!("{place}[{index}] = {}; must be {right}", shown(found)))
}

/// The text of a value in messages: numbers and words themselves, containers by name.
pub(crate) fn shown(value: &Bound<'_, PyAny>) -> String {
    if value.is_none() {
        return "null".to_owned();
    }
    if is_flag(value) {
        return value.is_truthy().is_ok_and(|x| x).to_string();
    }
    if let Ok(text) = value.cast::<PyString>() {
        return format!("the text {}", quoted(&text.to_string_lossy()));
    }
    if let Ok(array) = value.cast::<PyUntypedArray>() {
        return format!("an array of shape {:?}", array.shape());
    }
    if value.is_instance_of::<PyList>() || value.is_instance_of::<PyTuple>() {
        return format!("a list of {}", value.len().unwrap_or(0));
    }
    if value.is_instance_of::<PyDict>() {
        return "an object".to_owned();
    }
    match value.extract::<f64>() {
        Ok(x) if !x.is_finite() => x.to_string(),
        Ok(_) => value.str().map_or_else(|_| "a number".to_owned(), |s| s.to_string_lossy().into_owned()),
        Err(_) => {
            let kind = value.get_type();
            kind.name().map_or_else(|_| "an object".to_owned(), |name| format!("a value of type {name}"))
        }
    }
}

/// `text` in quotes, cut after 60 characters.
pub(crate) fn quoted(text: &str) -> String {
    match text.char_indices().nth(60) {
        Some((cut, _)) => format!("`{}..`", &text[..cut]),
        None => format!("`{text}`"),
    }
}

/// `True`, `False`, or numpy's.
pub(crate) fn is_flag(value: &Bound<'_, PyAny>) -> bool {
    value.is_instance_of::<PyBool>()
        || value.get_type().name().is_ok_and(|name| name == "bool_" || name == "bool")
}

/// The entries of a list, a tuple or the first axis of an array.
pub(crate) fn items<'py>(
    place: &str,
    value: &Bound<'py, PyAny>,
    right: &str,
) -> PyResult<Vec<Bound<'py, PyAny>>> {
    let refuse = || refused(format!("{place} = {}; must be {right}", shown(value)));
    if value.is_instance_of::<PyString>() || value.cast::<PyMapping>().is_ok() || value.is_none() {
        return Err(refuse());
    }
    match value.try_iter() {
        Ok(entries) => entries.collect(),
        Err(_) => Err(refuse()),
    }
}

/// A list of numbers as `f64`, read in one pass if it is an array of `f64`.
pub(crate) fn numbers(place: &str, value: &Bound<'_, PyAny>, right: &str) -> PyResult<Vec<f64>> {
    if let Some(array) = array_of(value)? {
        let kind = array.dtype().kind();
        if array.ndim() != 1 {
            return Err(refused(format!("{place} = {}; must be {right}", shown(array.as_any()))));
        }
        if matches!(kind, b'f' | b'i' | b'u') {
            return Ok(as_f64(array.as_any())?.cast_into::<PyArray1<f64>>()?.to_vec()?);
        }
    }
    let entries = items(place, value, right)?;
    entries.iter().enumerate().map(|(t, x)| number(x).ok_or_else(|| wrong(place, t, x, "a number"))).collect()
}

/// The number. `None` if it is none, or a truth value.
pub(crate) fn number(value: &Bound<'_, PyAny>) -> Option<f64> {
    if value.is_instance_of::<PyFloat>() || value.is_instance_of::<PyInt>() && !is_flag(value) {
        return value.extract().ok();
    }
    let no_number = value.is_instance_of::<PyString>() || is_flag(value);
    // A numpy scalar, or a tensor of one element.
    if no_number { None } else { value.extract().ok() }
}

/// The value as an array, if it is one or converts to one (a tensor).
fn array_of<'py>(value: &Bound<'py, PyAny>) -> PyResult<Option<Bound<'py, PyUntypedArray>>> {
    if let Ok(array) = value.cast::<PyUntypedArray>() {
        return Ok(Some(array.clone()));
    }
    if !value.hasattr("__array__")? {
        return Ok(None);
    }
    let array = value.py().import("numpy")?.call_method1("asarray", (without_graph(value)?,))?;
    Ok(array.cast_into::<PyUntypedArray>().ok())
}

/// A tensor of torch on the CPU, without a graph, and its numbers in a type that numpy has; anything else as it is.
fn without_graph<'py>(value: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    if !(value.hasattr("detach")? && value.hasattr("is_floating_point")?) {
        return Ok(value.clone());
    }
    let plain = value.call_method0("detach")?.call_method0("cpu")?;
    let floating = plain.call_method0("is_floating_point")?.is_truthy()?;
    if floating { plain.call_method0("double") } else { Ok(plain) }
}

/// The array with entries of type `f64`: itself if they are.
fn as_f64<'py>(array: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    if array.cast::<PyArrayDyn<f64>>().is_ok() {
        return Ok(array.clone());
    }
    array.call_method1("astype", ("float64",))
}

/// A C-contiguous array of `f64` with `N` axes: the caller's own if it is one, else a copy.
fn contiguous<'py>(name: &str, value: &Bound<'py, PyAny>, axes: usize) -> PyResult<Bound<'py, PyAny>> {
    let right = format!("an array of numbers with {axes} axes");
    let refuse = |shown: String| refused(format!("{name} = {shown}; must be {right}"));
    let array = match array_of(value)? {
        Some(array) => array,
        // Nested lists; numpy refuses rows of different lengths.
        None => {
            let made = value.py().import("numpy")?.call_method1("asarray", (value,));
            made.ok().and_then(|a| a.cast_into().ok()).ok_or_else(|| refuse(shown(value)))?
        }
    };
    if array.ndim() != axes || !matches!(array.dtype().kind(), b'f' | b'i' | b'u' | b'b') {
        let dtype = array.dtype().str()?.to_string_lossy().into_owned();
        return Err(refuse(format!("{} and type {dtype}", shown(array.as_any()))));
    }
    let array = as_f64(array.as_any())?;
    value.py().import("numpy")?.call_method1("ascontiguousarray", (array,))
}

/// One number per row.
pub(crate) fn vector<'py>(name: &str, value: &Bound<'py, PyAny>) -> PyResult<PyReadonlyArray1<'py, f64>> {
    Ok(contiguous(name, value, 1)?.cast_into::<PyArray1<f64>>()?.readonly())
}

/// One number per row and slot.
pub(crate) fn matrix<'py>(name: &str, value: &Bound<'py, PyAny>) -> PyResult<PyReadonlyArray2<'py, f64>> {
    Ok(contiguous(name, value, 2)?.cast_into::<PyArray2<f64>>()?.readonly())
}

/// The number of axes of an array or tensor. `None` for anything else.
pub(crate) fn axes(value: &Bound<'_, PyAny>) -> PyResult<Option<usize>> {
    Ok(array_of(value)?.map(|array| array.ndim()))
}
