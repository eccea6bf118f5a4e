//! Responses written from the problem alone, which must earn no more than the one answer that they could have guessed.
//!
//! `GUESSES=FILE cargo test -p grpo-lambda-grade --test pool guessing` writes the cases for `peer.py`.

use std::path::Path;

use grpo_lambda_grade::Grader;
use rayon::prelude::*;
use serde_json::{Value, json};

use crate::data::{benchmarks, here, lines, text, written};

/// Problems with their references: 1,000 of GSM8K, 500 of MATH-500 and 500 of OlympiadBench.
fn problems(folder: &Path) -> Vec<(String, String)> {
    let rows = |name: &str, count: usize, problem: &str, answer: fn(&Value) -> String| -> Vec<_> {
        let rows: Vec<Value> = lines(&folder.join(name));
        let part = |row: &Value| (row[problem].as_str().unwrap().to_owned(), answer(row).trim().to_owned());
        rows.iter().take(count).map(part).collect()
    };
    let listed = |row: &Value| written(&row["answers"][0]);
    let marked = |row: &Value| row["answer"].as_str().unwrap().rsplit_once("####").unwrap().1.to_owned();
    let parts = [
        rows("../train/gsm8k_test.jsonl", 1000, "question", marked),
        rows("math500.jsonl", 500, "problem", listed),
        rows("olympiad.jsonl", 500, "problem", listed),
    ];
    parts.concat()
}

/// The runs of digits of a problem.
fn numbers(problem: &str) -> Vec<&str> {
    problem.split(|c: char| !c.is_ascii_digit()).filter(|n| !n.is_empty()).collect()
}

/// The strategies of `guesses.txt` by name, each with its text: `@` is the problem, `~LIST|A|B|C` is A, the numbers of
/// the list parted by B, and C. A list is `n`, the numbers of the problem, `first`, `last`, or a range (`1-20`).
fn strategies(problem: &str) -> Vec<(&'static str, String)> {
    let found = numbers(problem);
    let list = |name: &str| -> Vec<String> {
        let own = |numbers: &[&str]| numbers.iter().map(|n| (*n).to_owned()).collect();
        match name {
            "n" => own(&found),
            "first" => own(&found[..found.len().min(1)]),
            "last" => own(&found[found.len().saturating_sub(1)..]),
            range => {
                let (from, to) = range.split_once('-').unwrap();
                (from.parse::<u32>().unwrap()..=to.parse().unwrap()).map(|n| n.to_string()).collect()
            }
        }
    };
    let write = |template: &str| match template.strip_prefix('~') {
        Some(listed) => {
            let [name, before, between, behind] = listed.split('|').collect::<Vec<_>>()[..] else {
                panic!("{listed}")
            };
            [before, &list(name).join(between), behind].concat()
        }
        None => template.replace('@', problem),
    };
    let row = |line: &'static str| line.split_once('\t').map(|(name, template)| (name, write(template)));
    include_str!("guesses.txt").lines().filter_map(row).collect()
}

/// The rewards of each strategy in the strict and the free mode, as `guesses.tsv` has them beside those of Math-Verify.
#[test]
fn guessing_earns_no_more_than_one_answer_could() {
    let Some(folder) = benchmarks() else { return };
    let problems = problems(&folder);
    assert_eq!(problems.len(), 2000);
    if let Some(path) = std::env::var_os("GUESSES") {
        let row = |reference: &String, (name, response): (&str, String)| {
            json!({"class": name, "gold": reference, "answer": response}).to_string() + "\n"
        };
        let rows: String =
            problems.iter().flat_map(|(p, r)| strategies(p).into_iter().map(|s| row(r, s))).collect();
        std::fs::write(path, rows).unwrap();
    }
    let names: Vec<&str> = strategies("").into_iter().map(|(name, _)| name).collect();
    let earned = |(problem, reference): &(String, String)| -> Vec<[usize; 2]> {
        let graders =
            [Grader::default(), Grader::free()].map(|grader| (grader.gold([reference.as_str()]), grader));
        let paid = |response: &str| {
            graders
                .each_ref()
                .map(|(gold, grader)| usize::from(grader.grade(gold.as_ref().unwrap(), response).is_equal()))
        };
        strategies(problem).iter().map(|(_, response)| paid(response)).collect()
    };
    let rewards: Vec<Vec<[usize; 2]>> = problems.par_iter().map(earned).collect();
    let total = |i: usize, mode: usize| rewards.iter().map(|r| r[i][mode]).sum::<usize>();
    let rows: Vec<String> =
        (0..names.len()).map(|i| format!("{}\t{}\t{}", names[i], total(i, 0), total(i, 1))).collect();
    println!("{}", rows.join("\n"));
    let recorded: Vec<String> = text(&here("guesses.tsv"))
        .lines()
        .skip(1)
        .map(|line| line.rsplit_once('\t').unwrap().0.to_owned())
        .collect();
    assert_eq!(rows, recorded);
    // Whatever says several things earns nothing but by chance.
    for (i, name) in names.iter().enumerate().filter(|(_, name)| !name.starts_with("one: ")) {
        assert!(total(i, 0) <= 4 && total(i, 1) <= 4, "{name}: {} {}", total(i, 0), total(i, 1));
    }
}
