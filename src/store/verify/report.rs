//! What looking at a store tells.

use std::fmt;
use std::io;

use thiserror::Error;

use crate::format::{VersionId, segment_path};
use crate::log::Damage;

/// All that was seen.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Report {
    /// What is wrong, each place once.
    pub findings: Vec<Finding>,
    /// What is worth knowing and not wrong.
    pub notes: Vec<Note>,
    /// The segments whose header is good.
    pub segments: Vec<SegmentUse>,
    /// How much was looked at.
    pub counts: Counts,
}

/// Something that is not as it was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// Where, what was expected and what is there instead.
    pub damage: Damage,
    /// The version that it belongs to; `None` when it concerns the file.
    pub object: Option<ObjectName>,
}

/// A version of an object by its names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ObjectName {
    /// The name of the bucket.
    pub bucket: String,
    /// The key.
    pub key: String,
    /// The id of the version.
    pub version: VersionId,
    /// Whether clients see it as `null`.
    pub null: bool,
}

/// Something worth knowing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Note {
    /// What kind of thing.
    pub kind: NoteKind,
    /// The file, relative to the data directory; empty for the directory itself.
    pub file: String,
    /// Bytes from the start of the file.
    pub offset: u64,
    /// In words.
    pub what: String,
}

/// The kinds of notes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoteKind {
    /// The last group before a crash, which never counted.
    Torn,
    /// A file that a crash left unfinished.
    Unfinished,
    /// A segment that no object lies in.
    Unreferenced,
    /// A checkpoint that is no longer wanted.
    Superfluous,
    /// There was no lock to be taken.
    NotLocked,
}

/// How a segment is used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SegmentUse {
    /// Its id.
    pub id: u64,
    /// Its length in bytes.
    pub len: u64,
    /// Bytes of extents that versions refer to.
    pub live: u64,
    /// Whether it is sealed.
    pub sealed: bool,
}

/// How much was looked at.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Segments.
    pub segments: u64,
    /// Files of the log.
    pub log_files: u64,
    /// Checkpoints.
    pub checkpoints: u64,
    /// Buckets.
    pub buckets: u64,
    /// Versions, delete markers included.
    pub versions: u64,
    /// Extents that versions refer to; one that two share counts twice.
    pub extents: u64,
    /// Bytes of their payloads.
    pub payload_bytes: u64,
}

/// What is being looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// The headers of all files.
    Files,
    /// The newest checkpoint, and the log behind it.
    Metadata,
    /// The extents of all versions.
    Objects,
    /// The other checkpoints, and the log behind them.
    OtherCheckpoints,
}

/// How far it has got.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
    /// What is being looked at.
    pub step: Step,
    /// Bytes done in this step.
    pub done: u64,
    /// Bytes to do in this step; 0 when nobody knows.
    pub total: u64,
}

/// Why a store could not be looked at.
#[derive(Debug, Error)]
pub enum VerifyError {
    /// Somebody has it open.
    #[error("another process uses this data directory: stop it first, or look at a copy")]
    Locked,
    /// There is no store.
    #[error("there is no store in it: no segment, no log and no checkpoint")]
    NotAStore,
    /// The disk failed.
    #[error("{0}")]
    Io(#[from] io::Error),
}

impl Report {
    /// Adds damage of a file that may have been seen before.
    pub(super) fn find(&mut self, damage: Damage) {
        let finding = Finding { damage, object: None };
        if !self.findings.contains(&finding) {
            self.findings.push(finding);
        }
    }

    /// Adds a note that may have been made before.
    pub(super) fn note(&mut self, note: Note) {
        if !self.notes.contains(&note) {
            self.notes.push(note);
        }
    }
}

impl Note {
    /// A note on a file as a whole.
    pub(super) fn new(kind: NoteKind, file: impl Into<String>, what: impl Into<String>) -> Self {
        Self { kind, file: file.into(), offset: 0, what: what.into() }
    }
}

impl SegmentUse {
    /// The path of its file.
    pub fn path(&self) -> String {
        segment_path(self.id)
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.object {
            Some(object) => write!(f, "{object}: {}", self.damage),
            None => self.damage.fmt(f),
        }
    }
}

impl fmt::Display for ObjectName {
    /// Control characters are escaped: a key may hold any.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let null = if self.null { " (null)" } else { "" };
        write!(f, "bucket {}, key {:?}, version {}{null}", self.bucket, self.key, self.version)
    }
}

impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.file.as_str(), self.offset) {
            ("", _) => f.write_str(&self.what),
            (file, 0) => write!(f, "{file}: {}", self.what),
            (file, offset) => write!(f, "{file} at offset {offset}: {}", self.what),
        }
    }
}

impl NoteKind {
    /// Its name, for machines.
    pub fn name(self) -> &'static str {
        match self {
            Self::Torn => "torn",
            Self::Unfinished => "unfinished",
            Self::Unreferenced => "unreferenced",
            Self::Superfluous => "superfluous",
            Self::NotLocked => "not-locked",
        }
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Files => "files",
            Self::Metadata => "checkpoint and log",
            Self::Objects => "objects",
            Self::OtherCheckpoints => "other checkpoints",
        })
    }
}
