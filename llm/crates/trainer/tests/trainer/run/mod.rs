mod adapter_base;
mod best;
mod digest;
mod events;
mod foreign;
mod identity;
mod progress;
mod stop;

use grpo_lambda_decoder::disk::{Disk, DiskError};
use grpo_lambda_decoder::rng::{Address, Purpose};
use grpo_lambda_trainer::config::Config;
use grpo_lambda_trainer::run::{
    CONFIG, DamagedCheckpoint, EVENTS, LogColumns, OpenedRun, RunDir, RunError, claim, latest, now,
};
use std::collections::BTreeMap;
use std::path::Path;

const STEPS: u64 = 7;
const EVERY: u64 = 2;
pub(crate) const COLUMNS: LogColumns<'_> =
    LogColumns { command: "toy", metrics: &["state", "loss"], timing: &["seconds"] };

pub(crate) fn config(overrides: &[&str]) -> Config {
    Config::resolve("tiny", overrides).expect("valid")
}

/// A trainer in miniature: each state is a hash of the one before, so a step done twice or left out shows.
pub(crate) fn train(path: &Path, disk: Disk, pause: impl Fn()) -> Result<(), RunError> {
    let OpenedRun { mut run, checkpoint, damaged } = RunDir::open_on(disk, path, &config(&[]), COLUMNS)?;
    assert_eq!(damaged, []);
    run.resume(0, None, true)?;
    let (mut step, mut state) = match &checkpoint {
        Some(c) => (c.step(), u64::from_le_bytes(c.read("state.bin")?.try_into().expect("8 bytes"))),
        None => (0, 1),
    };
    while step < STEPS {
        state = Address::new(state, Purpose::Demonstrations).bits(step);
        step += 1;
        pause();
        run.sample(&serde_json::json!({"step": step, "text": format!("{state:01000x}")}))?;
        run.record(
            "rl",
            step,
            &[("state", state as f64), ("loss", 1.0 / step as f64)],
            &[("seconds", now())],
        )?;
        if step.is_multiple_of(EVERY) || step == STEPS {
            run.save(step, None, |writer| {
                writer.file("state.bin", &state.to_le_bytes())?;
                writer.stream("streamed.bin", |to| {
                    [step, step + 1].iter().try_for_each(|n| to.write_all(&n.to_le_bytes())).map_err(
                        |source| {
                            let path = "streamed.bin".into();
                            RunError::Io(DiskError { action: "write", path, source })
                        },
                    )
                })?;
                pause();
                std::fs::write(writer.directory().join("note.txt"), format!("{step}\n")).expect("writing");
                writer.adopt("note.txt")
            })?;
        }
    }
    run.finish(&serde_json::json!({"state": state}))
}

/// Every file that must not depend on interruptions, by relative path.
pub(crate) fn files(root: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut open = vec![root.to_owned()];
    while let Some(directory) = open.pop() {
        for entry in std::fs::read_dir(directory).expect("readable") {
            let path = entry.expect("an entry").path();
            let name = path.strip_prefix(root).expect("inside").to_string_lossy().into_owned();
            if path.is_dir() {
                open.push(path);
            } else if !(name == claim::LOCK
                || name == claim::ID
                || name.starts_with("timing")
                || name == EVENTS)
            {
                let mut bytes = std::fs::read(path).expect("readable");
                if name.ends_with(MANIFEST) {
                    // Timing and events have clock readings in them, so their lengths vary; the number of the run is random.
                    let mut json: serde_json::Value = serde_json::from_slice(&bytes).expect("JSON");
                    json = json["content"].take();
                    json["run"].take();
                    json["logs"]
                        .as_object_mut()
                        .expect("lengths")
                        .retain(|k, _| k.starts_with("metrics") || k.starts_with("samples"));
                    bytes = json.to_string().into_bytes();
                }
                found.insert(name, bytes);
            }
        }
    }
    found
}

const MANIFEST: &str = "manifest.json";

pub(crate) fn unbroken() -> BTreeMap<String, Vec<u8>> {
    let dir = tempfile::tempdir().expect("a temporary directory");
    train(dir.path(), Disk::crashing_after(i64::MAX), || ()).expect("nothing fails");
    files(dir.path())
}

fn rows(path: &Path) -> Vec<String> {
    let text = std::fs::read_to_string(path).expect("readable");
    text.lines().map(|l| l.split(',').next().expect("a field").to_owned()).collect()
}

#[test]
fn an_unbroken_run_leaves_what_the_page_promises() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    train(dir.path(), Disk::default(), || ()).expect("nothing fails");
    let names: Vec<String> = files(dir.path()).into_keys().collect();
    let mut expected = vec!["config.toml".to_owned(), "metrics.csv".to_owned(), "metrics.jsonl".to_owned()];
    expected.extend(["samples.jsonl".to_owned(), "summary.json".to_owned()]);
    for step in [6, 7] {
        for file in ["manifest.json", "note.txt", "state.bin", "streamed.bin"] {
            expected.push(format!("checkpoints/step-{step:08}/{file}"));
        }
    }
    expected.sort();
    assert_eq!(names, expected);
    let csv = std::fs::read_to_string(dir.path().join("metrics.csv")).expect("readable");
    assert!(csv.starts_with("# toy\nstep,stage,state,loss\n1,rl,"), "{csv}");
    let table = grpo_lambda_stats::table::Table::from_csv(&csv).expect("a table");
    assert_eq!((table.rows.len(), table.rows[2][3].number()), (7, Some(1.0 / 3.0)));
    assert_eq!(Config::read(&dir.path().join(CONFIG)).expect("its own"), config(&[]));
    assert_eq!(latest(dir.path()).expect("readable").expect("one").step(), STEPS);
}

#[test]
fn a_crash_at_any_operation_leaves_a_run_that_continues_as_if_unbroken() {
    let expected = unbroken();
    let mut crashes = 0;
    for operations in 0.. {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let crashed = train(dir.path(), Disk::crashing_after(operations), || ());
        if let Err(error) = &crashed {
            let (error, place) = (error.to_string(), dir.path().display().to_string());
            assert!(error.starts_with("cannot ") && error.contains(&place), "{error}");
        }
        // Once more during the continuation, somewhere else each time.
        let again = Disk::crashing_after(1 + (operations * 7) % 41);
        drop(train(dir.path(), again, || ()));
        train(dir.path(), Disk::crashing_after(i64::MAX), || ())
            .unwrap_or_else(|e| panic!("after {operations}: {e}"));
        assert!(files(dir.path()) == expected, "after a crash at operation {operations}");
        let timing = rows(&dir.path().join("timing.csv"));
        assert_eq!(timing, ["# toy", "step", "1", "2", "3", "4", "5", "6", "7"], "crash at {operations}");
        if crashed.is_ok() {
            break;
        }
        crashes += 1;
    }
    assert!(crashes > 100, "only {crashes} places to crash");
}

#[test]
fn a_second_process_is_refused() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let first = RunDir::open(dir.path(), &config(&[]), COLUMNS).expect("free");
    let message = RunDir::open(dir.path(), &config(&[]), COLUMNS).expect_err("held").to_string();
    assert!(message.contains(&format!("is in use by process {}", std::process::id())), "{message}");
    drop(first);
    RunDir::open(dir.path(), &config(&[]), COLUMNS).expect("free again");
}

#[test]
fn other_settings_are_refused_with_the_difference_and_harmless_ones_are_not() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    drop(RunDir::open(dir.path(), &config(&["rl.lr=0.0002"]), COLUMNS).expect("fresh"));
    let changed = config(&["rl.lr=0.5", "method.lambda=0.25", "threads=1"]);
    let message = RunDir::open(dir.path(), &changed, COLUMNS).expect_err("changed").to_string();
    assert!(message.contains("  rl.lr: 0.0002 -> 0.5") && message.contains("  method.lambda: "), "{message}");
    assert!(!message.contains("threads"), "{message}");
    RunDir::open(dir.path(), &config(&["rl.lr=0.0002", "threads=1", "checkpoint.keep=9"]), COLUMNS)
        .expect("the same run");
}

#[test]
fn damage_is_named_and_a_damaged_checkpoint_passed_over() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    train(dir.path(), Disk::default(), || ()).expect("nothing fails");
    let last = dir.path().join("checkpoints/step-00000007");
    // The same size, other contents: found when it is read.
    std::fs::write(last.join("state.bin"), [0; 8]).expect("writing");
    let message = latest(dir.path()).expect("listed").expect("one").read("state.bin").expect_err("changed");
    assert!(message.to_string().contains("state.bin: its size or checksum"), "{message}");
    // Cut short: not complete, so the one before is the latest.
    std::fs::write(last.join("state.bin"), [0; 3]).expect("writing");
    let opened = RunDir::open(dir.path(), &config(&[]), COLUMNS).expect("the one before");
    assert_eq!(opened.checkpoint.expect("step 6").step(), 6);
    let problem = "state.bin: 3 bytes long, not 8".to_owned();
    assert_eq!(opened.damaged, [DamagedCheckpoint { path: last, problem }]);
    drop(opened.run);
    // A log shorter than the checkpoint says.
    std::fs::write(dir.path().join("metrics.jsonl"), "").expect("writing");
    let message = RunDir::open(dir.path(), &config(&[]), COLUMNS).expect_err("cut").to_string();
    assert!(message.contains("metrics.jsonl: 0 bytes long"), "{message}");
}

#[test]
#[should_panic(expected = "`lost` is not a column")]
fn a_metric_without_a_column_is_a_bug() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let mut run = RunDir::open(dir.path(), &config(&[]), COLUMNS).expect("fresh").run;
    drop(run.record("rl", 1, &[("lost", 1.0)], &[]));
}
