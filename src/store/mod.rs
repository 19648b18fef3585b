//! Floor 3: the engine. It keeps objects and knows nothing of HTTP: recovery, commit, put, get, delete, list,
//! checkpoint and health.
//!
//! Changes are made in one place, the committer, one group after another. Readers look at the index that it publishes,
//! and see nothing that is not durable.

mod backlog;
pub mod backup;
mod bulk_apply;
mod checkpointer;
mod committer;
pub mod compact;
mod copy;
mod error;
mod extents;
mod health;
mod id_generator;
mod index_budget;
mod loader;
mod mutation;
mod options;
mod plan;
mod progress;
mod reader;
pub mod rebuild;
mod reclaim;
mod recovery;
mod scrub;
mod shared;
mod state_file;
pub mod stats;
pub mod undelete;
mod upload_expiry;
pub mod verify;
mod write_counters;
mod writer;

use std::ops::Range;
use std::sync::{Arc, Mutex};
use std::time::Instant;

pub use crate::base::WriteCondition;
pub use crate::format::{
    AssembledPart, Assembly, Attributes, BucketRecord as BucketInfo, Checksum, ChecksumAlgorithm,
    ChecksumType, ClientId, ClientIds, ETag, PartRecord, UploadId, UploadRecord, VersionId, VersionRecord,
    VersionSummary, Versioning,
};
pub use crate::index::{ListItem, ListPage, ListQuery, ListedVersion, Upload, UploadSummary, VersionRef};
pub use crate::log::Damage;
pub use backup::{backup, restore};
pub use compact::compact;
pub use error::{OpenError, StoreError};
pub use health::{Health, ReadOnlyReason};
pub use mutation::{Commit, CommittedVersion, Completion, CopyRange, Deleted, Deletion, NewUpload, Selector};
pub use options::StoreOptions;
pub use progress::{Progress, ProgressStep};
pub use reader::ObjectReader;
pub use rebuild::rebuild;
pub use reclaim::Reclaimed;
pub use scrub::{ScrubPace, Scrubbed};
pub use stats::stats;
pub use verify::verify;
pub use writer::{ObjectWriter, PartWriter};

use crate::base::{Clock, Entropy, Timestamp};
use crate::fs::{Fs, Lock};
use crate::index::Index;
use crate::log::SegmentPins;
use committer::Committer;
use mutation::{BucketChange, Mutation, Put, PutPart, UploadChange};
use reclaim::Reclaimer;
use scrub::Scrubber;
use shared::SharedStore;

/// A version of an object, and the bucket that it is in. As long as it is kept, the bytes can be read, whatever becomes of the
/// version.
#[derive(Debug, Clone)]
pub struct FoundVersion {
    /// The bucket.
    pub bucket: BucketInfo,
    /// The version, which may be a delete marker.
    pub version: VersionRecord,
    pins: SegmentPins,
}

/// A part as a listing tells of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PartSummary {
    /// Its number.
    pub number: u32,
    /// When it was put.
    pub modified: Timestamp,
    /// Bytes.
    pub size: u64,
    /// The MD5 of its bytes.
    pub md5: [u8; 16],
    /// The checksum that came with it.
    pub checksum: Option<Checksum>,
}

impl From<PartRecord> for PartSummary {
    fn from(part: PartRecord) -> Self {
        let PartRecord { number, modified, size, md5, checksum, .. } = part;
        Self { number, modified, size, md5, checksum }
    }
}

/// What the list of the parts of an upload comes to.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PartsTotal {
    /// Parts.
    pub parts: u64,
    /// Extents of all of them.
    pub extents: u64,
}

/// A page of the parts of an upload.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PartsPage {
    /// The upload.
    pub upload: UploadSummary,
    /// Its parts by number.
    pub parts: Vec<PartSummary>,
    /// Whether there are more parts after the page.
    pub truncated: bool,
}

impl Eq for FoundVersion {}

impl PartialEq for FoundVersion {
    /// Whatever keeps the bytes of either.
    fn eq(&self, other: &Self) -> bool {
        (&self.bucket, &self.version) == (&other.bucket, &other.version)
    }
}

/// An open store. Dropping it stops its threads as a crash would, only in an orderly way; [`Store::close`] also writes a
/// checkpoint where that makes the next start much quicker.
pub struct Store {
    shared: Arc<SharedStore>,
    committer: Committer,
    reclaimer: Mutex<Reclaimer>,
    scrubber: Scrubber,
    _lock: Box<dyn Lock>,
}

impl Store {
    /// Opens the store in `fs`, or makes one where there is none. Damage does not keep a store from being opened where what
    /// came before the damage can be read: it then takes no writes, and [`Store::health`] says why.
    ///
    /// # Errors
    /// When another process has it open, when the disk fails, and when nothing can be read.
    pub fn open(
        fs: Arc<dyn Fs>,
        clock: Arc<dyn Clock>,
        entropy: &dyn Entropy,
        options: StoreOptions,
    ) -> Result<Self, OpenError> {
        let lock = recovery::lock(fs.as_ref())?;
        let recovered = recovery::open(fs, clock, entropy, options)?;
        let shared = recovered.shared;
        let committer = Committer::start(shared.clone(), recovered.log_writer)?;
        let scrubber = Scrubber::open(&shared);
        let reclaimer = Mutex::new(Reclaimer::open(&shared));
        Ok(Self { shared, committer, reclaimer, scrubber, _lock: lock })
    }

    /// Finishes what was submitted and stops. A checkpoint is written unless the next start needs less than
    /// [`StoreOptions::replay_after_close_max`] for the log. What is called afterwards fails with [`StoreError::Closed`], reads excepted.
    pub fn close(&self) {
        self.scrubber.close(&self.shared);
        self.committer.close();
        self.close_reclaimer();
    }

    /// As [`Store::close`], but no checkpoint is written after `time`: one that is not finished by then is given up.
    pub fn close_by(&self, time: Instant) {
        self.shared.close_by(time);
        self.close();
    }

    /// Makes a bucket. Durable on return.
    ///
    /// # Errors
    /// [`StoreError::BucketExists`].
    pub fn create_bucket(&self, name: &str, owner: &str) -> Result<BucketInfo, StoreError> {
        let change = BucketChange::Create { name: name.into(), owner: owner.into() };
        self.committer.submit(|reply| Mutation::Bucket(change, reply))
    }

    /// Deletes an empty bucket. Durable on return.
    ///
    /// # Errors
    /// [`StoreError::NoSuchBucket`], [`StoreError::BucketNotEmpty`].
    pub fn delete_bucket(&self, name: &str) -> Result<(), StoreError> {
        let change = BucketChange::Delete { name: name.into() };
        self.committer.submit(|reply| Mutation::Bucket(change, reply)).map(|_| ())
    }

    /// Sets whether a bucket keeps versions. Durable on return.
    ///
    /// # Errors
    /// [`StoreError::NoSuchBucket`].
    pub fn set_versioning(&self, name: &str, versioning: Versioning) -> Result<(), StoreError> {
        let change = BucketChange::SetVersioning { name: name.into(), versioning };
        self.committer.submit(|reply| Mutation::Bucket(change, reply)).map(|_| ())
    }

    /// A bucket.
    ///
    /// # Errors
    /// [`StoreError::NoSuchBucket`].
    pub fn bucket(&self, name: &str) -> Result<BucketInfo, StoreError> {
        self.shared.index().bucket(name).cloned().ok_or(StoreError::NoSuchBucket)
    }

    /// All buckets, by name.
    pub fn buckets(&self) -> Vec<BucketInfo> {
        self.shared.index().buckets().cloned().collect()
    }

    /// How many buckets there are.
    pub fn bucket_count(&self) -> u64 {
        self.shared.index().bucket_count()
    }

    /// The ids of versions and uploads as clients see them.
    pub fn client_ids(&self) -> &ClientIds {
        &self.shared.client_ids
    }

    /// The memory that the index takes up, in bytes: all keys with their versions, uploads and buckets. Asking costs nothing.
    pub fn index_bytes(&self) -> u64 {
        self.shared.index().memory_bytes()
    }

    /// Finds a version of an object. It may be a delete marker: what that means is for the caller to say.
    ///
    /// # Errors
    /// [`StoreError::NoSuchBucket`]; [`StoreError::NoSuchKey`] when the newest is asked for and there is none;
    /// [`StoreError::NoSuchVersion`] when another is, whether or not the key has any.
    pub fn find(&self, bucket: &str, key: &str, which: Selector) -> Result<FoundVersion, StoreError> {
        loop {
            let index = self.shared.index();
            let (bucket, version) = look_up(&index, (bucket, key), which, RecordDetail::Full)?;
            let pins = self.shared.segments.pin(&version.extents);
            let now = self.shared.index();
            let still = || {
                let found = now.version(bucket.id, key.as_bytes(), version.id);
                found.is_some_and(|found| found.extents == version.extents)
            };
            // What was moved or deleted before it was pinned may be gone already.
            if version.extents.is_empty() || Arc::ptr_eq(&index, &now) || still() {
                return Ok(FoundVersion { bucket: bucket.clone(), version, pins });
            }
        }
    }

    /// What [`Store::find`] finds, but as if the version had no extents and had not been put together from parts: for whoever
    /// wants neither, however many they are. Its bytes cannot be read.
    ///
    /// # Errors
    /// As of [`Store::find`].
    pub fn find_outline(&self, bucket: &str, key: &str, which: Selector) -> Result<FoundVersion, StoreError> {
        let index = self.shared.index();
        let (bucket, version) = look_up(&index, (bucket, key), which, RecordDetail::Outline)?;
        Ok(FoundVersion { bucket: bucket.clone(), version, pins: SegmentPins::default() })
    }

    /// A reader of the bytes `range` of a version. What it hands out has been verified.
    ///
    /// # Errors
    /// When a segment cannot be opened.
    pub fn read(&self, found: &FoundVersion, range: Range<u64>) -> Result<ObjectReader, StoreError> {
        ObjectReader::open(self.shared.clone(), &found.version.extents, range, found.pins.clone())
    }

    /// A reader of the bytes of a part, wherever they lie by now.
    ///
    /// # Errors
    /// [`StoreError::NoSuchBucket`], [`StoreError::NoSuchUpload`]; [`StoreError::PartReplaced`] when the part is another than
    /// the caller saw; else as [`Store::read`].
    pub fn read_part(
        &self,
        (bucket, key): (&str, &str),
        upload: UploadId,
        part: &PartRecord,
    ) -> Result<ObjectReader, StoreError> {
        let look_up = || {
            let index = self.shared.index();
            let bucket = index.bucket(bucket).ok_or(StoreError::NoSuchBucket)?.id;
            let upload = index.has_upload(bucket, key.as_bytes(), upload).then_some(upload);
            let upload = upload.ok_or(StoreError::NoSuchUpload)?;
            let found = index.part(bucket, key.as_bytes(), upload, part.number);
            found.filter(|found| found.id == part.id).ok_or(StoreError::PartReplaced(part.number))
        };
        loop {
            let found = look_up()?;
            let pins = self.shared.segments.pin(&found.extents);
            // What was moved before it was pinned may be gone already.
            if look_up()?.extents == found.extents {
                return ObjectReader::open(self.shared.clone(), &found.extents, 0..found.size, pins);
            }
        }
    }

    /// Takes the bytes of an object that will be put under `key`. With `expected_len`, room is set aside in time.
    ///
    /// # Errors
    /// [`StoreError::NoSuchBucket`]; [`StoreError::ReadOnly`]; [`StoreError::IndexFull`] as things are now.
    pub fn writer(
        &self,
        bucket: &str,
        key: &str,
        expected_len: Option<u64>,
    ) -> Result<ObjectWriter<'_>, StoreError> {
        self.shared.check_writable()?;
        let bucket = self.bucket(bucket)?;
        self.shared.index_budget().check()?;
        Ok(ObjectWriter::new(&self.shared, &self.committer, bucket, key, expected_len))
    }

    /// Deletes objects or versions, all in one commit, each with a result of its own. Durable on return.
    ///
    /// # Errors
    /// [`StoreError::NoSuchBucket`], or what keeps the store from committing at all. Of one deletion:
    /// [`StoreError::PreconditionFailed`], [`StoreError::NoSuchKey`] for a condition on an absent key.
    pub fn delete(
        &self,
        bucket: &str,
        deletions: Vec<Deletion>,
    ) -> Result<Vec<Result<Deleted, StoreError>>, StoreError> {
        let bucket = bucket.to_owned();
        self.committer.submit(|reply| Mutation::Delete { bucket, deletions, reply })
    }

    /// A page of the current versions in a bucket. Keys that delete markers hide cost it nothing, however many they are.
    ///
    /// # Errors
    /// [`StoreError::NoSuchBucket`].
    pub fn list_objects(
        &self,
        bucket: &str,
        query: &ListQuery,
    ) -> Result<ListPage<VersionSummary>, StoreError> {
        let index = self.shared.index();
        let bucket = index.bucket(bucket).ok_or(StoreError::NoSuchBucket)?;
        Ok(index.list(bucket.id, query))
    }

    /// A page of all versions and delete markers in a bucket: keys ascending, the versions of a key newest first. With
    /// `after_version`, the page begins with the versions of the key `query.after` that are older than that one.
    ///
    /// # Errors
    /// [`StoreError::NoSuchBucket`].
    pub fn list_versions(
        &self,
        bucket: &str,
        query: &ListQuery,
        after_version: Option<VersionRef>,
    ) -> Result<ListPage<ListedVersion>, StoreError> {
        let index = self.shared.index();
        let bucket = index.bucket(bucket).ok_or(StoreError::NoSuchBucket)?;
        Ok(index.list_versions(bucket.id, query, after_version))
    }

    /// Replaces the tags of a version, which is otherwise as it was. Durable on return.
    ///
    /// # Errors
    /// [`StoreError::NoSuchBucket`]; [`StoreError::NoSuchVersion`] when `version` is gone.
    pub fn set_tags(
        &self,
        bucket: &str,
        key: &str,
        version: VersionRecord,
        tags: Vec<(String, String)>,
    ) -> Result<(), StoreError> {
        let (bucket, key, version) = (bucket.to_owned(), key.to_owned(), Box::new(version));
        self.committer.submit(|reply| Mutation::SetTags { bucket, key, version, tags, reply })
    }

    /// Puts an object whose bytes are those of `source`, without copying one. A copy of a whole object that was put together
    /// from parts has the same parts. Durable on return.
    ///
    /// # Errors
    /// [`StoreError::NoSuchVersion`] when the source is gone; else as [`ObjectWriter::commit`].
    pub fn copy(
        &self,
        source: CopyRange,
        bucket: &str,
        key: &str,
        commit: Commit,
    ) -> Result<CommittedVersion, StoreError> {
        let (bucket, key) = (self.bucket(bucket)?, key.to_owned());
        let put = Put {
            bucket,
            key,
            content: copy::copy_content(&self.shared, source)?,
            commit,
            md5_by_committer: false,
        };
        self.committer.submit(|reply| Mutation::Put(Box::new(put), reply))
    }

    /// Initiates a multipart upload. Durable on return.
    ///
    /// # Errors
    /// [`StoreError::NoSuchBucket`].
    pub fn create_upload(&self, bucket: &str, key: &str, new: NewUpload) -> Result<UploadRecord, StoreError> {
        let record = self.change_upload(bucket, key, UploadChange::Create(new))?;
        Ok(record.expect("what was created is answered"))
    }

    /// Ends a multipart upload and frees its parts. Durable on return.
    ///
    /// # Errors
    /// [`StoreError::NoSuchBucket`], [`StoreError::NoSuchUpload`].
    pub fn abort_upload(&self, bucket: &str, key: &str, upload: UploadId) -> Result<(), StoreError> {
        self.change_upload(bucket, key, UploadChange::Abort(upload)).map(|_| ())
    }

    fn change_upload(
        &self,
        bucket: &str,
        key: &str,
        change: UploadChange,
    ) -> Result<Option<UploadRecord>, StoreError> {
        let (bucket, key) = (bucket.to_owned(), key.to_owned());
        self.committer.submit(|reply| Mutation::Upload { bucket, key, change, reply })
    }

    /// A multipart upload without its parts.
    ///
    /// # Errors
    /// [`StoreError::NoSuchBucket`], [`StoreError::NoSuchUpload`].
    pub fn upload_record(&self, bucket: &str, key: &str, id: UploadId) -> Result<UploadRecord, StoreError> {
        let index = self.shared.index();
        let bucket = index.bucket(bucket).ok_or(StoreError::NoSuchBucket)?;
        index.upload_record(bucket.id, key.as_bytes(), id).cloned().ok_or(StoreError::NoSuchUpload)
    }

    /// A multipart upload with its parts.
    ///
    /// # Errors
    /// [`StoreError::NoSuchBucket`], [`StoreError::NoSuchUpload`].
    pub fn upload(&self, bucket: &str, key: &str, upload: UploadId) -> Result<Upload, StoreError> {
        let index = self.shared.index();
        let bucket = index.bucket(bucket).ok_or(StoreError::NoSuchBucket)?;
        index.upload(bucket.id, key.as_bytes(), upload).ok_or(StoreError::NoSuchUpload)
    }

    /// A page of the parts of an upload with numbers above `after`.
    ///
    /// # Errors
    /// [`StoreError::NoSuchBucket`], [`StoreError::NoSuchUpload`].
    pub fn list_parts(
        &self,
        (bucket, key): (&str, &str),
        upload: UploadId,
        after: u32,
        limit: usize,
    ) -> Result<PartsPage, StoreError> {
        let index = self.shared.index();
        let (bucket, key) = (index.bucket(bucket).ok_or(StoreError::NoSuchBucket)?.id, key.as_bytes());
        let record = index.upload_record(bucket, key, upload).ok_or(StoreError::NoSuchUpload)?;
        let mut rest = index.parts(bucket, key, upload, after).ok_or(StoreError::NoSuchUpload)?;
        let parts = rest.by_ref().take(limit).map(PartSummary::from).collect();
        Ok(PartsPage { upload: record.into(), parts, truncated: rest.next().is_some() })
    }

    /// How much [`Store::upload`] would bring: what it takes can be reserved before.
    ///
    /// # Errors
    /// [`StoreError::NoSuchBucket`], [`StoreError::NoSuchUpload`].
    pub fn parts_total(&self, bucket: &str, key: &str, upload: UploadId) -> Result<PartsTotal, StoreError> {
        let index = self.shared.index();
        let bucket = index.bucket(bucket).ok_or(StoreError::NoSuchBucket)?.id;
        let parts = index.parts(bucket, key.as_bytes(), upload, 0).ok_or(StoreError::NoSuchUpload)?;
        let add = |total: PartsTotal, part: PartRecord| PartsTotal {
            parts: total.parts + 1,
            extents: total.extents + part.extents.len() as u64,
        };
        Ok(parts.fold(PartsTotal::default(), add))
    }

    /// Takes the bytes of a part.
    ///
    /// # Errors
    /// [`StoreError::NoSuchBucket`], [`StoreError::NoSuchUpload`], [`StoreError::ReadOnly`]; [`StoreError::IndexFull`] as things
    /// are now.
    pub fn part_writer(
        &self,
        bucket: &str,
        key: &str,
        upload: UploadId,
        number: u32,
        expected_len: Option<u64>,
    ) -> Result<PartWriter<'_>, StoreError> {
        self.shared.check_writable()?;
        let (bucket, upload) = self.bucket_and_upload(bucket, key, upload)?;
        self.shared.index_budget().check()?;
        Ok(PartWriter::new(&self.shared, &self.committer, (bucket, key), (upload, number), expected_len))
    }

    /// Makes a part of the bytes of `source`, without copying one. Durable on return.
    ///
    /// # Errors
    /// [`StoreError::NoSuchVersion`] when the source is gone; else as [`PartWriter::commit`].
    pub fn copy_part(
        &self,
        source: CopyRange,
        (bucket, key): (&str, &str),
        (upload, number): (UploadId, u32),
        md5: [u8; 16],
        checksum: Option<Checksum>,
    ) -> Result<PartRecord, StoreError> {
        let (bucket, upload) = self.bucket_and_upload(bucket, key, upload)?;
        let (key, content) = (key.to_owned(), copy::copy_content(&self.shared, source)?);
        let put = PutPart { bucket, key, upload, number, content, md5, checksum };
        self.committer.submit(|reply| Mutation::PutPart(Box::new(put), reply))
    }

    fn bucket_and_upload(
        &self,
        bucket: &str,
        key: &str,
        upload: UploadId,
    ) -> Result<(BucketInfo, UploadRecord), StoreError> {
        let index = self.shared.index();
        let bucket = index.bucket(bucket).ok_or(StoreError::NoSuchBucket)?;
        let upload =
            index.upload_record(bucket.id, key.as_bytes(), upload).ok_or(StoreError::NoSuchUpload)?;
        Ok((bucket.clone(), upload.clone()))
    }

    /// Makes an object of the parts of a multipart upload, without copying a byte, and ends the upload. Durable on
    /// return.
    ///
    /// # Errors
    /// [`StoreError::PartsOutOfOrder`]; [`StoreError::NoSuchUpload`]; [`StoreError::PartReplaced`] when a part is another than
    /// the caller saw; else as [`ObjectWriter::commit`].
    pub fn complete_upload(
        &self,
        bucket: &str,
        key: &str,
        completion: Completion,
    ) -> Result<CommittedVersion, StoreError> {
        let (bucket, key, completion) = (bucket.to_owned(), key.to_owned(), Box::new(completion));
        self.committer.submit(|reply| Mutation::Complete { bucket, key, completion, reply })
    }

    /// The version of a key that was made by completing `upload`, if it is still there.
    ///
    /// # Errors
    /// [`StoreError::NoSuchBucket`].
    pub fn find_completed(
        &self,
        bucket: &str,
        key: &str,
        upload: UploadId,
    ) -> Result<Option<VersionRecord>, StoreError> {
        let index = self.shared.index();
        let bucket = index.bucket(bucket).ok_or(StoreError::NoSuchBucket)?.id;
        let made_by = |record: &VersionRecord| {
            record.upload.as_ref().is_some_and(|made| made.upload == upload && upload != UploadId::NONE)
        };
        Ok(index.records(bucket, key.as_bytes()).find(made_by))
    }

    /// A page of the multipart uploads in a bucket: keys ascending, then by initiation. With `after_id`, the page begins with
    /// the uploads of the key `query.after` that have a greater id.
    ///
    /// # Errors
    /// [`StoreError::NoSuchBucket`].
    pub fn list_uploads(
        &self,
        bucket: &str,
        query: &ListQuery,
        after_id: Option<UploadId>,
    ) -> Result<ListPage<UploadSummary>, StoreError> {
        let index = self.shared.index();
        let bucket = index.bucket(bucket).ok_or(StoreError::NoSuchBucket)?;
        Ok(index.list_uploads(bucket.id, query, after_id))
    }

    /// Writes a checkpoint of what is visible, so that the next start is quick.
    ///
    /// # Errors
    /// [`StoreError::DiskFull`]: the store goes on without the checkpoint; [`StoreError::ReadOnly`]; after another error of the
    /// disk the store takes no more writes.
    pub fn checkpoint(&self) -> Result<(), StoreError> {
        checkpointer::write(&self.shared)
    }

    /// How the store is.
    pub fn health(&self) -> Health {
        let mut health = self.shared.health();
        self.scrubber.add_to_health(&self.shared, &mut health);
        health
    }
}

/// Whether extents and parts of a version are wanted.
#[derive(Clone, Copy, PartialEq, Eq)]
enum RecordDetail {
    Full,
    Outline,
}

fn look_up<'i>(
    index: &'i Index,
    (bucket, key): (&str, &str),
    which: Selector,
    detail: RecordDetail,
) -> Result<(&'i BucketInfo, VersionRecord), StoreError> {
    let bucket = index.bucket(bucket).ok_or(StoreError::NoSuchBucket)?;
    let (id, key) = (bucket.id, key.as_bytes());
    let accepts = |version: &VersionSummary| which.accepts(version);
    let found = match (which, detail) {
        (Selector::Id(named), RecordDetail::Full) => index.version(id, key, named).filter(|v| !v.null),
        (Selector::Id(named), RecordDetail::Outline) => {
            index.version_outline(id, key, named).filter(|v| !v.null)
        }
        (_, RecordDetail::Full) => index.find(id, key, accepts),
        (_, RecordDetail::Outline) => index.find_outline(id, key, accepts),
    };
    match found {
        Some(version) => Ok((bucket, version)),
        None if which == Selector::Current => Err(StoreError::NoSuchKey),
        None => Err(StoreError::NoSuchVersion),
    }
}

/// Keys are UTF-8 when they come in. A delimiter of several bytes always ends at a character's end, since both it and the
/// key are UTF-8.
fn text(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes).unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned())
}

#[cfg(test)]
mod tests;
