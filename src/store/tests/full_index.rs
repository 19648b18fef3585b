//! The index comes to its ceiling: what makes it grow is refused, and all else goes on.

use super::*;
use crate::base::limits::MIB;

const CEILING: u64 = MIB;
/// From there on nothing grows but by delete markers.
const FULL: u64 = CEILING / 32 * 31;

fn bounded() -> StoreOptions {
    StoreOptions { index_max_bytes: CEILING, ..options() }
}

/// A commit with as much metadata as a client may give.
fn costly() -> Commit {
    let mut commit = commit_of(b"");
    commit.attributes.push("expires", "e".repeat(2_000));
    commit
}

fn put_costly(store: &Store, bucket: &str, key: &str) -> Result<CommittedVersion, StoreError> {
    store.writer(bucket, key, Some(0))?.commit(costly())
}

fn is_full<T: std::fmt::Debug>(result: Result<T, StoreError>) {
    match result {
        Err(StoreError::IndexFull { used, ceiling: CEILING }) if used > FULL - 50_000 => {}
        other => panic!("{other:?}"),
    }
}

/// Puts keys until no more is taken, and says how many there are.
fn fill(store: &Store, bucket: &str) -> usize {
    let count = (0..2_000).find(|nth| put_costly(store, bucket, &format!("{nth:04}")).is_err());
    let count = count.expect("there is a ceiling");
    is_full(put_costly(store, bucket, "one more"));
    let health = store.health();
    assert!(health.index_full && health.read_only.is_none() && health.index_bytes <= FULL, "{health:?}");
    assert!(count > 300, "a key takes what it must: {count}");
    count
}

fn new_upload() -> NewUpload {
    NewUpload {
        storage_class: StorageClass::Standard,
        initiator: "admin".into(),
        checksum: None,
        attributes: costly().attributes,
        tags: vec![],
        controls: ObjectControls::default(),
    }
}

fn put_part(store: &Store, upload: UploadId, number: u32) -> Result<PartRecord, StoreError> {
    store.part_writer("b", "upload", upload, number, Some(1))?.commit([0; 16], None)
}

fn whole(store: &Store, key: &str) -> CopyRange {
    let found = store.find("b", key, Selector::Current).unwrap();
    let range = 0..found.version.size;
    CopyRange { bucket: found.bucket.id, key: key.into(), version: found.version, range }
}

#[test]
fn what_makes_a_full_index_grow_is_refused_and_all_else_goes_on() {
    let fs = SimFs::new();
    let store = open_with(&fs, bounded()).unwrap();
    store.create_bucket("b", "admin").unwrap();
    put(&store, "b", "small", b"bytes").unwrap();
    let [completed, aborted] = [(); 2].map(|()| store.create_upload("b", "upload", new_upload()).unwrap().id);
    let part = put_part(&store, completed, 1).unwrap();
    let count = fill(&store, "b");

    is_full(put(&store, "b", "small", b"again"));
    is_full(store.copy(whole(&store, "small"), "b", "copy", costly()));
    is_full(store.create_upload("b", "other", new_upload()));
    is_full(put_part(&store, completed, 2));
    is_full(store.copy_part(whole(&store, "small"), ("b", "upload"), (completed, 3), [0; 16], None));
    is_full(store.create_bucket("another", "admin"));
    let version = store.find("b", "small", Selector::Current).unwrap().version;
    is_full(store.set_tags("b", "small", version.clone(), vec![("a".into(), "b".repeat(256))]));

    assert_eq!(get(&store, "b", "small").unwrap(), b"bytes");
    store.set_tags("b", "small", version, vec![]).unwrap();
    store.set_versioning("b", Versioning::Unset).unwrap();
    let completion = Completion { upload: completed, parts: vec![part], commit: costly() };
    store.complete_upload("b", "upload", completion).unwrap();
    store.abort_upload("b", "upload", aborted).unwrap();
    store.checkpoint().unwrap();
    for nth in 0..count {
        delete(&store, "b", &format!("{nth:04}"), Selector::Current).unwrap();
    }
    assert!(!store.health().index_full);
    put(&store, "b", "small", b"again").unwrap();
}

#[test]
fn delete_markers_go_on_up_to_the_ceiling_and_deletes_for_good_beyond_it() {
    let fs = SimFs::new();
    let store = open_with(&fs, bounded()).unwrap();
    store.create_bucket("b", "admin").unwrap();
    store.set_versioning("b", Versioning::Enabled).unwrap();
    fill(&store, "b");
    let key = "k".repeat(1_000);
    let mark = |nth: usize| delete(&store, "b", &format!("{nth:04}{key}"), Selector::Current);
    let marked = (0..1_000).find(|nth| mark(*nth).is_err()).expect("there is a ceiling");
    assert!(marked > 5 && store.index_bytes() <= CEILING, "{marked} markers");
    assert_eq!(mark(1_000), Err(StoreError::IndexFull { used: store.index_bytes(), ceiling: CEILING }));
    let newest = store.find("b", "0000", Selector::Current).unwrap().version.id;
    delete(&store, "b", "0000", Selector::Id(newest)).unwrap();
    mark(1_000).unwrap();
    is_full(put_costly(&store, "b", "one more"));
}

#[test]
fn a_store_beyond_the_ceiling_opens_and_takes_deletes_until_there_is_room() {
    let fs = SimFs::new();
    let store = open(&fs);
    store.create_bucket("b", "admin").unwrap();
    for nth in 0..1_000 {
        put_costly(&store, "b", &format!("{nth:04}")).unwrap();
    }
    let beyond = store.index_bytes();
    assert!(beyond > 2 * CEILING);
    drop(store);

    let store = open_with(&fs, bounded()).unwrap();
    let health = store.health();
    assert!(health.index_full && health.read_only.is_none() && health.index_bytes > CEILING);
    is_full(put_costly(&store, "b", "one more"));
    for nth in 0..1_000 {
        delete(&store, "b", &format!("{nth:04}"), Selector::Current).unwrap();
        let beyond = store.index_bytes() > FULL;
        if put_costly(&store, "b", "one more").is_ok() {
            assert!(!beyond, "after {nth} deletes");
            return;
        }
    }
    panic!("deletes make no room");
}

#[test]
fn writers_that_come_at_once_do_not_go_beyond_it_together() {
    let fs = SimFs::new();
    let store = open_with(&fs, bounded()).unwrap();
    store.create_bucket("b", "admin").unwrap();
    std::thread::scope(|scope| {
        for thread in 0..16 {
            let store = &store;
            scope.spawn(move || {
                let refused =
                    (0..200).find(|nth| put_costly(store, "b", &format!("{thread}/{nth}")).is_err());
                assert!(refused.is_some());
            });
        }
    });
    assert!(store.index_bytes() <= FULL, "{}", store.index_bytes());
}
