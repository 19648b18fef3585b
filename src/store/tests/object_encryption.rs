//! Encrypted objects: what is read with a key, what is done without one, and what is never stored in
//! the clear.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};

use memchr::memmem;

use super::random::{rebuild_log, segments_of};
use super::reclaim::small_segments;
use super::ship::{LITTLE_LOCAL, begun, restored, ship};
use super::tier::{Tiered, work};
use super::*;
use crate::base::digest::Crc32;
use crate::base::limits::{BLOCK_BYTES, MIB};
use crate::base::test_scope::{cases, points};
use crate::crypto::TAG_BYTES;
use crate::format::{
    ExtentHeader, ExtentPurpose, ExtentRef, Features, PACKAGE_PLAIN_BYTES, UNIT_BYTES, segment_path,
};
use crate::fs::sim::CrashPolicy;
use crate::log::Segment;
use crate::offline::backup::{BackupOptions, BackupSource, backup, restore};

const PACKAGE: usize = PACKAGE_PLAIN_BYTES as usize;

/// A ring of two keys, of which `retired` wraps no more.
struct TestRing;

impl KeySource for TestRing {
    fn current(&self) -> Option<NamedKey> {
        Some(NamedKey { id: "current".into(), key: MasterKey::new([1; 32]) })
    }

    fn to_wrap(&self, id: &str) -> Option<MasterKey> {
        (id != "retired").then(|| self.to_open(id)).flatten()
    }

    fn to_open(&self, id: &str) -> Option<MasterKey> {
        let byte = match id {
            "current" => 1,
            "named" => 2,
            "retired" => 3,
            _ => return None,
        };
        Some(MasterKey::new([byte; 32]))
    }

    fn successor(&self, id: &str) -> Option<NamedKey> {
        match id {
            "named" => self.to_open(id).map(|key| NamedKey { id: id.into(), key }),
            _ => self.current(),
        }
    }
}

fn customer() -> MasterKey {
    MasterKey::new([9; 32])
}

fn kms() -> NewEncryption {
    NewEncryption::Kms { key_id: "named".into(), context: "eyJhIjoiYiJ9".into(), bucket_key: true }
}

fn kinds() -> [NewEncryption; 3] {
    [NewEncryption::S3, kms(), NewEncryption::Customer(customer())]
}

/// The key that a reader of an object of that kind brings.
fn key_of(new: &NewEncryption) -> Option<MasterKey> {
    if let NewEncryption::Customer(key) = new { Some(key.clone()) } else { None }
}

fn open_keyed(fs: &SimFs, options: StoreOptions) -> Result<Store, OpenError> {
    let store = open_with(fs, options)?;
    store.set_keys(Arc::new(TestRing));
    Ok(store)
}

fn keyed(fs: &SimFs) -> Store {
    let store = open_keyed(fs, options()).unwrap();
    store.create_bucket("b", "admin").unwrap();
    store
}

/// Text that is found wherever it is in the clear.
fn text(len: usize) -> Vec<u8> {
    b"planted plaintext ".iter().copied().cycle().take(len).collect()
}

pub(super) fn put_sealed(
    store: &Store,
    key: &str,
    bytes: &[u8],
    announced: Option<u64>,
    new: &NewEncryption,
) -> Result<CommittedVersion, StoreError> {
    let mut writer = store.writer("b", key, announced)?;
    writer.encrypt(new)?;
    for piece in bytes.chunks(100_003) {
        writer.write(piece)?;
    }
    assert_eq!((writer.len(), writer.crc32()), (bytes.len() as u64, Crc32::of(bytes)));
    writer.commit(commit_of(bytes))
}

fn read_range(
    store: &Store,
    key: &str,
    range: Range<u64>,
    customer: Option<&MasterKey>,
) -> Result<Vec<u8>, StoreError> {
    let found = store.find("b", key, Selector::Current)?;
    to_end(store.read_with(&found, range, customer)?)
}

pub(super) fn read_whole(
    store: &Store,
    key: &str,
    customer: Option<&MasterKey>,
) -> Result<Vec<u8>, StoreError> {
    let size = store.find("b", key, Selector::Current)?.version.size;
    read_range(store, key, 0..size, customer)
}

fn holds_nothing_in_the_clear(fs: &SimFs) {
    for (path, _) in fs.files() {
        let bytes = fs.contents(&path).unwrap();
        for planted in [&b"planted plaintext"[..], &[1; 32], &[2; 32], &[9; 32]] {
            assert_eq!(memmem::find(&bytes, planted), None, "{path}: {planted:?}");
        }
    }
}

#[test]
fn every_size_comes_back_whole_and_in_ranges() {
    let fs = SimFs::new();
    let store = keyed(&fs);
    let borders = [PACKAGE, BLOCK_BYTES as usize, 2 * PACKAGE, 3 * PACKAGE];
    let mut sizes = vec![0, 1, 16, 17, 4096];
    sizes.extend(borders.iter().flat_map(|border| border - 1..=border + 1));
    sizes.push(MIB as usize + 1);
    let edges = [0, 1, PACKAGE - 1, PACKAGE, PACKAGE + 1, 2 * PACKAGE];
    for (at, new) in kinds().iter().enumerate() {
        let key = key_of(new);
        for size in &sizes {
            let bytes = text(*size);
            let name = format!("{at}/{size}");
            // Announced, unknown, and announced wrongly.
            let announced = [Some(*size as u64), None, Some(65_530)][(at + size) % 3];
            put_sealed(&store, &name, &bytes, announced, new).unwrap();
            assert!(read_whole(&store, &name, key.as_ref()).unwrap() == bytes, "{name}");
            let found = store.find("b", &name, Selector::Current).unwrap().version;
            assert_eq!(found.size, *size as u64);
            assert!(found.is_complete());
            for edge in cases(&edges, 1) {
                let from = edge.min(*size);
                for to in [from, from + 1, from + PACKAGE, from + PACKAGE + 1] {
                    let to = to.min(*size);
                    let read = read_range(&store, &name, from as u64..to as u64, key.as_ref()).unwrap();
                    assert!(read == bytes[from..to], "{name}: {from}..{to}");
                }
            }
        }
    }
    holds_nothing_in_the_clear(&fs);
    store.close();
    drop(store);
    let store = open_keyed(&fs, options()).unwrap();
    assert!(store.has_encrypted());
    for (at, new) in kinds().iter().enumerate() {
        for size in &sizes {
            let read = read_whole(&store, &format!("{at}/{size}"), key_of(new).as_ref()).unwrap();
            assert!(read == text(*size), "{at}/{size} after a restart");
        }
    }
    holds_nothing_in_the_clear(&fs);
}

#[test]
fn numbers_of_packages_go_on_from_extent_to_extent() {
    let store = keyed(&SimFs::new());
    let size = 20 * MIB as usize + 12_345;
    let bytes = bytes(1, size);
    for announced in [Some(size as u64), None, Some(100_000)] {
        put_sealed(&store, "k", &bytes, announced, &NewEncryption::S3).unwrap();
        let found = store.find("b", "k", Selector::Current).unwrap().version;
        assert!(found.extents.iter().filter(|extent| extent.take > 0).count() > 1);
        assert!(read_whole(&store, "k", None).unwrap() == bytes);
        let draw = SeededEntropy::new(seed());
        for _ in 0..50 {
            let from = draw.next_u64() % size as u64;
            let to = from + draw.next_u64() % (size as u64 - from).min(300_000);
            let read = read_range(&store, "k", from..to, None).unwrap();
            assert!(read == bytes[from as usize..to as usize], "{from}..{to}");
        }
    }
}

#[test]
fn parts_of_random_sizes_make_an_object_that_is_read_in_random_ranges() {
    let draw = SeededEntropy::new(seed());
    for new in kinds() {
        let fs = SimFs::new();
        let store = keyed(&fs);
        let key = key_of(&new);
        let upload = store.create_encrypted_upload("b", "k", new_upload(), &new).unwrap();
        let mut whole = Vec::new();
        for number in 1..=8 {
            let len = [0, 1, PACKAGE, PACKAGE + 1, draw.next_u64() as usize % 300_000][number as usize % 5];
            let part = bytes(draw.next_u64(), len);
            // Each is put twice; the second one counts.
            for bytes in [&bytes(number.into(), 70_000), &part] {
                let mut writer = store.part_writer("b", "k", upload.id, number, None).unwrap();
                if key.is_some() {
                    writer.unlock(key.as_ref()).unwrap();
                }
                writer.write(&bytes[..]).unwrap();
                writer.commit(Md5::of(bytes), None).unwrap();
            }
            whole.extend_from_slice(&part);
        }
        let parts = store.upload("b", "k", upload.id).unwrap().parts;
        for part in &parts {
            let reader = store.read_part_with("b", "k", upload.id, part, key.as_ref()).unwrap();
            assert_eq!(to_end(reader).unwrap().len() as u64, part.size);
        }
        let completion = Completion { upload: upload.id, parts, commit: commit_of(b"") };
        store.complete_upload_with("b", "k", completion, key.as_ref()).unwrap();
        assert!(read_whole(&store, "k", key.as_ref()).unwrap() == whole);
        for _ in 0..100 {
            let from = draw.next_u64() % whole.len() as u64;
            let to = from + draw.next_u64() % (whole.len() as u64 - from + 1);
            let read = read_range(&store, "k", from..to, key.as_ref()).unwrap();
            assert!(read == whole[from as usize..to as usize], "{from}..{to}");
        }
        drop(store);
        let rebuilt = segments_of(&fs);
        rebuild_log(&rebuilt);
        let store = open_keyed(&rebuilt, options()).unwrap();
        assert!(read_whole(&store, "k", key.as_ref()).unwrap() == whole, "after a rebuild without keys");
    }
}

#[test]
fn keys_that_do_not_fit_are_refused_by_name() {
    let fs = SimFs::new();
    let store = keyed(&fs);
    put(&store, "b", "clear", b"abc").unwrap();
    put_sealed(&store, "ring", b"abc", None, &NewEncryption::S3).unwrap();
    put_sealed(&store, "kms", b"abc", None, &kms()).unwrap();
    put_sealed(&store, "own", b"", None, &NewEncryption::Customer(customer())).unwrap();
    let other = MasterKey::new([8; 32]);
    let both = |key: &str, customer: Option<&MasterKey>| {
        let found = store.find("b", key, Selector::Current).unwrap();
        let checked = store.check_key(&found.version, customer);
        let read = store.read_with(&found, 0..found.version.size, customer).map(drop);
        assert_eq!(checked, read, "{key}");
        checked
    };
    assert_eq!(both("own", None), Err(StoreError::CustomerKeyNeeded));
    assert_eq!(both("own", Some(&other)), Err(StoreError::WrongCustomerKey));
    assert_eq!(both("own", Some(&customer())), Ok(()));
    for key in ["clear", "ring", "kms"] {
        assert_eq!(both(key, Some(&customer())), Err(StoreError::CustomerKeyRefused));
        assert_eq!(both(key, None), Ok(()));
    }
    let named =
        |id: &str| NewEncryption::Kms { key_id: id.into(), context: String::new(), bucket_key: false };
    for (id, refusal) in [
        ("retired", StoreError::RetiredKey("retired".into())),
        ("unknown", StoreError::KeyUnavailable("unknown".into())),
    ] {
        assert_eq!(put_sealed(&store, "k", b"abc", None, &named(id)), Err(refusal));
    }
    store.close();
    drop(store);

    // Without a ring, or with another one, nothing looks like damage.
    let store = open(&fs);
    assert_eq!(read_whole(&store, "ring", None), Err(StoreError::KeyUnavailable("current".into())));
    assert_eq!(
        put_sealed(&store, "k", b"abc", None, &NewEncryption::S3),
        Err(StoreError::KeyUnavailable(String::new()))
    );
    assert_eq!(read_whole(&store, "own", Some(&customer())).unwrap(), b"");
    assert_eq!(store.health().damage, []);
    drop(store);
    struct OtherRing;
    impl KeySource for OtherRing {
        fn current(&self) -> Option<NamedKey> {
            None
        }
        fn to_wrap(&self, _: &str) -> Option<MasterKey> {
            None
        }
        fn to_open(&self, _: &str) -> Option<MasterKey> {
            Some(MasterKey::new([7; 32]))
        }
        fn successor(&self, _: &str) -> Option<NamedKey> {
            None
        }
    }
    let store = open(&fs);
    store.set_keys(Arc::new(OtherRing));
    assert_eq!(read_whole(&store, "kms", None), Err(StoreError::WrongRingKey("named".into())));
    assert_eq!(store.health().damage, []);
}

#[test]
fn an_upload_under_the_key_of_a_customer_takes_no_byte_without_it() {
    let fs = SimFs::new();
    let store = keyed(&fs);
    let new = NewEncryption::Customer(customer());
    let upload = store.create_encrypted_upload("b", "k", new_upload(), &new).unwrap();
    let mut locked = store.part_writer("b", "k", upload.id, 1, None).unwrap();
    assert_eq!(locked.write(&b"planted plaintext"[..]), Err(StoreError::CustomerKeyNeeded));
    let locked = store.part_writer("b", "k", upload.id, 1, None).unwrap();
    assert_eq!(locked.commit([0; 16], None), Err(StoreError::CustomerKeyNeeded));
    let mut writer = store.part_writer("b", "k", upload.id, 1, None).unwrap();
    assert_eq!(writer.unlock(Some(&MasterKey::new([8; 32]))), Err(StoreError::WrongCustomerKey));
    assert_eq!(writer.unlock(None), Err(StoreError::CustomerKeyNeeded));
    writer.unlock(Some(&customer())).unwrap();
    writer.write(&b"planted plaintext"[..]).unwrap();
    let part = writer.commit(Md5::of(b"planted plaintext"), None).unwrap();
    assert_ne!(part.md5, Md5::of(b"planted plaintext"));
    let checksum = Checksum {
        algorithm: ChecksumAlgorithm::Sha256,
        kind: ChecksumType::FullObject,
        parts: 0,
        value: vec![0x5a; 32],
    };
    let complete = |customer: Option<&MasterKey>, checksums: &[Checksum]| {
        let parts = store.upload("b", "k", upload.id).unwrap().parts;
        let commit = Commit { checksums: checksums.to_vec(), ..commit_of(b"") };
        let completion = Completion { upload: upload.id, parts, commit };
        store.complete_upload_with("b", "k", completion, customer)
    };
    assert_eq!(complete(None, std::slice::from_ref(&checksum)), Err(StoreError::CustomerKeyNeeded));
    assert_eq!(complete(Some(&MasterKey::new([8; 32])), &[]), Err(StoreError::WrongCustomerKey));
    complete(Some(&customer()), &[checksum]).unwrap();
    assert_eq!(read_whole(&store, "k", Some(&customer())).unwrap(), b"planted plaintext");
    let clear = begin_upload(&store, "b", "clear").unwrap();
    let mut writer = store.part_writer("b", "clear", clear, 1, None).unwrap();
    assert_eq!(writer.unlock(Some(&customer())), Err(StoreError::CustomerKeyRefused));
    holds_nothing_in_the_clear(&fs);
}

#[test]
fn an_upload_without_checksums_is_completed_without_the_key_of_its_customer() {
    let fs = SimFs::new();
    let store = keyed(&fs);
    let new = NewEncryption::Customer(customer());
    let upload = store.create_encrypted_upload("b", "k", new_upload(), &new).unwrap();
    let mut writer = store.part_writer("b", "k", upload.id, 1, None).unwrap();
    writer.unlock(Some(&customer())).unwrap();
    writer.write(&b"planted plaintext"[..]).unwrap();
    writer.commit(Md5::of(b"planted plaintext"), None).unwrap();
    let parts = store.upload("b", "k", upload.id).unwrap().parts;
    let completion = Completion { upload: upload.id, parts, commit: commit_of(b"") };
    store.complete_upload_with("b", "k", completion, None).unwrap();
    let found = store.find("b", "k", Selector::Current).unwrap();
    assert_eq!(store.check_key(&found.version, None), Err(StoreError::CustomerKeyNeeded));
    assert!(store.digests(&found.version, None).unwrap().checksums.is_empty());
    assert_eq!(read_whole(&store, "k", Some(&customer())).unwrap(), b"planted plaintext");
    holds_nothing_in_the_clear(&fs);
}

#[test]
fn what_is_known_of_the_plain_bytes_is_sealed_but_for_the_key_of_the_ring() {
    let fs = SimFs::new();
    let store = keyed(&fs);
    let checksum = |value: u8| Checksum {
        algorithm: ChecksumAlgorithm::Sha256,
        kind: ChecksumType::FullObject,
        parts: 0,
        value: vec![value; 32],
    };
    let body = text(100);
    for new in kinds() {
        let seals = new != NewEncryption::S3;
        let key = key_of(&new);
        for by_committer in [false, true] {
            let mut writer = store.writer("b", "k", None).unwrap();
            writer.encrypt(&new).unwrap();
            writer.write(&body[..]).unwrap();
            let commit = Commit { checksums: vec![checksum(0x5a)], ..commit_of(&body) };
            let written = match by_committer {
                true => writer.commit_with_md5(Commit { etag: ETag::Crc(1), ..commit }),
                false => writer.commit(commit),
            };
            let written = written.unwrap();
            let found = store.find("b", "k", Selector::Current).unwrap().version;
            assert_eq!((written.etag, found.checksums.is_empty()), (found.etag, seals));
            assert_eq!(written.etag == ETag::Md5(Md5::of(&body)), !seals);
            let digests = store.digests(&found, key.as_ref()).unwrap();
            let expected =
                PlainDigests { md5: Some(Md5::of(&body)), checksums: vec![checksum(0x5a)], parts: vec![] };
            assert_eq!(digests, expected);
        }
        let upload = store.create_encrypted_upload("b", "m", new_upload(), &new).unwrap();
        let mut writer = store.part_writer("b", "m", upload.id, 1, None).unwrap();
        if key.is_some() {
            writer.unlock(key.as_ref()).unwrap();
        }
        writer.write(&body[..]).unwrap();
        let part = writer.commit(Md5::of(&body), Some(checksum(0x5b))).unwrap();
        assert_eq!((part.md5 == Md5::of(&body), part.checksum.is_some()), (!seals, !seals));
        let mut parts = store.upload("b", "m", upload.id).unwrap().parts;
        let own = store.open_upload_key(&upload, key.as_ref()).unwrap();
        store.open_parts(&mut parts, &own).unwrap();
        assert_eq!(parts[0].checksum, Some(checksum(0x5b)));
        let commit = Commit { checksums: vec![checksum(0x5c)], ..commit_of(b"") };
        let completion = Completion { upload: upload.id, parts, commit };
        store.complete_upload_with("b", "m", completion, key.as_ref()).unwrap();
        let found = store.find("b", "m", Selector::Current).unwrap().version;
        assert_eq!(found.checksums.is_empty(), seals);
        let digests = store.digests(&found, key.as_ref()).unwrap();
        assert_eq!((digests.checksums, digests.parts), (vec![checksum(0x5c)], vec![Some(checksum(0x5b))]));
    }
    // The records of the ring's objects have them in the clear; all others do not.
    let clear = SimFs::new();
    let store = keyed(&clear);
    let mut writer = store.writer("b", "k", None).unwrap();
    writer.encrypt(&kms()).unwrap();
    writer.write(&body[..]).unwrap();
    writer.commit(Commit { checksums: vec![checksum(0x5a)], ..commit_of(&body) }).unwrap();
    for (path, _) in clear.files() {
        let bytes = clear.contents(&path).unwrap();
        let md5 = Md5::of(&body);
        assert!(!bytes.windows(16).any(|window| window == md5 || window == [0x5a; 16]), "{path}");
    }
}

#[test]
fn the_committer_makes_no_entity_tag_of_a_body_that_is_packed_in_the_clear_alone() {
    let store = keyed(&SimFs::new());
    for len in [PACKAGE, PACKAGE + 1, BLOCK_BYTES as usize] {
        let body = text(len);
        let mut writer = store.writer("b", "k", Some(len as u64)).unwrap();
        writer.encrypt(&NewEncryption::S3).unwrap();
        writer.write(&body[..]).unwrap();
        let written = writer.commit_with_md5(Commit { etag: ETag::Crc(1), ..commit_of(b"") }).unwrap();
        assert_eq!(written.etag, ETag::Md5(Md5::of(&body)), "{len}");
    }
}

/// The segments of a store, and its extents with encrypted bytes.
struct Tampered {
    fs: SimFs,
    extents: Vec<ExtentRef>,
}

impl Tampered {
    /// An object of two extents, each of several packages.
    fn new() -> Self {
        let fs = SimFs::new();
        let store = keyed(&fs);
        put_sealed(&store, "k", &text(20 * PACKAGE + 100), None, &NewEncryption::S3).unwrap();
        let found = store.find("b", "k", Selector::Current).unwrap().version;
        let extents: Vec<_> = found.extents.into_iter().filter(|extent| extent.take > 0).collect();
        assert_eq!(extents.len(), 2);
        store.close();
        Self { fs, extents }
    }

    fn payload(&self, nth: usize) -> Vec<u8> {
        let extent = self.extents[nth];
        let bytes = self.fs.contents(&segment_path(extent.segment)).unwrap();
        let start = (extent.offset + UNIT_BYTES) as usize;
        bytes[start..start + extent.payload_len as usize].to_vec()
    }

    /// What a reader of a range gets where the payload of an extent is another one, of the same
    /// length and with right CRCs.
    fn read_with(&self, nth: usize, payload: &[u8], range: Range<u64>) -> Result<Vec<u8>, StoreError> {
        let fs = self.fs.copy();
        let extent = self.extents[nth];
        let path = segment_path(extent.segment);
        let mut tail = Vec::new();
        for block in payload.chunks(BLOCK_BYTES as usize) {
            tail.extend_from_slice(&Crc32::of(block).to_le_bytes());
        }
        let check = if payload.len() as u64 <= BLOCK_BYTES { Crc32::of(payload) } else { Crc32::of(&tail) };
        fs.overwrite(&path, extent.offset + UNIT_BYTES, payload).unwrap();
        if payload.len() as u64 > BLOCK_BYTES {
            fs.overwrite(&path, extent.offset + UNIT_BYTES + payload.len() as u64, &tail).unwrap();
        }
        let store = open_keyed(&fs, options()).unwrap();
        let mut version = store.find("b", "k", Selector::Current).unwrap().version;
        version.extents[nth].check = check;
        read_all(&store, &version, range)
    }

    fn is_damage(&self, nth: usize, payload: &[u8], block: usize, what: &str) {
        let before: u64 = self.extents[..nth].iter().map(|extent| u64::from(extent.take)).sum();
        let start = before + (block * PACKAGE) as u64;
        match self.read_with(nth, payload, start..start + 1) {
            Err(StoreError::Corrupt(damage)) => assert!(damage.what.contains("tag"), "{damage}"),
            other => panic!("{what}: {other:?}"),
        }
    }
}

#[test]
fn a_package_that_was_flipped_swapped_or_repeated_is_damage() {
    let store = Tampered::new();
    for nth in 0..2 {
        let payload = store.payload(nth);
        let block_len = BLOCK_BYTES as usize;
        let blocks = payload.len().div_ceil(block_len);
        let total: u64 = store.extents.iter().map(|extent| u64::from(extent.take)).sum();
        let whole = store.read_with(nth, &payload, 0..total).unwrap();
        assert!(whole == text(whole.len()), "untouched it is read");
        for block in 0..blocks {
            let start = block * block_len;
            let end = payload.len().min(start + block_len);
            for at in [start, (start + end) / 2, end - TAG_BYTES, end - 1] {
                let mut flipped = payload.clone();
                flipped[at] ^= 0x10;
                store.is_damage(nth, &flipped, block, "flipped");
            }
            if end - start == block_len && block > 0 {
                let mut repeated = payload.clone();
                repeated.copy_within(start - block_len..start, start);
                store.is_damage(nth, &repeated, block, "repeated");
                let mut swapped = payload.clone();
                swapped[start - block_len..start].copy_from_slice(&payload[start..end]);
                swapped[start..end].copy_from_slice(&payload[start - block_len..start]);
                store.is_damage(nth, &swapped, block - 1, "swapped");
                store.is_damage(nth, &swapped, block, "swapped");
            }
        }
    }
    // The same package of another extent of the write.
    let mut moved = store.payload(1);
    moved[..BLOCK_BYTES as usize].copy_from_slice(&store.payload(0)[..BLOCK_BYTES as usize]);
    store.is_damage(1, &moved, 0, "moved");
}

#[test]
fn a_write_that_was_cut_is_damage() {
    let fs = SimFs::new();
    let store = keyed(&fs);
    put_sealed(&store, "k", &text(3 * PACKAGE), None, &NewEncryption::S3).unwrap();
    let version = store.find("b", "k", Selector::Current).unwrap().version;
    assert_eq!(read_all(&store, &version, 0..version.size).unwrap().len(), 3 * PACKAGE);
    // The record is cut to two packages: the second one is not the last.
    let mut cut = version.clone();
    let encryption = cut.encryption.as_mut().unwrap();
    encryption.runs[0].packages = 2;
    let read = read_all(&store, &cut, PACKAGE_PLAIN_BYTES..2 * PACKAGE_PLAIN_BYTES);
    assert!(matches!(read, Err(StoreError::Corrupt(_))), "{read:?}");
    // Runs that do not fit the extents.
    for runs in
        [vec![], vec![crate::format::EncryptedRun { len: 5, ..version.encryption.as_ref().unwrap().runs[0] }]]
    {
        let mut other = version.clone();
        other.encryption.as_mut().unwrap().runs = runs;
        let read = read_all(&store, &other, 0..1);
        assert!(matches!(read, Err(StoreError::Corrupt(_))), "{read:?}");
    }
}

#[test]
fn relocation_verification_and_rebuilding_need_no_key() {
    let fs = SimFs::new();
    let store = open_keyed(&fs, small_segments()).unwrap();
    store.create_bucket("b", "admin").unwrap();
    let kinds = kinds();
    let body = |at: usize| bytes(at as u64, 10_000 + 2_000 * at);
    for at in 0..50 {
        put_sealed(&store, &format!("k{at}"), &body(at), None, &kinds[at % 3]).unwrap();
    }
    for at in (0..50).filter(|at| at % 5 != 0) {
        delete(&store, "b", &format!("k{at}"), Selector::Current).unwrap();
    }
    store.close();
    drop(store);
    let store = open_with(&fs, small_segments()).unwrap();
    reclaim_all(&store).unwrap();
    assert!(store.health().moved_bytes > 50_000, "{:?}", store.health());
    store.close();
    drop(store);
    assert_eq!(verify(&fs, &mut |_| {}).unwrap().findings, []);
    let rebuilt = segments_of(&fs);
    let report = rebuild_log(&rebuilt);
    // The record of a deleted object may outlive its bytes.
    let deleted =
        |key: &str| key.strip_prefix('k').and_then(|at| at.parse::<u32>().ok()).is_some_and(|at| at % 5 != 0);
    assert!(report.lost.iter().all(|lost| deleted(&lost.owner.key)), "{:?}", report.lost);
    assert_eq!(verify(&rebuilt, &mut |_| {}).unwrap().findings, []);
    for fs in [fs, rebuilt] {
        let store = open_keyed(&fs, small_segments()).unwrap();
        for at in (0..50).step_by(5) {
            let read = read_whole(&store, &format!("k{at}"), key_of(&kinds[at % 3]).as_ref()).unwrap();
            assert!(read == body(at), "k{at}");
        }
    }
}

/// An upload outlives two crashes, each with the clock set back, so that stamps recur. The bytes of
/// both parts stay in the segment, and no two packages are encrypted alike.
#[test]
fn no_salt_recurs_after_two_crashes_of_an_upload_and_a_clock_that_was_set_back() {
    let fs = SimFs::new();
    let at = |fs: &SimFs, millis| {
        let clock = Arc::new(ManualClock::new(Timestamp::from_millis(millis)));
        let store = Store::open(Arc::new(fs.clone()), clock, &SeededEntropy::new(1), options()).unwrap();
        store.set_keys(Arc::new(TestRing));
        store
    };
    let store = at(&fs, 1_700_000_000_000);
    store.create_bucket("b", "admin").unwrap();
    let upload = store.create_encrypted_upload("b", "m", new_upload(), &NewEncryption::S3).unwrap().id;
    drop(store);
    let body = text(2 * PACKAGE);
    let mut first_packages = std::collections::HashSet::new();
    let mut fs = fs;
    for _ in 0..3 {
        fs = fs.crash(CrashPolicy::KeepAll);
        // The same time at each start: the stamps that were given out and not committed recur.
        let store = at(&fs, 1_700_000_000_000);
        let mut writer = store.part_writer("b", "m", upload, 1, None).unwrap();
        writer.write(&body[..]).unwrap();
        writer.write(&body[..]).unwrap();
        // The process ends before the part is committed.
        std::mem::forget(writer);
        for (path, _) in fs.files().into_iter().filter(|(path, _)| path.starts_with("data/")) {
            let bytes = fs.contents(&path).unwrap();
            // The header of an extent comes last, so that its page begins with zeros.
            let begun = bytes.chunks(4096).filter(|page| page[..64] == [0; 64] && page[64..128] != [0; 64]);
            first_packages.extend(begun.map(|page| page[64..].to_vec()));
        }
        std::mem::forget(store);
    }
    assert_eq!(first_packages.len(), 3, "three writes, each with another first page");
}

#[test]
fn what_was_acknowledged_is_read_after_a_crash_at_every_operation() {
    let large = text(3 * PACKAGE + 5);
    let kinds = kinds();
    for stop in points(1) {
        let fs = SimFs::new();
        fs.stop_at(stop);
        let mut done: Vec<(String, usize, Vec<u8>)> = Vec::new();
        let mut work = || -> Result<(), StoreError> {
            let store = open_keyed(&fs, options()).map_err(|error| StoreError::Io(error.to_string()))?;
            store.create_bucket("b", "admin")?;
            for (at, new) in kinds.iter().enumerate() {
                for (name, body) in [("small", &large[..700]), ("large", &large[..]), ("empty", &[][..])] {
                    let name = format!("{name}{at}");
                    put_sealed(&store, &name, body, None, new)?;
                    done.push((name, at, body.to_vec()));
                }
            }
            let upload = store.create_encrypted_upload("b", "parts", new_upload(), &kinds[0])?.id;
            for number in [1, 2] {
                let mut writer = store.part_writer("b", "parts", upload, number, None)?;
                writer.write(&large[..])?;
                writer.commit([0; 16], None)?;
            }
            store.checkpoint()?;
            let parts = store.upload("b", "parts", upload)?.parts;
            store.complete_upload("b", "parts", Completion { upload, parts, commit: commit_of(b"") })?;
            done.push(("parts".into(), 0, large.repeat(2)));
            Ok(())
        };
        let ended = work();
        for policy in [CrashPolicy::DropAll, CrashPolicy::KeepAll, CrashPolicy::Random(stop)] {
            let crashed = fs.crash(policy);
            if done.is_empty() && ended.is_err() {
                continue;
            }
            let store = open_keyed(&crashed, options()).unwrap();
            for (name, at, body) in &done {
                let read = read_whole(&store, name, key_of(&kinds[*at]).as_ref());
                assert!(read.as_ref() == Ok(body), "{name} after a crash at {stop}, {policy:?}: {read:?}");
            }
            assert_eq!(store.health().damage, []);
        }
        if ended.is_ok() {
            println!("the work takes {} operations", fs.operations());
            return;
        }
    }
}

#[test]
fn stores_without_encrypted_objects_have_no_feature_and_others_say_so_once_they_do() {
    let fs = SimFs::new();
    let store = keyed(&fs);
    put(&store, "b", "k", b"abc").unwrap();
    assert!(!store.has_encrypted());
    let features = |store: &Store| store.shared.index().features().contains(Features::ENCRYPTED_OBJECTS);
    assert!(!features(&store));
    let upload = store.create_encrypted_upload("b", "m", new_upload(), &NewEncryption::S3).unwrap();
    assert!(store.has_encrypted());
    store.abort_upload("b", "m", upload.id).unwrap();
    put_sealed(&store, "k", b"abc", None, &NewEncryption::S3).unwrap();
    drop(store);
    let store = open_keyed(&fs, options()).unwrap();
    assert!(features(&store));
    assert_eq!(read_whole(&store, "k", None).unwrap(), b"abc");
}

/// Puts an object of each kind, small and large.
fn put_all_kinds(store: &Store, seed: u64) {
    for (at, new) in kinds().iter().enumerate() {
        put_sealed(store, &format!("s{at}"), &text(300), None, new).unwrap();
        put_sealed(store, &format!("l{at}"), &bytes(seed, 700_000), None, new).unwrap();
    }
}

fn check_all_kinds(store: &Store, seed: u64) {
    store.set_keys(Arc::new(TestRing));
    for (at, new) in kinds().iter().enumerate() {
        let key = key_of(new);
        assert_eq!(read_whole(store, &format!("s{at}"), key.as_ref()).unwrap(), text(300));
        assert!(read_whole(store, &format!("l{at}"), key.as_ref()).unwrap() == bytes(seed, 700_000));
        let range = 65_000..132_000;
        let read = read_range(store, &format!("l{at}"), range.clone(), key.as_ref()).unwrap();
        assert!(read == bytes(seed, 700_000)[65_000..132_000]);
    }
    assert_eq!(store.health().damage, []);
}

#[test]
fn a_remote_with_segments_and_the_log_needs_no_key_and_gets_nothing_in_the_clear() {
    let tiered = Tiered::new(LITTLE_LOCAL);
    let store = begun(&tiered, &tiered.fs, ShipMode::Async);
    store.set_keys(Arc::new(TestRing));
    store.create_bucket("b", "admin").unwrap();
    put_all_kinds(&store, 5);
    // More than the disk keeps.
    for at in 0..12 {
        put_sealed(&store, &format!("more{at}"), &bytes(at, 700_000), None, &NewEncryption::S3).unwrap();
    }
    store.shared.segments.retire(|_| true);
    put(&store, "b", "last", b"x").unwrap();
    reclaim_all(&store).unwrap();
    ship(&store).unwrap();
    assert!(work(&store).unwrap().sent > 0);
    drop(store);
    // Another host is restored and goes on without a ring.
    for name in tiered.remote.names() {
        let object = tiered.remote.bytes(&name).unwrap();
        assert!(!object.windows(17).any(|window| window == b"planted plaintext"), "{name}");
    }
    let restored = restored(&tiered);
    assert_eq!(verify(&restored, &mut |_| ()).unwrap().findings, []);
    check_all_kinds(&begun(&tiered, &restored, ShipMode::Async), 5);
}

#[test]
fn a_backup_is_made_and_restored_without_a_key() {
    let fs = SimFs::new();
    let store = keyed(&fs);
    put_all_kinds(&store, 6);
    drop(store);
    let target = SimFs::new();
    let link = |_: &str, _: &str| Err(std::io::ErrorKind::CrossesDevices.into());
    let clock = ManualClock::new(Timestamp::from_millis(1_700_000_000_000));
    let source = BackupSource { fs: &fs, link: &link };
    let options = BackupOptions { verify: true, ..BackupOptions::default() };
    backup(&source, &target, &clock, options, &mut |_| {}).unwrap();
    holds_nothing_in_the_clear(&target);
    let to = SimFs::new();
    assert_eq!(restore(&target, &to, &mut |_| {}).unwrap().findings, []);
    check_all_kinds(&open(&to), 6);
}

#[test]
fn encrypted_extents_have_purposes_of_their_own() {
    let fs = SimFs::new();
    let store = keyed(&fs);
    put_sealed(&store, "small", b"abc", None, &NewEncryption::S3).unwrap();
    put_sealed(&store, "large", &text(100_000), None, &NewEncryption::S3).unwrap();
    let upload = store.create_encrypted_upload("b", "m", new_upload(), &NewEncryption::S3).unwrap().id;
    let mut writer = store.part_writer("b", "m", upload, 1, None).unwrap();
    writer.write(text(100_000)).unwrap();
    let part = writer.commit([0; 16], None).unwrap();
    let mut numbers = Vec::new();
    let records =
        ["small", "large"].map(|key| store.find("b", key, Selector::Current).unwrap().version.extents);
    for extent in records.into_iter().flatten().chain(part.extents) {
        let segment: Arc<Segment> = store.shared.segments.get(extent.segment).unwrap();
        let header: ExtentHeader = segment.extent(&store.shared.store, extent.offset).unwrap();
        let descriptor = segment.descriptor(&header).unwrap();
        assert!(descriptor.purpose.is_encrypted());
        assert!(!matches!(descriptor.purpose, ExtentPurpose::Object(_) | ExtentPurpose::Part(..)));
        numbers.push(descriptor.encode()[0]);
    }
    assert_eq!(numbers, [8, 6, 8, 7, 9]);
}

#[test]
fn extents_are_shared_in_the_clear_alone() {
    let store = keyed(&SimFs::new());
    put_sealed(&store, "sealed", b"abc", None, &NewEncryption::S3).unwrap();
    put(&store, "b", "clear", b"abc").unwrap();
    let source = |key: &str| {
        let found = store.find("b", key, Selector::Current).unwrap();
        CopyRange { bucket: found.bucket.id, key: key.into(), version: found.version, range: 0..3 }
    };
    assert_eq!(store.copy(source("sealed"), "b", "copy", commit_of(b"abc")), Err(StoreError::Encrypted));
    let clear = begin_upload(&store, "b", "m").unwrap();
    let sealed = store.create_encrypted_upload("b", "m", new_upload(), &NewEncryption::S3).unwrap().id;
    let copied =
        |from, upload| store.copy_part(source(from), ("b", "m"), (upload, 1), [0; 16], None).map(drop);
    assert_eq!(copied("sealed", clear), Err(StoreError::Encrypted));
    assert_eq!(copied("clear", sealed), Err(StoreError::Encrypted));
    assert_eq!(copied("clear", clear), Ok(()));
}

fn copy_sealed(
    store: &Store,
    from: &str,
    to: &str,
    new: &NewEncryption,
    customer: Option<&MasterKey>,
) -> Result<CommittedVersion, StoreError> {
    let found = store.find("b", from, Selector::Current)?;
    let checksums = store.digests(&found.version, customer)?.checksums;
    let range = 0..found.version.size;
    let source = CopyRange { bucket: found.bucket.id, key: from.into(), version: found.version, range };
    store.copy_encrypted(source, "b", to, Commit { checksums, ..commit_of(b"") }, new, customer)
}

#[test]
fn copies_share_bytes_between_keys_of_the_ring_and_under_one_key_of_a_customer() {
    let fs = SimFs::new();
    let store = keyed(&fs);
    let body = text(3 * PACKAGE + 5);
    let kinds = kinds();
    let checksum = Checksum {
        algorithm: ChecksumAlgorithm::Crc32,
        kind: ChecksumType::FullObject,
        parts: 0,
        value: vec![5; 4],
    };
    for (at, new) in kinds.iter().enumerate() {
        let key = key_of(new);
        let mut writer = store.writer("b", &format!("{at}"), None).unwrap();
        writer.encrypt(new).unwrap();
        writer.write(&body[..]).unwrap();
        writer.commit(Commit { checksums: vec![checksum.clone()], ..commit_of(&body) }).unwrap();
        let upload = store.create_encrypted_upload("b", &format!("parts{at}"), new_upload(), new).unwrap().id;
        for number in 1..=2 {
            let mut part = store.part_writer("b", &format!("parts{at}"), upload, number, None).unwrap();
            if key.is_some() {
                part.unlock(key.as_ref()).unwrap();
            }
            part.write(&body[..]).unwrap();
            part.commit(Md5::of(&body), Some(checksum.clone())).unwrap();
        }
        let parts = store.upload("b", &format!("parts{at}"), upload).unwrap().parts;
        let etag = ETag::Multipart { md5: [4; 16], parts: 2 };
        let completion = Completion { upload, parts, commit: Commit { etag, ..commit_of(b"") } };
        store.complete_upload_with("b", &format!("parts{at}"), completion, key.as_ref()).unwrap();
    }
    let live = store.health().live_bytes;
    for (from, source) in kinds.iter().enumerate() {
        for (to, new) in kinds.iter().enumerate() {
            let key = key_of(source);
            let name = format!("{from}-{to}");
            let copied = copy_sealed(&store, &format!("{from}"), &name, new, key.as_ref());
            if (from == 2) != (to == 2) {
                assert_eq!(copied, Err(StoreError::Encrypted), "{name}");
                continue;
            }
            let copied = copied.unwrap();
            let of_copy = key_of(new);
            assert!(read_whole(&store, &name, of_copy.as_ref()).unwrap() == body, "{name}");
            let found = store.find("b", &name, Selector::Current).unwrap().version;
            assert_eq!(
                found.encryption.as_ref().unwrap().kind(),
                [EncryptionKind::S3, EncryptionKind::Kms, EncryptionKind::Customer][to]
            );
            assert_eq!(copied.etag == ETag::Md5(Md5::of(&body)), to == 0, "{name}");
            let known = store.digests(&found, of_copy.as_ref()).unwrap();
            assert_eq!((known.md5, &known.checksums), (Some(Md5::of(&body)), &vec![checksum.clone()]));
            assert_eq!(found.checksums.is_empty(), to != 0);

            let name = format!("parts{from}-{to}");
            copy_sealed(&store, &format!("parts{from}"), &name, new, key.as_ref()).unwrap();
            assert!(read_whole(&store, &name, of_copy.as_ref()).unwrap() == body.repeat(2), "{name}");
            let found = store.find("b", &name, Selector::Current).unwrap().version;
            let known = store.digests(&found, of_copy.as_ref()).unwrap();
            assert_eq!(known.parts, vec![Some(checksum.clone()); 2], "{name}");
            let in_clear = found.upload.unwrap().parts.iter().all(|part| part.checksum.is_some());
            assert_eq!(in_clear, to == 0);
            assert!(matches!(found.etag, ETag::Multipart { parts: 2, .. }));
        }
    }
    let grown = store.health().live_bytes - live;
    assert!(grown < 5_000, "{grown}: no payload was written");
    let other = NewEncryption::Customer(MasterKey::new([8; 32]));
    assert_eq!(copy_sealed(&store, "2", "k", &other, Some(&customer())), Err(StoreError::Encrypted));
    holds_nothing_in_the_clear(&fs);
    drop(store);
    let rebuilt = segments_of(&fs);
    assert_eq!(rebuild_log(&rebuilt).lost.len(), 0);
    for fs in [fs, rebuilt] {
        let store = open_keyed(&fs, options()).unwrap();
        for name in ["0-0", "0-1", "1-0", "1-1", "2-2"] {
            let key = (name == "2-2").then(customer);
            assert!(read_whole(&store, name, key.as_ref()).unwrap() == body, "{name}");
            let name = format!("parts{name}");
            assert!(read_whole(&store, &name, key.as_ref()).unwrap() == body.repeat(2), "{name}");
        }
    }
}

/// Copies a range to a part, sharing its bytes where that is possible. Returns whether it was.
fn copy_to_part(
    store: &Store,
    (from, of_source): (&str, Option<&MasterKey>),
    range: Range<u64>,
    (to, upload, number): (&str, &UploadRecord, u32),
    of_upload: Option<&MasterKey>,
) -> bool {
    let found = store.find("b", from, Selector::Current).unwrap();
    let bytes = read_range(store, from, range.clone(), of_source).unwrap();
    let shares = store.shares_part(&found.version, &range, of_source, upload, of_upload);
    let version = found.version;
    let source = CopyRange { bucket: found.bucket.id, key: from.into(), version, range };
    let copy = EncryptedPartCopy {
        source,
        source_key: of_source,
        upload: upload.id,
        upload_key: of_upload,
        number,
        md5: Md5::of(&bytes),
        checksum: None,
    };
    let copied = store.copy_encrypted_part("b", to, copy);
    if shares {
        copied.unwrap();
        return true;
    }
    assert_eq!(copied, Err(StoreError::Encrypted));
    let mut writer = store.part_writer("b", to, upload.id, number, None).unwrap();
    writer.unlock(of_upload).unwrap();
    writer.write(&bytes[..]).unwrap();
    writer.commit(Md5::of(&bytes), None).unwrap();
    false
}

fn complete(store: &Store, key: &str, upload: UploadId, customer: Option<&MasterKey>) {
    let parts = store.upload("b", key, upload).unwrap().parts;
    let completion = Completion { upload, parts, commit: commit_of(b"") };
    store.complete_upload_with("b", key, completion, customer).unwrap();
}

#[test]
fn parts_of_three_kinds_are_copied_again_as_ranges() {
    let fs = SimFs::new();
    let store = keyed(&fs);
    let kinds = kinds();
    let mut expected = Vec::new();
    for (at, new) in kinds.iter().enumerate() {
        let body = bytes(at as u64 + 1, (at + 2) * PACKAGE + 17);
        put_sealed(&store, &format!("{at}"), &body, None, new).unwrap();
        expected.push((format!("{at}"), body, key_of(new)));
    }
    let is_customer = |at: usize| at == 2;
    let all: Vec<u8> = expected.iter().flat_map(|(_, body, _)| body.clone()).collect();
    for (of, new) in kinds.iter().enumerate() {
        let name = format!("m{of}");
        let upload = store.create_encrypted_upload("b", &name, new_upload(), new).unwrap();
        for (at, (from, body, key)) in expected[..3].iter().enumerate() {
            let to = (name.as_str(), &upload, at as u32 + 1);
            let whole = 0..body.len() as u64;
            let shared = copy_to_part(&store, (from, key.as_ref()), whole, to, key_of(new).as_ref());
            assert_eq!(shared, is_customer(at) == is_customer(of), "{from} to {name}");
        }
        complete(&store, &name, upload.id, key_of(new).as_ref());
        expected.push((name, all.clone(), key_of(new)));
    }
    let live = store.health().live_bytes;
    for (of, from) in kinds.iter().enumerate() {
        for (to, new) in kinds.iter().enumerate() {
            let source = format!("m{of}");
            let whole = format!("w{of}{to}");
            let copied = copy_sealed(&store, &source, &whole, new, key_of(from).as_ref());
            assert_eq!(copied.is_ok(), is_customer(of) == is_customer(to), "{whole}");
            if copied.is_ok() {
                expected.push((whole, all.clone(), key_of(new)));
            }
        }
    }
    assert!(store.health().live_bytes - live < 20_000, "no payload was written");
    for (of, from) in kinds.iter().enumerate() {
        for (to, new) in kinds.iter().enumerate() {
            let source = format!("m{of}");
            let name = format!("r{of}{to}");
            let upload = store.create_encrypted_upload("b", &name, new_upload(), new).unwrap();
            let range = PACKAGE as u64 + 5..all.len() as u64 - 7;
            let place = (name.as_str(), &upload, 1);
            let of_source = key_of(from);
            let shared = copy_to_part(
                &store,
                (&source, of_source.as_ref()),
                range.clone(),
                place,
                key_of(new).as_ref(),
            );
            // The range begins within a write: its key opens more than the range.
            assert_eq!(shared, of == to, "{name}");
            complete(&store, &name, upload.id, key_of(new).as_ref());
            let body = all[range.start as usize..range.end as usize].to_vec();
            // Nor is it shared beyond that master key by a copy of the whole object.
            let other = &kinds[1 - to.min(1)];
            let copied = copy_sealed(&store, &name, "again", other, key_of(new).as_ref());
            assert_eq!(copied.is_ok(), !is_customer(to) && of != to, "{name}");
            expected.push((name, body, key_of(new)));
        }
    }
    let check = |store: &Store| {
        for (name, body, key) in &expected {
            assert!(read_whole(store, name, key.as_ref()).unwrap() == *body, "{name}");
            let draw = SeededEntropy::new(seed());
            for _ in 0..10 {
                let from = draw.next_u64() % body.len() as u64;
                let to = from + draw.next_u64() % (body.len() as u64 - from + 1);
                let read = read_range(store, name, from..to, key.as_ref()).unwrap();
                assert!(read == body[from as usize..to as usize], "{name}: {from}..{to}");
            }
        }
    };
    check(&store);
    // The sources go, and their segments are reclaimed.
    for at in 0..3 {
        delete(&store, "b", &format!("{at}"), Selector::Current).unwrap();
        delete(&store, "b", &format!("m{at}"), Selector::Current).unwrap();
    }
    let kept: Vec<_> = expected.iter().filter(|(name, ..)| name.starts_with(['w', 'r'])).cloned().collect();
    reclaim_all(&store).unwrap();
    drop(store);
    let rebuilt = segments_of(&fs);
    assert_eq!(rebuild_log(&rebuilt).lost.len(), 0);
    for fs in [fs, rebuilt] {
        let store = open_keyed(&fs, options()).unwrap();
        for (name, body, key) in &kept {
            assert!(read_whole(&store, name, key.as_ref()).unwrap() == *body, "{name}");
        }
    }
}

#[test]
fn parts_that_were_copied_from_one_source_have_one_key_in_the_object() {
    let store = keyed(&SimFs::new());
    let body = text(4 * PACKAGE);
    put_sealed(&store, "k", &body, None, &NewEncryption::S3).unwrap();
    let upload = store.create_encrypted_upload("b", "m", new_upload(), &NewEncryption::S3).unwrap();
    for number in 0..40 {
        let range = number * 1000..number * 1000 + 5000;
        assert!(copy_to_part(&store, ("k", None), range, ("m", &upload, number as u32 + 1), None));
    }
    complete(&store, "m", upload.id, None);
    let found = store.find("b", "m", Selector::Current).unwrap().version;
    assert_eq!(found.encryption.unwrap().keys.len(), 2);
    let expected: Vec<u8> = (0..40).flat_map(|at| body[at * 1000..at * 1000 + 5000].to_vec()).collect();
    assert!(read_whole(&store, "m", None).unwrap() == expected);
}

#[test]
fn a_key_that_is_destroyed_meanwhile_gets_no_new_record() {
    let fs = SimFs::new();
    let store = open_with(&fs, options()).unwrap();
    let ring = Arc::new(RingWithout::once_destroyed("named"));
    store.set_keys(Arc::clone(&ring) as Arc<dyn KeySource>);
    store.create_bucket("b", "admin").unwrap();
    for large in [false, true] {
        ring.is_gone.store(false, Ordering::Relaxed);
        let mut writer = store.writer("b", "k", None).unwrap();
        writer.encrypt(&kms()).unwrap();
        writer.write(&text(if large { 200_000 } else { 10 })[..]).unwrap();
        ring.is_gone.store(true, Ordering::Relaxed);
        assert_eq!(writer.commit(commit_of(b"")), Err(StoreError::KeyUnavailable("named".into())));
        assert_eq!(store.find("b", "k", Selector::Current).err(), Some(StoreError::NoSuchKey));
    }
    assert_eq!(store.key_uses().get("named"), None);
    ring.is_gone.store(false, Ordering::Relaxed);
    put_sealed(&store, "k", b"x", None, &kms()).unwrap();
    assert_eq!(rewrap_all(&store), (0, 0));
    ring.is_gone.store(true, Ordering::Relaxed);
    assert_eq!(rewrap_all(&store), (0, 1), "the ring lacks the key");
}

/// The ring after `retired` was the current key.
struct OlderRing;

impl KeySource for OlderRing {
    fn current(&self) -> Option<NamedKey> {
        TestRing.to_open("retired").map(|key| NamedKey { id: "retired".into(), key })
    }

    fn to_wrap(&self, id: &str) -> Option<MasterKey> {
        TestRing.to_open(id)
    }

    fn to_open(&self, id: &str) -> Option<MasterKey> {
        TestRing.to_open(id)
    }

    fn successor(&self, id: &str) -> Option<NamedKey> {
        TestRing.to_open(id).map(|key| NamedKey { id: id.into(), key })
    }
}

/// The ring after one of its keys was destroyed.
struct RingWithout {
    id: &'static str,
    is_gone: AtomicBool,
}

impl RingWithout {
    fn destroyed(id: &'static str) -> Self {
        Self { id, is_gone: true.into() }
    }

    /// A ring of which the key goes when `is_gone` is set.
    fn once_destroyed(id: &'static str) -> Self {
        Self { id, is_gone: false.into() }
    }

    fn lacks(&self, id: &str) -> bool {
        id == self.id && self.is_gone.load(Ordering::Relaxed)
    }
}

impl KeySource for RingWithout {
    fn current(&self) -> Option<NamedKey> {
        TestRing.current()
    }

    fn to_wrap(&self, id: &str) -> Option<MasterKey> {
        self.to_open(id)
    }

    fn to_open(&self, id: &str) -> Option<MasterKey> {
        if self.lacks(id) { None } else { TestRing.to_open(id) }
    }

    fn successor(&self, id: &str) -> Option<NamedKey> {
        if self.lacks(id) { None } else { TestRing.successor(id) }
    }
}

fn open_older(fs: &SimFs) -> Store {
    let store = open(fs);
    store.set_keys(Arc::new(OlderRing));
    store
}

/// Puts objects of all kinds and an upload with a part, under the key that is retired later.
fn fill_older(fs: &SimFs) -> UploadId {
    let store = open_older(fs);
    store.create_bucket("b", "admin").unwrap();
    store.set_versioning("b", Versioning::Enabled).unwrap();
    for (at, new) in kinds().iter().enumerate() {
        for nth in 0..3 {
            put_sealed(&store, &format!("{at}"), &text(1_000 + nth), None, new).unwrap();
        }
    }
    put(&store, "b", "clear", b"abc").unwrap();
    let upload = store.create_encrypted_upload("b", "m", new_upload(), &NewEncryption::S3).unwrap().id;
    let mut part = store.part_writer("b", "m", upload, 1, None).unwrap();
    part.write(text(70_000)).unwrap();
    part.commit([0; 16], None).unwrap();
    let record = store.upload_record("b", "m", upload).unwrap();
    assert!(copy_to_part(&store, ("0", None), 1..1_000, ("m", &record, 3), None));
    store.close();
    upload
}

/// Rewraps everything, and returns how many were wrapped anew, and how many could not be.
pub(super) fn rewrap_all(store: &Store) -> (u64, u64) {
    let mut cursor = RewrapCursor::default();
    let mut total = (0, 0);
    loop {
        let step = store.rewrap(&mut cursor).unwrap();
        total.0 += step.rewrapped;
        total.1 += step.unavailable;
        if !step.more {
            return total;
        }
    }
}

#[test]
fn a_rewrap_moves_objects_and_uploads_to_the_current_key() {
    let fs = SimFs::new();
    let upload = fill_older(&fs);
    let store = open_keyed(&fs, options()).unwrap();
    assert_eq!(store.key_uses(), [("named".to_owned(), 3), ("retired".to_owned(), 5)].into());
    let before = store.find("b", "0", Selector::Current).unwrap().version;
    assert_eq!(rewrap_all(&store), (5, 0));
    assert_eq!(rewrap_all(&store), (0, 0), "all is done");
    assert_eq!(store.key_uses(), [("current".to_owned(), 5), ("named".to_owned(), 3)].into());
    let after = store.find("b", "0", Selector::Current).unwrap().version;
    let unwrapped = |version: &VersionRecord| {
        let mut encryption = version.encryption.clone().unwrap();
        encryption.keys.clear();
        VersionRecord { encryption: Some(encryption), ..version.clone() }
    };
    assert_eq!(unwrapped(&before), unwrapped(&after), "only the wrap is another one");
    drop(store);

    // Without the retired key all is read; a rebuild from the segments needs it again.
    let younger = |fs: &SimFs| {
        let store = open(fs);
        store.set_keys(Arc::new(RingWithout::destroyed("retired")));
        store
    };
    let store = younger(&fs.crash(CrashPolicy::DropAll));
    for (at, new) in kinds().iter().enumerate() {
        let read = read_whole(&store, &format!("{at}"), key_of(new).as_ref()).unwrap();
        assert_eq!(read, text(1_002));
    }
    let mut part = store.part_writer("b", "m", upload, 2, None).unwrap();
    part.write(text(10)).unwrap();
    part.commit([0; 16], None).unwrap();
    let parts = store.upload("b", "m", upload).unwrap().parts;
    store.complete_upload("b", "m", Completion { upload, parts, commit: commit_of(b"") }).unwrap();
    let whole = [text(70_000), text(10), text(1_000)[1..].to_vec()].concat();
    assert_eq!(read_whole(&store, "m", None).unwrap(), whole);
    drop(store);
    let rebuilt = segments_of(&fs);
    rebuild_log(&rebuilt);
    assert_eq!(read_whole(&younger(&rebuilt), "0", None), Err(StoreError::KeyUnavailable("retired".into())));
    assert_eq!(read_whole(&open_keyed(&rebuilt, options()).unwrap(), "0", None).unwrap(), text(1_002));
}

#[test]
fn uses_of_keys_are_the_same_after_a_start_and_end_with_their_records() {
    let fs = SimFs::new();
    let upload = fill_older(&fs);
    let uses = |named, retired| [("named".to_owned(), named), ("retired".to_owned(), retired)].into();
    let store = open_older(&fs);
    assert_eq!(store.key_uses(), uses(3, 5), "from the log");
    store.checkpoint().unwrap();
    store.close();
    drop(store);
    let store = open_older(&fs);
    assert_eq!(store.key_uses(), uses(3, 5), "from a checkpoint");
    store.abort_upload("b", "m", upload).unwrap();
    assert_eq!(store.key_uses(), uses(3, 3), "an upload and its parts");
    for key in ["0", "1", "2"] {
        while let Ok(found) = store.find("b", key, Selector::Current) {
            delete(&store, "b", key, Selector::Id(found.version.id)).unwrap();
        }
    }
    assert_eq!(store.key_uses(), BTreeMap::new());
}

#[test]
fn a_rewrap_passes_over_what_the_ring_cannot_open_and_what_changed_meanwhile() {
    let fs = SimFs::new();
    fill_older(&fs);
    let store = open(&fs);
    store.set_keys(Arc::new(RingWithout::destroyed("retired")));
    assert_eq!(rewrap_all(&store), (0, 5));
    drop(store);
    let store = open(&fs);
    assert_eq!(
        store.rewrap(&mut RewrapCursor::default()),
        Err(StoreError::KeyUnavailable(String::new())),
        "there is no ring"
    );
}

#[test]
fn a_key_with_thousands_of_versions_is_rewrapped() {
    let fs = SimFs::new();
    let store = open_older(&fs);
    store.create_bucket("b", "admin").unwrap();
    store.set_versioning("b", Versioning::Enabled).unwrap();
    for _ in 0..3_000 {
        put_sealed(&store, "k", b"x", None, &NewEncryption::S3).unwrap();
    }
    store.close();
    drop(store);
    let store = open_keyed(&fs, options()).unwrap();
    assert_eq!(rewrap_all(&store), (3_000, 0));
    assert_eq!(store.key_uses(), [("current".to_owned(), 3_000)].into());
}

#[test]
fn no_object_is_unreadable_at_any_moment_of_a_rewrap() {
    let filled = SimFs::new();
    fill_older(&filled);
    for stop in 1.. {
        let fs = filled.copy();
        fs.stop_at(fs.operations() + stop);
        let ended = (|| -> Result<(), StoreError> {
            let store = open_keyed(&fs, options()).map_err(|error| StoreError::Io(error.to_string()))?;
            let mut cursor = RewrapCursor::default();
            while store.rewrap(&mut cursor)?.more {}
            store.checkpoint()
        })();
        for policy in [CrashPolicy::DropAll, CrashPolicy::KeepAll, CrashPolicy::Random(stop)] {
            let store = open_keyed(&fs.crash(policy), options()).unwrap();
            for (at, new) in kinds().iter().enumerate() {
                let read = read_whole(&store, &format!("{at}"), key_of(new).as_ref());
                assert_eq!(read, Ok(text(1_002)), "stopped at {stop}, {policy:?}");
            }
            rewrap_all(&store);
            assert_eq!(store.key_uses().get("retired"), None);
        }
        if ended.is_ok() {
            return;
        }
    }
}
