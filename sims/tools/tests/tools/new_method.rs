use grpo_lambda_tools::new_method::{METHODS, NewMethodArgs, TESTS, run};
use std::path::Path;

fn clone() -> tempfile::TempDir {
    let repository = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let root = tempfile::tempdir().unwrap();
    for path in [METHODS, TESTS] {
        let to = root.path().join(path);
        std::fs::create_dir_all(to.parent().unwrap()).unwrap();
        std::fs::copy(repository.join(path), to).unwrap();
    }
    root
}

#[test]
fn a_method_is_written_and_declared_once() {
    let root = clone();
    let args = NewMethodArgs { name: "median_baseline".to_owned(), root: root.path().to_owned() };
    run(&args).unwrap();
    let read = |path: &str| std::fs::read_to_string(root.path().join(path)).unwrap();
    let methods = read(METHODS);
    assert!(methods.contains("pub mod maxrl;\npub mod median_baseline;\npub mod oar_g;"), "{methods}");
    assert!(methods.contains("    &median_baseline::SPEC,\n];"), "{methods}");
    assert!(read(TESTS).contains("mod critics;\nmod median_baseline;\nmod newer;"));
    let method = read("src/methods/median_baseline.rs");
    assert!(method.starts_with("//! Median Baseline: ") && method.contains("name: \"median_baseline\""));
    assert!(!method.contains("NAME") && !method.contains("TITLE"), "{method}");
    assert!(run(&args).unwrap_err().line().contains("it exists; choose another name"));
}

#[test]
fn a_name_that_is_none_and_a_folder_that_is_no_clone_are_refused() {
    let root = tempfile::tempdir().unwrap();
    for (name, expected) in [
        ("Median", "must be lower-case letters"),
        ("2x", "must be lower-case letters"),
        ("shared", "must be lower-case letters"),
        ("mod", "is a word of Rust; choose another"),
        ("fn", "is a word of Rust; choose another"),
        ("../up", "must be lower-case letters"),
        ("grpo", "a method of this name exists"),
        ("mine", "--root must be a clone of grpo-lambda"),
    ] {
        let args = NewMethodArgs { name: name.to_owned(), root: root.path().to_owned() };
        let said = run(&args).unwrap_err().line();
        assert!(said.contains(expected), "{name}: {said}");
    }
}
