use super::uploads::{part, upload};
use super::*;
use crate::format::{Features, StorageClass, UploadId};

fn owned(id: u64, name: &str, owner: &str) -> Entry {
    let Entry::BucketPut(record) = bucket(id, name) else { unreachable!("it is a bucket put") };
    Entry::BucketPut(BucketRecord { owner: owner.into(), ..record })
}

fn total(count: u64, bytes: u64) -> ContentTotal {
    ContentTotal { count, bytes }
}

/// The usage without the bytes of the index.
fn content(index: &Index, bucket: u64) -> Usage {
    Usage { index_bytes: 0, ..index.usage(bucket) }
}

#[test]
fn versions_are_counted_by_kind() {
    let mut index = index_of(&[
        put("k", record(2, false)),
        put("k", record(3, false)),
        put("k", marker(4)),
        put("j", record(5, true)),
    ]);
    let usage = Usage {
        current: total(1, 36),
        noncurrent: total(2, 72),
        cold: ContentTotal::default(),
        delete_markers: 1,
        uploads: ContentTotal::default(),
        index_bytes: 0,
    };
    assert_eq!(content(&index, 1), usage);
    assert_eq!((usage.bytes(), usage.objects()), (108, 3));
    index.apply(&delete("k", 4)).unwrap();
    assert_eq!((index.usage(1).current, index.usage(1).noncurrent), (total(2, 72), total(1, 36)));
    index.apply(&delete("k", 2)).unwrap();
    index.apply(&delete("k", 3)).unwrap();
    index.apply(&put("j", record(6, true))).unwrap();
    assert_eq!(content(&index, 1), Usage { current: total(1, 36), ..Usage::default() });
    assert_eq!(index.usage(99), Usage::default());
}

#[test]
fn an_amended_version_stays_of_its_kind() {
    let mut index = index_of(&[put("k", record(2, false)), put("k", record(3, false))]);
    let empty = VersionRecord { size: 0, extents: vec![], ..record(2, false) };
    index.apply(&Entry::VersionAmend { bucket: 1, key: b"k".to_vec(), record: empty }).unwrap();
    assert_eq!((index.usage(1).current, index.usage(1).noncurrent), (total(1, 36), total(1, 0)));
}

#[test]
fn versions_of_the_class_cold_are_counted_wherever_they_are() {
    let cold = |id| VersionRecord { storage_class: StorageClass::Cold, ..record(id, false) };
    let mut index = index_of(&[put("k", cold(2)), put("k", record(3, false)), put("j", record(4, false))]);
    let usage =
        Usage { current: total(2, 72), noncurrent: total(1, 36), cold: total(1, 36), ..Usage::default() };
    assert_eq!(content(&index, 1), usage);
    assert_eq!(index.owner_usage("admin").content, index.usage(1));
    index.apply(&Entry::VersionAmend { bucket: 1, key: b"j".to_vec(), record: cold(4) }).unwrap();
    assert_eq!(content(&index, 1), Usage { cold: total(2, 72), ..usage });
    index.apply(&delete("k", 2)).unwrap();
    assert_eq!(content(&index, 1), Usage { current: total(2, 72), cold: total(1, 36), ..Usage::default() });
    assert!(index.features().contains(Features::STORAGE_CLASSES));
}

/// An update by which all extents become shared announces another reference. One that changes the
/// class does not.
#[test]
fn a_change_of_the_class_of_a_shared_version_counts_no_further_reference() {
    let shared = |class| {
        let mut record = VersionRecord { storage_class: class, ..record(2, false) };
        record.extents.iter_mut().for_each(|extent| extent.shared = true);
        record
    };
    let mut index = index_of(&[put("k", shared(StorageClass::Standard))]);
    let before = index.liveness().clone();
    let cold = shared(StorageClass::Cold);
    index.apply(&Entry::VersionAmend { bucket: 1, key: b"k".to_vec(), record: cold }).unwrap();
    index.apply(&delete("k", 2)).unwrap();
    let segment = record(2, false).extents[0].segment;
    assert!(before.of(segment) > 0);
    assert_eq!(index.liveness().of(segment), 0);
}

#[test]
fn uploads_count_with_the_last_part_of_each_number() {
    let mut index = index_of(&[
        upload("k", 10),
        part("k", 10, 1, 11),
        part("k", 10, 2, 12),
        part("k", 10, 1, 13),
        upload("k", 20),
        // The upload again, which keeps its parts.
        upload("k", 10),
    ]);
    assert_eq!(index.usage(1).uploads, total(2, 72));
    assert_eq!(index.usage(1).bytes(), 72);
    index.apply(&Entry::UploadDelete { bucket: 1, key: b"k".to_vec(), upload: UploadId(10) }).unwrap();
    assert_eq!(index.usage(1).uploads, total(1, 0));
}

#[test]
fn owners_have_the_sum_of_their_buckets() {
    let mut index = index_of(&[put("k", record(2, true)), upload("k", 10), part("k", 10, 1, 11)]);
    index.apply(&owned(7, "two", "admin")).unwrap();
    index.apply(&owned(8, "three", "guest")).unwrap();
    for id in [7, 8] {
        let entry = Entry::VersionPut { bucket: id, key: b"k".to_vec(), record: record(20 + id, true) };
        index.apply(&entry).unwrap();
    }
    let bytes = |index: &Index, owner: &str| {
        let usage = index.owner_usage(owner);
        (usage.buckets, usage.content.bytes())
    };
    assert_eq!((bytes(&index, "admin"), bytes(&index, "guest")), ((2, 108), (1, 36)));
    let copy = copy_by_walk(&index, 1);
    assert!(copy.owner_usages().eq(index.owner_usages()) && copy.usages().eq(index.usages()));
    index.apply(&owned(8, "three", "admin")).unwrap();
    assert_eq!((bytes(&index, "admin"), bytes(&index, "guest")), ((3, 144), (0, 0)));
    index.apply(&Entry::BucketDelete { id: 1 }).unwrap();
    assert_eq!(bytes(&index, "admin"), (2, 72));
    assert_eq!(index.owner_usages().count(), 1);
}

/// The bytes of the index that the content of the bucket counts for, without the bucket.
fn counted(index: &Index) -> u64 {
    index.usage(1).index_bytes - BUCKET_BYTES
}

#[test]
fn everything_in_a_bucket_counts_as_bytes_of_the_index() {
    let mut with_texts = record(2, false);
    with_texts.attributes.push("meta-a", "x".repeat(200));
    with_texts.tags = vec![("color".into(), "blue".into())];
    let texts = (1 + 6) + (2 + 200) + (1 + 5) + (1 + 4);
    let mut index = index_of(&[put("key", with_texts)]);
    assert_eq!(counted(&index), 64 + 3 + texts);
    index.apply(&put("key", marker(3))).unwrap();
    assert_eq!(counted(&index), 64 + 3 + texts + 64 + 3);
    index.apply(&delete("key", 2)).unwrap();
    assert_eq!(counted(&index), 64 + 3);
    let kind = BucketConfigurationKind::Policy;
    let set = |document| Entry::BucketConfiguration { bucket: 1, kind, document };
    index.apply(&set(Some(vec![b'x'; 1000]))).unwrap();
    assert_eq!(counted(&index), 64 + 3 + configuration_bytes(1000));
    index.apply(&set(None)).unwrap();
    index.apply(&upload("k", 10)).unwrap();
    let of_upload = counted(&index) - 64 - 3;
    assert!(of_upload >= 256, "{of_upload}");
    for number in [1, 2, 2] {
        index.apply(&part("k", 10, number, 20 + u64::from(number))).unwrap();
    }
    assert_eq!(counted(&index), 64 + 3 + of_upload + 2 * 128);
    let copy = copy_by_walk(&index, 1);
    assert!(copy.usages().eq(index.usages()));
    index.apply(&Entry::UploadDelete { bucket: 1, key: b"k".to_vec(), upload: UploadId(10) }).unwrap();
    assert_eq!(counted(&index), 64 + 3);
}

/// What a user can make many of takes no more memory than it counts for.
#[test]
fn the_count_bounds_the_memory_of_what_can_be_many() {
    let key = |nth: u64| format!("{:016x}", nth.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    for name in ["markers", "markers of one key", "uploads"] {
        let mut index = index_of(&[]);
        let empty = index.memory_bytes();
        for nth in 0..20_000 {
            let entry = match name {
                "markers" => put(&key(nth), marker(10 + nth)),
                "uploads" => upload(&key(nth), 10 + nth),
                _ => put("k", marker(10 + nth)),
            };
            index.apply(&entry).unwrap();
        }
        let memory = index.memory_bytes() - empty;
        assert!(memory <= counted(&index), "{name}: {memory} bytes are counted as {}", counted(&index));
    }
}
