//! The keys of encrypted objects (data-format.md, section 20): those of the ring, and the wrapped
//! ones of objects and uploads.

use std::sync::Arc;

use crate::base::limits::ENCRYPTION_CONTEXT_MAX_BYTES;
use crate::base::{Entropy, OsEntropy};
use crate::crypto::{
    DataKey, KeySource, MasterKey, NamedKey, SALT_BYTES, SEALED_KEY_BYTES, seal_digests, unwrap_key, wrap_key,
};
use crate::format::{EncryptionKind, PlainDigests, WrappedKey};
use crate::store::StoreError;
use crate::store::shared::SharedStore;

/// The encryption that a new object or upload is to have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NewEncryption {
    /// Under the current key of the ring (SSE-S3).
    S3,
    /// Under a named key of the ring (SSE-KMS).
    Kms {
        /// Its id.
        key_id: String,
        /// The encryption context as the client sent it; empty without one.
        context: String,
        /// Whether the client asked for a bucket key.
        bucket_key: bool,
    },
    /// Under a key that the client sends with each request (SSE-C).
    Customer(MasterKey),
}

/// The key of a version or an upload, opened once for all that is done with it; none of bytes in
/// the clear.
#[derive(Debug, Clone, Default)]
pub struct OpenedKey(pub(in crate::store) Option<DataKey>);

/// The keys of the ring, and the source of new ones.
pub(in crate::store) struct StoreKeys {
    ring: Arc<dyn KeySource>,
    entropy: Arc<dyn Entropy>,
}

impl StoreKeys {
    /// The keys of a ring; `entropy` has to be the system's.
    pub(in crate::store) fn new(ring: Arc<dyn KeySource>, entropy: Arc<dyn Entropy>) -> Self {
        Self { ring, entropy }
    }

    /// Whether the ring has the key that opens this one. A customer's is not in the ring.
    pub(in crate::store) fn opens(&self, wrapped: &WrappedKey) -> bool {
        wrapped.kind == EncryptionKind::Customer || self.ring.to_open(&wrapped.key_id).is_some()
    }
}

/// Bytes that are not encrypted with a customer's key take none.
pub(in crate::store) fn refuse_key(customer: Option<&MasterKey>) -> Result<(), StoreError> {
    if customer.is_some() { Err(StoreError::CustomerKeyRefused) } else { Ok(()) }
}

impl SharedStore {
    fn entropy(&self) -> &dyn Entropy {
        self.keys().map_or(&OsEntropy, |keys| keys.entropy.as_ref())
    }

    /// A new salt.
    pub(in crate::store) fn new_salt(&self) -> [u8; SALT_BYTES] {
        let mut salt = [0; SALT_BYTES];
        self.entropy().fill(&mut salt);
        salt
    }

    /// The master key for a new object, and its id.
    fn master_for(&self, new: &NewEncryption) -> Result<NamedKey, StoreError> {
        let ring = self.keys().map(|keys| &keys.ring);
        match new {
            NewEncryption::S3 => ring.and_then(|ring| ring.current()).ok_or_else(|| unavailable("")),
            NewEncryption::Kms { key_id, .. } => {
                let ring = ring.ok_or_else(|| unavailable(key_id))?;
                let key = ring.to_wrap(key_id).ok_or_else(|| match ring.to_open(key_id) {
                    Some(_) => StoreError::RetiredKey(key_id.clone()),
                    None => unavailable(key_id),
                })?;
                Ok(NamedKey { id: key_id.clone(), key })
            }
            NewEncryption::Customer(key) => Ok(NamedKey { id: String::new(), key: key.clone() }),
        }
    }

    /// Draws the key of a new object or upload, and wraps it.
    ///
    /// # Errors
    /// [`StoreError::KeyUnavailable`]; [`StoreError::TooLarge`] for the encryption context.
    pub(in crate::store) fn new_key(&self, new: &NewEncryption) -> Result<BodyKey, StoreError> {
        if matches!(new, NewEncryption::Kms { context, .. } if context.len() > ENCRYPTION_CONTEXT_MAX_BYTES) {
            return Err(StoreError::TooLarge);
        }
        let key = DataKey::generate(self.entropy());
        let wrapped = self.wrap(new, &key)?;
        Ok(BodyKey { key, wrapped })
    }

    /// The id of the current key of the ring.
    pub(in crate::store) fn current_key_id(&self) -> Result<String, StoreError> {
        self.master_for(&NewEncryption::S3).map(|current| current.id)
    }

    /// The id of the key that wraps for `new`; `None` where none does. A customer's has none.
    pub(in crate::store) fn wrapping_id(&self, new: &NewEncryption) -> Option<String> {
        self.master_for(new).ok().map(|master| master.id)
    }

    /// How a key of the ring is wrapped anew, where another key of the ring has taken the place of
    /// the one that wraps it, or where the ring lacks that one.
    pub(in crate::store) fn renewal(&self, wrapped: &WrappedKey) -> Option<NewEncryption> {
        let ring = &self.keys()?.ring;
        match wrapped.kind {
            EncryptionKind::Customer => None,
            EncryptionKind::S3 => {
                let is_due = ring.current().is_some_and(|current| current.id != wrapped.key_id);
                is_due.then_some(NewEncryption::S3)
            }
            EncryptionKind::Kms => {
                let key_id = match ring.to_open(&wrapped.key_id) {
                    Some(_) => ring.successor(&wrapped.key_id)?.id,
                    // One that the ring lacks is due, too: wrapping it says so.
                    None => wrapped.key_id.clone(),
                };
                let is_due = key_id != wrapped.key_id || ring.to_open(&key_id).is_none();
                let WrappedKey { context, bucket_key, .. } = wrapped;
                let new = NewEncryption::Kms { key_id, context: context.clone(), bucket_key: *bucket_key };
                is_due.then_some(new)
            }
        }
    }

    /// Wraps a new key again, if another key of the ring has become the current one meanwhile.
    pub(in crate::store) fn renew(&self, key: &mut BodyKey) -> Result<(), StoreError> {
        if key.wrapped.kind == EncryptionKind::S3
            && let Some(new) = self.renewal(&key.wrapped)
        {
            key.wrapped = self.wrap(&new, &key.key)?;
        }
        Ok(())
    }

    /// Wraps the key of an object or of a write.
    pub(in crate::store) fn wrap(
        &self,
        new: &NewEncryption,
        key: &DataKey,
    ) -> Result<WrappedKey, StoreError> {
        let master = self.master_for(new)?;
        let kind = match new {
            NewEncryption::S3 => EncryptionKind::S3,
            NewEncryption::Kms { .. } => EncryptionKind::Kms,
            NewEncryption::Customer(_) => EncryptionKind::Customer,
        };
        let (context, bucket_key) = match new {
            NewEncryption::Kms { context, bucket_key, .. } => (context.clone(), *bucket_key),
            NewEncryption::S3 | NewEncryption::Customer(_) => (String::new(), false),
        };
        let unsealed = WrappedKey {
            kind,
            reach: key.reach(),
            bucket_key,
            key_id: master.id,
            context,
            // With a salt of its own each wrap is under a key of its own, so that no nonce is used
            // twice under one.
            salt: self.new_salt(),
            sealed: [0; SEALED_KEY_BYTES],
        };
        let sealed = wrap_key(&master.key, &unsealed.salt, unsealed.scope(), key);
        Ok(WrappedKey { sealed, ..unsealed })
    }

    /// Opens a wrapped key with that of the customer, or with the ring.
    pub(in crate::store) fn open_key(
        &self,
        wrapped: &WrappedKey,
        customer: Option<&MasterKey>,
    ) -> Result<DataKey, StoreError> {
        // The scope is under the seal: a wrapped key that was moved to another kind, id or context
        // does not open.
        match (wrapped.kind, customer) {
            (EncryptionKind::Customer, Some(key)) => opened(wrapped, key).ok_or(StoreError::WrongCustomerKey),
            (EncryptionKind::Customer, None) => Err(StoreError::CustomerKeyNeeded),
            (EncryptionKind::S3 | EncryptionKind::Kms, Some(_)) => Err(StoreError::CustomerKeyRefused),
            (EncryptionKind::S3 | EncryptionKind::Kms, None) => {
                let key = self.keys().and_then(|keys| keys.ring.to_open(&wrapped.key_id));
                let key = key.ok_or_else(|| StoreError::KeyUnavailable(wrapped.key_id.clone()))?;
                opened(wrapped, &key).ok_or_else(|| StoreError::WrongRingKey(wrapped.key_id.clone()))
            }
        }
    }

    /// Opens the key of a version or an upload. Bytes in the clear have none, and take none.
    pub(in crate::store) fn open_own(
        &self,
        wrapped: Option<&WrappedKey>,
        customer: Option<&MasterKey>,
    ) -> Result<OpenedKey, StoreError> {
        match wrapped {
            Some(wrapped) => self.open_key(wrapped, customer).map(|key| OpenedKey(Some(key))),
            None => refuse_key(customer).map(|()| OpenedKey(None)),
        }
    }

    /// What decrypts the bytes of a version or part: its own key, and those that copies brought.
    pub(in crate::store) fn open_rest<'k>(
        &self,
        own: &OpenedKey,
        rest: impl Iterator<Item = &'k WrappedKey>,
        customer: Option<&MasterKey>,
    ) -> Result<Vec<DataKey>, StoreError> {
        let rest = rest.map(|key| self.open_key(key, customer));
        own.0.clone().map(Ok).into_iter().chain(rest).collect()
    }

    /// The sealed form of an MD5 and checksums, and 16 random bytes that clients see in place of
    /// the MD5.
    pub(in crate::store) fn seal(&self, key: &DataKey, digests: &PlainDigests) -> SealedDigests {
        let mut shown = [0; 16];
        self.entropy().fill(&mut shown);
        SealedDigests { sealed: seal_digests(key, &digests.encode(), self.entropy()), shown }
    }
}

fn opened(wrapped: &WrappedKey, master: &MasterKey) -> Option<DataKey> {
    unwrap_key(master, &wrapped.salt, wrapped.scope(), &wrapped.sealed)
}

fn unavailable(id: &str) -> StoreError {
    StoreError::KeyUnavailable(id.to_owned())
}

/// Sealed digests, and what clients see in place of the MD5.
pub(in crate::store) struct SealedDigests {
    pub(in crate::store) sealed: Vec<u8>,
    pub(in crate::store) shown: [u8; 16],
}

/// The key of an object or an upload.
pub(in crate::store) struct BodyKey {
    pub(in crate::store) key: DataKey,
    pub(in crate::store) wrapped: WrappedKey,
}
