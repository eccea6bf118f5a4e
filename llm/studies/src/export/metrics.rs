//! The metrics of a run as one table for trackers: steps that rise through both stages, no comment, one spelling of
//! numbers.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use serde_json::{Map, Value, json};

use super::{ExportError, Files, objects};

/// A row of a run's metrics.
pub(super) struct Row {
    /// Steps of both stages that are done.
    pub(super) step: u64,
    /// `sft`, `rl` or `eval`.
    pub(super) stage: String,
    /// By column.
    pub(super) values: Vec<(String, f64)>,
}

/// `metrics.csv` (columns `step`, `sft/loss`, `rl/reward`, `eval/accuracy`, ..) and `metrics.jsonl` with the same rows,
/// one for each step; a field
/// without a value is empty, or absent.
pub fn metrics(run: &Path) -> Result<Files, ExportError> {
    let mut steps: BTreeMap<u64, BTreeMap<String, f64>> = BTreeMap::new();
    for Row { step, stage, values } in rows(run)? {
        let named = |(name, x): (String, f64)| (format!("{stage}/{}", name.trim_start_matches("eval_")), x);
        steps.entry(step).or_default().extend(values.into_iter().map(named));
    }
    let columns: BTreeSet<&String> = steps.values().flat_map(BTreeMap::keys).collect();
    let mut csv = "step".to_owned();
    columns.iter().for_each(|column| csv += &format!(",{column}"));
    csv.push('\n');
    let mut lines = String::new();
    for (step, values) in &steps {
        csv += &step.to_string();
        for column in &columns {
            csv.push(',');
            csv += &values.get(*column).map_or(String::new(), f64::to_string);
        }
        csv.push('\n');
        let mut object = Map::from_iter([("step".to_owned(), json!(step))]);
        object.extend(values.iter().map(|(name, x)| (name.clone(), json!(x))));
        lines += &format!("{}\n", Value::Object(object));
    }
    Ok(vec![("metrics.csv".to_owned(), csv.into_bytes()), ("metrics.jsonl".to_owned(), lines.into_bytes())])
}

/// The rows of a run, RL counted on from the supervised steps. What an evaluation found stands in a row of its own, so
/// that it is left out of the step's; what is no number (NaN, infinity) is left out, because JSON has no word for it.
pub(super) fn rows(run: &Path) -> Result<Vec<Row>, ExportError> {
    let path = run.join("metrics.jsonl");
    let mut supervised = 0;
    let mut rows = Vec::new();
    for (i, object) in objects(run, "metrics.jsonl")?.into_iter().enumerate() {
        let missing = |field: &str| ExportError::Content {
            place: format!("{}:{}", path.display(), i + 1),
            problem: format!("{field} is missing, so it is no row of metrics"),
        };
        let step = object.get("step").and_then(Value::as_u64).ok_or_else(|| missing("step"))?;
        let stage = object.get("stage").and_then(Value::as_str).ok_or_else(|| missing("stage"))?.to_owned();
        let step = match stage.as_str() {
            "sft" => {
                supervised += 1;
                step + 1
            }
            // Says how many RL steps are done; the row of a step, which it is.
            "eval" => supervised + step,
            _ => supervised + step + 1,
        };
        let own = |name: &str| {
            !["step", "stage"].contains(&name) && (stage == "eval" || !name.starts_with("eval_"))
        };
        let values = object.iter().filter(|(name, _)| own(name));
        let values = values.filter_map(|(name, x)| Some((name.clone(), x.as_f64()?))).collect();
        rows.push(Row { step, stage, values });
    }
    Ok(rows)
}
