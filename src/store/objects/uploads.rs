//! Multipart uploads and their parts.

use super::encryption::open_part;
use super::reader::EncodedBytes;
use super::{copy, quotas};
use crate::base::Timestamp;
use crate::crypto::MasterKey;
use crate::format::{
    Checksum, EncryptionKind, PartRecord, PlainDigests, UploadId, UploadRecord, VersionRecord,
};
use crate::store::commit::mutation::{Mutation, PutPart, UploadChange};
use crate::store::{
    BucketInfo, CommittedVersion, Completion, CopyRange, NewEncryption, NewUpload, ObjectReader, OpenedKey,
    PartWriter, Store, StoreError, Upload, UploadSummary,
};

/// The newest versions of a key among which the result of a repeated completion is looked for. A
/// client repeats at once, and a key may have very many versions.
const RETRIED_VERSIONS_MAX: usize = 1000;

/// A part in a listing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PartSummary {
    /// Its number.
    pub number: u32,
    /// The time of its commit.
    pub modified: Timestamp,
    /// Bytes.
    pub size: u64,
    /// The MD5 of its bytes.
    pub md5: [u8; 16],
    /// The checksum that the client sent.
    pub checksum: Option<Checksum>,
}

impl From<PartRecord> for PartSummary {
    fn from(part: PartRecord) -> Self {
        let PartRecord { number, modified, size, md5, checksum, .. } = part;
        Self { number, modified, size, md5, checksum }
    }
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

/// Totals of the parts of an upload.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PartsTotal {
    /// Parts.
    pub parts: u64,
    /// Extents of all parts.
    pub extents: u64,
}

impl Store {
    /// Initiates a multipart upload. Durable on return.
    ///
    /// # Errors
    /// [`StoreError::NoSuchBucket`].
    pub fn create_upload(&self, bucket: &str, key: &str, new: NewUpload) -> Result<UploadRecord, StoreError> {
        self.begin_upload(bucket, key, UploadChange::Create(new, None))
    }

    /// Initiates a multipart upload whose parts are encrypted. Durable on return.
    ///
    /// # Errors
    /// As of [`Store::create_upload`]; [`StoreError::KeyUnavailable`].
    pub fn create_encrypted_upload(
        &self,
        bucket: &str,
        key: &str,
        new: NewUpload,
        encryption: &NewEncryption,
    ) -> Result<UploadRecord, StoreError> {
        let wrapped = self.shared.new_key(encryption)?.wrapped;
        self.begin_upload(bucket, key, UploadChange::Create(new, Some(Box::new(wrapped))))
    }

    fn begin_upload(
        &self,
        bucket: &str,
        key: &str,
        change: UploadChange,
    ) -> Result<UploadRecord, StoreError> {
        let record = self.change_upload(bucket, key, change)?;
        Ok(record.expect("the reply to a creation holds the record"))
    }

    /// Ends a multipart upload and frees its parts. Durable on return.
    ///
    /// # Errors
    /// [`StoreError::NoSuchBucket`], [`StoreError::NoSuchUpload`].
    pub fn abort_upload(&self, bucket: &str, key: &str, upload: UploadId) -> Result<(), StoreError> {
        let index = self.shared.index();
        let found = index.bucket(bucket);
        // A group has a bound on the work of its mutations, which is known before the committer
        // decides.
        let parts = found.map_or(0, |found| index.upload_parts_max(found.id, key.as_bytes(), upload));
        self.change_upload(bucket, key, UploadChange::Abort { upload, parts }).map(|_| ())
    }

    fn change_upload(
        &self,
        bucket: &str,
        key: &str,
        change: UploadChange,
    ) -> Result<Option<UploadRecord>, StoreError> {
        let bucket = bucket.to_owned();
        let key = key.to_owned();
        self.committer.submit(|reply| Mutation::Upload { bucket, key, change, reply })
    }

    /// A multipart upload without its parts.
    ///
    /// # Errors
    /// [`StoreError::NoSuchBucket`], [`StoreError::NoSuchUpload`].
    pub fn upload_record(&self, bucket: &str, key: &str, id: UploadId) -> Result<UploadRecord, StoreError> {
        let (index, bucket) = self.snapshot_of(bucket)?;
        index.upload_record(bucket, key.as_bytes(), id).cloned().ok_or(StoreError::NoSuchUpload)
    }

    /// A multipart upload with its parts.
    ///
    /// # Errors
    /// [`StoreError::NoSuchBucket`], [`StoreError::NoSuchUpload`].
    pub fn upload(&self, bucket: &str, key: &str, upload: UploadId) -> Result<Upload, StoreError> {
        let (index, bucket) = self.snapshot_of(bucket)?;
        index.upload(bucket, key.as_bytes(), upload).ok_or(StoreError::NoSuchUpload)
    }

    /// The size of the result of [`Store::upload`], so that its memory can be reserved first.
    ///
    /// # Errors
    /// [`StoreError::NoSuchBucket`], [`StoreError::NoSuchUpload`].
    pub fn parts_total(&self, bucket: &str, key: &str, upload: UploadId) -> Result<PartsTotal, StoreError> {
        let (index, bucket) = self.snapshot_of(bucket)?;
        let parts = index.parts(bucket, key.as_bytes(), upload, 0).ok_or(StoreError::NoSuchUpload)?;
        let mut total = PartsTotal::default();
        for part in parts {
            total.parts += 1;
            total.extents += part.extents.len() as u64;
        }
        Ok(total)
    }

    /// A page of the parts of an upload with numbers above `after`. Without the key of the customer
    /// whose upload it is, parts that seal their checksums are listed without.
    ///
    /// # Errors
    /// [`StoreError::NoSuchBucket`], [`StoreError::NoSuchUpload`]; as of [`Store::open_key`].
    pub fn list_parts(
        &self,
        bucket: &str,
        key: &str,
        upload: UploadId,
        after: u32,
        limit: usize,
        customer: Option<&MasterKey>,
    ) -> Result<PartsPage, StoreError> {
        let (index, bucket) = self.snapshot_of(bucket)?;
        let key = key.as_bytes();
        let record = index.upload_record(bucket, key, upload).ok_or(StoreError::NoSuchUpload)?;
        let mut rest = index.parts(bucket, key, upload, after).ok_or(StoreError::NoSuchUpload)?;
        let wrapped = record.encryption.as_deref();
        let opened = match wrapped {
            Some(key) if key.kind == EncryptionKind::Customer && customer.is_none() => None,
            _ => Some(self.shared.open_own(wrapped, customer)?),
        };
        let mut parts = Vec::new();
        for mut part in rest.by_ref().take(limit) {
            if let Some(key) = &opened {
                open_part(&mut part, key)?;
            }
            parts.push(PartSummary::from(part));
        }
        Ok(PartsPage { upload: record.into(), parts, truncated: rest.next().is_some() })
    }

    /// A writer for the bytes of a part. That of an upload under the key of a customer has to be
    /// unlocked with it; that of another encrypted upload opens its key with the first byte, unless
    /// it is given.
    ///
    /// # Errors
    /// [`StoreError::NoSuchBucket`], [`StoreError::NoSuchUpload`], [`StoreError::ReadOnly`];
    /// [`StoreError::IndexFull`] and [`StoreError::QuotaExceeded`], as of now.
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
        quotas::check_part(&self.shared, &bucket, key, upload.id, number, expected_len.unwrap_or(0))?;
        Ok(PartWriter::new(&self.shared, &self.committer, (bucket, key), (upload, number), expected_len))
    }

    /// Puts a part with the bytes of `source`, whose extents it shares. Durable on return.
    ///
    /// # Errors
    /// [`StoreError::NoSuchVersion`] if the source is gone; [`StoreError::Encrypted`] if it or the
    /// upload is encrypted; otherwise as [`PartWriter::commit`].
    pub fn copy_part(
        &self,
        source: CopyRange,
        (bucket, key): (&str, &str),
        (upload, number): (UploadId, u32),
        md5: [u8; 16],
        checksum: Option<Checksum>,
    ) -> Result<PartRecord, StoreError> {
        let (bucket, upload) = self.bucket_and_upload(bucket, key, upload)?;
        if upload.encryption.is_some() {
            return Err(StoreError::Encrypted);
        }
        let key = key.to_owned();
        let content = copy::copy_content(&self.shared, source)?;
        let put = PutPart { bucket, key, upload, number, content, md5, checksum, encryption: None };
        self.committer.submit(|reply| Mutation::PutPart(Box::new(put), reply))
    }

    pub(super) fn bucket_and_upload(
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

    /// A reader of the bytes of a part, which may have been moved since the caller saw it.
    ///
    /// # Errors
    /// [`StoreError::NoSuchBucket`], [`StoreError::NoSuchUpload`]; [`StoreError::PartReplaced`] if
    /// the number belongs to another part than the caller saw; otherwise as [`Store::read`].
    pub fn read_part(
        &self,
        bucket: &str,
        key: &str,
        upload: UploadId,
        part: &PartRecord,
    ) -> Result<ObjectReader, StoreError> {
        self.read_part_with(bucket, key, upload, part, None)
    }

    /// As [`Store::read_part`], with the key of the customer for an upload that is encrypted so.
    ///
    /// # Errors
    /// As of [`Store::read_part`] and [`Store::check_key`].
    pub fn read_part_with(
        &self,
        bucket: &str,
        key: &str,
        upload: UploadId,
        part: &PartRecord,
        customer: Option<&MasterKey>,
    ) -> Result<ObjectReader, StoreError> {
        let own = self.open_upload_key(&self.upload_record(bucket, key, upload)?, customer)?;
        loop {
            let found = self.same_part(bucket, key, upload, part)?;
            let pins = self.shared.segments.pin(&found.extents);
            // Extents that were moved before they were pinned may be gone already.
            if self.same_part(bucket, key, upload, part)?.extents != found.extents {
                continue;
            }
            let encryption = found.encryption.as_deref();
            let rest = encryption.map_or(&[][..], |encryption| &encryption.keys);
            let keys = self.shared.open_rest(&own, rest.iter(), customer)?;
            let runs = encryption.map(|encryption| &encryption.runs[..]);
            let source = EncodedBytes { extents: &found.extents, runs, keys };
            return ObjectReader::open(self.shared.clone(), source, 0..found.size, pins);
        }
    }

    /// The part as it is stored at present, unless another has taken its number.
    fn same_part(
        &self,
        bucket: &str,
        key: &str,
        upload: UploadId,
        part: &PartRecord,
    ) -> Result<PartRecord, StoreError> {
        let (index, bucket) = self.snapshot_of(bucket)?;
        if !index.has_upload(bucket, key.as_bytes(), upload) {
            return Err(StoreError::NoSuchUpload);
        }
        let found = index.part(bucket, key.as_bytes(), upload, part.number);
        found.filter(|found| found.id == part.id).ok_or(StoreError::PartReplaced(part.number))
    }

    /// Makes an object of the parts of a multipart upload, without copying a byte, and ends the
    /// upload. Durable on return.
    ///
    /// # Errors
    /// [`StoreError::PartsOutOfOrder`]; [`StoreError::NoSuchUpload`]; [`StoreError::PartReplaced`]
    /// if a number belongs to another part than the caller saw; otherwise as
    /// [`ObjectWriter::commit`](crate::store::ObjectWriter::commit).
    pub fn complete_upload(
        &self,
        bucket: &str,
        key: &str,
        completion: Completion,
    ) -> Result<CommittedVersion, StoreError> {
        self.complete_upload_with(bucket, key, completion, None)
    }

    /// As [`Store::complete_upload`], with the key of the customer for an upload that is encrypted
    /// so. Without it the checksums of such parts are dropped.
    ///
    /// # Errors
    /// As of [`Store::complete_upload`], and of [`Store::check_key`] if the record of the object
    /// seals checksums.
    pub fn complete_upload_with(
        &self,
        bucket: &str,
        key: &str,
        mut completion: Completion,
        customer: Option<&MasterKey>,
    ) -> Result<CommittedVersion, StoreError> {
        let record = self.upload_record(bucket, key, completion.upload)?;
        let has_nothing_to_seal = customer.is_none() && completion.commit.checksums.is_empty();
        let sealed = match record.encryption.as_deref() {
            None => Vec::new(),
            Some(wrapped) if !wrapped.kind.seals_digests() => Vec::new(),
            // To seal nothing takes no key.
            Some(wrapped) if wrapped.kind == EncryptionKind::Customer && has_nothing_to_seal => Vec::new(),
            Some(wrapped) => {
                // Parts seal their checksums one by one. The object seals all of them in its own
                // record, since the parts end with the upload.
                let key = self.shared.open_key(wrapped, customer)?;
                self.open_parts(&mut completion.parts, &OpenedKey(Some(key.clone())))?;
                let checksums = std::mem::take(&mut completion.commit.checksums);
                let parts = completion.parts.iter().map(|part| part.checksum.clone()).collect();
                self.shared.seal(&key, &PlainDigests { md5: None, checksums, parts }).sealed
            }
        };
        let bucket = bucket.to_owned();
        let key = key.to_owned();
        let completion = Box::new(completion);
        self.committer.submit(|reply| Mutation::Complete { bucket, key, completion, sealed, reply })
    }

    /// The version of a key that was made by completing `upload`, if it still exists and is one of
    /// the newest `RETRIED_VERSIONS_MAX`.
    ///
    /// # Errors
    /// [`StoreError::NoSuchBucket`].
    pub fn find_completed(
        &self,
        bucket: &str,
        key: &str,
        upload: UploadId,
    ) -> Result<Option<VersionRecord>, StoreError> {
        let (index, bucket) = self.snapshot_of(bucket)?;
        let newest = index.summaries(bucket, key.as_bytes()).take(RETRIED_VERSIONS_MAX);
        // A version has a later stamp than the upload that it was made of.
        let later = newest.filter(|version| version.id.0 > upload.0 && !version.delete_marker);
        let mut records = later.filter_map(|version| index.version(bucket, key.as_bytes(), version.id));
        Ok(records.find(|record| {
            record.upload.as_ref().is_some_and(|made| made.upload == upload && upload != UploadId::NONE)
        }))
    }
}
