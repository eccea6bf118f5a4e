//! The section `task`.

use std::collections::BTreeMap;

use grpo_lambda_grade::{Extraction, Rules};

use super::error::ConfigError;
use crate::input::data::{Columns, OnBadRow};
use crate::input::task::{AnswerReading, DatasetTask, LengthFilter, Level, Task, TaskSource};

/// Default values of the fields that only a dataset has.
const UNSET: [&str; 2] = ["none", "auto"];

pub(super) fn read(values: &BTreeMap<String, String>) -> Result<TaskSource, ConfigError> {
    let word = |key: &str| values[key].as_str();
    let said = |key: &str| Some(word(key)).filter(|w| !UNSET.contains(w)).map(str::to_owned);
    if word("task.kind") == "dataset" {
        let data = said("task.data").ok_or_else(|| {
            let right = "must be a file, a directory, or owner/name in the Hugging Face cache";
            ConfigError::Conflict(format!("task.kind = dataset: task.data is missing; {right}"))
        })?;
        let column = |name: &str| said(&format!("task.columns.{name}"));
        return Ok(TaskSource::Dataset(DatasetTask {
            data,
            test: said("task.test"),
            columns: Columns {
                problem: column("problem"),
                answer: column("answer"),
                solution: column("solution"),
            },
            template: word("task.template").to_owned(),
            system: said("task.system"),
            reading: AnswerReading {
                extraction: Extraction::find(word("task.extract")),
                rules: Rules::parse(word("task.rules"))
                    .map_err(|e| ConfigError::Conflict(format!("task.rules: {e}")))?,
            },
            on_bad_row: OnBadRow::parse(word("task.on_bad_row")).expect("one of the choices"),
            lengths: LengthFilter {
                prompt: said("task.max_prompt_tokens").and_then(|n| n.parse().ok()),
                solution: said("task.max_solution_tokens").and_then(|n| n.parse().ok()),
            },
        }));
    }
    if let Some(data) = said("task.data") {
        let kind = word("task.kind");
        return Err(ConfigError::Conflict(format!(
            "task.data = {data}: task.kind is {kind}; with data it must be dataset"
        )));
    }
    let max_operand = values["task.max_operand"].parse().expect("within its bounds");
    let level = |steps: &str| Level { steps: steps.parse().expect("canonical list"), max_operand };
    Ok(TaskSource::Embedded(match word("task.kind") {
        "addition" => Task::Addition,
        _ => Task::Stories(word("task.levels").split(',').map(level).collect()),
    }))
}
