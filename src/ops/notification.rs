//! The event notifications of buckets.

use super::client_error::ForClient as _;
use super::{Context, body, stored_configuration};
use crate::auth::Authorized;
use crate::s3::notification::{NotificationConfiguration, ROOT};
use crate::s3::render::xml;
use crate::s3::{Call, ErrorCode, Response, S3Error};
use crate::store::{BucketConfiguration, BucketConfigurationKind};

const KIND: BucketConfigurationKind = BucketConfigurationKind::Notification;

/// PutBucketNotificationConfiguration. Durable on return. A configuration without notifications
/// removes the bucket's.
pub(super) fn put(context: &Context, _: &Authorized, call: &mut Call<'_>) -> Result<Response, S3Error> {
    body::announced_length(&call.request.body)?;
    context.store.bucket(call.bucket()).for_client(call)?;
    let trusts_destinations = skips_validation(call)?;
    let request = body::read_document(context, call)?;
    let configuration = NotificationConfiguration::parse(body::parse(&request, ROOT)?.root())?;
    if !trusts_destinations {
        check_destinations(context, &configuration)?;
    }
    if configuration.is_empty() {
        return stored_configuration::delete(context, call, KIND).map(|_| Response::new(200));
    }
    stored_configuration::set(context, call, KIND, configuration.to_document())
}

/// GetBucketNotificationConfiguration. A bucket without notifications has an empty configuration.
pub(super) fn get(context: &Context, _: &Authorized, call: &Call<'_>) -> Result<Response, S3Error> {
    let bucket = context.store.configured_bucket(call.bucket()).for_client(call)?;
    let mut document = context.document(ROOT);
    if let Some(stored) = bucket.configurations.get(KIND) {
        let Some(configuration) = parsed(stored) else {
            log::error!("request {}: the notifications of {} cannot be read", call.id, call.bucket());
            return Err(S3Error::new(ErrorCode::InternalError));
        };
        configuration.render(&mut document);
    }
    Ok(xml(200, document))
}

/// The notifications; `None` if the document is of a version of the server that knows more of them.
fn parsed(stored: &BucketConfiguration) -> Option<&NotificationConfiguration> {
    stored.parsed(NotificationConfiguration::from_document).as_ref()
}

/// Whether the sender wants destinations that are not configured yet.
fn skips_validation(call: &Call<'_>) -> Result<bool, S3Error> {
    const NAME: &str = "skip-destination-validation";
    match call.vendor_header(NAME) {
        None => Ok(false),
        Some(value) if value.eq_ignore_ascii_case("true") => Ok(true),
        Some(value) if value.eq_ignore_ascii_case("false") => Ok(false),
        Some(value) => Err(S3Error::invalid_argument(NAME, value, "The value is true or false.")),
    }
}

fn check_destinations(context: &Context, configuration: &NotificationConfiguration) -> Result<(), S3Error> {
    let unknown =
        configuration.destinations().find(|destination| !context.webhooks.contains(&destination.name));
    unknown.map_or(Ok(()), |destination| Err(destination.unknown()))
}
