use super::*;

fn versions(index: &Index, query: &ListQuery, after: Option<VersionRef>) -> (Vec<String>, bool) {
    let page = index.list_versions(1, query, after);
    let names = page.items().map(|item| match item {
        ListItem::Key(key, ListedVersion { version, latest }) => {
            format!("{key} {}{}", version.id.0, if *latest { "!" } else { "" })
        }
        ListItem::Prefix(prefix) => format!("{prefix}*"),
    });
    (names.collect(), page.truncated)
}

fn some_versions() -> Index {
    index_of(&[
        put("a", record(2, false)),
        put("a", record(3, true)),
        put("a", marker(4)),
        put("b/1", record(5, true)),
        put("b/2", marker(6)),
        put("c", record(7, false)),
    ])
}

#[test]
fn versions_are_listed_newest_first_under_ascending_keys() {
    let index = some_versions();
    let all = ["a 4!", "a 3", "a 2", "b/1 5!", "b/2 6!", "c 7!"].map(String::from);
    assert_eq!(versions(&index, &query("", "", None, 9), None), (all.to_vec(), false));
    assert_eq!(versions(&index, &query("", "", None, 2), None), (all[..2].to_vec(), true));
    assert_eq!(versions(&index, &query("", "", Some("a"), 9), None), (all[3..].to_vec(), false));
    assert_eq!(versions(&index, &query("b", "", None, 9), None), (all[3..5].to_vec(), false));
    assert_eq!(versions(&index, &query("", "", None, 0), None), (vec![], false));
}

#[test]
fn a_page_goes_on_behind_a_version_also_when_it_is_gone() {
    let mut index = some_versions();
    let after = |id| Some(VersionRef::Id(VersionId(id)));
    let rest = |index: &Index, after| versions(index, &query("", "", Some("a"), 2), after).0;
    assert_eq!(rest(&index, after(4)), ["a 3", "a 2"]);
    assert_eq!(rest(&index, Some(VersionRef::Null)), ["a 2", "b/1 5!"]);
    assert_eq!(rest(&index, after(2)), ["b/1 5!", "b/2 6!"]);
    index.apply(&delete("a", 4)).unwrap();
    assert_eq!(rest(&index, after(4)), ["a 3!", "a 2"]);
}

#[test]
fn common_prefixes_count_as_one_also_when_they_hold_only_markers() {
    let index = some_versions();
    assert_eq!(
        versions(&index, &query("", "/", Some("a"), 9), None),
        (vec!["b/*".into(), "c 7!".into()], false)
    );
    assert_eq!(versions(&index, &query("", "/", Some("b/"), 9), None), (vec!["c 7!".into()], false));
}

#[test]
fn a_page_behind_a_version_within_a_group_shows_what_is_left_of_the_group() {
    let index = index_of(&[put("a/1", record(2, false)), put("a/1", record(3, false)), put("b", marker(4))]);
    let rest = |key, after| versions(&index, &query("", "/", Some(key), 9), after).0;
    let after = |id| Some(VersionRef::Id(VersionId(id)));
    assert_eq!(rest("a/1", after(3)), ["a/*", "b 4!"]);
    assert_eq!(rest("a/1", after(2)), ["b 4!"]);
    assert_eq!(rest("a/1", None), ["b 4!"]);
    assert_eq!(rest("a/0", after(2)), ["a/*", "b 4!"]);
    assert_eq!(rest("a/", after(2)), ["b 4!"], "that group has been shown");
}

#[test]
fn an_amended_version_keeps_its_place() {
    let mut index = index_of(&[put("k", record(2, false)), put("k", record(3, false))]);
    let amended = VersionRecord { tags: vec![("a".into(), "b".into())], ..record(2, false) };
    index.apply(&Entry::VersionAmend { bucket: 1, key: b"k".to_vec(), record: amended.clone() }).unwrap();
    assert_eq!(ids(&index, "k"), [3, 2]);
    assert_eq!(index.version(1, b"k", VersionId(2)), Some(amended.clone()));
    assert_eq!(index.liveness().of(1), 200);
    let stranger = VersionRecord { id: VersionId(9), ..amended };
    index.apply(&Entry::VersionAmend { bucket: 1, key: b"k".to_vec(), record: stranger }).unwrap();
    assert_eq!(ids(&index, "k"), [3, 2]);
}

#[test]
fn references_that_disagree_about_a_shared_extent_do_no_harm() {
    let told = |id, payload_len| {
        let mut told = record(2, false);
        told.id = VersionId(id);
        told.extents[0].shared = true;
        told.extents[0].payload_len = payload_len;
        told
    };
    let mut index = index_of(&[put("a", told(2, 36)), put("b", told(3, 1000))]);
    index.apply(&delete("a", 2)).unwrap();
    index.apply(&delete("b", 3)).unwrap();
    assert_eq!(index.liveness(), &Liveness::default());
}

#[test]
fn a_shared_extent_lives_until_its_last_reference_goes() {
    let shared = |id| {
        let mut shared = record(2, false);
        shared.id = VersionId(id);
        shared.extents[0].shared = true;
        shared
    };
    let mut index = index_of(&[put("k", record(2, false))]);
    index.apply(&Entry::VersionAmend { bucket: 1, key: b"k".to_vec(), record: shared(2) }).unwrap();
    index.apply(&put("copy", shared(3))).unwrap();
    assert_eq!(index.liveness().of(1), 100);
    assert_eq!(copy_by_walk(&index, 1).liveness(), index.liveness());
    assert!(index.liveness().is_shared(1, 128));
    index.apply(&delete("k", 2)).unwrap();
    assert!(!index.liveness().is_shared(1, 128), "one reference shares nothing, whatever it says");
    assert_eq!(copy_by_walk(&index, 1).liveness(), index.liveness());
    assert_eq!(index.liveness().of(1), 100);
    index.apply(&delete("copy", 3)).unwrap();
    assert_eq!(index.liveness(), &Liveness::default());
}

fn as_shared(id: u64) -> VersionRecord {
    let mut shared = record(2, false);
    shared.id = VersionId(id);
    shared.extents[0].shared = true;
    shared
}

fn announce(key: &str, id: u64) -> Entry {
    Entry::VersionAmend { bucket: 1, key: key.into(), record: as_shared(id) }
}

#[test]
fn the_last_reference_that_says_shared_can_be_shared_again() {
    let mut index =
        index_of(&[put("a", record(2, false)), announce("a", 2), put("b", as_shared(3)), delete("a", 2)]);
    for (copy, id) in [("c", 4), ("d", 5)] {
        index.apply(&announce("b", 3)).unwrap();
        index.apply(&put(copy, as_shared(id))).unwrap();
        assert_eq!(index.liveness().of(1), 100);
        assert_eq!(copy_by_walk(&index, 1).liveness(), index.liveness());
        index.apply(&delete(copy, id)).unwrap();
    }
    let tagged = VersionRecord { tags: vec![("a".into(), "b".into())], ..as_shared(3) };
    index.apply(&Entry::VersionAmend { bucket: 1, key: b"b".to_vec(), record: tagged }).unwrap();
    assert!(!index.liveness().is_shared(1, 128), "tags share nothing");
    index.apply(&delete("b", 3)).unwrap();
    assert_eq!(index.liveness(), &Liveness::default());
}

#[test]
fn an_unannounced_copy_keeps_its_bytes_live_until_it_is_removed() {
    let mut index = index_of(&[put("a", as_shared(2)), put("b", as_shared(3))]);
    assert!(index.liveness().of(1) >= 100);
    index.apply(&delete("a", 2)).unwrap();
    assert_eq!(index.liveness().of(1), 100);
    index.apply(&announce("b", 3)).unwrap();
    index.apply(&put("c", as_shared(4))).unwrap();
    index.apply(&delete("b", 3)).unwrap();
    assert_eq!(index.liveness().of(1), 100);
    index.apply(&delete("c", 4)).unwrap();
    assert_eq!(index.liveness(), &Liveness::default());
}

#[test]
fn a_shared_extent_that_moves_takes_its_references_along() {
    let moved = |id, offset| {
        let mut moved = as_shared(id);
        moved.extents[0].offset = offset;
        Entry::VersionAmend {
            bucket: 1,
            key: if id == 2 { b"a".to_vec() } else { b"b".to_vec() },
            record: moved,
        }
    };
    let mut index = index_of(&[put("a", record(2, false)), announce("a", 2), put("b", as_shared(3))]);
    index.apply(&moved(2, 6_400)).unwrap();
    assert!(index.liveness().is_shared(1, 6_400), "the other may follow");
    assert_eq!(index.liveness().of(1), 200);
    index.apply(&moved(3, 6_400)).unwrap();
    assert!(index.liveness().is_shared(1, 6_400) && !index.liveness().is_shared(1, 128));
    assert_eq!(index.liveness().of(1), 100);
    index.apply(&delete("a", 2)).unwrap();
    index.apply(&moved(3, 12_800)).unwrap();
    assert!(!index.liveness().is_shared(1, 12_800), "nobody else may follow");
    index.apply(&delete("b", 3)).unwrap();
    assert_eq!(index.liveness(), &Liveness::default());
}
