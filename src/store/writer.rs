//! Taking in objects. A small one is kept in memory and packed by the committer; a large one goes to a segment while it
//! arrives.

use std::sync::Arc;

use crate::base::digest::Crc32;
use crate::base::limits::{EXTENT_PAYLOAD_MAX_BYTES, MIB, OBJECT_SIZE_MAX_BYTES, PACKED_PAYLOAD_MAX_BYTES};
use crate::format::{BucketRecord, Descriptor, ExtentRef, Last, VersionId, VersionRecord, Versioning};
use crate::log::{Lane, Segment, StreamExtent};
use crate::store::committer::Committer;
use crate::store::mutation::{Content, Mutation, Put};
use crate::store::shared::Shared;
use crate::store::{Commit, StoreError, Written};

/// The first extent of an object whose length is not known; the next ones are twice as large each.
const FIRST_EXTENT_BYTES: u64 = MIB;

/// Takes the bytes of an object. Nothing can be seen of it before [`ObjectWriter::commit`]; dropping it abandons the bytes.
pub struct ObjectWriter<'s> {
    shared: &'s Shared,
    committer: &'s Committer,
    bucket: BucketRecord,
    key: String,
    expected_len: Option<u64>,
    /// The object so far, while it is small.
    buffer: Vec<u8>,
    stream: Stream,
}

/// The extents of a large object.
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

impl<'s> ObjectWriter<'s> {
    pub(super) fn new(
        shared: &'s Shared,
        committer: &'s Committer,
        bucket: BucketRecord,
        key: &str,
        expected_len: Option<u64>,
    ) -> Self {
        Self {
            shared,
            committer,
            bucket,
            key: key.to_owned(),
            expected_len,
            buffer: Vec::new(),
            stream: Stream::default(),
        }
    }

    /// The bucket that the object will be in.
    pub fn bucket(&self) -> &BucketRecord {
        &self.bucket
    }

    /// Bytes so far.
    pub fn len(&self) -> u64 {
        self.stream.len + self.buffer.len() as u64
    }

    /// Whether there are no bytes so far.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The CRC-32 of the bytes so far. That of a large object is put together from those of its blocks.
    pub fn crc32(&self) -> u32 {
        match &self.stream.open {
            Some(open) => Crc32::combine(self.stream.crc, open.payload_crc(), open.payload_len()),
            None if self.stream.len > 0 => self.stream.crc,
            None => Crc32::of(&self.buffer),
        }
    }

    /// Takes more bytes.
    ///
    /// # Errors
    /// [`StoreError::DiskFull`], [`StoreError::TooLarge`], or when the disk fails; the writer is of no use then.
    pub fn write(&mut self, bytes: &[u8]) -> Result<(), StoreError> {
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

    /// Never more than what arrives justifies, but what was announced in one piece.
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
        self.place(capacity.min(EXTENT_PAYLOAD_MAX_BYTES), &self.descriptor(Last::No))
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

    fn descriptor(&self, last: Last) -> Descriptor {
        Descriptor {
            bucket: self.bucket.id,
            bucket_name: self.bucket.name.clone(),
            key: self.key.clone().into_bytes(),
            write: self.stream.write,
            position: self.stream.len,
            last,
        }
    }

    fn finish_extent(&mut self) -> Result<(), StoreError> {
        if let Some(open) = self.stream.open.take() {
            let mut descriptor = self.descriptor(Last::No);
            descriptor.position -= open.payload_len();
            self.stream.crc = Crc32::combine(self.stream.crc, open.payload_crc(), open.payload_len());
            self.finish(open, &descriptor)?;
        }
        Ok(())
    }

    fn finish(&mut self, extent: StreamExtent, descriptor: &Descriptor) -> Result<(), StoreError> {
        let (extent, segment) =
            extent.finish(&self.shared.store, descriptor).map_err(|error| self.shared.write_failed(error))?;
        self.stream.extents.push(extent);
        if self.stream.segments.iter().all(|known| known.id != segment.id) {
            self.stream.segments.push(segment);
        }
        Ok(())
    }

    /// Puts the object in its place. Data, entry and directory are durable on return, and only then is it visible.
    ///
    /// # Errors
    /// [`StoreError::PreconditionFailed`] and [`StoreError::NoSuchKey`] from the condition;
    /// [`StoreError::NoSuchBucket`] when the bucket has been deleted meanwhile; [`StoreError::DiskFull`];
    /// [`StoreError::ReadOnly`].
    pub fn commit(mut self, commit: Commit) -> Result<Written, StoreError> {
        let content = if self.stream.len == 0 {
            let payload = std::mem::take(&mut self.buffer);
            let crc = Crc32::of(&payload);
            Content::Packed { payload, crc }
        } else {
            self.finish_stream(&commit)?
        };
        let put = Put { bucket: self.bucket, key: self.key, content, commit };
        self.committer.submit(|reply| Mutation::Put(Box::new(put), reply))
    }

    /// Writes the last extent, which says what the object is, and syncs all of them.
    fn finish_stream(&mut self, commit: &Commit) -> Result<Content, StoreError> {
        self.finish_extent()?;
        let id = VersionId(self.shared.stamps.next());
        let descriptor = self.descriptor(Last::Yes(Box::new(self.record(id, commit))));
        let last = self.place(0, &descriptor)?;
        self.finish(last, &descriptor)?;
        for segment in &self.stream.segments {
            segment.file.sync_data().map_err(|error| self.sync_failed(segment, &error))?;
        }
        let extents = std::mem::take(&mut self.stream.extents);
        Ok(Content::Stored { extents, id, size: self.stream.len })
    }

    /// The version as far as it is known before the commit decides.
    fn record(&self, id: VersionId, commit: &Commit) -> VersionRecord {
        VersionRecord {
            id,
            null: self.bucket.versioning != Versioning::Enabled,
            delete_marker: false,
            modified: self.shared.clock.now(),
            size: self.stream.len,
            etag: commit.etag,
            extents: Vec::new(),
            attributes: commit.attributes.clone(),
            checksums: commit.checksums.clone(),
        }
    }

    fn sync_failed(&self, segment: &Segment, error: &std::io::Error) -> StoreError {
        let why = format!("syncing {} failed: {error}", segment.path());
        self.shared.latch(why.clone());
        StoreError::ReadOnly(why)
    }
}
