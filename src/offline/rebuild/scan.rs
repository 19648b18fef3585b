//! A scan of all segments: every complete extent, by its descriptor.

use std::collections::hash_map::Entry as Slot;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use crate::base::limits::PAGE_BYTES;
use crate::format::{
    BucketRecord, Descriptor, ExtentHeader, ExtentPurpose, ExtentRef, FileHeader, FileKind, ObjectControls,
    StoreId, UploadId, VersionId, segment_path,
};
use crate::fs::{File, Fs};
use crate::log::{Damage, LogError, Scanned, Segment, SegmentRecord, SegmentScan, list_numbers, open_file};
use crate::offline::rebuild::RebuildError;
use crate::store::shared::extents::owner_mark;
use crate::store::{Progress, ProgressStep};

/// A piece of the bytes of a write.
#[derive(Debug, Clone, Copy)]
pub(super) struct WritePiece {
    pub(super) write: u64,
    pub(super) position: u64,
    pub(super) extent: ExtentRef,
    /// The mark of the key in its descriptor.
    owner: u32,
}

/// The location of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct RecordLocation {
    /// The id of the version or part.
    pub(super) id: u64,
    pub(super) write: u64,
    pub(super) is_part: bool,
    /// The mark of its key.
    owner: u32,
    pub(super) segment: u64,
    pub(super) offset: u64,
}

/// Controls that were set after the put of their version.
#[derive(Debug, Clone)]
pub(super) struct ChangedControls {
    pub(super) controls: ObjectControls,
    pub(super) extent: ExtentRef,
    pub(super) stamp: u64,
    /// The mark of the key.
    owner: u32,
}

/// The known facts about a bucket.
#[derive(Debug)]
pub(super) struct ScannedBucket {
    pub(super) name: String,
    /// The newest bucket record, with the id of the version or part that holds it.
    pub(super) recorded: Option<(u64, BucketRecord)>,
    /// Whether the bucket has a version that is not a null version.
    pub(super) keeps_versions: bool,
}

/// The result of the scan.
pub(super) struct StoreScan {
    /// Sorted by write and position, each once.
    pub(super) pieces: Vec<WritePiece>,
    /// Sorted by id, each once.
    pub(super) records: Vec<RecordLocation>,
    pub(super) buckets: BTreeMap<u64, ScannedBucket>,
    /// The writes that copies name as their sources.
    copied: HashSet<u64>,
    /// The uploads that were completed to a version.
    pub(super) ended: HashSet<UploadId>,
    /// The numbers and ids of parts whose record does not describe their upload, by upload.
    pub(super) bare_parts: HashMap<UploadId, Vec<(u32, u64)>>,
    /// An unreadable place of a write, by write.
    pub(super) unreadable: HashMap<u64, Damage>,
    pub(super) damage: Vec<Damage>,
    /// The newest change of the controls of each version.
    controls: HashMap<VersionId, ChangedControls>,
    /// The highest stamp in any descriptor.
    pub(super) last_stamp: u64,
    pub(super) segments: u64,
    pub(super) extents: u64,
}

impl StoreScan {
    /// Reads all segments completely: an extent may have lost its payload and kept its header.
    pub(super) fn read(
        fs: &dyn Fs,
        store: StoreId,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<Self, RebuildError> {
        let mut scan = Self::empty();
        let mut segments = Vec::new();
        for id in list_numbers(fs, FileKind::Segment)? {
            segments.extend(scan.open(fs, store, id)?);
        }
        let mut done = 0;
        let total = segments.iter().map(|(_, len)| len).sum();
        for (segment, len) in segments {
            let mut scanned =
                |at| progress(Progress { step: ProgressStep::Segments, done: done + at, total });
            scan.scan(&Arc::new(segment), store, &mut scanned);
            done += len;
        }
        progress(Progress { step: ProgressStep::Segments, done, total });
        scan.sort();
        Ok(scan)
    }

    fn empty() -> Self {
        Self {
            pieces: Vec::new(),
            records: Vec::new(),
            buckets: BTreeMap::new(),
            copied: HashSet::new(),
            ended: HashSet::new(),
            bare_parts: HashMap::new(),
            unreadable: HashMap::new(),
            damage: Vec::new(),
            controls: HashMap::new(),
            last_stamp: 0,
            segments: 0,
            extents: 0,
        }
    }

    /// Opens a segment, with its length. A segment with a damaged first page is searched, too,
    /// since each extent names its place.
    fn open(&mut self, fs: &dyn Fs, store: StoreId, id: u64) -> Result<Option<(Segment, u64)>, RebuildError> {
        let opened = match open_file(fs, FileKind::Segment, id, Some(store)) {
            Err(LogError::Damaged(damage)) => {
                self.damage.push(damage);
                match fs.open_read(&segment_path(id)) {
                    // It belongs to another store entirely.
                    Ok(file) if belongs_elsewhere(file.as_ref(), store) => return Ok(None),
                    opened => opened.map_err(LogError::from),
                }
            }
            opened => opened.map(|(file, _)| file),
        };
        match opened.and_then(|file| Ok((file.len()?, file))) {
            Ok((len, file)) => Ok(Some((Segment { id, file }, len))),
            Err(error) => {
                self.damage.push(error.into_damage(&segment_path(id), 0));
                Ok(None)
            }
        }
    }

    fn scan(&mut self, segment: &Arc<Segment>, store: StoreId, progress: &mut dyn FnMut(u64)) {
        self.segments += 1;
        let scan = match SegmentScan::new(segment.clone(), store) {
            Ok(scan) => scan,
            Err(error) => return self.damage.push(error.into_damage(&segment.path(), 0)),
        };
        for found in scan {
            match found {
                Ok((at, Scanned::Record(SegmentRecord::Extent(header)))) => {
                    progress(at);
                    self.add_extent(segment, &header);
                }
                Ok((at, Scanned::Unread { why, damaged: true, .. })) => {
                    self.damage.push(segment.damage(at, why));
                }
                Ok(_) => {}
                Err(error) => self.damage.push(error.into_damage(&segment.path(), 0)),
            }
        }
    }

    /// Adds an extent. The record of an extent with a bad payload counts as well: it names the lost
    /// data.
    fn add_extent(&mut self, segment: &Arc<Segment>, header: &ExtentHeader) {
        let descriptor = match segment.descriptor(header) {
            Ok(descriptor) => descriptor,
            Err(error) => return self.damage.push(error.into_damage(&segment.path(), 0)),
        };
        let Descriptor { write, position, .. } = descriptor;
        let owner = owner_mark(descriptor.bucket, &descriptor.key);
        match segment.check_payload(&header.to_ref()) {
            Ok(()) => {
                self.extents += 1;
                if header.payload_len > 0 {
                    let is_encrypted = descriptor.purpose.is_encrypted();
                    let whole = header.to_ref();
                    let extent = if is_encrypted { whole.encrypted() } else { whole };
                    self.pieces.push(WritePiece { write, position, extent, owner });
                }
            }
            Err(error) => {
                self.unreadable.entry(write).or_insert_with(|| error.into_damage(&segment.path(), 0));
            }
        }
        // New ids have to be above all that were ever given out, also above those of what is lost.
        self.raise_last_stamp(descriptor.bucket);
        self.raise_last_stamp(write);
        self.add_record_of(header, &descriptor);
    }

    fn add_record_of(&mut self, header: &ExtentHeader, descriptor: &Descriptor) {
        match &descriptor.purpose {
            ExtentPurpose::Object(Some(record)) => {
                self.record(header, descriptor, record.id.0, false);
                self.ended.extend(record.completed());
                self.keeps_versions(descriptor.bucket, record.null);
            }
            ExtentPurpose::ObjectRecord(object) => {
                self.record(header, descriptor, object.record.id.0, false);
                match object.record.completed() {
                    Some(upload) => drop(self.ended.insert(upload)),
                    None => self.copied.extend(object.sources.iter().map(|source| source.stamp)),
                }
            }
            ExtentPurpose::Part(upload, Some(record)) => {
                self.record(header, descriptor, record.id, true);
                self.raise_last_stamp(upload.0);
                self.bare_parts.entry(*upload).or_default().push((record.number, record.id));
            }
            ExtentPurpose::PartRecord(upload, part) => {
                self.record(header, descriptor, part.record.id, true);
                self.raise_last_stamp(upload.id.0);
                self.copied.extend(part.sources.iter().map(|source| source.stamp));
            }
            ExtentPurpose::Controls(version, controls) => {
                self.add_controls(header, descriptor, *version, controls.clone());
            }
            ExtentPurpose::Object(None)
            | ExtentPurpose::Part(_, None)
            | ExtentPurpose::EncryptedObject
            | ExtentPurpose::EncryptedPart(_) => {}
        }
    }

    fn add_controls(
        &mut self,
        header: &ExtentHeader,
        descriptor: &Descriptor,
        version: VersionId,
        controls: ObjectControls,
    ) {
        let stamp = descriptor.write;
        let owner = owner_mark(descriptor.bucket, &descriptor.key);
        let found = ChangedControls { controls, extent: header.to_ref(), stamp, owner };
        // A relocation leaves two extents with one stamp, and the same controls.
        match self.controls.entry(version) {
            Slot::Occupied(known) if known.get().stamp >= stamp => {}
            Slot::Occupied(mut known) => drop(known.insert(found)),
            Slot::Vacant(unknown) => drop(unknown.insert(found)),
        }
    }

    /// The controls that were set last after the put of a version.
    pub(super) fn controls_of(
        &self,
        version: VersionId,
        bucket: u64,
        key: &[u8],
    ) -> Option<&ChangedControls> {
        let found = self.controls.get(&version)?;
        // After a start with the clock set back, a version of another key may have had the same id.
        (found.owner == owner_mark(bucket, key)).then_some(found)
    }

    fn record(&mut self, header: &ExtentHeader, descriptor: &Descriptor, id: u64, is_part: bool) {
        let segment = header.segment;
        let offset = header.offset;
        let owner = owner_mark(descriptor.bucket, &descriptor.key);
        self.records.push(RecordLocation { id, write: descriptor.write, is_part, owner, segment, offset });
        self.raise_last_stamp(id);
        let bucket = self.buckets.entry(descriptor.bucket).or_insert_with(|| ScannedBucket {
            name: descriptor.bucket_name.clone(),
            recorded: None,
            keeps_versions: false,
        });
        if let Some(record) = descriptor.bucket_record()
            && bucket.recorded.as_ref().is_none_or(|(before, _)| *before < id)
        {
            bucket.recorded = Some((id, record));
        }
    }

    fn keeps_versions(&mut self, bucket: u64, null: bool) {
        if let Some(bucket) = self.buckets.get_mut(&bucket) {
            bucket.keeps_versions |= !null;
        }
    }

    fn raise_last_stamp(&mut self, stamp: u64) {
        self.last_stamp = self.last_stamp.max(stamp);
    }

    /// Sorts the results. Of several records of one write the newest counts.
    fn sort(&mut self) {
        self.records.sort_unstable_by_key(|record| (record.write, std::cmp::Reverse(record.id)));
        self.records.dedup_by_key(|record| record.write);
        self.sort_pieces();
        self.records.sort_unstable_by_key(|record| record.id);
    }

    /// Leaves one piece for each position of a write. An extent that was being relocated appears
    /// twice, with the same bytes. The bytes of a refused write may carry the number of a later
    /// write, given out again after a start with the clock set back. So pieces of another key are
    /// dropped, and a piece in the segment of the record is preferred.
    fn sort_pieces(&mut self) {
        let Self { pieces, records, .. } = self;
        let record_of = |piece: &WritePiece| {
            records.binary_search_by_key(&piece.write, |record| record.write).ok().map(|at| &records[at])
        };
        pieces.retain(|piece| record_of(piece).is_none_or(|record| record.owner == piece.owner));
        pieces.sort_unstable_by_key(|piece| {
            let is_elsewhere = record_of(piece).is_none_or(|record| record.segment != piece.extent.segment);
            (piece.write, piece.position, is_elsewhere)
        });
        pieces.dedup_by_key(|piece| (piece.write, piece.position));
    }

    /// The pieces of a write, in order.
    pub(super) fn pieces_of(&self, write: u64) -> &[WritePiece] {
        let from = self.pieces.partition_point(|piece| piece.write < write);
        let len = self.pieces[from..].partition_point(|piece| piece.write == write);
        &self.pieces[from..from + len]
    }

    /// The part with this id.
    pub(super) fn part(&self, id: u64) -> Option<&RecordLocation> {
        let at = self.records.binary_search_by_key(&id, |record| record.id).ok()?;
        Some(&self.records[at]).filter(|record| record.is_part)
    }

    /// Whether a copy shares the extents of a write.
    pub(super) fn is_shared(&self, write: u64) -> bool {
        self.copied.contains(&write)
    }

    /// The number of pieces without a record.
    pub(super) fn unfinished(&self) -> u64 {
        let recorded: HashSet<u64> = self.records.iter().map(|record| record.write).collect();
        let writes = self.pieces.iter().map(|piece| piece.write);
        writes.filter(|write| !recorded.contains(write) && !self.copied.contains(write)).count() as u64
    }
}

/// Whether a file has a good header of another store.
fn belongs_elsewhere(file: &dyn File, store: StoreId) -> bool {
    let mut page = vec![0; PAGE_BYTES as usize];
    let header = file.read_exact_at(&mut page, 0).ok().and_then(|()| FileHeader::decode(&page).ok());
    header.is_some_and(|header| header.store != store)
}
