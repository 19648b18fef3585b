//! Arbitrary bytes wherever a client writes some: nothing panics, nothing is believed, nothing
//! grows past its input.

use proptest::prelude::*;
use siltstone::auth::Users;
use siltstone::s3::Dialect;

use super::vectors::{EMPTY, chunked, get_object, presigned, trailing};
use super::{ACCESS_KEY, SECRET_KEY, Sent, authenticator};

/// Text made of the pieces that a reader looks for, and of anything else.
fn spliced(pieces: &'static [&'static str]) -> impl Strategy<Value = String> {
    let piece = prop_oneof![3 => prop::sample::select(pieces).prop_map(str::to_owned), 1 => ".{0,4}"];
    prop::collection::vec(piece, 0..8).prop_map(|parts| parts.concat())
}

/// One of the pieces as it is, or text made of them.
fn whole_or_spliced(pieces: &'static [&'static str]) -> impl Strategy<Value = String> {
    prop_oneof![prop::sample::select(pieces).prop_map(str::to_owned), spliced(pieces)]
}

const AUTHORIZATION: &[&str] = &[
    "AWS4-HMAC-SHA256 ",
    "AWS ",
    "Credential=",
    "SignedHeaders=",
    "Signature=",
    "host",
    ";",
    ",",
    "/",
    " ",
    "=",
    ACCESS_KEY,
    "/20130524/us-east-1/s3/aws4_request",
    "host;x-amz-content-sha256;x-amz-date",
];

const QUERY: &[&str] = &[
    "X-Amz-Algorithm=AWS4-HMAC-SHA256",
    "X-Amz-Credential=",
    "X-Amz-Date=20130524T000000Z",
    "X-Amz-Expires=86400",
    "X-Amz-SignedHeaders=host",
    "X-Amz-Signature=",
    "X-Amz-Content-Sha256=",
    "AWSAccessKeyId=AKIAIOSFODNN7EXAMPLE&Expires=1469357200&Signature=",
    "bWq2s1WEIj%2BYdj0vQ697zp%2BIXMU%3D",
    "AKIAIOSFODNN7EXAMPLE%2F20130524%2Fus-east-1%2Fs3%2Faws4_request",
    "&",
    "=",
    "%",
    "%2",
    "%ff",
    "+",
];

const CHUNKS: &[&str] = &[
    "0",
    "5",
    "a",
    "ffffffff",
    "10000",
    ";chunk-signature=",
    "\r\n",
    "\n",
    "\r",
    "hello",
    ":",
    "x-amz-checksum-crc32",
    "x-amz-trailer-signature:",
    "b474d8862b1487a5145d686f57f013e54db672cee1c953b3010fb58501ef5aa2",
];

const HASHES: &[&str] = &[
    EMPTY,
    "UNSIGNED-PAYLOAD",
    "STREAMING-UNSIGNED-PAYLOAD-TRAILER",
    "STREAMING-AWS4-HMAC-SHA256-PAYLOAD",
    "STREAMING-AWS4-HMAC-SHA256-PAYLOAD-TRAILER",
];

const TRAILERS: &[&str] =
    &["x-svc-checksum-crc32", "x-amz-checksum-crc32", "x-svc-trailer-signature", ",", " "];

const USERS: &[&str] = &[
    "[[user]]\n",
    "[[user.allow]]\n",
    "name = ",
    "access_key = ",
    "secret_key = ",
    "actions = ",
    "resources = ",
    "\"a\"",
    "\"*\"",
    "[",
    "]",
    "\n",
    "\"b/k*\"",
    "\"GetObject\"",
    "\"anonymous\"",
    "#",
];

proptest! {
    #[test]
    fn no_authorization_header_is_believed_by_accident(text in spliced(AUTHORIZATION)) {
        let mut sent = get_object();
        *sent.header("authorization") = text.into_bytes();
        prop_assert!(sent.outcome(&authenticator().1).is_err());
    }

    #[test]
    fn no_authorization_bytes_are_believed_by_accident(bytes in prop::collection::vec(any::<u8>(), 0..100)) {
        let mut sent = get_object();
        *sent.header("authorization") = bytes;
        prop_assert!(sent.outcome(&authenticator().1).is_err());
    }

    #[test]
    fn no_query_signs_by_accident(query in spliced(QUERY), path in ".{0,20}") {
        let sent = Sent { query, path, ..presigned() };
        let outcome = sent.outcome(&authenticator().1);
        prop_assert!(outcome.is_err() || outcome.unwrap().identity.is_anonymous());
    }

    #[test]
    fn other_targets_do_not_have_the_same_signature(path in "/[%a-c0-9/.+ ]{0,8}", query in "[%a-c0-9=&+]{0,8}") {
        let same = path == "/test.txt" && query.is_empty();
        let sent = Sent { path, query: query.clone(), ..get_object() };
        // Gaps between `&` are no parameters.
        prop_assert!(sent.outcome(&authenticator().1).is_err() || same || query.chars().all(|c| c == '&'));
    }

    #[test]
    fn arbitrary_vendor_headers_do_no_harm(
        hash in whole_or_spliced(HASHES), length in "[0-9]{0,3}|[ -~]{0,20}", trailer in whole_or_spliced(TRAILERS), date in "[ -~]{0,20}",
    ) {
        let authorization = "AWS4-HMAC-SHA256 Credential=A/20130524/eu/s3/aws4_request, SignedHeaders=host, Signature=x";
        let headers = [
            ("x-svc-content-sha256", hash.as_str()),
            ("x-svc-decoded-content-length", &length),
            ("x-svc-trailer", &trailer),
            ("x-svc-date", &date),
            ("authorization", authorization),
        ];
        let (_, authenticator) = authenticator();
        prop_assert!(Sent::new(Dialect::Svc, "GET", "/", "", &headers).outcome(&authenticator).is_err());
        for count in 0..headers.len() {
            let sent = Sent::new(Dialect::Svc, "GET", "/", "", &headers[..count]);
            let outcome = sent.with_body("0\r\n\r\n").outcome(&authenticator);
            prop_assert!(outcome.is_err() || outcome.unwrap().identity.is_anonymous());
        }
    }

    #[test]
    fn no_chunks_are_believed_by_accident(body in spliced(CHUNKS), piece in 1usize..20) {
        for sent in [chunked(), trailing()] {
            let sent = Sent { piece, ..sent.with_body(body.clone()) };
            prop_assert!(sent.outcome(&authenticator().1).is_err());
        }
    }

    #[test]
    fn unsigned_chunks_have_the_announced_length_or_fail(body in spliced(CHUNKS), decoded in 0u64..20, piece in 1usize..9) {
        let decoded = decoded.to_string();
        let headers = [
            ("x-amz-content-sha256", "STREAMING-UNSIGNED-PAYLOAD-TRAILER"),
            ("x-amz-decoded-content-length", decoded.as_str()),
        ];
        let sent = Sent::new(Dialect::Aws, "PUT", "/b/k", "", &headers).with_body(body);
        let whole = sent.outcome(&authenticator().1).map(|received| received.data);
        let pieces = Sent { piece, ..sent }.outcome(&authenticator().1).map(|received| received.data);
        if let Ok(data) = &whole {
            prop_assert_eq!(data.len().to_string(), decoded);
        }
        prop_assert_eq!(whole, pieces);
    }

    #[test]
    fn arbitrary_users_files_are_read_or_refused_by_line(text in spliced(USERS)) {
        if let Err(error) = Users::parse(&text) {
            prop_assert!(error.line >= 1 && error.line <= text.split('\n').count());
            prop_assert!(!error.to_string().contains(SECRET_KEY));
        }
    }
}
