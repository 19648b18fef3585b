//! Quotas of the bytes of the index: what has few bytes itself, and fills the index that all
//! buckets share.

use super::*;
use crate::base::limits::MIB;
use crate::fs::sim::CrashPolicy;
use crate::index::{BUCKET_BYTES, configuration_bytes};

const CEILING: u64 = MIB;

/// A store with a small index, in which `ann` and `bob` own a bucket of their name.
fn shared_store(fs: &SimFs) -> Store {
    let store = open_with(fs, StoreOptions { index_max_bytes: CEILING, ..options() }).unwrap();
    for owner in ["ann", "bob"] {
        store.create_bucket(owner, owner).unwrap();
    }
    store.set_versioning("ann", Versioning::Enabled).unwrap();
    store
}

fn of_index(bytes: u64) -> Quota {
    Quota { index_bytes: Some(bytes), ..Quota::default() }
}

fn used(store: &Store, bucket: &str) -> u64 {
    store.usage(bucket).unwrap().index_bytes
}

fn mark(store: &Store, key: &str) -> Result<Deleted, StoreError> {
    delete(store, "ann", key, Selector::Current)
}

/// Repeats a request until the quota of the index refuses it; says how often it was done.
fn until_refused<T>(mut request: impl FnMut(u64) -> Result<T, StoreError>) -> u64 {
    for nth in 0..100_000 {
        match request(nth).map(drop) {
            Ok(()) => {}
            Err(StoreError::QuotaExceeded { limit: "index_bytes", .. }) => return nth,
            Err(other) => panic!("{nth}: {other}"),
        }
    }
    panic!("nothing is refused");
}

/// Whether another owner can still write.
fn others_go_on(store: &Store) {
    put(store, "bob", "of another", b"bytes").unwrap();
    assert!(!store.health().index_full, "{:?}", store.health());
}

#[test]
fn a_quota_of_anything_protects_the_index_from_delete_markers() {
    let fs = SimFs::new();
    let store = shared_store(&fs);
    store.set_owner_quota("ann", Some(&Quota { objects: Some(10), ..Quota::default() })).unwrap();
    put(&store, "ann", "there", b"x").unwrap();
    let limited = store.limited_owner("ann");
    assert_eq!(limited.in_force.index_bytes, Some(CEILING / 4), "without being told");
    let done = until_refused(|nth| mark(&store, &format!("absent-{nth:05}")));
    assert!((2_000..4_000).contains(&done), "{done}");
    let refused = mark(&store, "absent-00000");
    assert!(matches!(refused, Err(StoreError::QuotaExceeded { .. })), "deleted already: {refused:?}");
    others_go_on(&store);
    // What is there goes, markers go, and then there is room again.
    let marker = mark(&store, "there").unwrap();
    assert!(marker.delete_marker);
    assert!(matches!(put(&store, "ann", "new", b""), Err(StoreError::QuotaExceeded { .. })));
    let before = used(&store, "ann");
    for nth in 0..2 {
        let key = format!("absent-{nth:05}");
        let found = store.find("ann", &key, Selector::Current).unwrap();
        delete(&store, "ann", &key, Selector::Id(found.version.id)).unwrap();
    }
    assert_eq!(before - used(&store, "ann"), 2 * (64 + 12));
    mark(&store, "gone again").unwrap();
}

#[test]
fn markers_of_one_request_are_refused_one_by_one() {
    let fs = SimFs::new();
    let store = shared_store(&fs);
    put(&store, "ann", "z-there", b"x").unwrap();
    let quota = of_index(used(&store, "ann") + configuration_bytes(30) + 10 * (64 + 3));
    store.set_bucket_quota("ann", Some(&quota)).unwrap();
    let keys = (0..40).map(|nth| format!("{nth:03}")).chain(["z-there".to_owned()]);
    let deletions =
        keys.map(|key| Deletion { key, which: Selector::Current, condition: DeleteCondition::default() });
    let results = store.delete("ann", deletions.collect()).unwrap();
    let refused = results.iter().filter(|result| result.is_err()).count();
    assert!((29..=30).contains(&refused), "{refused} of {}", results.len());
    assert!(results.last().unwrap().is_ok(), "an object is there");
    assert!(used(&store, "ann") <= quota.index_bytes.unwrap() + 64 + 7);
}

#[test]
fn a_null_marker_in_place_of_another_is_no_growth() {
    let fs = SimFs::new();
    let store = shared_store(&fs);
    store.set_versioning("ann", Versioning::Suspended).unwrap();
    mark(&store, "k").unwrap();
    store.set_bucket_quota("ann", Some(&of_index(0))).unwrap();
    let before = used(&store, "ann");
    mark(&store, "k").unwrap();
    assert_eq!(used(&store, "ann"), before);
    assert!(matches!(mark(&store, "other"), Err(StoreError::QuotaExceeded { .. })));
}

#[test]
fn whatever_grows_the_index_is_counted_to_the_owner() {
    let fs = SimFs::new();
    let store = shared_store(&fs);
    put(&store, "ann", "tagged", b"x").unwrap();
    store.set_owner_quota("ann", Some(&of_index(60_000))).unwrap();
    let owned = || store.limited_owner("ann").usage.content.index_bytes;
    let free = |of: &dyn Fn()| {
        of();
        assert!(owned() <= 60_000, "{}", owned());
        others_go_on(&store);
    };
    free(&|| {
        until_refused(|nth| store.create_bucket(&format!("another-{nth}"), "ann"));
        assert_eq!(owned() / BUCKET_BYTES, 60_000 / BUCKET_BYTES);
        let made = store.limited_owner("ann").usage.buckets - 1;
        (0..made).for_each(|nth| store.delete_bucket(&format!("another-{nth}")).unwrap());
    });
    free(&|| {
        let policy = |len| {
            store.set_bucket_configuration("ann", BucketConfigurationKind::Policy, Some(vec![b' '; len]))
        };
        policy(7_000).unwrap();
        assert!(matches!(policy(8_000), Err(StoreError::QuotaExceeded { .. })));
        policy(6_999).unwrap();
        store.set_bucket_configuration("ann", BucketConfigurationKind::Policy, None).unwrap();
    });
    free(&|| {
        let mut begun = Vec::new();
        until_refused(|nth| {
            begun.push(begin_upload(&store, "ann", &format!("upload-{nth}"))?);
            Ok(())
        });
        assert!(begun.len() > 50, "{}", begun.len());
        for (nth, id) in begun.into_iter().enumerate() {
            store.abort_upload("ann", &format!("upload-{nth}"), id).unwrap();
        }
    });
    free(&|| {
        let id = begin_upload(&store, "ann", "parts").unwrap();
        let part = |number: u64| {
            store.part_writer("ann", "parts", id, number as u32 + 1, Some(0))?.commit([0; 16], None)
        };
        let parts = until_refused(part);
        assert!((300..470).contains(&parts), "{parts}");
        part(0).unwrap();
        store.abort_upload("ann", "parts", id).unwrap();
    });
    free(&|| {
        let version = store.find("ann", "tagged", Selector::Current).unwrap().version;
        let tag = |len: usize| vec![("k".to_owned(), "v".repeat(len))];
        let room = (60_000 - owned()) as usize;
        store.set_tags("ann", "tagged", version.clone(), tag(room - 10)).unwrap();
        let refused = store.set_tags("ann", "tagged", version.clone(), tag(room + 10));
        assert!(matches!(refused, Err(StoreError::QuotaExceeded { .. })));
        store.set_tags("ann", "tagged", version, vec![]).unwrap();
    });
    free(&|| {
        let metadata = |nth: u64| {
            let mut commit = commit_of(b"");
            commit.attributes.push("meta-a", "x".repeat(2_000));
            store.writer("ann", &format!("heavy-{nth}"), Some(0))?.commit(commit)
        };
        assert!((25..30).contains(&until_refused(metadata)));
    });
    // No quota keeps an administrator from setting quotas and pins.
    store.set_bucket_quota("ann", Some(&of_index(0))).unwrap();
    let pin = Some(b"{}".to_vec());
    store.set_bucket_configuration("ann", BucketConfigurationKind::Placement, pin).unwrap();
    assert!(matches!(store.create_bucket("refused", "ann"), Err(StoreError::QuotaExceeded { .. })));
}

#[test]
fn the_count_is_the_same_after_every_kind_of_restart() {
    let fs = SimFs::new();
    let store = shared_store(&fs);
    for nth in 0..50 {
        put(&store, "ann", &format!("k{}", nth % 20), &bytes(nth, nth as usize)).unwrap();
    }
    for nth in 0..7 {
        mark(&store, &format!("k{nth}")).unwrap();
    }
    let id = begin_upload(&store, "ann", "upload").unwrap();
    store.part_writer("ann", "upload", id, 1, Some(0)).unwrap().commit([0; 16], None).unwrap();
    store.set_owner_quota("ann", Some(&of_index(used(&store, "ann")))).unwrap();
    let expected = used(&store, "ann");
    let check = |store: &Store, from: &str| {
        assert_eq!(used(store, "ann"), expected, "{from}");
        assert_eq!(store.limited_owner("ann").usage.content.index_bytes, expected, "{from}");
        assert!(matches!(mark(store, "absent"), Err(StoreError::QuotaExceeded { .. })), "{from}");
    };
    check(&store, "as counted");
    reclaim_all(&store).unwrap();
    check(&store, "after a compaction");
    drop(store);
    let fs = fs.crash(CrashPolicy::DropAll);
    let store = open(&fs);
    check(&store, "from the log after a crash");
    store.close();
    drop(store);
    let store = open(&fs);
    check(&store, "from a checkpoint");
}
