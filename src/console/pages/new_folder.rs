//! New folders: an object without bytes whose name ends with a slash, as clients of S3 make them.

use super::super::form::decoded;
use super::super::objects::base64_md5;
use super::super::s3_client::{Refusal, S3Request, target};
use super::super::text;
use super::{View, see_other};
use crate::s3::{Method, Response};

/// Makes the folder `name` in the folder that the fields name, and leads into it.
///
/// # Errors
/// There is one already; errors of PutObject.
pub(super) fn make(view: &View<'_>) -> Result<Response, Refusal> {
    let bucket = view.required("name")?;
    let at = view.given("at").map(decoded).transpose()?.unwrap_or_default();
    let name = view.required("folder")?.trim_matches('/');
    if name.is_empty() {
        return Err(Refusal::new(400, "A folder needs a name."));
    }
    let key = format!("{at}{name}/");
    // A bucket with a default retention takes nothing without a checksum.
    let digest = base64_md5(b"");
    let headers = [("content-md5", &*digest), ("if-none-match", "*")];
    let request = S3Request { headers: &headers, ..S3Request::default() };
    view.s3().send(Method::Put, target(Some(bucket), Some(&key))?, request).map_err(
        |refusal| match refusal.status {
            412 => Refusal::new(412, "There is a folder of this name already."),
            _ => refusal,
        },
    )?;
    view.tell(format!("Created the folder {}", text::visible(name)));
    Ok(see_other(&view.link("bucket", &[("name", Some(bucket)), ("prefix", Some(&key))])))
}
