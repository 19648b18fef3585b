//! The state of the simulated disk. Each operation is one step on it.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::ops::Range;
use std::sync::Arc;

use super::crash::Survivors;
use super::image::{Directory, FileId, FileImage, SECTOR_BYTES};
use super::plan::{FaultPlan, Op, OpKind};
use crate::fs::split;

/// A file, with or without a name.
#[derive(Debug)]
struct Inode {
    /// Shared with copies of the disk until one of them writes to it.
    image: Arc<FileImage>,
    /// Ranges that cannot be read.
    unreadable: Vec<Range<u64>>,
    /// Open handles, which keep the bytes of a file without a name.
    handles: usize,
}

/// The target of a sync.
#[derive(Debug, Clone)]
pub(super) enum SyncTarget {
    File(FileId),
    Directory(String),
}

#[derive(Debug)]
pub(super) struct SimDisk {
    pub(super) plan: FaultPlan,
    pub(super) capacity: u64,
    /// Whether space is allocated at a sync, and cannot be preallocated.
    pub(super) allocates_at_sync: bool,
    /// Whether no file can be created for lack of inodes.
    pub(super) lacks_inodes: bool,
    directories: BTreeMap<String, Directory>,
    files: BTreeMap<FileId, Inode>,
    files_made: u64,
    /// The number of changes; a sync covers the changes up to its value at the start of the sync.
    now: u64,
    locks: BTreeSet<FileId>,
    /// The number of handles with a shared lock.
    holds: BTreeMap<FileId, usize>,
}

impl SimDisk {
    pub(super) fn new(capacity: u64) -> Self {
        Self {
            plan: FaultPlan::default(),
            capacity,
            allocates_at_sync: false,
            lacks_inodes: false,
            directories: BTreeMap::from([(String::new(), Directory::default())]),
            files: BTreeMap::new(),
            files_made: 0,
            now: 0,
            locks: BTreeSet::new(),
            holds: BTreeMap::new(),
        }
    }

    /// The disk after a reboot.
    pub(super) fn after_crash(&self, mut survivors: Survivors) -> Self {
        let mut disk = Self { allocates_at_sync: self.allocates_at_sync, ..Self::new(self.capacity) };
        for (path, directory) in &self.directories {
            disk.directories.insert(path.clone(), Directory::of(directory.after_crash(&mut survivors)));
        }
        for (&id, inode) in &self.files {
            let image = FileImage::after_crash(&inode.image, &mut survivors);
            disk.files.insert(id, Inode { image, unreadable: inode.unreadable.clone(), handles: 0 });
        }
        disk.files_made = self.files_made;
        disk.forget_unreachable();
        disk
    }

    /// The disk after the end of the process, or as it is now.
    pub(super) fn after_kill(&self) -> Self {
        let mut files = BTreeMap::new();
        for (id, inode) in &self.files {
            let image = Arc::clone(&inode.image);
            let unreadable = inode.unreadable.clone();
            files.insert(*id, Inode { image, unreadable, handles: 0 });
        }
        let mut disk = Self {
            directories: self.directories.clone(),
            files,
            files_made: self.files_made,
            now: self.now,
            allocates_at_sync: self.allocates_at_sync,
            lacks_inodes: self.lacks_inodes,
            ..Self::new(self.capacity)
        };
        disk.forget_unreachable();
        disk
    }

    pub(super) fn lock_shared(&mut self, id: FileId) {
        *self.holds.entry(id).or_default() += 1;
    }

    pub(super) fn has_shared_lock(&self, id: FileId) -> bool {
        self.holds.get(&id).is_some_and(|count| *count > 0)
    }

    pub(super) fn release_shared_lock(&mut self, id: FileId) {
        self.holds.entry(id).and_modify(|count| *count -= 1);
    }

    // Names.

    pub(super) fn find(&self, path: &str) -> io::Result<FileId> {
        let (dir, name) = split(path);
        let found = self.directories.get(dir).and_then(|directory| directory.names().get(name));
        found.copied().ok_or_else(|| missing(path))
    }

    pub(super) fn list(&self, dir: &str) -> Vec<String> {
        self.directories.get(dir).map(|d| d.names().keys().cloned().collect()).unwrap_or_default()
    }

    pub(super) fn files(&self) -> Vec<(String, u64)> {
        let mut files = Vec::new();
        for (dir, directory) in &self.directories {
            for (name, id) in directory.names() {
                files.push((join(dir, name), self.files[id].image.len()));
            }
        }
        files.sort();
        files
    }

    pub(super) fn create(&mut self, path: &str) -> io::Result<FileId> {
        if self.find(path).is_ok() || self.directories.contains_key(path) {
            return Err(io::Error::new(io::ErrorKind::AlreadyExists, "file exists"));
        }
        self.directory(split(path).0)?;
        self.begin(OpKind::Create, path, 0, 0)?;
        self.check_free()?;
        if self.lacks_inodes {
            return Err(full());
        }
        self.files_made += 1;
        let made = Inode { image: Arc::new(FileImage::new()), unreadable: Vec::new(), handles: 0 };
        self.files.insert(self.files_made, made);
        self.change_names(split(path).0, vec![(split(path).1.to_owned(), Some(self.files_made))])?;
        self.answer(self.files_made)
    }

    pub(super) fn create_dir(&mut self, dir: &str) -> io::Result<()> {
        let ends = dir.match_indices('/').map(|(at, _)| at).chain([dir.len()]);
        for path in ends.map(|end| &dir[..end]) {
            if self.find(path).is_ok() {
                return Err(io::Error::new(io::ErrorKind::AlreadyExists, "no directory"));
            }
            if !self.directories.contains_key(path) {
                self.begin(OpKind::CreateDir, path, 0, 0)?;
                self.check_free()?;
                self.answer(())?;
                self.directories.insert(path.to_owned(), Directory::default());
            }
        }
        Ok(())
    }

    pub(super) fn rename(&mut self, from: &str, to: &str) -> io::Result<()> {
        let id = self.find(from)?;
        if self.directories.contains_key(to) {
            return Err(io::Error::new(io::ErrorKind::IsADirectory, "is a directory"));
        }
        self.begin(OpKind::Rename { to: to.to_owned() }, from, 0, 0)?;
        if self.find(to).is_ok_and(|other| other == id) {
            return self.answer(());
        }
        let names = vec![(split(from).1.to_owned(), None), (split(to).1.to_owned(), Some(id))];
        self.change_names(split(from).0, names)?;
        self.answer(())
    }

    pub(super) fn link(&mut self, from: &str, to: &str) -> io::Result<()> {
        let id = self.find(from)?;
        if self.find(to).is_ok() || self.directories.contains_key(to) {
            return Err(io::Error::new(io::ErrorKind::AlreadyExists, "file exists"));
        }
        let (dir, name) = split(to);
        self.directory(dir)?;
        self.begin(OpKind::Link { to: to.to_owned() }, from, 0, 0)?;
        self.change_names(dir, vec![(name.to_owned(), Some(id))])?;
        self.answer(())
    }

    pub(super) fn remove(&mut self, path: &str) -> io::Result<()> {
        self.find(path)?;
        self.begin(OpKind::Remove, path, 0, 0)?;
        let (dir, name) = split(path);
        self.change_names(dir, vec![(name.to_owned(), None)])?;
        self.answer(())
    }

    fn change_names(&mut self, dir: &str, names: Vec<(String, Option<FileId>)>) -> io::Result<()> {
        let at = self.tick();
        self.directory(dir)?.change(names, at);
        Ok(())
    }

    fn directory(&mut self, dir: &str) -> io::Result<&mut Directory> {
        self.directories.get_mut(dir).ok_or_else(|| missing(dir))
    }

    // Bytes.

    pub(super) fn open(&mut self, id: FileId) {
        self.inode(id).handles += 1;
    }

    pub(super) fn close(&mut self, id: FileId) {
        self.inode(id).handles -= 1;
    }

    pub(super) fn image(&mut self, id: FileId) -> &mut FileImage {
        Arc::make_mut(&mut self.inode(id).image)
    }

    pub(super) fn image_to_read(&self, id: FileId) -> &FileImage {
        &self.files[&id].image
    }

    pub(super) fn make_unreadable(&mut self, id: FileId, range: Range<u64>) {
        self.inode(id).unreadable.push(range);
    }

    pub(super) fn check_readable(&self, id: FileId, offset: u64, len: u64) -> io::Result<()> {
        let end = offset.saturating_add(len);
        if self.files[&id].unreadable.iter().any(|bad| bad.start < end && offset < bad.end) {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "input/output error"));
        }
        Ok(())
    }

    fn inode(&mut self, id: FileId) -> &mut Inode {
        self.files.get_mut(&id).expect("a file with a name or a handle is kept")
    }

    /// Writes as much as fits. When the power is lost during the write, only its first sectors are
    /// written.
    pub(super) fn write(&mut self, id: FileId, path: &str, bytes: &[u8], offset: u64) -> io::Result<()> {
        let end = end_of(offset, bytes.len() as u64)?;
        self.begin(OpKind::Write, path, offset, bytes.len() as u64)?;
        let possible = if self.allocates_at_sync { end } else { self.room_until(id, end).clamp(offset, end) };
        let mut part = (possible - offset) as usize;
        if self.plan.power_lost {
            part = self.torn(part);
        }
        if part > 0 {
            let at = self.tick();
            self.image(id).write(&bytes[..part], offset, at);
        }
        self.answer(())?;
        if possible == end { Ok(()) } else { Err(full()) }
    }

    /// Bytes of a write of `len` bytes that are done when the power is lost: whole sectors, derived
    /// from the time.
    fn torn(&self, len: usize) -> usize {
        let sectors = len.div_ceil(SECTOR_BYTES as usize);
        let done = self.plan.operations() as usize * 7 % (sectors + 1);
        (done * SECTOR_BYTES as usize).min(len)
    }

    pub(super) fn reserve(&mut self, id: FileId, path: &str, offset: u64, len: u64) -> io::Result<bool> {
        let end = end_of(offset, len)?;
        if self.allocates_at_sync {
            return Ok(false);
        }
        self.begin(OpKind::Reserve, path, offset, len)?;
        if end > self.room_until(id, end) {
            return Err(full());
        }
        let at = self.tick();
        self.image(id).reserve(end, at);
        self.answer(true)
    }

    pub(super) fn truncate(&mut self, id: FileId, path: &str, len: u64) -> io::Result<()> {
        self.begin(OpKind::Truncate, path, len, 0)?;
        let at = self.tick();
        self.image(id).truncate(len, at);
        self.answer(())
    }

    pub(super) fn punch(&mut self, id: FileId, path: &str, offset: u64, len: u64) -> io::Result<()> {
        end_of(offset, len)?;
        self.begin(OpKind::Punch, path, offset, len)?;
        let at = self.tick();
        self.image(id).punch(offset, len, at);
        self.answer(())
    }

    /// Changes nothing: any bytes may reach the disk early in any case.
    pub(super) fn start_writeback(&mut self, path: &str, offset: u64, len: u64) -> io::Result<()> {
        self.begin(OpKind::Writeback, path, offset, len)?;
        self.answer(())
    }

    /// The number of names of a file.
    pub(super) fn links(&self, id: FileId) -> u64 {
        let named = self.directories.values().flat_map(|directory| directory.names().values());
        named.filter(|named| **named == id).count() as u64
    }

    // Syncs have a start and an end, since a test may hold one between them.

    /// Starts a sync, and returns the last change that it covers and whether it fails.
    pub(super) fn begin_sync(&mut self, what: &SyncTarget, path: &str) -> io::Result<(u64, bool)> {
        let kind = match what {
            SyncTarget::File(_) => OpKind::SyncData,
            SyncTarget::Directory(dir) => {
                self.directory(dir)?;
                OpKind::SyncDir
            }
        };
        self.begin(kind, path, 0, 0)?;
        self.plan.syncs += 1;
        Ok((self.now, self.plan.fail_sync_at == Some(self.plan.syncs)))
    }

    pub(super) fn finish_sync(&mut self, what: &SyncTarget, mark: u64, fails: bool) -> io::Result<()> {
        self.answer(())?;
        let is_full =
            self.allocates_at_sync && matches!(what, SyncTarget::File(_)) && self.used() > self.capacity;
        let fails = fails || is_full;
        match (what, fails) {
            (SyncTarget::File(id), _) if !self.image_to_read(*id).is_in_doubt() => {}
            (SyncTarget::File(id), false) => self.image(*id).confirm(mark),
            (SyncTarget::File(id), true) => self.image(*id).mark_lost(mark),
            (SyncTarget::Directory(dir), false) => self.directory(dir)?.confirm(mark),
            (SyncTarget::Directory(dir), true) => self.directory(dir)?.mark_lost(mark),
        }
        self.forget_unreachable();
        match (is_full, fails) {
            (true, _) => Err(full()),
            (false, true) => Err(io::Error::other("input/output error")),
            (false, false) => Ok(()),
        }
    }

    // Space.

    pub(super) fn used(&self) -> u64 {
        let named: BTreeSet<FileId> =
            self.directories.values().flat_map(|d| d.names().values().copied()).collect();
        let mut used = 0;
        for (id, inode) in &self.files {
            if inode.handles > 0 || named.contains(id) {
                used += inode.image.allocated();
            }
        }
        used
    }

    fn free(&self) -> u64 {
        self.capacity.saturating_sub(self.used())
    }

    fn check_free(&self) -> io::Result<()> {
        if self.free() == 0 { Err(full()) } else { Ok(()) }
    }

    /// The offset up to which a file can be written, at least if it is before `end`.
    fn room_until(&self, id: FileId, end: u64) -> u64 {
        let room = self.files[&id].image.room();
        if end <= room { end } else { room.saturating_add(self.free()) }
    }

    // Locks.

    pub(super) fn lock(&mut self, id: FileId) -> io::Result<()> {
        if self.locks.insert(id) {
            return Ok(());
        }
        Err(io::Error::new(io::ErrorKind::WouldBlock, "locked by another"))
    }

    pub(super) fn unlock(&mut self, id: FileId) {
        self.locks.remove(&id);
    }

    // Steps of every operation.

    fn begin(&mut self, kind: OpKind, path: &str, offset: u64, len: u64) -> io::Result<()> {
        self.plan.begin(Op { kind, path: path.to_owned(), offset, len })
    }

    /// The result of an operation, or an error if the power was lost during it.
    fn answer<T>(&self, value: T) -> io::Result<T> {
        self.plan.check_power().map(|()| value)
    }

    fn tick(&mut self) -> u64 {
        self.now += 1;
        self.now
    }

    fn forget_unreachable(&mut self) {
        let named: BTreeSet<FileId> = self.directories.values().flat_map(Directory::files).collect();
        self.files.retain(|id, inode| inode.handles > 0 || named.contains(id));
    }
}

fn join(dir: &str, name: &str) -> String {
    if dir.is_empty() { name.to_owned() } else { format!("{dir}/{name}") }
}

/// The end of a range, which must not exceed the largest signed offset.
fn end_of(offset: u64, len: u64) -> io::Result<u64> {
    let end = offset.checked_add(len).filter(|end| i64::try_from(*end).is_ok());
    end.ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "offset out of range"))
}

fn missing(path: &str) -> io::Error {
    io::Error::new(io::ErrorKind::NotFound, format!("no such file or directory: {path}"))
}

fn full() -> io::Error {
    io::Error::new(io::ErrorKind::StorageFull, "no space left")
}
