use std::collections::BTreeMap;
use std::os::unix::fs::symlink;

use super::*;

#[test]
fn a_refused_replacement_leaves_the_old_file_and_nothing_else() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let (path, disk) = (dir.path().join("file"), Disk::default());
    disk.replace(&path, b"old").expect("writable");
    disk.replace(&path, b"new").expect("writable");
    assert_eq!(fs::read(&path).expect("readable"), b"new");
    // A directory in the way of the rename.
    let taken = dir.path().join("taken");
    fs::create_dir_all(taken.join("inside")).expect("writable");
    let error = disk.replace(&taken, b"x").expect_err("a directory is no file").to_string();
    assert!(error.starts_with("cannot rename ") && error.contains("taken"), "{error}");
    assert_eq!(disk.list(dir.path()).expect("readable"), ["file", "taken"]);
}

#[test]
fn removing_follows_no_link_and_takes_names_that_are_not_utf8() {
    use std::os::unix::ffi::OsStrExt;
    let dir = tempfile::tempdir().expect("a temporary directory");
    let (kept, doomed, disk) = (dir.path().join("kept"), dir.path().join("doomed"), Disk::default());
    fs::create_dir(&kept).expect("writable");
    fs::write(kept.join("thesis.tex"), "x").expect("writable");
    fs::create_dir_all(doomed.join("inner")).expect("writable");
    fs::write(doomed.join(std::ffi::OsStr::from_bytes(b"\xff")), "x").expect("writable");
    for link in [doomed.join("link"), doomed.join("inner/link"), dir.path().join("alone")] {
        symlink(&kept, link).expect("a link");
    }
    disk.remove(&doomed).expect("all of it");
    disk.remove(&dir.path().join("alone")).expect("a link");
    disk.remove(&dir.path().join("absent")).expect("nothing to do");
    assert_eq!(disk.list(dir.path()).expect("readable"), ["kept"]);
    assert_eq!(disk.list(&kept).expect("readable"), ["thesis.tex"]);
}

/// A folder `own` to write into, next to a file and a folder of the user's.
struct Surroundings {
    dir: tempfile::TempDir,
    own: PathBuf,
    disk: Disk,
}

impl Surroundings {
    fn new() -> Surroundings {
        let dir = tempfile::tempdir().expect("a temporary directory");
        fs::create_dir(dir.path().join("theirs")).expect("writable");
        fs::write(dir.path().join("theirs/thesis.tex"), "thesis").expect("writable");
        let own = dir.path().join("own");
        let disk = Disk::default().inside(&own).expect("writable");
        Surroundings { dir, own, disk }
    }

    #[track_caller]
    fn is_whole(&self, case: &str) {
        let theirs = self.dir.path().join("theirs");
        assert_eq!(Disk::default().list(&theirs).expect("readable"), ["thesis.tex"], "{case}");
        assert_eq!(fs::read(theirs.join("thesis.tex")).expect("readable"), b"thesis", "{case}");
    }
}

#[test]
fn nothing_is_written_through_a_link() {
    type Write = fn(&Disk, &Path) -> Result<(), DiskError>;
    // The name that is a link, the write, and whether it is refused or puts a file of its own there.
    let cases: [(&str, &str, Write, bool); 10] = [
        ("log", "thesis.tex", |disk, own| AppendFile::open(disk, &own.join("log"), 0).map(drop), true),
        ("log", "new.txt", |disk, own| AppendFile::open(disk, &own.join("log"), 0).map(drop), true),
        ("lock", "thesis.tex", |disk, own| disk.open_lock(&own.join("lock")).map(drop), true),
        ("figures", "", |disk, own| disk.create_directories(&own.join("figures")), true),
        ("figures", "", |disk, own| disk.create_directories(&own.join("figures/a/b")), true),
        ("figures", "", |disk, own| disk.write(&own.join("figures/x"), b"x"), true),
        ("figures", "", |disk, own| disk.replace(&own.join("figures/thesis.tex"), b"x"), true),
        ("file.tmp", "thesis.tex", |disk, own| disk.replace(&own.join("file"), b"x"), false),
        ("file", "thesis.tex", |disk, own| disk.replace(&own.join("file"), b"x"), false),
        ("file", "thesis.tex", |disk, own| disk.write(&own.join("file"), b"x"), false),
    ];
    for (link, target, write, is_refused) in cases {
        let place = Surroundings::new();
        let case = format!("{link} -> {target}");
        symlink(Path::new("../theirs").join(target), place.own.join(link)).expect("a link");
        match write(&place.disk, &place.own) {
            Ok(()) => {
                assert!(!is_refused, "{case}");
                assert!(place.own.join("file").symlink_metadata().expect("there").is_file(), "{case}");
            }
            Err(error) => {
                assert!(is_refused && error.is_refusal(), "{case}: {error}");
                let error = error.to_string();
                assert!(
                    error.contains(&format!("own/{link}")) && error.contains("is a symbolic link"),
                    "{error}"
                );
            }
        }
        place.is_whole(&case);
    }
    // Swapped while the directory is held: what is written goes where it was opened, and the swap is seen.
    let place = Surroundings::new();
    fs::rename(&place.own, place.dir.path().join("moved")).expect("writable");
    symlink("theirs", &place.own).expect("a link");
    place.disk.replace(&place.own.join("thesis.tex"), b"x").expect("written where it was opened");
    place.is_whole("swapped");
    assert_eq!(fs::read(place.dir.path().join("moved/thesis.tex")).expect("readable"), b"x");
    assert!(!place.disk.is_in_place().expect("both are there"));
    // No path leads out.
    place.disk.write(&place.own.join("../theirs/new"), b"x").expect_err("outside");
    place.is_whole("..");
}

#[test]
fn a_file_that_others_remove_replace_or_change_is_named_and_its_contents_are_put_back() {
    let edits: [(&str, &[&str], &str); 6] = [
        ("rm log", &["log"], "it was removed or replaced"),
        ("head -c 4 log > x; mv x log", &["log"], "what was written is back in its place;"),
        ("echo mine > x; mv x log", &["aside-log", "log"], "and the other file is"),
        ("rm log; ln -s ../theirs/thesis.tex log", &["aside-log", "log"], "and the other file is"),
        ("rm log; mkdir log", &["aside-log", "log"], "and the other file is"),
        ("echo more >> log", &["log"], "14 bytes long, not 9: something else wrote into it"),
    ];
    for (edit, names, expected) in edits {
        let place = Surroundings::new();
        let mut log = AppendFile::open(&place.disk, &place.own.join("log"), 0).expect("writable");
        log.append(b"one\n").expect("its own");
        log.append(b"three").expect("its own");
        let done = std::process::Command::new("sh").args(["-c", edit]).current_dir(&place.own).status();
        assert!(done.expect("a shell").success(), "{edit}");
        let error = log.append(b"four").expect_err(edit).to_string();
        assert!(error.contains(expected) && error.contains("own/log: "), "{edit}: {error}");
        assert_eq!(Disk::default().list(&place.own).expect("readable"), names, "{edit}");
        let found = fs::read(place.own.join("log")).expect("readable");
        assert!(found.starts_with(b"one\nthree"), "{edit}");
        place.is_whole(edit);
    }
}

/// A command that fills a directory: files, one in a folder, one replaced.
fn fill(disk: &Disk, out: &Path) -> Result<(), DiskError> {
    disk.fill(
        out,
        |e| e,
        |disk| {
            disk.replace(&out.join("tokenizer.json"), b"first")?;
            disk.create_directories(&out.join("a/b"))?;
            disk.write(&out.join("a/b/part"), b"part")?;
            disk.replace(&out.join("tokenizer.json"), b"second")?;
            disk.replace(&out.join("config.json"), b"last")
        },
    )
}

fn tree(root: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(root).expect("readable") {
        let path = entry.expect("an entry").path();
        match path.is_dir() {
            true => found.extend(tree(&path)),
            false => drop(found.insert(path.clone(), fs::read(&path).expect("readable"))),
        }
    }
    found
}

#[test]
fn a_directory_that_was_being_filled_is_filled_by_the_same_command_whenever_it_was_stopped() {
    let place = Surroundings::new();
    let out = place.own.join("out");
    fill(&place.disk, &out).expect("new");
    let whole = tree(&out);
    assert_eq!(whole.len(), 3);
    fill(&place.disk, &out).expect_err("full");
    assert!(tree(&out) == whole, "refused, it is left alone");
    let mut stopped = 0;
    for operations in 0.. {
        let before = stopped;
        for (existed, is_final) in [(false, false), (false, true), (true, false), (true, true)] {
            fs::remove_dir_all(&out).expect("writable");
            if existed {
                fs::create_dir(&out).expect("writable");
            }
            if let Err(error) = fill(&place.disk.clone().with_fault(operations, is_final), &out) {
                stopped += 1;
                let as_before = out.exists() == existed && tree(&place.own).is_empty();
                assert!(is_final || as_before, "{operations}: {error}");
                fs::create_dir_all(&out).expect("writable");
                // Something else there is the user's.
                fs::write(out.join("thesis.tex"), "x").expect("writable");
                let error = fill(&place.disk, &out).expect_err("not ours").to_string();
                assert!(error.contains("it holds thesis.tex"), "{error}");
                fs::remove_file(out.join("thesis.tex")).expect("still there");
                fill(&place.disk, &out).unwrap_or_else(|e| panic!("after {operations}: {e}"));
            }
            assert!(tree(&out) == whole, "after {operations}");
        }
        if stopped == before {
            break;
        }
    }
    assert!(stopped > 100, "only {stopped} faults");
}

#[test]
fn a_mark_from_elsewhere_removes_nothing_outside_and_two_commands_do_not_fill_one_directory() {
    let place = Surroundings::new();
    let out = place.own.join("out");
    let stopped = fill(&Disk::crashing_after(20), &out);
    assert!(stopped.is_err() && out.join(".unfinished").is_file());
    let mark = fs::read_to_string(out.join(".unfinished")).expect("readable");
    fs::write(out.join(".unfinished"), mark + "../../theirs/thesis.tex\n/etc/hostname\n").expect("writable");
    symlink("../../theirs", out.join("a/b/link")).expect("a link");
    let held = File::open(out.join(".unfinished")).expect("there");
    held.try_lock().expect("free");
    assert!(fill(&place.disk, &out).expect_err("held").to_string().contains("another process is filling it"));
    drop(held);
    drop(fill(&place.disk, &out));
    place.is_whole("a mark");
}
