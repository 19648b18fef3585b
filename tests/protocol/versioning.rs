//! Buckets that keep versions.

use super::*;

fn configure(server: &Server, body: &str) -> Answer {
    server.request("PUT", "/b?versioning").body(body.as_bytes()).send()
}

#[test]
fn a_bucket_that_was_never_configured_has_no_status() {
    let answer = Server::new().get("/b?versioning");
    assert_eq!((answer.status, answer.outline()), (200, vec!["VersioningConfiguration".to_owned()]));
}

#[test]
fn versioning_is_enabled_and_suspended() {
    let server = Server::new();
    for status in ["Enabled", "Suspended", "Enabled"] {
        server.set_versioning(status);
        assert_eq!(server.get("/b?versioning").all("Status"), [status]);
    }
}

#[test]
fn a_configuration_that_is_wrong_changes_nothing() {
    let server = Server::new();
    server.set_versioning("Enabled");
    let root = |inner: &str| format!("<VersioningConfiguration>{inner}</VersioningConfiguration>");
    configure(&server, &root("<Status>On</Status>")).is_error(400, "MalformedXML");
    configure(&server, "<VersioningConfiguration>").is_error(400, "MalformedXML");
    configure(&server, "").is_error(400, "MalformedXML");
    configure(&server, &root("")).is_error(400, "IllegalVersioningConfigurationException");
    let locked = root("<Status>Suspended</Status><MfaDelete>Enabled</MfaDelete>");
    configure(&server, &locked).is_error(501, "NotImplemented");
    assert_eq!(server.get("/b?versioning").all("Status"), ["Enabled"]);
}

#[test]
fn a_configuration_above_a_mebibyte_is_refused_unread() {
    let server = Server::new();
    let asked = server.request("PUT", "/b?versioning");
    asked.announcing((1 << 20) + 1).send().is_error(400, "MaxMessageLengthExceeded");
    let long = format!("<VersioningConfiguration>{}", " ".repeat(1 << 20));
    let asked = server.request("PUT", "/b?versioning").body(long.as_bytes()).chunked();
    asked.send().is_error(400, "MaxMessageLengthExceeded");
}

#[test]
fn a_configuration_needs_a_length_and_a_bucket() {
    let server = Server::new();
    server.request("PUT", "/b?versioning").unframed().send().is_error(411, "MissingContentLength");
    server.request("PUT", "/absent?versioning").body(b"<x/>").send().is_error(404, "NoSuchBucket");
    server.get("/absent?versioning").is_error(404, "NoSuchBucket");
}

#[test]
fn objects_put_while_it_is_enabled_have_ids_and_the_others_are_null() {
    let server = Server::new();
    assert_eq!(server.put("/b/k", b"before").header("p-version-id"), None);
    assert_eq!(server.get("/b/k").header("p-version-id"), None);
    server.set_versioning("Enabled");
    let first = server.put("/b/k", b"first").header("p-version-id").unwrap().to_owned();
    let second = server.put("/b/k", b"second").header("p-version-id").unwrap().to_owned();
    assert_ne!(first, second);
    server.set_versioning("Suspended");
    assert_eq!(server.put("/b/k", b"after").header("p-version-id"), None);

    let read = |query: &str| server.get(&format!("/b/k{query}"));
    assert_eq!(read("").text(), "after");
    assert_eq!(read("").header("p-version-id"), Some("null"));
    assert_eq!(read("?versionId=null").text(), "after");
    assert_eq!(read(&format!("?versionId={first}")).text(), "first");
    let named = read(&format!("?versionId={second}"));
    assert_eq!((named.text(), named.header("p-version-id")), ("second", Some(second.as_str())));
}

#[test]
fn objects_put_before_versioning_are_null_versions() {
    let server = Server::new();
    server.put("/b/k", b"before");
    assert_eq!(server.get("/b/k?versionId=null").text(), "before");
    server.set_versioning("Enabled");
    server.put("/b/k", b"now");
    assert_eq!(server.get("/b/k?versionId=null").text(), "before");
}

#[test]
fn malformed_and_unknown_version_ids_are_distinguished() {
    let server = Server::new();
    server.put("/b/k", b"x");
    for id in ["", "x", "NULL", "0123", "0000000000000001", "0000000000000001AAAAAAAAAAAAAAAA"] {
        let answer = server.get(&format!("/b/k?versionId={id}"));
        answer.is_error(400, "InvalidArgument");
        assert_eq!(answer.one("ArgumentName").as_deref(), Some("versionId"));
        assert_eq!(answer.one("ArgumentValue").as_deref(), Some(id));
    }
    server.get("/b/k?versionId=0000000000000001aaaaaaaaaaaaaaaa").is_error(404, "NoSuchVersion");
    server.head("/b/k?versionId=0000000000000001aaaaaaaaaaaaaaaa").is_bare(404);
    server.head("/b/k?versionId=x").is_bare(400);
}

/// The same id with another tag; with its last digit changed, and with the tag of its neighbour.
fn forged(id: &str) -> [String; 2] {
    let (stamp, tag) = id.split_at(16);
    let last = if tag.ends_with('0') { "1" } else { "0" };
    let next = u64::from_str_radix(stamp, 16).unwrap() + 1;
    [format!("{stamp}{}{last}", &tag[..15]), format!("{next:016x}{tag}")]
}

#[test]
fn to_know_the_time_of_a_version_is_not_to_know_its_id() {
    let server = Server::new();
    server.set_versioning("Enabled");
    let id = server.put("/b/k", b"kept").header("p-version-id").unwrap().to_owned();
    assert_eq!(id.len(), 32);
    for wrong in forged(&id) {
        let at = format!("/b/k?versionId={wrong}");
        server.get(&at).is_error(404, "NoSuchVersion");
        server.head(&at).is_bare(404);
        server.get(&format!("/b/k?tagging&versionId={wrong}")).is_error(404, "NoSuchVersion");
        let copy = server.request("PUT", "/b/copy").header("p-copy-source", format!("b/k?versionId={wrong}"));
        copy.send().is_error(404, "NoSuchVersion");
        let deleted = server.delete(&at);
        assert_eq!(deleted.status, 204, "as of any version that is not there");
        assert_eq!(deleted.header("p-version-id"), Some(wrong.as_str()), "the right tag is not told");
        let entry = format!("<Delete><Object><Key>k</Key><VersionId>{wrong}</VersionId></Object></Delete>");
        assert_eq!(delete::many(&server, &entry).all("VersionId"), [wrong.as_str()]);
        let listed = server.get(&format!("/b?versions&key-marker=k&version-id-marker={wrong}"));
        listed.is_error(400, "InvalidArgument");
        assert!(!listed.text().contains(&id));
    }
    assert_eq!(server.get(&format!("/b/k?versionId={id}")).text(), "kept");
}

#[test]
fn to_know_the_time_of_an_upload_is_not_to_know_its_id() {
    let server = Server::new();
    let begin = || server.request("POST", "/b/k?uploads").send().one("UploadId").unwrap();
    let first = begin();
    let second = begin();
    assert!(first < second && first[16..] != second[16..], "they sort by time, and differ");
    for wrong in forged(&first) {
        let at = |more: &str| format!("/b/k?{more}uploadId={wrong}");
        server.request("PUT", &at("partNumber=1&")).body(b"x").send().is_error(404, "NoSuchUpload");
        server.get(&at("")).is_error(404, "NoSuchUpload");
        server.delete(&at("")).is_error(404, "NoSuchUpload");
        server.request("POST", &at("")).send().is_error(404, "NoSuchUpload");
        let listed = server.get(&format!("/b?uploads&key-marker=k&upload-id-marker={wrong}"));
        listed.is_error(400, "InvalidArgument");
    }
    assert_eq!(server.get("/b?uploads").all("UploadId"), [first, second]);
}

#[test]
fn a_current_marker_hides_the_object_and_shows_itself() {
    let server = Server::new();
    server.set_versioning("Enabled");
    server.put("/b/k", b"x");
    let marker = server.delete("/b/k").header("p-version-id").unwrap().to_owned();
    let get = server.get("/b/k");
    get.is_error(404, "NoSuchKey");
    assert_eq!(get.header("p-delete-marker"), Some("true"));
    assert_eq!(get.header("p-version-id"), Some(marker.as_str()));
    let head = server.head("/b/k");
    head.is_bare(404);
    assert_eq!(head.header("p-delete-marker"), Some("true"));
}

#[test]
fn a_marker_that_is_named_cannot_be_read() {
    let server = Server::new();
    server.set_versioning("Enabled");
    let marker = server.delete("/b/k").header("p-version-id").unwrap().to_owned();
    let get = server.get(&format!("/b/k?versionId={marker}"));
    get.is_error(405, "MethodNotAllowed");
    let head = server.head(&format!("/b/k?versionId={marker}"));
    head.is_bare(405);
    for answer in [get, head] {
        assert_eq!(answer.header("Last-Modified"), Some(NOW_HTTP));
        assert_eq!(answer.header("p-delete-marker"), Some("true"));
        assert_eq!(answer.header("Allow"), Some("DELETE"));
    }
}

#[test]
fn both_dialects_tell_of_markers_and_versions_alike() {
    for dialect in Dialect::ALL {
        let server = Server::new();
        server.set_versioning("Enabled");
        let ask = |method: &str, target: &str| server.request(method, target).dialect(dialect).send();
        let header = |answer: &Answer, name: &str| {
            answer.header(&format!("{}{name}", dialect.header_prefix())).map(str::to_owned)
        };
        let put = header(&ask("PUT", "/b/k"), "version-id").unwrap();
        let delete = ask("DELETE", "/b/k");
        let marker = header(&delete, "version-id").unwrap();
        assert_eq!((delete.status, header(&delete, "delete-marker").as_deref()), (204, Some("true")));
        for (method, target, status) in [
            ("GET", "/b/k".to_owned(), 404),
            ("HEAD", "/b/k".to_owned(), 404),
            ("GET", format!("/b/k?versionId={marker}"), 405),
            ("HEAD", format!("/b/k?versionId={marker}"), 405),
        ] {
            let answer = ask(method, &target);
            assert_eq!(answer.status, status, "{method} {target}");
            assert_eq!(header(&answer, "delete-marker").as_deref(), Some("true"));
            assert_eq!(header(&answer, "version-id"), Some(marker.clone()));
            let named = [("Allow", "DELETE"), ("Last-Modified", NOW_HTTP)];
            for (name, value) in named {
                assert_eq!(answer.header(name), (status == 405).then_some(value), "{method} {target}");
            }
        }
        let read = ask("GET", &format!("/b/k?versionId={put}"));
        assert_eq!((read.status, header(&read, "version-id")), (200, Some(put)));
        assert_eq!(header(&read, "delete-marker"), None);
    }
}

#[test]
fn a_marker_under_suspension_is_the_version_null() {
    let server = Server::new();
    server.set_versioning("Suspended");
    server.put("/b/k", b"x");
    assert_eq!(server.delete("/b/k").header("p-version-id"), Some("null"));
    server.delete("/b/k");
    let listed = server.get("/b?versions");
    assert_eq!((listed.all("DeleteMarker").len(), listed.all("Version").len()), (1, 0));
    assert_eq!(server.head("/b/k").header("p-version-id"), Some("null"));
    let removed = server.delete("/b/k?versionId=null");
    assert_eq!(removed.header("p-delete-marker"), Some("true"));
    assert_eq!(removed.header("p-version-id"), Some("null"));
    assert_eq!(server.get("/b?versions").all("DeleteMarker").len(), 0);
}

#[test]
fn a_delete_marker_is_reported_only_to_callers_who_may_list() {
    let server = Server::with_grants(&[("reader", &["GetObject"], &["b/*"])]);
    server.set_versioning("Enabled");
    server.delete("/b/k");
    let answer = server.request("GET", "/b/k").by("reader").send();
    answer.is_error(403, "AccessDenied");
    assert_eq!(answer.header("p-delete-marker"), None);
}
