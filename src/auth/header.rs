//! The signature parameters in an `Authorization` header (S3 API reference, "Authenticating
//! requests: using the Authorization header").

use std::borrow::Cow;

use crate::auth::signature_params::{ALGORITHM, SignatureFields, SignatureLocation, SignatureParams};
use crate::base::Timestamp;
use crate::s3::{Dialect, ErrorCode, Headers, S3Error, VendorHeaders};

/// The value of the `Authorization` header.
///
/// # Errors
/// `AuthorizationHeaderMalformed` if there are two or the value is not UTF-8.
pub(super) fn authorization(headers: &Headers) -> Result<Option<&str>, S3Error> {
    only(headers.get_all("authorization")).map_err(|NotOne| {
        SignatureLocation::Header.malformed("There is more than one Authorization header, or it is not text.")
    })
}

/// The value of the vendor header `p-{suffix}`.
///
/// # Errors
/// `InvalidRequest` if there are two or the value is not UTF-8.
pub(super) fn vendor<'r>(
    headers: &'r Headers,
    dialect: Dialect,
    suffix: &str,
) -> Result<Option<&'r str>, S3Error> {
    only(VendorHeaders::new(headers, dialect).get_all(suffix)).map_err(|NotOne| {
        let prefix = dialect.header_prefix();
        S3Error::new(ErrorCode::InvalidRequest)
            .message(format!("The header {prefix}{suffix} may appear once, and must be text."))
    })
}

/// A header is repeated or not UTF-8.
struct NotOne;

/// The only one of the values of a header, as text.
fn only<'r>(mut values: impl Iterator<Item = &'r [u8]>) -> Result<Option<&'r str>, NotOne> {
    match (values.next(), values.next()) {
        (None, _) => Ok(None),
        (Some(value), None) => std::str::from_utf8(value).map(Some).map_err(|_| NotOne),
        (Some(_), Some(_)) => Err(NotOne),
    }
}

/// The error for a request that is signed by another scheme.
pub(super) fn other_scheme() -> S3Error {
    S3Error::new(ErrorCode::InvalidRequest).message(format!(
        "The authorization mechanism that you have provided is not supported. Please use {ALGORITHM}."
    ))
}

/// Parses the `Authorization` header `text` of a request for one of `services`; the date stands in
/// other headers.
///
/// # Errors
/// `InvalidRequest` for another scheme; `AuthorizationHeaderMalformed`; `AccessDenied` without a
/// valid date.
pub(super) fn signature_params<'r>(
    text: &'r str,
    headers: &'r Headers,
    dialect: Dialect,
    services: &'r [&'r str],
) -> Result<SignatureParams<'r>, S3Error> {
    let (scheme, rest) = text.split_once(' ').unwrap_or((text, ""));
    if scheme != ALGORITHM {
        return Err(other_scheme());
    }
    let fields = fields(rest, services)?;
    let (time, timestamp) = date(headers, dialect)?;
    SignatureParams::new(SignatureLocation::Header, fields, time, timestamp)
}

/// `Credential=..., SignedHeaders=..., Signature=...` in any order, each once.
fn fields<'r>(text: &'r str, services: &'r [&'r str]) -> Result<SignatureFields<'r>, S3Error> {
    let mut credential = None;
    let mut signed_headers = None;
    let mut signature = None;
    for part in text.split(',') {
        let (name, value) = part.trim_ascii().split_once('=').ok_or_else(wrong_fields)?;
        let slot = match name {
            "Credential" => &mut credential,
            "SignedHeaders" => &mut signed_headers,
            "Signature" => &mut signature,
            _ => return Err(wrong_fields()),
        };
        // A second value is refused: another reader of the header might take that one.
        if slot.replace(value).is_some() {
            return Err(wrong_fields());
        }
    }
    match (credential, signed_headers, signature) {
        (Some(credential), Some(signed_headers), Some(signature)) => {
            Ok(SignatureFields { credential, signed_headers, signature, services })
        }
        _ => Err(wrong_fields()),
    }
}

fn wrong_fields() -> S3Error {
    SignatureLocation::Header.malformed("Expecting Credential, SignedHeaders and Signature, each once.")
}

/// The time of signing: the vendor date or, without one, `Date`.
fn date<'r>(headers: &'r Headers, dialect: Dialect) -> Result<(Timestamp, Cow<'r, str>), S3Error> {
    let found = match vendor(headers, dialect, "date")? {
        Some(text) => Timestamp::parse_iso_basic(text).map(|time| (time, Cow::Borrowed(text))),
        None => {
            let time = headers.get_str("date").and_then(http_date);
            time.map(|time| (time, Cow::Owned(time.to_iso_basic())))
        }
    };
    found.ok_or_else(|| {
        S3Error::new(ErrorCode::AccessDenied).message(format!(
            "AWS authentication requires a valid Date or {}date header",
            dialect.header_prefix()
        ))
    })
}

/// Parses an HTTP date, also with the zone `-0000` or `+0000`, as mail libraries write it (botocore
/// signs with one).
fn http_date(text: &str) -> Option<Timestamp> {
    let bare = text.strip_suffix("-0000").or_else(|| text.strip_suffix("+0000"));
    match bare {
        Some(bare) => Timestamp::parse_http_date(&format!("{bare}GMT")),
        None => Timestamp::parse_http_date(text),
    }
}

/// The error of keys of a session that sign by version 2.
pub(super) fn sessions_sign_by_v4() -> S3Error {
    S3Error::new(ErrorCode::InvalidRequest)
        .message("The keys of a session sign by signature version 4 (AWS4-HMAC-SHA256) alone.")
}

#[cfg(test)]
mod tests {
    use super::*;

    const S3: &[&str] = &["s3"];
    const TEXT: &str =
        "AWS4-HMAC-SHA256 Credential=AK/20130524/eu/s3/aws4_request, SignedHeaders=host, Signature=ab";

    fn headers(lines: &[(&str, &[u8])]) -> Headers {
        let mut headers = Headers::default();
        for (name, value) in lines {
            headers.push(name, value);
        }
        headers
    }

    fn code(text: &str, lines: &[(&str, &[u8])]) -> ErrorCode {
        signature_params(text, &headers(lines), Dialect::Svc, S3).unwrap_err().code
    }

    #[test]
    fn the_parts_come_in_any_order_with_or_without_whitespace() {
        let scope = "Credential=AK/20130524/eu/s3/aws4_request";
        let date: &[(&str, &[u8])] = &[("x-svc-date", b"20130524T000000Z")];
        for text in [
            TEXT.to_owned(),
            format!("AWS4-HMAC-SHA256 {scope},SignedHeaders=host,Signature=ab"),
            format!("AWS4-HMAC-SHA256   Signature=ab,  {scope} ,\tSignedHeaders=host"),
        ] {
            let headers = headers(date);
            let params = signature_params(&text, &headers, Dialect::Svc, S3).unwrap();
            assert_eq!((params.access_key, params.signed_headers, params.signature), ("AK", "host", "ab"));
        }
    }

    #[test]
    fn missing_repeated_and_unknown_parts_are_malformed() {
        let date: &[(&str, &[u8])] = &[("x-svc-date", b"20130524T000000Z")];
        for text in [
            "AWS4-HMAC-SHA256",
            "AWS4-HMAC-SHA256 ",
            "AWS4-HMAC-SHA256 Credential",
            &TEXT.replace(", Signature=ab", ""),
            &TEXT.replace("Signature", "signature"),
            &format!("{TEXT}, Signature=ab"),
            &format!("{TEXT}, Region=eu"),
            &format!("{TEXT},"),
        ] {
            assert_eq!(code(text, date), ErrorCode::AuthorizationHeaderMalformed, "{text}");
        }
    }

    #[test]
    fn other_schemes_are_refused_with_the_right_one() {
        for text in ["AWS AK:c2ln", "AWS", "Basic QTpC", "Bearer x", "aws4-hmac-sha256 x", ""] {
            let error = signature_params(text, &Headers::default(), Dialect::Svc, S3).unwrap_err();
            assert_eq!(error.code, ErrorCode::InvalidRequest, "{text}");
            assert!(error.message.contains("AWS4-HMAC-SHA256"));
        }
        assert_eq!(code("AWS4-ECDSA-P256-SHA256 Credential=x", &[]), ErrorCode::InvalidRequest);
    }

    #[test]
    fn the_vendor_date_wins_over_the_date() {
        let both: &[(&str, &[u8])] =
            &[("date", b"Fri, 24 May 2013 00:00:01 GMT"), ("x-svc-date", b"20130524T000000Z")];
        let timestamp =
            |lines| signature_params(TEXT, &headers(lines), Dialect::Svc, S3).unwrap().timestamp.into_owned();
        assert_eq!(timestamp(both), "20130524T000000Z");
        assert_eq!(timestamp(&both[..1]), "20130524T000001Z");
        assert_eq!(timestamp(&[("date", b"Fri, 24 May 2013 00:00:01 -0000")]), "20130524T000001Z");
    }

    #[test]
    fn a_request_without_a_readable_date_is_denied() {
        for lines in [
            &[][..],
            &[("date", &b"yesterday"[..])],
            &[("x-svc-date", b"2013-05-24T00:00:00Z"), ("date", b"Fri, 24 May 2013 00:00:01 GMT")],
            &[("x-amz-date", b"20130524T000000Z")],
        ] {
            assert_eq!(code(TEXT, lines), ErrorCode::AccessDenied, "{lines:?}");
        }
        let twice: &[(&str, &[u8])] =
            &[("x-svc-date", b"20130524T000000Z"), ("x-svc-date", b"20130524T000000Z")];
        assert_eq!(code(TEXT, twice), ErrorCode::InvalidRequest);
    }

    #[test]
    fn two_authorizations_or_one_that_is_not_utf_8_are_malformed() {
        assert_eq!(authorization(&headers(&[])), Ok(None));
        assert_eq!(authorization(&headers(&[("authorization", b"a")])), Ok(Some("a")));
        for lines in
            [&[("authorization", &b"\xff"[..])][..], &[("authorization", b"a"), ("authorization", b"a")]]
        {
            let code = authorization(&headers(lines)).unwrap_err().code;
            assert_eq!(code, ErrorCode::AuthorizationHeaderMalformed);
        }
    }
}
