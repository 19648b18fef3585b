//! The versioning state of buckets.

use super::client_error::ForClient as _;
use super::{Context, body, replication};
use crate::auth::Authorized;
use crate::s3::render::xml;
use crate::s3::{Call, ErrorCode, Response, S3Error};
use crate::store::Versioning;

/// PutBucketVersioning. Durable on return.
pub(super) fn put(context: &Context, _: &Authorized, call: &mut Call<'_>) -> Result<Response, S3Error> {
    body::announced_length(&call.request.body)?;
    context.store.bucket(call.bucket()).for_client(call)?;
    let configuration = body::read_document(context, call)?;
    let versioning = parse(&configuration)?;
    if versioning == Versioning::Suspended {
        replication::check_none(context, call)?;
    }
    context.store.set_versioning(call.bucket(), versioning).for_client(call)?;
    Ok(Response::new(200))
}

fn parse(configuration: &[u8]) -> Result<Versioning, S3Error> {
    let document = body::parse(configuration, "VersioningConfiguration")?;
    let root = document.root();
    if root.child_text("MfaDelete").map_err(body::malformed)?.is_some_and(|value| value.trim() == "Enabled") {
        return Err(S3Error::new(ErrorCode::NotImplemented)
            .message("Deletions that need a second factor are not supported.")
            .element("ArgumentName", "MfaDelete")
            .element("ArgumentValue", "Enabled"));
    }
    match root.child_text("Status").map_err(body::malformed)?.as_deref().map(str::trim) {
        Some("Enabled") => Ok(Versioning::Enabled),
        Some("Suspended") => Ok(Versioning::Suspended),
        Some(_) => Err(body::malformed_because("Status is Enabled or Suspended")),
        None => Err(S3Error::new(ErrorCode::IllegalVersioningConfigurationException)),
    }
}

/// GetBucketVersioning.
pub(super) fn get(context: &Context, _: &Authorized, call: &Call<'_>) -> Result<Response, S3Error> {
    let bucket = context.store.bucket(call.bucket()).for_client(call)?;
    let mut document = context.document("VersioningConfiguration");
    match bucket.versioning {
        Versioning::Unset => {}
        Versioning::Enabled => document.leaf("Status", "Enabled"),
        Versioning::Suspended => document.leaf("Status", "Suspended"),
    }
    Ok(xml(200, document))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_configuration_says_enabled_or_suspended() {
        let read = |inner: &str| {
            parse(format!("<VersioningConfiguration>{inner}</VersioningConfiguration>").as_bytes())
                .map_err(|e| e.code)
        };
        assert_eq!(read("<Status>Enabled</Status>"), Ok(Versioning::Enabled));
        assert_eq!(
            read("<MfaDelete>Disabled</MfaDelete><Status> Suspended </Status>"),
            Ok(Versioning::Suspended)
        );
        assert_eq!(read(""), Err(ErrorCode::IllegalVersioningConfigurationException));
        assert_eq!(read("<Status>enabled</Status>"), Err(ErrorCode::MalformedXML));
        assert_eq!(read("<Status>Enabled</Status><Status>Suspended</Status>"), Err(ErrorCode::MalformedXML));
        assert_eq!(
            read("<Status>Enabled</Status><MfaDelete>Enabled</MfaDelete>"),
            Err(ErrorCode::NotImplemented)
        );
        assert_eq!(parse(b"").unwrap_err().code, ErrorCode::MalformedXML);
        assert_eq!(parse(b"<Other/>").unwrap_err().code, ErrorCode::MalformedXML);
    }
}
