//! Results of long experiments kept piece by piece, so that a stopped run resumes.
//!
//! The file has one line per piece of work: its key, a tab, and its result in JSON, which keeps every bit of a finite
//! number. A line is flushed to the disk before the next piece counts as done; a last line cut off by a crash is
//! dropped. The first line names the command and the program: pieces of another seed, length or build are never taken
//! for this run's.

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
    /// Results in JSON by key.
    known: Mutex<HashMap<String, String>>,
    file: Option<Mutex<File>>,
    path: Option<PathBuf>,
}

impl Store {
    /// A store that forgets: for quick runs and tests.
    pub fn none() -> Store {
        Store::default()
    }

    /// Opens the file at `path` and takes its pieces if the same program and `command` made them; else starts it anew.
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
                let Some((key, piece)) = line.trim_end().split_once('\t') else { break };
                kept += line;
                known.insert(key.to_owned(), piece.to_owned());
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
            return serde_json::from_str(kept).with_context(|| format!("partial results: {key} is damaged"));
        }
        let result = work()?;
        if let Some(file) = &self.file {
            let json = serde_json::to_string(&result).context("partial results")?;
            // A number that is not finite is written as null, which is no number.
            serde_json::from_str::<T>(&json).with_context(|| {
                format!("partial results: {key} has a number that is not finite; make it an Option")
            })?;
            let mut file = file.lock().unwrap_or_else(PoisonError::into_inner);
            file.write_all(format!("{key}\t{json}\n").as_bytes())
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

#[cfg(test)]
mod tests {
    use super::*;

    fn result() -> Vec<(String, f64, Option<f64>)> {
        vec![("a".into(), 0.1 + 0.2, None), ("b".into(), f64::MIN_POSITIVE, Some(-0.0))]
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
    fn a_number_that_is_not_finite_is_refused_by_its_key() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(&folder.path().join("rows.jsonl"), "sim x").unwrap();
        let error = format!("{:#}", store.piece("one", || Ok(f64::NAN)).unwrap_err());
        assert!(error.starts_with("partial results: one has a number that is not finite"), "{error}");
    }

    #[test]
    fn pieces_of_another_command_are_not_taken() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("rows.jsonl");
        Store::open(&path, "sim x --seed 1").unwrap().piece("one", || Ok(result())).unwrap();
        assert!(Store::open(&path, "sim x --seed 2").unwrap().is_empty());
    }
}
