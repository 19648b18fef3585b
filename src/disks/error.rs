//! Why the directories of a store are not opened.

use std::io;
use std::path::PathBuf;

use thiserror::Error;

use crate::format::FAST_MARK;
use crate::log::LogError;

/// Why the directories of a store are not opened, or not changed.
#[derive(Debug, Error)]
pub enum DisksError {
    /// The data directory has a fast one, and none was named.
    #[error("its log is in a fast directory: name that with --fast-dir")]
    FastNotNamed,
    /// The data directory is a fast one.
    #[error(
        "it is the fast directory of a store: name it with --fast-dir, and the other one with --data-dir"
    )]
    IsFast,
    /// The fast directory has no mark.
    #[error(
        "--fast-dir {0}: the log should be there, and there is no file {FAST_MARK} in it: the disk may not be mounted, or it is another \
         directory. Where that disk is dead, see `siltstone-tools disk lost`"
    )]
    FastMissing(PathBuf),
    /// The fast directory is that of another store.
    #[error("--fast-dir {0}: it belongs to another data directory")]
    OtherPair(PathBuf),
    /// The data directory has a store, and no fast directory.
    #[error(
        "--fast-dir {0}: the store has no fast directory. Give it one: siltstone-tools disk add --fast-dir {0}"
    )]
    NotAdded(PathBuf),
    /// The fast directory has a log, and the data directory has nothing.
    #[error(
        "--fast-dir {0} has the log of a store, and the data directory has no store: its disk is not mounted, or it is another one"
    )]
    DataMissing(PathBuf),
    /// One is in the other.
    #[error(
        "--fast-dir {0}: the fast directory and the data directory must be apart, and one is in the other"
    )]
    Overlap(PathBuf),
    /// There is no store yet.
    #[error("there is no store in it")]
    NoStore,
    /// The store has no fast directory.
    #[error("the store has no fast directory")]
    NotAPair,
    /// The store has a fast directory already.
    #[error("the store has a fast directory already")]
    IsPair,
    /// The directory that is to be the fast one has files.
    #[error(
        "the fast directory is not empty: there is {0}. Where an earlier `disk add` was cut off there, empty it"
    )]
    NotEmpty(String),
    /// The fast directory that is to be given up is there.
    #[error(
        "--fast-dir {0}: it is there, with the log of this store: move that back with `siltstone-tools disk drain`"
    )]
    NotLost(PathBuf),
    /// Another process uses the store.
    #[error("another process uses this data directory: stop it first")]
    Locked,
    /// There is too little space.
    #[error("{needed_bytes} bytes must be free on the disk of {dir}, and {free_bytes} are")]
    NoRoom {
        /// The directory.
        dir: &'static str,
        /// Bytes needed.
        needed_bytes: u64,
        /// Bytes free.
        free_bytes: u64,
    },
    /// A mark is damaged, or of a newer siltstone.
    #[error("its mark {0} cannot be read: {1}")]
    BadMark(String, String),
    /// The copy of the log does not tell what the store has.
    #[error("{0}")]
    Log(#[from] LogError),
    /// A disk failed.
    #[error("{0}")]
    Io(#[from] io::Error),
}
