//! data-format.md compared with the code: its tables, its worked dump, and stores of version 1 as
//! fixtures.

mod encryption;
mod hostile;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use siltstone::base::digest::Md5;
use siltstone::base::{ManualClock, SeededEntropy, Timestamp};
use siltstone::format::{
    Attributes, BackupCurrent, BackupSlot, BucketConfigurationKind, BucketRecord, Cause, CheckpointEnd,
    ENCRYPTED_BLOCK_LAYOUT, EXTENT_LAYOUT, Entry, FILE_LAYOUT, FOOTER_LAYOUT, Features, Field, FollowerNote,
    GROUP_LAYOUT, KEY_SLOT_LAYOUT, KEYS_LAYOUT, PARCEL_LAYOUT, PIECE_LAYOUT, PartRecord, SALT_PAGE_LAYOUT,
    SIDE_MARK_LAYOUT, STATE_FILE_LAYOUT, UploadId, UploadRecord, VersionId, VersionRecord, Versioning,
    WrittenBytes,
};
use siltstone::fs::sim::SimFs;
use siltstone::fs::{Fs, OsFs};
use siltstone::offline::rebuild::{RebuildOptions, rebuild};
use siltstone::store::{
    AclGrants, Beginning, ChangeKind, Checksum, ChecksumAlgorithm, ChecksumType, Commit, Completion,
    CopyRange, DeleteCondition, Deletion, ETag, ListQuery, ListedVersion, NewBucket, NewUpload,
    ObjectControls, Quota, RefusedKey, RefusedKeys, Retention, RetentionMode, Selector, StorageClass, Store,
    StoreError, StoreOptions, WriteCondition,
};
use siltstone::vault::{StoreSecret, open_disk};
use zeroize::Zeroizing;

/// Names a fixture to be written. Existing fixtures stay as the version of their time wrote them.
const WRITE_FIXTURES: &str = "SILTSTONE_WRITE_FIXTURES";

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn page() -> String {
    fs::read_to_string(root().join("data-format.md")).unwrap()
}

/// The cells of all tables with this start of a header row.
fn tables(head: &str) -> Vec<Vec<Vec<String>>> {
    let page = page();
    let mut tables = Vec::new();
    let mut lines = page.lines();
    while let Some(line) = lines.next() {
        if line.starts_with(head) {
            let rows = lines.by_ref().skip(1).take_while(|line| line.starts_with('|'));
            let cells =
                |row: &str| row.trim_matches('|').split(" |").map(|cell| cell.trim().to_owned()).collect();
            tables.push(rows.map(cells).collect());
        }
    }
    tables
}

#[test]
fn the_line_that_names_a_slot_is_one() {
    let page = page();
    let line = page.lines().find(|line| line.starts_with("siltstone backup 1 ")).unwrap();
    let current = BackupCurrent::decode(format!("{line}\n").as_bytes()).unwrap();
    assert_eq!((current.slot, current.sequence), (BackupSlot::A, 42));
}

#[test]
fn the_tables_of_fixed_structures_are_those_of_the_code() {
    let layouts: [&[Field]; 12] = [
        FILE_LAYOUT,
        EXTENT_LAYOUT,
        FOOTER_LAYOUT,
        GROUP_LAYOUT,
        STATE_FILE_LAYOUT,
        PARCEL_LAYOUT,
        PIECE_LAYOUT,
        ENCRYPTED_BLOCK_LAYOUT,
        SALT_PAGE_LAYOUT,
        KEYS_LAYOUT,
        KEY_SLOT_LAYOUT,
        SIDE_MARK_LAYOUT,
    ];
    let tables = tables("| offset | size | name |");
    assert_eq!(tables.len(), layouts.len());
    for (table, layout) in tables.iter().zip(layouts) {
        let told: Vec<_> = table.iter().map(|row| (row[0].clone(), row[1].clone(), row[2].clone())).collect();
        let coded = layout.iter().map(|f| (f.offset.to_string(), f.size.to_string(), f.name.to_owned()));
        assert_eq!(told, coded.collect::<Vec<_>>());
        let ends = layout.iter().map(|field| field.offset + field.size);
        let starts = layout.iter().skip(1).map(|field| field.offset);
        assert!(starts.eq(ends.take(layout.len() - 1)), "there are gaps or overlaps");
        assert!(layout.last().is_some_and(|last| (last.offset + last.size).is_power_of_two()));
    }
}

fn record() -> VersionRecord {
    VersionRecord {
        storage_class: StorageClass::Standard,
        id: VersionId(1),
        null: true,
        delete_marker: false,
        modified: Timestamp::from_millis(1),
        size: 0,
        etag: ETag::None,
        extents: vec![],
        attributes: Attributes::new(),
        checksums: vec![],
        tags: vec![],
        upload: None,
        controls: ObjectControls::default(),
        controls_stamp: None,
        encryption: None,
        stated_time: None,
    }
}

fn one_of_each_kind() -> Vec<(&'static str, Entry)> {
    let bucket = 1;
    let key = b"k".to_vec();
    let id = UploadId(2);
    let named = BucketRecord {
        id: 1,
        name: "b".into(),
        owner: "o".into(),
        created: Timestamp::from_millis(1),
        versioning: Versioning::Unset,
    };
    let upload = UploadRecord {
        storage_class: StorageClass::Standard,
        id,
        initiated: Timestamp::from_millis(1),
        initiator: "o".into(),
        checksum: None,
        attributes: Attributes::new(),
        tags: vec![],
        controls: ObjectControls::default(),
        encryption: None,
    };
    let part = PartRecord {
        number: 1,
        id: 3,
        modified: Timestamp::from_millis(1),
        size: 0,
        md5: [0; 16],
        extents: vec![],
        checksum: None,
        encryption: None,
    };
    let end = CheckpointEnd { through: 1, last_stamp: 2, buckets: 3, versions: 4 };
    vec![
        ("bucket put", Entry::BucketPut(named)),
        ("bucket delete", Entry::BucketDelete { id: 1 }),
        (
            "bucket configuration",
            Entry::BucketConfiguration { bucket, kind: BucketConfigurationKind::Cors, document: None },
        ),
        ("owner quota", Entry::OwnerQuota { owner: "o".into(), document: None }),
        ("remote segment", Entry::RemoteSegment { segment: 1, copy: None }),
        ("follower", Entry::Follower { name: "f".into(), state: None }),
        (
            "follower note",
            Entry::FollowerNote { name: "f".into(), note: FollowerNote { key: vec![1], value: None } },
        ),
        ("cause", Entry::Cause(Cause::default())),
        ("null deletion", Entry::NullDeletion),
        ("origin", Entry::Origin(vec!["a".into()])),
        ("version put", Entry::VersionPut { bucket, key: key.clone(), record: record() }),
        ("version delete", Entry::VersionDelete { bucket, key: key.clone(), version: VersionId(1) }),
        ("version amend", Entry::VersionAmend { bucket, key: key.clone(), record: record() }),
        ("upload put", Entry::UploadPut { bucket, key: key.clone(), record: upload }),
        ("upload delete", Entry::UploadDelete { bucket, key: key.clone(), upload: id }),
        ("part put", Entry::PartPut { bucket, key, upload: id, record: part }),
        ("checkpoint end", Entry::CheckpointEnd(end)),
    ]
}

#[test]
fn the_table_of_entries_names_every_kind_by_its_number() {
    let table = tables("| kind | name |").remove(0);
    let told: BTreeMap<_, _> = table.iter().map(|row| (row[1].clone(), row[0].clone())).collect();
    let coded = one_of_each_kind().into_iter().map(|(name, entry)| {
        let mut bytes = Vec::new();
        entry.encode(&mut bytes);
        (name.to_owned(), bytes[0].to_string())
    });
    let mut written = Vec::new();
    WrittenBytes::default().encode_entry(&mut written);
    assert_eq!(told, coded.chain([("written bytes".to_owned(), written[0].to_string())]).collect());
}

#[test]
fn the_table_of_configurations_is_that_of_the_code() {
    let told: Vec<_> = tables("| number | configuration |").remove(0);
    let told = told.into_iter().map(|row| (row[0].clone(), row[1].clone()));
    let coded = BucketConfigurationKind::TABLE.map(|(_, number, name)| (number.to_string(), name.to_owned()));
    assert!(told.eq(coded));
}

#[test]
fn the_table_of_features_is_that_of_the_code() {
    let told: Vec<_> = tables("| bit | feature |").remove(0).into_iter().map(|row| row[1].clone()).collect();
    assert_eq!(told, Features::NAMES.map(|(_, name)| name.to_owned()));
}

fn open(dir: &Path) -> Store {
    let clock = Arc::new(ManualClock::new(Timestamp::parse_iso8601("2026-01-31T12:00:00Z").unwrap()));
    let options = StoreOptions { keep_free_bytes: 0, idle_group_after: None, ..StoreOptions::default() };
    let disk = OsFs::new(dir);
    disk.create_root().unwrap();
    Store::open(Arc::new(disk), clock, &SeededEntropy::new(1), options).unwrap()
}

fn commit(bytes: &[u8]) -> Commit {
    let mut attributes = Attributes::new();
    attributes.push("content-type", "text/plain");
    let etag = ETag::Md5(Md5::of(bytes));
    Commit {
        storage_class: StorageClass::Standard,
        etag,
        attributes,
        checksums: vec![],
        tags: vec![],
        condition: WriteCondition::None,
        controls: ObjectControls::default(),
        stated_time: None,
    }
}

fn put(store: &Store, bucket: &str, key: &str, bytes: &[u8], commit: Commit) {
    let mut writer = store.writer(bucket, key, Some(bytes.len() as u64)).unwrap();
    writer.write(bytes).unwrap();
    writer.commit(commit).unwrap();
}

fn get(store: &Store, bucket: &str, key: &str) -> Vec<u8> {
    let found = store.find(bucket, key, Selector::Current).unwrap();
    let mut reader = store.read(&found, 0..found.version.size).unwrap();
    let mut bytes = vec![0; found.version.size as usize];
    let len = reader.read(&mut bytes).unwrap();
    assert_eq!(len, bytes.len());
    bytes
}

/// Every file of the format below a directory, by its path in it.
fn files(dir: &Path) -> BTreeMap<String, Vec<u8>> {
    let disk = OsFs::new(dir);
    let names = ["data", "meta"].into_iter().flat_map(|sub| {
        let names = disk.list(sub).unwrap();
        names.into_iter().map(move |name| format!("{sub}/{name}"))
    });
    names.map(|name| (name.clone(), fs::read(dir.join(name)).unwrap())).collect()
}

/// Rows of 16 bytes with their offset; rows of zeros are left out.
fn dump(files: &BTreeMap<String, Vec<u8>>) -> String {
    let mut text = String::new();
    for (name, bytes) in files {
        text += &format!("{name}, {} bytes\n", bytes.len());
        for (at, row) in bytes.chunks(16).enumerate().filter(|(_, row)| row.iter().any(|byte| *byte != 0)) {
            let hex: Vec<_> = row.iter().map(|byte| format!("{byte:02x}")).collect();
            text += &format!("{:06x}  {}\n", at * 16, hex.join(" "));
        }
    }
    text
}

/// The rows of a later dump that are not in an earlier one, with the names of files.
fn added(before: &str, after: &str) -> String {
    let path_of = |line| str::split(line, ", ").next().unwrap_or_default();
    let mut known = std::collections::BTreeSet::new();
    let mut name = "";
    for line in before.lines() {
        if line.ends_with(" bytes") {
            name = path_of(line);
        } else {
            known.insert((name, line));
        }
    }
    let mut text = String::new();
    for line in after.lines() {
        if line.ends_with(" bytes") {
            name = path_of(line);
        } else if known.contains(&(name, line)) {
            continue;
        }
        text += &format!("{line}\n");
    }
    text
}

/// Writes the bytes of a dump to files, which are created if missing.
fn undump(files: &mut BTreeMap<String, Vec<u8>>, text: &str) {
    let mut current = String::new();
    for line in text.lines() {
        if let Some((name, len)) = line.strip_suffix(" bytes").and_then(|line| line.split_once(", ")) {
            current = name.to_owned();
            files.entry(current.clone()).or_default().resize(len.parse().unwrap(), 0);
            continue;
        }
        let (offset, hex) = line.split_once("  ").unwrap();
        let at = usize::from_str_radix(offset, 16).unwrap();
        for (index, byte) in hex.split(' ').enumerate() {
            files.get_mut(&current).unwrap()[at + index] = u8::from_str_radix(byte, 16).unwrap();
        }
    }
}

/// The first dump of the page, and the rows that the second adds to it.
fn worked_dumps() -> [String; 2] {
    let page = page();
    let (_, section) = page.split_once("\n## 10. A worked dump\n").expect("the page has a worked dump");
    let dump = |nth| section.split("```text\n").nth(nth).unwrap().split("```").next().unwrap().to_owned();
    [dump(1), dump(2)]
}

/// The store of the first dump.
fn write_hello(dir: &Path) -> Store {
    let store = open(dir);
    store.create_bucket("docs", "admin").unwrap();
    put(&store, "docs", "hello", b"Hello, world!\n", commit(b"Hello, world!\n"));
    store
}

/// The additions of the second dump: a copy of all but the first seven bytes, and an upload of two
/// parts.
fn write_copy_and_upload(store: &Store) {
    let found = store.find("docs", "hello", Selector::Current).unwrap();
    let source =
        CopyRange { bucket: found.bucket.id, key: "hello".into(), version: found.version, range: 7..14 };
    store.copy(source, "docs", "copy", commit(b"world!\n")).unwrap();
    let new = NewUpload {
        storage_class: StorageClass::Standard,
        initiator: "admin".into(),
        checksum: None,
        attributes: Attributes::new(),
        tags: vec![],
        controls: ObjectControls::default(),
    };
    let upload = store.create_upload("docs", "parts", new).unwrap().id;
    let parts = [&b"one, "[..], b"two\n"];
    for (number, bytes) in (1..).zip(parts) {
        let mut part = store.part_writer("docs", "parts", upload, number, Some(bytes.len() as u64)).unwrap();
        part.write(bytes).unwrap();
        part.commit(Md5::of(bytes), None).unwrap();
    }
    let commit = Commit { etag: multipart_etag(&parts), attributes: Attributes::new(), ..commit(b"") };
    let parts = store.upload("docs", "parts", upload).unwrap().parts;
    store.complete_upload("docs", "parts", Completion { upload, parts, commit }).unwrap();
}

fn multipart_etag(parts: &[&[u8]]) -> ETag {
    let sums: Vec<u8> = parts.iter().flat_map(|part| Md5::of(part)).collect();
    ETag::Multipart { md5: Md5::of(&sums), parts: parts.len() as u32 }
}

#[test]
fn the_worked_dumps_are_what_a_store_writes() {
    let dir = tempfile::tempdir().unwrap();
    let [first, second] = worked_dumps();
    let store = write_hello(dir.path());
    let before = dump(&files(dir.path()));
    assert_eq!(before, first, "the store wrote:\n{before}");
    write_copy_and_upload(&store);
    let added = added(&before, &dump(&files(dir.path())));
    assert_eq!(added, second, "the store added:\n{added}");
}

#[test]
fn a_store_can_be_read_from_the_worked_dumps() {
    let dir = tempfile::tempdir().unwrap();
    let mut shown = BTreeMap::new();
    worked_dumps().iter().for_each(|text| undump(&mut shown, text));
    for (name, bytes) in shown {
        let path = dir.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, bytes).unwrap();
    }
    let store = open(dir.path());
    assert_eq!(store.health().damage, []);
    assert_eq!(get(&store, "docs", "hello"), b"Hello, world!\n");
    assert_eq!(get(&store, "docs", "copy"), b"world!\n");
    assert_eq!(get(&store, "docs", "parts"), b"one, two\n");
    assert_eq!(store.bucket("docs").unwrap().owner, "admin");
}

/// Opens the directory of the page's last dump with one of its secrets, and reads its file.
fn hello_of_encrypted_dump(secret: &str) -> Vec<u8> {
    let page = page();
    let (_, section) = page.split_once("\n### An encrypted file, worked out\n").unwrap();
    let dump = section.split("```text\n").nth(2).unwrap().split("```").next().unwrap();
    let mut files = BTreeMap::new();
    undump(&mut files, dump);
    let disk = SimFs::new();
    disk.create_dir("meta").unwrap();
    for (name, bytes) in files {
        let path = if name == "KEYS" { name } else { format!("meta/{name}") };
        disk.create(&path).unwrap().write_all_at(&bytes, 0).unwrap();
    }
    let secret = StoreSecret::parse(&Zeroizing::new(secret.as_bytes().to_vec())).unwrap();
    let disk = open_disk(Arc::new(disk), Some(&secret), Arc::new(SeededEntropy::new(1))).unwrap();
    let file = disk.open_read("meta/hello").unwrap();
    let mut bytes = vec![0; file.len().unwrap() as usize];
    file.read_exact_at(&mut bytes, 0).unwrap();
    bytes
}

/// The bytes of the dump were written by another program, which follows the page alone.
#[test]
fn the_encrypted_dump_is_read_with_each_of_its_secrets() {
    let page = page();
    let key = page.lines().find(|line| line.starts_with("siltstone store-key 1 ")).unwrap();
    for secret in [key, "correct horse battery staple\n"] {
        assert_eq!(hello_of_encrypted_dump(secret), b"Hello, world!\n");
    }
}

#[test]
fn the_ids_that_clients_see_are_made_as_the_page_says() {
    let dir = tempfile::tempdir().unwrap();
    let store = write_hello(dir.path());
    let [rows] = &tables("| label | stamp | id |")[..] else { panic!("one table of ids") };
    let bare = |cell: &str| cell.trim_matches('`').to_owned();
    let ids = rows.iter().map(|row| {
        let stamp = u64::from_str_radix(row[1].strip_prefix("0x").unwrap(), 16).unwrap();
        let made = match bare(&row[0]).as_str() {
            "version" => store.client_ids().of_version(VersionId(stamp)),
            "upload" => store.client_ids().of_upload(UploadId(stamp)),
            other => panic!("{other} has no ids"),
        };
        (made.to_string(), bare(&row[2]))
    });
    let ids: Vec<_> = ids.collect();
    assert_eq!(ids.len(), 2);
    for (made, shown) in ids {
        assert_eq!(made, shown);
    }
}

fn pattern(seed: u64, len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len];
    siltstone::base::Entropy::fill(&SeededEntropy::new(seed), &mut bytes);
    bytes
}

fn delete(store: &Store, key: &str) {
    let deletion =
        Deletion { key: key.into(), which: Selector::Current, condition: DeleteCondition::default() };
    store.delete("versioned", vec![deletion]).unwrap();
}

/// A store with every kind of content: the first half in a checkpoint, the other in the log.
fn make_mixed(dir: &Path) {
    let store = open(dir);
    store.create_bucket("plain", "admin").unwrap();
    put(&store, "plain", "large", &pattern(1, 200_000), commit(&pattern(1, 200_000)));
    store.create_bucket("versioned", "camera").unwrap();
    store.set_versioning("versioned", Versioning::Enabled).unwrap();
    put(&store, "versioned", "k", b"first", commit(b"first"));
    put(&store, "versioned", "gone", b"x", commit(b"x"));
    store.close();
    drop(store);
    let store = open(dir);
    put(&store, "versioned", "k", b"second", commit(b"second"));
    delete(&store, "gone");
    let crc = Checksum {
        algorithm: ChecksumAlgorithm::Crc32,
        kind: ChecksumType::FullObject,
        parts: 0,
        value: vec![1, 2, 3, 4],
    };
    let tags = vec![("colour".to_owned(), "grün".to_owned())];
    put(&store, "plain", "tagged", b"t", Commit { checksums: vec![crc], tags, ..commit(b"t") });
    let found = store.find("plain", "large", Selector::Current).unwrap();
    let source = CopyRange {
        bucket: found.bucket.id,
        key: "large".into(),
        version: found.version,
        range: 70_000..140_000,
    };
    store.copy(source, "plain", "slice", commit(b"")).unwrap();
    let new = NewUpload {
        storage_class: StorageClass::Standard,
        initiator: "admin".into(),
        checksum: None,
        attributes: Attributes::new(),
        tags: vec![],
        controls: ObjectControls::default(),
    };
    let upload = store.create_upload("plain", "film", new).unwrap().id;
    let mut part = store.part_writer("plain", "film", upload, 3, None).unwrap();
    part.write(pattern(2, 100_000)).unwrap();
    part.commit(Md5::of(&pattern(2, 100_000)), None).unwrap();
    drop(store);
}

fn copy_tree(from: &Path, to: &Path) {
    for (name, bytes) in files(from) {
        let path = to.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, bytes).unwrap();
    }
}

/// A store with records that name the sources of copies and of completed uploads.
fn make_records(dir: &Path) {
    let store = open(dir);
    store.create_bucket("plain", "camera").unwrap();
    put(&store, "plain", "large", &pattern(1, 200_000), commit(&pattern(1, 200_000)));
    store.copy(source(&store, 70_000..140_000), "plain", "slice", commit(b"slice")).unwrap();
    let new = NewUpload {
        storage_class: StorageClass::Standard,
        initiator: "camera".into(),
        checksum: None,
        attributes: commit(b"").attributes,
        tags: vec![("colour".into(), "grün".into())],
        controls: ObjectControls::default(),
    };
    let upload = store.create_upload("plain", "film", new.clone()).unwrap().id;
    let mut part = store.part_writer("plain", "film", upload, 1, Some(100_000)).unwrap();
    part.write(pattern(2, 100_000)).unwrap();
    part.commit(Md5::of(&pattern(2, 100_000)), None).unwrap();
    let range = source(&store, 1..90_001);
    let place = ("plain", "film");
    store.copy_part(range, place, (upload, 2), Md5::of(&pattern(1, 200_000)[1..90_001]), None).unwrap();
    let parts = store.upload("plain", "film", upload).unwrap().parts;
    store.complete_upload("plain", "film", Completion { upload, parts, commit: commit(b"film") }).unwrap();
    let upload = store.create_upload("plain", "trailer", new).unwrap().id;
    let mut part = store.part_writer("plain", "trailer", upload, 7, None).unwrap();
    part.write(b"a small part").unwrap();
    part.commit(Md5::of(b"a small part"), None).unwrap();
    store.close();
}

fn source(store: &Store, range: std::ops::Range<u64>) -> CopyRange {
    let found = store.find("plain", "large", Selector::Current).unwrap();
    CopyRange { bucket: found.bucket.id, key: "large".into(), version: found.version, range }
}

fn fixture(name: &str, make: impl FnOnce(&Path)) -> PathBuf {
    let dir = root().join("tests/fixtures/format").join(name);
    if std::env::var_os(WRITE_FIXTURES).is_some_and(|wanted| wanted == name) {
        let _ = fs::remove_dir_all(&dir);
        make(&dir);
        fs::remove_file(dir.join("LOCK")).unwrap();
    }
    dir
}

#[test]
fn a_store_with_records_still_opens_and_its_log_can_be_rebuilt() {
    let dir = tempfile::tempdir().unwrap();
    copy_tree(&fixture("v1-records", make_records), dir.path());
    check_records(&open(dir.path()));
    fs::remove_dir_all(dir.path().join("meta")).unwrap();
    let options = RebuildOptions { replace: false, owner: "nobody".into() };
    let clock = ManualClock::new(Timestamp::from_millis(1));
    let report = rebuild(&OsFs::new(dir.path()), &clock, &options, &mut |_| {}).unwrap();
    assert!(report.is_whole(), "{report:#?}");
    check_records(&open(dir.path()));
}

fn check_records(store: &Store) {
    assert_eq!(store.health().damage, []);
    assert_eq!(store.bucket("plain").unwrap().owner, "camera");
    assert!(get(store, "plain", "slice") == pattern(1, 200_000)[70_000..140_000]);
    let film = [&pattern(2, 100_000)[..], &pattern(1, 200_000)[1..90_001]].concat();
    assert!(get(store, "plain", "film") == film);
    let made = store.find("plain", "film", Selector::Current).unwrap().version.upload.unwrap();
    assert_eq!(made.parts.iter().map(|part| part.size).collect::<Vec<_>>(), [100_000, 90_000]);
    let query = ListQuery { limit: 100, ..ListQuery::default() };
    let page = store.list_uploads("plain", &query, None).unwrap();
    assert_eq!(page.len(), 1, "one upload is in progress");
    let (key, upload) = page.keys().next().unwrap();
    let whole = store.upload("plain", &key, upload.id).unwrap();
    assert_eq!((key.as_ref(), whole.record.tags[0].1.as_str()), ("trailer", "grün"));
    assert_eq!(whole.parts[0].number, 7);
}

/// A store with configurations of buckets and controls of objects, in a checkpoint and in the log.
fn make_configured(dir: &Path) {
    let store = open(dir);
    let new = NewBucket {
        name: "locked".into(),
        owner: "camera".into(),
        versioning: Versioning::Enabled,
        configurations: vec![(BucketConfigurationKind::Policy, b"{}".to_vec())],
    };
    store.create_configured_bucket(new).unwrap();
    let retention = Retention { mode: RetentionMode::Compliance, until: Timestamp::from_millis(1 << 41) };
    let kept =
        ObjectControls { retention: Some(retention), legal_hold: Some(true), ..ObjectControls::default() };
    put(&store, "locked", "kept", b"kept", Commit { controls: kept, ..commit(b"kept") });
    store.close();
    drop(store);
    let store = open(dir);
    let cors = Some(b"<CORSConfiguration/>".to_vec());
    store.set_bucket_configuration("locked", BucketConfigurationKind::Cors, cors).unwrap();
    put(&store, "locked", "public", b"public", commit(b"public"));
    let version = store.find("locked", "public", Selector::Current).unwrap().version;
    store.set_acl("locked", "public", version, AclGrants::ALL_READ, Vec::new()).unwrap();
    drop(store);
}

#[test]
fn a_store_with_configurations_and_controls_still_opens() {
    let dir = tempfile::tempdir().unwrap();
    copy_tree(&fixture("v1-configured", make_configured), dir.path());
    let store = open(dir.path());
    assert_eq!((store.health().damage, store.health().read_only), (vec![], None));
    let bucket = store.configured_bucket("locked").unwrap();
    let document = |kind| bucket.configuration(kind).map(|found| found.document().to_vec());
    assert_eq!(document(BucketConfigurationKind::Policy), Some(b"{}".to_vec()));
    assert_eq!(document(BucketConfigurationKind::Cors), Some(b"<CORSConfiguration/>".to_vec()));
    assert_eq!(document(BucketConfigurationKind::Tags), None);
    let controls = |key| store.find("locked", key, Selector::Current).unwrap().version.controls;
    let Retention { mode, until } = controls("kept").retention.unwrap();
    assert_eq!(
        (mode, until.as_millis(), controls("kept").is_held()),
        (RetentionMode::Compliance, 1 << 41, true)
    );
    assert_eq!(controls("public"), ObjectControls { acl: AclGrants::ALL_READ, ..ObjectControls::default() });
}

/// A store with controls that were changed after the put, once and twice.
fn make_amended(dir: &Path) {
    let store = open(dir);
    store.create_bucket("locked", "camera").unwrap();
    put(&store, "locked", "kept", b"kept", commit(b"kept"));
    put(&store, "locked", "freed", &pattern(1, 70_000), commit(&pattern(1, 70_000)));
    let version = |store: &Store, key| store.find("locked", key, Selector::Current).unwrap().version;
    store.set_legal_hold("locked", "kept", version(&store, "kept"), true).unwrap();
    store.set_legal_hold("locked", "freed", version(&store, "freed"), true).unwrap();
    store.close();
    drop(store);
    let store = open(dir);
    let until = Timestamp::from_millis(1 << 41);
    let retention = Some(Retention { mode: RetentionMode::Compliance, until });
    store.set_retention("locked", "kept", version(&store, "kept"), retention, false).unwrap();
    store.set_legal_hold("locked", "freed", version(&store, "freed"), false).unwrap();
    drop(store);
}

#[test]
fn a_store_with_changed_controls_still_opens_and_its_log_can_be_rebuilt() {
    let dir = tempfile::tempdir().unwrap();
    copy_tree(&fixture("v1-amended", make_amended), dir.path());
    check_amended(dir.path());
    fs::remove_dir_all(dir.path().join("meta")).unwrap();
    let options = RebuildOptions { replace: false, owner: "nobody".into() };
    let clock = ManualClock::new(Timestamp::from_millis(1));
    let report = rebuild(&OsFs::new(dir.path()), &clock, &options, &mut |_| {}).unwrap();
    assert!(report.is_whole(), "{report:#?}");
    check_amended(dir.path());
}

fn check_amended(dir: &Path) {
    let store = open(dir);
    assert_eq!((store.health().damage, store.health().read_only), (vec![], None));
    let found = |key| store.find("locked", key, Selector::Current).unwrap().version;
    let kept = found("kept").controls;
    let Retention { mode, until } = kept.retention.unwrap();
    assert_eq!((mode, until.as_millis(), kept.is_held()), (RetentionMode::Compliance, 1 << 41, true));
    assert_eq!(
        found("freed").controls,
        ObjectControls { legal_hold: Some(false), ..ObjectControls::default() }
    );
    assert_eq!(get(&store, "locked", "kept"), b"kept");
    assert!(get(&store, "locked", "freed") == pattern(1, 70_000));
}

/// A store with quotas of owners: in a checkpoint, changed and removed in the log.
fn make_limited(dir: &Path) {
    let quota = |bytes, uploads| Quota { bytes, uploads, ..Quota::default() };
    let store = open(dir);
    store.create_bucket("footage", "camera").unwrap();
    store.set_owner_quota("camera", Some(&quota(Some(1), None))).unwrap();
    store.set_owner_quota("without buckets", Some(&Quota { buckets: Some(0), ..Quota::default() })).unwrap();
    store.set_owner_quota("removed", Some(&Quota::CLOSED)).unwrap();
    store.close();
    drop(store);
    let store = open(dir);
    store.set_owner_quota("camera", Some(&quota(Some(100), Some(1)))).unwrap();
    store.set_owner_quota("removed", None).unwrap();
    put(&store, "footage", "film", &[7; 60], commit(&[7; 60]));
    drop(store);
}

#[test]
fn a_store_with_quotas_of_owners_still_opens_and_keeps_to_them() {
    let dir = tempfile::tempdir().unwrap();
    copy_tree(&fixture("v1-limited", make_limited), dir.path());
    let store = open(dir.path());
    assert_eq!((store.health().damage, store.health().read_only), (vec![], None));
    let limited: Vec<_> = store.limited_owners().into_iter().map(|it| (it.owner, it.stored)).collect();
    let camera = Quota { bytes: Some(100), uploads: Some(1), ..Quota::default() };
    let without = Quota { buckets: Some(0), ..Quota::default() };
    assert_eq!(limited, [("camera".into(), Some(camera)), ("without buckets".into(), Some(without))]);
    let usage = store.limited_owner("camera").usage;
    assert_eq!((usage.buckets, usage.content.bytes(), usage.content.objects()), (1, 60, 1));
    let refused = store.writer("footage", "more", Some(41)).map(drop);
    assert!(matches!(refused, Err(StoreError::QuotaExceeded { limit: "bytes", allowed: 100, used: 60, .. })));
    put(&store, "footage", "more", &[7; 40], commit(&[7; 40]));
    assert_eq!(store.create_bucket("b", "without buckets"), Err(StoreError::TooManyBuckets { allowed: 0 }));
}

fn stated_time() -> Timestamp {
    Timestamp::parse_iso8601("2019-05-06T07:08:09.123Z").unwrap()
}

/// A follower with a refused key, which has a change of tags before it; a version with a stated
/// time and a storage class.
fn make_followed(dir: &Path) {
    let store = open(dir);
    store.create_bucket("b", "admin").unwrap();
    let mut follower = store.follower("away", Beginning::Now);
    follower.next(&store, 100).unwrap();
    let stated_time = Some(stated_time());
    let storage_class = StorageClass::Cold;
    put(&store, "b", "timed", b"timed", Commit { stated_time, storage_class, ..commit(b"timed") });
    let bucket = store.bucket("b").unwrap().id;
    let refused =
        RefusedKey { bucket, key: b"timed".to_vec(), time: Timestamp::from_millis(7), reason: "400".into() };
    follower.set_refused(RefusedKeys { unlisted: 2, keys: vec![refused] });
    let read = follower.next(&store, 100).unwrap().unwrap();
    follower.done_through(&store, read.end).unwrap();
    follower.save(&store).unwrap();
    let found = store.find("b", "timed", Selector::Current).unwrap();
    store.set_tags("b", "timed", found.version, vec![("colour".into(), "red".into())]).unwrap();
    store.close();
}

#[test]
fn a_store_with_followers_still_opens_and_they_go_on() {
    let dir = tempfile::tempdir().unwrap();
    copy_tree(&fixture("v1-followed", make_followed), dir.path());
    let store = open(dir.path());
    assert_eq!((store.health().damage, store.health().read_only), (vec![], None));
    let version = store.find("b", "timed", Selector::Current).unwrap().version;
    assert_eq!((version.last_modified(), version.storage_class), (stated_time(), StorageClass::Cold));
    assert!(version.modified > stated_time());
    let mut follower = store.follower("away", Beginning::Snapshot);
    let refused = follower.refused();
    assert_eq!((refused.unlisted, refused.keys[0].key.as_slice()), (2, &b"timed"[..]));
    assert_eq!((refused.keys[0].time.as_millis(), refused.keys[0].reason.as_str()), (7, "400"));
    let read = follower.next(&store, 100).unwrap().unwrap();
    let [change] = &read.changes[..] else { panic!("{:?}", read.changes) };
    let ChangeKind::Amended(tagged) = &change.kind else { panic!("{change:?}") };
    assert_eq!(tagged.tags, [("colour".to_owned(), "red".to_owned())]);
    assert_eq!(change.cause.as_ref().unwrap().operation, "PutObjectTagging");
}

#[test]
fn a_store_of_version_1_still_opens_and_says_the_same() {
    let dir = tempfile::tempdir().unwrap();
    copy_tree(&fixture("v1-mixed", make_mixed), dir.path());
    let store = open(dir.path());
    let health = store.health();
    assert_eq!((health.damage, health.read_only, health.torn_groups), (vec![], None, 0));
    assert_eq!(get(&store, "plain", "large"), pattern(1, 200_000));
    assert_eq!(get(&store, "plain", "slice"), pattern(1, 200_000)[70_000..140_000]);
    assert_eq!(get(&store, "versioned", "k"), b"second");
    let tagged = store.find("plain", "tagged", Selector::Current).unwrap().version;
    assert_eq!(tagged.tags, [("colour".to_owned(), "grün".to_owned())]);
    assert_eq!(
        (tagged.checksums[0].value.as_slice(), tagged.etag),
        (&[1, 2, 3, 4][..], ETag::Md5(Md5::of(b"t")))
    );
    assert_eq!(tagged.attributes.get("content-type"), Some("text/plain"));
    let query = ListQuery { limit: 100, ..ListQuery::default() };
    let versions = store.list_versions("versioned", &query, None).unwrap();
    let listed: Vec<_> = versions
        .keys()
        .map(|(key, ListedVersion { version, latest })| (key, version.size, version.delete_marker, *latest))
        .collect();
    let expected =
        [("gone", 0, true, true), ("gone", 1, false, false), ("k", 6, false, true), ("k", 5, false, false)];
    assert_eq!(listed, expected.map(|(key, size, marker, latest)| (key.into(), size, marker, latest)));
    assert_eq!(store.list_uploads("plain", &query, None).unwrap().len(), 1);
    assert_eq!(store.bucket("versioned").unwrap().versioning, Versioning::Enabled);
}
