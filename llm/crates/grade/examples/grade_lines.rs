//! Prints the verdict of every labelled line that is not the label: `cargo run -p grpo-lambda-grade --example grade_lines FILE`.
//!
//! A line of FILE is `{"gold", "answer", "equal"}`, as `tests/pool/cases.py` writes them.

use grpo_lambda_grade::Grader;

fn main() {
    let path = std::env::args().nth(1).unwrap_or_else(|| panic!("which file?"));
    let text = std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{path}: {e}"));
    let (mut all, mut other) = (0, 0);
    for line in text.lines() {
        let case: serde_json::Value = serde_json::from_str(line).unwrap_or_else(|e| panic!("{line}: {e}"));
        let field = |name: &str| case[name].as_str().unwrap_or_default();
        let verdict = Grader::free().grade_text(field("gold"), field("answer"));
        all += 1;
        if verdict.is_equal() != (case["equal"].as_bool() == Some(true)) {
            other += 1;
            println!("{:?} {:?}: {verdict}, found {:?}", field("gold"), field("answer"), verdict.extracted);
        }
    }
    println!("{other} of {all} lines differ from their label");
}
