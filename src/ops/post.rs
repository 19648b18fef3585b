//! PostObject: a put by a form.

use percent_encoding::{AsciiSet, CONTROLS, NON_ALPHANUMERIC, utf8_percent_encode};

use super::{Context, put};
use crate::auth::Authorized;
use crate::s3::form::PostForm;
use crate::s3::{Call, Response, S3Error, render};
use crate::xml::Writer;

/// All but the unreserved characters of RFC 3986, section 2.3.
const RESERVED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// PostObject. Durable on return. The fields of the form have become headers, and the key the one
/// of the call.
pub(super) fn post(context: &Context, proof: &Authorized, call: &mut Call<'_>) -> Result<Response, S3Error> {
    let put = put::put(context, proof, call)?;
    let etag = put.get_header("ETag").map(String::from_utf8_lossy).unwrap_or_default().into_owned();
    let form = call.form.take().unwrap_or_default();
    Ok(answer(put, &form, call, &etag))
}

/// The response that the form asks for (S3 API reference, "POST Object", `success_action_redirect`
/// and `success_action_status`).
fn answer(put: Response, form: &PostForm, call: &Call<'_>, etag: &str) -> Response {
    if let Some(url) = redirect(form, call, etag) {
        return Response { status: 303, ..put }.header("Location", url);
    }
    let location = location(call);
    let status = match form.get("success_action_status") {
        Some("200") => 200,
        Some("201") => 201,
        _ => 204,
    };
    let response = Response { status, ..put }.header("Location", location.as_str());
    if status != 201 {
        return response;
    }
    // Without a namespace, as S3 answers.
    let mut document = Writer::new("PostResponse", None);
    document.leaf("Location", &location);
    document.leaf("Bucket", call.bucket());
    document.leaf("Key", call.key());
    document.leaf("ETag", etag);
    let xml = render::xml(status, document);
    xml.headers
        .into_iter()
        .fold(response, |response, (name, value)| response.header(name, value))
        .with_body(xml.body)
}

/// The URL of the object as the client addresses buckets, with every reserved character of the key
/// escaped, as S3 does.
fn location(call: &Call<'_>) -> String {
    let scheme = if call.request.secure { "https" } else { "http" };
    let host = call.headers().get_str("host").unwrap_or_default();
    let bucket = call.request.path.trim_end_matches('/');
    format!("{scheme}://{host}{bucket}/{}", utf8_percent_encode(call.key(), RESERVED))
}

/// The URL that the browser goes on to, with the result in its query. A URL that is not of HTTP
/// counts as none.
fn redirect(form: &PostForm, call: &Call<'_>, etag: &str) -> Option<String> {
    let url = form.get("success_action_redirect").or_else(|| form.get("redirect"))?;
    if !(is_of_scheme(url, "http://") || is_of_scheme(url, "https://")) || url.chars().any(char::is_control) {
        return None;
    }
    let (page, fragment) = url.split_at(url.find('#').unwrap_or(url.len()));
    let separator = if page.contains('?') { '&' } else { '?' };
    let bucket = encoded(call.bucket());
    let key = encoded(call.key());
    let etag = encoded(etag);
    let url = format!("{page}{separator}bucket={bucket}&key={key}&etag={etag}{fragment}");
    Some(utf8_percent_encode(&url, CONTROLS).to_string())
}

/// Says whether a URL begins with the scheme and a host.
fn is_of_scheme(url: &str, scheme: &str) -> bool {
    let start = url.get(..scheme.len()).is_some_and(|start| start.eq_ignore_ascii_case(scheme));
    start && url[scheme.len()..].starts_with(|c: char| c.is_alphanumeric() || c == '[')
}

fn encoded(text: &str) -> String {
    utf8_percent_encode(text, RESERVED).to_string().replace("%20", "+")
}
