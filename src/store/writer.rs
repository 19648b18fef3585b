//! Taking in objects and parts. A small one is kept in memory and packed by the committer; a large one goes to a segment
//! while it arrives.

use std::sync::Arc;

use crate::base::digest::Crc32;
use crate::base::limits::{EXTENT_PAYLOAD_MAX_BYTES, MIB, OBJECT_SIZE_MAX_BYTES, PACKED_PAYLOAD_MAX_BYTES};
use crate::format::{
    BucketRecord, Checksum, Descriptor, ExtentRef, PartRecord, Purpose, UploadId, VersionId, VersionRecord,
    Versioning,
};
use crate::log::{Lane, Segment, StreamExtent};
use crate::store::committer::Committer;
use crate::store::mutation::{Content, Mutation, Put, PutPart};
use crate::store::shared::Shared;
use crate::store::{Commit, StoreError, Trouble, Written};

/// The first extent of an object whose length is not known; the next ones are twice as large each.
const FIRST_EXTENT_BYTES: u64 = MIB;

/// Takes the bytes of an object. Nothing can be seen of it before [`ObjectWriter::commit`]; dropping it abandons the bytes.
pub struct ObjectWriter<'s> {
    intake: Intake<'s>,
    committer: &'s Committer,
}

impl<'s> ObjectWriter<'s> {
    pub(super) fn new(
        shared: &'s Shared,
        committer: &'s Committer,
        bucket: BucketRecord,
        key: &str,
        expected_len: Option<u64>,
    ) -> Self {
        Self { intake: Intake::new(shared, bucket, key, None, expected_len), committer }
    }

    /// The bucket that the object will be in.
    pub fn bucket(&self) -> &BucketRecord {
        &self.intake.bucket
    }

    /// Bytes so far.
    #[expect(
        clippy::len_without_is_empty,
        reason = "a writer is asked how much it took, never whether it took any"
    )]
    pub fn len(&self) -> u64 {
        self.intake.len()
    }

    /// The CRC-32 of the bytes so far. That of a large object is put together from those of its blocks.
    pub fn crc32(&self) -> u32 {
        self.intake.crc32()
    }

    /// Takes more bytes.
    ///
    /// # Errors
    /// [`StoreError::DiskFull`], [`StoreError::TooLarge`], or when the disk fails; the writer is of no use then.
    pub fn write(&mut self, bytes: &[u8]) -> Result<(), StoreError> {
        self.intake.write(bytes)
    }

    /// Puts the object in its place. Data, entry and directory are durable on return, and only then is it visible.
    ///
    /// # Errors
    /// [`StoreError::PreconditionFailed`] and [`StoreError::NoSuchKey`] from the condition;
    /// [`StoreError::NoSuchBucket`] when the bucket has been deleted meanwhile; [`StoreError::DiskFull`];
    /// [`StoreError::ReadOnly`].
    pub fn commit(mut self, commit: Commit) -> Result<Written, StoreError> {
        let null = self.intake.bucket.versioning != Versioning::Enabled;
        let modified = self.intake.shared.clock.now();
        // As far as it is known before the commit decides.
        let record = |id, size| {
            let (id, commit) = (VersionId(id), commit.clone());
            Purpose::Object(Some(Box::new(commit.into_record(id, null, modified, size, Vec::new()))))
        };
        let content = self.intake.finish(record)?;
        let put = Put { bucket: self.intake.bucket, key: self.intake.key, content, commit };
        self.committer.submit(|reply| Mutation::Put(Box::new(put), reply))
    }
}

impl Commit {
    /// The version that is committed.
    pub(super) fn into_record(
        self,
        id: VersionId,
        null: bool,
        modified: crate::base::Timestamp,
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
    intake: Intake<'s>,
    committer: &'s Committer,
    upload: UploadId,
    number: u32,
}

impl<'s> PartWriter<'s> {
    pub(super) fn new(
        shared: &'s Shared,
        committer: &'s Committer,
        (bucket, key): (BucketRecord, &str),
        (upload, number): (UploadId, u32),
        expected_len: Option<u64>,
    ) -> Self {
        Self {
            intake: Intake::new(shared, bucket, key, Some(upload), expected_len),
            committer,
            upload,
            number,
        }
    }

    /// Bytes so far.
    #[expect(
        clippy::len_without_is_empty,
        reason = "a writer is asked how much it took, never whether it took any"
    )]
    pub fn len(&self) -> u64 {
        self.intake.len()
    }

    /// The CRC-32 of the bytes so far.
    pub fn crc32(&self) -> u32 {
        self.intake.crc32()
    }

    /// Takes more bytes.
    ///
    /// # Errors
    /// As [`ObjectWriter::write`].
    pub fn write(&mut self, bytes: &[u8]) -> Result<(), StoreError> {
        self.intake.write(bytes)
    }

    /// Makes it the part with its number. Durable on return.
    ///
    /// # Errors
    /// [`StoreError::NoSuchUpload`] when the upload has been completed or aborted meanwhile; [`StoreError::DiskFull`];
    /// [`StoreError::ReadOnly`].
    pub fn commit(mut self, md5: [u8; 16], checksum: Option<Checksum>) -> Result<PartRecord, StoreError> {
        let (upload, number) = (self.upload, self.number);
        let modified = self.intake.shared.clock.now();
        let record = |id, size| {
            let checksum = checksum.clone();
            let part = PartRecord { number, id, modified, size, md5, extents: Vec::new(), checksum };
            Purpose::Part(upload, Some(Box::new(part)))
        };
        let content = self.intake.finish(record)?;
        let (bucket, key) = (self.intake.bucket, self.intake.key);
        let put = PutPart { bucket, key, upload, number, content, md5, checksum };
        self.committer.submit(|reply| Mutation::PutPart(Box::new(put), reply))
    }
}

/// The bytes of an object or part on their way in.
struct Intake<'s> {
    shared: &'s Shared,
    bucket: BucketRecord,
    key: String,
    /// Of a part, the upload.
    upload: Option<UploadId>,
    expected_len: Option<u64>,
    /// All bytes so far, while they are few.
    buffer: Vec<u8>,
    stream: Stream,
}

/// The extents of what is not small.
#[derive(Default)]
struct Stream {
    write: u64,
    len: u64,
    open: Option<StreamExtent>,
    extents: Vec<ExtentRef>,
    /// The CRC of the finished extents.
    crc: u32,
    /// What has to be synced.
    segments: Vec<Arc<Segment>>,
}

impl<'s> Intake<'s> {
    fn new(
        shared: &'s Shared,
        bucket: BucketRecord,
        key: &str,
        upload: Option<UploadId>,
        expected_len: Option<u64>,
    ) -> Self {
        let (buffer, stream) = (Vec::new(), Stream::default());
        Self { shared, bucket, key: key.to_owned(), upload, expected_len, buffer, stream }
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

    fn write(&mut self, bytes: &[u8]) -> Result<(), StoreError> {
        let len = self.len() + bytes.len() as u64;
        if len > OBJECT_SIZE_MAX_BYTES {
            return Err(StoreError::TooLarge);
        }
        if self.stream.len == 0 && len <= PACKED_PAYLOAD_MAX_BYTES {
            self.reserve_buffer(bytes.len());
            self.buffer.extend_from_slice(bytes);
            return Ok(());
        }
        let buffered = std::mem::take(&mut self.buffer);
        self.append(&buffered)?;
        self.append(bytes)
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
            if self.stream.open.as_ref().is_none_or(|open| open.room() == 0) {
                self.finish_extent()?;
                self.stream.open = Some(self.start_extent()?);
            }
            let open = self.stream.open.as_mut().expect("it was opened where it was missing");
            let (now, later) = bytes.split_at(bytes.len().min(open.room() as usize));
            open.write(now).map_err(|error| self.shared.write_failed(error))?;
            self.stream.len += now.len() as u64;
            bytes = later;
        }
        Ok(())
    }

    fn start_extent(&mut self) -> Result<StreamExtent, StoreError> {
        if self.stream.write == 0 {
            self.stream.write = self.shared.stamps.next();
        }
        let capacity = match self.expected_len.and_then(|expected| expected.checked_sub(self.stream.len)) {
            Some(rest) if rest > 0 => rest,
            _ => FIRST_EXTENT_BYTES << self.stream.extents.len().min(8),
        };
        self.place(capacity.min(EXTENT_PAYLOAD_MAX_BYTES), &self.descriptor(self.not_last()))
    }

    fn place(&self, capacity: u64, descriptor: &Descriptor) -> Result<StreamExtent, StoreError> {
        let room = StreamExtent::room_for(capacity, descriptor.encode().len() as u64);
        let place = self
            .shared
            .segments
            .place(Lane::Stream, room)
            .map_err(|error| self.shared.write_failed(error))?;
        Ok(StreamExtent::new(place, capacity))
    }

    fn not_last(&self) -> Purpose {
        self.upload.map_or(Purpose::Object(None), |upload| Purpose::Part(upload, None))
    }

    fn descriptor(&self, purpose: Purpose) -> Descriptor {
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
            self.finish_with(open, &descriptor)?;
        }
        Ok(())
    }

    fn finish_with(&mut self, extent: StreamExtent, descriptor: &Descriptor) -> Result<(), StoreError> {
        let (extent, segment) =
            extent.finish(&self.shared.store, descriptor).map_err(|error| self.shared.write_failed(error))?;
        self.stream.extents.push(extent);
        if self.stream.segments.iter().all(|known| known.id != segment.id) {
            self.stream.segments.push(segment);
        }
        Ok(())
    }

    /// What the committer is given. Of what is not small, it writes the last extent, with the record that `record` makes of
    /// id and size, and syncs all of them.
    fn finish(&mut self, record: impl FnOnce(u64, u64) -> Purpose) -> Result<Content, StoreError> {
        if self.stream.len == 0 {
            let payload = std::mem::take(&mut self.buffer);
            let crc = Crc32::of(&payload);
            return Ok(Content::Packed { payload, crc });
        }
        self.finish_extent()?;
        let (id, size) = (self.shared.stamps.next(), self.stream.len);
        let descriptor = self.descriptor(record(id, size));
        let last = self.place(0, &descriptor)?;
        self.finish_with(last, &descriptor)?;
        for segment in &self.stream.segments {
            segment.file.sync_data().map_err(|error| self.sync_failed(segment, &error))?;
        }
        Ok(Content::Stored { extents: std::mem::take(&mut self.stream.extents), id, size })
    }

    fn sync_failed(&self, segment: &Segment, error: &std::io::Error) -> StoreError {
        let why = format!("syncing {} failed: {error}", segment.path());
        self.shared.latch(Trouble::SyncFailed, why.clone());
        StoreError::ReadOnly(why)
    }
}
