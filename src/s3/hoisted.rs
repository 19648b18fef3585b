//! Headers in the query of a presigned URL. Several SDKs move vendor headers there when they
//! presign, so that the user of the URL need not send them; S3 treats them as headers (S3 API
//! reference, "Authenticating requests: using query parameters").

use crate::base::ChecksumAlgorithm;
use crate::s3::checksum::{self, ChecksumHasher};
use crate::s3::dialect::{V2_ACCESS_KEY, may_repeat};
use crate::s3::{Dialect, ErrorCode, Headers, QueryParams, S3Error, VendorHeaders, encryption};

/// Vendor parameters that belong to the signature.
const OF_THE_SIGNATURE: [&str; 8] = [
    "algorithm",
    "content-sha256",
    "credential",
    "date",
    "expires",
    "security-token",
    "signature",
    "signedheaders",
];

/// The only other header that version 4 moves, since a digest is of use only if the sender of the
/// body cannot omit it.
const MOVED_BY_V4: &[&str] = &["content-md5"];
/// The other headers that version 2 signs.
const MOVED_BY_V2: &[&str] = &["content-md5", "content-type"];

/// The vendor parameter that names the algorithm of a checksum.
const CHECKSUM_ALGORITHM: &str = "sdk-checksum-algorithm";

/// Whether a presigned URL carries the vendor header `p-{suffix}`.
pub fn has_header(query: &QueryParams, dialect: Dialect, suffix: &str) -> bool {
    lines(query, dialect).any(|(moved, _)| moved.strip_prefix(dialect.header_prefix()) == Some(suffix))
}

/// Adds the headers of a presigned URL to those that were sent. Must follow the verification of the
/// signature: parameters are signed, and unsigned vendor headers are refused.
///
/// A checksum of an empty body is left out, with the name of its algorithm: SDKs compute it when
/// they presign a put, without the body, and S3 is reported to ignore it.
///
/// # Errors
/// `InvalidArgument` for a name or value that no header can have; `InvalidRequest` for a header
/// that is also sent or is repeated, unless it may be repeated and has the same value, and for
/// those of a customer's key: whoever sees the URL would have the key.
pub fn restore_headers(headers: &mut Headers, query: &QueryParams, dialect: Dialect) -> Result<(), S3Error> {
    let is_of_nothing = |name: &str, value| {
        name.strip_prefix(dialect.header_prefix()).is_some_and(|it| is_empty_checksum(it, value))
    };
    let without_body = lines(query, dialect).any(|(name, value)| is_of_nothing(&name, value));
    for (name, value) in lines(query, dialect) {
        let suffix = name.strip_prefix(dialect.header_prefix());
        if suffix.is_some_and(encryption::is_of_customer_key) {
            return Err(S3Error::new(ErrorCode::InvalidRequest)
                .message(format!("{name} is sent as a header, and not in a presigned URL.")));
        }
        if without_body && (suffix == Some(CHECKSUM_ALGORITHM) || is_of_nothing(&name, value)) {
            continue;
        }
        check_header(&name, value)?;
        match headers.get(&name) {
            None => headers.push(&name, value.as_bytes()),
            Some(sent) => check_again(&name, sent == value.trim_ascii().as_bytes(), headers, dialect)?,
        }
    }
    Ok(())
}

/// Whether this is a checksum of no bytes.
fn is_empty_checksum(suffix: &str, value: &str) -> bool {
    let algorithm = ChecksumAlgorithm::ALL.into_iter().find(|algorithm| algorithm.suffix() == suffix);
    algorithm.is_some_and(|algorithm| checksum::encode(&ChecksumHasher::new(algorithm).finish()) == value)
}

/// The headers in a presigned query, by name in lower case. Other queries have none.
fn lines(query: &QueryParams, dialect: Dialect) -> impl Iterator<Item = (String, &str)> {
    let moved = standard_headers(query, dialect);
    let pairs = query.iter().filter(move |_| moved.is_some());
    pairs.map(|(name, value)| (name.to_ascii_lowercase(), value)).filter(move |(name, _)| {
        let suffix = name.strip_prefix(dialect.header_prefix());
        suffix.is_some_and(|suffix| !OF_THE_SIGNATURE.contains(&suffix))
            || moved.is_some_and(|moved| moved.contains(&name.as_str()))
    })
}

/// The standard headers that may be in a presigned query; `None` for other queries.
fn standard_headers(query: &QueryParams, dialect: Dialect) -> Option<&'static [&'static str]> {
    if query.names().any(|name| name.strip_prefix(dialect.query_prefix()) == Some("Signature")) {
        return Some(MOVED_BY_V4);
    }
    (dialect == Dialect::Aws && query.has(V2_ACCESS_KEY)).then_some(MOVED_BY_V2)
}

/// Checks that a parameter of a query or a field of a form can be a header.
///
/// # Errors
/// `InvalidArgument`.
pub fn check_header(name: &str, value: &str) -> Result<(), S3Error> {
    if Headers::is_name(name) && !value.chars().any(|c| c.is_control() && c != '\t') {
        return Ok(());
    }
    let shown = if encryption::is_secret(name) { encryption::HIDDEN } else { value };
    Err(S3Error::invalid_argument(name, shown, "The parameter cannot be a header."))
}

/// Checks a header of the query that is present already.
fn check_again(name: &str, same: bool, headers: &Headers, dialect: Dialect) -> Result<(), S3Error> {
    match name.strip_prefix(dialect.header_prefix()) {
        Some(suffix) if !may_repeat(suffix) => Err(VendorHeaders::new(headers, dialect).repeated(suffix)),
        _ if same => Ok(()),
        _ => Err(S3Error::new(ErrorCode::InvalidRequest)
            .message(format!("{name} stands in the presigned URL and, otherwise, in the headers."))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn handed_on(query: &str, sent: &[(&str, &str)]) -> Result<Vec<String>, ErrorCode> {
        let mut headers = Headers::default();
        for (name, value) in sent {
            headers.push(name, value.as_bytes());
        }
        restore_headers(&mut headers, &QueryParams::parse(query).unwrap(), Dialect::Aws)
            .map_err(|e| e.code)?;
        let text = |value| String::from_utf8_lossy(value).into_owned();
        Ok(headers.iter().map(|(name, value)| format!("{name}: {}", text(value))).collect())
    }

    #[test]
    fn headers_in_a_presigned_query_are_restored_in_any_case() {
        let query =
            "X-Amz-Signature=s&X-Amz-Date=d&X-Amz-Meta-A=b+c&x-amz-acl=private&Content-MD5=m&versionId=1";
        assert_eq!(
            handed_on(query, &[]),
            Ok(["x-amz-meta-a: b c", "x-amz-acl: private", "content-md5: m"].map(String::from).to_vec())
        );
        let query = QueryParams::parse(query).unwrap();
        assert!(has_header(&query, Dialect::Aws, "acl") && !has_header(&query, Dialect::Aws, "copy-source"));
        assert!(!has_header(&query, Dialect::Svc, "acl"));
    }

    #[test]
    fn version_2_moves_the_content_type_too_and_a_sent_one_must_be_the_same() {
        let query = "AWSAccessKeyId=a&content-type=text%2Fplain&x-amz-meta-a=1";
        let restored = ["content-type: text/plain", "x-amz-meta-a: 1"].map(String::from).to_vec();
        assert_eq!(handed_on(query, &[]), Ok(restored.clone()));
        assert_eq!(handed_on(query, &[("content-type", "text/plain")]), Ok(restored));
        assert_eq!(handed_on(query, &[("content-type", "a/b")]), Err(ErrorCode::InvalidRequest));
        assert_eq!(handed_on("X-Amz-Signature=s&content-type=text%2Fplain", &[]), Ok(vec![]));
    }

    #[test]
    fn the_key_of_a_customer_is_not_in_a_url() {
        for name in ["Algorithm", "Key", "Key-MD5"] {
            for prefix in ["", "Copy-Source-"] {
                let moved = format!("X-Amz-{prefix}Server-Side-Encryption-Customer-{name}=secret%0d");
                for query in [format!("X-Amz-Signature=s&{moved}"), format!("AWSAccessKeyId=a&{moved}")] {
                    let mut headers = Headers::default();
                    let query = QueryParams::parse(&query).unwrap();
                    let refused = restore_headers(&mut headers, &query, Dialect::Aws).unwrap_err();
                    assert_eq!(refused.code, ErrorCode::InvalidRequest, "{moved}");
                    assert!(!format!("{refused:?}").contains("secret"), "{refused:?}");
                }
            }
        }
        let kind = handed_on("X-Amz-Signature=s&X-Amz-Server-Side-Encryption=AES256", &[]);
        assert_eq!(kind, Ok(vec!["x-amz-server-side-encryption: AES256".to_owned()]));
        let told = check_header("x-amz-server-side-encryption-customer-key", "secret\r").unwrap_err();
        assert!(!format!("{told:?}").contains("secret"), "{told:?}");
    }

    #[test]
    fn the_parameters_of_the_signature_are_no_headers() {
        for name in OF_THE_SIGNATURE {
            assert_eq!(handed_on(&format!("X-Amz-Signature=s&X-Amz-{name}=1"), &[]), Ok(vec![]), "{name}");
        }
    }

    #[test]
    fn other_queries_have_no_headers() {
        assert_eq!(handed_on("x-amz-meta-a=1&Content-MD5=m", &[]), Ok(vec![]));
        assert_eq!(handed_on("x-amz-meta-a=1&X-Svc-Signature=s", &[]), Ok(vec![]));
    }

    #[test]
    fn invalid_headers_in_the_query_are_refused() {
        for wrong in
            ["x-amz-meta-a=1%0d%0aEvil:1", "x-amz-meta-a%20b=1", "x-amz-meta-%C3%BC=1", "x-amz-meta-a=%00"]
        {
            let query = format!("X-Amz-Signature=s&{wrong}");
            assert_eq!(handed_on(&query, &[]), Err(ErrorCode::InvalidArgument), "{wrong}");
        }
    }

    #[test]
    fn a_header_with_one_value_is_not_there_again_even_if_it_is_the_same() {
        let once = "X-Amz-Signature=s&x-amz-copy-source=b/k";
        assert_eq!(handed_on(once, &[("x-amz-copy-source", "b/k")]), Err(ErrorCode::InvalidRequest));
        let twice = "X-Amz-Signature=s&x-amz-copy-source=b/k&X-Amz-Copy-Source=b/k";
        assert_eq!(handed_on(twice, &[]), Err(ErrorCode::InvalidRequest));
    }

    #[test]
    fn metadata_that_was_sent_too_must_be_the_same() {
        let query = "X-Amz-Signature=s&x-amz-meta-a=+1";
        assert_eq!(handed_on(query, &[("x-amz-meta-a", "1")]), Ok(vec!["x-amz-meta-a: 1".to_owned()]));
        assert_eq!(handed_on(query, &[("x-amz-meta-a", "2")]), Err(ErrorCode::InvalidRequest));
        let twice = "X-Amz-Signature=s&x-amz-meta-a=1&X-Amz-Meta-A=2";
        assert_eq!(handed_on(twice, &[]), Err(ErrorCode::InvalidRequest));
    }
}
