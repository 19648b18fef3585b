//! A data directory that is extended parcel by parcel while no store is open in it.
//!
//! Its groups are the remote log's, in one log file after the checkpoint; each parcel
//! is synced before the next. So the directory is a store at every moment, and the ordinary open
//! makes a writer of it.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;

use super::parcel_applier::{ParcelApplier, learn_copy};
use crate::base::limits::{MIB, PAGE_BYTES};
use crate::base::{Clock, Timestamp};
use crate::format::{
    CopyPhase, Entry, Features, FileHeader, FileKind, Footer, Group, LogPosition, Parcel, RemoteCopy,
    STANDBY, StoreId, log_path, segment_path,
};
use crate::fs::{File, Fs, is_there};
use crate::log::{
    LogError, Replay, ReplayStart, create_file, list_numbers, read_checkpoint, remove_unfinished,
};
use crate::store::open::loader::{pack_is_good, store_id, sync_and_evict};
use crate::store::remote_log::chain::RemoteLog;
use crate::store::remote_log::error::{ShipError, disk};
use crate::store::remote_log::segment_copy::place_copy;

/// The least growth of the log file: zeros that are written ahead.
const GROWTH_BYTES: u64 = MIB;

/// The directory, and its place in the log.
pub(super) struct LogCopy {
    store: StoreId,
    /// The last log file, with the place of the next group and the length.
    file: Arc<dyn File>,
    features: Features,
    position: u64,
    length: u64,
    /// Bytes of groups after the checkpoint.
    log_bytes: u64,
    /// The last group of the checkpoint.
    start: u64,
    /// The last group.
    pub(super) end: LogPosition,
    /// The copies of segments, as of the last group.
    copies: BTreeMap<u64, RemoteCopy>,
    /// Segments that the remote has, and whose bytes are here in full.
    unplaced: Vec<u64>,
}

impl LogCopy {
    /// Reads the directory; `None` if there is no log. Nothing is written.
    ///
    /// # Errors
    /// [`LogError::Damaged`] for a log or a checkpoint that is not whole; of the disk.
    pub(super) fn open(fs: &dyn Fs) -> Result<Option<Self>, LogError> {
        if list_numbers(fs, FileKind::Log)?.is_empty() {
            return Ok(None);
        }
        let Some(store) = store_id(fs)? else { return Ok(None) };
        sync_before_reading(fs)?;
        let mut copies = BTreeMap::new();
        let mut start = ReplayStart::default();
        if let Some(covered) = list_numbers(fs, FileKind::Checkpoint)?.last().copied() {
            let end = read_checkpoint(fs, store, covered, &mut |entry| {
                let entry = entry.decode().map_err(|error| error.to_string())?;
                if let Some(entry) = &entry {
                    learn_copy(&mut copies, entry);
                }
                Ok(())
            })?;
            start = ReplayStart { covered, through: end.through.max(covered) };
        }
        let replay = Replay { fs, store, start, pack_is_good: &|pack| pack_is_good(fs, store, pack) };
        let tail = replay.run(&mut |group: Group| {
            for entry in &group.entries {
                learn_copy(&mut copies, entry);
            }
            Ok(())
        })?;
        if let Some(damage) = tail.damage {
            return Err(damage.into());
        }
        let mut copy = Self {
            store,
            length: tail.file.len()?,
            file: tail.file,
            features: tail.features,
            position: tail.position,
            log_bytes: tail.volume.log_bytes,
            start: start.covered,
            end: LogPosition { sequence: tail.sequence - 1, crc: tail.previous_crc },
            copies,
            unplaced: Vec::new(),
        };
        copy.unplaced = copy.find_unplaced(fs)?;
        Ok(Some(copy))
    }

    /// Erases what a crash left after the last group.
    pub(super) fn erase_tail(&self) -> Result<(), ShipError> {
        // A torn group may stand there. Its rest behind the next groups, if those are shorter,
        // would look like another torn one, from which an open concludes that the group before it
        // was durable.
        let mut at = self.position;
        while at < self.length {
            let length = MIB.min(self.length - at);
            self.file.write_zeros(at, length).map_err(disk)?;
            at += length;
        }
        self.file.sync_data().map_err(disk)
    }

    /// The store that it is a copy of.
    pub(super) fn store(&self) -> StoreId {
        self.store
    }

    /// The last group of the checkpoint; 0 without one.
    pub(super) fn start(&self) -> u64 {
        self.start
    }

    /// Bytes of the log that an open reads after the checkpoint.
    pub(super) fn log_bytes(&self) -> u64 {
        self.log_bytes
    }

    /// Applies a parcel: its bytes, then its groups after the own last one, both durable on return.
    /// Returns the number of bytes.
    ///
    /// # Errors
    /// After [`ShipError::Remote`] the groups are as before, and the call may be repeated. After
    /// another the directory has to be read again.
    pub(super) fn apply(
        &mut self,
        log: RemoteLog<'_>,
        fs: &dyn Fs,
        clock: &dyn Clock,
        parcel: &Parcel,
    ) -> Result<u64, ShipError> {
        // 1. Files of segments that earlier groups call remote lose their bytes. Those groups are
        //    durable: before that, an open would look for the bytes here.
        self.place_copies(log, fs)?;
        let before = self.end;
        let mut applier = ParcelApplier::new(log, fs, before);
        // 2. The bytes of the parcel are durable before the groups that name them.
        applier.write_pieces(parcel)?;
        let groups = applier.groups(parcel)?;
        applier.sync()?;
        // 3. The groups, all of them with one sync. A crash leaves a beginning of them, as of a log
        //    whose writer was cut off, and the rest is applied again.
        if !groups.is_empty() {
            self.require(fs, parcel.head.features, before, clock.now())?;
            let bytes = groups.iter().map(|(_, bytes)| bytes.len() as u64).sum::<u64>();
            // Groups state how long the writer's file was at least, and an open takes a shorter one
            // for damage.
            let stated = groups.iter().map(|(group, _)| group.header.file_len).max();
            self.grow(stated.unwrap_or(0).max(self.position + bytes + PAGE_BYTES))?;
            for (group, bytes) in &groups {
                self.file.write_all_at(bytes, self.position).map_err(disk)?;
                self.position += bytes.len() as u64;
                self.learn(group);
            }
            self.file.sync_data().map_err(disk)?;
            self.log_bytes += bytes;
        }
        self.end = applier.end;
        Ok(applier.bytes + parcel.groups.len() as u64)
    }

    /// Replaces the files of segments that the remote has by ones without bytes, which are read on
    /// demand. Readers of the old files read on.
    pub(super) fn place_copies(&mut self, log: RemoteLog<'_>, fs: &dyn Fs) -> Result<(), ShipError> {
        while let Some(segment) = self.unplaced.last().copied() {
            if let Some(copy) = self.remote_copy(segment) {
                place_copy(log, fs, segment, copy)?;
            }
            // Only now: after an error the next call begins with the same one.
            self.unplaced.pop();
        }
        Ok(())
    }

    fn learn(&mut self, group: &Group) {
        for entry in &group.entries {
            learn_copy(&mut self.copies, entry);
            if let Entry::RemoteSegment { segment, copy: Some(copy) } = entry
                && copy.phase == CopyPhase::Remote
            {
                self.unplaced.push(*segment);
            }
        }
    }

    fn remote_copy(&self, segment: u64) -> Option<RemoteCopy> {
        self.copies.get(&segment).filter(|copy| copy.phase == CopyPhase::Remote).copied()
    }

    /// Segments that the remote has, and whose files are not a copy's: a crash came before
    /// that.
    fn find_unplaced(&self, fs: &dyn Fs) -> Result<Vec<u64>, LogError> {
        let mut found = Vec::new();
        for segment in self.copies.keys().copied() {
            if let Some(copy) = self.remote_copy(segment)
                && !is_placed(fs, self.store, segment, copy.length)?
            {
                found.push(segment);
            }
        }
        Ok(found)
    }

    /// Goes on in a new log file where the header of the last one lacks a feature.
    fn require(
        &mut self,
        fs: &dyn Fs,
        features: Features,
        previous: LogPosition,
        created: Timestamp,
    ) -> Result<(), ShipError> {
        // The header of a file is never changed, and a binary that lacks the feature stops at the
        // header.
        if self.features.contains(features) {
            return Ok(());
        }
        let header = FileHeader {
            kind: FileKind::Log,
            store: self.store,
            number: previous.sequence + 1,
            features: self.features.with(features),
            created,
            previous_crc: previous.crc,
        };
        // A crash may have left a file of that name without groups.
        let made = create_file(fs, &header, |file| Ok(file.write_zeros(PAGE_BYTES, PAGE_BYTES)?));
        self.file = made.map_err(|error| ShipError::Disk(format!("{}: {error}", log_path(header.number))))?;
        self.features = header.features;
        self.position = PAGE_BYTES;
        self.length = 2 * PAGE_BYTES;
        Ok(())
    }

    /// Makes the log file at least that long.
    fn grow(&mut self, least: u64) -> Result<(), ShipError> {
        if least <= self.length {
            return Ok(());
        }
        let end = least.max(self.length + GROWTH_BYTES);
        while self.length < end {
            let length = MIB.min(end - self.length);
            self.file.write_zeros(self.length, length).map_err(disk)?;
            self.length += length;
        }
        Ok(())
    }
}

/// Makes durable what is read, as a start does: after a crash of the process the page cache may
/// hold what the disk does not.
fn sync_before_reading(fs: &dyn Fs) -> Result<(), LogError> {
    for kind in [FileKind::Segment, FileKind::Log] {
        fs.sync_dir(kind.dir())?;
    }
    if let Some(number) = list_numbers(fs, FileKind::Log)?.last() {
        sync_and_evict(fs.open(&log_path(*number))?.as_ref())?;
    }
    Ok(())
}

/// Whether the file of a segment has the length, the first and the last page of its copy.
fn is_placed(fs: &dyn Fs, store: StoreId, segment: u64, length: u64) -> Result<bool, LogError> {
    let file = match fs.open_read(&segment_path(segment)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
        opened => opened?,
    };
    if file.len()? != length || length < 2 * PAGE_BYTES {
        return Ok(false);
    }
    let mut first = vec![0; PAGE_BYTES as usize];
    let mut last = vec![0; PAGE_BYTES as usize];
    file.read_exact_at(&mut first, 0)?;
    file.read_exact_at(&mut last, length - PAGE_BYTES)?;
    Ok(FileHeader::decode(&first).is_ok() && Footer::decode(&store, &last).is_ok())
}

/// Whether the directory follows a log, so that it may be filled again, and is no writer's.
///
/// # Errors
/// Of the disk.
pub fn follows(fs: &dyn Fs) -> io::Result<bool> {
    is_there(fs, STANDBY)
}

/// Notes that the directory follows a log. Durable on return.
pub(super) fn mark(fs: &dyn Fs) -> Result<(), ShipError> {
    // The file is empty: its name says it all, and there is nothing that could be torn.
    match fs.create(STANDBY) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        created => drop(created.map_err(disk)?),
    }
    fs.sync_dir("").map_err(disk)
}

/// Notes that the directory follows no log any more. Durable on return.
pub(super) fn unmark(fs: &dyn Fs) -> Result<(), ShipError> {
    match fs.remove(STANDBY) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        removed => removed.map_err(disk)?,
    }
    fs.sync_dir("").map_err(disk)
}

/// Removes the files of the store from a directory that is marked: logs first, so that the rest is
/// no store after a crash.
pub(super) fn clear(fs: &dyn Fs) -> Result<(), ShipError> {
    remove_unfinished(fs).map_err(disk)?;
    // 1. The logs, the newest first: a crash in between leaves a shorter log, and in the end none,
    //    but never a log with a gap.
    for number in list_numbers(fs, FileKind::Log).map_err(disk)?.into_iter().rev() {
        fs.remove(&log_path(number)).map_err(disk)?;
    }
    fs.sync_dir(FileKind::Log.dir()).map_err(disk)?;
    // 2. Everything else, once the names of the logs are gone for good: checkpoints without a log
    //    are no store, and a log without its segments would be a damaged one.
    for dir in [FileKind::Log.dir(), FileKind::Segment.dir()] {
        for name in fs.list(dir).map_err(disk)? {
            fs.remove(&format!("{dir}/{name}")).map_err(disk)?;
        }
        fs.sync_dir(dir).map_err(disk)?;
    }
    Ok(())
}

/// Whether a directory holds files of a store.
pub(super) fn is_used(fs: &dyn Fs) -> Result<bool, ShipError> {
    for kind in FileKind::ALL {
        if !list_numbers(fs, kind).map_err(disk)?.is_empty() {
            return Ok(true);
        }
    }
    Ok(false)
}
