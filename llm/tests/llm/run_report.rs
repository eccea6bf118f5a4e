//! A run for a person: its start against its end, its report, and figures of several runs.

use serde_json::Value;

use crate::common::{llm_train, train};

const SUMS: &[&str] = &[
    "task.kind=addition",
    "sft.steps=20",
    "sft.batch=16",
    "rl.steps=2",
    "rl.prompts_per_step=4",
    "rl.group_size=4",
    "rl.max_new_tokens=6",
    "eval.n=40",
    "eval.every=1",
];

#[test]
fn a_run_is_compared_with_its_start_on_the_problems_that_training_measured() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    let text = |name: &str| at(name).to_str().unwrap().to_owned();
    let done = train(&at("a"), &[SUMS]);
    assert!(done.output().contains(&format!("llm-train compare {}", text("a"))), "{}", done.stdout);
    let out = llm_train(&["compare", &text("a"), "--output", "json"], "");
    let pair: Value = serde_json::from_str(out.output()).unwrap();
    let summary: Value = serde_json::from_slice(&std::fs::read(at("a/summary.json")).unwrap()).unwrap();
    let [before, after] = ["accuracy_before", "accuracy_after"].map(|key| summary[key].as_f64().unwrap());
    let found = pair["benchmarks"][0]["difference"]["value"].as_f64().unwrap();
    assert!((found - (after - before)).abs() < 1e-12, "{found}: {pair}");
    let out = llm_train(&["compare", &text("a")], "");
    for part in
        ["(before RL)", "(after RL step 2)", "After RL step 2 against before RL: ", "held-out problems"]
    {
        assert!(out.output().contains(part), "{part}: {}", out.stdout);
    }

    let page = std::fs::read_to_string(at("a/report.html")).unwrap();
    for part in [
        "Before and after",
        "After RL step 2 against before RL",
        "<svg",
        "the grader ",
        "rl.steps",
        "Every problem, in order",
        "every setting",
    ] {
        assert!(page.contains(part), "{part}");
    }
    assert!(!page.contains("src=\"http") && !page.contains("href=\"http"), "the page is self-contained");

    // The title says what the pairs say: 7 of 40 problems won and none lost is a difference, though the two intervals overlap.
    let files = ["a/held_out_start.jsonl", "a/held_out_latest.jsonl"];
    let kept = files.map(|name| std::fs::read(at(name)).unwrap());
    let rewrite = |name: &str, right: usize| {
        let text = std::fs::read_to_string(at(name)).unwrap();
        let line = |(number, line): (usize, &str)| {
            let mut line: Value = serde_json::from_str(line).unwrap();
            line["completion"]["verdict"] = if number < right { "right" } else { "wrong" }.into();
            line.as_object_mut().unwrap().remove("crc32c");
            format!("{line}\n")
        };
        std::fs::write(at(name), text.lines().enumerate().map(line).collect::<String>()).unwrap();
    };
    for (right, shown) in [([10, 17], true), ([10, 12], false)] {
        files.iter().zip(right).for_each(|(name, right)| rewrite(name, right));
        let done = llm_train(&["plot", &text("a")], "");
        assert_eq!(!done.output().contains("no difference shown on 40 problems"), shown, "{}", done.stdout);
    }
    files.iter().zip(kept).for_each(|(name, bytes)| std::fs::write(at(name), bytes).unwrap());

    // A record that was changed is refused by its line, and one that is not there with the way to measure it.
    let file = at("a/held_out_latest.jsonl");
    let lines = std::fs::read_to_string(&file).unwrap();
    std::fs::write(&file, lines.replacen("\"tokens\":", "\"tokens\": ", 1)).unwrap();
    let refused = |problem: &str| {
        train(&at("a"), &[SUMS]).refused(2, &[problem]);
        for command in ["compare", "plot"] {
            llm_train(&[command, &text("a")], "").refused(2, &[problem]);
        }
    };
    refused("held_out_latest.jsonl:1: its checksum is not that of the line");
    for kept in [0, lines.find('\n').unwrap() + 1, lines.len() - 1] {
        std::fs::write(&file, &lines[..kept]).unwrap();
        refused("held_out_latest.jsonl: cut short after ");
    }
    std::fs::remove_file(&file).unwrap();
    llm_train(&["compare", &text("a")], "").refused(2, &["held_out_latest.jsonl: no such file", ":held-out"]);
    llm_train(&["plot", &text("a")], "").output();
    assert!(!std::fs::read_to_string(at("a/report.html")).unwrap().contains("Before and after"));

    train(&at("b"), &[SUMS, &["seed=1"]]).output();
    let both = llm_train(&["plot", &text("a"), &text("b"), "--out", &text("both")], "");
    assert!(both.output().contains("overlay.png") && at("both/overlay.svg").is_file(), "{}", both.stdout);
    assert!(std::fs::read_to_string(at("both/overlay.svg")).unwrap().contains("Held-out accurac"));
}

#[test]
fn more_steps_for_a_finished_run_name_the_option_that_gives_them() {
    let dir = tempfile::tempdir().unwrap();
    train(dir.path(), &[SUMS]).output();
    let more: Vec<&str> =
        SUMS.iter().map(|word| if *word == "rl.steps=2" { "rl.steps=3" } else { word }).collect();
    train(dir.path(), &[&more]).refused(2, &["rl.steps", "--extend"]);
}

#[test]
fn a_dry_run_prints_what_differs_and_what_its_problems_can_show() {
    let dir = tempfile::tempdir().unwrap();
    let run = dir.path().join("run");
    let words =
        ["train", "--dry-run", "--run", run.to_str().unwrap(), "rl.steps=7", "eval.n=15", "device=cuda"];
    let done = llm_train(&words, "");
    let text = done.output();
    assert!(text.contains("rl.steps = 7 (preset: "), "{text}");
    assert!(!text.contains("[rl]") && text.lines().count() < 30, "{text}");
    assert!(text.contains("no difference under 40.0 points (6 of 15 problems"), "{text}");
    if !cfg!(feature = "cuda") {
        assert!(
            text.contains("built without CUDA") && text.contains("here the run would be refused"),
            "{text}"
        );
    }
}

#[test]
fn a_response_is_text_for_a_person_and_json_for_a_program() {
    let dir = tempfile::tempdir().unwrap();
    train(dir.path(), &[SUMS]).output();
    let asked =
        ["generate", "--model", dir.path().to_str().unwrap(), "--prompt", "7 + 7\n", "--max-new-tokens", "4"];
    let piped = llm_train(&asked, "").json();
    let text = llm_train(&[&asked[..], &["--output", "text"]].concat(), "");
    assert_eq!(text.output().trim_end(), piped[0]["text"].as_str().unwrap().trim_end());
}
