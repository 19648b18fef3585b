//! The encrypted form of a body.

use std::io;
use std::sync::Mutex;

use super::cipher::{BlockCipher, BlockPlace};
use crate::base::NOT_POISONED;
use crate::format::EncryptedBlockHead;
use crate::remote::Body;

/// A body that is encrypted when it is read, the same at each time.
pub(super) struct EncryptedBody<'b> {
    cipher: &'b BlockCipher,
    name: &'b str,
    plain: &'b dyn Body,
    /// The last block with its number: bodies are read from the start to the end in smaller pieces.
    last_read: Mutex<Option<(u64, Vec<u8>)>>,
}

impl<'b> EncryptedBody<'b> {
    pub(super) fn new(cipher: &'b BlockCipher, name: &'b str, plain: &'b dyn Body) -> Self {
        Self { cipher, name, plain, last_read: Mutex::default() }
    }

    fn seal(&self, number: u64) -> io::Result<Vec<u8>> {
        let start = number * EncryptedBlockHead::PLAIN_BYTES;
        let length = self.plain.length();
        let left = length.checked_sub(start).ok_or(io::ErrorKind::UnexpectedEof)?;
        let mut plain = vec![0; left.min(EncryptedBlockHead::PLAIN_BYTES) as usize];
        self.plain.read_at(start, &mut plain)?;
        let is_last = left <= EncryptedBlockHead::PLAIN_BYTES;
        Ok(self.cipher.seal(BlockPlace { name: self.name, number, is_last }, &plain))
    }
}

impl Body for EncryptedBody<'_> {
    fn length(&self) -> u64 {
        EncryptedBlockHead::encrypted_length(self.plain.length())
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        let mut last_read = self.last_read.lock().expect(NOT_POISONED);
        let mut at = offset;
        let mut left = buffer;
        while !left.is_empty() {
            let number = at / EncryptedBlockHead::BLOCK_BYTES;
            // Kept between calls: bodies are read in pieces of less than a block, and each would
            // encrypt the whole block again.
            let block = match last_read.take() {
                Some((last, block)) if last == number => block,
                _ => self.seal(number)?,
            };
            let rest = block.get((at % EncryptedBlockHead::BLOCK_BYTES) as usize..).unwrap_or_default();
            let count = rest.len().min(left.len());
            if count == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            let (now, later) = left.split_at_mut(count);
            now.copy_from_slice(&rest[..count]);
            (at, left) = (at + count as u64, later);
            *last_read = Some((number, block));
        }
        Ok(())
    }
}
