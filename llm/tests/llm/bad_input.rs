//! What can be wrong with what a user hands to `llm-train`, in one table: the exit code is 2 where the input was refused and 1
//! where the work broke off, there is exactly one error line, it names file, field and value and what would be right, and
//! nobody sees a panic. Lines of `generate` and `score`: `commands.rs`.

use std::path::{Path, PathBuf};
use std::process::Command;

use grpo_lambda_decoder::model::config::EMBEDDING;
use grpo_lambda_decoder::model::{ModelConfig, weights};
use grpo_lambda_trainer::input::tokens::ModelTokenizer;
use grpo_lambda_trainer::run;
use safetensors::tensor::{Dtype, TensorView};

use crate::common::{Done, Place, TINY_MODEL, checkpoint, column, llm_train, shape, stop_after, with};

/// Something done to a good checkpoint directory.
type Spoil = fn(&Path);

fn edit(path: PathBuf, from: &str, to: &str) {
    let text = std::fs::read_to_string(&path).unwrap();
    assert!(text.contains(from), "{from} is not in {}:\n{text}", path.display());
    std::fs::write(path, text.replacen(from, to, 1)).unwrap();
}

fn config(directory: &Path, from: &str, to: &str) {
    edit(directory.join("config.json"), from, to);
}

fn resize(directory: &Path, cut: u64) {
    let file = std::fs::File::options().write(true).open(directory.join("model.safetensors")).unwrap();
    file.set_len(file.metadata().unwrap().len() - cut).unwrap();
}

/// One tensor alone, of this dtype and shape.
fn one_tensor(directory: &Path, dtype: Dtype, bytes: usize, shape: Vec<usize>) {
    let data = vec![0u8; bytes * shape.iter().product::<usize>()];
    let view = TensorView::new(dtype, shape, &data).unwrap();
    let file = safetensors::serialize([(EMBEDDING, view)], None).unwrap();
    std::fs::write(directory.join("model.safetensors"), file).unwrap();
}

/// The spoilt checkpoint, what every command says of it, and whether a dry run and `score`, which needs no tokenizer, say so too.
const CHECKPOINTS: &[(Spoil, &str, bool)] = &[
    (
        |d| std::fs::remove_file(d.join("model.safetensors")).unwrap(),
        "model.safetensors: … No such file",
        true,
    ),
    (
        |d| std::fs::write(d.join("model.safetensors"), b"this is no tensor file").unwrap(),
        "model.safetensors: damaged or not a safetensors file (22 bytes)",
        true,
    ),
    (|d| resize(d, 100), "model.safetensors: damaged or not a safetensors file … bytes)", true),
    (
        |d| {
            std::fs::remove_file(d.join("model.safetensors")).unwrap();
            checkpoint(d, &shape(), 40_000);
            std::fs::remove_file(d.join("model-00002-of-00003.safetensors")).unwrap();
        },
        "model-00002-of-00003.safetensors: … No such file",
        true,
    ),
    (
        |d| {
            std::fs::remove_file(d.join("model.safetensors")).unwrap();
            checkpoint(d, &shape(), 40_000);
            edit(d.join("model.safetensors.index.json"), "model-00001-of-00003", "../elsewhere");
        },
        "model.safetensors.index.json: … is not mapped to a file of this directory",
        true,
    ),
    (
        |d| one_tensor(d, Dtype::I64, 8, vec![ModelTokenizer::tiny().len(), 32]),
        "model.safetensors: tensor `model.embed_tokens.weight`: expected dtype F32, BF16 or F16, found I64",
        true,
    ),
    (
        |d| std::fs::write(d.join("config.json"), "{\"hidden_size\": 32,").unwrap(),
        "config.json: not a JSON configuration … line 1 column",
        true,
    ),
    (|d| std::fs::remove_file(d.join("config.json")).unwrap(), "config.json: … No such file", true),
    (|d| std::fs::remove_file(d.join("tokenizer.json")).unwrap(), "tokenizer.json … No such file", false),
    (|d| std::fs::write(d.join("tokenizer.json"), "{}").unwrap(), "tokenizer.json: not a tokenizer", false),
    (
        |d| {
            let small = ModelConfig { vocab_size: ModelTokenizer::tiny().len() - 1, ..shape() };
            checkpoint(d, &small, usize::MAX);
        },
        "tokenizer and model do not fit: token ` … has id 199, but the model's vocabulary ends at 198",
        false,
    ),
    (
        |d| config(d, "\"eos_token_id\": null", "\"eos_token_id\": 90000"),
        "end-of-sequence id 90000 is not in a vocabulary of 200",
        false,
    ),
];

/// The commands that read a checkpoint; the last two need no tokenizer.
const READERS: [&str; 4] = [
    "generate --model model --prompt 3",
    "train --run run model.checkpoint=model",
    "train --dry-run model.checkpoint=model",
    "score --model model",
];

#[test]
fn checkpoints() {
    for &(spoil, expected, by_all) in CHECKPOINTS {
        let place = Place::with_model();
        spoil(&place.at("model"));
        for command in &READERS[..if by_all { 4 } else { 2 }] {
            place.run(command).refused(2, expected);
            assert!(!place.at("run").exists(), "{command} left a directory: {expected}");
        }
    }
}

#[test]
fn configurations_of_checkpoints() {
    let place = Place::with_model();
    let whole = place.read("model/config.json");
    for command in READERS {
        place.refuses_each(include_str!("refused/configs.txt"), |change, _| {
            let (from, to) = change.split_once(" -> ").unwrap();
            assert!(whole.contains(from), "{from} is not in {whole}");
            place.write("model/config.json", whole.replacen(from, to, 1));
            place.run(command)
        });
    }
}

const SUMS: &[&str] = &["task.kind=addition", "eval.n=2"];

fn train(run: &Path, settings: &[&str]) -> Done {
    crate::common::train(run, &[SUMS, settings])
}

#[test]
fn settings() {
    let place = Place::new();
    place.write("a.toml", "seed = 1\nrl = = 2\n");
    place.write("b.toml", "[rl]\nstep = 2\n");
    place.write("c.toml", "[rl]\nsteps = -2\n");
    place.write("file", "x");
    std::fs::create_dir(place.at("held")).unwrap();
    place.write("held/notes.txt", "x");
    place.refuses(include_str!("refused/settings.txt"));
    place.refuses_each(include_str!("refused/keys.txt"), |keys, _| {
        place.run(&format!("train --run run {keys}"))
    });
}

/// A model `short` with a context of 12 tokens stands next to the others.
fn with_a_short_model() -> Place {
    let place = Place::with_model();
    checkpoint(&place.at("short"), &ModelConfig { max_position_embeddings: 12, ..shape() }, usize::MAX);
    place
}

#[test]
fn lines_of_requests() {
    let (place, good) = (with_a_short_model(), "{\"ids\": [1, 2]}\n");
    place.refuses_each(include_str!("refused/lines.txt"), |line, stdin| {
        place.run_with(line, &[], &format!("{good}\n{stdin}{good}"))
    });
    place.write("prompts.jsonl", b"{\"text\": \"3 + 4\"}\n\xff\xfe\n");
    place.run("generate --model model --prompts prompts.jsonl").refused(2, "prompts.jsonl:2: not UTF-8 text");
}

#[test]
fn a_context_too_short_for_prompt_and_response() {
    let place = Place::new();
    // A sum has 6 tokens, and its worked solution 5 more.
    checkpoint(&place.at("model"), &ModelConfig { max_position_embeddings: 10, ..shape() }, usize::MAX);
    let done = |settings: &str| place.run(&format!("train --run run model.checkpoint=model {settings}"));
    for steps in ["sft.steps=0", "sft.steps=1"] {
        done(&format!("{steps} rl.steps=1"))
            .refused(2, "prompt 0 has … with 64 new ones it exceeds the model's limit of 10");
        assert!(!place.at("run").exists(), "a refused run left a directory");
    }
    done("task.kind=addition rl.max_new_tokens=1 sft.steps=1 rl.steps=0")
        .refused(2, "supervised step 0: row … max_position_embeddings = 10");
}

#[test]
fn weights_that_are_not_numbers() {
    let place = Place::new();
    let model = checkpoint(&place.at("model"), &shape(), usize::MAX);
    let mut parameters = model.parameters().clone();
    parameters.get_mut("model.norm.weight").unwrap().data[3] = f32::NAN;
    weights::save(&place.at("model"), &shape(), &parameters, weights::SaveDtype::F32, usize::MAX).unwrap();
    place
        .run("generate --model model --prompt 3")
        .refused(1, "prompt 0, response 0, token 0: … the weights hold NaN or infinity");
    place
        .run_with("score --model model", &[], "\n{\"ids\": [1, 2, 3]}\n")
        .refused(1, "stdin:2: a score is NaN; the weights hold NaN or infinity");
}

#[test]
fn numbers_on_the_command_line() {
    let place = with_a_short_model();
    let ids = "{\"ids\": [1, 2]}";
    place.refuses_each(include_str!("refused/numbers.txt"), |line, _| place.run_with(line, &[], ids));
}

/// Weights whose size is right and whose contents are not, and a run in the place of one of its checkpoints.
#[test]
fn checkpoints_of_runs() {
    let dir = tempfile::tempdir().unwrap();
    let run = dir.path().join("run");
    let settings = ["sft.steps=4", "rl.steps=0", "sft.batch=4"];
    train(&run, &settings).output();
    let from = format!("model.checkpoint={}", run.display());
    let other = dir.path().join("other");
    llm_train(&["train", "--run", other.to_str().unwrap(), &from], "")
        .refused(2, "a run directory; name one of its checkpoints: its latest is … step-00000004");
    let file = run.join("checkpoints/step-00000004/model.safetensors");
    let mut bytes = std::fs::read(&file).unwrap();
    *bytes.last_mut().unwrap() ^= 1;
    std::fs::write(&file, bytes).unwrap();
    let expected = "model.safetensors: its size or checksum is not what was written";
    train(&run, &settings).refused(2, expected);
    llm_train(&["score", "--model", run.to_str().unwrap()], "{\"ids\": [1, 2]}").refused(2, expected);
}

/// `llm-train ... | head -1` and `2>&1 | head -1`: a reader that went away is no reason to panic, and none to stop a run.
#[test]
fn readers_that_go_away() {
    let dir = tempfile::tempdir().unwrap();
    let run = dir.path().join("run");
    let words =
        [&["--run", run.to_str().unwrap()], TINY_MODEL, SUMS, &["sft.steps=2", "rl.steps=1"]].concat();
    for args in [vec!["--help"], words] {
        let mut child = Command::new(env!("CARGO_BIN_EXE_llm-train-tested"))
            .args(&args)
            .stdout(std::process::Stdio::piped())
            .stderr(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        drop((child.stdout.take(), child.stderr.take()));
        assert_eq!(child.wait().unwrap().code(), Some(0), "{args:?}");
    }
    assert!(run.join("summary.json").exists());
}

#[test]
fn a_run_that_is_done_keeps_its_summary() {
    let dir = tempfile::tempdir().unwrap();
    let settings = ["sft.steps=2", "rl.steps=1", "rl.prompts_per_step=2"];
    train(dir.path(), &settings).output();
    let summary = || std::fs::read_to_string(dir.path().join("summary.json")).unwrap();
    let first = summary();
    let again = train(dir.path(), &settings);
    again.says("after GRPO-lambda");
    again.tells("the run is already finished");
    // Its seconds, above all, are those of the run and not of looking at it again.
    assert_eq!(summary(), first);
    std::fs::write(dir.path().join("summary.json"), "{}").unwrap();
    train(dir.path(), &settings).output();
    assert!(summary().contains("\"accuracy_after\""), "one that cannot be read is written again");
}

/// A learning rate of 1e30 blows the weights up in one step; the gradient of the next is NaN.
#[test]
fn gradients_that_are_not_numbers_are_skipped_and_counted_and_stop_the_run() {
    let dir = tempfile::tempdir().unwrap();
    let settings =
        ["sft.steps=20", "sft.lr=1e30", "sft.warmup=0", "sft.grad_clip=none", "rl.max_nan_steps=4"];
    let done = train(dir.path(), &settings);
    done.refused(
        1,
        "4 steps in a row had a gradient with NaN or infinity (first in ` … lower the learning rate … at step 4",
    );
    for count in 1..=4 {
        let said = format!("step {count}: ");
        let line = done.stderr.lines().find(|l| l.contains(&said) && l.contains("step skipped"));
        assert!(line.is_some_and(|l| l.contains(&format!("({count} in a row)"))), "{count}: {}", done.stderr);
    }
    assert_eq!(column(dir.path(), "sft", "skipped"), [0.0, 1.0, 1.0, 1.0]);
}

/// The coefficient of an adaptive bonus is in the log, and stays where the weights did.
#[test]
#[cfg(unix)]
fn an_adaptive_coefficient_does_not_move_in_a_step_that_was_skipped() {
    let bonus = "rl.entropy_target=100 rl.entropy_coef=0.01 sft.steps=2 rl.steps=3 rl.max_nan_steps=9 method.name=dr_grpo method.beta=0";
    let place = Place::new();
    place.write("huge.sh", "n=0\nwhile read -r line; do n=$((1 - n)); echo ${n}e60; done\n");
    let huge = format!("reward.command=sh {}", place.at("huge.sh").display());
    for (more, expected) in [(&[][..], [0.01, 0.015, 0.02]), (&["reward.accuracy=0", &huge], [0.01; 3])] {
        let dir = tempfile::tempdir().unwrap();
        train(dir.path(), &with(bonus, more)).output();
        assert_eq!(column(dir.path(), "rl", "entropy_coef"), expected);
        assert_eq!(column(dir.path(), "rl", "skipped"), [f64::from(u8::from(!more.is_empty())); 3]);
    }
}

/// A rate out of any range is warned of before the run, and a run that it threw off says so in its summary.
#[test]
fn divergence_is_called_divergence() {
    let dir = tempfile::tempdir().unwrap();
    let settings = ["sft.steps=150", "sft.lr=0.01", "rl.steps=6", "rl.prompts_per_step=4", "rl.group_size=4"];
    let done = train(&dir.path().join("a"), &[&settings[..], &["rl.lr=1000"]].concat());
    done.says("warning: RL diverged: the mean entropy of a token went from");
    done.tells("warning: rl.lr = 1000.0: AdamW moves a weight by about that much");
    let summary = std::fs::read_to_string(dir.path().join("a/summary.json")).unwrap();
    assert!(summary.contains("\"diverged\": \"RL diverged"), "{summary}");
    train(&dir.path().join("b"), &[&settings[..], &["rl.lr=1e30"]].concat()).refused(
        1,
        "the score of token 0 is NaN … training has diverged; lower the learning rate (rl.lr = 1e30)",
    );
    let calm = train(&dir.path().join("c"), &[&settings[..], &["rl.lr=1e-4"]].concat());
    assert!(!calm.output().contains("diverged") && !calm.stderr.contains("AdamW moves"), "{}", calm.stderr);
}

/// Without a reference policy there is no KL, and no number stands in its place.
#[test]
fn a_kl_that_is_not_computed_is_empty() {
    let dir = tempfile::tempdir().unwrap();
    let run = |name: &str, beta: &str| {
        let at = dir.path().join(name);
        let settings = ["sft.steps=0", "rl.steps=2", "rl.prompts_per_step=2", beta];
        let done = train(&at, &settings);
        done.output();
        let read = |name: &str| std::fs::read_to_string(at.join(name)).unwrap();
        let csv = read("metrics.csv");
        let rows: Vec<Vec<&str>> =
            csv.lines().skip(1).map(|line| line.split(',').collect::<Vec<_>>()).collect();
        let place = rows[0].iter().position(|name| *name == "kl").unwrap();
        let filled = rows[1..].iter().filter(|row| !row[place].is_empty()).count();
        let events = std::fs::read(at.join("events.out.tfevents.1.grpo-lambda")).unwrap();
        let in_events = events.windows(5).any(|w| w == b"rl/kl");
        (filled, read("metrics.jsonl").contains("\"kl\""), in_events, done.stderr.contains("KL "))
    };
    assert_eq!(run("without", "method.beta=0"), (0, false, false, false));
    assert_eq!(run("with", "method.beta=0.04"), (2, true, true, true));
}

/// With one token there is no answer: every reward is 0.
#[test]
fn rewards_that_never_differ_are_warned_of_with_likely_causes() {
    let dir = tempfile::tempdir().unwrap();
    let done =
        train(dir.path(), &["sft.steps=0", "rl.steps=7", "rl.prompts_per_step=2", "rl.max_new_tokens=1"]);
    assert!(done.output().contains("summary.json"));
    let warnings: Vec<&str> = done.stderr.lines().filter(|l| l.contains("rewards were equal")).collect();
    assert_eq!(warnings.len(), 1, "once, not at every step: {}", done.stderr);
    for cause in
        ["for 5 steps every group's", "too hard or too easy", "the grader may not find", "cut off before"]
    {
        assert!(warnings[0].contains(cause), "{cause}: {}", warnings[0]);
    }
    assert_eq!(column(dir.path(), "rl", "zero_variance_groups"), [2.0; 7]);
}

/// The number and the weights of the last checkpoint, of which every file is whole.
fn last(run: &Path) -> (u64, Vec<u8>) {
    let last = run::latest(run).unwrap().expect("a checkpoint");
    last.verify().unwrap();
    (last.step(), last.read("model.safetensors").unwrap())
}

/// Every write beyond a size is refused, as a full disk would: no privileges needed.
#[test]
fn a_limit_on_file_sizes_spares_the_last_good_checkpoint() {
    let dir = tempfile::tempdir().unwrap();
    let run = dir.path().join("run");
    let settings = &["sft.steps=12", "rl.steps=0", "checkpoint.every=4", "checkpoint.keep=9", "sft.batch=4"];
    train(&run, settings).output();
    let unbroken = last(&run);
    // As one that was killed after its first checkpoint leaves it: logs may be longer than the checkpoint knows.
    stop_after(&run, 4);
    // 64 blocks, of 512 or 1024 bytes: logs fit, weights do not. The signal that goes with the refusal ends no run.
    let script = "ulimit -f 64; exec \"$0\" \"$@\"";
    let mut command = Command::new("sh");
    command.args(["-c", script, env!("CARGO_BIN_EXE_llm-train-tested"), "train", "--run"]).arg(&run);
    let done = crate::common::run(command.args(TINY_MODEL).args(SUMS).args(settings), "");
    done.refused(1, "no checkpoint was written: … model.safetensors … those before it are kept");
    let names = std::fs::read_dir(run.join("checkpoints")).unwrap().map(|entry| entry.unwrap().file_name());
    assert_eq!(names.collect::<Vec<_>>(), ["step-00000004"], "{}", done.stderr);
    assert_eq!(last(&run).0, 4);
    train(&run, settings).output();
    assert!(last(&run) == unbroken, "another end than that of an unbroken run");
}
