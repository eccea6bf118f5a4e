//! Files of strangers and runs that others touched: what would silently be another model, another problem or another log is refused or named.

use grpo_lambda_decoder::model::ModelConfig;
use grpo_lambda_decoder::model::weights::{self, Parameters, SaveDtype, Tensor};
use serde_json::{Value, json};

use crate::common::{Done, Place, assert_has, assert_same_run, lasting, shape, stop_after, with};

const SMALL: &str = "task.kind=dataset task.template=line threads=1 eval.n=5 eval.every=2 sft.steps=2 sft.batch=4 rl.steps=4 rl.prompts_per_step=2 \
                     rl.group_size=2 rl.max_new_tokens=8 checkpoint.every=2 checkpoint.keep=99";

fn train(place: &Place, run: &str, more: &[&str]) -> Done {
    let inputs = format!("train --run {run} model.checkpoint=model task.data=rows.jsonl");
    place.run_with(&inputs, &with(SMALL, more), "")
}

fn rows(n: u32, blank: &str) -> String {
    (0..n)
        .map(|i| format!("{{\"question\":\"{i}+1=?{blank}\",\"answer\":\"{}\",\"tests\":[{i}]}}\n", i + 1))
        .collect()
}

/// A place with a model and sixty rows.
fn place() -> Place {
    let place = Place::with_model();
    place.write("rows.jsonl", rows(60, ""));
    place
}

/// Changes a field of a JSON file.
fn set(place: &Place, file: &str, field: &str, value: Value) {
    let mut fields = place.json(file);
    fields[field] = value;
    place.write(file, fields.to_string());
}

/// Changes a JSON file of a checkpoint, which is then what another version might have written: its manifest has the digest of the new text.
fn rewrite(place: &Place, checkpoint: &str, file: &str, change: impl FnOnce(&mut Value)) {
    let (file, manifest) = (format!("{checkpoint}/{file}"), format!("{checkpoint}/manifest.json"));
    let digest =
        |text: &str| format!("{{\"bytes\":{},\"crc32c\":{}}}", text.len(), crc32c::crc32c(text.as_bytes()));
    let (before, mut fields) = (place.read(&file), place.json(&file));
    change(&mut fields);
    let after = fields.to_string();
    let sealed: String = place.read(&manifest).split_whitespace().collect();
    assert_eq!(sealed.matches(&digest(&before)).count(), 1, "{sealed}");
    let sealed = sealed.replace(&digest(&before), &digest(&after));
    let content = sealed.strip_prefix("{\"content\":").unwrap().rsplit_once(",\"crc32c\":").unwrap().0;
    let crc = crc32c::crc32c(content.as_bytes());
    place.write(&manifest, format!("{{\"content\":{content},\"crc32c\":{crc}}}"));
    place.write(&file, after);
}

#[test]
fn a_tied_head_with_numbers_of_its_own_is_refused_and_a_copy_passes() {
    let place = Place::with_model();
    let tied = ModelConfig { tie_word_embeddings: true, ..shape() };
    let mut parameters: Parameters<f32> = weights::initialise(&tied, 3, 0.3);
    let head: Tensor<f32> = parameters["model.embed_tokens.weight"].clone();
    parameters.insert("lm_head.weight".into(), head);
    let untied = ModelConfig { tie_word_embeddings: false, ..tied.clone() };
    let score = |parameters: &Parameters<f32>| {
        // Written with a head, read as tied.
        weights::save(&place.at("model"), &untied, parameters, SaveDtype::F32, usize::MAX).unwrap();
        set(&place, "model/config.json", "tie_word_embeddings", true.into());
        place.run_with("score --model model", &[], "{\"ids\":[3,4,5]}\n")
    };
    score(&parameters).output();
    parameters.get_mut("lm_head.weight").unwrap().data[7] += 0.5;
    score(&parameters).refused(2, "model.safetensors … `lm_head.weight` … differs from `model.embed_tokens.weight` … tie_word_embeddings");
}

#[test]
fn an_adapter_in_the_directory_of_the_weights_is_refused() {
    let place = Place::with_model();
    let score = || place.run_with("score --model model", &[], "{\"ids\":[3,4,5]}\n");
    score().output();
    place.write("model/adapter_config.json", "{\"peft_type\": \"LORA\"}");
    score().refused(2, "model/adapter_config.json … lies with the weights … llm-train export --adapter");
}

#[test]
fn files_of_a_tokenizer_that_contradict_each_other_are_refused_or_named() {
    let place = place();
    place.write("t.jinja", "{{ messages[-1].content }}!\r\n{{ 'a\r\nb' }}?\r");
    let done = place.run("data rows.jsonl --template t.jinja --show 1");
    done.says("0+1=?!\na\nb?");
    assert!(!done.output().contains("\\r"), "{}", done.output());
    let data = || place.run("data rows.jsonl --model model");
    let tokens = place.json("model/tokenizer_config.json");
    let eos = place.json("model/tokenizer.json")["added_tokens"][0].clone();
    let id = eos["id"].to_string();
    set(
        &place,
        "model/tokenizer_config.json",
        "added_tokens_decoder",
        json!({id.as_str(): {"content": "other"}}),
    );
    let expected =
        format!("added_tokens_decoder: token {id} is `other`, and `{}`", eos["content"].as_str().unwrap());
    data().refused(2, &expected);
    // transformers 5.24: a token that tokenizer.json has keeps its id under `PreTrainedTokenizerFast`, and gets another one under `Qwen2Tokenizer`, which a model of
    // type qwen2 has in any case.
    let other = json!({"9": {"content": eos["content"], "special": true}});
    for (model, class, refused) in [
        ("llama", "PreTrainedTokenizerFast", false),
        ("llama", "Qwen2Tokenizer", true),
        ("qwen2", "PreTrainedTokenizerFast", true),
    ] {
        set(&place, "model/config.json", "model_type", model.into());
        let mut config = tokens.clone();
        config["tokenizer_class"] = class.into();
        config["added_tokens_decoder"] = other.clone();
        place.write("model/tokenizer_config.json", config.to_string());
        match refused {
            true => data().refused(2, "added_tokens_decoder: token 9 is `"),
            false => assert_has(data().output(), "rows.jsonl"),
        }
    }
    place.write("model/tokenizer_config.json", tokens.to_string());
    // Its pieces are those of no model that transformers knows.
    for (model, class, cut) in [
        ("qwen2", json!("PreTrainedTokenizerFast"), Some("Qwen2")),
        ("qwen3", json!("PreTrainedTokenizerFast"), None),
        ("qwen3", Value::Null, Some("Qwen2")),
        ("llama", json!("GPT2Tokenizer"), Some("GPT-2")),
        ("llama", json!("LlamaTokenizerFast"), None),
    ] {
        set(&place, "model/config.json", "model_type", model.into());
        set(&place, "model/tokenizer_config.json", "tokenizer_class", class);
        let done = data();
        match cut {
            Some(name) => done.says(&format!("transformers 5 cuts them as {name} does")),
            None => assert!(!done.output().contains("transformers 5 cuts"), "{}", done.output()),
        }
    }
}

#[test]
fn export_keeps_the_type_of_a_checkpoint_that_is_from_no_run() {
    let place = Place::with_model();
    let parameters = weights::initialise(&shape(), 3, 0.3);
    for (dtype, name) in [(SaveDtype::Bf16, "bf16"), (SaveDtype::F32, "f32")] {
        weights::save(&place.at("model"), &shape(), &parameters, dtype, usize::MAX).unwrap();
        place.run(&format!("export --model model --out {name}")).says(&format!("in {name}"));
        let (before, after) =
            (place.at("model/model.safetensors"), place.at(&format!("{name}/model.safetensors")));
        assert_eq!(std::fs::read(before).unwrap(), std::fs::read(after).unwrap());
    }
}

#[test]
fn export_keeps_the_fields_of_others_in_the_configuration() {
    let place = place();
    let theirs = [
        ("initializer_range", json!(0.0417)),
        ("use_cache", json!(false)),
        ("unsloth_version", json!("2026.1")),
        ("transformers_version", json!("5.23.0")),
        ("transformers.js_config", json!({"dtype": "q4"})),
    ];
    theirs.iter().for_each(|(name, value)| set(&place, "model/config.json", name, value.clone()));
    train(&place, "run", &[]).output();
    for model in ["model", "run"] {
        place.run(&format!("export --model {model} --out {model}_out --dtype bf16")).output();
        let written = place.json(&format!("{model}_out/config.json"));
        theirs.iter().for_each(|(name, value)| assert_eq!(&written[*name], value, "{model}: {name}"));
        assert_eq!(written["torch_dtype"], "bfloat16", "{model}");
        place.run_with(&format!("score --model {model}_out"), &[], "{\"ids\":[3,4,5]}\n").output();
    }
}

#[test]
fn a_run_goes_on_with_the_model_configuration_that_it_began_with_or_not_at_all() {
    let place = place();
    train(&place, "run", &[]).output();
    stop_after(&place.at("run"), 4);
    for (file, field, value) in [
        ("model/config.json", "rms_norm_eps", json!(0.1)),
        ("model/config.json", "rope_theta", json!(77.0)),
        ("model/generation_config.json", "eos_token_id", json!([1, 5])),
        ("model/tokenizer_config.json", "chat_template", json!("{{ messages[0].content }}")),
    ] {
        let before = std::fs::read(place.at(file)).ok();
        if before.is_none() {
            place.write(file, "{}");
        }
        set(&place, file, field, value);
        let expected = file.strip_prefix("model/").unwrap();
        train(&place, "run", &[]).refused(2, &format!("{expected} … has changed since this run began"));
        match before {
            Some(bytes) => drop(place.write(file, bytes)),
            None => std::fs::remove_file(place.at(file)).unwrap(),
        }
    }
    train(&place, "run", &[]).output();
}

const STEP_2: &str = "run/checkpoints/step-00000002";

#[test]
fn a_run_goes_on_under_the_end_tokens_and_the_grader_that_it_began_with_or_not_at_all() {
    let place = place();
    train(&place, "run", &[]).output();
    let whole = lasting(&place.at("run"), &["metrics.jsonl"]);
    stop_after(&place.at("run"), 2);
    let recorded = place.json(&format!("{STEP_2}/state.json"));
    let ends = recorded["end_tokens"].as_array().unwrap().clone();
    let with_field = |field: &str, value: Value| {
        rewrite(&place, STEP_2, "state.json", |state| {
            *state = recorded.clone();
            state[field] = value;
        });
        train(&place, "run", &[])
    };
    with_field("end_tokens", json!([ends[0], 5])).refused(
        2,
        &format!("state.json: this version ends responses at the tokens {}, not [{}, 5] as when this run began; go on with", json!(ends), ends[0]),
    );
    with_field("grader", json!(0)).refused(
        2,
        "state.json: this version grades by revision … of the grader, not 0 as when this run began; go on with",
    );
    rewrite(&place, STEP_2, "state.json", |state| *state = recorded.clone());
    train(&place, "run", &[]).output();
    assert_eq!(lasting(&place.at("run"), &["metrics.jsonl"]), whole);
}

#[test]
fn a_run_goes_on_where_its_inputs_were_moved_if_they_are_the_same() {
    let place = place();
    train(&place, "whole", &[]).output();
    train(&place, "moved", &[]).output();
    stop_after(&place.at("moved"), 4);
    std::fs::rename(place.at("rows.jsonl"), place.at("other.jsonl")).unwrap();
    std::fs::rename(place.at("model"), place.at("elsewhere")).unwrap();
    let resumed = |data: &str| {
        let inputs = format!("train --run moved {SMALL} model.checkpoint=elsewhere task.data={data}");
        place.run(&inputs)
    };
    place.write("wrong.jsonl", rows(60, "!"));
    resumed("wrong.jsonl").refused(2, "the rows of task.data have changed since this run began");
    resumed("other.jsonl").output();
    assert_same_run(&place.at("moved"), &place.at("whole"));
    assert_has(&place.read("moved/config.toml"), "data = \"other.jsonl\" … checkpoint = \"elsewhere\"");
}

#[test]
fn without_the_mark_of_its_end_a_run_evaluates_once_more() {
    let place = place();
    train(&place, "run", &[]).output();
    let log = place.read("run/metrics.jsonl");
    std::fs::remove_file(place.at("run/end.json")).unwrap();
    train(&place, "run", &[]).output();
    assert_eq!(place.read("run/metrics.jsonl"), log);
    train(&place, "run", &[]).tells("already finished");
}

/// `cp -r` of a run that goes on may miss files of a checkpoint that a better one replaces meanwhile.
#[test]
fn a_copy_that_lacks_its_best_checkpoint_gets_another() {
    let place = place();
    let resumed = || train(&place, "run", &["checkpoint.best=true"]);
    resumed().output();
    stop_after(&place.at("run"), 4);
    let best = place.json("run/best.json")["content"]["step"].as_u64().unwrap();
    assert!(best <= 4, "{best}");
    std::fs::remove_file(place.at(&format!("run/checkpoints/step-{best:08}/model.safetensors"))).unwrap();
    let done = resumed();
    done.output();
    done.tells(&format!("the checkpoint of the best evaluation, of step {best}, is not there whole"));
    place.run("eval --model run/best --limit 2 --max-new-tokens 4").output();
    assert!(place.json("run/best.json")["content"]["step"].as_u64() > Some(best));
}

#[test]
fn the_same_problem_in_another_spelling_is_on_the_same_side() {
    let place = place();
    let counterparts = format!("{}{}", rows(150, ""), rows(150, " "))
        + &rows(150, "").replace('?', " ?").replace(" ?", "\u{a0}?");
    place.write("rows.jsonl", counterparts);
    place.run("data rows.jsonl").says("rows that repeat the problem of an earlier row: 150");
    place.write(
        "nfc.jsonl",
        "{\"problem\":\"caf\u{e9}\",\"answer\":\"1\"}\n{\"problem\":\"cafe\u{301}\",\"answer\":\"2\"}\n",
    );
    place
        .run("data nfc.jsonl")
        .says("earlier row: 1 … 1 row has the problem of an earlier row and another answer");
    let tested = rows(20, "");
    place.write("rows.jsonl", rows(60, " \\n"));
    place.write("test.jsonl", tested);
    train(&place, "run", &["task.test=test.jsonl"])
        .tells("20 rows are held-out problems and are not trained on");
}

#[test]
fn a_reward_program_gets_the_rows_columns_and_the_step() {
    let place = place();
    let program = "while read -r line; do printf '%s\\n' \"$line\" >> asked; echo 0.5; done";
    place.write("reward.sh", program);
    let trained = |run: &str, band: &str| {
        let reward = ["reward.command=sh reward.sh", "reward.accuracy=0", "rl.dynamic_sampling=true", band];
        train(&place, run, &reward).output();
    };
    trained("run", "rl.dynamic_band=0.4,0.6");
    let asked: Vec<Value> = place.lines("asked");
    let steps: Vec<u64> = asked.iter().map(|a| a["step"].as_u64().unwrap()).collect();
    assert_eq!((steps[0], *steps.last().unwrap()), (0, 3));
    for one in &asked {
        let number = one["tests"][0].as_u64().unwrap();
        assert_eq!(one["gold"], (number + 1).to_string(), "{one}");
    }
    // A band that no group is in samples all the rounds there are.
    let all = place.lines::<Value>("asked").len();
    std::fs::remove_file(place.at("asked")).unwrap();
    trained("other", "rl.dynamic_band=0.6,1");
    assert!(place.lines::<Value>("asked").len() > 3 * all);
    place.write(
        "twice.jsonl",
        rows(60, "").replacen("}", ",\"row_step\":1}", 60).replacen("}", ",\"step\":1}", 3),
    );
    let twice = ["task.data=twice.jsonl", "reward.command=sh reward.sh"];
    place.run_with(&format!("train --run twice {SMALL} model.checkpoint=model"), &twice, "").refused(
        2,
        "twice.jsonl:1: columns `step` and `row_step`: reward.command reads `step` of a row as `row_step`",
    );
    assert!(!place.at("twice").exists());
    train(&place, "third", &["rl.dynamic_band=0.4,0.6"])
        .refused(2, "rl.dynamic_band = 0.4,0.6 … rl.dynamic_sampling, which is false");
}

#[test]
fn arguments_of_a_template_reach_every_prompt_and_are_recorded() {
    let place = place();
    let template = "{{ messages[-1].content }}{% if loud %}!{% endif %}{{ strftime_now('%Y') }}";
    place.write("t.jinja", template);
    let args = ["--template-args", "{\"loud\": true}"];
    place
        .run_with("data rows.jsonl --template t.jinja", &args, "")
        .says("0+1=?!2025 … strftime_now of the template always gives the date 1 January 2025");
    place.run("data rows.jsonl --template t.jinja").says("0+1=?2025");
    place
        .run_with("data rows.jsonl --template t.jinja --template-args", &["{\"loudly\": 1}"], "")
        .refused(2, "does not read `loudly` (did you mean `loud`?)");
    place
        .run_with("data rows.jsonl --template t.jinja --template-args", &["{\"loud\": 1, \"loud\": 0}"], "")
        .refused(2, "`loud` is given twice");
    place.run_with("data rows.jsonl --template-args", &["{}"], "").refused(2, "template `line` takes none");
    let setting = "task.template_args={\"loud\": true}";
    train(&place, "run", &["task.template=t.jinja", setting]).output();
    assert_has(&place.read("run/config.toml"), "template_args = … loud");
    assert_has(&place.read("run/samples.jsonl"), "=?!2025");
    let without = train(&place, "run", &["task.template=t.jinja"]);
    assert_eq!(without.code, Some(2));
    without.tells("holds a run with other settings … task.template_args: {\"loud\": true} -> none");
    place
        .run("generate --model run --prompt 7+1=? --max-new-tokens 2")
        .tells("with the arguments {\"loud\": true}");
    place.run("eval --model run --limit 2").output();
    assert_has(&place.read("run/eval/eval.toml"), "template_args = … loud");
    // A conversation is asked as the run asked, or as the option says: its greedy answers are those of `generate`.
    let answers = ["{\"loud\": true}", "{\"loud\": false}"].map(|args| {
        let chat = |more: &[&str]| {
            let done = place.run_with("chat --model run", more, "7+1=?\n");
            (done.output().trim().to_owned(), done.stderr.clone())
        };
        let (given, said) = chat(&["--template-args", args, "--temperature", "0", "--max-new-tokens", "12"]);
        assert_has(&said, &format!("is asked with … t.jinja with the arguments {args}"));
        if args.contains("true") {
            assert_eq!(chat(&["--temperature", "0", "--max-new-tokens", "12"]).0, given);
        }
        given
    });
    let generated = ["!2025", "2025"].map(|end| {
        place.write("whole.jinja", format!("{{{{ messages[-1].content }}}}{end}"));
        let line = "generate --model run --template whole.jinja --prompt 7+1=? --greedy --max-new-tokens 12";
        place.run(line).output().to_owned()
    });
    assert_ne!(generated[0], generated[1], "the prompts must differ in their answers");
    for (answer, generated) in answers.iter().zip(&generated) {
        assert!(generated.contains(answer.as_str()), "{answer} is not in {generated}");
    }
}

#[test]
fn lines_of_requests_are_read_with_a_mark_and_refused_where_a_key_is_given_twice() {
    let place = Place::with_model();
    let score = |text: &[u8]| {
        place.write("in.jsonl", text);
        place.run("score --model model --input in.jsonl")
    };
    score(b"\xef\xbb\xbf{\"ids\":[3,4]}\n").output();
    score(b"{\"ids\":[3,4],\"ids\":[4,3]}\n").refused(2, "in.jsonl:1: `ids` is given twice");
    score(b"{\"ids\":[3,4]}\n\xff\n").refused(2, "in.jsonl:2: not UTF-8 text");
}

#[test]
#[cfg(unix)]
fn a_path_that_is_no_text_and_pointers_of_git_lfs_get_a_line() {
    use std::os::unix::ffi::OsStrExt;
    let place = Place::with_model();
    let mut command = place.command("data");
    command.arg(std::ffi::OsStr::from_bytes(b"bad\xff.jsonl"));
    let done = crate::common::run(&mut command, "");
    assert_eq!((done.code, done.stderr.contains("panicked")), (Some(2), false), "{}", done.stderr);
    let pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 5\n";
    place.write("model/model.safetensors", pointer);
    place
        .run_with("score --model model", &[], "{\"ids\":[3]}")
        .refused(2, "model.safetensors … a pointer of Git LFS … git lfs pull");
}

#[test]
fn an_extension_under_other_rows_leaves_the_run_as_it_was() {
    let place = place();
    train(&place, "run", &[]).output();
    let kept = || ["config.toml", "summary.json", "metrics.jsonl"].map(|f| place.read(&format!("run/{f}")));
    let before = kept();
    place.write("rows.jsonl", rows(61, ""));
    train(&place, "run", &["rl.steps=6", "--extend"]).refused(2, "the rows of task.data have changed");
    assert_eq!(kept(), before);
    place.write("rows.jsonl", rows(60, ""));
    train(&place, "run", &[]).tells("already finished");
    train(&place, "run", &["rl.steps=6", "--extend"]).tells("continuing from step 6");
}

#[test]
fn a_row_that_was_added_to_a_finished_run_is_found() {
    let place = place();
    train(&place, "run", &[]).output();
    let log = place.read("run/metrics.jsonl");
    place.write("run/metrics.jsonl", format!("{log}{{\"step\":99,\"stage\":\"rl\",\"loss\":3}}\n"));
    place.run("doctor run").refused(2, "metrics.jsonl … but the run ended when it had");
    place.write("run/metrics.jsonl", log);
    place.run("doctor run").output();
}

#[test]
fn a_template_must_write_the_problem_and_the_solved_examples() {
    let place = place();
    place.write("lost.jinja", "Question: {{ question }}\nAnswer:");
    place
        .run("data rows.jsonl --template lost.jinja")
        .refused(2, "lost.jinja`: leaves out the problem; write the `content` of the last of `messages`");
    place.write("last.jinja", "Q: {{ messages[-1].content }} A:");
    place.run("data rows.jsonl --template last.jinja").says("Q: 0+1=? A:");
    let solved = |i: u32| {
        format!("{{\"problem\":\"{i}+2=?\",\"solution\":\"it is {0}\",\"answer\":\"{0}\"}}\n", i + 2)
    };
    place.write("solved.jsonl", solved(1) + &solved(2));
    place
        .run("eval --model model --benchmarks rows.jsonl --shots 2 --shots-from solved.jsonl --template last.jinja")
        .refused(2, "last.jinja`: leaves out the solved examples");
}
