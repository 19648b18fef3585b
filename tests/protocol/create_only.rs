//! The action CreateObject: everything that puts, for keys that are not there.

use super::*;
use crate::support::form::{Form, FormVersion};

/// A server whose user `creator` may read and create, and whose user `both` may put below `in/`,
/// too.
fn server() -> Server {
    Server::with_grants(&[
        ("creator", &["CreateObject", "GetObject"], &["b/*"]),
        ("both", &["CreateObject"], &["b/*"]),
        ("both", &["PutObject"], &["b/in/*"]),
    ])
}

fn put(server: &Server, user: &str, key: &str, body: &[u8]) -> Answer {
    server.request("PUT", &format!("/b/{key}")).by(user).body(body).send()
}

fn copy(server: &Server, from: &str, to: &str) -> Answer {
    let asked = server.request("PUT", &format!("/b/{to}")).by("creator");
    asked.header("p-copy-source", format!("/b/{from}")).header("p-metadata-directive", "REPLACE").send()
}

fn post(server: &Server, user: &str, key: &str) -> Answer {
    let version = FormVersion::V4 { prefix: usual_dialect().header_prefix() };
    let form = Form::new(&[("key", key)], b"posted").signed(&signer(user), version);
    server.request("POST", "/b").form(&form).send()
}

/// Starts an upload of one part, and returns the target and the body of its completion.
fn upload(server: &Server, user: &str, key: &str, bytes: &[u8]) -> (String, String) {
    let begun = server.request("POST", &format!("/b/{key}?uploads")).by(user).send();
    let id = begun.one("UploadId").unwrap();
    let target = format!("/b/{key}?uploadId={id}");
    let part = server.request("PUT", &format!("{target}&partNumber=1")).by(user).body(bytes).send();
    assert_eq!(part.status, 200);
    let etag = part.header("ETag").unwrap().replace('"', "&quot;");
    let part = format!("<Part><PartNumber>1</PartNumber><ETag>{etag}</ETag></Part>");
    (target, format!("<CompleteMultipartUpload>{part}</CompleteMultipartUpload>"))
}

fn complete(server: &Server, user: &str, (target, body): &(String, String)) -> Answer {
    server.request("POST", target).by(user).body(body.as_bytes()).send()
}

#[test]
fn every_way_to_put_creates_a_key_and_none_replaces_it() {
    let server = server();
    assert_eq!(put(&server, "creator", "put", b"first").status, 200);
    assert_eq!(copy(&server, "put", "copy").status, 200);
    assert_eq!(post(&server, "creator", "form").status, 204);
    let late = upload(&server, "creator", "put", b"late");
    let upload = upload(&server, "creator", "upload", b"first");
    assert_eq!(complete(&server, "creator", &upload).status, 200);
    for (key, text) in [("put", "first"), ("copy", "first"), ("form", "posted"), ("upload", "first")] {
        put(&server, "creator", key, b"second").is_error(412, "PreconditionFailed");
        copy(&server, "put", key).is_error(412, "PreconditionFailed");
        post(&server, "creator", key).is_error(412, "PreconditionFailed");
        assert_eq!(server.get(&format!("/b/{key}")).text(), text);
    }
    complete(&server, "creator", &late).is_error(412, "PreconditionFailed");
    assert_eq!(server.get("/b/put").text(), "first");
    assert_eq!(complete(&server, "owner", &late).status, 200, "the upload is still there");
}

#[test]
fn a_refusal_precedes_the_body_and_needs_no_permission_to_list() {
    let server = server();
    put(&server, "creator", "k", b"first");
    let asked = server.request("PUT", "/b/k").by("creator").announcing(1000);
    asked.send().is_error(412, "PreconditionFailed");
    server.request("DELETE", "/b/k").by("creator").send().is_error(403, "AccessDenied");
    put(&server, "creator", "../other/k", b"x");
    server.request("PUT", "/other/k").by("creator").body(b"x").send().is_error(403, "AccessDenied");
}

#[test]
fn a_delete_marker_counts_as_absent_and_older_versions_stay() {
    let server = server();
    server.set_versioning("Enabled");
    let first = put(&server, "creator", "k", b"first").header("p-version-id").unwrap().to_owned();
    put(&server, "creator", "k", b"second").is_error(412, "PreconditionFailed");
    server.delete("/b/k");
    assert_eq!(put(&server, "creator", "k", b"second").status, 200);
    put(&server, "creator", "k", b"third").is_error(412, "PreconditionFailed");
    assert_eq!(server.get(&format!("/b/k?versionId={first}")).text(), "first");
}

#[test]
fn the_conditions_of_a_request_hold_beside_it() {
    let server = server();
    let put = |name: &str, value: &str| {
        server.request("PUT", "/b/k").by("creator").header(name, value).body(b"x").send()
    };
    put("If-Match", "*").is_error(403, "AccessDenied");
    assert_eq!(put("If-None-Match", "*").status, 200);
    for (name, value) in [("If-Match", "*"), ("If-None-Match", "*"), ("If-None-Match", "\"other\"")] {
        put(name, value).is_error(412, "PreconditionFailed");
    }
    let etag = server.head("/b/k").header("ETag").unwrap().to_owned();
    put("If-Match", &etag).is_error(412, "PreconditionFailed");
}

#[test]
fn to_put_is_to_replace_wherever_it_is_granted() {
    let server = server();
    for _ in 0..2 {
        assert_eq!(put(&server, "both", "in/k", b"x").status, 200);
    }
    assert_eq!(put(&server, "both", "out/k", b"x").status, 200);
    put(&server, "both", "out/k", b"x").is_error(412, "PreconditionFailed");
}

#[test]
fn of_two_creators_who_race_for_a_key_exactly_one_wins() {
    let server = server();
    let uploads = [b"one", b"two"].map(|bytes| upload(&server, "creator", "k", bytes));
    let mut statuses = std::thread::scope(|scope| {
        let racers: Vec<_> = uploads
            .iter()
            .map(|upload| scope.spawn(|| complete(&server, "creator", upload).status))
            .chain([scope.spawn(|| put(&server, "creator", "k", b"three").status)])
            .collect();
        racers.into_iter().map(|racer| racer.join().unwrap()).collect::<Vec<_>>()
    });
    statuses.sort_unstable();
    assert_eq!(statuses, [200, 412, 412]);
}

#[test]
fn a_bucket_policy_grants_it_and_denies_it_with_put_object() {
    let server = Server::with_grants(&[("guest", &[], &["*"]), ("holder", &["CreateObject"], &["b/*"])]);
    let policy = |statement: &str| {
        let text =
            format!(r#"{{"Statement": {{{statement}, "Principal": "*", "Resource": "arn:aws:s3:::b/*"}}}}"#);
        assert_eq!(server.request("PUT", "/b?policy").body(text.as_bytes()).send().status, 204);
    };
    put(&server, "guest", "k", b"x").is_error(403, "AccessDenied");
    policy(r#""Effect": "Allow", "Action": "s3:CreateObject""#);
    assert_eq!(put(&server, "guest", "k", b"x").status, 200);
    put(&server, "guest", "k", b"x").is_error(412, "PreconditionFailed");
    for denied in ["s3:CreateObject", "s3:PutObject", "s3:Put*"] {
        policy(&format!(r#""Effect": "Deny", "Action": "{denied}""#));
        put(&server, "holder", "new", b"x").is_error(403, "AccessDenied");
    }
    policy(
        r#""Effect": "Deny", "Action": "s3:PutObject", "Condition": {"Bool": {"aws:SecureTransport": "true"}}"#,
    );
    assert_eq!(put(&server, "holder", "new", b"x").status, 200, "the condition does not hold");
}
