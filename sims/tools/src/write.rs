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

    /// Checks that a folder can be there and be written to, and leaves nothing behind: for work whose input may still be refused.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_replaced_whole_and_leave_nothing_else_behind() {
        let root = tempfile::tempdir().unwrap();
        let output = Output::open(&root.path().join("a/b")).unwrap();
        for content in ["first, long", "second"] {
            let path = output.write("data/x.csv", content.as_bytes()).unwrap();
            assert_eq!(fs::read_to_string(path).unwrap(), content);
        }
        let names: Vec<_> =
            fs::read_dir(output.path("data")).unwrap().map(|e| e.unwrap().file_name()).collect();
        assert_eq!(names, ["x.csv"]);
    }

    #[cfg(unix)]
    #[test]
    fn files_are_as_readable_as_any_other() {
        use std::os::unix::fs::PermissionsExt;
        let root = tempfile::tempdir().unwrap();
        let output = Output::open(root.path()).unwrap();
        let ours = output.write("data/x.csv", b"x").unwrap();
        let plain = root.path().join("plain");
        fs::write(&plain, b"x").unwrap();
        let mode = |p: &Path| fs::metadata(p).unwrap().permissions().mode();
        assert_eq!(mode(&ours), mode(&plain));
    }

    #[cfg(unix)]
    #[test]
    fn nothing_is_written_through_a_link() {
        let (root, theirs) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let thesis = theirs.path().join("thesis.tex");
        fs::write(&thesis, "thesis").unwrap();
        let output = Output::open(root.path()).unwrap();
        std::os::unix::fs::symlink(&thesis, output.path("data/x.csv")).unwrap();
        output.write("data/x.csv", b"ours").unwrap();
        fs::remove_dir_all(output.path("figures")).unwrap();
        std::os::unix::fs::symlink(theirs.path(), output.path("figures")).unwrap();
        let error = format!("{:#}", Output::open(root.path()).unwrap_err());
        assert!(error.contains("figures: a symbolic link"), "{error}");
        assert_eq!(fs::read(&thesis).unwrap(), b"thesis");
        assert_eq!(fs::read_dir(theirs.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_folder_under_a_file_is_refused() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let error = Output::open(&file.path().join("out")).unwrap_err();
        assert!(error.to_string().starts_with("cannot write to "), "{error}");
    }
}
