//! Files that grow while a process works, and that others must leave alone.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use super::{Disk, DiskError, failed};

/// A file to append to. Bytes written to a file that has lost its name would be lost without an error, so each write looks first.
#[derive(Debug)]
pub struct AppendFile {
    disk: Disk,
    path: PathBuf,
    file: File,
    length: u64,
}

impl AppendFile {
    /// Opens or creates a file, cut to at most `length` bytes.
    pub fn open(disk: &Disk, path: &Path, length: u64) -> Result<AppendFile, DiskError> {
        let open = || {
            disk.alive()?;
            let file = disk.place(path)?.open_to_append()?;
            let found = file.metadata()?.len();
            if found > length {
                disk.alive()?;
                file.set_len(length)?;
            }
            Ok((file, found.min(length)))
        };
        let (file, length) = open().map_err(failed("open", path))?;
        Ok(AppendFile { disk: disk.clone(), path: path.to_owned(), file, length })
    }

    /// Its path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Appends bytes.
    ///
    /// # Errors
    /// [`DiskError`], also if the file was removed, replaced or changed by something else; what was written is then back in its place.
    pub fn append(&mut self, bytes: &[u8]) -> Result<(), DiskError> {
        self.check()?;
        self.disk.put(&mut self.file, bytes).map_err(failed("write", &self.path))?;
        self.length += bytes.len() as u64;
        Ok(())
    }

    /// Flushes what was appended to the disk.
    ///
    /// # Errors
    /// The errors of [`AppendFile::append`].
    pub fn sync(&self) -> Result<(), DiskError> {
        self.check()?;
        self.disk.flush(&self.file).map_err(failed("flush", &self.path))
    }

    /// Refuses if the path names another file by now, or none, or if something else wrote into it.
    fn check(&self) -> Result<(), DiskError> {
        let failed = || failed("go on writing", &self.path);
        if !self.disk.is_at(&self.path, &self.file)? {
            let fate = match self.restore() {
                Ok(None) => "what was written is back in its place".to_owned(),
                Ok(Some(aside)) => {
                    format!(
                        "what was written is back in its place, and the other file is {}",
                        aside.display()
                    )
                }
                Err(e) => format!("what was written cannot be put back: {e}"),
            };
            let problem = format!(
                "it was removed or replaced by something else; {fate}; leave it alone, and run the same \
                command again to continue"
            );
            return Err(failed()(io::Error::other(problem)));
        }
        let found = self.file.metadata().map_err(failed())?.len();
        if found == self.length {
            return Ok(());
        }
        let problem = format!(
            "{found} bytes long, not {}: something else wrote into it; leave it alone, and run the same \
            command again to continue",
            self.length
        );
        Err(failed()(io::Error::other(problem)))
    }

    /// Puts what was written back under its name. A file of others there that is not a part of it is put aside; its path.
    fn restore(&self) -> Result<Option<PathBuf>, DiskError> {
        let mut ours = Vec::new();
        let mut file = &self.file;
        file.seek(SeekFrom::Start(0))
            .and_then(|_| file.read_to_end(&mut ours))
            .map_err(failed("read", &self.path))?;
        let theirs = self.path.symlink_metadata().is_ok();
        let is_part =
            self.disk.read(&self.path).is_ok_and(|other| other.is_none_or(|o| ours.starts_with(&o)));
        let aside = (theirs && !is_part).then(|| aside(&self.path));
        if let Some(aside) = &aside {
            self.disk.rename(&self.path, aside)?;
        }
        self.disk.replace(&self.path, &ours)?;
        Ok(aside)
    }
}

/// A free name next to `path`.
fn aside(path: &Path) -> PathBuf {
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let mut names =
        std::iter::once(format!("aside-{name}")).chain((2u64..).map(|n| format!("aside-{n}-{name}")));
    let free = names.find(|name| path.with_file_name(name).symlink_metadata().is_err());
    path.with_file_name(free.unwrap_or_default())
}
