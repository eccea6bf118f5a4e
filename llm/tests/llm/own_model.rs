//! A checkpoint and data of one's own: presets, plans, what comes out again; and how a model is found, or why not.

use std::path::Path;
use std::process::Command;

use grpo_lambda_decoder::lora;
use grpo_lambda_decoder::model::{ModelConfig, weights};

use crate::common::{checkpoint, llm_train, run, shape, train};

/// Rows that the test model's tokenizer can read.
fn data(directory: &Path, rows: usize) -> String {
    let line = |i: usize| format!("{{\"problem\": \"{i} + {}\", \"answer\": \"{}\"}}\n", i % 7, i + i % 7);
    let path = directory.join("sums.jsonl");
    std::fs::write(&path, (0..rows).map(line).collect::<String>()).unwrap();
    format!("task.data={}", path.display())
}

const OWN: &[&str] = &[
    "rl.steps=2",
    "rl.prompts_per_step=2",
    "rl.group_size=2",
    "rl.max_new_tokens=6",
    "eval.n=3",
    "task.template=line",
];

#[test]
fn the_presets_for_ones_own_model_ask_for_it_and_train_it_where_its_names_say() {
    let dir = tempfile::tempdir().unwrap();
    let base = dir.path().join("my-model");
    checkpoint(&base, &shape(), usize::MAX);
    let (data, from) = (data(dir.path(), 60), format!("model.checkpoint={}", base.display()));
    llm_train(&["train", "--preset", "finetune"], "")
        .refused(2, &["preset finetune: model.checkpoint and task.data are missing; give them as in model.checkpoint=DIR"]);
    llm_train(&["train", "--preset", "finetune-lora", &from], "").refused(2, &["task.data is missing"]);
    for (preset, name) in [("finetune", "my-model-sums"), ("finetune-lora", "my-model-sums-lora")] {
        let words = [&["train", "--preset", preset, &data, &from, "lora.rank=0"][..], OWN].concat();
        let words: Vec<&str> = match preset {
            "finetune" => words.into_iter().filter(|w| *w != "lora.rank=0").collect(),
            _ => words.into_iter().map(|w| if w == "lora.rank=0" { "lora.rank=4" } else { w }).collect(),
        };
        let mut command = Command::new(env!("CARGO_BIN_EXE_llm-train"));
        let done = run(command.current_dir(dir.path()).args(&words), "");
        done.output();
        let there = dir.path().join("runs").join(name);
        assert!(there.join("summary.json").exists(), "{}", done.stderr);
        let config = std::fs::read_to_string(there.join("config.toml")).unwrap();
        assert!(config.contains("steps = 0") && config.contains("name = \"grpo\""), "{config}");
        assert!(!done.stderr.contains("middling"), "{}", done.stderr);
    }
}

#[test]
fn a_plan_says_what_the_run_would_be_and_does_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let base = dir.path().join("base");
    checkpoint(&base, &shape(), usize::MAX);
    let (data, from) = (data(dir.path(), 60), format!("model.checkpoint={}", base.display()));
    let there = dir.path().join("there");
    let start = ["train", "--preset", "finetune", "--run", there.to_str().unwrap(), &data, &from];
    let done = llm_train(&[&start[..], OWN, &["--dry-run"]].concat(), "");
    let text = done.output();
    for part in [
        "Nothing was run",
        "rows ",
        " for training, ",
        "held out",
        "prompts ",
        "solutions ",
        "memory ",
        "time ",
        "rl.steps = 2 (preset: 200)",
        "rl.max_new_tokens = 6",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert!(!text.contains("= none"), "the checkpoint takes the place of the preset's shape: {text}");
    assert!(
        text.contains("exceed rl.max_new_tokens = 6") || text.contains("all within rl.max_new_tokens = 6"),
        "{text}"
    );
    let printed = llm_train(&[&start[..], OWN, &["--print-config"]].concat(), "");
    let preset = dir.path().join("printed.toml");
    std::fs::write(&preset, printed.output()).unwrap();
    let again = llm_train(&["train", "--preset", preset.to_str().unwrap(), "--print-config"], "");
    assert_eq!(again.output(), printed.output(), "what is printed is a preset that repeats it");
    assert!(!there.exists());
    // A broken input is refused by the plan as by the run.
    llm_train(
        &[&start[..], OWN, &["--dry-run", "rl.max_new_tokens=60000"]]
            .concat()
            .into_iter()
            .filter(|w| *w != "rl.max_new_tokens=6")
            .collect::<Vec<_>>(),
        "",
    )
    .refused(2, &["exceeds the model's limit"]);
}

#[test]
fn help_shows_the_values_of_the_preset_that_is_named() {
    let tiny = llm_train(&["train", "--help"], "");
    assert!(
        tiny.output().contains("under --preset tiny") && tiny.output().contains("rl.lr=0.0001\n"),
        "{}",
        tiny.stdout
    );
    let own = llm_train(&["train", "--preset", "finetune", "--help"], "");
    assert!(
        own.output().contains("under --preset finetune") && own.output().contains("rl.lr=0.000001\n"),
        "{}",
        own.stdout
    );
    assert!(own.output().contains("rl.max_new_tokens=512\n"));
}

#[test]
fn lengths_filter_rows_and_contradictions_are_told() {
    let dir = tempfile::tempdir().unwrap();
    let base = dir.path().join("base");
    checkpoint(&base, &shape(), usize::MAX);
    let path = dir.path().join("rows.jsonl");
    let mut rows: String =
        (0..40).map(|i| format!("{{\"problem\": \"{i} + 1\", \"answer\": \"{}\"}}\n", i + 1)).collect();
    rows += "{\"problem\": \"7 + 1\", \"answer\": \"9\"}\n";
    rows += &format!("{{\"problem\": \"{}1 + 1\", \"answer\": \"2\"}}\n", "1 + ".repeat(20));
    std::fs::write(&path, &rows).unwrap();
    let shown = llm_train(&["data", path.to_str().unwrap()], "");
    assert!(
        shown.output().contains("conflicts 1 row has the problem of an earlier row and another answer"),
        "{}",
        shown.stdout
    );
    assert!(shown.output().contains("rows.jsonl:41"), "{}", shown.stdout);
    let there = dir.path().join("run");
    let (data, from) =
        (format!("task.data={}", path.display()), format!("model.checkpoint={}", base.display()));
    let words = [
        "train",
        "--preset",
        "finetune",
        "--run",
        there.to_str().unwrap(),
        &data,
        &from,
        "task.max_prompt_tokens=20",
        "task.levels=1",
    ];
    let done = llm_train(&[&words[..], OWN].concat(), "");
    done.output();
    assert!(done.stderr.contains("1 rows left out, longer than task.max_prompt_tokens"), "{}", done.stderr);
    assert!(
        done.stderr.contains("warning: ") && done.stderr.contains("another answer, so one of them is wrong"),
        "{}",
        done.stderr
    );
    assert!(
        done.stderr.contains("warning: task.levels=1 has no effect with task.kind=dataset"),
        "{}",
        done.stderr
    );
}

#[test]
fn a_model_goes_out_in_the_type_it_came_in() {
    let dir = tempfile::tempdir().unwrap();
    let base = dir.path().join("base");
    let model = checkpoint(&base, &shape(), usize::MAX);
    weights::save(&base, &shape(), model.parameters(), weights::SaveDtype::Bf16, usize::MAX).unwrap();
    let (data, from) = (data(dir.path(), 60), format!("model.checkpoint={}", base.display()));
    let (plain, adapted) = (dir.path().join("plain"), dir.path().join("adapted"));
    let start = |preset: &'static str, run: &Path| {
        let words =
            ["train", "--preset", preset, "--run", run.to_str().unwrap(), &data, &from, "sft.steps=0"];
        llm_train(&[&words[..], OWN].concat(), "").output();
    };
    start("finetune", &plain);
    start("finetune-lora", &adapted);
    let export = |run: &Path, out: &str, more: &[&str]| {
        let out = dir.path().join(out);
        let done = llm_train(
            &[&["export", "--model", run.to_str().unwrap(), "--out", out.to_str().unwrap()][..], more]
                .concat(),
            "",
        );
        (out, done)
    };
    let (out, done) = export(&plain, "a", &[]);
    assert!(done.output().contains("in bf16"), "{}", done.stdout);
    assert_eq!(ModelConfig::load(&out).unwrap().dtype, "bfloat16");
    let (out, done) = export(&plain, "b", &["--dtype", "f32"]);
    done.output();
    let latest = grpo_lambda_trainer::run::latest(&plain).unwrap().unwrap();
    assert!(
        std::fs::read(out.join("model.safetensors")).unwrap() == latest.read("model.safetensors").unwrap()
    );
    llm_train(&["score", "--model", out.to_str().unwrap()], "{\"ids\": [5, 6, 7]}").output();
    export(&plain, "c", &["--merge"]).1.refused(2, &["--merge: ", "has no adapter"]);
    export(&plain, "b", &[]).1.refused(2, &["--out ", "must be empty or new"]);
    // The adapter alone, for PEFT: its base is named from the root.
    let (out, done) = export(&adapted, "d", &[]);
    assert!(done.output().contains("the adapter (rank 16"), "{}", done.stdout);
    let config: serde_json::Value =
        serde_json::from_slice(&std::fs::read(out.join(lora::CONFIG_FILE)).unwrap()).unwrap();
    assert_eq!(config["base_model_name_or_path"].as_str(), base.to_str());
    let merged = dir.path().join("merged");
    let words = [
        "merge",
        "--model",
        base.to_str().unwrap(),
        "--adapter",
        out.to_str().unwrap(),
        "--out",
        merged.to_str().unwrap(),
    ];
    llm_train(&words, "").output();
    let (whole, done) = export(&adapted, "e", &["--merge", "--dtype", "f32"]);
    assert!(done.output().contains("with its adapter merged"), "{}", done.stdout);
    assert!(
        std::fs::read(whole.join("model.safetensors")).unwrap()
            == std::fs::read(merged.join("model.safetensors")).unwrap()
    );
}

#[test]
fn a_model_that_is_not_there_is_refused_by_what_is_there_instead() {
    let dir = tempfile::tempdir().unwrap();
    let good = dir.path().join("good");
    checkpoint(&good, &shape(), usize::MAX);
    let with = |name: &str, spoil: &dyn Fn(&Path)| {
        let at = dir.path().join(name);
        checkpoint(&at, &shape(), usize::MAX);
        spoil(&at);
        at.display().to_string()
    };
    let torch = with("torch", &|at| {
        std::fs::rename(at.join("model.safetensors"), at.join("pytorch_model.bin")).unwrap()
    });
    let mute = with("mute", &|at| std::fs::remove_file(at.join("tokenizer.json")).unwrap());
    let there = dir.path().join("run");
    train(&there, &[&["task.kind=addition", "sft.steps=2", "rl.steps=0", "eval.n=2"]]).output();
    let checkpoints = there.join("checkpoints").display().to_string();
    let hub = ["--model", "owner/model"];
    let commands = |model: &str| {
        [
            vec!["info".to_owned(), "--model".to_owned(), model.to_owned()],
            vec![
                "train".to_owned(),
                "--run".to_owned(),
                dir.path().join("new").display().to_string(),
                format!("model.checkpoint={model}"),
            ],
        ]
    };
    for (model, expected) in [
        ("/nope", &["/nope: no such directory; a model is a checkpoint directory"][..]),
        ("runs/nope", &["runs/nope: no such directory"]),
        ("owner/model", &["neither a path nor in the Hugging Face cache", "`hf download owner/model`"]),
        (&torch, &["holds pytorch_model.bin, which is not read", "save_pretrained"]),
        (&checkpoints, &["the checkpoints of a run, not one of them", "its latest is", "step-00000002"]),
    ] {
        for words in commands(model) {
            let mut command = Command::new(env!("CARGO_BIN_EXE_llm-train"));
            run(command.env("HF_HOME", dir.path()).args(&words), "").refused(2, expected);
        }
    }
    let words = ["train", "--run", "x", &format!("model.checkpoint={mute}")].map(str::to_owned);
    llm_train(&words.iter().map(String::as_str).collect::<Vec<_>>(), "")
        .refused(2, &["tokenizer.json: No such file", "AutoTokenizer"]);
    // A name of the hub that is in the cache is the model there.
    let snapshot = dir.path().join("hub/models--owner--model/snapshots/abc");
    checkpoint(&snapshot, &shape(), usize::MAX);
    let mut command = Command::new(env!("CARGO_BIN_EXE_llm-train"));
    let found = run(command.env("HF_HOME", dir.path()).arg("info").args(hub), "");
    assert!(found.output().contains("parameters"), "{}", found.stderr);
    let run_there = dir.path().join("from-hub");
    let mut command = Command::new(env!("CARGO_BIN_EXE_llm-train"));
    let words = [
        "train",
        "--run",
        run_there.to_str().unwrap(),
        "model.checkpoint=owner/model",
        "task.kind=addition",
        "sft.steps=1",
        "rl.steps=0",
        "eval.n=2",
    ];
    run(command.env("HF_HOME", dir.path()).args(words), "").output();
    let config = std::fs::read_to_string(run_there.join("config.toml")).unwrap();
    assert!(
        config.contains("checkpoint = \"owner/model\""),
        "the name is kept, not where it was found: {config}"
    );
}

#[test]
fn a_conversation_is_answered_line_by_line() {
    let dir = tempfile::tempdir().unwrap();
    checkpoint(dir.path(), &shape(), usize::MAX);
    let at = dir.path().to_str().unwrap();
    let done = llm_train(
        &["chat", "--model", at, "--max-new-tokens", "4"],
        "1 + 2\n\n/reset\n3 + 4\n/quit\nnever\n",
    );
    assert_eq!(done.output().lines().count(), 2, "{}", done.stdout);
    assert!(done.stderr.contains("every line is asked by itself"), "{}", done.stderr);
    llm_train(&["chat", "--model", at, "--temperature", "-1"], "")
        .refused(2, &["--temperature -1.0: must be"]);
}

/// The token of every digit is spelt as an escape sequence.
#[test]
fn what_a_model_says_commands_no_terminal() {
    let dir = tempfile::tempdir().unwrap();
    checkpoint(dir.path(), &shape(), usize::MAX);
    let file = dir.path().join("tokenizer.json");
    let mut json: serde_json::Value = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
    json["decoder"] =
        serde_json::json!({"type": "Replace", "pattern": {"Regex": "."}, "content": "\u{1b}[2J"});
    std::fs::write(&file, json.to_string()).unwrap();
    let words = ["chat", "--model", dir.path().to_str().unwrap(), "--max-new-tokens", "4"];
    let done = llm_train(&words, "1 + 2\n");
    let said = done.output();
    assert!(said.contains("\\u{1b}[2J") && !said.contains('\u{1b}'), "{said:?}");
}

/// A chat template sees what was said before; a forgotten conversation gives the first answer again.
#[test]
fn a_chat_template_remembers_the_conversation() {
    let dir = tempfile::tempdir().unwrap();
    checkpoint(dir.path(), &shape(), usize::MAX);
    let template = "{% for m in messages %}{{ m.content }} {% endfor %}";
    std::fs::write(dir.path().join("chat_template.jinja"), template).unwrap();
    let ask = |text: &str| {
        let words =
            ["chat", "--model", dir.path().to_str().unwrap(), "--max-new-tokens", "6", "--temperature", "0"];
        llm_train(&words, text).output().lines().map(str::to_owned).collect::<Vec<_>>()
    };
    let (forgotten, remembered) = (ask("1 + 2\n/reset\n1 + 2\n"), ask("1 + 2\n1 + 2\n"));
    assert_eq!(forgotten[0], forgotten[1]);
    assert_eq!(forgotten[0], remembered[0]);
    assert_ne!(remembered[0], remembered[1], "the second question came with the first");
}
