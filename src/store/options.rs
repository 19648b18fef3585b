//! Settings of the store.

use std::time::Duration;

use crate::base::limits::{
    FOLLOW_MAX_BYTES, INDEX_QUOTA_SHARE, LOG_FILE_MAX_BYTES, MIB, REPLAY_AFTER_CLOSE_MILLIS,
    SEGMENT_MAX_BYTES, SEGMENTS_OPEN_MIN,
};

/// Settings of a store. None of them changes the format.
#[derive(Debug, Clone, Copy)]
pub struct StoreOptions {
    /// The size at which a segment is sealed, in bytes.
    pub segment_max_bytes: u64,
    /// The size at which a log file is followed by another, in bytes. A log file is removed once
    /// two checkpoints cover it.
    pub log_file_max_bytes: u64,
    /// Bytes of the file system that objects leave free in addition to the space of a checkpoint,
    /// so that deletes still work on a full disk ([`crate::log::Reserve`]).
    pub keep_free_bytes: u64,
    /// Percent of the fast one of two disks that are kept free: sealed segments move to the large one.
    pub fast_free_percent: u64,
    /// Segment files kept open in addition to those in use.
    pub segments_open_max: usize,
    /// The least growth of the log since the last checkpoint, in bytes, before its length alone
    /// makes another one due.
    pub checkpoint_after_bytes: u64,
    /// The store writes a checkpoint on close if the next start would replay the log for longer.
    pub replay_after_close_max: Duration,
    /// The bytes of log files that are kept for followers alone, at most.
    pub follow_max_bytes: u64,
    /// The pause in commits after which an idle group confirms that the last group is durable
    /// (data-format.md, section 5). `None`: never.
    pub idle_group_after: Option<Duration>,
    /// The limit of the index in bytes. Near it, mutations that make the index grow are refused.
    pub index_max_bytes: u64,
    /// The time after the latest part, or the initiation, after which maintenance aborts multipart
    /// uploads that no rule of their bucket aborts. `None`: never.
    pub abort_uploads_after: Option<Duration>,
    /// The buckets that an owner without another limit may have.
    pub buckets_max: u64,
}

impl StoreOptions {
    /// The bytes of the index that a quota allows by default; `None` where the index is not
    /// limited.
    pub(super) fn index_quota_default(&self) -> Option<u64> {
        (self.index_max_bytes != u64::MAX).then_some(self.index_max_bytes / INDEX_QUOTA_SHARE)
    }
}

impl Default for StoreOptions {
    fn default() -> Self {
        Self {
            segment_max_bytes: SEGMENT_MAX_BYTES,
            log_file_max_bytes: LOG_FILE_MAX_BYTES,
            keep_free_bytes: 64 * MIB,
            fast_free_percent: 20,
            segments_open_max: SEGMENTS_OPEN_MIN,
            checkpoint_after_bytes: 32 * MIB,
            follow_max_bytes: FOLLOW_MAX_BYTES,
            replay_after_close_max: Duration::from_millis(REPLAY_AFTER_CLOSE_MILLIS),
            idle_group_after: Some(Duration::from_secs(1)),
            index_max_bytes: u64::MAX,
            abort_uploads_after: None,
            buckets_max: u64::MAX,
        }
    }
}
