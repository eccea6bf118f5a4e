//! A checkpoint and data of one's own: presets, plans, what comes out again; and how a model is found, or why not.

use std::path::Path;

use grpo_lambda_decoder::lora;
use grpo_lambda_decoder::model::{ModelConfig, weights};
use grpo_lambda_trainer::config::{Config, fields};

use crate::common::{Place, assert_has, checkpoint, llm_train, run, shape, train, words};

/// A folder with the checkpoint `base`, and rows that its tokenizer can read.
fn place() -> Place {
    let place = Place::new();
    place.model("base");
    let line = |i: usize| format!("{{\"problem\": \"{i} + {}\", \"answer\": \"{}\"}}\n", i % 7, i + i % 7);
    place.write("sums.jsonl", (0..60).map(line).collect::<String>());
    place
}

const OWN: &str = "task.data=sums.jsonl model.checkpoint=base rl.steps=2 rl.prompts_per_step=2 rl.group_size=2 \
                   rl.max_new_tokens=6 eval.n=3 task.template=line";

#[test]
fn the_presets_for_ones_own_model_ask_for_it_and_train_it_where_its_names_say() {
    let place = place();
    place.run("train --preset finetune").refused(
        2,
        "preset finetune: model.checkpoint and task.data are missing; give them as in model.checkpoint=DIR",
    );
    place.run("train --preset finetune-lora model.checkpoint=base").refused(2, "task.data is missing");
    for (preset, more, name) in
        [("finetune", "", "base-sums"), ("finetune-lora", "lora.rank=4", "base-sums-lora")]
    {
        let done = place.run(&format!("train --preset {preset} {OWN} {more}"));
        done.output();
        assert!(place.at(&format!("runs/{name}/summary.json")).exists(), "{}", done.stderr);
        assert_has(&place.read(&format!("runs/{name}/config.toml")), "steps = 0 … name = \"grpo\"");
        assert!(!done.stderr.contains("middling"), "{}", done.stderr);
    }
}

#[test]
fn a_plan_says_what_the_run_would_be_and_does_nothing() {
    let place = place();
    let start = format!("train --preset finetune --run there {OWN}");
    let done = place.run(&format!("{start} --dry-run"));
    let text = done.output();
    let plan = "Nothing was run … rows … for training, … held out … prompts … solutions … memory … time         about … \
                rl.steps = 2 (preset: 200) … rl.max_new_tokens = 6";
    assert_has(text, plan);
    assert!(!text.contains("= none"), "the checkpoint takes the place of the preset's shape: {text}");
    let verdict = ["exceed rl.max_new_tokens = 6", "all within rl.max_new_tokens = 6"];
    assert!(verdict.iter().any(|words| text.contains(words)), "{text}");
    let printed = place.run(&format!("{start} --print-config"));
    place.write("printed.toml", printed.output());
    let again = place.run("train --preset printed.toml --print-config");
    assert_eq!(again.output(), printed.output(), "what is printed is a preset that repeats it");
    assert!(!place.at("there").exists());
    // A broken input is refused by the plan as by the run.
    let broken = start.replace("rl.max_new_tokens=6", "rl.max_new_tokens=60000");
    place.run(&format!("{broken} --dry-run")).refused(2, "exceeds the model's limit");
}

#[test]
fn help_shows_every_setting_with_its_value_under_the_preset_that_is_named() {
    for (named, preset) in [("", "tiny"), ("--preset finetune", "finetune")] {
        let done = llm_train(&words(&format!("train {named} --help")), "");
        done.says(&format!("under --preset {preset}"));
        let config = Config::resolve_part(preset, &[""; 0]).unwrap();
        for field in fields() {
            let value = config.entries().find(|(key, _)| *key == field.key);
            done.says(&format!("  {}={}\n", field.key, value.map_or(field.default, |(_, value)| value)));
        }
    }
}

#[test]
fn lengths_filter_rows_and_contradictions_are_reported() {
    let place = place();
    let mut rows: String =
        (0..40).map(|i| format!("{{\"problem\": \"{i} + 1\", \"answer\": \"{}\"}}\n", i + 1)).collect();
    rows += "{\"problem\": \"7 + 1\", \"answer\": \"9\"}\n";
    rows += &format!("{{\"problem\": \"{}1 + 1\", \"answer\": \"2\"}}\n", "1 + ".repeat(20));
    place.write("sums.jsonl", rows);
    let shown = place.run("data sums.jsonl");
    shown.says("conflicts 1 row has the problem of an earlier row and another answer");
    shown.says("sums.jsonl:41");
    let filters = "task.max_prompt_tokens=20 task.levels=1";
    let done = place.run(&format!("train --preset finetune --run run {OWN} {filters}"));
    done.output();
    done.tells("1 rows left out, longer than task.max_prompt_tokens");
    done.tells("warning: … another answer, so one of them is wrong");
    done.tells("warning: task.levels=1 has no effect with task.kind=dataset");
}

#[test]
fn a_model_goes_out_in_the_type_it_came_in() {
    let place = place();
    let base = place.at("base");
    let model = checkpoint(&base, &shape(), usize::MAX);
    weights::save(&base, &shape(), model.parameters(), weights::SaveDtype::Bf16, usize::MAX).unwrap();
    for (preset, run) in [("finetune", "plain"), ("finetune-lora", "adapted")] {
        place.run(&format!("train --preset {preset} --run {run} sft.steps=0 {OWN}")).output();
    }
    let weights = |name: &str| std::fs::read(place.at(name).join("model.safetensors")).unwrap();
    let export = |run: &str, out: &str| place.run(&format!("export --model {run} --out {out}"));
    export("plain", "a").says("wrote the model of plain … in bf16 to a\n");
    assert_eq!(ModelConfig::load(&place.at("a")).unwrap().dtype, "bfloat16");
    export("plain", "b --dtype f32").output();
    let latest = grpo_lambda_trainer::run::latest(&place.at("plain")).unwrap().unwrap();
    assert!(weights("b") == latest.read("model.safetensors").unwrap());
    place.run_with("score --model b", &[], "{\"ids\": [5, 6, 7]}").output();
    export("plain", "c --merge").refused(2, "--merge: … has no adapter");
    export("plain", "b").refused(2, "--out … must be empty or new");
    std::fs::create_dir(place.at("bare")).unwrap();
    export("bare", "f").refused(2, "--model bare: config.json: No such file; name a checkpoint or a run");
    // The adapter alone, for PEFT: its base is named from the root.
    export("adapted", "d").says("wrote the adapter of adapted … (rank 16");
    let config = place.json(&format!("d/{}", lora::CONFIG_FILE));
    let named = Path::new(config["base_model_name_or_path"].as_str().unwrap());
    assert!(named.is_absolute() && named.canonicalize().unwrap() == base.canonicalize().unwrap(), "{config}");
    place.run("export --model base --adapter d --out merged --dtype f32").output();
    export("adapted", "e --merge --dtype f32").says("with its adapter merged");
    assert!(weights("e") == weights("merged"));
}

#[test]
fn a_model_that_is_not_there_is_refused_by_what_is_there_instead() {
    let place = Place::new();
    for name in ["good", "torch", "mute"] {
        place.model(name);
    }
    std::fs::rename(place.at("torch/model.safetensors"), place.at("torch/pytorch_model.bin")).unwrap();
    std::fs::remove_file(place.at("mute/tokenizer.json")).unwrap();
    train(&place.at("run"), &[&["task.kind=addition", "sft.steps=2", "rl.steps=0", "eval.n=2"]]).output();
    let asked = |line: &str| run(place.command(line).env("HF_HOME", place.at("")), "");
    for (model, expected) in [
        ("/nope", "/nope: no such directory; a model is a checkpoint directory"),
        ("runs/nope", "runs/nope: no such directory"),
        ("owner/model", "neither a path nor in the Hugging Face cache … `hf download owner/model`"),
        ("./torch", "holds pytorch_model.bin, which is not read … save_pretrained"),
        ("run/checkpoints", "the checkpoints of a run, not one of them … its latest is … step-00000002"),
    ] {
        asked(&format!("generate --prompt 1 --model {model}")).refused(2, expected);
        asked(&format!("train --run new model.checkpoint={model}")).refused(2, expected);
    }
    let mute = place.run("train --run x model.checkpoint=./mute");
    mute.refused(2, "tokenizer.json: No such file … AutoTokenizer");
    // A name of the hub that is in the cache is the model there.
    place.model("hub/models--owner--model/snapshots/abc");
    asked("train --dry-run model.checkpoint=owner/model").says("parameters");
    let sums = "task.kind=addition sft.steps=1 rl.steps=0 eval.n=2";
    asked(&format!("train --run from-hub model.checkpoint=owner/model {sums}")).output();
    // The name is kept, not where it was found.
    assert_has(&place.read("from-hub/config.toml"), "checkpoint = \"owner/model\"");
}

#[test]
fn a_conversation_is_answered_line_by_line() {
    let place = Place::with_model();
    let said = "1 + 2\n\n/reset\n3 + 4\n/quit\nnever\n";
    let done = place.run_with("chat --model model --max-new-tokens 4", &[], said);
    assert_eq!(done.output().lines().count(), 2, "{}", done.stdout);
    done.tells("every line is asked by itself");
    place.run("chat --model model --temperature -1").refused(2, "--temperature -1.0: must be");
}

/// The token of every digit is spelt as an escape sequence.
#[test]
fn what_a_model_says_commands_no_terminal() {
    let place = Place::with_model();
    let mut json = place.json("model/tokenizer.json");
    json["decoder"] =
        serde_json::json!({"type": "Replace", "pattern": {"Regex": "."}, "content": "\u{1b}[2J"});
    place.write("model/tokenizer.json", json.to_string());
    let done = place.run_with("chat --model model --max-new-tokens 4", &[], "1 + 2\n");
    let said = done.output();
    assert!(said.contains("\\u{1b}[2J") && !said.contains('\u{1b}'), "{said:?}");
}

/// A chat template sees what was said before; a forgotten conversation gives the first answer again.
#[test]
fn a_chat_template_remembers_the_conversation() {
    let place = Place::with_model();
    place.write("model/chat_template.jinja", "{% for m in messages %}{{ m.content }} {% endfor %}");
    let ask = |text: &str| {
        let done = place.run_with("chat --model model --max-new-tokens 6 --temperature 0", &[], text);
        done.output().lines().map(str::to_owned).collect::<Vec<_>>()
    };
    let (forgotten, remembered) = (ask("1 + 2\n/reset\n1 + 2\n"), ask("1 + 2\n1 + 2\n"));
    assert_eq!(forgotten[0], forgotten[1]);
    assert_eq!(forgotten[0], remembered[0]);
    assert_ne!(remembered[0], remembered[1], "the second question came with the first");
    // A line beyond the context is not asked, and the conversation goes on.
    let long = format!("1 + 2\n{}\n1 + 2\n", "7".repeat(40_000));
    let done = place.run_with("chat --model model --max-new-tokens 6 --temperature 0", &[], &long);
    done.tells("this line is not asked; /reset begins again");
    assert_eq!(done.output().lines().collect::<Vec<_>>(), remembered);
}
