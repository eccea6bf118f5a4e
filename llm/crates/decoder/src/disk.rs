//! File operations with errors that name the file. Whatever is written goes through here: no symbolic link is followed, and tests can
//! simulate a crash or a refusal at each operation.

mod append;
mod fill;
mod place;
#[cfg(test)]
mod tests;

use std::fs::{self, File};
use std::io::{self, BufWriter, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, atomic::AtomicI64, atomic::Ordering};

pub use append::AppendFile;
use fill::Made;
use place::{Place, Root};

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

impl DiskError {
    /// True for a link or another thing in the way that the user is to remove, rather than a failure of the system.
    pub fn is_refusal(&self) -> bool {
        self.source.kind() == io::ErrorKind::InvalidInput
    }
}

/// The file system.
#[derive(Clone, Debug, Default)]
pub struct Disk {
    /// The faults of tests.
    fault: Option<Fault>,
    /// The directory under which no name may be a link.
    root: Option<Arc<Root>>,
    /// The names made so far in a directory that is being filled.
    made: Option<Arc<Made>>,
}

/// A simulated fault.
#[derive(Clone, Debug)]
struct Fault {
    /// Operations until it.
    left: Arc<AtomicI64>,
    /// True if the process dies of it, false if one operation alone is refused.
    is_final: bool,
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

/// True for a pointer of Git LFS, which stands in the place of a file that was not fetched.
pub fn is_lfs_pointer(path: &Path) -> bool {
    const START: &[u8] = b"version https://git-lfs.github.com/spec/";
    let mut start = [0; START.len()];
    open_regular(path).and_then(|mut file| file.read_exact(&mut start)).is_ok_and(|()| start == START)
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
        Disk::default().with_fault(operations, true)
    }

    /// A disk that refuses one operation after this many, as a full one does until there is room.
    pub fn refusing_after(operations: i64) -> Disk {
        Disk::default().with_fault(operations, false)
    }

    fn with_fault(self, operations: i64, is_final: bool) -> Disk {
        Disk { fault: Some(Fault { left: Arc::new(AtomicI64::new(operations)), is_final }), ..self }
    }

    /// Creates the directory if it is missing and holds it open. What is written below it follows no link, wherever its path leads by then.
    pub fn inside(&self, directory: &Path) -> Result<Disk, DiskError> {
        self.create_directories(directory)?;
        let root = Root::open(self.root.as_deref(), directory).map_err(failed("open", directory))?;
        Ok(Disk { root: Some(Arc::new(root)), ..self.clone() })
    }

    /// True if the path of the directory that this disk is [`Disk::inside`] still names it.
    pub fn is_in_place(&self) -> io::Result<bool> {
        self.root.as_ref().map_or(Ok(true), |root| root.is_in_place())
    }

    fn place(&self, path: &Path) -> io::Result<Place> {
        Place::find(self.root.as_deref(), path)
    }

    /// Fails at and after the simulated crash, or at the refusal.
    fn alive(&self) -> io::Result<()> {
        let Some(Fault { left, is_final }) = &self.fault else { return Ok(()) };
        match left.fetch_sub(1, Ordering::SeqCst) {
            n if n > 0 || n < 0 && !is_final => Ok(()),
            _ => Err(io::Error::other("simulated fault")),
        }
    }

    /// Skipped in simulated faults, which strike the process and not the machine: a sync costs milliseconds.
    fn flush(&self, file: &File) -> io::Result<()> {
        self.alive()?;
        if self.fault.is_some() {
            return Ok(());
        }
        file.sync_all()
    }

    /// A write that a simulated fault may leave incomplete.
    fn put(&self, file: &mut File, bytes: &[u8]) -> io::Result<()> {
        let alive = self.alive();
        if alive.is_err() && self.fault.as_ref().is_some_and(|f| f.left.load(Ordering::SeqCst) == -1) {
            file.write_all(&bytes[..bytes.len() / 2])?;
        }
        alive?;
        file.write_all(bytes)
    }

    /// Creates and syncs a directory and its missing parents.
    pub fn create_directories(&self, path: &Path) -> Result<(), DiskError> {
        let root = self.root.as_ref().filter(|root| root.names(path).is_some());
        if root.is_none() {
            let missing: Vec<&Path> =
                path.ancestors().take_while(|p| !p.as_os_str().is_empty() && !p.exists()).collect();
            self.alive().and_then(|()| fs::create_dir_all(path)).map_err(failed("create", path))?;
            return missing.into_iter().rev().try_for_each(|created| self.sync_entry(created));
        }
        let below =
            |p: &&Path| root.and_then(|root| root.names(p)).is_some_and(|names| names != Path::new(""));
        let parts: Vec<&Path> = path.ancestors().take_while(below).collect();
        for part in parts.into_iter().rev() {
            let make = || {
                if fs::symlink_metadata(part).is_err() {
                    self.alive().and_then(|()| self.note(part))?;
                }
                self.place(part)?.ensure_directory()
            };
            if make().map_err(failed("create", part))? {
                self.sync_entry(part)?;
            }
        }
        Ok(())
    }

    /// Creates a new directory in an existing one.
    pub fn create_directory(&self, path: &Path) -> Result<(), DiskError> {
        self.name(path, || self.place(path)?.create_directory()).map_err(failed("create", path))
    }

    /// Gives a new name to something.
    fn name<T>(&self, new: &Path, give: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
        self.alive().and_then(|()| self.note(new))?;
        give()
    }

    /// Flushes the directory that holds `path`, without which a new name may be lost in a power failure.
    fn sync_entry(&self, path: &Path) -> Result<(), DiskError> {
        match self.place(path).and_then(|place| place.open_parent()) {
            // A directory in which one may create names but not list them, as /scratch of a cluster often is.
            Err(e) if e.kind() == io::ErrorKind::PermissionDenied => Ok(()),
            opened => opened.and_then(|file| self.flush(&file)).map_err(failed("flush", parent(path))),
        }
    }

    /// Opens or creates a file that a process locks.
    pub fn open_lock(&self, path: &Path) -> Result<File, DiskError> {
        let open = || self.alive().and_then(|()| self.place(path)?.open_to_append());
        open().map_err(failed("open", path))
    }

    /// True if `path` is the name of this open file.
    pub fn is_at(&self, path: &Path, file: &File) -> Result<bool, DiskError> {
        self.place(path).and_then(|place| place.is(file)).map_err(failed("look at", path))
    }

    /// Syncs a file or directory.
    pub fn sync_path(&self, path: &Path) -> Result<(), DiskError> {
        let open = || self.place(path)?.open_to_sync();
        open().and_then(|file| self.flush(&file)).map_err(failed("flush", path))
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
        let mut file = self.name(path, || self.place(path)?.create_new()).map_err(at)?;
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
            // The error that stopped the write is the one to report.
            drop(self.place(&temporary).and_then(|place| place.remove_file()));
        }
        written?;
        // The rename is durable only after the directory is synced.
        self.sync_entry(path).map_err(refused)
    }

    /// Makes a hard link, which some file systems refuse.
    pub fn link(&self, from: &Path, to: &Path) -> Result<(), DiskError> {
        self.name(to, || self.place(from)?.link(&self.place(to)?)).map_err(failed("link", to))
    }

    /// Renames a file or directory.
    pub fn rename(&self, from: &Path, to: &Path) -> Result<(), DiskError> {
        self.name(to, || self.place(from)?.rename(&self.place(to)?)).map_err(failed("rename", from))
    }

    /// Removes a file or a link, if it is there.
    pub fn remove_file(&self, path: &Path) -> Result<(), DiskError> {
        match self.alive().and_then(|()| self.place(path)?.remove_file()) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(()),
            removed => removed.map_err(failed("remove", path)),
        }
    }

    /// Removes a file, a link without following it, or a directory with its contents. A refused entry stays with the directories above it,
    /// the rest is removed, and the first refusal is the error.
    pub fn remove(&self, path: &Path) -> Result<(), DiskError> {
        match self.place(path) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(()),
            place => self.remove_place(&place.map_err(failed("remove", path))?, path),
        }
    }

    fn remove_place(&self, place: &Place, path: &Path) -> Result<(), DiskError> {
        let gone = |result: io::Result<()>| match result {
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(()),
            result => result.map_err(failed("remove", path)),
        };
        let entries = match place.entries() {
            Ok(Some(entries)) => entries,
            Ok(None) => return gone(self.alive().and_then(|()| place.remove_file())),
            Err(e) => return gone(Err(e)),
        };
        let removed: Vec<_> =
            entries.iter().map(|entry| self.remove_place(entry, &path.join(entry.name()))).collect();
        removed.into_iter().collect::<Result<(), _>>()?;
        gone(self.alive().and_then(|()| place.remove_directory()))
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
