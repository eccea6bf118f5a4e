use grpo_lambda_trainer::input::data::locate::directory;
use std::path::PathBuf;

fn tree(files: &[&str]) -> tempfile::TempDir {
    let dir = tempfile::tempdir().expect("a temporary directory");
    for file in files {
        let path = dir.path().join(file);
        std::fs::create_dir_all(path.parent().expect("a parent")).expect("writable");
        std::fs::write(path, "").expect("writable");
    }
    dir
}

/// The files found, as paths inside the tree.
fn found(files: &[&str], choice: Option<&str>) -> Result<Vec<String>, String> {
    let dir = tree(files);
    let located = directory(dir.path(), "DIR", choice).map_err(|e| e.to_string())?;
    let data = files.iter().filter(|f| !f.starts_with(['R', '.']) && !f.starts_with("dataset_info")).count();
    assert_eq!(located.others + located.files.len(), data);
    let inside = |p: &PathBuf| p.strip_prefix(dir.path()).expect("inside").display().to_string();
    Ok(located.files.iter().map(inside).collect())
}

const GSM8K: &[&str] = &[
    "README.md",
    ".gitattributes",
    "main/train-00000-of-00001.parquet",
    "main/test-00000-of-00001.parquet",
    "socratic/train-00000-of-00001.parquet",
    "socratic/test-00000-of-00001.parquet",
];

#[test]
fn splits_and_subsets_are_read_from_names() {
    assert_eq!(found(GSM8K, Some("main/train")), Ok(vec![GSM8K[2].to_owned()]));
    assert_eq!(found(GSM8K, Some("socratic/test")), Ok(vec![GSM8K[5].to_owned()]));
    assert_eq!(found(GSM8K, Some("main")), Ok(vec![GSM8K[2].to_owned()]));
    let plain = [
        "data/train-00000-of-00002.parquet",
        "data/train-00001-of-00002.parquet",
        "data/test-00000-of-00001.parquet",
    ];
    assert_eq!(found(&plain, None), Ok(plain[..2].iter().map(|s| (*s).to_owned()).collect()));
    assert_eq!(found(&plain, Some("test")), Ok(vec![plain[2].to_owned()]));
    let converted = ["default/train/0000.parquet", "default/test/0000.parquet"];
    assert_eq!(found(&converted, Some("test")), Ok(vec![converted[1].to_owned()]));
    assert_eq!(
        found(&["gsm8k_dev.jsonl", "dataset_info.json"], None),
        Ok(vec!["gsm8k_dev.jsonl".to_owned()])
    );
    assert_eq!(found(&["a.jsonl", "b.jsonl"], None), Ok(vec!["a.jsonl".to_owned(), "b.jsonl".to_owned()]));
}

#[test]
fn what_cannot_be_chosen_is_said_with_what_there_is() {
    for (files, choice, expected) in [
        (GSM8K, None, "DIR: several subsets: main, socratic; choose one, as in DIR:main/train"),
        (
            GSM8K,
            Some("mian/train"),
            "DIR: no subset `mian` (did you mean `main`?); there are: main, socratic",
        ),
        (GSM8K, Some("main/trian"), "DIR: no split `trian` (did you mean `train`?); splits: test, train"),
        (&["a.jsonl"], Some("test"), "DIR: no split `test`; splits: no file says which it belongs to"),
        (
            &["test.jsonl", "dev.jsonl"],
            None,
            "DIR: several splits: test, validation; choose one, as in DIR:test",
        ),
        (&["x.csv"], None, "DIR: no file that ends in .jsonl, .ndjson, .json or .parquet among its 1 files"),
        (&["data.arrow"], None, "Arrow files are not read: write Parquet"),
        (&["train.jsonl", "train.parquet"], None, "the same split in .jsonl and .parquet files"),
        (&["train-00001-of-00002.parquet"], None, "shard 00000 of 2 of `train` is missing; 1 are there"),
    ] {
        let error = found(files, choice).expect_err(expected);
        assert!(error.contains(expected), "{error}");
    }
}
