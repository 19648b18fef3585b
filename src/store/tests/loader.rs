//! What is read from damaged directories.

use super::*;
use crate::format::segment_path;
use crate::fs::Fs;

#[test]
fn a_missing_segment_of_the_last_pack_leaves_the_rest_to_be_read() {
    let fs = SimFs::new();
    let store = open(&fs);
    store.create_bucket("photos", "admin").unwrap();
    put(&store, "photos", "a", b"abc").unwrap();
    drop(store);
    fs.remove(&segment_path(1)).unwrap();
    let store = open(&fs);
    assert!(store.health().read_only.unwrap().contains("the segment is missing"));
    assert_eq!(store.health().read_only_reason, Some(ReadOnlyReason::SegmentLost));
    assert_eq!(keys(&store, "photos"), ["a"]);
    assert!(matches!(get(&store, "photos", "a"), Err(StoreError::Corrupt(_))));
}
