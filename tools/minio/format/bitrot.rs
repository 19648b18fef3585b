//! Hashes against bit rot.
//!
//! Before each piece of a shard file stands its HighwayHash-256, under a key that MinIO chose as the
//! hash of the first hundred decimals of pi under a key of zeros. The pieces are the shards of the
//! blocks, so that a file of n bytes in pieces of S has n + 32 * ceil(n / S). Objects in the form of
//! xl.json may have one hash of the whole file instead, which then has no hashes inside.

use blake2::{Blake2b512, Digest as _};
use highway::{HighwayHash, HighwayHasher, Key};
use ring::digest::{Context, SHA256};

use super::version::WholeHash;

/// The bytes of the hash before a piece.
pub(crate) const HASH_BYTES: usize = 32;

/// The key `4be734fa8e238acd263e83e6bb968552040f935da39f441497e09d1322de36a0` as words.
const KEY: Key =
    Key([0xcd8a_238e_fa34_e74b, 0x5285_96bb_e683_3e26, 0x1444_9fa3_5d93_0f04, 0xa036_de22_139d_e097]);

/// The hash of a piece.
pub(crate) fn highway(bytes: &[u8]) -> [u8; HASH_BYTES] {
    bytes_of(HighwayHasher::new(KEY).hash256(bytes))
}

fn bytes_of(words: [u64; 4]) -> [u8; HASH_BYTES] {
    let mut hash = [0; HASH_BYTES];
    for (to, word) in hash.chunks_exact_mut(8).zip(words) {
        to.copy_from_slice(&word.to_le_bytes());
    }
    hash
}

/// A running hash of a whole file.
pub(crate) enum WholeHasher {
    Highway(Box<HighwayHasher>),
    Sha256(Box<Context>),
    Blake2b(Box<Blake2b512>),
}

impl WholeHasher {
    pub(crate) fn new(kind: WholeHash) -> Self {
        match kind {
            WholeHash::Highway => Self::Highway(Box::new(HighwayHasher::new(KEY))),
            WholeHash::Sha256 => Self::Sha256(Box::new(Context::new(&SHA256))),
            WholeHash::Blake2b => Self::Blake2b(Box::new(Blake2b512::new())),
        }
    }

    pub(crate) fn update(&mut self, bytes: &[u8]) {
        match self {
            Self::Highway(hasher) => hasher.append(bytes),
            Self::Sha256(context) => context.update(bytes),
            Self::Blake2b(hasher) => hasher.update(bytes),
        }
    }

    pub(crate) fn finish(self) -> Vec<u8> {
        match self {
            Self::Highway(hasher) => bytes_of(hasher.finalize256()).to_vec(),
            Self::Sha256(context) => context.finish().as_ref().to_vec(),
            Self::Blake2b(hasher) => hasher.finalize().to_vec(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The rounds by which MinIO tests its hashes at its start: the message grows by the hash of
    /// itself. The message comes in two pieces.
    fn rounds(count: usize, kind: WholeHash) -> String {
        let mut message = Vec::new();
        let mut sum = Vec::new();
        for _ in 0..count {
            let mut hasher = WholeHasher::new(kind);
            let (first, second) = message.split_at(message.len() / 3);
            hasher.update(first);
            hasher.update(second);
            sum = hasher.finish();
            message.extend_from_slice(&sum);
        }
        sum.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    #[test]
    fn the_hashes_are_those_of_minio() {
        let found = rounds(32, WholeHash::Highway);
        assert_eq!(found, "39c0407ed3f01b18d22c85db4aeff11e060ca5f43131b0126731ca197cd42313");
        let found = rounds(64, WholeHash::Sha256);
        assert_eq!(found, "a7677ff19e0182e4d52e3a3db727804abc82a5818749336369552e54b838b004");
        let found = rounds(128, WholeHash::Blake2b);
        assert_eq!(
            found,
            "e519b7d84b1c3c917985f544773a35cf265dcab10948be3550320d156bab6121\
             24a5ae2ae5a8c73c0eea360f68b0e28136f26e858756dbfe7375a7389f26c669"
        );
    }

    #[test]
    fn a_piece_has_the_hash_of_a_file() {
        let mut hasher = WholeHasher::new(WholeHash::Highway);
        hasher.update(b"te");
        hasher.update(b"xt");
        assert_eq!(hasher.finish(), highway(b"text"));
    }
}
