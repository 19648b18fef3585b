//! Parcels from the log of a store in use, with the bytes of segments that its entries name.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::ops::Range;

use super::shipped_ranges::ShippedRanges;
use crate::base::digest::Crc32;
use crate::base::limits::{MIB, PAGE_BYTES};
use crate::format::{
    CopyPhase, Entry, ExtentRef, Features, Group, LogPosition, PIECE_MAX_BYTES, Parcel, ParcelHead, ParcelId,
    ParcelPiece, Root, segment_path,
};
use crate::fs::File;
use crate::index::Index;
use crate::log::{Damage, FollowedGroup, LogError, LogFollower, Segments};
use crate::remote::{Body, NewObject};
use crate::store::open::loader::pack_is_good;
use crate::store::remote_log::error::ShipError;
use crate::store::remote_log::request::{BACKGROUND, FileBody};
use crate::store::remote_log::right::EpochWriter;
use crate::store::shared::SharedStore;

/// The size from which a parcel takes no more groups.
const PARCEL_TARGET_BYTES: usize = 8 * MIB as usize;
/// Longer pieces are objects of their own.
const INLINE_MAX_BYTES: u64 = MIB;
/// A parcel with more data objects takes no more groups.
const OBJECTS_MAX: u32 = 64;

/// What an epoch has shipped.
#[derive(Default)]
pub(super) struct ShippedSegments {
    ranges: ShippedRanges,
    /// The first parcel with bytes of each segment that is not among `remote`; it may be one of an
    /// adopted epoch.
    pub(super) first: BTreeMap<u64, ParcelId>,
    /// The segments whose copies are complete by what was shipped.
    pub(super) remote: BTreeSet<u64>,
}

impl ShippedSegments {
    /// For an epoch that has shipped nothing: the remote has some segments.
    pub(super) fn of(index: &Index) -> Self {
        let remote = index.remote_copies(None).filter(|(_, copy)| copy.phase == CopyPhase::Remote);
        Self { remote: remote.map(|(id, _)| id).collect(), ..Self::default() }
    }

    /// For an epoch that goes on from a root of an adopted one: the parcels after that have
    /// all bytes that the adopted groups name. What lies in the segments that the opening found was
    /// named by these, or by groups after them, or never.
    pub(super) fn adopted(index: &Index, segments: &Segments, root: &Root) -> Self {
        let mut shipped = Self::of(index);
        for (segment, range) in segments.found() {
            // The header is shipped with the first bytes that a group names, and there may have
            // been none.
            shipped.ranges.add(segment, PAGE_BYTES..range.end);
            // The root's first parcel stands in for the one that has the first bytes of the
            // segment, which is not known here. It is at most too early, which keeps some parcels
            // for longer.
            shipped.first.insert(segment, root.first);
        }
        shipped
    }

    /// Goes back to the place of a follower: the bytes that the groups up to `through` name are not
    /// shipped, and the segments whose copies they state are not known to be remote. Bytes that
    /// earlier groups name, too, are shipped once more.
    pub(super) fn go_back(
        &mut self,
        shared: &SharedStore,
        mut follower: LogFollower,
        through: u64,
    ) -> Result<(), LogError> {
        while let Some(FollowedGroup { group, .. }) = follower.next(through)? {
            if let Some(pack) = group.header.pack {
                self.forget_range(pack.segment, pack.offset..pack.offset + u64::from(pack.len));
            }
            for entry in &group.entries {
                if let Entry::RemoteSegment { segment, .. } = entry {
                    self.remote.remove(segment);
                }
                for extent in entry.extents() {
                    match extent_range(shared, extent) {
                        Ok(range) => self.forget_range(extent.segment, range),
                        // Its bytes are gone, or damaged.
                        // Without the header of the extent its range is not known: the whole
                        // segment counts as not shipped.
                        Err(LogError::Damaged(_)) => self.ranges.forget(extent.segment),
                        Err(error) => return Err(error),
                    }
                }
            }
        }
        Ok(())
    }

    /// Forgets a range, and the header of the file, which comes with the first bytes.
    fn forget_range(&mut self, segment: u64, range: Range<u64>) {
        // The applier makes a file only from bytes at its beginning.
        self.ranges.remove(segment, 0..PAGE_BYTES);
        self.ranges.remove(segment, range);
    }

    /// Forgets the first parcels of segments that the remote has.
    pub(super) fn forget_remote(&mut self) {
        let Self { first, remote, .. } = self;
        first.retain(|segment, _| !remote.contains(segment));
    }

    /// Forgets the segments that are not among those that there are.
    pub(super) fn forget_gone(&mut self, ids: &BTreeSet<u64>) {
        let Self { ranges, first, .. } = self;
        first.retain(|segment, _| {
            let stays = ids.contains(segment);
            if !stays {
                ranges.forget(*segment);
            }
            stays
        });
    }

    /// Learns of the copies that shipped entries state.
    fn learn(&mut self, copies: &[(u64, bool)]) {
        for (segment, is_remote) in copies {
            if *is_remote {
                self.remote.insert(*segment);
                self.ranges.forget(*segment);
            } else {
                self.remote.remove(segment);
            }
        }
    }
}

/// A parcel in the making: from the own disk alone, so that every try to put it has the same bytes.
pub(super) struct ParcelBuilder<'a> {
    shared: &'a SharedStore,
    shipped: &'a mut ShippedSegments,
    parcel: Parcel,
    /// Copies that its entries state, and whether they are complete.
    copies: Vec<(u64, bool)>,
    objects: u32,
}

impl<'a> ParcelBuilder<'a> {
    pub(super) fn new(
        shared: &'a SharedStore,
        shipped: &'a mut ShippedSegments,
        ParcelId { epoch, counter }: ParcelId,
        before: LogPosition,
    ) -> Self {
        let time = shared.clock.now();
        let head = ParcelHead { epoch, counter, features: Features::NONE, before, end: before, time };
        let parcel = Parcel { head, groups: Vec::new(), pieces: Vec::new(), inline: Vec::new() };
        Self { shared, shipped, parcel, copies: Vec::new(), objects: 0 }
    }

    /// Whether it takes no more.
    pub(super) fn is_full(&self) -> bool {
        self.is_long() || self.objects >= OBJECTS_MAX
    }

    fn is_long(&self) -> bool {
        self.parcel.groups.len() + self.parcel.inline.len() >= PARCEL_TARGET_BYTES
    }

    /// Fails where bytes that a group names are gone or damaged.
    pub(super) fn check(&self, group: &Group) -> Result<(), LogError> {
        // Segments whose copies are complete need no bytes from here.
        let is_here = |segment: u64| !self.shipped.remote.contains(&segment);
        for extent in group.entries.iter().flat_map(Entry::extents).filter(|it| is_here(it.segment)) {
            self.shared.segments.get(extent.segment)?.check_payload(extent)?;
        }
        match &group.header.pack {
            Some(pack) if is_here(pack.segment) => {
                let is_good = pack_is_good(self.shared.fs.as_ref(), self.shared.store, pack)?;
                if is_good {
                    return Ok(());
                }
                let what = "bytes of a pack are gone";
                Err(Damage::new(segment_path(pack.segment), pack.offset, what).into())
            }
            _ => Ok(()),
        }
    }

    /// Adds a group, and the bytes that it names.
    pub(super) fn add(&mut self, followed: &FollowedGroup) -> Result<(), LogError> {
        let group = &followed.group;
        if let Some(pack) = group.header.pack {
            self.add_range(pack.segment, pack.offset..pack.offset + u64::from(pack.len))?;
        }
        for entry in &group.entries {
            self.parcel.head.features = self.parcel.head.features.with(entry.features());
            self.add_extents(entry)?;
            if let Entry::RemoteSegment { segment, copy } = entry {
                let is_remote = copy.is_some_and(|copy| copy.phase == CopyPhase::Remote);
                self.copies.push((*segment, is_remote));
            }
        }
        self.parcel.groups.extend_from_slice(&followed.bytes);
        self.parcel.head.end = LogPosition { sequence: group.header.sequence, crc: group.crc };
        Ok(())
    }

    /// Adds the bytes that an entry names, unless they were shipped or are on the remote.
    pub(super) fn add_extents(&mut self, entry: &Entry) -> Result<(), LogError> {
        entry.extents().iter().try_for_each(|extent| self.add_extent(extent))
    }

    /// The parcel, to be put.
    pub(super) fn finish(self) -> FrozenParcel {
        let bytes = self.parcel.encode(&self.shared.store);
        FrozenParcel { parcel: self.parcel, bytes, copies: self.copies }
    }

    fn add_extent(&mut self, extent: &ExtentRef) -> Result<(), LogError> {
        if self.shipped.remote.contains(&extent.segment) {
            return Ok(());
        }
        self.add_range(extent.segment, extent_range(self.shared, extent)?)
    }

    fn add_range(&mut self, segment: u64, range: Range<u64>) -> Result<(), LogError> {
        if self.shipped.remote.contains(&segment) {
            return Ok(());
        }
        let ParcelHead { epoch, counter, .. } = self.parcel.head;
        // Noted before the bytes are read: at worst a parcel without them counts as needed.
        self.shipped.first.entry(segment).or_insert(ParcelId { epoch, counter });
        let open = self.shared.segments.get(segment)?;
        // The header of the file comes with its first bytes.
        for range in [0..PAGE_BYTES, range] {
            for new in self.shipped.ranges.add(segment, range) {
                self.add_pieces(segment, open.file.as_ref(), new)?;
            }
        }
        Ok(())
    }

    fn add_pieces(&mut self, segment: u64, file: &dyn File, range: Range<u64>) -> Result<(), LogError> {
        let mut at = range.start;
        while at < range.end {
            let end = range.end.min(at + PIECE_MAX_BYTES);
            // What is added at a time may be more than a parcel can hold.
            if end - at <= INLINE_MAX_BYTES && !self.is_long() {
                self.add_inline(segment, file, at..end)?;
            } else {
                self.objects += 1;
                let object = self.objects;
                let crc = crc_of(&FileBody { file, range: at..end })?;
                self.parcel.pieces.push(ParcelPiece { segment, offset: at, length: end - at, object, crc });
            }
            at = end;
        }
        Ok(())
    }

    fn add_inline(&mut self, segment: u64, file: &dyn File, range: Range<u64>) -> Result<(), LogError> {
        let mut bytes = vec![0; (range.end - range.start) as usize];
        file.read_exact_at(&mut bytes, range.start)?;
        self.parcel.inline.extend_from_slice(&bytes);
        let length = bytes.len() as u64;
        let crc = Crc32::of(&bytes);
        let piece = ParcelPiece { segment, offset: range.start, length, object: 0, crc };
        let last = self.parcel.pieces.last_mut().filter(|last| {
            let follows = last.segment == segment && last.offset + last.length == piece.offset;
            follows && last.object == 0 && last.length + piece.length <= PIECE_MAX_BYTES
        });
        match last {
            Some(last) => {
                last.crc = Crc32::combine(last.crc, crc, length);
                last.length += length;
            }
            None => self.parcel.pieces.push(piece),
        }
        Ok(())
    }
}

/// The bytes of an extent in its segment.
fn extent_range(shared: &SharedStore, extent: &ExtentRef) -> Result<Range<u64>, LogError> {
    let header = shared.segments.get(extent.segment)?.extent(&shared.store, extent.offset)?;
    Ok(extent.offset..extent.offset + header.extent_len())
}

/// A parcel that is put until the remote has it: every try has the same bytes.
pub(super) struct FrozenParcel {
    parcel: Parcel,
    bytes: Vec<u8>,
    copies: Vec<(u64, bool)>,
}

impl FrozenParcel {
    pub(super) fn head(&self) -> &ParcelHead {
        &self.parcel.head
    }

    /// Puts its data objects, and then itself. Returns the bytes that were sent.
    pub(super) fn put(
        &self,
        writer: EpochWriter<'_>,
        segments: &Segments,
        shipped: &mut ShippedSegments,
        nonce: &str,
    ) -> Result<u64, ShipError> {
        let ParcelHead { epoch, counter, .. } = self.parcel.head;
        // The data objects come first. A parcel that is there has all of its bytes; objects without
        // their parcel mean nothing.
        let mut sent = 0;
        for piece in self.parcel.pieces.iter().filter(|piece| piece.object != 0) {
            let name = Parcel::object_name(epoch, counter, piece.object);
            let segment = segments.get(piece.segment).map_err(|error| ShipError::Disk(error.to_string()))?;
            let range = piece.offset..piece.offset + piece.length;
            let body = FileBody { file: segment.file.as_ref(), range };
            sent += put(writer, &name, &body, nonce)?;
        }
        sent += put(writer, &Parcel::name(epoch, counter), &self.bytes.as_slice(), nonce)?;
        // The log on the remote states these copies from here on, so that later parcels leave the
        // bytes of their segments out.
        shipped.learn(&self.copies);
        Ok(sent)
    }
}

/// Puts an object, which has the same bytes at each try. Returns their number.
pub(super) fn put(
    writer: EpochWriter<'_>,
    name: &str,
    body: &dyn Body,
    nonce: &str,
) -> Result<u64, ShipError> {
    let object = NewObject { name, body, nonce, create_only: false };
    let done = writer.put(&object, BACKGROUND.of_bytes(body.length()));
    done.map_err(|error| ShipError::Remote { name: name.to_owned(), error })?;
    Ok(body.length())
}

fn crc_of(body: &FileBody<'_>) -> io::Result<u32> {
    let mut crc = Crc32::new();
    body.for_each_part(|part| crc.update(part))?;
    Ok(crc.value())
}
