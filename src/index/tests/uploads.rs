use super::*;
use crate::format::{ObjectControls, PartRecord, StorageClass, UploadId, UploadRecord};

pub(super) fn upload(key: &str, id: u64) -> Entry {
    let record = UploadRecord {
        storage_class: StorageClass::Standard,
        id: UploadId(id),
        initiated: Timestamp::from_millis(id),
        initiator: "admin".into(),
        checksum: None,
        attributes: Attributes::new(),
        tags: vec![],
        controls: ObjectControls::default(),
        encryption: None,
    };
    Entry::UploadPut { bucket: 1, key: key.into(), record }
}

pub(super) fn part(key: &str, upload: u64, number: u32, id: u64) -> Entry {
    let record = PartRecord {
        number,
        id,
        modified: Timestamp::from_millis(id),
        size: 36,
        md5: [0; 16],
        extents: record(id, true).extents,
        checksum: None,
        encryption: None,
    };
    Entry::PartPut { bucket: 1, key: key.into(), upload: UploadId(upload), record }
}

fn uploads(index: &Index, query: &ListQuery, after_id: Option<u64>) -> (Vec<String>, bool) {
    let page = index.list_uploads(1, query, after_id.map(UploadId));
    let names = page.items().map(|item| match item {
        ListItem::Key(key, upload) => format!("{key} {}", upload.id.0),
        ListItem::Prefix(prefix) => format!("{prefix}*"),
    });
    (names.collect(), page.truncated)
}

#[test]
fn parts_belong_to_their_upload_and_the_last_of_a_number_counts() {
    let mut index =
        index_of(&[upload("k", 10), part("k", 10, 2, 11), part("k", 10, 1, 12), part("k", 10, 2, 13)]);
    let found = index.upload(1, b"k", UploadId(10)).unwrap();
    assert_eq!(found.parts.iter().map(|part| (part.number, part.id)).collect::<Vec<_>>(), [(1, 12), (2, 13)]);
    assert_eq!(index.liveness().of(1), 200);
    assert_eq!(index.upload(1, b"other", UploadId(10)), None);
    assert!(index.is_empty(1), "an upload is no version");
    index.apply(&Entry::UploadDelete { bucket: 1, key: b"k".to_vec(), upload: UploadId(10) }).unwrap();
    assert_eq!(index.liveness().of(1), 0);
    assert_eq!(index.apply(&part("k", 10, 1, 14)), Err(ApplyError::UnknownUpload(UploadId(10))));
}

#[test]
fn completing_moves_the_extents_from_the_parts_to_the_version() {
    let mut index = index_of(&[upload("k", 10), part("k", 10, 1, 11)]);
    index.apply(&put("k", VersionRecord { id: VersionId(20), ..record(11, true) })).unwrap();
    index.apply(&Entry::UploadDelete { bucket: 1, key: b"k".to_vec(), upload: UploadId(10) }).unwrap();
    assert_eq!(index.liveness().of(1), 100);
}

#[test]
fn uploads_are_listed_by_key_and_then_by_initiation() {
    let index =
        index_of(&[upload("b", 13), upload("a/1", 12), upload("b", 11), upload("a/2", 14), upload("c", 15)]);
    let all = ["a/1 12", "a/2 14", "b 11", "b 13", "c 15"].map(String::from);
    assert_eq!(uploads(&index, &query("", "", None, 9), None), (all.to_vec(), false));
    assert_eq!(uploads(&index, &query("", "", None, 2), None), (all[..2].to_vec(), true));
    assert_eq!(uploads(&index, &query("", "", Some("b"), 9), None), (all[4..].to_vec(), false));
    assert_eq!(uploads(&index, &query("", "", Some("b"), 9), Some(11)), (all[3..].to_vec(), false));
    assert_eq!(uploads(&index, &query("b", "", Some("a"), 9), Some(99)), (all[2..4].to_vec(), false));
    assert_eq!(uploads(&index, &query("", "/", None, 2), None), (vec!["a/*".into(), all[2].clone()], true));
    assert_eq!(uploads(&index, &query("", "/", Some("a/"), 9), None), (all[2..].to_vec(), false));
    assert_eq!(uploads(&index, &query("", "", None, 0), None), (vec![], false));
}

#[test]
fn a_group_of_uploads_that_has_been_shown_is_not_shown_again() {
    let index = index_of(&[upload("a/", 11), upload("a/", 12), upload("a/1", 13), upload("b", 14)]);
    let rest = |key, after_id| uploads(&index, &query("", "/", Some(key), 9), after_id).0;
    assert_eq!(rest("a/", Some(11)), ["b 14"]);
    assert_eq!(rest("a/", None), ["b 14"]);
    assert_eq!(rest("a/0", Some(11)), ["a/*", "b 14"], "uploads after the marker are left in it");
    assert_eq!(rest("a/1", Some(13)), ["b 14"]);
}

#[test]
fn a_walk_gives_uploads_and_parts_too() {
    let mut index = index_of(&[upload("k", 10), part("k", 10, 2, 11), part("k", 10, 1, 12), upload("j", 13)]);
    index.apply(&put("k", record(20, true))).unwrap();
    index.apply(&bucket(21, "two")).unwrap();
    for count_max in [1, 10] {
        let copy = copy_by_walk(&index, count_max);
        assert_eq!(copy.upload(1, b"k", UploadId(10)), index.upload(1, b"k", UploadId(10)));
        assert_eq!((copy.upload_count(), copy.bucket_count()), (2, 2));
        assert_eq!(copy.liveness(), index.liveness());
    }
}
