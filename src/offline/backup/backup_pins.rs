//! Further names that keep segments unchanged while a backup is made.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;

use super::BackupSource;
use super::report::BackupError;
use crate::format::{BackupSlot, FileKind, LOCK, segment_path};
use crate::fs::{File, Fs, Lock, SubdirFs};
use crate::log::list_numbers;

/// The directory of pins that cannot be in the target, which is on another file system.
const SOURCE_DIR: &str = "backup";
const SUFFIX: &str = ".pin";

/// The pin of a segment in a slot.
pub(super) fn slot_pin(id: u64) -> String {
    format!("{}{SUFFIX}", segment_path(id))
}

fn source_pin(id: u64) -> String {
    format!("{SOURCE_DIR}/{id:016x}{SUFFIX}")
}

/// The means by which a segment is kept.
enum Pin {
    /// A name in the slot.
    InSlot,
    /// A name in the data directory.
    InSource,
    /// A shared lock on the open file: the file system knows no further names, or the store is
    /// read-only here.
    Held(Arc<dyn File>),
}

/// The pins of one backup. Dropping them removes those in the data directory.
pub(super) struct BackupPins<'a> {
    source: &'a BackupSource<'a>,
    slot: BackupSlot,
    /// The slot as a file system.
    to: SubdirFs<&'a dyn Fs>,
    pins: BTreeMap<u64, Pin>,
    /// Locked while there are pins in the data directory.
    source_lock: Option<Box<dyn Lock>>,
}

impl<'a> BackupPins<'a> {
    pub(super) fn new(source: &'a BackupSource<'a>, slot: BackupSlot, to: SubdirFs<&'a dyn Fs>) -> Self {
        Self { source, slot, to, pins: BTreeMap::new(), source_lock: None }
    }

    /// Pins every segment that exists.
    pub(super) fn pin_all(&mut self) -> Result<(), BackupError> {
        for id in list_numbers(self.source.fs, FileKind::Segment)? {
            if !self.contains(id) {
                match self.pin(id) {
                    // It was dead, and has been removed.
                    Err(BackupError::Io(error)) if error.kind() == io::ErrorKind::NotFound => {}
                    pin => drop(self.pins.insert(id, pin?)),
                }
            }
        }
        Ok(())
    }

    fn pin(&mut self, id: u64) -> Result<Pin, BackupError> {
        let path = segment_path(id);
        let file = self.source.fs.open_uncached(&path)?;
        match (self.source.link)(&path, &format!("{}/{}", self.slot.dir(), slot_pin(id))) {
            Ok(()) => return Ok(Pin::InSlot),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Err(error.into()),
            Err(_) => {}
        }
        match self.pin_in_source(id) {
            Ok(()) => Ok(Pin::InSource),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Err(error.into()),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Err(BackupError::Busy),
            Err(no_name) => match file.lock_shared() {
                Ok(()) => Ok(Pin::Held(file)),
                Err(no_lock) => Err(BackupError::NotPinned { no_name, no_lock }),
            },
        }
    }

    fn pin_in_source(&mut self, id: u64) -> io::Result<()> {
        let fs = self.source.fs;
        if self.source_lock.is_none() {
            fs.create_dir(SOURCE_DIR)?;
            self.source_lock = Some(fs.lock(&format!("{SOURCE_DIR}/{LOCK}"))?);
            remove_pins(fs, SOURCE_DIR)?;
        }
        fs.link(&segment_path(id), &source_pin(id))
    }

    /// Whether a segment is pinned.
    pub(super) fn contains(&self, id: u64) -> bool {
        self.pins.contains_key(&id)
    }

    /// Whether the pin of a segment is in the slot.
    pub(super) fn is_in_slot(&self, id: u64) -> bool {
        matches!(self.pins.get(&id), Some(Pin::InSlot))
    }

    /// Opens a segment that is pinned.
    pub(super) fn open(&self, id: u64) -> io::Result<Arc<dyn File>> {
        match self.pins.get(&id).expect("only what is pinned is opened") {
            Pin::Held(file) => Ok(file.clone()),
            Pin::InSource => self.source.fs.open_uncached(&source_pin(id)),
            Pin::InSlot => self.to.open_uncached(&slot_pin(id)),
        }
    }

    /// Removes the pins in the slot that have not become names of segments.
    pub(super) fn clear_slot(&self) -> io::Result<()> {
        remove_pins(&self.to, FileKind::Segment.dir())
    }
}

impl Drop for BackupPins<'_> {
    fn drop(&mut self) {
        if self.source_lock.is_some() {
            // Pins left behind cost space until the next backup removes them.
            let _ = remove_pins(self.source.fs, SOURCE_DIR);
        }
    }
}

fn remove_pins(fs: &dyn Fs, dir: &str) -> io::Result<()> {
    for name in fs.list(dir)?.iter().filter(|name| name.ends_with(SUFFIX)) {
        fs.remove(&format!("{dir}/{name}"))?;
    }
    Ok(())
}
