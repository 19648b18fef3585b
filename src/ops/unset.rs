//! Configurations that no bucket has, and sub-resources that are not served. A read answers what S3
//! answers for a bucket that never had the configuration, since tools ask for every one and fail if
//! it is reported as not implemented; a write is accepted where it asks for what is.

use super::client_error::ForClient as _;
use super::{Context, body};
use crate::auth::Authorized;
use crate::s3::render::xml;
use crate::s3::{Call, ErrorCode, Response, S3Error, route};

/// GetBucketAccelerateConfiguration: an empty document, as of a bucket without a state.
pub(super) fn get_acceleration(
    context: &Context,
    _: &Authorized,
    call: &Call<'_>,
) -> Result<Response, S3Error> {
    context.store.bucket(call.bucket()).for_client(call)?;
    Ok(xml(200, context.document("AccelerateConfiguration")))
}

/// PutBucketAccelerateConfiguration: acceleration is always off.
pub(super) fn put_acceleration(
    context: &Context,
    _: &Authorized,
    call: &mut Call<'_>,
) -> Result<Response, S3Error> {
    let status = read_leaf(context, call, "AccelerateConfiguration", "Status")?;
    check_default(&status, "Status", "Suspended", "Enabled")
}

/// GetBucketRequestPayment: the owner of the bucket pays.
pub(super) fn get_request_payment(
    context: &Context,
    _: &Authorized,
    call: &Call<'_>,
) -> Result<Response, S3Error> {
    context.store.bucket(call.bucket()).for_client(call)?;
    let mut document = context.document("RequestPaymentConfiguration");
    document.leaf("Payer", "BucketOwner");
    Ok(xml(200, document))
}

/// PutBucketRequestPayment.
pub(super) fn put_request_payment(
    context: &Context,
    _: &Authorized,
    call: &mut Call<'_>,
) -> Result<Response, S3Error> {
    let payer = read_leaf(context, call, "RequestPaymentConfiguration", "Payer")?;
    check_default(&payer, "Payer", "BucketOwner", "Requester")
}

/// Any operation on a sub-resource that is not supported, or not with this method.
pub(super) fn not_served(context: &Context, _: &Authorized, call: &Call<'_>) -> Result<Response, S3Error> {
    context.store.bucket(call.bucket()).for_client(call)?;
    let method = call.request.method.as_str();
    let name = route::subresource(call.target.level(), &call.query);
    Err(S3Error::new(ErrorCode::NotImplemented)
        .message(format!("{method} requests with the parameter '{name}' are not supported."))
        .element("Method", method)
        .element("ResourceType", name)
        .element("BucketName", call.bucket()))
}

/// ListBucketAnalyticsConfigurations.
pub(super) fn list_analytics(
    context: &Context,
    _: &Authorized,
    call: &Call<'_>,
) -> Result<Response, S3Error> {
    empty_list(context, call, "ListBucketAnalyticsConfigurationResult")
}

/// ListBucketIntelligentTieringConfigurations.
pub(super) fn list_tiering(context: &Context, _: &Authorized, call: &Call<'_>) -> Result<Response, S3Error> {
    empty_list(context, call, "ListBucketIntelligentTieringConfigurationsOutput")
}

/// ListBucketInventoryConfigurations.
pub(super) fn list_inventory(
    context: &Context,
    _: &Authorized,
    call: &Call<'_>,
) -> Result<Response, S3Error> {
    empty_list(context, call, "ListInventoryConfigurationsResult")
}

/// ListBucketMetricsConfigurations.
pub(super) fn list_metrics(context: &Context, _: &Authorized, call: &Call<'_>) -> Result<Response, S3Error> {
    empty_list(context, call, "ListMetricsConfigurationsResult")
}

/// The list of the configurations of a kind, with this root element.
fn empty_list(context: &Context, call: &Call<'_>, root: &str) -> Result<Response, S3Error> {
    context.store.bucket(call.bucket()).for_client(call)?;
    if let Some(token) = call.query.get("continuation-token") {
        let message = "The continuation token provided is incorrect";
        return Err(S3Error::invalid_argument("continuation-token", token, message));
    }
    let mut document = context.document(root);
    document.plain("IsTruncated", false);
    Ok(xml(200, document))
}

/// A read or a deletion of a configuration by its id.
pub(super) fn absent(context: &Context, _: &Authorized, call: &Call<'_>) -> Result<Response, S3Error> {
    context.store.bucket(call.bucket()).for_client(call)?;
    let Some(id) = call.query.get("id").filter(|id| !id.is_empty()) else {
        return Err(S3Error::invalid_argument("id", "", "The id of the configuration is missing."));
    };
    Err(S3Error::new(ErrorCode::NoSuchConfiguration).element("BucketName", call.bucket()).element("Id", id))
}

/// The text of an element below the root of the body.
fn read_leaf(context: &Context, call: &mut Call<'_>, root: &str, name: &str) -> Result<String, S3Error> {
    body::announced_length(&call.request.body)?;
    context.store.bucket(call.bucket()).for_client(call)?;
    let request = body::read_document(context, call)?;
    let document = body::parse(&request, root)?;
    let text = document.root().child_text(name).map_err(body::malformed)?;
    let text = text.ok_or_else(|| S3Error::malformed_xml(&format!("there is no <{name}>")))?;
    Ok(text.trim().to_owned())
}

/// The answer to a value of the element `name`, which has a default and one other value.
fn check_default(value: &str, name: &str, default: &str, other: &str) -> Result<Response, S3Error> {
    match value {
        value if value == default => Ok(Response::new(200)),
        value if value == other => Err(not_supported(name, value)),
        _ => Err(S3Error::malformed_xml(&format!("{name} is {default} or {other}"))),
    }
}

fn not_supported(name: &str, value: &str) -> S3Error {
    S3Error::new(ErrorCode::NotImplemented)
        .message(format!("The configuration asks for {name} {value}, which is not supported."))
        .element("ArgumentName", name)
        .element("ArgumentValue", value)
}
