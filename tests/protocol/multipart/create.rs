//! Beginning and giving up.

use super::*;

fn create<'s>(server: &'s Server, lines: &[(&str, &str)]) -> Asked<'s> {
    with_headers(server.request("POST", "/b/k?uploads"), lines)
}

#[test]
fn an_upload_is_created_and_its_id_returned() {
    let server = Server::new();
    for dialect in Dialect::ALL {
        let begun = create(&server, &[]).dialect(dialect).send();
        assert_eq!(begun.outline(), ["InitiateMultipartUploadResult", "Bucket", "Key", "UploadId"]);
        assert_eq!((begun.one("Bucket"), begun.one("Key")), (Some("b".into()), Some("k".into())));
        assert_eq!(begun.header("p-checksum-algorithm"), None);
    }
    server.get("/b/k").is_error(404, "NoSuchKey");
    server.request("POST", "/absent/k?uploads").send().is_error(404, "NoSuchBucket");
}

#[test]
fn a_checksum_type_needs_an_algorithm() {
    let server = Server::new();
    for dialect in Dialect::ALL {
        for kind in ["COMPOSITE", "FULL_OBJECT"] {
            let begun = create(&server, &[("p-checksum-type", kind)]).dialect(dialect).send();
            begun.is_error(400, "InvalidRequest");
        }
    }
}

#[test]
fn an_algorithm_brings_its_type_unless_another_is_asked_for() {
    let server = Server::new();
    for (algorithm, default) in [
        ("CRC32", "COMPOSITE"),
        ("CRC32C", "COMPOSITE"),
        ("SHA1", "COMPOSITE"),
        ("SHA256", "COMPOSITE"),
        ("CRC64NVME", "FULL_OBJECT"),
    ] {
        let begun = create(&server, &[("p-checksum-algorithm", algorithm)]).send();
        assert_eq!(begun.header("p-checksum-algorithm"), Some(algorithm));
        assert_eq!(begun.header("p-checksum-type"), Some(default));
    }
    let asked = [("p-checksum-algorithm", "CRC32"), ("p-checksum-type", "FULL_OBJECT")];
    assert_eq!(create(&server, &asked).aws().send().header("p-checksum-type"), Some("FULL_OBJECT"));
}

#[test]
fn algorithms_and_types_that_do_not_go_together_are_refused() {
    let server = Server::new();
    for (algorithm, kind) in [
        ("SHA1", "FULL_OBJECT"),
        ("SHA256", "FULL_OBJECT"),
        ("CRC64NVME", "COMPOSITE"),
        ("CRC32", "composite"),
        ("CRC31", "COMPOSITE"),
        ("", "COMPOSITE"),
    ] {
        let asked = [("p-checksum-algorithm", algorithm), ("p-checksum-type", kind)];
        create(&server, &asked).send().is_error(400, "InvalidRequest");
    }
}

#[test]
fn nothing_is_promised_that_is_not_served() {
    let server = Server::new();
    create(&server, &[("p-server-side-encryption", "aws:kms:dsse")]).send().is_error(501, "NotImplemented");
    let meta = "v".repeat(2049);
    create(&server, &[("p-meta-a", &meta)]).send().is_error(400, "MetadataTooLarge");
}

#[test]
fn an_aborted_upload_is_gone_for_every_later_call() {
    let server = Server::new();
    for dialect in Dialect::ALL {
        let id = server.begin(&[]);
        let tag = server.put_part(&id, 1, b"x");
        let ended = server.request("DELETE", &format!("/b/k?uploadId={id}")).dialect(dialect).send();
        assert_eq!((ended.status, ended.body.len()), (204, 0));
        let later = [
            server.part(&id, 1, b"x"),
            server.completion(&id, &[(1, &tag)]),
            server.request("DELETE", &format!("/b/k?uploadId={id}")),
            server.request("GET", &format!("/b/k?uploadId={id}")),
            server.request("PUT", &format!("/b/k?partNumber=1&uploadId={id}")).header("p-copy-source", "b/k"),
        ];
        for asked in later {
            let answer = asked.dialect(dialect).send();
            answer.is_error(404, "NoSuchUpload");
            assert_eq!(answer.one("UploadId").as_deref(), Some(id.as_str()));
        }
    }
    assert_eq!(server.store.health().live_bytes, 0);
}

#[test]
fn a_text_that_is_no_upload_id_names_no_upload() {
    let server = Server::new();
    let id = server.begin(&[]);
    for text in ["", "x", "ffffffffffffffff", &id.to_uppercase(), &format!("{id}0")] {
        server.delete(&format!("/b/k?uploadId={text}")).is_error(404, "NoSuchUpload");
        server.part(text, 1, b"x").send().is_error(404, "NoSuchUpload");
    }
    server.delete(&format!("/b/other?uploadId={id}")).is_error(404, "NoSuchUpload");
    server.delete(&format!("/absent/k?uploadId={id}")).is_error(404, "NoSuchBucket");
}

#[test]
fn each_operation_takes_the_permission_of_its_own() {
    let grants = [
        "PutObject",
        "CreateObject",
        "AbortMultipartUpload",
        "ListMultipartUploadParts",
        "ListBucketMultipartUploads",
    ];
    let users: Vec<_> = grants.iter().map(|grant| (*grant, std::slice::from_ref(grant))).collect();
    let resources: &[&str] = &["b", "b/*"];
    let users: Vec<_> = users.iter().map(|(name, actions)| (*name, *actions, resources)).collect();
    let server = Server::with_grants(&users);
    let allowed = |method: &str, target: &str, body: &[u8]| {
        let may = |user: &&&str| server.request(method, target).body(body).by(user).send().status != 403;
        grants.iter().filter(may).copied().collect::<Vec<_>>()
    };
    let id = server.begin(&[]);
    let target = format!("/b/k?uploadId={id}");
    assert_eq!(allowed("POST", "/b/k?uploads", b""), ["PutObject", "CreateObject"]);
    assert_eq!(allowed("PUT", &format!("{target}&partNumber=1"), b"x"), ["PutObject", "CreateObject"]);
    assert_eq!(allowed("GET", &target, b""), ["ListMultipartUploadParts"]);
    assert_eq!(allowed("GET", "/b?uploads", b""), ["ListBucketMultipartUploads"]);
    assert_eq!(allowed("POST", &target, b"<junk/>"), ["PutObject", "CreateObject"]);
    assert_eq!(allowed("DELETE", &target, b""), ["AbortMultipartUpload"]);
}

#[test]
fn tags_are_given_with_the_beginning() {
    let server = Server::new();
    let id = server.begin(&[("p-tagging", "colour=green")]);
    let tag = server.put_part(&id, 1, b"x");
    assert_eq!(server.complete(&id, &[(1, &tag)]).status, 200);
    let tags = server.get("/b/k?tagging");
    assert_eq!((tags.one("Key").as_deref(), tags.one("Value").as_deref()), (Some("colour"), Some("green")));
}
