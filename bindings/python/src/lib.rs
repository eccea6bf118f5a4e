//! The compiled half of the Python package `grpo_lambda`: its private module `_native`.
//!
//! Every function reads Python values, calls the function of the Rust crates that the command line calls, and returns Python values. The
//! Python half (`python/grpo_lambda`) holds the public names and their documentation.

mod callable;
mod configured;
mod credit;
mod diagnosis;
mod grading;
mod groups;
mod layout;
mod mdp;
mod padded;
mod statistics;
mod travel;
mod values;

use pyo3::prelude::*;

#[pymodule]
fn _native(m: &Bound<'_, PyModule>) -> PyResult<()> {
    m.add("__version__", env!("CARGO_PKG_VERSION"))?;
    m.add_function(wrap_pyfunction!(configured::methods, m)?)?;
    m.add_function(wrap_pyfunction!(configured::explain, m)?)?;
    m.add_function(wrap_pyfunction!(configured::settings, m)?)?;
    m.add_function(wrap_pyfunction!(configured::extra_inputs, m)?)?;
    m.add_function(wrap_pyfunction!(configured::require, m)?)?;
    m.add_function(wrap_pyfunction!(configured::credit_reads_tokens, m)?)?;
    m.add_class::<credit::Credit>()?;
    m.add_function(wrap_pyfunction!(travel::restored_credit, m)?)?;
    m.add_function(wrap_pyfunction!(credit::credit, m)?)?;
    m.add_function(wrap_pyfunction!(credit::credit_padded, m)?)?;
    m.add_function(wrap_pyfunction!(credit::credit_from_rows, m)?)?;
    m.add_function(wrap_pyfunction!(diagnosis::diagnose, m)?)?;
    m.add_function(wrap_pyfunction!(diagnosis::conventions, m)?)?;
    m.add_function(wrap_pyfunction!(grading::grade_all, m)?)?;
    m.add_class::<mdp::Mdp>()?;
    m.add_function(wrap_pyfunction!(mdp::restored_mdp, m)?)?;
    m.add_class::<mdp::Expected>()?;
    statistics::register(m)
}
