//! `tiny:sums`, a data set that the program holds: small sums, differences and products in words.

use std::fs::File;
use std::io::{self, Write};
use std::path::PathBuf;

use super::DatasetFiles;

/// Its name as `task.data`. Its 841 rows ask `What is 17 plus 5?`: all sums of two numbers from 0 to 20, all differences of such numbers that are not
/// negative, and all products of two numbers from 0 to 12.
pub const SUMS: &str = "tiny:sums";

const LARGEST_TERM: u32 = 20;
const LARGEST_FACTOR: u32 = 12;

/// The place of the data set, as that of a file.
pub(super) fn located() -> DatasetFiles {
    let root = PathBuf::from(SUMS);
    DatasetFiles { files: vec![root.clone()], root, subset: None, split: None, others: 0 }
}

/// Its rows as JSON lines in a temporary file, which the system removes when it is closed.
pub(super) fn unpack() -> io::Result<File> {
    let mut file = tempfile::tempfile()?;
    file.write_all(rows().as_bytes())?;
    Ok(file)
}

fn rows() -> String {
    let mut lines = String::new();
    let mut ask = |a: u32, word: &str, b: u32, answer: u32| {
        lines += &format!("{{\"problem\": \"What is {a} {word} {b}?\", \"answer\": \"{answer}\"}}\n");
    };
    for a in 0..=LARGEST_TERM {
        (0..=LARGEST_TERM).for_each(|b| ask(a, "plus", b, a + b));
        (0..=a).for_each(|b| ask(a, "minus", b, a - b));
    }
    for a in 0..=LARGEST_FACTOR {
        (0..=LARGEST_FACTOR).for_each(|b| ask(a, "times", b, a * b));
    }
    lines
}
