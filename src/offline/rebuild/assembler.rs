//! Restoring the index from the records found in segments.

use std::collections::hash_map::Entry as Slot;
use std::collections::{BTreeMap, HashMap};

use crate::base::Timestamp;
use crate::base::digest::Md5;
use crate::format::{
    BucketRecord, ClientIds, Descriptor, ETag, Entry, ExtentHeader, ExtentPurpose, ExtentRef, PartRecord,
    PayloadSource, RebuildRecord, StoreId, UploadId, UploadRecord, VersionId, VersionRecord, Versioning,
    segment_path,
};
use crate::fs::Fs;
use crate::index::{Index, ListQuery};
use crate::log::{Damage, LogError, Segment};
use crate::offline::rebuild::report::{Assumption, LostRecord, RebuildReport};
use crate::offline::rebuild::scan::{RecordLocation, StoreScan};
use crate::offline::verify::{NamedOwner, RecordRef};
use crate::store::shared::extents::slices;
use crate::store::{Progress, ProgressStep};

/// The most segments that are open at a time.
const OPEN_MAX: usize = 64;

/// Restores the records in the order of their commits.
pub(super) struct Assembler<'a> {
    fs: &'a dyn Fs,
    store: StoreId,
    scan: &'a StoreScan,
    /// The buckets to restore; of several with one name, the newest.
    buckets: BTreeMap<u64, BucketRecord>,
    segments: HashMap<u64, Segment>,
    index: Index,
    rebuilt: RebuildReport,
    applied: u64,
    /// Records with missing bytes, until it is known whether a later record replaced them.
    incomplete: Vec<(u64, LostRecord)>,
}

/// The meaning of the stamps of sources.
#[derive(Clone, Copy, PartialEq, Eq)]
enum SourceKind {
    Writes,
    Parts,
}

/// A record as read from its segment.
struct LoadedRecord {
    descriptor: Descriptor,
    header: ExtentHeader,
}

/// The reason why a record is not restored, and where it was seen.
struct LossReason {
    why: String,
    damage: Option<Damage>,
}

impl LossReason {
    fn new(why: impl Into<String>) -> Self {
        Self { why: why.into(), damage: None }
    }
}

impl<'a> Assembler<'a> {
    pub(super) fn new(fs: &'a dyn Fs, store: StoreId, scan: &'a StoreScan, owner: &str) -> Self {
        let mut assembler = Self {
            fs,
            store,
            scan,
            buckets: BTreeMap::new(),
            segments: HashMap::new(),
            index: Index::bulk_loading(),
            rebuilt: RebuildReport { damage: scan.damage.clone(), ..RebuildReport::default() },
            applied: 0,
            incomplete: Vec::new(),
        };
        assembler.choose_buckets(owner);
        assembler
    }

    /// Chooses the newest bucket of each name: ids rise, and a name belongs to one bucket at a
    /// time, so the others were deleted.
    fn choose_buckets(&mut self, owner: &str) {
        let last: HashMap<&str, u64> =
            self.scan.buckets.iter().map(|(id, b)| (b.name.as_str(), *id)).collect();
        for (id, bucket) in self.scan.buckets.iter().filter(|(id, bucket)| last[bucket.name.as_str()] == **id)
        {
            let record = match &bucket.recorded {
                Some((_, record)) => record.clone(),
                None => {
                    let what = format!(
                        "no record names its owner and state: {owner} owns it, and its versioning is {}",
                        if bucket.keeps_versions {
                            "enabled, since it has versions"
                        } else {
                            "unset, since it has none"
                        }
                    );
                    self.rebuilt.assumptions.push(Assumption {
                        bucket: bucket.name.clone(),
                        key: None,
                        what,
                    });
                    let versioning =
                        if bucket.keeps_versions { Versioning::Enabled } else { Versioning::Unset };
                    // The id is a stamp: the creation time in microseconds since 1970.
                    let created = Timestamp::from_millis(id / 1000);
                    let name = bucket.name.clone();
                    let owner = owner.to_owned();
                    BucketRecord { id: *id, name, owner, created, versioning }
                }
            };
            self.buckets.insert(*id, record);
        }
    }

    /// Restores the records, oldest first.
    pub(super) fn run(&mut self, progress: &mut dyn FnMut(Progress)) -> Result<(), LogError> {
        for record in self.buckets.values() {
            // A bucket can always be added.
            let _ = apply(&mut self.index, &Entry::BucketPut(record.clone()));
        }
        progress(Progress { step: ProgressStep::Records, done: 0, total: 0 });
        let scan = self.scan;
        for at in &scan.records {
            let item = self.load(at)?;
            if self.buckets.contains_key(&item.descriptor.bucket) {
                self.restore(&item)?;
            } else {
                self.rebuilt.skipped.in_deleted_buckets += 1;
            }
        }
        Ok(())
    }

    /// The index, and the report.
    pub(super) fn finish(mut self) -> (Index, RebuildReport) {
        self.index.raise_last_stamp(self.scan.last_stamp);
        self.index.finish_loading();
        self.report_incomplete();
        self.report_uploads();
        let restored = &mut self.rebuilt.restored;
        restored.buckets = self.index.bucket_count();
        restored.versions = self.index.version_count();
        restored.live_bytes = self.index.liveness().total();
        restored.uploads = self.index.upload_count();
        restored.segments = self.scan.segments;
        restored.extents = self.scan.extents;
        self.rebuilt.skipped.replaced += self.applied - self.index.version_count();
        self.rebuilt.skipped.unfinished = self.scan.unfinished();
        (self.index, self.rebuilt)
    }

    /// Reports the incomplete records that no later record replaced.
    fn report_incomplete(&mut self) {
        for (bucket, lost) in std::mem::take(&mut self.incomplete) {
            let replaced = match lost.owner.record {
                RecordRef::Version { id, null: true } => {
                    let there = self.index.null_summary(bucket, lost.owner.key.as_bytes());
                    there.is_some_and(|version| version.id > id)
                }
                RecordRef::Version { null: false, .. } => false,
                RecordRef::Part { upload, number } => {
                    let there = self.index.upload(bucket, lost.owner.key.as_bytes(), upload);
                    there.is_some_and(|upload| upload.parts.iter().any(|part| part.number == number))
                }
            };
            if replaced {
                self.rebuilt.skipped.replaced += 1;
            } else {
                self.rebuilt.lost.push(lost);
            }
        }
    }

    /// Reports the uploads in progress: the segments do not say whether an upload was aborted.
    fn report_uploads(&mut self) {
        let all = ListQuery { limit: usize::MAX, ..ListQuery::default() };
        let ids = ClientIds::new(&self.store);
        for bucket in self.buckets.values() {
            for (key, upload) in self.index.list_uploads(bucket.id, &all, None).keys() {
                let what = format!(
                    "the multipart upload {} is in progress again: it may have been aborted, or completed to an object \
                     that was deleted",
                    ids.of_upload(upload.id)
                );
                let bucket = bucket.name.clone();
                let key = Some(key.into_owned());
                self.rebuilt.assumptions.push(Assumption { bucket, key, what });
            }
        }
    }

    fn restore(&mut self, item: &LoadedRecord) -> Result<(), LogError> {
        match &item.descriptor.purpose {
            ExtentPurpose::Object(Some(record)) => self.restore_version(item, record, &[]),
            ExtentPurpose::ObjectRecord(object) => {
                self.restore_version(item, &object.record, &object.sources)
            }
            ExtentPurpose::PartRecord(upload, _) if self.scan.ended.contains(&upload.id) => self.skip_part(),
            ExtentPurpose::PartRecord(upload, part) => self.restore_part(item, upload, part),
            ExtentPurpose::Part(upload, Some(_)) if self.scan.ended.contains(upload) => self.skip_part(),
            ExtentPurpose::Part(upload, Some(record)) => {
                let which = RecordRef::Part { upload: *upload, number: record.number };
                let missing = LossReason::new(
                    "its upload is unknown: the siltstone that wrote it did not record uploads in segments",
                );
                let lost = self.lost(item, which, missing);
                self.rebuilt.lost.push(lost);
                Ok(())
            }
            ExtentPurpose::Object(None)
            | ExtentPurpose::Part(_, None)
            | ExtentPurpose::Controls(..)
            | ExtentPurpose::EncryptedObject
            | ExtentPurpose::EncryptedPart(_) => Ok(()),
        }
    }

    fn skip_part(&mut self) -> Result<(), LogError> {
        self.rebuilt.skipped.of_ended_uploads += 1;
        Ok(())
    }

    fn restore_version(
        &mut self,
        item: &LoadedRecord,
        record: &VersionRecord,
        sources: &[PayloadSource],
    ) -> Result<(), LogError> {
        let extents = match record.completed() {
            Some(upload) if sources.is_empty() => self.extents_of_upload(item, record, upload)?,
            Some(_) => self.extents_of_sources(item, record.size, sources, SourceKind::Parts)?,
            None => self.extents_of_sources(item, record.size, sources, SourceKind::Writes)?,
        };
        let put = extents.and_then(|extents| {
            let bucket = item.descriptor.bucket;
            let key = item.descriptor.key.clone();
            let record = self.with_last_controls(bucket, &key, VersionRecord { extents, ..record.clone() });
            apply(&mut self.index, &Entry::VersionPut { bucket, key, record })
        });
        match put {
            Ok(()) => self.applied += 1,
            Err(missing) => {
                let lost = self.lost(item, RecordRef::Version { id: record.id, null: record.null }, missing);
                self.incomplete.push((item.descriptor.bucket, lost));
            }
        }
        Ok(())
    }

    /// The record with the controls that were set last, and the extent that holds them.
    fn with_last_controls(&self, bucket: u64, key: &[u8], mut record: VersionRecord) -> VersionRecord {
        if let Some(last) = self.scan.controls_of(record.id, bucket, key) {
            record.controls = last.controls.clone();
            record.controls_stamp = Some(last.stamp);
            record.extents.push(last.extent);
        }
        record
    }

    fn restore_part(
        &mut self,
        item: &LoadedRecord,
        upload: &UploadRecord,
        part: &RebuildRecord<PartRecord>,
    ) -> Result<(), LogError> {
        let bucket = item.descriptor.bucket;
        let key = item.descriptor.key.clone();
        let id = upload.id;
        let extents = self.extents_of_sources(item, part.record.size, &part.sources, SourceKind::Writes)?;
        let there = self.index.has_upload(bucket, &key, id);
        let put = extents.and_then(|extents| {
            if !there {
                apply(
                    &mut self.index,
                    &Entry::UploadPut { bucket, key: key.clone(), record: upload.clone() },
                )?;
            }
            let record = PartRecord { extents, ..part.record.clone() };
            apply(&mut self.index, &Entry::PartPut { bucket, key, upload: id, record })
        });
        if let Err(missing) = put {
            let lost = self.lost(item, RecordRef::Part { upload: id, number: part.record.number }, missing);
            self.incomplete.push((bucket, lost));
        }
        Ok(())
    }

    fn lost(&self, item: &LoadedRecord, which: RecordRef, reason: LossReason) -> LostRecord {
        let owner = NamedOwner::new(&self.store, &item.descriptor.bucket_name, &item.descriptor.key, which);
        LostRecord { owner, why: reason.why, damage: reason.damage }
    }

    /// The extents of the sources of a record, and the extent of the record itself.
    fn extents_of_sources(
        &mut self,
        item: &LoadedRecord,
        size: u64,
        sources: &[PayloadSource],
        kind: SourceKind,
    ) -> Result<Result<Vec<ExtentRef>, LossReason>, LogError> {
        let own = [PayloadSource { stamp: item.descriptor.write, from: 0, len: size }];
        let sources = if sources.is_empty() { &own } else { sources };
        let mut extents = Vec::new();
        for source in sources {
            let found = match kind {
                SourceKind::Writes => self.extents_of_write(source),
                SourceKind::Parts => self.extents_of_part(source)?,
            };
            match found {
                Ok(found) => extents.extend(found),
                Err(missing) => return Ok(Err(missing)),
            }
        }
        // An extent with payload is among the sources.
        if item.header.payload_len == 0 {
            extents.push(item.header.to_ref());
        }
        Ok(Ok(extents))
    }

    /// The extents of a part, with the one that holds its record: as long as that one lives, the
    /// part can be found by its id.
    fn extents_of_part(
        &mut self,
        source: &PayloadSource,
    ) -> Result<Result<Vec<ExtentRef>, LossReason>, LogError> {
        let Some(part) = self.scan.part(source.stamp) else {
            return Ok(Err(LossReason::new("one of its parts is missing")));
        };
        let item = self.load(part)?;
        let (size, sources) = match &item.descriptor.purpose {
            ExtentPurpose::PartRecord(_, part) => (part.record.size, part.sources.as_slice()),
            ExtentPurpose::Part(_, Some(record)) => (record.size, &[][..]),
            _ => return Ok(Err(LossReason::new("one of its sources has another type than recorded"))),
        };
        let extents = self.extents_of_sources(&item, size, sources, SourceKind::Writes)?;
        Ok(extents.map(|extents| match (source.from, source.len) {
            (0, len) if len == size => extents,
            (from, len) => slices(&extents, &(from..from.saturating_add(len))),
        }))
    }

    /// The extents with a range of the bytes of a write.
    fn extents_of_write(&self, source: &PayloadSource) -> Result<Vec<ExtentRef>, LossReason> {
        let PayloadSource { stamp: write, from, len } = *source;
        let shared = self.scan.is_shared(write);
        let mut at = from;
        let end = from.saturating_add(len);
        let mut extents = Vec::new();
        for piece in self.scan.pieces_of(write) {
            let stop = piece.position + u64::from(piece.extent.take);
            if at == end || piece.position > at {
                break;
            }
            if stop > at {
                let skip = (at - piece.position) as u32;
                let take = (stop.min(end) - at) as u32;
                extents.push(ExtentRef { skip, take, shared, ..piece.extent });
                at += u64::from(take);
            }
        }
        if at == end {
            return Ok(extents);
        }
        let why = if extents.is_empty() {
            "none of its bytes were found: it was deleted, or is damaged, or is a copy by a siltstone that did not record the source"
                .into()
        } else {
            format!("its bytes from {at} on are missing: it was deleted, or is damaged")
        };
        Err(LossReason { why, damage: self.scan.unreadable.get(&write).cloned() })
    }

    /// The extents of an object completed by an old siltstone, which did not record the parts: the
    /// parts of the upload with matching numbers and sizes, if they give its ETag.
    fn extents_of_upload(
        &mut self,
        item: &LoadedRecord,
        record: &VersionRecord,
        upload: UploadId,
    ) -> Result<Result<Vec<ExtentRef>, LossReason>, LogError> {
        let mut md5 = Md5::new();
        let mut extents = Vec::new();
        let parts = record.upload.as_ref().map_or(&[][..], |made| &made.parts);
        for wanted in parts {
            let known = self.scan.bare_parts.get(&upload).map_or(&[][..], Vec::as_slice);
            let last = known
                .iter()
                .filter(|(number, id)| *number == wanted.number && VersionId(*id) < record.id)
                .map(|(_, id)| *id)
                .max();
            let Some(part) = last.and_then(|id| self.scan.part(id)) else {
                return Ok(Err(LossReason::new(format!("its part {} is missing", wanted.number))));
            };
            if let ExtentPurpose::Part(_, Some(part)) = self.load(part)?.descriptor.purpose {
                md5.update(&part.md5);
            }
            match self.extents_of_part(&PayloadSource { stamp: part.id, from: 0, len: wanted.size })? {
                Ok(found) => extents.extend(found),
                Err(missing) => return Ok(Err(missing)),
            }
        }
        let etag = ETag::Multipart { md5: md5.finish(), parts: parts.len() as u32 };
        if etag != record.etag {
            return Ok(Err(LossReason::new("the parts found are not the ones that it was made of")));
        }
        extents.push(item.header.to_ref());
        Ok(Ok(extents))
    }

    fn load(&mut self, at: &RecordLocation) -> Result<LoadedRecord, LogError> {
        if self.segments.len() >= OPEN_MAX && !self.segments.contains_key(&at.segment) {
            self.segments.clear();
        }
        let segment = match self.segments.entry(at.segment) {
            Slot::Occupied(open) => open.into_mut(),
            Slot::Vacant(closed) => {
                let file = self.fs.open_read(&segment_path(at.segment))?;
                closed.insert(Segment { id: at.segment, file })
            }
        };
        let header = segment.extent(&self.store, at.offset)?;
        Ok(LoadedRecord { descriptor: segment.descriptor(&header)?, header })
    }
}

fn apply(index: &mut Index, entry: &Entry) -> Result<(), LossReason> {
    index.apply(entry).map_err(|error| LossReason::new(error.to_string()))
}
