//! The memory that the index reports, compared with the growth of the process. Each kind of content
//! runs in a process of its own, so that nothing else grows.

use std::process::Command;

use siltstone::base::limits::MIB;
use siltstone::base::{Entropy as _, SeededEntropy, Timestamp};
use siltstone::format::{
    Attributes, BucketRecord, ETag, Entry, ExtentRef, ObjectControls, PartRecord, Retention, RetentionMode,
    StorageClass, UploadId, UploadRecord, VersionId, VersionRecord, Versioning,
};
use siltstone::index::Index;

use crate::support::every_nth;

/// The content that the child process measures.
const KIND: &str = "SILTSTONE_TEST_INDEX_KIND";
const TEST: &str = "index_memory::the_index_reports_the_memory_that_it_uses";

fn bucket(id: u64) -> Entry {
    let name = format!("bucket-{id:04}");
    let owner = "admin".to_owned();
    let created = Timestamp::default();
    Entry::BucketPut(BucketRecord { id, name, owner, created, versioning: Versioning::Unset })
}

fn extent(nth: u64, shared: bool) -> ExtentRef {
    let len = 4096;
    let segment = 1 + nth / 50_000;
    let offset = nth % 50_000 * 5_312;
    ExtentRef { segment, offset: offset / 64 * 64, payload_len: len, check: 7, skip: 0, take: len, shared }
}

fn version(nth: u64, draw: &SeededEntropy) -> VersionRecord {
    let mut md5 = [0; 16];
    draw.fill(&mut md5);
    let mut attributes = Attributes::new();
    attributes.push("content-type", "image/jpeg");
    VersionRecord {
        storage_class: StorageClass::Standard,
        id: VersionId(1_790_000_000_000_000 + nth),
        null: false,
        delete_marker: false,
        modified: Timestamp::from_millis(1_790_000_000_000 + nth),
        size: 4096,
        etag: ETag::Md5(md5),
        extents: vec![extent(nth, false)],
        attributes,
        checksums: vec![],
        tags: vec![],
        upload: None,
        controls: ObjectControls::default(),
        controls_stamp: None,
        encryption: None,
        stated_time: None,
    }
}

fn put(key: String, record: VersionRecord) -> Entry {
    Entry::VersionPut { bucket: 1, key: key.into_bytes(), record }
}

/// Keys in scattered order.
fn key(nth: u64) -> String {
    let scattered = nth * 2_654_435_761 % 1_000_003;
    format!("photos/2026/{:02}/camera-{:02}/img-{scattered:08}.jpg", scattered % 12, scattered % 7)
}

fn upload(nth: u64, tags: usize) -> Entry {
    let text = |name: &str, at: usize| format!("{name}-{at}-{}", "x".repeat(50));
    let record = UploadRecord {
        storage_class: StorageClass::Standard,
        id: UploadId(nth),
        initiated: Timestamp::from_millis(nth),
        initiator: "some-user".to_owned(),
        checksum: None,
        attributes: Attributes::new(),
        tags: (0..tags).map(|at| (text("name", at), text("value", at))).collect(),
        controls: ObjectControls::default(),
        encryption: None,
    };
    Entry::UploadPut { bucket: 1, key: key(nth).into_bytes(), record }
}

fn part(number: u64) -> Entry {
    let upload = UploadId(5);
    let key = key(5).into_bytes();
    let modified = Timestamp::from_millis(number);
    let extents = vec![extent(number, false)];
    let record = PartRecord {
        number: number as u32,
        id: number,
        modified,
        size: 4096,
        md5: [1; 16],
        extents,
        checksum: None,
        encryption: None,
    };
    Entry::PartPut { bucket: 1, key, upload, record }
}

/// The `nth` change of that kind.
fn entries(kind: &str, nth: u64, draw: &SeededEntropy) -> Vec<Entry> {
    let mut record = version(nth, draw);
    match kind {
        "keys" => vec![put(key(nth), record)],
        "versions" => vec![put(key(nth % 100), record)],
        "metadata" => {
            record.attributes.push("expires", "e".repeat(2_000));
            vec![put(key(nth), record)]
        }
        "tags" => {
            record.tags = (0..10).map(|at| (format!("tag-{at}"), "t".repeat(100))).collect();
            vec![put(key(nth), record)]
        }
        "controls" => {
            let until = Timestamp::from_millis(1_900_000_000_000 + nth);
            record.controls.retention = Some(Retention { mode: RetentionMode::Compliance, until });
            vec![put(key(nth), record)]
        }
        "copies" => {
            record.extents[0].shared = true;
            let copy = VersionRecord { id: VersionId(record.id.0 + 1_000_000), ..record.clone() };
            let amend = Entry::VersionAmend { bucket: 1, key: key(nth).into_bytes(), record: record.clone() };
            record.extents[0].shared = false;
            vec![put(key(nth), record), amend, put(format!("copy/{}", key(nth)), copy)]
        }
        "segments" => {
            record.extents[0].segment = nth;
            vec![put(key(nth), record)]
        }
        "uploads" => vec![upload(nth, 0)],
        "uploads with tags" => vec![upload(nth, 10)],
        "parts" => vec![part(nth)],
        "buckets" => vec![bucket(nth + 10)],
        other => panic!("{other} is no kind of content"),
    }
}

const KINDS: [(&str, u64); 11] = [
    ("keys", 60_000),
    ("versions", 60_000),
    ("metadata", 6_000),
    ("tags", 8_000),
    ("controls", 60_000),
    ("copies", 20_000),
    ("segments", 20_000),
    ("uploads", 20_000),
    ("uploads with tags", 5_000),
    ("parts", 60_000),
    ("buckets", 8_000),
];

/// The memory of the process that no file stands behind, in bytes: pages of the program that its
/// code touches for the first time are none of the index.
fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("RssAnon:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() * 1024
}

fn measure(kind: &str) {
    let count = KINDS.iter().find(|(name, _)| *name == kind).unwrap().1;
    let draw = SeededEntropy::new(1);
    let mut index = Index::new();
    index.apply(&bucket(1)).unwrap();
    index.apply(&upload(5, 0)).unwrap();
    let before = resident();
    let counted_before = index.memory_bytes();
    for nth in 0..count {
        // Part numbers and stamps start at 1.
        entries(kind, nth + 1, &draw).iter().for_each(|entry| index.apply(entry).unwrap());
    }
    let grown = resident() - before;
    let counted = index.memory_bytes() - counted_before;
    println!("{kind}: counted {}, grown by {} bytes each", counted / count, grown / count);
    // An allocator has holes after leaves were allocated and freed: about a fifth here, and less in
    // a larger index.
    assert!(grown <= counted * 130 / 100 + 2 * MIB, "{kind}: {grown} bytes, and {counted} are counted");
    assert!(counted <= grown * 130 / 100 + MIB, "{kind}: {grown} bytes, and {counted} are counted");
}

#[test]
fn the_index_reports_the_memory_that_it_uses() {
    if let Ok(kind) = std::env::var(KIND) {
        return measure(&kind);
    }
    for (kind, _) in every_nth(&KINDS, 3) {
        let child = Command::new(std::env::current_exe().unwrap())
            .args([TEST, "--exact", "--nocapture"])
            .env(KIND, kind)
            // As in the server, allocations of this size come from the heap.
            .env("MALLOC_ARENA_MAX", "1")
            .output();
        let child = child.unwrap();
        let told = String::from_utf8_lossy(&child.stdout).into_owned();
        print!(
            "{}",
            told.lines()
                .filter(|line| line.contains("counted"))
                .map(|l| format!("{l}\n"))
                .collect::<String>()
        );
        assert!(child.status.success(), "{told}{}", String::from_utf8_lossy(&child.stderr));
    }
}
