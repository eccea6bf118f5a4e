//! Length and checksum of bytes, and JSON files that carry their own checksum.

use std::path::Path;

use grpo_lambda_decoder::disk::{Disk, DiskError};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// The number of bytes, and their CRC-32C.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Digest {
    pub(super) bytes: u64,
    crc32c: u32,
}

impl Digest {
    pub fn new(bytes: &[u8]) -> Self {
        let mut digest = Digest::default();
        digest.add(bytes);
        digest
    }

    /// The digest of a file; `None` if there is none.
    pub(super) fn of_file(disk: &Disk, path: &Path) -> Result<Option<Self>, DiskError> {
        let mut digest = Digest::default();
        Ok(disk.read_with(path, |piece| digest.add(piece))?.then_some(digest))
    }

    /// The digest of the first `length` bytes of a file, or of all if it is shorter or absent.
    pub fn of_beginning(disk: &Disk, path: &Path, length: u64) -> Result<Self, DiskError> {
        let mut digest = Digest::default();
        disk.read_with(path, |piece| {
            let wanted = (length - digest.bytes).min(piece.len() as u64) as usize;
            digest.add(&piece[..wanted]);
        })?;
        Ok(digest)
    }

    /// Adds the next bytes.
    pub(super) fn add(&mut self, bytes: &[u8]) {
        self.bytes += bytes.len() as u64;
        self.crc32c = crc32c::crc32c_append(self.crc32c, bytes);
    }
}

/// A JSON document with the checksum of its content.
#[derive(Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct Sealed<T> {
    content: T,
    /// CRC-32C of the content as JSON without blanks.
    crc32c: u32,
}

/// `content` as a file that [`open`] reads as long as nobody changes it.
///
/// # Panics
/// If it has no JSON form.
pub(super) fn seal<T: Serialize>(content: &T) -> Vec<u8> {
    let sealed = Sealed { content, crc32c: checksum(content) };
    let mut bytes = serde_json::to_vec_pretty(&sealed).expect("what a run remembers has a JSON form");
    bytes.push(b'\n');
    bytes
}

/// Reads the content that [`seal`] was given.
///
/// # Errors
/// A line, if it is no JSON of this kind or was changed since.
pub(super) fn open<T: DeserializeOwned + Serialize>(bytes: &[u8]) -> Result<T, String> {
    let sealed: Sealed<T> = serde_json::from_slice(bytes).map_err(|e| e.to_string())?;
    match checksum(&sealed.content) == sealed.crc32c {
        true => Ok(sealed.content),
        false => {
            Err("its checksum is not that of its content: it was changed after it was written".to_owned())
        }
    }
}

fn checksum(content: &impl Serialize) -> u32 {
    crc32c::crc32c(&serde_json::to_vec(content).expect("what a run remembers has a JSON form"))
}
