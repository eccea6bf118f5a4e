//! A run for a person: its start against its end, its report, and figures of several runs.

use serde_json::Value;

use crate::common::{Done, Place, assert_has, words};

const SUMS: &str = "task.kind=addition sft.steps=20 sft.batch=16 rl.steps=2 rl.prompts_per_step=4 rl.group_size=4 \
                    rl.max_new_tokens=6 eval.n=40 eval.every=1";

fn train(place: &Place, run: &str, settings: &str) -> Done {
    crate::common::train(&place.at(run), &[&words(settings)])
}

#[test]
fn a_run_is_compared_with_its_start_on_the_problems_that_training_measured() {
    let place = Place::new();
    let done = train(&place, "a", SUMS);
    done.says(&format!("llm-train compare {}", place.text("a")));
    let out = place.run("compare a --output json");
    let pair: Value = serde_json::from_str(out.output()).unwrap();
    let summary = place.json("a/summary.json");
    let [before, after] = ["accuracy_before", "accuracy_after"].map(|key| summary[key].as_f64().unwrap());
    let found = pair["benchmarks"][0]["difference"]["value"].as_f64().unwrap();
    assert!((found - (after - before)).abs() < 1e-12, "{found}: {pair}");
    let said = "(before RL) … (after RL step 2) … After RL step 2 against before RL: … held-out problems";
    place.run("compare a").says(said);

    let page = place.read("a/report.html");
    let parts = "Before and after … After RL step 2 against before RL … <svg … the grader … rl.steps … \
                 Every problem, in order … every setting";
    assert_has(&page, parts);
    assert!(!page.contains("src=\"http") && !page.contains("href=\"http"), "the page is self-contained");

    // The title says what the pairs say: 7 of 40 problems won and none lost is a difference, though the two intervals overlap.
    let files = ["a/held_out_start.jsonl", "a/held_out_latest.jsonl"];
    let kept = files.map(|name| std::fs::read(place.at(name)).unwrap());
    let rewrite = |name: &str, right: usize| {
        let text = place.read(name);
        let line = |(number, line): (usize, &str)| {
            let mut line: Value = serde_json::from_str(line).unwrap();
            line["completion"]["verdict"] = if number < right { "right" } else { "wrong" }.into();
            line.as_object_mut().unwrap().remove("crc32c");
            format!("{line}\n")
        };
        place.write(name, text.lines().enumerate().map(line).collect::<String>());
    };
    for (right, shown) in [([10, 17], true), ([10, 12], false)] {
        files.iter().zip(right).for_each(|(name, right)| rewrite(name, right));
        let done = place.run("plot a");
        assert_eq!(!done.output().contains("no difference shown on 40 problems"), shown, "{}", done.stdout);
    }
    files.iter().zip(kept).for_each(|(name, bytes)| drop(place.write(name, bytes)));

    // A record that was changed is refused by its line, and one that is not there with the way to measure it.
    let file = place.at("a/held_out_latest.jsonl");
    let lines = std::fs::read_to_string(&file).unwrap();
    std::fs::write(&file, lines.replacen("\"tokens\":", "\"tokens\": ", 1)).unwrap();
    let refused = |problem: &str| {
        train(&place, "a", SUMS).refused(2, problem);
        place.run("compare a").refused(2, problem);
        place.run("plot a").refused(2, problem);
    };
    refused("held_out_latest.jsonl:1: its checksum is not that of the line");
    for kept in [0, lines.find('\n').unwrap() + 1, lines.len() - 1] {
        std::fs::write(&file, &lines[..kept]).unwrap();
        refused("held_out_latest.jsonl: cut short after ");
    }
    std::fs::remove_file(&file).unwrap();
    place.run("compare a").refused(2, "held_out_latest.jsonl: no such file … :held-out");
    place.run("plot a").output();
    assert!(!place.read("a/report.html").contains("Before and after"));

    train(&place, "b", &format!("{SUMS} seed=1")).output();
    place.run("plot a b --out both").says("overlay.png");
    assert_has(&place.read("both/overlay.svg"), "Held-out accurac");
}

#[test]
fn a_run_with_a_critic_logs_what_it_learns_and_draws_it() {
    let place = Place::new();
    // A reward by chance, so that there are returns to explain.
    let settings = format!("{SUMS} rl.steps=3 method.name=ppo critic.updates=2 reward.coin=1").replacen(
        "rl.steps=2 ",
        "",
        1,
    );
    train(&place, "a", &settings).output();
    let rows: Vec<Value> =
        place.read("a/metrics.jsonl").lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let rl = rows.iter().filter(|row| row["stage"] == "rl");
    let number =
        |row: &Value, column: &str| row[column].as_f64().unwrap_or_else(|| panic!("{column}: {row}"));
    for (step, row) in rl.clone().enumerate() {
        assert!(number(row, "value_loss") > 0.0 && number(row, "critic_grad_norm") > 0.0, "{row}");
        // The values are 0 before the critic has learned.
        assert!(step > 0 || number(row, "explained_variance") == 0.0, "{row}");
    }
    assert_eq!(rl.count(), 3);
    assert!(rows.iter().all(|row| row["stage"] == "rl" || row["value_loss"].is_null()));
    assert_has(&place.read("a/report.html"), "Loss of the critic … Explained by the critic");
    place.run(&format!("train --dry-run {settings}")).says("critic … packed … of the optimiser)");
    train(&place, "b", SUMS).output();
    assert!(
        !place.read("b/report.html").contains("critic,")
            && !place.read("b/metrics.csv").contains("value_loss")
    );
}

#[test]
fn more_steps_for_a_finished_run_name_the_option_that_gives_them() {
    let place = Place::new();
    train(&place, "run", SUMS).output();
    let more = SUMS.replace("rl.steps=2", "rl.steps=3");
    train(&place, "run", &more).refused(2, "rl.steps … --extend");
    let planned = |words: &str| train(&place, "run", &format!("{words} --dry-run"));
    planned(&more).refused(2, "rl.steps … --extend");
    for words in [SUMS, &format!("{more} --extend")] {
        planned(words).says("Nothing was run. The run in … run would be continued.");
    }
}

#[test]
fn a_dry_run_prints_what_differs_and_what_its_problems_can_show() {
    let place = Place::new();
    let done = place.run("train --dry-run --run run rl.steps=7 eval.n=15 device=cuda");
    done.says("rl.steps = 7 (preset: … no difference under 40.0 points (6 of 15 problems");
    // The objective and the items of memory come after what fits a screen.
    let objective = done.stdout.lines().position(|line| line.contains("minimise")).unwrap();
    assert!(!done.stdout.contains("[rl]") && objective < 30, "{}", done.stdout);
    if !cfg!(feature = "cuda") {
        done.says("built without CUDA … here the run would be refused");
    }
    place.run("train --dry-run eval.every=0").says("held-out problems, before and after; ");
    place.write("file", "");
    std::fs::create_dir(place.at("notes")).unwrap();
    place.write("notes/file", "");
    std::os::unix::fs::symlink("nowhere", place.at("link")).unwrap();
    for run in ["train", "train --dry-run", "train --dry-run --extend"] {
        for path in ["file", "link"] {
            place
                .run(&format!("{run} --run {path}"))
                .refused(2, "is not a directory; choose another path with --run");
        }
        let expected = if run.contains("extend") { "holds no run" } else { "is not a run directory" };
        place.run(&format!("{run} --run notes")).refused(2, expected);
    }
}

#[test]
fn a_response_is_text_for_a_person_and_json_for_a_program() {
    let place = Place::new();
    train(&place, "run", SUMS).output();
    let asked = ["--prompt", "7 + 7\n"];
    let generate =
        |line: &str| place.run_with(&format!("generate --model run --max-new-tokens 4 {line}"), &asked, "");
    let (piped, text) = (generate("").json(), generate("--output text"));
    assert_eq!(text.output().trim_end(), piped[0]["text"].as_str().unwrap().trim_end());
}
