//! The tags of buckets.

use super::Context;
use super::stored_document::StoredDocument;
use crate::s3::ErrorCode;
use crate::s3::tags::BucketTags;
use crate::store::BucketConfigurationKind;

impl StoredDocument for BucketTags {
    const KIND: BucketConfigurationKind = BucketConfigurationKind::Tags;

    fn unset(_: &Context) -> Result<Self, ErrorCode> {
        Err(ErrorCode::NoSuchTagSet)
    }

    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}
