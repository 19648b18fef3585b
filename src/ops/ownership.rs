//! The public access blocks and the ownership controls of buckets.

use super::stored_document::StoredDocument;
use super::{Context, configurations};
use crate::auth::Authorized;
use crate::s3::{Call, ErrorCode, ObjectOwnership, PublicAccessBlock, S3Error};
use crate::store::{BucketConfigurationKind, ConfiguredBucket};

impl StoredDocument for PublicAccessBlock {
    const KIND: BucketConfigurationKind = BucketConfigurationKind::PublicAccessBlock;
    const UNREADABLE: Option<Self> = Some(Self::ALL);

    fn unset(_: &Context) -> Result<Self, ErrorCode> {
        Err(ErrorCode::NoSuchPublicAccessBlockConfiguration)
    }
}

impl StoredDocument for ObjectOwnership {
    const KIND: BucketConfigurationKind = BucketConfigurationKind::OwnershipControls;
    const UNREADABLE: Option<Self> = Some(Self::BucketOwnerEnforced);

    /// Reads show the ownership that holds, set or not.
    fn unset(context: &Context) -> Result<Self, ErrorCode> {
        Ok(context.object_ownership)
    }

    fn check(
        &self,
        _: &Context,
        _: &Authorized,
        _: &Call<'_>,
        bucket: &ConfiguredBucket,
    ) -> Result<(), S3Error> {
        if !self.has_acls() && configurations::bucket_acl(bucket).is_public() {
            return Err(S3Error::new(ErrorCode::InvalidBucketAclWithObjectOwnership));
        }
        Ok(())
    }
}
