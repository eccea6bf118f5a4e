//! Answers to scripts and shells: numbers as JSON, silence, versions, completions, manual pages; and advice on options that are settings.

use crate::common::{Place, TINY_MODEL, llm_train, run, train, words};

#[test]
fn an_evaluation_and_a_comparison_are_printed_as_json() {
    let place = Place::with_model();
    for out in ["a", "b"] {
        let line =
            format!("eval --model model --benchmarks tiny:addition --limit 4 --max-new-tokens 4 --out {out}");
        let done = place.run(&format!("{line} --output json"));
        let value: serde_json::Value = serde_json::from_str(done.output()).unwrap();
        assert!(value["benchmarks"].is_array() || value["benchmarks"].is_object(), "{value}");
    }
    let done = place.run("compare a b --output json");
    serde_json::from_str::<serde_json::Value>(done.output()).unwrap();
    let line = "compare --methods grpo,grpo_lambda --seeds 1 --run compare --output json task.kind=addition sft.steps=2 \
                rl.steps=1 rl.prompts_per_step=2 rl.group_size=2 eval.n=4";
    let done = place.run_with(line, TINY_MODEL, "");
    let value: serde_json::Value = serde_json::from_str(done.output()).unwrap();
    assert_eq!(value["differing_settings"]["reduction"]["grpo"], "response_mean", "{value}");
    assert_eq!(value["differing_settings"]["reduction"]["grpo_lambda"], "token_mean");
    // The same is said before the runs, with the name of the atlas.
    for part in
        ["The methods differ in these settings", "reduction", "response_mean", "clamp", "-0.1", "GRPO, 1/T"]
    {
        assert!(done.stderr.contains(part), "{part}: {}", done.stderr);
    }
}

#[test]
fn quiet_leaves_warnings_and_the_result() {
    let dir = tempfile::tempdir().unwrap();
    let settings =
        "--quiet task.kind=addition sft.steps=2 rl.steps=1 rl.prompts_per_step=2 eval.n=4 rl.lr=1000";
    let done = train(dir.path(), &[&words(settings)]);
    assert!(done.output().contains("held-out accuracy"));
    done.tells("warning: rl.lr = 1000");
    assert!(done.stderr.lines().all(|line| line.starts_with("warning")), "{}", done.stderr);
}

#[test]
fn the_version_names_commit_and_features() {
    let done = llm_train(&["--version"], "");
    assert!(done.output().starts_with("llm-train 0."), "{}", done.stdout);
    done.says("commit:  … features: ");
}

#[test]
fn shells_and_man_know_every_command() {
    for shell in ["bash", "zsh", "fish"] {
        let done = llm_train(&["completions", shell], "");
        assert!(done.output().contains("finetune") || done.output().contains("gpu-check"), "{shell}");
    }
    let place = Place::new();
    place.run("man --out pages").output();
    for page in ["llm-train.1", "llm-train-train.1", "llm-train-export.1"] {
        assert!(place.read(&format!("pages/{page}")).contains(".TH"), "{page}");
    }
}

#[test]
fn an_option_that_is_a_setting_is_answered_with_the_setting() {
    for (line, expected) in [
        ("data x.jsonl -x", "unexpected argument '-x' found; see llm-train data --help"),
        ("data x.jsonl --stepz", "'--stepz' found; tip: a similar argument exists: '--system'; see"),
        ("data x.jsonl --show -1", "'--show <N>': must be a whole number of at least 0"),
        ("train --steps 3", "a setting is key=value, here rl.steps=3 or sft.steps=3"),
        ("train --method GRPO", "here method.name=grpo"),
        ("train --group-size=4", "a setting is key=value, here rl.group_size=4; see"),
        ("train --qqq", "unexpected argument '--qqq' found; see llm-train train --help"),
        ("train --learning_rate 1e-6", "here it is `rl.lr`"),
        (
            "train num_generations=8",
            "unknown key `num_generations` (a name of TRL or verl; here it is `rl.group_size`)",
        ),
        ("train loss_type=dr_grpo", "dr_grpo is method.name=dr_grpo"),
        ("train lora.dropout=0.1", "with dropout, sampler and trainer would be two policies"),
        ("train method.name=GRPO", "unknown method `GRPO` (did you mean `grpo`?)"),
        ("train lamda=0.9", "(did you mean `method.lambda`?)"),
        ("compare --methods GRPO,rloo", "unknown method `GRPO` (did you mean `grpo`?)"),
        ("train rl.group_size=65536 rl.prompts_per_step=1048576", "sampling takes "),
    ] {
        let done = llm_train(&words(line), "");
        done.refused(2, expected);
        assert!(!done.stderr.contains("-- --"), "clap's advice leads astray: {}", done.stderr);
    }
    let place = Place::new();
    place.write("empty.toml", "# nothing\n");
    place.run("train --preset empty.toml").refused(2, "empty.toml: says nothing");
}

#[test]
fn what_the_papers_grid_needs_is_listed() {
    let place = Place::new();
    let mut command = place.command("reproduce --table 3 --dry-run");
    let done = run(command.env("HF_HOME", place.at("")), "");
    let needed = "Of 11 things that are needed 11 are missing … weights Qwen/Qwen2.5-Math-1.5B-Instruct: not in \
                  models/Qwen/Qwen2.5-Math-1.5B-Instruct; hf download Qwen/Qwen2.5-Math-1.5B-Instruct … \
                  data set openai/gsm8k:main/train: openai/gsm8k: neither a path nor in the Hugging Face cache … \
                  benchmark aime24: no aime24.jsonl in benchmarks";
    done.says(needed);
    let tiny = place.run("reproduce --table 5 --scale tiny --dry-run");
    assert!(tiny.output().contains("two cores") && !tiny.output().contains("H100"), "{}", tiny.stdout);
    assert!(!tiny.output().contains("are missing"));
}
