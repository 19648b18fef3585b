//! Metadata of objects: six standard headers and user metadata (S3 user guide, "Working with object metadata").

use crate::base::limits::{SYSTEM_METADATA_MAX_BYTES, USER_METADATA_MAX_BYTES};
use crate::s3::{ErrorCode, Headers, QueryParams, Response, S3Error, VendorHeaders};

/// The standard headers that are stored: the stored name, the name in responses, and the query parameter that
/// overrides it in a response.
const STANDARD: [(&str, &str, &str); 6] = [
    ("cache-control", "Cache-Control", "response-cache-control"),
    ("content-disposition", "Content-Disposition", "response-content-disposition"),
    ("content-encoding", "Content-Encoding", "response-content-encoding"),
    ("content-language", "Content-Language", "response-content-language"),
    ("content-type", "Content-Type", "response-content-type"),
    ("expires", "Expires", "response-expires"),
];

/// The content type of an object that was put without one (S3 API reference, PutObject, "Content-Type").
const DEFAULT_TYPE: &str = "binary/octet-stream";

/// The prefix of the names of user metadata, as stored and as sent.
const META: &str = "meta-";

/// Collects the metadata of a new object as names and values: standard headers by their lower-case names, user
/// metadata as `meta-...`. Encoded words (RFC 2047) are not decoded.
///
/// # Errors
/// `MetadataTooLarge` if either kind exceeds its limit; `InvalidArgument` for a value that is not UTF-8.
pub fn collect(headers: &Headers, vendor: VendorHeaders<'_>) -> Result<Vec<(String, String)>, S3Error> {
    let mut kept = system_metadata(headers)?;
    kept.extend(user_metadata(vendor)?);
    Ok(kept)
}

fn system_metadata(headers: &Headers) -> Result<Vec<(String, String)>, S3Error> {
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
    let size = kept.iter().map(|(name, value)| name.len() + value.len()).sum();
    check_size(size, SYSTEM_METADATA_MAX_BYTES)?;
    Ok(kept)
}

/// Adds stored metadata to a response. The `response-*` parameters of the query override standard headers.
///
/// # Errors
/// `InvalidArgument` for an override with a control character.
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
    for (name, value) in kept.iter().filter(|(name, _)| name.starts_with(META)) {
        response = response.header(format!("p-{name}"), *value);
    }
    Ok(response)
}

/// Whether the query overrides a header of the response.
pub fn overrides(query: &QueryParams) -> bool {
    STANDARD.iter().any(|(_, _, parameter)| query.has(parameter))
}

fn overriding<'q>(query: &'q QueryParams, parameter: &str) -> Result<Option<&'q str>, S3Error> {
    let Some(value) = query.get(parameter) else { return Ok(None) };
    if value.chars().any(|c| c.is_ascii_control() && c != '\t') {
        return Err(S3Error::invalid_argument(parameter, value, "The value cannot be that of a header."));
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

/// Removes `aws-chunked`, a coding of the transfer and not of the object (Signature Version 4, "Transferring payload
/// in multiple chunks").
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
    fn values_that_are_no_text_are_refused() {
        assert_eq!(kept(&[("x-svc-meta-a", b"\xff")]), Err(ErrorCode::InvalidArgument));
        assert_eq!(kept(&[("cache-control", b"\xff")]), Err(ErrorCode::InvalidArgument));
    }

    #[test]
    fn stored_metadata_is_sent_under_its_own_name() {
        let kept = [("cache-control", "no-store"), ("meta-name", "grün")];
        assert_eq!(
            sent(&kept, "").unwrap(),
            ["Cache-Control: no-store", "Content-Type: binary/octet-stream", "p-meta-name: grün"]
        );
    }

    #[test]
    fn a_query_overrides_headers_but_smuggles_none_in() {
        let kept = [("content-type", "a/b"), ("expires", "never")];
        assert_eq!(
            sent(&kept, "response-content-type=c%2Fd&response-content-language=de").unwrap(),
            ["Content-Language: de", "Content-Type: c/d", "Expires: never"]
        );
        assert_eq!(sent(&kept, "response-expires=x%0d%0aSet-Cookie:%20y"), Err(ErrorCode::InvalidArgument));
        assert!(overrides(&QueryParams::parse("response-expires=x").unwrap()));
        assert!(!overrides(&QueryParams::parse("response-x=x").unwrap()));
    }
}
