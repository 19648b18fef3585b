//! URLs presigned by signature version 2: examples of the S3 user guide, and everything that must
//! be refused.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use hmac::{Hmac, KeyInit as _, Mac as _};
use siltstone::auth::{Authenticator, Users};
use siltstone::base::{ManualClock, Timestamp};
use siltstone::s3::route::Addressing;
use siltstone::s3::{Dialect, ErrorCode, S3Error};
use std::sync::Arc;

use super::{ACCESS_KEY, SECRET_KEY, Sent, authenticator, users};

/// An hour after the moment of the tests.
const EXPIRES: &str = "1369357200";

/// The signature of `text`.
fn sign(text: &str) -> String {
    let mut mac = Hmac::<sha1::Sha1>::new_from_slice(SECRET_KEY.as_bytes()).unwrap();
    mac.update(text.as_bytes());
    BASE64.encode(mac.finalize().into_bytes())
}

fn escaped(text: &str) -> String {
    text.replace('+', "%2B").replace('/', "%2F").replace('=', "%3D")
}

/// A URL whose string to sign, besides method and date, is known to the test.
fn url(method: &str, path: &str, query: &str, (head, tail): (&str, &str)) -> Sent {
    let signature = escaped(&sign(&format!("{method}\n{head}{EXPIRES}\n{tail}")));
    let query = format!("{query}&AWSAccessKeyId={ACCESS_KEY}&Expires={EXPIRES}&Signature={signature}");
    Sent::new(Dialect::Aws, method, path, &query, &[("Host", "localhost:9000")])
}

fn get() -> Sent {
    url("GET", "/b/k", "", ("\n\n", "/b/k"))
}

fn put() -> Sent {
    let headers = [("content-type", "a/b"), ("x-amz-acl", "private"), ("x-amz-meta-a", "1")];
    let mut sent = url("PUT", "/b/k", "", ("\na/b\n", "x-amz-acl:private\nx-amz-meta-a:1\n/b/k"));
    sent.headers.extend(headers.map(|(name, value)| (name.to_owned(), value.as_bytes().to_vec())));
    sent.with_body("x")
}

/// An authenticator at the time `secs`.
fn at(secs: u64, users: Users) -> Authenticator {
    let clock = Arc::new(ManualClock::new(Timestamp::from_millis(secs * 1000)));
    let addressing = Addressing { domain: Some("s3.amazonaws.com".to_owned()), ..Addressing::default() };
    Authenticator::new(users, vec!["eu".to_owned()], clock).with_version_2(addressing)
}

fn element<'e>(error: &'e S3Error, name: &str) -> &'e str {
    &error.elements.iter().find(|(other, _)| *other == name).unwrap().1
}

#[test]
fn the_examples_of_the_user_guide_are_believed() {
    let query =
        format!("AWSAccessKeyId={ACCESS_KEY}&Signature=NpgCjnDzrM%2BWFzoENXmpNDUsSn8%3D&Expires=1175139620");
    let host = [("Host", "johnsmith.s3.amazonaws.com"), ("Date", "Mon, 26 Mar 2007 19:37:58 +0000")];
    let sent = Sent::new(Dialect::Aws, "GET", "/photos/puppy.jpg", &query, &host);
    let received = sent.outcome(&at(1_174_937_878, users())).unwrap();
    assert_eq!(received.identity.name(), "alice");
    // Of an earlier edition, path style.
    let earlier = "[[user]]\nname = \"quoter\"\naccess_key = \"44CF9590006BF252F707\"\n\
                   secret_key = \"OtxrzxIsfpFjA7SwPzILwy8Bw21TLhquhboDYROV\"\n";
    let query =
        "Signature=vjbyPxybdZaNmGa%2ByT272YEAiv4%3D&AWSAccessKeyId=44CF9590006BF252F707&Expires=1141889120";
    let sent = Sent::new(Dialect::Aws, "GET", "/quotes/nelson", query, &[("Host", "s3.amazonaws.com")]);
    let outcome = sent.outcome(&at(1_141_889_060, Users::parse(earlier).unwrap()));
    assert_eq!(outcome.unwrap().identity.name(), "quoter");
}

#[test]
fn hosts_and_paths_name_the_bucket_alike() {
    let signed = ("\n\n", "/b/b/k");
    get().received();
    url("GET", "/b/b/k", "", signed).received();
    for resource in ["/b", "/b/"] {
        url("GET", "/b", "", ("\n\n", resource)).received();
    }
    for (path, resource) in [("/b/k", "/b/k/"), ("/b/", "/b"), ("/b", "/"), ("/b", "/c/"), ("/b", "/b//")] {
        let code = url("GET", path, "", ("\n\n", resource)).code();
        assert_eq!(code, ErrorCode::SignatureDoesNotMatch, "{path} as {resource}");
    }
    let mut by_host = url("GET", "/b/k", "", signed);
    assert_eq!(by_host.code(), ErrorCode::SignatureDoesNotMatch);
    *by_host.header("host") = b"B.s3.amazonaws.com".to_vec();
    by_host.received();
}

#[test]
fn whatever_is_signed_cannot_be_changed() {
    type Change = fn(&mut Sent);
    let changes: [(&str, Change); 12] = [
        ("method", |sent| sent.method = "DELETE".to_owned()),
        ("path", |sent| sent.path.push('x')),
        ("spelling of the path", |sent| sent.path = "/b/%6b".to_owned()),
        ("sub-resource", |sent| sent.query.push_str("&tagging")),
        ("version", |sent| sent.query.push_str("&versionId=1")),
        ("override", |sent| sent.query.push_str("&response-content-type=text/html")),
        ("validity", |sent| sent.query = sent.query.replace("Expires=1", "Expires=2")),
        ("key", |sent| sent.query = sent.query.replace("Signature=", "Signature=A")),
        ("vendor header", |sent| sent.headers.push(("x-amz-acl".to_owned(), b"private".to_vec()))),
        ("vendor header in the query", |sent| sent.query.push_str("&x-amz-copy-source=b/other")),
        ("content type", |sent| sent.headers.push(("content-type".to_owned(), b"a/c".to_vec()))),
        ("digest", |sent| {
            sent.headers.push(("content-md5".to_owned(), b"1B2M2Y8AsgTpgAmY7PhCfg==".to_vec()));
        }),
    ];
    for (what, change) in changes {
        for mut sent in [get(), put()] {
            // A second line of a standard header is never read.
            if what == "content type" {
                sent.headers.retain(|(name, _)| name != "content-type");
            }
            change(&mut sent);
            assert_eq!(sent.code(), ErrorCode::SignatureDoesNotMatch, "{what}");
        }
    }
    put().received();
    for name in ["content-type", "x-amz-acl", "x-amz-meta-a"] {
        let mut without = put();
        without.headers.retain(|(other, _)| other != name);
        assert_eq!(without.code(), ErrorCode::SignatureDoesNotMatch, "{name}");
    }
}

#[test]
fn every_character_of_the_signature_counts() {
    let signature = sign(&format!("GET\n\n\n{EXPIRES}\n/b/k"));
    for at in 0..signature.len() {
        let mut wrong = signature.clone().into_bytes();
        wrong[at] = if wrong[at] == b'A' { b'B' } else { b'A' };
        let wrong = escaped(&String::from_utf8(wrong).unwrap());
        let mut sent = get();
        sent.query = sent.query.replace(&escaped(&signature), &wrong);
        assert_eq!(sent.code(), ErrorCode::SignatureDoesNotMatch, "{wrong}");
    }
    for wrong in ["", "A", "%C3%BC", &signature[..27], &format!("{signature}=")] {
        let mut sent = get();
        sent.query = sent.query.replace(&escaped(&signature), wrong);
        assert_eq!(sent.code(), ErrorCode::SignatureDoesNotMatch, "{wrong}");
    }
}

#[test]
fn the_error_for_a_wrong_signature_shows_the_signed_text() {
    let mut sent = put();
    sent.path.push('x');
    let error = sent.refusal();
    let text = format!("PUT\n\na/b\n{EXPIRES}\nx-amz-acl:private\nx-amz-meta-a:1\n/b/kx");
    assert_eq!(element(&error, "StringToSign"), text);
    assert_eq!(element(&error, "AWSAccessKeyId"), ACCESS_KEY);
    assert_eq!(error.status(), 403);
}

#[test]
fn headers_moved_to_the_query_are_signed_as_headers() {
    let query = "x-amz-meta-a=1&content-type=a%2Fb&x-amz-acl=private";
    let signed = ("\na/b\n", "x-amz-acl:private\nx-amz-meta-a:1\n/b/k");
    url("PUT", "/b/k", query, signed).received();
    let mut again = url("PUT", "/b/k", query, signed);
    again.headers.push(("content-type".to_owned(), b"a/b".to_vec()));
    again.received();
}

#[test]
fn a_url_is_refused_when_it_is_over() {
    let over = 1 + EXPIRES.parse::<u64>().unwrap();
    assert!(get().outcome(&at(over - 1, users())).is_ok());
    let error = get().outcome(&at(over, users())).unwrap_err();
    assert_eq!((error.code, error.message.as_str()), (ErrorCode::AccessDenied, "Request has expired"));
    assert_eq!(element(&error, "Expires"), "2013-05-24T01:00:00.000Z");
    assert_eq!(element(&error, "ServerTime"), "2013-05-24T01:00:01.000Z");
}

#[test]
fn malformed_and_missing_parameters_are_refused() {
    for (from, to) in [
        (EXPIRES, ""),
        (EXPIRES, "tomorrow"),
        (EXPIRES, "99999999999999999999"),
        ("Expires=", "expires="),
        ("Signature=", "signature="),
        ("&Expires", "&Expires=1&Expires"),
        ("&AWSAccessKeyId", "&AWSAccessKeyId=AK&AWSAccessKeyId"),
    ] {
        let mut sent = get();
        sent.query = sent.query.replace(from, to);
        assert_eq!(sent.code(), ErrorCode::AccessDenied, "{to}");
    }
    let mut sent = get();
    sent.query = sent.query.replace(ACCESS_KEY, "AKIAOTHER");
    assert_eq!(sent.code(), ErrorCode::InvalidAccessKeyId);
}

#[test]
fn other_methods_and_unsigned_sub_resources_are_refused() {
    let post = url("POST", "/b/k", "uploads", ("\n\n", "/b/k?uploads"));
    assert_eq!(post.code(), ErrorCode::InvalidRequest);
    for name in ["attributes", "retention", "encryption", "publicAccessBlock"] {
        let error = url("GET", "/b/k", name, ("\n\n", "/b/k")).refusal();
        assert_eq!((error.code, element(&error, "ParametersNotSigned")), (ErrorCode::AccessDenied, name));
    }
    url("GET", "/b", "prefix=a&list-type=2", ("\n\n", "/b")).received();
}

#[test]
fn signed_chunks_need_a_signature_of_version_4() {
    let hash = "STREAMING-AWS4-HMAC-SHA256-PAYLOAD";
    let signed = format!("x-amz-content-sha256:{hash}\nx-amz-decoded-content-length:0\n/b/k");
    let mut sent = url("PUT", "/b/k", "", ("\n\n", &signed));
    sent.headers.push(("x-amz-content-sha256".to_owned(), hash.as_bytes().to_vec()));
    sent.headers.push(("x-amz-decoded-content-length".to_owned(), b"0".to_vec()));
    assert_eq!(sent.code(), ErrorCode::InvalidRequest);
}

#[test]
fn a_content_hash_is_verified() {
    let hash = "2d711642b726b04401627ca9fbac32f5c8530fb1903cc4db02258717921a4881";
    let signed = format!("x-amz-content-sha256:{hash}\n/b/k");
    let query = format!("x-amz-content-sha256={hash}");
    url("PUT", "/b/k", &query, ("\n\n", &signed)).with_body("x").received();
    let wrong = url("PUT", "/b/k", &query, ("\n\n", &signed)).with_body("y");
    assert_eq!(wrong.code(), ErrorCode::XAmzContentSHA256Mismatch);
}

#[test]
fn two_signatures_at_once_are_refused() {
    for query in ["X-Amz-Signature=x", "X-Amz-Credential=x"] {
        let mut sent = get();
        sent.query = format!("{}&{query}", sent.query);
        assert_eq!(sent.code(), ErrorCode::InvalidRequest, "{query}");
    }
    let mut sent = get();
    sent.headers.push(("authorization".to_owned(), b"AWS4-HMAC-SHA256 x".to_vec()));
    assert_eq!(sent.code(), ErrorCode::InvalidRequest);
}

#[test]
fn a_switched_off_version_2_is_told_which_scheme_to_use() {
    let (clock, _) = authenticator();
    let off = Authenticator::new(users(), vec!["eu".to_owned()], clock);
    let mut malformed = get();
    malformed.query = malformed.query.replace(EXPIRES, "");
    for sent in [get(), malformed] {
        let error = sent.outcome(&off).unwrap_err();
        assert_eq!(error.code, ErrorCode::InvalidRequest);
        assert!(error.message.contains("AWS4-HMAC-SHA256"), "{error}");
    }
}
