//! Two disks with the same files: each change is made on both, and each sync is of both.
//!
//! A disk that fails is *dropped*: a [`SideKeeper`] notes it durably, and nothing is answered before.
//! Which disks hold what counts, and what a start does with them, is decided above this floor.
//!
//! - `sides`: which of the disks are in use, and what two results of one operation amount to.
//! - `file`: an open file of both.
//! - `read_watch`: reads that a disk does not answer.
//! - `workers`: threads that wait for syncs.

mod file;
mod read_watch;
mod sides;
mod workers;

#[cfg(test)]
mod tests;

use std::io;
use std::sync::{Arc, Mutex};
use std::time::Duration;

pub use sides::{BadBytes, Side, SideKeeper, SideUse};

use super::{DiskPlace, File, Fs, Lock, Space, check_one_directory, remove_if_there};
use crate::base::NOT_POISONED;
use file::MirroredFile;
use sides::{BothResults, Sides};

/// Two disks with the same files, as one.
#[derive(Clone)]
pub struct MirroredFs {
    sides: Arc<Sides>,
    /// The locks of the disks, until they are asked for.
    held: Arc<Mutex<Option<Box<dyn Lock>>>>,
}

/// Opens a file on one of the disks.
type OpenOn = fn(&dyn Fs, &str) -> io::Result<Arc<dyn File>>;

impl MirroredFs {
    /// Both `disks`, in that use. Reads are of `source`, which is whole; where both are, each file is read on
    /// one of them by its name, so that both disks read. A sync that takes longer than `patience` counts as
    /// failed. Who has locked the disks already hands over the locks as `held`.
    pub fn new(
        disks: [Arc<dyn Fs>; 2],
        uses: [SideUse; 2],
        source: Side,
        keeper: Arc<dyn SideKeeper>,
        patience: Duration,
        held: Vec<Box<dyn Lock>>,
    ) -> Self {
        let held: Option<Box<dyn Lock>> = match held.is_empty() {
            true => None,
            false => Some(Box::new(LocksOfSides { _held: held })),
        };
        let sides = Arc::new(Sides::new(disks, uses, source, keeper, patience));
        Self { sides, held: Arc::new(Mutex::new(held)) }
    }

    /// The use of a side.
    pub fn use_of(&self, side: Side) -> SideUse {
        self.sides.use_of(side)
    }

    /// The side on which a file is read that is opened now.
    pub fn home_of(&self, path: &str) -> Side {
        self.sides.home_of(path)
    }

    /// The disk of a side.
    pub fn disk_of(&self, side: Side) -> Arc<dyn Fs> {
        Arc::clone(self.sides.disk(side))
    }

    /// Lets the uncached reads of files that are opened from now on be of that side, while it is whole.
    pub fn read_uncached_from(&self, side: Side) {
        self.sides.read_uncached_from(side);
    }

    /// Calls `change` while no operation of these disks is under way, and uses the side that is being
    /// filled as a whole one from then on.
    ///
    /// # Errors
    /// Of `change`: the side is dropped then.
    pub fn join(&self, change: impl FnOnce() -> io::Result<()>) -> io::Result<()> {
        self.sides.join(change)
    }

    /// Calls `change` while no name of these disks changes.
    pub fn with_fixed_names<T>(&self, change: impl FnOnce() -> T) -> T {
        let _fixed = self.sides.names.write().expect(NOT_POISONED);
        change()
    }

    /// Has the handles of a file open it anew on one side, where another file has its name now.
    ///
    /// # Errors
    /// Of the disk.
    pub fn reopen(&self, side: Side, path: &str) -> io::Result<()> {
        self.sides.reopen(side, path)
    }

    /// Bytes that were found to be bad since the last call.
    pub fn take_bad_bytes(&self) -> Vec<BadBytes> {
        self.sides.take_bad_bytes()
    }

    fn open_with(&self, path: &str, is_writable: bool, open: OpenOn) -> io::Result<Arc<dyn File>> {
        let _in_step = self.sides.in_step();
        let _names = self.sides.names.read().expect(NOT_POISONED);
        let opened = self.sides.on_each(|side| open(self.sides.disk(side).as_ref(), path));
        let files = opened.into_opened()?;
        Ok(self.sides.register(Arc::new(MirroredFile::new(&self.sides, path, is_writable, files))))
    }

    /// Opens a file for reads alone: on one disk, and on the other one once it is needed.
    fn open_to_read(&self, path: &str, first: Side, open: OpenOn) -> io::Result<MirroredFile> {
        let _names = self.sides.names.read().expect(NOT_POISONED);
        let mut files = [None, None];
        match open(self.sides.disk(first).as_ref(), path) {
            Ok(file) => files[first.index()] = Some(file),
            Err(error) if self.sides.use_of(first.other()) != SideUse::Whole => return Err(error),
            // One that is busy, as a missing file is, may be the fault of this disk alone.
            Err(error) => match open(self.sides.disk(first.other()).as_ref(), path) {
                Ok(file) => files[first.other().index()] = Some(file),
                Err(_) => return Err(error),
            },
        }
        Ok(MirroredFile::new(&self.sides, path, false, files))
    }

    /// Removes a name that was made on some sides alone. One where that fails is dropped.
    fn undo(&self, sides: impl Iterator<Item = Side>, path: &str) -> io::Result<()> {
        for side in sides {
            if let Err(error) = self.sides.disk(side).remove(path) {
                self.sides.drop_side(side, &error)?;
            }
        }
        Ok(())
    }

    /// Changes names on both disks.
    fn change_names(&self, change: impl Fn(&dyn Fs) -> io::Result<()>) -> BothResults<()> {
        let _names = self.sides.names.write().expect(NOT_POISONED);
        self.sides.on_each(|side| change(self.sides.disk(side).as_ref()))
    }
}

impl Fs for MirroredFs {
    fn create_on(&self, _: DiskPlace, path: &str) -> io::Result<Arc<dyn File>> {
        let _in_step = self.sides.in_step();
        let _names = self.sides.names.write().expect(NOT_POISONED);
        let created = self.sides.on_each(|side| self.sides.disk(side).create(path));
        if let Some(refusal) = created.refusal() {
            self.undo(created.successes(), path)?;
            return Err(refusal);
        }
        let files = created.into_files(&self.sides)?;
        Ok(self.sides.register(Arc::new(MirroredFile::new(&self.sides, path, true, files))))
    }

    fn open(&self, path: &str) -> io::Result<Arc<dyn File>> {
        self.open_with(path, true, |disk, path| disk.open(path))
    }

    fn open_read(&self, path: &str) -> io::Result<Arc<dyn File>> {
        let first = self.sides.to_ask(self.sides.home_of(path));
        let opened = self.open_to_read(path, first, |disk, path| disk.open_read(path))?;
        Ok(self.sides.register(Arc::new(opened)))
    }

    fn open_uncached(&self, path: &str) -> io::Result<Arc<dyn File>> {
        let opened =
            self.open_to_read(path, self.sides.uncached_source(), |disk, path| disk.open_uncached(path))?;
        Ok(self.sides.register(Arc::new(opened.on_one_side())))
    }

    fn list(&self, dir: &str) -> io::Result<Vec<String>> {
        self.sides.read_from_either(|side| self.sides.disk(side).list(dir))
    }

    fn create_dir(&self, dir: &str) -> io::Result<()> {
        let _in_step = self.sides.in_step();
        self.change_names(|disk| disk.create_dir(dir)).settle(&self.sides)
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        check_one_directory(from, to)?;
        let _in_step = self.sides.in_step();
        let mut renamed = self.change_names(|disk| disk.rename(from, to));
        if renamed.successes().next().is_some() {
            self.sides.note_renamed(from, to);
        }
        if let Some(side) = renamed.lacking(&self.sides) {
            // The file that has the name on this side is older than the one that has it now; it is
            // copied again.
            renamed.set(side, remove_if_there(self.sides.disk(side).as_ref(), to));
        }
        renamed.settle_or_drop(&self.sides)
    }

    fn link(&self, from: &str, to: &str) -> io::Result<()> {
        let _in_step = self.sides.in_step();
        let linked = self.change_names(|disk| disk.link(from, to));
        if let Some(refusal) = linked.refusal() {
            self.undo(linked.successes(), to)?;
            return Err(refusal);
        }
        linked.settle_or_drop(&self.sides)
    }

    fn remove(&self, path: &str) -> io::Result<()> {
        let _in_step = self.sides.in_step();
        let mut removed = self.change_names(|disk| disk.remove(path));
        self.sides.note_clean(path, || false);
        // Gone on both: a crash may have kept it on one of them.
        if removed.successes().next().is_some() {
            for side in Side::BOTH {
                removed.forgive(side, io::ErrorKind::NotFound, ());
            }
        }
        removed.settle_or_drop(&self.sides)
    }

    fn sync_dir(&self, dir: &str) -> io::Result<()> {
        let _in_step = self.sides.in_step();
        let synced = self.sides.on_each_at_once(|side| {
            let disk = Arc::clone(self.sides.disk(side));
            let dir = dir.to_owned();
            Box::new(move || disk.sync_dir(&dir))
        });
        synced.settle_sync(&self.sides)
    }

    fn lock(&self, path: &str) -> io::Result<Box<dyn Lock>> {
        if let Some(held) = self.held.lock().expect(NOT_POISONED).take() {
            return Ok(held);
        }
        let _in_step = self.sides.in_step();
        let locked = self.sides.on_each(|side| self.sides.disk(side).lock(path));
        if let Some(refusal) = locked.refusal() {
            return Err(refusal);
        }
        Ok(Box::new(LocksOfSides { _held: locked.into_values(&self.sides)? }))
    }

    fn space(&self) -> io::Result<Space> {
        let _in_step = self.sides.in_step();
        let spaces = self.sides.on_each(|side| self.sides.disk(side).space()).into_values(&self.sides)?;
        let least = spaces.into_iter().reduce(|one, other| Space {
            free_bytes: one.free_bytes.min(other.free_bytes),
            total_bytes: one.total_bytes.min(other.total_bytes),
            free_files: match (one.free_files, other.free_files) {
                (Some(one), Some(other)) => Some(one.min(other)),
                (one, other) => one.or(other),
            },
        });
        Ok(least.expect("a side is in use"))
    }
}

/// The locks of the disks in use.
struct LocksOfSides {
    _held: Vec<Box<dyn Lock>>,
}

impl Lock for LocksOfSides {}
