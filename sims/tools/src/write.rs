//! Writing files: the output folder checked before any work, every file whole or not at all.

use anyhow::{Context as _, bail};
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};

/// A folder `DIR` with `data/` and `figures/` in it.
#[derive(Clone, Debug)]
pub struct Output {
    root: PathBuf,
}

const FOLDERS: [&str; 2] = ["data", "figures"];

impl Output {
    /// Creates what is missing of the folders and checks that files can be created in them.
    ///
    /// # Errors
    /// When they cannot be.
    pub fn open(root: &Path) -> anyhow::Result<Self> {
        for folder in FOLDERS.map(|f| root.join(f)) {
            let probe = || {
                fs::create_dir_all(&folder)?;
                if fs::symlink_metadata(&folder)?.is_symlink() {
                    bail!("a symbolic link, and nothing is written through one; put a folder there");
                }
                Ok(temporary(&folder)?.close()?)
            };
            probe().with_context(|| format!("cannot write to {}", folder.display()))?;
        }
        Ok(Output { root: root.to_owned() })
    }

    /// Checks that a folder can be there and be written to, and leaves nothing there: for work whose input may still be refused.
    ///
    /// # Errors
    /// When it cannot be.
    pub fn check(root: &Path) -> anyhow::Result<()> {
        let there =
            root.ancestors().find(|path| fs::symlink_metadata(path).is_ok()).unwrap_or(Path::new("."));
        let there = if there.as_os_str().is_empty() { Path::new(".") } else { there };
        let probe = || -> anyhow::Result<()> { Ok(temporary(there)?.close()?) };
        probe().with_context(|| format!("cannot write to {}", there.display()))
    }

    /// The path of `file`, given relative to the folder (`data/x.csv`).
    pub fn path(&self, file: &str) -> PathBuf {
        self.root.join(file)
    }

    /// Writes `file` as [`atomically`] does and returns its path.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn write(&self, file: &str, content: &[u8]) -> anyhow::Result<PathBuf> {
        let path = self.path(file);
        atomically(&path, content).map(|()| path)
    }
}

/// Writes a file under another name in the same folder first, flushed to the disk, then renames it, so that a reader or a
/// crash meets the old content or the new one and nothing between.
///
/// # Errors
/// When it cannot be written; an older file of that name is then untouched.
pub fn atomically(path: &Path, content: &[u8]) -> anyhow::Result<()> {
    replaced(path, content).map(drop)
}

/// The file that [`atomically`] wrote, open to write on at its end.
///
/// # Errors
/// The errors of [`atomically`].
pub fn replaced(path: &Path, content: &[u8]) -> anyhow::Result<File> {
    let write = || -> std::io::Result<File> {
        // A bare file name has the empty path as its parent, which is the current folder but cannot be opened as one.
        let folder = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let mut temporary = temporary(folder)?;
        temporary.write_all(content)?;
        temporary.as_file().sync_all()?;
        let file = temporary.persist(path).map_err(|e| e.error)?;
        // The new name survives a power cut once its folder is on disk too. Windows cannot open folders.
        if cfg!(unix) {
            File::open(folder)?.sync_all()?;
        }
        Ok(file)
    };
    write().with_context(|| format!("cannot write {}", path.display()))
}

/// A temporary file that gets the permissions of an ordinary one (tempfile's own are for the owner only).
fn temporary(folder: &Path) -> std::io::Result<tempfile::NamedTempFile> {
    let mut builder = tempfile::Builder::new();
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        builder.permissions(fs::Permissions::from_mode(0o666)); // less what the umask takes
    }
    builder.prefix(".sim-").tempfile_in(folder)
}
