//! File operations with errors that name the file. Tests can simulate a crash at each of them.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, atomic::AtomicI64, atomic::Ordering};

/// A refusal by the file system.
#[derive(Debug, thiserror::Error)]
#[error("cannot {action} {path}: {source}")]
pub struct DiskError {
    /// The operation.
    pub action: &'static str,
    /// Its file or directory.
    pub path: PathBuf,
    /// The reason.
    pub source: io::Error,
}

/// The file system.
#[derive(Clone, Debug, Default)]
pub struct Disk {
    /// Operations until the simulated process dies for good; `None` outside tests.
    left: Option<Arc<AtomicI64>>,
}

/// Opens a file to read it: one with an end, and no pipe, device or directory, which would block or never end.
///
/// # Errors
/// The errors of the system; [`io::ErrorKind::InvalidInput`] for what is no regular file.
pub fn open_regular(path: &Path) -> io::Result<File> {
    // Asked before it is opened, because opening a pipe waits for a writer.
    match fs::metadata(path)? {
        found if found.is_file() => File::open(path),
        found if found.is_dir() => {
            Err(io::Error::new(io::ErrorKind::IsADirectory, "a directory; must be a regular file"))
        }
        _ => Err(io::Error::new(io::ErrorKind::InvalidInput, "a pipe or device; must be a regular file")),
    }
}

/// The bytes of a regular file of at most `most` bytes.
///
/// # Errors
/// The errors of [`open_regular`], and [`io::ErrorKind::FileTooLarge`].
pub fn read_regular(path: &Path, most: u64) -> io::Result<Vec<u8>> {
    let mut file = open_regular(path)?;
    let length = file.metadata()?.len();
    if length > most {
        let problem = format!("{length} bytes long; must be at most {most}");
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, problem));
    }
    let mut bytes = Vec::with_capacity(usize::try_from(length).unwrap_or(0));
    file.read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// The text of a regular file of at most `most` bytes.
///
/// # Errors
/// The errors of [`read_regular`], and [`io::ErrorKind::InvalidData`] for what is not UTF-8.
pub fn read_regular_text(path: &Path, most: u64) -> io::Result<String> {
    String::from_utf8(read_regular(path, most)?)
        .map_err(|_| io::Error::new(io::ErrorKind::InvalidData, "stream did not contain valid UTF-8"))
}

fn failed(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> DiskError {
    let path = path.to_owned();
    move |source| DiskError { action, path, source }
}

/// The directory that holds a path.
fn parent(path: &Path) -> &Path {
    path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

impl Disk {
    /// A disk on which the process dies after this many operations: fault injection for tests of crash safety.
    pub fn crashing_after(operations: i64) -> Disk {
        Disk { left: Some(Arc::new(AtomicI64::new(operations))) }
    }

    /// Fails after the simulated crash.
    fn alive(&self) -> io::Result<()> {
        if self.left.as_ref().is_some_and(|left| left.fetch_sub(1, Ordering::SeqCst) <= 0) {
            return Err(io::Error::other("simulated crash"));
        }
        Ok(())
    }

    /// Skipped in simulated crashes, which kill the process and not the machine: a sync costs milliseconds.
    fn flush(&self, file: &File) -> io::Result<()> {
        self.alive()?;
        if self.left.is_some() {
            return Ok(());
        }
        file.sync_all()
    }

    /// A write that a simulated crash may leave incomplete.
    fn put(&self, file: &mut File, bytes: &[u8]) -> io::Result<()> {
        let alive = self.alive();
        if alive.is_err() && self.left.as_ref().is_some_and(|left| left.load(Ordering::SeqCst) == -1) {
            file.write_all(&bytes[..bytes.len() / 2])?;
        }
        alive?;
        file.write_all(bytes)
    }

    /// Creates and syncs a directory and its missing parents.
    pub fn create_directories(&self, path: &Path) -> Result<(), DiskError> {
        let missing: Vec<&Path> =
            path.ancestors().take_while(|p| !p.as_os_str().is_empty() && !p.exists()).collect();
        self.alive().and_then(|()| fs::create_dir_all(path)).map_err(failed("create", path))?;
        missing.into_iter().rev().try_for_each(|created| self.sync_entry(created))
    }

    /// Creates a new directory in an existing one.
    pub fn create_directory(&self, path: &Path) -> Result<(), DiskError> {
        self.alive().and_then(|()| fs::create_dir(path)).map_err(failed("create", path))
    }

    /// Flushes the directory that holds `path`, without which a new name may be lost in a power failure.
    fn sync_entry(&self, path: &Path) -> Result<(), DiskError> {
        let parent = parent(path);
        match File::open(parent) {
            // A directory in which one may create names but not list them, as /scratch of a cluster often is.
            Err(e) if e.kind() == io::ErrorKind::PermissionDenied => Ok(()),
            opened => opened.and_then(|file| self.flush(&file)).map_err(failed("flush", parent)),
        }
    }

    /// Opens or creates a file to append to, cut to at most `length` bytes; also returns its length before the cut.
    pub fn open_log(&self, path: &Path, length: u64) -> Result<(File, u64), DiskError> {
        let open = || {
            self.alive()?;
            let file = OpenOptions::new().create(true).append(true).open(path)?;
            let found = file.metadata()?.len();
            if found > length {
                self.alive()?;
                file.set_len(length)?;
            }
            Ok((file, found))
        };
        open().map_err(failed("open", path))
    }

    /// Appends to an open file.
    pub fn append(&self, file: &mut File, path: &Path, bytes: &[u8]) -> Result<(), DiskError> {
        self.put(file, bytes).map_err(failed("write", path))
    }

    /// Syncs an open file.
    pub fn sync(&self, file: &File, path: &Path) -> Result<(), DiskError> {
        self.flush(file).map_err(failed("flush", path))
    }

    /// Syncs a file or directory.
    pub fn sync_path(&self, path: &Path) -> Result<(), DiskError> {
        File::open(path).and_then(|file| self.flush(&file)).map_err(failed("flush", path))
    }

    /// Writes and syncs a new file with these contents.
    pub fn write(&self, path: &Path, bytes: &[u8]) -> Result<(), DiskError> {
        self.write_with(path, |e| e, |to| to.write_all(bytes).map_err(failed("write", path)))
    }

    /// Writes and syncs a new file piece by piece; `refused` converts errors of the disk.
    ///
    /// # Errors
    /// The errors of `fill`, and when the disk refuses.
    pub fn write_with<E>(
        &self,
        path: &Path,
        refused: impl Fn(DiskError) -> E,
        fill: impl FnOnce(&mut dyn Write) -> Result<(), E>,
    ) -> Result<(), E> {
        let at = |e| refused(failed("write", path)(e));
        let mut file = self.alive().and_then(|()| File::create(path)).map_err(at)?;
        let mut pieces = BufWriter::with_capacity(PIECE, Pieces { disk: self, file: &mut file });
        fill(&mut pieces)?;
        pieces.flush().map_err(at)?;
        drop(pieces);
        self.flush(&file).map_err(at)
    }

    /// Replaces a file: readers see the old or the new contents, never a part. On failure it leaves no temporary file.
    pub fn replace(&self, path: &Path, bytes: &[u8]) -> Result<(), DiskError> {
        self.replace_with(path, |e| e, |to| to.write_all(bytes).map_err(failed("write", path)))
    }

    /// [`Disk::replace`], piece by piece as [`Disk::write_with`].
    ///
    /// # Errors
    /// The errors of `fill`, and when the disk refuses.
    pub fn replace_with<E>(
        &self,
        path: &Path,
        refused: impl Fn(DiskError) -> E,
        fill: impl FnOnce(&mut dyn Write) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut temporary = path.as_os_str().to_owned();
        temporary.push(TEMPORARY);
        let temporary = PathBuf::from(temporary);
        let written = self
            .write_with(&temporary, &refused, fill)
            .and_then(|()| self.rename(&temporary, path).map_err(&refused));
        if written.is_err() && self.alive().is_ok() {
            drop(fs::remove_file(&temporary)); // the error that stopped the write is the one to report
        }
        written?;
        // The rename is durable only after the directory is synced.
        self.sync_path(parent(path)).map_err(refused)
    }

    /// Makes a hard link, which some file systems refuse.
    pub fn link(&self, from: &Path, to: &Path) -> Result<(), DiskError> {
        self.alive().and_then(|()| fs::hard_link(from, to)).map_err(failed("link", to))
    }

    /// Renames a file or directory.
    pub fn rename(&self, from: &Path, to: &Path) -> Result<(), DiskError> {
        self.alive().and_then(|()| fs::rename(from, to)).map_err(failed("rename", from))
    }

    /// Removes a file, a link without following it, or a directory with its contents. A refused entry stays with the directories above it,
    /// the rest is removed, and the first refusal is the error.
    pub fn remove(&self, path: &Path) -> Result<(), DiskError> {
        let gone = |result: io::Result<()>| match result {
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(()),
            result => result.map_err(failed("remove", path)),
        };
        let is_directory = match fs::symlink_metadata(path) {
            Ok(metadata) => metadata.is_dir(),
            Err(e) => return gone(Err(e)),
        };
        if !is_directory {
            return gone(self.alive().and_then(|()| fs::remove_file(path)));
        }
        let entries = fs::read_dir(path).and_then(|all| all.map(|entry| Ok(entry?.path())).collect());
        let mut entries: Vec<PathBuf> = entries.map_err(failed("list", path))?;
        entries.sort();
        let removed: Vec<_> = entries.iter().map(|entry| self.remove(entry)).collect();
        removed.into_iter().collect::<Result<(), _>>()?;
        gone(self.alive().and_then(|()| fs::remove_dir(path)))
    }

    /// Names in a directory, sorted; none if it does not exist.
    pub fn list(&self, path: &Path) -> Result<Vec<String>, DiskError> {
        let names = || {
            let entries = match fs::read_dir(path) {
                Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
                entries => entries?,
            };
            let mut names = entries
                .map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()))
                .collect::<io::Result<Vec<_>>>()?;
            names.sort();
            Ok(names)
        };
        names().map_err(failed("list", path))
    }

    /// Shows the contents of a file piece by piece; `false` if it does not exist.
    pub fn read_with(&self, path: &Path, mut show: impl FnMut(&[u8])) -> Result<bool, DiskError> {
        let mut read = || {
            let mut file = match open_regular(path) {
                Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(false),
                file => file?,
            };
            let mut piece = vec![0; PIECE];
            loop {
                match file.read(&mut piece)? {
                    0 => return Ok(true),
                    n => show(&piece[..n]),
                }
            }
        };
        read().map_err(failed("read", path))
    }

    /// The contents of a file; none if it does not exist.
    pub fn read(&self, path: &Path) -> Result<Option<Vec<u8>>, DiskError> {
        match read_regular(path, u64::MAX) {
            Ok(bytes) => Ok(Some(bytes)),
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(e) => Err(failed("read", path)(e)),
        }
    }
}

/// Bytes read or written at a time.
const PIECE: usize = 1 << 20;

/// The destination of a file's pieces.
struct Pieces<'a> {
    disk: &'a Disk,
    file: &'a mut File,
}

impl Write for Pieces<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.disk.put(self.file, bytes)?;
        Ok(bytes.len())
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Suffix of a temporary file that will replace another.
pub const TEMPORARY: &str = ".tmp";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refused_replacement_leaves_the_old_file_and_nothing_else() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let (path, disk) = (dir.path().join("file"), Disk::default());
        disk.replace(&path, b"old").expect("writable");
        disk.replace(&path, b"new").expect("writable");
        assert_eq!(fs::read(&path).expect("readable"), b"new");
        // A directory in the way of the rename.
        let taken = dir.path().join("taken");
        fs::create_dir_all(taken.join("inside")).expect("writable");
        let error = disk.replace(&taken, b"x").expect_err("a directory is no file").to_string();
        assert!(error.starts_with("cannot rename ") && error.contains("taken"), "{error}");
        assert_eq!(disk.list(dir.path()).expect("readable"), ["file", "taken"]);
    }

    #[test]
    #[cfg(unix)]
    fn removing_follows_no_link_and_takes_names_that_are_not_utf8() {
        use std::os::unix::ffi::OsStrExt;
        let dir = tempfile::tempdir().expect("a temporary directory");
        let (kept, doomed, disk) = (dir.path().join("kept"), dir.path().join("doomed"), Disk::default());
        fs::create_dir(&kept).expect("writable");
        fs::write(kept.join("thesis.tex"), "x").expect("writable");
        fs::create_dir_all(doomed.join("inner")).expect("writable");
        fs::write(doomed.join(std::ffi::OsStr::from_bytes(b"\xff")), "x").expect("writable");
        for link in [doomed.join("link"), doomed.join("inner/link"), dir.path().join("alone")] {
            std::os::unix::fs::symlink(&kept, link).expect("a link");
        }
        disk.remove(&doomed).expect("all of it");
        disk.remove(&dir.path().join("alone")).expect("a link");
        disk.remove(&dir.path().join("absent")).expect("nothing to do");
        assert_eq!(disk.list(dir.path()).expect("readable"), ["kept"]);
        assert_eq!(disk.list(&kept).expect("readable"), ["thesis.tex"]);
    }
}
