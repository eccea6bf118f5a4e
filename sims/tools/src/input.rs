//! Input of a user: a file or a pipe with an end, of a size that fits into memory.

use grpo_lambda_mdp::{DEFAULT_MAX_LEAVES, MAX_HORIZON, MAX_REWARD};
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::Path;

/// Groups, or the numbers of another trainer.
pub(crate) const MOST_GROUPS: u64 = 1 << 30;
/// The file of an MDP.
pub(crate) const MOST_MDP: u64 = 1 << 26;

/// Memory that the analysis of an MDP may take.
pub(crate) const MOST_MEMORY: f64 = (2u64 << 30) as f64;

/// Most (prefix, token) pairs times responses of a group that an analysis sums over for every method: about two minutes of one processor.
pub(crate) const MOST_PAIRS: usize = 400_000;

/// The bounds in words: what is bounded, by how much, and what lies beyond, for `docs/promises.md`.
pub fn table() -> Vec<[String; 3]> {
    let row = |what: &str, bound: String| {
        [what.to_owned(), bound, "refused with the line and the field".to_owned()]
    };
    let mib = |bytes: u64| format!("{} MiB", bytes >> 20);
    vec![
        row("`estimate`: input", mib(MOST_GROUPS)),
        row("`mdp`: file", mib(MOST_MDP)),
        row("`mdp`: `horizon`", format!("{MAX_HORIZON} tokens")),
        row("`mdp`: responses", format!("{DEFAULT_MAX_LEAVES}, or the file's own smaller `max_leaves`")),
        row(
            "`mdp`: memory, predicted before it is taken",
            format!("{} GiB", MOST_MEMORY / f64::from(1 << 30)),
        ),
        [
            "`mdp`: (prefix, token) pairs times responses per group".to_owned(),
            MOST_PAIRS.to_string(),
            "refused with both numbers".to_owned(),
        ],
        row("`mdp`: real rewards", format!("from {:e} to {MAX_REWARD:e}", -MAX_REWARD)),
    ]
}

/// The bytes of a file, or of a pipe such as the shell makes for `<(command)`.
///
/// # Errors
/// The errors of the system; a device, which may never end; more than `most` bytes.
pub(crate) fn file(path: &Path, most: u64) -> io::Result<Vec<u8>> {
    if is_device(path)? {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "a device; must be a file or a pipe"));
    }
    all(File::open(path)?, most)
}

/// All that a reader has.
///
/// # Errors
/// The errors of the system, and more than `most` bytes.
pub fn all(reader: impl Read, most: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    reader.take(most + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > most {
        let problem = format!("longer than {} MiB; must be at most that long", most >> 20);
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, problem));
    }
    Ok(bytes)
}

#[cfg(unix)]
fn is_device(path: &Path) -> io::Result<bool> {
    use std::os::unix::fs::FileTypeExt;
    let kind = fs::metadata(path)?.file_type();
    Ok(kind.is_char_device() || kind.is_block_device())
}

#[cfg(not(unix))]
fn is_device(path: &Path) -> io::Result<bool> {
    fs::metadata(path).map(|_| false)
}
