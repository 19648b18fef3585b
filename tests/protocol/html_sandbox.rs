//! Stored documents that browsers open without a signature.

use siltstone::service::{HtmlSandbox, ServiceSettings};

use super::*;

const HTML: &str = "text/html; charset=utf-8";

fn confinement(answer: &Answer) -> (Option<&str>, Option<&str>) {
    (answer.header("X-Content-Type-Options"), answer.header("Content-Security-Policy"))
}

fn open_server() -> Server {
    Server::with_grants(&[(
        "anonymous",
        &["GetObject", "GetObjectVersion", "GetObjectTagging", "ListBucket"],
        &["*"],
    )])
}

fn put(server: &Server, target: &str, content_type: &str) {
    let asked = server.request("PUT", target).header("Content-Type", content_type).body(b"<script></script>");
    assert_eq!(asked.send().status, 200);
}

#[test]
fn documents_that_are_read_without_a_signature_run_no_scripts() {
    for dialect in Dialect::ALL {
        let server = open_server();
        for (key, content_type, policy) in [
            ("page", HTML, Some("sandbox")),
            ("drawing", "image/svg+xml", Some("sandbox")),
            ("feed", "application/atom+xml", Some("sandbox")),
            ("photo", "image/jpeg", None),
            ("paper", "application/pdf", None),
        ] {
            let target = format!("/b/{key}");
            put(&server, &target, content_type);
            for method in ["GET", "HEAD"] {
                let answer = server.request(method, &target).dialect(dialect).anonymous().send();
                assert_eq!((answer.status, answer.header("Content-Type")), (200, Some(content_type)));
                assert_eq!(confinement(&answer), (Some("nosniff"), policy), "{method} {target}");
            }
        }
        let version = server.request("GET", "/b/page?versionId=null").dialect(dialect).anonymous().send();
        assert_eq!(confinement(&version), (Some("nosniff"), Some("sandbox")));
        let part = server.request("GET", "/b/page").anonymous().header("Range", "bytes=0-3").send();
        assert_eq!((part.status, confinement(&part)), (206, (Some("nosniff"), Some("sandbox"))));
        let at_host = server.request("GET", "/page").host("b.s3.example").anonymous().send();
        assert_eq!(confinement(&at_host), (Some("nosniff"), Some("sandbox")));
    }
}

#[test]
fn signed_requests_and_other_answers_are_not_confined() {
    for dialect in Dialect::ALL {
        let server = open_server();
        put(&server, "/b/page", HTML);
        let signed = server.request("GET", "/b/page").dialect(dialect).send();
        let presigned = server.request("GET", "/b/page").dialect(dialect).presigned(&[]).send();
        let listing = server.request("GET", "/b").dialect(dialect).anonymous().send();
        let tags = server.request("GET", "/b/page?tagging").dialect(dialect).anonymous().send();
        for answer in [signed, presigned, listing, tags] {
            assert_eq!((answer.status, confinement(&answer)), (200, (None, None)), "{answer:?}");
        }
    }
}

#[test]
fn websites_run_their_scripts() {
    let server = open_server();
    put(&server, "/b/index.html", HTML);
    let website = "<WebsiteConfiguration><IndexDocument><Suffix>index.html</Suffix></IndexDocument></WebsiteConfiguration>";
    assert_eq!(server.request("PUT", "/b?website").body(website.as_bytes()).send().status, 200);
    let answer = server.request("GET", "/").host("b.web.example").anonymous().send();
    assert_eq!((answer.status, confinement(&answer)), (200, (None, None)), "{answer:?}");
}

#[test]
fn the_sandbox_can_be_turned_off() {
    let settings = ServiceSettings {
        default_dialect: usual_dialect(),
        html_sandbox: HtmlSandbox::Off,
        ..ServiceSettings::default()
    };
    let server = Server::with_settings_for_everybody(settings);
    put(&server, "/b/page", HTML);
    let answer = server.request("GET", "/b/page").anonymous().send();
    assert_eq!((answer.status, confinement(&answer)), (200, (None, None)));
}
