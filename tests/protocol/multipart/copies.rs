//! Parts that are made of objects.

use siltstone::fs::sim::OpKind;

use super::*;

fn copy<'s>(server: &'s Server, id: &str, number: u32, source: &str) -> Asked<'s> {
    let target = format!("/b/k?partNumber={number}&uploadId={id}");
    server.request("PUT", &target).header("p-copy-source", source)
}

#[test]
fn a_part_is_made_of_an_object_or_of_a_range_of_it() {
    for dialect in Dialect::ALL {
        let server = Server::new();
        let source = pattern(MIN + 100);
        server.put("/b/s%20ource", &source);
        let id = server.begin(&[]);
        let first = copy(&server, &id, 1, "/b/s%20ource").dialect(dialect).send();
        assert_eq!(first.outline(), ["CopyPartResult", "LastModified", "ETag"]);
        assert_eq!(first.one("LastModified").as_deref(), Some(NOW));
        let second = copy(&server, &id, 2, "b/s%20ource").dialect(dialect);
        let second = second.header("p-copy-source-range", "bytes=10-29").send();
        let hex: String = Md5::of(&source[10..30]).iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(second.one("ETag"), Some(format!("\"{hex}\"")));
        server.delete("/b/s%20ource");
        let made =
            server.complete(&id, &[(1, &first.one("ETag").unwrap()), (2, &second.one("ETag").unwrap())]);
        assert_eq!(made.status, 200, "{made:?}");
        assert_eq!(server.get("/b/k").body, [&source[..], &source[10..30]].concat());
    }
}

#[test]
fn copying_writes_no_bytes_of_the_object() {
    let server = Server::new();
    server.put("/b/source", &pattern(1 << 20));
    let id = server.begin(&[]);
    // Small things are written over zeros, which are there from here on.
    server.put("/b/small", b"x");
    let before = server.fs.trace().len();
    assert_eq!(copy(&server, &id, 1, "b/source").send().status, 200);
    let trace = server.fs.trace();
    let written: u64 = trace[before..].iter().filter(|op| op.kind == OpKind::Write).map(|op| op.len).sum();
    assert!(written < 100_000, "{written} bytes for a part of a mebibyte");
}

/// The digests of what was put in one piece are known, so that its bytes need not be there to be
/// read; those of a range, or of another algorithm, are not.
#[test]
fn a_whole_source_is_read_only_for_a_digest_that_it_lacks() {
    let server = Server::new();
    let source = pattern(300_000);
    server.request("PUT", "/b/source").header("p-checksum-crc32", crc32(&source)).body(&source).send();
    let known = copy(&server, &server.begin(&[]), 1, "b/source").send();
    failures::damage(&server, &source[200_000..200_040]);
    for announced in [&[][..], &[("p-checksum-algorithm", "CRC32")]] {
        let part = copy(&server, &server.begin(announced), 1, "b/source").send();
        assert_eq!((part.status, part.one("ETag")), (200, known.one("ETag")));
    }
    let other = server.begin(&[("p-checksum-algorithm", "SHA256")]);
    copy(&server, &other, 1, "b/source").send().is_error(500, "InternalError");
    let range = copy(&server, &other, 1, "b/source").header("p-copy-source-range", "bytes=0-299998");
    range.send().is_error(500, "InternalError");
}

#[test]
fn a_copied_part_has_the_checksum_that_was_announced() {
    let server = Server::new();
    server.put("/b/source", b"123456789");
    let id = server.begin(&[("p-checksum-algorithm", "CRC32")]);
    let part = copy(&server, &id, 1, "b/source").send();
    assert_eq!(part.one("ChecksumCRC32").as_deref(), Some("y/Q5Jg=="));
    let made = server.complete(&id, &[(1, &part.one("ETag").unwrap())]);
    assert_eq!(made.one("ChecksumCRC32"), Some(composite(&[b"123456789"])));
}

#[test]
fn a_plus_in_the_name_of_a_source_is_a_space() {
    let server = Server::new();
    server.put("/b/a%20b", b"space");
    server.put("/b/a%2Bb", b"plus");
    for (source, body) in [("b/a+b", "space"), ("b/a%2Bb", "plus")] {
        let id = server.begin(&[]);
        let part = copy(&server, &id, 1, source).send();
        assert_eq!(server.complete(&id, &[(1, &part.one("ETag").unwrap())]).status, 200);
        assert_eq!(server.get("/b/k").text(), body, "{source}");
    }
}

#[test]
fn a_range_must_lie_in_the_source() {
    let server = Server::new();
    server.put("/b/source", b"12345");
    let id = server.begin(&[]);
    for range in ["bytes=0-5", "bytes=5-5", "bytes=0-", "bytes=-1", "0-1", "bytes=2-1", "bytes=0-1,3-4", ""] {
        for dialect in Dialect::ALL {
            let asked = copy(&server, &id, 1, "b/source").dialect(dialect);
            asked.header("p-copy-source-range", range).send().is_error(400, "InvalidArgument");
        }
    }
    let asked = copy(&server, &id, 1, "b/source").header("p-copy-source-range", "bytes=4-4");
    assert_eq!(asked.send().status, 200);
}

#[test]
fn a_range_beyond_the_source_names_the_size_of_the_source() {
    let server = Server::new();
    let id = server.begin(&[]);
    for (key, body, beyond) in [
        ("source", "12345", ["bytes=0-5", "bytes=5-5", "bytes=4-18446744073709551614"]),
        ("empty", "", ["bytes=0-0", "bytes=0-1", "bytes=7-9"]),
    ] {
        server.put(&format!("/b/{key}"), body.as_bytes());
        for range in beyond {
            let answer =
                copy(&server, &id, 1, &format!("b/{key}")).header("p-copy-source-range", range).send();
            answer.is_error(400, "InvalidArgument");
            let told = format!("Range specified is not valid for source object of size: {}", body.len());
            assert_eq!(
                (answer.one("Message"), answer.one("ArgumentValue").as_deref()),
                (Some(told), Some(range))
            );
        }
        assert_eq!(copy(&server, &id, 2, &format!("b/{key}")).send().status, 200, "whole");
    }
    let reversed = copy(&server, &id, 1, "b/source").header("p-copy-source-range", "bytes=2-1").send();
    assert!(reversed.one("Message").unwrap().contains("must be of the form bytes=first-last"));
    assert_eq!(server.get(&format!("/b/k?uploadId={id}")).all("PartNumber"), ["2"]);
}

#[test]
fn a_version_may_be_the_source() {
    let server = Server::new();
    server.set_versioning("Enabled");
    let old = server.put("/b/source", b"old").header("p-version-id").unwrap().to_owned();
    server.put("/b/source", b"new");
    let id = server.begin(&[]);
    let part = copy(&server, &id, 1, &format!("b/source?versionId={old}")).send();
    assert_eq!(part.header("p-copy-source-version-id"), Some(old.as_str()));
    assert_eq!(server.complete(&id, &[(1, &part.one("ETag").unwrap())]).status, 200);
    assert_eq!(server.get("/b/k").text(), "old");
    copy(&server, &server.begin(&[]), 1, "b/source?versionId=junk").send().is_error(400, "InvalidArgument");
}

#[test]
fn the_conditions_on_the_source_must_hold() {
    let server = Server::new();
    let tag = server.put("/b/source", b"x").header("ETag").unwrap().to_owned();
    let id = server.begin(&[]);
    let earlier = "Sat, 31 Jan 2026 11:59:59 GMT";
    let later = "Sat, 31 Jan 2026 12:00:01 GMT";
    for (name, good, bad) in [
        ("p-copy-source-if-match", tag.as_str(), "\"x\""),
        ("p-copy-source-if-none-match", "\"x\"", &tag),
        ("p-copy-source-if-unmodified-since", later, earlier),
        ("p-copy-source-if-modified-since", earlier, NOW_HTTP),
    ] {
        for dialect in Dialect::ALL {
            let under =
                |value: &str| copy(&server, &id, 1, "b/source").dialect(dialect).header(name, value).send();
            under(bad).is_error(412, "PreconditionFailed");
            assert_eq!(under(good).status, 200, "{name}");
        }
    }
}

#[test]
fn copying_takes_the_permission_to_read_the_source() {
    let server = Server::with_grants(&[
        ("writer", &["PutObject"], &["b/*"]),
        ("reader", &["PutObject", "GetObject"], &["b/*"]),
    ]);
    server.set_versioning("Enabled");
    let version = server.put("/b/source", b"x").header("p-version-id").unwrap().to_owned();
    let id = server.begin(&[]);
    copy(&server, &id, 1, "b/source").by("writer").send().is_error(403, "AccessDenied");
    assert_eq!(copy(&server, &id, 1, "b/source").by("reader").send().status, 200);
    let named = copy(&server, &id, 1, &format!("b/source?versionId={version}"));
    named.by("reader").send().is_error(403, "AccessDenied");
}

#[test]
fn a_missing_source_is_reported() {
    let server = Server::new();
    let id = server.begin(&[]);
    copy(&server, &id, 1, "b/absent").send().is_error(404, "NoSuchKey");
    copy(&server, &id, 1, "absent/k").send().is_error(404, "NoSuchBucket");
    copy(&server, &id, 1, "b").send().is_error(400, "InvalidArgument");
    copy(&server, &id, 0, "b/source").send().is_error(400, "InvalidArgument");
    server.put("/b/source", b"x");
    copy(&server, "0123456789abcdef", 1, "b/source").send().is_error(404, "NoSuchUpload");
}
