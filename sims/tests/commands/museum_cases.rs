//! The cases of the museum: their numbers by hand, how far apart they are, and how someone's numbers are judged.
#![allow(clippy::unwrap_used)] // the lint spares test functions but not their helpers

use grpo_lambda_tools::museum::{TOLERANCE, Verdict, report, verdict};
use grpo_lambda_tools::museum::{cases, file};
use std::collections::BTreeSet;

fn answer(case: &str, what: &str) -> Vec<f64> {
    let cases = cases();
    let case = cases.iter().find(|c| c.name == case).unwrap();
    case.answers.iter().find(|a| a.what.starts_with(what)).unwrap().numbers.clone()
}

fn near(found: &[f64], want: &[f64], by: f64) {
    assert_eq!(found.len(), want.len());
    assert!(found.iter().zip(want).all(|(a, b)| (a - b).abs() < by), "{found:?} {want:?}");
}

/// Every number that is given is the one it is called, so no two answers of a case may be near each other.
#[test]
fn every_answer_is_finite_and_recognised_as_itself() {
    let mut bugs = BTreeSet::new();
    for case in cases() {
        assert!(case.answers.iter().any(|a| a.bugs.is_empty()) && case.answers.len() > 1, "{}", case.name);
        for answer in &case.answers {
            bugs.extend(answer.bugs.iter().copied());
            assert!(answer.numbers.iter().all(|x| x.is_finite()), "{}: {answer:?}", case.name);
            // As a framework in f32 would give them.
            let rounded: Vec<f64> = answer.numbers.iter().map(|x| f64::from(*x as f32)).collect();
            let found = verdict(&case, &rounded);
            let expected =
                if answer.bugs.is_empty() { Verdict::Right(answer) } else { Verdict::Wrong(answer) };
            assert_eq!(found, expected, "{}", case.name);
        }
    }
    assert!(bugs.len() >= 23, "{bugs:?}");
}

/// Wrong answers are at least ten tolerances away from every right one.
#[test]
fn no_wrong_answer_is_near_a_right_one() {
    for case in cases() {
        let (right, wrong): (Vec<_>, Vec<_>) = case.answers.iter().partition(|a| a.bugs.is_empty());
        for right in right {
            let scale = right.numbers.iter().fold(0.0, |m, x| f64::max(m, x.abs()));
            for wrong in &wrong {
                let distance = right.numbers.iter().zip(&wrong.numbers).map(|(a, b)| (a - b).abs());
                let distance = distance.fold(0.0, f64::max);
                assert!(
                    distance > 10.0 * TOLERANCE * scale,
                    "{}: {} and {}",
                    case.name,
                    right.what,
                    wrong.what
                );
            }
        }
    }
}

#[test]
fn the_numbers_are_those_computed_by_hand() {
    // The published table of three actions.
    near(&answer("kl_gradient", "that of KL(policy"), &[0.0033, 0.2365, -0.2398], 5.1e-5);
    near(&answer("kl_gradient", "that of KL(reference"), &[0.1509, 0.2927, -0.4436], 5.1e-5);
    // Ten tokens in the step; the second micro-batch has six of them.
    near(
        &answer("token_mean", "one mean"),
        &[-0.1, 0.1, 0.1, 0.1, 0.1, -0.05, -0.05, 0.05, 0.05, 0.05],
        1e-15,
    );
    near(&answer("token_mean", "a mean over each micro")[..2], &[-1.0 / 3.0, 1.0 / 18.0], 1e-15);
    near(&answer("constant_length", "a constant")[..2], &[-1.0 / 32.0, 1.0 / 32.0], 1e-15);
    near(&answer("trace_weights", "style recent"), &[4.68559, 4.0951, 3.439, 2.71, 1.9, 1.0], 1e-12);
    near(&answer("trace_weights", "lambda^"), &[0.59049, 0.6561, 0.729, 0.81, 0.9, 1.0], 1e-12);
    // Backwards: 0.5; -0.25 + 0.45; 0.5 + 0.18; -0.25 + 0.612.
    near(&answer("masked_gae", "over the trained"), &[0.0, 0.362, 0.68, 0.0, 0.0, 0.2, 0.5], 1e-12);
    // Mean 0.375 of four known rewards, deviation sqrt(0.6875 / 3).
    let (centred, deviation) = ([0.625, 0.0, -0.375, -0.375, 0.125], (0.6875f64 / 3.0).sqrt());
    near(
        &answer("missing_reward", "group mean, deviation over n - 1"),
        &centred.map(|x| x / deviation),
        1e-5,
    );
    near(&answer("group_of_one", "group mean, no division")[..1], &[0.0], 1e-15);
    near(&answer("equal_others", "the others")[7..], &[0.65], 1e-12);
    let noise = answer("equal_others", "the deviation")[7];
    assert!(noise > 100.0, "{noise}");
    // The third token is 0, after the logits 0.5, -1, 0.25, -1.25.
    let scores: [f64; 4] = [0.5, -1.0, 0.25, -1.25].map(|x: f64| (x / 0.6).exp());
    near(
        &answer("log_probabilities", "log softmax")[..1],
        &[(scores[0] / scores.iter().sum::<f64>()).ln()],
        1e-12,
    );
}

#[test]
fn a_file_is_judged_case_by_case_and_refused_by_line() {
    let all = cases();
    let theirs = "{\"case\":\"trace_weights\",\"numbers\":[0.59049,0.6561,0.729,0.81,0.9,1]}\n\n\
                  {\"case\":\"position_ids\",\"numbers\":[[0,1],[2,3]]}\n";
    let (said, right) = report(theirs, &all).unwrap();
    assert!(!right && said.contains("the bug B38: lambda^(T-1-t)"), "{said}");
    assert!(said.contains("right (counted from the first token)"), "{said}");
    assert!(said.ends_with("1 right, 1 of a known bug, 0 neither, 13 of 15 cases not given\n"), "{said}");
    let (said, _) = report("{\"case\":\"trace_weights\",\"numbers\":[1,1,1,1,1,1]}", &all).unwrap();
    assert!(said.contains("neither right nor a bug"), "{said}");
    for (text, line, what) in [
        ("", 1, "no line"),
        ("\n[1]", 2, "the line must be one JSON object"),
        ("{\"case\":\"trace_wights\",\"numbers\":[]}", 1, "unknown (did you mean `trace_weights`?)"),
        ("{\"case\":\"trace_weights\"}", 1, "numbers: missing"),
        ("{\"case\":\"trace_weights\",\"numbers\":[1]}", 1, "numbers: 1 of them; trace_weights has 6"),
        ("{\"case\":\"position_ids\",\"numbers\":[0,1,[NaN],3]}", 1, "numbers[2][0] = NaN; must be"),
        ("{\"case\":\"position_ids\",\"number\":[]}", 1, "`number`: unknown field"),
        ("{\"case\":1,\"numbers\":[]}", 1, "case = 1; must be"),
    ] {
        let (at, said) = report(text, &all).unwrap_err();
        assert!(at == line && said.contains(what), "{text}: {at}: {said}");
    }
    let twice = "{\"case\":\"position_ids\",\"numbers\":[0,1,2,3]}\n".repeat(2);
    assert_eq!(report(&twice, &all).unwrap_err().0, 2);
}

/// The committed file of cases is what the program prints.
#[test]
fn the_committed_cases_are_those_of_a_fresh_run() {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/museum.jsonl");
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(&path, file()).unwrap();
    }
    assert!(std::fs::read_to_string(path).unwrap() == file(), "run the tests once with UPDATE_DOCS=1");
}
