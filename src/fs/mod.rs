//! Floor 1: the only access to the disk. The durability of each method is defined here once; the
//! same conformance tests check the operating system's implementation and the simulated one.
//!
//! Paths are relative to the root of an [`Fs`], with `/` between their parts.
//!
//! # What the disk is trusted to do
//!
//! The floors above assume this and nothing else; [`sim`] is a disk that does no more.
//!
//! - A sector of 512 bytes is written wholly or not at all. Any subset of the sectors written since
//!   the last sync may have reached the disk. The length of a file may have grown without its
//!   bytes, which then read as zeros.
//! - A successful sync of a file covers the bytes, the length and the reservations from before the
//!   call, but not the name. A successful sync of a directory covers the names of the files in it,
//!   but not their bytes.
//! - Any subset of the creations, renames and removals in a directory since its last sync may have
//!   reached the disk, each wholly or not at all.
//! - After a failed sync, the data that it should have covered may be missing, although later syncs
//!   succeed and readers see it. [`File::evict`] makes readers see the disk.
//! - Durable data stays as it is, except for damage, which checksums above this floor must detect.

mod disk_of;
mod file_copy;
mod file_crc;
mod forward;
mod memory_limit;
mod metered;
mod mirrored;
mod mounts;
pub mod os;
mod read_only;
mod secret_file;
pub mod sim;
mod split;
mod subdir;

#[cfg(test)]
pub(crate) mod conformance;
#[cfg(test)]
pub(crate) mod differential;

pub use disk_of::{absolute, is_read_only, share_disk};
pub use file_copy::{copy_bytes, copy_file, copy_range};
pub use file_crc::crc32_of;
pub(crate) use forward::{forward_file, forward_fs};
pub use memory_limit::{MemoryLimit, MemoryLimitSource, memory_limit};
pub use metered::{MeteredFs, WriteMeter};
pub use mirrored::{BadBytes, MirroredFs, Side, SideKeeper, SideUse};
pub use mounts::{Mount, mount_of, mounts_of};
pub use os::{DirEntry, OsFs};
pub use read_only::ReadOnlyFs;
pub use secret_file::SecretFile;
pub use split::SplitFs;
pub use subdir::SubdirFs;

use std::any::Any;
use std::io;
use std::ops::Range;
use std::sync::Arc;

use crate::base::limits::KIB;

/// Size of the writes of zeros where the file system cannot preallocate.
const ZERO_STEP_BYTES: u64 = 256 * KIB;

/// A hold on bytes that were asked for elsewhere: they come while one of their readers keeps it.
pub type ReadAhead = Option<Arc<dyn Any + Send + Sync>>;

/// The space of a file system.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Space {
    /// Bytes that this process may still allocate.
    pub free_bytes: u64,
    /// Total bytes.
    pub total_bytes: u64,
    /// The files that this process may still create; `None` where the file system has no fixed
    /// number.
    pub free_files: Option<u64>,
}

/// The disks of a store that has two.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum DiskPlace {
    /// The one for the log, checkpoints and small objects: a sync there is fast.
    Fast,
    /// The one for all else: it is large.
    Bulk,
}

/// The disk usage of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileUsage {
    /// Allocated bytes: without holes, with preallocated space.
    pub allocated_bytes: u64,
    /// The number of its names.
    pub links: u64,
    /// A number that distinguishes the file from its copies, whatever their names are.
    pub id: u64,
}

/// Directories and the names in them.
///
/// Every method here fails with `ResourceBusy` where the process or the system has no descriptor or
/// no memory left (EMFILE, ENFILE, ENOMEM): nothing has been changed then, and the disk is fine. No
/// method of [`File`] fails so.
pub trait Fs: Send + Sync {
    /// Creates an empty file and opens it for reading and writing. Its name is durable after
    /// [`Fs::sync_dir`] of its directory. Where there are two disks, and either may have the file,
    /// it is made on that of `place`.
    ///
    /// # Errors
    /// `AlreadyExists` when the name is taken.
    fn create_on(&self, place: DiskPlace, path: &str) -> io::Result<Arc<dyn File>>;

    /// As [`Fs::create_on`], on the large one of two disks.
    ///
    /// # Errors
    /// As of [`Fs::create_on`].
    fn create(&self, path: &str) -> io::Result<Arc<dyn File>> {
        self.create_on(DiskPlace::Bulk, path)
    }

    /// Opens an existing file for reading and writing.
    ///
    /// # Errors
    /// `NotFound` when there is none.
    fn open(&self, path: &str) -> io::Result<Arc<dyn File>>;

    /// Opens an existing file read-only, which works on a read-only file system.
    ///
    /// # Errors
    /// `NotFound` when there is none.
    fn open_read(&self, path: &str) -> io::Result<Arc<dyn File>>;

    /// As [`Fs::open_read`], for reading large amounts once without displacing cached pages of
    /// other files. As far as the system allows, pages that were not cached before are not cached
    /// afterwards.
    ///
    /// # Errors
    /// As of [`Fs::open_read`].
    fn open_uncached(&self, path: &str) -> io::Result<Arc<dyn File>>;

    /// The names of the regular files in a directory, sorted. A directory that does not exist has
    /// none.
    fn list(&self, dir: &str) -> io::Result<Vec<String>>;

    /// Creates a directory and its parents; does nothing where it exists. The names are durable on
    /// return.
    fn create_dir(&self, dir: &str) -> io::Result<()>;

    /// Renames a file in one step and replaces the file `to`: after a crash `to` means the old file
    /// or the new one, never neither. Where both are names of one file, both stay. Durable after
    /// [`Fs::sync_dir`].
    ///
    /// # Errors
    /// `NotFound` when there is no such file; `InvalidInput` when the names are in different
    /// directories, since no single sync covers both.
    fn rename(&self, from: &str, to: &str) -> io::Result<()>;

    /// Gives a file an additional name, in any directory. Durable after [`Fs::sync_dir`] of the
    /// directory of `to`.
    ///
    /// # Errors
    /// `NotFound` when there is no such file; `AlreadyExists` when `to` is taken; another where the
    /// file system has no hard links.
    fn link(&self, from: &str, to: &str) -> io::Result<()>;

    /// Removes a name. Open files stay readable. Durable after [`Fs::sync_dir`].
    fn remove(&self, path: &str) -> io::Result<()>;

    /// Makes the names in a directory durable; `""` is the root.
    fn sync_dir(&self, dir: &str) -> io::Result<()>;

    /// Takes an exclusive lock on a file and creates it if missing. The lock lasts until the value
    /// is dropped or the process ends.
    ///
    /// # Errors
    /// `WouldBlock` when another process (or another owner in this one) has it.
    fn lock(&self, path: &str) -> io::Result<Box<dyn Lock>>;

    /// The free and total bytes of the file system; where there are two, those of the one with the
    /// log.
    fn space(&self) -> io::Result<Space>;

    /// Whether there are two disks.
    fn has_two_disks(&self) -> bool {
        false
    }

    /// The disk that has a file, where there are two.
    ///
    /// # Errors
    /// `NotFound` where neither has it; of the disks.
    fn place_of(&self, _path: &str) -> io::Result<DiskPlace> {
        Ok(DiskPlace::Bulk)
    }

    /// As [`Fs::sync_dir`], for the names on one of two disks.
    ///
    /// # Errors
    /// As of [`Fs::sync_dir`].
    fn sync_dir_on(&self, _place: DiskPlace, dir: &str) -> io::Result<()> {
        self.sync_dir(dir)
    }

    /// As [`Fs::space`], of one of two disks.
    ///
    /// # Errors
    /// As of [`Fs::space`].
    fn space_on(&self, _place: DiskPlace) -> io::Result<Space> {
        self.space()
    }
}

/// An exclusive lock; dropping it releases it.
pub trait Lock: Send + Sync {}

/// An open file. Methods take offsets, so threads can share one without a cursor.
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
    /// `UnexpectedEof` when the file ends before; `InvalidData` when the disk cannot read the bytes
    /// (EIO and similar). Any other error says nothing about the bytes.
    fn read_exact_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()>;

    /// Writes all of `bytes` at `offset`, extending the file if necessary. Durable after
    /// [`File::sync_data`]; before it any subset of the written sectors may be on disk.
    ///
    /// # Errors
    /// `StorageFull` when there is no space; some bytes may have been written.
    fn write_all_at(&self, bytes: &[u8], offset: u64) -> io::Result<()>;

    /// Writes zeros, as [`File::write_all_at`] writes other bytes. It prepares space, so that later
    /// writes do not change the file system's metadata, and it erases records.
    ///
    /// # Errors
    /// As of [`File::write_all_at`].
    fn write_zeros(&self, offset: u64, len: u64) -> io::Result<()> {
        self.write_all_at(&vec![0; len as usize], offset)
    }

    /// Preallocates `len` bytes from `offset` on, without changing the length or any byte. Returns
    /// `false`, and does nothing, where the file system does not support it.
    ///
    /// # Errors
    /// `StorageFull` when there is no space.
    fn reserve(&self, offset: u64, len: u64) -> io::Result<bool>;

    /// As [`File::reserve`], for bytes at or after the end of the file. Where the file system does
    /// not support it, zeros are written and synced. So a full disk is reported here and not by a
    /// later sync, which may lose other data when it fails. Returns `true` where zeros were
    /// written.
    ///
    /// # Errors
    /// `StorageFull` when there is no space; the file then ends at `offset` at the latest. Others
    /// as of [`File::sync_data`].
    fn ensure_allocated(&self, offset: u64, len: u64) -> io::Result<bool> {
        if self.reserve(offset, len)? {
            return Ok(false);
        }
        let mut steps = (0..len).step_by(ZERO_STEP_BYTES as usize);
        let written = steps
            .try_for_each(|at| self.write_zeros(offset + at, ZERO_STEP_BYTES.min(len - at)))
            .and_then(|()| self.sync_data());
        if written.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::StorageFull) {
            self.truncate(offset)?;
        }
        written.map(|()| true)
    }

    /// Shortens the file to `len` bytes if it is longer, and frees preallocated space after the
    /// end. Durable after [`File::sync_data`]; before it the file may still have its old length.
    fn truncate(&self, len: u64) -> io::Result<()>;

    /// Deallocates `len` bytes from `offset` on, which are inside the file and read as zeros
    /// afterwards. Both numbers are multiples of the page. Durable after [`File::sync_data`];
    /// before it any of the pages may still have its old content. Does nothing where the file
    /// system does not support it.
    fn punch(&self, offset: u64, len: u64) -> io::Result<()>;

    /// The first hole in a range inside the file: bytes that read as zeros and take no space.
    /// `None` where there is none, and where the file system does not say.
    fn next_hole(&self, range: Range<u64>) -> io::Result<Option<Range<u64>>>;

    /// The bytes of the file that are elsewhere; `None` where all of them are here.
    fn elsewhere(&self) -> Option<&dyn BytesElsewhere> {
        None
    }

    /// Takes a shared lock that forbids punching holes, until this handle is closed. Before
    /// punching, [`File::has_shared_lock`] is checked. The lock needs no write permission and is
    /// visible through every mount of the file system (a shared flock(2)).
    ///
    /// # Errors
    /// Where the file system has no such locks, or the system has no memory for it.
    fn lock_shared(&self) -> io::Result<()>;

    /// Whether any process has a shared lock on the file.
    fn has_shared_lock(&self) -> io::Result<bool>;

    /// The disk usage of the file at this moment.
    fn usage(&self) -> io::Result<FileUsage>;

    /// Starts writeback of `len` bytes from `offset` on, so that a later sync waits for less. It
    /// makes nothing durable. The written pages stay in the cache, but are evicted first when
    /// memory is short.
    fn start_writeback(&self, offset: u64, len: u64) -> io::Result<()>;

    /// Makes the bytes and the length durable (fdatasync).
    ///
    /// # Errors
    /// After any error nothing is known of the data written since the last success; calling again
    /// proves nothing.
    fn sync_data(&self) -> io::Result<()>;

    /// Drops the clean cached pages, so that the next reads come from the disk. After a failed
    /// sync, even one of an earlier process, readers may see bytes that never reached the disk, and
    /// later syncs do not report them. This method reveals the loss.
    fn evict(&self) -> io::Result<()>;
}

/// A file whose bytes may be elsewhere, such as on a remote. Its reads ask for them there.
pub trait BytesElsewhere {
    /// Reads bytes from their copy elsewhere, past the own ones. Returns whether there is one:
    /// `out` is as it was otherwise. The caller verifies what it gets.
    ///
    /// # Errors
    /// `HostUnreachable` where the copy cannot be asked for.
    fn read_copy(&self, out: &mut [u8], offset: u64) -> io::Result<bool>;

    /// Notes that own bytes at `offset` are bad, `what` is wrong with them, and that their copy was
    /// read and verified in their place: they are to be replaced.
    fn note_bad(&self, offset: u64, what: &str, copy: VerifiedCopy<'_>);

    /// Says that a range will be read soon and in order, so that its bytes may be asked for at
    /// once.
    ///
    /// # Errors
    /// As of [`File::read_exact_at`].
    fn will_read(&self, range: Range<u64>) -> io::Result<ReadAhead>;

    /// The bytes of a range that can be had without asking elsewhere, where some are kept aside.
    /// The caller verifies them: they may be others.
    fn read_aside(&self, range: Range<u64>) -> Option<Vec<u8>>;

    /// Keeps verified bytes of the file aside, for [`BytesElsewhere::read_aside`]. Without effect
    /// where the disk has no room.
    fn keep_aside(&self, bytes: &[u8], offset: u64);
}

/// Bytes of a file that were read elsewhere and verified.
#[derive(Debug, Clone, Copy)]
pub struct VerifiedCopy<'b> {
    /// Where in the file they are.
    pub offset: u64,
    /// The bytes.
    pub bytes: &'b [u8],
}

/// Whether there is a file of that name.
///
/// # Errors
/// Of the disk.
pub fn is_there(fs: &dyn Fs, path: &str) -> io::Result<bool> {
    match fs.open_read(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        opened => opened.map(|_| true),
    }
}

/// Removes a name, if it is there.
///
/// # Errors
/// Of the disk.
pub fn remove_if_there(fs: &dyn Fs, path: &str) -> io::Result<()> {
    match fs.remove(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => removed,
    }
}

/// Whether `path` is the root or below it.
fn is_inside(path: &str) -> bool {
    path.is_empty() || path.split('/').all(|part| !matches!(part, "" | "." | "..") && !part.contains('\0'))
}

/// The directory of a path, and the name in it.
fn split(path: &str) -> (&str, &str) {
    path.rsplit_once('/').unwrap_or(("", path))
}

/// Whether a read failed because of the data, and not for lack of resources.
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
    fn paths_inside_have_only_whole_parts() {
        assert!(["", "a", "d/a", "d/e/.a", "..a", "a.."].iter().all(|path| is_inside(path)));
        let outside = ["/", "/a", "a/", "d//a", ".", "..", "./a", "d/../a", "d/..", "a\0b"];
        assert!(outside.iter().all(|path| !is_inside(path)));
    }
}
