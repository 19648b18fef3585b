//! Every way in which an administrator may try to destroy a version in COMPLIANCE mode by requests,
//! and what backup programs need of object lock beside that. `store::tests::locks` has the tools
//! and the clock, `tests/lifecycle.rs` the lifecycle rules.

use super::*;
use crate::support::form::{Form, FormVersion};

const UNTIL: &str = "2026-03-01T00:00:00.000Z";
const BYPASS: (&str, &str) = ("p-bypass-governance-retention", "true");
const MD5_OF_ABC: &str = "kAFQmDzST7DWlj99KOF/cg==";

/// A server with a bucket `locked`, and the id of a version of `k` in it that is retained in
/// COMPLIANCE mode.
fn server() -> (Server, String) {
    let server = Server::new();
    let made = server.request("PUT", "/locked").header("p-bucket-object-lock-enabled", "true").send();
    assert_eq!(made.status, 200);
    let put = put_retained(&server, "k");
    let id = put.header("p-version-id").unwrap().to_owned();
    (server, id)
}

fn put_retained(server: &Server, key: &str) -> Answer {
    let asked = server.request("PUT", &format!("/locked/{key}")).header("p-object-lock-mode", "COMPLIANCE");
    let asked = asked.header("p-object-lock-retain-until-date", UNTIL).header("Content-MD5", MD5_OF_ABC);
    asked.body(b"abc").send()
}

fn retention(mode: &str, until: &str) -> String {
    format!("<Retention><Mode>{mode}</Mode><RetainUntilDate>{until}</RetainUntilDate></Retention>")
}

/// The version is what it was, and so is its retention.
fn check(server: &Server, id: &str, after: &str) {
    let found = server.get(&format!("/locked/k?versionId={id}"));
    assert_eq!((found.status, found.text()), (200, "abc"), "{after}");
    assert_eq!(found.header("p-object-lock-mode"), Some("COMPLIANCE"), "{after}");
    assert_eq!(found.header("p-object-lock-retain-until-date"), Some(UNTIL), "{after}");
}

/// Requests that name the version or its bucket: each with the headers, the body and the refusal.
type Attempt<'a> = (&'a str, &'a str, &'a [(&'a str, &'a str)], &'a str, (u16, &'a str));

fn refused_attempts(shorter: &[String; 3]) -> Vec<Attempt<'_>> {
    let denied = (403, "AccessDenied");
    let retain = "/locked/k?retention&versionId=ID";
    let mut all: Vec<Attempt<'_>> = vec![
        ("DELETE", "/locked/k?versionId=ID", &[], "", denied),
        ("DELETE", "/locked/k?versionId=ID", &[BYPASS], "", denied),
        ("PUT", retain, &[BYPASS], "<Retention/>", denied),
        ("DELETE", "/locked", &[], "", (409, "BucketNotEmpty")),
        ("DELETE", "/locked?object-lock", &[], "", (501, "NotImplemented")),
        ("DELETE", "/locked?versioning", &[], "", (405, "MethodNotAllowed")),
        (
            "PUT",
            "/locked?versioning",
            &[],
            "<VersioningConfiguration><Status>Suspended</Status></VersioningConfiguration>",
            (409, "InvalidBucketState"),
        ),
    ];
    all.extend(shorter.iter().flat_map(|shorter| {
        let bypassing: Attempt<'_> = ("PUT", retain, &[BYPASS], shorter, denied);
        [bypassing, ("PUT", retain, &[], shorter, denied)]
    }));
    all
}

#[test]
fn no_administrator_destroys_a_version_in_compliance_mode_by_a_request() {
    let (server, id) = server();
    let shorter = [
        retention("COMPLIANCE", "2026-02-28T23:59:59.999Z"),
        retention("GOVERNANCE", UNTIL),
        retention("GOVERNANCE", "2030-01-01T00:00:00Z"),
    ];
    for user in ["owner", "other"] {
        for (method, target, headers, body, (status, code)) in refused_attempts(&shorter) {
            let asked = server.request(method, &target.replace("ID", &id)).by(user).body(body.as_bytes());
            let asked = headers.iter().fold(asked, |asked, (name, value)| asked.header(name, value));
            asked.send().is_error(status, code);
            check(&server, &id, &format!("{method} {target} {body}"));
        }
        let entry = format!("<Object><Key>k</Key><VersionId>{id}</VersionId></Object>");
        let document = format!("<Delete>{}</Delete>", entry.repeat(3));
        let many = server.request("POST", "/locked?delete").by(user).header(BYPASS.0, BYPASS.1);
        let many = many.header("Content-MD5", delete::content_md5(&document)).body(document.as_bytes());
        assert_eq!(many.send().all("Code"), ["AccessDenied"; 3]);
        check(&server, &id, "DeleteObjects");
    }
}

/// What succeeds, and leaves the version alone.
fn harmless_attempts<'a>() -> Vec<Attempt<'a>> {
    let lock =
        "<ObjectLockConfiguration><ObjectLockEnabled>Enabled</ObjectLockEnabled></ObjectLockConfiguration>";
    let expiry = "<LifecycleConfiguration><Rule><ID>r</ID><Status>Enabled</Status><Filter/><Expiration><Days>1</Days>\
                  </Expiration><NoncurrentVersionExpiration><NoncurrentDays>1</NoncurrentDays>\
                  </NoncurrentVersionExpiration></Rule></LifecycleConfiguration>";
    let policy = r#"{"Statement": {"Effect": "Allow", "Principal": "*", "Action": "s3:*", "Resource": "arn:aws:s3:::locked/*"}}"#;
    vec![
        ("PUT", "/locked?object-lock", &[], lock, (200, "")),
        ("PUT", "/locked?lifecycle", &[], expiry, (200, "")),
        ("PUT", "/locked?policy", &[], policy, (204, "")),
        ("PUT", "/locked?quota", &[], r#"{"bytes":1}"#, (200, "")),
        ("DELETE", "/locked?quota", &[], "", (204, "")),
        ("PUT", "/locked/k?tagging&versionId=ID", &[], "<Tagging><TagSet/></Tagging>", (200, "")),
        (
            "PUT",
            "/locked/k?legal-hold&versionId=ID",
            &[],
            "<LegalHold><Status>OFF</Status></LegalHold>",
            (200, ""),
        ),
        ("PUT", "/locked/k", &[], "other", (200, "")),
        (
            "PUT",
            "/locked/k",
            &[("p-copy-source", "/locked/k?versionId=ID"), ("p-metadata-directive", "REPLACE")],
            "",
            (200, ""),
        ),
        ("DELETE", "/locked/k?versionId=null", &[BYPASS], "", (204, "")),
        ("DELETE", "/locked/k", &[BYPASS], "", (204, "")),
    ]
}

#[test]
fn whatever_else_is_done_to_its_key_and_bucket_leaves_it_alone() {
    let (server, id) = server();
    for (method, target, headers, body, (status, _)) in harmless_attempts() {
        let asked = server.request(method, &target.replace("ID", &id)).body(body.as_bytes());
        let asked = asked.header("Content-MD5", delete::content_md5(body));
        let asked =
            headers.iter().fold(asked, |asked, (name, value)| asked.header(name, value.replace("ID", &id)));
        let answer = asked.send();
        assert_eq!(answer.status, status, "{method} {target}: {}", answer.text());
        check(&server, &id, &format!("{method} {target}"));
    }
    let version = FormVersion::V4 { prefix: usual_dialect().header_prefix() };
    let form = Form::new(&[("key", "k")], b"posted").signed(&signer("owner"), version);
    assert_eq!(server.request("POST", "/locked").form(&form).send().status, 204);
    check(&server, &id, "PostObject");
    let upload = server.request("POST", "/locked/k?uploads").send().one("UploadId").unwrap();
    let part = server.put(&format!("/locked/k?partNumber=1&uploadId={upload}"), b"parts");
    let list = format!(
        "<CompleteMultipartUpload><Part><PartNumber>1</PartNumber><ETag>{}</ETag></Part></CompleteMultipartUpload>",
        part.header("ETag").unwrap()
    );
    let done = server.request("POST", &format!("/locked/k?uploadId={upload}")).body(list.as_bytes()).send();
    assert_eq!((done.status, server.get("/locked/k").text()), (200, "parts"));
    check(&server, &id, "CompleteMultipartUpload");
}

#[test]
fn a_locked_null_version_cannot_be_replaced_since_versioning_stays() {
    let server = Server::new();
    server.put("/b/k", b"abc");
    server.set_versioning("Enabled");
    let lock =
        "<ObjectLockConfiguration><ObjectLockEnabled>Enabled</ObjectLockEnabled></ObjectLockConfiguration>";
    let set = |target: &str, body: &str| server.request("PUT", target).body(body.as_bytes()).send();
    assert_eq!(set("/b?object-lock", lock).status, 200, "on an existing bucket with versions");
    assert_eq!(set("/b/k?retention&versionId=null", &retention("COMPLIANCE", UNTIL)).status, 200);
    let suspended = "<VersioningConfiguration><Status>Suspended</Status></VersioningConfiguration>";
    set("/b?versioning", suspended).is_error(409, "InvalidBucketState");
    server.put("/b/k", b"other");
    server.delete("/b/k");
    server.delete("/b/k?versionId=null").is_error(403, "AccessDenied");
    assert_eq!(server.get("/b/k?versionId=null").text(), "abc");
}

#[test]
fn each_put_to_a_locked_bucket_answers_with_a_version_of_its_own() {
    let (server, first) = server();
    let ids: std::collections::BTreeSet<_> =
        (0..3).map(|_| put_retained(&server, "k").header("p-version-id").unwrap().to_owned()).collect();
    assert_eq!(ids.len(), 3);
    assert!(!ids.contains(&first));
    for id in ids.iter().chain([&first]) {
        server.delete(&format!("/locked/k?versionId={id}")).is_error(403, "AccessDenied");
    }
}

#[test]
fn retentions_are_read_with_and_without_a_namespace() {
    let (server, id) = server();
    let target = format!("/locked/k?retention&versionId={id}");
    for (namespace, until) in [
        ("", "2026-04-01T00:00:00.000Z"),
        (" xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\"", "2026-05-01T00:00:00.000Z"),
    ] {
        let document =
            retention("COMPLIANCE", until).replace("<Retention>", &format!("<Retention{namespace}>"));
        assert_eq!(
            server.request("PUT", &target).body(document.as_bytes()).send().status,
            200,
            "{namespace}"
        );
        assert_eq!(server.get(&target).one("RetainUntilDate").as_deref(), Some(until));
    }
}

#[test]
fn of_several_errors_the_bucket_comes_first_then_its_lock_then_the_key_then_the_document() {
    let (server, id) = server();
    server.put("/b/k", b"abc");
    let marker = server.delete("/locked/hidden").header("p-version-id").unwrap().to_owned();
    for (kind, wrong) in [
        ("retention", "<Retention><Mode>COMPLIANCE</Mode></Retention>"),
        ("legal-hold", "<LegalHold><Status>on</Status></LegalHold>"),
    ] {
        let set = |target: String| server.request("PUT", &target).body(wrong.as_bytes()).send();
        set(format!("/absent/k?{kind}")).is_error(404, "NoSuchBucket");
        set(format!("/b/absent?{kind}")).is_error(400, "InvalidRequest");
        set(format!("/locked/absent?{kind}")).is_error(404, "NoSuchKey");
        set(format!("/locked/k?{kind}&versionId={marker}")).is_error(404, "NoSuchVersion");
        set(format!("/locked/hidden?{kind}&versionId={marker}")).is_error(405, "MethodNotAllowed");
        set(format!("/locked/k?{kind}&versionId=x")).is_error(400, "InvalidArgument");
        set(format!("/locked/k?{kind}&versionId={id}")).is_error(400, "MalformedXML");
    }
    let set = |target: &str| server.request("PUT", target).body(b"<ObjectLockConfiguration/>").send();
    set("/absent?object-lock").is_error(404, "NoSuchBucket");
    set("/locked?object-lock").is_error(400, "MalformedXML");
    check(&server, &id, "errors");
}
