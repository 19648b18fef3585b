//! Operations of S3 that are not supported.

use super::*;

#[test]
fn configurations_that_are_never_set_have_their_own_errors() {
    let server = Server::new();
    for (name, code) in [
        ("encryption", "ServerSideEncryptionConfigurationNotFoundError"),
        ("replication", "ReplicationConfigurationNotFoundError"),
    ] {
        server.get(&format!("/b?{name}")).is_error(404, code);
        server.get(&format!("/absent?{name}")).is_error(404, "NoSuchBucket");
        server.request("PUT", &format!("/b?{name}")).body(b"<x/>").send().is_error(501, "NotImplemented");
    }
}

#[test]
fn operations_that_are_not_served_say_so() {
    let server = Server::new();
    for (method, target) in [
        ("POST", "/b?acl"),
        ("GET", "/b?analytics"),
        ("POST", "/b?publicAccessBlock"),
        ("GET", "/b/k?torrent"),
        ("POST", "/b/k?restore"),
        ("POST", "/b/k?select&select-type=2"),
    ] {
        server.request(method, target).send().is_error(501, "NotImplemented");
    }
}

#[test]
fn they_reveal_nothing_without_permission() {
    let server = Server::with_grants(&[("stranger", &["GetObject"], &["other/*"])]);
    for target in ["/b?acl", "/b?policy", "/b/k?torrent"] {
        server.request("GET", target).by("stranger").send().is_error(403, "AccessDenied");
        server.request("GET", target).anonymous().send().is_error(403, "AccessDenied");
    }
}

#[test]
fn a_method_that_the_path_does_not_have_is_refused_with_those_it_has() {
    let server = Server::new();
    for (method, target, allow) in [
        ("POST", "/b/k", "DELETE, GET, HEAD, PUT"),
        ("PATCH", "/b", "DELETE, GET, HEAD, POST, PUT"),
        ("POST", "/", "GET"),
        ("DELETE", "/b?location", "GET"),
    ] {
        let answer = server.request(method, target).send();
        answer.is_error(405, "MethodNotAllowed");
        assert_eq!(answer.header("Allow"), Some(allow), "{method} {target}");
    }
}
