//! Encrypted objects (data-format.md, section 20): what callers ask about their keys, what records
//! seal, and the packages of a body.

use std::sync::Arc;

use crate::base::digest::Crc32;
use crate::base::{Entropy, OsEntropy};
use crate::crypto::{DataKey, KeySource, MasterKey, PackageCipher, SALT_BYTES, open_digests};
use crate::format::{
    Checksum, ETag, EncryptedRun, Features, PACKAGE_PLAIN_BYTES, PartEncryption, PartRecord, PlainDigests,
    UploadRecord, VersionEncryption, VersionRecord,
};
use crate::store::shared::SharedStore;
use crate::store::shared::object_keys::{BodyKey, OpenedKey, StoreKeys};
use crate::store::{Store, StoreError};

impl Store {
    /// Sets the ring whose keys encrypt objects. Only the first call counts.
    pub fn set_keys(&self, ring: Arc<dyn KeySource>) {
        self.set_keys_with(ring, Arc::new(OsEntropy));
    }

    /// As [`Store::set_keys`], with a source of object keys and salts for repeatable tests.
    pub fn set_keys_with(&self, ring: Arc<dyn KeySource>, entropy: Arc<dyn Entropy>) {
        self.shared.set_keys(StoreKeys::new(ring, entropy));
    }

    /// Whether the store holds an encrypted object, part or upload, or has held one since its
    /// checkpoint.
    pub fn has_encrypted(&self) -> bool {
        self.shared.index().features().contains(Features::ENCRYPTED_OBJECTS)
    }

    /// Checks, without reading a byte, that the bytes of a version can be decrypted with the ring
    /// and the key of a customer. A version in the clear takes no key.
    ///
    /// # Errors
    /// As of [`Store::open_key`].
    pub fn check_key(&self, version: &VersionRecord, customer: Option<&MasterKey>) -> Result<(), StoreError> {
        self.open_key(version, customer).map(drop)
    }

    /// Opens the key of a version, without reading a byte. A version in the clear takes no key.
    ///
    /// # Errors
    /// [`StoreError::CustomerKeyNeeded`], [`StoreError::CustomerKeyRefused`],
    /// [`StoreError::WrongCustomerKey`]; [`StoreError::KeyUnavailable`],
    /// [`StoreError::WrongRingKey`].
    pub fn open_key(
        &self,
        version: &VersionRecord,
        customer: Option<&MasterKey>,
    ) -> Result<OpenedKey, StoreError> {
        let own = version.encryption.as_ref().map(|encryption| &encryption.keys[0]);
        self.shared.open_own(own, customer)
    }

    /// Opens the key of an upload, likewise.
    ///
    /// # Errors
    /// As of [`Store::open_key`].
    pub fn open_upload_key(
        &self,
        upload: &UploadRecord,
        customer: Option<&MasterKey>,
    ) -> Result<OpenedKey, StoreError> {
        self.shared.open_own(upload.encryption.as_deref(), customer)
    }

    /// What is known of the plain bytes of a version: its MD5, its checksums, and those of its
    /// parts.
    ///
    /// # Errors
    /// As of [`Store::open_key`], if the record seals them.
    pub fn digests(
        &self,
        version: &VersionRecord,
        customer: Option<&MasterKey>,
    ) -> Result<PlainDigests, StoreError> {
        let seals = version.encryption.as_ref().is_some_and(|encryption| !encryption.sealed.is_empty());
        let key = if seals { self.open_key(version, customer)? } else { OpenedKey::default() };
        self.opened_digests(version, &key)
    }

    /// The same with the opened key of the version.
    ///
    /// # Errors
    /// If what the record seals does not open with it.
    pub fn opened_digests(
        &self,
        version: &VersionRecord,
        key: &OpenedKey,
    ) -> Result<PlainDigests, StoreError> {
        let sealed = version.encryption.as_ref().map_or(&[][..], |encryption| &encryption.sealed);
        if !sealed.is_empty() {
            return open_sealed(key, sealed);
        }
        let parts = version.upload.iter().flat_map(|made| &made.parts);
        Ok(PlainDigests {
            md5: if let ETag::Md5(md5) = version.etag { Some(md5) } else { None },
            checksums: version.checksums.clone(),
            parts: parts.map(|part| part.checksum.clone()).collect(),
        })
    }

    /// Gives parts of an upload the checksums that their records seal. `key` is that of the upload.
    ///
    /// # Errors
    /// If what a record seals does not open with it.
    pub fn open_parts(&self, parts: &mut [PartRecord], key: &OpenedKey) -> Result<(), StoreError> {
        parts.iter_mut().try_for_each(|part| open_part(part, key))
    }
}

/// Gives a part the checksum that its record seals. `key` is that of its upload.
pub(super) fn open_part(part: &mut PartRecord, key: &OpenedKey) -> Result<(), StoreError> {
    let sealed = part.encryption.as_ref().map_or(&[][..], |encryption| &encryption.sealed);
    if !sealed.is_empty() {
        part.checksum = open_sealed(key, sealed)?.checksums.pop();
    }
    Ok(())
}

/// What the record of a part has of the digests of its bytes.
pub(super) struct PartDigests {
    pub(super) md5: [u8; 16],
    pub(super) checksum: Option<Checksum>,
    pub(super) sealed: Vec<u8>,
}

impl PartDigests {
    /// Seals the digests of a part, if records of its upload do.
    pub(super) fn of(
        shared: &SharedStore,
        upload: &UploadRecord,
        key: Option<&DataKey>,
        md5: [u8; 16],
        checksum: Option<Checksum>,
    ) -> Self {
        let seals = upload.encryption.as_ref().is_some_and(|wrapped| wrapped.kind.seals_digests());
        let Some(key) = key.filter(|_| seals) else { return Self { md5, checksum, sealed: Vec::new() } };
        let checksums = checksum.into_iter().collect();
        let made = shared.seal(key, &PlainDigests { md5: Some(md5), checksums, parts: Vec::new() });
        Self { md5: made.shown, checksum: None, sealed: made.sealed }
    }
}

fn open_sealed(key: &OpenedKey, sealed: &[u8]) -> Result<PlainDigests, StoreError> {
    let opened = key.0.as_ref().and_then(|key| open_digests(key, sealed));
    let opened = opened.and_then(|plain| PlainDigests::decode(&plain).ok());
    opened.ok_or_else(|| StoreError::Io("the sealed checksums of a record do not open with its key".into()))
}

impl BodyKey {
    /// The encryption of a version with the bytes of one write.
    pub(super) fn of_version(&self, run: EncryptedRun, sealed: Vec<u8>) -> Box<VersionEncryption> {
        Box::new(VersionEncryption { keys: vec![self.wrapped.clone()], runs: runs_of(run), sealed })
    }

    /// The encryption of a part of the upload with that key.
    pub(super) fn of_part(run: EncryptedRun, sealed: Vec<u8>) -> Box<PartEncryption> {
        Box::new(PartEncryption { keys: Vec::new(), runs: runs_of(run), sealed })
    }
}

fn runs_of(run: EncryptedRun) -> Vec<EncryptedRun> {
    if run.len == 0 { Vec::new() } else { vec![run] }
}

/// Encrypts the bytes of one write, package by package.
pub(super) struct BodyCipher {
    cipher: PackageCipher,
    salt: [u8; SALT_BYTES],
    /// Packages so far, and so the number of the next one.
    packages: u64,
    /// The plain bytes of the next package. One that is full waits for more bytes: the last one is
    /// marked.
    package: Vec<u8>,
    crc: Crc32,
}

impl BodyCipher {
    /// A cipher for one write, with a salt of its own.
    pub(super) fn new(shared: &SharedStore, key: &DataKey) -> Self {
        let salt = shared.new_salt();
        let cipher = PackageCipher::new(key, &salt);
        Self { cipher, salt, packages: 0, package: Vec::new(), crc: Crc32::new() }
    }

    /// Plain bytes that wait.
    pub(super) fn pending(&self) -> u64 {
        self.package.len() as u64
    }

    /// The CRC-32 of the plain bytes so far.
    pub(super) fn crc32(&self) -> u32 {
        self.crc.value()
    }

    /// Whether the next byte belongs to another package.
    pub(super) fn is_full(&self) -> bool {
        self.pending() == PACKAGE_PLAIN_BYTES
    }

    /// Takes bytes, as many as the package has room for, and returns the rest.
    pub(super) fn take<'b>(&mut self, bytes: &'b [u8]) -> &'b [u8] {
        let room = (PACKAGE_PLAIN_BYTES - self.pending()) as usize;
        let (now, later) = bytes.split_at(bytes.len().min(room));
        self.crc.update(now);
        self.package.extend_from_slice(now);
        later
    }

    /// The package of the bytes that wait.
    pub(super) fn seal(&mut self, is_last: bool) -> Vec<u8> {
        let mut package = std::mem::take(&mut self.package);
        self.cipher.seal(self.packages, is_last, &mut package);
        self.packages += 1;
        package
    }

    /// Takes back the memory of a package that was written.
    pub(super) fn reuse(&mut self, mut package: Vec<u8>) {
        package.clear();
        self.package = package;
    }

    /// The run of all bytes of the write.
    pub(super) fn run(&self, len: u64) -> EncryptedRun {
        EncryptedRun { key: 0, salt: self.salt, packages: self.packages, first: 0, len }
    }
}
