//! CreateMultipartUpload and AbortMultipartUpload.

use super::{checksum, upload_id};
use crate::auth::Authorized;
use crate::ops::client_error::ForClient as _;
use crate::ops::encryption::ChosenEncryption;
use crate::ops::{Context, checksums, encryption, lifecycle, new_object, tagging};
use crate::s3::render::xml;
use crate::s3::{Call, Response, S3Error};
use crate::store::NewUpload;

/// CreateMultipartUpload. Durable on return.
pub(in crate::ops) fn create(
    context: &Context,
    proof: &Authorized,
    call: &Call<'_>,
) -> Result<Response, S3Error> {
    new_object::check_served(call)?;
    let chosen = ChosenEncryption::of_new_object(context, call)?;
    let announced = checksum::announced(call)?;
    let new = NewUpload {
        initiator: proof.user().to_owned(),
        checksum: announced,
        attributes: new_object::attributes(context, proof, call)?,
        tags: tagging::of_new_object(context, proof, call)?,
        controls: new_object::controls(context, proof, call, None)?,
        storage_class: new_object::storage_class(call),
    };
    let upload = match &chosen.new {
        None => context.store.create_upload(call.bucket(), call.key(), new),
        Some(encryption) => context.store.create_encrypted_upload(call.bucket(), call.key(), new, encryption),
    };
    let upload = upload.for_client(call)?;
    let mut document = context.document("InitiateMultipartUploadResult");
    document.leaf("Bucket", call.bucket());
    document.leaf("Key", call.key());
    document.plain("UploadId", context.store.client_ids().of_upload(upload.id));
    let response = encryption::add_headers(chosen.shown(), xml(200, document));
    let response = lifecycle::add_abort_date(context, response, call, upload.initiated);
    Ok(match announced {
        Some((algorithm, kind)) => response
            .header("p-checksum-algorithm", algorithm.as_str())
            .header("p-checksum-type", checksums::type_name(kind)),
        None => response,
    })
}

/// AbortMultipartUpload. Durable on return.
pub(in crate::ops) fn abort(context: &Context, _: &Authorized, call: &Call<'_>) -> Result<Response, S3Error> {
    let upload = upload_id(context, call)?;
    context.store.abort_upload(call.bucket(), call.key(), upload).for_client(call)?;
    Ok(Response::new(204))
}
