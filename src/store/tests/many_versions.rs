//! A key with many versions: what a group does with several of them, and what requests cost,
//! counted in versions that are visited.

use super::*;
use crate::index::versions_visited;

#[test]
fn mutations_of_one_group_see_what_those_before_them_did_to_a_key() {
    let fs = SimFs::new();
    let store = open(&fs);
    store.create_bucket("b", "admin").unwrap();
    put(&store, "b", "k", b"null").unwrap();
    store.set_versioning("b", Versioning::Enabled).unwrap();
    let ids: Vec<_> =
        (0..200).map(|nth: u32| put(&store, "b", "k", &nth.to_le_bytes()).unwrap().id).collect();
    store.set_versioning("b", Versioning::Suspended).unwrap();
    // All of one group: two versions go by id, one of them twice, then the null version, and a null
    // marker takes its place.
    let which = [ids[7], ids[150], ids[7]].map(Selector::Id).into_iter();
    let which: Vec<_> =
        which.chain([Selector::Null, Selector::Null, Selector::Current, Selector::Current]).collect();
    let deletion = |(nth, which): (usize, &Selector)| Deletion {
        key: "k".into(),
        which: *which,
        condition: DeleteCondition {
            if_match: [2, 4].contains(&nth).then(|| "*".into()),
            ..DeleteCondition::default()
        },
    };
    let done = store.delete("b", which.iter().enumerate().map(deletion).collect()).unwrap();
    let markers: Vec<_> =
        done.iter().map(|done| done.as_ref().ok().map(|deleted| deleted.delete_marker)).collect();
    // A version that is gone already counts as deleted, with a condition or without.
    let version = Some(false);
    let marker = Some(true);
    assert_eq!(markers, [version, version, version, version, version, marker, marker]);
    let page = store.list_versions("b", &ListQuery { limit: 1000, ..ListQuery::default() }, None).unwrap();
    assert_eq!(page.keys().count(), page.len(), "nothing is grouped");
    let left: Vec<_> = page
        .keys()
        .map(|(_, ListedVersion { version, latest })| {
            (version.id, version.null, version.delete_marker, *latest)
        })
        .collect();
    let expected =
        ids.iter().rev().filter(|id| ![ids[7], ids[150]].contains(id)).map(|id| (*id, false, false, false));
    assert!(left[0].1 && left[0].2 && left[0].3, "the newest is a null marker");
    assert_eq!(left[1..], expected.collect::<Vec<_>>());
    assert_eq!(
        store.find("b", "k", Selector::Id(ids[7])).unwrap_err().to_string(),
        StoreError::NoSuchVersion.to_string()
    );
    let old = store.find("b", "k", Selector::Id(ids[8])).unwrap().version;
    assert_eq!(read_all(&store, &old, 0..4).unwrap(), 8u32.to_le_bytes());
}

const VERSIONS: u32 = 1_500;
/// Keys of a request.
const KEYS: u64 = 1_000;
/// What one deletion of a request may visit, with its commit.
const FEW: u64 = 10;

/// A store with a key whose oldest version is a null version, and the ids of the others.
fn store_with_many(fs: &SimFs, with_null: bool) -> (Store, Vec<VersionId>) {
    let store = open(fs);
    store.create_bucket("b", "admin").unwrap();
    if with_null {
        put(&store, "b", "k", b"null").unwrap();
    }
    store.set_versioning("b", Versioning::Enabled).unwrap();
    let put_one = |nth: u32| put(&store, "b", "k", &nth.to_le_bytes()).unwrap().id;
    let ids = (0..VERSIONS).map(put_one).collect();
    (store, ids)
}

/// Runs a request of which this thread is the commit leader, and returns what it visited.
fn visited(store: &Store, run: impl FnOnce(&Store)) -> u64 {
    while !store.committer.is_idle() {
        std::thread::yield_now();
    }
    let visited = versions_visited(|| run(store));
    assert!(visited > 0, "the request was committed by this thread");
    visited
}

fn deletion(which: Selector, if_match: Option<&str>) -> Deletion {
    let condition = DeleteCondition { if_match: if_match.map(str::to_owned), ..DeleteCondition::default() };
    Deletion { key: "k".into(), which, condition }
}

#[test]
fn deletions_of_one_request_do_not_walk_over_the_versions_of_their_key() {
    for with_null in [true, false] {
        let nulls = vec![deletion(Selector::Null, None); KEYS as usize];
        let absent = |nth: u64| deletion(Selector::Id(VersionId(nth + 7)), None);
        let absent: Vec<_> = (0..KEYS).map(absent).collect();
        let no_match = vec![deletion(Selector::Current, Some("\"other\"")); KEYS as usize];
        let markers = vec![deletion(Selector::Current, None); KEYS as usize];
        for (what, deletions) in
            [("null", nulls), ("absent", absent), ("refused", no_match), ("all", markers)]
        {
            let (store, _) = store_with_many(&SimFs::new(), with_null);
            let visited = visited(&store, |store| assert!(store.delete("b", deletions).is_ok()));
            assert!(visited <= FEW * KEYS, "{what}: {visited}");
        }
    }
}

#[test]
fn removed_versions_are_not_passed_again_and_again() {
    let (store, ids) = store_with_many(&SimFs::new(), true);
    // Each pair takes the newest version, and looks for the next one.
    let pair =
        |id: &VersionId| [deletion(Selector::Id(*id), None), deletion(Selector::Current, Some("\"other\""))];
    let deletions: Vec<_> = ids.iter().rev().take(KEYS as usize / 2).flat_map(pair).collect();
    let visited = visited(&store, |store| {
        let done = store.delete("b", deletions).unwrap();
        assert_eq!(done.iter().filter(|done| done.is_ok()).count(), KEYS as usize / 2);
    });
    assert!(visited <= FEW * KEYS, "{visited}");
}

#[test]
fn no_request_for_one_version_walks_over_the_others() {
    for with_null in [true, false] {
        let fs = SimFs::new();
        let (store, ids) = store_with_many(&fs, with_null);
        store.set_versioning("b", Versioning::Suspended).unwrap();
        let find_some = |store: &Store| {
            assert_eq!(store.find("b", "k", Selector::Null).is_ok(), with_null);
            assert_eq!(store.find_outline("b", "k", Selector::Null).is_ok(), with_null);
            assert!(store.find("b", "k", Selector::Id(ids[3])).is_ok());
            assert!(store.find("b", "k", Selector::Id(VersionId(7))).is_err());
        };
        let before = visited(&store, find_some);
        store.close();
        drop(store);
        // The index of a start is made in another way.
        let after = visited(&open(&fs), find_some);
        assert!(before.max(after) <= 4 * FEW, "{before}, {after}");
    }
}

#[test]
fn no_change_of_one_version_walks_over_the_others() {
    for with_null in [true, false] {
        let (store, ids) = store_with_many(&SimFs::new(), with_null);
        store.set_versioning("b", Versioning::Suspended).unwrap();
        let old = store.find("b", "k", Selector::Id(ids[3])).unwrap().version;
        let tagged = visited(&store, |store| {
            store.set_tags("b", "k", old.clone(), vec![("a".into(), "b".into())]).unwrap();
        });
        let held = visited(&store, |store| store.set_legal_hold("b", "k", old.clone(), true).unwrap());
        let bucket = store.find("b", "k", Selector::Current).unwrap().bucket.id;
        let range = 0..old.size;
        let source = CopyRange { bucket, key: "k".into(), version: old.clone(), range };
        let copied =
            visited(&store, |store| assert!(store.copy(source, "b", "k", commit_of(b"copied")).is_ok()));
        let replaced = visited(&store, |store| assert!(put(store, "b", "k", b"null again").is_ok()));
        for (what, visited) in [("tags", tagged), ("hold", held), ("copy", copied), ("put", replaced)] {
            assert!(visited <= 3 * FEW, "{what}: {visited}");
        }
    }
}

#[test]
fn a_repeated_completion_looks_at_the_newest_versions_alone() {
    let fs = SimFs::new();
    let store = open(&fs);
    store.create_bucket("b", "admin").unwrap();
    store.set_versioning("b", Versioning::Enabled).unwrap();
    let upload = store.create_upload("b", "k", new_upload()).unwrap().id;
    store.abort_upload("b", "k", upload).unwrap();
    for nth in 0..VERSIONS {
        put(&store, "b", "k", &nth.to_le_bytes()).unwrap();
    }
    let visited = visited(&store, |store| assert_eq!(store.find_completed("b", "k", upload), Ok(None)));
    assert!(visited <= 2 * 1_000 + FEW, "{visited}");
}

#[test]
fn the_newest_versions_of_a_followed_key_cost_as_many_as_are_asked_for() {
    let store = open(&SimFs::new());
    store.create_bucket("b", "admin").unwrap();
    store.set_versioning("b", Versioning::Enabled).unwrap();
    let id = store.bucket("b").unwrap().id;
    let ids: Vec<_> = (0..100_u32).map(|nth| put(&store, "b", "k", &nth.to_le_bytes()).unwrap().id).collect();
    let visited = versions_visited(|| drop(store.followed_versions(id, b"k", 4).unwrap()));
    assert!(visited <= 5, "{visited}");
    let newest = store.followed_versions(id, b"k", 4).unwrap();
    assert!(newest.has_older && newest.versions.iter().map(|version| version.id).eq(ids[96..].to_vec()));
    let all = store.followed_versions(id, b"k", 100).unwrap();
    assert!(!all.has_older && all.versions.len() == 100);
    assert!(store.followed_versions(id, b"none", 4).is_some_and(|none| none.versions.is_empty()));
}
