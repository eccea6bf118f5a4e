//! The checkpoint of the best evaluation, whenever the process is stopped or the disk refuses.

use crate::run::{COLUMNS, config, files};
use grpo_lambda_decoder::disk::Disk;
use grpo_lambda_trainer::run::{Best, OpenedRun, RunDir, RunError, hold_best, marks, now};
use std::collections::BTreeMap;
use std::path::Path;

/// Accuracies after each step; the last one is measured after the last checkpoint.
const ACCURACY: [f64; 7] = [0.2, 0.5, 0.5, 0.7, 0.1, 0.6, 0.9];

/// A trainer in miniature that keeps one checkpoint next to the best.
fn train(path: &Path, disk: Disk) -> Result<(), RunError> {
    let config = config(&["checkpoint.best=true", "checkpoint.keep=1", "checkpoint.every=2"]);
    let OpenedRun { mut run, checkpoint, .. } = RunDir::open_on(disk, path, &config, COLUMNS)?;
    let (step, stated) = match &checkpoint {
        Some(c) => (c.step(), serde_json::from_slice(&c.read("state.json")?).expect("its own")),
        None => (0, None),
    };
    let mut best = run.resume(step, stated, true)?;
    let better = |best: Option<Best>, step: u64| {
        let accuracy = ACCURACY[step as usize - 1];
        if best.is_none_or(|best| accuracy > best.accuracy) { Some(Best { step, accuracy }) } else { best }
    };
    let last = ACCURACY.len() as u64;
    for step in step + 1..=last {
        run.record("rl", step, &[("loss", ACCURACY[step as usize - 1])], &[("seconds", now())])?;
        let improved = if step < last { better(best, step) } else { best };
        if improved != best || step.is_multiple_of(2) || step == last {
            best = improved;
            let state = serde_json::to_vec(&best).expect("a form");
            run.save::<RunError>(step, best, |writer| writer.file("state.json", &state))?;
        }
    }
    best = better(best, last);
    run.settle(best)?;
    run.finish(&serde_json::json!({ "best": run.best() }))
}

/// The step whose checkpoint is the best by what is there, if one is.
fn best_step(path: &Path) -> Option<u64> {
    let held = hold_best(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))?;
    held.path().file_name()?.to_str()?.strip_prefix("step-")?.parse().ok()
}

#[test]
fn the_best_checkpoint_survives_a_stop_or_a_refusal_at_any_operation() {
    let dir = tempfile::tempdir().expect("a directory");
    let whole = dir.path().join("whole");
    train(&whole, Disk::crashing_after(i64::MAX)).expect("nothing fails");
    assert_eq!(best_step(&whole), Some(7));
    let expected = files(&whole);
    let mut stopped = BTreeMap::new();
    for operations in 0.. {
        let faults: [fn(i64) -> Disk; 2] = [Disk::crashing_after, Disk::refusing_after];
        let mut failed = false;
        for (kind, fault) in faults.into_iter().enumerate() {
            let path = dir.path().join(format!("{kind}-{operations}"));
            failed |= train(&path, fault(operations)).is_err();
            // A reader finds the best of the checkpoints that were complete, or the one before it.
            *stopped.entry(best_step(&path)).or_insert(0) += 1;
            // Once more, somewhere else each time.
            drop(train(&path, fault(1 + (operations * 7) % 31)));
            train(&path, Disk::crashing_after(i64::MAX))
                .unwrap_or_else(|e| panic!("after {operations}: {e}"));
            assert_eq!(best_step(&path), Some(7), "after {operations}");
            assert!(files(&path) == expected, "after {operations}");
        }
        if !failed {
            break;
        }
    }
    assert_eq!(stopped.keys().copied().collect::<Vec<_>>(), [None, Some(1), Some(2), Some(4), Some(7)]);
}

#[test]
fn the_best_is_the_better_of_the_state_and_what_was_written_down_for_weights_that_are_there() {
    let dir = tempfile::tempdir().expect("a directory");
    let config = config(&["checkpoint.keep=9"]);
    let mut run = RunDir::open(dir.path(), &config, COLUMNS).expect("fresh").run;
    let best = |step, accuracy| Some(Best { step, accuracy });
    for step in [2, 4] {
        run.save::<RunError>(step, None, |writer| writer.file("x", b"x")).expect("written");
    }
    // Written before; stated; the latest checkpoint; the best then, and the one that is written down.
    for (written, latest, stated, agreed, then) in [
        (best(2, 0.5), 4, best(4, 0.6), best(4, 0.6), best(4, 0.6)),
        (best(4, 0.6), 4, best(2, 0.5), best(4, 0.6), best(4, 0.6)),
        (best(4, 0.6), 2, best(2, 0.5), best(2, 0.5), best(2, 0.5)),
        (best(2, 0.5), 4, None, best(2, 0.5), best(2, 0.5)),
        // Of a checkpoint that is gone: it is known, but not kept.
        (best(2, 0.5), 4, best(3, 0.6), best(3, 0.6), best(2, 0.5)),
    ] {
        run.settle(written).expect("written");
        assert_eq!(run.resume(latest, stated, true).expect("written"), agreed);
        assert_eq!(marks::read_best(&Disk::default(), dir.path()).expect("readable"), then);
    }
}
