//! The directory of an evaluation, whose files are complete whenever the process was stopped.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use grpo_lambda_decoder::disk::{AppendFile, Disk, DiskError};
use serde::{Deserialize, Serialize};
use toml::Table;

use super::benchmark::slug;
use super::completion::CompletionRecord;
use super::settings::Settings;
use crate::run::{DirectoryLock, Mark, RunError, lock, look};

/// The reason why an evaluation's directory was refused.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    #[error(transparent)]
    Disk(#[from] DiskError),
    #[error(transparent)]
    Run(#[from] RunError),
    #[error(
        "{path} is not an evaluation: it has no {FILE}, but it is not empty either; give another directory with --out"
    )]
    NotOurs { path: PathBuf },
    #[error("{path}: {problem}; llm-train eval writes one")]
    Absent { path: PathBuf, problem: String },
    #[error(
        "{path} holds an evaluation with other settings; use its own, or another directory with --out: {differences}"
    )]
    Changed {
        path: PathBuf,
        /// The differences, stored -> requested.
        differences: String,
    },
    #[error(
        "{path}: no such file: {run} was not measured before RL and after it, or began before runs kept their held-out answers; ask both models \
         (llm-train eval --benchmarks {run}:held-out) and compare the two evaluations"
    )]
    NoAnswers { path: PathBuf, run: PathBuf },
    #[error("{place}: {problem}")]
    Damaged { place: String, problem: String },
    #[error(
        "{path}: under way, {done} of {all} problems of {benchmark} are done; the llm-train eval command that started it resumes it"
    )]
    UnderWay { path: PathBuf, benchmark: String, done: usize, all: usize },
}

/// The file with the settings of an evaluation.
pub const FILE: &str = "eval.toml";
const PROBLEMS: &str = "problems.jsonl";
const COMPLETIONS: &str = "completions.jsonl";

/// A line of `problems.jsonl`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct ProblemRecord {
    /// The problem's id within the benchmark.
    pub id: String,
    pub problem: String,
    pub golds: Vec<String>,
    pub prompt: String,
}

/// A benchmark's entry in `eval.toml`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct BenchmarkHeader {
    pub name: String,
    pub problems: usize,
    /// Checksum of problems and accepted answers.
    pub fingerprint: String,
    /// Checksum of the prompts.
    pub prompts: String,
}

impl BenchmarkHeader {
    pub fn new(name: &str, problems: &[ProblemRecord]) -> BenchmarkHeader {
        let with = |sum, text: &str| {
            crc32c::crc32c_append(
                crc32c::crc32c_append(sum, &(text.len() as u64).to_le_bytes()),
                text.as_bytes(),
            )
        };
        let asked = |sum, problem: &ProblemRecord| {
            let texts = std::iter::once(&problem.problem).chain(&problem.golds);
            crc32c::crc32c_append(texts.fold(sum, |sum, text| with(sum, text)), b"\n")
        };
        let prompt = |sum, problem: &ProblemRecord| with(sum, &problem.prompt);
        BenchmarkHeader {
            name: name.to_owned(),
            problems: problems.len(),
            fingerprint: format!("{:08x}", problems.iter().fold(0, asked)),
            prompts: format!("{:08x}", problems.iter().fold(0, prompt)),
        }
    }
}

/// The directory of an evaluation that this process writes.
#[derive(Debug)]
pub struct EvalDir {
    path: PathBuf,
    disk: Disk,
    samples: usize,
    /// Released when the process ends, however it ends.
    lock: Arc<DirectoryLock>,
}

impl EvalDir {
    /// Creates the directory, or continues an evaluation with these settings.
    pub fn open(path: &Path, settings: &Settings, heads: &[BenchmarkHeader]) -> Result<EvalDir, StoreError> {
        // That of a run is no link out of the run.
        let disk = match path.parent().filter(|run| run.join("config.toml").is_file()) {
            Some(run) => Disk::default().inside(run)?,
            None => Disk::default(),
        };
        let file = path.join(FILE);
        if path.exists() && !path.is_dir() {
            let problem = "not a directory; give another one with --out".to_owned();
            return Err(StoreError::Damaged { place: path.display().to_string(), problem });
        }
        match look(&disk, path, FILE, &[])? {
            Mark::Marked => {
                let differences = EvalManifest::read(path)?.differences(settings, heads);
                if !differences.is_empty() {
                    let differences = differences.join("; ");
                    return Err(StoreError::Changed { path: path.to_owned(), differences });
                }
            }
            Mark::Free => {}
            Mark::Foreign => return Err(StoreError::NotOurs { path: path.to_owned() }),
        }
        let disk = disk.inside(path)?;
        let lock = Arc::new(lock(&disk, path)?);
        disk.replace(&file, to_toml(settings, heads).as_bytes())?;
        Ok(EvalDir { path: path.to_owned(), disk, samples: settings.samples, lock })
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Writes a benchmark's problems and reads its stored responses: complete ones of the first problems.
    pub fn benchmark(
        &self,
        name: &str,
        problems: &[ProblemRecord],
    ) -> Result<(CompletionLog, Vec<Vec<CompletionRecord>>), StoreError> {
        let directory = self.path.join(slug(name));
        self.disk.create_directories(&directory)?;
        let line = |problem: &ProblemRecord| json_line(problem, &directory);
        let text = problems.iter().map(line).collect::<Result<String, _>>()?;
        self.disk.replace(&directory.join(PROBLEMS), text.as_bytes())?;
        let path = directory.join(COMPLETIONS);
        let (kept, length) = read_completions(&self.disk, &path, problems, self.samples)?;
        let file = AppendFile::open(&self.disk, &path, length)?;
        Ok((CompletionLog { file, lock: Arc::clone(&self.lock) }, kept))
    }

    /// The disk to write into the directory with.
    pub fn disk(&self) -> &Disk {
        &self.disk
    }

    /// Replaces a file of the directory.
    pub fn write(&self, name: &str, contents: &[u8]) -> Result<PathBuf, DiskError> {
        let path = self.path.join(name);
        self.disk.replace(&path, contents)?;
        Ok(path)
    }
}

/// The file to which responses are appended.
#[derive(Debug)]
pub struct CompletionLog {
    file: AppendFile,
    lock: Arc<DirectoryLock>,
}

impl CompletionLog {
    /// Appends all responses to some problems; they are synced when this returns.
    ///
    /// # Errors
    /// [`StoreError::Disk`]; [`StoreError::Run`] if the directory or its lock was removed or replaced.
    pub fn append(&mut self, completions: &[CompletionRecord]) -> Result<(), StoreError> {
        let line =
            |completion: &CompletionRecord| Ok(with_checksum(&json_line(completion, self.file.path())?));
        let text = completions.iter().map(line).collect::<Result<String, StoreError>>()?;
        self.lock.check()?;
        self.file.append(text.as_bytes())?;
        Ok(self.file.sync()?)
    }
}

fn json_line(value: &impl Serialize, path: &Path) -> Result<String, StoreError> {
    let damaged = |e: serde_json::Error| StoreError::Damaged {
        place: path.display().to_string(),
        problem: e.to_string(),
    };
    serde_json::to_string(value).map(|text| text + "\n").map_err(damaged)
}

/// A line with its checksum as the last field.
pub(super) fn with_checksum(line: &str) -> String {
    let object = line.trim_end();
    format!("{},{}\n", &object[..object.len() - 1], checksum_field(object.as_bytes()))
}

/// The last field of a line, and its end.
fn checksum_field(object: &[u8]) -> String {
    format!("\"crc32c\":\"{:08x}\"}}", crc32c::crc32c(object))
}

/// True if the line is as [`with_checksum`] wrote it.
fn is_as_written(line: &[u8]) -> bool {
    let line = line.trim_ascii_end();
    let comma = line.len().saturating_sub(checksum_field(b"").len() + 1);
    let (object, field) = line.split_at(comma);
    field.strip_prefix(b",") == Some(checksum_field(&[object, b"}"].concat()).as_bytes())
}

fn to_toml(settings: &Settings, heads: &[BenchmarkHeader]) -> String {
    let entry = |(key, value): (&str, toml::Value)| format!("{key} = {value}\n");
    let mut text = "[eval]\n".to_owned();
    text.extend(settings.entries().into_iter().map(entry));
    for BenchmarkHeader { name, problems, fingerprint, prompts } in heads {
        let quoted = |text: &str| toml::Value::from(text).to_string();
        text += &format!(
            "\n[[benchmark]]\nname = {}\nproblems = {problems}\nfingerprint = {}\nprompts = {}\n",
            quoted(name),
            quoted(fingerprint),
            quoted(prompts)
        );
    }
    text
}

/// The contents of `eval.toml`.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct EvalManifest {
    #[serde(rename = "eval")]
    settings: Table,
    #[serde(rename = "benchmark")]
    pub heads: Vec<BenchmarkHeader>,
}

impl EvalManifest {
    fn read(directory: &Path) -> Result<EvalManifest, StoreError> {
        let path = directory.join(FILE);
        let bytes = Disk::default().read(&path)?;
        let absent = || {
            let problem = if directory.is_dir() { "no evaluation here" } else { "no such directory" };
            StoreError::Absent { path: directory.to_owned(), problem: problem.to_owned() }
        };
        let damaged = |problem: String| StoreError::Damaged { place: path.display().to_string(), problem };
        let text = String::from_utf8(bytes.ok_or_else(absent)?).map_err(|e| damaged(e.to_string()))?;
        toml::from_str(&text).map_err(|e| damaged(e.message().to_owned()))
    }

    /// A setting as text; `(absent)` if it is missing.
    pub fn setting(&self, key: &str) -> String {
        match self.settings.get(key) {
            Some(toml::Value::String(text)) => text.clone(),
            Some(value) => value.to_string(),
            None => "(absent)".to_owned(),
        }
    }

    /// The settings that decide the result, in alphabetical order.
    pub fn settings(&self) -> impl Iterator<Item = (&str, String)> {
        self.settings
            .iter()
            .filter(|(key, _)| !Settings::FOR_PEOPLE.contains(&key.as_str()))
            .map(|(key, _)| (key.as_str(), self.setting(key)))
    }

    fn differences(&self, settings: &Settings, heads: &[BenchmarkHeader]) -> Vec<String> {
        let entries = settings.entries().into_iter().filter(|(key, _)| !Settings::FOR_PEOPLE.contains(key));
        let stored =
            |key: &str| self.settings.get(key).map_or("(absent)".to_owned(), |value| value.to_string());
        let changed = entries.filter_map(|(key, value)| {
            let (old, new) = (stored(key), value.to_string());
            (old != new).then(|| format!("{key}: {old} -> {new}"))
        });
        let mut differences: Vec<String> = changed.collect();
        let names =
            |heads: &[BenchmarkHeader]| heads.iter().map(|h| h.name.as_str()).collect::<Vec<_>>().join(",");
        if names(&self.heads) != names(heads) {
            differences.push(format!("benchmarks: {} -> {}", names(&self.heads), names(heads)));
        } else {
            for (old, new) in self.heads.iter().zip(heads) {
                if old.problems != new.problems {
                    differences
                        .push(format!("problems of {}: {} -> {}", old.name, old.problems, new.problems));
                } else if old.fingerprint != new.fingerprint {
                    differences.push(format!("{}: its problems or references changed", old.name));
                } else if old != new {
                    differences.push(format!("{}: its prompts changed", old.name));
                }
            }
        }
        differences
    }
}

/// A benchmark of a finished evaluation.
#[derive(Clone, Debug)]
pub struct StoredBenchmark {
    pub head: BenchmarkHeader,
    pub problems: Vec<ProblemRecord>,
    /// The responses by problem.
    pub completions: Vec<Vec<CompletionRecord>>,
}

/// Reads a finished evaluation.
///
/// # Errors
/// [`StoreError`] when there is none, it is under way, or a file is not what this program wrote.
pub fn read(directory: &Path) -> Result<(EvalManifest, Vec<StoredBenchmark>), StoreError> {
    let written = EvalManifest::read(directory)?;
    let disk = Disk::default();
    let samples = written.settings.get("samples").and_then(toml::Value::as_integer);
    let samples = samples.and_then(|n| usize::try_from(n).ok()).filter(|n| *n > 0).ok_or_else(|| {
        let problem =
            format!("samples = {}: must be a whole number of at least 1", written.setting("samples"));
        StoreError::Damaged { place: directory.join(FILE).display().to_string(), problem }
    })?;
    let one = |head: &BenchmarkHeader| {
        let at = directory.join(slug(&head.name));
        let problems: Vec<ProblemRecord> = match disk.read(&at.join(PROBLEMS))? {
            Some(bytes) => {
                lines(&bytes, &at.join(PROBLEMS))?.into_iter().map(|(problem, _)| problem).collect()
            }
            None => Vec::new(),
        };
        let (completions, _) = read_completions(&disk, &at.join(COMPLETIONS), &problems, samples)?;
        if completions.len() < head.problems {
            return Err(StoreError::UnderWay {
                path: directory.to_owned(),
                benchmark: head.name.clone(),
                done: completions.len(),
                all: head.problems,
            });
        }
        Ok(StoredBenchmark { head: head.clone(), problems, completions })
    };
    let recorded = written.heads.iter().map(one).collect::<Result<_, _>>()?;
    Ok((written, recorded))
}

/// The complete lines of a file with the byte after each. A stopped process may have left the last line incomplete.
fn lines<T: for<'a> Deserialize<'a>>(bytes: &[u8], path: &Path) -> Result<Vec<(T, u64)>, StoreError> {
    let mut end = 0;
    let mut out = Vec::new();
    for (number, line) in bytes.split_inclusive(|b| *b == b'\n').enumerate() {
        if !line.ends_with(b"\n") {
            break;
        }
        end += line.len() as u64;
        let value = serde_json::from_slice(line).map_err(|e| StoreError::Damaged {
            place: format!("{}:{}", path.display(), number + 1),
            problem: format!(
                "not a line of llm-train eval: {}",
                e.to_string().replace(" at line 1 column ", " at column ")
            ),
        })?;
        out.push((value, end));
    }
    Ok(out)
}

/// [`lines`] whose checksums, which `take` takes out, are those of the lines; `fix` is what to do where one is not.
pub(super) fn intact_lines<T: for<'a> Deserialize<'a>>(
    bytes: &[u8],
    path: &Path,
    take: impl Fn(&mut T) -> Option<String>,
    fix: &str,
) -> Result<Vec<(T, u64)>, StoreError> {
    let mut lines: Vec<(T, u64)> = lines(bytes, path)?;
    let mut start = 0;
    for (number, (line, end)) in lines.iter_mut().enumerate() {
        let written = &bytes[start..*end as usize];
        start = *end as usize;
        if take(line).is_some() && !is_as_written(written) {
            return Err(StoreError::Damaged {
                place: format!("{}:{}", path.display(), number + 1),
                problem: format!("its checksum is not that of the line, which was changed since; {fix}"),
            });
        }
    }
    Ok(lines)
}

/// The responses to the first problems, up to the first incomplete one, and the length of their lines.
fn read_completions(
    disk: &Disk,
    path: &Path,
    problems: &[ProblemRecord],
    samples: usize,
) -> Result<(Vec<Vec<CompletionRecord>>, u64), StoreError> {
    let bytes = disk.read(path)?.unwrap_or_default();
    let fix = "restore the file, or evaluate again into another directory with --out";
    let lines: Vec<(CompletionRecord, u64)> =
        intact_lines(&bytes, path, |line: &mut CompletionRecord| line.crc32c.take(), fix)?;
    let wrong = |number: usize, problem: String| StoreError::Damaged {
        place: format!("{}:{}", path.display(), number + 1),
        problem,
    };
    if lines.len() > problems.len() * samples {
        let most = problems.len() * samples;
        return Err(wrong(most, format!("a line beyond the {most} of {} problems", problems.len())));
    }
    for (number, (line, _)) in lines.iter().enumerate() {
        let (problem, sample) = (&problems[number / samples].id, number % samples);
        if line.problem != *problem || line.sample != sample {
            let found = format!("problem {}, sample {}", line.problem, line.sample);
            return Err(wrong(number, format!("{found}; here should be problem {problem}, sample {sample}")));
        }
    }
    let complete = lines.len() / samples * samples;
    let length = complete.checked_sub(1).map_or(0, |last| lines[last].1);
    let mut kept: Vec<Vec<CompletionRecord>> = Vec::new();
    for (number, (line, _)) in lines.into_iter().take(complete).enumerate() {
        match kept.last_mut() {
            Some(of_problem) if number % samples > 0 => of_problem.push(line),
            _ => kept.push(vec![line]),
        }
    }
    Ok((kept, length))
}
