//! Answers of mathematics against their references.

use grpo_lambda_grade::{Extraction, Grader, Response, Rules, Verdict};
use pyo3::prelude::*;
use pyo3::types::PyString;
use rayon::prelude::*;
use rayon::{ThreadPool, ThreadPoolBuilder};
use std::sync::{Arc, Mutex};

use crate::values::{refused, shown};

/// Name, reward, reason and extracted answer of a verdict.
type Graded = (&'static str, Option<f64>, String, Option<String>);

/// The grader of these options; `rules` of `None` are the defaults of the command line.
fn grader(extract: &str, rules: Option<&str>) -> PyResult<Grader> {
    let extraction = Extraction::find(extract).ok_or_else(|| {
        let names: Vec<&str> = Extraction::ALL.iter().map(|way| way.name()).collect();
        refused(format!("extract = `{extract}`; must be one of {}", names.join(", ")))
    })?;
    let default = if extraction == Extraction::Free { Rules::LENIENT } else { Rules::STRICT };
    let rules = rules.map(Rules::parse).transpose().map_err(|e| refused(format!("rules: {e}")))?;
    Ok(Grader { extraction, rules: rules.unwrap_or(default) })
}

/// Compares every answer with its reference: a text, or a list of texts each of which is right. `problems` are the texts of the problems, and
/// `cut_off` says which answers ended at a limit of length.
#[pyfunction]
pub(crate) fn grade_all(
    py: Python<'_>,
    golds: Vec<Bound<'_, PyAny>>,
    answers: Vec<Bound<'_, PyAny>>,
    extract: &str,
    rules: Option<&str>,
    problems: Option<Vec<Option<String>>>,
    cut_off: Option<Vec<bool>>,
) -> PyResult<Vec<Graded>> {
    let grader = grader(extract, rules)?;
    let lengths =
        [("problems", problems.as_ref().map(Vec::len)), ("cut_off", cut_off.as_ref().map(Vec::len))];
    if let Some((name, Some(found))) =
        lengths.into_iter().find(|(_, n)| n.is_some_and(|n| n != answers.len()))
    {
        let expected = answers.len();
        return Err(refused(format!(
            "{name}: {found} entries for {expected} answers; one per answer is needed"
        )));
    }
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
    let pool = pool()?;
    py.detach(|| {
        let one = |(i, (gold, answer)): (usize, (&Vec<String>, &String))| {
            let gold =
                grader.gold(gold.iter().map(String::as_str)).map_err(|e| format!("golds[{i}]: {e}"))?;
            let response = Response {
                text: answer,
                problem: problems.as_ref().and_then(|all| all[i].as_deref()),
                cut_off: cut_off.as_ref().is_some_and(|all| all[i]),
            };
            Ok(reported(grader.grade(&gold, response)))
        };
        pool.install(|| golds.par_iter().zip(&answers).enumerate().map(one).collect::<Result<_, String>>())
    })
    .map_err(refused)
}

/// The threads of this process: a child of `fork` has none of its parent's, and would wait for them for ever.
fn pool() -> PyResult<Arc<ThreadPool>> {
    static POOL: Mutex<Option<(u32, Arc<ThreadPool>)>> = Mutex::new(None);
    let own = std::process::id();
    let new =
        || ThreadPoolBuilder::new().build().map(Arc::new).map_err(|e| refused(format!("no threads: {e}")));
    // Held by another thread at the moment of the fork, it stays locked in the child.
    let Ok(mut held) = POOL.try_lock() else { return new() };
    match held.take() {
        Some((process, pool)) if process == own => {
            *held = Some((own, pool.clone()));
            Ok(pool)
        }
        others => {
            // Its threads are not here to end it.
            std::mem::forget(others);
            let pool = new()?;
            *held = Some((own, pool.clone()));
            Ok(pool)
        }
    }
}

fn reported(verdict: Verdict) -> Graded {
    (verdict.name(), verdict.reward(), verdict.to_string(), verdict.extracted)
}
