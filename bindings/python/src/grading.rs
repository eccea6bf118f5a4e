//! Answers of mathematics against their references.

use grpo_lambda_grade::{Extraction, Gold, Prediction, Verdict, grade};
use pyo3::prelude::*;
use pyo3::types::PyString;

use crate::values::{refused, shown};

/// Name, reward and reason of a verdict.
type Told = (&'static str, Option<f64>, String);

/// Where in a response the final answer stands.
fn extraction(name: &str) -> PyResult<Extraction> {
    Ok(match name {
        "auto" => Extraction::Auto,
        "boxed" => Extraction::Boxed,
        "tag" => Extraction::Tag,
        "lenient-tag" => Extraction::LenientTag,
        "any" => Extraction::Any,
        _ => {
            return Err(refused(format!(
                "extract = `{name}`; must be one of auto, boxed, tag, lenient-tag, any"
            )));
        }
    })
}

/// Compares every answer with the reference of the same place: a text, or a list of texts each of which is right.
#[pyfunction]
pub(crate) fn grade_all(
    py: Python<'_>,
    golds: Vec<Bound<'_, PyAny>>,
    answers: Vec<Bound<'_, PyAny>>,
    extract: &str,
) -> PyResult<Vec<Told>> {
    let how = extraction(extract)?;
    if golds.len() != answers.len() {
        let (found, expected) = (golds.len(), answers.len());
        return Err(refused(format!(
            "golds: {found} entries for {expected} answers; one per answer is needed"
        )));
    }
    let texts = |(i, gold): (usize, &Bound<'_, PyAny>)| {
        let one = gold.cast::<PyString>().ok().map(|text| text.to_string_lossy().into_owned());
        let many = one.map(|text| vec![text]).or_else(|| gold.extract::<Vec<String>>().ok());
        many.ok_or_else(|| {
            refused(format!(
                "golds[{i}] = {}; must be a text, or a list of texts each of which is right",
                shown(gold)
            ))
        })
    };
    let answer = |(i, x): (usize, &Bound<'_, PyAny>)| {
        x.extract::<String>().map_err(|_| refused(format!("answers[{i}] = {}; must be a text", shown(x))))
    };
    let golds: Vec<Vec<String>> = golds.iter().enumerate().map(texts).collect::<PyResult<_>>()?;
    let answers: Vec<String> = answers.iter().enumerate().map(answer).collect::<PyResult<_>>()?;
    py.detach(|| {
        let one = |(i, (gold, answer)): (usize, (&Vec<String>, &String))| {
            let gold =
                Gold::any_of(gold.iter().map(String::as_str)).map_err(|e| format!("golds[{i}]: {e}"))?;
            Ok(told(&grade(&Prediction::extract(answer, how), &gold)))
        };
        golds.iter().zip(&answers).enumerate().map(one).collect::<Result<_, String>>()
    })
    .map_err(refused)
}

fn told(verdict: &Verdict) -> Told {
    (verdict.name(), verdict.reward(), verdict.to_string())
}
