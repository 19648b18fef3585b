//! Encrypted bytes that are decrypted while they come.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use super::BlockCiphers;
use super::cipher::BlockPlace;
use crate::format::EncryptedBlockHead;
use crate::remote::{PartBytes, PartStream, RemoteError};

/// The plaintext of a range, block by block.
pub(super) struct DecryptedBytes {
    ciphers: Arc<BlockCiphers>,
    name: String,
    range: Range<u64>,
    /// The number of the next block.
    next: u64,
    encrypted: PartStream,
    /// Plaintext that was not read yet.
    plain: Vec<u8>,
}

impl DecryptedBytes {
    /// The plaintext of `range`, which begins in the block with the number `first`.
    pub(super) fn new(
        ciphers: Arc<BlockCiphers>,
        name: &str,
        range: Range<u64>,
        first: u64,
        encrypted: PartStream,
    ) -> Self {
        Self { ciphers, name: name.to_owned(), range, next: first, encrypted, plain: Vec::new() }
    }

    /// Decrypts the next block.
    fn open_next(&mut self, within: Duration) -> Result<(), RemoteError> {
        let number = self.next;
        let length = self.encrypted.object_length;
        let start = number.saturating_mul(EncryptedBlockHead::BLOCK_BYTES);
        let end = start.saturating_add(EncryptedBlockHead::BLOCK_BYTES);
        let is_beyond = start >= length || number * EncryptedBlockHead::PLAIN_BYTES >= self.range.end;
        if is_beyond {
            return Err(RemoteError::Wrong(format!("{} has no more bytes", self.name)));
        }
        let mut block = vec![0; (end.min(length) - start) as usize];
        self.encrypted.bytes.read(&mut block, within)?;
        let place = BlockPlace { name: &self.name, number, is_last: end >= length };
        self.ciphers.open(place, &mut block, &self.range, &mut self.plain)?;
        self.next += 1;
        Ok(())
    }
}

impl PartBytes for DecryptedBytes {
    fn read(&mut self, buffer: &mut [u8], within: Duration) -> Result<(), RemoteError> {
        while self.plain.len() < buffer.len() {
            self.open_next(within)?;
        }
        buffer.copy_from_slice(&self.plain[..buffer.len()]);
        self.plain.drain(..buffer.len());
        Ok(())
    }
}
