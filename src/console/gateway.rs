//! S3 requests of scripts: `/-/console/s3?bucket=B&key=K&...` has the method, the other parameters,
//! the headers and the body of an S3 request. The names are parameters, because browsers change
//! paths such as `a/../b`.

use super::s3_client::{Refusal, target};
use super::{Console, Visitor, form, pages, summed_body};
use crate::s3::{Headers, Method, Request, Response, uri};

/// Headers of a browser that S3 requests must not have, since they speak of the page.
const OF_THE_PAGE: [&str; 5] = ["cookie", "authorization", "origin", "referer", "x-amz-security-token"];

/// Handles an S3 request of a script.
pub(super) fn handle(console: &Console, visitor: &Visitor, request: Request<'_>) -> Response {
    let outcome = send(console, visitor, request).map(confine);
    outcome.unwrap_or_else(|refusal| pages::plain_refusal(&refusal))
}

/// The bytes of an object, to be saved or shown in a page; `version` names the version.
pub(super) fn content(console: &Console, visitor: &Visitor, request: Request<'_>) -> Response {
    if !matches!(request.method, Method::Get | Method::Head) {
        return pages::plain_refusal(&Refusal::new(405, "Contents are read with GET."));
    }
    let query = form::query(&request).unwrap_or_default();
    let name = query.get("key").map(file_name);
    let is_viewed = query.has("view");
    let outcome = send(console, visitor, request);
    match outcome {
        Ok(response) => {
            // The type is chosen by who stored the object, so one type alone is shown in place.
            if is_viewed && is_pdf(&response) {
                return for_frame(response);
            }
            let mut response = confine(response);
            // That of the object may say that it is shown, and has a name of its own.
            response.headers.retain(|(header, _)| !header.eq_ignore_ascii_case("content-disposition"));
            let name = uri::encode_query(&name.unwrap_or_default());
            response.header("Content-Disposition", format!("attachment; filename*=UTF-8''{name}"))
        }
        Err(refusal) => pages::plain_refusal(&refusal),
    }
}

fn send(console: &Console, visitor: &Visitor, mut request: Request<'_>) -> Result<Response, Refusal> {
    let query = form::query(&request)?;
    let target = target(query.get("bucket"), query.get("key"))?;
    let others = query.iter().filter(|(name, _)| !["bucket", "key", "view"].contains(name));
    request.query = uri::encode_pairs(others);
    request.headers = without_page(&request.headers);
    if query.has("key") {
        summed_body::declare_checksum(&mut request);
    }
    Ok(console.service.handle_as(&visitor.identity, target, request))
}

fn without_page(headers: &Headers) -> Headers {
    let mut kept = Headers::default();
    let lines = headers.iter().filter(|(name, _)| !OF_THE_PAGE.contains(name) && !name.starts_with("sec-"));
    for (name, value) in lines {
        kept.push(name, value);
    }
    kept
}

/// The response with headers that keep a stored document from acting as a page of the console, if a
/// browser opens it.
fn confine(mut response: Response) -> Response {
    const OURS: [&str; 3] = ["content-security-policy", "x-content-type-options", "content-disposition"];
    response.headers.retain(|(name, _)| !OURS.iter().any(|ours| name.eq_ignore_ascii_case(ours)));
    response
        .header("Content-Security-Policy", "default-src 'none'; sandbox")
        .header("X-Content-Type-Options", "nosniff")
        .header("Content-Disposition", "attachment")
}

/// Whether a response is a PDF, and nothing that a browser takes for a page.
fn is_pdf(response: &Response) -> bool {
    matches!(response.status, 200 | 206) && response.get_header("content-type") == Some(b"application/pdf")
}

/// A PDF for the frame of the page of its object. The viewers of browsers are not stopped by the
/// sandbox of the response, which takes the origin from everything else.
fn for_frame(response: Response) -> Response {
    const OURS: [&str; 2] = ["content-security-policy", "content-disposition"];
    let mut response = confine(response);
    response.headers.retain(|(name, _)| !OURS.iter().any(|ours| name.eq_ignore_ascii_case(ours)));
    response
        .header("Content-Security-Policy", "default-src 'none'; frame-ancestors 'self'; sandbox")
        .header("X-Frame-Options", "SAMEORIGIN")
        .header("Content-Disposition", "inline")
}

/// The part of a key after its last slash.
fn file_name(key: &str) -> String {
    key.trim_end_matches('/').rsplit('/').next().unwrap_or_default().to_owned()
}
