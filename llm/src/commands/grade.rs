//! `llm-train grade`.

use std::path::PathBuf;

use grpo_lambda_grade::{Extraction, Gold, Prediction, grade};
use serde::Serialize;

use super::lines::lines;
use super::{Failure, input, print};

/// Arguments of `grade`.
#[derive(Clone, Debug, clap::Args)]
pub struct GradeArgs {
    /// JSON lines `{"gold": "1/2", "answer": "0.5"}`, the gold one text or a list of right ones; stdin when not given
    #[arg(long, value_name = "FILE")]
    pub input: Option<PathBuf>,
    /// Where in `answer` the final answer stands
    #[arg(long, value_enum, default_value_t)]
    pub extract: Extraction,
}

#[derive(Serialize)]
struct Graded {
    equal: Option<bool>,
    reason: String,
}

/// Grades every line; all or nothing.
///
/// # Errors
/// When a line is refused.
pub fn run(args: &GradeArgs) -> Result<(), Failure> {
    let (name, text) = input(args.input.as_deref())?;
    let mut out = String::new();
    for line in lines(&name, &text, &["gold", "answer"])? {
        let right = "a line is {\"gold\": \"1/2\", \"answer\": \"0.5\"}";
        let golds = line.texts("gold")?.ok_or_else(|| line.refused(format!("gold: missing; {right}")))?;
        let answer = line.text("answer")?.ok_or_else(|| line.refused(format!("answer: missing; {right}")))?;
        let gold = Gold::any_of(golds).map_err(|e| line.refused(format!("gold: {e}")))?;
        let verdict = grade(&Prediction::extract(answer, args.extract), &gold);
        let graded = Graded { equal: verdict.equal(), reason: verdict.to_string() };
        out += &serde_json::to_string(&graded).map_err(Failure::broke)?;
        out.push('\n');
    }
    print(&out)
}
