//! A version of an object, as one drive has it, whatever the file it was read from.

use std::collections::BTreeMap;

/// The greatest number of shards of a block: the field has 256 elements.
pub(crate) const SHARDS_MAX: usize = 256;
/// The greatest number of parts of an object, as in S3.
pub(crate) const PARTS_MAX: usize = 10_000;
/// The greatest size of a block that MinIO wrote is 10 MiB.
pub(crate) const BLOCK_MAX_BYTES: u64 = 64 << 20;

/// A version, or a delete marker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct StoredVersion {
    /// The version; all zero for `null`.
    pub(crate) id: [u8; 16],
    /// The modification time in nanoseconds since 1970.
    pub(crate) modified: i64,
    /// A hash that the drives of a set agree on; all zero where the file has none. It breaks ties.
    pub(crate) signature: [u8; 4],
    pub(crate) body: VersionBody,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum VersionBody {
    Object(Box<StoredObject>),
    /// A delete marker. A free one is bookkeeping of tiers, and hides nothing.
    DeleteMarker {
        free: bool,
        /// Whether a client deleted the version for good, which replication holds back.
        purged: bool,
    },
}

/// An object of one drive: how it is cut, and its attributes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct StoredObject {
    pub(crate) coding: Coding,
    /// Where the files of the parts are.
    pub(crate) place: PartPlace,
    pub(crate) parts: Vec<StoredPart>,
    /// The sum of the stored sizes of the parts.
    pub(crate) size: u64,
    /// Internal metadata; the names in lower case.
    pub(crate) internal: BTreeMap<String, Vec<u8>>,
    /// Headers and metadata of the client; the names in lower case.
    pub(crate) user: BTreeMap<String, String>,
    /// Whether it was written in the form of xl.json.
    pub(crate) legacy: bool,
}

/// The erasure code of an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Coding {
    pub(crate) data: usize,
    pub(crate) parity: usize,
    pub(crate) block_bytes: u64,
    /// The shard of this drive, from 1.
    pub(crate) index: usize,
    /// The shard of each drive of the set.
    pub(crate) distribution: Vec<u16>,
}

/// The directory with the files `part.N`, below that of the key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum PartPlace {
    /// A directory named by a UUID.
    DataDirectory([u8; 16]),
    /// The directory of the key itself.
    Beside,
    /// The directory `legacy`.
    Legacy,
    /// The path of the key is a plain file with all parts, one after another.
    PlainFile,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct StoredPart {
    pub(crate) number: u32,
    /// The stored bytes, which may be compressed or encrypted.
    pub(crate) stored: u64,
    /// The bytes that a client sent; `None` where the file does not tell.
    pub(crate) actual: Option<u64>,
    pub(crate) checksum: PartChecksum,
}

/// How the shards of a part are verified.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum PartChecksum {
    /// A hash before each piece of the file.
    Streaming,
    /// One hash of the whole file.
    Whole(WholeHash, Vec<u8>),
    /// Not at all: files of FS mode have no hashes.
    None,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WholeHash {
    Sha256,
    Highway,
    Blake2b,
}

impl Coding {
    /// Why the numbers cannot be those of an object.
    pub(crate) fn fault(&self) -> Option<&'static str> {
        let shards = self.data.saturating_add(self.parity);
        if self.data == 0 || shards > SHARDS_MAX {
            return Some("its numbers of data and parity shards are out of range");
        }
        if self.block_bytes == 0 || self.block_bytes > BLOCK_MAX_BYTES {
            return Some("its block size is out of range");
        }
        if self.index == 0 || self.index > shards {
            return Some("the number of its shard is out of range");
        }
        if self.distribution.len() != shards
            || self.distribution.iter().any(|shard| *shard == 0 || usize::from(*shard) > shards)
        {
            return Some("its distribution does not name every shard");
        }
        None
    }

    /// The bytes of a shard of a block with `length` bytes.
    pub(crate) fn shard_bytes(&self, length: u64) -> u64 {
        length.div_ceil(self.data as u64)
    }

    /// The bytes of a shard of a part with `length` bytes, without hashes.
    pub(crate) fn shard_file_bytes(&self, length: u64) -> u64 {
        let whole = length / self.block_bytes;
        let last = self.shard_bytes(length % self.block_bytes);
        whole.saturating_mul(self.shard_bytes(self.block_bytes)).saturating_add(last)
    }
}

impl StoredObject {
    /// An internal value as text.
    pub(crate) fn internal_text(&self, name: &str) -> Option<&str> {
        std::str::from_utf8(self.internal.get(name)?).ok()
    }

    /// Why it cannot be an object.
    pub(crate) fn fault(&self) -> Option<&'static str> {
        if self.parts.len() > PARTS_MAX {
            return Some("it has more than 10,000 parts");
        }
        let sum = self.parts.iter().try_fold(0_u64, |sum, part| sum.checked_add(part.stored));
        if sum != Some(self.size) && !self.parts.is_empty() {
            return Some("its size is not the sum of its parts");
        }
        if self.parts.is_empty() && self.size > 0 {
            return Some("it has bytes and no parts");
        }
        self.coding.fault()
    }
}

/// The name of a version or a data directory, as on disk.
pub(crate) fn uuid_text(id: &[u8; 16]) -> String {
    let hex: String = id.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("{}-{}-{}-{}-{}", &hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..])
}

/// The bytes of a UUID in its usual form.
pub(crate) fn parse_uuid(text: &str) -> Option<[u8; 16]> {
    if text.len() != 36 || !text.is_ascii() {
        return None;
    }
    let mut bytes = text.bytes().enumerate();
    if !bytes.all(|(at, byte)| (byte == b'-') == matches!(at, 8 | 13 | 18 | 23)) {
        return None;
    }
    let hex: String = text.chars().filter(|c| *c != '-').collect();
    if !hex.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return None;
    }
    let mut id = [0; 16];
    for (at, byte) in id.iter_mut().enumerate() {
        *byte = u8::from_str_radix(&hex[2 * at..2 * at + 2], 16).ok()?;
    }
    Some(id)
}

/// The name of a version in MinIO's answers.
pub(crate) fn version_name(id: &[u8; 16]) -> String {
    if *id == [0; 16] { "null".to_owned() } else { uuid_text(id) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uuids_are_read_as_they_are_written() {
        let text = "50051050-62bc-4928-b0d3-65f4f828a0c7";
        assert_eq!(uuid_text(&parse_uuid(text).unwrap()), text);
        for odd in [
            "",
            "null",
            "50051050-62bc-4928-b0d3-65f4f828a0cg",
            "5005105062bc4928b0d365f4f828a0c7----",
            "+0051050-62bc-4928-b0d3-65f4f828a0c7",
        ] {
            assert_eq!(parse_uuid(odd), None, "{odd}");
        }
    }

    #[test]
    fn shards_have_the_sizes_of_their_blocks() {
        let coding =
            Coding { data: 2, parity: 2, block_bytes: 1 << 20, index: 1, distribution: vec![1, 2, 3, 4] };
        assert_eq!(coding.fault(), None);
        assert_eq!(coding.shard_file_bytes(132_096), 66_048);
        assert_eq!(coding.shard_file_bytes((1 << 20) + 1), (1 << 19) + 1);
        assert_eq!(coding.shard_file_bytes(0), 0);
    }
}
