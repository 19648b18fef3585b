//! An in-memory disk that guarantees exactly what [`Fs`] promises and no more. On request of a test
//! it crashes, fails, corrupts data, fills up and delays syncs.
//!
//! Each sector, length and directory entry has a durable value and a list of later writes. A reader
//! sees the last write; [`SimFs::crash`] chooses the values after a reboot. The methods of [`Fs`]
//! and [`File`] define what a sync covers. A sector of 512 bytes and a rename are atomic.

mod cell;
mod crash;
mod disk;
mod image;
mod plan;

#[cfg(test)]
mod tests;

pub use crash::CrashPolicy;
pub use plan::{Op, OpKind};

use std::io;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::{DiskPlace, File, FileUsage, Fs, Lock, Space, check_one_directory, is_inside};
use crash::Survivors;
use disk::{SimDisk, SyncTarget};
use image::FileId;

/// The capacity when the test sets none.
const DEFAULT_CAPACITY_BYTES: u64 = 4 << 30;

/// The timeout of a test that waits for a sync to be held.
const HELD_WAIT: Duration = Duration::from_secs(60);

/// A simulated disk; a clone is the same disk.
#[derive(Debug, Clone)]
pub struct SimFs {
    shared: Arc<SimCore>,
}

#[derive(Debug)]
struct SimCore {
    disk: Mutex<SimDisk>,
    /// Signals that a gate was opened, a sync arrived at one, or the power was lost.
    changed: Condvar,
}

impl SimCore {
    /// A test that panics while it locks the disk has failed already: the disk stays usable for its
    /// destructors.
    fn disk(&self) -> MutexGuard<'_, SimDisk> {
        self.disk.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes the planned calls that are due. None is made while the disk is locked.
    fn make_calls(&self) {
        loop {
            let due = self.disk().plan.take_due_call();
            match due {
                Some(call) => call(),
                None => return,
            }
        }
    }

    /// A whole sync, held while a gate is closed. It covers the writes before the call.
    fn sync(&self, what: &SyncTarget, path: &str) -> io::Result<()> {
        self.make_calls();
        let mut disk = self.disk();
        let (mark, fails) = disk.begin_sync(what, path)?;
        while let Some(gate) = disk.plan.gate_before(path) {
            disk.plan.count_held(gate, true);
            self.changed.notify_all();
            while disk.plan.holds(gate) {
                disk = self.changed.wait(disk).unwrap_or_else(PoisonError::into_inner);
            }
            disk.plan.count_held(gate, false);
        }
        disk.finish_sync(what, mark, fails)
    }
}

impl Default for SimFs {
    fn default() -> Self {
        Self::new()
    }
}

/// Inspection and control by tests.
impl SimFs {
    /// An empty disk with ample space.
    pub fn new() -> Self {
        Self::of(SimDisk::new(DEFAULT_CAPACITY_BYTES))
    }

    /// An empty disk of `bytes` bytes. Lengths and reservations of files count, names do not.
    pub fn with_capacity(bytes: u64) -> Self {
        Self::of(SimDisk::new(bytes))
    }

    fn of(disk: SimDisk) -> Self {
        Self { shared: Arc::new(SimCore { disk: Mutex::new(disk), changed: Condvar::new() }) }
    }

    /// Cuts the power, and returns the disk after a reboot: without locks, faults and trace.
    /// Handles of the old disk fail afterwards. The old disk can be crashed again with another
    /// policy.
    pub fn crash(&self, policy: CrashPolicy) -> Self {
        let mut disk = self.shared.disk();
        disk.plan.power_lost = true;
        self.shared.changed.notify_all();
        Self::of(disk.after_crash(Survivors::new(policy)))
    }

    /// Ends the process that uses the disk, and returns the disk for the next process: all writes
    /// are readable, and unsynced ones are still not durable. Handles of the old disk fail
    /// afterwards.
    pub fn kill(&self) -> Self {
        let mut disk = self.shared.disk();
        disk.plan.power_lost = true;
        self.shared.changed.notify_all();
        Self::of(disk.after_kill())
    }

    /// A copy of the disk as it is now, without handles, locks, faults and trace. Both go on apart
    /// from each other.
    pub fn copy(&self) -> Self {
        Self::of(self.shared.disk().after_kill())
    }

    /// Calls `then` once, before the `n`-th operation since the disk was created, counted from 1,
    /// or before a read that comes before it.
    pub fn call_before(&self, n: u64, then: impl FnOnce() + Send + 'static) {
        self.shared.disk().plan.add_call(n, Box::new(then));
    }

    /// Forgets the calls that are planned.
    pub fn forget_calls(&self) {
        self.shared.disk().plan.forget_calls();
    }

    /// Cuts the power during the `n`-th operation since the disk was created, counted from 1: that
    /// one and all later ones fail. The effect of the `n`-th may survive or not, like everything
    /// unsynced; of a write, only some first sectors may.
    pub fn stop_at(&self, n: u64) {
        self.shared.disk().plan.stop_at = Some(n);
    }

    /// Makes the `n`-th sync since the disk was created fail, of a file or a directory, counted
    /// from 1. The data that it should have covered never becomes durable by later syncs, although
    /// readers see it.
    pub fn fail_sync_at(&self, n: u64) {
        self.shared.disk().plan.fail_sync_at = Some(n);
    }

    /// Makes opens fail for lack of a descriptor, counted from 1 since the disk was created: opens
    /// of files, and of directories for a list or a sync.
    pub fn fail_opens(&self, nth: Range<u64>) {
        self.shared.disk().plan.fail_opens = nth;
    }

    /// The number of opens since the disk was created.
    pub fn opens(&self) -> u64 {
        self.shared.disk().plan.opens
    }

    /// Makes the disk allocate space at a sync and refuse preallocation, as network file systems
    /// do.
    pub fn allocate_at_sync(&self) {
        self.shared.disk().allocates_at_sync = true;
    }

    /// Changes the size of the disk. Existing data stays, also beyond the new size.
    pub fn set_capacity(&self, bytes: u64) {
        self.shared.disk().capacity = bytes;
    }

    /// Whether the disk has no inode left: no file can be created.
    pub fn lack_inodes(&self, lacks: bool) {
        self.shared.disk().lacks_inodes = lacks;
    }

    /// Whether asking for the free space fails.
    pub fn hide_space(&self, hides: bool) {
        self.shared.disk().plan.hides_space = hides;
    }

    /// The number of operations since the disk was created, without reads, lists, opens and locks.
    pub fn operations(&self) -> u64 {
        self.shared.disk().plan.operations()
    }

    /// The number of syncs since the disk was created.
    pub fn syncs(&self) -> u64 {
        self.shared.disk().plan.syncs
    }

    /// The operations since the disk was created, in the order in which they started.
    pub fn trace(&self) -> Vec<Op> {
        self.shared.disk().plan.trace.clone()
    }

    /// Starts recording reads; see [`SimFs::reads`].
    pub fn trace_reads(&self) {
        self.shared.disk().plan.reads = Some(Vec::new());
    }

    /// The reads since [`SimFs::trace_reads`], in order.
    pub fn reads(&self) -> Vec<Op> {
        self.shared.disk().plan.reads.clone().unwrap_or_default()
    }

    /// Holds every sync of a path with this prefix, before it makes anything durable, until the
    /// gate is dropped.
    #[must_use = "dropping the gate opens it"]
    pub fn hold_syncs(&self, prefix: &str) -> SyncGate {
        SyncGate { number: self.shared.disk().plan.add_gate(prefix), shared: Arc::clone(&self.shared) }
    }

    /// All files with their paths and lengths, sorted.
    pub fn files(&self) -> Vec<(String, u64)> {
        self.shared.disk().files()
    }

    /// The content of a file as a reader sees it.
    ///
    /// # Errors
    /// `NotFound` when there is none.
    pub fn contents(&self, path: &str) -> io::Result<Vec<u8>> {
        let disk = self.shared.disk();
        let id = disk.find(path)?;
        Ok(disk.image_to_read(id).bytes())
    }

    /// Flips the bits of `mask` in the byte at `offset`. This damage survives a crash, is not
    /// counted as an operation, and makes the rest of the file durable.
    ///
    /// # Errors
    /// `NotFound` when there is no such file, `UnexpectedEof` when it ends before.
    pub fn damage(&self, path: &str, offset: u64, mask: u8) -> io::Result<()> {
        let bytes = self.contents(path)?;
        let at = usize::try_from(offset).ok().and_then(|at| bytes.get(at));
        let byte = at.ok_or(io::ErrorKind::UnexpectedEof)? ^ mask;
        self.overwrite(path, offset, &[byte])
    }

    /// Overwrites bytes at `offset`, extending the file if necessary: damage, see
    /// [`SimFs::damage`].
    ///
    /// # Errors
    /// `NotFound` when there is no such file.
    pub fn overwrite(&self, path: &str, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let mut disk = self.shared.disk();
        let id = disk.find(path)?;
        let image = disk.image(id);
        *image = image.flushed(u64::MAX);
        image.write(bytes, offset, 0);
        *image = image.flushed(u64::MAX);
        Ok(())
    }

    /// Cuts a file off after `len` bytes: damage, see [`SimFs::damage`].
    ///
    /// # Errors
    /// `NotFound` when there is no such file.
    pub fn truncate(&self, path: &str, len: u64) -> io::Result<()> {
        let mut disk = self.shared.disk();
        let id = disk.find(path)?;
        let image = disk.image(id);
        *image = image.flushed(len);
        Ok(())
    }

    /// Makes the bytes `range` of a file unreadable: damage, see [`SimFs::damage`]. Other bytes
    /// stay readable, and all stay writable.
    ///
    /// # Errors
    /// `NotFound` when there is no such file.
    pub fn make_unreadable(&self, path: &str, range: Range<u64>) -> io::Result<()> {
        let mut disk = self.shared.disk();
        let id = disk.find(path)?;
        disk.make_unreadable(id, range);
        Ok(())
    }

    /// Opens the file that `find` finds or creates.
    fn opened(
        &self,
        path: &str,
        writable: bool,
        find: impl FnOnce(&mut SimDisk) -> io::Result<FileId>,
    ) -> io::Result<Arc<dyn File>> {
        let id = self.with(path, |disk| {
            disk.plan.allocate_descriptor()?;
            let id = find(disk)?;
            disk.open(id);
            Ok(id)
        })?;
        let shared = Arc::clone(&self.shared);
        let path = path.to_owned();
        Ok(Arc::new(SimFile { shared, id, path, writable, holds: AtomicBool::new(false) }))
    }

    /// Calls `ask` if the disk has power, and adds the path to its error.
    fn with<T>(&self, path: &str, ask: impl FnOnce(&mut SimDisk) -> io::Result<T>) -> io::Result<T> {
        debug_assert!(is_inside(path), "{path:?} leaves the root");
        self.shared.make_calls();
        let mut disk = self.shared.disk();
        disk.plan.check_power().and_then(|()| ask(&mut disk)).map_err(|e| with_path(path, &e))
    }
}

impl Fs for SimFs {
    fn create_on(&self, _: DiskPlace, path: &str) -> io::Result<Arc<dyn File>> {
        self.opened(path, true, |disk| disk.create(path))
    }

    fn open(&self, path: &str) -> io::Result<Arc<dyn File>> {
        self.opened(path, true, |disk| disk.find(path))
    }

    fn open_read(&self, path: &str) -> io::Result<Arc<dyn File>> {
        self.opened(path, false, |disk| disk.find(path))
    }

    fn open_uncached(&self, path: &str) -> io::Result<Arc<dyn File>> {
        self.open_read(path)
    }

    fn list(&self, dir: &str) -> io::Result<Vec<String>> {
        self.with(dir, |disk| disk.plan.allocate_descriptor().map(|()| disk.list(dir)))
    }

    fn create_dir(&self, dir: &str) -> io::Result<()> {
        self.with(dir, |disk| disk.create_dir(dir))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        check_one_directory(from, to)?;
        self.with(from, |disk| disk.rename(from, to))
    }

    fn link(&self, from: &str, to: &str) -> io::Result<()> {
        debug_assert!(is_inside(to), "{to:?} leaves the root");
        self.with(from, |disk| disk.link(from, to))
    }

    fn remove(&self, path: &str) -> io::Result<()> {
        self.with(path, |disk| disk.remove(path))
    }

    fn sync_dir(&self, dir: &str) -> io::Result<()> {
        self.with(dir, |disk| disk.plan.allocate_descriptor())?;
        self.shared.sync(&SyncTarget::Directory(dir.to_owned()), dir).map_err(|e| with_path(dir, &e))
    }

    fn lock(&self, path: &str) -> io::Result<Box<dyn Lock>> {
        let id = self.with(path, |disk| {
            disk.plan.allocate_descriptor()?;
            let id = disk.find(path).or_else(|_| disk.create(path))?;
            disk.lock(id).map(|()| id)
        })?;
        Ok(Box::new(SimLock { shared: Arc::clone(&self.shared), id }))
    }

    fn space(&self) -> io::Result<Space> {
        self.with("", |disk| {
            if disk.plan.hides_space {
                return Err(io::Error::other("the disk does not tell its space"));
            }
            Ok(Space {
                free_bytes: disk.capacity.saturating_sub(disk.used()),
                total_bytes: disk.capacity,
                free_files: disk.lacks_inodes.then_some(0),
            })
        })
    }
}

struct SimFile {
    shared: Arc<SimCore>,
    id: FileId,
    path: String,
    writable: bool,
    holds: AtomicBool,
}

impl SimFile {
    fn with<T>(&self, ask: impl FnOnce(&mut SimDisk) -> io::Result<T>) -> io::Result<T> {
        self.shared.make_calls();
        let mut disk = self.shared.disk();
        disk.plan.check_power().and_then(|()| ask(&mut disk)).map_err(|e| with_path(&self.path, &e))
    }

    fn check_writable(&self) -> io::Result<()> {
        if self.writable { Ok(()) } else { Err(io::Error::other("opened read-only")) }
    }
}

impl File for SimFile {
    fn len(&self) -> io::Result<u64> {
        self.with(|disk| Ok(disk.image_to_read(self.id).len()))
    }

    fn read_exact_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        self.with(|disk| {
            if let Some(reads) = &mut disk.plan.reads {
                let path = self.path.clone();
                let len = buf.len() as u64;
                reads.push(Op { kind: OpKind::Read, path, offset, len });
            }
            disk.check_readable(self.id, offset, buf.len() as u64)?;
            let image = disk.image_to_read(self.id);
            let end = offset.checked_add(buf.len() as u64);
            if !buf.is_empty() && end.is_none_or(|end| end > image.len()) {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            image.read(buf, offset);
            Ok(())
        })
    }

    fn write_all_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.with(|disk| match bytes {
            [] => Ok(()),
            bytes => self.check_writable().and_then(|()| disk.write(self.id, &self.path, bytes, offset)),
        })
    }

    fn reserve(&self, offset: u64, len: u64) -> io::Result<bool> {
        self.with(|disk| match len {
            0 => Ok(true),
            len => self.check_writable().and_then(|()| disk.reserve(self.id, &self.path, offset, len)),
        })
    }

    fn truncate(&self, len: u64) -> io::Result<()> {
        self.with(|disk| match self.writable {
            true => disk.truncate(self.id, &self.path, len),
            // As ftruncate(2) does.
            false => Err(io::Error::new(io::ErrorKind::InvalidInput, "opened read-only")),
        })
    }

    fn punch(&self, offset: u64, len: u64) -> io::Result<()> {
        self.with(|disk| match len {
            0 => Ok(()),
            len => self.check_writable().and_then(|()| disk.punch(self.id, &self.path, offset, len)),
        })
    }

    fn next_hole(&self, range: Range<u64>) -> io::Result<Option<Range<u64>>> {
        self.with(|disk| Ok(disk.image_to_read(self.id).next_hole(range)))
    }

    fn lock_shared(&self) -> io::Result<()> {
        self.with(|disk| {
            if !self.holds.swap(true, Ordering::Relaxed) {
                disk.lock_shared(self.id);
            }
            Ok(())
        })
    }

    fn has_shared_lock(&self) -> io::Result<bool> {
        self.with(|disk| Ok(disk.has_shared_lock(self.id)))
    }

    fn usage(&self) -> io::Result<FileUsage> {
        self.with(|disk| {
            let allocated_bytes = disk.image_to_read(self.id).allocated();
            Ok(FileUsage { allocated_bytes, links: disk.links(self.id), id: self.id })
        })
    }

    fn evict(&self) -> io::Result<()> {
        self.with(|disk| {
            if disk.image_to_read(self.id).is_in_doubt() {
                disk.image(self.id).evict();
            }
            Ok(())
        })
    }

    fn start_writeback(&self, offset: u64, len: u64) -> io::Result<()> {
        self.with(|disk| disk.start_writeback(&self.path, offset, len))
    }

    fn sync_data(&self) -> io::Result<()> {
        self.shared.sync(&SyncTarget::File(self.id), &self.path).map_err(|e| with_path(&self.path, &e))
    }
}

impl Drop for SimFile {
    fn drop(&mut self) {
        let mut disk = self.shared.disk();
        if *self.holds.get_mut() {
            disk.release_shared_lock(self.id);
        }
        disk.close(self.id);
    }
}

struct SimLock {
    shared: Arc<SimCore>,
    id: FileId,
}

impl Lock for SimLock {}

impl Drop for SimLock {
    fn drop(&mut self) {
        self.shared.disk().unlock(self.id);
    }
}

/// Holds syncs; dropping it releases them.
#[derive(Debug)]
pub struct SyncGate {
    shared: Arc<SimCore>,
    number: u64,
}

impl SyncGate {
    /// Waits until `count` syncs are held; `false` after a minute without them.
    #[must_use = "a test that goes on without them proves nothing"]
    pub fn wait_until_held(&self, count: usize) -> bool {
        let disk = self.shared.disk();
        let waited = self
            .shared
            .changed
            .wait_timeout_while(disk, HELD_WAIT, |disk| disk.plan.held(self.number) < count);
        !waited.unwrap_or_else(PoisonError::into_inner).1.timed_out()
    }
}

impl Drop for SyncGate {
    fn drop(&mut self) {
        self.shared.disk().plan.remove_gate(self.number);
        self.shared.changed.notify_all();
    }
}

fn with_path(path: &str, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{path}: {error}"))
}
