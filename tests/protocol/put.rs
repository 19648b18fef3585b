//! PutObject.

use siltstone::base::digest::{Md5, to_hex};
use siltstone::ops::EntityTags;
use siltstone::s3::{ErrorCode, S3Error};
use siltstone::store::{Attributes, Commit, ETag, ObjectControls, StorageClass, WriteCondition};

use super::*;

const BODY: &[u8] = b"123456789";
const ETAG: &str = "\"25f9e794323b453885f5181f1b624d0b\"";
const CHECKSUMS: [(&str, &str); 5] = [
    ("p-checksum-crc32", "y/Q5Jg=="),
    ("p-checksum-crc32c", "4waSgw=="),
    ("p-checksum-crc64nvme", "rosUhgp5mIg="),
    ("p-checksum-sha1", "98O8HYCOBHMq32eZZczDTKeuNEE="),
    ("p-checksum-sha256", "FeKw08M4keuw8e9gnsQZQgwg4yDOlMZfvIwzEkSOsiU="),
];

fn put(server: &Server) -> Asked<'_> {
    server.request("PUT", "/b/k").body(BODY)
}

#[test]
fn a_put_answers_with_the_md5_as_its_tag_and_nothing_else() {
    let server = Server::new();
    let answer = put(&server).send();
    assert_eq!((answer.status, answer.body.len()), (200, 0));
    assert_eq!(answer.header("ETag"), Some(ETAG));
    assert_eq!(answer.header_names().collect::<Vec<_>>(), ["ETag", "x-request-id"]);
    assert_eq!(server.get("/b/k").body, BODY);
}

#[test]
fn bodies_of_every_size_come_back_as_they_went_in() {
    let server = Server::new();
    for size in [0, 1, 65_535, 65_536, 65_537, 262_144, 262_145, 1_500_000] {
        let body = pattern(size);
        server.put("/b/k", &body);
        let got = server.get("/b/k");
        assert!(got.status == 200 && got.body == body && !got.cut, "{size}");
        let etag = format!("\"{}\"", to_hex(&Md5::of(&body)));
        assert_eq!(got.header("ETag"), Some(&*etag), "{size}");
        let chunked = server.request("PUT", "/b/k2").body(&body).chunked().send();
        assert!(chunked.status == 200, "{size}: {} {}", chunked.status, chunked.text());
        assert_eq!(chunked.header("ETag"), got.header("ETag"), "{size}");
    }
}

#[test]
fn odd_keys_are_plain_keys_each_of_its_own() {
    let server = Server::new();
    let keys = [
        "a", "a/", "a/b", "a//b", "/", "//", "..", "../a", ".", "a+b", "a b", "ü", "?", "%", "\u{1}\n",
        "a&<b>",
    ];
    for key in keys {
        server.put(&format!("/b/{}", encoded(key)), key.as_bytes());
    }
    for key in keys {
        assert_eq!(server.get(&format!("/b/{}", encoded(key))).text(), key);
    }
    let count = server.get("/b?list-type=2&encoding-type=url").one("KeyCount");
    assert_eq!(count, Some(keys.len().to_string()));
}

#[test]
fn a_key_above_1024_bytes_is_too_long() {
    let server = Server::new();
    server.put(&format!("/b/{}", "k".repeat(1024)), b"x");
    let answer = server.request("PUT", &format!("/b/{}", "k".repeat(1025))).send();
    answer.is_error(400, "KeyTooLongError");
    server.put(&format!("/b/{}", "%C3%BC".repeat(512)), b"x");
}

#[test]
fn a_path_that_does_not_decode_is_no_uri() {
    let server = Server::new();
    server.request("PUT", "/b/%zz").anonymous().send().is_error(400, "InvalidURI");
    server.request("GET", "/b/%ff").anonymous().send().is_error(400, "InvalidURI");
    server.request("GET", "/b?prefix=%f").anonymous().send().is_error(400, "InvalidURI");
}

#[test]
fn a_put_needs_a_bucket_and_a_length() {
    let server = Server::new();
    server.request("PUT", "/absent/k").announcing(9).send().is_error(404, "NoSuchBucket");
    server.request("PUT", "/b/k").unframed().send().is_error(411, "MissingContentLength");
}

#[test]
fn more_than_five_gibibytes_are_refused_unread() {
    let server = Server::new();
    let answer = server.request("PUT", "/b/k").announcing(5 * (1 << 30) + 1).send();
    answer.is_error(400, "EntityTooLarge");
    assert_eq!(answer.one("MaxSizeAllowed").as_deref(), Some("5368709120"));
}

#[test]
fn a_body_that_breaks_off_leaves_nothing() {
    let server = Server::new();
    let error = S3Error::new(ErrorCode::IncompleteBody);
    server
        .request("PUT", "/b/k")
        .body(&pattern(300_000))
        .failing(error)
        .send()
        .is_error(400, "IncompleteBody");
    server.get("/b/k").is_error(404, "NoSuchKey");
}

#[test]
fn metadata_and_standard_headers_come_back() {
    let server = Server::new();
    let sent = [
        ("Content-Type", "text/plain; charset=utf-8"),
        ("Cache-Control", "no-store"),
        ("Content-Disposition", "attachment; filename=\"a b\""),
        ("Content-Encoding", "gzip"),
        ("Content-Language", "de"),
        ("Expires", "Thu, 01 Dec 2030 16:00:00 GMT"),
    ];
    let mut asked = put(&server).header("p-meta-Name", "grün").header("p-meta-word", "=?UTF-8?B?w7w=?=");
    for (name, value) in sent {
        asked = asked.header(name, value);
    }
    assert_eq!(asked.send().status, 200);
    for answer in [server.get("/b/k"), server.head("/b/k")] {
        for (name, value) in sent {
            assert_eq!(answer.header(name), Some(value));
        }
        assert_eq!(answer.header("p-meta-name"), Some("=?UTF-8?B?Z3LDvG4=?="));
        assert_eq!(answer.header("p-meta-word"), Some("=?UTF-8?B?w7w=?="));
    }
}

#[test]
fn an_object_without_a_type_is_a_stream_of_bytes() {
    let server = Server::new();
    put(&server).send();
    assert_eq!(server.head("/b/k").header("Content-Type"), Some("binary/octet-stream"));
}

#[test]
fn a_put_replaces_metadata_as_a_whole() {
    let server = Server::new();
    put(&server).header("p-meta-a", "1").header("Cache-Control", "x").send();
    put(&server).header("p-meta-b", "2").send();
    let head = server.head("/b/k");
    assert_eq!((head.header("p-meta-a"), head.header("p-meta-b")), (None, Some("2")));
    assert_eq!(head.header("Cache-Control"), None);
}

#[test]
fn metadata_above_two_kibibytes_is_too_large() {
    let server = Server::new();
    let fits = "v".repeat(2048 - 4);
    assert_eq!(put(&server).header("p-meta-name", &fits).send().status, 200);
    put(&server).header("p-meta-name", fits + "v").send().is_error(400, "MetadataTooLarge");
}

#[test]
fn standard_headers_above_two_kibibytes_are_too_large_wherever_they_are_given() {
    let server = Server::new();
    let asked = [("PUT", "/b/k", None), ("PUT", "/b/copy", Some("b/k")), ("POST", "/b/k?uploads", None)];
    server.put("/b/k", b"x");
    for (method, target, source) in asked {
        let send = |len: usize| {
            let asked = server.request(method, target).header("p-metadata-directive", "REPLACE");
            let asked = source.iter().fold(asked, |asked, source| asked.header("p-copy-source", *source));
            asked.header("Content-Disposition", "v".repeat(len - "content-disposition".len())).send()
        };
        assert_eq!(send(2048).status, 200, "{method} {target}");
        send(2049).is_error(400, "MetadataTooLarge");
    }
}

#[test]
fn objects_with_more_metadata_stay_readable_and_copyable() {
    let server = Server::new();
    let mut attributes = Attributes::new();
    attributes.push("expires", "v".repeat(10_000));
    let writer = server.store.writer("b", "old", None).unwrap();
    let commit = Commit {
        storage_class: StorageClass::Standard,
        etag: ETag::Md5([7; 16]),
        attributes,
        checksums: vec![],
        tags: vec![],
        condition: WriteCondition::None,
        controls: ObjectControls::default(),
        stated_time: None,
    };
    writer.commit(commit).unwrap();
    let copied = server.request("PUT", "/b/copy").header("p-copy-source", "b/old").send();
    assert_eq!(copied.status, 200, "{copied:?}");
    for key in ["/b/old", "/b/copy"] {
        assert_eq!(server.head(key).header("Expires").map(str::len), Some(10_000));
    }
}

#[test]
fn metadata_that_is_no_text_is_refused() {
    put(&Server::new()).header("p-meta-a", b"\xff").send().is_error(400, "InvalidArgument");
}

#[test]
fn content_md5_is_held_against_the_body() {
    let server = Server::new();
    let with = |md5: &str| put(&server).header("Content-MD5", md5).send();
    assert_eq!(with("JfnnlDI7RTiF9RgfG2JNCw==").status, 200);
    let wrong = with("AAAAAAAAAAAAAAAAAAAAAA==");
    wrong.is_error(400, "BadDigest");
    assert_eq!(wrong.one("CalculatedDigest").as_deref(), Some("JfnnlDI7RTiF9RgfG2JNCw=="));
    for none in ["x", "", "AAAA"] {
        with(none).is_error(400, "InvalidDigest");
    }
}

#[test]
fn a_body_with_a_wrong_digest_is_not_stored() {
    let server = Server::new();
    let asked = server.request("PUT", "/b/k").body(&pattern(200_000));
    asked.header("p-checksum-crc32", "AAAAAA==").send().is_error(400, "BadDigest");
    // The MD5 of a body of this size is worked out aside.
    let asked = server.request("PUT", "/b/k").body(&pattern(400_000));
    asked.header("Content-MD5", "AAAAAAAAAAAAAAAAAAAAAA==").send().is_error(400, "BadDigest");
    server.get("/b/k").is_error(404, "NoSuchKey");
}

#[test]
fn every_checksum_is_verified_echoed_and_returned() {
    let server = Server::new();
    for (name, value) in CHECKSUMS {
        let answer = put(&server).header(name, value).send();
        assert_eq!(answer.header(name), Some(value));
        assert_eq!(answer.header("p-checksum-type"), Some("FULL_OBJECT"));
        for method in ["GET", "HEAD"] {
            let read = server.request(method, "/b/k").header("p-checksum-mode", "ENABLED").send();
            assert_eq!(read.header(name), Some(value), "{method}");
            assert_eq!(read.header("p-checksum-type"), Some("FULL_OBJECT"));
        }
        let wrong = format!("A{}", &value[1..]);
        put(&server).header(name, wrong).send().is_error(400, "BadDigest");
        put(&server).header(name, "!").send().is_error(400, "InvalidRequest");
    }
}

#[test]
fn checksums_are_returned_where_they_are_asked_for_and_none_is_invented() {
    let server = Server::new();
    put(&server).header("p-checksum-crc32", CHECKSUMS[0].1).send();
    assert_eq!(server.get("/b/k").header("p-checksum-crc32"), None);
    put(&server).send();
    let read = server.request("GET", "/b/k").header("p-checksum-mode", "ENABLED").send();
    assert!(read.header_names().all(|name| !name.contains("checksum")), "{read:?}");
}

#[test]
fn checksums_in_trailers_are_verified_too() {
    let server = Server::new();
    let body = pattern(100_000);
    let crc = "AAAAAA==";
    let asked = server.request("PUT", "/b/k").with_trailer(&body, "p-checksum-crc32", crc);
    asked.send().is_error(400, "BadDigest");
    server.get("/b/k").is_error(404, "NoSuchKey");

    let asked = server.request("PUT", "/b/k").with_trailer(BODY, "p-checksum-crc32", CHECKSUMS[0].1);
    let answer = asked.header("p-sdk-checksum-algorithm", "CRC32").send();
    assert_eq!((answer.status, answer.header("p-checksum-crc32")), (200, Some(CHECKSUMS[0].1)));
    let got = server.get("/b/k");
    assert_eq!((got.body.as_slice(), got.header("Content-Encoding")), (BODY, None));
    assert_eq!(got.header("ETag"), Some(ETAG));
}

#[test]
fn one_checksum_at_a_time() {
    let server = Server::new();
    let asked = put(&server).header("p-checksum-crc32", "y/Q5Jg==").header("p-checksum-sha1", CHECKSUMS[3].1);
    asked.send().is_error(400, "InvalidRequest");
    let both = server.request("PUT", "/b/k").with_trailer(BODY, "p-checksum-crc32", "y/Q5Jg==");
    both.header("p-checksum-crc32", "y/Q5Jg==").send().is_error(400, "InvalidRequest");
}

#[test]
fn an_announced_algorithm_must_come_with_its_checksum() {
    let server = Server::new();
    let announced = || put(&server).header("p-sdk-checksum-algorithm", "CRC32");
    announced().send().is_error(400, "InvalidRequest");
    announced().header("p-checksum-sha1", CHECKSUMS[3].1).send().is_error(400, "InvalidRequest");
    assert_eq!(announced().header("p-checksum-crc32", "y/Q5Jg==").send().status, 200);
}

#[test]
fn unsupported_headers_are_refused_rather_than_ignored() {
    let server = Server::new();
    for (name, value) in [("p-server-side-encryption", "aws:kms:dsse"), ("p-write-offset-bytes", "5")] {
        let answer = server.request("PUT", "/b/k").header(name, value).announcing(9).send();
        answer.is_error(501, "NotImplemented");
    }
    assert_eq!(
        put(&server).header("p-acl", "private").header("p-storage-class", "STANDARD").send().status,
        200
    );
}

#[test]
fn a_part_without_its_upload_is_not_taken_for_an_object() {
    let server = Server::new();
    server.request("PUT", "/b/k?partNumber=1").announcing(9).send().is_error(400, "InvalidArgument");
    server.get("/b/k").is_error(404, "NoSuchKey");
}

#[test]
fn a_put_that_is_refused_never_asks_for_its_body() {
    let server = Server::with_grants(&[("reader", &["GetObject"], &["*"])]);
    server.put("/b/there", b"x");
    let refused = |asked: Asked<'_>, code: &str| {
        let answer = asked.announcing(9).send();
        assert_eq!((answer.code().as_str(), answer.reads), (code, 0));
    };
    refused(server.request("PUT", "/b/k").by("reader"), "AccessDenied");
    refused(server.request("PUT", "/absent/k"), "NoSuchBucket");
    refused(server.request("PUT", "/b/k").header("Content-MD5", "x"), "InvalidDigest");
    refused(server.request("PUT", "/b/k").header("p-checksum-crc32", "x"), "InvalidRequest");
    refused(server.request("PUT", "/b/there").header("If-None-Match", "*"), "PreconditionFailed");
    refused(server.request("PUT", "/b/there").header("If-Match", "x"), "PreconditionFailed");
    refused(server.request("PUT", "/b/k").header("If-Match", "x"), "NoSuchKey");
}

#[test]
fn an_operator_may_have_puts_tagged_with_their_crc() {
    let server = Server::with_entity_tags(EntityTags::Crc);
    for (body, tag) in [(&b"123456789"[..], "\"cbf43926-1\""), (b"", "\"00000000-1\"")] {
        let put = server.put("/b/k", body);
        assert_eq!(put.header("ETag"), Some(tag));
        assert_eq!(server.head("/b/k").header("ETag"), Some(tag));
    }
    let large = pattern(1_000_001);
    let crc = format!("\"{:08x}-1\"", crc32fast::hash(&large));
    assert_eq!(server.put("/b/large", &large).header("ETag"), Some(&*crc));
    let unchanged = server.request("GET", "/b/large").header("If-None-Match", &crc).send();
    assert_eq!(unchanged.status, 304);
    assert_eq!(server.request("PUT", "/b/large").header("If-Match", &crc).body(b"x").send().status, 200);
}

#[test]
fn where_puts_are_tagged_with_their_crc_a_content_md5_is_still_verified_and_parts_have_theirs() {
    let server = Server::with_entity_tags(EntityTags::Crc);
    let put = |md5: &str| server.request("PUT", "/b/k").header("Content-MD5", md5).body(b"123456789").send();
    put("AAAAAAAAAAAAAAAAAAAAAA==").is_error(400, "BadDigest");
    assert_eq!(put("JfnnlDI7RTiF9RgfG2JNCw==").header("ETag"), Some("\"cbf43926-1\""));
    let id = server.request("POST", "/b/m?uploads").send().one("UploadId").unwrap();
    let part = server.request("PUT", &format!("/b/m?partNumber=1&uploadId={id}")).body(b"123456789").send();
    assert_eq!(part.header("ETag"), Some("\"25f9e794323b453885f5181f1b624d0b\""));
}

#[test]
fn a_body_in_chunks_needs_no_length_but_one_in_signed_chunks_does() {
    let server = Server::new();
    assert_eq!(server.request("PUT", "/b/k").body(b"chunked").chunked().send().status, 200);
    assert_eq!(server.get("/b/k").text(), "chunked");
    let signed =
        server.request("PUT", "/b/k").header("p-content-sha256", "STREAMING-UNSIGNED-PAYLOAD-TRAILER");
    signed.body(b"1\r\nx\r\n0\r\n\r\n").chunked().send().is_error(411, "MissingContentLength");
    assert_eq!(server.get("/b/k").text(), "chunked");
}
