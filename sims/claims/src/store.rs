//! Results of long experiments kept row by row, so that a run which was stopped goes on where it was.
//!
//! The file is one JSON line per piece of work: `{"key": .., "rows": [[cell, ..], ..]}`. A line is flushed to the disk before
//! the next piece counts as done; a last line cut off by a crash is dropped. The first line names what the rows depend on (the program
//! itself included): rows of another seed, length or build are never taken for this run's.

use std::collections::HashMap;
use std::fs::{self, File, OpenOptions};
use std::hash::Hasher;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use anyhow::Context as _;
use grpo_lambda_stats::table::Cell;
use serde_json::{Value, json};

/// Rows of a table.
pub type Rows = Vec<Vec<Cell>>;

/// Pieces of work done, in memory only or also on disk.
#[derive(Debug, Default)]
pub struct Store {
    known: Mutex<HashMap<String, Rows>>,
    file: Option<Mutex<File>>,
    path: Option<PathBuf>,
}

impl Store {
    /// A store that forgets: for quick runs and tests.
    pub fn none() -> Store {
        Store::default()
    }

    /// Opens the file at `path` and takes the rows it holds, if they were made by the same program and `command`; else starts it anew.
    ///
    /// # Errors
    /// When it cannot be read or written.
    pub fn open(path: &Path, command: &str) -> anyhow::Result<Store> {
        let head = json!({ "command": command, "program": program() }).to_string();
        let old = fs::read_to_string(path).unwrap_or_default();
        let mut lines = old.split_inclusive('\n').filter(|line| line.ends_with('\n'));
        let mut known = HashMap::new();
        let mut kept = format!("{head}\n");
        if lines.next().map(str::trim_end) == Some(head.as_str()) {
            for line in lines {
                let Some((key, rows)) = parse(line) else { break };
                kept += line;
                known.insert(key, rows);
            }
        }
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
        }
        grpo_lambda_tools::write::atomically(path, kept.as_bytes())?;
        let file = OpenOptions::new().append(true).open(path).with_context(|| path.display().to_string())?;
        Ok(Store { known: Mutex::new(known), file: Some(Mutex::new(file)), path: Some(path.to_owned()) })
    }

    /// Pieces taken from an earlier run.
    pub fn len(&self) -> usize {
        self.known.lock().unwrap_or_else(PoisonError::into_inner).len()
    }

    /// Whether nothing was taken from an earlier run.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The rows of the piece `key`: those kept, or else those `work` computes, which are then on disk when this returns.
    ///
    /// # Errors
    /// Those of `work`, or when the rows cannot be written.
    pub fn rows(&self, key: &str, work: impl FnOnce() -> anyhow::Result<Rows>) -> anyhow::Result<Rows> {
        if let Some(rows) = self.known.lock().unwrap_or_else(PoisonError::into_inner).get(key) {
            return Ok(rows.clone());
        }
        let rows = work()?;
        if let Some(file) = &self.file {
            let cells: Vec<Vec<Value>> = rows.iter().map(|row| row.iter().map(encode).collect()).collect();
            let line = format!("{}\n", json!({ "key": key, "rows": cells }));
            let mut file = file.lock().unwrap_or_else(PoisonError::into_inner);
            file.write_all(line.as_bytes()).and_then(|()| file.sync_data()).context("partial results")?;
        }
        Ok(rows)
    }

    /// Deletes the file: the results are written elsewhere by now.
    ///
    /// # Errors
    /// When it cannot be deleted.
    pub fn finish(self) -> anyhow::Result<()> {
        match &self.path {
            Some(path) => fs::remove_file(path).with_context(|| path.display().to_string()),
            None => Ok(()),
        }
    }
}

/// A fingerprint of the running program: rows made by other code are not trusted.
fn program() -> String {
    let bytes = std::env::current_exe().and_then(fs::read).unwrap_or_default();
    let mut hasher = std::hash::DefaultHasher::new();
    hasher.write(&bytes);
    format!("{:016x}", hasher.finish())
}

fn encode(cell: &Cell) -> Value {
    match cell {
        Cell::Empty => Value::Null,
        Cell::Text(text) => json!(text),
        Cell::Number(x) if x.is_finite() => json!(x),
        Cell::Number(x) => json!([x.to_string()]),
    }
}

fn decode(value: &Value) -> Option<Cell> {
    match value {
        Value::Null => Some(Cell::Empty),
        Value::String(text) => Some(Cell::Text(text.clone())),
        Value::Number(x) => x.as_f64().map(Cell::Number),
        Value::Array(one) => one.first()?.as_str()?.parse().ok().map(Cell::Number),
        _ => None,
    }
}

fn parse(line: &str) -> Option<(String, Rows)> {
    let value: Value = serde_json::from_str(line).ok()?;
    let row = |row: &Value| row.as_array()?.iter().map(decode).collect();
    let rows = value.get("rows")?.as_array()?.iter().map(row).collect::<Option<Rows>>()?;
    Some((value.get("key")?.as_str()?.to_owned(), rows))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows() -> Rows {
        vec![
            vec!["a".into(), Cell::Number(0.1 + 0.2), Cell::Empty],
            vec![Cell::Number(f64::INFINITY), Cell::Number(-0.0), "b".into()],
        ]
    }

    #[test]
    fn what_was_done_is_not_done_again_and_comes_back_to_the_last_bit() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("rows.jsonl");
        let first = Store::open(&path, "sim x --seed 1").unwrap();
        assert_eq!(first.rows("one", || Ok(rows())).unwrap(), rows());
        drop(first);
        let second = Store::open(&path, "sim x --seed 1").unwrap();
        assert_eq!(second.len(), 1);
        assert_eq!(second.rows("one", || panic!("done already")).unwrap(), rows());
        second.finish().unwrap();
        assert!(!path.exists());
    }

    #[test]
    fn a_line_cut_off_by_a_crash_is_dropped_and_the_others_stay() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("rows.jsonl");
        let store = Store::open(&path, "sim x").unwrap();
        for key in ["one", "two"] {
            store.rows(key, || Ok(rows())).unwrap();
        }
        let whole = fs::read(&path).unwrap();
        fs::write(&path, &whole[..whole.len() - 5]).unwrap();
        let again = Store::open(&path, "sim x").unwrap();
        assert_eq!(again.len(), 1);
        again.rows("two", || Ok(rows())).unwrap();
        assert_eq!(fs::read(&path).unwrap(), whole);
    }

    #[test]
    fn rows_of_another_command_are_not_taken() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("rows.jsonl");
        Store::open(&path, "sim x --seed 1").unwrap().rows("one", || Ok(rows())).unwrap();
        assert!(Store::open(&path, "sim x --seed 2").unwrap().is_empty());
    }
}
