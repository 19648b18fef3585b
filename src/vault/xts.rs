//! AES-256-XTS (IEEE 1619), with the rule that stored zeros are zeros.
//!
//! The crate `aes` has the cipher; the mode around it is the tweak. All blocks of a unit go through
//! the cipher together: it takes up to 64 at a time where the processor has wide instructions, and
//! a block alone would wait for the latency of each round.

use aes::cipher::{BlockCipherDecrypt, BlockCipherEncrypt, KeyInit};
use aes::{Aes256, Block};

/// Bytes of a block of AES.
pub(super) const BLOCK: u64 = 16;
/// Bytes under one tweak.
const UNIT: u64 = 4096;
/// Where the last byte of a block is in its number.
const LEN_SHIFT: u32 = 120;
/// Blocks under one tweak.
const UNIT_BLOCKS: usize = (UNIT / BLOCK) as usize;

/// The end of a file that is no multiple of a block: a marker is the block after its last one, of
/// these bytes and, in place of the zero, the number of bytes in that last one.
const MARKER: u128 = u128::from_le_bytes(*b"siltstone-end-0\0");

/// The marker of a file whose last block holds `len` bytes, 1 to 16.
pub(super) fn marker(len: u64) -> [u8; BLOCK as usize] {
    debug_assert!((1..=BLOCK).contains(&len));
    (MARKER | u128::from(len) << LEN_SHIFT).to_le_bytes()
}

/// The number in a block that is a marker.
pub(super) fn marked_len(block: &[u8]) -> Option<u64> {
    len_of_marker(u128::from_le_bytes(block.try_into().ok()?))
}

/// The number in a block, given as a number, that is a marker.
fn len_of_marker(block: u128) -> Option<u64> {
    let len = (block >> LEN_SHIFT) as u64;
    let is_marker = block ^ (u128::from(len) << LEN_SHIFT) == MARKER;
    (is_marker && (1..=BLOCK).contains(&len)).then_some(len)
}

/// Whether a stored block holds no ciphertext, so that it reads as zeros. Every block that is read
/// is asked, so numbers are compared and not bytes.
fn is_empty(block: &Block) -> bool {
    let number = number(block);
    number == 0 || len_of_marker(number).is_some()
}

/// The two keys of XTS.
pub(super) struct Xts {
    data: Aes256,
    tweak: Aes256,
}

impl Xts {
    /// The key of the data, and the key of the tweaks.
    pub(super) fn new(keys: &[u8; 64]) -> Self {
        let (data, tweak) = keys.split_at(32);

        Self { data: cipher(data), tweak: cipher(tweak) }
    }

    /// Encrypts whole blocks, the first of which starts at `offset` of the file.
    pub(super) fn encrypt(&self, bytes: &mut [u8], offset: u64) {
        self.each_unit(bytes, offset, |blocks, tweaks| {
            mix(blocks, tweaks);
            self.data.encrypt_blocks(blocks);
            mix(blocks, tweaks);
        });
    }

    /// Decrypts whole blocks, the first of which starts at `offset` of the file. Blocks that hold
    /// no ciphertext become zeros.
    pub(super) fn decrypt(&self, bytes: &mut [u8], offset: u64) {
        self.each_unit(bytes, offset, |blocks, tweaks| {
            let mut empty = [false; UNIT_BLOCKS];
            for (at, block) in blocks.iter().enumerate() {
                // Noted before the cipher, which would make random bytes of zeros.
                empty[at] = is_empty(block);
            }
            mix(blocks, tweaks);
            self.data.decrypt_blocks(blocks);
            mix(blocks, tweaks);
            for (at, block) in blocks.iter_mut().enumerate() {
                if empty[at] {
                    block.fill(0);
                }
            }
        });
    }

    /// Gives the blocks of each unit to `transform`, with the tweak of each.
    fn each_unit(&self, bytes: &mut [u8], offset: u64, transform: impl Fn(&mut [Block], &[u128])) {
        debug_assert!(offset.is_multiple_of(BLOCK) && (bytes.len() as u64).is_multiple_of(BLOCK));
        let (mut rest, _) = Block::slice_as_chunks_mut(bytes);
        let mut place = offset;
        let mut tweaks = [0; UNIT_BLOCKS];
        while !rest.is_empty() {
            let first = (place % UNIT / BLOCK) as usize;
            let count = (UNIT_BLOCKS - first).min(rest.len());
            let (blocks, after) = rest.split_at_mut(count);
            self.set_tweaks(&mut tweaks[..first + count], place / UNIT);
            transform(blocks, &tweaks[first..first + count]);
            place += count as u64 * BLOCK;
            rest = after;
        }
    }

    /// Sets the tweaks of the first blocks of a unit.
    fn set_tweaks(&self, tweaks: &mut [u128], unit: u64) {
        let mut next = self.first_tweak(unit);
        for tweak in tweaks {
            *tweak = next;
            next = doubled(next);
        }
    }

    /// The tweak of the first block of a unit.
    fn first_tweak(&self, unit: u64) -> u128 {
        let mut block = Block::from(u128::from(unit).to_le_bytes());
        self.tweak.encrypt_block(&mut block);
        u128::from_le_bytes(block.into())
    }
}

fn cipher(key: &[u8]) -> Aes256 {
    Aes256::new_from_slice(key).expect("a half of the keys has 32 bytes")
}

/// The product with x in the field of XTS.
fn doubled(tweak: u128) -> u128 {
    // x^128 = x^7 + x^2 + x + 1 in this field.
    let carry = if tweak >> 127 == 1 { 0x87 } else { 0 };
    (tweak << 1) ^ carry
}

/// Adds its tweak to each block.
fn mix(blocks: &mut [Block], tweaks: &[u128]) {
    for (block, tweak) in blocks.iter_mut().zip(tweaks) {
        *block = Block::from((number(block) ^ tweak).to_le_bytes());
    }
}

fn number(block: &Block) -> u128 {
    u128::from_le_bytes((*block).into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::digest::from_hex;

    fn keys() -> [u8; 64] {
        // The keys of the vectors 10 to 14 of IEEE 1619-2007.
        let data = "2718281828459045235360287471352662497757247093699959574966967627";
        let tweak = "3141592653589793238462643383279502884197169399375105820974944592";
        from_hex(&format!("{data}{tweak}")).unwrap().try_into().unwrap()
    }

    /// The tweak of the standard's vectors is the number of a sector of 512 bytes, of which only
    /// the first 512 bytes of our unit have the same blocks.
    fn encrypted(sector: u64) -> Vec<u8> {
        let mut bytes: Vec<u8> = (0..=255).chain(0..=255).collect();
        Xts::new(&keys()).encrypt(&mut bytes, sector * UNIT);
        bytes
    }

    #[test]
    fn vectors_10_to_14_of_ieee_1619() {
        for (sector, first, last) in [
            (0xff, "1c3b3a102f770386e4836c99e370cf9b", "c4f36ffda9fcea70b9c6e693e148c151"),
            (0xffff, "77a31251618a15e6b92d1d66dffe7b50", "a4f9e27b42af8100cb9d59cef9645803"),
            (0x00ff_ffff, "e387aaa58ba483afa7e8eb469778317e", "2263a1eef52dd6888c309f5a7d712826"),
            (0xffff_ffff, "bf53d2dade78e822a4d949a9bc6766b0", "4c82f335abb152c4a93411373aaa8220"),
            (0xff_ffff_ffff, "64497e5a831e4a932c09be3e5393376d", "d609d273ad5b0d59631c531f6a0a57b9"),
        ] {
            let bytes = encrypted(sector);
            assert_eq!(bytes[..16], from_hex(first).unwrap(), "{sector:x}");
            assert_eq!(bytes[496..], from_hex(last).unwrap(), "{sector:x}");
        }
    }

    #[test]
    fn every_part_of_a_range_is_encrypted_as_in_the_whole() {
        let xts = Xts::new(&keys());
        let plain: Vec<u8> = (0..3 * UNIT + 160).map(|at| (at * 7 % 251) as u8 + 1).collect();
        let mut whole = plain.clone();
        xts.encrypt(&mut whole, 0);
        for (start, len) in
            [(0, 16), (16, 16), (112, 32), (4080, 32), (4096, 4096), (4000, 8208), (12_288, 160)]
        {
            let mut part = plain[start..start + len].to_vec();
            xts.encrypt(&mut part, start as u64);
            assert!(part == whole[start..start + len], "{start} {len}");
            xts.decrypt(&mut part, start as u64);
            assert!(part == plain[start..start + len], "{start} {len}");
        }
        assert!(whole[..4096] != whole[4096..8192]);
    }

    #[test]
    fn stored_zeros_and_markers_are_zeros_and_written_zeros_are_not_stored_as_such() {
        let xts = Xts::new(&keys());
        let mut bytes = vec![0; 4096];
        xts.encrypt(&mut bytes, 0);
        assert!(Block::slice_as_chunks(&bytes).0.iter().all(|block| !is_empty(block)));
        bytes[160..176].fill(0);
        bytes[320..336].copy_from_slice(&marker(5));
        xts.decrypt(&mut bytes, 0);
        assert_eq!(bytes, [0; 4096]);
    }

    #[test]
    fn a_marker_has_its_number_and_no_other_block_has_one() {
        for len in 1..=16 {
            assert_eq!(marked_len(&marker(len)), Some(len));
        }
        let mut other = marker(7);
        for last in [0, 17, 255] {
            other[15] = last;
            assert_eq!(marked_len(&other), None);
        }
        assert_eq!((marked_len(&[0; 16]), marked_len(&[])), (None, None));
    }
}
