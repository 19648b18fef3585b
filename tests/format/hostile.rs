//! Arbitrary bytes on disk: decoding them ends in a value or an error, and a store with them opens
//! or refuses to open. Nothing panics, and no allocation exceeds the size that the bytes justify.

use std::sync::Arc;

use proptest::collection::vec;
use proptest::prelude::*;
use siltstone::base::{ManualClock, SeededEntropy, Timestamp};
use siltstone::format::{
    ByteDecoder, Descriptor, Entry, ExtentHeader, Features, FileHeader, FileKind, GroupHeader, GroupKind,
    StoreId, UncheckedGroup, VersionRecord, VersionSummary, log_path,
};
use siltstone::fs::Fs;
use siltstone::fs::sim::SimFs;
use siltstone::store::{
    Attributes, Commit, DeleteCondition, Deletion, ETag, ListQuery, MasterKey, NewEncryption, ObjectControls,
    Selector, StorageClass, Store, StoreOptions, WriteCondition,
};

use crate::support::is_long;

const STORE: StoreId = StoreId([7; 16]);

fn options() -> StoreOptions {
    StoreOptions { keep_free_bytes: 0, idle_group_after: None, ..StoreOptions::default() }
}

fn open(fs: &SimFs) -> Option<Store> {
    let clock = Arc::new(ManualClock::new(Timestamp::from_millis(1_700_000_000_000)));
    Store::open(Arc::new(fs.clone()), clock, &SeededEntropy::new(1), options()).ok()
}

fn customer() -> MasterKey {
    MasterKey::new([9; 32])
}

/// A store with a checkpoint, a log after it, and objects of one block and of several.
fn small_store() -> SimFs {
    let fs = SimFs::new();
    let store = open(&fs).unwrap();
    store.create_bucket("b", "admin").unwrap();
    let put = |key: &str, len: usize| {
        let mut writer = store.writer("b", key, None).unwrap();
        if key == "encrypted" {
            writer.encrypt(&NewEncryption::Customer(customer())).unwrap();
        }
        writer.write(vec![len as u8; len]).unwrap();
        let mut attributes = Attributes::new();
        attributes.push("meta-a", "b");
        let etag = ETag::Md5([1; 16]);
        let condition = WriteCondition::None;
        writer
            .commit(Commit {
                storage_class: StorageClass::Standard,
                etag,
                attributes,
                checksums: vec![],
                tags: vec![],
                condition,
                controls: ObjectControls::default(),
                stated_time: None,
            })
            .unwrap();
    };
    put("small", 10);
    put("large", 200_000);
    put("encrypted", 200_000);
    hold(&store, "large");
    store.checkpoint().unwrap();
    put("later", 100);
    hold(&store, "later");
    let deletion =
        Deletion { key: "small".into(), which: Selector::Current, condition: DeleteCondition::default() };
    store.delete("b", vec![deletion]).unwrap();
    drop(store);
    fs
}

/// Changes the controls of an object, as far as the store lets it.
fn hold(store: &Store, key: &str) {
    if let Ok(found) = store.find("b", key, Selector::Current) {
        let _ = store.set_legal_hold("b", key, found.version, true);
    }
}

/// Calls every reading operation of an opened store.
fn use_up(store: &Store) {
    let query = ListQuery { limit: 100, ..ListQuery::default() };
    for bucket in store.buckets() {
        let _ = store.list_versions(&bucket.name, &query, None);
        for key in ["small", "large", "encrypted", "later"] {
            let Ok(found) = store.find(&bucket.name, key, Selector::Current) else { continue };
            let key = (key == "encrypted").then(customer);
            let _ = store.digests(&found.version, key.as_ref());
            let read = store.read_with(&found, 0..found.version.size, key.as_ref());
            let Ok(mut reader) = read else { continue };
            let mut buffer = vec![0; 70_000];
            while reader.read(&mut buffer).is_ok_and(|len| len > 0) {}
        }
    }
    let _ = store.create_bucket("another", "admin");
    ["large", "later"].iter().for_each(|key| hold(store, key));
    store.close();
}

/// A store with one bucket of this id.
fn store_with_bucket(id: u64) -> SimFs {
    let now = Timestamp::from_millis(1);
    let mut entry = vec![1, 0];
    let mut rest = id;
    while rest >= 0x80 {
        entry.push(rest as u8 | 0x80);
        rest >>= 7;
    }
    entry.push(rest as u8);
    entry.extend(b"\x04docs\x05admin\x01\x00");
    entry[1] = entry.len() as u8 - 2;
    let group = GroupHeader {
        kind: GroupKind::Log,
        sequence: 1,
        stable: 0,
        file_len: 0,
        time: now,
        pack: None,
        previous_crc: 0,
    };
    let features = Features::NONE;
    let header =
        FileHeader { kind: FileKind::Log, store: STORE, number: 1, features, created: now, previous_crc: 0 };
    let mut file = header.encode();
    file.extend(group.encode_group(&STORE, 1, &entry).0);
    file.resize(file.len().next_multiple_of(4096) + 4096, 0);
    let fs = SimFs::new();
    let path = log_path(1);
    for dir in ["meta", "data"] {
        fs.create_dir(dir).unwrap();
    }
    fs.create(&path).unwrap().write_all_at(&file, 0).unwrap();
    fs
}

#[test]
fn an_id_that_leaves_none_for_others_is_damage() {
    for id in [u64::MAX, u64::MAX - 1, 1 << 63] {
        let store = open(&store_with_bucket(id)).expect("it opens for reading");
        assert_eq!(store.buckets().len(), 1);
        let refused = store.create_bucket("later", "admin").unwrap_err().to_string();
        assert!(refused.contains("leaves none for what comes after it"), "{refused}");
    }
    let store = open(&store_with_bucket(1 << 62)).expect("it opens");
    store.create_bucket("later", "admin").unwrap();
    let created = store.buckets().into_iter().find(|bucket| bucket.name == "later").unwrap();
    assert!(created.id > 1 << 62);
}

proptest! {
    #[test]
    fn decoders_take_any_bytes(bytes in vec(any::<u8>(), 0..5000)) {
        let _ = FileHeader::decode(&bytes);
        let _ = ExtentHeader::decode(&STORE, &bytes);
        let _ = Descriptor::decode(&bytes);
        let _ = VersionRecord::decode(&mut ByteDecoder::new(&bytes));
        let _ = VersionSummary::decode(&bytes);
        let _ = Entry::decode(&mut ByteDecoder::new(&bytes));
        for kind in [GroupKind::Log, GroupKind::Checkpoint] {
            let _ = UncheckedGroup::decode(kind, &STORE, &bytes);
        }
    }

    #[test]
    fn entries_of_every_kind_take_any_body(kind in any::<u8>(), body in vec(any::<u8>(), 0..300)) {
        let mut bytes = vec![kind, body.len() as u8 | 0x80, (body.len() >> 7) as u8];
        bytes.extend(&body);
        if let Ok(Some(entry)) = Entry::decode(&mut ByteDecoder::new(&bytes)) {
            // A decoded value is encoded to the same bytes, except for varints that were longer
            // than necessary.
            let mut again = Vec::new();
            entry.encode(&mut again);
            prop_assert_eq!(Entry::decode(&mut ByteDecoder::new(&again)), Ok(Some(entry)));
        }
    }

    #[test]
    fn groups_whose_crcs_are_right_take_any_body(count in 0..100u32, body in vec(any::<u8>(), 0..600)) {
        let header = GroupHeader {
            kind: GroupKind::Log,
            sequence: 1,
            stable: 0,
            file_len: 0,
            time: Timestamp::from_millis(1),
            pack: None,
            previous_crc: 0,
        };
        let (bytes, _) = header.encode_group(&STORE, count, &body);
        let group = UncheckedGroup::decode(GroupKind::Log, &STORE, &bytes).unwrap();
        let _ = group.check(&body);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if is_long() { 150 } else { 40 }))]

    #[test]
    fn a_store_with_damaged_files_opens_or_refuses_to(
        damage in vec((any::<prop::sample::Index>(), any::<prop::sample::Index>(), 1..=255u8), 1..8),
        in_front in any::<bool>(),
    ) {
        let fs = small_store();
        let names: Vec<String> = fs.files().into_iter().filter(|(_, len)| *len > 0).map(|(name, _)| name.to_string()).collect();
        for (file, offset, mask) in damage {
            let name = file.get(&names);
            let len = fs.contents(name).unwrap().len();
            // Records are in front; far after them are zeros that were written ahead.
            let span = if in_front { len.min(20_000) } else { len };
            fs.damage(name, offset.index(span) as u64, mask).unwrap();
        }
        if let Some(store) = open(&fs) {
            use_up(&store);
        }
    }

    #[test]
    fn a_store_with_files_of_any_length_opens_or_refuses_to(
        file in any::<prop::sample::Index>(),
        len in any::<prop::sample::Index>(),
    ) {
        let fs = small_store();
        let names: Vec<String> = fs.files().into_iter().map(|(name, _)| name.to_string()).collect();
        let name = file.get(&names);
        let whole = fs.contents(name).unwrap().len();
        fs.truncate(name, len.index(whole + 1) as u64).unwrap();
        if let Some(store) = open(&fs) {
            use_up(&store);
        }
    }
}
