//! Benchmarks by name: files of problems, and the embedded tasks.

use std::path::{Path, PathBuf};

use grpo_lambda::settings::did_you_mean;

use crate::config::Config;
use crate::grade::{Extraction, Gold};
use crate::task::{Split, Task};

/// A problem.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Item {
    /// Its id within the benchmark.
    pub id: String,
    /// The problem.
    pub problem: String,
    /// The accepted answers, as they are written.
    pub golds: Vec<String>,
    /// The accepted answers, read.
    pub gold: Gold,
}

/// Problems with references.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Benchmark {
    /// Its name.
    pub name: String,
    /// Its problems.
    pub items: Vec<Item>,
    /// Whether it is an embedded task, which is asked as it was trained: without a template.
    pub embedded: bool,
}

/// The five of the GRPO-lambda paper, in the order of its tables.
pub const PAPER: [&str; 5] = ["aime24", "amc", "math500", "minerva", "olympiad"];

/// Held-out word problems of the preset tiny; all hundred sums of two digits.
pub const EMBEDDED: [&str; 2] = ["tiny:stories", "tiny:addition"];

impl Benchmark {
    /// Checksum of problems and accepted answers, in order.
    pub fn fingerprint(&self) -> String {
        let mut sum = 0;
        for item in &self.items {
            for text in std::iter::once(&item.problem).chain(&item.golds) {
                sum = crc32c::crc32c_append(sum, &(text.len() as u64).to_le_bytes());
                sum = crc32c::crc32c_append(sum, text.as_bytes());
            }
            sum = crc32c::crc32c_append(sum, b"\n");
        }
        format!("{sum:08x}")
    }

    /// Where its random numbers are, by its name.
    pub(super) fn stream(&self) -> u64 {
        u64::from(crc32c::crc32c(self.name.as_bytes()))
    }
}

/// A benchmark that was refused.
#[derive(Debug, thiserror::Error)]
pub enum BenchmarkError {
    /// No such name and no such file.
    #[error(
        "unknown benchmark `{name}`{hint}: embedded are {}; files were looked for in {} (--data), which {}; a path works too",
        EMBEDDED.join(" and "), .data.display(), holds(.found)
    )]
    Unknown {
        /// What was asked for.
        name: String,
        /// ` (did you mean ..?)` or empty.
        hint: String,
        /// Where files were looked for.
        data: PathBuf,
        /// What is there; none when there is no such directory.
        found: Option<Vec<String>>,
    },
    /// Two of one name.
    #[error("--benchmarks: {0} stands there twice")]
    Twice(String),
    /// No problem.
    #[error("{0}: no problem in it; at least one is needed")]
    Empty(String),
    /// A file.
    #[error("{0}")]
    File(String),
}

fn holds(found: &Option<Vec<String>>) -> String {
    match found {
        None => "is no directory".to_owned(),
        Some(names) if names.is_empty() => "holds no .jsonl, .json or .parquet file".to_owned(),
        Some(names) => format!("holds {}", names.join(", ")),
    }
}

const EXTENSIONS: [&str; 3] = ["jsonl", "json", "parquet"];

/// The benchmarks of these names, in order, the first `limit` problems of each.
///
/// # Errors
/// [`BenchmarkError`].
pub fn resolve(names: &[String], data: &Path, limit: usize) -> Result<Vec<Benchmark>, BenchmarkError> {
    let mut out: Vec<Benchmark> = Vec::new();
    for name in names {
        let mut benchmark = one(name, data)?;
        benchmark.items.truncate(limit);
        if benchmark.items.is_empty() {
            return Err(BenchmarkError::Empty(name.clone()));
        }
        let slug = super::store::slug(&benchmark.name);
        if out.iter().any(|other| super::store::slug(&other.name) == slug) {
            return Err(BenchmarkError::Twice(benchmark.name));
        }
        out.push(benchmark);
    }
    Ok(out)
}

fn one(name: &str, data: &Path) -> Result<Benchmark, BenchmarkError> {
    match name {
        "tiny:stories" => return Ok(embedded(name, &["task.kind=stories"])),
        "tiny:addition" => return Ok(embedded(name, &["task.kind=addition"])),
        _ => {}
    }
    let path = Path::new(name);
    let is_path = name.contains(['/', '\\']) || path.extension().is_some_and(|e| EXTENSIONS.iter().any(|x| e == *x));
    if is_path {
        let stem = path.file_stem().map_or(name.to_owned(), |stem| stem.to_string_lossy().into_owned());
        return file(&stem, path);
    }
    let paths = EXTENSIONS.map(|extension| data.join(format!("{name}.{extension}")));
    match paths.iter().find(|path| path.is_file()) {
        Some(path) => file(name, path),
        None => {
            let found = available(data);
            let known = found.iter().flatten().map(String::as_str).chain(EMBEDDED);
            let hint = did_you_mean(name, known);
            Err(BenchmarkError::Unknown { name: name.to_owned(), hint, data: data.to_owned(), found })
        }
    }
}

/// Names of the files of problems in a directory, sorted; none when there is no such directory.
fn available(data: &Path) -> Option<Vec<String>> {
    let entries = std::fs::read_dir(data).ok()?;
    let name = |entry: std::fs::DirEntry| {
        let path = entry.path();
        let known = path.extension().is_some_and(|e| EXTENSIONS.iter().any(|x| e == *x));
        known.then(|| path.file_stem().map(|stem| stem.to_string_lossy().into_owned()))?
    };
    let mut names: Vec<String> = entries.flatten().filter_map(name).collect();
    names.sort();
    names.dedup();
    Some(names)
}

/// Problems that training never meets (all sums, of which none are held out), the same for every model.
fn embedded(name: &str, settings: &[&str]) -> Benchmark {
    let config = Config::resolve("tiny", settings).expect("the shipped preset is valid");
    let all = if config.task == Task::Addition { 100 } else { config.eval.n };
    let problems = config.task.distinct(config.seed, Split::Test, all);
    let item = |(i, problem): (usize, crate::task::Problem)| Item {
        id: i.to_string(),
        problem: problem.prompt,
        golds: vec![problem.gold.to_string()],
        gold: problem.gold,
    };
    let items = problems.into_iter().enumerate().map(item).collect();
    Benchmark { name: name.to_owned(), items, embedded: true }
}

/// Where an embedded task's answer stands.
pub const EMBEDDED_EXTRACTION: Extraction = Extraction::Boxed;

fn file(name: &str, path: &Path) -> Result<Benchmark, BenchmarkError> {
    let text = std::fs::read_to_string(path).map_err(|e| BenchmarkError::File(format!("{}: {e}", path.display())))?;
    let mut items = Vec::new();
    for (i, line) in text.lines().enumerate().filter(|(_, l)| !l.trim().is_empty()) {
        let refused = |what: String| BenchmarkError::File(format!("{}:{}: {what}", path.display(), i + 1));
        let value: serde_json::Value = serde_json::from_str(line).map_err(|e| refused(e.to_string()))?;
        let problem = value["problem"].as_str().ok_or_else(|| refused("problem: missing".into()))?.to_owned();
        let golds: Vec<String> = match (&value["answers"], &value["answer"]) {
            (serde_json::Value::Array(list), _) => {
                list.iter().filter_map(|v| v.as_str().map(str::to_owned)).collect()
            }
            (_, serde_json::Value::String(one)) => vec![one.clone()],
            _ => return Err(refused("answer: missing".into())),
        };
        let gold = Gold::any_of(golds.iter().map(String::as_str)).map_err(|e| refused(e.to_string()))?;
        items.push(Item { id: (items.len()).to_string(), problem, golds, gold });
    }
    Ok(Benchmark { name: name.to_owned(), items, embedded: false })
}
