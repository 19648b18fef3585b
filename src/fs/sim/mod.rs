//! A disk in memory that keeps exactly what [`Fs`] promises and no more. For tests: it crashes, fails, rots, fills up and
//! waits on request.
//!
//! Each sector, length and directory entry is kept as what is certain and what was written since. A reader sees the
//! last write; [`SimFs::crash`] decides what a reboot finds. What a sync is trusted to do is written in the methods of
//! [`Fs`] and [`File`]; a sector of 512 bytes is written wholly or not at all, and a rename is one step.

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

use super::{File, FileUsage, Fs, Lock, Space, check_one_directory, is_inside};
use crash::Survivors;
use disk::{SimDisk, SyncTarget};
use image::FileId;

/// Bytes of a disk whose test does not care.
const DEFAULT_CAPACITY_BYTES: u64 = 4 << 30;

/// After this long a test that waits for a sync to be held has failed.
const HELD_WAIT: Duration = Duration::from_secs(60);

/// A simulated disk; a clone is the same disk.
#[derive(Debug, Clone)]
pub struct SimFs {
    shared: Arc<SimCore>,
}

#[derive(Debug)]
struct SimCore {
    disk: Mutex<SimDisk>,
    /// A gate was opened, a sync arrived at one, or the power went.
    changed: Condvar,
}

impl SimCore {
    /// A test that panics while it holds the disk has failed already: the disk stays usable for what it drops.
    fn disk(&self) -> MutexGuard<'_, SimDisk> {
        self.disk.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A whole sync, held back as long as a gate stands before it. It covers what was written when it was asked.
    fn sync(&self, what: &SyncTarget, path: &str) -> io::Result<()> {
        let mut disk = self.disk();
        let (mark, fails) = disk.begin_sync(what, path)?;
        while let Some(gate) = disk.plan.gate_before(path) {
            disk.plan.count_held(gate, true);
            self.changed.notify_all();
            let held = |disk: &mut SimDisk| disk.plan.holds(gate);
            disk = self.changed.wait_while(disk, held).unwrap_or_else(PoisonError::into_inner);
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

/// What a test sees and controls.
impl SimFs {
    /// An empty disk with room enough.
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

    /// Cuts the power, and gives the disk as a reboot finds it: without locks, faults and trace. All that was opened
    /// on the old one fails from now on. The old one can be asked again, with another policy.
    pub fn crash(&self, policy: CrashPolicy) -> Self {
        let mut disk = self.shared.disk();
        disk.plan.power_lost = true;
        self.shared.changed.notify_all();
        Self::of(disk.after_crash(Survivors::new(policy)))
    }

    /// Ends the process that uses the disk, and gives the disk as the next process finds it: everything that was written is
    /// there to be read, and what was not synced is still in doubt. All that was opened on the old one fails from now on.
    pub fn kill(&self) -> Self {
        let mut disk = self.shared.disk();
        disk.plan.power_lost = true;
        self.shared.changed.notify_all();
        Self::of(disk.after_kill())
    }

    /// Cuts the power during the `n`-th operation since the disk was made, counted from 1: that one and all later ones
    /// fail. What the `n`-th did is in doubt like all that was not synced; of a write only some first sectors are.
    pub fn stop_at(&self, n: u64) {
        self.shared.disk().plan.stop_at = Some(n);
    }

    /// Lets the `n`-th sync since the disk was made fail, of a file or a directory, counted from 1. What it should have
    /// made durable is in doubt for ever, although readers see it and later syncs succeed.
    pub fn fail_sync_at(&self, n: u64) {
        self.shared.disk().plan.fail_sync_at = Some(n);
    }

    /// Lets openings fail for want of a descriptor, counted from 1 since the disk was made: of files, and of directories for a
    /// list or a sync.
    pub fn refuse_openings(&self, nth: Range<u64>) {
        self.shared.disk().plan.refuse_openings = nth;
    }

    /// Openings since the disk was made.
    pub fn openings(&self) -> u64 {
        self.shared.disk().plan.openings
    }

    /// From now on room is found when what was written is synced, and none can be set aside: as on file systems of other
    /// hosts.
    pub fn allocate_at_sync(&self) {
        self.shared.disk().allocates_at_sync = true;
    }

    /// Makes the disk larger or smaller. What is written stays, also where it is more.
    pub fn set_capacity(&self, bytes: u64) {
        self.shared.disk().capacity = bytes;
    }

    /// Operations since the disk was made that touched it: all but reads, lists, opens and locks.
    pub fn operations(&self) -> u64 {
        self.shared.disk().plan.operations()
    }

    /// Syncs since the disk was made.
    pub fn syncs(&self) -> u64 {
        self.shared.disk().plan.syncs
    }

    /// The operations since the disk was made, in the order in which they began.
    pub fn trace(&self) -> Vec<Op> {
        self.shared.disk().plan.trace.clone()
    }

    /// Notes from now on what is read; [`SimFs::reads`] tells.
    pub fn trace_reads(&self) {
        self.shared.disk().plan.reads = Some(Vec::new());
    }

    /// What was read since [`SimFs::trace_reads`], in order.
    pub fn reads(&self) -> Vec<Op> {
        self.shared.disk().plan.reads.clone().unwrap_or_default()
    }

    /// From now on every sync of a path that begins with `prefix` waits, before it makes anything durable, until the
    /// answer is dropped.
    #[must_use = "dropping the gate opens it"]
    pub fn hold_syncs(&self, prefix: &str) -> SyncGate {
        SyncGate { number: self.shared.disk().plan.add_gate(prefix), shared: Arc::clone(&self.shared) }
    }

    /// All files with their paths and lengths, sorted.
    pub fn files(&self) -> Vec<(String, u64)> {
        self.shared.disk().files()
    }

    /// What a reader of the file sees.
    ///
    /// # Errors
    /// `NotFound` when there is none.
    pub fn contents(&self, path: &str) -> io::Result<Vec<u8>> {
        let mut disk = self.shared.disk();
        let id = disk.find(path)?;
        Ok(disk.image(id).bytes())
    }

    /// Flips the bits of `mask` in the byte at `offset`: damage. Like all damage it makes the rest of the file certain,
    /// is no operation, and stays after a crash.
    ///
    /// # Errors
    /// `NotFound` when there is no such file, `UnexpectedEof` when it ends before.
    pub fn damage(&self, path: &str, offset: u64, mask: u8) -> io::Result<()> {
        let bytes = self.contents(path)?;
        let at = usize::try_from(offset).ok().and_then(|at| bytes.get(at));
        let byte = at.ok_or(io::ErrorKind::UnexpectedEof)? ^ mask;
        self.overwrite(path, offset, &[byte])
    }

    /// Puts `bytes` at `offset`, beyond the end where need be: damage, see [`SimFs::damage`].
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

    /// From now on the disk cannot give back any of the bytes `range` of a file: damage, see [`SimFs::damage`]. Other bytes can
    /// still be read, and all can be written.
    ///
    /// # Errors
    /// `NotFound` when there is no such file.
    pub fn make_unreadable(&self, path: &str, range: Range<u64>) -> io::Result<()> {
        let mut disk = self.shared.disk();
        let id = disk.find(path)?;
        disk.make_unreadable(id, range);
        Ok(())
    }

    /// Opens what `find` finds or makes.
    fn opened(
        &self,
        path: &str,
        writable: bool,
        find: impl FnOnce(&mut SimDisk) -> io::Result<FileId>,
    ) -> io::Result<Arc<dyn File>> {
        let id = self.with(path, |disk| {
            disk.plan.take_descriptor()?;
            let id = find(disk)?;
            disk.open(id);
            Ok(id)
        })?;
        let (shared, path) = (Arc::clone(&self.shared), path.to_owned());
        Ok(Arc::new(SimFile { shared, id, path, writable, holds: AtomicBool::new(false) }))
    }

    /// Asks the disk, if it has power, about a path.
    fn with<T>(&self, path: &str, ask: impl FnOnce(&mut SimDisk) -> io::Result<T>) -> io::Result<T> {
        debug_assert!(is_inside(path), "{path:?} leaves the root");
        let mut disk = self.shared.disk();
        disk.plan.check_power().and_then(|()| ask(&mut disk)).map_err(|e| with_path(path, &e))
    }
}

impl Fs for SimFs {
    fn create(&self, path: &str) -> io::Result<Arc<dyn File>> {
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
        self.with(dir, |disk| disk.plan.take_descriptor().map(|()| disk.list(dir)))
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
        self.with(dir, |disk| disk.plan.take_descriptor())?;
        self.shared.sync(&SyncTarget::Directory(dir.to_owned()), dir).map_err(|e| with_path(dir, &e))
    }

    fn lock(&self, path: &str) -> io::Result<Box<dyn Lock>> {
        let id = self.with(path, |disk| {
            disk.plan.take_descriptor()?;
            let id = disk.find(path).or_else(|_| disk.create(path))?;
            disk.lock(id).map(|()| id)
        })?;
        Ok(Box::new(SimLock { shared: Arc::clone(&self.shared), id }))
    }

    fn space(&self) -> io::Result<Space> {
        self.with("", |disk| {
            Ok(Space { free_bytes: disk.capacity.saturating_sub(disk.used()), total_bytes: disk.capacity })
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
        let mut disk = self.shared.disk();
        disk.plan.check_power().and_then(|()| ask(&mut disk)).map_err(|e| with_path(&self.path, &e))
    }

    fn check_writable(&self) -> io::Result<()> {
        if self.writable { Ok(()) } else { Err(io::Error::other("opened for reading alone")) }
    }
}

impl File for SimFile {
    fn len(&self) -> io::Result<u64> {
        self.with(|disk| Ok(disk.image(self.id).len()))
    }

    fn read_exact_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        self.with(|disk| {
            if let Some(reads) = &mut disk.plan.reads {
                let (path, len) = (self.path.clone(), buf.len() as u64);
                reads.push(Op { kind: OpKind::Read, path, offset, len });
            }
            disk.check_readable(self.id, offset, buf.len() as u64)?;
            let image = disk.image(self.id);
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
            // As ftruncate(2) has it.
            false => Err(io::Error::new(io::ErrorKind::InvalidInput, "opened for reading alone")),
        })
    }

    fn punch(&self, offset: u64, len: u64) -> io::Result<()> {
        self.with(|disk| match len {
            0 => Ok(()),
            len => self.check_writable().and_then(|()| disk.punch(self.id, &self.path, offset, len)),
        })
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
            let allocated_bytes = disk.image(self.id).allocated();
            Ok(FileUsage { allocated_bytes, links: disk.links(self.id) })
        })
    }

    fn evict(&self) -> io::Result<()> {
        self.with(|disk| {
            disk.image(self.id).evict();
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

/// Holds syncs back; dropping it lets them go on.
#[derive(Debug)]
pub struct SyncGate {
    shared: Arc<SimCore>,
    number: u64,
}

impl SyncGate {
    /// Waits until `count` syncs are held; `false` when they have not come after a minute.
    #[must_use = "a test that goes on without them proves nothing"]
    pub fn wait_until_held(&self, count: usize) -> bool {
        let few = |disk: &mut SimDisk| disk.plan.held(self.number) < count;
        let waited = self.shared.changed.wait_timeout_while(self.shared.disk(), HELD_WAIT, few);
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
