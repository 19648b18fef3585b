//! Each operation takes its own permission.

use siltstone::auth::Action;
use siltstone::s3::Operation;
use siltstone::service::permission::actions;

use super::*;

/// Requests, each with the one action that suffices for it.
const REQUESTS: [(&str, &str, &str); 18] = [
    ("GET", "/", "ListAllMyBuckets"),
    ("PUT", "/new-bucket", "CreateBucket"),
    ("HEAD", "/b", "ListBucket"),
    ("GET", "/b?location", "GetBucketLocation"),
    ("GET", "/b?versioning", "GetBucketVersioning"),
    ("GET", "/b", "ListBucket"),
    ("GET", "/b?list-type=2", "ListBucket"),
    ("GET", "/b?policy", "GetBucketPolicy"),
    ("GET", "/b?versions", "ListBucketVersions"),
    ("GET", "/b?uploads", "ListBucketMultipartUploads"),
    ("GET", "/b/k", "GetObject"),
    ("HEAD", "/b/k", "GetObject"),
    ("GET", "/b/k?versionId=null", "GetObjectVersion"),
    ("HEAD", "/b/k?versionId=null", "GetObjectVersion"),
    ("PUT", "/b/k", "PutObject"),
    ("DELETE", "/b/k?versionId=null", "DeleteObjectVersion"),
    ("DELETE", "/b/k", "DeleteObject"),
    ("DELETE", "/b", "DeleteBucket"),
];

#[test]
fn one_action_suffices_and_all_others_together_do_not() {
    for (method, target, action) in REQUESTS {
        let others: Vec<_> = Action::ALL.iter().map(|a| a.as_str()).filter(|name| *name != action).collect();
        let server = Server::with_grants(&[("holder", &[action], &["*"]), ("lacking", &others, &["*"])]);
        server.put("/b/k", b"x");
        let denied = server.request(method, target).by("lacking").send();
        assert_eq!(denied.status, 403, "{method} {target} without {action}");
        let allowed = server.request(method, target).by("holder").send();
        assert_ne!(allowed.status, 403, "{method} {target} with {action}");
    }
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
