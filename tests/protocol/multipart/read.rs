//! Reading single parts.

use super::*;

#[test]
fn a_part_is_read_by_its_number() {
    let server = Server::new();
    let first = pattern(MIN);
    server.assemble(&[], &[&first, b"the end"]);
    let size = MIN + 7;
    for dialect in Dialect::ALL {
        let read = |method: &str, number: u32| {
            server.request(method, &format!("/b/k?partNumber={number}")).dialect(dialect).send()
        };
        let (get, head) = (read("GET", 2), read("HEAD", 2));
        assert_eq!((get.status, get.text()), (206, "the end"));
        head.is_bare(206);
        assert_eq!(head.header("Content-Length"), Some("7"));
        for answer in [&get, &head] {
            let shown = format!("bytes {MIN}-{}/{size}", size - 1);
            assert_eq!(answer.header("Content-Range"), Some(shown.as_str()));
            let count = format!("{}mp-parts-count", dialect.header_prefix());
            assert_eq!(answer.header(&count), Some("2"));
        }
        assert_eq!(read("GET", 1).body, first);
        read("GET", 3).is_error(416, "InvalidPartNumber");
        read("HEAD", 3).is_bare(416);
    }
    server.get("/b/k?partNumber=0").is_error(400, "InvalidArgument");
    assert_eq!(server.get("/b/k").header("p-mp-parts-count"), None);
}

#[test]
fn an_object_of_one_piece_is_its_own_only_part() {
    let server = Server::new();
    server.put("/b/k", b"whole");
    let get = server.get("/b/k?partNumber=1");
    assert_eq!((get.status, get.text()), (206, "whole"));
    assert_eq!(get.header("Content-Range"), Some("bytes 0-4/5"));
    server.get("/b/k?partNumber=2").is_error(416, "InvalidPartNumber");
    server.put("/b/empty", b"");
    assert_eq!(server.get("/b/empty?partNumber=1").status, 200);
}

#[test]
fn a_part_has_its_own_checksum() {
    let server = Server::new();
    let id = server.begin(&[("p-checksum-algorithm", "CRC32")]);
    let put = server.part(&id, 4, b"x").header("p-checksum-crc32", crc32(b"x")).send();
    assert_eq!(server.complete(&id, &[(4, put.header("ETag").unwrap())]).status, 200);
    let get = server.request("GET", "/b/k?partNumber=4").header("p-checksum-mode", "ENABLED").send();
    assert_eq!((get.status, get.header("p-checksum-crc32")), (206, Some(crc32(b"x").as_str())));
}

#[test]
fn a_part_of_no_bytes_is_read_as_such() {
    let server = Server::new();
    server.assemble(&[], &[b""]);
    let get = server.get("/b/k?partNumber=1");
    assert_eq!((get.status, get.body.len(), get.header("Content-Range")), (206, 0, Some("bytes */0")));
    assert_eq!(server.get("/b/k").status, 200);
}
