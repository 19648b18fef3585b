//! What a log holds that is made from the segments alone: everything that is there, and beside it
//! nothing but what once was.

use super::steps::{Run, bare};
use super::world::{Bucket, Object, Pending};
use super::*;
use crate::offline::rebuild::{RebuildOptions, RebuildReport};
use crate::offline::verify::{NamedOwner, RecordRef};

/// A disk with the segments of another and nothing else.
pub(in crate::store::tests) fn segments_of(fs: &SimFs) -> SimFs {
    let copy = SimFs::new();
    copy.create_dir("data").unwrap();
    for (path, _) in fs.files().iter().filter(|(path, _)| path.starts_with("data/")) {
        // One in which nothing is wanted may go meanwhile.
        if let Ok(bytes) = fs.contents(path) {
            copy.create(path).unwrap().write_all_at(&bytes, 0).unwrap();
        }
    }
    copy
}

/// Makes a log for a disk that has none.
pub(in crate::store::tests) fn rebuild_log(fs: &SimFs) -> RebuildReport {
    let clock = ManualClock::new(Timestamp::from_millis(1_700_000_000_000));
    let options = RebuildOptions { replace: false, owner: "nobody".into() };
    rebuild(fs, &clock, &options, &mut |_| {}).expect("it can be rebuilt")
}

impl Run {
    pub(super) fn check_rebuilt(&self) {
        let fs = segments_of(&self.fs);
        let rebuilt = rebuild_log(&fs);
        assert_eq!(rebuilt.damage, []);
        // What was deleted may have lost its bytes before its record.
        assert!(rebuilt.lost.iter().all(|lost| !self.is_there(&lost.owner)), "{:#?}", rebuilt.lost);
        let report = verify(&fs, &mut |_| {}).unwrap();
        assert_eq!(report.findings, []);
        let store = open(&fs);
        for (name, bucket) in &self.world.buckets {
            self.check_rebuilt_bucket(&store, name, bucket);
            bucket.uploads.values().for_each(|pending| check_rebuilt_upload(&store, name, bucket, pending));
        }
    }

    fn is_there(&self, NamedOwner { bucket, key, record, .. }: &NamedOwner) -> bool {
        let Ok(bucket) = self.world.bucket(bucket) else { return false };
        match record {
            RecordRef::Version { id, .. } => {
                bucket.versions(key).iter().any(|object| object.record.id == *id && !object.is_of_no_part())
            }
            RecordRef::Part { upload, number } => {
                let pending = bucket.uploads.get(&(key.clone(), *upload));
                pending.is_some_and(|pending| pending.parts.contains_key(number))
            }
        }
    }

    fn check_rebuilt_bucket(&self, store: &Store, name: &str, bucket: &Bucket) {
        let restored = |object: &Object| !object.record.delete_marker && !object.is_of_no_part();
        let objects = || bucket.all().filter(|(_, object)| restored(object));
        let parts = bucket.uploads.values().any(|pending| !pending.parts.is_empty());
        if objects().next().is_none() && !parts {
            return;
        }
        let versioning = bucket.told.expect("something was put");
        assert_eq!(store.bucket(name), Ok(BucketInfo { versioning, ..bucket.info.clone() }));
        for (key, object) in objects() {
            let found = store.find(name, key, object.selector()).expect("it is there").version;
            let tags = object.first_tags.clone();
            let controls = object.recorded_controls.clone();
            let storage_class = object.first_class;
            let expected = VersionRecord { tags, controls, storage_class, ..object.record.clone() };
            assert_eq!(
                VersionRecord { extents: vec![], controls_stamp: None, ..found.clone() },
                expected,
                "{name}/{key}"
            );
            assert!(read_all(store, &found, 0..found.size).unwrap() == *object.bytes, "{name}/{key}");
        }
        for key in KEYS {
            let there = store.shared.index();
            let ids: Vec<_> = there.summaries(bucket.info.id, key.as_bytes()).map(|v| v.id).collect();
            assert!(ids.iter().all(|id| self.acknowledged.contains(id)), "{name}/{key}: {ids:?}");
            assert!(ids.is_sorted_by(|one, next| one > next), "newest first: {ids:?}");
        }
    }
}

fn check_rebuilt_upload(store: &Store, name: &str, bucket: &Bucket, pending: &Pending) {
    if pending.parts.is_empty() {
        return;
    }
    let id = pending.record.id;
    let (key, _) = bucket.uploads.keys().find(|(_, upload)| *upload == id).expect("it is among them");
    let found = store.upload(name, key, id).expect("it is there");
    assert_eq!(found.record, pending.record);
    assert_eq!(
        found.parts.iter().map(bare).collect::<Vec<_>>(),
        pending.parts.values().map(|(part, _)| part.clone()).collect::<Vec<_>>()
    );
    for (part, (_, bytes)) in found.parts.iter().zip(pending.parts.values()) {
        let mut read = vec![0; part.size as usize];
        store.read_part(name, key, id, part).unwrap().read(&mut read).unwrap();
        assert!(read == **bytes, "part {} of {name}/{key}", part.number);
    }
}
