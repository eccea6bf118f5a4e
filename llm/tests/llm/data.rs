//! Data sets: layouts, formats, order, and the published files where they are there.

use std::path::Path;

use grpo_lambda_grade::{Extraction, Gold, Prediction};
use grpo_lambda_trainer::input::data::{AnswerForm, Columns, DataSet, OnBadRow, Shuffled, open, permutation};
use grpo_lambda_trainer::input::prompt::Template;
use proptest::prelude::*;

use crate::common::{fixture, llm};

fn opened(path: &Path) -> DataSet {
    open(path.to_str().unwrap(), &Columns::default(), OnBadRow::Refuse).unwrap()
}

/// A data set of its own, with its directory.
fn written(name: &str, text: &str) -> (tempfile::TempDir, DataSet) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join(name);
    std::fs::write(&path, text).unwrap();
    let data = opened(&path);
    (dir, data)
}

/// Problem, answers and solution of each row.
fn contents(data: &DataSet) -> Vec<(String, Vec<String>, Option<String>)> {
    data.rows().map(|row| row.unwrap()).map(|row| (row.problem, row.answers, row.solution)).collect()
}

#[test]
fn parquet_as_pyarrow_writes_it_is_its_json_lines() {
    for (name, rows, layout) in [
        (
            "gsm8k",
            55,
            "GSM8K: problem `question`, answer what follows the last #### of `answer`, solution `answer`",
        ),
        ("benchmark", 3, "benchmark: problem `problem`, answer each of `answers`, no solution"),
        ("numbers", 4, "problem and answer: problem `problem`, answer `answer`, no solution"),
        (
            "orz",
            3,
            "conversations, as ORZ: problem the user's turn of `conversations`, \
                    answer ground_truth of the assistant's turn of `conversations`, no solution",
        ),
        ("math", 28, "MATH: problem `problem`, answer the last \\boxed{} of `solution`, solution `solution`"),
    ] {
        let (json, parquet) = (
            opened(&fixture(&format!("data/{name}.jsonl"))),
            opened(&fixture(&format!("data/{name}.parquet"))),
        );
        assert_eq!((json.len(), parquet.len(), json.layout().to_string().as_str()), (rows, rows, layout));
        assert_eq!(contents(&json), contents(&parquet), "{name}");
        assert_eq!((json.layout(), json.fingerprint()), (parquet.layout(), parquet.fingerprint()), "{name}");
        let last = parquet.row(rows - 1).unwrap();
        assert_eq!(
            (last.line, last.index, parquet.counts_rows(0), json.counts_rows(0)),
            (rows as u64, rows - 1, true, false)
        );
    }
}

/// What the files say, by hand.
#[test]
fn rows_hold_what_their_files_say() {
    let data = opened(&fixture("data/benchmark.parquet"));
    let row = data.row(0).unwrap();
    assert_eq!(row.answers, [r"\frac{5}{6}", "5/6"]);
    assert!(row.gold.grade(&Prediction::boxed(r"\boxed{\frac{10}{12}}")).is_equal());
    // The problem as published: its blank lines are part of what a model is evaluated on.
    assert_eq!(data.row(2).unwrap().problem, "\nSolve $x^2 = 4$.\n");
    let texts = |name: &str| {
        contents(&opened(&fixture(&format!("data/{name}")))).into_iter().flat_map(|c| c.1).collect::<Vec<_>>()
    };
    assert_eq!(texts("orz.jsonl"), ["1024", "2", r"\frac{1}{3}"]);
    assert_eq!(texts("numbers.jsonl")[..3], ["142.0", "0.1", "-3.5"]);
    assert_eq!(texts("math.jsonl")[..2], ["4", "9"]);
    let gsm8k = opened(&fixture("data/gsm8k.jsonl"));
    assert_eq!(gsm8k.layout().form(), AnswerForm::Hashes);
    let row = gsm8k.row(0).unwrap();
    assert_eq!((row.answers, row.line), (vec!["2".to_owned()], 1));
    assert_eq!(row.solution.unwrap(), "She has 1 + 1 = <<1+1=2>>2 pears.\n#### 2");
}

/// The same conversation in the spellings there are.
#[test]
fn conversations_are_read_in_every_usual_spelling() {
    let expected = vec![("2+3?".to_owned(), vec!["5".to_owned()], None)];
    let said = vec![("2+3?".to_owned(), vec!["5".to_owned()], Some("so \\boxed{5}".to_owned()))];
    for (text, expected) in [
        (r#"[{"from":"human","value":"2+3?"},{"from":"assistant","ground_truth":{"value":"5"}}]"#, &expected),
        (
            r#"{"0":{"from":"human","value":"2+3?"},"1":{"from":"assistant","ground_truth":{"value":"5"}}}"#,
            &expected,
        ),
        (r#"{"messages":[{"role":"user","content":"2+3?"}],"answer":5}"#, &expected),
        (
            r#"{"prompt":[{"role":"user","content":"2+3?"}],"reward_model":{"style":"rule","ground_truth":"5"}}"#,
            &expected,
        ),
        (
            r#"{"messages":[{"role":"system","content":"s"},{"role":"user","content":"2+3?"},{"role":"assistant","content":"so \\boxed{5}"}]}"#,
            &said,
        ),
        (
            r#"{"problem":"2+3?","messages":[{"role":"user","content":"x"},{"role":"assistant","content":"so \\boxed{5}"}]}"#,
            &said,
        ),
        (r#"{"problem":"2+3?","answer":"5","solution":"so \\boxed{5}"}"#, &said),
        (r#"{"problem":"2+3?","solution":"so \\boxed{5}"}"#, &said),
    ] {
        assert_eq!(contents(&written("a.jsonl", text).1), *expected, "{text}");
        // ORZ-57K itself is one array of such rows.
        assert_eq!(
            contents(&written("a.json", &format!("[\n{text}\n,{text}]")).1)[..1],
            expected[..],
            "{text}"
        );
    }
}

#[test]
fn columns_are_those_that_were_named() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("x.jsonl");
    std::fs::write(
        &path,
        r#"{"problem":"not this","answer":"0","q":"2+3?","meta":{"truth":[5,"five"]},"how":"by hand"}"#,
    )
    .unwrap();
    let name = |s: &str| Some(s.to_owned());
    let columns = Columns { problem: name("q"), answer: name("meta.truth"), solution: name("how") };
    let data = open(path.to_str().unwrap(), &columns, OnBadRow::Refuse).unwrap();
    let row = data.row(0).unwrap();
    assert_eq!(
        (row.problem.as_str(), row.answers.join(" "), row.solution.as_deref()),
        ("2+3?", "5 five".to_owned(), Some("by hand"))
    );
    let layout = data.layout().to_string();
    assert!(layout.starts_with("mapped columns: problem `q`, answer each of `meta.truth`"), "{layout}");
}

/// A number is what the file spells, not what fits in 53 bits.
#[test]
fn no_digit_of_a_number_is_lost() {
    let digits = "123456789012345678901234567890";
    let (_dir, data) = written("x.jsonl", &format!("{{\"problem\": \"p\", \"answer\": {digits}}}"));
    assert_eq!(data.row(0).unwrap().answers, [digits]);
}

#[test]
fn lines_and_arrays_of_every_shape_are_read_with_their_place() {
    let row = |i: usize| format!(r#"{{"problem":"p{i} ] }} , \" \\","answer":"{i}"}}"#);
    let lines = [
        format!("{}\n{}\n{}\n", row(0), row(1), row(2)),
        format!("\u{feff}{}\r\n\r\n  {}\r\n\n\n{}", row(0), row(1), row(2)),
    ];
    let arrays = [
        format!("[{},{},{}]", row(0), row(1), row(2)),
        format!("\u{feff}\n[\n{}\n,\n  {}  ,{}\n]\n\n", row(0), row(1), row(2)),
    ];
    for (name, texts, places) in
        [("x.jsonl", lines, [[1, 2, 3], [1, 3, 6]]), ("x.json", arrays, [[1, 1, 1], [3, 5, 5]])]
    {
        for (text, places) in texts.iter().zip(places) {
            let (_dir, data) = written(name, text);
            let rows: Vec<_> = data.rows().map(|r| r.unwrap()).collect();
            assert_eq!(rows.iter().map(|r| r.line).collect::<Vec<_>>(), places, "{text}");
            for (i, r) in rows.iter().enumerate() {
                assert_eq!(
                    (r.problem.clone(), &r.answers[0]),
                    (format!("p{i} ] }} , \" \\"), &i.to_string()),
                    "{text}"
                );
                // Any row, in any order.
                assert_eq!(data.row(2 - i).unwrap(), rows[2 - i]);
            }
        }
    }
}

#[test]
fn several_files_are_one_data_set_and_bad_rows_are_counted() {
    let dir = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| std::fs::write(dir.path().join(name), text).unwrap();
    write("train-00000-of-00002.jsonl", "{\"problem\":\"a\",\"answer\":1}\n{\"problem\":\"b\"}\nnonsense\n");
    write(
        "train-00001-of-00002.jsonl",
        "{\"problem\":\"c\",\"answer\":3}\n{\"problem\":\" \",\"answer\":3}\n",
    );
    write("test.jsonl", "{\"problem\":\"t\",\"answer\":9}\n");
    let at = dir.path().to_str().unwrap();
    let data = open(at, &Columns::default(), OnBadRow::Skip).unwrap();
    let problems: Vec<_> = contents(&data).into_iter().map(|c| c.0).collect();
    assert_eq!(
        (problems, data.bad_count(), data.located().split.as_deref()),
        (vec!["a".into(), "c".into()], 3, Some("train"))
    );
    let said: Vec<String> =
        data.bad_rows().iter().map(|row| row.to_string().rsplit_once('/').unwrap().1.to_owned()).collect();
    assert_eq!(
        said,
        [
            "train-00000-of-00002.jsonl:2: no column `answer`; the columns are problem",
            "train-00000-of-00002.jsonl:3: not JSON: expected ident at column 2",
            "train-00001-of-00002.jsonl:2: problem: empty; must be the problem",
        ]
    );
    assert_eq!(
        open(&format!("{at}:test"), &Columns::default(), OnBadRow::Refuse).unwrap().row(0).unwrap().problem,
        "t"
    );
}

#[test]
fn a_file_that_changes_is_noticed() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("x.jsonl");
    std::fs::write(&path, "{\"problem\":\"a\",\"answer\":1}\n").unwrap();
    let data = opened(&path);
    std::fs::write(&path, "{\"problem\":[],\"answer\":1}\n\n").unwrap();
    let error = data.row(0).unwrap_err().to_string();
    assert!(error.contains("x.jsonl:1: the row is not what it was when the file was opened"), "{error}");
}

/// Of the 24 orders of four rows each comes up as often as chance has it.
#[test]
fn orders_are_uniform() {
    let mut counts = std::collections::BTreeMap::new();
    let n = 24_000;
    for epoch in 0..n {
        *counts.entry(permutation(5, epoch, 4)).or_insert(0u32) += 1;
    }
    let expected = n as f64 / 24.0;
    let chi2: f64 = counts.values().map(|&c| (f64::from(c) - expected).powi(2) / expected).sum();
    assert_eq!(counts.len(), 24);
    assert!(chi2 < 49.7, "chi2 {chi2} beyond its 0.999 quantile at 23 degrees of freedom");
}

#[test]
fn orders_are_frozen() {
    assert_eq!(permutation(7, 3, 10), FROZEN, "a change here changes every run on a data set");
}

const FROZEN: [u32; 10] = [4, 7, 8, 9, 6, 5, 1, 2, 3, 0];

proptest! {
    /// Every epoch is a permutation, another one each time, and reading can be taken up at any row.
    #[test]
    fn reading_resumes_at_any_row(seed: u64, rows in 1u32..60, first in 0u64..5, stop in 0u64..200) {
        let whole: Vec<usize> = Shuffled::new(seed, rows, first).from(0).take(200).collect();
        let rest: Vec<usize> = Shuffled::new(seed, rows, first).from(stop).take(200 - stop as usize).collect();
        prop_assert_eq!(&whole[stop as usize..], &rest[..]);
        for (e, epoch) in whole.chunks_exact(rows as usize).enumerate() {
            let mut sorted = epoch.to_vec();
            sorted.sort_unstable();
            prop_assert_eq!(sorted, (0..rows as usize).collect::<Vec<_>>());
            let alone: Vec<usize> = permutation(seed, first + e as u64, rows).into_iter().map(|r| r as usize).collect();
            prop_assert_eq!(epoch, &alone[..]);
        }
        // At random, backwards: the answer does not depend on what was asked before.
        let order = Shuffled::new(seed, rows, first);
        for position in (0..200).rev().step_by(7) {
            prop_assert_eq!(order.at(position), whole[position as usize]);
        }
    }
}

fn published(name: &str) -> Option<DataSet> {
    crate::common::published(name).map(|path| opened(&path))
}

#[test]
fn published_benchmarks_have_their_sizes_and_their_golds_equal_themselves() {
    for (name, rows) in [("aime24", 30), ("amc", 83), ("math500", 500), ("minerva", 272), ("olympiad", 675)] {
        // The page and the script that writes these files name the same source, and the page what they hold.
        let [page, script] = ["../docs/reproduce.md", "scripts/benchmarks.py"]
            .map(|path| std::fs::read_to_string(llm().join(path)).unwrap());
        let row = page.lines().find(|line| line.starts_with(&format!("| {name} | {rows} |"))).unwrap();
        let [source, checksum] = [3, 4].map(|i| row.split('|').nth(i).unwrap().trim().trim_matches('`'));
        assert!(script.contains(&format!("(\"{name}\", ")) && script.contains(source), "{row}");
        let Some(data) = published(&format!("benchmarks/{name}.jsonl")) else { return };
        assert_eq!((data.len(), data.bad_count(), data.layout().name()), (rows, 0, "benchmark"), "{name}");
        assert_eq!(format!("{:08x}", data.fingerprint()), checksum, "{name}");
        for row in data.rows() {
            let row = row.unwrap();
            for answer in &row.answers {
                let said = Prediction::extract(&format!("\\boxed{{{answer}}}"), Extraction::Boxed);
                assert!(row.gold.grade(&said).is_equal(), "{name}:{}: {answer}", row.line);
            }
        }
    }
}

/// Every worked solution of GSM8K, as each template would have it imitated, is graded equal to its answer; another number is not.
#[test]
fn published_gsm8k_is_gradable_to_the_last_row() {
    let templates: Vec<Template> =
        ["line", "r1", "open_reasoner"].iter().map(|name| Template::load(name, None).unwrap()).collect();
    for (name, rows) in [("gsm8k_train", 7473), ("gsm8k_test", 1319)] {
        let Some(data) = published(&format!("train/{name}.jsonl")) else { return };
        assert_eq!((data.len(), data.bad_count(), data.layout().name()), (rows, 0, "GSM8K"));
        for row in data.rows() {
            let row = row.unwrap();
            for template in &templates {
                let target = template.target(row.solution.as_deref().unwrap(), &row.answers[0]);
                let said = Prediction::extract(&target, template.extraction());
                assert!(row.gold.grade(&said).is_equal(), "{name}:{}: {target}", row.line);
            }
            let wrong = Gold::math(&format!("{}1", row.answers[0])).unwrap();
            let said = Prediction::extract(&templates[0].answer_only(&row.answers[0]), Extraction::Boxed);
            assert_eq!(wrong.grade(&said).equal, Some(false), "{name}:{}", row.line);
        }
    }
}

#[test]
fn published_asdiv_and_reference_solutions_are_read() {
    let Some(asdiv) = published("train/asdiv.jsonl") else { return };
    assert_eq!((asdiv.len(), asdiv.layout().name()), (1788, "problem and answer"));
}
