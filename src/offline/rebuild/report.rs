//! The result of a rebuild.

use std::fmt;

use crate::log::Damage;
use crate::offline::needed_keys::NeededKey;
use crate::offline::verify::NamedOwner;

/// The result of a rebuild.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RebuildReport {
    /// The restored data.
    pub restored: RestoredCounts,
    /// Records that were found but not restored.
    pub lost: Vec<LostRecord>,
    /// Facts about restored data that may be outdated.
    pub assumptions: Vec<Assumption>,
    /// Places that cannot be read, with unknown content.
    pub damage: Vec<Damage>,
    /// Data that was found and left out on purpose.
    pub skipped: SkippedCounts,
    /// The length of the new log, in bytes.
    pub log_bytes: u64,
    /// The keys of the ring that restored versions, uploads and parts need, and that the ring in
    /// the data directory does not open.
    pub keys_missing: Vec<NeededKey>,
    /// Whether there is a ring in the data directory.
    pub has_ring: bool,
    /// The paths of the old log's files, relative to the data directory.
    pub moved: Vec<String>,
}

/// Numbers of restored items.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RestoredCounts {
    /// Buckets.
    pub buckets: u64,
    /// Versions.
    pub versions: u64,
    /// Bytes of the extents of versions and parts.
    pub live_bytes: u64,
    /// Multipart uploads in progress.
    pub uploads: u64,
    /// Segments that were read.
    pub segments: u64,
    /// Complete extents that were found.
    pub extents: u64,
}

/// Numbers of items left out on purpose.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SkippedCounts {
    /// Versions that a later null version replaced.
    pub replaced: u64,
    /// Versions and parts in deleted buckets.
    pub in_deleted_buckets: u64,
    /// Parts of completed uploads. The object holds the parts that it was made of.
    pub of_ended_uploads: u64,
    /// Extents of writes without a record, which never ended.
    pub unfinished: u64,
}

/// A version or part that was not restored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LostRecord {
    /// Its owner.
    pub owner: NamedOwner,
    /// The reason.
    pub why: String,
    /// The place of the missing bytes, if known.
    pub damage: Option<Damage>,
}

/// A fact as of the last write to a segment, which may be outdated.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Assumption {
    /// The bucket.
    pub bucket: String,
    /// The key, unless it concerns the bucket.
    pub key: Option<String>,
    /// A description.
    pub what: String,
}

impl RebuildReport {
    /// Whether everything that was found could be restored, and the ring, if there is one, opens
    /// it.
    pub fn is_whole(&self) -> bool {
        self.lost.is_empty() && self.damage.is_empty() && (self.keys_missing.is_empty() || !self.has_ring)
    }
}

impl fmt::Display for LostRecord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.owner, self.why)?;
        self.damage.iter().try_for_each(|damage| write!(f, "; {damage}"))
    }
}

impl fmt::Display for Assumption {
    /// Control characters are escaped: a key may hold any.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "bucket {}", self.bucket)?;
        self.key.iter().try_for_each(|key| write!(f, ", key {key:?}"))?;
        write!(f, ": {}", self.what)
    }
}
