//! PostObject: forms that are accepted.

use siltstone::base::digest::{Md5, to_hex};

use super::*;
use crate::support::form::{Form, FormVersion};

fn etag(bytes: &[u8]) -> String {
    format!("\"{}\"", to_hex(&Md5::of(bytes)))
}

fn vendor(suffix: &str) -> String {
    format!("{}{suffix}", usual_dialect().header_prefix())
}

#[test]
fn a_form_puts_its_file() {
    let server = Server::new();
    let answer = server.post(Form::new(&[("key", "dir/k")], b"123456789"));
    assert_eq!((answer.status, answer.body.len()), (204, 0), "{answer:?}");
    assert_eq!(answer.header("ETag"), Some(&*etag(b"123456789")));
    assert_eq!(answer.header("Location"), Some("http://localhost:9000/b/dir%2Fk"));
    assert_eq!(answer.header_names().collect::<Vec<_>>(), ["ETag", "Location", "x-request-id"]);
    assert_eq!(server.get("/b/dir/k").text(), "123456789");
}

#[test]
fn files_of_every_size_come_back_as_they_went_in() {
    let server = Server::new();
    for size in [0, 1, 16_384, 32_767, 32_768, 65_537, 262_145, 1_500_000] {
        let mut file = pattern(size);
        file.extend(b"\r\n--\r\n----form-of-the-test\r\n");
        for chunked in [false, true] {
            let form = Form::new(&[("key", "k")], &file);
            let version = FormVersion::V4 { prefix: usual_dialect().header_prefix() };
            let mut request = server.request("POST", "/b").form(&form.signed(&signer("owner"), version));
            if chunked {
                request = request.chunked();
            }
            let answer = request.send();
            assert_eq!((answer.status, answer.header("ETag")), (204, Some(&*etag(&file))), "{size}");
            assert!(server.get("/b/k").body == file, "{size}");
        }
    }
}

#[test]
fn fields_are_the_headers_of_the_object() {
    let server = Server::new();
    let tagging = "<Tagging><TagSet><Tag><Key>a</Key><Value>b c</Value></Tag></TagSet></Tagging>";
    let meta = vendor("meta-mood");
    let storage = vendor("storage-class");
    let crc = vendor("checksum-crc32");
    let fields = [
        ("KEY", "k"),
        ("Content-Type", "text/plain"),
        ("Cache-Control", "no-store"),
        ("Content-Disposition", "attachment; filename=\"x\""),
        ("Content-Encoding", "gzip"),
        ("Expires", "never"),
        ("acl", "private"),
        ("tagging", tagging),
        (&*meta, "grün"),
        (&*storage, "STANDARD"),
        (&*crc, "y/Q5Jg=="),
        ("x-ignore-this", "x"),
    ];
    let answer = server.post(Form::new(&fields, b"123456789"));
    assert_eq!((answer.status, answer.header("p-checksum-crc32")), (204, Some("y/Q5Jg==")), "{answer:?}");
    let head = server.request("HEAD", "/b/k").header("p-checksum-mode", "ENABLED").send();
    let names = [
        "Content-Type",
        "Cache-Control",
        "Content-Disposition",
        "Content-Encoding",
        "Expires",
        "p-tagging-count",
        "p-meta-mood",
        "p-checksum-crc32",
    ];
    let word = "=?UTF-8?B?Z3LDvG4=?=";
    let expected =
        ["text/plain", "no-store", "attachment; filename=\"x\"", "gzip", "never", "1", word, "y/Q5Jg=="];
    assert_eq!(names.map(|name| head.header(name)), expected.map(Some));
    assert_eq!(server.get("/b/k?tagging").all("Value"), ["b c"]);
}

#[test]
fn headers_of_the_request_are_not_those_of_the_object() {
    let server = Server::new();
    let version = FormVersion::V4 { prefix: usual_dialect().header_prefix() };
    let form = Form::new(&[("key", "k")], b"x").signed(&signer("owner"), version);
    let request = server.request("POST", "/b").form(&form);
    let sent =
        [("p-meta-a", "1"), ("Cache-Control", "no-cache"), ("p-tagging", "a=b"), ("If-Match", "\"x\"")];
    let request = sent.iter().fold(request, |request, (name, value)| request.header(name, value));
    assert_eq!(request.send().status, 204);
    let head = server.head("/b/k");
    assert_eq!(["p-meta-a", "Cache-Control", "p-tagging-count"].map(|name| head.header(name)), [None; 3]);
    assert_eq!(head.header("Content-Type"), Some("binary/octet-stream"));
}

#[test]
fn the_file_names_the_object_where_the_key_says_so() {
    let server = Server::new();
    let form = Form::new(&[("key", "up/${filename}")], b"x").named(Some("C:\\dir\\ä b.txt"));
    assert_eq!(server.post(form.condition("[\"starts-with\", \"$key\", \"up/ä\"]")).status, 204);
    assert_eq!(server.get(&format!("/b/up/{}", encoded("ä b.txt"))).text(), "x");
}

#[test]
fn the_form_chooses_the_answer() {
    let server = Server::new();
    let post = |name: &str, value: &str| server.post(Form::new(&[("key", "a b/k"), (name, value)], b"x"));
    for (status, expected) in [("200", 200), ("204", 204), ("404", 204), ("", 204)] {
        let answer = post("success_action_status", status);
        assert_eq!((answer.status, answer.body.len()), (expected, 0), "{status}");
        assert_eq!(answer.header("Location"), Some("http://localhost:9000/b/a%20b%2Fk"));
    }
    let answer = post("success_action_status", "201");
    assert_eq!((answer.status, answer.header("Content-Type")), (201, Some("application/xml")));
    assert_eq!(answer.outline(), ["PostResponse", "Location", "Bucket", "Key", "ETag"]);
    assert!(!answer.text().contains("xmlns"), "as S3 answers");
    let told = ["Location", "Bucket", "Key", "ETag"].map(|name| answer.one(name).unwrap());
    assert_eq!(told, ["http://localhost:9000/b/a%20b%2Fk", "b", "a b/k", &etag(b"x")].map(str::to_owned));
    assert_eq!(answer.header("Location"), Some(&*told[0]));
}

#[test]
fn the_form_chooses_the_next_page() {
    let server = Server::new();
    let result = format!("bucket=b&key=a+b%2Fk&etag=%22{}%22", to_hex(&Md5::of(b"x")));
    for name in ["success_action_redirect", "redirect"] {
        for (url, expected) in [
            ("http://example.com/done", format!("http://example.com/done?{result}")),
            ("HTTPS://example.com", format!("HTTPS://example.com?{result}")),
            ("http://[::1]:1/?a=b c#top", format!("http://[::1]:1/?a=b c&{result}#top")),
            ("http://example.com/ü", format!("http://example.com/%C3%BC?{result}")),
        ] {
            let fields = [("key", "a b/k"), (name, url), ("success_action_status", "201")];
            let answer = server.post(Form::new(&fields, b"x"));
            assert_eq!((answer.status, answer.header("Location")), (303, Some(&*expected)), "{answer:?}");
            assert!(answer.body.is_empty());
        }
    }
    for url in [
        "/relative",
        "ftp://example.com",
        "javascript:alert(1)",
        "http://",
        "http:///x",
        "http://x/\r\nEvil: 1",
    ] {
        let answer = server.post(Form::new(&[("key", "k"), ("success_action_redirect", url)], b"x"));
        assert_eq!((answer.status, answer.header("Evil")), (204, None), "{url}");
    }
}

#[test]
fn a_host_names_the_bucket_of_a_form() {
    let server = Server::new();
    let version = FormVersion::V4 { prefix: usual_dialect().header_prefix() };
    let form = Form::new(&[("key", "k")], b"x").condition("{\"bucket\": \"b\"}");
    let form = form.signed(&signer("owner"), version);
    for (path, host, location) in
        [("/", "b.s3.example", "http://b.s3.example/k"), ("/b/", "s3.example", "http://s3.example/b/k")]
    {
        let answer = server.request("POST", path).host(host).form(&form).send();
        assert_eq!((answer.status, answer.header("Location")), (204, Some(location)), "{answer:?}");
    }
}

#[test]
fn version_2_signs_forms_too_and_its_answers_are_of_the_aws_dialect() {
    let server = Server::new();
    let form = Form::new(&[("key", "k"), ("x-amz-meta-a", "1")], b"x");
    let form = form.signed(&signer("owner"), FormVersion::V2);
    let answer = server.request("POST", "/b").aws().form(&form).send();
    assert_eq!(answer.status, 204, "{answer:?}");
    assert!(answer.header("x-amz-request-id").is_some());
    assert_eq!(server.request("HEAD", "/b/k").aws().send().header("x-amz-meta-a"), Some("1"));
}

#[test]
fn the_fields_of_a_form_tell_its_dialect() {
    let server = Server::new();
    for dialect in Dialect::ALL {
        let prefix = dialect.header_prefix();
        let form = Form::new(&[("key", "k"), (&format!("{prefix}meta-a"), prefix)], b"x");
        let form = form.signed(&signer("owner"), FormVersion::V4 { prefix });
        assert_eq!(server.request("POST", "/b").dialect(dialect).form(&form).send().status, 204);
        let head = server.request("HEAD", "/b/k").dialect(dialect).send();
        assert_eq!(head.header("p-meta-a"), Some(prefix));
    }
    let mixed = Form::new(&[("key", "k"), ("x-svc-meta-a", "1"), ("x-amz-meta-a", "1")], b"x");
    server.request("POST", "/b").form(&mixed).send().is_error(400, "InvalidRequest");
}

#[test]
fn a_form_makes_versions_as_a_put_does() {
    let server = Server::new();
    server.set_versioning("Enabled");
    let first = server.post(Form::new(&[("key", "k")], b"1"));
    let second = server.post(Form::new(&[("key", "k")], b"2"));
    let id = first.header("p-version-id").unwrap();
    assert_ne!(Some(id), second.header("p-version-id"));
    assert_eq!(server.get(&format!("/b/k?versionId={id}")).text(), "1");
    assert_eq!(server.get("/b/k").text(), "2");
}

#[test]
fn an_anonymous_form_is_a_put_of_the_anonymous_user() {
    let server = Server::with_grants(&[("anonymous", &["PutObject"], &["b/in/*"])]);
    let post = |key: &str| server.request("POST", "/b").form(&Form::new(&[("key", key)], b"x")).send();
    assert_eq!(post("in/${filename}").status, 204);
    assert_eq!(server.get("/b/in/name.txt").text(), "x");
    post("out").is_error(403, "AccessDenied");
    let tagging = "<Tagging><TagSet><Tag><Key>a</Key><Value>b</Value></Tag></TagSet></Tagging>";
    let tagged = Form::new(&[("key", "in/tagged"), ("tagging", tagging)], b"x");
    server.request("POST", "/b").form(&tagged).send().is_error(403, "AccessDenied");
    assert_eq!(server.head("/b/in/tagged").status, 404);
}

#[test]
fn the_acl_of_a_form_is_that_of_its_object() {
    let server = Server::new();
    let ownership =
        "<OwnershipControls><Rule><ObjectOwnership>ObjectWriter</ObjectOwnership></Rule></OwnershipControls>";
    let set = server.request("PUT", "/b?ownershipControls").body(ownership.as_bytes()).send();
    assert_eq!(set.status, 200, "{set:?}");
    for (acl, status) in [("public-read", 200), ("private", 403)] {
        assert_eq!(server.post(Form::new(&[("key", "k"), ("acl", acl)], b"x")).status, 204);
        assert_eq!(server.request("GET", "/b/k").anonymous().send().status, status, "{acl}");
    }
}

#[test]
fn a_bucket_policy_decides_about_the_key_and_the_tags_of_a_form() {
    let server = Server::new();
    let policy = r#"{"Version": "2012-10-17", "Statement": [
        {"Effect": "Allow", "Principal": "*", "Action": ["s3:PutObject", "s3:PutObjectTagging"],
         "Resource": "arn:aws:s3:::b/in/*", "Condition": {"StringEquals": {"s3:RequestObjectTag/a": "b"}}}]}"#;
    assert_eq!(server.request("PUT", "/b?policy").body(policy.as_bytes()).send().status, 204);
    let post = |key: &str, value: &str| {
        let tagging =
            format!("<Tagging><TagSet><Tag><Key>a</Key><Value>{value}</Value></Tag></TagSet></Tagging>");
        let form = Form::new(&[("key", key), ("tagging", &tagging)], b"x");
        server.request("POST", "/b").form(&form).send().status
    };
    assert_eq!((post("in/${filename}", "b"), post("in/k", "c"), post("out/k", "b")), (204, 403, 403));
    assert_eq!(server.get("/b/in/name.txt?tagging").all("Value"), ["b"]);
}
