//! The public access blocks and the ownership controls of buckets.

use super::client_error::ForClient as _;
use super::{Context, body, configurations};
use crate::auth::Authorized;
use crate::s3::render::xml;
use crate::s3::{Call, ErrorCode, ObjectOwnership, PublicAccessBlock, Response, S3Error};
use crate::store::BucketConfigurationKind;

/// PutPublicAccessBlock. Durable on return.
pub(super) fn put_block(context: &Context, _: &Authorized, call: &mut Call<'_>) -> Result<Response, S3Error> {
    body::announced_length(&call.request.body)?;
    context.store.configured_bucket(call.bucket()).for_client(call)?;
    let request = body::read_document(context, call)?;
    let block = PublicAccessBlock::parse(body::parse(&request, PublicAccessBlock::ROOT)?.root())?;
    let mut document = context.document(PublicAccessBlock::ROOT);
    block.render(&mut document);
    set(context, call, BucketConfigurationKind::PublicAccessBlock, Some(document.finish()), 200)
}

/// GetPublicAccessBlock.
pub(super) fn get_block(context: &Context, _: &Authorized, call: &Call<'_>) -> Result<Response, S3Error> {
    let bucket = context.store.configured_bucket(call.bucket()).for_client(call)?;
    let missing =
        || S3Error::new(ErrorCode::NoSuchPublicAccessBlockConfiguration).element("BucketName", call.bucket());
    let block = configurations::set_block(&bucket).ok_or_else(missing)?;
    let mut document = context.document(PublicAccessBlock::ROOT);
    block.render(&mut document);
    Ok(xml(200, document))
}

/// DeletePublicAccessBlock, also where there is none. Durable on return.
pub(super) fn delete_block(context: &Context, _: &Authorized, call: &Call<'_>) -> Result<Response, S3Error> {
    set(context, call, BucketConfigurationKind::PublicAccessBlock, None, 204)
}

/// PutBucketOwnershipControls. Durable on return.
pub(super) fn put(context: &Context, _: &Authorized, call: &mut Call<'_>) -> Result<Response, S3Error> {
    body::announced_length(&call.request.body)?;
    let bucket = context.store.configured_bucket(call.bucket()).for_client(call)?;
    let request = body::read_document(context, call)?;
    let ownership = ObjectOwnership::parse(body::parse(&request, ObjectOwnership::ROOT)?.root())?;
    if !ownership.has_acls() && configurations::bucket_acl(&bucket).is_public() {
        return Err(S3Error::new(ErrorCode::InvalidBucketAclWithObjectOwnership));
    }
    let mut document = context.document(ObjectOwnership::ROOT);
    ownership.render(&mut document);
    set(context, call, BucketConfigurationKind::OwnershipControls, Some(document.finish()), 200)
}

/// GetBucketOwnershipControls: those that hold, set or not.
pub(super) fn get(context: &Context, _: &Authorized, call: &Call<'_>) -> Result<Response, S3Error> {
    let bucket = context.store.configured_bucket(call.bucket()).for_client(call)?;
    let mut document = context.document(ObjectOwnership::ROOT);
    configurations::ownership(context, &bucket).render(&mut document);
    Ok(xml(200, document))
}

/// DeleteBucketOwnershipControls, also where there are none. Durable on return.
pub(super) fn delete(context: &Context, _: &Authorized, call: &Call<'_>) -> Result<Response, S3Error> {
    set(context, call, BucketConfigurationKind::OwnershipControls, None, 204)
}

fn set(
    context: &Context,
    call: &Call<'_>,
    kind: BucketConfigurationKind,
    document: Option<Vec<u8>>,
    status: u16,
) -> Result<Response, S3Error> {
    context.store.set_bucket_configuration(call.bucket(), kind, document).for_client(call)?;
    Ok(Response::new(status))
}
