//! Uploading parts.

use super::*;

#[test]
fn a_part_is_answered_with_its_tag_and_the_checksum_that_came_with_it() {
    let server = Server::new();
    for dialect in Dialect::ALL {
        let id = server.begin_as(dialect, &[]);
        let put = server.part(&id, 1, b"123456789").dialect(dialect).header("p-checksum-crc32", "y/Q5Jg==");
        let put = put.send();
        assert_eq!((put.status, put.body.len()), (200, 0));
        assert_eq!(put.header("ETag"), Some("\"25f9e794323b453885f5181f1b624d0b\""));
        let name = format!("{}checksum-crc32", dialect.header_prefix());
        assert_eq!(put.header(&name), Some("y/Q5Jg=="));
        let bare = server.part(&id, 2, b"").dialect(dialect).send();
        assert_eq!((bare.status, bare.header(&name)), (200, None));
    }
}

#[test]
fn part_numbers_go_from_1_to_10000() {
    let server = Server::new();
    let id = server.begin(&[]);
    for number in ["0", "10001", "-1", "x", "", "1.0"] {
        let target = format!("/b/k?partNumber={number}&uploadId={id}");
        for dialect in Dialect::ALL {
            let put = server.request("PUT", &target).dialect(dialect).announcing(5).send();
            put.is_error(400, "InvalidArgument");
            assert_eq!(put.one("ArgumentName").as_deref(), Some("partNumber"));
        }
    }
    let put = server.request("PUT", &format!("/b/k?uploadId={id}")).announcing(5).send();
    put.is_error(400, "InvalidArgument");
    server.put_part(&id, 1, b"x");
    server.put_part(&id, 10_000, b"x");
}

#[test]
fn checks_precede_the_body() {
    let server = Server::new();
    let id = server.begin(&[("p-checksum-algorithm", "SHA256")]);
    let asked = |id: &str| server.part(id, 1, b"");
    asked("0123456789abcdef").announcing(5).send().is_error(404, "NoSuchUpload");
    asked(&id).announcing((5 << 30) + 1).send().is_error(400, "EntityTooLarge");
    asked(&id).announcing(5).header("p-checksum-crc32", "junk").send().is_error(400, "InvalidRequest");
    asked(&id).announcing(5).header("p-checksum-crc32", "AAAAAA==").send().is_error(400, "InvalidRequest");
    asked(&id).announcing(5).header("Content-MD5", "junk").send().is_error(400, "InvalidDigest");
    let announced = asked(&id).announcing(5).header("p-sdk-checksum-algorithm", "SHA256");
    announced.send().is_error(400, "InvalidRequest");
    asked(&id).unframed().send().is_error(411, "MissingContentLength");
}

#[test]
fn an_algorithm_that_is_announced_for_a_part_comes_with_a_matching_header() {
    let server = Server::new();
    let crc = crc32(b"x");
    for dialect in Dialect::ALL {
        let id = server.begin_as(dialect, &[]);
        let put = |lines: &[(&str, &str)]| {
            let asked = server.part(&id, 1, b"x").dialect(dialect);
            with_headers(asked.header("p-sdk-checksum-algorithm", "CRC32"), lines).send()
        };
        put(&[]).is_error(400, "InvalidRequest");
        put(&[("p-checksum-algorithm", "SHA256")]).is_error(400, "InvalidRequest");
        put(&[("p-checksum-sha1", "AAAA")]).is_error(400, "InvalidRequest");
        assert_eq!(put(&[("p-checksum-algorithm", "CRC32")]).status, 200);
        for lines in [
            &[("p-checksum-crc32", crc.as_str())][..],
            &[("p-checksum-crc32", &crc), ("p-checksum-algorithm", "CRC32")],
        ] {
            let put = put(lines);
            assert_eq!((put.status, put.header("p-checksum-crc32")), (200, Some(crc.as_str())));
        }
        put(&[("p-checksum-crc32", "AAAAAA=="), ("p-checksum-algorithm", "CRC32")])
            .is_error(400, "BadDigest");
        let trailing = server.part(&id, 1, b"").dialect(dialect).with_trailer(b"x", "p-checksum-crc32", &crc);
        let put = trailing.header("p-sdk-checksum-algorithm", "CRC32").send();
        assert_eq!((put.status, put.header("p-checksum-crc32")), (200, Some(crc.as_str())));
    }
}

#[test]
fn a_part_of_another_algorithm_than_the_uploads_is_refused() {
    let server = Server::new();
    for dialect in Dialect::ALL {
        let id = server.begin(&[("p-checksum-algorithm", "CRC32C")]);
        let put = server.part(&id, 1, b"x").dialect(dialect).header("p-checksum-crc32", crc32(b"x")).send();
        put.is_error(400, "InvalidRequest");
    }
}

#[test]
fn a_part_with_a_wrong_digest_is_not_stored() {
    let server = Server::new();
    let id = server.begin(&[]);
    for dialect in Dialect::ALL {
        let put = server.part(&id, 1, b"x").dialect(dialect);
        put.header("p-checksum-crc32", "AAAAAA==").send().is_error(400, "BadDigest");
    }
    let md5 = base64(&[0; 16]);
    server.part(&id, 1, b"x").header("Content-MD5", md5).send().is_error(400, "BadDigest");
    let trailing = server.part(&id, 1, b"").aws().with_trailer(b"x", "p-checksum-crc32", "AAAAAA==");
    trailing.send().is_error(400, "BadDigest");
    assert!(server.get(&format!("/b/k?uploadId={id}")).all("Part").is_empty());
    assert_eq!(server.store.health().live_bytes, 0);
}

#[test]
fn a_checksum_may_follow_the_part_as_a_trailer() {
    let server = Server::new();
    let id = server.begin_as(Dialect::Aws, &[("p-checksum-algorithm", "CRC32")]);
    let body = pattern(100_000);
    let put = server.part(&id, 1, b"").aws().with_trailer(&body, "p-checksum-crc32", &crc32(&body));
    let put = put.header("p-sdk-checksum-algorithm", "CRC32").send();
    assert_eq!((put.status, put.header("p-checksum-crc32")), (200, Some(crc32(&body).as_str())));
}

#[test]
fn a_part_of_unknown_length_is_taken() {
    let server = Server::new();
    let id = server.begin(&[]);
    let body = pattern(300_000);
    let put = server.part(&id, 1, &body).chunked().send();
    assert_eq!(put.status, 200);
    let tag = put.header("ETag").unwrap();
    assert_eq!(server.complete(&id, &[(1, tag)]).status, 200);
    assert_eq!(server.get("/b/k").body, body);
}

#[test]
fn a_part_that_comes_again_replaces_the_first() {
    let server = Server::new();
    let id = server.begin(&[]);
    let old = server.put_part(&id, 1, b"old");
    let new = server.put_part(&id, 1, b"new");
    server.complete(&id, &[(1, &old)]).is_error(400, "InvalidPart");
    assert_eq!(server.complete(&id, &[(1, &new)]).status, 200);
    assert_eq!(server.get("/b/k").text(), "new");
}

#[test]
fn parts_of_an_upload_that_ended_meanwhile_are_freed() {
    let server = Server::new();
    let id = server.begin(&[]);
    let upload = server.store.client_ids().upload(&id).unwrap();
    let mut late = server.store.part_writer("b", "k", upload, 1, None).unwrap();
    late.write(b"x").unwrap();
    assert_eq!(server.delete(&format!("/b/k?uploadId={id}")).status, 204);
    assert!(late.commit([0; 16], None).is_err());
    assert_eq!(server.store.health().live_bytes, 0);
}
