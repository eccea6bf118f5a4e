//! `llm-train grade` as a user runs it.

use crate::common::llm_train;

#[test]
fn the_command_grades_line_by_line_and_refuses_what_it_cannot_use() {
    let cases = r#"{"gold": "\\frac{1}{2}", "answer": "so \\boxed{0.5}"}

{"gold": ["1", "2"], "answer": "2"}
{"gold": "1", "answer": "2"}
{"answer": "1/0", "gold": "1"}
"#;
    let output = llm_train(&["grade"], cases);
    assert_eq!(
        output.output(),
        "{\"equal\":true,\"reason\":\"equal\"}\n{\"equal\":true,\"reason\":\"equal\"}\n\
         {\"equal\":false,\"reason\":\"different\"}\n{\"equal\":null,\"reason\":\"undefined: a division by zero\"}\n"
    );
    let boxed = llm_train(&["grade", "--extract", "boxed"], r#"{"gold":"1","answer":"1"}"#);
    assert!(boxed.output().contains("\"equal\":null"), "{}", boxed.stdout);
    let refused =
        |line: &str, parts: &[&str]| llm_train(&["grade"], &format!("\n{line}\n")).refused(2, parts);
    refused(r#"{"gold": "1"}"#, &["stdin:2", "answer: missing"]);
    refused(r#"{"answer": "1"}"#, &["stdin:2", "gold: missing"]);
    refused(r#"{"gold": 1, "answer": "1"}"#, &["stdin:2", "gold = 1", "text in quotes"]);
    refused(r#"{"gold": ["1", 2], "answer": "1"}"#, &["stdin:2", "gold[1] = 2", "text in quotes"]);
    refused(r#"{"gold": " ", "answer": "1"}"#, &["stdin:2", "gold", "empty"]);
    refused(r#"{"gold": [], "answer": "1"}"#, &["stdin:2", "gold", "empty"]);
    refused(r#"{"gold": "1", "anser": "1"}"#, &["stdin:2", "anser", "did you mean"]);
    refused("[1]", &["stdin:2", "[1]"]);
    refused("{", &["stdin:2", "not JSON"]);
    llm_train(&["grade", "--input", "/no/such.jsonl"], "").refused(2, &["/no/such.jsonl"]);
    llm_train(&["grade", "--extract", "magic"], "").refused(2, &["magic"]);
}
