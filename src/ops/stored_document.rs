//! Configurations of buckets that are XML documents: what setting, reading and deleting one has in
//! common. A kind adds its [`StoredDocument`], and rows in the table of operations that name
//! [`put`], [`get`] and [`delete`] for it.

use super::client_error::ForClient as _;
use super::{Context, body};
use crate::auth::Authorized;
use crate::base::limits::XML_BODY_MAX_BYTES;
use crate::s3::render::xml;
use crate::s3::{Call, ErrorCode, RequestId, Response, S3Error, XmlConfiguration};
use crate::store::{BucketConfiguration, BucketConfigurationKind, ConfiguredBucket};

/// A kind of configuration that clients set, read and delete as a document.
pub(super) trait StoredDocument: XmlConfiguration + Send + Sync + 'static {
    /// The kind under which it is stored.
    const KIND: BucketConfigurationKind;
    /// The longest request that sets it.
    const MAX_BYTES: usize = XML_BODY_MAX_BYTES;
    /// The value that holds where the stored document cannot be read, as after a return to an older
    /// version of the program. What decides about access closes the bucket rather than opening it;
    /// for other kinds there is none, and a read is answered with an error.
    const UNREADABLE: Option<Self> = None;

    /// Whether a request that sets it must declare a digest, since a damaged document would do too
    /// much harm.
    const NEEDS_DIGEST: bool = false;

    /// The value that a read of a bucket without a document shows, or its error.
    fn unset(context: &Context) -> Result<Self, ErrorCode>;

    /// Takes what a request states in its headers.
    fn take_headers(&mut self, _: &Call<'_>) -> Result<(), S3Error> {
        Ok(())
    }

    /// Adds to a response what clients expect in its headers.
    fn add_headers(&self, response: Response) -> Response {
        response
    }

    /// Checks that the bucket of a call may get this value.
    fn check(&self, _: &Context, _: &Authorized, _: &Call<'_>, _: &ConfiguredBucket) -> Result<(), S3Error> {
        Ok(())
    }

    /// Whether to set this value is to remove what is stored.
    fn is_empty(&self) -> bool {
        false
    }
}

/// Sets a configuration. Durable on return.
pub(super) fn put<D: StoredDocument>(
    context: &Context,
    proof: &Authorized,
    call: &mut Call<'_>,
) -> Result<Response, S3Error> {
    body::announced_length(&call.request.body)?;
    let bucket = context.store.configured_bucket(call.bucket()).for_client(call)?;
    let request = match D::NEEDS_DIGEST {
        true => body::read_claimed_document(context, call)?,
        false => body::read_document_up_to(context, call, D::MAX_BYTES)?,
    };
    let mut value = D::parse(body::parse(&request, D::ROOT)?.root())?;
    value.take_headers(call)?;
    value.check(context, proof, call, &bucket)?;
    let document = (!value.is_empty()).then(|| value.to_document());
    set(context, call, D::KIND, document)?;
    Ok(value.add_headers(Response::new(200)))
}

/// Reads a configuration.
pub(super) fn get<D: StoredDocument>(
    context: &Context,
    _: &Authorized,
    call: &Call<'_>,
) -> Result<Response, S3Error> {
    let bucket = context.store.configured_bucket(call.bucket()).for_client(call)?;
    if let Some(value) = read::<D>(&bucket, &call.id)? {
        return Ok(answer(context, value));
    }
    match D::unset(context) {
        Ok(value) => Ok(answer(context, &value)),
        Err(code) => Err(S3Error::new(code).element("BucketName", call.bucket())),
    }
}

/// Deletes a configuration, also where there is none. Durable on return.
pub(super) fn delete<D: StoredDocument>(
    context: &Context,
    _: &Authorized,
    call: &Call<'_>,
) -> Result<Response, S3Error> {
    set(context, call, D::KIND, None)?;
    Ok(Response::new(204))
}

/// Stores a document; `None` removes that which is stored. Durable on return.
///
/// # Errors
/// `NoSuchBucket`; those of the commit.
pub(super) fn set(
    context: &Context,
    call: &Call<'_>,
    kind: BucketConfigurationKind,
    document: Option<Vec<u8>>,
) -> Result<(), S3Error> {
    context.store.set_bucket_configuration(call.bucket(), kind, document).for_client(call)
}

/// The stored value of a bucket, if there is one.
///
/// # Errors
/// `InternalError` for a document that cannot be read, of a kind without
/// [`StoredDocument::UNREADABLE`].
pub(super) fn read<'b, D: StoredDocument>(
    bucket: &'b ConfiguredBucket,
    id: &RequestId,
) -> Result<Option<&'b D>, S3Error> {
    if bucket.configuration(D::KIND).is_none() {
        return Ok(None);
    }
    let Some(value) = stored(bucket) else {
        let name = &bucket.info.name;
        log::error!("request {id}: the {} of the bucket {name} cannot be read", D::KIND.as_str());
        return Err(S3Error::new(ErrorCode::InternalError));
    };
    Ok(Some(value))
}

/// Like [`read`], where a document that cannot be read is none.
pub(super) fn stored<D: StoredDocument>(bucket: &ConfiguredBucket) -> Option<&D> {
    parsed(bucket.configuration(D::KIND)?, &bucket.info.name)
}

/// The value of a document of the bucket `name`; `None` if it is of a version of the server that
/// knows more.
pub(super) fn parsed<'c, D: StoredDocument>(
    configuration: &'c BucketConfiguration,
    name: &str,
) -> Option<&'c D> {
    let parsed = configuration.parsed(|document| {
        D::from_document(document).or_else(|| {
            let value = D::UNREADABLE?;
            log::error!("the {} of the bucket {name} cannot be read", D::KIND.as_str());
            Some(value)
        })
    });
    parsed.as_ref()
}

fn answer<D: StoredDocument>(context: &Context, value: &D) -> Response {
    let mut document = context.document(D::ROOT);
    value.render(&mut document);
    value.add_headers(xml(200, document))
}
