//! Parcels applied to a data directory: their bytes to segments, their groups in order.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;

use crate::base::limits::PAGE_BYTES;
use crate::format::{
    CopyPhase, Entry, FileKind, Group, GroupHeader, GroupKind, LogPosition, Parcel, RemoteCopy,
    UncheckedGroup, segment_path,
};
use crate::fs::{File, Fs};
use crate::store::remote_log::chain::RemoteLog;
use crate::store::remote_log::error::{ShipError, disk};
use crate::store::remote_log::segment_copy::end_pages;

/// The segments of a directory, and the place in the log that it has got to.
pub(super) struct ParcelApplier<'a> {
    log: RemoteLog<'a>,
    fs: &'a dyn Fs,
    /// The last group.
    pub(super) end: LogPosition,
    /// Segments that were written to since the last sync.
    files: BTreeMap<u64, Arc<dyn File>>,
    /// The copies of segments, as of the last group.
    pub(super) copies: BTreeMap<u64, RemoteCopy>,
    /// Bytes that were written to segments.
    pub(super) bytes: u64,
}

impl<'a> ParcelApplier<'a> {
    /// A directory with the groups up to `end`, of whose copies nothing is known.
    pub(super) fn new(log: RemoteLog<'a>, fs: &'a dyn Fs, end: LogPosition) -> Self {
        Self { log, fs, end, files: BTreeMap::new(), copies: BTreeMap::new(), bytes: 0 }
    }

    /// The groups of a parcel after the last one that was written, each with its bytes.
    pub(super) fn groups<'p>(&mut self, parcel: &'p Parcel) -> Result<Vec<(Group, &'p [u8])>, ShipError> {
        let mut found = Vec::new();
        let mut rest = parcel.groups.as_slice();
        while !rest.is_empty() {
            let head = UncheckedGroup::decode(GroupKind::Log, &self.log.store, rest);
            let head = head.map_err(|error| damaged_group(parcel, &error))?;
            let length = usize::try_from(head.group_len()).unwrap_or(usize::MAX);
            let (bytes, after) =
                rest.split_at_checked(length).ok_or_else(|| damaged_group(parcel, &"it is cut off"))?;
            rest = after;
            // A parcel that was applied in part before a crash, or that a root covers in part,
            // begins with groups that are there.
            if head.header().sequence <= self.end.sequence {
                continue;
            }
            let body = &bytes[GroupHeader::BYTES..GroupHeader::BYTES + head.body_len()];
            let group = head.check(body).map_err(|error| damaged_group(parcel, &error))?;
            // By CRC, too: after a takeover two logs may have groups of one number.
            let follows =
                group.header.sequence == self.end.sequence + 1 && group.header.previous_crc == self.end.crc;
            if !follows {
                return Err(damaged_group(parcel, &"it does not follow the one before it"));
            }
            self.end = LogPosition { sequence: group.header.sequence, crc: group.crc };
            found.push((group, bytes));
        }
        if self.end.sequence > parcel.head.end.sequence || found.is_empty() || self.end == parcel.head.end {
            return Ok(found);
        }
        Err(damaged_group(parcel, &"the last one is missing"))
    }

    /// Learns of the copies that an applied group states.
    pub(super) fn learn(&mut self, group: &Group) {
        for entry in &group.entries {
            learn_copy(&mut self.copies, entry);
        }
    }

    /// Writes the bytes of a parcel into their segments.
    pub(super) fn write_pieces(&mut self, parcel: &Parcel) -> Result<(), ShipError> {
        for (piece, bytes) in parcel.inline_pieces() {
            self.write(piece.segment, piece.offset, bytes)?;
        }
        for piece in parcel.pieces.iter().filter(|piece| piece.object != 0) {
            let bytes = self.log.piece(&parcel.head, piece)?;
            self.write(piece.segment, piece.offset, &bytes)?;
        }
        Ok(())
    }

    /// Writes bytes of a segment. The first ones that a parcel has of a segment are its header;
    /// where that was in a parcel before those that the root needs, the segment was remote or gone
    /// then.
    fn write(&mut self, segment: u64, offset: u64, bytes: &[u8]) -> Result<(), ShipError> {
        if !self.files.contains_key(&segment) {
            let path = segment_path(segment);
            let file = match self.fs.open(&path) {
                // Skipped, and not made up: a file without its header would be damage at the next
                // open.
                Err(error) if error.kind() == io::ErrorKind::NotFound && offset > 0 => return Ok(()),
                Err(error) if error.kind() == io::ErrorKind::NotFound => self.fs.create(&path),
                opened => opened,
            };
            self.files.insert(segment, file.map_err(disk)?);
        }
        self.bytes += bytes.len() as u64;
        self.files[&segment].write_all_at(bytes, offset).map_err(disk)
    }

    /// Gives each segment that the remote has its length, with its first and last page: a start
    /// reads no other. Returns their number.
    pub(super) fn place_copies(&mut self) -> Result<u64, ShipError> {
        let mut placed = 0;
        for (id, copy) in self.remote_copies() {
            self.place_copy(id, copy)?;
            placed += 1;
        }
        Ok(placed)
    }

    /// The copies that are complete.
    pub(super) fn remote_copies(&self) -> Vec<(u64, RemoteCopy)> {
        let complete = self.copies.iter().filter(|(_, copy)| copy.phase == CopyPhase::Remote);
        complete.map(|(id, copy)| (*id, *copy)).collect()
    }

    /// Writes the first and the last page of a segment that the remote has.
    pub(super) fn place_copy(&mut self, id: u64, copy: RemoteCopy) -> Result<(), ShipError> {
        let [first, last] = end_pages(self.log, id, copy)?;
        self.write(id, 0, &first)?;
        self.write(id, copy.length - PAGE_BYTES, &last)
    }

    /// Makes the bytes of all segments durable that were written.
    pub(super) fn sync(&mut self) -> Result<(), ShipError> {
        // The bytes before the names of new files, so that no name stands for a file without them.
        for file in self.files.values() {
            file.sync_data().map_err(disk)?;
        }
        if !self.files.is_empty() {
            self.fs.sync_dir(FileKind::Segment.dir()).map_err(disk)?;
        }
        self.files.clear();
        Ok(())
    }
}

fn damaged_group(parcel: &Parcel, why: &dyn std::fmt::Display) -> ShipError {
    let name = Parcel::name(parcel.head.epoch, parcel.head.counter);
    ShipError::damaged(name, &format!("a group in it: {why}"))
}

/// Learns of the copy of a segment that an entry states.
pub(super) fn learn_copy(copies: &mut BTreeMap<u64, RemoteCopy>, entry: &Entry) {
    match entry {
        Entry::RemoteSegment { segment, copy: Some(copy) } => drop(copies.insert(*segment, *copy)),
        Entry::RemoteSegment { segment, copy: None } => drop(copies.remove(segment)),
        _ => {}
    }
}
