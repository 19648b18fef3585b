//! The facts of a host and a data directory that checks are functions of.

use std::path::PathBuf;

use siltstone::base::Timestamp;
use siltstone::fs::{MemoryLimit, Mount};

/// A data directory and its surroundings, at one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct HostFacts {
    pub(super) now: Timestamp,
    pub(super) dir: PathBuf,
    /// The mount that the directory is on.
    pub(super) mount: Mount,
    /// The median time of a sync of 4 KiB, in microseconds; `None` if nothing could be written.
    pub(super) sync_micros: Option<u64>,
    pub(super) space: Space,
    /// The user and the mode of the directory.
    pub(super) owner: u32,
    pub(super) mode: u32,
    /// A file that belongs to another user, with this user.
    pub(super) foreign_file: Option<(PathBuf, u32)>,
    /// Files with secrets that other users may read or write, with their modes.
    pub(super) open_secrets: Vec<(PathBuf, u32)>,
    /// The process that has the directory open.
    pub(super) server: Option<ServerProcess>,
    /// The keys of encrypted objects, if there is a file of them.
    pub(super) keys: Option<KeysFacts>,
    /// What opens the directory, if it is encrypted.
    pub(super) store_key: Option<StoreKeyFacts>,
    /// The backup that is to be looked at.
    pub(super) backup: Option<BackupFacts>,
    pub(super) store: StoreFacts,
    /// The two sides, where the store is mirrored.
    pub(super) sides: Option<SidesFacts>,
}

/// The two sides of a mirrored store.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct SidesFacts {
    pub(super) dirs: [PathBuf; 2],
    pub(super) share_disk: bool,
    /// The file of the witness, where it is on the disk of a side.
    pub(super) witness_on_side: Option<PathBuf>,
    /// The reason why a start is refused.
    pub(super) refusal: Option<String>,
    /// The side that is missing, or lacks something.
    pub(super) incomplete: Option<PathBuf>,
    /// Files beside the store that are on one side alone, or differ.
    pub(super) unequal: Vec<&'static str>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Space {
    pub(super) free_bytes: u64,
    pub(super) total_bytes: u64,
    pub(super) free_inodes: u64,
    /// 0 where the file system has no fixed number.
    pub(super) total_inodes: u64,
}

/// A running server.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct ServerProcess {
    pub(super) pid: u32,
    pub(super) user: u32,
    /// The file of the ring.
    pub(super) keys_file: Option<PathBuf>,
    /// The file that `--store-key-file` names.
    pub(super) store_key_file: Option<PathBuf>,
    /// The hard limit of open files.
    pub(super) files_max: Option<u64>,
    /// The lowest limit of its memory.
    pub(super) memory_limit: Option<MemoryLimit>,
    /// The options `--memory-max` and `--index-max`, in bytes.
    pub(super) memory_max: Option<u64>,
    pub(super) index_max: Option<u64>,
}

/// A file with the keys of encrypted objects.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct KeysFacts {
    pub(super) file: PathBuf,
    /// The reason why it cannot be read, without any key.
    pub(super) unreadable: Option<String>,
    pub(super) on_same_disk: bool,
    /// The ids of keys of which no copy was seen.
    pub(super) without_copy: Vec<String>,
}

/// What opens an encrypted data directory.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct StoreKeyFacts {
    /// The file with the key or the passphrase, where it is known.
    pub(super) file: Option<PathBuf>,
    pub(super) is_inside: bool,
    pub(super) on_same_disk: bool,
    /// What is wrong with `KEYS` or its copy.
    pub(super) fault: Option<String>,
    /// The command that mends it.
    pub(super) mending_command: &'static str,
}

/// A directory of backups.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct BackupFacts {
    pub(super) dir: PathBuf,
    /// The time of the newest complete backup.
    pub(super) made: Option<Timestamp>,
    pub(super) on_same_disk: bool,
}

/// The store, as its files show it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct StoreFacts {
    /// The reason why it cannot be read.
    pub(super) unreadable: Option<String>,
    /// Places of damage that its metadata show.
    pub(super) damage: Vec<String>,
    pub(super) checkpoint: Option<Timestamp>,
    /// The groups of the log after it.
    pub(super) groups_behind: u64,
    pub(super) log_bytes: u64,
}

/// The metrics of a running server that checks look at; `None` where it does not show them.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct ServerFigures {
    pub(super) scrub_finished: Option<f64>,
    pub(super) bad_extents: Option<f64>,
    pub(super) damaged_places: Option<f64>,
    /// Segments with bad bytes that were repaired from the remote, and those that wait for it.
    pub(super) repaired_segments: Option<f64>,
    pub(super) repair_waiting: Option<f64>,
    /// Damaged files of the log that a checkpoint replaced.
    pub(super) replaced_log_files: Option<f64>,
    pub(super) read_only: Option<f64>,
    pub(super) ship_lag: Option<f64>,
    /// The end of the last probe of the remote, and whether it found it unfit.
    pub(super) remote_probed: Option<f64>,
    pub(super) remote_unfit_for_tier: Option<f64>,
    pub(super) remote_unfit_for_takeover: Option<f64>,
    pub(super) clock_behind: Option<f64>,
    pub(super) clock_held: Option<f64>,
    pub(super) memory_refused: Option<f64>,
    pub(super) index_bytes: Option<f64>,
    pub(super) index_max_bytes: Option<f64>,
    pub(super) live_bytes: Option<f64>,
    pub(super) keys_missing: Option<f64>,
    pub(super) bucket_logs_failing: Option<f64>,
    pub(super) lost_log_records: Option<f64>,
}
