//! What the store knows of its own state.

use std::fmt;

use crate::base::Timestamp;
use crate::format::{FileKind, WrittenBytes};
use crate::log::Damage;

/// What kind of trouble keeps a store from taking writes, in words for anybody: they name no file and no place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReadOnlyReason {
    /// A sync failed.
    SyncFailed,
    /// A write failed, and not because the disk is full.
    WriteFailed,
    /// The log holds what was never written there.
    LogDamaged,
    /// A segment that objects lie in is gone, or holds what was never written there.
    SegmentLost,
    /// What was committed does not fit what is in memory.
    Contradiction,
    /// A commit ended by a panic.
    Panicked,
}

impl ReadOnlyReason {
    /// The kind of trouble that damage is, by the directory that the damaged file is in.
    pub(super) fn of(damage: &Damage) -> Self {
        let segments = FileKind::Segment.dir();
        let in_segments = damage.file.split_once('/').is_some_and(|(dir, _)| dir == segments);
        if in_segments { Self::SegmentLost } else { Self::LogDamaged }
    }
}

impl fmt::Display for ReadOnlyReason {
    /// What has happened, and what to do next.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::SyncFailed => {
                "a sync failed, so nobody knows what the disk holds. Check the disk, then restart the server."
            }
            Self::WriteFailed => {
                "a write failed, so nobody knows what the disk holds. Check the disk, then restart the server."
            }
            Self::LogDamaged => {
                "the log is damaged. Stop the server, look at the damage with siltstone-tools verify, and restore a backup."
            }
            Self::SegmentLost => {
                "a segment is missing or damaged. Stop the server, put the file back or restore a backup, and start it again."
            }
            Self::Contradiction => {
                "the log contradicts what is in memory. Stop the server and check the store with siltstone-tools verify."
            }
            Self::Panicked => {
                "the server met an error of its own in a commit. Restart it, and report what its log says of the panic."
            }
        })
    }
}

/// What the scrub knows.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ScrubHealth {
    /// Extents that were checked since the store was opened.
    pub extents: u64,
    /// Bytes of them.
    pub bytes: u64,
    /// Extents that were found to be bad, now or earlier, and that versions or parts still refer to.
    pub bad: u64,
    /// When the last pass ended.
    pub finished: Option<Timestamp>,
}

/// A store's state at one moment.
#[derive(Debug, Clone, Default)]
pub struct Health {
    /// Why no writes are taken, if so, for the operator's eyes.
    pub read_only: Option<String>,
    /// The same for anybody's.
    pub read_only_reason: Option<ReadOnlyReason>,
    /// Damage found since the store was opened, each place once.
    pub damage: Vec<Damage>,
    /// What the scrub has done and found. What it found is among `damage`, too.
    pub scrub: ScrubHealth,
    /// Groups that recovery dropped because a crash had left them unfinished: 0 or 1.
    pub torn_groups: u64,
    /// The sequence of the last group that is durable.
    pub sequence: u64,
    /// Buckets.
    pub buckets: u64,
    /// Versions, delete markers included.
    pub versions: u64,
    /// Memory that the index takes up, in bytes.
    pub index_bytes: u64,
    /// Memory that it may take up.
    pub index_max_bytes: u64,
    /// Whether it is so near that puts are refused.
    pub index_full: bool,
    /// Bytes of extents that versions refer to.
    pub live_bytes: u64,
    /// Segments.
    pub segments: u64,
    /// Segments that were taken away since the store was opened, because nothing in them was wanted any more.
    pub reclaimed_segments: u64,
    /// Bytes given back to the file system since then, by that and by holes.
    pub reclaimed_bytes: u64,
    /// Bytes of extents that were moved since then, so that their segments could go.
    pub moved_bytes: u64,
    /// Bytes written to the disk since then.
    pub written: WrittenBytes,
}
