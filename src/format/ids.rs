//! The ids of versions and multipart uploads.

/// The id of a version: a stamp, unique in the store. [`crate::format::ClientIds`] gives its client
/// form.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct VersionId(pub u64);

impl VersionId {
    /// No version; no stamp is zero.
    pub const NONE: Self = Self(0);
}

/// The id of a multipart upload: a stamp, so ids sort by the time of initiation.
/// [`crate::format::ClientIds`] gives its client form.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct UploadId(pub u64);

impl UploadId {
    /// No upload: the value in copies of multipart objects. No stamp is zero.
    pub const NONE: Self = Self(0);
}
