//! The rows of a data set by problem and split, and those of a run that began under another key.

use std::collections::HashSet;
use std::path::Path;

use grpo_lambda_trainer::config::Config;
use grpo_lambda_trainer::input::data::{Columns, OnBadRow, SUMS, open};
use grpo_lambda_trainer::input::task::{Problem, Split};
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

/// The problems of a run on `rows.jsonl`, held out by `test.jsonl` if that is there.
fn opened(directory: &Path, began_with: Option<&str>) -> Problems {
    std::fs::write(directory.join("own.jinja"), TEMPLATE).expect("writable");
    let at = |key: &str, file: &str| format!("task.{key}={}", directory.join(file).display());
    let mut settings =
        vec!["task.kind=dataset".to_owned(), at("data", "rows.jsonl"), at("template", "own.jinja")];
    settings.extend(directory.join("test.jsonl").exists().then(|| at("test", "test.jsonl")));
    let config = Config::resolve("tiny", &settings).expect("valid");
    Problems::open_as(&config, began_with, (&ModelTokenizer::tiny(), 4096), &mut |_| ()).expect("readable")
}

fn prompts(problems: &Problems, split: Split) -> Vec<String> {
    let mut prompts: Vec<String> =
        problems.distinct(split, 999).expect("readable").into_iter().map(|p: Problem| p.prompt).collect();
    prompts.sort();
    prompts
}

#[test]
fn held_out_rows_of_one_last_turn_stay_apart_when_the_run_goes_on() {
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
        let fresh = opened(dir.path(), None);
        let fingerprint = fresh.fingerprint().expect("of a data set");
        assert_eq!(prompts(&fresh, Split::Test).len(), 2, "{pair:?}");
        let resumed = opened(dir.path(), Some(&fingerprint));
        assert_eq!(prompts(&resumed, Split::Test), prompts(&fresh, Split::Test), "{fingerprint}");
        assert_eq!(resumed.fingerprint().as_ref(), Some(&fingerprint));
    }
}

#[test]
fn a_run_that_began_under_the_text_as_published_keeps_its_split() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let problems: Vec<String> = (0..200).map(|i| format!("{i} +  1 = ?")).collect();
    let rows: String = problems.iter().map(|problem| row(&[], problem)).collect();
    std::fs::write(dir.path().join("rows.jsonl"), rows).expect("writable");
    let fresh = opened(dir.path(), None);
    let fingerprint = fresh.fingerprint().expect("of a data set");
    let then = fingerprint.strip_suffix("-words").expect("another key divides these rows otherwise");
    let old = opened(dir.path(), Some(then));
    assert_eq!(old.fingerprint().as_deref(), Some(then));
    let by = |key: fn(&str) -> String, split: Split| {
        let of = problems.iter().filter(|problem| Split::from_canonical(&key(problem)) == split);
        let mut of: Vec<String> = of.map(|problem| format!("{problem}\n")).collect();
        of.sort();
        of
    };
    let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    for split in Split::ALL {
        assert_eq!(prompts(&old, split), by(str::to_owned, split), "{split:?}");
        assert_eq!(prompts(&fresh, split), by(words, split), "{split:?}");
    }
    assert_ne!(prompts(&old, Split::Test), prompts(&fresh, Split::Test));
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
