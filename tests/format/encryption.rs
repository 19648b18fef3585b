//! Encrypted objects, decrypted by a reader that was written from data-format.md alone: it shares
//! nothing with the library but AES-256-GCM and HMAC of the crate `ring`.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};

use ring::aead::{AES_256_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use ring::{digest, hmac};
use siltstone::store::{EncryptedPartCopy, KeySource, MasterKey, NamedKey, NewEncryption};

use super::*;

/// The ring of the worked dumps, of `k1` and `k2`.
#[derive(Default)]
struct WorkedRing {
    is_later: AtomicBool,
}

impl KeySource for WorkedRing {
    fn current(&self) -> Option<NamedKey> {
        let id = if self.is_later.load(Ordering::Relaxed) { "k2" } else { "k1" };
        let key = self.to_open(id)?;
        Some(NamedKey { id: id.into(), key })
    }

    fn to_wrap(&self, id: &str) -> Option<MasterKey> {
        self.to_open(id)
    }

    fn to_open(&self, id: &str) -> Option<MasterKey> {
        match id {
            "k1" => Some(MasterKey::new(master())),
            "k2" => Some(MasterKey::new(later_master())),
            _ => None,
        }
    }

    fn successor(&self, _: &str) -> Option<NamedKey> {
        self.current()
    }
}

fn master() -> [u8; 32] {
    std::array::from_fn(|at| at as u8)
}

fn later_master() -> [u8; 32] {
    std::array::from_fn(|at| at as u8 + 32)
}

fn open_with_keys(dir: &Path, ring: Arc<WorkedRing>) -> Store {
    let store = open(dir);
    store.set_keys_with(ring, Arc::new(SeededEntropy::new(2)));
    store
}

fn put_encrypted(store: &Store, key: &str, bytes: &[u8], new: &NewEncryption) {
    let mut writer = store.writer("docs", key, Some(bytes.len() as u64)).unwrap();
    writer.encrypt(new).unwrap();
    writer.write(bytes).unwrap();
    writer.commit(commit(bytes)).unwrap();
}

/// The text blocks of the worked dumps of section 20: the master key and the files of the first, and
/// those that the second adds.
fn worked() -> [String; 4] {
    let page = page();
    let (_, section) = page.split_once("\n## 20. Encrypted objects\n").expect("the page has the section");
    let (_, section) = section.split_once("\n### A worked dump\n").expect("the section has a dump");
    let block = |nth| section.split("```text\n").nth(nth).unwrap().split("```").next().unwrap().to_owned();
    [block(1), block(2), block(3), block(4)]
}

/// Copies `hello` to a part of an upload that is encrypted under the next key of the ring.
fn copy_to_part_under_another_key(store: &Store, ring: &WorkedRing) {
    ring.is_later.store(true, Ordering::Relaxed);
    let new = NewUpload {
        storage_class: StorageClass::Standard,
        initiator: "admin".into(),
        checksum: None,
        attributes: Attributes::new(),
        tags: vec![],
        controls: ObjectControls::default(),
    };
    let upload = store.create_encrypted_upload("docs", "parts", new, &NewEncryption::S3).unwrap().id;
    let found = store.find("docs", "hello", Selector::Current).unwrap();
    let source =
        CopyRange { bucket: found.bucket.id, key: "hello".into(), version: found.version, range: 0..14 };
    let copy = EncryptedPartCopy {
        source,
        source_key: None,
        upload,
        upload_key: None,
        number: 1,
        md5: Md5::of(b"Hello, world!\n"),
        checksum: None,
    };
    store.copy_encrypted_part("docs", "parts", copy).unwrap();
}

/// The files of the first dump, after what `then` does.
fn hello_and(then: fn(&Store, &WorkedRing)) -> String {
    let dir = tempfile::tempdir().unwrap();
    let ring = Arc::new(WorkedRing::default());
    let store = open_with_keys(dir.path(), Arc::clone(&ring));
    store.create_bucket("docs", "admin").unwrap();
    put_encrypted(&store, "hello", b"Hello, world!\n", &NewEncryption::S3);
    then(&store, &ring);
    drop(store);
    dump(&files(dir.path()))
}

#[test]
fn the_worked_dumps_of_encrypted_bytes_are_what_the_code_writes() {
    let [_, shown, _, shown_later] = worked();
    let written = hello_and(|_, _| ());
    assert!(shown == written, "the page has another dump than the code writes:\n{written}");
    let added = added(&written, &hello_and(copy_to_part_under_another_key));
    assert!(shown_later == added, "the page has another dump than the code adds:\n{added}");
}

#[test]
fn a_stranger_decrypts_the_worked_dump_with_the_key_on_the_page() {
    let [key, dumped, ..] = worked();
    let mut files = BTreeMap::new();
    undump(&mut files, &dumped);
    let (id, key) = named_key(&key);
    let found = stranger(&files, &|name| (name == id).then(|| key.clone()).unwrap());
    assert_eq!(found, BTreeMap::from([("hello".to_owned(), b"Hello, world!\n".to_vec())]));
}

#[test]
fn a_stranger_decrypts_a_part_whose_write_key_is_wrapped() {
    let [key, dumped, later_key, added] = worked();
    let mut files = BTreeMap::new();
    undump(&mut files, &dumped);
    undump(&mut files, &added);
    let keys = BTreeMap::from([named_key(&key), named_key(&later_key)]);
    let segment = &files["data/0000000000000001.segment"];
    let u32_at = |at: usize| u32::from_le_bytes(segment[at..at + 4].try_into().unwrap()) as usize;
    let payload = &segment[0x1040..][..u32_at(0x1018)];
    let mut fields = Fields(&segment[0x2040..][..u32_at(0x201c)]);
    assert_eq!(fields.byte(), 9, "the record of an encrypted part");
    fields.varint();
    assert_eq!([fields.bytes(), fields.bytes()], [&b"docs"[..], b"parts"]);
    // Write, position, owner, created, versioning.
    fields.varint();
    fields.varint();
    fields.bytes();
    fields.varint();
    fields.byte();
    assert_eq!(fields.varint(), 1, "one source");
    fields.varint();
    assert_eq!([fields.varint(), fields.varint()], [0, 14]);
    // The upload: id, time, user, a wrapped key announced, no type, attributes and tags.
    fields.take(8);
    fields.varint();
    fields.bytes();
    assert_eq!(fields.take(4), [32, 0, 0, 0]);
    fields.unwrap_key(&|id| keys[id].clone());
    // The part: number, id, modified, size, MD5, no extents.
    assert_eq!(fields.varint(), 1);
    fields.take(8);
    fields.varint();
    assert_eq!(fields.varint(), 14);
    assert_eq!(fields.take(16), Md5::of(b"Hello, world!\n"));
    assert_eq!([fields.byte(), fields.byte()], [0, 2], "an encryption follows");
    assert_eq!(fields.varint(), 1, "a wrapped key beside that of the upload");
    let (kind, write_key) = fields.unwrap_key(&|id| (id == "k2").then(|| keys[id].clone()).unwrap());
    assert_eq!(kind, 1 + 64, "a write key");
    assert_eq!([fields.varint(), fields.varint()], [1, 1], "one run, of the first own key");
    fields.take(16);
    assert_eq!([fields.varint(), fields.varint(), fields.varint()], [1, 0, 14], "packages, first, bytes");
    assert_eq!((fields.varint(), fields.0.len()), (0, 0), "no digests, and nothing after them");
    let key = LessSafeKey::new(UnboundKey::new(&AES_256_GCM, &write_key).unwrap());
    let bound = [&b"siltstone package 1"[..], &[1]].concat();
    assert_eq!(decrypt(&key, 0, bound, payload), b"Hello, world!\n");
}

/// The id and the bytes of a key as the page shows it.
fn named_key(line: &str) -> (String, Vec<u8>) {
    let (id, key) = line.trim().strip_prefix("master key ").unwrap().split_once(' ').unwrap();
    (id.to_owned(), unhex(key))
}

#[test]
fn a_stranger_decrypts_objects_of_all_sizes_and_kinds() {
    let dir = tempfile::tempdir().unwrap();
    let store = open_with_keys(dir.path(), Arc::default());
    store.create_bucket("docs", "admin").unwrap();
    let kms = NewEncryption::Kms { key_id: "k1".into(), context: "e30=".into(), bucket_key: true };
    let kinds = [NewEncryption::S3, kms, NewEncryption::Customer(MasterKey::new([9; 32]))];
    let mut expected = BTreeMap::new();
    for (at, new) in kinds.iter().enumerate() {
        for size in [0, 1, 65_519, 65_520, 65_521, 65_536, 65_537, 131_040, 131_041, 17_000_000] {
            let name = format!("{at}-{size}");
            let bytes = pattern(at as u64 + 1, size);
            put_encrypted(&store, &name, &bytes, new);
            expected.insert(name, bytes);
        }
    }
    store.close();
    drop(store);
    let key_of = |id: &str| if id.is_empty() { vec![9; 32] } else { master().to_vec() };
    let found = stranger(&files(dir.path()), &key_of);
    assert!(found.keys().eq(expected.keys()));
    for (name, bytes) in &expected {
        assert!(found[name] == *bytes, "{name}");
    }
}

fn unhex(text: &str) -> Vec<u8> {
    let digits = text.as_bytes().chunks(2).map(|pair| std::str::from_utf8(pair).unwrap());
    digits.map(|pair| u8::from_str_radix(pair, 16).unwrap()).collect()
}

/// Reads the encodings of section 6.
struct Fields<'b>(&'b [u8]);

impl<'b> Fields<'b> {
    fn take(&mut self, len: usize) -> &'b [u8] {
        let (taken, rest) = self.0.split_at(len);
        self.0 = rest;
        taken
    }

    fn byte(&mut self) -> u8 {
        self.take(1)[0]
    }

    fn varint(&mut self) -> u64 {
        let mut value = 0;
        for shift in (0..).step_by(7) {
            let byte = self.byte();
            value |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                break;
            }
        }
        value
    }

    fn bytes(&mut self) -> &'b [u8] {
        let len = self.varint() as usize;
        self.take(len)
    }

    /// Reads a wrapped key. Returns its kind without the mark of a bucket key, and the key.
    fn unwrap_key(&mut self, key_of: &dyn Fn(&str) -> Vec<u8>) -> (u8, Vec<u8>) {
        let kind = self.byte() & 0x7f;
        let id = self.bytes();
        let context = self.bytes();
        let wrap = hkdf(&key_of(std::str::from_utf8(id).unwrap()), self.take(16), "siltstone object key 1");
        let hash = |bytes: &[u8]| digest::digest(&digest::SHA256, bytes);
        let bound = [&[kind], hash(id).as_ref(), hash(context).as_ref()].concat();
        (kind, decrypt(&wrap, 0, bound, self.take(48)))
    }
}

/// Section 20, "Keys".
fn hkdf(secret: &[u8], salt: &[u8], label: &str) -> LessSafeKey {
    let extracted = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, salt), secret);
    let info = [label.as_bytes(), &[1]].concat();
    let expanded = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, extracted.as_ref()), &info);
    LessSafeKey::new(UnboundKey::new(&AES_256_GCM, expanded.as_ref()).unwrap())
}

fn decrypt(key: &LessSafeKey, number: u64, bound: Vec<u8>, sealed: &[u8]) -> Vec<u8> {
    let mut nonce = [0; 12];
    nonce[..8].copy_from_slice(&number.to_le_bytes());
    let mut bytes = sealed.to_vec();
    let nonce = Nonce::assume_unique_for_key(nonce);
    key.open_in_place(nonce, Aad::from(bound), &mut bytes).expect("the tag is right").to_vec()
}

/// The object of a record: its name, and how to decrypt it.
struct Recorded {
    name: String,
    size: u64,
    write: u64,
    encryption: Vec<u8>,
}

/// The plain bytes of all objects in the segments, by their names.
fn stranger(
    files: &BTreeMap<String, Vec<u8>>,
    key_of: &dyn Fn(&str) -> Vec<u8>,
) -> BTreeMap<String, Vec<u8>> {
    let mut payloads: BTreeMap<(u64, u64), Vec<u8>> = BTreeMap::new();
    let mut records = Vec::new();
    for (_, segment) in files.iter().filter(|(path, _)| path.starts_with("data/")) {
        let mut at = 4096;
        while at + 64 <= segment.len() {
            let u32_at =
                |offset: usize| u32::from_le_bytes(segment[at + offset..][..4].try_into().unwrap()) as usize;
            let offset = u64::from_le_bytes(segment[at + 16..at + 24].try_into().unwrap());
            if &segment[at..at + 4] != b"SXT1" || offset != at as u64 {
                at += 64;
                continue;
            }
            let payload = &segment[at + 64..][..u32_at(24)];
            let table = if payload.len() > 65_536 { payload.len().div_ceil(65_536) * 4 } else { 0 };
            let descriptor = &segment[at + 64 + payload.len() + table..][..u32_at(28)];
            read_descriptor(descriptor, payload, &mut payloads, &mut records);
            at += (64 + payload.len() + table + descriptor.len()).next_multiple_of(64);
        }
    }
    let decrypted =
        records.into_iter().map(|record| (record.name.clone(), plain_of(&record, &payloads, key_of)));
    decrypted.collect()
}

fn read_descriptor(
    descriptor: &[u8],
    payload: &[u8],
    payloads: &mut BTreeMap<(u64, u64), Vec<u8>>,
    records: &mut Vec<Recorded>,
) {
    let mut fields = Fields(descriptor);
    let purpose = fields.byte();
    fields.varint();
    fields.bytes();
    let name = String::from_utf8(fields.bytes().to_vec()).unwrap();
    let write = fields.varint();
    let position = fields.varint();
    assert!(purpose == 6 || purpose == 8, "purpose {purpose}");
    if !payload.is_empty() {
        payloads.insert((write, position), payload.to_vec());
    }
    if purpose == 6 {
        return;
    }
    // Owner, created, versioning, sources.
    fields.bytes();
    fields.varint();
    fields.byte();
    assert_eq!(fields.varint(), 0, "no sources");
    let flags = fields.varint();
    fields.take(8);
    fields.varint();
    let size = fields.varint();
    assert_eq!(fields.byte(), 1, "the ETag is an MD5, or looks like one");
    fields.take(16);
    assert_eq!(fields.varint(), 0, "no extents");
    assert_eq!(flags & !(1 | 4), 1024, "an encryption, and attributes at most");
    if flags & 4 != 0 {
        for _ in 0..fields.varint() {
            fields.bytes();
            fields.bytes();
        }
    }
    records.push(Recorded { name, size, write, encryption: fields.0.to_vec() });
}

fn plain_of(
    record: &Recorded,
    payloads: &BTreeMap<(u64, u64), Vec<u8>>,
    key_of: &dyn Fn(&str) -> Vec<u8>,
) -> Vec<u8> {
    let mut fields = Fields(&record.encryption);
    assert_eq!(fields.varint(), 1, "one wrapped key");
    let (kind, object_key) = fields.unwrap_key(key_of);
    let mut plain = Vec::new();
    for _ in 0..fields.varint() {
        assert_eq!(fields.varint(), 0, "the number of the key");
        let write_key = hkdf(&object_key, fields.take(16), "siltstone write key 1");
        let packages = fields.varint();
        let mut number = fields.varint();
        let len = fields.varint();
        assert_eq!((number, len), (0, record.size));
        for payload in
            payloads.range((record.write, 0)..=(record.write, u64::MAX)).map(|(_, payload)| payload)
        {
            for package in payload.chunks(65_536) {
                let last = u8::from(number + 1 == packages);
                let bound = [&b"siltstone package 1"[..], &[last]].concat();
                plain.extend(decrypt(&write_key, number, bound, package));
                number += 1;
            }
        }
        assert_eq!(number, packages);
    }
    let sealed = fields.bytes();
    if kind != 1 {
        let (salt, sealed) = sealed.split_at(16);
        let digests = decrypt(&hkdf(&object_key, salt, "siltstone digests 1"), 0, vec![], sealed);
        assert_eq!(digests, [&[1][..], &Md5::of(&plain), &[0, 0]].concat(), "the MD5, and no checksums");
    }
    assert!(fields.0.is_empty());
    assert_eq!(plain.len() as u64, record.size);
    plain
}
