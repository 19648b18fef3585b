//! Validates request heads. The crate itself accepts two lengths and takes the first, ignores
//! malformed lengths, and has no limits.

use crate::base::limits;
use crate::http::Config;
use crate::http::fields::{BodyFraming, invalid_request, is_token_byte};
use crate::http::request_head::{RequestHead, RequestLine};
use crate::s3::{ErrorCode, S3Error};

/// Validates the head of a request.
///
/// # Errors
/// The first fault found. The framing of the body is doubtful then.
pub(super) fn validate(request: &tiny_http::Request, config: &Config) -> Result<RequestHead, S3Error> {
    let lines = request.headers().iter().map(|line| (line.field.as_str().as_str(), line.value.as_bytes()));
    let len =
        request.url().len() + lines.clone().map(|(name, value)| name.len() + value.len() + 4).sum::<usize>();
    if len > config.head_max_bytes || lines.len() > config.headers_max {
        return Err(S3Error::new(ErrorCode::RequestHeaderSectionTooLarge));
    }
    lines.clone().try_for_each(|(name, value)| check_line(name, value))?;
    let http10 = *request.http_version() < (1, 1);
    let line = RequestLine { method: request.method().as_str(), target: request.url(), http10 };
    check_token(line.method)?;
    let head = RequestHead::from_parts(line, lines, len)?;
    match head.body {
        BodyFraming::Length(length) if length > limits::PUT_SIZE_MAX_BYTES => {
            Err(S3Error::new(ErrorCode::EntityTooLarge)
                .element("ProposedSize", length.to_string())
                .element("MaxSizeAllowed", limits::PUT_SIZE_MAX_BYTES.to_string()))
        }
        _ => Ok(head),
    }
}

fn check_line(name: &str, value: &[u8]) -> Result<(), S3Error> {
    check_token(name)?;
    if value.iter().any(|b| b.is_ascii_control() && *b != b'\t') {
        return Err(invalid_request("A header line contains a control byte."));
    }
    // The crate would give away the connection.
    if name.eq_ignore_ascii_case("connection")
        && value.to_ascii_lowercase().windows(7).any(|w| w == b"upgrade")
    {
        return Err(invalid_request("No upgrade to another protocol is supported."));
    }
    Ok(())
}

fn check_token(text: &str) -> Result<(), S3Error> {
    match !text.is_empty() && text.bytes().all(is_token_byte) {
        true => Ok(()),
        false => Err(invalid_request("A method or header name is not a token.")),
    }
}
