//! Methods for the page: all of them, and one under its settings.

use grpo_lambda::equation::BatchSize;
use grpo_lambda::methods::REGISTRY;
use grpo_lambda::token_weights::assumed;
use grpo_lambda_tools::methods_list::to_json;
use serde_json::{Value, json};

use crate::configure;

pub(crate) fn methods() -> Result<String, String> {
    crate::json(&REGISTRY.iter().map(|spec| to_json(spec)).collect::<Vec<Value>>())
}

pub(crate) fn describe(
    method: &str,
    settings: &str,
    groups: usize,
    group_size: usize,
    max_len: usize,
) -> Result<String, String> {
    let configured = configure(method, settings)?;
    let equation = configured.method.equation(&BatchSize { groups, group_size, max_len });
    let extra_inputs = configured.extra_inputs();
    let entries: serde_json::Map<String, Value> =
        configured.settings.entries().map(|(k, v)| (k.to_owned(), Value::from(v))).collect();
    crate::json(&json!({
        "title": configured.spec.title,
        "about": configured.spec.about,
        "source": configured.spec.source,
        "settings": entries,
        "idle": configured.idle(),
        "extra_inputs": extra_inputs.iter().map(|kind| kind.name()).collect::<Vec<_>>(),
        "assumed": extra_inputs.iter().filter_map(|kind| assumed(*kind)).collect::<Vec<_>>(),
        "equation": equation.map(|e| e.to_string()),
    }))
}
