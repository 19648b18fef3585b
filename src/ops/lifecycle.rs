//! The lifecycle rules of buckets, and the headers that say when they take an object or an upload.

use super::Context;
use super::stored_document::{self, StoredDocument};
use crate::base::Timestamp;
use crate::s3::lifecycle::{Expiry, ExpiryFacts, ExpiryState, LifecycleConfiguration, TransitionMinimumSize};
use crate::s3::{Call, ErrorCode, Response, S3Error, uri};
use crate::store::{
    BucketConfigurationKind, CommittedVersion, ConfiguredBucket, FoundVersion, Selector, Store,
};

const MINIMUM: &str = "p-transition-default-minimum-object-size";

/// PutBucketLifecycleConfiguration also takes the older rules of PutBucketLifecycle, which is the
/// same request.
impl StoredDocument for LifecycleConfiguration {
    const KIND: BucketConfigurationKind = BucketConfigurationKind::Lifecycle;
    const NEEDS_DIGEST: bool = true;

    fn unset(_: &Context) -> Result<Self, ErrorCode> {
        Err(ErrorCode::NoSuchLifecycleConfiguration)
    }

    fn take_headers(&mut self, call: &Call<'_>) -> Result<(), S3Error> {
        if let Some(name) = call.vendor_header("transition-default-minimum-object-size") {
            self.minimum = TransitionMinimumSize::named(name)?;
        }
        Ok(())
    }

    fn add_headers(&self, response: Response) -> Response {
        response.header(MINIMUM, self.minimum.as_str())
    }
}

/// A bucket that may have rules; `None` for a bucket without rules and for a missing one.
fn of_bucket(store: &Store, bucket: &str) -> Option<ConfiguredBucket> {
    let bucket = store.configured_bucket(bucket).ok()?;
    bucket.configuration(LifecycleConfiguration::KIND).is_some().then_some(bucket)
}

/// The rules; `None` if the document is of a version of the server that knows more of them.
fn rules(bucket: &ConfiguredBucket) -> Option<&LifecycleConfiguration> {
    stored_document::stored(bucket)
}

/// Adds the expiry of a current version to the response to a read. A request that names a version
/// gets none.
pub(super) fn add_expiration(
    context: &Context,
    response: Response,
    found: &FoundVersion,
    call: &Call<'_>,
) -> Response {
    match of_bucket(&context.store, call.bucket()) {
        Some(bucket) if !call.query.has("versionId") => with_expiration(response, &bucket, found, call.key()),
        _ => response,
    }
}

/// Adds the expiry of a new version to the response to its write. A version that was replaced in
/// the meantime has none.
pub(super) fn add_new_expiration(
    store: &Store,
    response: Response,
    bucket: &str,
    key: &str,
    written: &CommittedVersion,
) -> Response {
    let Some(configured) = of_bucket(store, bucket) else { return response };
    match store.find_outline(bucket, key, Selector::Current) {
        Ok(found) if found.version.id == written.id => with_expiration(response, &configured, &found, key),
        _ => response,
    }
}

fn with_expiration(
    response: Response,
    bucket: &ConfiguredBucket,
    found: &FoundVersion,
    key: &str,
) -> Response {
    let version = &found.version;
    let facts = ExpiryFacts {
        key: key.as_bytes(),
        size: version.size,
        modified: version.modified,
        state: ExpiryState::Current,
        tags: &|| version.tags.clone(),
    };
    let expiry = rules(bucket).and_then(|rules| Some((rules, rules.expiry(&facts)?)));
    let Some((rules, expiry)) = expiry else { return response };
    let (date, rule) = described(rules, expiry);
    response.header("p-expiration", format!("expiry-date=\"{date}\", rule-id=\"{rule}\""))
}

/// Adds the date at which an upload is aborted, and the id of the rule (S3 API reference,
/// CreateMultipartUpload and ListParts).
pub(super) fn add_abort_date(
    context: &Context,
    response: Response,
    call: &Call<'_>,
    initiated: Timestamp,
) -> Response {
    let Some(bucket) = of_bucket(&context.store, call.bucket()) else { return response };
    let abort =
        rules(&bucket).and_then(|rules| Some((rules, rules.abort_at(call.key().as_bytes(), initiated)?)));
    let Some((rules, abort)) = abort else { return response };
    let (date, rule) = described(rules, abort);
    response.header("p-abort-date", date).header("p-abort-rule-id", rule)
}

/// The date of an action and the id of its rule, as they stand in headers.
fn described(rules: &LifecycleConfiguration, expiry: Expiry) -> (String, String) {
    (expiry.at.to_http_date(), uri::encode_listed(rules.rule_id(expiry.rule)))
}
