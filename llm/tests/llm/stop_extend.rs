//! Runs that end early or go on after their end: signals, early stopping, the best checkpoint, more steps.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use grpo_lambda_decoder::disk::Disk;
use grpo_lambda_trainer::run;
use serde_json::Value;

use crate::common::{Done, Place, TINY_MODEL, assert_has, finished, llm_train, rows, words};

const SETTINGS: &str = "task.kind=addition sft.steps=20 rl.steps=14 rl.prompts_per_step=8 rl.group_size=8 eval.n=20 eval.every=4 \
                        checkpoint.every=50 checkpoint.keep=9";

fn train(run: &Path, settings: &str) -> Done {
    crate::common::train(run, &[&words(settings)])
}

fn spawn(run: &Path) -> Child {
    let mut command = Command::new(env!("CARGO_BIN_EXE_llm-train-tested"));
    command.args(["train", "--run", run.to_str().unwrap()]).args(TINY_MODEL).args(words(SETTINGS));
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

/// Sends a signal once the run has logged so many rows of a stage.
fn signal_after(child: &Child, run: &Path, stage: &str, rows: usize, signal: &str) {
    let begun = Instant::now();
    let logged = || {
        let text = std::fs::read_to_string(run.join("metrics.jsonl")).unwrap_or_default();
        text.lines().filter(|line| line.contains(&format!("\"stage\":\"{stage}\""))).count()
    };
    while logged() < rows {
        assert!(begun.elapsed() < Duration::from_secs(900), "no {rows} rows of {stage}");
        std::thread::sleep(Duration::from_millis(10));
    }
    let sent = Command::new("kill").args([signal, &child.id().to_string()]).status().unwrap();
    assert!(sent.success());
}

/// The weights and the log of a finished run.
fn result(run: &Path) -> (Vec<u8>, String) {
    let last = run::latest(run).unwrap().expect("a checkpoint");
    let metrics = std::fs::read_to_string(run.join("metrics.jsonl")).unwrap();
    (last.read("model.safetensors").unwrap(), metrics)
}

#[test]
fn a_signal_ends_a_run_with_a_checkpoint_a_line_and_its_code_and_the_run_goes_on_to_the_same_bytes() {
    let dir = tempfile::tempdir().unwrap();
    let (whole, broken) = (dir.path().join("whole"), dir.path().join("broken"));
    train(&whole, SETTINGS).output();
    let cases = [
        ("sft", 3, "-INT", 130, "SIGINT"),
        ("rl", 2, "-TERM", 143, "SIGTERM"),
        ("rl", 6, "-HUP", 129, "SIGHUP"),
    ];
    for (stage, rows, signal, code, name) in cases {
        let child = spawn(&broken);
        signal_after(&child, &broken, stage, rows, signal);
        let done = finished(child);
        assert_eq!(done.code, Some(code), "{}", done.stderr);
        let line = done.stderr.lines().last().unwrap();
        assert!(line.starts_with(&format!("llm-train: stopped by {name} after step ")), "{}", done.stderr);
        assert_has(line, "rerun the same command to resume");
        assert!(!done.stderr.contains("error:"), "{line}");
        let saved = run::latest(&broken).unwrap().expect("a checkpoint");
        assert!(line.contains(&format!("after step {}", saved.step())), "{line}: {}", saved.step());
        assert!(!broken.join("summary.json").exists());
        let drawn = llm_train(&["plot", broken.to_str().unwrap()], "");
        let in_rl = !drawn.output().starts_with("Supervised learning");
        assert_eq!(in_rl, stage == "rl", "a run in RL is not called supervised: {}", drawn.stdout);
    }
    train(&broken, SETTINGS).output();
    assert!(result(&whole) == result(&broken), "another end than that of an unbroken run");
}

#[test]
fn a_second_signal_ends_a_run_at_once() {
    let dir = tempfile::tempdir().unwrap();
    let child = spawn(dir.path());
    signal_after(&child, dir.path(), "rl", 1, "-INT");
    // Whether the second finds the run still at work is chance; either way it ends with the signal's code.
    drop(Command::new("kill").args(["-INT", &child.id().to_string()]).status());
    assert_eq!(finished(child).code, Some(130));
}

#[test]
fn a_run_that_is_extended_ends_in_the_weights_of_one_that_was_as_long_from_the_start() {
    let place = Place::new();
    let (long, grown) = (place.at("long"), place.at("grown"));
    train(&long, SETTINGS).output();
    let other = |change: &str| SETTINGS.replace("rl.steps=14", change);
    train(&grown, &other("rl.steps=6")).output();
    let first = place.read("grown/summary.json");
    train(&grown, SETTINGS).refused(2, "holds a run with other settings … --run DIR … rl.steps: 6 -> 14");
    train(&grown, &other("--extend rl.steps=2"))
        .refused(2, "--extend: … rl.steps = 2: the run has 6; it can only become larger");
    train(&grown, &other("--extend rl.steps=14")).output();
    assert!(result(&long).0 == result(&grown).0, "other weights than those of the longer run");
    assert_eq!(place.read("grown/summary-26.json"), first, "the summary of the shorter run is kept");
    // Other settings are not extended, and what is refused changes nothing.
    let kept = ["grown/config.toml", "grown/summary.json"].map(|file| place.read(file));
    train(&grown, &other("rl.steps=20 rl.lr=0.5 --extend"))
        .refused(2, "holds a run with other settings … rl.lr: ");
    assert_eq!(["grown/config.toml", "grown/summary.json"].map(|file| place.read(file)), kept);
    let none = place.at("none");
    train(&none, &other("--extend rl.steps=14")).refused(2, "holds no run; leave --extend out");
    assert!(!none.exists());
}

#[test]
fn an_extension_that_is_refused_after_its_settings_were_read_leaves_the_run_as_it_was() {
    let place = Place::new();
    let (run, program) = (place.at("run"), place.at("reward.sh"));
    let command = format!("reward.command=sh {}", program.display());
    let settings =
        "task.kind=addition sft.steps=1 rl.prompts_per_step=2 rl.group_size=2 eval.n=2 reward.accuracy=0";
    let with = |more: &str| crate::common::train(&run, &[&words(settings), &[&command], &words(more)]);
    let ones = || place.write("reward.sh", "while read -r line; do echo 1; done");
    let kept = || ["config.toml", "summary.json"].map(|file| place.read(&format!("run/{file}")));
    ones();
    with("rl.steps=1").output();
    let before = kept();
    std::fs::remove_file(&program).unwrap();
    with("rl.steps=3 --extend").refused(2, "reward.command");
    let (checkpoints, aside) = (run.join("checkpoints"), place.at("aside"));
    std::fs::rename(&checkpoints, &aside).unwrap();
    with("rl.steps=3 --extend").refused(2, "of which none is left");
    std::fs::rename(&aside, &checkpoints).unwrap();
    assert_eq!(kept(), before);
    with("rl.steps=1").tells("already finished");
    ones();
    with("rl.steps=3 --extend").tells("continuing from step 2");
}

#[test]
fn a_run_whose_rates_depend_on_its_length_is_not_extended() {
    let dir = tempfile::tempdir().unwrap();
    let with = |steps: &str| {
        let fixed = "task.kind=addition rl.schedule=cosine rl.prompts_per_step=2 eval.n=2";
        train(dir.path(), &format!("{fixed} {steps}"))
    };
    with("sft.steps=0 rl.steps=2").output();
    let config = std::fs::read(dir.path().join("config.toml")).unwrap();
    with("sft.steps=0 rl.steps=3 --extend").refused(2, "rl.schedule = cosine … rl.schedule=constant");
    with("sft.steps=1 rl.steps=2 --extend")
        .refused(2, "sft.steps = 1: the run has 0, and RL has begun from there; repeat the whole command");
    assert_eq!(std::fs::read(dir.path().join("config.toml")).unwrap(), config);
    assert!(dir.path().join("summary.json").exists());
}

/// Rows of evaluations: before, during and after RL.
fn evaluations(run: &Path) -> Vec<(u64, f64)> {
    let row = |row: Value| (row["step"].as_u64().unwrap(), row["eval_accuracy"].as_f64().unwrap());
    rows(run, "eval").into_iter().map(row).collect()
}

#[test]
fn every_evaluation_has_its_row_and_its_scalars_and_looking_again_changes_nothing() {
    let place = Place::new();
    let run = place.at("run");
    train(&run, SETTINGS).output();
    let found = evaluations(&run);
    assert_eq!(found.iter().map(|(step, _)| *step).collect::<Vec<_>>(), [0, 4, 8, 12, 14]);
    let summary = place.json("run/summary.json");
    assert_eq!(summary["accuracy_before"].as_f64(), Some(found[0].1));
    assert_eq!(summary["accuracy_after"].as_f64(), Some(found[4].1));
    let events = std::fs::read(run.join("events.out.tfevents.1.grpo-lambda")).unwrap();
    let count = events.windows(13).filter(|w| *w == b"eval/accuracy").count();
    assert_eq!(count, 5);
    let before = result(&run);
    train(&run, SETTINGS).output();
    assert!(before == result(&run));
    for sample in place.lines::<Value>("run/samples.jsonl") {
        assert!(sample["gold"].as_str().is_some_and(|gold| gold.parse::<i64>().is_ok()), "{sample}");
        assert!(sample.get("answer").is_some() && sample.get("accuracy").is_some(), "{sample}");
    }
}

/// At such a rate no answer changes, so that every evaluation is one without a better one: those after steps 2, 4 and 6.
#[test]
fn patience_counts_the_evaluation_at_the_end_that_an_extended_run_had() {
    let place = Place::new();
    let settings = "task.kind=addition sft.steps=2 rl.prompts_per_step=2 rl.group_size=2 rl.lr=1e-9 eval.n=20 eval.every=2 eval.patience=3";
    let run = place.at("run");
    train(&run, &format!("{settings} rl.steps=4")).output();
    let grown = train(&run, &format!("{settings} rl.steps=40 --extend"));
    grown.tells("stopped early after RL step 6: 3 evaluations in a row");
    assert_eq!(evaluations(&run).iter().map(|(step, _)| *step).collect::<Vec<_>>(), [0, 2, 4, 6]);
    // With less patience the former end is the end, and stays it.
    let short = place.at("short");
    let hasty = settings.replace("eval.patience=3", "eval.patience=2");
    train(&short, &format!("{hasty} rl.steps=4")).output();
    train(&short, &format!("{hasty} rl.steps=40 --extend")).tells("stopped early after RL step 4");
    train(&short, &format!("{hasty} rl.steps=40")).tells("already finished");
}

/// The former end is the best evaluation, after which patience begins again.
#[test]
fn an_extended_run_that_was_best_at_its_former_end_stops_where_the_longer_run_does() {
    let place = Place::new();
    let settings = "task.kind=addition sft.steps=120 sft.lr=5e-3 rl.prompts_per_step=8 rl.group_size=8 rl.max_new_tokens=12 rl.lr=1e-3 \
                    eval.n=40 eval.every=2 eval.patience=1 checkpoint.best=true";
    let (long, grown) = (place.at("long"), place.at("grown"));
    train(&long, &format!("{settings} rl.steps=12")).output();
    train(&grown, &format!("{settings} rl.steps=2")).output();
    assert_eq!(place.json("grown/summary.json")["best"]["step"].as_u64(), Some(122));
    train(&grown, &format!("{settings} rl.steps=12 --extend")).output();
    assert_eq!(evaluations(&grown), evaluations(&long));
    assert!(evaluations(&long).len() == 3 && result(&grown).0 == result(&long).0);
}

#[test]
fn patience_ends_a_run_and_the_best_checkpoint_stays() {
    let place = Place::new();
    let run = place.at("run");
    let settings = "task.kind=addition sft.steps=30 rl.steps=40 rl.prompts_per_step=2 rl.group_size=2 rl.lr=1e-9 eval.n=20 eval.every=2 \
                    eval.patience=3 checkpoint.best=true checkpoint.every=1 checkpoint.keep=1";
    let done = train(&run, settings);
    done.output();
    // At such a rate no answer changes: three evaluations without a better one are those after steps 2, 4 and 6.
    done.tells("stopped early after RL step 6: 3 evaluations in a row");
    let summary = place.json("run/summary.json");
    assert_eq!((summary["steps"][1].as_u64(), summary["stopped_early"].as_bool()), (Some(6), Some(true)));
    assert_eq!(summary["best"]["step"].as_u64(), Some(30));
    let names = Disk::default().list(&run.join("checkpoints")).unwrap();
    assert_eq!(names, ["step-00000030", "step-00000036"], "the best one and the last");
    let eval = || place.run("eval --model run/best --limit 2 --max-new-tokens 4 --output json");
    eval().output();
    let toml = place.read("run/eval-best/eval.toml");
    assert!(toml.contains("checkpoints/step-00000030"), "{toml}");
    let best = place.read("run/best.json");
    std::fs::remove_file(run.join("best.json")).unwrap();
    eval().refused(2, "keeps no best checkpoint; train it with checkpoint.best=true");
    let again = train(&run, settings);
    again.tells("already finished");
    assert_eq!(place.read("run/best.json"), best, "as the state of the checkpoint has it");
    // The last evaluation is that of the last step that was made, and is compared with the first in pairs.
    place.run("plot run").says("held-out accuracy, step 6 (95 %)");
    assert!(place.read("run/report.html").contains("no difference shown on 20 problems"));
    // Nothing is drawn through a link, and a run without its checkpoints is not begun again over its logs.
    let elsewhere = tempfile::tempdir().unwrap();
    std::fs::remove_dir_all(run.join("figures")).unwrap();
    std::os::unix::fs::symlink(elsewhere.path(), run.join("figures")).unwrap();
    place.run("plot run").refused(2, "figures is a symbolic link");
    assert_eq!(std::fs::read_dir(elsewhere.path()).unwrap().count(), 0);
    let log = place.read("run/metrics.jsonl");
    std::fs::rename(run.join("checkpoints"), elsewhere.path().join("checkpoints")).unwrap();
    train(&run, settings).refused(2, "summary.json: written by a run that had checkpoints");
    assert_eq!(place.read("run/metrics.jsonl"), log);
}
