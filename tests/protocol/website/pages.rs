//! Pages that are served.

use super::*;

#[test]
fn objects_are_served_with_their_headers_and_folders_by_their_index() {
    let server = site(INDEX, &["GetObject"]);
    server.put("/b/index.html", b"root");
    server.put("/b/docs/index.html", b"docs");
    let put = server.request("PUT", "/b/a%20b%3F.css").header("Content-Type", "text/css");
    let put = put.header("Cache-Control", "max-age=60").header("p-meta-mood", "good");
    assert_eq!(put.body(b"style").send().status, 200);
    for (target, body) in
        [("/", "root"), ("/index.html", "root"), ("/docs/", "docs"), ("/?utm=%zz&versionId=x", "root")]
    {
        let answer = server.visit(target);
        assert_eq!((answer.status, answer.text()), (200, body), "{target}");
    }
    let answer = server.visit("/a%20b%3F.css?response-content-type=text/html");
    assert_eq!((answer.status, answer.text()), (200, "style"));
    for (name, value) in
        [("Content-Type", "text/css"), ("Cache-Control", "max-age=60"), ("p-meta-mood", "good")]
    {
        assert_eq!(answer.header(name), Some(value));
    }
    let plain = server.request("GET", "/b/a%20b%3F.css").anonymous().send();
    for name in ["ETag", "Last-Modified", "Accept-Ranges", "Content-Type"] {
        assert_eq!(answer.header(name), plain.header(name));
    }
}

#[test]
fn a_head_is_answered_as_the_get_without_its_body() {
    let server = site(WITH_ERROR, &["GetObject", "ListBucket"]);
    server.put("/b/index.html", b"root");
    let head = server.browse("HEAD", "/").send();
    head.is_bare(200);
    assert_eq!(head.header("Content-Length"), Some("4"));
    let absent = server.browse("HEAD", "/absent").send();
    absent.is_bare(404);
    assert_eq!(absent.header("p-error-code"), Some("NoSuchKey"));
    server.put("/b/error.html", b"sorry, no page");
    let absent = server.browse("HEAD", "/absent").send();
    absent.is_bare(404);
    assert_eq!(absent.header("Content-Length"), Some("14"));
}

#[test]
fn conditions_and_ranges_hold_as_on_the_s3_endpoint() {
    let server = site(WITH_ERROR, &["GetObject", "ListBucket"]);
    let etag = server.put("/b/index.html", b"0123456789").header("ETag").unwrap().to_owned();
    server.put("/b/error.html", b"error document");
    let fresh = server.browse("GET", "/").header("If-None-Match", &etag).send();
    assert_eq!((fresh.status, fresh.text(), fresh.header("ETag")), (304, "", Some(etag.as_str())));
    let part = server.browse("GET", "/").header("Range", "bytes=2-4").send();
    assert_eq!((part.status, part.text(), part.header("Content-Range")), (206, "234", Some("bytes 2-4/10")));
    let beyond = server.browse("GET", "/").header("Range", "bytes=10-").send();
    assert_eq!((beyond.status, beyond.text()), (416, "error document"));
    let other = server.browse("GET", "/").header("If-Match", "\"other\"").send();
    assert_eq!((other.status, other.text()), (412, "error document"));
    // They are not those of the error document.
    let absent = server.browse("GET", "/absent").header("Range", "bytes=0-1").header("If-Match", "*").send();
    assert_eq!((absent.status, absent.text()), (404, "error document"));
}

#[test]
fn a_large_object_is_streamed() {
    let server = site(INDEX, &["GetObject"]);
    let body = pattern(700_000);
    server.put("/b/film", &body);
    let answer = server.visit("/film");
    assert_eq!((answer.status, answer.cut), (200, false));
    assert!(answer.body == body);
}

#[test]
fn a_folder_without_its_slash_is_redirected_to_it_if_it_has_an_index() {
    for actions in [&["GetObject"][..], &["GetObject", "ListBucket"]] {
        let server = site(WITH_ERROR, actions);
        server.put("/b/docs/a%20b/index.html", b"docs");
        server.put("/b/empty/other.html", b"x");
        server.visit("/docs/a%20b?x=1").is_redirect(302, "/docs/a%20b/");
        assert_eq!(server.visit("/docs/a%20b/").text(), "docs");
        assert!(server.visit("/empty").status >= 403);
        server.put("/b/docs/a%20b", b"the object itself");
        assert_eq!(server.visit("/docs/a%20b").text(), "the object itself");
        server.put("/b//evil.example/index.html", b"x");
        server.visit("//evil.example").is_redirect(302, "/%2Fevil.example/");
        assert_eq!(server.visit("/%2Fevil.example/").text(), "x");
    }
    let server = site(INDEX, &[]);
    server.put("/b/docs/index.html", b"docs");
    server.visit("/docs").is_page(403, "AccessDenied");
}

#[test]
fn hosts_below_the_domain_are_websites_and_no_others() {
    let server = site(INDEX, &["GetObject"]);
    server.put("/b/index.html", b"page");
    for host in ["b.web.example", "B.Web.Example:9000"] {
        assert_eq!(server.browse("GET", "/").host(host).send().text(), "page", "{host}");
    }
    for host in ["web.example", "web.example.org", "localhost:9000"] {
        server.browse("GET", "/").host(host).send().is_error(403, "AccessDenied");
    }
    let of_s3 = server.browse("GET", "/index.html").host("b.s3.example").send();
    assert_eq!(of_s3.text(), "page");
    server.browse("GET", "/absent").host("b.s3.example").send().is_error(403, "AccessDenied");
}

#[test]
fn the_pages_of_the_server_are_keys_on_websites() {
    let server = site(INDEX, &["GetObject", "ListBucket"]);
    server.visit("/-/health").is_page(404, "NoSuchKey");
    server.put("/b/-/health", b"a key");
    assert_eq!(server.visit("/-/health").text(), "a key");
}

#[test]
fn the_newest_version_is_served_and_a_deleted_one_is_not() {
    let server = site(INDEX, &["GetObject", "ListBucket", "GetObjectVersion"]);
    server.set_versioning("Enabled");
    let first = server.put("/b/k", b"one").header("p-version-id").unwrap().to_owned();
    server.put("/b/k", b"two");
    assert_eq!(server.visit(&format!("/k?versionId={first}")).text(), "two");
    assert_eq!(server.delete("/b/k").status, 204);
    let gone = server.visit("/k");
    gone.is_page(404, "NoSuchKey");
    assert_eq!(gone.header("p-delete-marker"), Some("true"));
}
