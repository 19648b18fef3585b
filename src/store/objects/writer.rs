//! Writing the bytes of objects and parts. Small ones are buffered and packed by the committer;
//! large ones go to segments as they arrive.

use std::borrow::Cow;

use crate::base::Timestamp;
use crate::base::digest::{Crc32, Md5};
use crate::base::limits::{EXTENT_PAYLOAD_MAX_BYTES, MIB, OBJECT_SIZE_MAX_BYTES, PACKED_PAYLOAD_MAX_BYTES};
use crate::crypto::{DataKey, MasterKey};
use crate::format::{
    BucketRecord, Checksum, Descriptor, ETag, EncryptedRun, ExtentPurpose, ExtentRef, PACKAGE_PLAIN_BYTES,
    PartRecord, PlainDigests, RebuildRecord, UploadId, UploadRecord, VersionId, VersionRecord, Versioning,
    WrappedKey, plain_len, stored_len,
};
use crate::log::{Allocation, Segment, StreamExtent, WriteHead};
use crate::store::commit::committer::Committer;
use crate::store::commit::mutation::{Content, Mutation, Put, PutPart, StoredContent};
use crate::store::commit::requests::stated_before;
use crate::store::objects::encryption::{BodyCipher, PartDigests};
use crate::store::shared::SharedStore;
use crate::store::shared::object_keys::{BodyKey, SealedDigests};
use crate::store::{Commit, CommittedVersion, NewEncryption, OpenedKey, ReadOnlyReason, StoreError};

/// The first extent of a body of unknown length. Each following extent is twice as large, up to the
/// maximum.
const FIRST_EXTENT_BYTES: u64 = MIB;

/// A writer for an object. The object is visible only after [`ObjectWriter::commit`]; dropping the
/// writer abandons the bytes.
pub struct ObjectWriter<'s> {
    sink: BodySink<'s>,
    committer: &'s Committer,
    /// The key of an encrypted object.
    key: Option<BodyKey>,
}

impl<'s> ObjectWriter<'s> {
    pub(in crate::store) fn new(
        shared: &'s SharedStore,
        committer: &'s Committer,
        bucket: BucketRecord,
        key: &str,
        expected_len: Option<u64>,
    ) -> Self {
        Self { sink: BodySink::new(shared, bucket, key, None, expected_len), committer, key: None }
    }

    /// Encrypts the object, whose bytes come after this call. Lengths, CRC, MD5 and checksums stay
    /// those of the plain bytes. Unless the key is the current one of the ring, the record seals
    /// MD5 and checksums, and the committed entity tag is random.
    ///
    /// # Errors
    /// [`StoreError::KeyUnavailable`].
    pub fn encrypt(&mut self, new: &NewEncryption) -> Result<(), StoreError> {
        debug_assert_eq!(self.len(), 0, "no byte was written in the clear");
        let key = self.sink.shared.new_key(new)?;
        self.sink.cipher = Some(BodyCipher::new(self.sink.shared, &key.key));
        self.key = Some(key);
        Ok(())
    }

    /// The wrapped key of an encrypted object.
    pub fn encryption(&self) -> Option<&WrappedKey> {
        self.key.as_ref().map(|key| &key.wrapped)
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

    fn put(mut self, mut commit: Commit, mut md5_by_committer: bool) -> Result<CommittedVersion, StoreError> {
        let bucket = self.sink.bucket.clone();
        let mut sealed = Vec::new();
        if let Some(key) = &mut self.key {
            self.sink.shared.renew(key)?;
            // The committer sees the encrypted bytes alone.
            if let Some(plain) = self.sink.buffered().filter(|_| md5_by_committer) {
                commit.etag = ETag::Md5(Md5::of(plain));
            }
            md5_by_committer = false;
            sealed = seal_commit(self.sink.shared, key, &mut commit);
        }
        let key = &self.key;
        let encryption = |run| key.as_ref().zip(run).map(|(key, run)| key.of_version(run, sealed.clone()));
        let content = self.sink.finish(|ProvisionalRecord { id, size, modified, null, run }| {
            let record = commit.clone().into_record(VersionId(id), null, modified, size, Vec::new());
            let record = VersionRecord { encryption: encryption(run), ..record };
            ExtentPurpose::ObjectRecord(RebuildRecord::in_bucket(&bucket, Vec::new(), record))
        })?;
        let encryption = encryption(self.sink.run());
        let put = Put { bucket, key: self.sink.key.clone(), content, commit, encryption, md5_by_committer };
        let answer = self.committer.submit(|reply| Mutation::Put(Box::new(put), reply));
        self.sink.clear_record_if_refused(answer)
    }
}

/// Seals MD5 and checksums of a commit, if records of that kind do.
fn seal_commit(shared: &SharedStore, key: &BodyKey, commit: &mut Commit) -> Vec<u8> {
    if !key.wrapped.kind.seals_digests() {
        return Vec::new();
    }
    let md5 = if let ETag::Md5(md5) = commit.etag { Some(md5) } else { None };
    let checksums = std::mem::take(&mut commit.checksums);
    let SealedDigests { sealed, shown } =
        shared.seal(&key.key, &PlainDigests { md5, checksums, parts: Vec::new() });
    commit.etag = ETag::Md5(shown);
    sealed
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
            encryption: None,
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
    /// The key of an upload that is encrypted.
    key: Option<DataKey>,
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
        Self { sink, committer, upload, number, key: None }
    }

    /// Opens the key of an encrypted upload. Parts of uploads in the clear take none.
    ///
    /// # Errors
    /// As of [`Store::open_key`](crate::store::Store::open_key).
    pub fn unlock(&mut self, customer: Option<&MasterKey>) -> Result<(), StoreError> {
        let own = self.sink.shared.open_own(self.upload.encryption.as_deref(), customer)?;
        self.unlock_with(&own);
        Ok(())
    }

    /// Takes the opened key of the upload.
    pub fn unlock_with(&mut self, own: &OpenedKey) {
        debug_assert_eq!(self.len(), 0, "no byte was written in the clear");
        if let Some(key) = &own.0 {
            self.sink.cipher = Some(BodyCipher::new(self.sink.shared, key));
            self.key = Some(key.clone());
        }
    }

    /// The wrapped key of an encrypted upload.
    pub fn encryption(&self) -> Option<&WrappedKey> {
        self.upload.encryption.as_deref()
    }

    /// Opens the key before a byte would be written in the clear. That of a customer is not there.
    fn expect_unlocked(&mut self) -> Result<(), StoreError> {
        let is_locked = self.upload.encryption.is_some() && self.key.is_none();
        if is_locked { self.unlock(None) } else { Ok(()) }
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
    /// As [`ObjectWriter::write`]; as of [`Store::open_key`](crate::store::Store::open_key).
    pub fn write<'b>(&mut self, bytes: impl Into<Cow<'b, [u8]>>) -> Result<(), StoreError> {
        self.expect_unlocked()?;
        self.sink.write(bytes.into())
    }

    /// Commits the part under its number. Durable on return. The record of a part that seals MD5
    /// and checksum has a random MD5.
    ///
    /// # Errors
    /// [`StoreError::CustomerKeyNeeded`]; [`StoreError::NoSuchUpload`] if the upload has been
    /// completed or aborted in the meantime; [`StoreError::DiskFull`]; [`StoreError::ReadOnly`].
    pub fn commit(mut self, md5: [u8; 16], checksum: Option<Checksum>) -> Result<PartRecord, StoreError> {
        self.expect_unlocked()?;
        let bucket = self.sink.bucket.clone();
        let number = self.number;
        let PartDigests { md5, checksum, sealed } =
            PartDigests::of(self.sink.shared, &self.upload, self.key.as_ref(), md5, checksum);
        let encryption = |run: Option<EncryptedRun>| run.map(|run| BodyKey::of_part(run, sealed.clone()));
        let content = self.sink.finish(|ProvisionalRecord { id, size, modified, run, .. }| {
            let record = PartRecord {
                number,
                id,
                modified,
                size,
                md5,
                extents: Vec::new(),
                checksum: checksum.clone(),
                encryption: encryption(run),
            };
            let part = RebuildRecord::in_bucket(&bucket, Vec::new(), record);
            ExtentPurpose::PartRecord(Box::new(self.upload.clone()), part)
        })?;
        let key = self.sink.key.clone();
        let encryption = encryption(self.sink.run());
        let put = PutPart { bucket, key, upload: self.upload, number, content, md5, checksum, encryption };
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
    /// Encrypts the bytes of an encrypted body.
    cipher: Option<BodyCipher>,
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
    /// The run of an encrypted body.
    run: Option<EncryptedRun>,
}

impl<'s> BodySink<'s> {
    fn new(
        shared: &'s SharedStore,
        bucket: BucketRecord,
        key: &str,
        upload: Option<UploadId>,
        expected_len: Option<u64>,
    ) -> Self {
        let key = key.to_owned();
        let buffer = Vec::new();
        let cipher = None;
        let stream = ExtentStream::default();
        Self { shared, bucket, key, upload, expected_len, buffer, cipher, stream, finished_len: 0 }
    }

    fn len(&self) -> u64 {
        let pending = self.cipher.as_ref().map_or(0, BodyCipher::pending);
        self.stream.len + pending + self.buffer.len() as u64
    }

    /// Whether bytes go to segments as they come.
    fn is_streaming(&self) -> bool {
        self.stream.len > 0 || self.cipher.as_ref().is_some_and(|cipher| cipher.pending() > 0)
    }

    /// All bytes of a body that may still be packed.
    fn buffered(&self) -> Option<&[u8]> {
        (!self.is_streaming()).then_some(&self.buffer)
    }

    /// The run of an encrypted body that is finished.
    fn run(&self) -> Option<EncryptedRun> {
        self.cipher.as_ref().map(|cipher| cipher.run(self.finished_len))
    }

    fn crc32(&self) -> u32 {
        if let Some(cipher) = self.cipher.as_ref().filter(|_| self.is_streaming()) {
            return cipher.crc32();
        }
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
        if !self.is_streaming() && len <= PACKED_PAYLOAD_MAX_BYTES {
            self.buffer(bytes);
            return Ok(());
        }
        // The body is too large to be packed: what was held back goes first.
        let buffered = std::mem::take(&mut self.buffer);
        self.append(&buffered)?;
        self.append(&bytes)
    }

    fn append(&mut self, mut bytes: &[u8]) -> Result<(), StoreError> {
        if self.cipher.is_none() {
            return self.append_stored(bytes);
        }
        while !bytes.is_empty() {
            // A full package is written when another byte comes, and not before: if none does, it
            // is the last one, and is marked so.
            if self.cipher.as_ref().is_some_and(BodyCipher::is_full) {
                self.append_package(false)?;
            }
            let cipher = self.cipher.as_mut().expect("it is there, as above");
            bytes = cipher.take(bytes);
        }
        Ok(())
    }

    /// Writes the next package of an encrypted body to an extent that has room for all of it.
    fn append_package(&mut self, is_last: bool) -> Result<(), StoreError> {
        let cipher = self.cipher.as_mut().expect("the body is encrypted");
        let plain = cipher.pending();
        let package = cipher.seal(is_last);
        let room = self.stream.open.as_ref().map_or(0, StreamExtent::remaining);
        // A package in two extents could not be decrypted from either.
        if room < package.len() as u64 {
            self.finish_extent()?;
            self.stream.open = Some(self.start_extent(package.len() as u64)?);
        }
        let open = self.stream.open.as_mut().expect("an extent was started above");
        open.write(&package).map_err(|error| self.shared.write_failed(error))?;
        self.stream.len += plain;
        if let Some(cipher) = &mut self.cipher {
            cipher.reuse(package);
        }
        Ok(())
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

    fn append_stored(&mut self, mut bytes: &[u8]) -> Result<(), StoreError> {
        while !bytes.is_empty() {
            if self.stream.open.as_ref().is_none_or(|open| open.remaining() == 0) {
                self.finish_extent()?;
                self.stream.open = Some(self.start_extent(1)?);
            }
            let open = self.stream.open.as_mut().expect("an extent was started above");
            let (now, later) = bytes.split_at(bytes.len().min(open.remaining() as usize));
            open.write(now).map_err(|error| self.shared.write_failed(error))?;
            self.stream.len += now.len() as u64;
            bytes = later;
        }
        Ok(())
    }

    /// An extent for at least so many bytes.
    fn start_extent(&mut self, at_least: u64) -> Result<StreamExtent, StoreError> {
        if self.stream.write == 0 {
            self.stream.write = self.shared.ids.next();
        }
        let capacity = match self.expected_len.and_then(|expected| expected.checked_sub(self.stream.len)) {
            Some(rest) if rest > 0 && self.cipher.is_some() => stored_len(rest),
            Some(rest) if rest > 0 => rest,
            // A body of unknown length: the more has come, the more is expected.
            _ => FIRST_EXTENT_BYTES << self.stream.extents.len().min(8),
        };
        let capacity = capacity.clamp(at_least, EXTENT_PAYLOAD_MAX_BYTES);
        self.place(capacity, &self.descriptor(self.not_last()))
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
        match (self.upload, &self.cipher) {
            (None, None) => ExtentPurpose::Object(None),
            (None, Some(_)) => ExtentPurpose::EncryptedObject,
            (Some(upload), None) => ExtentPurpose::Part(upload, None),
            (Some(upload), Some(_)) => ExtentPurpose::EncryptedPart(upload),
        }
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
            descriptor.position -= match &self.cipher {
                Some(_) => plain_len(open.payload_len()),
                None => open.payload_len(),
            };
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
        self.stream.extents.push(if self.cipher.is_some() { extent.encrypted() } else { extent });
        Ok(place)
    }

    /// The content for the committer. For a large body, writes the last extent with the provisional
    /// record of `purpose`, and syncs all its segments.
    fn finish(
        &mut self,
        purpose: impl FnOnce(ProvisionalRecord) -> ExtentPurpose,
    ) -> Result<Content, StoreError> {
        self.finished_len = self.len();
        self.finish_packages()?;
        if self.stream.len == 0 {
            let payload = std::mem::take(&mut self.buffer);
            let crc = Crc32::of(&payload);
            return Ok(Content::Packed { payload, size: self.finished_len, crc });
        }
        self.finish_extent()?;
        // 1. All bytes are in their extents, and only now are size, MD5 and checksums known: the
        //    record comes last, in an extent without payload.
        let provisional = ProvisionalRecord {
            id: self.shared.ids.next(),
            size: self.stream.len,
            modified: self.shared.lock_clock.stamp_time(),
            null: self.bucket.versioning != Versioning::Enabled,
            run: self.run(),
        };
        let descriptor = self.descriptor(purpose(provisional));
        let last = self.place(0, &descriptor)?;
        self.stream.record = Some(self.finish_with(last, &descriptor)?);
        // 2. Every segment is durable before the committer gets the content: the group in the log
        //    must name no bytes that a crash can take away.
        let ExtentStream { places, record, .. } = &self.stream;
        let last_if_new =
            record.iter().filter(|last| places.iter().all(|known| known.segment.id != last.segment.id));
        for Allocation { segment, .. } in places.iter().chain(last_if_new) {
            let synced = self.shared.commit_counters.sync_segment(segment.file.as_ref());
            synced.map_err(|error| self.sync_failed(segment, &error))?;
        }
        let ProvisionalRecord { id, size, modified, null, run: _ } = provisional;
        let write = self.stream.write;
        let extents = std::mem::take(&mut self.stream.extents);
        Ok(Content::Stored(StoredContent { extents, write, id, size, modified, null }))
    }

    /// Encrypts the last package: of a small body the only one, in place of the buffer.
    fn finish_packages(&mut self) -> Result<(), StoreError> {
        let Some(cipher) = &mut self.cipher else { return Ok(()) };
        let fits = self.buffer.len() as u64 <= PACKAGE_PLAIN_BYTES;
        if self.stream.len == 0 && cipher.pending() == 0 && fits {
            let buffered = std::mem::take(&mut self.buffer);
            if !buffered.is_empty() {
                cipher.take(&buffered);
                self.buffer = cipher.seal(true);
            }
            return Ok(());
        }
        let buffered = std::mem::take(&mut self.buffer);
        self.append(&buffered)?;
        self.append_package(true)
    }

    /// Passes on the reply of the committer. Erases the provisional record of a refused commit
    /// first: a rebuild from segments must not restore it.
    fn clear_record_if_refused<T>(&mut self, answer: Result<T, StoreError>) -> Result<T, StoreError> {
        if answer.is_ok() {
            self.shared.write_counters.count_payload(self.finished_len);
        }
        if let Err(refusal) = &answer
            && let Some(record) = self.stream.record.take()
        {
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
