//! Going through the whole index, a few entries at a time: for checkpoints, and for whoever looks at all that is stored. What a
//! step takes is bounded, whatever a key has in versions, and an upload in parts.

use std::ops::Bound;

use crate::base::limits::KIB;
use crate::format::{BucketRecord, Entry, PartRecord, RawVersionPut, UploadId};
use crate::index::keys::Version;
use crate::index::uploads::record_bytes;
use crate::index::{BucketIndex, Index};

/// Where a walk over the whole index has got to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Cursor {
    /// Before the first bucket.
    Start,
    /// In a bucket, behind a key or before all of them.
    Keys(u64, Option<Vec<u8>>),
    /// In a bucket, among the versions of a key, behind that of a rank or before the oldest.
    Versions(u64, Vec<u8>, Option<u64>),
    /// In a bucket, behind all keys, and behind an upload or before all of them.
    Uploads(u64, Option<(Vec<u8>, UploadId)>),
    /// In a bucket, in an upload, behind the part of a number.
    Parts(u64, (Vec<u8>, UploadId), u32),
    /// Behind a bucket.
    AfterBucket(u64),
}

/// Where a step ends. One entry is always taken.
#[derive(Debug, Clone, Copy)]
pub(super) struct StepLimits {
    /// Keys, or uploads.
    pub(super) names: usize,
    /// Entries. A key with more versions, and an upload with more parts, takes steps of its own.
    pub(super) entries: usize,
    /// Bytes of records in memory. What is made of them may take some times as much.
    pub(super) bytes: usize,
}

impl StepLimits {
    fn of_names(names: usize) -> Self {
        Self { names, entries: 4096, bytes: 256 * KIB as usize }
    }
}

/// What a step has taken.
#[derive(Default)]
struct StepSize {
    names: usize,
    entries: usize,
    bytes: usize,
}

impl StepSize {
    fn count(&mut self, bytes: usize) {
        self.entries += 1;
        self.bytes += bytes;
    }

    fn is_full(&self, limits: &StepLimits) -> bool {
        self.names >= limits.names || self.is_large(limits)
    }

    fn is_large(&self, limits: &StepLimits) -> bool {
        self.entries >= limits.entries || self.bytes >= limits.bytes
    }
}

impl Index {
    /// The entries of the next keys or uploads behind `cursor`, which moves on, up to `count_max` of them and some thousand
    /// entries; none at the end. A [`Loader`](super::Loader) makes this index of them.
    pub fn walk(&self, cursor: &mut Cursor, count_max: usize) -> Vec<Entry> {
        self.walk_within(cursor, &StepLimits::of_names(count_max))
    }

    pub(super) fn walk_within(&self, cursor: &mut Cursor, limits: &StepLimits) -> Vec<Entry> {
        let mut entries = Vec::new();
        while entries.is_empty() && self.step(cursor, limits, &mut entries) {}
        entries
    }

    /// As [`Index::walk`], but writes the entries to `out` as they are encoded, in place of what is there: what a checkpoint
    /// takes is not built to be encoded again. Whether there were any.
    pub fn walk_encoded(&self, cursor: &mut Cursor, count_max: usize, out: &mut Vec<u8>) -> bool {
        let limits = StepLimits::of_names(count_max);
        out.clear();
        let mut encoding = EntryEncoder { out, record: Vec::new(), scratch: Vec::new() };
        while encoding.out.is_empty() && self.step(cursor, &limits, &mut encoding) {}
        !encoding.out.is_empty()
    }

    /// Goes on by a bucket, or within one; `false` at the end.
    fn step(&self, cursor: &mut Cursor, limits: &StepLimits, out: &mut impl EntrySink) -> bool {
        let within = |id: u64| self.buckets.get(&id).map(|bucket| BucketStep { id, bucket, limits });
        let next = match std::mem::replace(cursor, Cursor::Start) {
            Cursor::Start => return self.enter(Bound::Unbounded, cursor, out),
            Cursor::AfterBucket(id) => return self.enter(Bound::Excluded(id), cursor, out),
            Cursor::Keys(id, after) => within(id).map(|it| it.keys(after.as_deref(), out)).ok_or(id),
            Cursor::Versions(id, key, above) => within(id).map(|it| it.versions(key, above, out)).ok_or(id),
            Cursor::Uploads(id, after) => within(id).map(|it| it.uploads(after, out)).ok_or(id),
            Cursor::Parts(id, name, behind) => within(id).map(|it| it.parts(name, behind, out)).ok_or(id),
        };
        *cursor = next.unwrap_or_else(Cursor::AfterBucket);
        true
    }

    fn enter(&self, from: Bound<u64>, cursor: &mut Cursor, out: &mut impl EntrySink) -> bool {
        let Some((id, bucket)) = self.buckets.range((from, Bound::Unbounded)).next() else {
            // At the end it stays.
            *cursor = match from {
                Bound::Excluded(id) => Cursor::AfterBucket(id),
                _ => Cursor::Start,
            };
            return false;
        };
        out.put(Entry::BucketPut(BucketRecord::clone(&bucket.record)));
        *cursor = Cursor::Keys(*id, None);
        true
    }
}

/// A step within a bucket. Each gives where the next one goes on.
struct BucketStep<'i> {
    id: u64,
    bucket: &'i BucketIndex,
    limits: &'i StepLimits,
}

impl BucketStep<'_> {
    fn keys(&self, after: Option<&[u8]>, out: &mut impl EntrySink) -> Cursor {
        let mut scan = self.bucket.keys.scan();
        match after {
            Some(key) => scan.seek_past(key),
            None => scan.seek_key(&[]),
        }
        let (mut taken, mut of_key) = (StepSize::default(), KeyVersions::default());
        while scan.next() {
            if taken.names == 0 || of_key.key != scan.key() {
                if taken.is_full(self.limits) {
                    break;
                }
                of_key.flush(self.id, out);
                of_key.begin(scan.key());
                taken.names += 1;
            }
            if of_key.size.is_large(self.limits) {
                return Cursor::Versions(self.id, of_key.key, None);
            }
            taken.count(scan.version().byte_len());
            of_key.push(scan.version());
        }
        of_key.flush(self.id, out);
        if taken.names > 0 { Cursor::Keys(self.id, Some(of_key.key)) } else { Cursor::Uploads(self.id, None) }
    }

    fn versions(&self, key: Vec<u8>, mut above: Option<u64>, out: &mut impl EntrySink) -> Cursor {
        let mut taken = StepSize::default();
        loop {
            let versions = self.bucket.keys.oldest_above(&key, above);
            if versions.is_empty() {
                return Cursor::Keys(self.id, Some(key));
            }
            for version in versions {
                if taken.is_large(self.limits) {
                    return Cursor::Versions(self.id, key, above);
                }
                taken.count(version.byte_len());
                above = Some(version.order());
                out.put_version(self.id, &key, version);
            }
        }
    }

    fn uploads(&self, mut after: Option<(Vec<u8>, UploadId)>, out: &mut impl EntrySink) -> Cursor {
        let mut taken = StepSize::default();
        for (key, record, parts) in self.bucket.uploads.behind(after.clone()) {
            if taken.is_full(self.limits) {
                return Cursor::Uploads(self.id, after);
            }
            taken.names += 1;
            let name = (key.to_vec(), record.id);
            taken.count(record_bytes(record) as usize);
            out.put(Entry::UploadPut { bucket: self.id, key: name.0.clone(), record: record.clone() });
            let of_upload = StepSize {
                entries: parts.count_max(),
                bytes: parts.memory_bytes() as usize,
                ..StepSize::default()
            };
            if of_upload.is_large(self.limits) {
                return Cursor::Parts(self.id, name, 0);
            }
            taken.entries += of_upload.entries;
            taken.bytes += of_upload.bytes;
            parts.iter().for_each(|record| self.put_part(&name, record, out));
            after = Some(name);
        }
        if taken.names > 0 { Cursor::Uploads(self.id, after) } else { Cursor::AfterBucket(self.id) }
    }

    fn parts(&self, name: (Vec<u8>, UploadId), mut behind: u32, out: &mut impl EntrySink) -> Cursor {
        let mut taken = StepSize::default();
        let parts = self.bucket.uploads.parts(&name.0, name.1);
        for record in parts.map(|parts| parts.behind(behind)).into_iter().flatten() {
            if taken.is_large(self.limits) {
                return Cursor::Parts(self.id, name, behind);
            }
            taken.count(size_of::<PartRecord>() + size_of_val(&record.extents[..]));
            behind = record.number;
            self.put_part(&name, record, out);
        }
        Cursor::Uploads(self.id, Some(name))
    }

    fn put_part(&self, (key, upload): &(Vec<u8>, UploadId), record: PartRecord, out: &mut impl EntrySink) {
        out.put(Entry::PartPut { bucket: self.id, key: key.clone(), upload: *upload, record });
    }
}

/// The versions of a key: they come newest first, and are given oldest first.
#[derive(Default)]
struct KeyVersions<'k> {
    key: Vec<u8>,
    versions: Vec<Version<'k>>,
    size: StepSize,
}

impl<'k> KeyVersions<'k> {
    fn begin(&mut self, key: &[u8]) {
        self.key.clear();
        self.key.extend_from_slice(key);
        self.size = StepSize::default();
    }

    fn push(&mut self, version: Version<'k>) {
        self.size.count(version.byte_len());
        self.versions.push(version);
    }

    fn flush(&mut self, bucket: u64, out: &mut impl EntrySink) {
        for version in self.versions.drain(..).rev() {
            out.put_version(bucket, &self.key, version);
        }
    }
}

/// What takes the entries of a walk.
trait EntrySink {
    fn put(&mut self, entry: Entry);

    fn put_version(&mut self, bucket: u64, key: &[u8], version: Version<'_>);
}

impl EntrySink for Vec<Entry> {
    fn put(&mut self, entry: Entry) {
        self.push(entry);
    }

    fn put_version(&mut self, bucket: u64, key: &[u8], version: Version<'_>) {
        self.push(Entry::VersionPut { bucket, key: key.to_vec(), record: version.record() });
    }
}

/// Encodes the entries of a walk; those of versions without building their records.
struct EntryEncoder<'o> {
    out: &'o mut Vec<u8>,
    record: Vec<u8>,
    scratch: Vec<u8>,
}

impl EntrySink for EntryEncoder<'_> {
    fn put(&mut self, entry: Entry) {
        entry.encode(self.out);
    }

    fn put_version(&mut self, bucket: u64, key: &[u8], version: Version<'_>) {
        self.record.clear();
        version.encode_for_disk(&mut self.scratch, &mut self.record);
        RawVersionPut { bucket, key, record: &self.record }.encode(self.out);
    }
}
