//! `llm-train compare` and `llm-train plot` as a user starts them.

use crate::common::{Done, Place, killed_until_done, llm_train, words};
use crate::long;
use std::path::Path;
use std::time::Duration;

/// A comparison small enough for every test.
const SMALL: &str = "task.kind=addition model.hidden=32 model.layers=2 model.heads=2 model.kv_heads=1 model.intermediate=64 \
                     threads=2 sft.steps=30 rl.steps=6 rl.prompts_per_step=4 rl.group_size=4 eval.n=20 eval.every=2 \
                     checkpoint.every=2";
const METHODS: &str = "grpo,grpo_lambda:style=both,lambda=0.9";

/// `compare` of these methods in a folder, with further words.
fn line(directory: &Path, methods: &str, extra: &str) -> String {
    format!("compare --seeds 2 --methods {methods} --run {} {SMALL} {extra}", directory.display())
}

fn compare(directory: &Path, methods: &str, extra: &str) -> Done {
    llm_train(&words(&line(directory, methods, extra)), "")
}

/// A result without the line that names the command and so the directory.
fn result(directory: &Path, name: &str) -> String {
    let text = std::fs::read_to_string(directory.join(name)).unwrap();
    text.lines().filter(|line| !line.starts_with('#')).collect::<Vec<_>>().join("\n")
}

#[test]
fn a_comparison_killed_again_and_again_ends_in_the_bytes_of_an_unbroken_one() {
    let place = Place::new();
    let (whole, broken) = (place.at("whole"), place.at("broken"));
    compare(&whole, METHODS, "").says("grpo_lambda:lambda=0.9,style=both against grpo: … compare.csv");

    let start = || place.command(&line(&broken, METHODS, ""));
    let kills = killed_until_done(start, Duration::from_millis(long::of(200, 60)), |_| ());
    assert!(kills >= 3, "only {kills} kills: the comparison is too short to be interrupted");
    for name in ["compare.csv", "compare.json"] {
        assert!(result(&whole, name) == result(&broken, name), "{name} differs after {kills} kills");
    }
    for name in ["figures/compare.png", "figures/compare.svg"] {
        assert!(std::fs::metadata(broken.join(name)).unwrap().len() > 1000, "{name}");
    }

    // What is done is not done again: no run is started, and the result stays.
    let before = result(&broken, "compare.csv");
    let again = compare(&broken, METHODS, "");
    again.output();
    assert!(!again.stderr.contains("so far") && !again.stderr.contains("parameters"), "{}", again.stderr);
    assert_eq!(result(&broken, "compare.csv"), before);

    // Another command on the same directory is refused, with what differs.
    compare(&broken, "grpo,rloo", "").refused(2, "methods: [");
    compare(&broken, METHODS, "rl.lr=0.5").refused(2, "rl.lr: ");
}

#[test]
fn all_methods_of_a_seed_start_from_one_supervised_checkpoint() {
    let place = Place::new();
    compare(&place.at(""), "grpo,rloo", "").output();
    let json = place.json("compare.json");
    let before = |method: usize| json["methods"][method]["accuracy_before_by_seed"].clone();
    assert_eq!(before(0), before(1));
    for seed in [0, 1] {
        let supervised = place.json(&format!("supervised/seed-{seed}/summary.json"));
        assert_eq!(
            supervised["accuracy_after"],
            before(0)[seed],
            "the start is the end of the supervised stage"
        );
        for method in ["grpo", "rloo"] {
            let metrics = place.read(&format!("{method}/seed-{seed}/metrics.csv"));
            let stages = metrics.lines().skip(2).map(|l| l.split(',').nth(1).unwrap());
            let steps: Vec<&str> = stages.filter(|stage| *stage != "eval").collect();
            assert_eq!(steps, ["rl"; 6], "no supervised step of its own");
        }
    }
    // Both a whole member and a supervised stage can be drawn.
    for (run, evidence) in [("grpo/seed-0", true), ("supervised/seed-1", false)] {
        place.run(&format!("plot {run}")).output();
        for (name, there) in [
            ("learning.png", true),
            ("learning.svg", true),
            ("evidence.png", evidence),
            ("evidence.svg", evidence),
        ] {
            assert_eq!(place.at(run).join("figures").join(name).is_file(), there, "{name}");
        }
    }
    // A member that someone changed is not taken for a result.
    place.write("rloo/seed-1/summary.json", "{}");
    compare(&place.at(""), "grpo,rloo", "").refused(2, "not the summary of a run");
}

#[test]
fn a_wrong_command_is_refused_in_a_line_and_leaves_nothing() {
    let place = Place::with_model();
    std::fs::create_dir(place.at("held")).unwrap();
    place.write("held/thesis.tex", "x");
    let line = "eval --model model --out a --benchmarks tiny:addition --limit 2 --max-new-tokens 2";
    place.run(line).output();
    place.refuses(include_str!("refused/compare.txt"));
}

#[test]
fn what_is_no_run_is_not_drawn_and_said_in_a_line() {
    let place = Place::new();
    place.run("plot absent").refused(2, "no such directory");
    let refused = |expected: &str| place.run("plot .").refused(2, expected);
    refused("is not a run directory");
    place.write("config.toml", "seed = \"x\"");
    refused("seed = x");
    place.write("config.toml", "seed = 1");
    refused("metrics.csv");
    for (text, expected) in [
        ("\u{0}\u{1}garbage", "no column `step`"),
        ("# c\nstep,stage,loss\n0,rl,much\n", "row 1: loss = \"much\": must be a number"),
        ("# c\nstep,stage,loss\n", "no step is recorded yet"),
    ] {
        place.write("metrics.csv", text);
        refused(expected);
    }
    assert!(!place.at("figures").exists());
    // Of a run under way there is something to draw.
    place.write("metrics.csv", "# c\nstep,stage,loss\n0,sft,2.5\n1,sft,2");
    place.run("plot .").says("Supervised learning under way, 1 of");
    assert!(place.at("figures/learning.svg").is_file());
}
