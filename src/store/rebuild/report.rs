//! What a rebuild tells.

use std::fmt;

use crate::log::Damage;
use crate::store::verify::NamedOwner;

/// What became of a rebuild.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RebuildReport {
    /// What was restored.
    pub restored: RestoredCounts,
    /// What was not, though a record of it was found.
    pub lost: Vec<LostRecord>,
    /// What was restored and may have been otherwise.
    pub assumptions: Vec<Assumption>,
    /// Places where something cannot be read; what it was is not known.
    pub damage: Vec<Damage>,
    /// What was found and is not wanted any more.
    pub skipped: SkippedCounts,
    /// Bytes of the new log.
    pub log_bytes: u64,
    /// Where the files of an old log are now, relative to the data directory.
    pub moved: Vec<String>,
}

/// How much was restored.
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
    /// Extents that were found whole.
    pub extents: u64,
}

/// How much was found that does not count.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SkippedCounts {
    /// Versions that a later null version replaced.
    pub replaced: u64,
    /// Versions and parts in buckets that had been deleted.
    pub in_deleted_buckets: u64,
    /// Parts of uploads that were completed, and of which the object took the parts that it wanted.
    pub of_ended_uploads: u64,
    /// Extents of writes that have no record: they were never finished.
    pub unfinished: u64,
}

/// A version or part that was not restored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LostRecord {
    /// Whose bytes they were.
    pub owner: NamedOwner,
    /// Why.
    pub why: String,
    /// Where it was seen that bytes are missing, if that is known.
    pub damage: Option<Damage>,
}

/// Something that was restored as it was when it was last written to a segment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Assumption {
    /// The bucket.
    pub bucket: String,
    /// The key, unless it concerns the bucket.
    pub key: Option<String>,
    /// What may have been otherwise.
    pub what: String,
}

impl RebuildReport {
    /// Whether all that was found could be restored.
    pub fn is_whole(&self) -> bool {
        self.lost.is_empty() && self.damage.is_empty()
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
