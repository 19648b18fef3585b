use std::time::Duration;

use super::*;

const HOUR: Duration = Duration::from_secs(3600);

fn open_at(clock: &Arc<ManualClock>, abort_uploads_after: Option<Duration>) -> Store {
    let options = StoreOptions { abort_uploads_after, ..options() };
    let store = Store::open(Arc::new(SimFs::new()), clock.clone(), &SeededEntropy::new(1), options).unwrap();
    store.create_bucket("a", "admin").unwrap();
    store.create_bucket("b", "admin").unwrap();
    store
}

pub(super) fn begin(store: &Store, bucket: &str, key: &str) -> UploadId {
    begin_upload(store, bucket, key).unwrap()
}

fn clock() -> Arc<ManualClock> {
    Arc::new(ManualClock::new(Timestamp::from_millis(1_700_000_000_000)))
}

#[test]
fn uploads_older_than_the_age_are_aborted_and_their_parts_freed() {
    let clock = clock();
    let store = open_at(&clock, Some(HOUR));
    // More than one page of them.
    let old: Vec<_> = (0..1005).map(|i| format!("k{i}")).map(|key| (begin(&store, "b", &key), key)).collect();
    begin(&store, "a", "k0");
    let mut part = store.part_writer("b", "k7", old[7].0, 1, None).unwrap();
    part.write(bytes(1, 100_000)).unwrap();
    part.commit([0; 16], None).unwrap();
    clock.advance(HOUR);
    let young = begin(&store, "b", "k7");
    assert_eq!(store.abort_idle_uploads(&|_, _, _| false), Ok(0));
    clock.advance(Duration::from_millis(1));
    assert_eq!(store.abort_idle_uploads(&|_, _, _| false), Ok(1006));
    assert_eq!(store.upload_record("b", "k7", young).unwrap().id, young);
    for (id, key) in old {
        assert_eq!(store.upload_record("b", &key, id), Err(StoreError::NoSuchUpload));
    }
    assert_eq!(store.health().live_bytes, 0);
    assert_eq!(store.abort_idle_uploads(&|_, _, _| false), Ok(0));
}

#[test]
fn an_upload_that_gets_parts_goes_on_and_one_with_a_rule_is_left_to_it() {
    let clock = clock();
    let store = open_at(&clock, Some(HOUR));
    let busy = begin(&store, "a", "busy");
    let ruled = begin(&store, "b", "ruled");
    clock.advance(HOUR);
    let mut part = store.part_writer("a", "busy", busy, 1, None).unwrap();
    part.write(b"abc").unwrap();
    part.commit([0; 16], None).unwrap();
    clock.advance(HOUR);
    let abort = || store.abort_idle_uploads(&|bucket, key, _| (&*bucket.info.name, key) == ("b", "ruled"));
    assert_eq!(abort(), Ok(0));
    clock.advance(Duration::from_millis(1));
    assert_eq!(abort(), Ok(1));
    assert_eq!(store.upload_record("a", "busy", busy), Err(StoreError::NoSuchUpload));
    assert!(store.upload_record("b", "ruled", ruled).is_ok());
}

#[test]
fn no_upload_is_too_old_where_no_age_is_set() {
    let clock = clock();
    let store = open_at(&clock, None);
    let id = begin(&store, "b", "k");
    clock.advance(HOUR * 24 * 365);
    assert_eq!(store.abort_idle_uploads(&|_, _, _| false), Ok(0));
    assert!(store.upload_record("b", "k", id).is_ok());
}

/// Gives an upload parts that are far apart, of which each takes a row of its own.
fn put_sparse_parts(store: &Store, key: &str, upload: UploadId) {
    for nth in 0..520 {
        store.part_writer("b", key, upload, 1 + 16 * nth, Some(0)).unwrap().commit([0; 16], None).unwrap();
    }
}

#[test]
fn uploads_of_many_parts_go_in_several_groups_and_before_their_bucket() {
    let store = open_at(&clock(), None);
    let groups_of = |act: &dyn Fn()| {
        let before = store.health().sequence;
        act();
        store.health().sequence - before
    };
    let keys: Vec<_> = (0..3).map(|nth| format!("k{nth}")).collect();
    for key in &keys {
        let upload = begin(&store, "b", key);
        put_sparse_parts(&store, key, upload);
    }
    for nth in 0..600 {
        begin(&store, "b", &format!("small-{nth}"));
    }
    put(&store, "b", "object", b"x").unwrap();
    let refused = groups_of(&|| assert_eq!(store.delete_bucket("b"), Err(StoreError::BucketNotEmpty)));
    assert_eq!((refused, store.usage("b").unwrap().uploads.count), (0, 603));
    delete(&store, "b", "object", Selector::Current).unwrap();
    // One for each of the large ones, the last with some of the others; one for the rest of them,
    // and one for the bucket.
    assert_eq!(groups_of(&|| store.delete_bucket("b").unwrap()), 5);
    assert_eq!((store.bucket("b").map(drop), store.health().live_bytes), (Err(StoreError::NoSuchBucket), 0));
}
