//! The laboratory for a page in the browser.
//!
//! Text in (lines of `sim estimate`, files of `sim mdp`, a method with its settings as on the command line), JSON out, and arrays of
//! numbers where the size matters. Every number comes from the functions that `sim` calls, and so does every error text. What is refused
//! is thrown as a string.

mod batch;
mod catalogue;
mod check;
mod codes;
mod credit;
mod grade;
mod tasks;
mod truth;

pub use batch::{Batch, Evaluation};
pub use check::against;
pub use credit::Profile;
pub use grade::graded;
pub use truth::{Task, length_bonus, tasks};

use grpo_lambda::methods::Configured;
use grpo_lambda_tools::method_args::MethodArgs;
use wasm_bindgen::prelude::wasm_bindgen;

/// The names that messages give the texts of the page, as if they were files.
const GROUPS: &str = "groups.jsonl";
const THEIRS: &str = "theirs.jsonl";
const MDP: &str = "mdp.toml";

#[wasm_bindgen]
extern "C" {
    #[wasm_bindgen(js_namespace = console, js_name = error)]
    fn console_error(text: &str);
}

/// Tells the console where a panic happened: the page sees no more of it than that the module stopped.
#[wasm_bindgen]
pub fn start() {
    std::panic::set_hook(Box::new(|panic| console_error(&format!("grpo-lambda: {panic}"))));
}

/// Every method as `sim methods --json` lists it.
///
/// # Errors
/// When it cannot be written as JSON.
#[wasm_bindgen]
pub fn methods() -> Result<String, String> {
    catalogue::methods()
}

/// A method under its settings: every setting with its value, notes on those without effect, extra inputs, and the equation that
/// `llm-train train --dry-run` prints for a batch of this size.
///
/// # Errors
/// The text of the command line, for an unknown method or setting.
#[wasm_bindgen]
pub fn describe(
    method: &str,
    settings: &str,
    groups: usize,
    group_size: usize,
    length: usize,
) -> Result<String, String> {
    catalogue::describe(method, settings, groups, group_size, length)
}

/// `method` under the words of `settings`, as on the command line.
fn configure(method: &str, settings: &str) -> Result<Configured, String> {
    let settings = settings.split_whitespace().map(str::to_owned).collect();
    MethodArgs { method: method.to_owned(), settings }.configure().map_err(|failure| failure.line())
}

/// JSON of anything that has it.
fn json(value: &impl serde::Serialize) -> Result<String, String> {
    serde_json::to_string(value).map_err(|e| e.to_string())
}
