//! The store as a whole, over the simulated disk.

mod backup;
mod backup_keys;
mod basics;
mod causes;
mod churn;
mod clocks;
mod compact;
mod concurrent;
mod configurations;
mod controls;
mod crashes;
mod damage;
mod disks;
mod encrypted;
mod encrypted_disk;
mod encrypted_mirror;
mod expiry;
mod faults;
mod follow;
mod full_disk;
mod full_index;
mod hidden_objects;
mod history;
mod holes;
mod index_quotas;
mod loader;
mod locks;
mod log_scrub;
mod log_shadow;
mod lost_copies;
mod lost_files;
mod lost_local_files;
mod lost_segments;
mod many_versions;
mod mirrored;
mod model;
mod moving;
mod newer;
mod object_encryption;
mod parts;
mod placement;
mod probe;
mod quotas;
mod random;
mod rebuild;
mod reclaim;
mod remote_epoch;
mod remote_requests;
mod repair;
mod replay;
mod script;
mod scrub;
mod ship;
mod ship_boot;
mod ship_claims;
mod ship_crashes;
mod ship_lag;
mod ship_restart;
mod ship_window;
mod standby_pace;
mod standby_readers;
mod steps;
mod tier;
mod tier_space;
mod two_disks;
mod undelete;
mod unreadable;
mod upload_expiry;
mod verify;
mod waiting;
mod written;
mod zeros;

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use crate::base::digest::Md5;
use crate::base::{ManualClock, SeededEntropy, Timestamp};
use crate::fs::sim::SimFs;
use crate::log::SegmentPins;
use crate::offline::*;
use crate::store::objects::reader::EncodedBytes;
use crate::store::*;

/// Options that make no difference but size, and no commit that nobody asked for. The room that is
/// set aside in a log file costs most of the time of a test with many starts, so there is little of
/// it.
pub(super) fn options() -> StoreOptions {
    StoreOptions {
        log_file_max_bytes: 256 * 1024,
        keep_free_bytes: 0,
        idle_group_after: None,
        // Every store that is closed has a checkpoint.
        replay_after_close_max: Duration::ZERO,
        ..StoreOptions::default()
    }
}

pub(super) fn open(fs: &SimFs) -> Store {
    try_open(fs).expect("the store opens")
}

pub(super) fn try_open(fs: &SimFs) -> Result<Store, OpenError> {
    open_with(fs, options())
}

pub(super) fn open_with(fs: &SimFs, options: StoreOptions) -> Result<Store, OpenError> {
    let clock = Arc::new(ManualClock::new(Timestamp::from_millis(1_700_000_000_000)));
    Store::open(disks::disk(fs), clock, &SeededEntropy::new(1), options)
}

/// Where random tests start: `SILTSTONE_TEST_SEED`, or always the same. Printed, so that a failure
/// can be repeated.
pub(super) fn seed() -> u64 {
    let seed = std::env::var("SILTSTONE_TEST_SEED").map_or(1, |seed| seed.parse().expect("a number"));
    println!("SILTSTONE_TEST_SEED={seed}");
    seed
}

pub(super) fn commit_of(bytes: &[u8]) -> Commit {
    let mut attributes = Attributes::new();
    attributes.push("content-type", "text/plain");
    Commit {
        storage_class: StorageClass::Standard,
        etag: ETag::Md5(Md5::of(bytes)),
        attributes,
        checksums: vec![],
        tags: vec![],
        condition: WriteCondition::None,
        controls: ObjectControls::default(),
        stated_time: None,
    }
}

pub(super) fn put(
    store: &Store,
    bucket: &str,
    key: &str,
    bytes: &[u8],
) -> Result<CommittedVersion, StoreError> {
    put_if(store, bucket, key, bytes, WriteCondition::None)
}

pub(super) fn put_if(
    store: &Store,
    bucket: &str,
    key: &str,
    bytes: &[u8],
    condition: WriteCondition,
) -> Result<CommittedVersion, StoreError> {
    let mut writer = store.writer(bucket, key, Some(bytes.len() as u64))?;
    // Odd pieces, so that nothing depends on how the bytes arrive.
    for piece in bytes.chunks(100_003) {
        writer.write(piece)?;
    }
    writer.commit(Commit { condition, ..commit_of(bytes) })
}

pub(super) fn get(store: &Store, bucket: &str, key: &str) -> Result<Vec<u8>, StoreError> {
    let found = store.find(bucket, key, Selector::Current)?;
    let reader = store.read(&found, 0..found.version.size)?;
    to_end(reader)
}

pub(super) fn read_all(
    store: &Store,
    version: &VersionRecord,
    range: Range<u64>,
) -> Result<Vec<u8>, StoreError> {
    to_end(read_record(store, version, range)?)
}

pub(super) fn to_end(mut reader: ObjectReader) -> Result<Vec<u8>, StoreError> {
    let mut bytes = Vec::new();
    let mut buffer = vec![0; 150_000];
    loop {
        match reader.read(&mut buffer)? {
            0 => return Ok(bytes),
            len => bytes.extend_from_slice(&buffer[..len]),
        }
    }
}

/// A reader of a version that nothing takes away meanwhile.
pub(super) fn read_record(
    store: &Store,
    version: &VersionRecord,
    range: Range<u64>,
) -> Result<ObjectReader, StoreError> {
    let encryption = version.encryption.as_deref();
    let own = store.open_key(version, None)?;
    let rest = encryption.map_or(&[][..], |encryption| &encryption.keys[1..]);
    let keys = store.shared.open_rest(&own, rest.iter(), None)?;
    let runs = encryption.map(|encryption| &encryption.runs[..]);
    let source = EncodedBytes { extents: &version.extents, runs, keys };
    ObjectReader::open(store.shared.clone(), source, range, SegmentPins::default())
}

/// Reclaims, moves and extends the shadow until there is nothing left to do.
pub(super) fn reclaim_all(store: &Store) -> Result<(), StoreError> {
    while store.shadow_log()? {}
    while store.reclaim()?.more {}
    while store.move_segment()?.more {}
    Ok(())
}

pub(super) fn delete(store: &Store, bucket: &str, key: &str, which: Selector) -> Result<Deleted, StoreError> {
    let deletion = Deletion { key: key.into(), which, condition: DeleteCondition::default() };
    store.delete(bucket, vec![deletion])?.remove(0)
}

pub(super) fn keys(store: &Store, bucket: &str) -> Vec<String> {
    let page = store.list_objects(bucket, &ListQuery { limit: 10_000, ..ListQuery::default() }).unwrap();
    assert!(!page.truncated);
    page.items().map(|item| item.name().into_owned()).collect()
}

/// Bytes that differ in every block and for every seed.
pub(super) fn bytes(seed: u64, len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len];
    SeededEntropy::new(seed).fill(&mut bytes);
    bytes
}

/// An upload in parts with nothing special about it.
pub(super) fn new_upload() -> NewUpload {
    NewUpload {
        storage_class: StorageClass::Standard,
        initiator: "admin".into(),
        checksum: None,
        attributes: Attributes::new(),
        tags: vec![],
        controls: ObjectControls::default(),
    }
}

/// Begins such an upload.
pub(super) fn begin_upload(store: &Store, bucket: &str, key: &str) -> Result<UploadId, StoreError> {
    store.create_upload(bucket, key, new_upload()).map(|upload| upload.id)
}
