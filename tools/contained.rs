//! A directory whose files are reached by names that do not lead out of it, whatever symbolic links
//! are in it.
//!
//! The kernel resolves the names (openat2, since Linux 5.6), so that a link which is made in the
//! meantime changes nothing.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{
    AtFlags, Dir, FileType, Mode, OFlags, ResolveFlags, mkdirat, openat2, renameat, statat, unlinkat,
};
use rustix::io::Errno;

/// An entry of a directory.
pub(crate) struct ContainedEntry {
    pub(crate) name: OsString,
    pub(crate) kind: EntryKind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum EntryKind {
    Directory,
    File,
    /// A link, a pipe, and so on.
    Other,
}

/// A directory, opened once.
pub(crate) struct ContainedDirectory {
    handle: OwnedFd,
    path: PathBuf,
}

impl ContainedDirectory {
    /// Opens `path`, which may be a link itself.
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        let flags = OFlags::DIRECTORY | OFlags::RDONLY | OFlags::CLOEXEC;
        let handle = rustix::fs::open(path, flags, Mode::empty())?;
        Ok(Self { handle, path: path.to_owned() })
    }

    /// The path by which it was opened, for messages.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Opens a file for reading. Links within the directory are followed.
    ///
    /// # Errors
    /// Errors of the kernel; `InvalidInput` if the name leads out of the directory or to no regular
    /// file.
    pub(crate) fn read(&self, name: &str) -> io::Result<File> {
        // Without NONBLOCK the open would wait for the other end of a pipe.
        let file = File::from(self.resolve(name, OFlags::RDONLY | OFlags::NONBLOCK, Mode::empty())?);
        match file.metadata()?.is_file() {
            true => Ok(file),
            false => Err(io::Error::new(io::ErrorKind::InvalidInput, "it is no regular file")),
        }
    }

    /// Opens a regular file for reading that is itself no link; `None` if there is something else,
    /// or nothing.
    pub(crate) fn read_plain(&self, name: &str) -> Option<File> {
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOFOLLOW;
        let file = File::from(self.resolve(name, flags, Mode::empty()).ok()?);
        file.metadata().is_ok_and(|metadata| metadata.is_file()).then_some(file)
    }

    /// Whether something has the name; a link counts, wherever it leads.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.resolve(name, OFlags::PATH | OFlags::NOFOLLOW, Mode::empty()).is_ok()
    }

    /// Creates or empties a file. It is not written through a link.
    pub(crate) fn create(&self, name: &str) -> io::Result<File> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::TRUNC | OFlags::NOFOLLOW;
        Ok(File::from(self.resolve(name, flags, Mode::from_raw_mode(0o666))?))
    }

    /// Makes a directory and those above it, where they are missing.
    pub(crate) fn make_directories(&self, name: &str) -> io::Result<()> {
        let ends = name.match_indices('/').map(|(at, _)| at).chain([name.len()]);
        for end in ends {
            let below = &name[..end];
            let (parent, last) = self.parent_of(below)?;
            match mkdirat(&parent, last, Mode::from_raw_mode(0o777)) {
                Ok(()) | Err(Errno::EXIST) => {}
                Err(error) => return Err(error.into()),
            }
            self.directory(below)?;
        }
        Ok(())
    }

    /// Moves a file. A link of the new name is replaced, not followed.
    pub(crate) fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        let (from_parent, from_last) = self.parent_of(from)?;
        let (to_parent, to_last) = self.parent_of(to)?;
        Ok(renameat(from_parent, from_last, to_parent, to_last)?)
    }

    /// Removes a file, or a link.
    pub(crate) fn remove(&self, name: &str) -> io::Result<()> {
        let (parent, last) = self.parent_of(name)?;
        Ok(unlinkat(parent, last, AtFlags::empty())?)
    }

    /// The entries of a directory; of this one for an empty name. Nothing is reached through a link.
    pub(crate) fn entries(&self, name: &str) -> io::Result<Vec<ContainedEntry>> {
        let name = if name.is_empty() { "." } else { name };
        let directory =
            self.resolve(name, OFlags::DIRECTORY | OFlags::RDONLY | OFlags::NOFOLLOW, Mode::empty())?;
        let mut entries = Vec::new();
        for entry in Dir::read_from(&directory)? {
            let entry = entry?;
            let file = entry.file_name();
            if [c".", c".."].contains(&file) {
                continue;
            }
            // Some file systems do not tell the type with the name.
            let kind = match entry.file_type() {
                FileType::Unknown => {
                    FileType::from_raw_mode(statat(&directory, file, AtFlags::SYMLINK_NOFOLLOW)?.st_mode)
                }
                told => told,
            };
            let kind = match kind {
                FileType::Directory => EntryKind::Directory,
                FileType::RegularFile => EntryKind::File,
                _ => EntryKind::Other,
            };
            entries.push(ContainedEntry { name: OsStr::from_bytes(file.to_bytes()).to_owned(), kind });
        }
        Ok(entries)
    }

    /// Removes the files of a directory that has no directories.
    pub(crate) fn remove_files_of(&self, name: &str) -> io::Result<()> {
        let directory = self.directory(name)?;
        for entry in Dir::read_from(&directory)? {
            let entry = entry?;
            let file = entry.file_name();
            if ![c".", c".."].contains(&file) {
                unlinkat(&directory, file, AtFlags::empty())?;
            }
        }
        Ok(())
    }

    /// Makes the names in a directory durable; in this one for an empty name.
    pub(crate) fn sync(&self, name: &str) -> io::Result<()> {
        let name = if name.is_empty() { "." } else { name };
        File::from(self.directory(name)?).sync_all()
    }

    fn directory(&self, name: &str) -> io::Result<OwnedFd> {
        self.resolve(name, OFlags::DIRECTORY | OFlags::RDONLY, Mode::empty())
    }

    /// The directory that a name is in, and its last part.
    fn parent_of<'n>(&self, name: &'n str) -> io::Result<(OwnedFd, &'n str)> {
        let (parent, last) = name.rsplit_once('/').unwrap_or((".", name));
        Ok((self.directory(parent)?, last))
    }

    fn resolve(&self, name: &str, flags: OFlags, mode: Mode) -> io::Result<OwnedFd> {
        loop {
            let opened = openat2(&self.handle, name, flags | OFlags::CLOEXEC, mode, ResolveFlags::BENEATH);
            match opened {
                // A rename elsewhere in the meantime.
                Err(Errno::AGAIN | Errno::INTR) => {}
                opened => return opened.map_err(told),
            }
        }
    }
}

fn told(error: Errno) -> io::Error {
    let text = match error {
        Errno::XDEV => "a symbolic link leads out of the directory",
        Errno::LOOP => "it is a symbolic link",
        Errno::NOSYS => {
            "the kernel cannot keep names within a directory (openat2, since Linux 5.6), so nothing is read or written by them"
        }
        error => return error.into(),
    };
    io::Error::new(io::ErrorKind::InvalidInput, text)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::Read as _;
    use std::os::unix::fs::symlink;

    use super::*;

    /// A directory `in` beside `out`, with links from one into the other.
    fn with_links() -> (tempfile::TempDir, ContainedDirectory) {
        let dir = tempfile::tempdir().unwrap();
        let inside = dir.path().join("in");
        fs::create_dir_all(inside.join("sub")).unwrap();
        fs::create_dir(dir.path().join("out")).unwrap();
        fs::write(dir.path().join("out/secret"), "secret").unwrap();
        fs::write(inside.join("sub/file"), "text").unwrap();
        symlink("../out/secret", inside.join("relative")).unwrap();
        symlink(dir.path().join("out/secret"), inside.join("absolute")).unwrap();
        symlink("../out", inside.join("away")).unwrap();
        symlink("sub", inside.join("within")).unwrap();
        let opened = ContainedDirectory::open(&inside).unwrap();
        (dir, opened)
    }

    fn refused<T>(outcome: io::Result<T>) -> String {
        outcome.err().unwrap().to_string()
    }

    #[test]
    fn nothing_is_read_outside() {
        let (_dir, contained) = with_links();
        for name in ["relative", "absolute", "away/secret", "../out/secret", "sub/../../out/secret"] {
            assert!(refused(contained.read(name)).contains("leads out"), "{name}");
            assert!(contained.read_plain(name).is_none(), "{name}");
        }
        let mut text = String::new();
        contained.read("within/file").unwrap().read_to_string(&mut text).unwrap();
        assert_eq!(text, "text");
        assert!(contained.read_plain("sub/file").is_some() && contained.read_plain("within").is_none());
        assert!(refused(contained.read("sub")).contains("no regular file"));
    }

    #[test]
    fn nothing_is_written_outside() {
        let (dir, contained) = with_links();
        for name in ["relative", "absolute", "away/new"] {
            assert!(contained.create(name).is_err(), "{name}");
        }
        assert!(contained.make_directories("away/new/deep").is_err());
        assert!(contained.rename("sub/file", "away/file").is_err());
        assert!(contained.remove("away/secret").is_err());
        assert!(contained.remove_files_of("away").is_err());
        assert_eq!(fs::read_dir(dir.path().join("out")).unwrap().count(), 1);
        assert_eq!(fs::read(dir.path().join("out/secret")).unwrap(), b"secret");
    }

    #[test]
    fn a_link_is_replaced_and_not_followed() {
        let (dir, contained) = with_links();
        contained.rename("sub/file", "relative").unwrap();
        assert_eq!(fs::read(dir.path().join("in/relative")).unwrap(), b"text");
        assert_eq!(fs::read(dir.path().join("out/secret")).unwrap(), b"secret");
        contained.remove("absolute").unwrap();
        assert!(dir.path().join("out/secret").exists());
    }

    #[test]
    fn directories_are_made_and_emptied() {
        let (dir, contained) = with_links();
        contained.make_directories("a/b/c").unwrap();
        contained.make_directories("a/b/c").unwrap();
        contained.make_directories("within/d").unwrap();
        assert!(dir.path().join("in/sub/d").is_dir());
        contained.create("a/b/c/file").unwrap();
        contained.remove_files_of("a/b/c").unwrap();
        assert!(!contained.has("a/b/c/file") && contained.has("a/b/c") && contained.has("relative"));
        contained.sync("a/b").unwrap();
        contained.sync("").unwrap();
        assert!(contained.make_directories("sub/file/x").is_err());
    }

    #[test]
    fn a_pipe_is_not_waited_for() {
        let (dir, contained) = with_links();
        rustix::fs::mknodat(
            rustix::fs::CWD,
            dir.path().join("in/pipe"),
            FileType::Fifo,
            Mode::from_raw_mode(0o600),
            0,
        )
        .unwrap();
        assert!(refused(contained.read("pipe")).contains("no regular file"));
    }
}
