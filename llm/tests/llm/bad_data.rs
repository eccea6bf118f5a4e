//! What can be wrong with data, templates and their checkpoints, in one table as in `bad_input.rs`: exit code 2, one error line that names file, line
//! and field and what would be right, no panic, and no run directory left.

use crate::common::{Done, Place, TINY_MODEL, fixture, run, words};

const GOOD: &str = "{\"question\":\"2+3?\",\"answer\":\"5\"}\n";

/// A file's name and bytes, further arguments of `data`, and what is said.
type Case<'a> = (&'a str, &'a [u8], &'a str, &'a str);

fn good(more: &[u8]) -> Vec<u8> {
    [GOOD.as_bytes(), more, GOOD.as_bytes()].concat()
}

#[test]
fn files_and_rows() {
    let parquet = std::fs::read(fixture("data/gsm8k.parquet")).unwrap();
    let (truncated, no_end) = (&parquet[..parquet.len() - 20], &parquet[..4]);
    let mut flipped = parquet.clone();
    flipped[60] ^= 0xff;
    let array = |inner: &str| format!("[{}, {inner}", GOOD.trim()).into_bytes();
    let cases: &[Case<'_>] = &[
        ("a.jsonl", b"", "", "a.jsonl: there is no row"),
        ("a.jsonl", b"\n \n", "", "a.jsonl: there is no row"),
        ("a.json", b"[]", "", "a.json: there is no row"),
        ("a.json", b"", "", "a.json: there is no row"),
        ("a.json", GOOD.as_bytes(), "", "a.json: not a JSON array of rows … name the file .jsonl"),
        ("a.json", &array("{"), "", "a.json: cut short: the row that begins at line 1 has no end"),
        ("a.json", &array("{\"question\": 1}"), "", "a.json: cut short: the array of rows is not closed by line 1"),
        ("a.json", &array("{}] x"), "", "a.json: line 1: text after the end of the array"),
        ("a.parquet", truncated, "", "a.parquet: damaged or not a Parquet file ( … bytes): "),
        ("a.parquet", no_end, "", "a.parquet: damaged or not a Parquet file (4 bytes): "),
        ("a.parquet", b"this is no Parquet at all", "", "a.parquet: damaged or not a Parquet file (25 bytes): "),
        ("a.parquet", &flipped, "", "a.parquet: row … damaged: "),
        ("a.csv", b"question,answer\n", "", "a.csv: CSV is not read; convert it to JSON lines, as .jsonl"),
        ("a.txt", b"question,answer\n", "", "a.txt: its name must end in .jsonl, .ndjson, .json or .parquet"),
        ("a.jsonl", &good(b"{\"question\":\"\xff\"}\n"), "", "a.jsonl:2: not UTF-8: byte 14 of the row is no text; leave such rows out with --skip-bad-rows"),
        ("a.jsonl", &good(b"{\"question\":\"x\"}\n{}\n"), "", "a.jsonl:2: no column `answer`; the columns are question (and 1 more bad rows of 4)"),
        ("a.jsonl", &good(b"{\"question\":7.5,\"answer\":1}\n{\"question\":true,\"answer\":1}\n"), "", "a.jsonl:3: question = true: must be a text"),
        (
            "a.jsonl",
            b"{\"question\":\"x\",\"answer\":\"so\\n#### 5\"}\n{\"question\":\"x\",\"answer\":\"so 6\"}\n",
            "",
            "a.jsonl:2: answer: no `####` before the answer in \"so 6\"",
        ),
        (
            "a.jsonl",
            b"{\"problem\":\"x\",\"solution\":\"so \\\\boxed{5}\"}\n{\"problem\":\"x\",\"solution\":\"so \\\\boxed{6\"}\n",
            "",
            "a.jsonl:2: solution: no complete \\boxed{} in \"so \\\\boxed{6\"",
        ),
        ("a.jsonl", b"{\"text\":\"x\",\"label\":1}", "", "a.jsonl:1: no column that looks like the problem (problem, question, … the columns are label, text; name it with --column problem=NAME"),
        ("a.jsonl", b"{\"problem\":\"x\",\"label\":1}", "", "a.jsonl:1: no column that looks like the answer (answers, answer, … name it with --column answer=NAME"),
        ("a.jsonl", b"nonsense\n", "--skip-bad-rows", "a.jsonl: there is no row that can be used; the first: … a.jsonl:1: not JSON"),
    ];
    let place = Place::new();
    for (name, bytes, more, expected) in cases {
        place.write(name, bytes);
        place.run(&format!("data {name} {more}")).refused(2, expected);
    }
    place.refuses_each(include_str!("refused/rows.txt"), |row, _| {
        place.write("a.jsonl", format!("{GOOD}{row}\n{GOOD}"));
        place.run("data a.jsonl")
    });
    place.write("a.jsonl", GOOD);
    place.refuses(include_str!("refused/data.txt"));
}

#[test]
fn names_of_the_hub() {
    let place = Place::new();
    let data = |at: &str| {
        let mut command = place.command(&format!("data {at}"));
        run(command.env_remove("HF_HUB_CACHE").env("HF_HOME", place.at("")), "")
    };
    data("openai/gsm8k").refused(
        2,
        "openai/gsm8k: neither a path nor in the Hugging Face cache … download it with `hf download --repo-type dataset openai/gsm8k`",
    );
    let repository = place.at("hub/datasets--openai--gsm8k");
    let snapshot = repository.join("snapshots/0123abc");
    std::fs::create_dir_all(repository.join("refs")).unwrap();
    std::fs::write(repository.join("refs/main"), "0123abc").unwrap();
    for split in ["train", "test"] {
        for subset in ["main", "socratic"] {
            std::fs::create_dir_all(snapshot.join(subset)).unwrap();
            let file = format!("{subset}/{split}-00000-of-00001.parquet");
            std::fs::copy(fixture("data/gsm8k.parquet"), snapshot.join(file)).unwrap();
        }
    }
    data("openai/gsm8k").refused(
        2,
        "openai/gsm8k: several subsets: main, socratic; choose one, as in openai/gsm8k:main/train",
    );
    data("openai/gsm8k:main/tset")
        .refused(2, "openai/gsm8k: no split `tset` (did you mean `test`?); splits: test, train");
    let done = data("openai/gsm8k:main/test");
    for expected in [
        "layout    GSM8K: ",
        "subset    main\nsplit     test\nrows      55 (checksum ",
        "repeated  rows that repeat the problem of an earlier row: 0\n",
        "rules     references that lenient rules read otherwise: none; solutions that only they accept: 0\n",
    ] {
        done.says(expected);
    }
}

/// Templates of checkpoints.
#[test]
fn templates() {
    let place = Place::with_model();
    place.write("a.jsonl", GOOD);
    let shown = |template: &str| place.run(&format!("data a.jsonl --model model --template {template}"));
    let set = |text: &str| place.write("model/tokenizer_config.json", text);
    for (config, expected) in [
        (
            r#"{"eos_token": "<eos>"}"#,
            "tokenizer_config.json: no `chat_template`; this checkpoint has none, so choose a template",
        ),
        (
            r#"{"eos_token": "<eos>", "chat_template": 3}"#,
            "tokenizer_config.json: chat_template: must be a text or a list of named ones",
        ),
        (
            r#"{"eos_token": "<eos>", "chat_template": "{% for %}"}"#,
            "tokenizer_config.json: line 1 of the template: ",
        ),
        (
            r#"{"eos_token": "<eos>", "chat_template": "{{ raise_exception('no users here') }}"}"#,
            "tokenizer_config.json: line 1 of the template: the template refuses the conversation: no users here",
        ),
    ] {
        set(config);
        shown("chat").refused(2, expected);
    }
    set(r#"{"eos_token": "<eos>", "chat_template": "Q {{ messages[0].content }} A"}"#);
    shown("chat").says("prompt\nQ 2+3? A\n--- response to imitate\n\\boxed{5}\n--- answer: 5\n");
    std::fs::remove_file(place.at("model/tokenizer.json")).unwrap();
    shown("chat").refused(2, "cannot read … tokenizer.json … No such file");
}

const STEPS: &str = "task.kind=dataset eval.n=4 sft.steps=2 sft.batch=2 rl.steps=1 rl.prompts_per_step=2 rl.group_size=2 \
                     rl.max_new_tokens=4";

/// Forty rows.
fn sums() -> String {
    (0..40).map(|i| format!("{{\"problem\":\"{i}+1=?\",\"answer\":{}}}\n", i + 1)).collect()
}

fn train(place: &Place, settings: &str) -> Done {
    crate::common::train(&place.at("run"), &[&words(STEPS), &words(settings)])
}

#[test]
fn settings_of_a_run() {
    let place = Place::new();
    let rows = sums();
    let long = format!("{{\"problem\":\"{}\",\"answer\":1}}\n", "1+".repeat(20_000));
    for (name, text) in [
        ("a.jsonl", &rows),
        ("one.jsonl", &"{\"problem\":\"3+4=?\",\"answer\":7}\n".to_owned()),
        ("long.jsonl", &(rows.clone() + &long)),
    ] {
        place.write(name, text);
    }
    let train =
        |settings: &str| place.run_with(&format!("train --run run {STEPS} {settings}"), TINY_MODEL, "");
    place.refuses_each(include_str!("refused/task.txt"), |settings, _| train(settings));
    place
        .run("train --run run task.data=a.jsonl")
        .refused(2, "task.data = a.jsonl: task.kind is stories; with data it must be dataset");
    // Without its tokenizer a checkpoint is refused before anything starts.
    place.model("model");
    std::fs::remove_file(place.at("model/tokenizer.json")).unwrap();
    place
        .run("train --run run task.kind=dataset task.data=a.jsonl model.checkpoint=model")
        .refused(2, "cannot read … model/tokenizer.json … No such file");
    assert!(!place.at("run").exists());

    let done = train("task.data=long.jsonl task.on_bad_row=skip");
    done.output();
    done.tells("1 rows left out for their length, the first: ");
}

/// A run is continued on the rows and the prompts that it began with, or not at all.
#[test]
fn rows_and_a_template_that_change_between_two_starts() {
    let place = Place::new();
    let (rows, template) = (sums(), "{{ messages[-1].content }}\n".to_owned());
    let data = format!("task.data={} task.template=", place.write("a.jsonl", &rows));
    let data = data + &place.write("own.jinja", &template);
    train(&place, &data).output();
    let prompts = "the prompts made of task.data (template, tokenizer, order of the rows)";
    for (file, right, wrong, said) in [
        ("a.jsonl", &rows, rows.replace("39+1", "38+2"), "the rows of task.data"),
        ("own.jinja", &template, format!("So: {template}"), prompts),
    ] {
        place.write(file, wrong);
        let expected = format!(
            "state.json: {said} have changed since this run began (checksum … ), or this version reads them otherwise; restore them"
        );
        train(&place, &data).refused(2, &expected);
        place.write(file, right);
        assert!(train(&place, &data).stderr.contains("the run is already finished"));
    }
}
