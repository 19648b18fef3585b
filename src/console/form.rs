//! The fields of forms.

use super::s3_client::Refusal;
use crate::s3::{QueryParams, Request, uri};

/// Bytes of a form of a signed-in user: enough for a thousand keys of the greatest length.
pub(super) const FORM_MAX_BYTES: usize = 1 << 20;
/// Bytes of the form to sign in.
pub(super) const SIGN_IN_MAX_BYTES: usize = 4 << 10;

/// The fields in the body of a request (URL Standard, "application/x-www-form-urlencoded"): at most `max` bytes.
///
/// # Errors
/// The body is too long, cannot be read, or is no form.
pub(super) fn read(request: &mut Request<'_>, max: usize) -> Result<QueryParams, Refusal> {
    let content_type = request.headers.get_str("content-type").unwrap_or_default();
    if content_type.split(';').next() != Some("application/x-www-form-urlencoded") {
        return Err(Refusal::new(415, "This is not the form of the page."));
    }
    let mut text = Vec::new();
    let mut piece = [0; 8 * 1024];
    loop {
        let read = request.body.reader.read(&mut piece).map_err(|error| Refusal::of_error(&error))?;
        if read == 0 {
            break;
        }
        if text.len() + read > max {
            return Err(Refusal::new(413, "The form is too long."));
        }
        text.extend_from_slice(&piece[..read]);
    }
    let text = String::from_utf8(text).map_err(|_| Refusal::new(400, "The form is not UTF-8."))?;
    parse(&text)
}

/// The parameters in the query of a request.
///
/// # Errors
/// They are malformed.
pub(super) fn query(request: &Request<'_>) -> Result<QueryParams, Refusal> {
    parse(&request.query)
}

fn parse(text: &str) -> Result<QueryParams, Refusal> {
    QueryParams::parse(text).map_err(|error| Refusal::of_error(&error))
}

/// A field that must be there.
///
/// # Errors
/// It is not.
pub(super) fn required<'q>(fields: &'q QueryParams, name: &str) -> Result<&'q str, Refusal> {
    let value = fields.get(name).filter(|value| !value.is_empty());
    value.ok_or_else(|| Refusal::new(400, format!("The field `{name}` is missing.")))
}

/// Decodes a field that pages percent-encode.
///
/// # Errors
/// It is malformed.
pub(super) fn decoded(field: &str) -> Result<String, Refusal> {
    uri::decode_path(field).map_err(|error| Refusal::of_error(&error))
}

/// All values of a field, in their order.
pub(super) fn all<'q>(fields: &'q QueryParams, name: &'q str) -> impl Iterator<Item = &'q str> {
    fields.iter().filter(move |(given, _)| *given == name).map(|(_, value)| value)
}
