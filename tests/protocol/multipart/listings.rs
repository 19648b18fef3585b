//! ListParts and ListMultipartUploads.

use super::*;
use siltstone::format::{ObjectControls, StorageClass};

fn texts(answer: &Answer, parent: &str, name: &str) -> Vec<String> {
    assert_eq!(answer.status, 200, "{answer:?}");
    let document = roxmltree::Document::parse(answer.text()).unwrap();
    let found = document.descendants().filter(|node| node.tag_name().name() == name);
    let found = found.filter(|node| node.parent().unwrap().tag_name().name() == parent);
    found.map(|node| node.text().unwrap_or_default().to_owned()).collect()
}

fn numbers(answer: &Answer) -> Vec<String> {
    texts(answer, "Part", "PartNumber")
}

#[test]
fn the_parts_of_an_upload_are_listed_with_all_that_is_known_of_them() {
    let server = Server::new();
    let id = server.begin(&[("p-checksum-algorithm", "CRC32")]);
    server.part(&id, 2, b"x").header("p-checksum-crc32", crc32(b"x")).send();
    for dialect in Dialect::ALL {
        let listed = server.request("GET", &format!("/b/k?uploadId={id}")).dialect(dialect).send();
        assert_eq!(
            listed.outline(),
            [
                "ListPartsResult",
                "Bucket",
                "Key",
                "UploadId",
                "PartNumberMarker",
                "NextPartNumberMarker",
                "MaxParts",
                "IsTruncated",
                "Part",
                "Initiator",
                "Owner",
                "StorageClass",
                "ChecksumAlgorithm",
                "ChecksumType"
            ]
        );
        for (name, text) in [
            ("Bucket", "b"),
            ("Key", "k"),
            ("UploadId", id.as_str()),
            ("PartNumberMarker", "0"),
            ("NextPartNumberMarker", "2"),
            ("MaxParts", "1000"),
            ("IsTruncated", "false"),
            ("PartNumber", "2"),
            ("LastModified", NOW),
            ("ETag", "\"9dd4e461268c8034f5c8564e155c67a6\""),
            ("Size", "1"),
            ("ChecksumCRC32", &crc32(b"x")),
            ("StorageClass", "STANDARD"),
            ("ChecksumAlgorithm", "CRC32"),
            ("ChecksumType", "COMPOSITE"),
        ] {
            assert_eq!(listed.all(name), [text], "{name}");
        }
        assert_eq!(listed.all("ID"), ["owner", "owner"]);
    }
}

#[test]
fn parts_come_in_pages() {
    let server = Server::new();
    let id = server.begin(&[]);
    for number in [1, 3, 5, 10_000] {
        server.put_part(&id, number, b"x");
    }
    let page = |query: &str| server.get(&format!("/b/k?uploadId={id}&{query}"));
    let first = page("max-parts=2");
    assert_eq!(
        (numbers(&first), first.one("IsTruncated")),
        (vec!["1".into(), "3".into()], Some("true".into()))
    );
    assert_eq!(first.one("NextPartNumberMarker").as_deref(), Some("3"));
    let second = page("max-parts=2&part-number-marker=3");
    assert_eq!(numbers(&second), ["5", "10000"]);
    assert_eq!(second.one("IsTruncated").as_deref(), Some("false"));
    assert_eq!(second.one("PartNumberMarker").as_deref(), Some("3"));
    assert!(numbers(&page("part-number-marker=10000")).is_empty());
    assert_eq!(page("max-parts=5000").one("MaxParts").as_deref(), Some("1000"));
    let none = page("max-parts=0");
    assert_eq!((numbers(&none).len(), none.one("IsTruncated").as_deref()), (0, Some("false")));
    for query in ["max-parts=-1", "max-parts=x", "part-number-marker=x", "encoding-type=x"] {
        page(query).is_error(400, "InvalidArgument");
    }
}

#[test]
fn keys_are_encoded_where_that_is_asked_for() {
    let server = Server::new();
    let begun = server.request("POST", &format!("/b/{}?uploads", encoded("a b"))).send();
    let id = begun.one("UploadId").unwrap();
    let parts = server.get(&format!("/b/a%20b?uploadId={id}&encoding-type=url"));
    assert_eq!(
        (parts.one("Key").as_deref(), parts.one("EncodingType").as_deref()),
        (Some("a%20b"), Some("url"))
    );
    let uploads = server.get("/b?uploads&encoding-type=url");
    assert_eq!(
        (uploads.one("Key").as_deref(), uploads.one("EncodingType").as_deref()),
        (Some("a%20b"), Some("url"))
    );
    server.get("/b?uploads&encoding-type=x").is_error(400, "InvalidArgument");
}

/// Begins uploads for these keys and gives their ids.
fn begin_all(server: &Server, keys: &[&str]) -> Vec<String> {
    let begin =
        |key: &&str| server.request("POST", &format!("/b/{key}?uploads")).send().one("UploadId").unwrap();
    keys.iter().map(begin).collect()
}

#[test]
fn uploads_in_progress_are_listed_with_all_that_is_known_of_them() {
    let server = Server::new();
    let id = server.begin(&[("p-checksum-algorithm", "CRC32")]);
    for dialect in Dialect::ALL {
        let listed = server.request("GET", "/b?uploads").dialect(dialect).send();
        assert_eq!(
            listed.outline(),
            [
                "ListMultipartUploadsResult",
                "Bucket",
                "KeyMarker",
                "UploadIdMarker",
                "Prefix",
                "MaxUploads",
                "IsTruncated",
                "Upload"
            ]
        );
        for (name, text) in [
            ("Bucket", "b"),
            ("MaxUploads", "1000"),
            ("IsTruncated", "false"),
            ("Key", "k"),
            ("UploadId", &id),
            ("Initiated", NOW),
            ("StorageClass", "STANDARD"),
            ("ChecksumAlgorithm", "CRC32"),
        ] {
            assert_eq!(listed.all(name), [text], "{name}");
        }
        assert_eq!(listed.all("ID"), ["owner", "owner"]);
    }
    server.get("/absent?uploads").is_error(404, "NoSuchBucket");
}

#[test]
fn uploads_come_by_key_and_then_by_their_time() {
    let server = Server::new();
    let ids = begin_all(&server, &["z", "a", "z", "a"]);
    let listed = server.get("/b?uploads");
    assert_eq!(listed.all("Key"), ["a", "a", "z", "z"]);
    let order = [1, 3, 0, 2].map(|at| ids[at].as_str());
    assert_eq!(listed.all("UploadId"), order);
}

#[test]
fn markers_say_where_the_page_before_ended() {
    let server = Server::new();
    let ids = begin_all(&server, &["a", "a", "a", "c"]);
    let listed = |query: &str| server.get(&format!("/b?uploads&{query}")).all("UploadId");
    assert_eq!(listed("key-marker=a"), ids[3..]);
    assert_eq!(listed("key-marker=b"), ids[3..]);
    assert_eq!(listed(&format!("key-marker=a&upload-id-marker={}", ids[0])), ids[1..]);
    assert_eq!(listed(&format!("upload-id-marker={}", ids[3])), ids);
    assert_eq!(listed("upload-id-marker=junk"), ids);
    server.get("/b?uploads&key-marker=a&upload-id-marker=junk").is_error(400, "InvalidArgument");
}

#[test]
fn every_upload_is_in_just_one_page() {
    let server = Server::new();
    let ids = begin_all(&server, &["a", "a", "b", "dir/1", "dir/2", "e"]);
    for (delimiter, expected) in
        [("", ids.clone()), ("/", [&ids[..3], &["dir/".to_owned()], &ids[5..]].concat())]
    {
        let mut seen = Vec::new();
        let mut marker = String::new();
        loop {
            let page = server.get(&format!("/b?uploads&max-uploads=1&delimiter={delimiter}{marker}"));
            seen.extend(texts(&page, "Upload", "UploadId"));
            seen.extend(texts(&page, "CommonPrefixes", "Prefix"));
            let Some(key) = page.one("NextKeyMarker") else {
                assert_eq!(page.one("IsTruncated").as_deref(), Some("false"));
                break;
            };
            let id = page.one("NextUploadIdMarker").unwrap();
            marker = format!("&key-marker={}&upload-id-marker={id}", encoded(&key));
        }
        assert_eq!(seen, expected, "{delimiter}");
    }
}

#[test]
fn uploads_are_filtered_by_prefix_and_grouped_by_delimiter() {
    let server = Server::new();
    let ids = begin_all(&server, &["dir/1", "dir/sub/1", "dir/sub/2", "e"]);
    let listed = server.get("/b?uploads&prefix=dir/&delimiter=/");
    assert_eq!(listed.all("UploadId"), ids[..1]);
    assert_eq!(texts(&listed, "CommonPrefixes", "Prefix"), ["dir/sub/"]);
    assert_eq!(listed.one("Delimiter").as_deref(), Some("/"));
    assert_eq!(server.get("/b?list-type=2&delimiter=/").all("CommonPrefixes").len(), 0);
}

#[test]
fn a_group_that_is_the_key_marker_is_not_shown_again_whatever_the_upload_id_marker() {
    let server = Server::new();
    let ids = begin_all(&server, &["dir/", "dir/1", "e"]);
    let listed = |marker: &str| {
        let page = server.get(&format!("/b?uploads&delimiter=/&key-marker={marker}"));
        (texts(&page, "CommonPrefixes", "Prefix"), page.all("UploadId"))
    };
    let last = vec![ids[2].clone()];
    assert_eq!(listed("dir/"), (vec![], last.clone()));
    assert_eq!(listed(&format!("dir/&upload-id-marker={}", ids[0])), (vec![], last.clone()));
    assert_eq!(listed("dir/0"), (vec!["dir/".to_owned()], last.clone()), "an upload is left in it");
    assert_eq!(listed("dir/1"), (vec![], last));
}

#[test]
fn a_page_has_from_one_to_a_thousand_uploads() {
    let server = Server::new();
    for max in ["0", "-1", "x"] {
        server.get(&format!("/b?uploads&max-uploads={max}")).is_error(400, "InvalidArgument");
    }
    assert_eq!(server.get("/b?uploads&max-uploads=1001").one("MaxUploads").as_deref(), Some("1000"));
    assert_eq!(server.get("/b?uploads&max-uploads=1").one("MaxUploads").as_deref(), Some("1"));
}

#[test]
fn a_page_of_uploads_or_parts_holds_a_thousand_and_no_more() {
    let server = Server::new();
    let new = siltstone::store::NewUpload {
        storage_class: StorageClass::Standard,
        initiator: "owner".to_owned(),
        checksum: None,
        attributes: siltstone::store::Attributes::new(),
        tags: vec![],
        controls: ObjectControls::default(),
    };
    let ids: Vec<_> =
        (0..1001).map(|_| server.store.create_upload("b", "k", new.clone()).unwrap().id).collect();
    let shown = |id| server.store.client_ids().of_upload(id).to_string();
    for number in 1..=1001 {
        let mut part = server.store.part_writer("b", "k", ids[0], number, None).unwrap();
        part.write(b"x").unwrap();
        part.commit(Md5::of(b"x"), None).unwrap();
    }
    for query in ["", "&max-uploads=1000", "&max-uploads=2000"] {
        let page = server.get(&format!("/b?uploads{query}"));
        assert_eq!((page.all("Upload").len(), page.one("IsTruncated").as_deref()), (1000, Some("true")));
        let key = page.one("NextKeyMarker").unwrap();
        let id = page.one("NextUploadIdMarker").unwrap();
        let rest = server.get(&format!("/b?uploads&key-marker={key}&upload-id-marker={id}"));
        assert_eq!(rest.all("UploadId"), [shown(ids[1000])]);
        assert_eq!(rest.one("IsTruncated").as_deref(), Some("false"));
        assert_eq!((rest.one("KeyMarker"), rest.one("UploadIdMarker")), (Some(key), Some(id)));
    }
    for query in ["", "&max-parts=1000", "&max-parts=2000"] {
        let page = server.get(&format!("/b/k?uploadId={}{query}", shown(ids[0])));
        assert_eq!((page.all("Part").len(), page.one("IsTruncated").as_deref()), (1000, Some("true")));
        assert_eq!(page.one("NextPartNumberMarker").as_deref(), Some("1000"));
        let rest = server.get(&format!("/b/k?uploadId={}&part-number-marker=1000", shown(ids[0])));
        assert_eq!(rest.all("PartNumber"), ["1001"]);
    }
}

#[test]
fn every_listing_encodes_all_names_where_that_is_asked_for() {
    let server = Server::new();
    begin_all(&server, &["d%20e/1", "d%20e/2", "f%2Bg", "f%2Bg"]);
    let page =
        server.get("/b?uploads&encoding-type=url&delimiter=%20&key-marker=c%20d&max-uploads=1&prefix=d");
    for (name, text) in
        [("EncodingType", "url"), ("Delimiter", "%20"), ("KeyMarker", "c%20d"), ("Prefix", "d")]
    {
        assert_eq!(page.one(name).as_deref(), Some(text), "{name}");
    }
    assert_eq!(texts(&page, "CommonPrefixes", "Prefix"), ["d%20"]);
    let page = server.get("/b?uploads&encoding-type=url&max-uploads=1&prefix=f%2B");
    assert_eq!((page.all("Key"), page.all("NextKeyMarker")), (vec!["f%2Bg".into()], vec!["f%2Bg".into()]));
    assert_eq!(page.one("Prefix").as_deref(), Some("f%2B"));
    assert_eq!(server.get("/b?uploads&prefix=f%2B").all("Key"), ["f+g", "f+g"]);
}
