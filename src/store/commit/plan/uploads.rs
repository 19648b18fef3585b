//! Planning multipart uploads. A completed upload becomes an object with the extents of its parts.

use std::collections::HashMap;

use crate::crypto::SALT_BYTES;
use crate::format::{
    AssembledPart, Assembly, EncryptedRun, Entry, ExtentPurpose, ExtentRef, PartRecord, PayloadSource,
    RebuildRecord, UploadId, UploadRecord, VersionEncryption, VersionId, Versioning, WrappedKey,
};
use crate::index::{CountedVersion, upload_index_bytes};
use crate::log::SpaceClaim;
use crate::store::commit::mutation::{PutPart, UploadChange};
use crate::store::commit::plan::{Holdings, PackedContent, Planner, check};
use crate::store::{CommittedVersion, Completion, StoreError};

impl Planner<'_> {
    pub(super) fn change_upload(
        &mut self,
        bucket: &str,
        key: String,
        change: UploadChange,
    ) -> Result<Option<UploadRecord>, StoreError> {
        let bucket = self.bucket(bucket)?;
        let key = key.into_bytes();
        match change {
            UploadChange::Abort { upload, .. } => {
                self.check_upload(bucket.id, &key, upload)?;
                let gone = self.holdings_of_upload(bucket.id, &key, upload);
                self.end_upload(bucket.id, key, upload);
                self.count(bucket, Holdings::NONE - gone);
                Ok(None)
            }
            UploadChange::Create(new, encryption) => {
                self.check_wrapped(encryption.as_deref().map_or(&[], std::slice::from_ref))?;
                let record = UploadRecord {
                    id: UploadId(self.ids.next()),
                    initiated: self.now,
                    initiator: new.initiator,
                    checksum: new.checksum,
                    attributes: new.attributes,
                    tags: new.tags,
                    controls: new.controls,
                    storage_class: new.storage_class,
                    encryption,
                };
                let added = Holdings::of_upload(upload_index_bytes(&key, &record));
                self.check_quota(bucket, added)?;
                self.check_room(SpaceClaim::Growth)?;
                let bucket_id = bucket.id;
                self.plan.entries.push(Entry::UploadPut { bucket: bucket_id, key, record: record.clone() });
                self.count(bucket, added);
                Ok(Some(record))
            }
        }
    }

    pub(super) fn put_part(&mut self, put: PutPart) -> Result<PartRecord, StoreError> {
        let bucket = self.same_bucket(&put.bucket)?;
        self.check_wrapped(put.encryption.as_ref().map_or(&[], |encryption| &encryption.keys))?;
        let key = put.key.into_bytes();
        let upload = put.upload.id;
        self.check_upload(bucket.id, &key, upload)?;
        let size = put.content.size();
        let change = self.accounts.of_part(bucket.id, &key, upload, put.number, size);
        self.check_quota(bucket, change)?;
        self.check_room(SpaceClaim::Growth)?;
        // After all that may refuse: the id and the place in the pack are not given back.
        let placed = self.place_content(put.content, |_| true)?;
        let mut record = PartRecord {
            number: put.number,
            id: placed.id,
            modified: placed.modified,
            size: placed.size,
            md5: put.md5,
            extents: Vec::new(),
            checksum: put.checksum,
            encryption: put.encryption,
        };
        if let Some(packed) = &placed.packed {
            let part = RebuildRecord::in_bucket(bucket, packed.sources.clone(), record.clone());
            self.pack(bucket, &key, placed.id, packed, ExtentPurpose::PartRecord(Box::new(put.upload), part));
        }
        record.extents = placed.extents;
        self.accounts.count_part(bucket, upload, record.number, size, change);
        self.plan.entries.push(Entry::PartPut { bucket: bucket.id, key, upload, record: record.clone() });
        Ok(record)
    }

    /// Completes an upload. The parts must be those that the caller saw, by id: equal entity tags
    /// are not enough.
    pub(super) fn complete(
        &mut self,
        bucket: &str,
        key: String,
        completion: Completion,
        sealed: Vec<u8>,
    ) -> Result<CommittedVersion, StoreError> {
        let bucket = self.bucket(bucket)?;
        let key = key.into_bytes();
        let upload = completion.upload;
        self.check_upload(bucket.id, &key, upload)?;
        let there = self.index.parts(bucket.id, &key, upload, 0).ok_or(StoreError::NoSuchUpload)?;
        let mut chosen = ChosenParts::of(there, &completion.parts)?;
        // Decided here, and not where the request came in: of two writers one wins.
        check(&completion.commit.condition, self.newest(bucket.id, &key).as_ref())?;
        self.check_null_unlocked(bucket, &key)?;
        let upload_record =
            self.index.upload_record(bucket.id, &key, upload).ok_or(StoreError::NoSuchUpload)?;
        let encryption = upload_record.encryption.as_deref().map(|own| chosen.encryption(own, sealed));
        let counted = CountedVersion {
            key: &key,
            attributes: &completion.commit.attributes,
            tags: &completion.commit.tags,
            parts: chosen.parts.len(),
            encryption: encryption.as_deref(),
            size: chosen.size,
        };
        let added = Holdings::of_object(chosen.size, counted.index_bytes());
        let change =
            self.change_by_put(bucket, &key, added) - self.holdings_of_upload(bucket.id, &key, upload);
        self.check_quota(bucket, change)?;
        if !self.place {
            return Err(StoreError::DiskFull);
        }
        let id = VersionId(self.ids.next());
        let null = bucket.versioning != Versioning::Enabled;
        let mut record = completion.commit.into_record(id, null, self.now, chosen.size, Vec::new());
        let written = CommittedVersion { id, null, modified: self.now, etag: record.etag };
        record.encryption = encryption;
        record.upload = Some(Assembly { upload, parts: chosen.parts });
        let object = RebuildRecord::in_bucket(bucket, chosen.sources, record.clone());
        self.pack(bucket, &key, id.0, &PackedContent::default(), ExtentPurpose::ObjectRecord(object));
        record.extents = chosen.extents;
        self.put_version(bucket.id, key.clone(), record);
        self.end_upload(bucket.id, key, upload);
        self.count(bucket, change);
        Ok(written)
    }

    pub(super) fn check_upload(&self, bucket: u64, key: &[u8], upload: UploadId) -> Result<(), StoreError> {
        let there = self.index.has_upload(bucket, key, upload) && !self.ended.contains(&upload);
        if there { Ok(()) } else { Err(StoreError::NoSuchUpload) }
    }

    pub(super) fn end_upload(&mut self, bucket: u64, key: Vec<u8>, upload: UploadId) {
        self.ended.insert(upload);
        self.plan.entries.push(Entry::UploadDelete { bucket, key, upload });
    }
}

/// The parts of a completion, with their extents from the index.
struct ChosenParts {
    size: u64,
    parts: Vec<AssembledPart>,
    sources: Vec<PayloadSource>,
    extents: Vec<ExtentRef>,
    /// The keys and runs of encrypted parts, which count the key of the upload as the first.
    keys: Vec<WrappedKey>,
    runs: Vec<EncryptedRun>,
    /// The numbers of these keys by their salts, which no two wraps have in common: parts that were
    /// copied from one source have one key.
    numbers: HashMap<[u8; SALT_BYTES], u32>,
}

impl ChosenParts {
    /// Finds the wanted parts in one pass, since both lists are in order.
    fn of(mut there: impl Iterator<Item = PartRecord>, wanted: &[PartRecord]) -> Result<Self, StoreError> {
        // A part that an object had twice would count twice as live, but only once as dead.
        if wanted.is_empty() || !wanted.is_sorted_by(|one, next| one.number < next.number) {
            return Err(StoreError::PartsOutOfOrder);
        }
        let mut chosen = Self::with_room_for(wanted.len());
        for wanted in wanted {
            let found = there.find(|part| part.number >= wanted.number);
            let same = found.filter(|part| (part.number, part.id) == (wanted.number, wanted.id));
            chosen.push(same.ok_or(StoreError::PartReplaced(wanted.number))?);
        }
        Ok(chosen)
    }

    /// The encryption of the object, whose upload has that key.
    fn encryption(&mut self, upload: &WrappedKey, sealed: Vec<u8>) -> Box<VersionEncryption> {
        let mut keys = vec![upload.clone()];
        keys.append(&mut self.keys);
        Box::new(VersionEncryption { keys, runs: std::mem::take(&mut self.runs), sealed })
    }

    fn with_room_for(count: usize) -> Self {
        let parts = Vec::with_capacity(count);
        let sources = Vec::with_capacity(count);
        let extents = Vec::with_capacity(count);
        let keys = Vec::new();
        let runs = Vec::new();
        Self { size: 0, parts, sources, extents, keys, runs, numbers: HashMap::new() }
    }

    /// The number of a key of a part in the record of the object.
    fn number_of(&mut self, key: WrappedKey) -> u32 {
        let known = self.numbers.get(&key.salt).copied();
        let known = known.filter(|number| self.keys[*number as usize - 1] == key);
        known.unwrap_or_else(|| {
            let number = self.keys.len() as u32 + 1;
            self.numbers.insert(key.salt, number);
            self.keys.push(key);
            number
        })
    }

    fn push(&mut self, part: PartRecord) {
        self.size += part.size;
        self.sources.push(PayloadSource { stamp: part.id, from: 0, len: part.size });
        self.extents.extend_from_slice(&part.extents);
        if let Some(encryption) = part.encryption {
            let mut numbers = vec![0];
            for key in encryption.keys {
                numbers.push(self.number_of(key));
            }
            for run in &encryption.runs {
                self.runs.push(EncryptedRun { key: numbers[run.key as usize], ..*run });
            }
        }
        self.parts.push(AssembledPart { number: part.number, size: part.size, checksum: part.checksum });
    }
}
