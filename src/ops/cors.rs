//! The cross-origin rules of buckets.

use super::Context;
use super::stored_document::{self, StoredDocument};
use crate::base::limits::CORS_MAX_BYTES;
use crate::s3::ErrorCode;
use crate::s3::cors::CorsConfiguration;
use crate::store::{BucketConfigurationKind, ConfiguredBucket};

impl StoredDocument for CorsConfiguration {
    const KIND: BucketConfigurationKind = BucketConfigurationKind::Cors;
    const MAX_BYTES: usize = CORS_MAX_BYTES;

    fn unset(_: &Context) -> Result<Self, ErrorCode> {
        Err(ErrorCode::NoSuchCORSConfiguration)
    }
}

/// A bucket with rules of its own.
pub struct BucketCors(ConfiguredBucket);

impl BucketCors {
    /// The rules; `None` if the document is of a version of the server that knows more of them.
    pub fn rules(&self) -> Option<&CorsConfiguration> {
        stored_document::stored(&self.0)
    }
}

impl Context {
    /// The rules of a bucket; `None` for a bucket without rules and for a missing one.
    pub fn bucket_cors(&self, bucket: &str) -> Option<BucketCors> {
        let bucket = self.store.configured_bucket(bucket).ok()?;
        bucket.configuration(CorsConfiguration::KIND).is_some().then_some(BucketCors(bucket))
    }
}
