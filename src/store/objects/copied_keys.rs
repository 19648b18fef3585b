//! Copies that share encrypted bytes: the keys that their records wrap, and the digests that they
//! seal (data-format.md, section 20, "Copies").

use std::collections::HashMap;
use std::ops::Range;

use super::copy;
use super::encryption::PartDigests;
use crate::base::limits::BLOCK_BYTES;
use crate::crypto::{DataKey, MasterKey, SALT_BYTES, write_key};
use crate::format::{
    Checksum, ETag, EncryptedRun, EncryptionKind, PartEncryption, PartRecord, PlainDigests, RunCursor,
    UploadId, UploadRecord, VersionEncryption, VersionRecord, WrappedKey, plain_len,
};
use crate::store::commit::mutation::{Mutation, Put, PutPart};
use crate::store::shared::SharedStore;
use crate::store::shared::object_keys::OpenedKey;
use crate::store::{Commit, CommittedVersion, CopyRange, NewEncryption, Store, StoreError};

/// Keys of a part beside that of its upload, at most. An upload has ten thousand parts, and the
/// record of its object the keys of all: a copy that would bring more encrypts its bytes anew.
const PART_KEYS_MAX: usize = 16;

/// A part of an encrypted upload that shares the bytes of an encrypted version.
#[derive(Debug)]
pub struct EncryptedPartCopy<'k> {
    /// The bytes.
    pub source: CopyRange,
    /// The customer's key of the source.
    pub source_key: Option<&'k MasterKey>,
    /// The upload.
    pub upload: UploadId,
    /// The customer's key of the upload.
    pub upload_key: Option<&'k MasterKey>,
    /// The number of the part.
    pub number: u32,
    /// The MD5 of the plain bytes.
    pub md5: [u8; 16],
    /// Their checksum.
    pub checksum: Option<Checksum>,
}

impl Store {
    /// Whether a copy of a whole version can share its bytes: both are under keys of the ring, or
    /// under the same key of a customer. Only the wrap of its keys is another one then. Bytes that
    /// a part of the version itself shares with another object are not shared beyond their master
    /// key, unless they are whole writes.
    pub fn shares_encrypted(
        &self,
        version: &VersionRecord,
        customer: Option<&MasterKey>,
        new: &NewEncryption,
    ) -> bool {
        let Some(target) = TargetKey::of(&self.shared, new.clone()) else { return false };
        SharedKeys::of_version(version, customer, &target).is_some()
    }

    /// Whether a part can share a range of the bytes of a version: under one master key any bytes,
    /// between keys of the ring whole writes.
    pub fn shares_part(
        &self,
        version: &VersionRecord,
        range: &Range<u64>,
        customer: Option<&MasterKey>,
        upload: &UploadRecord,
        upload_key: Option<&MasterKey>,
    ) -> bool {
        let Some(target) = TargetKey::of_upload(&self.shared, upload, upload_key) else { return false };
        SharedKeys::of_part(version, range, customer, &target).is_some()
    }

    /// Puts an encrypted object with all bytes of an encrypted `source`, whose extents it shares,
    /// as far as [`Store::shares_encrypted`] says so. A copy has the parts of its source, and its
    /// entity tag as far as a record of its kind shows one. The checksums of the commit are those
    /// of the plain bytes. Durable on return.
    ///
    /// # Errors
    /// As of [`Store::copy`] and [`Store::open_key`]; [`StoreError::Encrypted`] where no bytes can
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
        let target = TargetKey::of(&self.shared, new.clone()).filter(|_| is_whole);
        let target = target.ok_or(StoreError::Encrypted)?;
        let shared = SharedKeys::of_version(&source.version, customer, &target);
        let shared = shared.ok_or(StoreError::Encrypted)?;
        let own = self.open_key(&source.version, customer)?;
        let Some(own_key) = own.0.clone() else { return Err(StoreError::Encrypted) };
        let mut keys = vec![self.shared.wrap(new, &own_key)?];
        keys.extend(shared.wrap_from(1, &self.shared, &source.version, &own, customer, &target)?);
        let known = self.opened_digests(&source.version, &own)?;
        let digests = PlainDigests { checksums: std::mem::take(&mut commit.checksums), ..known };
        let sealed = self.place_digests(&own_key, keys[0].kind, digests, &mut source.version, &mut commit);
        let encryption = Some(Box::new(VersionEncryption { keys, runs: shared.runs, sealed }));
        let bucket = self.bucket(bucket)?;
        let key = key.to_owned();
        let content = copy::shared_content(&self.shared, source)?;
        let put = Put { bucket, key, content, commit, encryption, md5_by_committer: false };
        self.committer.submit(|reply| Mutation::Put(Box::new(put), reply))
    }

    /// Puts a part of an encrypted upload with bytes of an encrypted version, whose extents it
    /// shares, as far as [`Store::shares_part`] says so. Durable on return.
    ///
    /// # Errors
    /// As of [`Store::copy_part`] and [`Store::open_key`]; [`StoreError::Encrypted`] where no bytes
    /// can be shared.
    pub fn copy_encrypted_part(
        &self,
        bucket: &str,
        key: &str,
        copy: EncryptedPartCopy<'_>,
    ) -> Result<PartRecord, StoreError> {
        let EncryptedPartCopy { source, source_key, upload, upload_key, number, md5, checksum } = copy;
        let (bucket, upload) = self.bucket_and_upload(bucket, key, upload)?;
        let of_upload = self.open_upload_key(&upload, upload_key)?;
        let target = TargetKey::of_upload(&self.shared, &upload, upload_key).ok_or(StoreError::Encrypted)?;
        let shared = SharedKeys::of_part(&source.version, &source.range, source_key, &target);
        let shared = shared.ok_or(StoreError::Encrypted)?;
        let own = self.open_key(&source.version, source_key)?;
        let keys = shared.wrap_from(0, &self.shared, &source.version, &own, source_key, &target)?;
        let PartDigests { md5, checksum, sealed } =
            PartDigests::of(&self.shared, &upload, of_upload.0.as_ref(), md5, checksum);
        let encryption = Some(Box::new(PartEncryption { keys, runs: shared.runs, sealed }));
        let key = key.to_owned();
        let content = copy::shared_content(&self.shared, source)?;
        let put = PutPart { bucket, key, upload, number, content, md5, checksum, encryption };
        self.committer.submit(|reply| Mutation::PutPart(Box::new(put), reply))
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
}

/// The master key that wraps the keys of a copy.
struct TargetKey {
    new: NewEncryption,
    /// Its id in the ring; empty for a customer's.
    id: String,
}

/// How the master key of a source is related to that of a copy.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kinship {
    /// They are the same one.
    Same,
    /// Both are of the ring.
    Ring,
    /// One of them is a customer's, and they differ.
    None,
}

impl TargetKey {
    /// `None` if there is no such key, or it wraps no more.
    fn of(shared: &SharedStore, new: NewEncryption) -> Option<Self> {
        let id = shared.wrapping_id(&new)?;
        Some(Self { new, id })
    }

    /// The key that wraps for parts of an upload.
    fn of_upload(shared: &SharedStore, upload: &UploadRecord, customer: Option<&MasterKey>) -> Option<Self> {
        let wrapped = upload.encryption.as_deref()?;
        let new = match wrapped.kind {
            EncryptionKind::S3 => NewEncryption::S3,
            EncryptionKind::Kms => NewEncryption::Kms {
                key_id: wrapped.key_id.clone(),
                context: String::new(),
                bucket_key: wrapped.bucket_key,
            },
            EncryptionKind::Customer => NewEncryption::Customer(customer?.clone()),
        };
        Self::of(shared, new)
    }

    fn kinship(&self, wrapped: &WrappedKey, customer: Option<&MasterKey>) -> Kinship {
        match (wrapped.kind, &self.new) {
            (EncryptionKind::Customer, NewEncryption::Customer(key)) if customer == Some(key) => {
                Kinship::Same
            }
            (EncryptionKind::Customer, _) | (_, NewEncryption::Customer(_)) => Kinship::None,
            _ if wrapped.key_id == self.id => Kinship::Same,
            _ => Kinship::Ring,
        }
    }

    /// Whether a record of the copy can have a wrapped key as it is: one that was made by the same
    /// master key for a record of the same kind.
    fn has_made(&self, wrapped: &WrappedKey) -> bool {
        let kind = match self.new {
            NewEncryption::S3 => EncryptionKind::S3,
            NewEncryption::Kms { .. } => EncryptionKind::Kms,
            NewEncryption::Customer(_) => EncryptionKind::Customer,
        };
        (wrapped.kind, &wrapped.key_id) == (kind, &self.id) && wrapped.context.is_empty()
    }

    /// How the keys of a record beside the first are wrapped: that one states the context.
    fn of_rows(&self) -> NewEncryption {
        match &self.new {
            NewEncryption::Kms { key_id, bucket_key, .. } => {
                NewEncryption::Kms { key_id: key_id.clone(), context: String::new(), bucket_key: *bucket_key }
            }
            other => other.clone(),
        }
    }
}

/// A wrapped key of the source, or the key of one of its writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct SharedRow {
    /// The number of the wrapped key in the source.
    key: u32,
    /// The salt of the write, for its key alone.
    write: Option<[u8; SALT_BYTES]>,
}

/// The keys and the runs of the record of a copy.
struct SharedKeys {
    rows: Vec<SharedRow>,
    runs: Vec<EncryptedRun>,
}

impl SharedKeys {
    /// Those of a copy of a whole version. The first key is that of the version: all that it opens
    /// was written for it. `None` if bytes cannot be shared.
    fn of_version(version: &VersionRecord, customer: Option<&MasterKey>, target: &TargetKey) -> Option<Self> {
        let encryption = version.encryption.as_deref()?;
        if target.kinship(&encryption.keys[0], customer) == Kinship::None {
            return None;
        }
        let own = SharedRow { key: 0, write: None };
        let pieces = pieces(version, &(0..version.size))?;
        let shared = Self::collect(vec![own], 0, pieces, |piece| match piece.run.key {
            0 => Some(own),
            _ => row_beyond(encryption, piece, customer, target),
        })?;
        (shared.rows.len() <= encryption.keys.len() + PART_KEYS_MAX).then_some(shared)
    }

    /// Those of a part. Its own keys are counted from 1. `None` if bytes cannot be shared.
    fn of_part(
        version: &VersionRecord,
        range: &Range<u64>,
        customer: Option<&MasterKey>,
        target: &TargetKey,
    ) -> Option<Self> {
        let encryption = version.encryption.as_deref()?;
        let pieces = pieces(version, range)?;
        let shared =
            Self::collect(Vec::new(), 1, pieces, |piece| row_beyond(encryption, piece, customer, target))?;
        (shared.rows.len() <= PART_KEYS_MAX).then_some(shared)
    }

    /// Numbers the rows of pieces, each row once, from the number `first`.
    fn collect(
        mut rows: Vec<SharedRow>,
        first: u32,
        pieces: Vec<Piece>,
        row_of: impl Fn(&Piece) -> Option<SharedRow>,
    ) -> Option<Self> {
        let mut numbers: HashMap<SharedRow, u32> = rows.iter().map(|row| (*row, first)).collect();
        let mut runs = Vec::with_capacity(pieces.len());
        for piece in pieces {
            let row = row_of(&piece)?;
            let next = first + rows.len() as u32;
            let key = *numbers.entry(row).or_insert(next);
            if key == next {
                rows.push(row);
            }
            runs.push(EncryptedRun { key, ..piece.run });
        }
        Some(Self { rows, runs })
    }

    /// Wraps the rows from one on.
    fn wrap_from(
        &self,
        start: usize,
        shared: &SharedStore,
        version: &VersionRecord,
        own: &OpenedKey,
        customer: Option<&MasterKey>,
        target: &TargetKey,
    ) -> Result<Vec<WrappedKey>, StoreError> {
        let encryption = version.encryption.as_deref().ok_or(StoreError::Encrypted)?;
        let new = target.of_rows();
        let mut keys = Vec::with_capacity(self.rows.len());
        for row in &self.rows[start..] {
            let wrapped = &encryption.keys[row.key as usize];
            if row.write.is_none() && target.has_made(wrapped) {
                keys.push(wrapped.clone());
                continue;
            }
            let opened = match own.0.as_ref().filter(|_| row.key == 0) {
                Some(own) => own.clone(),
                None => shared.open_key(wrapped, customer)?,
            };
            let opened = row.write.map_or(opened.clone(), |salt| write_key(&opened, &salt));
            keys.push(shared.wrap(&new, &opened)?);
        }
        Ok(keys)
    }
}

/// The row of bytes that may be those of another object: their key may open more than these bytes,
/// and stays under its master key. The key of a write that is copied whole opens nothing else.
fn row_beyond(
    encryption: &VersionEncryption,
    piece: &Piece,
    customer: Option<&MasterKey>,
    target: &TargetKey,
) -> Option<SharedRow> {
    let key = piece.run.key;
    match target.kinship(encryption.keys.get(key as usize)?, customer) {
        Kinship::Same => Some(SharedRow { key, write: None }),
        Kinship::Ring if piece.is_whole() => Some(SharedRow { key, write: Some(piece.run.salt) }),
        Kinship::Ring | Kinship::None => None,
    }
}

/// Bytes of one write that a copy shares.
struct Piece {
    run: EncryptedRun,
    /// The number of the package after its extents.
    next: u64,
    /// Whether its extents are shared with all their bytes.
    is_full: bool,
}

impl Piece {
    /// Whether these are all bytes of the write.
    fn is_whole(&self) -> bool {
        self.is_full && self.run.first == 0 && self.next == self.run.packages
    }

    /// Adds the bytes that follow in the write; `false` if these do not.
    fn extend(&mut self, next: &Self) -> bool {
        let is_same = (self.run.key, self.run.salt) == (next.run.key, next.run.salt);
        let follows = is_same && self.is_full && next.is_full && self.next == next.run.first;
        if follows {
            self.run.len += next.run.len;
            self.next = next.next;
        }
        follows
    }
}

/// The pieces of a range of an encrypted version; `None` if its runs are not those of its extents.
fn pieces(version: &VersionRecord, range: &Range<u64>) -> Option<Vec<Piece>> {
    let mut cursor = RunCursor::new(&version.encryption.as_ref()?.runs);
    let mut pieces: Vec<Piece> = Vec::new();
    let mut start = 0;
    for extent in version.extents.iter().filter(|extent| extent.take > 0) {
        let packages = cursor.next(extent)?;
        let end = start + u64::from(extent.take);
        let from = range.start.max(start);
        let to = range.end.min(end);
        start = end;
        if from >= to {
            continue;
        }
        let stored = u64::from(extent.payload_len);
        let run = EncryptedRun {
            key: packages.key,
            salt: packages.salt,
            packages: packages.of,
            first: packages.first,
            len: to - from,
        };
        let piece = Piece {
            run,
            next: packages.first.checked_add(stored.div_ceil(BLOCK_BYTES))?,
            is_full: run.len == plain_len(stored),
        };
        if !pieces.last_mut().is_some_and(|last| last.extend(&piece)) {
            pieces.push(piece);
        }
    }
    Some(pieces)
}
