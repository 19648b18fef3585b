//! Walking the whole index in steps, for checkpoints and tools. Every step is bounded, whatever the
//! number of versions of a key or parts of an upload.

use std::ops::Bound;

use crate::base::limits::KIB;
use crate::format::{BucketRecord, Entry, FollowerNote, PartRecord, RawVersionPut, UploadId};
use crate::index::keys::Version;
use crate::index::uploads::record_bytes;
use crate::index::{BucketIndex, Index};

/// The position of a walk over the whole index.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Cursor {
    /// Before everything.
    Start,
    /// After the remote copy of a segment, before the quotas of owners.
    RemoteCopies(u64),
    /// After the quota of an owner, before the followers.
    OwnerQuotas(String),
    /// After a follower, before the notes of all.
    Followers(String),
    /// After a note of a follower, before the first bucket.
    FollowerNotes((String, Vec<u8>)),
    /// In a bucket, after a key or before all keys.
    Keys(u64, Option<Vec<u8>>),
    /// In a bucket, among the versions of a key, after the one with a version order or before the
    /// oldest.
    Versions(u64, Vec<u8>, Option<u64>),
    /// In a bucket, after all keys, and after an upload or before all uploads.
    Uploads(u64, Option<(Vec<u8>, UploadId)>),
    /// In a bucket, in an upload, after the part with a number.
    Parts(u64, (Vec<u8>, UploadId), u32),
    /// After a bucket.
    AfterBucket(u64),
}

/// The limits of a step, which always takes at least one entry.
#[derive(Debug, Clone, Copy)]
pub(super) struct StepLimits {
    /// Keys or uploads.
    pub(super) names: usize,
    /// Entries. A key with more versions, or an upload with more parts, is split into several
    /// steps.
    pub(super) entries: usize,
    /// Bytes of encoded records in memory. Their decoded form may be several times as large.
    pub(super) bytes: usize,
}

impl StepLimits {
    fn of_names(names: usize) -> Self {
        Self { names, entries: 4096, bytes: 256 * KIB as usize }
    }
}

/// The size of a step so far.
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

/// An entry that comes before the buckets.
struct EarlyEntry {
    entry: Entry,
    /// Its bytes in memory.
    bytes: usize,
    /// The cursor after it.
    end: Cursor,
}

impl Index {
    /// The entries of the keys or uploads after `cursor`, up to `count_max` of them and some
    /// thousand entries; empty at the end. Advances the cursor. A [`Loader`](super::Loader) builds
    /// this index from all entries.
    pub fn walk(&self, cursor: &mut Cursor, count_max: usize) -> Vec<Entry> {
        self.walk_within(cursor, &StepLimits::of_names(count_max))
    }

    pub(super) fn walk_within(&self, cursor: &mut Cursor, limits: &StepLimits) -> Vec<Entry> {
        let mut entries = Vec::new();
        // A step that only leaves a bucket puts nothing, and no entries mean the end.
        while entries.is_empty() && self.step(cursor, limits, &mut entries) {}
        entries
    }

    /// As [`Index::walk`], but replaces the content of `out` by the encoded entries; versions are
    /// not decoded for it. Returns `false` at the end.
    pub fn walk_encoded(&self, cursor: &mut Cursor, count_max: usize, out: &mut Vec<u8>) -> bool {
        let limits = StepLimits::of_names(count_max);
        out.clear();
        let mut encoding = EntryEncoder { out, record: Vec::new(), scratch: Vec::new() };
        while encoding.out.is_empty() && self.step(cursor, &limits, &mut encoding) {}
        !encoding.out.is_empty()
    }

    /// Advances before, to or within a bucket; `false` at the end.
    fn step(&self, cursor: &mut Cursor, limits: &StepLimits, out: &mut impl EntrySink) -> bool {
        let within = |id: u64| self.buckets.get(&id).map(|bucket| BucketStep { id, bucket, limits });
        let next = match std::mem::replace(cursor, Cursor::Start) {
            begun @ (Cursor::Start
            | Cursor::RemoteCopies(_)
            | Cursor::OwnerQuotas(_)
            | Cursor::Followers(_)
            | Cursor::FollowerNotes(_)) => return self.step_before_buckets(begun, cursor, limits, out),
            Cursor::AfterBucket(id) => return self.enter(Bound::Excluded(id), cursor, out),
            Cursor::Keys(id, after) => within(id).map(|it| it.keys(after.as_deref(), out)).ok_or(id),
            Cursor::Versions(id, key, above) => within(id).map(|it| it.versions(key, above, out)).ok_or(id),
            Cursor::Uploads(id, after) => within(id).map(|it| it.uploads(after, out)).ok_or(id),
            Cursor::Parts(id, name, after) => within(id).map(|it| it.parts(name, after, out)).ok_or(id),
        };
        *cursor = next.unwrap_or_else(Cursor::AfterBucket);
        true
    }

    /// Advances among the entries before the buckets, or to the first bucket; `false` at the end.
    fn step_before_buckets(
        &self,
        begun: Cursor,
        cursor: &mut Cursor,
        limits: &StepLimits,
        out: &mut impl EntrySink,
    ) -> bool {
        let mut found = self.before_buckets(&begun);
        let mut taken = StepSize::default();
        while !taken.is_full(limits)
            && let Some(next) = found.next()
        {
            taken.names += 1;
            taken.count(next.bytes);
            out.put(next.entry);
            *cursor = next.end;
        }
        drop(found);
        if taken.names > 0 || self.enter(Bound::Unbounded, cursor, out) {
            return true;
        }
        // The cursor stays at the end.
        *cursor = begun;
        false
    }

    /// The entries before the buckets from the cursor on: those of its own kind after its place,
    /// and all of each later kind. The kinds follow one another as the cursors do.
    fn before_buckets<'i>(&'i self, cursor: &'i Cursor) -> impl Iterator<Item = EarlyEntry> + 'i {
        let copies = match cursor {
            Cursor::Start => Some(self.remote_copies(None)),
            Cursor::RemoteCopies(segment) => Some(self.remote_copies(Some(*segment))),
            _ => None,
        };
        let quotas = match cursor {
            Cursor::Start | Cursor::RemoteCopies(_) => Some(self.owner_quotas.after(None)),
            Cursor::OwnerQuotas(owner) => Some(self.owner_quotas.after(Some(owner))),
            _ => None,
        };
        let followers = match cursor {
            Cursor::FollowerNotes(_) => None,
            Cursor::Followers(name) => Some(self.followers.after(Some(name))),
            _ => Some(self.followers.after(None)),
        };
        let notes = match cursor {
            Cursor::FollowerNotes(place) => self.followers.notes_after(Some(place)),
            _ => self.followers.notes_after(None),
        };
        let copies = copies.into_iter().flatten().map(|(segment, copy)| EarlyEntry {
            entry: Entry::RemoteSegment { segment, copy: Some(*copy) },
            bytes: size_of::<Entry>(),
            end: Cursor::RemoteCopies(segment),
        });
        let quotas = quotas.into_iter().flatten().map(|(owner, quota)| {
            let owner = owner.to_owned();
            let document = quota.document().to_vec();
            EarlyEntry {
                bytes: document.len(),
                end: Cursor::OwnerQuotas(owner.clone()),
                entry: Entry::OwnerQuota { owner, document: Some(document) },
            }
        });
        let followers = followers.into_iter().flatten().map(|(name, state)| {
            let name = name.to_owned();
            EarlyEntry {
                bytes: size_of::<Entry>(),
                end: Cursor::Followers(name.clone()),
                entry: Entry::Follower { name, state: Some(state.clone()) },
            }
        });
        let notes = notes.map(|(place, value)| {
            let note = FollowerNote { key: place.1.clone(), value: Some(value.to_vec()) };
            EarlyEntry {
                bytes: size_of::<Entry>() + note.key.len() + value.len(),
                end: Cursor::FollowerNotes(place.clone()),
                entry: Entry::FollowerNote { name: place.0.clone(), note },
            }
        });
        copies.chain(quotas).chain(followers).chain(notes)
    }

    fn enter(&self, from: Bound<u64>, cursor: &mut Cursor, out: &mut impl EntrySink) -> bool {
        let Some((id, bucket)) = self.buckets.range((from, Bound::Unbounded)).next() else {
            // The cursor stays at the end.
            *cursor = match from {
                Bound::Excluded(id) => Cursor::AfterBucket(id),
                _ => Cursor::Start,
            };
            return false;
        };
        out.put(Entry::BucketPut(BucketRecord::clone(&bucket.record)));
        for (kind, configuration) in bucket.configurations.iter() {
            let document = Some(configuration.document().to_vec());
            out.put(Entry::BucketConfiguration { bucket: *id, kind, document });
        }
        *cursor = Cursor::Keys(*id, None);
        true
    }
}

/// A step within a bucket. Each method returns the next position.
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
        let mut taken = StepSize::default();
        let mut of_key = KeyVersions::default();
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
        for (key, record, parts) in self.bucket.uploads.after(after.clone()) {
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
            for record in parts.iter() {
                self.put_part(&name.0, name.1, record, out);
            }
            after = Some(name);
        }
        if taken.names > 0 { Cursor::Uploads(self.id, after) } else { Cursor::AfterBucket(self.id) }
    }

    fn parts(&self, name: (Vec<u8>, UploadId), mut after: u32, out: &mut impl EntrySink) -> Cursor {
        let mut taken = StepSize::default();
        let parts = self.bucket.uploads.parts(&name.0, name.1);
        for record in parts.map(|parts| parts.after(after)).into_iter().flatten() {
            if taken.is_large(self.limits) {
                return Cursor::Parts(self.id, name, after);
            }
            taken.count(size_of::<PartRecord>() + size_of_val(&record.extents[..]));
            after = record.number;
            self.put_part(&name.0, name.1, record, out);
        }
        Cursor::Uploads(self.id, Some(name))
    }

    fn put_part(&self, key: &[u8], upload: UploadId, record: PartRecord, out: &mut impl EntrySink) {
        out.put(Entry::PartPut { bucket: self.id, key: key.to_vec(), upload, record });
    }
}

/// The versions of a key. They are read newest first and returned oldest first.
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

/// Receives the entries of a walk.
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

/// Encodes the entries of a walk; versions without decoding their records.
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
