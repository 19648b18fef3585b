//! Why the directories of a store are not opened.

use std::io;
use std::path::PathBuf;

use thiserror::Error;

use super::SidesRefusal;
use crate::format::FAST_MARK;
use crate::log::LogError;
use crate::vault::VaultError;

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
    /// The sides of a mirror are not used.
    #[error("--mirror {}={}: {refusal}", .sides[0].display(), .sides[1].display())]
    Sides {
        /// The directories.
        sides: [PathBuf; 2],
        /// Why.
        refusal: SidesRefusal,
    },
    /// The data directory is a side, and no mirror was named.
    #[error("it is one side of a mirror: name both directories with --mirror A=B")]
    MirrorNotNamed,
    /// A mirror is not written to without a server.
    #[error("the two sides of a mirror are only looked at by these tools: a server writes to both")]
    OnlyLooks,
    /// The sides are one directory, or one is in the other.
    #[error("--mirror {}={}: the directories must be apart, and one is in the other", .0[0].display(), .0[1].display())]
    SidesOverlap([PathBuf; 2]),
    /// A directory has a store, and neither is a side.
    #[error(
        "{} has a store that is not mirrored. Give it a second side: siltstone-tools disk add --mirror A=B, where B is empty",
        .0.display()
    )]
    NotMirrored(PathBuf),
    /// A directory beside a side has a store, and no mark.
    #[error(
        "{} has a store and is no side of this mirror: it is that of another store, or was set aside. It is not written over: name an \
         empty directory in its place with `siltstone-tools disk replace`",
        .0.display()
    )]
    OtherStore(PathBuf),
    /// The store is of a kind that has no mirror.
    #[error("it is {0}, and such a directory is not mirrored by this version")]
    NotForMirror(&'static str),
    /// The directory that is to be a side has files.
    #[error("{} is not empty: there is {file}. Name an empty directory as the new side", .dir.display())]
    SideNotEmpty {
        /// The directory.
        dir: PathBuf,
        /// A file in it.
        file: String,
    },
    /// The store is mirrored already.
    #[error(
        "the store is mirrored already: a side that is lost is replaced by `siltstone-tools disk replace`"
    )]
    IsMirrored,
    /// Neither side is to be replaced.
    #[error(
        "both directories are sides of a mirror: there is none to replace. Name an empty directory in the place of the one that is to go"
    )]
    BothMarked,
    /// The sides are not apart.
    #[error("the sides are not apart: start the server, which uses both")]
    NotApart,
    /// The store has a fast directory.
    #[error(
        "a store with a fast directory is not mirrored: move its log back with `siltstone-tools disk drain` first"
    )]
    FastBesideMirror,
    /// The file of the witness has no name.
    #[error("--pair-witness {}: that names no file", .0.display())]
    BadWitness(PathBuf),
    /// The copy of the log does not tell what the store has.
    #[error("{0}")]
    Log(#[from] LogError),
    /// The keys of an encrypted store are not those of both sides.
    #[error("{0}")]
    Keys(#[from] VaultError),
    /// A disk failed.
    #[error("{0}")]
    Io(#[from] io::Error),
}
