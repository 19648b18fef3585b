//! GetObjectAttributes.

use siltstone::store::{
    Attributes, Checksum, ChecksumAlgorithm, ChecksumType, Commit, Completion, ETag, NewUpload,
    ObjectControls, StorageClass, WriteCondition,
};

use super::*;

fn ask<'s>(server: &'s Server, attributes: &str) -> Asked<'s> {
    server.request("GET", "/b/k?attributes").header("p-object-attributes", attributes)
}

fn crc32(value: u32, kind: ChecksumType, parts: u32) -> Checksum {
    let value = value.to_be_bytes().to_vec();
    Checksum { algorithm: ChecksumAlgorithm::Crc32, kind, parts, value }
}

/// Puts an object of three parts, numbered 2, 4 and 6, with or without checksums.
fn put_in_parts(server: &Server, checked: bool) {
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
    let upload = store.create_upload("b", "k", new).unwrap().id;
    for number in [2, 4, 6] {
        let mut writer = store.part_writer("b", "k", upload, number, None).unwrap();
        writer.write(vec![0; number as usize]).unwrap();
        let checksum = checked.then(|| crc32(number, ChecksumType::FullObject, 0));
        writer.commit([1; 16], checksum).unwrap();
    }
    let parts = store.upload("b", "k", upload).unwrap().parts;
    let commit = Commit {
        storage_class: StorageClass::Standard,
        etag: ETag::Multipart { md5: [1; 16], parts: 3 },
        attributes: Attributes::new(),
        checksums: if checked { vec![crc32(9, ChecksumType::Composite, 3)] } else { Vec::new() },
        tags: Vec::new(),
        condition: WriteCondition::None,
        controls: ObjectControls::default(),
        stated_time: None,
    };
    store.complete_upload("b", "k", Completion { upload, parts, commit }).unwrap();
}

#[test]
fn only_requested_attributes_are_returned() {
    for dialect in Dialect::ALL {
        let server = Server::new();
        let put = server.request("PUT", "/b/k").header("p-checksum-crc32", "y/Q5Jg==").body(b"123456789");
        let etag = put.send().header("ETag").unwrap().to_owned();
        let all = ask(&server, "ETag,Checksum, ObjectParts,StorageClass,ObjectSize").dialect(dialect).send();
        assert_eq!(
            all.outline(),
            ["GetObjectAttributesResponse", "ETag", "Checksum", "StorageClass", "ObjectSize"]
        );
        assert_eq!(all.one("ETag").as_deref(), Some(etag.trim_matches('"')));
        assert_eq!(all.one("ChecksumCRC32").as_deref(), Some("y/Q5Jg=="));
        assert_eq!(all.one("ChecksumType").as_deref(), Some("FULL_OBJECT"));
        assert_eq!(all.one("StorageClass").as_deref(), Some("STANDARD"));
        assert_eq!(all.one("ObjectSize").as_deref(), Some("9"));
        assert_eq!(all.header("Last-Modified"), Some(NOW_HTTP));
        let size = ask(&server, "ObjectSize").dialect(dialect).send();
        assert_eq!(size.outline(), ["GetObjectAttributesResponse", "ObjectSize"]);
        let lines = ask(&server, "ObjectSize").header("p-object-attributes", "ETag").dialect(dialect).send();
        assert_eq!(lines.outline(), ["GetObjectAttributesResponse", "ETag", "ObjectSize"]);
    }
}

#[test]
fn an_object_without_checksums_or_parts_has_neither() {
    let server = Server::new();
    server.put("/b/k", b"x");
    let answer = ask(&server, "Checksum,ObjectParts").send();
    assert_eq!((answer.status, answer.outline()), (200, vec!["GetObjectAttributesResponse".to_owned()]));
}

#[test]
fn attributes_that_are_none_are_refused() {
    let server = Server::new();
    server.put("/b/k", b"x");
    for wanted in ["", "etag", "ETag,", "ETag,Colour"] {
        let answer = ask(&server, wanted).aws().send();
        answer.is_error(400, "InvalidArgument");
        assert_eq!(answer.one("ArgumentName").as_deref(), Some("x-amz-object-attributes"), "{wanted}");
    }
    server.get("/b/k?attributes").is_error(400, "InvalidArgument");
    for name in ["p-max-parts", "p-part-number-marker"] {
        for value in ["-1", "x", "99999999999"] {
            ask(&server, "ETag").header(name, value).send().is_error(400, "InvalidArgument");
        }
    }
}

#[test]
fn parts_with_checksums_are_listed_page_by_page() {
    let server = Server::new();
    put_in_parts(&server, true);
    let whole = ask(&server, "ObjectParts,Checksum").send();
    assert_eq!(whole.all("PartsCount"), ["3"]);
    assert_eq!((whole.all("PartNumber"), whole.all("Size")), (texts(&[2, 4, 6]), texts(&[2, 4, 6])));
    assert_eq!(whole.all("ChecksumCRC32"), ["AAAACQ==", "AAAAAg==", "AAAABA==", "AAAABg=="]);
    assert_eq!(whole.all("ChecksumType"), ["COMPOSITE"]);
    assert_eq!(whole.all("IsTruncated"), ["false"]);
    assert_eq!(whole.all("MaxParts"), ["1000"]);

    let first = ask(&server, "ObjectParts").header("p-max-parts", "2").send();
    assert_eq!(
        (first.all("PartNumber"), first.all("IsTruncated")),
        (texts(&[2, 4]), vec!["true".to_owned()])
    );
    assert_eq!(
        (first.all("PartNumberMarker"), first.all("NextPartNumberMarker")),
        (texts(&[0]), texts(&[4]))
    );
    let asked = ask(&server, "ObjectParts").header("p-max-parts", "2").header("p-part-number-marker", "4");
    let second = asked.send();
    assert_eq!(
        (second.all("PartNumber"), second.all("IsTruncated")),
        (texts(&[6]), vec!["false".to_owned()])
    );
    let none = ask(&server, "ObjectParts").header("p-max-parts", "0").send();
    assert_eq!((none.all("PartNumber").len(), none.all("IsTruncated")), (0, vec!["false".to_owned()]));
    let over = ask(&server, "ObjectParts").header("p-max-parts", "5000").send();
    assert_eq!(over.all("MaxParts"), ["1000"]);
}

fn texts(numbers: &[u32]) -> Vec<String> {
    numbers.iter().map(u32::to_string).collect()
}

#[test]
fn parts_without_checksums_are_counted_alone() {
    let server = Server::new();
    put_in_parts(&server, false);
    let answer = ask(&server, "ObjectParts,ETag").send();
    assert_eq!(answer.all("PartsCount"), ["3"]);
    assert_eq!(answer.all("Part").len() + answer.all("MaxParts").len(), 0);
    assert!(answer.one("ETag").unwrap().ends_with("-3"));
}

#[test]
fn a_named_version_has_its_id_in_the_response() {
    let server = Server::new();
    server.set_versioning("Enabled");
    let old = server.put("/b/k", b"old").header("p-version-id").unwrap().to_owned();
    let new = server.put("/b/k", b"newer").header("p-version-id").unwrap().to_owned();
    let at = |query: &str| {
        let asked = server.request("GET", &format!("/b/k?attributes{query}"));
        asked.header("p-object-attributes", "ObjectSize").send()
    };
    let current = at("");
    assert_eq!((current.one("ObjectSize"), current.header("p-version-id")), (Some("5".into()), Some(&*new)));
    let named = at(&format!("&versionId={old}"));
    assert_eq!((named.one("ObjectSize"), named.header("p-version-id")), (Some("3".into()), Some(&*old)));
    at("&versionId=0000000000000001aaaaaaaaaaaaaaaa").is_error(404, "NoSuchVersion");
    let marker = server.delete("/b/k").header("p-version-id").unwrap().to_owned();
    let gone = at("");
    gone.is_error(404, "NoSuchKey");
    assert_eq!(gone.header("p-delete-marker"), Some("true"));
    at(&format!("&versionId={marker}")).is_error(405, "MethodNotAllowed");
}

#[test]
fn conditions_are_those_of_a_read() {
    let server = Server::new();
    let etag = server.put("/b/k", b"x").header("ETag").unwrap().to_owned();
    let with = |name: &str, value: &str| ask(&server, "ETag").header(name, value).send();
    assert_eq!(with("If-Match", &etag).status, 200);
    with("If-Match", "\"x\"").is_error(412, "PreconditionFailed");
    assert_eq!(with("If-None-Match", &etag).status, 304);
}

#[test]
fn attributes_take_the_permission_to_read_the_object_too() {
    let server = Server::with_grants(&[
        ("attributes", &["GetObjectAttributes", "GetObjectVersionAttributes", "ListBucket"], &["b", "b/*"]),
        ("current", &["GetObjectAttributes", "GetObject", "GetObjectVersionAttributes"], &["b/*"]),
        ("versions", &["GetObjectAttributes", "GetObjectVersionAttributes", "GetObjectVersion"], &["b/*"]),
        ("reader", &["GetObject", "GetObjectVersion"], &["b/*"]),
    ]);
    server.put("/b/k", b"x");
    let ask = |user: &str, target: &str| {
        server.request("GET", target).by(user).header("p-object-attributes", "ETag").send().status
    };
    for (user, expected) in [
        ("attributes", [403, 403]),
        ("current", [200, 403]),
        ("versions", [403, 200]),
        ("reader", [403, 403]),
    ] {
        assert_eq!(
            [ask(user, "/b/k?attributes"), ask(user, "/b/k?attributes&versionId=null")],
            expected,
            "{user}"
        );
    }
    assert_eq!(ask("attributes", "/b/absent?attributes"), 404);
}
