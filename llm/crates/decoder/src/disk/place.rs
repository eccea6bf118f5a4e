//! Names in open directories, through which no symbolic link is followed: a link in a directory from elsewhere would send what is written to
//! any file of the user's.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Component, Path, PathBuf};

use rustix::fs::{self, AtFlags, CWD, FileType, Mode, OFlags};
use rustix::io::Errno;

/// A directory that is held open. Its own path may be a link, which is the user's to choose.
#[derive(Debug)]
pub(super) struct Root {
    path: PathBuf,
    directory: OwnedFd,
}

/// A directory that may be entered, though perhaps not listed.
#[cfg(target_os = "linux")]
const ENTER: OFlags = OFlags::PATH;
#[cfg(not(target_os = "linux"))]
const ENTER: OFlags = OFlags::RDONLY;

fn enter(directory: impl AsFd, name: &OsStr, follow: OFlags) -> io::Result<OwnedFd> {
    let flags = ENTER | OFlags::DIRECTORY | OFlags::CLOEXEC | follow;
    Ok(fs::openat(directory, name, flags, Mode::empty())?)
}

impl Root {
    /// Opens a directory; one inside of `outer` must not be a link.
    pub(super) fn open(outer: Option<&Root>, path: &Path) -> io::Result<Root> {
        let directory = match outer.filter(|outer| outer.names(path).is_some()) {
            Some(outer) => Place::find(Some(outer), path)?.enter()?,
            None => enter(CWD, path.as_os_str(), OFlags::empty())?,
        };
        Ok(Root { path: path.to_owned(), directory })
    }

    /// The names from this directory to `path`; `None` if it is elsewhere.
    pub(super) fn names<'p>(&self, path: &'p Path) -> Option<&'p Path> {
        path.strip_prefix(&self.path).ok()
    }

    /// True if the path of this directory still names it.
    pub(super) fn is_in_place(&self) -> io::Result<bool> {
        let (ours, there) = (fs::fstat(&self.directory)?, fs::stat(&self.path)?);
        Ok((ours.st_dev, ours.st_ino) == (there.st_dev, there.st_ino))
    }
}

/// A name in an open directory.
#[derive(Debug)]
pub(super) struct Place {
    directory: OwnedFd,
    name: OsString,
}

impl Place {
    /// Enters the directories of `path` from `root`, no name of which may be a link; outside of it, as the system does.
    pub(super) fn find(root: Option<&Root>, path: &Path) -> io::Result<Place> {
        let Some((root, names)) = root.and_then(|root| Some((root, root.names(path)?))) else {
            let name = path.file_name().unwrap_or(OsStr::new(".")).to_owned();
            let above = if path.file_name().is_some() { super::parent(path) } else { path };
            return Ok(Place { directory: enter(CWD, above.as_os_str(), OFlags::empty())?, name });
        };
        let mut place = Place { directory: root.directory.try_clone()?, name: OsString::from(".") };
        for (i, part) in names.components().enumerate() {
            let Component::Normal(name) = part else {
                return Err(io::Error::new(io::ErrorKind::InvalidInput, "a path out of its directory"));
            };
            if i > 0 {
                place.directory = place.enter()?;
            }
            place.name = name.to_owned();
        }
        Ok(place)
    }

    /// Opens the directory of this name.
    fn enter(&self) -> io::Result<OwnedFd> {
        enter(&self.directory, &self.name, OFlags::NOFOLLOW).map_err(|e| self.explained(e))
    }

    /// Says of a link that it is one, since the system's words for it differ by call.
    fn explained(&self, error: io::Error) -> io::Error {
        let found = fs::statat(&self.directory, &*self.name, AtFlags::SYMLINK_NOFOLLOW);
        if found.is_ok_and(|found| FileType::from_raw_mode(found.st_mode) == FileType::Symlink) {
            let problem = format!(
                "{} is a symbolic link, and nothing is written through one; put a file or folder of its own there",
                self.name.display()
            );
            return io::Error::new(io::ErrorKind::InvalidInput, problem);
        }
        error
    }

    fn open(&self, flags: OFlags) -> io::Result<File> {
        let flags = flags | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let opened = fs::openat(&self.directory, &*self.name, flags, Mode::from_raw_mode(0o666));
        opened.map(File::from).map_err(|e| self.explained(e.into()))
    }

    /// A new file to write, in place of what a killed process left under this name.
    pub(super) fn create_new(&self) -> io::Result<File> {
        match fs::unlinkat(&self.directory, &*self.name, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => self.open(OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL),
            Err(e) => Err(e.into()),
        }
    }

    /// The file of this name, or a new one, to read and to append to.
    pub(super) fn open_to_append(&self) -> io::Result<File> {
        self.open(OFlags::RDWR | OFlags::APPEND | OFlags::CREATE)
    }

    /// The file or directory of this name.
    pub(super) fn open_to_sync(&self) -> io::Result<File> {
        self.open(OFlags::RDONLY)
    }

    /// The directory that holds the name.
    pub(super) fn open_parent(&self) -> io::Result<File> {
        Ok(fs::openat(&self.directory, ".", OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?.into())
    }

    /// True if the name is that of this open file.
    pub(super) fn is(&self, file: &File) -> io::Result<bool> {
        let there = match fs::statat(&self.directory, &*self.name, AtFlags::SYMLINK_NOFOLLOW) {
            Err(Errno::NOENT) => return Ok(false),
            there => there?,
        };
        let ours = fs::fstat(file)?;
        Ok((ours.st_dev, ours.st_ino) == (there.st_dev, there.st_ino))
    }

    pub(super) fn create_directory(&self) -> io::Result<()> {
        Ok(fs::mkdirat(&self.directory, &*self.name, Mode::from_raw_mode(0o777))?)
    }

    /// Creates the directory of this name unless it is there. True if it was not.
    pub(super) fn ensure_directory(&self) -> io::Result<bool> {
        match fs::mkdirat(&self.directory, &*self.name, Mode::from_raw_mode(0o777)) {
            Err(Errno::EXIST) => self.enter().map(|_| false),
            made => Ok(made.map(|()| true)?),
        }
    }

    pub(super) fn rename(&self, to: &Place) -> io::Result<()> {
        Ok(fs::renameat(&self.directory, &*self.name, &to.directory, &*to.name)?)
    }

    pub(super) fn link(&self, to: &Place) -> io::Result<()> {
        Ok(fs::linkat(&self.directory, &*self.name, &to.directory, &*to.name, AtFlags::empty())?)
    }

    pub(super) fn remove_file(&self) -> io::Result<()> {
        Ok(fs::unlinkat(&self.directory, &*self.name, AtFlags::empty())?)
    }

    /// Removes an empty directory.
    pub(super) fn remove_directory(&self) -> io::Result<()> {
        Ok(fs::unlinkat(&self.directory, &*self.name, AtFlags::REMOVEDIR)?)
    }

    /// The names in the directory of this name, sorted; `None` for a file or a link.
    pub(super) fn entries(&self) -> io::Result<Option<Vec<Place>>> {
        let found = fs::statat(&self.directory, &*self.name, AtFlags::SYMLINK_NOFOLLOW)?;
        if FileType::from_raw_mode(found.st_mode) != FileType::Directory {
            return Ok(None);
        }
        let file = self.open(OFlags::RDONLY | OFlags::DIRECTORY)?;
        let mut names = Vec::new();
        for entry in fs::Dir::read_from(&file)? {
            use std::os::unix::ffi::OsStrExt;
            let entry = entry?;
            names.push(OsStr::from_bytes(entry.file_name().to_bytes()).to_owned());
        }
        names.retain(|name| name != "." && name != "..");
        names.sort();
        let place = |name| Ok(Place { directory: OwnedFd::from(file.try_clone()?), name });
        names.into_iter().map(place).collect::<io::Result<Vec<_>>>().map(Some)
    }

    pub(super) fn name(&self) -> &OsStr {
        &self.name
    }
}
