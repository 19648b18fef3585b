//! The event notifications of buckets.

use super::Context;
use super::stored_document::StoredDocument;
use crate::auth::Authorized;
use crate::s3::notification::NotificationConfiguration;
use crate::s3::{Call, ErrorCode, S3Error};
use crate::store::{BucketConfigurationKind, ConfiguredBucket};

impl StoredDocument for NotificationConfiguration {
    const KIND: BucketConfigurationKind = BucketConfigurationKind::Notification;

    /// A bucket without notifications has an empty configuration.
    fn unset(_: &Context) -> Result<Self, ErrorCode> {
        Ok(Self::default())
    }

    fn check(
        &self,
        context: &Context,
        _: &Authorized,
        call: &Call<'_>,
        _: &ConfiguredBucket,
    ) -> Result<(), S3Error> {
        if skips_validation(call)? {
            return Ok(());
        }
        match self.destinations().find(|destination| !context.webhooks.contains(&destination.name)) {
            Some(unknown) => Err(unknown.unknown()),
            None => Ok(()),
        }
    }

    fn is_empty(&self) -> bool {
        Self::is_empty(self)
    }
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
