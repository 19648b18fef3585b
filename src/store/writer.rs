//! Taking in objects and parts. A small one is kept in memory and packed by the committer; a large one goes to a segment
//! while it arrives.

use std::borrow::Cow;

use crate::base::Timestamp;
use crate::base::digest::Crc32;
use crate::base::limits::{EXTENT_PAYLOAD_MAX_BYTES, MIB, OBJECT_SIZE_MAX_BYTES, PACKED_PAYLOAD_MAX_BYTES};
use crate::format::{
    BucketRecord, Checksum, Descriptor, ExtentPurpose, ExtentRef, PartRecord, RebuildRecord, UploadId,
    UploadRecord, VersionId, VersionRecord, Versioning,
};
use crate::log::{Allocation, Segment, StreamExtent, WriteHead};
use crate::store::committer::Committer;
use crate::store::mutation::{Content, Mutation, Put, PutPart, StoredContent};
use crate::store::shared::SharedStore;
use crate::store::{Commit, CommittedVersion, ReadOnlyReason, StoreError};

/// The first extent of an object whose length is not known; the next ones are twice as large each.
const FIRST_EXTENT_BYTES: u64 = MIB;

/// Takes the bytes of an object. Nothing can be seen of it before [`ObjectWriter::commit`]; dropping it abandons the bytes.
pub struct ObjectWriter<'s> {
    sink: BodySink<'s>,
    committer: &'s Committer,
}

impl<'s> ObjectWriter<'s> {
    pub(super) fn new(
        shared: &'s SharedStore,
        committer: &'s Committer,
        bucket: BucketRecord,
        key: &str,
        expected_len: Option<u64>,
    ) -> Self {
        Self { sink: BodySink::new(shared, bucket, key, None, expected_len), committer }
    }

    /// The bucket that the object will be in.
    pub fn bucket(&self) -> &BucketRecord {
        &self.sink.bucket
    }

    /// Bytes so far.
    #[expect(
        clippy::len_without_is_empty,
        reason = "a writer is asked how much it took, never whether it took any"
    )]
    pub fn len(&self) -> u64 {
        self.sink.len()
    }

    /// The CRC-32 of the bytes so far. That of a large object is put together from those of its blocks.
    pub fn crc32(&self) -> u32 {
        self.sink.crc32()
    }

    /// Takes more bytes. Those of a small object are not copied where they come all at once, in memory of their own.
    ///
    /// # Errors
    /// [`StoreError::DiskFull`], [`StoreError::TooLarge`], or when the disk fails; the writer is of no use then.
    pub fn write<'b>(&mut self, bytes: impl Into<Cow<'b, [u8]>>) -> Result<(), StoreError> {
        self.sink.write(bytes.into())
    }

    /// Puts the object in its place. Data, entry and directory are durable on return, and only then is it visible.
    ///
    /// # Errors
    /// [`StoreError::PreconditionFailed`] and [`StoreError::NoSuchKey`] from the condition;
    /// [`StoreError::NoSuchBucket`] when the bucket has been deleted meanwhile; [`StoreError::DiskFull`];
    /// [`StoreError::ReadOnly`].
    pub fn commit(self, commit: Commit) -> Result<CommittedVersion, StoreError> {
        self.put(commit, false)
    }

    /// Like [`ObjectWriter::commit`], but the committer computes the entity tag, the MD5 of the bytes, for
    /// [`Md5Owner::Committer`](crate::base::Md5Owner::Committer). An object above [`PACKED_PAYLOAD_MAX_BYTES`] keeps the entity
    /// tag of `commit`.
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
    /// The version that is committed.
    pub(super) fn into_record(
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
            extents,
            attributes: self.attributes,
            checksums: self.checksums,
            tags: self.tags,
            upload: None,
        }
    }
}

/// Takes the bytes of a part. Dropping it abandons them.
pub struct PartWriter<'s> {
    sink: BodySink<'s>,
    committer: &'s Committer,
    upload: UploadRecord,
    number: u32,
}

impl<'s> PartWriter<'s> {
    pub(super) fn new(
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
    #[expect(
        clippy::len_without_is_empty,
        reason = "a writer is asked how much it took, never whether it took any"
    )]
    pub fn len(&self) -> u64 {
        self.sink.len()
    }

    /// The CRC-32 of the bytes so far.
    pub fn crc32(&self) -> u32 {
        self.sink.crc32()
    }

    /// Takes more bytes.
    ///
    /// # Errors
    /// As [`ObjectWriter::write`].
    pub fn write<'b>(&mut self, bytes: impl Into<Cow<'b, [u8]>>) -> Result<(), StoreError> {
        self.sink.write(bytes.into())
    }

    /// Makes it the part with its number. Durable on return.
    ///
    /// # Errors
    /// [`StoreError::NoSuchUpload`] when the upload has been completed or aborted meanwhile; [`StoreError::DiskFull`];
    /// [`StoreError::ReadOnly`].
    pub fn commit(mut self, md5: [u8; 16], checksum: Option<Checksum>) -> Result<PartRecord, StoreError> {
        let (bucket, number) = (self.sink.bucket.clone(), self.number);
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

/// The bytes of an object or part on their way in.
struct BodySink<'s> {
    shared: &'s SharedStore,
    bucket: BucketRecord,
    key: String,
    /// Of a part, the upload.
    upload: Option<UploadId>,
    expected_len: Option<u64>,
    /// All bytes so far, while they are few.
    buffer: Vec<u8>,
    stream: ExtentStream,
    /// How many bytes there were at the end.
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
    /// A place in every segment written to: what has to be synced, and kept until the commit is published.
    places: Vec<Allocation>,
    /// The place of the last extent, which brings the record.
    record: Option<Allocation>,
}

/// What the record of something that is not small says, as far as it is known before the commit decides.
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
        let (buffer, stream) = (Vec::new(), ExtentStream::default());
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

    /// Keeps what is all of a small object, or may be; what comes with memory of its own, without the room behind it.
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

    /// Never more than one block, however much was announced.
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
            let open = self.stream.open.as_mut().expect("it was opened where it was missing");
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

    /// What the committer is given. Of what is not small, the last extent is written here, with the record that `purpose`
    /// makes, and all of it is synced.
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
            modified: self.shared.clock.now(),
            null: self.bucket.versioning != Versioning::Enabled,
        };
        let descriptor = self.descriptor(purpose(provisional));
        let last = self.place(0, &descriptor)?;
        self.stream.record = Some(self.finish_with(last, &descriptor)?);
        let ExtentStream { places, record, .. } = &self.stream;
        let is_new = |last: &&Allocation| places.iter().all(|known| known.segment.id != last.segment.id);
        for Allocation { segment, .. } in places.iter().chain(record.iter().filter(is_new)) {
            segment.file.sync_data().map_err(|error| self.sync_failed(segment, &error))?;
        }
        let (ProvisionalRecord { id, size, modified, null }, write) = (provisional, self.stream.write);
        let extents = std::mem::take(&mut self.stream.extents);
        Ok(Content::Stored(StoredContent { extents, write, id, size, modified, null }))
    }

    /// Hands on what the committer answered. A record that was refused is taken back first: a log that is made from segments
    /// alone must not bring what never was.
    fn clear_record_if_refused<T>(&mut self, answer: Result<T, StoreError>) -> Result<T, StoreError> {
        if answer.is_ok() {
            self.shared.write_counters.count_payload(self.finished_len);
        }
        if let (Err(refusal), Some(record)) = (&answer, self.stream.record.take()) {
            // After a failed sync nobody knows whether the commit is on disk.
            if !matches!(refusal, StoreError::ReadOnly(_) | StoreError::Io(_) | StoreError::Closed) {
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
