//! A key with many versions, of which a group changes several.

use super::*;

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
    // All of one group: two versions go by id, one of them twice, then the null version, and a null marker takes its place.
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
    let (version, marker) = (Some(false), Some(true));
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
