//! Compressed and encrypted objects, and keys that are missing, wrong, or on a tier.

use std::fs;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use ring::aead::{AES_256_GCM, Aad, CHACHA20_POLY1305, LessSafeKey, Nonce, UnboundKey};
use ring::hmac;
use siltstone::base::digest::{Crc32c, Md5, to_hex};

use super::super::import::{command_of, counts, report};
use super::super::{bytes, status, stderr};
use super::writer::{MinioDrives, TIME, Written};
use super::{imported, long_body, names, served};

const PREFIX: &str = "X-Minio-Internal-Server-Side-Encryption-";
const ALGORITHM: &str = "DAREv2-HMAC-SHA256";
const OBJECT_KEY: [u8; 32] = [0x4f; 32];
const DATA_KEY: [u8; 32] = [0xda; 32];
const KMS_KEY: [u8; 32] = [0x55; 32];
const IV: [u8; 32] = [0x17; 32];

fn mac(key: &[u8], parts: &[&[u8]]) -> [u8; 32] {
    let tag = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, key), &parts.concat());
    tag.as_ref().try_into().unwrap()
}

fn seal(key: &[u8; 32], cipher: u8, nonce: [u8; 12], authenticated: &[u8], plain: &[u8]) -> Vec<u8> {
    let algorithm = if cipher == 0 { &AES_256_GCM } else { &CHACHA20_POLY1305 };
    let key = LessSafeKey::new(UnboundKey::new(algorithm, key).unwrap());
    let mut sealed = plain.to_vec();
    key.seal_in_place_append_tag(Nonce::assume_unique_for_key(nonce), Aad::from(authenticated), &mut sealed)
        .unwrap();
    sealed
}

/// A stream of DARE 2.0.
fn dare(key: &[u8; 32], cipher: u8, plain: &[u8]) -> Vec<u8> {
    let count = plain.len().div_ceil(65_536);
    let mut stream = Vec::new();
    for (number, piece) in plain.chunks(65_536).enumerate() {
        let mut head = [&[0x20, cipher][..], &((piece.len() - 1) as u16).to_le_bytes(), &[3; 12]].concat();
        if number + 1 == count {
            head[4] |= 0x80;
        }
        let mut nonce: [u8; 12] = head[4..].try_into().unwrap();
        for (byte, of_number) in nonce[8..].iter_mut().zip((number as u32).to_le_bytes()) {
            *byte ^= of_number;
        }
        stream.extend(&head);
        stream.extend(seal(key, cipher, nonce, &head[..4], piece));
    }
    stream
}

/// A stream of DARE 1.0.
fn dare_1(key: &[u8; 32], plain: &[u8]) -> Vec<u8> {
    let mut stream = Vec::new();
    for (number, piece) in plain.chunks(65_536).enumerate() {
        let head = [
            &[0x10, 0][..],
            &((piece.len() - 1) as u16).to_le_bytes(),
            &(number as u32).to_le_bytes(),
            &[9; 8],
        ]
        .concat();
        stream.extend(&head);
        stream.extend(seal(key, 0, head[4..].try_into().unwrap(), &head[..4], piece));
    }
    stream
}

/// The forms of a data key under a key of the operator.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum KmsForm {
    Binary,
    Json,
    Master,
}

fn sealed_data_key(form: KmsForm, key: &[u8; 32], context: &str) -> Vec<u8> {
    let iv = [0x21; 16];
    let nonce = [0x43; 12];
    let sealed = seal(&mac(key, &[&iv]), 0, nonce, context.as_bytes(), &DATA_KEY);
    match form {
        KmsForm::Binary => [&sealed[..], &iv, &nonce].concat(),
        KmsForm::Json => {
            let encoded = [&iv[..], &nonce, &sealed].map(|bytes| BASE64.encode(bytes));
            let [iv, nonce, sealed] = encoded;
            format!(
                r#"{{"aead":"AES-256-GCM-HMAC-SHA-256","iv":"{iv}","nonce":"{nonce}","bytes":"{sealed}"}}"#
            )
            .into_bytes()
        }
        KmsForm::Master => dare(&mac(key, &[b"my-key", context.as_bytes()]), 0, &DATA_KEY),
    }
}

/// A version whose stored bytes are `stored`, encrypted by the server in the domain `SSE-S3` or
/// `SSE-KMS`.
fn by_server(domain: &str, key: &str, form: KmsForm, stored: Vec<u8>, plain: &[u8]) -> Written {
    let path = format!("secret/{key}");
    let context = format!("{{\"secret\":\"{}\"}}", path.replace('&', "\\u0026"));
    let sealing = mac(&DATA_KEY, &[&IV, domain.as_bytes(), ALGORITHM.as_bytes(), path.as_bytes()]);
    let etag = dare(&mac(&OBJECT_KEY, &[b"SSE-etag"]), 0, &Md5::of(plain));
    let name = if domain == "SSE-S3" { "S3-Sealed-Key" } else { "Kms-Sealed-Key" };
    let values = [
        ("Iv", BASE64.encode(IV)),
        ("Seal-Algorithm", ALGORITHM.to_owned()),
        ("S3-Kms-Key-Id", "arn:aws:kms:my-key".to_owned()),
        ("S3-Kms-Sealed-Key", BASE64.encode(sealed_data_key(form, &KMS_KEY, &context))),
        (name, BASE64.encode(dare(&sealing, 1, &OBJECT_KEY))),
    ];
    let mut version = Written::object(0, TIME, plain).with("etag", &to_hex(&etag));
    version.parts = Some(vec![(1, stored)]);
    version.inline = false;
    values.into_iter().fold(version, |version, (name, value)| {
        version.with_internal(&format!("{PREFIX}{name}"), value.as_bytes())
    })
}

/// A stream of a configuration: fragments of 16,384 bytes.
fn config_stream(key: &[u8; 32], cipher: u8, plain: &[u8]) -> Vec<u8> {
    let nonce_of =
        |number: u32| -> [u8; 12] { [&[6; 8][..], &number.to_le_bytes()].concat().try_into().unwrap() };
    let empty = seal(key, cipher, nonce_of(0), b"", b"");
    let count = plain.len().div_ceil(16_384);
    let mut stream = Vec::new();
    for (at, fragment) in plain.chunks(16_384).enumerate() {
        let flag = if at + 1 == count { 0x80 } else { 0 };
        let authenticated = [&[flag][..], &empty].concat();
        stream.extend(seal(key, cipher, nonce_of(at as u32 + 1), &authenticated, fragment));
    }
    stream
}

/// A configuration under the key of the operator, at a path below `.minio.sys`.
pub(super) fn config_by_server(path: &str, plain: &[u8]) -> Vec<u8> {
    let context = format!("{{\".minio.sys\":\".minio.sys/{path}\"}}");
    let data_key = BASE64.encode(sealed_data_key(KmsForm::Binary, &KMS_KEY, &context));
    let nonce = BASE64.encode([6; 8]);
    let json = format!(
        r#"{{"keyid":"my-key","kmskey":"{data_key}","algorithm":"ChaCha20-Poly1305","nonce":"{nonce}"}}"#
    );
    let head = [&[1][..], &(json.len() as u32).to_le_bytes(), json.as_bytes()].concat();
    [head, config_stream(&DATA_KEY, 1, plain)].concat()
}

/// A configuration under the keys of the first user.
pub(super) fn config_by_first_user(password: &str, plain: &[u8]) -> Vec<u8> {
    let salt = [0x5a; 32];
    let mut key = [0; 32];
    let params = argon2::Params::new(64 << 10, 1, 4, Some(32)).unwrap();
    let argon2 = argon2::Argon2::new(argon2::Algorithm::Argon2id, argon2::Version::V0x13, params);
    argon2.hash_password_into(password.as_bytes(), &salt, &mut key).unwrap();
    [&salt[..], &[0], &[6; 8], &config_stream(&key, 0, plain)].concat()
}

fn by_client(key: &str, client_key: &[u8; 32], plain: &[u8]) -> Written {
    let path = format!("secret/{key}");
    let sealing = mac(client_key, &[&IV, b"SSE-C", ALGORITHM.as_bytes(), path.as_bytes()]);
    let etag = dare(&mac(&OBJECT_KEY, &[b"SSE-etag"]), 0, &Md5::of(plain));
    let mut version = Written::object(0, TIME, plain).with("etag", &to_hex(&etag));
    version.parts = Some(vec![(1, dare(&OBJECT_KEY, 0, plain))]);
    version.inline = false;
    version
        .with_internal(&format!("{PREFIX}Iv"), BASE64.encode(IV).as_bytes())
        .with_internal(&format!("{PREFIX}Seal-Algorithm"), ALGORITHM.as_bytes())
        .with_internal(
            &format!("{PREFIX}Sealed-Key"),
            BASE64.encode(dare(&sealing, 0, &OBJECT_KEY)).as_bytes(),
        )
}

/// A stream of S2: a stored block, and one that repeats four bytes.
fn compressed(plain: &[u8], repeated: &[u8; 4], times: usize) -> (Vec<u8>, Vec<u8>) {
    let sum = |bytes: &[u8]| {
        let mut crc = Crc32c::new();
        crc.update(bytes);
        crc.value().rotate_right(15).wrapping_add(0xa282_ead8).to_le_bytes()
    };
    let chunk = |kind: u8, body: &[u8], plain: &[u8]| {
        let length = (body.len() as u32 + 4).to_le_bytes();
        [&[kind][..], &length[..3], &sum(plain), body].concat()
    };
    let all = repeated.repeat(times);
    let mut length = all.len();
    let mut body = Vec::new();
    while length >= 0x80 {
        body.push(length as u8 | 0x80);
        length >>= 7;
    }
    body.push(length as u8);
    body.extend([3 << 2]);
    body.extend(repeated);
    // A copy of 4 from 4 before, and a repeat of all that is left.
    body.extend([1, 4]);
    let rest = all.len() - 8 - 4 - 65_536;
    body.extend([7 << 2 | 1, 0]);
    body.extend(&(rest as u32).to_le_bytes()[..3]);
    let padding = [0xfe, 2, 0, 0, 0, 0];
    let mut stream = b"\xff\x06\0\0S2sTwO".to_vec();
    for piece in plain.chunks(1 << 20) {
        stream.extend(chunk(1, piece, piece));
    }
    stream.extend(chunk(0, &body, &all));
    stream.extend(padding);
    (stream, [plain, &all].concat())
}

fn import_with(
    drives: &MinioDrives,
    data: &std::path::Path,
    key: (&str, &str),
    more: &[&str],
) -> (i32, serde_json::Value) {
    let data = data.join("siltstone-data");
    let source = drives.source();
    let args = [&[&*source][..], more, &["--offline", "--data-dir", data.to_str().unwrap()]].concat();
    let output = command_of("import", &args).env(key.0, key.1).output().unwrap();
    (status(&output), report(&output))
}

pub(super) fn secret() -> String {
    format!("my-key:{}", BASE64.encode(KMS_KEY))
}

#[test]
fn compressed_objects_are_stored_plain() {
    let drives = MinioDrives::new(2, 1);
    let (stored, plain) = compressed(&bytes(1, 1_300_000), b"wxyz", 50_000);
    let name = "X-Minio-Internal-compression";
    let size = plain.len().to_string();
    let mut object = Written::object(0, TIME, &plain).with_internal(name, b"klauspost/compress/s2");
    object = object.with_internal("X-Minio-Internal-actual-size", size.as_bytes());
    object.parts = Some(vec![(1, stored.clone())]);
    object.actual = Some(vec![plain.len() as i64]);
    drives.put("logs", "one", &[object.clone()]);
    let parts = [bytes(2, 5 << 20), bytes(3, 40)];
    let (first, first_plain) = compressed(&parts[0], b"abcd", 20_000);
    let (second, second_plain) = compressed(&parts[1], b"abcd", 20_000);
    let digests: Vec<u8> = [&first_plain, &second_plain].iter().flat_map(|part| Md5::of(part)).collect();
    let etag = format!("{}-2", to_hex(&Md5::of(&digests)));
    let mut film = object.clone().with("etag", &etag).with_internal(name, b"golang/snappy/LZ77");
    film.internal.remove("X-Minio-Internal-actual-size");
    film.parts = Some(vec![(1, first), (2, second)]);
    film.actual = Some(vec![first_plain.len() as i64, second_plain.len() as i64]);
    drives.put("logs", "film", &[film]);
    let mut short = object.with_internal("X-Minio-Internal-actual-size", b"17");
    short.parts = Some(vec![(1, stored)]);
    drives.put("logs", "lying", &[short]);
    let data = tempfile::tempdir().unwrap();
    let (status, report) = imported(&drives, data.path(), &[]);
    assert_eq!((status, counts(&report)), (1, [2, 0, 1, 0]), "{report}");
    assert!(names(&report, "failures")[0].starts_with("logs/lying: version null: "), "{report}");
    let (_server, mut client) = served(&data, "logs");
    assert!(long_body(&mut client, "one", plain.len()) == plain);
    let film = [first_plain, second_plain].concat();
    assert!(long_body(&mut client, "film", film.len()) == film);
}

#[test]
fn encrypted_objects_are_stored_plain_with_the_keys_of_the_operator() {
    let drives = MinioDrives::new(2, 2);
    let plain = bytes(1, 200_000);
    for (key, domain, form) in
        [("binary", "SSE-S3", KmsForm::Binary), ("a/json & <more>", "SSE-KMS", KmsForm::Json)]
    {
        let mut version = by_server(domain, key, form, dare(&OBJECT_KEY, 0, &plain), &plain);
        if key.contains('<') {
            // The context has further escapes.
            let context = r#"{"secret":"secret/a/json \u0026 \u003cmore\u003e"}"#;
            let sealed = sealed_data_key(form, &KMS_KEY, context);
            version = version
                .with_internal(&format!("{PREFIX}S3-Kms-Sealed-Key"), BASE64.encode(sealed).as_bytes());
        }
        drives.put("secret", key, &[version]);
    }
    let (packed, inner) = compressed(&plain, b"wxyz", 30_000);
    let both = by_server("SSE-S3", "both", KmsForm::Binary, dare(&OBJECT_KEY, 1, &packed), &inner)
        .with_internal("X-Minio-Internal-compression", b"klauspost/compress/s2")
        .with_internal("X-Minio-Internal-actual-size", inner.len().to_string().as_bytes());
    drives.put("secret", "both", &[both]);
    let parts = [bytes(2, 5 << 20), bytes(3, 70_000)];
    let digests: Vec<u8> = parts.iter().flat_map(|part| Md5::of(part)).collect();
    let etag = format!("{}-2", to_hex(&Md5::of(&digests)));
    let mut film = by_server("SSE-S3", "film", KmsForm::Json, Vec::new(), b"")
        .with("etag", &etag)
        .with_internal("X-Minio-Internal-Encrypted-Multipart", b"");
    let sealed =
        |number: u32, part: &[u8]| (number, dare(&mac(&OBJECT_KEY, &[&number.to_le_bytes()]), 0, part));
    film.parts = Some(vec![sealed(2, &parts[0]), sealed(5, &parts[1])]);
    drives.put("secret", "film", &[film]);

    let data = tempfile::tempdir().unwrap();
    let (status, report) = imported(&drives, data.path(), &[]);
    assert_eq!((status, counts(&report)), (1, [0, 0, 4, 0]), "{report}");
    assert!(
        names(&report, "failures")
            .iter()
            .all(|line| line.ends_with("encrypted, and the key \"my-key\" was not given"))
    );
    let wrong = format!("my-key:{}", BASE64.encode([1; 32]));
    let (status, report) = import_with(&drives, data.path(), ("MINIO_KMS_SECRET_KEY", &wrong), &[]);
    assert_eq!((status, counts(&report)), (1, [0, 0, 4, 0]), "{report}");
    assert!(
        names(&report, "failures").iter().all(|line| line.ends_with("that was given does not open it")),
        "{report}"
    );
    let (status, report) = import_with(&drives, data.path(), ("MINIO_KMS_SECRET_KEY", &secret()), &[]);
    assert_eq!((status, counts(&report)), (0, [4, 0, 0, 0]), "{report}");
    let told = report["relied_on"].as_array().unwrap();
    assert!(told.len() == 2 && told.iter().all(|fact| fact["count"] == 2), "{report}");
    let (_server, mut client) = served(&data, "secret");
    assert!(client.body("binary") == plain);
    assert!(client.body("a/json%20%26%20%3Cmore%3E") == plain);
    assert!(client.body("both") == inner);
    let film = parts.concat();
    assert!(long_body(&mut client, "film", film.len()) == film);
    assert_eq!(client.ask("HEAD", "film", &[], "", b"").header("etag"), Some(format!("\"{etag}\"")));
    let head = client.ask("HEAD", "binary", &[], "", b"");
    assert_eq!(head.header("etag"), Some(format!("\"{}\"", to_hex(&Md5::of(&plain)))));
}

#[test]
fn keys_of_2018_and_of_clients_come_from_files() {
    let drives = MinioDrives::new(1, 0);
    let plain = bytes(1, 70_000);
    let client_key = [0x77; 32];
    drives.put(
        "secret",
        "old",
        &[by_server("SSE-S3", "old", KmsForm::Master, dare(&OBJECT_KEY, 0, &plain), &plain)],
    );
    drives.put(
        "secret",
        "first",
        &[by_server("SSE-S3", "first", KmsForm::Master, dare_1(&OBJECT_KEY, &plain), &plain)],
    );
    drives.put("secret", "mine/a", &[by_client("mine/a", &client_key, &plain)]);
    drives.put("secret", "other", &[by_client("other", &[0x78; 32], &plain)]);
    let mut cut = by_server(
        "SSE-S3",
        "cut",
        KmsForm::Master,
        dare(&OBJECT_KEY, 0, &bytes(2, 131_072)),
        &bytes(2, 131_072),
    );
    cut.parts.as_mut().unwrap()[0].1.truncate(65_568);
    drives.put("secret", "cut", &[cut]);
    let home = tempfile::tempdir().unwrap();
    let environment = home.path().join("minio.env");
    let hex = to_hex(&KMS_KEY);
    fs::write(&environment, format!("MINIO_ROOT_USER=admin\nMINIO_KMS_MASTER_KEY=\"my-key:{hex}\"\n"))
        .unwrap();
    let customer = home.path().join("customer");
    fs::write(&customer, format!("secret/mine/ {}\n", BASE64.encode(client_key))).unwrap();
    let data = tempfile::tempdir().unwrap();
    let more = ["--minio-env", environment.to_str().unwrap(), "--sse-c-keys", customer.to_str().unwrap()];
    let (status, report) = imported(&drives, data.path(), &more);
    assert_eq!((status, counts(&report)[..3].to_vec()), (1, vec![3, 0, 2]), "{report}");
    let failures = names(&report, "failures");
    assert!(
        failures.iter().any(|line| line
            .contains("secret/other: version null: encrypted, and the key \"that the client gave (SSE-C)\"")),
        "{failures:?}"
    );
    assert!(
        failures
            .iter()
            .any(|line| line.contains("secret/cut") && line.contains("encrypted data: it is cut off")),
        "{failures:?}"
    );
    let (_server, mut client) = served(&data, "secret");
    for key in ["old", "first", "mine/a"] {
        assert!(client.body(key) == plain, "{key}");
    }
}

#[test]
fn bytes_on_a_tier_are_named_and_a_bad_key_is_refused() {
    let drives = MinioDrives::new(1, 0);
    let gone = Written::object(0, TIME, b"")
        .with_internal("X-Minio-Internal-transition-status", b"complete")
        .with_internal("X-Minio-Internal-transition-tier", b"COLD");
    drives.put("logs", "gone", &[gone]);
    let data = tempfile::tempdir().unwrap();
    let (status, report) = imported(&drives, data.path(), &[]);
    assert_eq!((status, counts(&report)), (1, [0, 0, 1, 0]), "{report}");
    assert_eq!(
        names(&report, "failures"),
        ["logs/gone: version null: its bytes are on the remote tier \"COLD\""]
    );
    let source = drives.source();
    let args = [&*source, "--offline", "--data-dir", data.path().to_str().unwrap()];
    let output = command_of("import", &args).env("MINIO_KMS_SECRET_KEY", "id:short").output().unwrap();
    assert_eq!(super::super::status(&output), 2);
    assert!(
        stderr(&output).contains("MINIO_KMS_SECRET_KEY: the key \"id\" does not have 32 bytes"),
        "{}",
        stderr(&output)
    );
}
