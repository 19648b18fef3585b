//! The directory of a backup: two slots, and the file that names the current one.

use std::io;

use super::report::BackupError;
use crate::base::limits::PAGE_BYTES;
use crate::format::{BackupCurrent, BackupSlot, FileKind, LOCK, unfinished};
use crate::fs::{File, Fs, Lock, SubdirFs};
use crate::log::{Damage, LogError, Segment, write_atomically};

/// The longest file that can name a slot.
const CURRENT_MAX_BYTES: u64 = 1024;

/// The directories of a slot; `""` is the slot itself.
const DIRS: [&str; 3] = ["", "data", "meta"];

/// The directory of a backup, locked against other writers.
pub(super) struct BackupSlots<'a> {
    target: &'a dyn Fs,
    current: Option<BackupCurrent>,
    _lock: Option<Box<dyn Lock>>,
}

impl<'a> BackupSlots<'a> {
    /// Opens it for writing. It must hold a backup or no files.
    pub(super) fn open(target: &'a dyn Fs) -> Result<Self, BackupError> {
        // Slots are cleared as a whole: a directory with anything else in it was named by mistake.
        let expected = [BackupCurrent::PATH, &unfinished(BackupCurrent::PATH), LOCK];
        if let Some(name) = target.list("")?.into_iter().find(|name| !expected.contains(&name.as_str())) {
            return Err(BackupError::Foreign(name));
        }
        let lock = lock(target)?;
        Ok(Self { target, current: read_current(target)?, _lock: Some(lock) })
    }

    /// Opens it for reading. On a read-only file system it goes without a lock, since nothing can
    /// write there.
    pub(super) fn open_to_read(target: &'a dyn Fs) -> Result<Self, BackupError> {
        let lock = match lock(target) {
            Err(BackupError::Io(error)) if error.kind() == io::ErrorKind::ReadOnlyFilesystem => None,
            lock => Some(lock?),
        };
        Ok(Self { target, current: read_current(target)?, _lock: lock })
    }

    /// The current backup, if there is one.
    pub(super) fn current(&self) -> Option<BackupCurrent> {
        self.current
    }

    /// The slot for the next backup.
    pub(super) fn next_slot(&self) -> BackupSlot {
        self.current.map_or(BackupSlot::A, |current| current.slot.other())
    }

    /// A slot as a file system.
    pub(super) fn slot_fs(&self, slot: BackupSlot) -> SubdirFs<&'a dyn Fs> {
        SubdirFs::new(self.target, slot.dir())
    }

    /// Creates the directories of a slot, and removes the remains of a failed backup.
    pub(super) fn prepare(&self, slot: BackupSlot) -> io::Result<()> {
        let slot_fs = self.slot_fs(slot);
        DIRS.iter().filter(|dir| !dir.is_empty()).try_for_each(|dir| slot_fs.create_dir(dir))?;
        self.clear(slot)
    }

    /// Removes all files of a slot.
    pub(super) fn clear(&self, slot: BackupSlot) -> io::Result<()> {
        DIRS.iter().try_for_each(|dir| self.clear_dir(slot, dir))
    }

    /// Removes the metadata of a slot.
    pub(super) fn clear_metadata(&self, slot: BackupSlot) -> io::Result<()> {
        self.clear_dir(slot, FileKind::Log.dir())
    }

    fn clear_dir(&self, slot: BackupSlot, dir: &str) -> io::Result<()> {
        let slot_fs = self.slot_fs(slot);
        for name in slot_fs.list(dir)? {
            let path = if dir.is_empty() { name } else { format!("{dir}/{name}") };
            slot_fs.remove(&path)?;
        }
        Ok(())
    }

    /// Fails if the target lacks space for `needed_bytes`.
    pub(super) fn check_room(&self, needed_bytes: u64) -> Result<(), BackupError> {
        let free_bytes = self.target.space()?.free_bytes;
        if needed_bytes <= free_bytes {
            Ok(())
        } else {
            Err(BackupError::NoRoom { needed_bytes, free_bytes })
        }
    }

    /// Links a sealed segment from the former backup into `slot`. Returns whether it was there and
    /// could be linked.
    pub(super) fn link_from_former(&self, segment: &Segment, slot: BackupSlot) -> io::Result<bool> {
        let Some(current) = self.current else { return Ok(false) };
        let former = format!("{}/{}", current.slot.dir(), segment.path());
        let next = format!("{}/{}", slot.dir(), segment.path());
        match self.target.open_read(&former) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            kept => Ok(is_same(kept?.as_ref(), segment)? && self.target.link(&former, &next).is_ok()),
        }
    }

    /// Makes the names in a slot durable.
    pub(super) fn sync(&self, slot: BackupSlot) -> io::Result<()> {
        let slot_fs = self.slot_fs(slot);
        DIRS.iter().try_for_each(|dir| slot_fs.sync_dir(dir))
    }

    /// Makes another backup the current one, in one step. Durable on return.
    pub(super) fn set_current(&self, current: &BackupCurrent) -> Result<(), LogError> {
        write_atomically(self.target, BackupCurrent::PATH, "", |file| {
            Ok(file.write_all_at(&current.encode(), 0)?)
        })
        .map(drop)
    }
}

fn lock(target: &dyn Fs) -> Result<Box<dyn Lock>, BackupError> {
    target.lock(LOCK).map_err(|error| match error.kind() {
        io::ErrorKind::WouldBlock => BackupError::Busy,
        _ => error.into(),
    })
}

fn read_current(target: &dyn Fs) -> Result<Option<BackupCurrent>, BackupError> {
    let path = BackupCurrent::PATH;
    let file = match target.open_read(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        opened => opened?,
    };
    let mut bytes = vec![0; file.len()?.min(CURRENT_MAX_BYTES) as usize];
    file.read_exact_at(&mut bytes, 0)?;
    match BackupCurrent::decode(&bytes) {
        Ok(current) => Ok(Some(current)),
        Err(error) if error.is_newer() => {
            Err(io::Error::new(io::ErrorKind::Unsupported, format!("{path}: {error}")).into())
        }
        Err(error) => Err(Damage::new(path, 0, format!("the name of the slot: {error}")).into()),
    }
}

/// Whether a file is a copy of a sealed segment: the same length, header and footer. The id of a
/// removed segment may be given out again, but the header of the new one has another time.
fn is_same(kept: &dyn File, segment: &Segment) -> io::Result<bool> {
    let len = segment.file.len()?;
    if kept.len()? != len {
        return Ok(false);
    }
    for at in [0, len.saturating_sub(PAGE_BYTES)] {
        if page(kept, at)? != page(segment.file.as_ref(), at)? {
            return Ok(false);
        }
    }
    Ok(true)
}

fn page(file: &dyn File, offset: u64) -> io::Result<Vec<u8>> {
    let len = PAGE_BYTES.min(file.len()?.saturating_sub(offset));
    let mut page = vec![0; len as usize];
    file.read_exact_at(&mut page, offset)?;
    Ok(page)
}
