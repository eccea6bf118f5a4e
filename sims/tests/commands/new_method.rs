//! The files that `sim new-method` writes compile.

use assert_cmd::Command;
use std::path::Path;

use crate::long;

/// Adds a method to a copy of the tracked tree and compiles the library with its tests. `.ci/weekly` also runs these.
#[test]
fn a_new_method_and_its_test_compile() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the crate lies in the repository");
    if !long::of(false, true) || !root.join(".git").exists() {
        println!("skipped: it takes two minutes, and needs git; LONG_TESTS=1 runs it");
        return;
    }
    let copy = tempfile::tempdir().unwrap();
    let tree = copy.path().to_str().unwrap();
    let tracked = "git ls-files -z | tar -c --null -T - | tar -x -C";
    Command::new("sh").args(["-c", &format!("{tracked} '{tree}'")]).current_dir(root).assert().success();
    Command::cargo_bin("grpo-sim").unwrap().args(["new-method", "tried", "--root", tree]).assert().success();
    Command::new("cargo")
        .args(["check", "--offline", "--quiet", "-p", "grpo-lambda-theory", "--tests"])
        .current_dir(tree)
        .env("CARGO_TARGET_DIR", root.join("target/new_method"))
        .assert()
        .success();
}
