//! Floor 1: the only door to the disk. What each method promises about durability is said here once; the
//! operating system's implementation and the simulated one are held to it by the same tests.
//!
//! Paths are relative to the root that an [`Fs`] was made for, with `/` between their parts.
//!
//! # What the disk is trusted to do
//!
//! All that is built on this floor assumes this and nothing else; [`sim`] is a disk that does no more.
//!
//! - A sector of 512 bytes is written wholly or not at all. Sectors written since the last sync may have reached the
//!   disk in any selection, and the length of a file may have grown without its bytes: then zeros are read.
//! - A sync that succeeded covers what was written before it was asked: of a file its bytes, its length and its
//!   reservations, but not its name; of a directory the names of the files in it, but not their bytes.
//! - The makings, renamings and removals in one directory since its last sync may have reached the disk in any
//!   selection, each wholly or not at all.
//! - After a sync that failed, what it should have covered may be missing although later syncs succeed and readers
//!   see it, until [`File::evict`] makes them look at the disk.
//! - What is durable stays as it is, but for damage, which checksums above this floor must find.

mod metered;
pub mod os;
mod read_only;
pub mod sim;
mod subdir;

#[cfg(test)]
mod conformance;
#[cfg(test)]
mod differential;

pub use metered::{MeteredFs, WriteMeter};
pub use os::OsFs;
pub use read_only::ReadOnlyFs;
pub use subdir::SubdirFs;

use std::io;
use std::sync::Arc;

use crate::base::limits::KIB;

/// Where room cannot be set aside, so many zeros are written at once in its place.
const ZERO_STEP_BYTES: u64 = 256 * KIB;

/// Bytes of a file system.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Space {
    /// Bytes that this process may still allocate.
    pub free_bytes: u64,
    /// Bytes in all.
    pub total_bytes: u64,
}

/// What a file takes up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileUsage {
    /// Bytes that are allocated for it: holes do not count, room that was set aside does.
    pub allocated_bytes: u64,
    /// Names that it has.
    pub links: u64,
}

/// Directories and the names in them.
///
/// Any method here fails with `ResourceBusy` where the process or the system has no descriptor or no memory left for it
/// (EMFILE, ENFILE, ENOMEM): nothing has happened then, and nothing is wrong with the disk. No method of [`File`] does.
pub trait Fs: Send + Sync {
    /// Makes an empty file and opens it for reading and writing. Its name is durable after [`Fs::sync_dir`] of its
    /// directory.
    ///
    /// # Errors
    /// `AlreadyExists` when the name is taken.
    fn create(&self, path: &str) -> io::Result<Arc<dyn File>>;

    /// Opens an existing file for reading and writing.
    ///
    /// # Errors
    /// `NotFound` when there is none.
    fn open(&self, path: &str) -> io::Result<Arc<dyn File>>;

    /// Opens an existing file for reading alone, which works on a read-only file system.
    ///
    /// # Errors
    /// `NotFound` when there is none.
    fn open_read(&self, path: &str) -> io::Result<Arc<dyn File>>;

    /// As [`Fs::open_read`], for reading much of it once: what is read takes the place of nothing that others read often. As far
    /// as the system can tell and be told, pages that were not cached before are not cached afterwards.
    ///
    /// # Errors
    /// As of [`Fs::open_read`].
    fn open_uncached(&self, path: &str) -> io::Result<Arc<dyn File>>;

    /// The names of the regular files in a directory, sorted. A directory that does not exist has none.
    fn list(&self, dir: &str) -> io::Result<Vec<String>>;

    /// Makes a directory and its parents; nothing happens where it exists. The names are durable on return.
    fn create_dir(&self, dir: &str) -> io::Result<()>;

    /// Gives a file another name in one step, replacing what bore it: after a crash the new name means the old file
    /// or the new one, never neither. Where both are names of one file already, both stay. Durable after
    /// [`Fs::sync_dir`].
    ///
    /// # Errors
    /// `NotFound` when there is no such file; `InvalidInput` when the names are not in one directory, since across two
    /// no single sync makes it one step.
    fn rename(&self, from: &str, to: &str) -> io::Result<()>;

    /// Gives a file a further name, in any directory. Both names mean the same file from then on, until one of them is
    /// taken away. Durable after [`Fs::sync_dir`] of the directory of `to`.
    ///
    /// # Errors
    /// `NotFound` when there is no such file; `AlreadyExists` when `to` is taken; another where the file system knows no
    /// such thing.
    fn link(&self, from: &str, to: &str) -> io::Result<()>;

    /// Takes a name away. Files that are open stay readable. Durable after [`Fs::sync_dir`].
    fn remove(&self, path: &str) -> io::Result<()>;

    /// Makes durable which names a directory holds; `""` is the root.
    fn sync_dir(&self, dir: &str) -> io::Result<()>;

    /// Takes an exclusive lock on a file, which is made where it is missing, until the answer is dropped or the
    /// process ends.
    ///
    /// # Errors
    /// `WouldBlock` when another process (or another holder in this one) has it.
    fn lock(&self, path: &str) -> io::Result<Box<dyn Lock>>;

    /// How much room the file system has.
    fn space(&self) -> io::Result<Space>;
}

/// An exclusive lock; dropping it gives it back.
pub trait Lock: Send + Sync {}

/// An open file. Methods take offsets, so that threads share one without a cursor between them.
#[expect(
    clippy::len_without_is_empty,
    reason = "a file of the store is asked how long it is, never whether it is empty"
)]
pub trait File: Send + Sync {
    /// The length in bytes.
    fn len(&self) -> io::Result<u64>;

    /// Fills `buf` from `offset` on.
    ///
    /// # Errors
    /// `UnexpectedEof` when the file ends before; `InvalidData` when the disk cannot give back what was written there (EIO and
    /// its like). Any other says nothing of the bytes.
    fn read_exact_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()>;

    /// Writes all of `bytes` at `offset`, beyond the end where need be. Durable after [`File::sync_data`]; before it
    /// any subset of the sectors written may be on disk, in any order.
    ///
    /// # Errors
    /// `StorageFull` when there is no room; some bytes may have been written.
    fn write_all_at(&self, bytes: &[u8], offset: u64) -> io::Result<()>;

    /// Writes zeros, as [`File::write_all_at`] does other bytes: for room that is to be written to without a change to the file
    /// system's own metadata, and over what is taken back.
    ///
    /// # Errors
    /// As of [`File::write_all_at`].
    fn write_zeros(&self, offset: u64, len: u64) -> io::Result<()> {
        self.write_all_at(&vec![0; len as usize], offset)
    }

    /// Sets room aside for `len` bytes from `offset` on, without changing the length or any byte. `false` where the file
    /// system knows no such thing; nothing has happened then.
    ///
    /// # Errors
    /// `StorageFull` when there is no room.
    fn reserve(&self, offset: u64, len: u64) -> io::Result<bool>;

    /// As [`File::reserve`], for bytes at or after the end of the file. Where the file system knows no such thing, zeros are
    /// written and synced, so that it says now that there is no room, and not when what is written over them is synced:
    /// after a sync that failed nobody knows what else it has lost. `true` where there are zeros now.
    ///
    /// # Errors
    /// `StorageFull` when there is no room; the file then ends at `offset` at the latest. Others as of [`File::sync_data`].
    fn ensure_allocated(&self, offset: u64, len: u64) -> io::Result<bool> {
        if self.reserve(offset, len)? {
            return Ok(false);
        }
        let mut steps = (0..len).step_by(ZERO_STEP_BYTES as usize);
        let zeros = |at: u64| self.write_zeros(offset + at, ZERO_STEP_BYTES.min(len - at));
        let written = steps.try_for_each(zeros).and_then(|()| self.sync_data());
        if written.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::StorageFull) {
            self.truncate(offset)?;
        }
        written.map(|()| true)
    }

    /// Ends the file behind its first `len` bytes, or where it ends now, if that is earlier; the room that was set aside
    /// behind goes back. Durable after [`File::sync_data`]; before it the file may still have its old length.
    fn truncate(&self, len: u64) -> io::Result<()>;

    /// Gives back the room of `len` bytes from `offset` on, which lie inside the file: they read as zeros from now on, by
    /// whatever name the file is opened. Durable after [`File::sync_data`]; before it any of the pages may still hold
    /// what was there. Both numbers are multiples of the page. Where the file system knows no such thing, nothing happens.
    fn punch(&self, offset: u64, len: u64) -> io::Result<()>;

    /// Has the file hold what it holds as long as it is open here: whoever punches holes asks [`File::has_shared_lock`] before. It
    /// takes no right to write, and is seen through every mount of the file system (a shared flock(2)).
    ///
    /// # Errors
    /// Where the file system knows no such thing, or the system has no room for it.
    fn lock_shared(&self) -> io::Result<()>;

    /// Whether somebody, in whatever process, has the file hold what it holds.
    fn has_shared_lock(&self) -> io::Result<bool>;

    /// What the file takes up at this moment.
    fn usage(&self) -> io::Result<FileUsage>;

    /// Has the system begin to write out `len` bytes from `offset` on, so that a later sync has less to wait for. Nothing is
    /// durable by it. What has been written out stays in the cache, but is the first to go where memory runs short.
    fn start_writeback(&self, offset: u64, len: u64) -> io::Result<()>;

    /// Makes the bytes and the length durable (fdatasync).
    ///
    /// # Errors
    /// After any error nothing is known of what was written since the last success, and asking again proves nothing.
    fn sync_data(&self) -> io::Result<()>;

    /// Forgets the cached bytes, as far as nothing waits in them for a sync, so that the next reads come from the disk. After
    /// a sync has failed, perhaps under an earlier process, readers may be shown what never reached the disk, and
    /// later syncs say nothing of it: this is how it is found out.
    fn evict(&self) -> io::Result<()>;
}

/// Whether `path` names the root or something subdir it.
fn is_inside(path: &str) -> bool {
    path.is_empty() || path.split('/').all(|part| !matches!(part, "" | "." | "..") && !part.contains('\0'))
}

/// The directory of a path, and the name in it.
fn split(path: &str) -> (&str, &str) {
    path.rsplit_once('/').unwrap_or(("", path))
}

/// Whether a read failed because of what is read, and not for want of something else.
fn is_unreadable(error: &io::Error) -> bool {
    use rustix::io::Errno;
    let of_the_disk = [Errno::IO, Errno::BADMSG, Errno::UCLEAN, Errno::NODATA, Errno::REMOTEIO, Errno::ILSEQ];
    error.raw_os_error().is_some_and(|code| of_the_disk.iter().any(|errno| errno.raw_os_error() == code))
}

fn check_one_directory(from: &str, to: &str) -> io::Result<()> {
    if split(from).0 == split(to).0 {
        return Ok(());
    }
    Err(io::Error::new(io::ErrorKind::InvalidInput, format!("{from}: {to} is in another directory")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_inside_have_whole_parts_alone() {
        assert!(["", "a", "d/a", "d/e/.a", "..a", "a.."].iter().all(|path| is_inside(path)));
        let outside = ["/", "/a", "a/", "d//a", ".", "..", "./a", "d/../a", "d/..", "a\0b"];
        assert!(outside.iter().all(|path| !is_inside(path)));
    }
}
