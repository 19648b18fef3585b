//! The encryption of all objects of a remote (data-format.md, section 18).
//!
//! Objects are cut into blocks that are encrypted one by one, so that a range is read by one
//! request, and verified. A block decrypts only at its place: under its name, with its number, as
//! the last one or not. So blocks and objects cannot be exchanged, nor cut off.
//!
//! A put that is repeated has to send the same bytes, also by another process, since an earlier try
//! may land late. So nothing is random: the salt of a block is a keyed digest of its place and its
//! plaintext, and the key that encrypts it depends on the salt. Whatever is put under a name, no
//! key ever encrypts two plaintexts.

mod body;
mod cipher;
mod decrypted;
mod keys;

#[cfg(test)]
mod tests;

pub use keys::{EncryptionKey, EncryptionKeys};

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use crate::format::EncryptedBlockHead;
use crate::remote::{
    Comparison, NewObject, ObjectPart, PartStream, Remote, RemoteError, RemoteObject, RemoteView,
    RequestsByCall,
};
use body::EncryptedBody;
use cipher::{BlockCipher, BlockPlace};
use decrypted::DecryptedBytes;

/// A remote whose objects are encrypted. All lengths and ranges count plaintext. It states
/// no MD5, since the remote's cover encrypted bytes;
/// [`RemoteView::compare`](crate::remote::RemoteView::compare) compares them.
pub struct EncryptedRemote {
    remote: Arc<dyn Remote>,
    ciphers: Arc<BlockCiphers>,
}

/// The ciphers of all keys.
struct BlockCiphers {
    /// That for new objects.
    current: BlockCipher,
    older: Vec<BlockCipher>,
}

impl EncryptedRemote {
    /// The objects of `remote`, encrypted with the first one of the keys.
    pub fn new(remote: Arc<dyn Remote>, keys: &EncryptionKeys) -> Self {
        let older = keys.older.iter().map(BlockCipher::new).collect();
        let ciphers = Arc::new(BlockCiphers { current: BlockCipher::new(&keys.current), older });
        Self { remote, ciphers }
    }

    /// Does something with the encrypted form of an object.
    fn with_encrypted<T>(
        &self,
        object: &NewObject<'_>,
        act: impl FnOnce(&NewObject<'_>) -> Result<T, RemoteError>,
    ) -> Result<T, RemoteError> {
        let body = EncryptedBody::new(&self.ciphers.current, object.name, object.body);
        act(&NewObject { body: &body, ..*object })
    }
}

impl BlockCiphers {
    fn cipher(&self, name: &str, head: &EncryptedBlockHead) -> Result<&BlockCipher, RemoteError> {
        let mut all = std::iter::once(&self.current).chain(&self.older);
        all.find(|cipher| cipher.id == head.key).ok_or_else(|| {
            RemoteError::Refused(format!(
                "{name} is encrypted with the key {}, which is not in the file that encryption_key_file names",
                head.key
            ))
        })
    }

    /// Adds the bytes of `range` that the plaintext of a block has.
    fn open(
        &self,
        place: BlockPlace<'_>,
        block: &mut [u8],
        range: &Range<u64>,
        out: &mut Vec<u8>,
    ) -> Result<(), RemoteError> {
        let BlockPlace { name, number, .. } = place;
        let wrong = |why: &str| RemoteError::Wrong(format!("block {number} of {name}: {why}"));
        let head = EncryptedBlockHead::decode(block).map_err(|why| {
            wrong(&format!("it is damaged, or not encrypted, and then encryption_key_file has to go: {why}"))
        })?;
        let opened = self.cipher(name, &head)?.open(place, &head, block);
        let plain = opened.ok_or_else(|| wrong("it is damaged, or was not encrypted for this place"))?;
        let start = number * EncryptedBlockHead::PLAIN_BYTES;
        let within = |at: u64| (at.saturating_sub(start) as usize).min(plain.len());
        out.extend_from_slice(&plain[within(range.start)..within(range.end)]);
        Ok(())
    }
}

impl RemoteView for EncryptedRemote {
    fn calls_at_once(&self) -> usize {
        self.remote.calls_at_once()
    }

    fn head(&self, name: &str, within: Duration) -> Result<Option<RemoteObject>, RemoteError> {
        let Some(found) = self.remote.head(name, within)? else { return Ok(None) };
        Ok(Some(RemoteObject { length: plain_length(name, found.length)?, md5: None, ..found }))
    }

    fn get_part(&self, name: &str, range: Range<u64>, within: Duration) -> Result<ObjectPart, RemoteError> {
        if range.is_empty() {
            let object_length = self.head(name, within)?.ok_or(RemoteError::Missing)?.length;
            return Ok(ObjectPart { bytes: Vec::new(), object_length });
        }
        let blocks = EncryptedBlocks::of(&range);
        let mut part = self.remote.get_part(name, blocks.range(), within)?;
        let object_length = blocks.check(name, &range, part.object_length)?;
        if part.bytes.len() as u64 != blocks.range().end.min(part.object_length) - blocks.range().start {
            return Err(RemoteError::Wrong(format!("{} bytes of {name} came", part.bytes.len())));
        }
        let mut bytes = Vec::with_capacity(part.bytes.len());
        let size = EncryptedBlockHead::BLOCK_BYTES as usize;
        for (number, block) in (blocks.first..).zip(part.bytes.chunks_mut(size)) {
            let is_last = (number + 1) * EncryptedBlockHead::BLOCK_BYTES >= part.object_length;
            self.ciphers.open(BlockPlace { name, number, is_last }, block, &range, &mut bytes)?;
        }
        Ok(ObjectPart { bytes, object_length })
    }

    fn open_stream(
        &self,
        name: &str,
        range: Range<u64>,
        within: Duration,
    ) -> Result<PartStream, RemoteError> {
        let blocks = EncryptedBlocks::of(&range);
        let encrypted = self.remote.open_stream(name, blocks.range(), within)?;
        let object_length = blocks.check(name, &range, encrypted.object_length)?;
        let ciphers = Arc::clone(&self.ciphers);
        let bytes = DecryptedBytes::new(ciphers, name, range, blocks.first, encrypted);
        Ok(PartStream { object_length, bytes: Box::new(bytes) })
    }

    fn compare(&self, object: &NewObject<'_>, within: Duration) -> Result<Comparison, RemoteError> {
        self.with_encrypted(object, |encrypted| self.remote.compare(encrypted, within))
    }

    /// As [`RemoteView::list`](crate::remote::RemoteView::list). Foreign objects among them, which
    /// are not encrypted, have the length that the remote states.
    fn list(&self, prefix: &str, after: &str, within: Duration) -> Result<Vec<RemoteObject>, RemoteError> {
        let found = self.remote.list(prefix, after, within)?;
        let plain = found.into_iter().map(|object| {
            let length = EncryptedBlockHead::plain_length(object.length).unwrap_or(object.length);
            RemoteObject { length, md5: None, ..object }
        });
        Ok(plain.collect())
    }

    fn requests(&self) -> RequestsByCall {
        self.remote.requests()
    }
}

impl Remote for EncryptedRemote {
    fn put(&self, object: &NewObject<'_>, within: Duration) -> Result<RemoteObject, RemoteError> {
        let put = self.with_encrypted(object, |encrypted| self.remote.put(encrypted, within))?;
        Ok(RemoteObject { length: object.body.length(), md5: None, ..put })
    }

    fn put_and_compare(&self, object: &NewObject<'_>, within: Duration) -> Result<Comparison, RemoteError> {
        self.with_encrypted(object, |encrypted| self.remote.put_and_compare(encrypted, within))
    }

    fn delete(&self, name: &str, within: Duration) -> Result<(), RemoteError> {
        self.remote.delete(name, within)
    }
}

/// The blocks that a range of a plaintext touches.
struct EncryptedBlocks {
    first: u64,
    end: u64,
}

impl EncryptedBlocks {
    fn of(range: &Range<u64>) -> Self {
        let first = range.start / EncryptedBlockHead::PLAIN_BYTES;
        Self { first, end: range.end.div_ceil(EncryptedBlockHead::PLAIN_BYTES) }
    }

    /// Their bytes.
    fn range(&self) -> Range<u64> {
        let start = self.first.saturating_mul(EncryptedBlockHead::BLOCK_BYTES);
        start..self.end.saturating_mul(EncryptedBlockHead::BLOCK_BYTES)
    }

    /// The length of the plaintext of an object, which has the begin of the range.
    fn check(&self, name: &str, range: &Range<u64>, encrypted: u64) -> Result<u64, RemoteError> {
        let length = plain_length(name, encrypted)?;
        match range.start < length && self.range().start < encrypted {
            true => Ok(length),
            false => {
                Err(RemoteError::Wrong(format!("{name} has {length} bytes, and {range:?} was asked for")))
            }
        }
    }
}

fn plain_length(name: &str, encrypted: u64) -> Result<u64, RemoteError> {
    EncryptedBlockHead::plain_length(encrypted).ok_or_else(|| {
        RemoteError::Wrong(format!(
            "{name} has {encrypted} bytes, as no encrypted object: it is damaged, or not encrypted, and then encryption_key_file has to go"
        ))
    })
}
