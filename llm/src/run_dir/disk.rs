//! File operations whose errors name the file, each a place where a test can pull the plug.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
#[cfg(test)]
use std::sync::{Arc, atomic::AtomicI64, atomic::Ordering};

use super::RunError;

/// The file system, as far as a run needs it.
#[derive(Clone, Debug, Default)]
pub(super) struct Disk {
    /// Operations left until the simulated process dies; it stays dead.
    #[cfg(test)]
    pub(super) left: Option<Arc<AtomicI64>>,
}

fn failed(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> RunError {
    let path = path.to_owned();
    move |source| RunError::Io { action, path, source }
}

impl Disk {
    #[cfg(test)]
    pub(super) fn crashing_after(operations: i64) -> Disk {
        Disk { left: Some(Arc::new(AtomicI64::new(operations))) }
    }

    /// Fails if the process died before this operation.
    fn alive(&self) -> io::Result<()> {
        #[cfg(test)]
        if self.left.as_ref().is_some_and(|left| left.fetch_sub(1, Ordering::SeqCst) <= 0) {
            return Err(io::Error::other("simulated crash"));
        }
        Ok(())
    }

    /// Flushing to the platter costs milliseconds; the simulated crashes kill the process, not the machine.
    fn flush(&self, file: &File) -> io::Result<()> {
        self.alive()?;
        #[cfg(test)]
        if self.left.is_some() {
            return Ok(());
        }
        file.sync_all()
    }

    /// A write that a crash may leave half done.
    fn put(&self, file: &mut File, bytes: &[u8]) -> io::Result<()> {
        let alive = self.alive();
        #[cfg(test)]
        if alive.is_err() && self.left.as_ref().is_some_and(|left| left.load(Ordering::SeqCst) == -1) {
            file.write_all(&bytes[..bytes.len() / 2])?;
        }
        alive?;
        file.write_all(bytes)
    }

    pub(super) fn create_directories(&self, path: &Path) -> Result<(), RunError> {
        self.alive().and_then(|()| fs::create_dir_all(path)).map_err(failed("create", path))
    }

    /// Opens a file to append to, creating it if needed; cut to `length` when it is longer.
    pub(super) fn open_log(&self, path: &Path, length: u64) -> Result<File, RunError> {
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
        let (file, found) = open().map_err(failed("open", path))?;
        if found < length {
            return Err(RunError::Damaged {
                path: path.to_owned(),
                problem: format!("{found} bytes long, but the checkpoint was written when it had {length}"),
            });
        }
        Ok(file)
    }

    pub(super) fn append(&self, file: &mut File, path: &Path, bytes: &[u8]) -> Result<(), RunError> {
        self.put(file, bytes).map_err(failed("write", path))
    }

    pub(super) fn sync(&self, file: &File, path: &Path) -> Result<(), RunError> {
        self.flush(file).map_err(failed("flush", path))
    }

    pub(super) fn sync_path(&self, path: &Path) -> Result<(), RunError> {
        File::open(path).and_then(|file| self.flush(&file)).map_err(failed("flush", path))
    }

    /// A new file with these contents, on the platter when this returns.
    pub(super) fn write(&self, path: &Path, bytes: &[u8]) -> Result<(), RunError> {
        let write = || {
            self.alive()?;
            let mut file = File::create(path)?;
            self.put(&mut file, bytes)?;
            self.flush(&file)
        };
        write().map_err(failed("write", path))
    }

    /// Replaces a file: readers see the old or the new contents, never a part.
    pub(super) fn replace(&self, path: &Path, bytes: &[u8]) -> Result<(), RunError> {
        let mut temporary = path.as_os_str().to_owned();
        temporary.push(TEMPORARY);
        let temporary = PathBuf::from(temporary);
        self.write(&temporary, bytes)?;
        self.rename(&temporary, path)?;
        self.sync_path(path.parent().unwrap_or(Path::new(".")))
    }

    pub(super) fn rename(&self, from: &Path, to: &Path) -> Result<(), RunError> {
        self.alive().and_then(|()| fs::rename(from, to)).map_err(failed("rename", from))
    }

    /// Removes a directory, entry by entry as the system does.
    pub(super) fn remove_directory(&self, path: &Path) -> Result<(), RunError> {
        for entry in self.list(path)? {
            let entry = path.join(entry);
            if entry.is_dir() {
                self.remove_directory(&entry)?;
            } else {
                self.alive().and_then(|()| fs::remove_file(&entry)).map_err(failed("remove", &entry))?;
            }
        }
        self.alive().and_then(|()| fs::remove_dir(path)).map_err(failed("remove", path))
    }

    /// Names in a directory, sorted; none if it does not exist.
    pub(super) fn list(&self, path: &Path) -> Result<Vec<String>, RunError> {
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

    pub(super) fn read(&self, path: &Path) -> Result<Option<Vec<u8>>, RunError> {
        match fs::read(path) {
            Ok(bytes) => Ok(Some(bytes)),
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(e) => Err(failed("read", path)(e)),
        }
    }
}

/// The end of the name of a file on its way to replace another.
pub(super) const TEMPORARY: &str = ".tmp";
