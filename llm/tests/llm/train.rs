//! A training run as a user starts it: an interrupted one continues to the same bytes.

use crate::common::{killed_until_done, lasting, with, words};
use crate::long;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use grpo_lambda_trainer::run;

/// A model small enough for every test, and most of a run.
const SMALL: &str = "model.hidden=32 model.layers=2 model.heads=2 model.kv_heads=1 model.intermediate=64 \
                     rl.prompts_per_step=4 rl.group_size=4 eval.n=20 checkpoint.every=2";

fn llm_train(directory: &Path, settings: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_llm-train-tested"));
    command.arg("train").arg("--run").arg(directory).args(with(SMALL, &words(settings)));
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

#[test]
fn a_run_killed_again_and_again_ends_in_the_bytes_of_an_unbroken_one() {
    for settings in [
        "task.kind=addition threads=2 sft.steps=30 rl.steps=12 rl.inner_updates=2 eval.every=5 checkpoint.every=3 method.beta=0.04",
        "task.kind=addition threads=2 sft.steps=15 rl.steps=6 method.beta=0.04 lora.rank=4 lora.targets=q_proj,v_proj,down_proj",
        "task.kind=addition threads=2 sft.steps=15 rl.steps=6 method.name=systematic_rloo rl.sampling=systematic rl.entropy_target=3 rl.entropy_coef=0.01",
        "task.kind=addition threads=2 sft.steps=15 rl.steps=6 method.name=spo_tree rl.sampling=tree rl.children=2,2 rl.segment=3",
        "task.kind=addition threads=2 sft.steps=15 rl.steps=6 method.name=spo_chain rl.completions=2 rl.inner_updates=2",
        "task.kind=addition threads=2 sft.steps=15 rl.steps=6 method.name=ppo critic.updates=2 lora.rank=4",
    ] {
        assert!(killed_again_and_again(settings) >= 2, "the run is too short to be interrupted: {settings}");
    }
}

/// The frozen reference of a stage is on the disk once, whatever checkpoints of it there are, also after the run was continued; each
/// checkpoint is whole without the others.
#[test]
#[cfg(unix)]
fn checkpoints_of_a_stage_share_the_file_of_their_reference() {
    use std::os::unix::fs::MetadataExt;
    let settings = "task.kind=addition threads=2 lora.rank=2 sft.steps=3 rl.steps=3 rl.prompts_per_step=1 rl.group_size=2 \
                    rl.max_new_tokens=3 eval.n=1 checkpoint.every=1 checkpoint.keep=9 method.beta=0.04";
    let run = tempfile::tempdir().unwrap();
    assert!(llm_train(run.path(), settings).output().unwrap().status.success());
    let checkpoint = |step: usize| run.path().join(format!("checkpoints/step-{step:08}"));
    let file = |step: usize| {
        let path = checkpoint(step).join("reference/model.safetensors");
        let inode = path.metadata().unwrap().ino();
        (inode, std::fs::read(path).unwrap())
    };
    // One a stage: the checkpoint between the two is of the second.
    let files: Vec<_> = (1..=6).map(file).collect();
    assert!(files[0] == files[1] && files[2..].windows(2).all(|pair| pair[0] == pair[1]));
    assert!(files[1].0 != files[2].0 && files[1].1 != files[2].1);
    // Continued from the fourth, without those before it.
    (1..=3).chain(5..=6).for_each(|step| std::fs::remove_dir_all(checkpoint(step)).unwrap());
    std::fs::remove_file(run.path().join("summary.json")).unwrap();
    assert!(llm_train(run.path(), settings).output().unwrap().status.success());
    assert!((4..=6).map(file).all(|found| found == files[3]));
    run::latest(run.path()).unwrap().unwrap().verify().unwrap();
}

/// Runs these settings once in one go and once with kills at ever later moments, and compares every byte that lasts; returns the number
/// of kills.
fn killed_again_and_again(settings: &str) -> usize {
    let whole = tempfile::tempdir().unwrap();
    let done = llm_train(whole.path(), settings).output().unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));

    let broken = tempfile::tempdir().unwrap();
    // At moments that fall anywhere: in a step, in an evaluation, in the writing of a checkpoint.
    let later = Duration::from_millis(long::of(70, 23));
    let kills = killed_until_done(|| llm_train(broken.path(), settings), later, |_| ());
    // The command line, in the first comment of the CSV, names the directory.
    let strip = |directory: &Path| {
        let named = directory.display().to_string();
        let clean = |(name, bytes): (String, Vec<u8>)| match name.as_str() {
            "metrics.csv" => (name, String::from_utf8(bytes).unwrap().replace(&named, "RUN").into_bytes()),
            _ => (name, bytes),
        };
        let names = ["config.toml", "metrics.jsonl", "metrics.csv", "samples.jsonl"];
        lasting(directory, &names).into_iter().map(clean).collect::<Vec<_>>()
    };
    let (a, b) = (strip(whole.path()), strip(broken.path()));
    assert_eq!(a.len(), b.len());
    for ((name, a), (_, b)) in a.iter().zip(&b) {
        assert!(a == b, "{name} differs after {kills} kills");
    }
    kills
}

/// Problems with a worked line before the answer (a response that begins with its box has no reasoning to score), and enough imitation that
/// some responses are right; then three steps.
const SCORED: &str = "task.levels=1 task.max_operand=3 sft.steps=150 sft.lr=0.01 rl.steps=3 rl.prompts_per_step=6 rl.group_size=6 \
                      rl.max_new_tokens=24 eval.n=4 eval.every=0 checkpoint.every=1";

#[test]
fn methods_that_ask_the_model_again_resume_to_the_same_bytes_with_any_threads_and_micro_batches() {
    for method in ["method.name=oar_g", "method.name=oar_p"].into_iter().take(long::of(1, 2)) {
        let settings = |others: &str| format!("{SCORED} {method} {others}");
        assert!(killed_again_and_again(&settings("threads=2")) >= 1);

        let (a, b) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        for (run, others) in
            [(&a, "threads=2"), (&b, "threads=1 memory.micro_batch_tokens=50 memory.recompute_layers=true")]
        {
            assert!(llm_train(run.path(), &settings(others)).output().unwrap().status.success());
        }
        let weights =
            |directory: &Path| run::latest(directory).unwrap().unwrap().read("model.safetensors").unwrap();
        assert!(weights(a.path()) == weights(b.path()), "{method}: another model with other threads");
        let metrics = |directory: &Path| std::fs::read_to_string(directory.join("metrics.jsonl")).unwrap();
        // Of the RL steps: the loss of supervised learning is summed in the order of its micro-batches.
        let rl = |text: String| {
            text.lines().filter(|l| l.contains("\"rl\"")).map(str::to_owned).collect::<Vec<_>>()
        };
        assert_eq!(rl(metrics(a.path())), rl(metrics(b.path())), "{method}");
        let cost = |column: &str| {
            let rows = metrics(a.path());
            let rows = rows.lines().map(|l| serde_json::from_str::<serde_json::Value>(l).unwrap());
            rows.filter_map(|row| row[column].as_f64()).sum::<f64>()
        };
        assert!(cost("evidence_forward_tokens") > 0.0, "{method}: no response was scored");
        assert_eq!(cost("evidence_backward_tokens") > 0.0, method.ends_with("oar_g"));
    }
}
