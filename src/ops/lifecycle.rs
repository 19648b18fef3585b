//! The lifecycle rules of buckets, and the headers that say when they take an object or an upload.

use std::sync::Arc;

use super::client_error::ForClient as _;
use super::{Context, body, stored_configuration};
use crate::auth::Authorized;
use crate::base::Timestamp;
use crate::s3::lifecycle::{Expiry, ExpiryFacts, ExpiryState, LifecycleConfiguration, TransitionMinimumSize};
use crate::s3::render::xml;
use crate::s3::{Call, ErrorCode, Response, S3Error, uri};
use crate::store::{
    BucketConfiguration, BucketConfigurationKind, CommittedVersion, FoundVersion, Selector, Store,
};

const KIND: BucketConfigurationKind = BucketConfigurationKind::Lifecycle;
const MINIMUM: &str = "p-transition-default-minimum-object-size";

/// PutBucketLifecycleConfiguration, and PutBucketLifecycle, the same request with older rules.
/// Durable on return.
pub(super) fn put(context: &Context, _: &Authorized, call: &mut Call<'_>) -> Result<Response, S3Error> {
    body::announced_length(&call.request.body)?;
    context.store.bucket(call.bucket()).for_client(call)?;
    let minimum = call.vendor_header("transition-default-minimum-object-size");
    let minimum = minimum.map(TransitionMinimumSize::named).transpose()?.unwrap_or_default();
    let request = body::read_claimed_document(context, call)?;
    let document = body::parse(&request, LifecycleConfiguration::ROOT)?;
    let rules = LifecycleConfiguration::parse(document.root(), minimum)?;
    let response = stored_configuration::set(context, call, KIND, rules.to_document())?;
    Ok(response.header(MINIMUM, minimum.as_str()))
}

/// GetBucketLifecycleConfiguration.
pub(super) fn get(context: &Context, _: &Authorized, call: &Call<'_>) -> Result<Response, S3Error> {
    let stored = stored_configuration::get(context, call, KIND, ErrorCode::NoSuchLifecycleConfiguration)?;
    let Some(rules) = parsed(&stored) else {
        log::error!(
            "request {}: the lifecycle rules of the bucket {} cannot be read",
            call.id,
            call.bucket()
        );
        return Err(S3Error::new(ErrorCode::InternalError));
    };
    let mut document = context.document(LifecycleConfiguration::ROOT);
    rules.render(&mut document);
    Ok(xml(200, document).header(MINIMUM, rules.minimum.as_str()))
}

/// DeleteBucketLifecycle. Durable on return.
pub(super) fn delete(context: &Context, _: &Authorized, call: &Call<'_>) -> Result<Response, S3Error> {
    stored_configuration::delete(context, call, KIND)
}

/// The rules; `None` if the document is of a version of the server that knows more of them.
fn parsed(stored: &BucketConfiguration) -> Option<&LifecycleConfiguration> {
    stored.parsed(LifecycleConfiguration::from_document).as_ref()
}

/// The stored rules of a bucket; `None` for a bucket without rules and for a missing one.
fn of_bucket(store: &Store, bucket: &str) -> Option<Arc<BucketConfiguration>> {
    store.configured_bucket(bucket).ok()?.configurations.get(KIND).cloned()
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
        Some(stored) if !call.query.has("versionId") => {
            with_expiration(response, &stored, (found, call.key()))
        }
        _ => response,
    }
}

/// Adds the expiry of a new version to the response to its write. A version that was replaced in
/// the meantime has none.
pub(super) fn add_new_expiration(
    store: &Store,
    response: Response,
    (bucket, key): (&str, &str),
    written: &CommittedVersion,
) -> Response {
    let Some(stored) = of_bucket(store, bucket) else { return response };
    match store.find_outline(bucket, key, Selector::Current) {
        Ok(found) if found.version.id == written.id => with_expiration(response, &stored, (&found, key)),
        _ => response,
    }
}

fn with_expiration(
    response: Response,
    stored: &BucketConfiguration,
    (found, key): (&FoundVersion, &str),
) -> Response {
    let version = &found.version;
    let facts = ExpiryFacts {
        key: key.as_bytes(),
        size: version.size,
        modified: version.modified,
        state: ExpiryState::Current,
        tags: &|| version.tags.clone(),
    };
    let expiry = parsed(stored).and_then(|rules| Some((rules, rules.expiry(&facts)?)));
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
    let Some(stored) = of_bucket(&context.store, call.bucket()) else { return response };
    let abort =
        parsed(&stored).and_then(|rules| Some((rules, rules.abort_at(call.key().as_bytes(), initiated)?)));
    let Some((rules, abort)) = abort else { return response };
    let (date, rule) = described(rules, abort);
    response.header("p-abort-date", date).header("p-abort-rule-id", rule)
}

/// The date of an action and the id of its rule, as they stand in headers.
fn described(rules: &LifecycleConfiguration, expiry: Expiry) -> (String, String) {
    (expiry.at.to_http_date(), uri::encode_listed(rules.rule_id(expiry.rule)))
}
