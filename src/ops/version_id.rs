//! Version ids as clients write and read them.

use crate::s3::{Query, Response, S3Error};
use crate::store::{BucketInfo, Found, Selector, VersionId, VersionRecord, Versioning, Written};

/// The version that `versionId` means (S3 user guide, "Retrieving object versions from a versioning-enabled bucket").
///
/// # Errors
/// `InvalidArgument` for a text that is never an id.
pub(super) fn selector(query: &Query) -> Result<Selector, S3Error> {
    named(query.get("versionId"))
}

/// The version that is named, or the current one.
///
/// # Errors
/// As [`selector`].
pub(super) fn named(text: Option<&str>) -> Result<Selector, S3Error> {
    let Some(text) = text else { return Ok(Selector::Current) };
    parse(text).ok_or_else(|| S3Error::invalid_argument("versionId", text, "Invalid version id specified"))
}

/// The version that `text` names; `None` where it is never an id.
pub(super) fn parse(text: &str) -> Option<Selector> {
    match text {
        "null" => Some(Selector::Null),
        _ => VersionId::parse(text).map(Selector::Id),
    }
}

/// The id to tell of a version that is there; none in a bucket that never had versions.
pub(super) fn shown(bucket: &BucketInfo, version: &VersionRecord) -> Option<String> {
    match (version.null, bucket.versioning) {
        (false, _) => Some(version.id.to_string()),
        (true, Versioning::Unset) => None,
        (true, Versioning::Enabled | Versioning::Suspended) => Some("null".to_owned()),
    }
}

/// Tells in a response which version was found.
pub(super) fn tell(response: Response, found: &Found) -> Response {
    match shown(&found.bucket, &found.version) {
        Some(id) => response.header("p-version-id", id),
        None => response,
    }
}

/// Tells in a response the id of a version that was just made, if it has one of its own.
pub(super) fn announce(response: Response, written: &Written) -> Response {
    if written.null { response } else { response.header("p-version-id", written.id.to_string()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::s3::ErrorCode;

    #[test]
    fn a_version_is_named_by_its_id_by_null_or_not_at_all() {
        let selector = |text| selector(&Query::parse(text).unwrap()).map_err(|e| e.code);
        assert_eq!(selector(""), Ok(Selector::Current));
        assert_eq!(selector("versionId=null"), Ok(Selector::Null));
        assert_eq!(selector("versionId=00000000000000ff"), Ok(Selector::Id(VersionId(255))));
        for text in
            ["versionId", "versionId=", "versionId=ff", "versionId=00000000000000FF", "versionId=NULL"]
        {
            assert_eq!(selector(text), Err(ErrorCode::InvalidArgument), "{text}");
        }
    }
}
