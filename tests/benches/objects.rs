//! A store on a real disk and objects in it, for benchmarks.

use std::path::Path;
use std::sync::Arc;

use siltstone::base::{OsEntropy, SystemClock};
use siltstone::fs::OsFs;
use siltstone::store::{Attributes, Commit, ETag, Options, Store, WriteCondition};

/// A store in a directory, which is made where it is missing.
pub(super) fn open_with(dir: &Path, options: Options) -> Store {
    let disk = OsFs::new(dir);
    disk.create_root().expect("the directory can be made");
    Store::open(Arc::new(disk), Arc::new(SystemClock), &OsEntropy, options).expect("the store opens")
}

/// Puts an object in its place.
pub(super) fn put(store: &Store, bucket: &str, key: &str, bytes: &[u8]) {
    let mut writer = store.writer(bucket, key, Some(bytes.len() as u64)).expect("the bucket is there");
    writer.write(bytes).expect("there is room");
    let commit = Commit {
        etag: ETag::Md5([0; 16]),
        attributes: Attributes::new(),
        checksums: vec![],
        tags: vec![],
        condition: WriteCondition::None,
    };
    writer.commit(commit).expect("the disk works");
}
