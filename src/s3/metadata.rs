//! Metadata of objects: six standard headers, the redirect location and user metadata (S3 user
//! guide, "Working with object metadata").

use crate::base::limits::{REDIRECT_LOCATION_MAX_BYTES, SYSTEM_METADATA_MAX_BYTES, USER_METADATA_MAX_BYTES};
use crate::s3::replication::REPLICATION_STATUS;
use crate::s3::{ErrorCode, Headers, QueryParams, Response, S3Error, VendorHeaders};

/// The standard headers that are stored: the stored name, the name in responses, and the query
/// parameter that overrides it in a response.
const STANDARD: [(&str, &str, &str); 6] = [
    ("cache-control", "Cache-Control", "response-cache-control"),
    ("content-disposition", "Content-Disposition", "response-content-disposition"),
    ("content-encoding", "Content-Encoding", "response-content-encoding"),
    ("content-language", "Content-Language", "response-content-language"),
    ("content-type", "Content-Type", "response-content-type"),
    ("expires", "Expires", "response-expires"),
];

/// The content type of an object that was put without one (S3 API reference, PutObject,
/// "Content-Type").
const DEFAULT_TYPE: &str = "binary/octet-stream";

/// The location that websites redirect requests for the object to: the stored name, and the name of
/// the header after its prefix (S3 API reference, PutObject, "x-amz-website-redirect-location").
const REDIRECT_LOCATION: &str = "website-redirect-location";

/// The last character of ISO-8859-1, the text of header values in S3.
const LATIN_1_MAX: u32 = 0xff;

/// The prefix of the names of user metadata, as stored and as sent.
const META: &str = "meta-";

/// Whether a stored name, or a header's after its prefix, is one of user metadata.
pub fn is_user_metadata(name: &str) -> bool {
    name.starts_with(META)
}

/// Collects the metadata of a new object as names and values: standard headers by their lower-case
/// names, the redirect location, user metadata as `meta-...`. Encoded words (RFC 2047) are kept as
/// they were sent, so that they are sent back so; S3 decodes and encodes them, which comes to the
/// same text.
///
/// # Errors
/// `MetadataTooLarge` if either kind exceeds its limit; `InvalidArgument` for a value that is not
/// UTF-8; `InvalidRedirectLocation`.
pub fn collect(headers: &Headers, vendor: VendorHeaders<'_>) -> Result<Vec<(String, String)>, S3Error> {
    let mut kept = system_metadata(headers, vendor)?;
    kept.extend(user_metadata(vendor)?);
    Ok(kept)
}

/// The metadata of a copy with the metadata of its source, which the redirect location is not part
/// of: the request gives the copy's (S3 API reference, CopyObject,
/// "x-amz-website-redirect-location").
///
/// # Errors
/// `InvalidRedirectLocation`; `MetadataTooLarge`.
pub fn of_copy<'a>(
    source: impl Iterator<Item = (&'a str, &'a str)>,
    vendor: VendorHeaders<'_>,
) -> Result<Vec<(String, String)>, S3Error> {
    let (user, mut system): (Vec<_>, Vec<_>) = source
        .filter(|(name, _)| *name != REDIRECT_LOCATION && *name != REPLICATION_STATUS)
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .partition(|(name, _)| is_user_metadata(name));
    // Metadata of earlier versions may exceed the limit, and stays copyable.
    if let Some(location) = redirect_location(vendor)? {
        system.push(location);
        check_system_size(&system)?;
    }
    system.extend(user);
    Ok(system)
}

/// The redirect location among stored metadata.
pub fn stored_redirect_location<'a>(mut kept: impl Iterator<Item = (&'a str, &'a str)>) -> Option<&'a str> {
    kept.find(|(name, _)| *name == REDIRECT_LOCATION).map(|(_, location)| location)
}

/// Whether the request gives a new object a redirect location.
pub fn gives_redirect_location(vendor: VendorHeaders<'_>) -> bool {
    vendor.get(REDIRECT_LOCATION).is_some_and(|value| !value.is_empty())
}

/// The redirect location from the header; an empty one is none.
fn redirect_location(vendor: VendorHeaders<'_>) -> Result<Option<(String, String)>, S3Error> {
    let Some(value) = vendor.get(REDIRECT_LOCATION).filter(|value| !value.is_empty()) else {
        return Ok(None);
    };
    let location = text(REDIRECT_LOCATION, value)?;
    let invalid = S3Error::new(ErrorCode::InvalidRedirectLocation);
    if location.len() > REDIRECT_LOCATION_MAX_BYTES {
        return Err(invalid.message(format!(
            "The length of website redirect location cannot exceed {REDIRECT_LOCATION_MAX_BYTES} bytes."
        )));
    }
    let has_prefix = ["/", "http://", "https://"].iter().any(|prefix| location.starts_with(prefix));
    if !has_prefix || location.chars().any(char::is_control) {
        return Err(invalid);
    }
    Ok(Some((REDIRECT_LOCATION.to_owned(), location.to_owned())))
}

fn system_metadata(headers: &Headers, vendor: VendorHeaders<'_>) -> Result<Vec<(String, String)>, S3Error> {
    let mut kept = Vec::new();
    for (name, _, _) in STANDARD {
        if let Some(value) = headers.get(name) {
            let value = match name {
                "content-encoding" => without_aws_chunked(text(name, value)?),
                _ => text(name, value)?.to_owned(),
            };
            if !value.is_empty() {
                kept.push((name.to_owned(), value));
            }
        }
    }
    kept.extend(redirect_location(vendor)?);
    check_system_size(&kept)?;
    Ok(kept)
}

fn check_system_size(kept: &[(String, String)]) -> Result<(), S3Error> {
    let size = kept.iter().map(|(name, value)| name.len() + value.len()).sum();
    check_size(size, SYSTEM_METADATA_MAX_BYTES)
}

/// Adds stored metadata to a response. The `response-*` parameters of the query override standard
/// headers.
///
/// # Errors
/// `InvalidArgument` for an override with a control character, or with one that S3 cannot send.
pub fn send<'a>(
    kept: impl Iterator<Item = (&'a str, &'a str)>,
    query: &QueryParams,
    mut response: Response,
) -> Result<Response, S3Error> {
    let kept: Vec<_> = kept.collect();
    for (name, sent_name, parameter) in STANDARD {
        let stored = kept.iter().find(|(n, _)| *n == name).map(|(_, value)| *value);
        let default = (name == "content-type").then_some(DEFAULT_TYPE);
        if let Some(value) = overriding(query, parameter)?.or(stored).or(default) {
            response = response.header(sent_name, value);
        }
    }
    for (name, value) in kept {
        if is_user_metadata(name) || name == REDIRECT_LOCATION || name == REPLICATION_STATUS {
            response = response.header(format!("p-{name}"), value);
        }
    }
    Ok(response)
}

/// The content type with which an object is sent that has `stored`, or none.
pub fn sent_type<'a>(stored: Option<&'a str>, query: &'a QueryParams) -> &'a str {
    query.get("response-content-type").or(stored).unwrap_or(DEFAULT_TYPE)
}

/// Whether the query overrides a header of the response.
pub fn overrides(query: &QueryParams) -> bool {
    STANDARD.iter().any(|(_, _, parameter)| query.has(parameter))
}

fn overriding<'q>(query: &'q QueryParams, parameter: &str) -> Result<Option<&'q str>, S3Error> {
    let Some(value) = query.get(parameter) else { return Ok(None) };
    if value.chars().any(|c| c.is_control() && c != '\t') {
        return Err(S3Error::invalid_argument(parameter, value, "The value cannot be that of a header."));
    }
    if value.chars().any(|c| u32::from(c) > LATIN_1_MAX) {
        let message = "Header value cannot be represented using ISO-8859-1.";
        return Err(S3Error::invalid_argument(parameter, value, message));
    }
    Ok(Some(value))
}

fn user_metadata(vendor: VendorHeaders<'_>) -> Result<Vec<(String, String)>, S3Error> {
    let mut kept: Vec<(String, String)> = Vec::new();
    for (name, value) in vendor.iter().filter(|(name, _)| name.len() > META.len() && name.starts_with(META)) {
        let value = text(name, value)?;
        match kept.iter_mut().find(|(n, _)| n == name) {
            // Lines of one name are one list (RFC 9110, section 5.3).
            Some((_, list)) => *list = format!("{list},{value}"),
            None => kept.push((name.to_owned(), value.to_owned())),
        }
    }
    let size = kept.iter().map(|(name, value)| name.len() - META.len() + value.len()).sum();
    check_size(size, USER_METADATA_MAX_BYTES)?;
    Ok(kept)
}

fn check_size(size: usize, most: usize) -> Result<(), S3Error> {
    if size <= most {
        return Ok(());
    }
    Err(S3Error::new(ErrorCode::MetadataTooLarge)
        .element("Size", size.to_string())
        .element("MaxSizeAllowed", most.to_string()))
}

fn text<'v>(name: &str, value: &'v [u8]) -> Result<&'v str, S3Error> {
    std::str::from_utf8(value)
        .map_err(|_| S3Error::invalid_argument(name, "", "The value of this header must be UTF-8."))
}

/// Removes `aws-chunked`, a coding of the transfer and not of the object (Signature Version 4,
/// "Transferring payload in multiple chunks").
fn without_aws_chunked(value: &str) -> String {
    let codings = value.split(',').map(str::trim);
    let kept: Vec<_> = codings.filter(|coding| !coding.eq_ignore_ascii_case("aws-chunked")).collect();
    kept.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::s3::Dialect;

    fn kept(lines: &[(&str, &[u8])]) -> Result<Vec<(String, String)>, ErrorCode> {
        let mut headers = Headers::default();
        for (name, value) in lines {
            headers.push(name, value);
        }
        collect(&headers, VendorHeaders::new(&headers, Dialect::Svc)).map_err(|e| e.code)
    }

    fn sent(kept: &[(&str, &str)], query: &str) -> Result<Vec<String>, ErrorCode> {
        let query = QueryParams::parse(query).unwrap();
        let response = send(kept.iter().copied(), &query, Response::new(200)).map_err(|e| e.code)?;
        let line = |(name, value): &(std::borrow::Cow<'_, str>, Vec<u8>)| {
            format!("{name}: {}", String::from_utf8_lossy(value))
        };
        Ok(response.headers.iter().map(line).collect())
    }

    fn pairs(expected: &[(&str, &str)]) -> Vec<(String, String)> {
        expected.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn standard_headers_and_user_metadata_are_kept_and_nothing_else() {
        let lines: &[(&str, &[u8])] = &[
            ("Host", b"h"),
            ("X-Svc-Meta-Name", "grün".as_bytes()),
            ("Content-Type", b"text/plain"),
            ("x-svc-meta-word", b"=?UTF-8?B?Zm9v?="),
            ("x-svc-meta-empty", b""),
            ("x-svc-date", b"d"),
            ("x-svc-meta-", b"nameless"),
            ("Expires", b"never"),
        ];
        let expected = [
            ("content-type", "text/plain"),
            ("expires", "never"),
            ("meta-name", "grün"),
            ("meta-word", "=?UTF-8?B?Zm9v?="),
            ("meta-empty", ""),
        ];
        assert_eq!(kept(lines), Ok(pairs(&expected)));
    }

    #[test]
    fn the_coding_of_the_transfer_is_not_that_of_the_object() {
        let encoding = |value: &[u8]| kept(&[("content-encoding", value)]).unwrap();
        assert_eq!(encoding(b"aws-chunked"), []);
        assert_eq!(encoding(b"AWS-Chunked, gzip"), pairs(&[("content-encoding", "gzip")]));
        assert_eq!(encoding(b"gzip,aws-chunked,br"), pairs(&[("content-encoding", "gzip, br")]));
    }

    #[test]
    fn lines_of_one_name_become_one_list() {
        assert_eq!(kept(&[("x-svc-meta-a", b"1"), ("x-svc-meta-a", b"2")]), Ok(pairs(&[("meta-a", "1,2")])));
    }

    #[test]
    fn metadata_is_limited_by_names_and_values_together() {
        let exact = vec![b'v'; USER_METADATA_MAX_BYTES - 3];
        assert!(kept(&[("x-svc-meta-abc", &exact)]).is_ok());
        assert_eq!(
            kept(&[("x-svc-meta-abc", &exact), ("x-svc-meta-d", b"")]),
            Err(ErrorCode::MetadataTooLarge)
        );
    }

    #[test]
    fn standard_headers_are_limited_by_names_and_values_together() {
        let half = vec![b'v'; SYSTEM_METADATA_MAX_BYTES / 2 - "expires".len()];
        let rest = vec![b'v'; SYSTEM_METADATA_MAX_BYTES / 2 - "cache-control".len()];
        let both = [("expires", &half[..]), ("cache-control", &rest[..])];
        assert!(kept(&both).is_ok());
        let more = [&both[..], &[("content-type", &b"a/b"[..])]].concat();
        assert_eq!(kept(&more), Err(ErrorCode::MetadataTooLarge));
    }

    #[test]
    fn a_redirect_location_names_a_path_or_a_web_address() {
        let location = |value: &[u8]| kept(&[("x-svc-website-redirect-location", value)]);
        for good in ["/", "/a?b#ü", "http://a.example", "https://a.example/b"] {
            assert_eq!(
                location(good.as_bytes()),
                Ok(pairs(&[("website-redirect-location", good)])),
                "{good}"
            );
        }
        assert_eq!(location(b""), Ok(Vec::new()));
        let long = format!("/{}", "a".repeat(REDIRECT_LOCATION_MAX_BYTES));
        for bad in ["a", "ftp://a", "HTTP://a", "//a\r\nSet-Cookie: b", "/\u{85}", &long] {
            assert_eq!(location(bad.as_bytes()), Err(ErrorCode::InvalidRedirectLocation), "{bad}");
        }
        assert_eq!(location(b"/\xff"), Err(ErrorCode::InvalidArgument));
        assert_eq!(location(&long.as_bytes()[1..]), Err(ErrorCode::InvalidRedirectLocation), "no prefix");
    }

    #[test]
    fn a_redirect_location_counts_with_the_standard_headers() {
        let room = SYSTEM_METADATA_MAX_BYTES - "website-redirect-location".len() - "expires".len();
        let location = format!("/{}", "a".repeat(room - 1));
        let lines = |expires: &'static [u8]| {
            kept(&[("x-svc-website-redirect-location", location.as_bytes()), ("expires", expires)])
        };
        assert!(lines(b"").is_ok());
        assert_eq!(lines(b"12345678").map(drop), Err(ErrorCode::MetadataTooLarge));
    }

    #[test]
    fn a_copy_keeps_the_metadata_of_its_source_and_no_redirect_location() {
        let source = [("expires", "never"), ("website-redirect-location", "/old"), ("meta-a", "1")];
        let copied = |lines: &[(&str, &str)]| {
            let mut headers = Headers::default();
            for (name, value) in lines {
                headers.push(name, value.as_bytes());
            }
            of_copy(source.iter().copied(), VendorHeaders::new(&headers, Dialect::Svc)).map_err(|e| e.code)
        };
        assert_eq!(copied(&[]), Ok(pairs(&[("expires", "never"), ("meta-a", "1")])));
        let moved = [("expires", "never"), ("website-redirect-location", "/new"), ("meta-a", "1")];
        assert_eq!(copied(&[("x-svc-website-redirect-location", "/new")]), Ok(pairs(&moved)));
        let bad = [("x-svc-website-redirect-location", "new")];
        assert_eq!(copied(&bad), Err(ErrorCode::InvalidRedirectLocation));
    }

    #[test]
    fn values_that_are_no_text_are_refused() {
        assert_eq!(kept(&[("x-svc-meta-a", b"\xff")]), Err(ErrorCode::InvalidArgument));
        assert_eq!(kept(&[("cache-control", b"\xff")]), Err(ErrorCode::InvalidArgument));
    }

    #[test]
    fn stored_metadata_is_sent_under_its_own_name() {
        let kept =
            [("cache-control", "no-store"), ("website-redirect-location", "/a"), ("meta-name", "grün")];
        let lines =
            ["Content-Type: binary/octet-stream", "p-website-redirect-location: /a", "p-meta-name: grün"];
        assert_eq!(sent(&kept, "").unwrap(), [&["Cache-Control: no-store"][..], &lines].concat());
    }

    #[test]
    fn a_query_overrides_headers_but_smuggles_none_in() {
        let kept = [("content-type", "a/b"), ("expires", "never")];
        assert_eq!(
            sent(&kept, "response-content-type=c%2Fd&response-content-language=de").unwrap(),
            ["Content-Language: de", "Content-Type: c/d", "Expires: never"]
        );
        for bad in ["x%0d%0aSet-Cookie:%20y", "%c2%85", "%E2%80%99"] {
            let query = format!("response-expires={bad}");
            assert_eq!(sent(&kept, &query), Err(ErrorCode::InvalidArgument), "{bad}");
        }
        assert_eq!(sent(&[], "response-content-type=%C3%BC").unwrap(), ["Content-Type: ü"]);
        assert!(overrides(&QueryParams::parse("response-expires=x").unwrap()));
        assert!(!overrides(&QueryParams::parse("response-x=x").unwrap()));
    }
}
