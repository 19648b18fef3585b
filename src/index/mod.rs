//! Floor 2: the metadata of a store in memory: buckets, their keys in order, and the versions of
//! each key, newest first. Only [`Index::apply`] changes it, so the server, checkpoints and tools
//! get the same index from the same entries.

mod bucket_configurations;
mod counted_bytes;
mod followers;
mod key_uses;
mod keys;
mod listing;
mod liveness;
mod loader;
mod memory;
mod owner_quotas;
mod parts;
mod placed_versions;
mod uploads;
mod usage;
mod version_listing;
mod walk;

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

use rpds::RedBlackTreeMapSync;
use thiserror::Error;

pub use bucket_configurations::{BucketConfiguration, BucketConfigurations, configuration_bytes};
pub use counted_bytes::{CountedVersion, marker_index_bytes, part_index_bytes, version_index_bytes};
pub use followers::{follower_bytes, follower_note_bytes};
#[cfg(test)]
pub(crate) use keys::versions_visited;
pub use listing::{ListItem, ListPage, ListQuery};
pub use liveness::Liveness;
pub use loader::{LoadError, Loader};
pub use placed_versions::{PlaceCursor, PlacedVersion, VersionPlace};
pub use uploads::{Upload, UploadSummary, upload_index_bytes};
pub use usage::{ContentTotal, OWNER_BYTES, OwnerUsage, Usage};
pub use version_listing::{ListedVersion, VersionRef};
pub use walk::Cursor;

use crate::base::limits::COUNTERS_END;
use crate::format::{
    BucketConfigurationKind, BucketRecord, DecodeError, Entry, Features, FollowerState, PartRecord,
    RemoteCopy, UploadId, UploadRecord, VersionId, VersionRecord, VersionSummary,
};
use crate::index::memory::map_entry_bytes;
use followers::Followers;
use key_uses::KeyUses;
use keys::{Keys, Version, VersionOrderExhausted};
use owner_quotas::OwnerQuotaDocuments;
use parts::PartTable;
use uploads::Uploads;
use usage::OwnerUsages;

/// The reason why an entry is invalid.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ApplyError {
    /// It names a bucket that does not exist.
    #[error("an entry names the bucket {0:016x}, which does not exist")]
    UnknownBucket(u64),
    /// It names a multipart upload that does not exist.
    #[error("an entry names the multipart upload {:016x}, which does not exist", .0.0)]
    UnknownUpload(UploadId),
    /// The sizes of its extents do not add up to its own.
    #[error("the extents of the version or part {:016x} do not add up to its size", .0.0)]
    Incomplete(VersionId),
    /// The version order of its key is exhausted.
    #[error("no version order is left for the version {:016x}", .0.0)]
    LastStamp(VersionId),
    /// An entry of this kind does not belong in a log.
    #[error("an entry of this kind does not belong in a log")]
    Misplaced,
}

/// The index of one bucket. A clone is a snapshot and costs O(1).
#[derive(Clone)]
struct BucketIndex {
    record: Arc<BucketRecord>,
    configurations: BucketConfigurations,
    keys: Keys,
    uploads: Uploads,
}

/// The memory of a bucket without keys and uploads, in bytes: its record, its names and its map
/// entries.
pub const BUCKET_BYTES: u64 = 832;

/// The index. A clone is a snapshot: it costs O(1), shares memory with the original, and does not
/// see later changes.
#[derive(Clone, Default)]
pub struct Index {
    buckets: RedBlackTreeMapSync<u64, BucketIndex>,
    ids: Arc<BTreeMap<String, u64>>,
    liveness: Liveness,
    versions: u64,
    last_stamp: u64,
    /// The features of all entries so far.
    features: Features,
    /// The memory of all buckets with their content, in bytes.
    bucket_bytes: u64,
    owners: OwnerUsages,
    owner_quotas: OwnerQuotaDocuments,
    /// The copies of segments on the remote, by segment.
    remote_copies: RedBlackTreeMapSync<u64, RemoteCopy>,
    followers: Followers,
    key_uses: KeyUses,
}

impl BucketIndex {
    fn memory_bytes(&self) -> u64 {
        BUCKET_BYTES
            + self.configurations.memory_bytes()
            + self.keys.memory_bytes()
            + self.uploads.memory_bytes()
    }

    fn usage(&self) -> Usage {
        let keys = self.keys.usage();
        let index_bytes =
            BUCKET_BYTES + self.configurations.memory_bytes() + self.uploads.index_bytes() + keys.index_bytes;
        Usage { uploads: self.uploads.total(), index_bytes, ..*keys }
    }
}

impl Index {
    /// An empty index.
    pub fn new() -> Self {
        Self::default()
    }

    /// An empty index for the entries of a whole store, in any order. Shared extents are counted
    /// only by [`finish_loading`](Self::finish_loading).
    pub fn bulk_loading() -> Self {
        let mut index = Self::default();
        index.liveness.defer_shared();
        index
    }

    /// Counts the shared extents. From this call on, a record must be amended before its copy is
    /// put; see [`Liveness`].
    pub fn finish_loading(&mut self) {
        self.liveness.count_deferred();
    }

    /// Applies an entry. Applying it again changes nothing.
    ///
    /// # Errors
    /// When the entry is invalid; nothing has been changed then.
    pub fn apply(&mut self, entry: &Entry) -> Result<(), ApplyError> {
        self.features = self.features.with(entry.features());
        match entry {
            Entry::BucketPut(record) => {
                self.put_bucket(record);
                Ok(())
            }
            Entry::BucketDelete { id } => self.delete_bucket(*id),
            Entry::BucketConfiguration { bucket, kind, document } => {
                self.change(*bucket, |bucket| bucket.configurations.set(*kind, document.as_deref()))
            }
            Entry::OwnerQuota { owner, document } => {
                self.owner_quotas.set(owner, document.as_deref());
                Ok(())
            }
            Entry::RemoteSegment { segment, copy } => {
                match copy {
                    Some(copy) => self.remote_copies.insert_mut(*segment, *copy),
                    None => drop(self.remote_copies.remove_mut(segment)),
                }
                Ok(())
            }
            Entry::Follower { name, state } => {
                self.followers.set(name, state.as_ref());
                Ok(())
            }
            Entry::FollowerNote { name, note } => {
                self.followers.set_note(name, note);
                Ok(())
            }
            Entry::Cause(_) | Entry::NullDeletion | Entry::Origin(_) => Ok(()),
            Entry::VersionPut { bucket, key, record } => self.put_version(*bucket, key, record),
            Entry::VersionDelete { bucket, key, version } => self.delete_version(*bucket, key, *version),
            Entry::VersionAmend { bucket, key, record } => self.amend_version(*bucket, key, record),
            Entry::UploadPut { bucket, key, record } => self.put_upload(*bucket, key, record),
            Entry::UploadDelete { bucket, key, upload } => {
                let removed = self.change(*bucket, |bucket| bucket.uploads.remove(key, *upload))?;
                if let Some(upload) = &removed {
                    self.key_uses.remove(upload.record.wrapped_keys());
                    self.count_parts_out(upload.parts.iter());
                }
                Ok(())
            }
            Entry::PartPut { bucket, key, upload, record } => self.put_part(*bucket, key, *upload, record),
            Entry::CheckpointEnd(_) => Err(ApplyError::Misplaced),
        }
    }

    /// The highest stamp of a version, a change of controls, an upload, a part or a bucket so far,
    /// or a higher number.
    pub fn last_stamp(&self) -> u64 {
        self.last_stamp
    }

    /// Whether stamps are left above those that were given. They rise with the microseconds since 1970,
    /// so that only damage uses them up.
    pub fn has_stamps_left(&self) -> bool {
        self.last_stamp < COUNTERS_END
    }

    /// Records that stamps up to `stamp` have been given, also to deleted versions and buckets.
    pub fn raise_last_stamp(&mut self, stamp: u64) {
        self.last_stamp = self.last_stamp.max(stamp);
    }

    /// The bucket of that name.
    pub fn bucket(&self, name: &str) -> Option<&BucketRecord> {
        self.ids.get(name).and_then(|id| self.buckets.get(id)).map(|bucket| bucket.record.as_ref())
    }

    /// The bucket of that name, and its configurations, without copying either.
    pub fn configured_bucket(&self, name: &str) -> Option<(Arc<BucketRecord>, BucketConfigurations)> {
        let bucket = self.buckets.get(self.ids.get(name)?)?;
        Some((bucket.record.clone(), bucket.configurations.clone()))
    }

    /// The bucket with this id.
    pub fn bucket_by_id(&self, id: u64) -> Option<&Arc<BucketRecord>> {
        self.buckets.get(&id).map(|bucket| &bucket.record)
    }

    /// A configuration of the bucket with this id.
    pub fn configuration(
        &self,
        bucket: u64,
        kind: BucketConfigurationKind,
    ) -> Option<&Arc<BucketConfiguration>> {
        self.buckets.get(&bucket)?.configurations.get(kind)
    }

    /// The quota of an owner.
    pub fn owner_quota(&self, owner: &str) -> Option<&Arc<BucketConfiguration>> {
        self.owner_quotas.get(owner)
    }

    /// The copy of a segment on the remote.
    pub fn remote_copy(&self, segment: u64) -> Option<&RemoteCopy> {
        self.remote_copies.get(&segment)
    }

    /// The copies of segments on the remote after a segment, or of all, by segment.
    pub fn remote_copies(&self, after: Option<u64>) -> impl Iterator<Item = (u64, &RemoteCopy)> {
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        self.remote_copies.range((from, Bound::Unbounded)).map(|(segment, copy)| (*segment, copy))
    }

    /// The progress of a follower of the log.
    pub fn follower(&self, name: &str) -> Option<&FollowerState> {
        self.followers.get(name)
    }

    /// The followers of the log, by name.
    pub fn followers(&self) -> impl Iterator<Item = (&str, &FollowerState)> {
        self.followers.after(None)
    }

    /// The notes of a follower: their keys and values.
    pub fn follower_notes(&self, name: &str) -> impl Iterator<Item = (&[u8], &[u8])> {
        self.followers.notes_of(name)
    }

    /// The names of the followers with notes, once for each note.
    pub fn noted_followers(&self) -> impl Iterator<Item = &str> {
        self.followers.notes_after(None).map(|(place, _)| place.0.as_str())
    }

    /// The owners with a quota, by name.
    pub fn owner_quotas(&self) -> impl Iterator<Item = (&str, &Arc<BucketConfiguration>)> {
        self.owner_quotas.after(None)
    }

    /// The critical features that a file with this index needs. Those of removed entries may be
    /// among them.
    pub fn features(&self) -> Features {
        self.features
    }

    /// All buckets, by name.
    pub fn buckets(&self) -> impl Iterator<Item = &BucketRecord> {
        self.ids.values().filter_map(|id| self.buckets.get(id)).map(|bucket| bucket.record.as_ref())
    }

    /// Whether every bucket can be found by its name. This must hold after the whole log has been
    /// read.
    pub fn is_consistent(&self) -> bool {
        self.ids.len() == self.buckets.size()
    }

    /// Whether a bucket holds no versions, or does not exist.
    pub fn is_empty(&self, bucket: u64) -> bool {
        self.buckets.get(&bucket).is_none_or(|bucket| bucket.keys.is_empty())
    }

    /// The summaries of all versions of a key, newest first. They are decoded lazily.
    pub fn summaries<'a>(
        &'a self,
        bucket: u64,
        key: &'a [u8],
    ) -> impl Iterator<Item = VersionSummary> + use<'a> {
        self.versions(bucket, key).map(|version| version.summary())
    }

    /// The newest version of a key.
    pub fn newest(&self, bucket: u64, key: &[u8]) -> Option<VersionRecord> {
        self.versions(bucket, key).next().map(|version| version.record())
    }

    /// As [`Index::newest`], without extents and parts. The cost does not depend on the number of
    /// parts; extents are skipped.
    pub fn newest_outline(&self, bucket: u64, key: &[u8]) -> Option<VersionRecord> {
        self.versions(bucket, key).next().map(|version| version.outline())
    }

    /// The newest version of a key with a version order of at most `order`, and its order.
    pub fn newest_up_to(&self, bucket: u64, key: &[u8], order: u64) -> Option<(u64, VersionSummary)> {
        let found = self.buckets.get(&bucket)?.keys.newest_up_to(key, order)?;
        Some((found.order(), found.summary()))
    }

    /// The version of a key that has this id, null or not, in O(log n), whatever the number of
    /// versions.
    pub fn version(&self, bucket: u64, key: &[u8], id: VersionId) -> Option<VersionRecord> {
        self.buckets.get(&bucket)?.keys.version_of(key, id).map(|version| version.record())
    }

    /// As [`Index::version`], without extents and parts.
    pub fn version_outline(&self, bucket: u64, key: &[u8], id: VersionId) -> Option<VersionRecord> {
        self.buckets.get(&bucket)?.keys.version_of(key, id).map(|version| version.outline())
    }

    /// The summary of the version that has this id.
    pub fn version_summary(&self, bucket: u64, key: &[u8], id: VersionId) -> Option<VersionSummary> {
        self.buckets.get(&bucket)?.keys.version_of(key, id).map(|version| version.summary())
    }

    /// The null version of a key, in O(log n), whatever the number of versions.
    pub fn null_version(&self, bucket: u64, key: &[u8]) -> Option<VersionRecord> {
        self.buckets.get(&bucket)?.keys.null_version(key).map(|version| version.record())
    }

    /// As [`Index::null_version`], without extents and parts.
    pub fn null_outline(&self, bucket: u64, key: &[u8]) -> Option<VersionRecord> {
        self.buckets.get(&bucket)?.keys.null_version(key).map(|version| version.outline())
    }

    /// The summary of the null version of a key.
    pub fn null_summary(&self, bucket: u64, key: &[u8]) -> Option<VersionSummary> {
        self.buckets.get(&bucket)?.keys.null_version(key).map(|version| version.summary())
    }

    /// All versions of a key, newest first. They are decoded lazily.
    pub fn records<'a>(
        &'a self,
        bucket: u64,
        key: &'a [u8],
    ) -> impl Iterator<Item = VersionRecord> + use<'a> {
        self.versions(bucket, key).map(|version| version.record())
    }

    /// A page of the current versions in a bucket. Each item costs at most O(log n), whatever is
    /// skipped.
    pub fn list(&self, bucket: u64, query: &ListQuery) -> ListPage<VersionSummary> {
        let bucket = self.buckets.get(&bucket);
        bucket.map_or_else(ListPage::default, |bucket| listing::list(&bucket.keys, query))
    }

    /// A page of all versions in a bucket. With `after_version`, it begins with the versions of the
    /// key `query.after` that are older than that one.
    pub fn list_versions(
        &self,
        bucket: u64,
        query: &ListQuery,
        after_version: Option<VersionRef>,
    ) -> ListPage<ListedVersion> {
        let Some(bucket) = self.buckets.get(&bucket) else { return ListPage::default() };
        version_listing::list(&bucket.keys, query, after_version)
    }

    /// Whether the upload exists.
    pub fn has_upload(&self, bucket: u64, key: &[u8], upload: UploadId) -> bool {
        self.buckets.get(&bucket).is_some_and(|bucket| bucket.uploads.contains(key, upload))
    }

    /// An upload without its parts.
    pub fn upload_record(&self, bucket: u64, key: &[u8], upload: UploadId) -> Option<&UploadRecord> {
        self.buckets.get(&bucket)?.uploads.record(key, upload)
    }

    /// An upload with its parts.
    pub fn upload(&self, bucket: u64, key: &[u8], upload: UploadId) -> Option<Upload> {
        self.buckets.get(&bucket)?.uploads.get(key, upload)
    }

    /// The bytes of all parts of an upload, in O(log n); 0 if it does not exist.
    pub fn upload_bytes(&self, bucket: u64, key: &[u8], upload: UploadId) -> u64 {
        let parts = self.buckets.get(&bucket).and_then(|bucket| bucket.uploads.parts(key, upload));
        parts.map_or(0, PartTable::payload_bytes)
    }

    /// The bytes of the index that an upload and its parts count for, in O(log n); 0 if it does not
    /// exist.
    pub fn upload_index_bytes(&self, bucket: u64, key: &[u8], upload: UploadId) -> u64 {
        self.buckets.get(&bucket).map_or(0, |bucket| bucket.uploads.index_bytes_of(key, upload))
    }

    /// An upper bound on the number of parts of an upload, in O(log n); 0 if it does not exist.
    pub fn upload_parts_max(&self, bucket: u64, key: &[u8], upload: UploadId) -> usize {
        let parts = self.buckets.get(&bucket).and_then(|bucket| bucket.uploads.parts(key, upload));
        parts.map_or(0, PartTable::count_max)
    }

    /// One part of an upload.
    pub fn part(&self, bucket: u64, key: &[u8], upload: UploadId, number: u32) -> Option<PartRecord> {
        self.buckets.get(&bucket)?.uploads.part(key, upload, number)
    }

    /// The parts of an upload with higher numbers than `after`, in order. They are decoded lazily.
    pub fn parts(
        &self,
        bucket: u64,
        key: &[u8],
        upload: UploadId,
        after: u32,
    ) -> Option<impl Iterator<Item = PartRecord>> {
        self.buckets.get(&bucket)?.uploads.parts(key, upload).map(|parts| parts.after(after))
    }

    /// A page of the uploads in a bucket. With `after_id`, it begins with the uploads of the key
    /// `query.after` that have a greater id.
    pub fn list_uploads(
        &self,
        bucket: u64,
        query: &ListQuery,
        after_id: Option<UploadId>,
    ) -> ListPage<UploadSummary> {
        let bucket = self.buckets.get(&bucket);
        bucket.map_or_else(ListPage::default, |bucket| bucket.uploads.list(query, after_id))
    }

    /// The content of a bucket, in O(log buckets); nothing if it does not exist.
    pub fn usage(&self, bucket: u64) -> Usage {
        self.buckets.get(&bucket).map(BucketIndex::usage).unwrap_or_default()
    }

    /// The content of each bucket, by ascending bucket id.
    pub fn usages(&self) -> impl Iterator<Item = (&BucketRecord, Usage)> {
        self.buckets.values().map(|bucket| (bucket.record.as_ref(), bucket.usage()))
    }

    /// The buckets of an owner and their content, in O(log owners).
    pub fn owner_usage(&self, owner: &str) -> OwnerUsage {
        self.owners.get(owner)
    }

    /// The owners of buckets, by name.
    pub fn owner_usages(&self) -> impl Iterator<Item = (&str, OwnerUsage)> {
        self.owners.iter()
    }

    /// The number of uploads in progress.
    pub fn upload_count(&self) -> u64 {
        self.buckets.values().map(|bucket| bucket.uploads.len()).sum()
    }

    /// The live bytes of each segment.
    pub fn liveness(&self) -> &Liveness {
        &self.liveness
    }

    /// The versions, uploads and parts that need each key of the ring, by its id.
    pub fn key_uses(&self) -> &BTreeMap<String, u64> {
        self.key_uses.get()
    }

    /// The memory of the index in bytes, without memory that only older snapshots use. The number
    /// is maintained, so the call is cheap.
    pub fn memory_bytes(&self) -> u64 {
        self.bucket_bytes
            + self.owners.memory_bytes()
            + self.owner_quotas.memory_bytes()
            + self.remote_copies.size() as u64 * map_entry_bytes::<u64, RemoteCopy>()
            + self.followers.memory_bytes()
            + self.key_uses.memory_bytes()
            + self.liveness.memory_bytes()
    }

    /// The number of buckets.
    pub fn bucket_count(&self) -> u64 {
        self.buckets.size() as u64
    }

    /// The number of versions, delete markers included.
    pub fn version_count(&self) -> u64 {
        self.versions
    }

    fn versions<'a>(&'a self, bucket: u64, key: &'a [u8]) -> impl Iterator<Item = Version<'a>> + use<'a> {
        self.buckets.get(&bucket).into_iter().flat_map(|bucket| bucket.keys.versions(key))
    }

    /// Takes the name over from another bucket that has it. A checkpoint that was made while one
    /// bucket replaced another may hold both; the log after it then deletes the old one.
    fn put_bucket(&mut self, record: &BucketRecord) {
        self.raise_last_stamp(record.id);
        let known = self.buckets.get(&record.id).cloned();
        match &known {
            Some(bucket) => self.owners.remove_bucket(&bucket.record.owner, &bucket.usage()),
            None => self.bucket_bytes += BUCKET_BYTES,
        }
        let (configurations, keys, uploads) =
            known.map(|bucket| (bucket.configurations, bucket.keys, bucket.uploads)).unwrap_or_default();
        let bucket = BucketIndex { record: Arc::new(record.clone()), configurations, keys, uploads };
        self.owners.add_bucket(&record.owner, &bucket.usage());
        self.buckets.insert_mut(record.id, bucket);
        Arc::make_mut(&mut self.ids).insert(record.name.clone(), record.id);
    }

    fn delete_bucket(&mut self, id: u64) -> Result<(), ApplyError> {
        let bucket = self.buckets.get(&id).cloned().ok_or(ApplyError::UnknownBucket(id))?;
        self.buckets.remove_mut(&id);
        self.bucket_bytes -= bucket.memory_bytes();
        self.owners.remove_bucket(&bucket.record.owner, &bucket.usage());
        if self.ids.get(&bucket.record.name) == Some(&id) {
            Arc::make_mut(&mut self.ids).remove(&bucket.record.name);
        }
        let mut scan = bucket.keys.scan();
        scan.seek_key(&[]);
        while scan.next() {
            let record = scan.version().record();
            self.liveness.remove(&record.extents);
            self.key_uses.remove(record.wrapped_keys());
        }
        self.versions -= bucket.keys.len();
        for upload in bucket.uploads.records() {
            self.key_uses.remove(upload.wrapped_keys());
        }
        self.count_parts_out(bucket.uploads.all_parts());
        Ok(())
    }

    fn put_upload(&mut self, bucket: u64, key: &[u8], record: &UploadRecord) -> Result<(), ApplyError> {
        self.raise_last_stamp(record.id.0);
        let replaced = self.change(bucket, |bucket| bucket.uploads.put(key, record))?;
        self.key_uses.add(record.wrapped_keys());
        if let Some(old) = &replaced {
            self.key_uses.remove(old.wrapped_keys());
        }
        Ok(())
    }

    /// Counts the parts of an upload out that is gone.
    fn count_parts_out(&mut self, parts: impl Iterator<Item = PartRecord>) {
        for part in parts {
            self.liveness.remove(&part.extents);
            self.key_uses.remove(part.wrapped_keys());
        }
    }

    fn put_version(&mut self, bucket: u64, key: &[u8], record: &VersionRecord) -> Result<(), ApplyError> {
        if !record.is_complete() {
            return Err(ApplyError::Incomplete(record.id));
        }
        let replaced = self.change(bucket, |bucket| bucket.keys.put(key, record))?;
        let replaced = replaced.map_err(|VersionOrderExhausted| ApplyError::LastStamp(record.id))?;
        // Before those of the replaced versions are taken away: a copy of a version onto itself
        // shares its extents, which must not pass for dead, or for unshared, in between.
        self.liveness.add(&record.extents);
        self.key_uses.add(record.wrapped_keys());
        for old in &replaced {
            self.liveness.remove(&old.extents);
            self.key_uses.remove(old.wrapped_keys());
        }
        self.versions += 1;
        self.versions -= replaced.len() as u64;
        self.raise_last_stamp(record.last_stamp());
        Ok(())
    }

    fn amend_version(&mut self, bucket: u64, key: &[u8], record: &VersionRecord) -> Result<(), ApplyError> {
        if !record.is_complete() {
            return Err(ApplyError::Incomplete(record.id));
        }
        if let Some(old) = self.change(bucket, |bucket| bucket.keys.amend(key, record))? {
            // Only the extents became shared: another reference is about to follow.
            let same = old.tags == record.tags
                && old.controls == record.controls
                && old.storage_class == record.storage_class;
            let announced = same && record.extents.iter().all(|extent| extent.shared);
            self.liveness.amend(&old.extents, &record.extents, announced);
            self.key_uses.add(record.wrapped_keys());
            self.key_uses.remove(old.wrapped_keys());
        }
        self.raise_last_stamp(record.last_stamp());
        Ok(())
    }

    fn put_part(
        &mut self,
        bucket: u64,
        key: &[u8],
        upload: UploadId,
        record: &PartRecord,
    ) -> Result<(), ApplyError> {
        if !record.is_complete() {
            return Err(ApplyError::Incomplete(VersionId(record.id)));
        }
        let replaced = self.change(bucket, |bucket| bucket.uploads.put_part(key, upload, record))?;
        let replaced = replaced.ok_or(ApplyError::UnknownUpload(upload))?;
        self.raise_last_stamp(record.id);
        self.key_uses.add(record.wrapped_keys());
        if let Some(old) = &replaced {
            self.key_uses.remove(old.wrapped_keys());
        }
        match replaced {
            // The same part, relocated.
            Some(old) if old.id == record.id => self.liveness.amend(&old.extents, &record.extents, false),
            replaced => {
                // In the order of `put_version`, and for its reason.
                self.liveness.add(&record.extents);
                if let Some(part) = &replaced {
                    self.liveness.remove(&part.extents);
                }
            }
        }
        Ok(())
    }

    fn delete_version(&mut self, bucket: u64, key: &[u8], version: VersionId) -> Result<(), ApplyError> {
        if let Some(old) = self.change(bucket, |bucket| bucket.keys.remove(key, version))? {
            self.liveness.remove(&old.extents);
            self.key_uses.remove(old.wrapped_keys());
            self.versions -= 1;
        }
        Ok(())
    }

    /// Changes a bucket, and updates the memory of all and the content of its owner.
    fn change<T>(&mut self, id: u64, change: impl FnOnce(&mut BucketIndex) -> T) -> Result<T, ApplyError> {
        let bucket = self.buckets.get_mut(&id).ok_or(ApplyError::UnknownBucket(id))?;
        // The sums over all buckets are kept by differences: to add them up anew would visit every
        // bucket for each entry.
        let bytes = bucket.memory_bytes();
        let usage = bucket.usage();
        let done = change(bucket);
        self.bucket_bytes = self.bucket_bytes - bytes + bucket.memory_bytes();
        self.owners.change(&bucket.record.owner, &usage, &bucket.usage());
        Ok(done)
    }
}

/// Unwraps records that the index has encoded itself.
fn expect_valid<T>(decoded: Result<T, DecodeError>) -> T {
    decoded.expect("the index decodes only what it has encoded itself")
}

#[cfg(test)]
mod tests;
