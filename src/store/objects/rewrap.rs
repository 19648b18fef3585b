//! Wrapping the keys of objects anew: under the current key of the ring, or for a copy that shares
//! its bytes.

use std::collections::{BTreeMap, BTreeSet};

use super::copy;
use crate::crypto::{DataKey, MasterKey};
use crate::format::{
    ETag, EncryptionKind, Entry, PlainDigests, VersionEncryption, VersionRecord, WrappedKey,
};
use crate::index::Cursor;
use crate::store::commit::mutation::{Mutation, Put, ReferringRecord, RewrappedKeys};
use crate::store::{Commit, CommittedVersion, CopyRange, NewEncryption, Store, StoreError};

/// Keys and uploads that a step of a rewrap looks at.
const STEP_NAMES: usize = 256;

/// The position of a rewrap over the whole store. A new one begins.
#[derive(Debug)]
pub struct RewrapCursor(Cursor);

impl Default for RewrapCursor {
    fn default() -> Self {
        Self(Cursor::Start)
    }
}

/// The outcome of a step.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RewrapStep {
    /// Whether there is more to look at.
    pub more: bool,
    /// Versions and uploads whose keys were wrapped anew.
    pub rewrapped: u64,
    /// Those whose master key the ring lacks, or has with other bytes.
    pub unavailable: u64,
}

impl Store {
    /// Wraps the keys of further objects and uploads, whose master key was an earlier one of the
    /// ring, by the current one. Durable on return. Bytes stay as they are, and so do objects under
    /// named keys and those of customers. The work may end after any step: who begins again passes
    /// over what is done.
    ///
    /// # Errors
    /// [`StoreError::KeyUnavailable`] without a current key; errors of the commit.
    pub fn rewrap(&self, cursor: &mut RewrapCursor) -> Result<RewrapStep, StoreError> {
        let current = self.shared.current_key_id()?;
        let entries = self.shared.index().walk(&mut cursor.0, STEP_NAMES);
        let mut step = RewrapStep { more: !entries.is_empty(), ..RewrapStep::default() };
        // The keys are wrapped here and not by the committer: other commits do not wait for it. It
        // takes each only if the record still has the keys of before.
        let mut changes = Vec::new();
        for entry in entries {
            let Some(due) = OutdatedKeys::of(entry, &current) else { continue };
            match self.wrapped_anew(&due.keys) {
                Ok(keys) => changes.push(RewrappedKeys { record: due.record, before: due.keys, keys }),
                // One object with a lost key does not keep the others from the new one.
                Err(StoreError::KeyUnavailable(_) | StoreError::WrongRingKey(_)) => step.unavailable += 1,
                Err(error) => return Err(error),
            }
        }
        if !changes.is_empty() {
            step.rewrapped = self.committer.submit(|reply| Mutation::Rewrap(changes, reply))?;
        }
        Ok(step)
    }

    /// The versions and uploads that need each key of the ring, by its id.
    pub fn key_uses(&self) -> BTreeMap<String, u64> {
        let index = self.shared.index();
        let mut cursor = Cursor::Start;
        let mut uses = BTreeMap::new();
        loop {
            let entries = index.walk(&mut cursor, STEP_NAMES);
            if entries.is_empty() {
                return uses;
            }
            for entry in &entries {
                let of_ring = keys_of(entry).iter().filter(|key| key.kind != EncryptionKind::Customer);
                let ids: BTreeSet<_> = of_ring.map(|key| key.key_id.as_str()).collect();
                for id in ids {
                    *uses.entry(id.to_owned()).or_default() += 1;
                }
            }
        }
    }

    /// Whether a copy of a whole version can share its bytes: both are under keys of the ring, or
    /// under the same key of a customer. Only the wrap of its keys is another one then.
    pub fn shares_encrypted(
        &self,
        version: &VersionRecord,
        customer: Option<&MasterKey>,
        new: &NewEncryption,
    ) -> bool {
        let Some(encryption) = &version.encryption else { return false };
        match (encryption.kind(), new) {
            (EncryptionKind::Customer, NewEncryption::Customer(key)) => customer == Some(key),
            (EncryptionKind::Customer, _) | (_, NewEncryption::Customer(_)) => false,
            (EncryptionKind::S3 | EncryptionKind::Kms, NewEncryption::S3 | NewEncryption::Kms { .. }) => true,
        }
    }

    /// Puts an encrypted object with all bytes of an encrypted `source`, whose extents it shares,
    /// as far as [`Store::shares_encrypted`] says so. A copy has the parts of its source, and its
    /// entity tag as far as a record of its kind shows one. The checksums of the commit are those
    /// of the plain bytes. Durable on return.
    ///
    /// # Errors
    /// As of [`Store::copy`] and [`Store::check_key`]; [`StoreError::Encrypted`] where no bytes can
    /// be shared.
    pub fn copy_encrypted(
        &self,
        mut source: CopyRange,
        bucket: &str,
        key: &str,
        mut commit: Commit,
        new: &NewEncryption,
        customer: Option<&MasterKey>,
    ) -> Result<CommittedVersion, StoreError> {
        let is_whole = source.range == (0..source.version.size);
        if !is_whole || !self.shares_encrypted(&source.version, customer, new) {
            return Err(StoreError::Encrypted);
        }
        let Some(encryption) = source.version.encryption.clone() else { return Err(StoreError::Encrypted) };
        let opened = self.shared.open_keys(encryption.keys.iter(), customer)?;
        // The bytes stay under the same object keys, so only those are wrapped again, each with a
        // salt of its own.
        let keys = opened.iter().map(|key| self.shared.wrap(new, key)).collect::<Result<Vec<_>, _>>()?;
        let known = self.digests(&source.version, customer)?;
        let digests = PlainDigests { checksums: std::mem::take(&mut commit.checksums), ..known };
        let sealed = self.place_digests(&opened[0], keys[0].kind, digests, &mut source.version, &mut commit);
        let encryption = VersionEncryption { keys, runs: encryption.runs, sealed };
        let bucket = self.bucket(bucket)?;
        let key = key.to_owned();
        let content = copy::shared_content(&self.shared, source)?;
        let encryption = Some(Box::new(encryption));
        let put = Put { bucket, key, content, commit, encryption, md5_by_committer: false };
        self.committer.submit(|reply| Mutation::Put(Box::new(put), reply))
    }

    /// Puts what is known of the plain bytes into a commit and the parts of the copied version, or
    /// seals it, as records of a kind do.
    fn place_digests(
        &self,
        key: &DataKey,
        kind: EncryptionKind,
        digests: PlainDigests,
        version: &mut VersionRecord,
        commit: &mut Commit,
    ) -> Vec<u8> {
        let parts = version.upload.iter_mut().flat_map(|made| &mut made.parts);
        if !kind.seals_digests() {
            for (part, checksum) in parts.zip(digests.parts) {
                part.checksum = checksum;
            }
            commit.checksums = digests.checksums;
            commit.etag = match (version.etag, digests.md5) {
                (ETag::Multipart { .. }, _) | (_, None) => version.etag,
                (_, Some(md5)) => ETag::Md5(md5),
            };
            return Vec::new();
        }
        // What is sealed is not also in the clear: a digest of the plain bytes would show whoever
        // reads the index that they are those of a known file.
        for part in parts {
            part.checksum = None;
        }
        let made = self.shared.seal(key, &digests);
        commit.etag = match version.etag {
            ETag::Multipart { parts, .. } => ETag::Multipart { md5: made.shown, parts },
            _ => ETag::Md5(made.shown),
        };
        made.sealed
    }

    fn wrapped_anew(&self, keys: &[WrappedKey]) -> Result<Vec<WrappedKey>, StoreError> {
        let mut anew = Vec::with_capacity(keys.len());
        for key in keys {
            let opened = self.shared.open_key(key, None)?;
            anew.push(self.shared.wrap(&NewEncryption::S3, &opened)?);
        }
        Ok(anew)
    }
}

/// Keys that the current one is to wrap.
struct OutdatedKeys {
    record: ReferringRecord,
    keys: Vec<WrappedKey>,
}

impl OutdatedKeys {
    /// The keys of a record, if they are wrapped by an earlier key of the ring.
    fn of(entry: Entry, current: &str) -> Option<Self> {
        let keys = keys_of(&entry).to_vec();
        if !keys.iter().any(|key| key.kind == EncryptionKind::S3 && key.key_id != current) {
            return None;
        }
        let mut encoded = Vec::new();
        entry.encode(&mut encoded);
        let len = encoded.len();
        let record = match entry {
            Entry::VersionPut { bucket, key, record } => {
                ReferringRecord::of_version(bucket, key, record.id, len)
            }
            Entry::UploadPut { bucket, key, record } => {
                ReferringRecord::of_upload(bucket, key, record.id, len)
            }
            _ => return None,
        };
        Some(Self { record, keys })
    }
}

fn keys_of(entry: &Entry) -> &[WrappedKey] {
    match entry {
        Entry::VersionPut { record, .. } => {
            record.encryption.as_ref().map_or(&[], |encryption| &encryption.keys)
        }
        Entry::UploadPut { record, .. } => record.encryption.as_deref().map_or(&[], std::slice::from_ref),
        _ => &[],
    }
}
