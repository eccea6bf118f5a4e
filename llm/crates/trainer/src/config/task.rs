//! The section `task`.

use grpo_lambda_grade::{Extraction, Rules};

use super::error::ConfigError;
use super::sections::{ColumnFields, TaskFields};
use super::words::TaskKind;
use crate::input::data::Columns;
use crate::input::prompt::arguments;
use crate::input::task::{AnswerReading, DatasetTask, LengthFilter, Level, Task, TaskSource};

pub(super) fn read(task: TaskFields, columns: ColumnFields) -> Result<TaskSource, ConfigError> {
    let conflict = |text: String| Err(ConfigError::Conflict(text));
    let ColumnFields { problem, answer, solution } = columns;
    if let Some(args) = &task.template_args {
        arguments(args).map_err(|e| ConfigError::Conflict(format!("task.template_args: {e}")))?;
    }
    match (task.kind, task.data) {
        (TaskKind::Dataset, None) => conflict(
            "task.kind = dataset: task.data is missing; must be a file, a directory, owner/name in the Hugging Face cache, or tiny:sums".to_owned(),
        ),
        (TaskKind::Dataset, Some(data)) => Ok(TaskSource::Dataset(Box::new(DatasetTask {
            data,
            test: task.test,
            columns: Columns { problem, answer, solution },
            template: task.template,
            system: task.system,
            template_args: task.template_args,
            reading: AnswerReading {
                extraction: Extraction::find(&task.extract),
                rules: Rules::parse(&task.rules)
                    .map_err(|e| ConfigError::Conflict(format!("task.rules: {e}")))?,
            },
            on_bad_row: task.on_bad_row,
            lengths: LengthFilter { prompt: task.max_prompt_tokens, solution: task.max_solution_tokens },
        }))),
        (kind, Some(data)) => {
            let kind = kind.name();
            conflict(format!("task.data = {data}: task.kind is {kind}; with data it must be dataset"))
        }
        (TaskKind::Addition, None) => Ok(TaskSource::Embedded(Task::Addition)),
        (TaskKind::Stories, None) => {
            let level = |steps| Level { steps, max_operand: task.max_operand };
            Ok(TaskSource::Embedded(Task::Stories(task.levels.into_iter().map(level).collect())))
        }
    }
}
