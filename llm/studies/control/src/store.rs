//! [`Results`]: the rows of an experiment in a CSV file, the first columns of which say whose they are.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use grpo_lambda_decoder::disk::{Disk, DiskError};
use grpo_lambda_stats::table::{Cell, Table, TableError};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// Why a file of results cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum StoreFileError {
    #[error(transparent)]
    Disk(#[from] DiskError),
    #[error("{path}: {source}; it must be a file of results, or not be there")]
    Table { path: PathBuf, source: TableError },
    #[error("{path}: holds other results ({found}); the columns must be {expected}: name another file")]
    Columns { path: PathBuf, found: String, expected: String },
    #[error("{path}: was written by {found}; this is {expected}: name another file")]
    Command { path: PathBuf, found: String, expected: String },
    #[error("{path}: not UTF-8 text")]
    Text { path: PathBuf },
}

/// The numbers of a run by their columns.
pub(crate) type Cells = BTreeMap<&'static str, Cell>;

/// Results that are there, and where further ones go.
#[derive(Debug)]
pub(crate) struct Results {
    path: PathBuf,
    command: String,
    keys: usize,
    table: Mutex<Table>,
}

/// The cells of a row with the fields of `R`.
pub(crate) fn cells_of<R: Serialize>(row: &R) -> Vec<Cell> {
    Table::from_rows([row]).rows.remove(0)
}

/// The program in the first line of a file. What follows it says whose the rows are: the program was called
/// otherwise when the first files were written.
const PROGRAM: &str = "cargo run --release -p grpo-lambda-control";

/// The words of a command line after its program. `study` was `rates` when the first files were written.
fn words(command: &str) -> String {
    let words = command.split_once(" -- ").map_or("", |(_, words)| words);
    words.strip_prefix("rates ").map_or(words.to_owned(), |rest| format!("study {rest}"))
}

impl Results {
    /// Opens the file of the results of these words of a command; the first `keys` columns say whose a row is.
    pub(crate) fn open(
        path: &Path,
        own: &str,
        columns: &[&str],
        keys: usize,
    ) -> Result<Results, StoreFileError> {
        let mut table = Table::new(columns);
        if let Some(bytes) = Disk::default().read(path)? {
            let text =
                String::from_utf8(bytes).map_err(|_| StoreFileError::Text { path: path.to_owned() })?;
            let written = text.lines().next().unwrap_or_default().trim_start_matches("# ").to_owned();
            if words(&written) != own {
                let (path, expected) = (path.to_owned(), own.to_owned());
                let words = words(&written);
                let found = if words.is_empty() { written } else { words };
                return Err(StoreFileError::Command { path, found, expected });
            }
            let old = Table::from_csv(&text)
                .map_err(|source| StoreFileError::Table { path: path.to_owned(), source })?;
            if old.columns != table.columns {
                let (found, expected) = (old.columns.join(","), columns.join(","));
                return Err(StoreFileError::Columns { path: path.to_owned(), found, expected });
            }
            table = old;
        }
        Ok(Results {
            path: path.to_owned(),
            command: format!("{PROGRAM} -- {own}"),
            keys,
            table: Mutex::new(table),
        })
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// True if the row of this key is there.
    pub(crate) fn has(&self, key: &[Cell]) -> bool {
        self.table().rows.iter().any(|row| same(&row[..self.keys], key))
    }

    /// The number in a column of the row of this key; none without the row, or where it has no number.
    pub(crate) fn number(&self, key: &[Cell], column: &str) -> Option<f64> {
        let table = self.table();
        let column = table.column(column)?;
        table.rows.iter().find(|row| same(&row[..self.keys], key))?[column].number()
    }

    /// The rows, by the names of their columns.
    pub(crate) fn rows<R: DeserializeOwned>(&self) -> Result<Vec<R>, StoreFileError> {
        self.table().to_rows().map_err(|source| StoreFileError::Table { path: self.path.clone(), source })
    }

    /// [`Results::open`] for rows with the fields of `R`.
    pub(crate) fn open_typed<R: Serialize + Default>(
        path: &Path,
        own: &str,
        keys: usize,
    ) -> Result<Results, StoreFileError> {
        let columns = Table::from_rows([R::default()]).columns;
        let columns: Vec<&str> = columns.iter().map(String::as_str).collect();
        Results::open(path, own, &columns, keys)
    }

    /// Adds a row, in the place of one with the same key, and writes the file, rows in the order of their keys.
    pub(crate) fn add(&self, row: Vec<Cell>) -> Result<(), StoreFileError> {
        let mut table = self.table();
        table.rows.retain(|old| !same(&old[..self.keys], &row[..self.keys]));
        table.push(row);
        let order = |row: &Vec<Cell>| row[..self.keys].iter().map(sortable).collect::<Vec<_>>();
        table.rows.sort_by(|a, b| order(a).partial_cmp(&order(b)).unwrap_or(std::cmp::Ordering::Equal));
        let text = table.to_csv(&self.command);
        Ok(Disk::default().replace(&self.path, text.as_bytes())?)
    }
}

fn same(a: &[Cell], b: &[Cell]) -> bool {
    a.iter().map(sortable).eq(b.iter().map(sortable))
}

/// Texts before numbers; a number as its file has it.
fn sortable(cell: &Cell) -> (String, f64) {
    match cell {
        Cell::Text(text) => (text.clone(), 0.0),
        number => (String::new(), number.format(12).parse().unwrap_or(f64::INFINITY)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_kept_sorted_and_found_again() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("rows.csv");
        let open = |command| Results::open(&path, command, &["arm", "rate", "value"], 2);
        let results = open("x noise").expect("new");
        for (arm, rate) in [("b", 0.5), ("a", 1.0 / 3.0), ("a", 0.25)] {
            results.add(vec![arm.into(), rate.into(), 7.0.into()]).expect("written");
        }
        let again = open("x noise").expect("ours");
        assert!(again.has(&["a".into(), (1.0 / 3.0).into()]) && !again.has(&["b".into(), 0.25.into()]));
        let text = std::fs::read_to_string(&path).expect("there");
        assert_eq!(
            text,
            "# cargo run --release -p grpo-lambda-control -- x noise\narm,rate,value\na,0.25,7\n\
             a,0.333333333333,7\nb,0.5,7\n"
        );
        assert_eq!(again.number(&["b".into(), 0.5.into()], "value"), Some(7.0));
        assert_eq!(again.number(&["b".into(), 0.25.into()], "value"), None);
        assert_eq!(words("x -- rates a.toml FILE"), "study a.toml FILE");
        // A file of before the program had this name.
        std::fs::write(&path, text.replace("-p grpo-lambda-control", "--example control")).expect("written");
        assert!(open("x noise").expect("ours").has(&["a".into(), 0.25.into()]));
        let refused = open("x other").expect_err("another command").to_string();
        assert!(refused.contains("was written by x noise; this is x other"), "{refused}");
        let other = Results::open(&path, "x noise", &["arm", "value"], 1).expect_err("other columns");
        assert!(other.to_string().contains("the columns must be arm,value"), "{other}");
    }
}
