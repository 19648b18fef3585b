//! The bytes of the index that content counts for in quotas. They follow from the content alone,
//! whatever the order in which it came: a start, a rebuild, a compaction and a standby count the
//! same. The memory that the index takes is mostly less.

use crate::format::{Attributes, PlainVersion, VersionEncryption, VersionRecord, pairs_encoded_len};

/// A version without its key, its texts and its parts: its share of a leaf, and fields of all
/// kinds.
const VERSION_BYTES: u64 = 64;
/// A part in the record of a version, with its extents.
const PART_OF_VERSION_BYTES: u64 = 64;
/// A part of an upload.
const PART_BYTES: u64 = 128;
/// The extents of a MiB of payload, which are the more the larger a version or part is. Copies
/// count as what they copy.
const EXTENTS_OF_MIB_BYTES: u64 = 2;

/// What a version counts by.
#[derive(Debug, Clone, Copy)]
pub struct CountedVersion<'a> {
    /// Its key.
    pub key: &'a [u8],
    /// Its headers and user metadata.
    pub attributes: &'a Attributes,
    /// Its tags.
    pub tags: &'a [(String, String)],
    /// The number of its parts.
    pub parts: usize,
    /// Its encryption.
    pub encryption: Option<&'a VersionEncryption>,
    /// The bytes of its payload.
    pub size: u64,
}

impl CountedVersion<'_> {
    /// The bytes of the index that it counts for.
    pub fn index_bytes(&self) -> u64 {
        let texts = self.attributes.encoded_len() + pairs_encoded_len(self.tags);
        let parts = self.parts as u64 * PART_OF_VERSION_BYTES;
        let keys = self.encryption.map_or(0, VersionEncryption::index_bytes);
        VERSION_BYTES + (self.key.len() + texts) as u64 + parts + keys + extents_bytes(self.size)
    }
}

/// The bytes of the index that a delete marker counts for.
pub fn marker_index_bytes(key: &[u8]) -> u64 {
    VERSION_BYTES + key.len() as u64
}

/// The bytes of the index that a stored version counts for.
pub fn version_index_bytes(key: &[u8], record: &VersionRecord) -> u64 {
    let VersionRecord { attributes, tags, size, encryption, .. } = record;
    let encryption = encryption.as_deref();
    let parts = record.upload.as_ref().map_or(0, |assembly| assembly.parts.len());
    CountedVersion { key, attributes, tags, parts, encryption, size: *size }.index_bytes()
}

/// The same of a version of the plain form.
pub(super) fn plain_index_bytes(key: &[u8], version: &PlainVersion<'_>) -> u64 {
    let texts = version.attributes.byte_len();
    VERSION_BYTES + (key.len() + texts) as u64 + extents_bytes(version.summary.size)
}

/// The bytes of the index that a part of an upload of that size counts for: no less than it does
/// once it is part of an object, so that a completion never grows.
pub fn part_index_bytes(size: u64) -> u64 {
    PART_BYTES + extents_bytes(size)
}

fn extents_bytes(size: u64) -> u64 {
    (size >> 20) * EXTENTS_OF_MIB_BYTES
}
