//! Benchmarks by name: files of problems, and the embedded tasks.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use grpo_lambda::settings::did_you_mean;
use grpo_lambda_grade::{Extraction, Gold};

use crate::config::Config;
use crate::input::data::{self, Columns, DataError, DataOptions, OnBadRow, Row, SUMS};
use crate::input::prompt::Message;
use crate::input::task::{Split, Task, TaskSource};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BenchmarkProblem {
    /// Its id within the benchmark.
    pub id: String,
    pub problem: String,
    /// The turns of its conversation before the problem.
    pub before: Vec<Message>,
    /// The accepted answers, as they are written.
    pub golds: Vec<String>,
    /// The accepted answers, read.
    pub gold: Gold,
}

/// Problems with references.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Benchmark {
    pub name: String,
    pub items: Vec<BenchmarkProblem>,
    /// True for an embedded task, which is asked as it was trained: without a template.
    pub embedded: bool,
    /// Unusable rows, left out.
    pub bad_rows: u64,
    /// The ids of the problems that the model was trained on; `None` where that is not known.
    pub trained: Option<BTreeSet<String>>,
}

/// The five benchmarks of the GRPO-lambda paper, in the order of its tables.
pub const PAPER: [&str; 5] = ["aime24", "amc", "math500", "minerva", "olympiad"];

/// Held-out word problems of the preset tiny; all hundred sums of two digits.
pub const EMBEDDED: [&str; 2] = ["tiny:stories", "tiny:addition"];

/// The held-out problems of the run that the model is from.
pub const HELD_OUT: &str = "run:held-out";

impl Benchmark {
    /// A data set's rows, which are asked with a template.
    pub fn of_rows(name: &str, rows: Vec<Row>) -> Benchmark {
        let item = |Row { index, problem, before, answers, gold, .. }: Row| BenchmarkProblem {
            id: index.to_string(),
            problem,
            before,
            golds: answers,
            gold,
        };
        let items = rows.into_iter().map(item).collect();
        Benchmark { name: name.to_owned(), items, embedded: false, bad_rows: 0, trained: None }
    }

    /// The problems that the model was not trained on, among as many results in their order; `None` where that is not known.
    pub fn untrained<T: Clone>(&self, results: &[T]) -> Option<Vec<T>> {
        let trained = self.trained.as_ref()?;
        let kept = self.items.iter().zip(results).filter(|(item, _)| !trained.contains(&item.id));
        Some(kept.map(|(_, result)| result.clone()).collect())
    }

    /// The address of its random numbers, derived from its name.
    pub(super) fn rng_prompt(&self) -> u64 {
        u64::from(crc32c::crc32c(self.name.as_bytes()))
    }
}

/// The name of a benchmark's directory: letters, digits, `.`, `-` and `_` of its name.
pub fn slug(name: &str) -> String {
    let kept = |c: char| if c.is_alphanumeric() || ".-_".contains(c) { c } else { '-' };
    name.chars().map(kept).collect()
}

/// A benchmark that was refused.
#[derive(Debug, thiserror::Error)]
pub enum BenchmarkError {
    #[error(
        "unknown benchmark `{name}`{hint}: embedded are {}; files were looked for in {} (--data), which {}; a path works too",
        [&EMBEDDED[..], &[SUMS]].concat().join(", "), .data.display(), holds(.found)
    )]
    Unknown {
        name: String,
        hint: String,
        data: PathBuf,
        /// The names of the files there; `None` if there is no such directory.
        found: Option<Vec<String>>,
    },
    /// The held-out problems of a run, but the model is from no run with a data set.
    #[error(
        "--benchmarks {HELD_OUT}: the held-out problems of a run on a data set, and --model is from no such run; those of another run are \
         --benchmarks RUN:held-out"
    )]
    NoRun,
    #[error("--benchmarks: {0} is given twice")]
    Twice(String),
    #[error(
        "--benchmarks: `{0}`: a spreadsheet takes a name that begins with =, +, - or @ for a formula in results.csv; rename the file"
    )]
    Formula(String),
    #[error("{0}: no problem in it; at least one is needed")]
    Empty(String),
    #[error("{}", .0.for_options(DataOptions::Rows))]
    Data(#[from] DataError),
}

fn holds(found: &Option<Vec<String>>) -> String {
    match found {
        None => "is no directory".to_owned(),
        Some(names) if names.is_empty() => "holds no .jsonl, .json or .parquet file".to_owned(),
        Some(names) => format!("holds {}", names.join(", ")),
    }
}

/// Beginnings of a cell that spreadsheets take for a formula.
const FORMULA: [char; 6] = ['=', '+', '-', '@', '\t', '\r'];

/// Endings of files of problems.
const EXTENSIONS: [&str; 4] = ["jsonl", "ndjson", "json", "parquet"];

/// The benchmarks of these names, in order; `held_out` is [`HELD_OUT`], if the model has it.
pub fn resolve(
    names: &[String],
    held_out: Option<&Benchmark>,
    data: &Path,
    on_bad_row: OnBadRow,
) -> Result<Vec<Benchmark>, BenchmarkError> {
    let mut out: Vec<Benchmark> = Vec::new();
    for name in names {
        let benchmark = match name.as_str() {
            HELD_OUT => held_out.cloned().ok_or(BenchmarkError::NoRun)?,
            name => one(name, data, on_bad_row)?,
        };
        if benchmark.name.starts_with(FORMULA) {
            return Err(BenchmarkError::Formula(benchmark.name));
        }
        if benchmark.items.is_empty() {
            return Err(BenchmarkError::Empty(name.clone()));
        }
        let directory = slug(&benchmark.name);
        if out.iter().any(|other| slug(&other.name) == directory) {
            return Err(BenchmarkError::Twice(benchmark.name));
        }
        out.push(benchmark);
    }
    Ok(out)
}

fn one(name: &str, data: &Path, on_bad_row: OnBadRow) -> Result<Benchmark, BenchmarkError> {
    match name {
        "tiny:stories" => return Ok(embedded(name, &["task.kind=stories"])),
        "tiny:addition" => return Ok(embedded(name, &["task.kind=addition"])),
        SUMS => return file(name, name, on_bad_row),
        _ => {}
    }
    let path = Path::new(name);
    let is_file = path.extension().is_some_and(|e| EXTENSIONS.iter().any(|x| e == *x));
    if is_file || name.contains(['/', '\\']) {
        let stem = path.file_stem().filter(|_| is_file).map(|stem| stem.to_string_lossy().into_owned());
        return file(stem.as_deref().unwrap_or(name), name, on_bad_row);
    }
    let paths = EXTENSIONS.map(|extension| data.join(format!("{name}.{extension}")));
    match paths.iter().find(|path| path.is_file()) {
        Some(path) => file(name, &path.display().to_string(), on_bad_row),
        None => {
            let found = available(data);
            let known = found.iter().flatten().map(String::as_str).chain(EMBEDDED).chain([SUMS, HELD_OUT]);
            let hint = did_you_mean(name, known);
            Err(BenchmarkError::Unknown { name: name.to_owned(), hint, data: data.to_owned(), found })
        }
    }
}

/// Sorted names of the files of problems in a directory; `None` if there is no such directory.
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

/// Problems that training never meets (for sums, of which none are held out, all), the same for every model.
fn embedded(name: &str, settings: &[&str]) -> Benchmark {
    let config = Config::resolve("tiny", settings).expect("the shipped preset is valid");
    let task = match config.task {
        TaskSource::Embedded(task) => task,
        _ => unreachable!("the shipped preset has an embedded task"),
    };
    let all = if task == Task::Addition { 100 } else { config.eval.n };
    let problems = task.distinct(config.seed, Split::Test, all);
    let item = |(i, problem): (usize, crate::input::task::Problem)| BenchmarkProblem {
        id: i.to_string(),
        problem: problem.prompt,
        before: Vec::new(),
        golds: vec![problem.gold.to_string()],
        gold: problem.gold,
    };
    let items = problems.into_iter().enumerate().map(item).collect();
    Benchmark { name: name.to_owned(), items, embedded: true, bad_rows: 0, trained: None }
}

pub const EMBEDDED_EXTRACTION: Extraction = Extraction::Boxed;

fn file(name: &str, at: &str, on_bad_row: OnBadRow) -> Result<Benchmark, BenchmarkError> {
    let data = data::open(at, &Columns::default(), on_bad_row)?;
    let rows = data.rows().collect::<Result<_, DataError>>()?;
    Ok(Benchmark { bad_rows: data.bad_count(), ..Benchmark::of_rows(name, rows) })
}
