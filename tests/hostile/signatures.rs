//! Signatures: malformed, of other schemes, of the wrong place or time. Right ones are held by
//! `auth`.

use super::victim::{Case, request};

const SCOPE: &str = "AK/20260131/eu/s3/aws4_request";
const ZEROS: &str = "0000000000000000000000000000000000000000000000000000000000000000";
const HASH: &str = "x-amz-content-sha256: UNSIGNED-PAYLOAD\r\n";
const DATE: &str = "x-amz-date: 20260131T120000Z\r\n";
const SIGNED: &str = "host;x-amz-content-sha256;x-amz-date";

const MALFORMED: &str = "400 AuthorizationHeaderMalformed";

/// A name, the Authorization header, and the answer. `SCOPE`, `SIGNED` and `ZEROS` stand for what
/// is well-formed.
const AUTHORIZATIONS: &[(&str, &str, &str)] = &[
    (
        "a wrong signature",
        "AWS4-HMAC-SHA256 Credential=SCOPE, SignedHeaders=SIGNED, Signature=ZEROS",
        "403 SignatureDoesNotMatch",
    ),
    (
        "no blanks behind the commas",
        "AWS4-HMAC-SHA256 Credential=SCOPE,SignedHeaders=SIGNED,Signature=ZEROS",
        "403 SignatureDoesNotMatch",
    ),
    (
        "another order",
        "AWS4-HMAC-SHA256 Signature=ZEROS, SignedHeaders=SIGNED, Credential=SCOPE",
        "403 SignatureDoesNotMatch",
    ),
    (
        "a user who is none",
        "AWS4-HMAC-SHA256 Credential=NOBODY/20260131/eu/s3/aws4_request, SignedHeaders=SIGNED, Signature=ZEROS",
        "403 InvalidAccessKeyId",
    ),
    ("a scheme alone", "AWS4-HMAC-SHA256", MALFORMED),
    ("no credential", "AWS4-HMAC-SHA256 SignedHeaders=SIGNED, Signature=ZEROS", MALFORMED),
    ("no signed headers", "AWS4-HMAC-SHA256 Credential=SCOPE, Signature=ZEROS", MALFORMED),
    ("no signature", "AWS4-HMAC-SHA256 Credential=SCOPE, SignedHeaders=SIGNED", MALFORMED),
    (
        "an empty signature",
        "AWS4-HMAC-SHA256 Credential=SCOPE, SignedHeaders=SIGNED, Signature=",
        "403 SignatureDoesNotMatch",
    ),
    (
        "a short signature",
        "AWS4-HMAC-SHA256 Credential=SCOPE, SignedHeaders=SIGNED, Signature=00",
        "403 SignatureDoesNotMatch",
    ),
    (
        "a signature of letters",
        "AWS4-HMAC-SHA256 Credential=SCOPE, SignedHeaders=SIGNED, Signature=garbage",
        "403 SignatureDoesNotMatch",
    ),
    (
        "two signatures",
        "AWS4-HMAC-SHA256 Credential=SCOPE, SignedHeaders=SIGNED, Signature=ZEROS, Signature=ZEROS",
        MALFORMED,
    ),
    (
        "a scope without an end",
        "AWS4-HMAC-SHA256 Credential=AK/20260131/eu/s3, SignedHeaders=SIGNED, Signature=ZEROS",
        MALFORMED,
    ),
    (
        "a scope of slashes",
        "AWS4-HMAC-SHA256 Credential=////, SignedHeaders=SIGNED, Signature=ZEROS",
        MALFORMED,
    ),
    ("an empty scope", "AWS4-HMAC-SHA256 Credential=, SignedHeaders=SIGNED, Signature=ZEROS", MALFORMED),
    (
        "another region",
        "AWS4-HMAC-SHA256 Credential=AK/20260131/mars/s3/aws4_request, SignedHeaders=SIGNED, Signature=ZEROS",
        MALFORMED,
    ),
    (
        "another service",
        "AWS4-HMAC-SHA256 Credential=AK/20260131/eu/ec2/aws4_request, SignedHeaders=SIGNED, Signature=ZEROS",
        MALFORMED,
    ),
    (
        "another end",
        "AWS4-HMAC-SHA256 Credential=AK/20260131/eu/s3/aws5_request, SignedHeaders=SIGNED, Signature=ZEROS",
        MALFORMED,
    ),
    (
        "another day",
        "AWS4-HMAC-SHA256 Credential=AK/20260130/eu/s3/aws4_request, SignedHeaders=SIGNED, Signature=ZEROS",
        MALFORMED,
    ),
    (
        "a day that is none",
        "AWS4-HMAC-SHA256 Credential=AK/2026-01-31/eu/s3/aws4_request, SignedHeaders=SIGNED, Signature=ZEROS",
        MALFORMED,
    ),
    (
        "the host not signed",
        "AWS4-HMAC-SHA256 Credential=SCOPE, SignedHeaders=x-amz-content-sha256;x-amz-date, Signature=ZEROS",
        "403 AccessDenied",
    ),
    (
        "the date not signed",
        "AWS4-HMAC-SHA256 Credential=SCOPE, SignedHeaders=host;x-amz-content-sha256, Signature=ZEROS",
        "403 AccessDenied",
    ),
    (
        "a signed header that is not there",
        "AWS4-HMAC-SHA256 Credential=SCOPE, SignedHeaders=host;range;x-amz-content-sha256;x-amz-date, Signature=ZEROS",
        "403 SignatureDoesNotMatch",
    ),
    ("version 2", "AWS AK:bm90aGluZw==", "400 InvalidRequest"),
    ("a password", "Basic QUs6c2VjcmV0", "400 InvalidRequest"),
    ("a token", "Bearer abc.def.ghi", "400 InvalidRequest"),
    (
        "version 4 with two keys",
        "AWS4-ECDSA-P256-SHA256 Credential=SCOPE, SignedHeaders=SIGNED, Signature=ZEROS",
        "400 InvalidRequest",
    ),
    (
        "the scheme in lower case",
        "aws4-hmac-sha256 Credential=SCOPE, SignedHeaders=SIGNED, Signature=ZEROS",
        "400 InvalidRequest",
    ),
    (
        "bytes beyond ASCII",
        "AWS4-HMAC-SHA256 Credential=ü/20260131/eu/s3/aws4_request, SignedHeaders=SIGNED, Signature=ZEROS",
        "403 InvalidAccessKeyId",
    ),
];

/// A name, the date and hash lines, and the answer behind a wrong signature.
const DATES: &[(&str, &str, &str)] = &[
    ("no date", HASH, "403 AccessDenied"),
    (
        "a date of letters",
        "x-amz-content-sha256: UNSIGNED-PAYLOAD\r\nx-amz-date: today\r\n",
        "403 AccessDenied",
    ),
    (
        "a date of 2099",
        "x-amz-content-sha256: UNSIGNED-PAYLOAD\r\nx-amz-date: 20990131T120000Z\r\n",
        MALFORMED,
    ),
    (
        "a date twenty minutes off",
        "x-amz-content-sha256: UNSIGNED-PAYLOAD\r\nx-amz-date: 20260131T122000Z\r\n",
        "403 RequestTimeTooSkewed",
    ),
    (
        "a day of February that is none",
        "x-amz-content-sha256: UNSIGNED-PAYLOAD\r\nx-amz-date: 20260231T120000Z\r\n",
        "403 AccessDenied",
    ),
    ("no hash", DATE, "400 InvalidRequest"),
    (
        "a hash of letters",
        "x-amz-content-sha256: garbage\r\nx-amz-date: 20260131T120000Z\r\n",
        "403 SignatureDoesNotMatch",
    ),
];

pub(super) fn in_headers() -> Vec<Case> {
    let usual = format!("{HASH}{DATE}");
    let authorizations = AUTHORIZATIONS.iter().map(|(name, value, expected)| {
        let value = value.replace("SCOPE", SCOPE).replace("SIGNED", SIGNED).replace("ZEROS", ZEROS);
        let sent = request("GET", "/b/k", &format!("{usual}Authorization: {value}\r\n"), "");
        Case::new(format!("a signature with {name}"), sent, expected)
    });
    let wrong = format!("AWS4-HMAC-SHA256 Credential={SCOPE}, SignedHeaders={SIGNED}, Signature={ZEROS}");
    let dates = DATES.iter().map(|(name, lines, expected)| {
        let sent = request("GET", "/b/k", &format!("{lines}Authorization: {wrong}\r\n"), "");
        Case::new(format!("a signature beside {name}"), sent, expected)
    });
    let twice = format!("{usual}Authorization: {wrong}\r\nAuthorization: {wrong}\r\n");
    let both = request(
        "GET",
        "/b/k?X-Amz-Algorithm=AWS4-HMAC-SHA256",
        &format!("{usual}Authorization: {wrong}\r\n"),
        "",
    );
    let more = [
        Case::new(
            "two signatures in two headers",
            request("GET", "/b/k", &twice, ""),
            "400 AuthorizationHeaderMalformed",
        ),
        Case::new("a signature in a header and one in the query", both, "400 InvalidRequest"),
    ];
    authorizations.chain(dates).chain(more).collect()
}

const QUERY_ERROR: &str = "400 AuthorizationQueryParametersError";

/// A name, what replaces what in a presigned query that is well-formed, and the answer.
const CHANGES: &[(&str, &str, &str, &str)] = &[
    ("a wrong signature", "", "", "403 SignatureDoesNotMatch"),
    ("no algorithm", "X-Amz-Algorithm=AWS4-HMAC-SHA256&", "", QUERY_ERROR),
    ("another algorithm", "AWS4-HMAC-SHA256", "AWS4-HMAC-SHA1", QUERY_ERROR),
    ("no credential", "X-Amz-Credential=AK%2F20260131%2Feu%2Fs3%2Faws4_request&", "", QUERY_ERROR),
    ("a credential of letters", "AK%2F20260131%2Feu%2Fs3%2Faws4_request", "garbage", QUERY_ERROR),
    ("a user who is none", "Credential=AK", "Credential=NOBODY", "403 InvalidAccessKeyId"),
    ("another region", "%2Feu%2F", "%2Fmars%2F", QUERY_ERROR),
    ("another service", "%2Fs3%2F", "%2Fec2%2F", QUERY_ERROR),
    ("no date", "X-Amz-Date=20260131T120000Z&", "", QUERY_ERROR),
    ("a date of letters", "20260131T120000Z", "today", QUERY_ERROR),
    ("a date before its credential's", "Date=20260131T", "Date=20260130T", QUERY_ERROR),
    ("no expiry", "X-Amz-Expires=60&", "", QUERY_ERROR),
    ("an expiry of letters", "Expires=60", "Expires=soon", QUERY_ERROR),
    ("an expiry below nothing", "Expires=60", "Expires=-60", QUERY_ERROR),
    ("an expiry of eight days", "Expires=60", "Expires=691200", QUERY_ERROR),
    ("an expiry beyond 64 bits", "Expires=60", "Expires=18446744073709551616", QUERY_ERROR),
    ("a time that is over", "T120000Z", "T110000Z", "403 AccessDenied"),
    ("no signed headers", "X-Amz-SignedHeaders=host&", "", QUERY_ERROR),
    ("an empty list of signed headers", "SignedHeaders=host", "SignedHeaders=", QUERY_ERROR),
    ("the host not signed", "SignedHeaders=host", "SignedHeaders=range", "403 AccessDenied"),
    ("no signature", "&X-Amz-Signature=ZEROS", "", QUERY_ERROR),
    ("an empty signature", "Signature=ZEROS", "Signature=", "403 SignatureDoesNotMatch"),
    ("a short signature", "Signature=ZEROS", "Signature=00", "403 SignatureDoesNotMatch"),
    ("two signatures", "Signature=ZEROS", "Signature=ZEROS&X-Amz-Signature=ZEROS", QUERY_ERROR),
    ("a name of the other dialect", "X-Amz-Expires", "X-Svc-Expires", "400 InvalidRequest"),
    ("version 2", PRESIGNED, VERSION_2, "403 SignatureDoesNotMatch"),
    (
        "version 2 beside version 4",
        "X-Amz-Algorithm",
        "AWSAccessKeyId=AK&X-Amz-Algorithm",
        "400 InvalidRequest",
    ),
    ("version 2 without an end", PRESIGNED, "AWSAccessKeyId=AK&Signature=x", "403 AccessDenied"),
    ("version 2 that is over", PRESIGNED, "AWSAccessKeyId=AK&Expires=0&Signature=x", "403 AccessDenied"),
    ("version 2 without a signature", PRESIGNED, "AWSAccessKeyId=AK&Expires=1800000000", "403 AccessDenied"),
    (
        "version 2 of a user who is none",
        PRESIGNED,
        "AWSAccessKeyId=NOBODY&Expires=1800000000&Signature=x",
        "403 InvalidAccessKeyId",
    ),
    (
        "version 2 with a name of the other dialect",
        PRESIGNED,
        "AWSAccessKeyId=AK&Expires=1800000000&Signature=x&x-svc-acl=private",
        "400 InvalidRequest",
    ),
    ("an escape that is none", "eu%2F", "eu%2", "400 InvalidURI"),
];

const VERSION_2: &str = "AWSAccessKeyId=AK&Expires=1800000000&Signature=bm90aGluZw%3D%3D";

const PRESIGNED: &str = "X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Credential=AK%2F20260131%2Feu%2Fs3%2Faws4_request&\
    X-Amz-Date=20260131T120000Z&X-Amz-Expires=60&X-Amz-SignedHeaders=host&X-Amz-Signature=ZEROS";

pub(super) fn in_queries() -> Vec<Case> {
    let cases = CHANGES.iter().map(|(name, old, new, expected)| {
        assert!(PRESIGNED.contains(old), "{name}");
        let query = PRESIGNED.replacen(old, new, 1).replace("ZEROS", ZEROS);
        Case::new(format!("presigned: {name}"), request("GET", &format!("/b/k?{query}"), "", ""), expected)
    });
    cases.collect()
}
