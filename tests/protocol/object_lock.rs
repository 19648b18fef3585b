//! Object lock: configurations, retentions, legal holds, and the deletions that they refuse.

use siltstone::auth::Users;

use super::*;
use crate::support::form::{Form, FormVersion};
use crate::support::users::user;

const UNTIL: &str = "2026-03-01T00:00:00.000Z";
/// Of the body `abc`.
const MD5: &str = "kAFQmDzST7DWlj99KOF/cg==";

/// A server with the bucket `locked`, which has object lock.
fn server() -> Server {
    let server = Server::with_grants(&[
        ("writer", &["PutObject", "GetObject", "DeleteObject", "DeleteObjectVersion"], &["locked/*"]),
        ("keeper", &["PutObject", "PutObjectRetention", "DeleteObjectVersion"], &["locked/*"]),
        ("holder", &["PutObject", "PutObjectLegalHold"], &["locked/*"]),
    ]);
    let made = server.request("PUT", "/locked").header("p-bucket-object-lock-enabled", "true").send();
    assert_eq!(made.status, 200);
    server
}

fn configuration(rule: &str) -> String {
    format!(
        "<ObjectLockConfiguration><ObjectLockEnabled>Enabled</ObjectLockEnabled>{rule}</ObjectLockConfiguration>"
    )
}

fn default_retention(inner: &str) -> String {
    configuration(&format!("<Rule><DefaultRetention>{inner}</DefaultRetention></Rule>"))
}

fn retention(mode: &str, until: &str) -> String {
    format!("<Retention><Mode>{mode}</Mode><RetainUntilDate>{until}</RetainUntilDate></Retention>")
}

fn set(server: &Server, target: &str, document: &str) -> Answer {
    server.request("PUT", target).body(document.as_bytes()).send()
}

/// Puts an object with a retention, and returns a request target that names its version.
fn put_retained(server: &Server, mode: &str) -> String {
    let put = server
        .request("PUT", "/locked/k")
        .header("p-object-lock-mode", mode)
        .header("p-object-lock-retain-until-date", UNTIL)
        .header("Content-MD5", MD5)
        .body(b"abc")
        .send();
    assert_eq!(put.status, 200, "{}", put.text());
    format!("/locked/k?versionId={}", put.header("p-version-id").unwrap())
}

#[test]
fn a_bucket_gets_object_lock_when_it_is_made_or_later() {
    for dialect in Dialect::ALL {
        let server = server();
        let read =
            |bucket: &str| server.request("GET", &format!("/{bucket}?object-lock")).dialect(dialect).send();
        assert_eq!(read("locked").one("ObjectLockEnabled").as_deref(), Some("Enabled"));
        assert!(server.get("/locked?versioning").text().contains("<Status>Enabled</Status>"));
        read("b").is_error(404, "ObjectLockConfigurationNotFoundError");
        read("absent").is_error(404, "NoSuchBucket");
        set(&server, "/b?object-lock", &configuration("")).is_error(409, "InvalidBucketState");
        let versions = "<VersioningConfiguration><Status>Enabled</Status></VersioningConfiguration>";
        assert_eq!(set(&server, "/b?versioning", versions).status, 200);
        let rule = default_retention("<Mode>GOVERNANCE</Mode><Days>3</Days>");
        assert_eq!(set(&server, "/b?object-lock", &rule).status, 200);
        let found = read("b");
        assert_eq!((found.one("Mode"), found.one("Days")), (Some("GOVERNANCE".into()), Some("3".into())));
        let suspended = versions.replace("Enabled", "Suspended");
        set(&server, "/b?versioning", &suspended).is_error(409, "InvalidBucketState");
        set(&server, "/b?object-lock", "<ObjectLockConfiguration/>").is_error(400, "MalformedXML");
        set(&server, "/b?object-lock", &default_retention("<Mode>GOVERNANCE</Mode><Days>0</Days>"))
            .is_error(400, "InvalidArgument");
        set(&server, "/b?object-lock", &default_retention("<Mode>GOVERNANCE</Mode><Years>101</Years>"))
            .is_error(400, "InvalidRetentionPeriod");
    }
}

#[test]
fn a_retained_version_answers_with_its_retention_and_is_not_deleted() {
    for mode in ["GOVERNANCE", "COMPLIANCE"] {
        let server = server();
        let version = put_retained(&server, mode);
        for method in ["GET", "HEAD"] {
            let found = server.request(method, &version).send();
            assert_eq!(found.header("p-object-lock-mode"), Some(mode));
            assert_eq!(found.header("p-object-lock-retain-until-date"), Some(UNTIL));
            assert_eq!(found.header("p-object-lock-legal-hold"), None);
        }
        let unseen = server.request("GET", "/locked/k").by("writer").send();
        assert_eq!(
            (unseen.status, unseen.header("p-object-lock-mode")),
            (200, None),
            "without GetObjectRetention"
        );
        server.request("DELETE", &version).send().is_error(403, "AccessDenied");
        let marked = server.request("DELETE", "/locked/k").send();
        assert_eq!(marked.header("p-delete-marker"), Some("true"), "a marker may hide it");
        server.request("DELETE", "/locked").send().is_error(409, "BucketNotEmpty");
        let bypassed =
            server.request("DELETE", &version).header("p-bypass-governance-retention", "true").send();
        match mode {
            "GOVERNANCE" => assert_eq!(bypassed.status, 204),
            _ => drop(bypassed.is_error(403, "AccessDenied")),
        }
    }
}

#[test]
fn only_those_with_the_action_bypass_governance() {
    let server = server();
    let version = put_retained(&server, "GOVERNANCE");
    let delete = || server.request("DELETE", &version).header("p-bypass-governance-retention", "true");
    delete().by("writer").send().is_error(403, "AccessDenied");
    let id = version.split_once('=').unwrap().1;
    let document = format!("<Delete><Object><Key>k</Key><VersionId>{id}</VersionId></Object></Delete>");
    let many = |user: &str, bypass: &str| {
        let request = server.request("POST", "/locked?delete").by(user);
        let request = request.header("Content-MD5", delete::content_md5(&document));
        request.header("p-bypass-governance-retention", bypass).body(document.as_bytes()).send()
    };
    assert_eq!(many("owner", "false").one("Code").as_deref(), Some("AccessDenied"));
    assert_eq!(many("writer", "true").one("Code").as_deref(), Some("AccessDenied"));
    assert!(many("owner", "true").text().contains("<Deleted>"));
}

#[test]
fn retentions_are_set_extended_and_removed_by_their_rules() {
    let server = server();
    let version = put_retained(&server, "COMPLIANCE");
    let target = version.replace('?', "?retention&");
    let read = server.get(&target);
    assert_eq!(
        (read.one("Mode"), read.one("RetainUntilDate")),
        (Some("COMPLIANCE".into()), Some(UNTIL.into()))
    );
    assert_eq!(set(&server, &target, &retention("COMPLIANCE", "2026-04-01T00:00:00Z")).status, 200);
    set(&server, &target, &retention("COMPLIANCE", UNTIL)).is_error(403, "AccessDenied");
    set(&server, &target, &retention("GOVERNANCE", "2027-01-01T00:00:00Z")).is_error(403, "AccessDenied");
    set(&server, &target, "<Retention/>").is_error(403, "AccessDenied");
    set(&server, &target, &retention("COMPLIANCE", "2026-01-01T00:00:00Z")).is_error(400, "InvalidArgument");
    set(&server, &target, &retention("FOREVER", UNTIL)).is_error(400, "MalformedXML");

    let target = put_retained(&server, "GOVERNANCE").replace('?', "?retention&");
    set(&server, &target, "<Retention/>").is_error(403, "AccessDenied");
    let bypass = |user: &str| {
        let request = server.request("PUT", &target).by(user).header("p-bypass-governance-retention", "true");
        request.body(b"<Retention/>").send()
    };
    bypass("keeper").is_error(403, "AccessDenied");
    assert_eq!(bypass("owner").status, 200);
    server.get(&target).is_error(404, "NoSuchObjectLockConfiguration");
}

#[test]
fn a_legal_hold_keeps_a_version_until_it_is_lifted() {
    let server = server();
    let put = server.put("/locked/k", b"abc");
    let version = format!("/locked/k?versionId={}", put.header("p-version-id").unwrap());
    let target = version.replace('?', "?legal-hold&");
    server.get(&target).is_error(404, "NoSuchObjectLockConfiguration");
    let hold =
        |status: &str| set(&server, &target, &format!("<LegalHold><Status>{status}</Status></LegalHold>"));
    assert_eq!(hold("ON").status, 200);
    assert_eq!(server.get(&target).one("Status").as_deref(), Some("ON"));
    assert_eq!(server.get("/locked/k").header("p-object-lock-legal-hold"), Some("ON"));
    let delete = || server.request("DELETE", &version).header("p-bypass-governance-retention", "true").send();
    delete().is_error(403, "AccessDenied");
    assert_eq!(hold("OFF").status, 200);
    assert_eq!(server.get(&target).one("Status").as_deref(), Some("OFF"));
    assert_eq!(server.get("/locked/k").header("p-object-lock-legal-hold"), None);
    assert_eq!(delete().status, 204);
    hold("on").is_error(404, "NoSuchVersion");
}

#[test]
fn the_default_retention_is_for_every_new_object_without_one() {
    let server = server();
    let rule = default_retention("<Mode>COMPLIANCE</Mode><Days>2</Days>");
    assert_eq!(set(&server, "/locked?object-lock", &rule).status, 200);
    // The time is that of the newest stamp, which may be some milliseconds ahead of the clock.
    let until = |target: &str| {
        server.get(target).header("p-object-lock-retain-until-date").map(|date| date[..16].to_owned())
    };
    let put = server.request("PUT", "/locked/plain").header("Content-MD5", MD5).body(b"abc").send();
    assert_eq!(put.status, 200, "{put:?}");
    assert_eq!(until("/locked/plain"), Some("2026-02-02T12:00".into()));
    let copied = server.request("PUT", "/locked/copy").header("p-copy-source", "/locked/plain").send();
    assert_eq!((copied.status, until("/locked/copy")), (200, Some("2026-02-02T12:00".into())));
    put_retained(&server, "GOVERNANCE");
    assert_eq!(until("/locked/k"), Some(UNTIL[..16].into()), "its own takes precedence");
    let upload = server.request("POST", "/locked/parts?uploads").send().one("UploadId").unwrap();
    let put_part =
        || server.request("PUT", &format!("/locked/parts?partNumber=1&uploadId={upload}")).body(b"abc");
    put_part().send().is_error(400, "InvalidRequest");
    let part = put_part().header("Content-MD5", MD5).send();
    let list = format!(
        "<CompleteMultipartUpload><Part><PartNumber>1</PartNumber><ETag>{}</ETag></Part></CompleteMultipartUpload>",
        part.header("ETag").unwrap()
    );
    let done =
        server.request("POST", &format!("/locked/parts?uploadId={upload}")).body(list.as_bytes()).send();
    assert_eq!(done.status, 200);
    assert_eq!(until("/locked/parts"), Some("2026-02-02T12:00".into()));
}

#[test]
fn an_object_with_the_default_retention_needs_a_digest() {
    for dialect in Dialect::ALL {
        let server = server();
        let put = || server.request("PUT", "/locked/k").dialect(dialect).body(b"abc");
        assert_eq!(put().send().status, 200, "the bucket has no default");
        let rule = default_retention("<Mode>GOVERNANCE</Mode><Days>2</Days>");
        assert_eq!(set(&server, "/locked?object-lock", &rule).status, 200);
        let refused = put().send();
        refused.is_error(400, "InvalidRequest");
        assert!(refused.text().contains("Content-MD5 OR x-amz-checksum-"), "{}", refused.text());
        for (name, value) in [("Content-MD5", MD5), ("p-checksum-crc32", "NSRBwg==")] {
            assert_eq!(put().header(name, value).send().status, 200, "{name}");
        }
        put().header("Content-MD5", "1B2M2Y8AsgTpgAmY7PhCfg==").send().is_error(400, "BadDigest");
        let copied =
            server.request("PUT", "/locked/copy").dialect(dialect).header("p-copy-source", "/locked/k");
        assert_eq!(copied.send().status, 200, "the bytes of a copy are not sent");
    }
}

#[test]
fn a_form_for_an_object_with_the_default_retention_needs_a_digest() {
    let server = server();
    let rule = default_retention("<Mode>GOVERNANCE</Mode><Days>2</Days>");
    assert_eq!(set(&server, "/locked?object-lock", &rule).status, 200);
    let post = |fields: &[(&str, &str)]| {
        let version = FormVersion::V4 { prefix: usual_dialect().header_prefix() };
        let form = Form::new(fields, b"abc");
        server.request("POST", "/locked").form(&form.signed(&signer("owner"), version)).send()
    };
    post(&[("key", "k")]).is_error(400, "InvalidRequest");
    let checksum = format!("{}checksum-crc32", usual_dialect().header_prefix());
    assert_eq!(post(&[("key", "k"), (&checksum, "NSRBwg==")]).status, 204);
}

#[test]
fn headers_of_new_objects_are_checked() {
    let server = server();
    let put = |bucket: &str, headers: &[(&str, &str)]| {
        let request = server.request("PUT", &format!("/{bucket}/k")).header("Content-MD5", MD5);
        headers.iter().fold(request, |request, (name, value)| request.header(name, value))
    };
    let both = [("p-object-lock-mode", "COMPLIANCE"), ("p-object-lock-retain-until-date", UNTIL)];
    put("b", &both).body(b"abc").send().is_error(400, "InvalidRequest");
    put("locked", &both[..1]).body(b"abc").send().is_error(400, "InvalidArgument");
    put("locked", &[("p-object-lock-mode", "X"), both[1]])
        .body(b"abc")
        .send()
        .is_error(400, "InvalidArgument");
    put("locked", &[both[0], ("p-object-lock-retain-until-date", "soon")])
        .body(b"abc")
        .send()
        .is_error(400, "InvalidArgument");
    put("locked", &[both[0], ("p-object-lock-retain-until-date", "2020-01-01T00:00:00Z")])
        .body(b"abc")
        .send()
        .is_error(400, "InvalidArgument");
    put("locked", &[("p-object-lock-legal-hold", "yes")])
        .body(b"abc")
        .send()
        .is_error(400, "InvalidArgument");
    put("locked", &both).by("writer").body(b"abc").send().is_error(403, "AccessDenied");
    put("locked", &[("p-object-lock-legal-hold", "ON")])
        .by("keeper")
        .body(b"abc")
        .send()
        .is_error(403, "AccessDenied");
    assert_eq!(put("locked", &both).by("keeper").body(b"abc").send().status, 200);
    assert_eq!(
        put("locked", &[("p-object-lock-legal-hold", "ON")]).by("holder").body(b"abc").send().status,
        200
    );
    let bare = server.request("PUT", "/locked/k").header(both[0].0, both[0].1).header(both[1].0, both[1].1);
    bare.body(b"abc").send().is_error(400, "InvalidRequest");
}

#[test]
fn buckets_without_object_lock_say_so() {
    let server = server();
    server.put("/b/k", b"abc");
    for target in ["/b/k?retention", "/b/k?legal-hold"] {
        server.get(target).is_error(400, "InvalidRequest");
        set(&server, target, &retention("COMPLIANCE", UNTIL)).is_error(400, "InvalidRequest");
    }
    server.get("/locked/absent?retention").is_error(404, "NoSuchKey");
    server.get("/absent/k?legal-hold").is_error(404, "NoSuchBucket");
}

#[test]
fn a_deletion_that_bypasses_locks_needs_a_bucket_with_locks() {
    let server = server();
    server.put("/b/k", b"x");
    let document = "<Delete><Object><Key>k</Key></Object></Delete>";
    for dialect in Dialect::ALL {
        for value in ["true", "false"] {
            let one = server.request("DELETE", "/b/k");
            let many = server.request("POST", "/b?delete").body(document.as_bytes());
            let many = many.header("Content-MD5", delete::content_md5(document));
            for asked in [one, many] {
                let refused = asked.dialect(dialect).header("p-bypass-governance-retention", value).send();
                refused.is_error(400, "InvalidArgument");
                let name = format!("{}bypass-governance-retention", dialect.header_prefix());
                assert_eq!(refused.one("ArgumentName"), Some(name));
            }
        }
    }
    assert_eq!(server.get("/b/k").status, 200);
    let absent = server.request("DELETE", "/absent/k").header("p-bypass-governance-retention", "true");
    absent.send().is_error(404, "NoSuchBucket");
    let locked = server.request("DELETE", "/locked/k").header("p-bypass-governance-retention", "true");
    assert_eq!(locked.send().status, 204, "nothing is locked yet");
}

#[test]
fn policies_of_the_sender_see_what_the_body_states() {
    let server = server();
    let denials = r#"{"Version": "2012-10-17", "Statement": [
        {"Effect": "Deny", "Action": "s3:PutObjectRetention", "Resource": "*",
         "Condition": {"NumericGreaterThan": {"s3:object-lock-remaining-retention-days": "40"}}},
        {"Effect": "Deny", "Action": "s3:PutObjectRetention", "Resource": "*",
         "Condition": {"StringEquals": {"s3:object-lock-mode": "COMPLIANCE"}}},
        {"Effect": "Deny", "Action": "s3:PutObjectLegalHold", "Resource": "*",
         "Condition": {"StringEquals": {"s3:object-lock-legal-hold": "ON"}}}]}"#;
    let keeper = user("keeper", &["PutObjectRetention", "PutObjectLegalHold"], &["locked/*"]);
    let keeper = keeper.replacen("[[user.allow]]", &format!("policy = '''{denials}'''\n[[user.allow]]"), 1);
    let users = user("owner", &["*"], &["*"]) + &keeper;
    server.authenticator.replace(Users::parse(&users).unwrap());
    assert_eq!(server.request("PUT", "/locked/k").body(b"abc").send().status, 200);
    let by_keeper = |target: &str, document: &str| {
        server.request("PUT", target).by("keeper").body(document.as_bytes()).send().status
    };
    let hold = |status: &str| {
        by_keeper("/locked/k?legal-hold", &format!("<LegalHold><Status>{status}</Status></LegalHold>"))
    };
    assert_eq!(["ON", "OFF"].map(hold), [403, 200]);
    let retain = |mode, until| by_keeper("/locked/k?retention", &retention(mode, until));
    assert_eq!(retain("GOVERNANCE", "2027-03-01T00:00:00Z"), 403);
    assert_eq!(retain("COMPLIANCE", UNTIL), 403);
    assert_eq!(by_keeper("/locked/k?retention", "<Retention>"), 400);
    assert_eq!(retain("GOVERNANCE", UNTIL), 200);
}
