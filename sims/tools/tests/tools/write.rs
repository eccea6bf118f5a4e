use grpo_lambda_tools::write::Output;
use std::fs;
use std::path::Path;

#[test]
fn files_are_replaced_whole_and_leave_nothing_else() {
    let root = tempfile::tempdir().unwrap();
    let output = Output::open(&root.path().join("a/b")).unwrap();
    for content in ["first, long", "second"] {
        let path = output.write("data/x.csv", content.as_bytes()).unwrap();
        assert_eq!(fs::read_to_string(path).unwrap(), content);
    }
    let names: Vec<_> = fs::read_dir(output.path("data")).unwrap().map(|e| e.unwrap().file_name()).collect();
    assert_eq!(names, ["x.csv"]);
}

#[cfg(unix)]
#[test]
fn files_are_as_readable_as_any_other() {
    use std::os::unix::fs::PermissionsExt;
    let root = tempfile::tempdir().unwrap();
    let output = Output::open(root.path()).unwrap();
    let ours = output.write("data/x.csv", b"x").unwrap();
    let plain = root.path().join("plain");
    fs::write(&plain, b"x").unwrap();
    let mode = |p: &Path| fs::metadata(p).unwrap().permissions().mode();
    assert_eq!(mode(&ours), mode(&plain));
}

#[cfg(unix)]
#[test]
fn nothing_is_written_through_a_link() {
    let (root, theirs) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let thesis = theirs.path().join("thesis.tex");
    fs::write(&thesis, "thesis").unwrap();
    let output = Output::open(root.path()).unwrap();
    std::os::unix::fs::symlink(&thesis, output.path("data/x.csv")).unwrap();
    output.write("data/x.csv", b"ours").unwrap();
    fs::remove_dir_all(output.path("figures")).unwrap();
    std::os::unix::fs::symlink(theirs.path(), output.path("figures")).unwrap();
    let error = format!("{:#}", Output::open(root.path()).unwrap_err());
    assert!(error.contains("figures: a symbolic link"), "{error}");
    assert_eq!(fs::read(&thesis).unwrap(), b"thesis");
    assert_eq!(fs::read_dir(theirs.path()).unwrap().count(), 1);
}

#[test]
fn a_folder_under_a_file_is_refused() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let error = Output::open(&file.path().join("out")).unwrap_err();
    assert!(error.to_string().starts_with("cannot write to "), "{error}");
}
