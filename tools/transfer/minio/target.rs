//! A bucket that an import of MinIO's drives makes, and the attributes that take further requests.
//!
//! The tags of the bucket name the import that made it, so that the same import goes on, and another
//! bucket of that name is not filled by mistake.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use siltstone::base::digest::Md5;
use siltstone::transfer::{
    Header, PeerCall, PeerError, PeerLink, Tags, enable_versions, has_bucket, make_tagged_bucket, tags_of,
};
use siltstone::xml::Writer;

use super::super::buckets::Place;
use crate::minio::facts::Retention;

/// The tag with the id of the import that made a bucket.
pub(super) const MARK: &str = "siltstone-import";

/// An object lock without a default retention.
const UNRULED_LOCK: &str =
    "<ObjectLockConfiguration><ObjectLockEnabled>Enabled</ObjectLockEnabled></ObjectLockConfiguration>";

/// What an import does to a bucket before its objects come.
pub(in super::super) struct BucketPlan<'b> {
    /// The id of the import.
    pub(in super::super) import: &'b str,
    pub(in super::super) versions: bool,
    pub(in super::super) lock: bool,
    /// Whether a bucket that another one made is filled.
    pub(in super::super) into_existing: bool,
}

impl BucketPlan<'_> {
    /// Whether the bucket may be filled: it is not there, or an earlier run made it.
    ///
    /// # Errors
    /// A message that says what is to be done.
    pub(in super::super) fn check(&self, place: &Place) -> Result<(), String> {
        let bucket = &place.peer.bucket;
        if self.into_existing {
            return Ok(());
        }
        let is_there = has_bucket(&mut PeerLink::new(&place.peer));
        if !is_there.map_err(|error| format!("{bucket}: {}", error.text()))? {
            return Ok(());
        }
        match mark_of(place)? {
            Some(mark) if mark == self.import => Ok(()),
            Some(_) => Err(format!(
                "{bucket}: the bucket is there, and was made by another import; --into-existing fills it nevertheless"
            )),
            None => Err(format!(
                "{bucket}: the bucket is there, and this import did not make it; --into-existing fills it nevertheless"
            )),
        }
    }

    /// Whether this import made the bucket.
    ///
    /// # Errors
    /// A message.
    pub(in super::super) fn is_ours(&self, place: &Place) -> Result<bool, String> {
        Ok(mark_of(place)?.is_some_and(|mark| mark == self.import))
    }

    /// Makes the bucket, unless it is there.
    ///
    /// # Errors
    /// A message.
    pub(in super::super) fn make(&self, place: &Place) -> Result<(), String> {
        let failed = |error: PeerError| format!("{}: {}", place.peer.bucket, error.text());
        let mut link = PeerLink::new(&place.peer);
        if has_bucket(&mut link).map_err(failed)? {
            if !self.is_ours(place)? {
                return Ok(());
            }
            if self.lock {
                // A default retention would hold for what is still to come.
                put_document(&mut link, "", &[("object-lock", "")], UNRULED_LOCK.as_bytes())
                    .map_err(failed)?;
            }
        } else {
            // The mark comes with the bucket: a run that ends here is known by the next one.
            let mark: Tags = vec![(MARK.to_owned(), self.import.to_owned())];
            make_tagged_bucket(&mut link, &mark, self.lock).map_err(failed)?;
        }
        if self.versions && !self.lock {
            enable_versions(&mut link).map_err(failed)?;
        }
        Ok(())
    }
}

/// The import that made a bucket, by its tags.
fn mark_of(place: &Place) -> Result<Option<String>, String> {
    let tags = tags_of(&mut PeerLink::new(&place.peer), "", None);
    let tags = tags.map_err(|why| format!("{}: {why}", place.peer.bucket))?.unwrap_or_default();
    Ok(tags.into_iter().find(|(name, _)| name == MARK).map(|(_, value)| value))
}

/// Sets the retention of a version that is verified and stored.
///
/// # Errors
/// As of [`PeerLink::send`].
pub(super) fn set_retention(
    link: &mut PeerLink<'_>,
    key: &str,
    id: &str,
    retention: &Retention,
) -> Result<(), PeerError> {
    let mut document = Writer::new("Retention", None);
    document.leaf("Mode", &retention.mode);
    document.leaf("RetainUntilDate", &retention.until);
    put_document(link, key, &[("retention", ""), ("versionId", id)], &document.finish())
}

/// Sets a legal hold on a version.
///
/// # Errors
/// As of [`PeerLink::send`].
pub(super) fn set_legal_hold(link: &mut PeerLink<'_>, key: &str, id: &str) -> Result<(), PeerError> {
    let mut document = Writer::new("LegalHold", None);
    document.leaf("Status", "ON");
    put_document(link, key, &[("legal-hold", ""), ("versionId", id)], &document.finish())
}

/// Puts a document of a bucket or an object, with its MD5.
///
/// # Errors
/// As of [`PeerLink::send`].
pub(super) fn put_document(
    link: &mut PeerLink<'_>,
    key: &str,
    query: &[(&str, &str)],
    body: &[u8],
) -> Result<(), PeerError> {
    let md5: Header = ("content-md5".to_owned(), BASE64.encode(Md5::of(body)));
    let call = PeerCall { method: "PUT", key, query, headers: &[md5], ..PeerCall::default() };
    link.ask_with(call, body).map(drop)
}
