//! Append-only logs: every line is written when its step ends, and a resumed run truncates the logs to the length at its checkpoint.

use std::path::{Path, PathBuf};

use grpo_lambda_decoder::disk::{AppendFile, Disk};
use grpo_lambda_stats::table::significant;
use serde_json::{Map, Value, json};

use super::digest::Digest;
use super::{Result, RunError};

/// Checks that the log begins with the bytes that `held` digests.
///
/// # Errors
/// [`RunError::Damaged`] if it is shorter or begins otherwise.
pub(super) fn check(disk: &Disk, directory: &Path, name: &str, held: Digest) -> Result<()> {
    let path = directory.join(name);
    let found = Digest::of_beginning(disk, &path, held.bytes)?;
    compare(path, found, held)
}

/// Refuses a log whose beginning has another digest than the one that is `held`.
pub(super) fn compare(path: PathBuf, found: Digest, held: Digest) -> Result<()> {
    let fix = "restore the file, or start again in another directory";
    let problem = match found.bytes {
        n if n < held.bytes => {
            format!("{n} bytes long, but the checkpoint was written when it had {}; {fix}", held.bytes)
        }
        n if found != held => {
            format!("its first {n} bytes are not those it had when the checkpoint was written; {fix}")
        }
        _ => return Ok(()),
    };
    Err(RunError::Damaged { path, problem })
}

/// One append-only file.
#[derive(Debug)]
pub(super) struct AppendLog {
    pub(super) name: String,
    file: AppendFile,
    pub(super) digest: Digest,
}

impl AppendLog {
    /// Opens `name` in `directory`, keeping the part that [`check`] accepted.
    pub(super) fn open(disk: &Disk, directory: &Path, name: &str, digest: Digest) -> Result<AppendLog> {
        let file = AppendFile::open(disk, &directory.join(name), digest.bytes)?;
        Ok(AppendLog { name: name.to_owned(), file, digest })
    }

    pub(super) fn append(&mut self, bytes: &[u8]) -> Result<()> {
        self.file.append(bytes)?;
        self.digest.add(bytes);
        Ok(())
    }

    pub(super) fn sync(&self) -> Result<()> {
        Ok(self.file.sync()?)
    }
}

/// Rows as CSV (every column, empty if a row has no value) and as JSON lines (only the values that there are).
#[derive(Debug)]
pub(super) struct RowLog {
    columns: Vec<String>,
    pub(super) csv: AppendLog,
    pub(super) json: AppendLog,
}

impl RowLog {
    /// Opens `name.csv` and `name.jsonl`, keeping the part of each that `held` digests.
    pub(super) fn open(
        disk: &Disk,
        directory: &Path,
        name: &str,
        columns: &[&str],
        command: &str,
        held: impl Fn(&str) -> Digest,
    ) -> Result<RowLog> {
        let open = |name: String| AppendLog::open(disk, directory, &name, held(&name));
        let mut rows = RowLog {
            columns: columns.iter().map(|c| (*c).to_owned()).collect(),
            csv: open(format!("{name}.csv"))?,
            json: open(format!("{name}.jsonl"))?,
        };
        let header = format!("step,stage,{}\n", columns.join(","));
        if rows.csv.digest.bytes == 0 {
            rows.csv.append(format!("# {}\n{header}", command.replace('\n', " ")).as_bytes())?;
        } else {
            let text = disk.read(rows.csv.file.path())?.unwrap_or_default();
            let text = String::from_utf8_lossy(&text);
            let found = text.lines().find(|line| !line.starts_with('#')).unwrap_or_default();
            if found != header.trim_end() {
                let problem =
                    format!("its columns are `{found}`, this program writes `{}`", header.trim_end());
                return Err(RunError::Damaged { path: rows.csv.file.path().to_owned(), problem });
            }
        }
        Ok(rows)
    }

    /// Appends a row.
    ///
    /// # Panics
    /// If a value's name is not a column.
    pub(super) fn append(&mut self, stage: &str, step: u64, values: &[(&str, f64)]) -> Result<()> {
        for (name, _) in values {
            assert!(self.columns.iter().any(|c| c == name), "`{name}` is not a column of {:?}", self.columns);
        }
        let mut line = format!("{step},{stage}");
        let mut object =
            Map::from_iter([("step".to_owned(), json!(step)), ("stage".to_owned(), json!(stage))]);
        for column in &self.columns {
            let value = values.iter().find(|(name, _)| name == column).map(|(_, x)| *x);
            line.push(',');
            if let Some(x) = value {
                line += &significant(x, EXACT_DIGITS);
                object.insert(column.clone(), Value::from(x)); // null where JSON has no spelling
            }
        }
        line.push('\n');
        self.csv.append(line.as_bytes())?;
        self.json.append(format!("{}\n", Value::Object(object)).as_bytes())
    }
}

/// Digits from which any f64 is read back exactly.
const EXACT_DIGITS: usize = 17;
