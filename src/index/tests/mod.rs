mod model;
mod uploads;
mod usage;
mod versions;
mod visits;
mod walks;

use super::*;
use crate::base::Timestamp;
use crate::format::{Attributes, ETag, ExtentRef, ObjectControls, StorageClass, Versioning};

fn bucket(id: u64, name: &str) -> Entry {
    Entry::BucketPut(BucketRecord {
        id,
        name: name.into(),
        owner: "admin".into(),
        created: Timestamp::from_millis(1),
        versioning: Versioning::Unset,
    })
}

fn record(id: u64, null: bool) -> VersionRecord {
    let extent = ExtentRef {
        segment: 1,
        offset: id * 64,
        payload_len: 36,
        check: 0,
        skip: 0,
        take: 36,
        shared: false,
    };
    VersionRecord {
        storage_class: StorageClass::Standard,
        id: VersionId(id),
        null,
        delete_marker: false,
        modified: Timestamp::from_millis(id),
        size: 36,
        etag: ETag::Md5([id as u8; 16]),
        extents: vec![extent],
        attributes: Attributes::new(),
        checksums: vec![],
        tags: vec![],
        upload: None,
        controls: ObjectControls::default(),
        controls_stamp: None,
        encryption: None,
        stated_time: None,
    }
}

fn marker(id: u64) -> VersionRecord {
    VersionRecord { delete_marker: true, size: 0, extents: vec![], etag: ETag::None, ..record(id, false) }
}

fn put(key: &str, record: VersionRecord) -> Entry {
    Entry::VersionPut { bucket: 1, key: key.into(), record }
}

fn delete(key: &str, id: u64) -> Entry {
    Entry::VersionDelete { bucket: 1, key: key.into(), version: VersionId(id) }
}

fn index_of(entries: &[Entry]) -> Index {
    let mut index = Index::new();
    index.apply(&bucket(1, "one")).unwrap();
    entries.iter().for_each(|entry| index.apply(entry).unwrap());
    index
}

fn index_of_keys(keys: &[&str]) -> Index {
    let puts: Vec<_> =
        keys.iter().enumerate().map(|(at, key)| put(key, record(at as u64 + 2, true))).collect();
    index_of(&puts)
}

fn copy_by_walk(index: &Index, count_max: usize) -> Index {
    let mut copy = Index::bulk_loading();
    let mut cursor = Cursor::Start;
    loop {
        let entries = index.walk(&mut cursor, count_max);
        if entries.is_empty() {
            copy.finish_loading();
            return copy;
        }
        entries.iter().for_each(|entry| copy.apply(entry).unwrap());
    }
}

fn ids(index: &Index, key: &str) -> Vec<u64> {
    index.summaries(1, key.as_bytes()).map(|summary| summary.id.0).collect()
}

fn names(index: &Index, query: &ListQuery) -> (Vec<String>, bool) {
    let page = index.list(1, query);
    let names = page.items().map(|item| match item {
        ListItem::Key(key, _) => key.into_owned(),
        ListItem::Prefix(prefix) => format!("{prefix}*"),
    });
    (names.collect(), page.truncated)
}

fn query(prefix: &str, delimiter: &str, after: Option<&str>, limit: usize) -> ListQuery {
    let after = after.map(Into::into);
    ListQuery { prefix: prefix.into(), delimiter: delimiter.into(), after, limit }
}

#[test]
fn versions_stand_newest_first_and_a_null_version_replaces_the_one_before() {
    let index = index_of(&[
        put("k", record(2, true)),
        put("k", record(3, false)),
        put("k", record(4, true)),
        put("k", marker(5)),
    ]);
    assert_eq!(ids(&index, "k"), [5, 4, 3]);
    assert_eq!(index.version_count(), 3);
    assert_eq!(index.last_stamp(), 5);
}

#[test]
fn applying_an_entry_again_changes_nothing() {
    let entries =
        [put("k", record(2, false)), put("k", record(3, false)), delete("k", 2), put("j", record(4, true))];
    let twice: Vec<_> = entries.iter().chain(&entries[2..]).cloned().collect();
    let once = index_of(&entries);
    let twice = index_of(&twice);
    for key in ["k", "j"] {
        assert_eq!(ids(&once, key), ids(&twice, key));
    }
    assert_eq!(once.liveness(), twice.liveness());
    assert_eq!(once.version_count(), twice.version_count());
}

#[test]
fn replaying_a_tail_over_its_own_result_gives_the_same_order() {
    let entries = [put("k", record(2, false)), put("k", record(3, false)), put("k", record(4, false))];
    let replayed: Vec<_> = entries.iter().chain(&entries).cloned().collect();
    assert_eq!(ids(&index_of(&replayed), "k"), [4, 3, 2]);
}

#[test]
fn live_bytes_follow_versions_and_buckets() {
    let mut index =
        index_of(&[put("k", record(2, false)), put("k", record(3, false)), put("j", record(4, true))]);
    assert_eq!(index.liveness().of(1), 300);
    index.apply(&delete("k", 2)).unwrap();
    assert_eq!(index.liveness().of(1), 200);
    index.apply(&Entry::BucketDelete { id: 1 }).unwrap();
    assert_eq!(index.liveness().iter().count(), 0);
    assert_eq!(index.version_count(), 0);
}

#[test]
fn entries_that_cannot_be_true_are_refused() {
    let mut index = index_of(&[]);
    let stranger = Entry::VersionPut { bucket: 9, key: b"k".to_vec(), record: record(2, true) };
    assert_eq!(index.apply(&stranger), Err(ApplyError::UnknownBucket(9)));
    assert_eq!(index.apply(&Entry::BucketDelete { id: 9 }), Err(ApplyError::UnknownBucket(9)));
    let short = VersionRecord { size: 37, ..record(2, true) };
    assert_eq!(index.apply(&put("k", short)), Err(ApplyError::Incomplete(VersionId(2))));
    assert!(index.is_empty(1));
}

#[test]
fn a_bucket_that_takes_a_name_over_waits_for_the_old_one_to_be_deleted() {
    let mut index = index_of(&[]);
    index.apply(&bucket(2, "one")).unwrap();
    assert_eq!(index.bucket("one").map(|bucket| bucket.id), Some(2));
    assert!(!index.is_consistent());
    index.apply(&Entry::BucketDelete { id: 1 }).unwrap();
    assert!(index.is_consistent());
    assert_eq!(index.bucket("one").map(|bucket| bucket.id), Some(2));
}

#[test]
fn keys_are_listed_in_byte_order_with_prefix_limit_and_continuation() {
    let index = index_of_keys(&["b", "a/2", "a", "a/10", "a/1", "é", "c"]);
    let all = ["a", "a/1", "a/10", "a/2", "b", "c", "é"].map(String::from);
    assert_eq!(names(&index, &query("", "", None, 10)), (all.to_vec(), false));
    assert_eq!(names(&index, &query("a/", "", None, 10)), (all[1..4].to_vec(), false));
    assert_eq!(names(&index, &query("", "", None, 7)), (all.to_vec(), false));
    assert_eq!(names(&index, &query("", "", None, 3)), (all[..3].to_vec(), true));
    assert_eq!(names(&index, &query("", "", Some("a/10"), 3)), (all[3..6].to_vec(), true));
    assert_eq!(names(&index, &query("a/", "", Some("A"), 1)), (all[1..2].to_vec(), true));
    assert_eq!(names(&index, &query("a/", "", Some("b"), 9)), (vec![], false));
    assert_eq!(names(&index, &query("", "", None, 0)), (vec![], false));
}

#[test]
fn a_delimiter_groups_keys_behind_the_prefix() {
    let index = index_of_keys(&["a/1", "a/2/x", "a/2/y", "a/3", "b", "c/1", "c//", "d::e", "d::f"]);
    let list = |prefix, delimiter, after| names(&index, &query(prefix, delimiter, after, 10)).0;
    assert_eq!(list("", "/", None), ["a/*", "b", "c/*", "d::e", "d::f"]);
    assert_eq!(list("a/", "/", None), ["a/1", "a/2/*", "a/3"]);
    assert_eq!(list("c/", "/", None), ["c//*", "c/1"]);
    assert_eq!(list("d", "::", None), ["d::*"]);
    assert_eq!(list("a/2/", "/", None), ["a/2/x", "a/2/y"]);
}

#[test]
fn a_page_after_a_common_prefix_skips_all_that_it_holds() {
    let index = index_of_keys(&["a/1", "a/2", "b/1", "c"]);
    assert_eq!(names(&index, &query("", "/", None, 1)), (vec!["a/*".into()], true));
    assert_eq!(names(&index, &query("", "/", Some("a/"), 1)), (vec!["b/*".into()], true));
    assert_eq!(names(&index, &query("", "/", Some("b/"), 1)), (vec!["c".into()], false));
    // A start inside a group shows the group for its remaining keys.
    assert_eq!(names(&index, &query("", "/", Some("a/1"), 1)), (vec!["a/*".into()], true));
}

#[test]
fn a_common_prefix_of_the_highest_bytes_has_nothing_behind_it() {
    let mut index = index_of_keys(&["a"]);
    for (at, key) in [&[0xff, 0xff, 1][..], &[0xff, 0xff, 2]].into_iter().enumerate() {
        let record = record(20 + at as u64, true);
        index.apply(&Entry::VersionPut { bucket: 1, key: key.to_vec(), record }).unwrap();
    }
    let mut query = ListQuery { delimiter: vec![0xff, 0xff], limit: 5, ..ListQuery::default() };
    assert_eq!(index.list(1, &query).len(), 2);
    query.after = Some(vec![0xff, 0xff]);
    assert!(index.list(1, &query).is_empty());
}

#[test]
fn deleted_keys_are_not_listed_and_make_no_common_prefix() {
    let mut index = index_of_keys(&["a/1", "b/1", "b/2", "c"]);
    for (at, key) in ["a/1", "b/1", "c"].iter().enumerate() {
        index.apply(&put(key, marker(20 + at as u64))).unwrap();
    }
    assert_eq!(names(&index, &query("", "/", None, 10)), (vec!["b/*".into()], false));
    assert_eq!(names(&index, &query("", "", None, 1)), (vec!["b/2".into()], false));
}

#[test]
fn a_walk_gives_the_entries_that_make_the_same_index() {
    let mut index = index_of(&[put("k", record(2, false)), put("k", record(3, true)), put("k", marker(4))]);
    index.apply(&bucket(7, "empty")).unwrap();
    index.apply(&bucket(9, "other")).unwrap();
    for at in 0..10u64 {
        let key = format!("x{at}").into_bytes();
        index.apply(&Entry::VersionPut { bucket: 9, key, record: record(10 + at, true) }).unwrap();
    }
    for keys_max in [1, 3, 100] {
        let copy = copy_by_walk(&index, keys_max);
        assert_eq!(ids(&copy, "k"), [4, 3, 2]);
        assert_eq!(copy.buckets().map(|b| b.name.as_str()).collect::<Vec<_>>(), ["empty", "one", "other"]);
        assert_eq!((copy.version_count(), copy.liveness()), (index.version_count(), index.liveness()));
    }
}

#[test]
fn a_walk_survives_changes_before_and_after_its_position() {
    let mut index = index_of_keys(&["a", "b", "c"]);
    let mut cursor = Cursor::Start;
    assert_eq!(index.walk(&mut cursor, 2).len(), 1, "the bucket itself");
    assert_eq!(index.walk(&mut cursor, 2).len(), 2);
    index.apply(&delete("b", 3)).unwrap();
    index.apply(&put("a", record(9, true))).unwrap();
    assert_eq!(index.walk(&mut cursor, 2), [put("c", record(4, true))]);
    index.apply(&Entry::BucketDelete { id: 1 }).unwrap();
    assert!(index.walk(&mut cursor, 2).is_empty());
}

#[test]
fn keys_that_are_hidden_are_not_listed_and_cut_no_page_short() {
    let hidden = |key: String, id| [put(&key, record(id, false)), put(&key, marker(id + 1_000))];
    let mut entries: Vec<_> = (0..500).flat_map(|nth| hidden(format!("d/{nth:03}"), nth + 10)).collect();
    entries.extend((0..500).flat_map(|nth| hidden(format!("e{nth:03}"), nth + 5_000)));
    entries.extend([
        put("c", record(2, true)),
        put("d/250", record(20_000, true)),
        put("f", record(4, true)),
    ]);
    let index = index_of(&entries);
    for (delimiter, expected) in [("", ["c", "d/250", "f"]), ("/", ["c", "d/", "f"])] {
        for limit in [1, 2, 3] {
            let page = index.list(1, &query("", delimiter, None, limit));
            let names = page.items().map(|item| item.name().into_owned());
            assert_eq!(names.collect::<Vec<_>>(), expected[..limit]);
            assert_eq!(page.truncated, limit < 3);
        }
    }
    assert!(index.list(1, &query("e", "", None, 10)).is_empty());
}
