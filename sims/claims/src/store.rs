//! Results of long experiments kept piece by piece, so that a stopped run resumes.
//!
//! The file has one line per piece of work: its key, a tab, and its result in CBOR, which keeps every bit of a number, in hexadecimal.
//! A line is flushed to the disk before the next piece counts as done; a last line cut off by a crash is dropped. The first line names
//! the command and the program: pieces of another seed, length or build are never taken for this run's.

use anyhow::Context as _;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::json;
use std::collections::HashMap;
use std::fs::{self, File};
use std::hash::Hasher;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

/// Pieces of work done, in memory only or also on disk.
#[derive(Debug, Default)]
pub struct Store {
    /// Results in CBOR by key.
    known: Mutex<HashMap<String, Vec<u8>>>,
    file: Option<Mutex<File>>,
    path: Option<PathBuf>,
}

impl Store {
    /// A store that forgets: for quick runs and tests.
    pub fn none() -> Store {
        Store::default()
    }

    /// Opens the file at `path` and takes its pieces if the same program and `command` made them; else starts it afresh.
    ///
    /// # Errors
    /// If it cannot be read or written.
    pub fn open(path: &Path, command: &str) -> anyhow::Result<Store> {
        let head = json!({ "command": command, "program": program() }).to_string();
        let old = fs::read_to_string(path).unwrap_or_default();
        let mut lines = old.split_inclusive('\n').filter(|line| line.ends_with('\n'));
        let mut known = HashMap::new();
        let mut kept = format!("{head}\n");
        if lines.next().map(str::trim_end) == Some(head.as_str()) {
            for line in lines {
                let Some((key, piece)) = parse(line) else { break };
                kept += line;
                known.insert(key, piece);
            }
        }
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
        }
        let file = grpo_lambda_tools::write::replaced(path, kept.as_bytes())?;
        Ok(Store { known: Mutex::new(known), file: Some(Mutex::new(file)), path: Some(path.to_owned()) })
    }

    /// Pieces taken from an earlier run.
    pub fn len(&self) -> usize {
        self.known.lock().unwrap_or_else(PoisonError::into_inner).len()
    }

    /// True if no piece is from an earlier run.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The result of the piece `key`: the kept one, or else that of `work`, which is then on disk when this returns.
    ///
    /// # Errors
    /// The errors of `work`; or if the kept result is no `T`, or a new one cannot be written.
    pub fn piece<T: Serialize + DeserializeOwned>(
        &self,
        key: &str,
        work: impl FnOnce() -> anyhow::Result<T>,
    ) -> anyhow::Result<T> {
        if let Some(kept) = self.known.lock().unwrap_or_else(PoisonError::into_inner).get(key) {
            return ciborium::from_reader(kept.as_slice())
                .with_context(|| format!("partial results: {key} is damaged"));
        }
        let result = work()?;
        if let Some(file) = &self.file {
            let mut cbor = Vec::new();
            ciborium::into_writer(&result, &mut cbor).context("partial results")?;
            let hex: String = cbor.iter().map(|byte| format!("{byte:02x}")).collect();
            let mut file = file.lock().unwrap_or_else(PoisonError::into_inner);
            file.write_all(format!("{key}\t{hex}\n").as_bytes())
                .and_then(|()| file.sync_data())
                .context("partial results")?;
        }
        Ok(result)
    }

    /// Deletes the file, once the results are written elsewhere.
    ///
    /// # Errors
    /// If it cannot be deleted.
    pub fn finish(self) -> anyhow::Result<()> {
        match &self.path {
            Some(path) => fs::remove_file(path).with_context(|| path.display().to_string()),
            None => Ok(()),
        }
    }
}

/// A fingerprint of the running program: pieces made by other code are not trusted.
fn program() -> String {
    let bytes = std::env::current_exe().and_then(fs::read).unwrap_or_default();
    let mut hasher = std::hash::DefaultHasher::new();
    hasher.write(&bytes);
    format!("{:016x}", hasher.finish())
}

fn parse(line: &str) -> Option<(String, Vec<u8>)> {
    let (key, hex) = line.trim_end().split_once('\t')?;
    let byte = |at: usize| u8::from_str_radix(hex.get(at..at + 2)?, 16).ok();
    Some((key.to_owned(), (0..hex.len()).step_by(2).map(byte).collect::<Option<_>>()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn result() -> Vec<(String, f64, Option<f64>)> {
        vec![("a".into(), 0.1 + 0.2, None), ("b".into(), f64::INFINITY, Some(-0.0))]
    }

    #[test]
    fn what_was_done_is_not_done_again_and_comes_back_to_the_last_bit() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("rows.jsonl");
        let first = Store::open(&path, "sim x --seed 1").unwrap();
        assert_eq!(first.piece("one", || Ok(result())).unwrap(), result());
        drop(first);
        let second = Store::open(&path, "sim x --seed 1").unwrap();
        assert_eq!(second.len(), 1);
        let kept: Vec<(String, f64, Option<f64>)> = second.piece("one", || panic!("done already")).unwrap();
        assert_eq!(kept, result());
        second.finish().unwrap();
        assert!(!path.exists());
    }

    #[test]
    fn a_line_cut_off_by_a_crash_is_dropped_and_the_others_stay() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("rows.jsonl");
        let store = Store::open(&path, "sim x").unwrap();
        for key in ["one", "two"] {
            store.piece(key, || Ok(result())).unwrap();
        }
        let whole = fs::read(&path).unwrap();
        fs::write(&path, &whole[..whole.len() - 5]).unwrap();
        let again = Store::open(&path, "sim x").unwrap();
        assert_eq!(again.len(), 1);
        again.piece("two", || Ok(result())).unwrap();
        assert_eq!(fs::read(&path).unwrap(), whole);
    }

    #[test]
    fn pieces_of_another_command_are_not_taken() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("rows.jsonl");
        Store::open(&path, "sim x --seed 1").unwrap().piece("one", || Ok(result())).unwrap();
        assert!(Store::open(&path, "sim x --seed 2").unwrap().is_empty());
    }
}
