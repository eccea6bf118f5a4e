//! Statements in prose: cases of one's own by class of defect, and the solutions of two benchmarks without their marks.

use std::path::Path;

use grpo_lambda_grade::{Answer, Grader, Rules, answer_place};
use rayon::prelude::*;
use serde_json::Value;

use crate::data::{benchmarks, here, lines, text, written};

/// A text, the references that it answers and those that it does not.
struct Statement {
    class: u8,
    text: String,
    right: Option<String>,
    wrong: Vec<String>,
}

/// The lines of a table: class, text, right reference (`-` for none), wrong references.
fn table(name: &str) -> Vec<Statement> {
    let read = |line: &str| {
        let mut fields = line.split('\t').map(|field| field.replace('⏎', "\n"));
        let class = fields.next().unwrap().parse().unwrap();
        let (text, right) = (fields.next().unwrap(), fields.next().unwrap());
        Statement { class, text, right: Some(right).filter(|r| r != "-"), wrong: fields.collect() }
    };
    text(&here(name)).lines().map(read).collect()
}

/// Disagreements of the free mode with the labels: the references that it accepts wrongly, and those that it refuses.
fn disagreements(all: &[Statement]) -> [Vec<String>; 2] {
    let mut found = [Vec::new(), Vec::new()];
    for Statement { class, text, right, wrong } in all {
        let references = right.iter().map(|r| (r, true)).chain(wrong.iter().map(|w| (w, false)));
        for (reference, label) in references {
            let verdict = Grader::free().grade_text(reference, text);
            if verdict.is_equal() != label {
                let place = &mut found[usize::from(label)];
                place.push(format!("{class}: {text:?} for {reference}: {verdict}, {:?}", verdict.extracted));
            }
        }
    }
    found
}

#[test]
fn a_statement_answers_its_reference_and_no_other() {
    let all = table("statements.tsv");
    for class in 1..=23 {
        let count = all.iter().filter(|s| s.class == class).count();
        assert!(count >= 15, "class {class} has {count} cases");
    }
    let answered = all.iter().filter(|s| s.right.is_some()).count();
    assert!(answered > 300 && all.iter().all(|s| !s.wrong.is_empty()));
    let errors = disagreements(&all);
    assert!(errors.iter().all(Vec::is_empty), "{errors:#?}");
}

/// `blind.tsv` was labelled before the grader saw it and keeps its labels, also where they may be disputed.
#[test]
fn statements_labelled_blind_are_judged_as_recorded() {
    let all = table("blind.tsv");
    let cases: usize = all.iter().map(|s| usize::from(s.right.is_some()) + s.wrong.len()).sum();
    let [accepted, refused] = disagreements(&all);
    println!("{cases} cases, {} accepted and {} refused wrongly", accepted.len(), refused.len());
    assert_eq!((cases, accepted.len(), refused.len()), (4075, 32, 26), "{accepted:#?} {refused:#?}");
}

/// The answers and texts of solutions, as they stand behind and before the mark.
fn gsm8k(folder: &Path, name: &str) -> Vec<(String, String)> {
    let parts = |row: &Value| {
        let (solution, answer) = row["answer"].as_str().unwrap().rsplit_once("####").unwrap();
        (answer.trim().to_owned(), solution.trim().to_owned())
    };
    lines(&folder.join("../train").join(name)).iter().map(parts).collect()
}

/// A text with the braces and names of its boxes taken off.
fn without_boxes(text: &str) -> String {
    let mut out = text.to_owned();
    while let Some(inside) = answer_place(&out) {
        let start = out[..inside.start].rfind("\\boxed").unwrap();
        out.replace_range(inside.end..=inside.end, "");
        out.replace_range(start..inside.start, "");
    }
    out
}

fn math500(folder: &Path) -> Vec<(String, String)> {
    let parts = |row: &Value| (written(&row["answer"]), without_boxes(row["solution"].as_str().unwrap()));
    lines(&folder.join("math500_reference_solutions.jsonl")).iter().map(parts).collect()
}

/// References answered wrongly: own ones refused, and those of a neighbour with another value accepted.
fn errors(name: &str, cases: &[(String, String)]) -> (usize, usize) {
    let judged: Vec<(bool, bool)> = cases
        .par_iter()
        .enumerate()
        .map(|(i, (reference, solution))| {
            let next = &cases[(i + 1) % cases.len()].0;
            let [own, other] = [reference, next].map(|text| Answer::read_by(text, Rules::LENIENT));
            let apart = !own.compare(&other).is_equal() && !other.compare(&own).is_equal();
            let accepts = |reference: &str| Grader::free().grade_text(reference, solution).is_equal();
            (!accepts(reference), apart && accepts(next))
        })
        .collect();
    let count = |one: fn(&(bool, bool)) -> bool| judged.iter().filter(|j| one(j)).count();
    let found = (count(|j| j.0), count(|j| j.1));
    println!("{name}: {} refused and {} accepted wrongly of {}", found.0, found.1, cases.len());
    found
}

#[test]
fn solutions_without_their_mark_answer_their_problem_and_not_the_next() {
    let Some(folder) = benchmarks() else { return };
    let test = gsm8k(&folder, "gsm8k_test.jsonl");
    assert_eq!(test.len(), 1319);
    let (refused, accepted) = errors("GSM8K without ####", &test);
    assert!(refused <= 20 && accepted == 0, "{refused} {accepted}");
    let math = math500(&folder);
    let (refused, accepted) = errors("MATH-500 without boxes", &math);
    assert!(refused <= 33 && accepted == 0, "{refused} {accepted}");
    let marked: Vec<_> = test.iter().map(|(a, s)| (a.clone(), format!("{s}\n#### {a}"))).collect();
    assert_eq!(errors("GSM8K with ####", &marked), (0, 0));
}

#[test]
fn no_reference_of_a_benchmark_answers_its_neighbour() {
    let Some(folder) = benchmarks() else { return };
    for name in ["aime24", "amc", "math500", "minerva", "olympiad"] {
        let rows: Vec<Value> = lines(&folder.join(name).with_extension("jsonl"));
        let reference = |row: &Value| written(&row["answers"][0]).trim().to_owned();
        let said = |text: &str| format!("Therefore, the value that we look for is {text}.");
        let cases: Vec<_> = rows.iter().map(reference).map(|r| (r.clone(), said(&r))).collect();
        assert_eq!(errors(name, &cases).1, 0);
    }
}
