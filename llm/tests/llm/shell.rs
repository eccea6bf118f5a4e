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
    let place = Place::new();
    place.write("empty.toml", "# nothing\n");
    place.refuses_each(include_str!("refused/options.txt"), |line, _| {
        let done = place.run(line);
        assert!(!done.stderr.contains("-- --"), "clap's advice leads astray: {}", done.stderr);
        done
    });
}

/// Both dry runs know the paper's models without their weights; another checkpoint must be there.
#[test]
fn a_run_of_the_paper_is_planned_without_weights() {
    let place = Place::new();
    let plan = |words: &str| {
        let mut command = place.command(&format!("train --preset paper-r1-qwen-7b --dry-run {words}"));
        run(command.env("HF_HOME", place.at("")), "")
    };
    let done = plan("");
    done.says(
        "Of 2 things that are needed 2 are missing … weights deepseek-ai/DeepSeek-R1-Distill-Qwen-7B: not in … RL  … steps of … \
         prompts of 128 tokens … parameters      7615616512 … not here; the shape is the published one of",
    );
    assert!(std::fs::read_dir(place.at("")).unwrap().next().is_none(), "a plan writes nothing");
    plan("rl.group_size=1").refused(2, "rl.group_size");
    plan("model.checkpoint=elsewhere").refused(2, "elsewhere: no such directory");
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
