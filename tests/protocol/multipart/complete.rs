//! Completing.

use super::*;

#[test]
fn the_parts_become_the_object_in_the_order_of_their_numbers() {
    for dialect in Dialect::ALL {
        let server = Server::new();
        let id = server.begin_as(dialect, &[("Content-Type", "text/x-parts"), ("p-meta-a", "1")]);
        let first = pattern(MIN + 10);
        let last = server.put_part(&id, 7, b"the end");
        let tag = server.put_part(&id, 2, &first);
        let made = server.completion(&id, &[(2, &tag), (7, &last)]).dialect(dialect).send();
        assert_eq!(made.status, 200, "{made:?}");
        assert_eq!(made.outline(), ["CompleteMultipartUploadResult", "Location", "Bucket", "Key", "ETag"]);
        assert_eq!(made.one("Location").as_deref(), Some("http://localhost:9000/b/k"));
        let digests = [Md5::of(&first), Md5::of(b"the end")].concat();
        let hex: String = Md5::of(&digests).iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(made.one("ETag"), Some(format!("\"{hex}-2\"")));
        let get = server.get("/b/k");
        assert_eq!(get.body, [first.as_slice(), b"the end"].concat());
        assert_eq!(get.header("ETag").map(str::to_owned), made.one("ETag"));
        assert_eq!(get.header("Content-Type"), Some("text/x-parts"));
        assert_eq!(get.header("p-meta-a"), Some("1"));
        assert!(server.get("/b?uploads").all("Upload").is_empty());
    }
}

#[test]
fn tags_may_be_listed_without_their_quotes() {
    let server = Server::new();
    let id = server.begin(&[]);
    let tag = server.put_part(&id, 1, b"x");
    assert_eq!(server.complete(&id, &[(1, tag.trim_matches('"'))]).status, 200);
}

#[test]
fn a_version_gets_its_id_only_where_versioning_is_enabled() {
    let server = Server::new();
    for (status, has_id) in [("", false), ("Enabled", true), ("Suspended", false)] {
        if !status.is_empty() {
            server.set_versioning(status);
        }
        let made = server.assemble(&[], &[b"x"]);
        assert_eq!(made.header("p-version-id").is_some(), has_id, "{status}");
        if let Some(id) = made.header("p-version-id") {
            assert_eq!(server.get(&format!("/b/k?versionId={id}")).text(), "x");
        }
    }
}

#[test]
fn parts_that_are_not_listed_are_dropped() {
    let server = Server::new();
    let id = server.begin(&[]);
    let tag = server.put_part(&id, 3, b"this");
    server.put_part(&id, 1, &pattern(200_000));
    assert_eq!(server.complete(&id, &[(3, &tag)]).status, 200);
    assert_eq!(server.get("/b/k").text(), "this");
    assert!(server.store.health().live_bytes < 100_000);
}

#[test]
fn a_list_that_is_no_list_is_malformed() {
    let server = Server::new();
    let id = server.begin(&[]);
    for body in [
        "",
        "junk",
        "<CompleteMultipartUpload/>",
        "<Other/>",
        "<CompleteMultipartUpload><Part/></CompleteMultipartUpload>",
    ] {
        for dialect in Dialect::ALL {
            let asked = server.request("POST", &format!("/b/k?uploadId={id}")).dialect(dialect);
            asked.body(body.as_bytes()).send().is_error(400, "MalformedXML");
        }
    }
    assert_eq!(server.get(&format!("/b/k?uploadId={id}")).status, 200);
}

#[test]
fn parts_out_of_order_are_refused() {
    let server = Server::new();
    let id = server.begin(&[]);
    let tag = server.put_part(&id, 1, b"x");
    for numbers in [[2, 1], [1, 1]] {
        let list = numbers.map(|number| (number, tag.as_str()));
        server.complete(&id, &list).is_error(400, "InvalidPartOrder");
    }
}

#[test]
fn parts_that_are_not_there_or_are_others_are_refused() {
    let server = Server::new();
    let id = server.begin(&[]);
    let tag = server.put_part(&id, 1, b"x");
    for (number, tag) in [(2, tag.as_str()), (0, &tag), (1, "\"d41d8cd98f00b204e9800998ecf8427e\""), (1, "")]
    {
        let made = server.complete(&id, &[(number, tag)]);
        made.is_error(400, "InvalidPart");
        assert_eq!(made.one("PartNumber"), Some(number.to_string()));
    }
    assert_eq!(server.complete(&id, &[(1, &tag)]).status, 200);
}

#[test]
fn every_part_but_the_last_listed_has_five_mebibytes() {
    let server = Server::new();
    let id = server.begin(&[]);
    let small = pattern(MIN - 1);
    let enough = pattern(MIN);
    let small_tag = server.put_part(&id, 1, &small);
    let last = server.put_part(&id, 2, b"");
    let refused = server.complete(&id, &[(1, &small_tag), (2, &last)]);
    refused.is_error(400, "EntityTooSmall");
    assert_eq!(refused.one("MinSizeAllowed").as_deref(), Some("5242880"));
    assert_eq!(refused.one("ProposedSize").as_deref(), Some("5242879"));
    let enough_tag = server.put_part(&id, 1, &enough);
    assert_eq!(server.complete(&id, &[(1, &enough_tag), (2, &last)]).status, 200);
    assert_eq!(server.get("/b/k").body, enough);
}

#[test]
fn the_first_of_several_faults_is_named() {
    let server = Server::new();
    let id = server.begin(&[]);
    let tag = server.put_part(&id, 1, b"x");
    let faulty = |parts: &[(u32, &str)]| server.completion(&id, parts).header("p-mp-object-size", "9").send();
    faulty(&[(2, "y"), (1, "y")]).is_error(400, "InvalidPartOrder");
    faulty(&[(1, &tag), (2, "y")]).is_error(400, "InvalidPart");
    server.put_part(&id, 2, b"x");
    faulty(&[(1, &tag), (2, &tag)]).is_error(400, "EntityTooSmall");
    faulty(&[(2, &tag)]).is_error(400, "InvalidRequest");
}

#[test]
fn a_refused_completion_leaves_the_upload_as_it_was() {
    let server = Server::new();
    let id = server.begin(&[]);
    let tag = server.put_part(&id, 1, b"x");
    let second = server.put_part(&id, 2, b"y");
    let target = format!("/b/k?uploadId={id}");
    let before = server.get(&target).all("ETag");
    server.request("POST", &target).body(b"junk").send().is_error(400, "MalformedXML");
    server.complete(&id, &[(2, &second), (1, &tag)]).is_error(400, "InvalidPartOrder");
    server.complete(&id, &[(1, &second)]).is_error(400, "InvalidPart");
    server.complete(&id, &[(1, &tag), (2, &second)]).is_error(400, "EntityTooSmall");
    let false_checksum = server.completion(&id, &[(1, &tag)]).header("p-checksum-crc32", "AAAAAA==");
    false_checksum.send().is_error(400, "BadDigest");
    server.completion(&id, &[(1, &tag)]).header("If-Match", "x").send().is_error(404, "NoSuchKey");
    assert_eq!((server.get(&target).all("ETag"), before.len()), (before, 2));
    server.get("/b/k").is_error(404, "NoSuchKey");
    assert_eq!(server.complete(&id, &[(1, &tag)]).status, 200);
}

#[test]
fn a_form_is_no_list() {
    let server = Server::new();
    let id = server.begin(&[]);
    let tag = server.put_part(&id, 1, b"x");
    for kind in ["application/x-www-form-urlencoded", "Application/X-WWW-Form-Urlencoded; charset=utf-8"] {
        let asked = server.completion(&id, &[(1, &tag)]).header("Content-Type", kind);
        asked.send().is_error(400, "InvalidRequest");
    }
    let asked = server.completion(&id, &[(1, &tag)]).header("Content-Type", "application/xml");
    assert_eq!(asked.send().status, 200);
}

#[test]
fn a_declared_object_size_is_verified() {
    let server = Server::new();
    let id = server.begin(&[]);
    let tag = server.put_part(&id, 1, b"1234");
    let sized = |size: &str| server.completion(&id, &[(1, &tag)]).header("p-mp-object-size", size).send();
    let name = format!("{}mp-object-size", usual_dialect().header_prefix());
    for (size, told) in [
        ("5", format!("The provided '{name}' header value 5 does not match what was computed: 4")),
        ("four", format!("Value for {name} header is invalid: 'four'")),
        ("", format!("Value for {name} header is invalid: ''")),
        ("-4", format!("Value for {name} header is less than zero: '-4'")),
    ] {
        let answer = sized(size);
        answer.is_error(400, "InvalidRequest");
        assert_eq!(answer.one("Message"), Some(told));
    }
    assert_eq!(sized("4").status, 200);
}

#[test]
fn a_completion_honours_conditions() {
    let server = Server::new();
    let id = server.begin(&[]);
    let tag = server.put_part(&id, 1, b"x");
    let under = |name: &str, value: &str| server.completion(&id, &[(1, &tag)]).header(name, value).send();
    under("If-Match", "\"x\"").is_error(404, "NoSuchKey");
    let old = server.put("/b/k", b"old").header("ETag").unwrap().to_owned();
    under("If-None-Match", "*").is_error(412, "PreconditionFailed");
    under("If-None-Match", &old).is_error(412, "PreconditionFailed");
    under("If-Match", "\"x\"").is_error(412, "PreconditionFailed");
    assert_eq!(server.get("/b/k").text(), "old");
    assert_eq!(under("If-Match", &old).status, 200);
    assert_eq!(server.get("/b/k").text(), "x");
}

#[test]
fn a_list_of_ten_thousand_parts_with_checksums_is_read() {
    let server = Server::new();
    let id = server.begin(&[]);
    let part = |number: u32| {
        format!(
            "\n  <Part>\n    <ETag>&quot;d41d8cd98f00b204e9800998ecf8427e&quot;</ETag>\n    <ChecksumSHA256>\
             47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=</ChecksumSHA256>\n    <PartNumber>{number}</PartNumber>\n  </Part>"
        )
    };
    let parts: String = (1..=10_000).map(part).collect();
    let body = format!("<CompleteMultipartUpload>{parts}\n</CompleteMultipartUpload>");
    let target = format!("/b/k?uploadId={id}");
    server.request("POST", &target).body(body.as_bytes()).send().is_error(400, "InvalidPart");
    let refused = server.request("POST", &target).announcing((3 << 20) + 1).send();
    refused.is_error(400, "MaxMessageLengthExceeded");
    server.request("POST", &target).unframed().send().is_error(411, "MissingContentLength");
}

#[test]
fn a_completed_upload_is_gone_for_every_later_call() {
    let server = Server::new();
    let id = server.begin(&[]);
    let tag = server.put_part(&id, 1, b"x");
    assert_eq!(server.complete(&id, &[(1, &tag)]).status, 200);
    server.completion(&id, &[(1, &tag)]).dialect(Dialect::Svc).send().is_error(404, "NoSuchUpload");
    for dialect in Dialect::ALL {
        server.part(&id, 1, b"x").dialect(dialect).send().is_error(404, "NoSuchUpload");
        let target = format!("/b/k?uploadId={id}");
        server.request("DELETE", &target).dialect(dialect).send().is_error(404, "NoSuchUpload");
        server.request("GET", &target).dialect(dialect).send().is_error(404, "NoSuchUpload");
    }
    assert_eq!(server.get("/b/k").text(), "x");
}

#[test]
fn in_the_aws_dialect_a_repeated_completion_has_the_same_answer() {
    let server = Server::new();
    server.set_versioning("Enabled");
    let id = server.begin(&[("p-checksum-algorithm", "CRC32")]);
    let put = server.part(&id, 1, b"x").header("p-checksum-crc32", crc32(b"x")).send();
    let tag = put.header("ETag").unwrap();
    let again = |parts: &[(u32, &str)]| server.completion(&id, parts).aws().send();
    let made = again(&[(1, tag)]);
    server.put("/b/k", b"newer");
    let repeated = again(&[(1, tag.trim_matches('"'))]);
    assert_eq!((repeated.status, repeated.text()), (200, made.text()));
    let version = made.header("p-version-id").unwrap();
    assert_eq!(repeated.header("p-version-id"), Some(version));
    again(&[(2, tag)]).is_error(404, "NoSuchUpload");
    again(&[(1, "\"d41d8cd98f00b204e9800998ecf8427e\"")]).is_error(404, "NoSuchUpload");
    again(&[(1, "junk")]).is_error(404, "NoSuchUpload");
    assert_eq!(server.get("/b/k").text(), "newer");
    server.delete(&format!("/b/k?versionId={version}"));
    again(&[(1, tag)]).is_error(404, "NoSuchUpload");
}

#[test]
fn a_bucket_goes_with_its_uploads() {
    let server = Server::new();
    let id = server.begin(&[]);
    server.put_part(&id, 1, b"x");
    assert_eq!(server.delete("/b").status, 204);
    assert_eq!(server.store.health().live_bytes, 0);
}
