//! The health of the store, as it reports it.

use std::fmt;
use std::time::Duration;

use crate::base::Timestamp;
use crate::format::{FileKind, WrittenBytes};
use crate::log::Damage;

/// The reason why a store is read-only. Its text is public: it names no file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReadOnlyReason {
    /// A sync failed.
    SyncFailed,
    /// A write failed for another reason than a full disk.
    WriteFailed,
    /// The log is damaged.
    LogDamaged,
    /// A segment with live bytes is missing or damaged.
    SegmentLost,
    /// A durable entry contradicts the index.
    Contradiction,
    /// A commit panicked.
    Panicked,
    /// Another host has taken over the log on the remote.
    Fenced,
    /// The remote has a log, which this server does not continue.
    LogNotContinued,
    /// The server was started to look.
    LooksOnly,
}

impl ReadOnlyReason {
    /// The reason for damage, by the directory of the damaged file.
    pub(in crate::store) fn of(damage: &Damage) -> Self {
        let segments = FileKind::Segment.dir();
        let in_segments = damage.file.split_once('/').is_some_and(|(dir, _)| dir == segments);
        if in_segments { Self::SegmentLost } else { Self::LogDamaged }
    }
}

impl fmt::Display for ReadOnlyReason {
    /// The cause, and the next step for the operator.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::SyncFailed => {
                "a sync failed, so the state of the disk is unknown. Check the disk, then restart the server."
            }
            Self::WriteFailed => {
                "a write failed, so the state of the disk is unknown. Check the disk, then restart the server."
            }
            Self::LogDamaged => {
                "the log is damaged. Stop the server, look at the damage with siltstone-tools verify, and restore a backup."
            }
            Self::SegmentLost => {
                "a segment is missing or damaged. Stop the server, put the file back or restore a backup, and start it again."
            }
            Self::Contradiction => {
                "the log contradicts the index in memory. Stop the server and check the store with siltstone-tools verify."
            }
            Self::Panicked => {
                "a commit panicked. Restart the server, and report the panic with the lines of its log."
            }
            Self::LogNotContinued => {
                "the remote has a log that this server was not started to continue. Start it with --ship."
            }
            Self::LooksOnly => "the server was started with --read-only.",
            Self::Fenced => {
                "another host has taken over. Stop this server; what it took and did not ship is in its data directory alone."
            }
        })
    }
}

/// A file in which bytes were bad, while the same bytes were elsewhere.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BadFile {
    /// The file.
    pub file: String,
    /// The offset of the bytes that were found first.
    pub offset: u64,
    /// What was wrong with them.
    pub what: String,
    /// The time when they were found.
    pub found: Timestamp,
    /// The time when another file had taken its place; `None` before.
    pub repaired: Option<Timestamp>,
}

/// The state of the scrub.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ScrubHealth {
    /// Extents checked since the store was opened.
    pub extents: u64,
    /// Bytes of them.
    pub bytes: u64,
    /// Damaged extents, found now or earlier, that versions or parts still refer to.
    pub bad: u64,
    /// The end of the last pass.
    pub finished: Option<Timestamp>,
    /// The end of the last check of the log and the checkpoints since the store was opened.
    pub log_finished: Option<Timestamp>,
    /// Damaged files of the log, and checkpoints, that a new checkpoint has replaced since then.
    pub replaced_log_files: u64,
}

/// A store's state at one moment.
#[derive(Debug, Clone, Default)]
pub struct Health {
    /// Why the store is read-only, if it is. For the operator: may name files.
    pub read_only: Option<String>,
    /// The same as a public reason.
    pub read_only_reason: Option<ReadOnlyReason>,
    /// Damage found since the store was opened, each location once.
    pub damage: Vec<Damage>,
    /// The state of the scrub. Its findings are among `damage`, too.
    pub scrub: ScrubHealth,
    /// Unfinished groups that recovery dropped after a crash: 0 or 1.
    pub torn_groups: u64,
    /// The sequence of the last durable group.
    pub sequence: u64,
    /// Buckets.
    pub buckets: u64,
    /// Versions, delete markers included.
    pub versions: u64,
    /// The memory of the index in bytes.
    pub index_bytes: u64,
    /// The limit of that memory.
    pub index_max_bytes: u64,
    /// Whether it is so near to the limit that puts are refused.
    pub index_full: bool,
    /// Bytes that are free on the file system, and all of it; `None` if it does not say. Where there
    /// are two disks, those of the large one.
    pub disk: Option<(u64, u64)>,
    /// The creation time of the newest checkpoint; `None` before the first.
    pub newest_checkpoint: Option<Timestamp>,
    /// The estimated time that the next start needs for the log that no checkpoint covers, after a
    /// crash now.
    pub replay_time: Duration,
    /// Whether the file system lacks the space for a small put, or does not say.
    pub disk_full: bool,
    /// A background thread that has panicked. The store goes on without it until the disk or the
    /// log is full.
    pub stopped_thread: Option<&'static str>,
    /// Bytes of extents that versions refer to.
    pub live_bytes: u64,
    /// Segments.
    pub segments: u64,
    /// Segments without live bytes that were removed since the store was opened.
    pub reclaimed_segments: u64,
    /// Bytes freed since then, by removals and by hole punching.
    pub reclaimed_bytes: u64,
    /// Bytes of extents relocated since then.
    pub moved_bytes: u64,
    /// Bytes written to the disk since then.
    pub written: WrittenBytes,
}
