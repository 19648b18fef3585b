//! What an operator may choose about the store.

use std::time::Duration;

use crate::base::limits::{
    LOG_FILE_MAX_BYTES, MIB, REPLAY_AFTER_CLOSE_MILLIS, SEGMENT_MAX_BYTES, SEGMENTS_OPEN_MIN,
};

/// Settings of a store; none of them changes the format.
#[derive(Debug, Clone, Copy)]
pub struct StoreOptions {
    /// A data segment is sealed when it has reached this size, in bytes.
    pub segment_max_bytes: u64,
    /// A file of the log is followed by another when it has reached this size, in bytes. Space comes back a file at a time, once
    /// two checkpoints cover it.
    pub log_file_max_bytes: u64,
    /// Bytes of the file system that objects must leave free beside room for a checkpoint, so that deletes go on when it is
    /// full ([`crate::log::Reserve`]).
    pub keep_free_bytes: u64,
    /// Segments whose files are kept open, beside those that are in use at the moment.
    pub segments_open_max: usize,
    /// The least that the log must have grown, in bytes, since the last checkpoint before another is written for its
    /// length alone.
    pub checkpoint_after_bytes: u64,
    /// When the store is closed, a checkpoint is written if the next start would need longer for the log behind the last one.
    pub replay_after_close_max: Duration,
    /// When nothing was committed for so long, the last group is marked as durable (data-format.md, section 5). `None`:
    /// never.
    pub idle_group_after: Option<Duration>,
    /// The memory that the index may take up, in bytes. Near it, what makes it grow is refused.
    pub index_max_bytes: u64,
    /// Multipart uploads in progress that are older are given up when the house is kept. `None`: never.
    pub abort_uploads_after: Option<Duration>,
}

impl Default for StoreOptions {
    fn default() -> Self {
        Self {
            segment_max_bytes: SEGMENT_MAX_BYTES,
            log_file_max_bytes: LOG_FILE_MAX_BYTES,
            keep_free_bytes: 64 * MIB,
            segments_open_max: SEGMENTS_OPEN_MIN,
            checkpoint_after_bytes: 32 * MIB,
            replay_after_close_max: Duration::from_millis(REPLAY_AFTER_CLOSE_MILLIS),
            idle_group_after: Some(Duration::from_secs(1)),
            index_max_bytes: u64::MAX,
            abort_uploads_after: None,
        }
    }
}
