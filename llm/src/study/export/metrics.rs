//! The metrics of a run as one table for trackers: steps that rise through both stages, no comment, one spelling of numbers.

use std::collections::BTreeSet;
use std::path::Path;

use serde_json::{Map, Value, json};

use super::{ExportError, Files, objects};

/// A row: step, and values by `stage/column`.
pub(super) struct Row {
    pub(super) step: u64,
    pub(super) stage: String,
    /// By column, without the stage.
    pub(super) values: Vec<(String, f64)>,
}

/// `metrics.csv` (columns `step`, `sft/loss`, `rl/reward`, ..) and `metrics.jsonl` with the same rows; a field without a value is empty, or absent.
///
/// # Errors
/// When the run's `metrics.jsonl` is missing or damaged.
pub fn metrics(run: &Path) -> Result<Files, ExportError> {
    let rows = rows(run)?;
    let columns: BTreeSet<String> =
        rows.iter().flat_map(|row| row.values.iter().map(|(name, _)| named(row, name))).collect();
    let mut csv = "step".to_owned();
    columns.iter().for_each(|column| csv += &format!(",{column}"));
    csv.push('\n');
    let mut lines = String::new();
    for row in &rows {
        csv += &row.step.to_string();
        for column in &columns {
            let value = row.values.iter().find(|(name, _)| named(row, name) == *column);
            csv.push(',');
            csv += &value.map_or(String::new(), |(_, x)| x.to_string());
        }
        csv.push('\n');
        let mut object = Map::from_iter([("step".to_owned(), json!(row.step))]);
        object.extend(row.values.iter().map(|(name, x)| (named(row, name), json!(x))));
        lines += &format!("{}\n", Value::Object(object));
    }
    Ok(vec![("metrics.csv".to_owned(), csv.into_bytes()), ("metrics.jsonl".to_owned(), lines.into_bytes())])
}

fn named(row: &Row, column: &str) -> String {
    format!("{}/{column}", row.stage)
}

/// The rows of a run; those of RL are counted on from the supervised ones. What is no number (NaN, infinity) is left out: JSON has no word for it.
pub(super) fn rows(run: &Path) -> Result<Vec<Row>, ExportError> {
    let path = run.join("metrics.jsonl");
    let mut supervised = 0;
    let mut rows = Vec::new();
    for (i, object) in objects(&path)?.into_iter().enumerate() {
        let missing = |field: &str| ExportError::Content {
            place: format!("{}:{}", path.display(), i + 1),
            problem: format!("{field} is missing, so it is no row of metrics"),
        };
        let step = object.get("step").and_then(Value::as_u64).ok_or_else(|| missing("step"))?;
        let stage = object.get("stage").and_then(Value::as_str).ok_or_else(|| missing("stage"))?.to_owned();
        supervised += u64::from(stage == "sft");
        let before = if stage == "sft" { 0 } else { supervised };
        let values = object.into_iter().filter(|(name, _)| name != "step" && name != "stage");
        let values = values.filter_map(|(name, x)| Some((name, x.as_f64()?))).collect();
        rows.push(Row { step: before + step, stage, values });
    }
    Ok(rows)
}
