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
    let first = pattern(MIN);
    let last = b"the end".to_vec();
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
    let full = crc32(b"123456789");
    let composite = composite(&bodies);
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
        let tag = put.header("ETag").unwrap();
        let crc = put.header("p-checksum-crc32").unwrap();
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

/// The checksum types of an algorithm, the default first (S3 user guide, "Composite and full object
/// checksum types").
fn types_of(algorithm: ChecksumAlgorithm) -> &'static [&'static str] {
    match algorithm {
        ChecksumAlgorithm::Crc64Nvme => &["FULL_OBJECT"],
        ChecksumAlgorithm::Crc32 | ChecksumAlgorithm::Crc32c => &["COMPOSITE", "FULL_OBJECT"],
        ChecksumAlgorithm::Sha1 | ChecksumAlgorithm::Sha256 => &["COMPOSITE"],
    }
}

/// The checksum of an object, computed from its parts by the definition of the type.
fn expected(algorithm: ChecksumAlgorithm, kind: &str, bodies: &[&[u8]]) -> String {
    if kind == "FULL_OBJECT" {
        return of(algorithm, &bodies.concat());
    }
    let each = |body: &&[u8]| {
        let mut running = ChecksumHasher::new(algorithm);
        running.update(body);
        running.finish()
    };
    let all: Vec<u8> = bodies.iter().flat_map(each).collect();
    format!("{}-{}", of(algorithm, &all), bodies.len())
}

/// Uploads the bodies as parts with their checksums.
fn put_checked(
    server: &Server,
    id: &str,
    algorithm: ChecksumAlgorithm,
    bodies: &[&[u8]],
) -> Vec<(u32, String)> {
    let put = |(number, body): (u32, &&[u8])| {
        let put = server.part(id, number, body).header(algorithm.header(), of(algorithm, body)).send();
        assert_eq!(put.header(algorithm.header()), Some(of(algorithm, body).as_str()), "{put:?}");
        (number, put.header("ETag").unwrap().to_owned())
    };
    (1..).zip(bodies).map(put).collect()
}

#[test]
fn every_algorithm_has_the_types_of_the_table_and_no_other() {
    let server = Server::new();
    for algorithm in ChecksumAlgorithm::ALL {
        let types = types_of(algorithm);
        for kind in ["COMPOSITE", "FULL_OBJECT"] {
            let begun =
                server.request("POST", "/b/k?uploads").header("p-checksum-algorithm", algorithm.as_str());
            let begun = begun.header("p-checksum-type", kind).send();
            if types.contains(&kind) {
                assert_eq!(begun.header("p-checksum-type"), Some(kind), "{algorithm:?}");
                continue;
            }
            begun.is_error(400, "InvalidRequest");
            let name = algorithm.as_str().to_ascii_lowercase();
            let told = format!("The {kind} checksum type cannot be used with the {name} checksum algorithm.");
            assert_eq!(begun.one("Message"), Some(told));
        }
        let id = server.begin(&[("p-checksum-algorithm", algorithm.as_str())]);
        let listed = server.get(&format!("/b/k?uploadId={id}"));
        assert_eq!(listed.one("ChecksumAlgorithm").as_deref(), Some(algorithm.as_str()));
        assert_eq!(listed.one("ChecksumType").as_deref(), Some(types[0]));
        assert_eq!(server.delete(&format!("/b/k?uploadId={id}")).status, 204);
    }
}

#[test]
fn every_algorithm_and_type_is_verified_and_told_alike_by_all_operations() {
    let server = Server::new();
    let first = pattern(MIN);
    let last = b"the end".to_vec();
    let bodies = [first.as_slice(), &last];
    for algorithm in ChecksumAlgorithm::ALL {
        for kind in types_of(algorithm) {
            let name = algorithm.as_str();
            let id = server.begin(&[("p-checksum-algorithm", name), ("p-checksum-type", kind)]);
            let parts = put_checked(&server, &id, algorithm, &bodies);
            let value = expected(algorithm, kind, &bodies);
            let send = |value: &str| {
                server.completion(&id, &borrowed(&parts)).header(algorithm.header(), value).send()
            };
            let other = expected(algorithm, kind, &[b"another", b"object"]);
            send(&other).is_error(400, "BadDigest");
            let made = send(&value);
            let element = format!("Checksum{name}");
            assert_eq!(made.one(&element), Some(value.clone()), "{made:?}");
            assert_eq!(made.one("ChecksumType").as_deref(), Some(*kind));
            for method in ["GET", "HEAD"] {
                let read = server.request(method, "/b/k").header("p-checksum-mode", "ENABLED").send();
                assert_eq!(read.header(algorithm.header()), Some(value.as_str()), "{method} {name}");
                assert_eq!(read.header("p-checksum-type"), Some(*kind), "{method} {name}");
                let silent = server.request(method, "/b/k").send();
                assert_eq!(
                    (silent.header(algorithm.header()), silent.header("p-checksum-type")),
                    (None, None)
                );
            }
            let asked = server.request("GET", "/b/k?attributes");
            let told = asked.header("p-object-attributes", "Checksum,ObjectParts").send();
            let mut values = vec![value.split("-2").next().unwrap().to_owned()];
            values.extend(bodies.iter().map(|body| of(algorithm, body)));
            assert_eq!((told.all(&element), told.all("ChecksumType")), (values, vec![(*kind).to_owned()]));
            assert_eq!(told.one("PartsCount").as_deref(), Some("2"));
        }
    }
}

#[test]
fn a_completion_names_the_reason_of_its_refusal() {
    let server = Server::new();
    let prefix = usual_dialect().header_prefix();
    let begin = |lines: &[(&str, &str)]| with_headers(server.request("POST", "/b/k?uploads"), lines).send();
    let id = server.begin(FULL);
    let parts = put_parts(&server, &id, &[b"x"]);
    let complete =
        |lines: &[(&str, &str)]| with_headers(server.completion(&id, &borrowed(&parts)), lines).send();
    let crc = crc32(b"x");
    for (answer, told) in [
        (
            begin(&[("p-checksum-type", "COMPOSITE")]),
            format!("The {prefix}checksum-type header can only be used with the {prefix}checksum-algorithm header."),
        ),
        (
            begin(&[("p-checksum-algorithm", "CRC32"), ("p-checksum-type", "WHOLE")]),
            format!("Value for {prefix}checksum-type header is invalid."),
        ),
        (
            complete(&[("p-checksum-type", "COMPOSITE")]),
            "The upload was created using the FULL_OBJECT checksum mode. The complete request must use the same \
             checksum mode."
                .to_owned(),
        ),
        (
            complete(&[("p-checksum-crc32c", "AAAAAA==")]),
            "Checksum Type mismatch occurred, expected checksum Type: crc32, actual checksum Type: crc32c".to_owned(),
        ),
        (
            complete(&[("p-checksum-crc32", &crc), ("p-checksum-crc32c", "AAAAAA==")]),
            format!("Expecting a single {prefix}checksum- header. Multiple checksum Types are not allowed."),
        ),
    ] {
        answer.is_error(400, "InvalidRequest");
        assert_eq!(answer.one("Message"), Some(told));
    }
    assert_eq!(complete(&[("p-checksum-crc32", &crc), ("p-checksum-type", "FULL_OBJECT")]).status, 200);
}

#[test]
fn a_composite_completion_may_leave_out_the_checksums_of_the_parts() {
    let server = Server::new();
    for dialect in Dialect::ALL {
        let id = server.begin(&[("p-checksum-algorithm", "CRC32"), ("p-checksum-type", "COMPOSITE")]);
        let part = format!("/b/k?partNumber=1&uploadId={id}");
        let put =
            server.request("PUT", &part).header("p-checksum-crc32", "y/Q5Jg==").body(b"123456789").send();
        let tag = put.header("ETag").unwrap().to_owned();
        let complete = |checksum: &str| {
            let document = format!(
                "<CompleteMultipartUpload><Part><PartNumber>1</PartNumber><ETag>{tag}</ETag>{checksum}</Part></CompleteMultipartUpload>"
            );
            let target = format!("/b/k?uploadId={id}");
            server.request("POST", &target).dialect(dialect).body(document.as_bytes()).send()
        };
        complete("<ChecksumCRC32>AAAAAA==</ChecksumCRC32>").is_error(400, "InvalidPart");
        let made = complete("");
        assert_eq!((made.status, made.one("ChecksumCRC32")), (200, Some(composite(&[b"123456789"]))));
    }
}
