//! The cost of lookups in a key with many versions, counted in versions that are visited.

use super::*;
use crate::format::{ByteDecoder, RawEntry};

const COUNT: u64 = 2_000;
/// What one lookup or change may visit.
const FEW: u64 = 8;

/// A key with a null version below all others, or without one. The ids of displaced versions fall.
fn entries_of(null: bool, displaced: bool) -> Vec<Entry> {
    let id = |nth: u64| if displaced { 10 * (2 * COUNT - nth) } else { 10 * (COUNT + nth) };
    let older = put("k", record(id(0), null));
    std::iter::once(older).chain((1..COUNT).map(|nth| put("k", record(id(nth), false)))).collect()
}

fn loaded(entries: &[Entry]) -> Index {
    let mut bytes = Vec::new();
    let mut loader = Loader::default();
    bucket(1, "one").encode(&mut bytes);
    entries.iter().for_each(|entry| entry.encode(&mut bytes));
    let mut from = ByteDecoder::new(&bytes);
    while !from.is_done() {
        loader.add(&RawEntry::read(&mut from).unwrap()).unwrap();
    }
    loader.finish()
}

/// Runs `check` on the key, however its index was made.
fn each_index(check: impl Fn(&Index, bool, &str)) {
    for (null, displaced) in [(true, false), (false, false), (true, true), (false, true)] {
        let entries = entries_of(null, displaced);
        let made = index_of(&entries);
        let kind = format!("null: {null}, displaced: {displaced}");
        check(&made, null, &format!("applied, {kind}"));
        check(&copy_by_walk(&made, 10), null, &format!("walked, {kind}"));
        check(&loaded(&entries), null, &format!("loaded, {kind}"));
    }
}

fn assert_few(what: &str, run: impl FnOnce()) {
    let visited = versions_visited(run);
    assert!(visited <= FEW, "{what}: {visited} versions");
}

#[test]
fn no_lookup_walks_over_the_versions_of_a_key() {
    each_index(|index, null, kind| {
        assert_few(&format!("null, {kind}"), || assert_eq!(index.null_summary(1, b"k").is_some(), null));
        assert_few(&format!("newest, {kind}"), || assert!(index.newest(1, b"k").is_some()));
        for there in [10 * (COUNT + 1), 10 * (COUNT + COUNT / 2)] {
            let id = VersionId(there);
            assert_few(&format!("by id, {kind}"), || assert!(index.version_outline(1, b"k", id).is_some()));
        }
        for absent in [1, 10 * COUNT + 5, 15 * COUNT + 5, u64::MAX] {
            let id = VersionId(absent);
            assert_few(&format!("absent, {kind}"), || assert!(index.version(1, b"k", id).is_none()));
        }
    });
}

#[test]
fn no_change_walks_over_the_versions_of_a_key() {
    each_index(|index, null, kind| {
        let amended = VersionRecord { tags: vec![("a".into(), "b".into())], ..record(15 * COUNT, false) };
        let amend = Entry::VersionAmend { bucket: 1, key: b"k".to_vec(), record: amended };
        let changes = [
            put("k", record(30 * COUNT, false)),
            put("k", record(30 * COUNT, false)),
            amend,
            delete("k", 15 * COUNT),
            delete("k", 15 * COUNT + 5),
            put("k", record(31 * COUNT, true)),
            put("k", marker(32 * COUNT)),
            put("k", record(33 * COUNT, true)),
            delete("k", 33 * COUNT),
        ];
        let mut index = index.clone();
        for (nth, change) in changes.iter().enumerate() {
            assert_few(&format!("change {nth}, {kind}"), || index.apply(change).unwrap());
        }
        assert!(index.null_version(1, b"k").is_none());
        let left = COUNT + 1 - u64::from(null);
        assert_eq!(index.version_count(), left, "{kind}");
    });
}

#[test]
fn a_page_of_versions_costs_what_it_shows() {
    each_index(|index, _, kind| {
        let after = [VersionRef::Null, VersionRef::Id(VersionId(15 * COUNT)), VersionRef::Id(VersionId(7))];
        for after in after {
            let what = format!("after {after:?}, {kind}");
            assert_few(&what, || drop(index.list_versions(1, &query("", "", Some("k"), 1), Some(after))));
        }
    });
}

#[test]
fn a_null_version_is_found_through_all_changes_above_it() {
    let mut index = index_of(&[put("k", record(2, true)), put("k", record(3, false))]);
    let null_is = |index: &Index, id: Option<u64>| {
        assert_eq!(index.null_summary(1, b"k").map(|version| version.id.0), id);
    };
    null_is(&index, Some(2));
    // One that is put again stays above it.
    index.apply(&put("k", record(3, false))).unwrap();
    null_is(&index, Some(2));
    index.apply(&put("k", record(4, true))).unwrap();
    index.apply(&put("k", record(5, false))).unwrap();
    null_is(&index, Some(4));
    // The version below knows the null version that was replaced.
    index.apply(&delete("k", 5)).unwrap();
    index.apply(&delete("k", 4)).unwrap();
    assert_eq!(ids(&index, "k"), [3]);
    null_is(&index, None);
    index.apply(&put("k", record(6, false))).unwrap();
    null_is(&index, None);
    // It becomes the null version itself.
    index.apply(&put("k", record(6, true))).unwrap();
    null_is(&index, Some(6));
    index.apply(&put("k", record(7, false))).unwrap();
    index.apply(&put("k", record(6, false))).unwrap();
    null_is(&index, None);
    assert_eq!(ids(&index, "k"), [6, 7, 3]);
}

#[test]
fn displaced_versions_cost_memory_only_while_they_are_there() {
    let mut index = index_of(&[put("k", record(9, false))]);
    let before = index.memory_bytes();
    index.apply(&put("k", record(2, false))).unwrap();
    assert!(index.memory_bytes() > before + 100);
    index.apply(&delete("k", 2)).unwrap();
    assert_eq!(index.memory_bytes(), before);
}
