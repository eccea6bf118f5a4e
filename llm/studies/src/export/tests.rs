#![allow(clippy::unwrap_used)]

use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::Row;

use super::*;

fn run_with(name: &str, text: &str) -> tempfile::TempDir {
    let run = tempfile::tempdir().unwrap();
    std::fs::write(run.path().join(name), text).unwrap();
    run
}

const METRICS: &str = "{\"step\":0,\"stage\":\"sft\",\"loss\":2.5}\n{\"step\":1,\"stage\":\"sft\",\"loss\":null}\n\
    {\"step\":0,\"stage\":\"eval\",\"eval_accuracy\":0.5}\n\
    {\"step\":0,\"stage\":\"rl\",\"loss\":0.1,\"reward\":0.25,\"eval_accuracy\":0.75}\n\
    {\"step\":1,\"stage\":\"eval\",\"eval_accuracy\":0.75}\n{\"step\":1,\"stage\":\"rl\",\"lo";

#[test]
fn metrics_have_rising_steps_no_comment_and_no_half_line() {
    let run = run_with("metrics.jsonl", METRICS);
    let files = metrics(run.path()).unwrap();
    let text = |i: usize| String::from_utf8(files[i].1.clone()).unwrap();
    assert_eq!(files[0].0, "metrics.csv");
    assert_eq!(
        text(0),
        "step,eval/accuracy,rl/loss,rl/reward,sft/loss\n1,,,,2.5\n2,0.5,,,\n3,0.75,0.1,0.25,\n"
    );
    assert_eq!(
        text(1),
        "{\"step\":1,\"sft/loss\":2.5}\n{\"step\":2,\"eval/accuracy\":0.5}\n{\"step\":3,\"eval/accuracy\":0.75,\"rl/loss\":0.1,\"rl/reward\":0.25}\n"
    );
}

#[test]
fn responses_become_a_file_per_step_with_a_column_per_reward() {
    let line = |step: u64, text: &str, tag: &str| {
        format!(
            "{{\"step\":{step},\"prompt\":\"p\",\"response\":\"{text}\",\"rewards\":{{\"accuracy\":1.0,\"tag\":{tag}}}}}\n"
        )
    };
    let run = run_with("samples.jsonl", &(line(3, "é", "null") + &line(3, "b", "0.5") + &line(12, "c", "0")));
    let files = completions(run.path()).unwrap();
    let names: Vec<&str> = files.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["completions/completions_00003.parquet", "completions/completions_00012.parquet"]);
    let mut file = tempfile::tempfile().unwrap();
    std::io::Write::write_all(&mut file, &files[0].1).unwrap();
    let reader = SerializedFileReader::new(file).unwrap();
    let shown = |row: Row| {
        row.get_column_iter().map(|(name, field)| format!("{name}={field}")).collect::<Vec<_>>().join(" ")
    };
    let rows: Vec<String> = reader.get_row_iter(None).unwrap().map(|row| shown(row.unwrap())).collect();
    assert_eq!(
        rows,
        [
            r#"step="3" prompt="p" completion="é" accuracy=1.0 tag=null advantage=null"#,
            r#"step="3" prompt="p" completion="b" accuracy=1.0 tag=0.5 advantage=null"#,
        ]
    );
}

#[test]
fn what_is_no_record_is_refused_with_its_place() {
    let run = run_with("metrics.jsonl", "{\"step\":0}\n");
    let error = metrics(run.path()).unwrap_err().to_string();
    assert!(error.contains("metrics.jsonl:1: stage is missing"), "{error}");
    let error = completions(run.path()).unwrap_err().to_string();
    assert!(error.contains("samples.jsonl: cannot be read") && error.contains("llm-train train"), "{error}");
    std::fs::write(run.path().join("samples.jsonl"), "{\"step\":0}\n[\n").unwrap();
    let error = completions(run.path()).unwrap_err().to_string();
    assert!(error.contains("samples.jsonl:2: not a JSON object"), "{error}");
}
