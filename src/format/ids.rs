//! The ids of versions and multipart uploads.

/// The id of a version: a stamp, unique in the store. Clients see it as [`crate::format::ClientIds`] shows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct VersionId(pub u64);

impl VersionId {
    /// No version. No stamp is zero.
    pub const NONE: Self = Self(0);
}

/// The id of a multipart upload: a stamp, so that ids sort by the time of initiation. Clients see it as
/// [`crate::format::ClientIds`] shows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct UploadId(pub u64);

impl UploadId {
    /// No upload: what a copy of a multipart object has in place of the id. No stamp is zero.
    pub const NONE: Self = Self(0);
}
