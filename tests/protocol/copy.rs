//! CopyObject.

use std::time::Duration;

use siltstone::base::digest::Md5;
use siltstone::ops::PaddingTimes;
use siltstone::s3::ResponseBody;
use siltstone::store::{
    Attributes, Commit, Completion, CopyRange, ETag, NewUpload, ObjectControls, Selector, StorageClass,
    UploadId, WriteCondition,
};

use super::*;

const EARLIER: &str = "Sat, 31 Jan 2026 11:59:59 GMT";
const LATER: &str = "Sat, 31 Jan 2026 12:00:01 GMT";

fn copy<'s>(server: &'s Server, source: &str, target: &str) -> Asked<'s> {
    server.request("PUT", target).header("p-copy-source", source)
}

/// A server with an object `k` that has everything an object can have.
fn with_source() -> Server {
    let server = Server::new();
    let asked = server.request("PUT", "/b/k").body(b"body").header("Content-Type", "text/plain");
    let asked = asked.header("Cache-Control", "no-store").header("p-meta-colour", "green");
    let asked = asked.header("p-tagging", "a=1&b=2").header("p-checksum-crc32", crc32("body"));
    assert_eq!(asked.send().status, 200);
    server
}

fn crc32(text: &str) -> String {
    crc32_of(text.as_bytes())
}

fn crc32_of(bytes: &[u8]) -> String {
    use base64::Engine as _;
    base64::engine::general_purpose::STANDARD.encode(crc32fast::hash(bytes).to_be_bytes())
}

fn tags(server: &Server, target: &str) -> Vec<(String, String)> {
    let answer = server.get(&format!("{target}?tagging"));
    answer.all("Key").into_iter().zip(answer.all("Value")).collect()
}

#[test]
fn a_copy_has_all_that_its_source_has() {
    for dialect in Dialect::ALL {
        let server = with_source();
        let etag = server.head("/b/k").header("ETag").unwrap().to_owned();
        let answer = copy(&server, "/b/k", "/b/copy").dialect(dialect).send();
        assert_eq!(answer.status, 200, "{answer:?}");
        assert_eq!(
            answer.outline(),
            ["CopyObjectResult", "ETag", "LastModified", "ChecksumCRC32", "ChecksumType"]
        );
        assert_eq!(answer.one("ETag"), Some(etag.clone()));
        assert_eq!(answer.one("LastModified").as_deref(), Some(NOW));
        assert_eq!(answer.one("ChecksumCRC32"), Some(crc32("body")));
        assert_eq!(answer.header(&format!("{}version-id", dialect.header_prefix())), None);
        let get = server.request("GET", "/b/copy").header("p-checksum-mode", "ENABLED").send();
        assert_eq!((get.text(), get.header("ETag")), ("body", Some(etag.as_str())));
        assert_eq!(get.header("Content-Type"), Some("text/plain"));
        assert_eq!(get.header("Cache-Control"), Some("no-store"));
        assert_eq!(get.header("p-meta-colour"), Some("green"));
        assert_eq!(get.header("p-checksum-crc32"), Some(crc32("body").as_str()));
        assert_eq!(get.header("p-tagging-count"), Some("2"));
        assert_eq!(tags(&server, "/b/copy"), tags(&server, "/b/k"));
    }
}

#[test]
fn a_source_is_named_with_or_without_a_slash_and_encoded_in_part_or_whole() {
    let server = Server::new();
    server.put("/b/a%20b%2Bc/%C3%BC", b"odd");
    for source in ["b/a%20b%2Bc/%C3%BC", "/b/a+b%2Bc/%c3%bc", "b%2Fa%20b%2Bc%2F%C3%BC"] {
        assert_eq!(copy(&server, source, "/b/copy").send().status, 200, "{source}");
        assert_eq!(server.get("/b/copy").text(), "odd");
        server.delete("/b/copy");
    }
}

#[test]
fn a_plus_in_the_name_of_a_source_is_a_space() {
    let server = Server::new();
    server.put("/b/a%20b", b"space");
    server.put("/b/a%2Bb", b"plus");
    for (source, body) in
        [("b/a+b", "space"), ("b/a%20b", "space"), ("b/a%2Bb", "plus"), ("/b/a%2bb", "plus")]
    {
        for dialect in Dialect::ALL {
            assert_eq!(copy(&server, source, "/b/copy").dialect(dialect).send().status, 200, "{source}");
            assert_eq!(server.get("/b/copy").text(), body, "{source}");
        }
    }
    server.delete("/b/a%20b");
    copy(&server, "b/a+b", "/b/copy").send().is_error(404, "NoSuchKey");
    assert_eq!(server.get("/b/a+b").text(), "plus", "in a path it is a plus");
}

#[test]
fn metadata_is_kept_or_replaced_as_directed() {
    let server = with_source();
    let directed = |directive: &str| {
        let asked = copy(&server, "b/k", "/b/copy").header("p-metadata-directive", directive);
        asked.header("p-meta-size", "L").header("Content-Language", "de").send();
        server.head("/b/copy")
    };
    let kept = directed("COPY");
    assert_eq!((kept.header("p-meta-colour"), kept.header("p-meta-size")), (Some("green"), None));
    let replaced = directed("REPLACE");
    assert_eq!((replaced.header("p-meta-colour"), replaced.header("p-meta-size")), (None, Some("L")));
    assert_eq!(replaced.header("Content-Language"), Some("de"));
    assert_eq!(replaced.header("Content-Type"), Some("binary/octet-stream"));
    assert_eq!(replaced.header("Cache-Control"), None);
    assert_eq!(replaced.header("p-tagging-count"), Some("2"));
}

#[test]
fn tags_are_kept_or_replaced_as_directed() {
    let server = with_source();
    let directed = |directive: &str| {
        let asked = copy(&server, "b/k", "/b/copy").header("p-tagging-directive", directive);
        assert_eq!(asked.header("p-tagging", "c=3").send().status, 200);
        tags(&server, "/b/copy")
    };
    assert_eq!(directed("COPY"), tags(&server, "/b/k"));
    assert_eq!(directed("REPLACE"), [("c".to_owned(), "3".to_owned())]);
    assert_eq!(server.head("/b/copy").header("p-meta-colour"), Some("green"));
}

#[test]
fn to_replace_the_tags_by_none_takes_them_away() {
    let server = with_source();
    for header in [None, Some("")] {
        let asked = copy(&server, "b/k", "/b/copy").header("p-tagging-directive", "REPLACE");
        let asked = header.into_iter().fold(asked, |asked, tags| asked.header("p-tagging", tags));
        assert_eq!(asked.send().status, 200);
        assert_eq!(tags(&server, "/b/copy"), []);
        assert_eq!(server.head("/b/copy").header("p-tagging-count"), None);
    }
    for wrong in ["a=%zz", "a=1&a=2"] {
        let asked = copy(&server, "b/k", "/b/copy").header("p-tagging-directive", "REPLACE");
        asked.header("p-tagging", wrong).send().is_error(400, "InvalidArgument");
    }
}

#[test]
fn a_copy_has_the_tags_of_the_version_that_it_copies_and_keeps_them() {
    let server = Server::new();
    server.set_versioning("Enabled");
    let put = |value: &str| {
        let asked = server.request("PUT", "/b/k").header("p-tagging", format!("of={value}"));
        asked.body(value.as_bytes()).send().header("p-version-id").unwrap().to_owned()
    };
    let old = put("old");
    let new = put("new");
    let of = |value: &str| vec![("of".to_owned(), value.to_owned())];
    for (source, value) in [
        (format!("b/k?versionId={old}"), "old"),
        (format!("b/k?versionId={new}"), "new"),
        ("b/k".into(), "new"),
    ] {
        let copied = copy(&server, &source, "/b/copy").send();
        let id = copied.header("p-version-id").unwrap().to_owned();
        assert_eq!(tags(&server, "/b/copy"), of(value), "{source}");
        for target in ["/b/copy".to_owned(), format!("/b/copy?versionId={id}")] {
            assert_eq!(server.get(&target).header("p-tagging-count"), Some("1"));
            assert_eq!(server.head(&target).header("p-tagging-count"), Some("1"));
        }
    }
    // A version that is made current again has its own tags, and no change of the source reaches a
    // copy.
    assert_eq!(copy(&server, &format!("b/k?versionId={old}"), "/b/k").send().status, 200);
    assert_eq!(tags(&server, "/b/k"), of("old"));
    assert_eq!(server.delete("/b/k?tagging").status, 204);
    assert_eq!((tags(&server, "/b/k"), tags(&server, "/b/copy")), (vec![], of("new")));
    let kept = server.get(&format!("/b/k?tagging&versionId={old}"));
    assert_eq!(kept.one("Value").as_deref(), Some("old"));
}

#[test]
fn the_tags_of_a_named_version_take_a_permission_of_their_own() {
    const COMMON: [&str; 4] = ["PutObject", "GetObject", "GetObjectVersion", "PutObjectTagging"];
    let with = |more: &'static str| [&COMMON[..], &[more]].concat();
    let current = with("GetObjectTagging");
    let named = with("GetObjectVersionTagging");
    let server = Server::with_grants(&[("current", &current, &["b/*"]), ("named", &named, &["b/*"])]);
    server.request("PUT", "/b/k").header("p-tagging", "a=1").body(b"x").send();
    for (user, source, status) in [
        ("current", "b/k", 200),
        ("current", "b/k?versionId=null", 403),
        ("named", "b/k", 403),
        ("named", "b/k?versionId=null", 200),
    ] {
        assert_eq!(copy(&server, source, "/b/copy").by(user).send().status, status, "{user} {source}");
    }
}

#[test]
fn directives_that_are_none_are_refused() {
    let server = with_source();
    for name in ["metadata-directive", "tagging-directive"] {
        let answer = copy(&server, "b/k", "/b/copy").aws().header(&format!("p-{name}"), "copy").send();
        answer.is_error(400, "InvalidArgument");
        assert_eq!(answer.one("ArgumentName"), Some(format!("x-amz-{name}")));
    }
    copy(&server, "b/k", "/b/copy")
        .header("p-checksum-algorithm", "MD4")
        .send()
        .is_error(400, "InvalidRequest");
    let encrypted = copy(&server, "b/k", "/b/copy").header("p-server-side-encryption", "AES192");
    encrypted.send().is_error(400, "InvalidArgument");
    server.get("/b/copy").is_error(404, "NoSuchKey");
}

#[test]
fn a_named_version_is_copied_and_its_id_returned() {
    for dialect in Dialect::ALL {
        let server = Server::new();
        server.put("/b/k", b"null");
        server.set_versioning("Enabled");
        let old = server.put("/b/k", b"old").header("p-version-id").unwrap().to_owned();
        let new = server.put("/b/k", b"new").header("p-version-id").unwrap().to_owned();
        let header = |answer: &Answer, name: &str| {
            answer.header(&format!("{}{name}", dialect.header_prefix())).map(str::to_owned)
        };
        for (source, bytes, id) in [
            ("b/k".to_owned(), "new", new.as_str()),
            (format!("b/k?versionId={old}"), "old", &old),
            ("b/k?versionId=null".to_owned(), "null", "null"),
        ] {
            let answer = copy(&server, &source, "/b/copy").dialect(dialect).send();
            assert_eq!(header(&answer, "copy-source-version-id").as_deref(), Some(id), "{answer:?}");
            let made = header(&answer, "version-id").unwrap();
            assert_eq!(server.get(&format!("/b/copy?versionId={made}")).text(), bytes);
        }
    }
}

#[test]
fn an_old_version_is_copied_onto_its_key_to_be_the_current_one_again() {
    let server = Server::new();
    server.set_versioning("Enabled");
    let old = server.put("/b/k", b"old").header("p-version-id").unwrap().to_owned();
    server.delete("/b/k");
    assert_eq!(copy(&server, &format!("b/k?versionId={old}"), "/b/k").send().status, 200);
    assert_eq!(server.get("/b/k").text(), "old");
}

#[test]
fn conditions_on_the_source_that_do_not_hold_are_412() {
    let server = with_source();
    let etag = server.head("/b/k").header("ETag").unwrap().to_owned();
    let table: &[(&[(&str, &str)], u16)] = &[
        (&[("if-match", &etag)], 200),
        (&[("if-match", etag.trim_matches('"'))], 200),
        (&[("if-match", "\"x\"")], 412),
        (&[("if-none-match", "\"x\"")], 200),
        (&[("if-none-match", &etag)], 412),
        (&[("if-unmodified-since", NOW_HTTP)], 200),
        (&[("if-unmodified-since", EARLIER)], 412),
        (&[("if-modified-since", EARLIER)], 200),
        (&[("if-modified-since", NOW_HTTP)], 412),
        (&[("if-modified-since", LATER)], 200),
        (&[("if-match", &etag), ("if-unmodified-since", EARLIER)], 200),
        (&[("if-none-match", "\"x\""), ("if-modified-since", LATER)], 200),
        (&[("if-none-match", &etag), ("if-modified-since", EARLIER)], 412),
    ];
    for (conditions, status) in table {
        for dialect in Dialect::ALL {
            let mut asked = copy(&server, "b/k", "/b/copy").dialect(dialect);
            for (name, value) in *conditions {
                asked = asked.header(&format!("p-copy-source-{name}"), value);
            }
            let answer = asked.send();
            assert_eq!(answer.status, *status, "{conditions:?}");
            if *status == 412 {
                answer.is_error(412, "PreconditionFailed");
                let condition = answer.one("Condition").unwrap();
                assert!(condition.starts_with(&format!("{}copy-source-If-", dialect.header_prefix())));
            }
        }
    }
}

#[test]
fn conditions_on_the_target_are_those_of_a_put() {
    let server = with_source();
    server.put("/b/there", b"there");
    let put = |target: &str, name: &str, value: &str| copy(&server, "b/k", target).header(name, value).send();
    put("/b/there", "If-None-Match", "*").is_error(412, "PreconditionFailed");
    put("/b/there", "If-Match", "\"x\"").is_error(412, "PreconditionFailed");
    let absent = put("/b/absent", "If-Match", "\"x\"");
    absent.is_error(404, "NoSuchKey");
    assert_eq!(absent.one("Key").as_deref(), Some("absent"));
    assert_eq!(server.get("/b/there").text(), "there");
    assert_eq!(put("/b/there", "If-None-Match", "\"x\"").status, 200);
    assert_eq!(put("/b/absent", "If-None-Match", "*").status, 200);
}

#[test]
fn an_object_is_copied_onto_itself_only_to_change_something() {
    let server = with_source();
    let onto = |name: &str, value: &str| copy(&server, "b/k", "/b/k").header(name, value).send();
    copy(&server, "b/k", "/b/k").send().is_error(400, "InvalidRequest");
    onto("p-metadata-directive", "COPY").is_error(400, "InvalidRequest");
    onto("p-checksum-algorithm", "CRC32").is_error(400, "InvalidRequest");
    onto("p-checksum-algorithm", "SHA256").is_error(400, "InvalidRequest");
    assert_eq!(onto("p-storage-class", "STANDARD").status, 200);
    let checked = copy(&server, "b/k", "/b/k").header("p-checksum-algorithm", "SHA256");
    let checked = checked.header("p-metadata-directive", "REPLACE").header("p-meta-colour", "red").send();
    assert!(checked.status == 200 && checked.one("ChecksumSHA256").is_some(), "{checked:?}");
    assert_eq!(onto("p-metadata-directive", "REPLACE").status, 200);
    assert_eq!(server.head("/b/k").header("p-meta-colour"), None);
    assert_eq!(onto("p-tagging-directive", "REPLACE").status, 200);
    assert_eq!(tags(&server, "/b/k"), []);
    assert_eq!(server.get("/b/k").text(), "body");
}

#[test]
fn the_error_for_a_missing_source_names_the_source() {
    let server = with_source();
    let named = |source: &str| copy(&server, source, "/b/copy").send();
    let absent = named("b/absent");
    absent.is_error(404, "NoSuchKey");
    assert_eq!(absent.one("Key").as_deref(), Some("absent"));
    let bucket = named("elsewhere/k");
    bucket.is_error(404, "NoSuchBucket");
    assert_eq!(bucket.one("BucketName").as_deref(), Some("elsewhere"));
    let version = named("b/k?versionId=0000000000000001aaaaaaaaaaaaaaaa");
    version.is_error(404, "NoSuchVersion");
    assert_eq!(version.one("VersionId").as_deref(), Some("0000000000000001aaaaaaaaaaaaaaaa"));
    for source in ["b/k?versionId=", "b/k?versionId=x", "", "b", "/b/", "b/%zz"] {
        named(source).is_error(400, "InvalidArgument");
    }
    let target = copy(&server, "b/k", "/nowhere/copy").send();
    target.is_error(404, "NoSuchBucket");
    assert_eq!(target.one("BucketName").as_deref(), Some("nowhere"));
}

#[test]
fn a_delete_marker_is_no_source() {
    let server = Server::new();
    server.set_versioning("Enabled");
    server.put("/b/k", b"x");
    let marker = server.delete("/b/k").header("p-version-id").unwrap().to_owned();
    copy(&server, "b/k", "/b/copy").send().is_error(404, "NoSuchKey");
    copy(&server, &format!("b/k?versionId={marker}"), "/b/copy").send().is_error(400, "InvalidRequest");
}

#[test]
fn a_source_is_checked_as_a_read_would_be() {
    let server = Server::with_grants(&[
        ("current", &["PutObject", "GetObject"], &["b/*", "other-bucket/copy"]),
        ("versions", &["PutObject", "GetObjectVersion"], &["b/*"]),
        ("neither", &["PutObject", "ListBucket"], &["*"]),
        ("lister", &["PutObject", "GetObject", "ListBucket"], &["b", "b/*"]),
    ]);
    server.put("/b/k", b"x");
    let by = |user: &str, source: &str| copy(&server, source, "/b/copy").by(user).send();
    assert_eq!(by("current", "b/k").status, 200);
    by("current", "b/k?versionId=null").is_error(403, "AccessDenied");
    by("versions", "b/k").is_error(403, "AccessDenied");
    assert_eq!(by("versions", "b/k?versionId=null").status, 200);
    by("neither", "b/k").is_error(403, "AccessDenied");
    by("current", "b/absent").is_error(403, "AccessDenied");
    by("current", "other-bucket/k").is_error(403, "AccessDenied");
    by("lister", "b/absent").is_error(404, "NoSuchKey");
}

#[test]
fn copying_tags_takes_the_permissions_to_read_and_set_them() {
    let server = Server::with_grants(&[
        ("reader", &["PutObject", "GetObject", "GetObjectTagging"], &["b/*"]),
        ("setter", &["PutObject", "GetObject", "PutObjectTagging"], &["b/*"]),
        ("both", &["PutObject", "GetObject", "GetObjectTagging", "PutObjectTagging"], &["b/*"]),
    ]);
    server.request("PUT", "/b/k").header("p-tagging", "a=1").body(b"x").send();
    let by = |user: &str| copy(&server, "b/k", "/b/copy").by(user);
    by("reader").send().is_error(403, "AccessDenied");
    by("setter").send().is_error(403, "AccessDenied");
    assert_eq!(by("both").send().status, 200);
    assert_eq!(by("reader").header("p-tagging-directive", "REPLACE").send().status, 200);
    let given = by("reader").header("p-tagging-directive", "REPLACE").header("p-tagging", "a=1");
    given.send().is_error(403, "AccessDenied");
}

#[test]
fn a_checksum_that_the_source_lacks_is_computed_when_it_is_asked_for() {
    let server = Server::new();
    let large = pattern(600_000);
    server.put("/b/plain", &large);
    let copied = copy(&server, "b/plain", "/b/copy").send();
    assert_eq!(copied.all("ChecksumCRC32").len() + copied.all("ChecksumType").len(), 0);
    let computed = copy(&server, "b/plain", "/b/copy").header("p-checksum-algorithm", "CRC32").send();
    let expected = {
        use base64::Engine as _;
        base64::engine::general_purpose::STANDARD.encode(crc32fast::hash(&large).to_be_bytes())
    };
    assert_eq!(computed.one("ChecksumCRC32"), Some(expected.clone()));
    assert_eq!(computed.one("ChecksumType").as_deref(), Some("FULL_OBJECT"));
    let kept = copy(&server, "b/copy", "/b/again").send();
    assert_eq!(kept.one("ChecksumCRC32"), Some(expected));
    let other = copy(&server, "b/copy", "/b/again").header("p-checksum-algorithm", "sha256").send();
    assert_eq!((other.all("ChecksumCRC32").len(), other.all("ChecksumSHA256").len()), (0, 1));
}

#[test]
fn damage_in_a_source_is_no_checksum_of_a_copy() {
    let server = Server::new();
    let body = pattern(300_000);
    server.put("/b/k", &body);
    failures::damage(&server, &body[200_000..200_040]);
    let answer = copy(&server, "b/k", "/b/copy").header("p-checksum-algorithm", "CRC32").send();
    answer.is_error(500, "InternalError");
    server.get("/b/copy").is_error(404, "NoSuchKey");
}

#[test]
fn a_copy_outlives_its_source() {
    let server = Server::new();
    let body = pattern(300_000);
    server.put("/b/k", &body);
    copy(&server, "b/k", "/b/copy").send();
    server.delete("/b/k");
    assert_eq!(server.get("/b/copy").body, body);
}

/// Puts together `times` copies of an object.
fn assemble(server: &Server, from: &str, times: u32, to: &str) -> UploadId {
    let store = &server.store;
    let attributes = Attributes::new();
    let tags = Vec::new();
    let new = NewUpload {
        storage_class: StorageClass::Standard,
        initiator: "owner".into(),
        checksum: None,
        attributes,
        tags,
        controls: ObjectControls::default(),
    };
    let upload = store.create_upload("b", to, new).unwrap().id;
    let found = store.find("b", from, Selector::Current).unwrap();
    let parts = (1..=times).map(|number| {
        let bucket = found.bucket.id;
        let range = 0..found.version.size;
        let source = CopyRange { bucket, key: from.into(), version: found.version.clone(), range };
        store.copy_part(source, ("b", to), (upload, number), [7; 16], None).unwrap()
    });
    let commit = Commit {
        storage_class: StorageClass::Standard,
        etag: ETag::Multipart { md5: [7; 16], parts: times },
        attributes: Attributes::new(),
        checksums: Vec::new(),
        tags: Vec::new(),
        condition: WriteCondition::None,
        controls: ObjectControls::default(),
        stated_time: None,
    };
    let completion = Completion { upload, parts: parts.collect(), commit };
    store.complete_upload("b", to, completion).unwrap();
    upload
}

#[test]
fn more_than_five_gibibytes_are_not_copied_at_once() {
    let server = Server::new();
    server.put("/b/piece", &pattern(5 << 20));
    assemble(&server, "piece", 32, "large");
    assemble(&server, "large", 32, "exact");
    assemble(&server, "large", 33, "huge");
    assert_eq!(server.head("/b/exact").header("Content-Length"), Some("5368709120"));
    assert_eq!(copy(&server, "b/exact", "/b/copy").send().status, 200);
    assert_eq!(server.head("/b/copy").header("Content-Length"), Some("5368709120"));
    let answer = copy(&server, "b/huge", "/b/copy").send();
    answer.is_error(400, "InvalidRequest");
    assert!(answer.one("Message").unwrap().contains("5368709120"));
}

#[test]
fn a_copy_of_a_multipart_object_keeps_its_tag() {
    let server = Server::new();
    server.put("/b/piece", b"piece");
    assemble(&server, "piece", 3, "k");
    let etag = server.head("/b/k").header("ETag").unwrap().to_owned();
    assert!(etag.ends_with("-3\""));
    assert_eq!(copy(&server, "b/k", "/b/copy").send().one("ETag"), Some(etag.clone()));
    let get = server.get("/b/copy");
    assert_eq!((get.text(), get.header("ETag")), ("piecepiecepiece", Some(etag.as_str())));
}

/// The first bytes of a response, and the rest.
fn late(response: siltstone::s3::Response) -> (String, String) {
    let ResponseBody::Stream { length: None, mut source } = response.body else {
        panic!("the answer is not late: {}", response.status)
    };
    let mut read = || {
        let mut buffer = [0; 4096];
        let count = source.read(&mut buffer).unwrap();
        String::from_utf8(buffer[..count].to_vec()).unwrap()
    };
    let first = read();
    (first, std::iter::repeat_with(read).take_while(|piece| !piece.is_empty()).collect())
}

#[test]
fn a_copy_that_takes_reading_a_large_source_keeps_its_client_waiting_and_is_right() {
    let padding = PaddingTimes { after: Duration::ZERO, every: Duration::from_millis(1) };
    let server = Server::with_padding(padding);
    let content = pattern(3_000_000);
    server.put("/b/k", &content);
    let gate = server.fs.hold_syncs("");
    let response = copy(&server, "b/k", "/b/copy").header("p-checksum-algorithm", "CRC32").respond();
    drop(gate);
    let (first, rest) = late(response);
    assert_eq!(first, "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n");
    let crc = crc32_of(&content);
    assert!(rest.contains("<CopyObjectResult") && rest.contains(&format!("<ChecksumCRC32>{crc}<")), "{rest}");
    assert_eq!(server.get("/b/copy").body, content);

    let id = server.request("POST", "/b/parts?uploads").send().one("UploadId").unwrap();
    let target = format!("/b/parts?partNumber=1&uploadId={id}");
    let gate = server.fs.hold_syncs("");
    let asked = copy(&server, "b/k", &target).header("p-copy-source-range", "bytes=1-2999999");
    let response = asked.respond();
    drop(gate);
    let (first, rest) = late(response);
    let md5: String = Md5::of(&content[1..]).iter().map(|byte| format!("{byte:02x}")).collect();
    assert!(first.starts_with("<?xml") && rest.contains("<CopyPartResult") && rest.contains(&md5), "{rest}");
}

#[test]
fn a_large_source_is_not_read_for_a_client_that_has_left() {
    let server = Server::new();
    server.put("/b/k", &pattern(3_000_000));
    server.put("/b/small", b"body");
    let ask = |source: &str, target: &str| {
        let asked = copy(&server, source, target).header("p-checksum-algorithm", "CRC32");
        asked.leaving().respond().status
    };
    assert_eq!(ask("b/k", "/b/copy"), 400);
    server.get("/b/copy").is_error(404, "NoSuchKey");
    assert_eq!(ask("b/small", "/b/copy"), 200, "it would take longer to ask");
    let id = server.request("POST", "/b/parts?uploads").send().one("UploadId").unwrap();
    let asked = copy(&server, "b/k", &format!("/b/parts?partNumber=1&uploadId={id}"));
    assert_eq!(asked.header("p-copy-source-range", "bytes=1-2999999").leaving().respond().status, 400);
}
