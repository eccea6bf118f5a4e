//! The rows of a data set by problem and split.

use std::collections::HashSet;

use grpo_lambda_trainer::config::Config;
use grpo_lambda_trainer::input::data::{Columns, OnBadRow, SUMS, open};
use grpo_lambda_trainer::input::task::Split;
use grpo_lambda_trainer::input::tokens::ModelTokenizer;
use grpo_lambda_trainer::problems::Problems;
use serde_json::json;

const TEMPLATE: &str = "{% for message in messages %}{{ message.content }}\n{% endfor %}";

/// A row with turns before the problem.
fn row(before: &[(&str, &str)], problem: &str) -> String {
    let turn = |&(role, content): &(&str, &str)| json!({"role": role, "content": content});
    let turns: Vec<_> = before.iter().chain(&[("user", problem)]).map(turn).collect();
    format!("{}\n", json!({"messages": turns, "answer": "2"}))
}

#[test]
fn held_out_rows_of_one_last_turn_stay_apart() {
    let training: String = (0..30).map(|i| row(&[], &format!("{i}+1=?"))).collect();
    let pairs: [[&[(&str, &str)]; 2]; 3] = [
        [&[("system", "Add.")], &[("system", "Subtract.")]],
        [&[], &[("system", "Add.")]],
        [&[("user", "7+7=?"), ("assistant", "14")], &[("user", "8+8=?"), ("assistant", "16")]],
    ];
    for pair in pairs {
        let dir = tempfile::tempdir().expect("a temporary directory");
        std::fs::write(dir.path().join("rows.jsonl"), &training).expect("writable");
        let held_out: String = pair.iter().map(|before| row(before, "And then?")).collect();
        std::fs::write(dir.path().join("test.jsonl"), held_out).expect("writable");
        std::fs::write(dir.path().join("own.jinja"), TEMPLATE).expect("writable");
        let at = |key: &str, file: &str| format!("task.{key}={}", dir.path().join(file).display());
        let files = [
            "task.kind=dataset".to_owned(),
            at("data", "rows.jsonl"),
            at("test", "test.jsonl"),
            at("template", "own.jinja"),
        ];
        let config = Config::resolve("tiny", &files).expect("valid");
        let problems = Problems::open(&config, &ModelTokenizer::tiny(), 4096, &mut |_| ()).expect("readable");
        assert_eq!(problems.distinct(Split::Test, 999).expect("readable").len(), 2, "{pair:?}");
    }
}

#[test]
fn the_sums_that_the_program_holds_are_right_and_a_tenth_of_them_is_held_out() {
    let data = open(SUMS, &Columns::default(), OnBadRow::Refuse).expect("needs no file");
    let mut asked = HashSet::new();
    for row in data.rows().map(|row| row.expect("readable")) {
        let words: Vec<&str> = row.problem.trim_end_matches('?').split(' ').collect();
        let ["What", "is", a, word, b] = words[..] else { panic!("{}", row.problem) };
        let [a, b]: [i64; 2] = [a, b].map(|number| number.parse().expect("a number"));
        let value = match word {
            "plus" => a + b,
            "minus" => a - b,
            "times" => a * b,
            _ => panic!("{}", row.problem),
        };
        assert_eq!(row.answers, [value.to_string()], "{}", row.problem);
        assert!(asked.insert(row.problem));
    }
    assert_eq!(asked.len(), 21 * 21 + 21 * 22 / 2 + 13 * 13);
    let settings = ["task.kind=dataset", "task.data=tiny:sums"];
    let config = Config::resolve("tiny", &settings).expect("valid");
    let problems =
        Problems::open(&config, &ModelTokenizer::tiny(), 4096, &mut |_| ()).expect("needs no file");
    let [train, validation, test] = problems.sizes().expect("a data set");
    assert_eq!(train + validation + test, asked.len());
    assert!((600..740).contains(&train) && (60..110).contains(&test), "{train} {validation} {test}");
}
