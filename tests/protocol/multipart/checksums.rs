//! Checksums of parts and of multipart objects.

use siltstone::base::ChecksumAlgorithm;
use siltstone::s3::checksum::{ChecksumHasher, encode};

use super::*;

fn of(algorithm: ChecksumAlgorithm, bytes: &[u8]) -> String {
    let mut running = ChecksumHasher::new(algorithm);
    running.update(bytes);
    encode(&running.finish())
}

/// Uploads these parts with their CRC-32 and gives the list of them.
fn put_parts(server: &Server, id: &str, bodies: &[&[u8]]) -> Vec<(u32, String)> {
    let put = |(number, body): (u32, &&[u8])| {
        let put = server.part(id, number, body).header("p-checksum-crc32", crc32(body)).send();
        (number, put.header("ETag").unwrap_or_else(|| panic!("{put:?}")).to_owned())
    };
    (1..).zip(bodies).map(put).collect()
}

fn borrowed(parts: &[(u32, String)]) -> Vec<(u32, &str)> {
    parts.iter().map(|(number, tag)| (*number, tag.as_str())).collect()
}

const COMPOSITE: &[(&str, &str)] = &[("p-checksum-algorithm", "CRC32")];
const FULL: &[(&str, &str)] = &[("p-checksum-algorithm", "CRC32"), ("p-checksum-type", "FULL_OBJECT")];

#[test]
fn a_composite_checksum_is_that_of_the_checksums_of_the_parts() {
    let server = Server::new();
    let bodies = [pattern(MIN), b"the end".to_vec()];
    let bodies = [bodies[0].as_slice(), &bodies[1]];
    for dialect in Dialect::ALL {
        let id = server.begin(COMPOSITE);
        let parts = put_parts(&server, &id, &bodies);
        let made = server.completion(&id, &borrowed(&parts)).dialect(dialect).send();
        assert_eq!(made.one("ChecksumCRC32"), Some(composite(&bodies)));
        assert_eq!(made.one("ChecksumType").as_deref(), Some("COMPOSITE"));
        let head =
            server.request("HEAD", "/b/k").dialect(dialect).header("p-checksum-mode", "ENABLED").send();
        let header =
            |name: &str| head.header(&format!("{}{name}", dialect.header_prefix())).map(str::to_owned);
        assert_eq!(header("checksum-crc32"), Some(composite(&bodies)));
        assert_eq!(header("checksum-type").as_deref(), Some("COMPOSITE"));
    }
}

#[test]
fn the_checksum_of_the_full_object_follows_from_its_parts() {
    let server = Server::new();
    let (first, last) = (pattern(MIN), b"the end".to_vec());
    let whole = [first.as_slice(), &last].concat();
    for algorithm in [ChecksumAlgorithm::Crc32, ChecksumAlgorithm::Crc32c, ChecksumAlgorithm::Crc64Nvme] {
        let id =
            server.begin(&[("p-checksum-algorithm", algorithm.as_str()), ("p-checksum-type", "FULL_OBJECT")]);
        // One part comes with its checksum, the other without.
        let put = server.part(&id, 1, &first).header(algorithm.header(), of(algorithm, &first)).send();
        let tag = server.put_part(&id, 2, &last);
        let made = server.complete(&id, &[(1, put.header("ETag").unwrap()), (2, &tag)]);
        let element = format!("Checksum{}", algorithm.as_str());
        assert_eq!(made.one(&element), Some(of(algorithm, &whole)), "{made:?}");
        assert_eq!(made.one("ChecksumType").as_deref(), Some("FULL_OBJECT"));
        let get = server.request("GET", "/b/k").header("p-checksum-mode", "ENABLED").send();
        assert_eq!(get.header(algorithm.header()), Some(of(algorithm, &whole).as_str()));
    }
}

#[test]
fn digests_are_composite() {
    let server = Server::new();
    for algorithm in [ChecksumAlgorithm::Sha1, ChecksumAlgorithm::Sha256] {
        let id = server.begin(&[("p-checksum-algorithm", algorithm.as_str())]);
        let put = server.part(&id, 1, b"x").header(algorithm.header(), of(algorithm, b"x")).send();
        let made = server.complete(&id, &[(1, put.header("ETag").unwrap())]);
        let mut digest = ChecksumHasher::new(algorithm);
        digest.update(b"x");
        let expected = format!("{}-1", of(algorithm, &digest.finish()));
        assert_eq!(made.one(&format!("Checksum{}", algorithm.as_str())), Some(expected));
    }
}

#[test]
fn a_checksum_sent_with_the_completion_must_be_that_of_the_object() {
    let server = Server::new();
    let bodies: [&[u8]; 1] = [b"123456789"];
    let (full, composite) = (crc32(b"123456789"), composite(&bodies));
    let bare = composite.trim_end_matches("-1").to_owned();
    for (announced, good, bad) in [
        (FULL, vec![full.clone()], vec!["AAAAAA==".to_owned(), composite.clone()]),
        (
            COMPOSITE,
            vec![composite.clone(), bare, full],
            vec!["AAAAAA==".to_owned(), composite.replace("-1", "-2")],
        ),
    ] {
        for dialect in Dialect::ALL {
            for value in &good {
                let id = server.begin(announced);
                let parts = put_parts(&server, &id, &bodies);
                let send = |value: &str| {
                    let asked = server.completion(&id, &borrowed(&parts)).dialect(dialect);
                    asked.header("p-checksum-crc32", value).send()
                };
                bad.iter().for_each(|bad| {
                    send(bad).is_error(400, "BadDigest");
                });
                send("junk").is_error(400, "InvalidRequest");
                assert_eq!(send(value).status, 200, "{value}");
            }
        }
    }
}

#[test]
fn the_checksum_of_the_completion_must_match_the_announcement() {
    let server = Server::new();
    let id = server.begin(COMPOSITE);
    let parts = put_parts(&server, &id, &[b"x"]);
    let with = |lines: &[(&str, &str)]| with_headers(server.completion(&id, &borrowed(&parts)), lines).send();
    let crc = crc32(b"x");
    with(&[("p-checksum-type", "FULL_OBJECT")]).is_error(400, "InvalidRequest");
    with(&[("p-checksum-crc32c", "AAAAAA==")]).is_error(400, "InvalidRequest");
    with(&[("p-checksum-crc32", &crc), ("p-checksum-crc32c", "AAAAAA==")]).is_error(400, "InvalidRequest");
    assert_eq!(with(&[("p-checksum-type", "COMPOSITE")]).status, 200);
}

#[test]
fn a_composite_checksum_needs_one_of_every_part() {
    let server = Server::new();
    for dialect in Dialect::ALL {
        let id = server.begin(COMPOSITE);
        let tag = server.put_part(&id, 1, b"x");
        let made = server.completion(&id, &[(1, &tag)]).dialect(dialect).send();
        made.is_error(400, "InvalidRequest");
    }
}

#[test]
fn checksums_in_the_list_must_be_those_of_the_parts() {
    let server = Server::new();
    let id = server.begin(COMPOSITE);
    let parts = put_parts(&server, &id, &[b"x"]);
    let listed = |element: &str, value: &str| {
        let body =
            list_of(&borrowed(&parts)).replace("</Part>", &format!("<{element}>{value}</{element}></Part>"));
        server.request("POST", &format!("/b/k?uploadId={id}")).body(body.as_bytes()).send()
    };
    listed("ChecksumCRC32", "AAAAAA==").is_error(400, "InvalidPart");
    listed("ChecksumCRC32", "junk").is_error(400, "InvalidPart");
    listed("ChecksumCRC32C", &crc32(b"x")).is_error(400, "InvalidPart");
    assert_eq!(listed("ChecksumCRC32", &crc32(b"x")).status, 200);
}

#[test]
fn the_checksums_that_sdks_send_by_default_work() {
    let server = Server::new();
    let id = server.begin_as(Dialect::Aws, COMPOSITE);
    let bodies = [pattern(MIN), pattern(1000)];
    let mut list = String::new();
    for (number, body) in (1..).zip(&bodies) {
        let asked = server.part(&id, number, b"").aws().with_trailer(body, "p-checksum-crc32", &crc32(body));
        let put = asked.header("p-sdk-checksum-algorithm", "CRC32").send();
        let (tag, crc) = (put.header("ETag").unwrap(), put.header("p-checksum-crc32").unwrap());
        list += &format!(
            "<Part><ETag>{}</ETag><ChecksumCRC32>{crc}</ChecksumCRC32><PartNumber>{number}</PartNumber></Part>",
            tag.replace('"', "&quot;")
        );
    }
    let body = format!("<CompleteMultipartUpload xmlns=\"{NAMESPACE}\">{list}</CompleteMultipartUpload>");
    let asked = server.request("POST", &format!("/b/k?uploadId={id}")).aws();
    let made = asked.body(body.as_bytes()).send();
    assert_eq!(made.status, 200, "{made:?}");
    assert_eq!(made.one("ChecksumCRC32"), Some(composite(&[&bodies[0], &bodies[1]])));
    assert_eq!(server.get("/b/k").body, bodies.concat());
}

#[test]
fn without_an_announcement_the_object_has_the_common_checksum_of_its_parts() {
    let server = Server::new();
    let id = server.begin(&[]);
    let parts = put_parts(&server, &id, &[b"x"]);
    let made = server.complete(&id, &borrowed(&parts));
    assert_eq!(made.one("ChecksumCRC32"), Some(composite(&[b"x"])));
    assert_eq!(server.assemble(&[], &[b"x"]).one("ChecksumCRC32"), None);
}

#[test]
fn without_an_announcement_a_claim_is_verified_against_the_bytes() {
    let server = Server::new();
    let body = pattern(300_000);
    let id = server.begin(&[]);
    let tag = server.put_part(&id, 1, &body);
    let send = |value: &str| server.completion(&id, &[(1, &tag)]).header("p-checksum-crc32", value).send();
    send("AAAAAA==").is_error(400, "BadDigest");
    let made = send(&crc32(&body));
    assert_eq!(made.one("ChecksumCRC32"), Some(crc32(&body)), "{made:?}");
    assert_eq!(made.one("ChecksumType").as_deref(), Some("FULL_OBJECT"));
}
