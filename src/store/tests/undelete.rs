use super::*;
use crate::offline::undelete::{Undeletable, UndeleteQuery};

fn found(store: &Store, query: &UndeleteQuery) -> Vec<Undeletable> {
    let mut all = Vec::new();
    let mut take = |found: &[Undeletable]| {
        all.extend_from_slice(found);
        Ok(())
    };
    store.undeletable("b", query, &mut take).unwrap();
    all
}

fn undelete(store: &Store, query: &UndeleteQuery) -> Vec<String> {
    let mut keys = Vec::new();
    let mut take_back = |found: &[Undeletable]| {
        keys.extend(found.iter().map(|found| found.key.clone()));
        store.undelete("b", found)
    };
    store.undeletable("b", query, &mut take_back).unwrap();
    keys
}

/// An hour passes between the two deletions of `a/2`. The key `gone` has only markers, and `there`
/// has none.
fn store() -> (Store, Arc<ManualClock>) {
    let clock = Arc::new(ManualClock::new(Timestamp::from_millis(1_700_000_000_000)));
    let store =
        Store::open(Arc::new(SimFs::new()), clock.clone(), &SeededEntropy::new(1), options()).unwrap();
    store.create_bucket("b", "admin").unwrap();
    store.set_versioning("b", Versioning::Enabled).unwrap();
    for key in ["a/1", "a/2", "b/1", "there"] {
        put(&store, "b", key, b"old").unwrap();
        put(&store, "b", key, key.as_bytes()).unwrap();
    }
    for key in ["a/1", "a/2", "b/1", "gone"] {
        delete(&store, "b", key, Selector::Current).unwrap();
    }
    clock.advance(Duration::from_secs(3600));
    delete(&store, "b", "a/2", Selector::Current).unwrap();
    (store, clock)
}

#[test]
fn deletions_are_found_and_undone() {
    let (store, _) = store();
    let all = found(&store, &UndeleteQuery::default());
    let told: Vec<_> = all.iter().map(|f| (f.key.as_str(), f.markers.len(), f.version.size)).collect();
    assert_eq!(told, [("a/1", 1, 3), ("a/2", 2, 3), ("b/1", 1, 3)]);
    assert_eq!(keys(&store, "b"), ["there"]);
    assert_eq!(undelete(&store, &UndeleteQuery::default()), ["a/1", "a/2", "b/1"]);
    assert_eq!(keys(&store, "b"), ["a/1", "a/2", "b/1", "there"]);
    assert_eq!(get(&store, "b", "a/2").unwrap(), b"a/2");
    assert_eq!(found(&store, &UndeleteQuery::default()), []);
}

#[test]
fn a_prefix_a_key_or_a_time_limits_it() {
    let (store, clock) = store();
    let prefix = UndeleteQuery { prefix: "a/".into(), ..UndeleteQuery::default() };
    assert_eq!(found(&store, &prefix).len(), 2);
    let key = UndeleteQuery { key: Some("a/".into()), ..UndeleteQuery::default() };
    assert_eq!(found(&store, &key).len(), 0);
    // The older of the two markers of a/2 was made before.
    let since = UndeleteQuery { since: Some(clock.now()), ..UndeleteQuery::default() };
    assert_eq!(found(&store, &since), []);
    delete(&store, "b", "there", Selector::Current).unwrap();
    assert_eq!(undelete(&store, &since), ["there"]);
    let key = UndeleteQuery { key: Some("a/1".into()), ..UndeleteQuery::default() };
    assert_eq!(undelete(&store, &key), ["a/1"]);
    assert_eq!(keys(&store, "b"), ["a/1", "there"]);
}

#[test]
fn null_markers_and_keys_that_span_pages_are_undone_too() {
    let (store, _) = store();
    for _ in 0..1500 {
        delete(&store, "b", "b/1", Selector::Current).unwrap();
    }
    store.set_versioning("b", Versioning::Suspended).unwrap();
    delete(&store, "b", "there", Selector::Current).unwrap();
    let all = found(&store, &UndeleteQuery::default());
    assert_eq!(all[2].markers.len(), 1501);
    assert_eq!(all[3].markers, [VersionRef::Null]);
    undelete(&store, &UndeleteQuery::default());
    assert_eq!(keys(&store, "b"), ["a/1", "a/2", "b/1", "there"]);
    assert_eq!(get(&store, "b", "b/1").unwrap(), b"b/1");
}
