//! The results of a check.

use std::{fmt, io};

use thiserror::Error;

use crate::format::{ClientId, ClientIds, Entry, StoreId, UploadId, VersionId, segment_path};
use crate::log::Damage;
use crate::store::shared::text::text;

/// The results of a check.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct VerifyReport {
    /// Damage, each place once.
    pub findings: Vec<Finding>,
    /// Observations that are not damage.
    pub notes: Vec<Note>,
    /// The segments with a good header.
    pub segments: Vec<SegmentUse>,
    /// The amount of checked data.
    pub counts: VerifyCounts,
}

/// A difference from the written data.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// The place, the expected and the actual content.
    pub damage: Damage,
    /// The owner of the bytes; `None` if it concerns the file.
    pub owner: Option<NamedOwner>,
}

/// A version, or a part of an upload in progress, by its names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NamedOwner {
    /// The name of the bucket.
    pub bucket: String,
    /// The key.
    pub key: String,
    /// The version or part of the key.
    pub record: RecordRef,
    /// The id of the version or upload as clients see it.
    pub id: ClientId,
}

/// A version or a part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RecordRef {
    /// A version.
    Version {
        /// Its id.
        id: VersionId,
        /// Whether clients see it as `null`.
        null: bool,
    },
    /// A part.
    Part {
        /// The upload.
        upload: UploadId,
        /// The number of the part.
        number: u32,
    },
}

/// An observation that is not damage.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Note {
    /// The kind.
    pub kind: NoteKind,
    /// The file, relative to the data directory; empty for the directory itself.
    pub file: String,
    /// Bytes from the start of the file.
    pub offset: u64,
    /// A description.
    pub what: String,
}

/// The kinds of notes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoteKind {
    /// The last group before a crash, which was never acknowledged.
    Torn,
    /// A file that a crash left unfinished.
    Unfinished,
    /// A segment without live extents.
    Unreferenced,
    /// An outdated checkpoint.
    Superfluous,
    /// The store was not locked.
    NotLocked,
    /// An extent that the scrub found bad and that is good again.
    Recorded,
    /// A segment whose bytes may be on a remote alone. They were not checked.
    Remote,
}

/// The use of a segment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SegmentUse {
    /// Its id.
    pub id: u64,
    /// Its length in bytes.
    pub len: u64,
    /// Bytes of extents that versions and parts refer to.
    pub live: u64,
    /// Whether it is sealed.
    pub sealed: bool,
}

/// The amount of checked data.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct VerifyCounts {
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
    /// Multipart uploads in progress.
    pub uploads: u64,
    /// Extents of versions and parts; a shared one counts once.
    pub extents: u64,
    /// Bytes of their payloads.
    pub payload_bytes: u64,
    /// Extents whose bytes may be on a remote alone, and were not checked; a shared one counts
    /// once.
    pub unchecked_extents: u64,
    /// Bytes of their payloads.
    pub unchecked_bytes: u64,
}

/// The reason why a check is impossible.
#[derive(Debug, Error)]
pub enum VerifyError {
    /// Another process has the store open.
    #[error("another process uses this data directory: stop it first, or check a copy")]
    Locked,
    /// There is no store.
    #[error("there is no store in it: no segment, no log and no checkpoint")]
    NotAStore,
    /// The disk failed.
    #[error("{0}")]
    Io(#[from] io::Error),
}

impl VerifyReport {
    /// Adds damage of a file, unless it is in the report already.
    pub(super) fn find(&mut self, damage: Damage) {
        let finding = Finding { damage, owner: None };
        if !self.findings.contains(&finding) {
            self.findings.push(finding);
        }
    }

    /// Adds a note, unless it is in the report already.
    pub(super) fn note(&mut self, note: Note) {
        if !self.notes.contains(&note) {
            self.notes.push(note);
        }
    }
}

impl Note {
    /// A note about a whole file.
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
        match &self.owner {
            Some(owner) => write!(f, "{owner}: {}", self.damage),
            None => self.damage.fmt(f),
        }
    }
}

impl NamedOwner {
    pub(in crate::offline) fn new(store: &StoreId, bucket: &str, key: &[u8], record: RecordRef) -> Self {
        let ids = ClientIds::new(store);
        let id = match record {
            RecordRef::Version { id, .. } => ids.of_version(id),
            RecordRef::Part { upload, .. } => ids.of_upload(upload),
        };
        Self { bucket: bucket.to_owned(), key: text(key.to_vec()), record, id }
    }

    /// The version or part of an entry in a bucket of that name; `None` for other entries.
    pub(in crate::offline) fn of_entry(store: &StoreId, bucket: &str, entry: &Entry) -> Option<Self> {
        let (key, record) = match entry {
            Entry::VersionPut { key, record, .. } => {
                (key, RecordRef::Version { id: record.id, null: record.null })
            }
            Entry::PartPut { key, upload, record, .. } => {
                (key, RecordRef::Part { upload: *upload, number: record.number })
            }
            _ => return None,
        };
        Some(Self::new(store, bucket, key, record))
    }
}

impl fmt::Display for NamedOwner {
    /// Control characters are escaped: a key may hold any.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "bucket {}, key {:?}, ", self.bucket, self.key)?;
        match self.record {
            RecordRef::Version { null: false, .. } => write!(f, "version {}", self.id),
            RecordRef::Version { null: true, .. } => write!(f, "version {} (null)", self.id),
            RecordRef::Part { number, .. } => write!(f, "part {number} of upload {}", self.id),
        }
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
    /// The name for machine-readable output.
    pub fn name(self) -> &'static str {
        match self {
            Self::Torn => "torn",
            Self::Unfinished => "unfinished",
            Self::Unreferenced => "unreferenced",
            Self::Superfluous => "superfluous",
            Self::NotLocked => "not-locked",
            Self::Recorded => "recorded",
            Self::Remote => "remote",
        }
    }
}
