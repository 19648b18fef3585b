//! Names of files (data-format.md, section 2).

use crate::base::limits::COUNTERS_END;
use crate::format::FileKind;

/// The lock file of the process that uses the directory.
pub const LOCK: &str = "LOCK";

/// The file that says that the directory follows the log on a remote.
pub const STANDBY: &str = "STANDBY";

/// The wrapped key of an encrypted directory.
pub const KEYS: &str = "KEYS";

/// The same again, since without it all is lost.
pub const KEYS_COPY: &str = "KEYS.copy";

/// The progress and findings of the scrub.
pub const SCRUB: &str = "meta/scrub";

/// Cached results of the search for reclaimable space.
pub const RECLAIM: &str = "meta/reclaim";

/// The epoch of the remote that the directory has held.
pub const EPOCH: &str = "meta/epoch";

/// The lock clock.
pub const CLOCK: &str = "meta/clock";

/// The history of figures.
pub const HISTORY: &str = "meta/history";

/// The point to which the directory was restored, for an epoch that gives up the log after it.
pub const RETURN: &str = "meta/return";

/// The directory of the files of hosts that were taken over: further names, which a fill leaves.
pub const ASIDE: &str = "aside";

/// The mark of the fast directory of a store.
pub const FAST_MARK: &str = "FAST";

/// The directory with the shadow of the log, on the large one of two disks.
pub const SHADOW: &str = "shadow";

/// The number of the mark of a data directory whose log is in a fast directory: that of the newest
/// log file that there can be.
pub const BULK_MARK_NUMBER: u64 = COUNTERS_END - 1;

/// The number of the mark of a side, before that one: see [`BULK_MARK_NUMBER`].
pub const SIDE_MARK_NUMBER: u64 = BULK_MARK_NUMBER - 1;

const UNFINISHED: &str = ".new";

impl FileKind {
    /// The directory of these files.
    pub fn dir(self) -> &'static str {
        match self {
            Self::Segment => "data",
            Self::Log | Self::Checkpoint => "meta",
        }
    }

    /// The end of their names, after the number.
    pub fn suffix(self) -> &'static str {
        match self {
            Self::Segment => ".segment",
            Self::Log => ".log",
            Self::Checkpoint => ".checkpoint",
        }
    }

    /// The path of the file with this number.
    pub fn path(self, number: u64) -> String {
        format!("{}/{number:016x}{}", self.dir(), self.suffix())
    }
}

/// The path of the segment `id`.
pub fn segment_path(id: u64) -> String {
    FileKind::Segment.path(id)
}

/// The path of the block tables of the remote segment `id`.
pub fn tables_path(id: u64) -> String {
    format!("{}/{id:016x}.tables", FileKind::Segment.dir())
}

/// The path of the log file whose first group is `sequence`.
pub fn log_path(sequence: u64) -> String {
    FileKind::Log.path(sequence)
}

/// The path of the checkpoint that covers `sequence`.
pub fn checkpoint_path(sequence: u64) -> String {
    FileKind::Checkpoint.path(sequence)
}

/// The directory of the files that were set aside from a log with that last group.
pub fn aside_path(sequence: u64, crc: u32) -> String {
    format!("{ASIDE}/{sequence:016x}-{crc:08x}")
}

/// The temporary path of a file before its rename.
pub fn unfinished(path: &str) -> String {
    format!("{path}{UNFINISHED}")
}

/// The number in a file name of that kind; `None` for other names, as is one whose number leaves
/// none for the file after it.
pub fn number_of(kind: FileKind, name: &str) -> Option<u64> {
    let digits = name.strip_suffix(kind.suffix())?;
    let plain = digits.len() == 16 && digits.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
    let number = if plain { u64::from_str_radix(digits, 16).ok() } else { None };
    number.filter(|number| *number < COUNTERS_END)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_carry_their_number() {
        assert_eq!(segment_path(0x1f), "data/000000000000001f.segment");
        assert_eq!(log_path(1), "meta/0000000000000001.log");
        assert_eq!(checkpoint_path(10), "meta/000000000000000a.checkpoint");
        assert_eq!(number_of(FileKind::Segment, "000000000000001f.segment"), Some(0x1f));
        assert_eq!(aside_path(0x1f, 0xab), "aside/000000000000001f-000000ab");
    }

    #[test]
    fn other_names_have_none() {
        for name in [
            "1f.segment",
            "000000000000001F.segment",
            "000000000000001f.segment.new",
            "users.toml",
            "8000000000000000.segment",
        ] {
            assert_eq!(number_of(FileKind::Segment, name), None, "{name}");
        }
    }
}
