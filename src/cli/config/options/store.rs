//! Options: the store in the data directory.

use std::path::PathBuf;

use clap::{ArgAction, Args};
use siltstone::base::limits;

use crate::cli::config::option_values::{ByteCount, TimeSpan};

/// The store in the data directory.
#[derive(Debug, Clone, PartialEq, Args)]
pub(crate) struct StoreSettings {
    /// Buckets that a user may own, unless its quota has another limit
    #[arg(long, value_name = "N", env = "SILTSTONE_BUCKETS_MAX", global = true)]
    #[arg(default_value_t = limits::BUCKETS_MAX_DEFAULT)]
    pub(crate) buckets_max: u64,

    /// Time after the latest part after which multipart uploads are aborted, unless a lifecycle
    /// rule of the bucket does
    #[arg(long, value_name = "TIME", env = "SILTSTONE_ABORT_UPLOADS_AFTER", global = true)]
    #[arg(default_value_t = TimeSpan::from_secs(limits::ABORT_UPLOADS_AFTER_DEFAULT_SECS))]
    pub(crate) abort_uploads_after: TimeSpan,

    /// Size at which a data segment is followed by another; at least 1MiB
    #[arg(long, value_name = "SIZE", env = "SILTSTONE_SEGMENT_SIZE", global = true)]
    #[arg(default_value_t = ByteCount(limits::SEGMENT_MAX_BYTES))]
    pub(crate) segment_size: ByteCount,

    /// Encrypt the data directory with a new key, if there is no store in it yet. As
    /// --encrypt-store or --encrypt-store=BOOL
    #[arg(long, value_name = "BOOL", env = "SILTSTONE_ENCRYPT_STORE", global = true)]
    #[arg(action = ArgAction::Set, num_args = 0..=1, require_equals = true)]
    #[arg(default_value_t = false, default_missing_value = "true")]
    pub(crate) encrypt_store: bool,

    /// File with the key (siltstone-tools store-key create) or the passphrase of an encrypted data
    /// directory
    #[arg(long, value_name = "FILE", env = "SILTSTONE_STORE_KEY_FILE", global = true)]
    pub(crate) store_key_file: Option<PathBuf>,

    /// Only look at the data directory: writes are refused, and nothing is written there or to the
    /// remote. As --read-only or --read-only=BOOL
    #[arg(long, value_name = "BOOL", env = "SILTSTONE_READ_ONLY", global = true)]
    #[arg(action = ArgAction::Set, num_args = 0..=1, require_equals = true)]
    #[arg(default_value_t = false, default_missing_value = "true")]
    pub(crate) read_only: bool,
}
