//! What the tests of the command line share: a small checkpoint and a way to run `llm-train`.
#![allow(dead_code, unreachable_pub, clippy::unwrap_used)] // not every test file uses everything

mod cases;
pub mod http;
pub mod model_server;

pub(crate) use cases::cases;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use grpo_lambda_decoder::model::weights::{self, SaveDtype};
use grpo_lambda_decoder::model::{Architecture::Qwen2, Decoder, ModelConfig, ModelShape};
use grpo_lambda_trainer::input::tokens::ModelTokenizer;

/// Result of a command: its exit status and its streams.
pub struct Done {
    /// The exit code.
    pub code: Option<i32>,
    pub stdout: String,
    pub stderr: String,
}

impl Done {
    /// Its one error line, after checking that there is exactly one, that it is the last, and that nobody panicked.
    #[track_caller]
    pub fn error(&self) -> &str {
        let Done { code, stderr, .. } = self;
        let errors: Vec<&str> = stderr.lines().filter(|l| l.contains("error:")).collect();
        assert_eq!(errors.len(), 1, "exit code {code:?}, one error line expected:\n{stderr}");
        assert!(stderr.ends_with(&format!("{}\n", errors[0])), "the error is not the last line:\n{stderr}");
        assert!(!stderr.contains("panicked") && !stderr.contains("RUST_BACKTRACE"), "{stderr}");
        errors[0].strip_prefix("llm-train: error: ").unwrap_or_else(|| panic!("no prefix: {stderr}"))
    }

    /// [`Done::error`] with this exit code and in it the parts between the marks ` … `; nothing on stdout.
    #[track_caller]
    pub fn refused(&self, code: i32, expected: &str) {
        let error = self.error();
        assert_eq!(self.code, Some(code), "{error}");
        assert!(self.stdout.is_empty(), "{error}\n{}", self.stdout);
        assert_has(error, expected);
    }

    /// Its standard output, after checking that it succeeded.
    #[track_caller]
    pub fn output(&self) -> &str {
        assert_eq!(self.code, Some(0), "{}", self.stderr);
        &self.stdout
    }

    /// [`assert_has`] of its standard output, after checking that it succeeded.
    #[track_caller]
    pub fn says(&self, expected: &str) {
        assert_has(self.output(), expected);
    }

    /// [`assert_has`] of its standard error, whatever its exit code.
    #[track_caller]
    pub fn tells(&self, expected: &str) {
        assert_has(&self.stderr, expected);
    }

    /// Its standard output as JSON lines.
    #[track_caller]
    pub fn json(&self) -> Vec<serde_json::Value> {
        self.output().lines().map(|l| serde_json::from_str(l).unwrap()).collect()
    }
}

/// A text has all the parts between the marks ` … `.
#[track_caller]
pub fn assert_has(text: &str, expected: &str) {
    for part in expected.split(" … ") {
        assert!(text.contains(part), "expected {part:?}: {text}");
    }
}

/// Runs a command with this on its standard input.
pub fn run(command: &mut Command, stdin: &str) -> Done {
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    // A command that refuses its arguments does not read; that is its right.
    drop(child.stdin.take().unwrap().write_all(stdin.as_bytes()));
    finished(child)
}

/// Waits for the end of a command.
pub fn finished(child: Child) -> Done {
    let output = child.wait_with_output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    Done { code: output.status.code(), stdout: text(output.stdout), stderr: text(output.stderr) }
}

/// Starts a command again and again and kills it ever later, until it ends by itself; the number of kills. After each `killed` has its say.
pub fn killed_until_done(start: impl Fn() -> Command, later: Duration, killed: impl Fn(usize)) -> usize {
    for round in 1..400 {
        let mut child = start().stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        std::thread::sleep(later * round as u32);
        if let Some(status) = child.try_wait().unwrap() {
            assert!(status.success());
            return round - 1;
        }
        child.kill().unwrap();
        child.wait().unwrap();
        killed(round);
    }
    panic!("it makes no progress");
}

/// Runs `llm-train`.
pub fn llm_train(args: &[&str], stdin: &str) -> Done {
    run(Command::new(env!("CARGO_BIN_EXE_llm-train-tested")).args(args), stdin)
}

/// A decoder's shape with two heads, one of keys, for the tokenizer of the preset.
pub fn sized(hidden: usize, layers: usize) -> ModelShape {
    ModelShape { vocab: ModelTokenizer::tiny().len(), hidden, layers, heads: 2, kv_heads: 1 }
}

/// The shape of the test model.
pub fn shape() -> ModelConfig {
    ModelConfig { intermediate_size: 64, ..Qwen2.config(sized(32, 2)) }
}

/// Writes a checkpoint with random weights and the preset's tokenizer; in shards when `shard_bytes` is small.
pub fn checkpoint(directory: &Path, shape: &ModelConfig, shard_bytes: usize) -> Decoder<f32> {
    let parameters = weights::initialise(shape, 3, 0.3);
    weights::save(directory, shape, &parameters, SaveDtype::F32, shard_bytes).unwrap();
    for (name, bytes) in ModelTokenizer::tiny().files() {
        std::fs::write(directory.join(name), bytes).unwrap();
    }
    Decoder::new(shape.clone(), parameters).unwrap()
}

/// A folder that lives as long as the test. Commands run in it, so that their words name its files.
pub struct Place(pub tempfile::TempDir);

impl Place {
    pub fn new() -> Place {
        Place(tempfile::tempdir().unwrap())
    }

    /// One with the checkpoint `model` in it.
    pub fn with_model() -> Place {
        let place = Place::new();
        drop(place.model("model"));
        place
    }

    /// Writes [`checkpoint`] with the shape of the tests.
    pub fn model(&self, name: &str) -> Decoder<f32> {
        checkpoint(&self.at(name), &shape(), usize::MAX)
    }

    pub fn at(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    pub fn text(&self, name: &str) -> String {
        self.at(name).to_str().unwrap().to_owned()
    }

    /// Writes a file, and returns where.
    pub fn write(&self, name: &str, contents: impl AsRef<[u8]>) -> String {
        std::fs::write(self.at(name), contents).unwrap();
        self.text(name)
    }

    pub fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.at(name)).unwrap()
    }

    pub fn json(&self, name: &str) -> serde_json::Value {
        serde_json::from_str(&self.read(name)).unwrap()
    }

    /// The lines of a file of JSON lines.
    pub fn lines<T: serde::de::DeserializeOwned>(&self, name: &str) -> Vec<T> {
        self.read(name).lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// `llm-train` with these words, not yet started.
    pub fn command(&self, line: &str) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_llm-train-tested"));
        command.current_dir(self.0.path()).args(words(line));
        command
    }

    /// Runs `llm-train` with these words.
    pub fn run(&self, line: &str) -> Done {
        self.run_with(line, &[], "")
    }

    /// [`Place::run`] with further words, which may have blanks in them, and a standard input.
    pub fn run_with(&self, line: &str, more: &[&str], stdin: &str) -> Done {
        run(self.command(line).args(more), stdin)
    }
}

/// The paths of a folder's files, as far down as there are any.
fn names(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mut all: Vec<PathBuf> = entries
        .flat_map(|path| if path.is_dir() { [vec![path.clone()], names(&path)].concat() } else { vec![path] })
        .collect();
    all.sort();
    all
}

impl Place {
    /// Runs the commands of a table: each is refused with exit code 2, and no file comes of it.
    #[track_caller]
    pub fn refuses(&self, table: &str) {
        self.refuses_each(table, |line, stdin| self.run_with(line, &[], stdin));
    }

    /// [`Place::refuses`] of a table whose lines and standard input `run` makes a command of.
    #[track_caller]
    pub fn refuses_each(&self, table: &str, run: impl Fn(&str, &str) -> Done) {
        let before = names(self.0.path());
        for (line, stdin, expected) in cases(table) {
            run(line, &stdin).refused(2, expected);
            assert_eq!(names(self.0.path()), before, "{line:?} left something after");
        }
    }
}

/// A model that trains in no time, and no evaluation to speak of.
pub const TINY_MODEL: &[&str] = &[
    "model.hidden=32",
    "model.layers=2",
    "model.heads=2",
    "model.kv_heads=1",
    "model.intermediate=64",
    "threads=1",
];

/// The words of a command line; none of them has a blank in it.
pub fn words(line: &str) -> Vec<&str> {
    line.split_whitespace().collect()
}

/// The words of `line`, but for settings that are `given` otherwise, and then those.
pub fn with<'a>(line: &'a str, given: &[&'a str]) -> Vec<&'a str> {
    let key = |word: &'a str| word.split('=').next();
    let kept = words(line).into_iter().filter(|word| given.iter().all(|other| key(other) != key(word)));
    kept.chain(given.iter().copied()).collect()
}

/// `train` of [`TINY_MODEL`] with these settings.
pub fn train(run: &Path, settings: &[&[&str]]) -> Done {
    let run = ["train", "--run", run.to_str().unwrap()];
    llm_train(&[&[&run[..], TINY_MODEL], settings].concat().concat(), "")
}

/// The lines of a file of JSON lines.
pub fn json_lines(path: &Path) -> Vec<serde_json::Value> {
    let text = std::fs::read_to_string(path).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// The rows of a stage in the log of a run.
pub fn rows(run: &Path, stage: &str) -> Vec<serde_json::Value> {
    let rows = json_lines(&run.join("metrics.jsonl")).into_iter();
    rows.filter(|row| row["stage"] == stage).collect()
}

/// A number of every row of a stage; NaN where it has none.
pub fn column(run: &Path, stage: &str, name: &str) -> Vec<f64> {
    rows(run, stage).iter().map(|row| row[name].as_f64().unwrap_or(f64::NAN)).collect()
}

/// Files of a run by their names, and all those of its last checkpoint.
pub fn lasting(run: &Path, names: &[&str]) -> Vec<(String, Vec<u8>)> {
    let last = grpo_lambda_trainer::run::latest(run).unwrap().expect("a finished run has a checkpoint");
    let files = names.iter().map(|name| ((*name).to_owned(), std::fs::read(run.join(name)).unwrap()));
    files.chain(last.files().map(|name| (name.to_owned(), last.read(name).unwrap()))).collect()
}

/// Two runs have the same logs, and the same files in their last checkpoints.
#[track_caller]
pub fn assert_same_run(a: &Path, b: &Path) {
    let [a, b] = [a, b].map(|run| lasting(run, &["metrics.jsonl", "samples.jsonl"]));
    assert_eq!(a.len(), b.len());
    for ((name, a), (_, b)) in a.iter().zip(&b) {
        assert!(a == b, "{name} differs:\n{}\n{}", String::from_utf8_lossy(a), String::from_utf8_lossy(b));
    }
}

/// Leaves of a finished run what a kill right after the checkpoint of this step would have left.
pub fn stop_after(run: &Path, step: u64) {
    std::fs::remove_file(run.join("summary.json")).unwrap();
    for entry in std::fs::read_dir(run.join("checkpoints")).unwrap().map(Result::unwrap) {
        let of: u64 = entry.file_name().to_str().unwrap().strip_prefix("step-").unwrap().parse().unwrap();
        if of > step {
            std::fs::remove_dir_all(entry.path()).unwrap();
        }
    }
}

/// A copy of a finished run, and of it what [`stop_after`] leaves.
pub fn stopped_after(step: u64, run: &Path) -> tempfile::TempDir {
    let left = tempfile::tempdir().unwrap();
    copy(run, left.path());
    stop_after(left.path(), step);
    left
}

/// Two runs logged the same but for rounding in f32, in so many rows of supervised learning and of RL.
#[track_caller]
pub fn assert_the_same_to_rounding(a: &Path, b: &Path, [sft, rl]: [usize; 2]) {
    for (stage, rows, names) in [
        ("sft", sft, &["loss", "grad_norm"][..]),
        ("rl", rl, &["loss", "kl", "entropy", "tokens", "grad_norm"]),
    ] {
        for name in names {
            let (a, b) = (column(a, stage, name), column(b, stage, name));
            assert_eq!((a.len(), b.len()), (rows, rows), "{stage} {name}");
            for (step, (a, b)) in a.iter().zip(&b).enumerate() {
                assert!((a - b).abs() < 1e-4 * b.abs().max(1.0), "{stage} {name}, step {step}: {a} for {b}");
            }
        }
    }
}

/// Settings of methods whose sampler branches or completes prefixes, in runs with responses of at least three tokens. Their rewards
/// are drawn, since an untrained model answers nothing.
pub const OWN_SAMPLERS: [&str; 3] = [
    "method.name=spo_tree rl.sampling=tree rl.children=2,2,2 rl.segment=1 rl.group_size=8 reward.accuracy=0 reward.coin=1",
    "method.name=tree_rl rl.sampling=entropy_search rl.forks=2 rl.branches=1 rl.group_size=6 reward.accuracy=0 reward.coin=1",
    "method.name=vine_ppo rl.step_start=interval rl.segment=1 rl.completions=2 reward.accuracy=0 reward.coin=1",
];

/// The folder `llm`.
pub fn llm() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap()
}

/// A file that the tests read.
pub fn fixture(name: &str) -> PathBuf {
    llm().join("tests/fixtures").join(name)
}

/// Published data of this name, if it is where `GRPO_LAMBDA_DATA` says, or in `shared/data` next to the repository.
pub fn published(name: &str) -> Option<PathBuf> {
    let near = llm().ancestors().map(|d| d.join("shared/data"));
    let root = std::env::var_os("GRPO_LAMBDA_DATA").map(PathBuf::from);
    let found = root.into_iter().chain(near).map(|d| d.join(name)).find(|p| p.exists());
    if found.is_none() {
        eprintln!("skipped: {name} is not there (GRPO_LAMBDA_DATA names the directory of published data)");
    }
    found
}

/// Copies a folder with all that is in it.
pub fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap().map(Result::unwrap) {
        let target = to.join(entry.file_name());
        match entry.path().is_dir() {
            true => copy(&entry.path(), &target),
            false => drop(std::fs::copy(entry.path(), target).unwrap()),
        }
    }
}
