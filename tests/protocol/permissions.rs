//! Each operation takes its own permission.

use std::collections::BTreeSet;

use siltstone::auth::Action;
use siltstone::s3::route::{Addressing, operation};
use siltstone::s3::{Method, Operation, Query};
use siltstone::service::permission::actions;

use super::*;

/// Requests, each with the one action that suffices for it and the narrowest resource to hold it on.
const REQUESTS: [(&str, &str, &str, &str); 42] = [
    ("GET", "/", "ListAllMyBuckets", "b"),
    ("PUT", "/new-bucket", "CreateBucket", "new-bucket"),
    ("HEAD", "/b", "ListBucket", "b"),
    ("GET", "/b", "ListBucket", "b"),
    ("GET", "/b?list-type=2", "ListBucket", "b"),
    ("GET", "/b?location", "GetBucketLocation", "b"),
    ("GET", "/b?versioning", "GetBucketVersioning", "b"),
    ("PUT", "/b?versioning", "PutBucketVersioning", "b"),
    ("GET", "/b?cors", "GetBucketCORS", "b"),
    ("GET", "/b?encryption", "GetEncryptionConfiguration", "b"),
    ("GET", "/b?lifecycle", "GetLifecycleConfiguration", "b"),
    ("GET", "/b?ownershipControls", "GetBucketOwnershipControls", "b"),
    ("GET", "/b?policy", "GetBucketPolicy", "b"),
    ("GET", "/b?replication", "GetReplicationConfiguration", "b"),
    ("GET", "/b?tagging", "GetBucketTagging", "b"),
    ("GET", "/b?website", "GetBucketWebsite", "b"),
    ("GET", "/b?object-lock", "GetBucketObjectLockConfiguration", "b"),
    ("GET", "/b?versions", "ListBucketVersions", "b"),
    ("GET", "/b?versions", "ListBucketVersions", "b/*"),
    ("GET", "/b?uploads", "ListBucketMultipartUploads", "b"),
    ("GET", "/b/k", "GetObject", "b/k"),
    ("HEAD", "/b/k", "GetObject", "b/k"),
    ("GET", "/b/k?versionId=null", "GetObjectVersion", "b/k"),
    ("HEAD", "/b/k?versionId=null", "GetObjectVersion", "b/k"),
    ("GET", "/b/k?attributes", "GetObjectAttributes", "b/k"),
    ("GET", "/b/k?attributes&versionId=null", "GetObjectVersionAttributes", "b/k"),
    ("GET", "/b/k?tagging", "GetObjectTagging", "b/k"),
    ("GET", "/b/k?tagging&versionId=null", "GetObjectVersionTagging", "b/k"),
    ("PUT", "/b/k?tagging", "PutObjectTagging", "b/k"),
    ("PUT", "/b/k?tagging&versionId=null", "PutObjectVersionTagging", "b/k"),
    ("DELETE", "/b/k?tagging", "DeleteObjectTagging", "b/k"),
    ("DELETE", "/b/k?tagging&versionId=null", "DeleteObjectVersionTagging", "b/k"),
    ("PUT", "/b/k", "PutObject", "b/k"),
    ("POST", "/b/k?uploads", "PutObject", "b/k"),
    ("PUT", "/b/k?partNumber=1&uploadId=0000000000000001", "PutObject", "b/k"),
    ("POST", "/b/k?uploadId=0000000000000001", "PutObject", "b/k"),
    ("DELETE", "/b/k?uploadId=0000000000000001", "AbortMultipartUpload", "b/k"),
    ("GET", "/b/k?uploadId=0000000000000001", "ListMultipartUploadParts", "b/k"),
    ("DELETE", "/b/k?versionId=null", "DeleteObjectVersion", "b/k"),
    ("DELETE", "/b/k", "DeleteObject", "b/k"),
    ("DELETE", "/empty", "DeleteBucket", "empty"),
    ("GET", "/b?acl", "ListBucket", "b"),
];

/// Operations that touch more than one thing and have tests of their own.
const WITH_MORE_THAN_ONE_TARGET: [Operation; 3] =
    [Operation::CopyObject, Operation::DeleteObjects, Operation::UploadPartCopy];

fn body_of(target: &str) -> &'static [u8] {
    match target {
        "/b?versioning" => b"<VersioningConfiguration><Status>Enabled</Status></VersioningConfiguration>",
        _ if target.contains("?tagging") => b"<Tagging><TagSet/></Tagging>",
        _ => b"",
    }
}

fn status(server: &Server, method: &str, target: &str, user: &str) -> u16 {
    let asked = server.request(method, target).header("p-object-attributes", "ETag").body(body_of(target));
    asked.by(user).send().status
}

#[test]
fn one_action_on_one_resource_suffices_and_all_others_together_do_not() {
    for (method, target, action, resource) in REQUESTS {
        let others: Vec<_> = Action::ALL.iter().map(|a| a.as_str()).filter(|name| *name != action).collect();
        // A sub-resource that is not served tells nothing but that, and may be asked for by more than one action.
        let others = if target == "/b?acl" { vec!["PutObject"] } else { others };
        let server = Server::with_grants(&[
            ("holder", &[action], &[resource]),
            ("lacking", &others, &["*"]),
            ("elsewhere", &[action], &["other-bucket", "other-bucket/*", "b/other", "b/other*"]),
        ]);
        server.put("/empty", b"");
        server.put("/b/k", b"x");
        assert_eq!(status(&server, method, target, "lacking"), 403, "{method} {target} without {action}");
        if action != "ListAllMyBuckets" {
            assert_eq!(status(&server, method, target, "elsewhere"), 403, "{method} {target} elsewhere");
        }
        let allowed = status(&server, method, target, "holder");
        let unset = ["b?", "upload"].iter().any(|part| target.contains(part));
        assert!(allowed < 300 || unset && allowed != 403, "{method} {target} with {action}: {allowed}");
    }
}

#[test]
fn every_operation_is_asked_for_above() {
    let asked: BTreeSet<_> = REQUESTS
        .iter()
        .map(|(method, target, _, _)| {
            let (path, query) = target.split_once('?').unwrap_or((target, ""));
            let level = Addressing::default().target(path, "localhost").unwrap().level();
            operation(&Method::from_token(method), level, &Query::parse(query).unwrap(), false).unwrap()
        })
        .collect();
    for row in Operation::TABLE {
        let known = asked.contains(&row.operation) || WITH_MORE_THAN_ONE_TARGET.contains(&row.operation);
        assert!(known, "{}", row.operation);
    }
}

#[test]
fn to_read_an_object_is_not_to_read_its_versions_nor_the_reverse() {
    let server = Server::with_grants(&[
        ("current", &["GetObject"], &["b/*"]),
        ("versions", &["GetObjectVersion"], &["b/*"]),
    ]);
    server.put("/b/k", b"x");
    let get = |user: &str, target: &str| server.request("GET", target).by(user).send();
    assert_eq!(get("current", "/b/k").text(), "x");
    get("current", "/b/k?versionId=null").is_error(403, "AccessDenied");
    assert_eq!(get("versions", "/b/k?versionId=null").text(), "x");
    get("versions", "/b/k").is_error(403, "AccessDenied");
}

#[test]
fn a_denied_request_is_an_error_with_a_body_and_a_denied_head_without() {
    let server = Server::with_grants(&[("none", &[], &["*"])]);
    server.request("GET", "/b/k").by("none").send().is_error(403, "AccessDenied");
    server.request("HEAD", "/b/k").by("none").send().is_bare(403);
}

#[test]
fn the_anonymous_user_may_do_what_is_granted_and_no_more() {
    let server = Server::with_grants(&[("anonymous", &["GetObject"], &["b/public/*"])]);
    server.put("/b/public/k", b"x");
    server.put("/b/private", b"x");
    let get = |target| server.request("GET", target).anonymous().send();
    assert_eq!(get("/b/public/k").text(), "x");
    get("/b/private").is_error(403, "AccessDenied");
    get("/b").is_error(403, "AccessDenied");
    server.request("PUT", "/b/public/k").anonymous().announcing(1).send().is_error(403, "AccessDenied");
}

#[test]
fn a_wrong_signature_is_refused_before_anything_is_told() {
    let server = Server::new();
    let answer = server.request("GET", "/b").by("nobody").send();
    answer.is_error(403, "InvalidAccessKeyId");
}

#[test]
fn every_operation_in_the_table_goes_by_actions_that_exist() {
    for row in Operation::TABLE {
        for action in actions(row.operation, false).iter().chain(actions(row.operation, true)) {
            assert!(Action::ALL.contains(action));
        }
    }
}

#[test]
fn a_bucket_of_another_owner_than_expected_is_refused() {
    let server = Server::new();
    server.put("/b/k", b"x");
    let ask = |method: &str, target: &str, owner: &str| {
        server.request(method, target).header("p-expected-bucket-owner", owner).send()
    };
    for (method, target, status) in
        [("GET", "/b/k", 200), ("GET", "/b", 200), ("PUT", "/b/k", 200), ("DELETE", "/b/absent", 204)]
    {
        assert_eq!(ask(method, target, "owner").status, status, "{method} {target}");
        for wrong in ["other", "Owner", "", "111122223333"] {
            ask(method, target, wrong).is_error(403, "AccessDenied");
        }
    }
    ask("HEAD", "/b", "other").is_bare(403);
    ask("GET", "/absent", "other").is_error(404, "NoSuchBucket");
    assert_eq!(ask("GET", "/", "other").status, 200, "no bucket is asked for");
    assert_eq!(ask("PUT", "/new", "other").status, 200, "a new bucket is its creator's");
    let listed = server.get("/b?list-type=2&fetch-owner=true");
    assert_eq!(listed.one("ID").as_deref(), Some("owner"), "it is the owner that listings tell");
}

#[test]
fn a_source_of_another_owner_than_expected_is_refused() {
    let server = Server::new();
    server.put("/b/k", b"x");
    let id = server.request("POST", "/b/up?uploads").send().one("UploadId").unwrap();
    for target in ["/b/copy".to_owned(), format!("/b/up?partNumber=1&uploadId={id}")] {
        let copy = |owner: &str| {
            let asked = server.request("PUT", &target).header("p-copy-source", "/b/k");
            asked.header("p-source-expected-bucket-owner", owner).send()
        };
        copy("other").is_error(403, "AccessDenied");
        assert_eq!(copy("owner").status, 200);
    }
}
