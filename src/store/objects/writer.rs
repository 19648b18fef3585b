//! Writing the bytes of objects and parts. Small ones are buffered and packed by the committer;
//! large ones go to segments as they arrive.

use std::borrow::Cow;

use crate::base::Timestamp;
use crate::base::digest::Crc32;
use crate::base::limits::{EXTENT_PAYLOAD_MAX_BYTES, MIB, OBJECT_SIZE_MAX_BYTES, PACKED_PAYLOAD_MAX_BYTES};
use crate::format::{
    BucketRecord, Checksum, Descriptor, ExtentPurpose, ExtentRef, PartRecord, RebuildRecord, UploadId,
    UploadRecord, VersionId, VersionRecord, Versioning,
};
use crate::log::{Allocation, Segment, StreamExtent, WriteHead};
use crate::store::commit::committer::Committer;
use crate::store::commit::mutation::{Content, Mutation, Put, PutPart, StoredContent};
use crate::store::commit::requests::stated_before;
use crate::store::shared::SharedStore;
use crate::store::{Commit, CommittedVersion, ReadOnlyReason, StoreError};

/// The first extent of a body of unknown length. Each following extent is twice as large, up to the
/// maximum.
const FIRST_EXTENT_BYTES: u64 = MIB;

/// A writer for an object. The object is visible only after [`ObjectWriter::commit`]; dropping the
/// writer abandons the bytes.
pub struct ObjectWriter<'s> {
    sink: BodySink<'s>,
    committer: &'s Committer,
}

impl<'s> ObjectWriter<'s> {
    pub(in crate::store) fn new(
        shared: &'s SharedStore,
        committer: &'s Committer,
        bucket: BucketRecord,
        key: &str,
        expected_len: Option<u64>,
    ) -> Self {
        Self { sink: BodySink::new(shared, bucket, key, None, expected_len), committer }
    }

    /// The bucket of the object.
    pub fn bucket(&self) -> &BucketRecord {
        &self.sink.bucket
    }

    /// Bytes so far.
    #[expect(clippy::len_without_is_empty, reason = "callers want the length, never whether it is zero")]
    pub fn len(&self) -> u64 {
        self.sink.len()
    }

    /// The CRC-32 of the bytes so far. For a large object it is combined from the CRCs of its
    /// blocks, at no cost per byte.
    pub fn crc32(&self) -> u32 {
        self.sink.crc32()
    }

    /// Adds bytes. If all bytes of a small object come in one owned buffer, they are not copied.
    ///
    /// # Errors
    /// [`StoreError::DiskFull`], [`StoreError::TooLarge`], or an error of the disk. The writer
    /// cannot be used afterwards.
    pub fn write<'b>(&mut self, bytes: impl Into<Cow<'b, [u8]>>) -> Result<(), StoreError> {
        self.sink.write(bytes.into())
    }

    /// Commits the object. Data, entry and directory are durable on return, and the object is
    /// visible.
    ///
    /// # Errors
    /// [`StoreError::PreconditionFailed`] and [`StoreError::NoSuchKey`] from the condition;
    /// [`StoreError::NoSuchBucket`] if the bucket has been deleted in the meantime;
    /// [`StoreError::QuotaExceeded`]; [`StoreError::DiskFull`]; [`StoreError::ReadOnly`].
    pub fn commit(self, commit: Commit) -> Result<CommittedVersion, StoreError> {
        self.put(commit, false)
    }

    /// Like [`ObjectWriter::commit`], but the committer computes the entity tag, the MD5 of the
    /// bytes, for [`Md5Owner::Committer`](crate::base::Md5Owner::Committer). An object above
    /// [`PACKED_PAYLOAD_MAX_BYTES`] keeps the entity tag of `commit`.
    ///
    /// # Errors
    /// As [`ObjectWriter::commit`].
    pub fn commit_with_md5(self, commit: Commit) -> Result<CommittedVersion, StoreError> {
        self.put(commit, true)
    }

    fn put(mut self, commit: Commit, md5_by_committer: bool) -> Result<CommittedVersion, StoreError> {
        let bucket = self.sink.bucket.clone();
        let content = self.sink.finish(|ProvisionalRecord { id, size, modified, null }| {
            let record = commit.clone().into_record(VersionId(id), null, modified, size, Vec::new());
            ExtentPurpose::ObjectRecord(RebuildRecord::in_bucket(&bucket, Vec::new(), record))
        })?;
        let put = Put { bucket, key: self.sink.key.clone(), content, commit, md5_by_committer };
        let answer = self.committer.submit(|reply| Mutation::Put(Box::new(put), reply));
        self.sink.clear_record_if_refused(answer)
    }
}

impl Commit {
    /// The record of the committed version.
    pub(in crate::store) fn into_record(
        self,
        id: VersionId,
        null: bool,
        modified: Timestamp,
        size: u64,
        extents: Vec<ExtentRef>,
    ) -> VersionRecord {
        VersionRecord {
            id,
            null,
            delete_marker: false,
            modified,
            size,
            etag: self.etag,
            storage_class: self.storage_class,
            extents,
            attributes: self.attributes,
            checksums: self.checksums,
            tags: self.tags,
            controls: self.controls,
            controls_stamp: None,
            upload: None,
            stated_time: stated_before(self.stated_time, modified),
        }
    }
}

/// A writer for a part. Dropping it abandons the bytes.
pub struct PartWriter<'s> {
    sink: BodySink<'s>,
    committer: &'s Committer,
    upload: UploadRecord,
    number: u32,
}

impl<'s> PartWriter<'s> {
    pub(in crate::store) fn new(
        shared: &'s SharedStore,
        committer: &'s Committer,
        (bucket, key): (BucketRecord, &str),
        (upload, number): (UploadRecord, u32),
        expected_len: Option<u64>,
    ) -> Self {
        let sink = BodySink::new(shared, bucket, key, Some(upload.id), expected_len);
        Self { sink, committer, upload, number }
    }

    /// Bytes so far.
    #[expect(clippy::len_without_is_empty, reason = "callers want the length, never whether it is zero")]
    pub fn len(&self) -> u64 {
        self.sink.len()
    }

    /// The CRC-32 of the bytes so far.
    pub fn crc32(&self) -> u32 {
        self.sink.crc32()
    }

    /// Adds bytes.
    ///
    /// # Errors
    /// As [`ObjectWriter::write`].
    pub fn write<'b>(&mut self, bytes: impl Into<Cow<'b, [u8]>>) -> Result<(), StoreError> {
        self.sink.write(bytes.into())
    }

    /// Commits the part under its number. Durable on return.
    ///
    /// # Errors
    /// [`StoreError::NoSuchUpload`] if the upload has been completed or aborted in the meantime;
    /// [`StoreError::DiskFull`]; [`StoreError::ReadOnly`].
    pub fn commit(mut self, md5: [u8; 16], checksum: Option<Checksum>) -> Result<PartRecord, StoreError> {
        let bucket = self.sink.bucket.clone();
        let number = self.number;
        let content = self.sink.finish(|ProvisionalRecord { id, size, modified, .. }| {
            let checksum = checksum.clone();
            let record = PartRecord { number, id, modified, size, md5, extents: Vec::new(), checksum };
            let part = RebuildRecord::in_bucket(&bucket, Vec::new(), record);
            ExtentPurpose::PartRecord(Box::new(self.upload.clone()), part)
        })?;
        let key = self.sink.key.clone();
        let put = PutPart { bucket, key, upload: self.upload, number, content, md5, checksum };
        let answer = self.committer.submit(|reply| Mutation::PutPart(Box::new(put), reply));
        self.sink.clear_record_if_refused(answer)
    }
}

/// The sink for the bytes of an object or part.
struct BodySink<'s> {
    shared: &'s SharedStore,
    bucket: BucketRecord,
    key: String,
    /// The upload of a part.
    upload: Option<UploadId>,
    expected_len: Option<u64>,
    /// All bytes of a body that may still be packed.
    buffer: Vec<u8>,
    stream: ExtentStream,
    /// The length at the end.
    finished_len: u64,
}

/// The extents of a large body.
#[derive(Default)]
struct ExtentStream {
    write: u64,
    len: u64,
    open: Option<StreamExtent>,
    extents: Vec<ExtentRef>,
    /// The CRC of the finished extents.
    crc: u32,
    /// One allocation per segment. The segments are synced, and kept until the commit is published.
    places: Vec<Allocation>,
    /// The allocation of the last extent, which carries the record.
    record: Option<Allocation>,
}

/// The record of a large body as expected before the commit decides. It stays valid unless the
/// commit decides otherwise.
#[derive(Clone, Copy)]
struct ProvisionalRecord {
    id: u64,
    size: u64,
    modified: Timestamp,
    null: bool,
}

impl<'s> BodySink<'s> {
    fn new(
        shared: &'s SharedStore,
        bucket: BucketRecord,
        key: &str,
        upload: Option<UploadId>,
        expected_len: Option<u64>,
    ) -> Self {
        let buffer = Vec::new();
        let stream = ExtentStream::default();
        Self { shared, bucket, key: key.to_owned(), upload, expected_len, buffer, stream, finished_len: 0 }
    }

    fn len(&self) -> u64 {
        self.stream.len + self.buffer.len() as u64
    }

    fn crc32(&self) -> u32 {
        match &self.stream.open {
            Some(open) => Crc32::combine(self.stream.crc, open.payload_crc(), open.payload_len()),
            None if self.stream.len > 0 => self.stream.crc,
            None => Crc32::of(&self.buffer),
        }
    }

    fn write(&mut self, bytes: Cow<'_, [u8]>) -> Result<(), StoreError> {
        let len = self.len() + bytes.len() as u64;
        if len > OBJECT_SIZE_MAX_BYTES {
            return Err(StoreError::TooLarge);
        }
        if self.stream.len == 0 && len <= PACKED_PAYLOAD_MAX_BYTES {
            self.buffer(bytes);
            return Ok(());
        }
        let buffered = std::mem::take(&mut self.buffer);
        self.append(&buffered)?;
        self.append(&bytes)
    }

    /// Buffers bytes of a body that may be small. An owned first buffer is kept without its spare
    /// capacity.
    fn buffer(&mut self, bytes: Cow<'_, [u8]>) {
        match bytes {
            Cow::Owned(mut all) if self.buffer.is_empty() => {
                all.shrink_to_fit();
                self.buffer = all;
            }
            bytes => {
                self.reserve_buffer(bytes.len());
                self.buffer.extend_from_slice(&bytes);
            }
        }
    }

    /// Reserves the expected length, up to the maximum of a packed payload.
    fn reserve_buffer(&mut self, more: usize) {
        if self.buffer.capacity() == 0 {
            let expected = self.expected_len.unwrap_or(0).min(PACKED_PAYLOAD_MAX_BYTES);
            self.buffer.reserve_exact(more.max(expected as usize));
        }
    }

    fn append(&mut self, mut bytes: &[u8]) -> Result<(), StoreError> {
        while !bytes.is_empty() {
            if self.stream.open.as_ref().is_none_or(|open| open.remaining() == 0) {
                self.finish_extent()?;
                self.stream.open = Some(self.start_extent()?);
            }
            let open = self.stream.open.as_mut().expect("an extent was started above");
            let (now, later) = bytes.split_at(bytes.len().min(open.remaining() as usize));
            open.write(now).map_err(|error| self.shared.write_failed(error))?;
            self.stream.len += now.len() as u64;
            bytes = later;
        }
        Ok(())
    }

    fn start_extent(&mut self) -> Result<StreamExtent, StoreError> {
        if self.stream.write == 0 {
            self.stream.write = self.shared.ids.next();
        }
        let capacity = match self.expected_len.and_then(|expected| expected.checked_sub(self.stream.len)) {
            Some(rest) if rest > 0 => rest,
            _ => FIRST_EXTENT_BYTES << self.stream.extents.len().min(8),
        };
        self.place(capacity.min(EXTENT_PAYLOAD_MAX_BYTES), &self.descriptor(self.not_last()))
    }

    fn place(&self, capacity: u64, descriptor: &Descriptor) -> Result<StreamExtent, StoreError> {
        let room = StreamExtent::space_for(capacity, descriptor.encode().len() as u64);
        let place = self
            .shared
            .segments
            .allocate(WriteHead::Large, room)
            .map_err(|error| self.shared.write_failed(error))?;
        Ok(StreamExtent::new(place, capacity))
    }

    fn not_last(&self) -> ExtentPurpose {
        self.upload.map_or(ExtentPurpose::Object(None), |upload| ExtentPurpose::Part(upload, None))
    }

    fn descriptor(&self, purpose: ExtentPurpose) -> Descriptor {
        Descriptor {
            bucket: self.bucket.id,
            bucket_name: self.bucket.name.clone(),
            key: self.key.clone().into_bytes(),
            write: self.stream.write,
            position: self.stream.len,
            purpose,
        }
    }

    fn finish_extent(&mut self) -> Result<(), StoreError> {
        if let Some(open) = self.stream.open.take() {
            let mut descriptor = self.descriptor(self.not_last());
            descriptor.position -= open.payload_len();
            self.stream.crc = Crc32::combine(self.stream.crc, open.payload_crc(), open.payload_len());
            let place = self.finish_with(open, &descriptor)?;
            if self.stream.places.iter().all(|known| known.segment.id != place.segment.id) {
                self.stream.places.push(place);
            }
        }
        Ok(())
    }

    fn finish_with(
        &mut self,
        extent: StreamExtent,
        descriptor: &Descriptor,
    ) -> Result<Allocation, StoreError> {
        let (extent, place) =
            extent.finish(&self.shared.store, descriptor).map_err(|error| self.shared.write_failed(error))?;
        self.stream.extents.push(extent);
        Ok(place)
    }

    /// The content for the committer. For a large body, writes the last extent with the provisional
    /// record of `purpose`, and syncs all its segments.
    fn finish(
        &mut self,
        purpose: impl FnOnce(ProvisionalRecord) -> ExtentPurpose,
    ) -> Result<Content, StoreError> {
        self.finished_len = self.len();
        if self.stream.len == 0 {
            let payload = std::mem::take(&mut self.buffer);
            let crc = Crc32::of(&payload);
            return Ok(Content::Packed { payload, crc });
        }
        self.finish_extent()?;
        let provisional = ProvisionalRecord {
            id: self.shared.ids.next(),
            size: self.stream.len,
            modified: self.shared.lock_clock.stamp_time(),
            null: self.bucket.versioning != Versioning::Enabled,
        };
        let descriptor = self.descriptor(purpose(provisional));
        let last = self.place(0, &descriptor)?;
        self.stream.record = Some(self.finish_with(last, &descriptor)?);
        let ExtentStream { places, record, .. } = &self.stream;
        let is_new = |last: &&Allocation| places.iter().all(|known| known.segment.id != last.segment.id);
        for Allocation { segment, .. } in places.iter().chain(record.iter().filter(is_new)) {
            let synced = self.shared.commit_counters.sync_segment(segment.file.as_ref());
            synced.map_err(|error| self.sync_failed(segment, &error))?;
        }
        let (ProvisionalRecord { id, size, modified, null }, write) = (provisional, self.stream.write);
        let extents = std::mem::take(&mut self.stream.extents);
        Ok(Content::Stored(StoredContent { extents, write, id, size, modified, null }))
    }

    /// Passes on the reply of the committer. Erases the provisional record of a refused commit
    /// first: a rebuild from segments must not restore it.
    fn clear_record_if_refused<T>(&mut self, answer: Result<T, StoreError>) -> Result<T, StoreError> {
        if answer.is_ok() {
            self.shared.write_counters.count_payload(self.finished_len);
        }
        if let (Err(refusal), Some(record)) = (&answer, self.stream.record.take()) {
            // After these errors the commit may be durable.
            let may_be_durable = matches!(
                refusal,
                StoreError::ReadOnly(_) | StoreError::InDoubt(_) | StoreError::Io(_) | StoreError::Closed
            );
            if !may_be_durable {
                record.erase().map_err(|error| self.shared.write_failed(error))?;
            }
        }
        answer
    }

    fn sync_failed(&self, segment: &Segment, error: &std::io::Error) -> StoreError {
        let why = format!("syncing {} failed: {error}", segment.path());
        self.shared.latch(ReadOnlyReason::SyncFailed, why.clone());
        StoreError::ReadOnly(why)
    }
}
