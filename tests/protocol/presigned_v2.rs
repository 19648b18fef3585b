//! URLs presigned by signature version 2, which are always of the dialect of AWS.

use super::*;

#[test]
fn a_url_of_version_2_puts_reads_and_deletes() {
    let server = Server::new();
    let put = server.request("PUT", "/b/k").presigned_v2(&[]).body(b"123456789").send();
    assert_eq!(put.status, 200, "{put:?}");
    let get = server.request("GET", "/b/k?response-cache-control=no-store").presigned_v2(&[]).send();
    assert_eq!((get.text(), get.header("Cache-Control")), ("123456789", Some("no-store")));
    assert_eq!(server.request("HEAD", "/b/k").presigned_v2(&[]).send().status, 200);
    assert_eq!(server.request("DELETE", "/b/k").presigned_v2(&[]).send().status, 204);
    let gone = server.request("GET", "/b/k").presigned_v2(&[]).send();
    gone.is_error(404, "NoSuchKey");
}

#[test]
fn answers_to_version_2_are_in_the_aws_dialect() {
    let server = Server::new();
    let get = server.request("GET", "/b/k").presigned_v2(&[]).send();
    assert!(get.header("x-amz-request-id").is_some(), "{get:?}");
}

#[test]
fn headers_in_the_query_of_version_2_are_headers() {
    let server = Server::new();
    let moved = [
        ("p-meta-mood", "good day"),
        ("p-tagging", "a=b"),
        ("content-type", "text/plain"),
        ("content-md5", "JfnnlDI7RTiF9RgfG2JNCw=="),
        ("p-checksum-crc32", "y/Q5Jg=="),
    ];
    let put = server.request("PUT", "/b/k").presigned_v2(&moved).body(b"123456789").send();
    assert_eq!(put.status, 200, "{put:?}");
    let head = server.request("HEAD", "/b/k").aws().send();
    let stored = ["p-meta-mood", "p-tagging-count", "Content-Type"].map(|name| head.header(name));
    assert_eq!(stored, [Some("good day"), Some("1"), Some("text/plain")]);
    let put = |moved| server.request("PUT", "/b/l").presigned_v2(&[moved]).body(b"123456789").send();
    put(("content-md5", "1B2M2Y8AsgTpgAmY7PhCfg==")).is_error(400, "BadDigest");
    put(("p-checksum-crc32", "AAAAAQ==")).is_error(400, "BadDigest");
    put(("p-acl", "public-read")).is_error(400, "AccessControlListNotSupported");
    put(("p-meta-a", "1\r\nx: 1")).is_error(400, "InvalidArgument");
    let copy = server.request("PUT", "/b/l").presigned_v2(&[("p-copy-source", "/b/k")]).send();
    assert_eq!(copy.outline()[0], "CopyObjectResult");
}

#[test]
fn headers_that_version_2_does_not_sign_are_refused() {
    let server = Server::new();
    for (name, value) in [("p-meta-a", "1"), ("p-acl", "private"), ("Content-Type", "text/html")] {
        let put = server.request("PUT", "/b/k").presigned_v2(&[]).header(name, value).body(b"x").send();
        put.is_error(403, "SignatureDoesNotMatch");
    }
    let other = server.request("PUT", "/b/k").presigned_v2(&[]).header("User-Agent", "x").body(b"x").send();
    assert_eq!(other.status, 200, "{other:?}");
    assert_eq!(server.head("/b/k").status, 200);
}

#[test]
fn a_host_of_version_2_names_the_bucket() {
    let server = Server::new();
    server.put("/b/k", b"x");
    let get = server.request("GET", "/b/k").presigned_v2(&[]).host("b.s3.example");
    get.send().is_error(403, "SignatureDoesNotMatch");
    let mut by_host = server.request("GET", "/b/k").presigned_v2(&[]).host("b.s3.example");
    by_host.set_path("/k");
    assert_eq!(by_host.send().text(), "x");
}

#[test]
fn permissions_are_those_of_the_user_who_signed() {
    let server = Server::with_grants(&[("reader", &["GetObject"], &["b/*"])]);
    server.put("/b/k", b"x");
    assert_eq!(server.request("GET", "/b/k").by("reader").presigned_v2(&[]).send().text(), "x");
    let put = server.request("PUT", "/b/k").by("reader").presigned_v2(&[]).body(b"y").send();
    put.is_error(403, "AccessDenied");
}
