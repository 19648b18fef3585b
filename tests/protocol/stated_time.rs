//! Modification times that an importer states.

use super::*;

const STATED: &str = "p-siltstone-modified";
const THEN: &str = "2019-05-06T07:08:09.123Z";
const THEN_HTTP: &str = "Mon, 06 May 2019 07:08:09 GMT";

/// A server whose user `importer` may put and state times, and whose user `writer` may put alone.
fn server() -> Server {
    Server::with_grants(&[
        ("importer", &["PutObject"], &["b/*"]),
        ("importer", &["PutObjectStatedTime"], &["*"]),
        ("writer", &["*"], &["b", "b/*", "@owned"]),
    ])
}

fn put(server: &Server, user: &str, time: &str) -> Answer {
    server.request("PUT", "/b/k").by(user).header(STATED, time).body(b"abc").send()
}

fn modified(server: &Server, target: &str) -> String {
    server.head(target).header("Last-Modified").unwrap().to_owned()
}

#[test]
fn a_stated_time_is_shown_wherever_clients_look() {
    let server = server();
    server.set_versioning("Enabled");
    assert_eq!(put(&server, "importer", THEN).status, 200);
    assert_eq!(modified(&server, "/b/k"), THEN_HTTP);
    assert_eq!(server.get("/b/k").header("Last-Modified"), Some(THEN_HTTP));
    let attributes = server.request("GET", "/b/k?attributes").header("p-object-attributes", "ETag").send();
    assert_eq!(attributes.header("Last-Modified"), Some(THEN_HTTP));
    for listing in ["/b", "/b?list-type=2", "/b?versions"] {
        assert_eq!(server.get(listing).all("LastModified"), [THEN], "{listing}");
    }
    assert_eq!(server.get("/b?versions").all("Stored"), ["2026-01-31T12:00:00.250Z"]);
    // Conditions compare the time that clients know.
    let asked = |name: &str, time: &str| server.request("GET", "/b/k").header(name, time).send().status;
    assert_eq!(asked("If-Modified-Since", THEN_HTTP), 304);
    assert_eq!(asked("If-Unmodified-Since", THEN_HTTP), 200);
    let deleted = server.request("DELETE", "/b/k").header("p-if-match-last-modified-time", THEN_HTTP);
    assert_eq!(deleted.send().status, 204);
    assert_eq!(server.get("/b?versions").all("Stored").len(), 1, "a delete marker has no other time");
}

#[test]
fn copies_and_completions_state_times_too_and_a_copy_inherits_none() {
    let server = server();
    put(&server, "importer", THEN);
    let copy = |to: &str| server.request("PUT", to).header("p-copy-source", "/b/k");
    assert_eq!(copy("/b/plain").send().status, 200);
    assert_eq!(modified(&server, "/b/plain"), NOW_HTTP);
    let stated = copy("/b/copy").header(STATED, THEN_HTTP).send();
    assert_eq!(stated.one("LastModified").as_deref(), Some("2019-05-06T07:08:09.000Z"));
    assert_eq!(modified(&server, "/b/copy"), THEN_HTTP);

    let begun = server.request("POST", "/b/parts?uploads").send();
    let target = format!("/b/parts?uploadId={}", begun.one("UploadId").unwrap());
    let part = server.request("PUT", &format!("{target}&partNumber=1")).body(b"abc").send();
    let etag = part.header("ETag").unwrap().replace('"', "&quot;");
    let list = format!("<Part><PartNumber>1</PartNumber><ETag>{etag}</ETag></Part>");
    let list = format!("<CompleteMultipartUpload>{list}</CompleteMultipartUpload>");
    let complete = |user: &str| {
        server.request("POST", &target).by(user).header(STATED, THEN).body(list.as_bytes()).send()
    };
    complete("writer").is_error(403, "AccessDenied");
    assert_eq!(complete("importer").status, 200);
    assert_eq!(modified(&server, "/b/parts"), THEN_HTTP);
}

#[test]
fn lifecycle_rules_count_from_the_arrival() {
    let server = server();
    let rule = "<LifecycleConfiguration><Rule><ID>a</ID><Status>Enabled</Status><Filter/>\
        <Expiration><Days>3</Days></Expiration></Rule></LifecycleConfiguration>";
    assert_eq!(
        server
            .request("PUT", "/b?lifecycle")
            .header("Content-MD5", delete::content_md5(rule))
            .body(rule.as_bytes())
            .send()
            .status,
        200
    );
    assert_eq!(put(&server, "importer", THEN).status, 200);
    let expiration = server.head("/b/k").header("p-expiration").unwrap().to_owned();
    assert!(expiration.contains("04 Feb 2026"), "{expiration}");
}

#[test]
fn only_those_with_the_action_state_a_time_and_only_where_it_is_of_use() {
    let server = server();
    put(&server, "writer", THEN).is_error(403, "AccessDenied");
    server.request("PUT", "/b/k").anonymous().header(STATED, THEN).send().is_error(403, "AccessDenied");
    let policy = r#"{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Principal":"*",
        "Action":"s3:*","Resource":["arn:aws:s3:::b","arn:aws:s3:::b/*"]}]}"#;
    assert_eq!(server.request("PUT", "/b?policy").body(policy.as_bytes()).send().status, 204);
    put(&server, "writer", THEN).is_error(403, "AccessDenied");
    server.get("/b/k").is_error(404, "NoSuchKey");
    for bad in ["yesterday", "1969-12-31T23:59:59Z", "2019-05-06", ""] {
        put(&server, "importer", bad).is_error(400, "InvalidArgument");
    }
    for (method, target) in
        [("GET", "/b"), ("POST", "/b/k?uploads"), ("PUT", "/b/k?tagging"), ("DELETE", "/b/k")]
    {
        server.request(method, target).header(STATED, THEN).send().is_error(400, "InvalidRequest");
    }
    // No version was modified after it came.
    assert_eq!(put(&server, "importer", "2031-01-01T00:00:00Z").status, 200);
    assert_eq!(modified(&server, "/b/k"), NOW_HTTP);
}
