//! Datasets of problems with answers: JSON lines, JSON arrays and Parquet, from files, directories and the Hugging Face cache.
//!
//! ```text
//! data/
//!   locate.rs    a path or `owner/name` -> the files of one split
//!   embedded.rs  `tiny:sums`, which needs no file
//!   turns.rs     conversations in a column
//!   key.rs       which rows ask the same problem
//!   spans.rs     where each row of a JSON file stands: line, byte, length
//!   parquet.rs   a Parquet file -> the same rows as JSON lines in a file of its own
//!   row_text.rs  a row's text -> its columns
//!   names.rs     the columns in which problem and answer are looked for
//!   find.rs      which columns hold problem, answer and solution, found or given
//!   form.rs      where the answer stands in its column
//!   layout.rs    columns -> problem, answers and solution
//!   leftover.rs  columns that are not read and must not be left out
//!   shuffle.rs   (seed, epoch, position) -> row
//! ```
//!
//! **What is held in memory.** [`open`] reads every row once, checks it, and keeps 24 bytes of it: file, line, byte and length. A row's
//! text is read again when it is asked for, so a data set may be larger than memory, and any row is one seek away. Parquet stores
//! columns in compressed groups and has no such place to seek to; its rows are unpacked, one at a time, into an anonymous
//! temporary file of JSON lines, which is where they are read from. That costs disk of the unpacked size and buys what the alternatives do
//! not have: a uniform shuffle over all rows (not over row groups and then within them) and one reader for all formats.
//!
//! **Order.** The order of an epoch is a permutation drawn from the counter-based generator at (seed, epoch): see [`Shuffled`]. The row at
//! a position is a pure function of (seed, epoch, position), so nothing of a reader's state has to be kept for a run to be resumed
//! at any row.
//!
//! **No network.** A data set named `owner/name` is looked for in the Hugging Face cache and, when it is not there, refused with the command
//! that downloads it. Downloading is left to `hf download`, which the reader of that message has or gets with one `pip install`: it knows tokens,
//! mirrors, gated data and resumption, none of which this program could do as well, and a training run that may reach out to
//! the network is one that may break, or change, for reasons that are not in its configuration.
//!
//! ```
//! use grpo_lambda_trainer::input::data::{Columns, OnBadRow, open};
//! use grpo_lambda_grade::Gold;
//! let path = std::env::temp_dir().join(format!("grpo-lambda-doc-{}.jsonl", std::process::id()));
//! std::fs::write(&path, r##"{"question": "2 and 3?", "answer": "2 + 3 = <<2+3=5>>5\n#### 5"}"##)?;
//! let data = open(&path.display().to_string(), &Columns::default(), OnBadRow::Refuse)?;
//! let row = data.row(0)?;
//! assert_eq!((data.len(), row.problem.as_str(), row.answers), (1, "2 and 3?", vec!["5".to_owned()]));
//! assert_eq!(row.gold, Gold::math("5")?);
//! # std::fs::remove_file(path)?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod cells;
mod conflicts;
mod embedded;
mod find;
mod form;
mod key;
mod layout;
mod leftover;
#[doc(hidden)]
pub mod locate;
mod names;
#[cfg(feature = "parquet")]
mod parquet;
mod row_text;
mod shuffle;
mod spans;
mod turns;

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

pub use conflicts::Conflicts;
pub use embedded::SUMS;
pub use find::Columns;
pub use form::AnswerForm;
pub use key::words;
pub use layout::DatasetLayout;
pub use locate::{DatasetFiles, locate};
pub use shuffle::{Shuffled, permutation};

use grpo_lambda_decoder::disk::open_regular;
use grpo_lambda_grade::Gold;
#[cfg(feature = "parquet")]
use parquet::unpack;
use serde_json::Value;
use spans::RowSpan;

use super::prompt::Message;
use crate::words::words;

words! {
    /// The treatment of an unusable row.
    #[derive(Default)]
    pub enum OnBadRow {
        /// Refuses the data set, with the first such row and their number.
        #[default]
        Refuse = "refuse",
        /// Leaves it out and counts it.
        Skip = "skip",
    }
}

/// The place of a row: file and line, or file and row for a format without lines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RowLocation {
    pub file: PathBuf,
    /// The line its text begins at, from 1; for Parquet the number of the row, from 1.
    pub line: u64,
    /// True if `line` counts rows.
    pub is_row: bool,
}

impl std::fmt::Display for RowLocation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (file, line) = (self.file.display(), self.line);
        if self.is_row { write!(f, "{file}, row {line}") } else { write!(f, "{file}:{line}") }
    }
}

/// A row that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadRow {
    pub place: RowLocation,
    /// The reason: field, value and a right value.
    pub reason: String,
}

impl std::fmt::Display for BadRow {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.place, self.reason)
    }
}

/// One problem of a data set.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// Its number among the rows of the data set, from 0; rows left out do not count.
    pub index: usize,
    pub file: PathBuf,
    /// Its line in the file, from 1; the number of the row for Parquet.
    pub line: u64,
    /// The problem as published, without blanks around it.
    pub problem: String,
    /// The turns of its conversation before the problem.
    pub before: Vec<Message>,
    /// The accepted answers as published, without blanks around them; at least one.
    pub answers: Vec<String>,
    /// The accepted answers, read by the grader.
    pub gold: Gold,
    /// The worked solution as published, if any.
    pub solution: Option<String>,
    /// The row's columns that are not asked, for a reward of one's own: see [`DataSet::with_others`].
    pub others: BTreeMap<String, Value>,
}

/// The reason why a data set was refused.
#[derive(Debug, thiserror::Error)]
pub enum DataError {
    #[error("{0}")]
    NotFound(String),
    #[error("{path}: cannot be read: {source}")]
    Read { path: PathBuf, source: std::io::Error },
    /// A file in another format than its name tells, or cut short.
    #[error("{path}: {problem}")]
    Damaged { path: PathBuf, problem: String },
    #[error("{0}")]
    Empty(String),
    #[error("{place}: {problem}{}", missing.map_or(String::new(), |what| format!("; name it with task.columns.{what}=NAME")))]
    Columns {
        place: RowLocation,
        /// The missing part and the available ones.
        problem: String,
        /// The column to name, as in a configuration; [`DataError::for_options`] spells it as an option.
        missing: Option<&'static str>,
    },
    /// An unusable row, if such rows are not skipped.
    #[error(
        "{row}{}; leave such rows out with task.on_bad_row=skip",
        if *more == 0 { String::new() } else { format!(" (and {more} more bad rows of {of})") }
    )]
    Bad { row: BadRow, more: u64, of: u64 },
    #[error(
        "{0}: the row is not what it was when the file was opened; files must not change while they are used"
    )]
    Changed(RowLocation),
}

/// The options of a command that stand for a configuration's settings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DataOptions {
    /// `--column WHAT=NAME` and `--skip-bad-rows`: those of `data`.
    ColumnsAndRows,
    /// `--skip-bad-rows` alone: those of `eval`.
    Rows,
}

impl DataError {
    /// The message in the spelling of a command that has options where a configuration has settings.
    pub fn for_options(&self, options: DataOptions) -> String {
        match self {
            DataError::Columns { place, problem, missing: Some(what) } => match options {
                DataOptions::ColumnsAndRows => {
                    format!("{place}: {problem}; name it with --column {what}=NAME")
                }
                DataOptions::Rows => format!("{place}: {problem}; call the column {what}"),
            },
            DataError::Bad { .. } => self.to_string().replace("task.on_bad_row=skip", "--skip-bad-rows"),
            _ => self.to_string(),
        }
    }
}

/// Most bad rows kept with their reason; the others are only counted.
const MAX_REASONS: usize = 100;

/// A file of rows, open.
#[derive(Debug)]
struct Source {
    /// The file as the user knows it.
    path: PathBuf,
    /// The file of its rows: itself, or the one it was unpacked into.
    rows: Mutex<File>,
    /// True if places in it are rows rather than lines.
    is_row: bool,
}

impl Source {
    fn place(&self, line: u64) -> RowLocation {
        RowLocation { file: self.path.clone(), line, is_row: self.is_row }
    }

    fn text(&self, span: RowSpan) -> Result<Vec<u8>, DataError> {
        let mut bytes = vec![0; span.length as usize];
        let mut read = || {
            // A poisoned lock is harmless: every read seeks first.
            let mut file = self.rows.lock().unwrap_or_else(PoisonError::into_inner);
            file.seek(SeekFrom::Start(span.start))?;
            file.read_exact(&mut bytes)
        };
        read().map_err(|source| DataError::Read { path: self.path.clone(), source })?;
        Ok(bytes)
    }
}

/// A dataset. All rows were checked when it was opened; a row is read again when it is requested.
#[derive(Debug)]
pub struct DataSet {
    located: DatasetFiles,
    sources: Vec<Source>,
    rows: Vec<RowSpan>,
    layout: DatasetLayout,
    bad: Vec<BadRow>,
    bad_count: u64,
    fingerprint: u32,
    found: RowCounts,
    /// True if rows are read with the columns that are not asked.
    others: bool,
}

/// Numbers of rows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RowCounts {
    /// Rows with a column that is not asked, and says something, by its name.
    pub unused: BTreeMap<String, usize>,
    /// Rows that begin with a system turn.
    pub system: usize,
    /// Rows with other turns before the problem.
    pub turns: usize,
}

impl RowCounts {
    /// The columns that are not asked, with the number of rows that have each; `None` without one.
    pub fn unused_line(&self) -> Option<String> {
        let columns: Vec<String> =
            self.unused.iter().map(|(name, rows)| format!("{name} ({rows})")).collect();
        (!columns.is_empty()).then(|| columns.join(", "))
    }
}

/// Opens a data set: a file, a directory, `owner/name` in the Hugging Face cache, or [`SUMS`]; `:SPLIT` or `:SUBSET/SPLIT` after it chooses
/// among several splits (see [`locate`]).
///
/// Columns are found by their names unless `columns` gives them: see [`DatasetLayout`].
///
/// # Errors
/// [`DataError`] for a missing or damaged file, unknown columns, and an unusable row unless such rows are skipped.
pub fn open(at: &str, columns: &Columns, on_bad_row: OnBadRow) -> Result<DataSet, DataError> {
    let located = if at == SUMS { embedded::located() } else { locate(at)? };
    let mut opened = DataSetBuilder {
        columns,
        layout: None,
        rows: Vec::new(),
        bad: Vec::new(),
        bad_count: 0,
        crc: 0,
        found: RowCounts::default(),
    };
    let mut sources = Vec::new();
    for path in &located.files {
        let source = source(path)?;
        let number = u32::try_from(sources.len()).unwrap_or(u32::MAX);
        let file = source.rows.lock().unwrap_or_else(PoisonError::into_inner).try_clone();
        let file = file.map_err(|e| DataError::Read { path: path.clone(), source: e })?;
        let read = |e: std::io::Error| DataError::Read { path: path.clone(), source: e };
        for found in spans::rows(file, is_array(path, source.is_row)).map_err(read)? {
            let found = found.map_err(|e| e.into_data_error(path))?;
            opened.take(&source, number, found)?;
        }
        sources.push(source);
    }
    let DataSetBuilder { layout, rows, bad, bad_count, crc, found, .. } = opened;
    let all = rows.len() as u64 + bad_count;
    let Some(layout) = layout.filter(|_| !rows.is_empty()) else {
        let why = bad.first().map_or(String::new(), |row| format!(" that can be used; the first: {row}"));
        return Err(DataError::Empty(format!("{at}: there is no row{why}")));
    };
    if let (OnBadRow::Refuse, Some(row)) = (on_bad_row, bad.first()) {
        return Err(DataError::Bad { row: row.clone(), more: bad_count - 1, of: all });
    }
    if rows.len() > u32::MAX as usize {
        return Err(DataError::Damaged {
            path: PathBuf::from(at),
            problem: format!("{} rows, more than {}", rows.len(), u32::MAX),
        });
    }
    Ok(DataSet { located, sources, rows, layout, bad, bad_count, fingerprint: crc, found, others: false })
}

/// True if a file of rows is one JSON array.
fn is_array(path: &Path, unpacked: bool) -> bool {
    !unpacked && path.extension().is_some_and(|e| e.eq_ignore_ascii_case("json"))
}

#[cfg(not(feature = "parquet"))]
fn unpack(path: &Path, _file: File) -> Result<File, DataError> {
    let problem =
        "this program reads no Parquet; build it with --features parquet, or write the rows as JSON lines";
    Err(DataError::Damaged { path: path.to_owned(), problem: problem.to_owned() })
}

fn source(path: &Path) -> Result<Source, DataError> {
    let read = |source| DataError::Read { path: path.to_owned(), source };
    if path == Path::new(SUMS) {
        let rows = Mutex::new(embedded::unpack().map_err(read)?);
        return Ok(Source { path: path.to_owned(), rows, is_row: true });
    }
    let file = open_regular(path).map_err(read)?;
    let is_parquet = path.extension().is_some_and(|e| e.eq_ignore_ascii_case("parquet"));
    let rows = if is_parquet { unpack(path, file)? } else { file };
    Ok(Source { path: path.to_owned(), rows: Mutex::new(rows), is_row: is_parquet })
}

/// A data set under construction.
struct DataSetBuilder<'a> {
    columns: &'a Columns,
    layout: Option<DatasetLayout>,
    rows: Vec<RowSpan>,
    bad: Vec<BadRow>,
    bad_count: u64,
    crc: u32,
    found: RowCounts,
}

impl DataSetBuilder<'_> {
    fn take(&mut self, source: &Source, file: u32, found: spans::RawRow) -> Result<(), DataError> {
        let parsed = match row_text::parse(&found.text) {
            Ok(parsed) => parsed,
            Err(reason) => {
                self.refuse(source.place(found.line), reason);
                return Ok(());
            }
        };
        let layout = match &mut self.layout {
            Some(layout) => {
                find::widen(layout, &parsed);
                layout
            }
            // The first readable row decides the columns.
            None => {
                let found = find::layout(&parsed, self.columns).map_err(
                    |find::ColumnProblem { text, missing }| DataError::Columns {
                        place: source.place(found.line),
                        problem: text,
                        missing,
                    },
                )?;
                self.layout.insert(found)
            }
        };
        match layout.read(&parsed) {
            Ok(content) => {
                self.crc = crc32c::crc32c_append(self.crc, &content.bytes());
                let columns = layout.unused(&parsed).map(|(name, _)| name.clone());
                for name in columns.chain(layout.unread_of_turns(&parsed)) {
                    *self.found.unused.entry(name).or_default() += 1;
                }
                let systems = content.before.iter().filter(|turn| turn.role == "system").count();
                self.found.system += usize::from(systems > 0);
                self.found.turns += usize::from(content.before.len() > systems);
                self.rows.push(RowSpan { file, ..found.span() });
            }
            Err(reason) => self.refuse(source.place(found.line), reason),
        }
        Ok(())
    }

    fn refuse(&mut self, place: RowLocation, reason: String) {
        self.bad_count += 1;
        if self.bad.len() < MAX_REASONS {
            self.bad.push(BadRow { place, reason });
        }
    }
}

impl DataSet {
    /// Number of rows; those left out do not count.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Always false: a data set without a row is refused.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Its files and their split.
    pub fn located(&self) -> &DatasetFiles {
        &self.located
    }

    pub fn layout(&self) -> &DatasetLayout {
        &self.layout
    }

    /// The first bad rows, at most a hundred.
    pub fn bad_rows(&self) -> &[BadRow] {
        &self.bad
    }

    /// Number of rows left out.
    pub fn bad_count(&self) -> u64 {
        self.bad_count
    }

    /// This data set, whose rows are read with the columns that are not asked.
    #[must_use]
    pub fn with_others(self, others: bool) -> DataSet {
        DataSet { others, ..self }
    }

    /// Numbers of rows by what they have besides problem and answer.
    pub fn counts(&self) -> &RowCounts {
        &self.found
    }

    /// A checksum (CRC-32C) of the problems, answers and solutions in order, equal for the same rows in any format.
    pub fn fingerprint(&self) -> u32 {
        self.fingerprint
    }

    /// Row `index`, from 0.
    ///
    /// # Errors
    /// If its file cannot be read, or was changed after it was opened.
    ///
    /// # Panics
    /// If there is no such row.
    pub fn row(&self, index: usize) -> Result<Row, DataError> {
        let span = self.rows[index];
        let source = &self.sources[span.file as usize];
        let text = source.text(span)?;
        let changed = || DataError::Changed(source.place(span.line));
        let fields = row_text::parse(&text).map_err(|_| changed())?;
        let layout::RowContent { problem, before, answers, solution } =
            self.layout.read(&fields).map_err(|_| changed())?;
        let other = |(name, value): (&String, &serde_json::value::RawValue)| {
            (name.clone(), serde_json::from_str(value.get()).unwrap_or_default())
        };
        let others = self.layout.unused(&fields).filter(|_| self.others).map(other).collect();
        let gold = Gold::any_of(answers.iter().map(String::as_str)).map_err(|_| changed())?;
        let (file, line) = (source.path.clone(), span.line);
        Ok(Row { index, file, line, problem, before, answers, gold, solution, others })
    }

    /// True if [`Row::line`] of a row counts rows rather than lines.
    ///
    /// # Panics
    /// If there is no such row.
    pub fn counts_rows(&self, index: usize) -> bool {
        self.sources[self.rows[index].file as usize].is_row
    }

    /// All rows in the order of their files; one is in memory at a time.
    pub fn rows(&self) -> impl Iterator<Item = Result<Row, DataError>> + '_ {
        (0..self.len()).map(|index| self.row(index))
    }
}
