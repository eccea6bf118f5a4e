//! Checkpoints of other runs, concurrent readers of a run, and manifests, logs and marks that were changed: refused or passed over, never followed.

use crate::run::foreign::save;
use crate::run::{COLUMNS, config, files, train, unbroken};
use grpo_lambda_decoder::disk::Disk;
use grpo_lambda_trainer::run::checkpoint::MANIFEST;
use grpo_lambda_trainer::run::vouched::is_done;
use grpo_lambda_trainer::run::{
    Best, Checkpoint, CheckpointWriter, EVENTS, RunDir, RunError, claim, hold_best, hold_directory,
    hold_latest, latest, read_log,
};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// A finished run of seven steps in `dir/name`.
fn run(dir: &tempfile::TempDir, name: &str) -> PathBuf {
    let path = dir.path().join(name);
    train(&path, Disk::crashing_after(i64::MAX), || ()).expect("nothing fails");
    path
}

/// A finished run in a directory that lives as long as the test.
fn finished() -> (tempfile::TempDir, PathBuf) {
    let dir = tempfile::tempdir().expect("a directory");
    let path = run(&dir, "run");
    (dir, path)
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("writable");
    for entry in fs::read_dir(from).expect("readable") {
        let path = entry.expect("an entry").path();
        fs::copy(&path, to.join(path.file_name().expect("a name"))).expect("writable");
    }
}

#[track_caller]
fn refused(path: &Path, expected: &[&str]) {
    let message = RunDir::open(path, &config(&[]), COLUMNS).expect_err("must be refused").to_string();
    for part in expected {
        assert!(message.contains(part), "{part}: {message}");
    }
    assert!(!message.contains('\n'), "{message}");
}

#[test]
fn a_checkpoint_of_another_run_is_refused_even_with_the_same_settings() {
    let dir = tempfile::tempdir().expect("a directory");
    let (ours, theirs) = (run(&dir, "ours"), run(&dir, "theirs"));
    let [own, other] = [&ours, &theirs].map(|run| {
        let id = claim::read_id(&Disk::default(), run).expect("readable").expect("written");
        let checkpoint = latest(run).expect("listed").expect("one");
        assert_eq!(*checkpoint.run(), id);
        id.to_string()
    });
    assert_ne!(own, other);
    for step in ["step-00000007", "step-00000009"] {
        let (from, to) = (theirs.join("checkpoints/step-00000007"), ours.join("checkpoints").join(step));
        let kept = dir.path().join("kept");
        drop(fs::rename(&to, &kept));
        copy(&from, &to);
        if step.ends_with('9') {
            // As someone who renames it would have to: a name alone is not believed.
            assert!(latest(&ours).is_ok_and(|found| found.is_some_and(|c| c.step() == 7)));
        } else {
            let before = files(&ours);
            refused(&ours, &["step-00000007: a checkpoint of another run (", &own, &other]);
            let message = latest(&ours).expect_err("foreign").to_string();
            assert!(message.contains("another run"), "{message}");
            assert!(files(&ours) == before, "nothing is changed");
        }
        fs::remove_dir_all(&to).expect("writable");
        drop(fs::rename(&kept, &to));
    }
    RunDir::open(&ours, &config(&[]), COLUMNS).expect("its own again");
}

#[test]
fn a_checkpoint_of_another_run_that_is_in_the_way_is_put_aside() {
    let dir = tempfile::tempdir().expect("a directory");
    let (ours, theirs) = (dir.path().join("ours"), run(&dir, "theirs"));
    let mut open = RunDir::open(&ours, &config(&[]), COLUMNS).expect("fresh").run;
    let place = ours.join("checkpoints/step-00000007");
    copy(&theirs.join("checkpoints/step-00000007"), &place);
    open.save::<RunError>(7, None, |writer| writer.file("state.bin", b"ours")).expect("published");
    assert_eq!(fs::read(place.join("state.bin")).expect("readable"), b"ours");
    assert!(ours.join("checkpoints/aside-step-00000007/state.bin").is_file());
}

#[test]
fn a_lost_number_is_asked_for_where_there_are_checkpoints_and_drawn_where_there_are_none() {
    let (dir, path) = finished();
    let id = fs::read_to_string(path.join(claim::ID)).expect("readable");
    fs::remove_file(path.join(claim::ID)).expect("writable");
    refused(&path, &["run/id: missing", "step-00000007 says is", id.trim()]);
    for wrong in ["", "0123456789abcdeg", "0123"] {
        fs::write(path.join(claim::ID), wrong).expect("writable");
        refused(&path, &["run/id: must be the number of this run in 16 hexadecimal digits"]);
    }
    fs::write(path.join(claim::ID), &id).expect("writable");
    RunDir::open(&path, &config(&[]), COLUMNS).expect("its own");
    // As a run leaves it that was killed before its first checkpoint.
    let path = dir.path().join("begun");
    drop(RunDir::open(&path, &config(&[]), COLUMNS).expect("fresh"));
    fs::remove_file(path.join(claim::ID)).expect("writable");
    RunDir::open(&path, &config(&[]), COLUMNS).expect("begins again");
    assert_ne!(fs::read_to_string(path.join(claim::ID)).expect("written"), id);
}

#[test]
fn no_flipped_bit_of_a_manifest_is_followed() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = run(&dir, "run").join("checkpoints/step-00000007");
    let (file, disk) = (path.join(MANIFEST), Disk::default());
    let whole = fs::read(&file).expect("readable");
    let right = Checkpoint::find(&disk, &path, 7).expect("complete");
    let mut passed = 0;
    for (i, bit) in (0..whole.len()).flat_map(|i| (0..8).map(move |bit| (i, bit))) {
        let mut flipped = whole.clone();
        flipped[i] ^= 1 << bit;
        fs::write(&file, &flipped).expect("writable");
        match Checkpoint::find(&disk, &path, 7) {
            Ok(found) => {
                assert_eq!(format!("{found:?}"), format!("{right:?}"), "byte {i}, bit {bit}");
                passed += 1; // a blank between two fields became another
            }
            Err(problem) => assert!(problem.starts_with("manifest.json: "), "{problem}"),
        }
    }
    assert!(passed * 10 < whole.len(), "{passed}");
}

#[test]
fn a_manifest_that_names_files_elsewhere_is_none() {
    let (_dir, path) = finished();
    let id = claim::read_id(&Disk::default(), &path).expect("readable").expect("written");
    let directory = path.join("checkpoints/step-00000009");
    fs::create_dir(&directory).expect("writable");
    let mut writer = CheckpointWriter::new(&Disk::default(), &directory);
    writer.adopt("../../config.toml").expect("readable");
    writer.complete(&id, 9, BTreeMap::new()).expect("written");
    let problem = Checkpoint::find(&Disk::default(), &directory, 9).expect_err("outside");
    assert_eq!(problem, "../../config.toml: missing");
    // One that leaves out the logs would have them cut to nothing.
    fs::remove_dir_all(&directory).expect("writable");
    fs::create_dir(&directory).expect("writable");
    CheckpointWriter::new(&Disk::default(), &directory).complete(&id, 9, BTreeMap::new()).expect("written");
    let logs = || {
        ["metrics.csv", "metrics.jsonl", "samples.jsonl"]
            .map(|name| fs::read(path.join(name)).expect("readable"))
    };
    let before = logs();
    refused(&path, &["step-00000009/manifest.json: logs.metrics.csv: missing"]);
    assert!(logs() == before);
}

#[test]
fn a_log_that_was_changed_is_named_and_no_log_is_cut() {
    for name in ["metrics.csv", "metrics.jsonl", "samples.jsonl", "timing.csv", EVENTS] {
        let (_dir, path) = finished();
        let log = path.join(name);
        let mut bytes = fs::read(&log).expect("readable");
        let middle = bytes.len() / 2;
        bytes[middle] ^= 1;
        fs::write(&log, &bytes).expect("writable");
        let timing = || fs::read(path.join("timing.jsonl")).expect("readable");
        let longer = [timing(), b"{}\n".to_vec()].concat();
        fs::write(path.join("timing.jsonl"), &longer).expect("writable");
        refused(&path, &[name, "bytes are not those it had when the checkpoint was written"]);
        assert_eq!(timing(), longer, "cut before {name} was found");
        bytes[middle] ^= 1;
        fs::write(&log, &bytes).expect("writable");
        train(&path, Disk::crashing_after(i64::MAX), || ()).expect("goes on");
        assert!(files(&path) == unbroken());
    }
}

#[test]
fn a_run_with_only_damaged_checkpoints_keeps_its_logs() {
    let (dir, path) = finished();
    for step in ["step-00000006", "step-00000007"] {
        fs::write(path.join("checkpoints").join(step).join("state.bin"), "x").expect("writable");
    }
    let before = files(&path);
    refused(&path, &["step-00000007: damaged (state.bin: 1 bytes long, not 8)", "step 0"]);
    assert!(files(&path) == before, "logs are not cut");
    fs::rename(&path, dir.path().join("away")).expect("writable");
    train(&path, Disk::crashing_after(i64::MAX), || ()).expect("begins again, as was said");
    assert!(files(&path) == unbroken());
}

#[test]
fn a_run_whose_checkpoints_are_gone_is_not_begun_again_over_its_logs() {
    // What is left of it, besides config.toml, id and the logs, and the file that is named.
    let cases: [(&[&str], &str); 4] = [
        (&["summary.json"], "summary.json"),
        (&["end.json", "best.json"], "end.json"),
        (&["best.json"], "best.json"),
        (&[], "metrics.csv"),
    ];
    for (left, named) in cases {
        let (dir, path) = finished();
        let mut open = RunDir::open(&path, &config(&[]), COLUMNS).expect("its own").run;
        open.settle(Some(Best { step: 6, accuracy: 0.5 })).expect("written");
        // More rows than come before a first checkpoint, in supervised learning and one evaluation.
        let (every, sft) = (config(&[]).checkpoint.every, config(&[]).sft.steps);
        for step in 7..every.min(sft) + 1 {
            open.record("sft", step, &[("state", 1.0)], &[("seconds", 1.0)]).expect("written");
        }
        open.record("sft", 0, &[("state", 1.0)], &[("seconds", 1.0)]).expect("written");
        open.end(7).expect("written");
        drop(open);
        for mark in ["summary.json", "end.json", "best.json"] {
            if !left.contains(&mark) {
                fs::remove_file(path.join(mark)).expect("there");
            }
        }
        fs::rename(path.join("checkpoints"), dir.path().join("elsewhere")).expect("writable");
        let before = files(&path);
        refused(
            &path,
            &[named, "had checkpoints, of which none is left", "put ", "checkpoints back, or move "],
        );
        assert!(files(&path) == before && !path.join("checkpoints").exists(), "nothing is changed");
        fs::rename(dir.path().join("elsewhere"), path.join("checkpoints")).expect("writable");
        let back = RunDir::open(&path, &config(&[]), COLUMNS).expect("back").checkpoint;
        assert_eq!(back.map(|c| c.step()), Some(7));
    }
}

#[test]
fn a_log_or_lock_that_is_removed_or_replaced_under_way_ends_the_run_and_the_next_one_continues() {
    for (name, edit) in [
        ("metrics.csv", "rm metrics.csv"),
        ("metrics.jsonl", "cp metrics.jsonl x; mv x metrics.jsonl"),
        ("samples.jsonl", "sed -i s/t/T/ samples.jsonl"),
        ("timing.csv", "echo 1,rl,2 >> timing.csv"),
        ("lock", "rm lock"),
        ("lock", "cp lock x; mv x lock"),
    ] {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("run");
        let pauses = std::cell::Cell::new(0);
        // Within the fourth step, while a checkpoint is being written.
        let disturb = || {
            pauses.set(pauses.get() + 1);
            if pauses.get() == 6 {
                let done = std::process::Command::new("sh").args(["-c", edit]).current_dir(&path).status();
                assert!(done.expect("a shell").success(), "{edit}");
            }
        };
        let error = train(&path, Disk::crashing_after(i64::MAX), disturb).expect_err(edit).to_string();
        assert!(error.contains(&format!("run/{name}: ")) && !error.contains('\n'), "{edit}: {error}");
        train(&path, Disk::crashing_after(i64::MAX), || ()).unwrap_or_else(|e| panic!("{edit}: {e}"));
        let mut found = files(&path);
        assert_eq!(found.remove("aside-samples.jsonl").is_some(), name == "samples.jsonl", "theirs is kept");
        assert!(found == unbroken(), "{edit}");
    }
}

#[test]
fn marks_of_the_end_and_of_the_best_are_protected() {
    let (_dir, path) = finished();
    let mut open = RunDir::open(&path, &config(&[]), COLUMNS).expect("its own").run;
    open.settle(Some(Best { step: 6, accuracy: 0.5 })).expect("written");
    open.end(7).expect("written");
    drop(open);
    for (name, from, to) in [("end.json", "\"step\": 7", "\"step\": 6"), ("best.json", "0.5", "0.7")] {
        let text = fs::read_to_string(path.join(name)).expect("readable");
        assert!(text.contains(from), "{text}");
        fs::write(path.join(name), text.replace(from, to)).expect("writable");
        refused(&path, &[name, "changed after it was written", "without this file"]);
        fs::write(path.join(name), text).expect("writable");
    }
    assert!(RunDir::open(&path, &config(&[]), COLUMNS).expect("its own").run.has_ended());
    // The checkpoint of the end is lost, and the run goes on to one of the same step and other times, which is not taken for that end.
    assert!(is_done(&path));
    fs::remove_dir_all(path.join("checkpoints/step-00000007")).expect("writable");
    assert!(!is_done(&path));
    drop(RunDir::open(&path, &config(&[]), COLUMNS).expect("at step 6"));
    assert!(["summary.json", "end.json"].iter().all(|name| !path.join(name).exists()));
    train(&path, Disk::crashing_after(i64::MAX), || ()).expect("goes on");
    read_log(&path, "timing.csv").expect("vouched for by the new checkpoint");
    assert!(!RunDir::open(&path, &config(&[]), COLUMNS).expect("its own").run.has_ended());
}

#[test]
fn a_checkpoint_that_is_read_stays_until_its_reader_is_done() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("run");
    let mut open = RunDir::open(&path, &config(&["checkpoint.keep=1"]), COLUMNS).expect("fresh").run;
    let mut save = |step: u64| save(&mut open, step..=step);
    let names = || Disk::default().list(&path.join("checkpoints")).expect("readable");
    save(1);
    let held = hold_latest(&path).expect("readable").expect("one");
    save(2);
    assert_eq!(names(), ["step-00000001", "step-00000002"]);
    drop(held);
    save(3);
    assert_eq!(names(), ["step-00000003"]);
}

#[test]
fn concurrent_readers_of_a_run_that_prunes_always_find_a_whole_checkpoint() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("run");
    let mut open = RunDir::open(&path, &config(&["checkpoint.keep=1"]), COLUMNS).expect("fresh").run;
    let mut save = |step: u64| {
        let state = |writer: &mut CheckpointWriter| {
            (0..20).try_for_each(|i| writer.file(&format!("part-{i}"), &step.to_le_bytes()))
        };
        open.save::<RunError>(step, None, state).expect("written");
    };
    save(1);
    let done = std::sync::atomic::AtomicBool::new(false);
    let reads = std::thread::scope(|scope| {
        let reader = scope.spawn(|| {
            let mut reads = 0;
            while !done.load(std::sync::atomic::Ordering::Relaxed) {
                let held = hold_latest(&path).unwrap_or_else(|e| panic!("read {reads}: {e}"));
                held.expect("there is always one");
                reads += 1;
            }
            reads
        });
        (2..=60).for_each(&mut save);
        done.store(true, std::sync::atomic::Ordering::Relaxed);
        reader.join().expect("no read fails")
    });
    assert!(reads > 20, "only {reads} reads");
}

/// Flips a bit in the middle of a file while `read` looks at it.
fn flipped<T>(file: &Path, read: impl FnOnce() -> T) -> T {
    let sound = fs::read(file).expect("readable");
    let mut bytes = sound.clone();
    bytes[sound.len() / 2] ^= 1;
    fs::write(file, bytes).expect("writable");
    let found = read();
    fs::write(file, sound).expect("writable");
    found
}

#[test]
fn a_flipped_bit_of_a_named_checkpoint_or_of_its_parts_is_refused_by_name() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("run");
    let mut open = RunDir::open(&path, &config(&[]), COLUMNS).expect("fresh").run;
    for step in [1, 2] {
        let fill = |writer: &mut CheckpointWriter| {
            fs::create_dir(writer.directory().join("reference")).expect("writable");
            writer.file("weights", b"0123")?;
            writer.file("reference/weights", b"4567")
        };
        open.save::<RunError>(step, None, fill).expect("written");
    }
    open.settle(Some(Best { step: 2, accuracy: 0.5 })).expect("written");
    let step = path.join("checkpoints/step-00000002");
    for (named, file) in [
        (step.clone(), "weights"),
        (step.clone(), "reference/weights"),
        (step.join("reference"), "reference/weights"),
        (step.clone(), MANIFEST),
        (step.join("reference"), MANIFEST),
    ] {
        assert!(hold_directory(&named).expect("sound").is_some());
        let read = || [hold_directory(&named), hold_latest(&path), hold_best(&path)];
        for found in flipped(&step.join(file), read) {
            let message = found.expect_err("must be refused").to_string();
            assert!(message.contains(file), "{file}: {message}");
        }
    }
    // Another program's manifest, and none, say nothing about a directory.
    let other = dir.path().join("other/reference");
    fs::create_dir_all(&other).expect("writable");
    assert!(hold_directory(&other).expect("no manifest").is_none());
    fs::write(dir.path().join("other").join(MANIFEST), "{\"files\": [\"reference/weights\"]}")
        .expect("writable");
    assert!(hold_directory(&other).expect("of another program").is_none());
}

#[test]
fn a_flipped_bit_of_a_log_is_refused_as_far_as_the_run_vouches_for_it() {
    let (dir, path) = finished();
    let mut open = RunDir::open(&path, &config(&[]), COLUMNS).expect("its own").run;
    open.end(7).expect("written");
    drop(open);
    let texts = ["metrics.csv", "metrics.jsonl", "timing.csv", "timing.jsonl", "samples.jsonl"];
    let all_are_refused = |why: &str| {
        for name in texts {
            read_log(&path, name).expect("sound");
            let found = flipped(&path.join(name), || read_log(&path, name)).expect_err(why).to_string();
            assert!(found.contains(name), "{why}: {found}");
        }
    };
    all_are_refused("by the end and the checkpoint");
    let mut longer = fs::read(path.join("metrics.csv")).expect("readable");
    longer.extend(b"7,sft,1");
    fs::write(path.join("metrics.csv"), longer).expect("writable");
    let found = read_log(&path, "metrics.csv").expect_err("the run is done").to_string();
    assert!(found.contains("metrics.csv") && found.contains("bytes long"), "{found}");
    fs::rename(path.join("summary.json"), path.join("summary-7.json")).expect("writable");
    all_are_refused("by the end, although the run goes on");
    fs::rename(path.join("checkpoints"), dir.path().join("elsewhere")).expect("writable");
    all_are_refused("by the end alone");
    fs::rename(dir.path().join("elsewhere"), path.join("checkpoints")).expect("writable");
    fs::remove_file(path.join("end.json")).expect("writable");
    all_are_refused("by the checkpoint alone");
    fs::remove_dir_all(path.join("checkpoints")).expect("writable");
    for name in texts {
        flipped(&path.join(name), || read_log(&path, name)).expect("nothing vouches for it");
    }
}
