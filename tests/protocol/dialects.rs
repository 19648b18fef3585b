//! Two spellings of one protocol.

use siltstone::s3::Dialect;
use siltstone::service::ServiceSettings;

use super::*;

#[test]
fn objects_stored_in_one_dialect_are_read_in_the_other() {
    for (writes, reads) in [(Dialect::Svc, Dialect::Aws), (Dialect::Aws, Dialect::Svc)] {
        let server = Server::new();
        let put = server.request("PUT", "/b/k").dialect(writes).header("p-meta-name", "value");
        put.header("p-checksum-crc32", "y/Q5Jg==").body(b"123456789").send();
        let get = server.request("GET", "/b/k").dialect(reads).header("p-checksum-mode", "ENABLED").send();
        assert_eq!(get.text(), "123456789");
        let prefix = reads.header_prefix();
        assert_eq!(get.header(&format!("{prefix}meta-name")), Some("value"));
        assert_eq!(get.header(&format!("{prefix}checksum-crc32")), Some("y/Q5Jg=="));
    }
}

#[test]
fn answers_are_the_same_but_for_the_prefix() {
    let server = Server::new();
    server.set_versioning("Enabled");
    server.put("/b/k", b"x");
    for target in ["/b/k", "/b/absent", "/b?list-type=2", "/b?versioning", "/", "/b/k?versionId=x", "/b?acl"]
    {
        let [svc, aws] = Dialect::ALL.map(|dialect| server.request("GET", target).dialect(dialect).send());
        assert_eq!(svc.status, aws.status);
        let names = |answer: &Answer, prefix: &str| {
            let names = answer.header_names();
            names.map(|name| name.replace(prefix, "p-")).collect::<Vec<_>>()
        };
        assert_eq!(names(&svc, "x-svc-"), names(&aws, "x-amz-"), "{target}");
        assert!(svc.header_names().all(|name| !name.starts_with("x-amz-")));
        assert!(aws.header_names().all(|name| !name.starts_with("x-svc-")));
    }
}

#[test]
fn the_request_id_is_in_every_answer_and_differs() {
    let server = Server::new();
    let ids = ["/", "/b", "/b/absent", "/-/health", "/b/%zz"].map(|target| {
        let answer = server.request("GET", target).anonymous().send();
        answer.header("x-request-id").unwrap().to_owned()
    });
    assert_eq!(ids.iter().collect::<std::collections::BTreeSet<_>>().len(), ids.len());
    let aws = server.request("GET", "/b").aws().send();
    assert_eq!(aws.header("x-amz-request-id"), aws.header("x-request-id"));
}

#[test]
fn a_mixture_of_dialects_is_refused() {
    let server = Server::new();
    server
        .request("GET", "/b")
        .dialect(Dialect::Svc)
        .header("x-amz-meta-a", "1")
        .send()
        .is_error(400, "InvalidRequest");
    server.request("GET", "/b?X-Svc-Date=1").aws().send().is_error(400, "InvalidRequest");
    assert_eq!(server.request("GET", "/b").header("amz-sdk-request", "attempt=1").send().status, 200);
}

#[test]
fn a_request_without_vendor_names_gets_the_default_dialect() {
    for dialect in Dialect::ALL {
        let settings = ServiceSettings { default_dialect: dialect, ..ServiceSettings::default() };
        let server = Server::with_settings(settings);
        let answer = server.request("GET", "/b").anonymous().send();
        answer.is_error(403, "AccessDenied");
        assert_eq!(answer.header("x-amz-request-id").is_some(), dialect == Dialect::Aws);
    }
}

#[test]
fn a_header_with_one_value_on_several_lines_is_refused_in_both_dialects() {
    for dialect in Dialect::ALL {
        let server = Server::new();
        server.put("/b/a", b"of the first line");
        server.put("/b/a,b", b"what was signed");
        let put = |lines: &[(&str, &str)]| {
            let asked = server.request("PUT", "/b/k").dialect(dialect);
            lines.iter().fold(asked, |asked, (name, value)| asked.header(name, value)).send()
        };
        // One line and two sign alike.
        assert_eq!(put(&[("p-copy-source", "b/a,b")]).status, 200);
        let split = put(&[("p-copy-source", "b/a"), ("p-copy-source", "b")]);
        split.is_error(400, "InvalidRequest");
        assert!(split.one("Header").is_some_and(|name| name.ends_with("-copy-source")));
        assert_eq!(server.get("/b/k").text(), "what was signed");
        for name in ["p-acl", "p-storage-class", "p-tagging", "p-unknown", "p-checksum-crc32"] {
            put(&[(name, "v"), (name, "v")]).is_error(400, "InvalidRequest");
        }
        assert_eq!(put(&[("p-meta-a", "1"), ("p-meta-a", "2")]).status, 200);
        let head = server.request("HEAD", "/b/k").dialect(dialect).send();
        assert_eq!(head.header("p-meta-a"), Some("1,2"), "metadata on several lines is a list");
        let attributes = server.request("GET", "/b/k?attributes").dialect(dialect);
        let attributes = attributes
            .header("p-object-attributes", "ETag")
            .header("p-object-attributes", "ObjectSize")
            .send();
        assert!(attributes.one("ETag").is_some() && attributes.one("ObjectSize").is_some());
    }
}

#[test]
fn conditions_on_several_lines_are_one_list() {
    let server = Server::new();
    let etag = server.put("/b/k", b"x").header("ETag").unwrap().to_owned();
    let ask = |method: &str, name: &str| {
        server.request(method, "/b/k").header(name, "\"x\"").header(name, &etag).send().status
    };
    assert_eq!((ask("GET", "If-None-Match"), ask("PUT", "If-None-Match")), (304, 412));
    assert_eq!((ask("GET", "If-Match"), ask("PUT", "If-Match")), (200, 200));
}
