//! Presigned URLs, and the headers that they bear in their query.

use super::*;

#[test]
fn a_presigned_url_needs_nothing_else() {
    let server = Server::new();
    let put = server.request("PUT", "/b/k").presigned(&[]).body(b"123456789").send();
    assert_eq!(put.status, 200, "{put:?}");
    let get = server.request("GET", "/b/k?response-cache-control=no-store").presigned(&[]).send();
    assert_eq!((get.text(), get.header("Cache-Control")), ("123456789", Some("no-store")));
    let other = server.request("GET", "/b/k").presigned(&[]).header("p-meta-a", "not signed").send();
    other.is_error(403, "AccessDenied");
}

#[test]
fn metadata_and_tags_in_the_query_are_stored_with_the_object() {
    let server = Server::new();
    let borne =
        [("p-meta-mood", "good day"), ("p-meta-two", "2"), ("p-tagging", "a=b"), ("p-acl", "private")];
    let put = server.request("PUT", "/b/k").header("p-meta-three", "3").presigned(&borne).body(b"x").send();
    assert_eq!(put.status, 200, "{put:?}");
    let head = server.head("/b/k");
    let stored =
        ["p-meta-mood", "p-meta-two", "p-meta-three", "p-tagging-count"].map(|name| head.header(name));
    assert_eq!(stored, [Some("good day"), Some("2"), Some("3"), Some("1")]);
}

#[test]
fn a_checksum_or_digest_in_the_query_is_verified() {
    let server = Server::new();
    let put =
        |name, value| server.request("PUT", "/b/k").presigned(&[(name, value)]).body(b"123456789").send();
    put("p-checksum-crc32", "AAAAAQ==").is_error(400, "BadDigest");
    put("Content-MD5", "1B2M2Y8AsgTpgAmY7PhCfg==").is_error(400, "BadDigest");
    put("p-sdk-checksum-algorithm", "CRC32").is_error(400, "InvalidRequest");
    assert_eq!(server.head("/b/k").status, 404);
    let borne = [("p-checksum-crc32", "y/Q5Jg=="), ("p-sdk-checksum-algorithm", "CRC32")];
    let good = server.request("PUT", "/b/k").presigned(&borne).body(b"123456789").send();
    assert_eq!((good.status, good.header("p-checksum-crc32")), (200, Some("y/Q5Jg==")));
    let get = server.request("GET", "/b/k").presigned(&[("p-checksum-mode", "ENABLED")]).send();
    assert_eq!(get.header("p-checksum-crc32"), Some("y/Q5Jg=="));
}

#[test]
fn a_checksum_of_an_empty_body_in_the_query_is_ignored() {
    let server = Server::new();
    let sha256 = "47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=";
    for (name, value, algorithm) in
        [("p-checksum-crc32", "AAAAAA==", "CRC32"), ("p-checksum-sha256", sha256, "SHA256")]
    {
        let borne = [(name, value), ("p-sdk-checksum-algorithm", algorithm)];
        let put = server.request("PUT", "/b/k").presigned(&borne).body(b"123456789").send();
        assert_eq!((put.status, put.header(name)), (200, None), "{put:?}");
    }
    let sent = server.request("PUT", "/b/k").header("p-checksum-crc32", "AAAAAA==").presigned(&[]);
    sent.body(b"123456789").send().is_error(400, "BadDigest");
}

#[test]
fn headers_refused_as_such_are_refused_in_the_query() {
    let server = Server::new();
    let put = |borne: &[(&str, &str)]| server.request("PUT", "/b/k").presigned(borne).body(b"x").send();
    put(&[("p-acl", "public-read")]).is_error(400, "AccessControlListNotSupported");
    put(&[("p-server-side-encryption", "AES192")]).is_error(400, "InvalidArgument");
    put(&[("p-meta-a", "1\r\nEvil: 1")]).is_error(400, "InvalidArgument");
    put(&[("p-meta-a b", "1")]).is_error(400, "InvalidArgument");
    let twice = server.request("PUT", "/b/k").header("p-meta-a", "1").presigned(&[("p-meta-a", "2")]);
    twice.body(b"x").send().is_error(400, "InvalidRequest");
    assert_eq!(server.head("/b/k").status, 404);
}

#[test]
fn a_header_with_one_value_stands_in_the_query_or_in_the_headers_once() {
    let server = Server::new();
    server.put("/b/source", b"copied");
    for source in ["/b/source", "/b/other"] {
        let both = server.request("PUT", "/b/k").header("p-copy-source", "/b/source");
        both.presigned(&[("p-copy-source", source)]).send().is_error(400, "InvalidRequest");
        let twice = [("p-copy-source", "/b/source"), ("p-copy-source", source)];
        server.request("PUT", "/b/k").presigned(&twice).send().is_error(400, "InvalidRequest");
    }
    let hash = |header: &str, query: &str| {
        let asked = server.request("PUT", "/b/k").header("p-content-sha256", header).body(b"x");
        let name =
            if usual_dialect() == Dialect::Aws { "X-Amz-Content-Sha256" } else { "X-Svc-Content-Sha256" };
        asked.presigned(&[(name, query)]).send()
    };
    hash("UNSIGNED-PAYLOAD", &"0".repeat(64)).is_error(400, "InvalidRequest");
    assert_eq!(hash("UNSIGNED-PAYLOAD", "UNSIGNED-PAYLOAD").status, 200);
}

#[test]
fn a_copy_may_be_asked_for_in_the_query() {
    let server = Server::new();
    server.put("/b/source", b"copied");
    let borne = [("p-copy-source", "/b/source"), ("p-metadata-directive", "REPLACE"), ("p-meta-a", "1")];
    let copy = server.request("PUT", "/b/k").presigned(&borne).send();
    assert_eq!(copy.outline()[0], "CopyObjectResult");
    let get = server.get("/b/k");
    assert_eq!((get.text(), get.header("p-meta-a")), ("copied", Some("1")));
}

#[test]
fn a_query_that_is_not_presigned_has_no_headers() {
    let server = Server::new();
    let query = format!("{}meta-a=1", usual_dialect().header_prefix());
    server.put(&format!("/b/k?{query}"), b"x");
    assert_eq!(server.head("/b/k").header("p-meta-a"), None);
}
