//! The errors of the log on a remote.

use thiserror::Error;

use crate::base::Timestamp;
use crate::format::RemoteMark;
use crate::remote::RemoteError;

/// Why the log on a remote could not be read, or written.
#[derive(Debug, Error)]
pub enum ShipError {
    /// A request failed.
    #[error("{name}: {error}")]
    Remote {
        /// The name of the object.
        name: String,
        /// Why.
        error: RemoteError,
    },
    /// An object is damaged, or belongs to another store.
    #[error("the object {name} of the remote is damaged: {why}")]
    Damaged {
        /// The name of the object.
        name: String,
        /// Its fault.
        why: String,
    },
    /// Something speaks for an object that the remote does not show.
    #[error("the remote does not show {name}, which would be given up: {why}")]
    Hidden {
        /// The name of the object.
        name: String,
        /// What speaks for it.
        why: String,
    },
    /// The own disk failed.
    #[error("the disk failed: {0}")]
    Disk(String),
    /// Another host is about to take over, or has failed to.
    #[error("{0}")]
    Waiting(String),
    /// Another epoch was claimed meanwhile.
    #[error("epoch {0} was claimed there meanwhile: try it again")]
    Claimed(u64),
    /// There is no log.
    #[error("the remote has no log that a store can be restored from")]
    NoLog,
    /// Nothing is kept of the time that was asked for.
    #[error("the log on the remote does not reach so far back: the oldest time that can be restored is {}", .0.to_iso8601())]
    BeforeWindow(Timestamp),
    /// The directory and the log on the remote have nothing in common.
    #[error("the directory has no group in common with what the remote still has of the log")]
    OtherLog,
    /// The directory holds something that a standby does not replace.
    #[error("the directory {0}")]
    Occupied(&'static str),
}

impl ShipError {
    /// Whether the remote has no log, or is not marked for a store yet.
    pub fn is_no_log(&self) -> bool {
        matches!(self, Self::NoLog) || self.is_unmarked()
    }

    /// Whether the remote is not marked for a store yet.
    pub fn is_unmarked(&self) -> bool {
        matches!(self, Self::Remote { name, error: RemoteError::Missing } if name == RemoteMark::NAME)
    }

    /// Whether a standby cannot go on until an operator has changed something on this host.
    pub fn lasts(&self) -> bool {
        matches!(self, Self::Disk(_) | Self::OtherLog | Self::Occupied(_))
    }

    /// The failure to read an object: where the remote has other bytes than it should, the object
    /// is damaged.
    pub(crate) fn of_object(name: &str, error: RemoteError) -> Self {
        match error {
            RemoteError::Wrong(why) => Self::damaged(name, &why),
            error => Self::Remote { name: name.to_owned(), error },
        }
    }

    pub(crate) fn damaged(name: impl Into<String>, why: &dyn std::fmt::Display) -> Self {
        Self::Damaged { name: name.into(), why: why.to_string() }
    }
}

#[expect(clippy::needless_pass_by_value, reason = "it is mapped over results")]
pub(crate) fn disk(error: std::io::Error) -> ShipError {
    ShipError::Disk(error.to_string())
}
