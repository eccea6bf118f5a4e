//! [`Results`]: the rows of an experiment in a CSV file, the first columns of which say whose they are.

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

/// The program in the first line of a file. What follows it says whose the rows are.
const PROGRAM: &str = "cargo run --release -p grpo-lambda-control";

/// The words of a command line after its program.
fn words(command: &str) -> &str {
    command.split_once(" -- ").map_or("", |(_, words)| words)
}

impl Results {
    /// Opens the file of the results of these words of a command. Its rows have the fields of `R`, the first `keys` of
    /// which say whose a row is.
    pub(crate) fn open<R: Serialize + Default>(
        path: &Path,
        own: &str,
        keys: usize,
    ) -> Result<Results, StoreFileError> {
        let mut table = Table { rows: Vec::new(), ..Table::from_rows([R::default()]) };
        if let Some(bytes) = Disk::default().read(path)? {
            let text =
                String::from_utf8(bytes).map_err(|_| StoreFileError::Text { path: path.to_owned() })?;
            let written = text.lines().next().unwrap_or_default().trim_start_matches("# ").to_owned();
            if words(&written) != own {
                let (path, expected) = (path.to_owned(), own.to_owned());
                let words = words(&written);
                let found = if words.is_empty() { &written } else { words }.to_owned();
                return Err(StoreFileError::Command { path, found, expected });
            }
            let old = Table::from_csv(&text)
                .map_err(|source| StoreFileError::Table { path: path.to_owned(), source })?;
            if old.columns != table.columns {
                let (found, expected) = (old.columns.join(","), table.columns.join(","));
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

    /// The rows, by the names of their columns.
    pub(crate) fn rows<R: DeserializeOwned>(&self) -> Result<Vec<R>, StoreFileError> {
        self.table().to_rows().map_err(|source| StoreFileError::Table { path: self.path.clone(), source })
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

    #[derive(Default, Serialize)]
    struct Row {
        arm: String,
        rate: f64,
        value: f64,
    }

    #[test]
    fn rows_are_kept_sorted_and_found_again() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("rows.csv");
        let open = |command| Results::open::<Row>(&path, command, 2);
        let results = open("x noise").expect("new");
        for (arm, rate) in [("b", 0.5), ("a", 1.0 / 3.0), ("a", 0.25)] {
            results.add(vec![arm.into(), rate.into(), 7.0.into()]).expect("written");
        }
        let again = open("x noise").expect("ours");
        assert!(again.has(&["a".into(), (1.0 / 3.0).into()]) && !again.has(&["b".into(), 0.25.into()]));
        assert_eq!(
            std::fs::read_to_string(&path).expect("there"),
            "# cargo run --release -p grpo-lambda-control -- x noise\narm,rate,value\na,0.25,7\n\
             a,0.333333333333,7\nb,0.5,7\n"
        );
        let refused = open("x other").expect_err("another command").to_string();
        assert!(refused.contains("was written by x noise; this is x other"), "{refused}");
        #[derive(Default, Serialize)]
        struct Other {
            arm: String,
            value: f64,
        }
        let other = Results::open::<Other>(&path, "x noise", 1).expect_err("other columns");
        assert!(other.to_string().contains("the columns must be arm,value"), "{other}");
    }
}
