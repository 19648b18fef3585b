//! Progress of the tools that read a whole store.

use std::fmt;

/// A step of a check, a rebuild, a backup or a restore.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProgressStep {
    /// Reading the headers of all files.
    Files,
    /// Reading the newest checkpoint, and the log after it.
    Metadata,
    /// Reading the extents of all versions and parts.
    Objects,
    /// Reading the other checkpoints, and the log after each.
    OtherCheckpoints,
    /// Reading every segment from start to end.
    Segments,
    /// Restoring the records found in segments.
    Records,
    /// Writing the rebuilt log.
    NewLog,
    /// Copying log and checkpoints.
    CopyMetadata,
    /// Copying segments.
    CopySegments,
    /// Reading the finished copy.
    CheckCopy,
    /// Fetching the log from a remote.
    Parcels,
}

/// How far a tool has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
    /// The current step.
    pub step: ProgressStep,
    /// Bytes done in this step; objects of the remote in the step [`ProgressStep::Parcels`].
    pub done: u64,
    /// Bytes or objects to do in this step; 0 if unknown.
    pub total: u64,
}

impl fmt::Display for ProgressStep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Files => "files",
            Self::Metadata => "checkpoint and log",
            Self::Objects => "objects",
            Self::OtherCheckpoints => "other checkpoints",
            Self::Segments => "segments",
            Self::Records => "records",
            Self::NewLog => "the new log",
            Self::CopyMetadata => "copying checkpoint and log",
            Self::CopySegments => "copying segments",
            Self::CheckCopy => "checking the copy",
            Self::Parcels => "the log on the remote",
        })
    }
}
