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
        let get = read("GET", 2);
        let head = read("HEAD", 2);
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

#[test]
fn a_copy_of_an_object_of_parts_has_the_same_parts() {
    let server = Server::new();
    let first = pattern(MIN);
    let made = server.assemble(
        &[("p-checksum-algorithm", "CRC32"), ("p-checksum-type", "FULL_OBJECT")],
        &[&first, b"end"],
    );
    for (source, target) in [("/b/k", "/b/copy"), ("/b/copy", "/b/copy of it")] {
        let target = target.replace(' ', "%20");
        let copy = server.request("PUT", &target).header("p-copy-source", source).send();
        assert_eq!(copy.one("ETag"), made.one("ETag"));
        let get = server.get(&format!("{target}?partNumber=2"));
        assert_eq!((get.status, get.text(), get.header("p-mp-parts-count")), (206, "end", Some("2")));
        let told = server.request("GET", &format!("{target}?attributes"));
        let told = told.header("p-object-attributes", "ObjectParts").send();
        assert_eq!(
            (told.one("PartsCount").as_deref(), told.all("Size")),
            (Some("2"), vec![MIN.to_string(), "3".into()])
        );
    }
    server.put("/b/k", b"one piece");
    assert_eq!(server.request("PUT", "/b/copy").header("p-copy-source", "/b/k").send().status, 200);
    server.get("/b/copy?partNumber=2").is_error(416, "InvalidPartNumber");
}

#[test]
fn a_copy_is_not_what_a_repeated_completion_made() {
    let server = Server::new();
    let id = server.begin(&[]);
    let tag = server.put_part(&id, 1, b"x");
    assert_eq!(server.complete(&id, &[(1, &tag)]).status, 200);
    server
        .request("PUT", "/b/k")
        .header("p-copy-source", "/b/k")
        .header("p-metadata-directive", "REPLACE")
        .send();
    assert_eq!(server.get("/b/k?partNumber=1").header("p-mp-parts-count"), Some("1"));
    for id in [id.as_str(), "0000000000000000"] {
        server.completion(id, &[(1, &tag)]).aws().send().is_error(404, "NoSuchUpload");
    }
}
