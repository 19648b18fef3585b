//! DeleteObject and DeleteObjects.

use super::*;
use base64::Engine as _;

pub(super) fn many(server: &Server, body: &str) -> Answer {
    many_by(server, "owner", body)
}

/// The value of `Content-MD5` for a body.
pub(super) fn content_md5(body: &str) -> String {
    let digest = md5::Digest::finalize(md5::Digest::chain_update(<md5::Md5 as md5::Digest>::new(), body));
    base64::engine::general_purpose::STANDARD.encode(digest)
}

pub(super) fn many_by(server: &Server, user: &str, body: &str) -> Answer {
    let asked = server.request("POST", "/b?delete").by(user).header("Content-MD5", content_md5(body));
    asked.body(body.as_bytes()).send()
}

fn objects(keys: &[&str]) -> String {
    keys.iter().map(|key| format!("<Object><Key>{key}</Key></Object>")).collect()
}

#[test]
fn a_delete_is_204_whether_there_was_anything_or_not() {
    let server = Server::new();
    server.put("/b/k", b"x");
    for _ in 0..2 {
        let answer = server.delete("/b/k");
        assert_eq!((answer.status, answer.body.len()), (204, 0));
        assert_eq!(answer.header_names().collect::<Vec<_>>(), ["x-request-id"]);
    }
    server.get("/b/k").is_error(404, "NoSuchKey");
    server.delete("/absent/k").is_error(404, "NoSuchBucket");
}

#[test]
fn with_versions_a_delete_adds_a_marker_also_for_an_absent_key() {
    let server = Server::new();
    server.set_versioning("Enabled");
    let id = server.put("/b/k", b"x").header("p-version-id").unwrap().to_owned();
    for key in ["k", "absent"] {
        let answer = server.delete(&format!("/b/{key}"));
        assert_eq!(answer.header("p-delete-marker"), Some("true"));
        assert_ne!(answer.header("p-version-id"), Some(id.as_str()));
        assert!(answer.header("p-version-id").is_some());
    }
    assert_eq!(server.get(&format!("/b/k?versionId={id}")).text(), "x");
}

#[test]
fn while_it_is_suspended_a_null_marker_takes_the_place_of_the_null_version() {
    let server = Server::new();
    server.put("/b/k", b"null");
    server.set_versioning("Enabled");
    let id = server.put("/b/k", b"kept").header("p-version-id").unwrap().to_owned();
    server.set_versioning("Suspended");
    let answer = server.delete("/b/k");
    assert_eq!(answer.header("p-delete-marker"), Some("true"));
    assert_eq!(answer.header("p-version-id"), Some("null"));
    server.get("/b/k?versionId=null").is_error(405, "MethodNotAllowed");
    assert_eq!(server.get(&format!("/b/k?versionId={id}")).text(), "kept");
}

#[test]
fn a_named_version_goes_for_good_and_is_echoed() {
    let server = Server::new();
    server.set_versioning("Enabled");
    let first = server.put("/b/k", b"1").header("p-version-id").unwrap().to_owned();
    let marker = server.delete("/b/k").header("p-version-id").unwrap().to_owned();

    let answer = server.delete(&format!("/b/k?versionId={marker}"));
    assert_eq!(answer.header("p-delete-marker"), Some("true"));
    assert_eq!(answer.header("p-version-id"), Some(marker.as_str()));
    assert_eq!(server.get("/b/k").text(), "1");

    let answer = server.delete(&format!("/b/k?versionId={first}"));
    assert_eq!((answer.status, answer.header("p-delete-marker")), (204, None));
    assert_eq!(answer.header("p-version-id"), Some(first.as_str()));
    server.get("/b/k").is_error(404, "NoSuchKey");
    assert_eq!(server.delete(&format!("/b/k?versionId={first}")).status, 204);
    server.delete("/b/k?versionId=x").is_error(400, "InvalidArgument");
}

#[test]
fn many_objects_are_deleted_at_once_each_with_its_result() {
    let server = Server::new();
    for key in ["a", "b", "c"] {
        server.put(&format!("/b/{key}"), b"x");
    }
    let answer =
        many(&server, &format!("<Delete xmlns=\"{NAMESPACE}\">{}</Delete>", objects(&["a", "b", "absent"])));
    assert_eq!((answer.status, answer.outline()[0].as_str()), (200, "DeleteResult"));
    assert_eq!(answer.all("Key"), ["a", "b", "absent"]);
    assert_eq!(answer.all("Error").len(), 0);
    assert_eq!(server.get("/b?list-type=2").all("Key"), ["c"]);
}

#[test]
fn quiet_tells_of_errors_alone() {
    let server = Server::with_grants(&[("some", &["DeleteObject"], &["b/a*"])]);
    server.put("/b/a", b"x");
    let body = format!("<Delete><Quiet>true</Quiet>{}</Delete>", objects(&["a", "z"]));
    let crc =
        base64::engine::general_purpose::STANDARD.encode(crc32fast::hash(body.as_bytes()).to_be_bytes());
    let asked = server.request("POST", "/b?delete").by("some").header("p-checksum-crc32", crc);
    let answer = asked.body(body.as_bytes()).send();
    assert_eq!((answer.all("Deleted").len(), answer.all("Error").len()), (0, 1));
    assert_eq!((answer.one("Key"), answer.one("Code")), (Some("z".into()), Some("AccessDenied".into())));
    server.get("/b/a").is_error(404, "NoSuchKey");
}

#[test]
fn versions_and_markers_are_in_the_result() {
    let server = Server::new();
    server.set_versioning("Enabled");
    let id = server.put("/b/k", b"x").header("p-version-id").unwrap().to_owned();
    let added = many(&server, &format!("<Delete>{}</Delete>", objects(&["k"])));
    assert_eq!((added.one("DeleteMarker").as_deref(), added.one("VersionId")), (Some("true"), None));
    let marker = added.one("DeleteMarkerVersionId").unwrap();
    let body = format!(
        "<Delete><Object><Key>k</Key><VersionId>{marker}</VersionId></Object>\
         <Object><Key>k</Key><VersionId>{id}</VersionId></Object>\
         <Object><Key>k</Key><VersionId>bogus</VersionId></Object></Delete>"
    );
    let removed = many(&server, &body);
    assert_eq!(removed.all("VersionId"), [marker.as_str(), &id, "bogus"]);
    assert_eq!(removed.all("DeleteMarkerVersionId"), [marker.as_str()]);
    assert_eq!(removed.all("Code"), ["NoSuchVersion"]);
    server.delete("/b?x").is_bare(204);
}

#[test]
fn each_object_is_checked_with_the_permission_that_it_takes() {
    let server = Server::with_grants(&[("some", &["DeleteObjectVersion"], &["b/*"])]);
    server.put("/b/k", b"x");
    let body = "<Delete><Object><Key>k</Key></Object><Object><Key>k</Key><VersionId>null</VersionId></Object></Delete>";
    let crc =
        base64::engine::general_purpose::STANDARD.encode(crc32fast::hash(body.as_bytes()).to_be_bytes());
    let asked = server.request("POST", "/b?delete").by("some").header("p-checksum-crc32", crc);
    let answer = asked.body(body.as_bytes()).send();
    assert_eq!((answer.all("Error").len(), answer.all("Deleted").len()), (1, 1));
    server.get("/b/k").is_error(404, "NoSuchKey");
}

#[test]
fn keys_that_are_none_do_not_keep_the_others_from_it() {
    let server = Server::new();
    server.put("/b/k", b"x");
    let long = "k".repeat(1025);
    let answer = many(&server, &format!("<Delete>{}</Delete>", objects(&[&long, "k"])));
    assert_eq!(answer.all("Code"), ["KeyTooLongError"]);
    server.get("/b/k").is_error(404, "NoSuchKey");
}

#[test]
fn a_tag_in_the_list_must_match() {
    let server = Server::new();
    let etag = server.put("/b/k", b"x").header("ETag").unwrap().replace('"', "&quot;");
    let delete = |tag: &str| {
        many(&server, &format!("<Delete><Object><Key>k</Key><ETag>{tag}</ETag></Object></Delete>"))
    };
    assert_eq!(delete("x").one("Code").as_deref(), Some("PreconditionFailed"));
    assert_eq!(server.get("/b/k").text(), "x");
    assert_eq!(delete(&etag).all("Deleted").len(), 1);
}

#[test]
fn a_list_that_is_no_list_is_malformed() {
    let server = Server::new();
    for body in ["", "<Delete>", "<Delete/>", "<Other><Object><Key>k</Key></Object></Other>", "junk"] {
        many(&server, body).is_error(400, "MalformedXML");
    }
    let thousand = "<Object><Key>k</Key></Object>".repeat(1000);
    assert_eq!(many(&server, &format!("<Delete>{thousand}</Delete>")).status, 200);
    let more = format!("<Delete>{thousand}<Object><Key>k</Key></Object></Delete>");
    many(&server, &more).is_error(400, "MalformedXML");
}

#[test]
fn a_list_must_be_proven() {
    let server = Server::new();
    let body = format!("<Delete>{}</Delete>", objects(&["k"]));
    let asked = || server.request("POST", "/b?delete").body(body.as_bytes());
    asked().send().is_error(400, "InvalidRequest");
    asked().header("Content-MD5", "AAAAAAAAAAAAAAAAAAAAAA==").send().is_error(400, "BadDigest");
    asked().header("p-checksum-crc32", "AAAAAA==").send().is_error(400, "BadDigest");
    let bare = server.request("POST", "/b?delete").header("p-checksum-crc32", "AAAAAA==").unframed();
    bare.send().is_error(411, "MissingContentLength");
}

#[test]
fn null_versions_and_null_markers_are_in_the_result() {
    let server = Server::new();
    server.put("/b/k", b"x");
    let named = "<Delete><Object><Key>k</Key><VersionId>null</VersionId></Object></Delete>";
    let removed = many(&server, named);
    assert_eq!((removed.all("VersionId"), removed.all("DeleteMarker").len()), (vec!["null".to_owned()], 0));
    server.get("/b/k").is_error(404, "NoSuchKey");
    let plain = many(&server, &format!("<Delete>{}</Delete>", objects(&["k"])));
    assert_eq!(plain.all("DeleteMarker").len() + plain.all("VersionId").len(), 0);
    server.set_versioning("Suspended");
    let marked = many(&server, &format!("<Delete>{}</Delete>", objects(&["k"])));
    assert_eq!(marked.all("DeleteMarkerVersionId"), ["null"]);
    assert_eq!(marked.all("VersionId").len(), 0);
    let removed = many(&server, named);
    assert_eq!(
        (removed.all("VersionId"), removed.all("DeleteMarkerVersionId")),
        (vec!["null".into()], vec!["null".into()])
    );
}

#[test]
fn a_named_version_is_deleted_only_where_its_tag_matches() {
    let server = Server::new();
    server.set_versioning("Enabled");
    let put = server.put("/b/k", b"x");
    let etag = put.header("ETag").unwrap();
    let id = put.header("p-version-id").unwrap();
    server.put("/b/k", b"newer");
    let delete =
        |tag: &str| server.request("DELETE", &format!("/b/k?versionId={id}")).header("If-Match", tag).send();
    delete("\"x\"").is_error(412, "PreconditionFailed");
    assert_eq!(delete(etag).status, 204);
    server.get(&format!("/b/k?versionId={id}")).is_error(404, "NoSuchVersion");
}

#[test]
fn an_object_without_a_key_makes_the_list_malformed_and_nothing_is_deleted() {
    let server = Server::new();
    server.put("/b/k", b"x");
    for object in ["<Object/>", "<Object><Key/></Object>", "<Object><VersionId>null</VersionId></Object>"] {
        let answer = many(&server, &format!("<Delete><Object><Key>k</Key></Object>{object}</Delete>"));
        answer.is_error(400, "MalformedXML");
    }
    assert_eq!(server.get("/b/k").text(), "x");
}
