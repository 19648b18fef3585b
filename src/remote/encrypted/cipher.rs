//! The encryption of one block.

use ring::aead::{AES_256_GCM, Aad, LessSafeKey, Nonce, Tag, UnboundKey};

use super::keys::EncryptionKey;
use crate::base::digest::HmacSha256;
use crate::format::{EncryptedBlockHead, EncryptionKeyId};

/// The place of a block. It is bound to it: elsewhere the block does not decrypt.
#[derive(Clone, Copy)]
pub(super) struct BlockPlace<'n> {
    /// The name of the object.
    pub(super) name: &'n str,
    /// The number of the block, from 0.
    pub(super) number: u64,
    /// Whether it is the last one of its object.
    pub(super) is_last: bool,
}

impl BlockPlace<'_> {
    /// The place for a code, in a form that no other place has.
    fn add_to(&self, code: &mut HmacSha256) {
        code.update(&self.number.to_le_bytes());
        code.update(&[u8::from(self.is_last)]);
        // The length before the name, so that the end of the name and the begin of the plaintext
        // cannot be shifted against each other.
        code.update(&(self.name.len() as u64).to_le_bytes());
        code.update(self.name.as_bytes());
    }
}

/// The keys that one key derives.
pub(super) struct BlockCipher {
    pub(super) id: EncryptionKeyId,
    salt_key: [u8; 32],
    block_key: [u8; 32],
}

impl BlockCipher {
    pub(super) fn new(key: &EncryptionKey) -> Self {
        Self { id: key.id(), salt_key: key.derived("salt"), block_key: key.derived("block") }
    }

    /// The block of a plaintext, with header and tag. The same place and plaintext have the same
    /// block at each call. Another plaintext has another salt, so that no key encrypts two.
    pub(super) fn seal(&self, place: BlockPlace<'_>, plain: &[u8]) -> Vec<u8> {
        let head = EncryptedBlockHead { key: self.id, salt: self.salt(place, plain) };
        let bytes = head.encode();
        let key = self.key_of(place, &head);
        let mut block = Vec::with_capacity(bytes.len() + plain.len() + EncryptedBlockHead::TAG_BYTES);
        block.extend_from_slice(&bytes);
        block.extend_from_slice(plain);
        let tag = key.seal_in_place_separate_tag(no_nonce(), Aad::from(bytes), &mut block[bytes.len()..]);
        let tag = tag.expect("a block is shorter than the most that one key encrypts");
        block.extend_from_slice(tag.as_ref());
        block
    }

    /// The plaintext of a block with that header, which is decrypted where it stands; `None` if
    /// anything of it was changed.
    pub(super) fn open<'b>(
        &self,
        place: BlockPlace<'_>,
        head: &EncryptedBlockHead,
        block: &'b mut [u8],
    ) -> Option<&'b [u8]> {
        let (bytes, rest) = block.split_at_mut_checked(EncryptedBlockHead::BYTES)?;
        let at = rest.len().checked_sub(EncryptedBlockHead::TAG_BYTES)?;
        let (text, tag) = rest.split_at_mut(at);
        let tag = Tag::try_from(&*tag).ok()?;
        let opened = self.key_of(place, head).open_in_place_separate_tag(
            no_nonce(),
            Aad::from(&*bytes),
            tag,
            text,
            0..,
        );
        opened.ok().map(|text| &*text)
    }

    fn salt(&self, place: BlockPlace<'_>, plain: &[u8]) -> [u8; 16] {
        let mut code = HmacSha256::new(&self.salt_key);
        place.add_to(&mut code);
        code.update(plain);
        let mut salt = [0; 16];
        salt.copy_from_slice(&code.finish()[..16]);
        salt
    }

    fn key_of(&self, place: BlockPlace<'_>, head: &EncryptedBlockHead) -> LessSafeKey {
        let mut code = HmacSha256::new(&self.block_key);
        place.add_to(&mut code);
        code.update(&head.salt);
        let key = UnboundKey::new(&AES_256_GCM, &code.finish());
        LessSafeKey::new(key.expect("the key has the 32 bytes of AES-256"))
    }
}

/// The nonce, which is the same for all: each key encrypts one plaintext.
fn no_nonce() -> Nonce {
    Nonce::assume_unique_for_key([0; 12])
}
