//! Records of a run or an evaluation as files that other tools open: contents by name, nothing written.
//!
//! | module | for |
//! | --- | --- |
//! | `metrics` | trackio, Weights & Biases, MLflow, pandas: a table with one step per row |
//! | `completions` | the Parquet files that TRL writes of sampled responses |
//! | `hub` | Hugging Face: model card and `trainer_state.json` |
//! | `inspect` | the log of Inspect, for `inspect view` |

#[cfg(feature = "parquet")]
mod completions;
mod hub;
mod inspect;
mod metrics;
#[cfg(test)]
mod tests;

use std::path::Path;

use serde_json::{Map, Value};

use crate::curves::{CurvesError, log_text};

#[cfg(feature = "parquet")]
pub use completions::completions;
pub use hub::hub;
pub use inspect::inspect;
pub use metrics::metrics;

/// Contents by file name, in order.
pub type Files = Vec<(String, Vec<u8>)>;

/// Why a record could not be exported.
#[derive(Debug, thiserror::Error)]
pub enum ExportError {
    #[error(transparent)]
    Log(#[from] CurvesError),
    #[error("{place}: {problem}")]
    Content { place: String, problem: String },
    #[error(transparent)]
    Record(#[from] super::record::RecordError),
    #[error(transparent)]
    Eval(#[from] grpo_lambda_trainer::eval::store::StoreError),
    #[cfg(feature = "parquet")]
    #[error("{0}")]
    Parquet(#[from] parquet::errors::ParquetError),
}

/// The objects of a run's log with one in each line; half a line at its end, of a run under way, is left out.
fn objects(run: &Path, name: &str) -> Result<Vec<Map<String, Value>>, ExportError> {
    let path = run.join(name);
    let text = log_text(run, name)?;
    let whole = text.rfind('\n').map_or("", |end| &text[..=end]);
    let object = |(i, line): (usize, &str)| {
        serde_json::from_str(line).map_err(|e| ExportError::Content {
            place: format!("{}:{}", path.display(), i + 1),
            problem: format!("not a JSON object: {e}"),
        })
    };
    whole.lines().enumerate().map(object).collect()
}

/// A JSON value as the text of a file.
fn file(value: &Value) -> Vec<u8> {
    format!("{value:#}\n").into_bytes()
}
