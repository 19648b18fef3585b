//! The operating system's file system.

use std::fs::{DirBuilder, File as StdFile, Metadata, OpenOptions};
use std::io::{self, IoSliceMut};
use std::num::NonZeroU64;
use std::ops::Range;
use std::os::unix::fs::{DirBuilderExt, FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::UNIX_EPOCH;

use fs2::FileExt as _;
use rustix::fs::{Advice, FallocateFlags, FlockOperation, SeekFrom, fadvise, fallocate, flock, seek};
use rustix::io::{Errno, ReadWriteFlags, preadv2, retry_on_intr};

use crate::base::limits::PAGE_BYTES;

use super::{
    DiskPlace, File, FileUsage, Fs, Lock, Space, check_one_directory, is_inside, is_unreadable, split,
};

/// Only the owner may read the files: nothing else protects them from other users of the host.
const FILE_MODE: u32 = 0o600;
const DIR_MODE: u32 = 0o700;

/// An entry of a directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DirEntry {
    /// Its name.
    pub name: String,
    /// Whether it is a directory, or a link to one.
    pub is_dir: bool,
}

/// A directory of the operating system, with everything below it.
///
/// Errors keep their kind and name the path, so that an operator knows which file is meant.
#[derive(Debug, Clone)]
pub struct OsFs {
    root: PathBuf,
}

impl OsFs {
    /// The file system below `root`. Nothing is accessed yet; see [`OsFs::create_root`].
    pub fn new(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into() }
    }

    /// Creates the root and its parents, accessible to their owner only; does nothing where it
    /// exists. The names are durable on return.
    ///
    /// # Errors
    /// `AlreadyExists` when the root or a parent is not a directory.
    pub fn create_root(&self) -> io::Result<()> {
        let root = std::path::absolute(&self.root)?;
        create_durably(&root)
    }

    /// Waits for an exclusive lock on the root itself, as
    /// [`SecretFile::edit`](super::SecretFile::edit) takes it: for changes of files that are
    /// replaced, which have no lock of their own.
    ///
    /// # Errors
    /// The root cannot be opened, or has no locks.
    pub fn lock_root(&self) -> io::Result<Box<dyn Lock>> {
        let root = StdFile::open(&self.root).map_err(|e| open_error(&self.root, &e))?;
        root.lock().map_err(|e| with_path(&self.root, &e))?;
        Ok(Box::new(OsLock { _file: root }))
    }

    /// All entries of a directory, by name; `""` is the root. Names that are not UTF-8 have
    /// replacement characters.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn entries(&self, dir: &str) -> io::Result<Vec<DirEntry>> {
        let path = if dir.is_empty() { self.root.clone() } else { self.root.join(dir) };
        let mut entries = Vec::new();
        for entry in std::fs::read_dir(&path).map_err(|e| open_error(&path, &e))? {
            let entry = entry?;
            let is_dir = std::fs::metadata(entry.path()).is_ok_and(|metadata| metadata.is_dir());
            entries.push(DirEntry { name: entry.file_name().to_string_lossy().into_owned(), is_dir });
        }
        entries.sort_unstable_by(|one, other| one.name.cmp(&other.name));
        Ok(entries)
    }

    /// Gives a file of this file system an additional name on `other`, as [`Fs::link`] does on one.
    ///
    /// # Errors
    /// As of [`Fs::link`]; `CrossesDevices` when they are on different file systems.
    pub fn link_into(&self, from: &str, other: &Self, to: &str) -> io::Result<()> {
        let from = self.at(from);
        let to = other.at(to);
        std::fs::hard_link(&from, &to).map_err(|e| open_error(&from, &e))
    }

    /// The absolute path; `""` is the root.
    fn at(&self, path: &str) -> PathBuf {
        debug_assert!(is_inside(path), "{path:?} leaves the root");
        if path.is_empty() { self.root.clone() } else { self.root.join(path) }
    }

    fn open_with(&self, path: &str, options: &OpenOptions) -> io::Result<Arc<dyn File>> {
        let path = self.at(path);
        let file = options.open(&path).map_err(|e| open_error(&path, &e))?;
        Ok(Arc::new(OsFile { file, path, uncached: false }))
    }
}

impl Fs for OsFs {
    fn create_on(&self, _: DiskPlace, path: &str) -> io::Result<Arc<dyn File>> {
        self.open_with(path, OpenOptions::new().read(true).write(true).create_new(true).mode(FILE_MODE))
    }

    fn open(&self, path: &str) -> io::Result<Arc<dyn File>> {
        self.open_with(path, OpenOptions::new().read(true).write(true))
    }

    fn open_read(&self, path: &str) -> io::Result<Arc<dyn File>> {
        self.open_with(path, OpenOptions::new().read(true))
    }

    fn open_uncached(&self, path: &str) -> io::Result<Arc<dyn File>> {
        let path = self.at(path);
        let file = StdFile::open(&path).map_err(|e| open_error(&path, &e))?;
        // Disables readahead, whose pages would stay in the cache.
        fadvise(&file, 0, None, Advice::Random).map_err(|errno| with_path(&path, &errno.into()))?;
        Ok(Arc::new(OsFile { file, path, uncached: true }))
    }

    fn list(&self, dir: &str) -> io::Result<Vec<String>> {
        let path = self.at(dir);
        match regular_files(&path) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
            listed => listed.map_err(|e| open_error(&path, &e)),
        }
    }

    fn create_dir(&self, dir: &str) -> io::Result<()> {
        let ends = dir.match_indices('/').map(|(end, _)| end).chain([dir.len()]);
        for path in ends.map(|end| &dir[..end]) {
            let child = self.at(path);
            let parent = self.at(split(path).0);
            // From the top: a name is durable only if all names above it are.
            make_dir(&child).map_err(|e| open_error(&child, &e))?;
            sync_dir(&parent)?;
        }
        Ok(())
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        check_one_directory(from, to)?;
        let from = self.at(from);
        let to = self.at(to);
        std::fs::rename(&from, &to).map_err(|e| open_error(&from, &e))
    }

    fn link(&self, from: &str, to: &str) -> io::Result<()> {
        self.link_into(from, self, to)
    }

    fn remove(&self, path: &str) -> io::Result<()> {
        let path = self.at(path);
        std::fs::remove_file(&path).map_err(|e| open_error(&path, &e))
    }

    fn sync_dir(&self, dir: &str) -> io::Result<()> {
        sync_dir(&self.at(dir))
    }

    fn lock(&self, path: &str) -> io::Result<Box<dyn Lock>> {
        let path = self.at(path);
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false).mode(FILE_MODE);
        let file = options.open(&path).map_err(|e| open_error(&path, &e))?;
        file.try_lock_exclusive().map_err(|e| with_path(&path, &e))?;
        Ok(Box::new(OsLock { _file: file }))
    }

    fn space(&self) -> io::Result<Space> {
        let stats = rustix::fs::statvfs(&self.root).map_err(|e| open_error(&self.root, &e.into()))?;
        Ok(Space {
            free_bytes: stats.f_bavail.saturating_mul(stats.f_frsize),
            total_bytes: stats.f_blocks.saturating_mul(stats.f_frsize),
            free_files: (stats.f_files > 0).then_some(stats.f_favail),
        })
    }
}

/// The lock belongs to the open file: closing it, or the end of the process, releases the lock.
struct OsLock {
    _file: StdFile,
}

impl Lock for OsLock {}

struct OsFile {
    file: StdFile,
    path: PathBuf,
    /// Whether reads bypass the page cache as far as possible.
    uncached: bool,
}

impl File for OsFile {
    fn len(&self) -> io::Result<u64> {
        Ok(self.file.metadata().map_err(|e| with_path(&self.path, &e))?.len())
    }

    fn read_exact_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        let read = if self.uncached {
            self.read_uncached(buf, offset)
        } else {
            self.file.read_exact_at(buf, offset)
        };
        read.map_err(|e| match is_unreadable(&e) {
            true => with_path(&self.path, &io::Error::new(io::ErrorKind::InvalidData, e)),
            false => with_path(&self.path, &e),
        })
    }

    fn write_all_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.file.write_all_at(bytes, offset).map_err(|e| with_path(&self.path, &e))
    }

    fn reserve(&self, offset: u64, len: u64) -> io::Result<bool> {
        if len == 0 {
            return Ok(true);
        }
        self.allocate(FallocateFlags::KEEP_SIZE, offset, len)
    }

    /// On Linux, setting the current length frees preallocated blocks after the end.
    fn truncate(&self, len: u64) -> io::Result<()> {
        // Never longer: a file that grew here would show zeros as its content.
        let len = len.min(self.len()?);
        self.file.set_len(len).map_err(|e| with_path(&self.path, &e))
    }

    fn punch(&self, offset: u64, len: u64) -> io::Result<()> {
        if len == 0 {
            return Ok(());
        }
        self.allocate(FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE, offset, len).map(drop)
    }

    fn next_hole(&self, range: Range<u64>) -> io::Result<Option<Range<u64>>> {
        let Some(start) = self.seek(SeekFrom::Hole(range.start))?.filter(|hole| *hole < range.end) else {
            return Ok(None);
        };
        let end = self.seek(SeekFrom::Data(start))?.unwrap_or(range.end).min(range.end);
        Ok(Some(start..end))
    }

    fn lock_shared(&self) -> io::Result<()> {
        let held = retry_on_intr(|| flock(&self.file, FlockOperation::LockShared));
        held.map_err(|errno| with_path(&self.path, &errno.into()))
    }

    /// Without support for such locks, no process can hold one.
    fn has_shared_lock(&self) -> io::Result<bool> {
        match flock(&self.file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {
                flock(&self.file, FlockOperation::Unlock)
                    .map_err(|errno| with_path(&self.path, &errno.into()))?;
                Ok(false)
            }
            // An attempt that a signal ended decides nothing: then the lock counts as held, and its
            // file stays.
            Err(errno) => Ok(matches!(errno, Errno::WOULDBLOCK | Errno::INTR)),
        }
    }

    fn usage(&self) -> io::Result<FileUsage> {
        let found = self.file.metadata().map_err(|e| with_path(&self.path, &e))?;
        // The unit is 512 bytes, whatever the block size of the file system is (stat(2)).
        Ok(FileUsage { allocated_bytes: found.blocks() * 512, links: found.nlink(), id: id_of(&found) })
    }

    /// `DontNeed` starts writeback of dirty pages; pages just written are not dropped.
    fn start_writeback(&self, offset: u64, len: u64) -> io::Result<()> {
        // A length of zero would mean everything after `offset`.
        let Some(len) = NonZeroU64::new(len) else { return Ok(()) };
        self.drop_cache(offset, Some(len)).map_err(|e| with_path(&self.path, &e))
    }

    fn sync_data(&self) -> io::Result<()> {
        self.file.sync_data().map_err(|e| with_path(&self.path, &e))
    }

    fn evict(&self) -> io::Result<()> {
        self.drop_cache(0, None).map_err(|e| with_path(&self.path, &e))
    }
}

impl OsFile {
    /// The position that a search for holes or data finds; `None` where nothing follows, and where
    /// the file system cannot search.
    fn seek(&self, wanted: SeekFrom) -> io::Result<Option<u64>> {
        // No method depends on the position of the file.
        match seek(&self.file, wanted) {
            Ok(found) => Ok(Some(found)),
            Err(Errno::NXIO | Errno::INVAL | Errno::OPNOTSUPP) => Ok(None),
            Err(errno) => Err(with_path(&self.path, &errno.into())),
        }
    }

    /// Reads, and drops the pages that were read from the disk.
    fn read_uncached(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        let cached = self.read_cached(buf, offset);
        if cached == buf.len() {
            return Ok(());
        }
        let from = offset + cached as u64;
        self.file.read_exact_at(&mut buf[cached..], from)?;
        // The system drops whole pages only.
        let start = from - from % PAGE_BYTES;
        let end = (offset + buf.len() as u64).next_multiple_of(PAGE_BYTES);
        self.drop_cache(start, NonZeroU64::new(end - start))
    }

    /// Advises the system that a range of the cache is not needed; no length means everything after
    /// `offset`. Dirty pages are written back, clean ones dropped.
    fn drop_cache(&self, offset: u64, len: Option<NonZeroU64>) -> io::Result<()> {
        Ok(fadvise(&self.file, offset, len, Advice::DontNeed)?)
    }

    /// Reads the leading bytes that are cached, and returns their number; 0 where the system cannot
    /// tell.
    fn read_cached(&self, buf: &mut [u8], offset: u64) -> usize {
        let mut done = 0;
        while done < buf.len() {
            let rest = &mut [IoSliceMut::new(&mut buf[done..])];
            // Pages that others have in the cache stay there: they are read from it, and only what
            // this read brought in is dropped.
            match preadv2(&self.file, rest, offset + done as u64, ReadWriteFlags::NOWAIT) {
                Ok(len @ 1..) => done += len,
                Ok(0) | Err(_) => break,
            }
        }
        done
    }

    /// Returns `false`, and does nothing, where the file system does not support the mode.
    fn allocate(&self, how: FallocateFlags, offset: u64, len: u64) -> io::Result<bool> {
        match retry_on_intr(|| fallocate(&self.file, how, offset, len)) {
            Ok(()) => Ok(true),
            Err(Errno::OPNOTSUPP | Errno::NOSYS) => Ok(false),
            Err(errno) => Err(with_path(&self.path, &errno.into())),
        }
    }
}

/// The same error with the path in its text. An exhausted quota counts as a full disk.
/// `ResourceBusy` is left to [`open_error`]: a failed write or sync may have had effects.
fn with_path(path: &Path, error: &io::Error) -> io::Error {
    let kind = match error.kind() {
        io::ErrorKind::QuotaExceeded => io::ErrorKind::StorageFull,
        io::ErrorKind::ResourceBusy => io::ErrorKind::Other,
        kind => kind,
    };
    io::Error::new(kind, format!("{}: {error}", path.display()))
}

/// The error of a call that opens a file or changes a name, which has its whole effect or none.
fn open_error(path: &Path, error: &io::Error) -> io::Error {
    let named = with_path(path, error);
    // They pass once files are closed or memory is free, and a store that took them for damage of
    // the disk would take no more writes.
    let lacking = [Errno::MFILE, Errno::NFILE, Errno::NOMEM];
    let for_now = error.raw_os_error().is_some_and(|code| lacking.iter().any(|e| e.raw_os_error() == code));
    if for_now { io::Error::new(io::ErrorKind::ResourceBusy, named.to_string()) } else { named }
}

/// Skips names that are not UTF-8, since this crate creates none.
fn regular_files(dir: &Path) -> io::Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in std::fs::read_dir(dir)? {
        let entry = entry?;
        if entry.file_type()?.is_file() {
            names.extend(entry.file_name().into_string().ok());
        }
    }
    names.sort_unstable();
    Ok(names)
}

fn make_dir(path: &Path) -> io::Result<()> {
    match DirBuilder::new().mode(DIR_MODE).create(path) {
        Err(e) if e.kind() == io::ErrorKind::AlreadyExists && path.is_dir() => Ok(()),
        made => made,
    }
}

fn sync_dir(path: &Path) -> io::Result<()> {
    let dir = StdFile::open(path).map_err(|e| open_error(path, &e))?;
    dir.sync_all().map_err(|e| with_path(path, &e))
}

/// Creates the directories of an absolute path. The parent of an existing one is synced, too, since
/// its creator may have crashed before the sync. A parent that this process may not open was
/// created by another user.
fn create_durably(path: &Path) -> io::Result<()> {
    let Some(parent) = path.parent() else { return Ok(()) };
    if path.is_dir() {
        return match sync_dir(parent) {
            Err(e) if e.kind() == io::ErrorKind::PermissionDenied => Ok(()),
            synced => synced,
        };
    }
    create_durably(parent)?;
    make_dir(path).map_err(|e| open_error(path, &e))?;
    sync_dir(parent)
}

/// The number of an inode and the time of its birth, where the file system reports it: another disk
/// may give a copy the same number.
fn id_of(found: &Metadata) -> u64 {
    let born = found.created().ok().and_then(|born| born.duration_since(UNIX_EPOCH).ok());
    let born = born.map_or(0, |born| born.as_nanos() as u64);
    found.ino() ^ born.rotate_left(u64::BITS / 2)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn mode(path: &Path) -> u32 {
        path.metadata().unwrap().permissions().mode() & 0o777
    }

    #[test]
    fn the_root_is_made_with_its_parents_and_again_is_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().join("var/store");
        let fs = OsFs::new(&root);
        assert_eq!(fs.create("a").err().unwrap().kind(), io::ErrorKind::NotFound);
        fs.create_root().unwrap();
        fs.create("a").unwrap();
        fs.create_root().unwrap();
        assert_eq!(fs.list("").unwrap(), ["a"]);
    }

    #[test]
    fn a_root_that_is_a_file_is_refused_by_name() {
        let dir = tempfile::tempdir().unwrap();
        OsFs::new(dir.path()).create("a").unwrap();
        let refused = OsFs::new(dir.path().join("a")).create_root().unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::AlreadyExists);
        assert!(refused.to_string().starts_with(dir.path().join("a").to_str().unwrap()), "{refused}");
    }

    #[test]
    fn created_files_are_accessible_only_to_their_owner() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().join("store");
        let fs = OsFs::new(&root);
        fs.create_root().unwrap();
        fs.create_dir("d/e").unwrap();
        fs.create("d/a").unwrap();
        fs.lock("LOCK").unwrap();
        let modes = ["", "d", "d/e", "d/a", "LOCK"].map(|path| mode(&root.join(path)));
        assert_eq!(modes, [0o700, 0o700, 0o700, 0o600, 0o600]);
    }

    #[test]
    fn an_error_names_the_whole_path_and_the_system_error() {
        let dir = tempfile::tempdir().unwrap();
        let missing = OsFs::new(dir.path()).open("gone").err().unwrap();
        let path = dir.path().join("gone");
        assert_eq!(
            missing.to_string(),
            format!("{}: No such file or directory (os error 2)", path.display())
        );
    }

    #[test]
    fn a_used_up_quota_is_a_full_disk() {
        let quota = io::Error::from(Errno::DQUOT);
        assert_eq!(with_path(Path::new("a"), &quota).kind(), io::ErrorKind::StorageFull);
        let full = io::Error::from(Errno::NOSPC);
        assert_eq!(with_path(Path::new("a"), &full).kind(), io::ErrorKind::StorageFull);
    }

    #[test]
    fn a_lack_of_descriptors_is_busy_for_an_open_but_not_for_a_write_or_sync() {
        for errno in [Errno::MFILE, Errno::NFILE, Errno::NOMEM] {
            let error = io::Error::from(errno);
            assert_eq!(open_error(Path::new("a"), &error).kind(), io::ErrorKind::ResourceBusy);
            assert_ne!(with_path(Path::new("a"), &error).kind(), io::ErrorKind::ResourceBusy);
        }
        let busy = io::Error::from(Errno::BUSY);
        assert_ne!(with_path(Path::new("a"), &busy).kind(), io::ErrorKind::ResourceBusy);
        let denied = io::Error::from(Errno::ACCESS);
        assert_eq!(open_error(Path::new("a"), &denied).kind(), io::ErrorKind::PermissionDenied);
    }

    #[test]
    fn a_list_holds_only_regular_files() {
        let dir = tempfile::tempdir().unwrap();
        std::os::unix::fs::symlink("nowhere", dir.path().join("link")).unwrap();
        std::os::unix::net::UnixListener::bind(dir.path().join("socket")).unwrap();
        let fs = OsFs::new(dir.path());
        fs.create("a").unwrap();
        assert_eq!(fs.list("").unwrap(), ["a"]);
    }

    #[test]
    fn a_reservation_takes_room_where_the_file_system_knows_it() {
        use std::os::unix::fs::MetadataExt;
        let dir = tempfile::tempdir().unwrap();
        let fs = OsFs::new(dir.path());
        fs.create("a").unwrap().reserve(0, 1 << 20).unwrap();
        let metadata = dir.path().join("a").metadata().unwrap();
        assert_eq!(metadata.len(), 0);
        assert!(metadata.blocks() == 0 || metadata.blocks() * 512 >= 1 << 20);
    }

    /// The pages of a fresh file that are cached after an uncached read. `None` where this cannot
    /// be observed: some file systems are in memory, and some do not report cached pages.
    fn cached_by_uncached_reads(path: PathBuf) -> Option<Vec<u64>> {
        std::fs::write(&path, [7; 300_000]).unwrap();
        let file = StdFile::open(&path).unwrap();
        fadvise(&file, 0, None, Advice::Random).unwrap();
        let file = OsFile { file, path, uncached: true };
        let cached = |at: &u64| file.read_cached(&mut [0], *at) == 1;
        let mut bytes = vec![0; 100_000];
        file.read_exact_at(&mut bytes, 0).unwrap();
        let kept = cached(&0);
        file.sync_data().unwrap();
        file.evict().unwrap();
        bytes.fill(0);
        file.read_exact_at(&mut bytes, 5_000).unwrap();
        assert!(bytes == [7; 100_000]);
        // Asking makes the system read the page, so each is asked about once.
        let pages = (0..300_000).step_by(PAGE_BYTES as usize);
        let left: Vec<_> = pages.clone().filter(cached).collect();
        (kept && left.len() < pages.count()).then_some(left)
    }

    #[test]
    fn uncached_reads_cache_no_pages() {
        let dir = tempfile::tempdir().unwrap();
        // The system does not drop a page that it is using at the moment, which under load may be
        // so for several files.
        let mut told = Vec::new();
        for attempt in 0..50 {
            let Some(left) = cached_by_uncached_reads(dir.path().join(attempt.to_string())) else { continue };
            if left.is_empty() {
                return;
            }
            told.push(left);
        }
        assert!(told.is_empty(), "{told:?}");
    }

    #[test]
    fn only_errors_of_the_disk_itself_count_as_unreadable() {
        let of = |errno: Errno| is_unreadable(&errno.into());
        assert!(of(Errno::IO) && of(Errno::BADMSG) && of(Errno::UCLEAN));
        assert!(!of(Errno::NOMEM) && !of(Errno::MFILE) && !of(Errno::INTR) && !of(Errno::ACCESS));
        assert!(!is_unreadable(&io::ErrorKind::UnexpectedEof.into()));
    }

    #[test]
    fn a_file_gets_a_further_name_on_another_disk_of_the_same_file_system() {
        use std::os::unix::fs::MetadataExt;
        let dir = tempfile::tempdir().unwrap();
        let [one, other] = ["one", "other"].map(|name| OsFs::new(dir.path().join(name)));
        one.create_root().unwrap();
        other.create_root().unwrap();
        one.create("a").unwrap();
        one.link_into("a", &other, "b").unwrap();
        assert_eq!(dir.path().join("other/b").metadata().unwrap().nlink(), 2);
    }

    #[test]
    #[cfg(debug_assertions)]
    #[should_panic(expected = "leaves the root")]
    fn a_path_that_leaves_the_root_is_a_bug() {
        let _ = OsFs::new("root").open("d/../../etc");
    }
}
