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

    /// To clients a bucket without controls is one of `ObjectWriter`. A new bucket of S3 has
    /// controls with another ownership, and so a bucket shows what else holds by default.
    fn unset(context: &Context) -> Result<Self, ErrorCode> {
        match context.object_ownership {
            Self::ObjectWriter => Err(ErrorCode::OwnershipControlsNotFoundError),
            of_server => Ok(of_server),
        }
    }

    fn check(
        &self,
        _: &Context,
        _: &Authorized,
        _: &Call<'_>,
        bucket: &ConfiguredBucket,
    ) -> Result<(), S3Error> {
        if !self.has_acls() && !configurations::bucket_acl(bucket).is_private_of(&bucket.info.owner) {
            return Err(S3Error::new(ErrorCode::InvalidBucketAclWithObjectOwnership));
        }
        Ok(())
    }
}
