//! Server-side encryption: the headers of each operation, the errors, and what the disk has.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use siltstone::base::digest::Md5;
use siltstone::keys::KeyRing;

use super::clock::EMPTY_SHA256;
use super::*;
use crate::support::form::Form;
use crate::support::service::{EncryptionOptions, RING};

/// The most bytes of a plain object that a response has in memory.
const LARGE: usize = 300_001;
const KIND: &str = "p-server-side-encryption";
const KEY_ID: &str = "p-server-side-encryption-aws-kms-key-id";
const CONTEXT: &str = "p-server-side-encryption-context";
const BUCKET_KEY: &str = "p-server-side-encryption-bucket-key-enabled";
const KEY: [u8; 32] = *b"the key of a customer, 32 bytes.";
const OTHER: [u8; 32] = *b"another key of that customer, ok";

/// The headers of a customer's key.
fn customer(prefix: &str, key: &[u8]) -> [(String, String); 3] {
    let name = |part: &str| format!("p-{prefix}server-side-encryption-customer-{part}");
    [
        (name("algorithm"), "AES256".to_owned()),
        (name("key"), BASE64.encode(key)),
        (name("key-MD5"), BASE64.encode(Md5::of(key))),
    ]
}

trait WithKey: Sized {
    fn key(self, key: &[u8]) -> Self;
    fn source_key(self, key: &[u8]) -> Self;
}

impl WithKey for Asked<'_> {
    fn key(self, key: &[u8]) -> Self {
        customer("", key).iter().fold(self, |asked, (name, value)| asked.header(name, value))
    }

    fn source_key(self, key: &[u8]) -> Self {
        customer("copy-source-", key).iter().fold(self, |asked, (name, value)| asked.header(name, value))
    }
}

fn put<'s>(server: &'s Server, target: &str, body: &[u8]) -> Asked<'s> {
    server.request("PUT", target).body(body)
}

fn good(answer: Answer) -> Answer {
    assert!((200..300).contains(&answer.status), "{answer:?}");
    answer
}

/// The three kinds, each as a put asks for it.
const KINDS: [&str; 3] = ["AES256", "aws:kms", "SSE-C"];

fn of_kind<'s>(asked: Asked<'s>, kind: &str) -> Asked<'s> {
    match kind {
        "SSE-C" => asked.key(&KEY),
        "aws:kms" => asked.header(KIND, "aws:kms").header(KEY_ID, "invoices"),
        "" => asked,
        kind => asked.header(KIND, kind),
    }
}

/// The same for a request that reads.
fn reading<'s>(asked: Asked<'s>, kind: &str) -> Asked<'s> {
    if kind == "SSE-C" { asked.key(&KEY) } else { asked }
}

/// Checks the headers of an answer about an object of that kind.
fn shows(answer: &Answer, kind: &str) {
    let shown = answer.header(KIND);
    let algorithm = answer.header("p-server-side-encryption-customer-algorithm");
    let md5 = answer.header("p-server-side-encryption-customer-key-MD5");
    match kind {
        "SSE-C" => {
            assert_eq!((shown, algorithm), (None, Some("AES256")), "{answer:?}");
            assert_eq!(md5, Some(BASE64.encode(Md5::of(&KEY)).as_str()));
        }
        "aws:kms" => {
            assert_eq!((shown, algorithm, md5), (Some("aws:kms"), None, None), "{answer:?}");
            assert_eq!(answer.header(KEY_ID), Some("invoices"));
        }
        "" => assert_eq!((shown, algorithm, md5), (None, None, None), "{answer:?}"),
        kind => assert_eq!((shown, algorithm, md5), (Some(kind), None, None), "{answer:?}"),
    }
}

/// Whether a file of the store has these bytes.
fn is_on_disk(server: &Server, bytes: &[u8]) -> bool {
    let files = server.fs.files();
    let has = |file: &str| {
        let Ok(content) = server.fs.contents(file) else { return false };
        content.windows(bytes.len()).any(|window| window == bytes)
    };
    files.iter().any(|(file, _)| has(file))
}

#[test]
fn each_kind_is_written_read_and_shown() {
    for dialect in Dialect::ALL {
        let server = Server::new();
        for kind in KINDS {
            for size in [0, 1, 5000, 65_519, 65_520, 65_521, 65_536, 65_537, LARGE] {
                let body = pattern(size);
                let written = good(of_kind(put(&server, "/b/k", &body).dialect(dialect), kind).send());
                shows(&written, kind);
                let read = good(reading(server.request("GET", "/b/k").dialect(dialect), kind).send());
                assert!(read.body == body, "{kind} {size}");
                shows(&read, kind);
                assert_eq!(read.header("ETag"), written.header("ETag"));
                let head = good(reading(server.request("HEAD", "/b/k").dialect(dialect), kind).send());
                shows(&head, kind);
                assert_eq!(head.header("Content-Length"), Some(size.to_string().as_str()));
                let is_md5 = written.header("ETag") == Some(format!("\"{}\"", hex(&Md5::of(&body))).as_str());
                assert_eq!(is_md5, kind == "AES256", "{kind} {size}");
            }
        }
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[test]
fn ranges_are_of_plain_bytes() {
    let server = Server::new();
    let body = pattern(LARGE);
    for kind in KINDS {
        good(of_kind(put(&server, "/b/k", &body), kind).send());
        for (first, last) in
            [(0, 0), (65_519, 65_520), (65_520, 131_039), (70_000, 250_000), (300_000, 300_000)]
        {
            let asked = server.request("GET", "/b/k").header("Range", format!("bytes={first}-{last}"));
            let answer = reading(asked, kind).send();
            assert_eq!(answer.status, 206);
            assert!(answer.body == body[first..=last], "{kind} {first}-{last}");
            let range = format!("bytes {first}-{last}/{LARGE}");
            assert_eq!(answer.header("Content-Range"), Some(range.as_str()));
        }
    }
}

#[test]
fn nothing_of_an_encrypted_object_is_on_the_disk() {
    let server = Server::new();
    let planted = b"the words that nobody may find on this disk";
    for (at, kind) in KINDS.iter().enumerate() {
        let body = [&planted[..], &pattern(10_000 * (at * 10 + 1))].concat();
        good(of_kind(put(&server, &format!("/b/{at}"), &body), kind).send());
        assert!(!is_on_disk(&server, planted), "{kind}");
    }
    let md5 = Md5::of(&[&planted[..], &pattern(110_000)].concat());
    assert!(!is_on_disk(&server, &md5), "the digest of an object under a named key is sealed");
    for key in [&KEY, &[1; 32], &[2; 32]] {
        assert!(!is_on_disk(&server, key) && !is_on_disk(&server, BASE64.encode(key).as_bytes()));
    }
    good(put(&server, "/b/plain", planted).send());
    assert!(is_on_disk(&server, planted), "the search finds what is there");
}

#[test]
fn context_and_bucket_key_come_back() {
    let server = Server::new();
    let context = BASE64.encode(r#"{"department":"10103.0"}"#);
    let asked = put(&server, "/b/k", b"x").header(KIND, "aws:kms").header(KEY_ID, "alias/invoices");
    let written = good(asked.header(CONTEXT, &context).header(BUCKET_KEY, "true").send());
    for answer in [written, server.get("/b/k"), server.head("/b/k")] {
        assert_eq!(answer.header(KIND), Some("aws:kms"));
        assert_eq!(answer.header(KEY_ID), Some("invoices"));
        assert_eq!(
            (answer.header(CONTEXT), answer.header(BUCKET_KEY)),
            (Some(context.as_str()), Some("true"))
        );
    }
    let default = good(put(&server, "/b/k", b"x").header(KIND, "aws:kms").send());
    assert_eq!(default.header(KEY_ID), Some("k-current"));
    assert_eq!((default.header(CONTEXT), default.header(BUCKET_KEY)), (None, None));
}

#[test]
fn a_customers_object_takes_its_key() {
    let server = Server::new();
    good(put(&server, "/b/k", b"secret").key(&KEY).send());
    for target in ["/b/k", "/b/k?attributes"] {
        let asked = |key: Option<&[u8]>| {
            let asked = server.request("GET", target).header("p-object-attributes", "ETag,ObjectSize");
            key.into_iter().fold(asked, WithKey::key).send()
        };
        asked(None).is_error(400, "InvalidRequest");
        asked(Some(&OTHER)).is_error(403, "AccessDenied");
        assert_eq!(asked(Some(&KEY)).status, 200, "{target}");
    }
    server.head("/b/k").is_bare(400);
    server.request("HEAD", "/b/k").key(&OTHER).send().is_bare(403);
    let matching = server.request("GET", "/b/k").header("If-None-Match", "*").send();
    matching.is_error(400, "InvalidRequest");
    for kind in ["", "AES256", "aws:kms"] {
        good(of_kind(put(&server, "/b/other", b"x"), kind).send());
        server.request("GET", "/b/other").key(&KEY).send().is_error(400, "InvalidRequest");
        server.request("HEAD", "/b/other").key(&KEY).send().is_bare(400);
    }
}

#[test]
fn wrong_headers_store_nothing() {
    let server = Server::new();
    let [algorithm, key, md5] = customer("", &KEY);
    let with = |lines: &[(&str, &str)]| {
        let asked =
            lines.iter().fold(put(&server, "/b/k", b"x"), |asked, (name, value)| asked.header(name, value));
        asked.send()
    };
    let [algorithm, key, md5] = [&algorithm, &key, &md5].map(|(name, value)| (name.as_str(), value.as_str()));
    let short = BASE64.encode([1; 16]);
    let short_md5 = BASE64.encode(Md5::of(&[1; 16]));
    let other_md5 = BASE64.encode(Md5::of(&OTHER));
    let cases: [&[(&str, &str)]; 17] = [
        &[algorithm, key, (md5.0, key.1)],
        &[(algorithm.0, key.1), key, md5],
        &[key, md5],
        &[algorithm, md5],
        &[algorithm, key],
        &[algorithm],
        &[algorithm, (key.0, &short), (md5.0, &short_md5)],
        &[algorithm, key, (md5.0, &other_md5)],
        &[(algorithm.0, "AES128"), key, md5],
        &[algorithm, key, md5, (KIND, "AES256")],
        &[algorithm, key, md5, (KIND, "aws:kms")],
        &[(KIND, "AES192")],
        &[(KIND, "aes256")],
        &[(KEY_ID, "invoices")],
        &[(KIND, "AES256"), (KEY_ID, "invoices")],
        &[(KIND, "aws:kms"), (CONTEXT, "e30")],
        &[(KIND, "aws:kms"), (BUCKET_KEY, "1")],
    ];
    for case in cases {
        let refused = with(case);
        refused.is_error(400, "InvalidArgument");
        let told = format!("{refused:?}");
        assert!(!told.contains(key.1) && !told.contains(&short), "{told}");
    }
    with(&[(KIND, "aws:kms:dsse")]).is_error(501, "NotImplemented");
    let unknown = with(&[(KIND, "aws:kms"), (KEY_ID, "nobody's")]);
    unknown.is_error(400, "KMS.NotFoundException");
    assert_eq!(unknown.one("KeyId").as_deref(), Some("nobody's"));
    with(&[(KIND, "aws:kms"), (KEY_ID, "closed")]).is_error(400, "KMS.DisabledException");
    server.get("/b/k").is_error(404, "NoSuchKey");
    let read = |name: &str| server.request("GET", "/b/k").header(name, "AES256").send();
    put(&server, "/b/k", b"x").send();
    for name in [KIND, KEY_ID, CONTEXT, BUCKET_KEY] {
        read(name).is_error(400, "InvalidArgument");
        server.request("HEAD", "/b/k").header(name, "AES256").send().is_bare(400);
    }
}

#[test]
fn a_key_that_others_could_read_on_the_way_is_refused() {
    let away = Some(([192, 0, 2, 7], 40_000).into());
    for (takes, status) in [(false, 400), (true, 200)] {
        let server =
            Server::with_encryption(EncryptionOptions { takes_keys_over_http: takes, ..Default::default() });
        let far = put(&server, "/b/k", b"x").key(&KEY).peer(away).respond();
        assert_eq!(far.status, status);
        good(put(&server, "/b/k", b"x").key(&KEY).send());
        let read = server.request("GET", "/b/k").key(&KEY).peer(away).respond();
        assert_eq!(read.status, status);
        let source = server.request("PUT", "/b/copy").header("p-copy-source", "/b/k").source_key(&KEY);
        assert_eq!(source.peer(away).respond().status, status);
        let named = put(&server, "/b/other", b"x").header(KIND, "aws:kms").peer(away).respond();
        assert_eq!(named.status, 200, "other kinds send no key");
    }
}

#[test]
fn a_presigned_url_has_no_key_of_a_customer() {
    let server = Server::new();
    let key = customer("", &KEY);
    let [one, two, three] = &key;
    let lines = [one, two, three].map(|(name, value)| (name.as_str(), value.as_str()));
    let refused = server.request("PUT", "/b/k").presigned(&lines).body(b"x").send();
    refused.is_error(400, "InvalidRequest");
    assert!(!format!("{refused:?}").contains(&key[1].1), "{refused:?}");
    let lower = lines.map(|(name, value)| (name.to_ascii_lowercase(), value));
    let lines = [&lower[0], &lower[1], &lower[2]].map(|(name, value)| (name.as_str(), *value));
    let refused = server.request("GET", "/b/k").presigned_v2(&lines).send();
    refused.is_error(400, "InvalidRequest");
    assert!(!format!("{refused:?}").contains(&key[1].1), "{refused:?}");
    // The kind may be there, and the key in the headers.
    let kind = server.request("PUT", "/b/k").presigned(&[(KIND, "AES256")]).body(b"x").send();
    shows(&good(kind), "AES256");
    shows(&good(server.request("PUT", "/b/k").key(&KEY).presigned(&[]).body(b"x").send()), "SSE-C");
}

#[test]
fn a_wrong_signature_is_explained_without_the_key() {
    let server = Server::new();
    for dialect in Dialect::ALL {
        let mut asked = put(&server, "/b/k", b"x").key(&KEY).source_key(&OTHER).dialect(dialect);
        asked = asked.by("owner");
        let refused = asked.header("Authorization", "AWS4-HMAC-SHA256 x").send();
        assert!(!format!("{refused:?}").contains(&BASE64.encode(KEY)), "{refused:?}");
    }
    let signed = server.request("PUT", "/b/k").key(&KEY).presigned(&[]);
    let mut elsewhere = signed;
    elsewhere.set_path("/b/other");
    let refused = elsewhere.body(b"x").send();
    refused.is_error(403, "SignatureDoesNotMatch");
    let shown = refused.one("CanonicalRequest").unwrap();
    assert!(shown.contains("customer-key:(not shown)") && shown.contains("customer-key-md5:"), "{shown}");
    assert!(!format!("{refused:?}").contains(&BASE64.encode(KEY)), "{refused:?}");
}

#[test]
fn the_checksums_of_an_object_are_for_those_who_have_its_key() {
    let server = Server::new();
    for kind in KINDS {
        let asked = put(&server, "/b/k", b"123456789").header("p-checksum-crc32", "y/Q5Jg==");
        let written = good(of_kind(asked, kind).send());
        assert_eq!(written.header("p-checksum-crc32"), Some("y/Q5Jg=="));
        let asked = server.request("HEAD", "/b/k").header("p-checksum-mode", "ENABLED");
        let head = good(reading(asked, kind).send());
        assert_eq!(head.header("p-checksum-crc32"), Some("y/Q5Jg=="), "{kind}");
        let asked =
            server.request("GET", "/b/k?attributes").header("p-object-attributes", "Checksum,ObjectSize");
        let attributes = good(reading(asked, kind).send());
        assert_eq!(attributes.one("ChecksumCRC32").as_deref(), Some("y/Q5Jg=="), "{kind}");
        assert_eq!(attributes.one("ObjectSize").as_deref(), Some("9"));
        shows(&attributes, kind);
        let wrong = put(&server, "/b/wrong", b"123456789").header("p-checksum-crc32", "AAAAAA==");
        of_kind(wrong, kind).send().is_error(400, "BadDigest");
        let wrong = put(&server, "/b/wrong", b"x").header("Content-MD5", "1B2M2Y8AsgTpgAmY7PhCfg==");
        of_kind(wrong, kind).send().is_error(400, "BadDigest");
    }
}

#[test]
fn the_default_of_a_bucket_holds_where_a_write_states_nothing() {
    let server = Server::new();
    let set = |algorithm: &str, more: &str| {
        let body = format!(
            "<ServerSideEncryptionConfiguration><Rule><ApplyServerSideEncryptionByDefault>\
             <SSEAlgorithm>{algorithm}</SSEAlgorithm>{more}</ApplyServerSideEncryptionByDefault>\
             <BucketKeyEnabled>true</BucketKeyEnabled></Rule></ServerSideEncryptionConfiguration>"
        );
        server.request("PUT", "/b?encryption").body(body.as_bytes()).send()
    };
    server.get("/b?encryption").is_error(404, "ServerSideEncryptionConfigurationNotFoundError");
    shows(&good(put(&server, "/b/k", b"x").send()), "");
    good(set("AES256", ""));
    let read = good(server.get("/b?encryption"));
    assert_eq!(
        (read.one("SSEAlgorithm").as_deref(), read.one("BucketKeyEnabled").as_deref()),
        (Some("AES256"), Some("true"))
    );
    shows(&good(put(&server, "/b/k", b"x").send()), "AES256");
    shows(&server.get("/b/k"), "AES256");
    for kind in ["aws:kms", "SSE-C"] {
        shows(&good(of_kind(put(&server, "/b/stated", b"x"), kind).send()), kind);
    }
    good(set("aws:kms", "<KMSMasterKeyID>alias/invoices</KMSMasterKeyID>"));
    let written = good(put(&server, "/b/k", b"x").send());
    shows(&written, "aws:kms");
    assert_eq!(written.header(BUCKET_KEY), Some("true"));
    shows(&good(server.request("POST", "/b/up?uploads").send()), "aws:kms");
    shows(&good(put(&server, "/b/k", b"x").header(KIND, "AES256").send()), "AES256");
    // A key that the ring lacks is taken, and refuses the writes.
    good(set("aws:kms", "<KMSMasterKeyID>nobody's</KMSMasterKeyID>"));
    put(&server, "/b/new", b"x").send().is_error(400, "KMS.NotFoundException");
    assert_eq!(server.delete("/b?encryption").status, 204);
    shows(&good(put(&server, "/b/k", b"x").send()), "");
    server.get("/b?encryption").is_error(404, "ServerSideEncryptionConfigurationNotFoundError");
    set("AES192", "").is_error(400, "MalformedXML");
    set("aws:kms:dsse", "").is_error(501, "NotImplemented");
}

#[test]
fn a_blocked_kind_is_refused_at_writes() {
    let server = Server::new();
    good(put(&server, "/b/before", b"x").key(&KEY).send());
    let block = |kind: &str| {
        let body = format!(
            "<ServerSideEncryptionConfiguration><Rule><BlockedEncryptionTypes><EncryptionType>{kind}</EncryptionType>\
             </BlockedEncryptionTypes></Rule></ServerSideEncryptionConfiguration>"
        );
        good(server.request("PUT", "/b?encryption").body(body.as_bytes()).send());
    };
    block("SSE-C");
    put(&server, "/b/k", b"x").key(&KEY).send().is_error(403, "AccessDenied");
    server.request("POST", "/b/k?uploads").key(&KEY).send().is_error(403, "AccessDenied");
    let copy = server.request("PUT", "/b/k").header("p-copy-source", "/b/before").source_key(&KEY);
    copy.key(&KEY).send().is_error(403, "AccessDenied");
    good(server.request("GET", "/b/before").key(&KEY).send());
    good(put(&server, "/b/k", b"x").header(KIND, "AES256").send());
    block("NONE");
    good(put(&server, "/b/k", b"x").key(&KEY).send());
}

#[test]
fn a_server_may_encrypt_all_objects() {
    let server = Server::with_encryption(EncryptionOptions { of_all: true, ..Default::default() });
    shows(&good(put(&server, "/b/k", b"x").send()), "AES256");
    assert_eq!(good(server.get("/b?encryption")).one("SSEAlgorithm").as_deref(), Some("AES256"));
    shows(&good(put(&server, "/b/k", b"x").key(&KEY).send()), "SSE-C");
    let form = server.post(Form::new(&[("key", "form")], b"x"));
    shows(&good(form), "AES256");
}

#[test]
fn a_form_may_ask_for_each_kind() {
    let server = Server::new();
    let prefix = usual_dialect().header_prefix();
    for kind in KINDS {
        let named = |name: &str| name.replacen("p-", prefix, 1);
        let fields = match kind {
            "SSE-C" => customer("", &KEY).map(|(name, value)| (named(&name), value)).to_vec(),
            "aws:kms" => vec![(named(KIND), kind.to_owned()), (named(KEY_ID), "invoices".to_owned())],
            kind => vec![(named(KIND), kind.to_owned())],
        };
        let mut all = vec![("key", "form")];
        all.extend(fields.iter().map(|(name, value)| (name.as_str(), value.as_str())));
        shows(&good(server.post(Form::new(&all, b"of a form"))), kind);
        let read = good(reading(server.request("GET", "/b/form"), kind).send());
        assert_eq!(read.text(), "of a form");
        shows(&read, kind);
    }
}

#[test]
fn without_a_ring_nothing_is_stored_in_the_clear_in_silence() {
    let server = Server::new();
    for kind in KINDS {
        good(of_kind(put(&server, &format!("/b/{}", &kind[..3]), b"kept"), kind).send());
    }
    let ring = KeyRing::clone(&server.keys.get());
    server.keys.replace(KeyRing::default());
    let refused = put(&server, "/b/k", b"x").header(KIND, "AES256").send();
    refused.is_error(400, "InvalidRequest");
    assert!(refused.one("Message").unwrap().contains("--keys-file"), "{refused:?}");
    put(&server, "/b/k", b"x").header(KIND, "aws:kms").send().is_error(400, "InvalidRequest");
    let default = put(&server, "/b/k", b"x").header(KIND, "aws:kms").header(KEY_ID, "alias/aws/s3").send();
    default.is_error(400, "InvalidRequest");
    put(&server, "/b/k", b"x")
        .header(KIND, "aws:kms")
        .header(KEY_ID, "invoices")
        .send()
        .is_error(400, "KMS.NotFoundException");
    server.get("/b/k").is_error(404, "NoSuchKey");
    for (target, id) in [("/b/AES", "k-current"), ("/b/aws", "k-invoices")] {
        let lost = server.get(target);
        lost.is_error(400, "KMS.NotFoundException");
        assert_eq!(lost.one("KeyId").as_deref(), Some(id));
        assert_eq!(server.head(target).status, 200, "a HEAD needs no key");
        let copy = server.request("PUT", "/b/copy").header("p-copy-source", target).send();
        copy.is_error(400, "KMS.NotFoundException");
        assert_eq!(server.delete(&format!("{target}?tagging")).status, 204, "its metadata are there");
    }
    assert_eq!(good(server.request("GET", "/b/SSE").key(&KEY).send()).text(), "kept");
    assert_eq!(server.get("/b?list-type=2").all("Key").len(), 3);
    server.keys.replace(ring);
    assert_eq!(server.get("/b/AES").text(), "kept");
    assert_eq!(server.get("/b/aws").text(), "kept");
    let health = server.get("/-/ready");
    assert_eq!(health.status, 200, "{health:?}");
}

#[test]
fn copies_between_all_kinds_have_the_bytes() {
    let body = pattern(LARGE);
    for source in ["", "AES256", "aws:kms", "SSE-C"] {
        for target in ["", "AES256", "aws:kms", "SSE-C"] {
            let server = Server::new();
            let asked =
                put(&server, "/b/k", &body).header("p-meta-a", "1").header("p-checksum-crc32", crc32(&body));
            let written = good(of_kind(asked, source).send());
            let copy = |to: &str| {
                let asked = server.request("PUT", to).header("p-copy-source", "/b/k");
                let asked = if source == "SSE-C" { asked.source_key(&KEY) } else { asked };
                of_kind(asked, target)
            };
            let copied = good(copy("/b/copy").send());
            shows(&copied, target);
            assert_eq!(copied.one("ChecksumCRC32"), Some(crc32(&body)), "{source} to {target}");
            let asked = server.request("GET", "/b/copy").header("p-checksum-mode", "ENABLED");
            let read = good(reading(asked, target).send());
            assert!(read.body == body, "{source} to {target}");
            shows(&read, target);
            assert_eq!(read.header("p-meta-a"), Some("1"));
            assert_eq!(read.header("p-checksum-crc32"), Some(crc32(&body).as_str()));
            assert_eq!(read.header("ETag").map(str::to_owned), copied.one("ETag"));
            if (source, target) == ("", "") {
                assert_eq!(read.header("ETag"), written.header("ETag"));
            }
            // Onto itself, with an encryption.
            if !target.is_empty() {
                good(copy("/b/k").send());
                let read = good(reading(server.request("GET", "/b/k"), target).send());
                assert!(read.body == body, "{source} to {target}, onto itself");
            } else if source.is_empty() {
                copy("/b/k").send().is_error(400, "InvalidRequest");
            } else {
                // From an encryption to none.
                shows(&good(copy("/b/k").send()), "");
                let read = good(server.get("/b/k"));
                assert!(read.body == body, "{source}, in the clear onto itself");
                shows(&read, "");
            }
        }
    }
}

/// The bytes that a request adds to the segments.
fn growth(server: &Server, ask: impl FnOnce() -> Answer) -> u64 {
    let before = server.store.health().live_bytes;
    good(ask());
    server.store.health().live_bytes - before
}

#[test]
fn copies_between_keys_of_the_ring_or_under_one_key_of_a_customer_write_no_payload() {
    let body = pattern(LARGE);
    for source in ["", "AES256", "aws:kms", "SSE-C"] {
        for target in ["", "AES256", "aws:kms", "SSE-C"] {
            let server = Server::new();
            good(of_kind(put(&server, "/b/k", &body), source).send());
            let copy = |to: &str| {
                let asked = server.request("PUT", to).header("p-copy-source", "/b/k");
                let asked = if source == "SSE-C" { asked.source_key(&KEY) } else { asked };
                of_kind(asked, target).send()
            };
            let of_ring = |kind: &str| ["AES256", "aws:kms"].contains(&kind);
            let is_shared = source == target || of_ring(source) && of_ring(target);
            let grown = growth(&server, || copy("/b/copy"));
            assert_eq!(grown < 20_000, is_shared, "{source} to {target}: {grown}");
            // In the kind that it has, an object is copied onto itself to be encrypted anew.
            if source == target && !source.is_empty() {
                good(
                    server
                        .request("PUT", "/b?versioning")
                        .body(b"<VersioningConfiguration><Status>Enabled</Status></VersioningConfiguration>")
                        .send(),
                );
                let grown = growth(&server, || copy("/b/k"));
                assert!(grown >= LARGE as u64, "{source} onto itself: {grown}");
                let read = good(reading(server.request("GET", "/b/k"), source).send());
                assert!(read.body == body, "{source} onto itself");
            }
        }
    }
}

#[test]
fn parts_share_what_their_keys_allow() {
    let body = pattern(LARGE);
    let range = "bytes=70000-250000";
    let whole = format!("bytes=0-{}", LARGE - 1);
    for (source, target, range, is_shared) in [
        ("AES256", "AES256", range, true),
        ("aws:kms", "aws:kms", range, true),
        ("SSE-C", "SSE-C", range, true),
        ("AES256", "aws:kms", range, false),
        ("AES256", "aws:kms", &whole, true),
        ("aws:kms", "AES256", &whole, true),
        ("AES256", "SSE-C", &whole, false),
        ("SSE-C", "AES256", &whole, false),
        ("", "AES256", &whole, false),
        ("AES256", "", &whole, false),
    ] {
        let server = Server::new();
        let checked = put(&server, "/b/k", &body).header("p-checksum-crc32", crc32(&body));
        good(of_kind(checked, source).send());
        let id = upload(&server, target);
        let mut etag = None;
        let grown = growth(&server, || {
            let asked = server.request("PUT", &format!("/b/up?partNumber=1&uploadId={id}"));
            let asked = asked.header("p-copy-source", "/b/k").header("p-copy-source-range", range);
            let asked = if source == "SSE-C" { asked.source_key(&KEY) } else { asked };
            let copied = reading(asked, target).send();
            etag = copied.one("ETag");
            copied
        });
        assert_eq!(grown < 20_000, is_shared, "{source} to {target}, {range}: {grown}");
        let list = format!(
            "<CompleteMultipartUpload><Part><PartNumber>1</PartNumber><ETag>{}</ETag></Part></CompleteMultipartUpload>",
            etag.unwrap()
        );
        let complete = server.request("POST", &format!("/b/up?uploadId={id}")).body(list.as_bytes());
        good(reading(complete, target).send());
        good(server.delete("/b/k"));
        let read = good(reading(server.request("GET", "/b/up"), target).send());
        shows(&read, target);
        let expected = if range == whole { &body[..] } else { &body[70_000..=250_000] };
        assert!(read.body == expected, "{source} to {target}");
    }
}

#[test]
fn parts_are_listed_with_the_checksums_that_their_records_seal() {
    for kind in KINDS {
        let server = Server::new();
        let id = upload(&server, kind);
        let asked = put(&server, &format!("/b/up?partNumber=1&uploadId={id}"), b"part");
        good(reading(asked.header("p-checksum-crc32", crc32(b"part")), kind).send());
        let list = || server.request("GET", &format!("/b/up?uploadId={id}"));
        let listed = good(reading(list(), kind).send());
        assert_eq!(listed.one("ChecksumCRC32"), Some(crc32(b"part")), "{kind}");
        let without = list().send();
        match kind {
            "SSE-C" => {
                assert_eq!(good(without).one("ChecksumCRC32"), None);
                list().key(&OTHER).send().is_error(400, "InvalidRequest");
            }
            _ => {
                list().key(&KEY).send().is_error(400, "InvalidRequest");
            }
        }
    }
}

#[test]
fn an_unchanged_object_states_its_kind() {
    let server = Server::new();
    for kind in KINDS {
        let etag = good(of_kind(put(&server, "/b/k", b"x"), kind).send()).header("ETag").unwrap().to_owned();
        for method in ["GET", "HEAD"] {
            let asked = server.request(method, "/b/k").header("If-None-Match", &etag);
            let answer = reading(asked, kind).send();
            assert_eq!(answer.status, 304);
            shows(&answer, kind);
        }
        let changed = server.request("GET", "/b/k").header("If-Match", "\"other\"");
        assert_eq!(reading(changed, kind).send().header(KIND), None);
    }
}

fn crc32(bytes: &[u8]) -> String {
    BASE64.encode(crc32fast::hash(bytes).to_be_bytes())
}

#[test]
fn the_source_of_a_copy_takes_its_key() {
    let server = Server::new();
    good(put(&server, "/b/k", b"secret").key(&KEY).send());
    good(put(&server, "/b/plain", b"plain").send());
    let copy = |source: &str| server.request("PUT", "/b/copy").header("p-copy-source", source);
    copy("/b/k").send().is_error(400, "InvalidRequest");
    copy("/b/k").key(&KEY).send().is_error(400, "InvalidRequest");
    copy("/b/k").source_key(&OTHER).send().is_error(403, "AccessDenied");
    copy("/b/plain").source_key(&KEY).send().is_error(400, "InvalidRequest");
    server.get("/b/copy").is_error(404, "NoSuchKey");
    // Another key of the same customer.
    good(copy("/b/k").source_key(&KEY).key(&OTHER).send());
    server.request("GET", "/b/copy").key(&KEY).send().is_error(403, "AccessDenied");
    assert_eq!(server.request("GET", "/b/copy").key(&OTHER).send().text(), "secret");
}

#[test]
fn a_copy_takes_its_kind_from_its_bucket_and_never_from_its_source() {
    let server = Server::new();
    good(server.request("PUT", "/other").send());
    let configuration = "<ServerSideEncryptionConfiguration><Rule><ApplyServerSideEncryptionByDefault>\
        <SSEAlgorithm>AES256</SSEAlgorithm></ApplyServerSideEncryptionByDefault></Rule></ServerSideEncryptionConfiguration>";
    good(server.request("PUT", "/other?encryption").body(configuration.as_bytes()).send());
    good(of_kind(put(&server, "/b/k", b"secret"), "aws:kms").send());
    for directive in ["COPY", "REPLACE"] {
        let copy = |to: &str| {
            let asked = server.request("PUT", to).header("p-copy-source", "/b/k");
            good(asked.header("p-metadata-directive", directive).send())
        };
        shows(&copy("/b/copy"), "");
        shows(&copy("/other/copy"), "AES256");
        assert_eq!(server.get("/other/copy").text(), "secret");
    }
}

/// Begins an upload of that kind.
fn upload(server: &Server, kind: &str) -> String {
    let begun = good(of_kind(server.request("POST", "/b/up?uploads"), kind).send());
    shows(&begun, kind);
    begun.one("UploadId").unwrap()
}

const PART: usize = 5 << 20;

#[test]
fn an_upload_of_each_kind_is_completed_and_read() {
    let parts = [pattern(PART), pattern(70_001)];
    for kind in KINDS {
        let server = Server::new();
        let id = upload(&server, kind);
        let mut list = String::new();
        for (at, part) in parts.iter().enumerate() {
            let asked = put(&server, &format!("/b/up?partNumber={}&uploadId={id}", at + 1), part);
            // The kind of a part is ignored.
            let asked = reading(asked.header("p-checksum-crc32", crc32(part)), kind);
            let put = good(asked.send());
            shows(&put, kind);
            assert_eq!(put.header("p-checksum-crc32"), Some(crc32(part).as_str()));
            let etag = put.header("ETag").unwrap();
            list += &format!("<Part><PartNumber>{}</PartNumber><ETag>{etag}</ETag></Part>", at + 1);
        }
        let list = format!("<CompleteMultipartUpload>{list}</CompleteMultipartUpload>");
        let complete = || server.request("POST", &format!("/b/up?uploadId={id}")).body(list.as_bytes());
        if kind == "SSE-C" {
            let stated = complete().header("p-checksum-type", "COMPOSITE").send();
            stated.is_error(400, "InvalidRequest");
            complete().key(&OTHER).send().is_error(400, "InvalidRequest");
        }
        let done = good(reading(complete(), kind).send());
        shows(&done, kind);
        let checksum = done.one("ChecksumCRC32");
        assert!(checksum.as_ref().is_some_and(|checksum| checksum.ends_with("-2")), "{done:?}");
        let read =
            good(reading(server.request("GET", "/b/up").header("p-checksum-mode", "ENABLED"), kind).send());
        assert!(read.body == parts.concat(), "{kind}");
        assert_eq!(read.header("p-checksum-crc32").map(str::to_owned), checksum);
        assert!(read.header("ETag").unwrap().ends_with("-2\""));
        let second = reading(server.request("GET", "/b/up?partNumber=2"), kind).send();
        assert!(second.status == 206 && second.body == parts[1], "{kind}");
        let again = reading(complete().aws(), kind).send();
        assert_eq!(again.status, 200, "a retry: {again:?}");
        shows(&again, kind);
    }
}

#[test]
fn a_completion_without_checksums_takes_no_key_of_the_customer() {
    for announced in [false, true] {
        let server = Server::new();
        let begun = of_kind(server.request("POST", "/b/up?uploads"), "SSE-C");
        let begun = if announced { begun.header("p-checksum-algorithm", "CRC32") } else { begun };
        let id = good(begun.send()).one("UploadId").unwrap();
        let asked = put(&server, &format!("/b/up?partNumber=1&uploadId={id}"), b"part");
        let asked = asked.header("p-checksum-crc32", crc32(b"part"));
        let etag = good(reading(asked, "SSE-C").send()).header("ETag").unwrap().to_owned();
        let complete = |checksum: &str| {
            let part = format!("<Part><PartNumber>1</PartNumber><ETag>{etag}</ETag>{checksum}</Part>");
            let list = format!("<CompleteMultipartUpload>{part}</CompleteMultipartUpload>");
            server.request("POST", &format!("/b/up?uploadId={id}")).body(list.as_bytes()).send()
        };
        let stated = format!("<ChecksumCRC32>{}</ChecksumCRC32>", crc32(b"part"));
        complete(&stated).is_error(400, "InvalidRequest");
        if announced {
            complete("").is_error(400, "InvalidRequest");
            continue;
        }
        good(complete(""));
        let get = server.request("GET", "/b/up").header("p-checksum-mode", "ENABLED");
        let read = good(reading(get, "SSE-C").send());
        assert!(read.body == b"part" && read.header("p-checksum-crc32").is_none(), "{read:?}");
        server.get("/b/up").is_error(400, "InvalidRequest");
    }
}

#[test]
fn the_parts_of_a_customers_upload_take_its_key() {
    let server = Server::new();
    let id = upload(&server, "SSE-C");
    let part = || put(&server, &format!("/b/up?partNumber=1&uploadId={id}"), b"x");
    part().send().is_error(400, "InvalidRequest");
    part().key(&OTHER).send().is_error(400, "InvalidRequest");
    part().header(KIND, "AES256").send().is_error(400, "InvalidRequest");
    good(part().key(&KEY).send());
    for kind in ["", "AES256", "aws:kms"] {
        let id = upload(&server, kind);
        let part = || put(&server, &format!("/b/up?partNumber=1&uploadId={id}"), b"x");
        part().key(&KEY).send().is_error(400, "InvalidRequest");
        shows(&good(part().header(KIND, "aws:kms").send()), kind);
    }
}

#[test]
fn parts_are_copied_between_all_kinds() {
    let body = pattern(LARGE);
    let server = Server::new();
    for source in ["", "AES256", "aws:kms", "SSE-C"] {
        good(of_kind(put(&server, "/b/k", &body), source).send());
        for target in ["", "AES256", "aws:kms", "SSE-C"] {
            let id = upload(&server, target);
            let asked = server.request("PUT", &format!("/b/up?partNumber=1&uploadId={id}"));
            let asked = asked.header("p-copy-source", "/b/k").header("p-copy-source-range", "bytes=1-70000");
            let asked = if source == "SSE-C" { asked.source_key(&KEY) } else { asked };
            let copied = good(reading(asked, target).send());
            shows(&copied, target);
            let list = format!(
                "<CompleteMultipartUpload><Part><PartNumber>1</PartNumber><ETag>{}</ETag></Part></CompleteMultipartUpload>",
                copied.one("ETag").unwrap()
            );
            let complete = server.request("POST", &format!("/b/up?uploadId={id}")).body(list.as_bytes());
            good(reading(complete, target).send());
            let read = good(reading(server.request("GET", "/b/up"), target).send());
            assert!(read.body == body[1..=70_000], "{source} to {target}");
        }
    }
}

#[test]
fn a_policy_sees_what_was_sent() {
    let server = Server::new();
    let deny = |condition: &str| {
        let body = format!(
            r#"{{"Version":"2012-10-17","Statement":[{{"Effect":"Deny","Principal":"*","Action":"s3:PutObject","Resource":"arn:aws:s3:::b/*","Condition":{condition}}}]}}"#
        );
        good(server.request("PUT", "/b?policy").body(body.as_bytes()).send());
    };
    let refused = |asked: Asked<'_>| {
        asked.send().is_error(403, "AccessDenied");
    };
    deny(r#"{"Null":{"s3:x-amz-server-side-encryption":"true"}}"#);
    refused(put(&server, "/b/k", b"x"));
    refused(put(&server, "/b/k", b"x").key(&KEY));
    good(put(&server, "/b/k", b"x").header(KIND, "AES256").send());
    // A part cannot state the kind of its upload.
    let id = upload(&server, "AES256");
    let part = good(put(&server, &format!("/b/up?partNumber=1&uploadId={id}"), b"x").send());
    shows(&part, "AES256");
    deny(r#"{"StringNotEquals":{"s3:x-amz-server-side-encryption":"aws:kms"}}"#);
    // Before the headers are looked at.
    refused(put(&server, "/b/k", b"x").header(KIND, "AES192"));
    good(of_kind(put(&server, "/b/k", b"x"), "aws:kms").send());
    deny(r#"{"StringNotEquals":{"s3:x-amz-server-side-encryption-aws-kms-key-id":"invoices"}}"#);
    refused(put(&server, "/b/k", b"x").header(KIND, "aws:kms"));
    good(of_kind(put(&server, "/b/k", b"x"), "aws:kms").send());
    deny(r#"{"Null":{"s3:x-amz-server-side-encryption-customer-algorithm":"false"}}"#);
    refused(put(&server, "/b/k", b"x").key(&KEY));
    good(put(&server, "/b/k", b"x").send());
}

#[test]
fn an_object_in_the_clear_shows_nothing() {
    let server = Server::new();
    good(put(&server, "/b/k", b"x").send());
    shows(&server.get("/b/k"), "");
    shows(&server.head("/b/k"), "");
}

#[test]
fn versions_keep_their_own_encryption() {
    let server = Server::new();
    server.set_versioning("Enabled");
    let mut versions = Vec::new();
    for kind in ["", "AES256", "aws:kms", "SSE-C"] {
        let body = format!("as {kind}");
        let written = good(of_kind(put(&server, "/b/k", body.as_bytes()), kind).send());
        versions.push((kind, body, written.header("p-version-id").unwrap().to_owned()));
    }
    for (kind, body, id) in versions {
        let read = good(reading(server.request("GET", &format!("/b/k?versionId={id}")), kind).send());
        assert_eq!(read.text(), body);
        shows(&read, kind);
    }
}

#[test]
fn ready_and_the_metrics_tell_of_the_keys_that_the_ring_lacks() {
    let server = Server::new();
    let told = |name: &str| server.request("GET", name).anonymous().send().text().to_owned();
    let ring = KeyRing::clone(&server.keys.get());
    let current = ring.current().unwrap().id.clone();
    assert!(told("/-/metrics").contains("\nsiltstone_keys 3\n"));
    server.keys.replace(KeyRing::default());
    assert_eq!(told("/-/ready"), "ready\n", "nothing is encrypted yet");
    good(put(&server, "/b/theirs", b"x").key(&KEY).send());
    assert_eq!(told("/-/ready"), "ready\n", "customers' keys are in no ring");
    server.keys.replace(ring.clone());
    for (path, kind) in [("/b/k", "AES256"), ("/b/l", "AES256"), ("/b/named", "aws:kms")] {
        good(of_kind(put(&server, path, b"x"), kind).send());
    }
    assert_eq!(told("/-/ready"), "ready\n");
    for (lacking, keys, uses, words) in [
        (ring.without(&current), 2, 1, "1 key of 2 encrypted"),
        (KeyRing::default(), 0, 2, "2 keys of 3 encrypted"),
    ] {
        server.keys.replace(lacking);
        let ready = told("/-/ready");
        assert!(ready.starts_with("ready\nThe key ring lacks ") && ready.contains(words), "{ready}");
        let metrics = told("/-/metrics");
        for line in [format!("\nsiltstone_keys {keys}\n"), format!("\nsiltstone_keys_missing {uses}\n")] {
            assert!(metrics.contains(&line), "{line}");
        }
    }
    good(server.request("DELETE", "/b/named").send());
    assert!(told("/-/metrics").contains("\nsiltstone_keys_missing 1\n"));
    server.keys.replace(ring);
    assert_eq!(told("/-/ready"), "ready\n");
    assert!(told("/-/metrics").contains("\nsiltstone_keys_missing 0\n"));
}

#[test]
fn the_metrics_count_what_a_rewrap_would_give_to_a_newer_key() {
    let server = Server::new();
    let due = || {
        let metrics = server.request("GET", "/-/metrics").anonymous().send().text().to_owned();
        let (_, rest) = metrics.split_once("\nsiltstone_keys_rewrap_due ").unwrap();
        rest.split('\n').next().unwrap().to_owned()
    };
    good(put(&server, "/b/theirs", b"x").key(&KEY).send());
    for (path, kind) in [("/b/k", "AES256"), ("/b/named", "aws:kms")] {
        good(of_kind(put(&server, path, b"x"), kind).send());
    }
    assert_eq!(due(), "0");
    let later = RING.replace("k-current", "k-later").replace("AQEB", "BQEB").replace("01-03", "01-04");
    let (later, _) = later.split_once("\n\n").unwrap();
    server.keys.replace(KeyRing::parse(&format!("{RING}{later}\n")).unwrap());
    assert_eq!(due(), "1");
    let rewrap = server.request("POST", "/-/api/1/keys/rewrap").aws();
    good(rewrap.header("p-content-sha256", EMPTY_SHA256).send());
    assert_eq!(due(), "0");
}

#[test]
fn a_head_needs_no_key_of_the_ring_but_for_sealed_checksums() {
    let server = Server::new();
    for kind in ["AES256", "aws:kms"] {
        let path = format!("/b/{}", kind.replace(':', "-"));
        let sent = put(&server, &path, b"some bytes").header("p-checksum-crc32", crc32(b"some bytes"));
        good(of_kind(sent, kind).send());
        let ring = KeyRing::clone(&server.keys.get());
        let head = || server.request("HEAD", &path);
        let known = good(head().send());
        server.keys.replace(KeyRing::default());
        let without = good(head().send());
        assert_eq!(without.header("Content-Length"), Some("10"));
        assert_eq!(
            (without.header("ETag"), without.header(KIND)),
            (known.header("ETag"), known.header(KIND))
        );
        head().header("If-None-Match", known.header("ETag").unwrap()).send().is_bare(304);
        head().key(&KEY).send().is_bare(400);
        let summed = head().header("p-checksum-mode", "ENABLED").send();
        match kind {
            "AES256" => assert_eq!(good(summed).header("p-checksum-crc32"), Some(&*crc32(b"some bytes"))),
            _ => drop(summed.is_bare(400)),
        }
        server.request("GET", &path).send().is_error(400, "KMS.NotFoundException");
        server.keys.replace(ring);
    }
}
