//! GetObject and HeadObject.

use super::*;

#[test]
fn a_get_tells_all_that_is_known_of_the_object() {
    let server = Server::new();
    server.put("/b/k", b"body");
    let get = server.get("/b/k");
    assert_eq!((get.status, get.text()), (200, "body"));
    assert_eq!(get.header("ETag"), Some("\"841a2d689ad86bd1611447453c22c6fc\""));
    assert_eq!(get.header("Last-Modified"), Some(NOW_HTTP));
    assert_eq!(get.header("Accept-Ranges"), Some("bytes"));
    assert_eq!(get.header("Content-Type"), Some("binary/octet-stream"));
}

#[test]
fn a_head_has_the_headers_of_the_get_and_its_length() {
    let server = Server::new();
    for size in [0, 10, 300_000] {
        server.put("/b/k", &pattern(size));
        let get = server.get("/b/k");
        let head = server.head("/b/k");
        head.is_bare(200);
        assert_eq!(head.header("Content-Length"), Some(size.to_string().as_str()));
        for name in ["ETag", "Last-Modified", "Accept-Ranges", "Content-Type"] {
            assert_eq!(head.header(name), get.header(name));
        }
    }
}

#[test]
fn a_missing_key_is_reported_to_those_who_may_list() {
    let server = Server::with_grants(&[("reader", &["GetObject"], &["b/*"])]);
    let get = server.get("/b/k");
    get.is_error(404, "NoSuchKey");
    assert_eq!(get.one("Key").as_deref(), Some("k"));
    server.head("/b/k").is_bare(404);
    server.request("GET", "/b/k").by("reader").send().is_error(403, "AccessDenied");
    server.request("HEAD", "/b/k").by("reader").send().is_bare(403);
}

#[test]
fn a_deleted_key_is_as_secret_as_a_missing_one() {
    let server = Server::with_grants(&[("reader", &["GetObject"], &["b/*"])]);
    server.set_versioning("Enabled");
    server.put("/b/k", b"x");
    server.delete("/b/k");
    let get = server.request("GET", "/b/k").by("reader").send();
    get.is_error(403, "AccessDenied");
    assert_eq!(get.header("p-delete-marker"), None);
}

#[test]
fn a_missing_bucket_is_not_a_missing_key() {
    let server = Server::new();
    let get = server.get("/absent/k");
    get.is_error(404, "NoSuchBucket");
    assert_eq!(get.one("BucketName").as_deref(), Some("absent"));
    server.head("/absent/k").is_bare(404);
}

#[test]
fn a_signed_query_overrides_headers_of_the_response() {
    let server = Server::new();
    server.request("PUT", "/b/k").header("Cache-Control", "no-store").body(b"x").send();
    for method in ["GET", "HEAD"] {
        let answer = server
            .request(
                method,
                "/b/k?response-cache-control=max-age%3D1&response-content-disposition=attachment\
                 &response-content-encoding=x&response-content-language=de&response-content-type=text%2Fcsv\
                 &response-expires=never",
            )
            .send();
        for (name, value) in [
            ("Cache-Control", "max-age=1"),
            ("Content-Disposition", "attachment"),
            ("Content-Encoding", "x"),
            ("Content-Language", "de"),
            ("Content-Type", "text/csv"),
            ("Expires", "never"),
        ] {
            assert_eq!(answer.header(name), Some(value));
        }
    }
    assert_eq!(server.get("/b/k").header("Cache-Control"), Some("no-store"));
}

#[test]
fn a_query_smuggles_no_header_in() {
    let server = Server::new();
    server.put("/b/k", b"x");
    server.get("/b/k?response-content-type=x%0D%0ASet-Cookie%3A%20y").is_error(400, "InvalidArgument");
}

#[test]
fn an_anonymous_query_overrides_nothing() {
    let server = Server::with_grants(&[("anonymous", &["GetObject"], &["b/*"])]);
    server.put("/b/k", b"x");
    assert_eq!(server.request("GET", "/b/k").anonymous().send().text(), "x");
    let answer = server.request("GET", "/b/k?response-expires=x").anonymous().send();
    answer.is_error(400, "InvalidRequest");
}

#[test]
fn parameters_that_clients_make_up_are_ignored() {
    let server = Server::new();
    server.put("/b/k?x-id=PutObject", b"x");
    assert_eq!(server.get("/b/k?x-id=GetObject&whatever=1").text(), "x");
}
