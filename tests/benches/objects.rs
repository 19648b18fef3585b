//! Objects to put, for benchmarks.

use siltstone::store::{Attributes, Commit, ETag, ObjectControls, StorageClass, Store, WriteCondition};

/// Puts an object in its place.
pub(super) fn put(store: &Store, bucket: &str, key: &str, bytes: &[u8]) {
    let mut writer = store.writer(bucket, key, Some(bytes.len() as u64)).expect("the bucket is there");
    writer.write(bytes).expect("there is room");
    let commit = Commit {
        storage_class: StorageClass::Standard,
        etag: ETag::Md5([0; 16]),
        attributes: Attributes::new(),
        checksums: vec![],
        tags: vec![],
        condition: WriteCondition::None,
        controls: ObjectControls::default(),
        stated_time: None,
    };
    writer.commit(commit).expect("the disk works");
}
