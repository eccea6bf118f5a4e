//! Files of others among the checkpoints: never touched, never followed, and no reason to end a run.

use crate::run::{COLUMNS, config, files, train, unbroken};
use grpo_lambda_decoder::disk::{Disk, DiskError};
use grpo_lambda_trainer::run::checkpoints::Checkpoints;
use grpo_lambda_trainer::run::{CheckpointWriter, OpenedRun, RunDir, RunError, claim, latest};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// A run directory that was opened once, next to a directory that nobody may touch.
struct Place {
    dir: tempfile::TempDir,
}

impl Place {
    fn new() -> Place {
        let place = Place { dir: tempfile::tempdir().expect("a temporary directory") };
        drop(RunDir::open(&place.run(), &config(&[]), COLUMNS).expect("fresh"));
        fs::create_dir_all(place.elsewhere().join("inner")).expect("writable");
        for name in ["thesis.tex", "inner/data.csv", ".hidden"] {
            fs::write(place.elsewhere().join(name), name).expect("writable");
        }
        place
    }

    fn run(&self) -> PathBuf {
        self.dir.path().join("run")
    }

    fn elsewhere(&self) -> PathBuf {
        self.dir.path().join("elsewhere")
    }

    fn checkpoint(&self, name: &str) -> PathBuf {
        self.run().join("checkpoints").join(name)
    }

    #[cfg(unix)]
    fn link(&self, name: &str) {
        std::os::unix::fs::symlink(self.elsewhere(), self.checkpoint(name)).expect("a link");
    }

    #[track_caller]
    fn elsewhere_is_whole(&self) {
        let found: Vec<String> = files(&self.elsewhere()).into_keys().collect();
        assert_eq!(found, [".hidden", "inner/data.csv", "thesis.tex"]);
    }

    /// Names among the checkpoints, sorted.
    fn names(&self) -> Vec<String> {
        Disk::default().list(&self.run().join("checkpoints")).expect("readable")
    }

    fn open(&self) -> RunDir {
        RunDir::open(&self.run(), &config(&[]), COLUMNS).expect("the same run").run
    }
}

pub(crate) fn save(run: &mut RunDir, steps: std::ops::RangeInclusive<u64>) {
    for step in steps {
        run.save::<RunError>(step, None, |writer| writer.file("state.bin", &step.to_le_bytes()))
            .unwrap_or_else(|e| panic!("step {step}: {e}"));
    }
}

/// The files of a run without those of others among its checkpoints.
fn own(run: &Path, foreign: &[&str]) -> BTreeMap<String, Vec<u8>> {
    let is_foreign = |name: &str| {
        let inside = name.strip_prefix("checkpoints/").unwrap_or_default();
        foreign.contains(&inside.split('/').next().unwrap_or_default())
    };
    files(run).into_iter().filter(|(name, _)| !is_foreign(name)).collect()
}

#[test]
fn foreign_names_neither_end_a_run_nor_block_its_continuation() {
    let expected = unbroken();
    let foreign =
        [".DS_Store", ".nfs0001", ".git", "notes", "step-final", "step-5", ".old-step-x", ".new-notes"];
    for operations in [0, 40, 60, 90, i64::MAX] {
        let place = Place::new();
        drop(train(&place.run(), Disk::crashing_after(operations), || ()));
        for name in foreign {
            let path = place.checkpoint(name);
            match name {
                ".DS_Store" | ".nfs0001" | "step-5" => fs::write(path, name).expect("writable"),
                _ => {
                    fs::create_dir(&path).expect("writable");
                    fs::write(path.join("HEAD"), name).expect("writable");
                }
            }
        }
        train(&place.run(), Disk::default(), || ()).unwrap_or_else(|e| panic!("after {operations}: {e}"));
        assert!(own(&place.run(), &foreign) == expected, "after {operations}: {:?}", place.names());
        for name in foreign {
            let path = place.checkpoint(name);
            let path = if path.is_dir() { path.join("HEAD") } else { path };
            assert_eq!(fs::read_to_string(path).expect("still there"), name, "after {operations}");
        }
    }
}

#[test]
#[cfg(unix)]
fn links_among_the_checkpoints_are_not_followed() {
    let place = Place::new();
    for name in [".x", ".new-step-00000003", ".old-step-00000002", ".old-step-x", "step-x"] {
        place.link(name);
    }
    let mut run = place.open();
    save(&mut run, 1..=5);
    drop(run);
    place.open();
    place.elsewhere_is_whole();
    let kept = [".new-step-00000003", ".old-step-00000002", ".old-step-x", ".x"];
    assert_eq!(place.names(), [&kept[..], &["step-00000004", "step-00000005", "step-x"]].concat());
}

#[test]
#[cfg(unix)]
fn a_link_within_a_checkpoint_is_removed_with_it_and_not_followed() {
    let place = Place::new();
    let mut run = place.open();
    save(&mut run, 1..=2);
    place.link("step-00000001/more");
    save(&mut run, 3..=4);
    place.elsewhere_is_whole();
    assert_eq!(place.names(), ["step-00000003", "step-00000004"]);
}

#[test]
#[cfg(unix)]
fn a_checkpoint_that_is_a_link_is_read_but_neither_removed_nor_emptied() {
    let place = Place::new();
    let mut run = place.open();
    save(&mut run, 1..=3);
    drop(run);
    // Someone moved a checkpoint to another disk and linked it.
    let moved = place.elsewhere().join("moved");
    fs::rename(place.checkpoint("step-00000003"), &moved).expect("writable");
    std::os::unix::fs::symlink(&moved, place.checkpoint("step-00000003")).expect("a link");
    assert_eq!(latest(&place.run()).expect("readable").expect("one").step(), 3);
    let mut run = place.open();
    save(&mut run, 4..=7);
    assert!(moved.join("state.bin").is_file() && moved.join("manifest.json").is_file());
    fs::remove_dir_all(&moved).expect("writable");
    place.elsewhere_is_whole();
    assert_eq!(place.names(), ["step-00000003", "step-00000006", "step-00000007"]);
}

#[test]
#[cfg(unix)]
fn what_stands_under_the_name_of_a_new_checkpoint_and_is_none_is_put_aside() {
    let place = Place::new();
    place.link("step-00000002");
    fs::write(place.checkpoint("step-00000003"), "a file").expect("writable");
    let mut run = place.open();
    save(&mut run, 1..=3);
    place.elsewhere_is_whole();
    let names = ["aside-step-00000002", "aside-step-00000003", "step-00000002", "step-00000003"];
    assert_eq!(place.names(), names);
    assert_eq!(fs::read_to_string(place.checkpoint(names[1])).expect("kept"), "a file");
    assert_eq!(latest(&place.run()).expect("readable").expect("one").step(), 3);
}

/// The answer of a file system that holds a file of `.old-step-00000001` open.
fn busy(disk: &Disk, path: &Path) -> Result<(), DiskError> {
    if path.ends_with(".old-step-00000001") || path.ends_with(".new-step-00000004") {
        let source = std::io::Error::from(std::io::ErrorKind::ResourceBusy);
        return Err(DiskError { action: "remove", path: path.join("model.safetensors"), source });
    }
    disk.remove(path)
}

#[test]
fn an_old_checkpoint_that_cannot_be_removed_is_reported_once_and_the_run_goes_on() {
    let place = Place::new();
    // As a process leaves it that was killed while it wrote step 4.
    fs::create_dir(place.checkpoint(".new-step-00000004")).expect("writable");
    fs::write(place.checkpoint(".new-step-00000004/half"), "x").expect("writable");
    let id = claim::read_id(&Disk::default(), &place.run()).expect("readable").expect("written");
    let open =
        || Checkpoints::open_with(&Disk::default(), (&place.run(), &id), 2, busy).expect("no reason not to");
    let save = |checkpoints: &mut Checkpoints, step: u64| {
        let state = |writer: &mut CheckpointWriter| writer.file("state.bin", &step.to_le_bytes());
        let saved = checkpoints.save::<RunError>(step, BTreeMap::new(), state);
        saved.unwrap_or_else(|e| panic!("step {step}: {e}")).verify().expect("as written");
        checkpoints.prune(None);
    };
    let mut checkpoints = open();
    (1..=5).for_each(|step| save(&mut checkpoints, step));
    let stuck = [".new-step-00000004", ".old-step-00000001"];
    assert_eq!(place.names(), [&stuck[..], &["step-00000004", "step-00000005"]].concat());
    assert_eq!(checkpoints.reported, BTreeSet::from(stuck.map(|name| place.checkpoint(name))));
    assert!(!place.checkpoint("step-00000004/half").exists(), "nothing of the half-written one is in it");
    // Taken up again, and again at step 1, whose temporary names are both taken.
    assert_eq!(open().list().expect("readable").complete.len(), 2);
    for step in ["step-00000004", "step-00000005"] {
        fs::remove_dir_all(place.checkpoint(step)).expect("writable");
    }
    let mut checkpoints = open();
    (1..=4).for_each(|step| save(&mut checkpoints, step));
    assert_eq!(place.names(), [&stuck[..], &["step-00000003", "step-00000004"]].concat());
    // Once nothing holds it, it goes.
    drop(Checkpoints::open(&Disk::default(), &place.run(), &id, 2).expect("no reason not to"));
    assert_eq!(place.names(), ["step-00000003", "step-00000004"]);
}

#[test]
fn a_checkpoint_that_is_saved_again_stays_until_the_new_one_has_its_name() {
    for (fault, is_alive) in [(Disk::crashing_after as fn(i64) -> Disk, false), (Disk::refusing_after, true)]
    {
        for operations in 0.. {
            let place = Place::new();
            save(&mut place.open(), 1..=1);
            let again = RunDir::open_on(fault(operations), &place.run(), &config(&[]), COLUMNS);
            let again = again.and_then(|OpenedRun { mut run, .. }| {
                run.save::<RunError>(1, None, |writer| writer.file("state.bin", b"again"))
            });
            if !is_alive {
                drop(place.open());
            }
            let kept = latest(&place.run())
                .expect("readable")
                .unwrap_or_else(|| panic!("none after {operations} operations"));
            kept.verify().unwrap_or_else(|e| panic!("after {operations} operations: {e}"));
            if again.is_ok() {
                assert_eq!(kept.read("state.bin").expect("readable"), b"again");
                break;
            }
        }
    }
}

#[test]
fn a_run_whose_directory_is_removed_or_replaced_stops_and_says_so() {
    for replaced in [false, true] {
        let place = Place::new();
        let mut run = place.open();
        save(&mut run, 1..=1);
        fs::rename(place.run(), place.dir.path().join("away")).expect("writable");
        if replaced {
            drop(place.open());
        }
        let values = [("state", 1.0), ("loss", 1.0)];
        for error in [
            run.record("rl", 2, &values, &[("seconds", 1.0)]).expect_err("nowhere to write"),
            run.sample(&1).expect_err("nowhere to write"),
            run.save::<RunError>(2, None, |_| Ok(())).expect_err("nowhere to write"),
            run.finish(&1).expect_err("nowhere to write"),
        ] {
            let error = error.to_string();
            assert!(error.contains("was removed, moved or replaced") && !error.contains('\n'), "{error}");
        }
        assert_eq!(place.run().exists(), replaced, "nothing was made again");
    }
}
