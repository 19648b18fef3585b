//! Requests that websites cannot answer, and the documents that are sent then.

use super::*;

#[test]
fn a_key_that_is_not_there_is_404_only_for_those_who_may_list() {
    for (actions, absent, present) in [
        (&["GetObject", "ListBucket"][..], (404, "NoSuchKey"), 200),
        (&["GetObject"], (403, "AccessDenied"), 200),
        (&["ListBucket"], (403, "AccessDenied"), 403),
        (&[], (403, "AccessDenied"), 403),
    ] {
        let server = site(INDEX, actions);
        server.put("/b/k", b"x");
        server.visit("/absent").is_page(absent.0, absent.1);
        server.visit("/").is_page(absent.0, absent.1);
        assert_eq!(server.visit("/k").status, present, "{actions:?}");
    }
    let server = site(INDEX, &["GetObject", "ListBucket"]);
    assert!(server.visit("/a/b").text().contains("<li>Key: a/b</li>"));
    assert!(server.visit("/a/").text().contains("<li>Key: a/index.html</li>"));
}

#[test]
fn the_error_document_is_sent_with_the_status_of_the_error() {
    for (actions, status, code) in
        [(&["GetObject", "ListBucket"][..], 404, "NoSuchKey"), (&["GetObject"], 403, "AccessDenied")]
    {
        let server = site(WITH_ERROR, actions);
        let put = server.request("PUT", "/b/error.html").header("Content-Type", "text/html");
        assert_eq!(put.body(b"<h1>sorry</h1>").send().status, 200);
        for target in ["/", "/absent", "/a/b/"] {
            let answer = server.visit(target);
            assert_eq!((answer.status, answer.text()), (status, "<h1>sorry</h1>"), "{target}");
            assert_eq!(answer.header("Content-Type"), Some("text/html"));
            assert_eq!(answer.header("p-error-code"), Some(code));
        }
        assert_eq!(server.visit("/error.html").status, 200);
    }
}

#[test]
fn an_application_is_its_own_error_document() {
    let server = site(&WITH_ERROR.replace("error.html", "index.html"), &["GetObject"]);
    server.put("/b/index.html", b"the application");
    for (target, status) in [("/", 200), ("/users/7", 403)] {
        let answer = server.visit(target);
        assert_eq!((answer.status, answer.text()), (status, "the application"));
    }
}

#[test]
fn the_error_of_the_error_document_is_shown_beside_that_of_the_request() {
    let second = "<h3>An Error Occurred While Attempting to Retrieve a Custom Error Document</h3>";
    let server = site(WITH_ERROR, &["GetObject", "ListBucket"]);
    let answer = server.visit("/absent");
    answer.is_page(404, "NoSuchKey");
    let (first, document) = answer.text().split_once(second).unwrap();
    assert!(
        first.contains("<li>Key: absent</li>") && document.contains("<li>Key: error.html</li>"),
        "{answer:?}"
    );

    let server = Server::with_grants(&[("anonymous", &["GetObject", "ListBucket"], &["b", "b/public/*"])]);
    server.set_website(WITH_ERROR);
    server.put("/b/error.html", b"not for all");
    let answer = server.visit("/public/absent");
    answer.is_page(404, "NoSuchKey");
    assert!(
        answer.text().split_once(second).unwrap().1.contains("<li>Code: AccessDenied</li>"),
        "{answer:?}"
    );
}

#[test]
fn buckets_without_a_website_say_so() {
    let server = Server::with_grants(&[("anonymous", &["*"], &["*"])]);
    server.put("/b/index.html", b"x");
    let answer = server.visit("/");
    answer.is_page(404, "NoSuchWebsiteConfiguration");
    assert!(answer.text().contains("<li>BucketName: b</li>"));
    let absent = server.browse("GET", "/").host("absent.web.example").send();
    absent.is_page(404, "NoSuchBucket");
    server.set_website(INDEX);
    assert_eq!(server.visit("/").status, 200);
    assert_eq!(server.delete("/b?website").status, 204);
    server.visit("/").is_page(404, "NoSuchWebsiteConfiguration");
}

#[test]
fn other_methods_are_refused_with_a_page() {
    let server = site(WITH_ERROR, &["*"]);
    server.put("/b/error.html", b"error document");
    for method in ["PUT", "POST", "DELETE", "PATCH", "get"] {
        let answer = server.browse(method, "/k").body(b"x").send();
        answer.is_page(405, "MethodNotAllowed");
        assert_eq!(answer.header("Allow"), Some("GET, HEAD"));
        assert!(answer.text().contains(&format!("<li>Method: {method}</li>")));
    }
    server.get("/b/k").is_error(404, "NoSuchKey");
}

#[test]
fn signed_requests_are_refused() {
    let server = site(INDEX, &["GetObject"]);
    server.put("/b/index.html", b"x");
    let ask = || server.request("GET", "/index.html").host(HOST);
    ask().send().is_page(400, "InvalidRequest");
    ask().presigned(&[("p-expires", "60")]).send().is_page(400, "InvalidRequest");
    for parameter in ["X-Amz-Signature=x", "x-svc-signature=x", "a=b&X%2DAmz%2DSignature"] {
        server.visit(&format!("/index.html?{parameter}")).is_page(400, "InvalidRequest");
    }
    let version_2 = "/index.html?AWSAccessKeyId=AK-owner&Expires=9999999999&Signature=x";
    server.visit(version_2).is_page(400, "InvalidRequest");
    server.browse("GET", "/").header("Authorization", "Basic eDp5").send().is_page(400, "InvalidRequest");
}

#[test]
fn headers_and_parameters_of_the_s3_endpoint_have_no_effect() {
    let server = site(INDEX, &["GetObject", "ListBucket"]);
    server.put("/b/index.html", b"x");
    for target in ["/?website", "/?list-type=2", "/?versionId=x", "/?acl", "/?partNumber=9", "/?%zz=%ff"] {
        assert_eq!(server.visit(target).text(), "x", "{target}");
    }
    let answer = server.browse("GET", "/").header("x-amz-expected-bucket-owner", "other").send();
    assert_eq!(answer.text(), "x");
    assert_eq!(
        server
            .request("PUT", "/b/summed")
            .header("p-checksum-crc32", "y/Q5Jg==")
            .body(b"123456789")
            .send()
            .status,
        200
    );
    let summed = server.browse("GET", "/summed").header("p-checksum-mode", "ENABLED").send();
    assert_eq!((summed.status, summed.header("p-checksum-crc32")), (200, None));
    let both = server.browse("GET", "/").header("x-amz-date", "a").header("x-svc-date", "b").send();
    assert_eq!(both.text(), "x");
}

#[test]
fn no_byte_of_a_request_becomes_markup() {
    let server = site(INDEX, &["GetObject", "ListBucket"]);
    let answer = server.visit("/%3Cscript%3E'%22&%00%0D%0A");
    answer.is_page(404, "NoSuchKey");
    assert!(answer.text().contains("<li>Key: &lt;script&gt;&#39;&quot;&amp;\u{fffd}\r\n</li>"), "{answer:?}");
    for (target, code) in [("/%zz", "InvalidURI"), ("/%ff", "InvalidURI")] {
        server.visit(target).is_page(400, code);
    }
    server.visit(&format!("/{}", "k".repeat(1025))).is_page(400, "KeyTooLongError");
    server.visit(&format!("/{}/", "k".repeat(1020))).is_page(400, "KeyTooLongError");
    server.visit(&format!("/{}", "k".repeat(1024))).is_page(404, "NoSuchKey");
    let host = server.browse("GET", "/").host("<b>.web.example").send();
    assert!(
        !host.text().contains("<b>") || host.header("Content-Type") == Some("application/xml"),
        "{host:?}"
    );
}
