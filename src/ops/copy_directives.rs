//! The directives of a copy, by which it takes properties of its source or of the request.

use super::checksums;
use crate::base::ChecksumAlgorithm;
use crate::s3::{Call, S3Error};

/// Which properties of the copy come from its source, and which from the request.
pub(super) struct Directives {
    pub(super) replace_metadata: bool,
    pub(super) replace_tags: bool,
    /// The requested checksum of the copy.
    pub(super) algorithm: Option<ChecksumAlgorithm>,
}

impl Directives {
    /// The directives in the headers of a call.
    ///
    /// # Errors
    /// `InvalidArgument` for an unknown directive or checksum.
    pub(super) fn from_headers(call: &Call<'_>) -> Result<Self, S3Error> {
        Ok(Self {
            replace_metadata: replaces(call, "metadata-directive", "Unknown metadata directive.")?,
            replace_tags: !keeps_tags(call)?,
            algorithm: checksums::wanted(call)?,
        })
    }
}

/// Whether the copy gets the tags of its source.
///
/// # Errors
/// `InvalidArgument` for an unknown directive.
pub(super) fn keeps_tags(call: &Call<'_>) -> Result<bool, S3Error> {
    Ok(!replaces(call, "tagging-directive", "Unknown tagging directive.")?)
}

fn replaces(call: &Call<'_>, name: &str, message: &str) -> Result<bool, S3Error> {
    match call.vendor().get(name) {
        None | Some(b"COPY") => Ok(false),
        Some(b"REPLACE") => Ok(true),
        Some(other) => {
            let name = format!("{}{name}", call.dialect.header_prefix());
            Err(S3Error::invalid_argument(&name, &String::from_utf8_lossy(other), message))
        }
    }
}
