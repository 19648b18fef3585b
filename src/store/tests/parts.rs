use std::time::{Duration, Instant};

use super::*;
use crate::fs::sim::{CrashPolicy, OpKind};

fn put_part(store: &Store, upload: UploadId, number: u32, bytes: &[u8]) -> Result<PartRecord, StoreError> {
    let mut writer = store.part_writer("b", "k", upload, number, None)?;
    bytes.chunks(90_001).try_for_each(|piece| writer.write(piece))?;
    writer.commit(Md5::of(bytes), None)
}

fn complete(store: &Store, upload: UploadId, numbers: &[u32]) -> Result<CommittedVersion, StoreError> {
    let there = store.upload("b", "k", upload)?;
    let parts = there.parts.into_iter().filter(|part| numbers.contains(&part.number)).collect();
    store.complete_upload("b", "k", Completion { upload, parts, commit: commit_of(b"") })
}

fn copy(
    store: &Store,
    from: &str,
    range: Option<Range<u64>>,
    to: &str,
) -> Result<CommittedVersion, StoreError> {
    let found = store.find("b", from, Selector::Current)?;
    let range = range.unwrap_or(0..found.version.size);
    let source = CopyRange { bucket: found.bucket.id, key: from.into(), version: found.version, range };
    store.copy(source, "b", to, commit_of(b""))
}

fn store_with_bucket(fs: &SimFs) -> Store {
    let store = open(fs);
    store.create_bucket("b", "admin").unwrap();
    store
}

/// The memory of a store of small objects that were copied, after the `nth` of them did with its
/// keys what `then` does.
fn index_bytes_after(then: impl Fn(&Store, &str, &str)) -> (u64, u64) {
    let fs = SimFs::new();
    let store = store_with_bucket(&fs);
    let names = |nth: u32| (format!("from/{nth:04}"), format!("to/{nth:04}"));
    for nth in 0..1_000 {
        put(&store, "b", &names(nth).0, b"some bytes").unwrap();
    }
    let before = store.index_bytes();
    (0..1_000).map(names).for_each(|(from, to)| then(&store, &from, &to));
    let live = store.health().live_bytes;
    let after = store.index_bytes();
    drop(store);
    let store = open(&fs);
    assert_eq!(store.health().live_bytes, live);
    assert!(store.index_bytes() <= after, "{} and {after}", store.index_bytes());
    (before, after)
}

#[test]
fn what_was_renamed_takes_no_more_memory_than_what_was_put() {
    let rename = |store: &Store, from: &str, to: &str| {
        copy(store, from, None, to).unwrap();
        delete(store, "b", from, Selector::Current).unwrap();
    };
    let undone = |store: &Store, from: &str, to: &str| {
        copy(store, from, None, to).unwrap();
        delete(store, "b", to, Selector::Current).unwrap();
    };
    let twice = |store: &Store, from: &str, to: &str| {
        rename(store, from, to);
        rename(store, to, from);
    };
    for (before, after) in [index_bytes_after(rename), index_bytes_after(undone), index_bytes_after(twice)] {
        assert!(after * 10 <= before * 12, "{} bytes a key became {}", before / 1_000, after / 1_000);
    }
}

#[test]
fn a_completed_upload_is_the_bytes_of_its_parts_in_order_also_after_reopening() {
    let fs = SimFs::new();
    let store = store_with_bucket(&fs);
    let upload = store.create_upload("b", "k", new_upload()).unwrap().id;
    let parts = [bytes(1, 300_000), bytes(2, 10), bytes(3, 0), bytes(4, 70_000)];
    for (at, part) in parts.iter().enumerate().rev() {
        put_part(&store, upload, at as u32 + 1, part).unwrap();
    }
    put_part(&store, upload, 9, b"not listed").unwrap();
    assert!(keys(&store, "b").is_empty());
    drop(store);
    let store = open(&fs);
    assert_eq!(store.upload("b", "k", upload).unwrap().parts.len(), 5);
    complete(&store, upload, &[1, 2, 3, 4]).unwrap();
    let live_before = store.health().live_bytes;
    let check = |store: &Store| {
        assert_eq!(get(store, "b", "k").unwrap(), parts.concat());
        assert_eq!(store.upload("b", "k", upload), Err(StoreError::NoSuchUpload));
        let made = store.find_completed("b", "k", upload).unwrap().unwrap();
        assert_eq!(
            made.upload.unwrap().parts.iter().map(|p| p.size).collect::<Vec<_>>(),
            [300_000, 10, 0, 70_000]
        );
        assert_eq!(store.health().live_bytes, live_before);
    };
    check(&store);
    check(&open(&fs.crash(CrashPolicy::DropAll)));
}

#[test]
fn what_a_writer_of_a_part_answers_can_be_completed() {
    let store = store_with_bucket(&SimFs::new());
    let upload = store.create_upload("b", "k", new_upload()).unwrap().id;
    let parts = [b"one", b"two"]
        .iter()
        .zip(1..)
        .map(|(part, number)| put_part(&store, upload, number, *part).unwrap());
    let completion = Completion { upload, parts: parts.collect(), commit: commit_of(b"") };
    store.complete_upload("b", "k", completion).unwrap();
    assert_eq!(get(&store, "b", "k").unwrap(), b"onetwo");
}

#[test]
fn no_parts_and_parts_out_of_order_are_refused_by_the_store_itself() {
    let fs = SimFs::new();
    let store = store_with_bucket(&fs);
    let upload = store.create_upload("b", "k", new_upload()).unwrap().id;
    let parts: Vec<_> =
        (1..=2).map(|number| put_part(&store, upload, number, &bytes(1, 9_000)).unwrap()).collect();
    let one = parts[0].clone();
    let two = parts[1].clone();
    let live = store.health().live_bytes;
    for wrong in [vec![], vec![one.clone(), one.clone()], vec![two.clone(), one.clone()]] {
        let completion = Completion { upload, parts: wrong, commit: commit_of(b"") };
        assert_eq!(store.complete_upload("b", "k", completion), Err(StoreError::PartsOutOfOrder));
    }
    assert_eq!((store.health().live_bytes, keys(&store, "b").len()), (live, 0));
    let completion = Completion { upload, parts: vec![one, two], commit: commit_of(b"") };
    store.complete_upload("b", "k", completion).unwrap();
}

#[test]
fn completing_copies_no_bytes() {
    let fs = SimFs::new();
    let store = store_with_bucket(&fs);
    let upload = store.create_upload("b", "k", new_upload()).unwrap().id;
    put_part(&store, upload, 1, &bytes(1, 1 << 20)).unwrap();
    // Small things are written over zeros, which are there from here on.
    put(&store, "b", "small", b"x").unwrap();
    let before = fs.trace().len();
    complete(&store, upload, &[1]).unwrap();
    let written: u64 =
        fs.trace()[before..].iter().filter(|op| op.kind == OpKind::Write).map(|op| op.len).sum();
    assert!(written < 100_000, "{written} bytes for an object of a mebibyte");
}

#[test]
fn an_ended_upload_takes_nothing_more() {
    let store = store_with_bucket(&SimFs::new());
    let upload = store.create_upload("b", "k", new_upload()).unwrap().id;
    let mut late = store.part_writer("b", "k", upload, 1, None).unwrap();
    late.write(bytes(1, 100_000)).unwrap();
    store.abort_upload("b", "k", upload).unwrap();
    assert_eq!(late.commit([0; 16], None), Err(StoreError::NoSuchUpload));
    assert_eq!(put_part(&store, upload, 1, b"x"), Err(StoreError::NoSuchUpload));
    assert_eq!(store.abort_upload("b", "k", upload), Err(StoreError::NoSuchUpload));
    assert_eq!(store.health().live_bytes, 0);
}

#[test]
fn a_part_that_was_replaced_behind_the_callers_back_is_not_completed() {
    let store = store_with_bucket(&SimFs::new());
    let upload = store.create_upload("b", "k", new_upload()).unwrap().id;
    let seen = put_part(&store, upload, 1, b"old").unwrap();
    put_part(&store, upload, 1, b"new").unwrap();
    let completion = Completion { upload, parts: vec![seen], commit: commit_of(b"") };
    assert_eq!(store.complete_upload("b", "k", completion), Err(StoreError::PartReplaced(1)));
    complete(&store, upload, &[1]).unwrap();
    assert_eq!(get(&store, "b", "k").unwrap(), b"new");
}

#[test]
fn a_bucket_is_deleted_with_its_uploads() {
    let fs = SimFs::new();
    let store = store_with_bucket(&fs);
    let upload = store.create_upload("b", "k", new_upload()).unwrap().id;
    put_part(&store, upload, 1, &bytes(1, 100)).unwrap();
    store.delete_bucket("b").unwrap();
    assert_eq!(store.health().live_bytes, 0);
    store.create_bucket("b", "admin").unwrap();
    assert_eq!(store.upload("b", "k", upload), Err(StoreError::NoSuchUpload));
    drop(store);
    assert_eq!(open(&fs).upload("b", "k", upload), Err(StoreError::NoSuchUpload));
}

#[test]
fn a_copy_shares_bytes_and_outlives_its_source() {
    let fs = SimFs::new();
    let store = store_with_bucket(&fs);
    for (name, len) in [("small", 100), ("large", 400_000), ("empty", 0)] {
        let all = bytes(7, len);
        put(&store, "b", name, &all).unwrap();
        let live = store.health().live_bytes;
        copy(&store, name, None, "copy").unwrap();
        copy(&store, "copy", None, "copy-of-copy").unwrap();
        assert!(store.health().live_bytes - live <= 2 * 64, "only the records are new");
        delete(&store, "b", name, Selector::Current).unwrap();
        delete(&store, "b", "copy", Selector::Current).unwrap();
        assert_eq!(get(&store, "b", "copy-of-copy").unwrap(), all);
        delete(&store, "b", "copy-of-copy", Selector::Current).unwrap();
        assert_eq!(store.health().live_bytes, 0);
    }
}

#[test]
fn ranges_are_copied_into_objects_and_parts() {
    let fs = SimFs::new();
    let store = store_with_bucket(&fs);
    let all = bytes(7, 400_000);
    put(&store, "b", "source", &all).unwrap();
    copy(&store, "source", Some(70_000..140_001), "slice").unwrap();
    copy(&store, "slice", Some(1..70_000), "slice-of-slice").unwrap();
    assert_eq!(get(&store, "b", "slice-of-slice").unwrap(), all[70_001..140_000]);
    let upload = store.create_upload("b", "k", new_upload()).unwrap().id;
    let found = store.find("b", "source", Selector::Current).unwrap();
    for (number, range) in [(1, 10..300_000), (2, 0..5)] {
        let source = CopyRange {
            bucket: found.bucket.id,
            key: "source".into(),
            version: found.version.clone(),
            range,
        };
        store.copy_part(source, ("b", "k"), (upload, number), [0; 16], None).unwrap();
    }
    delete(&store, "b", "source", Selector::Current).unwrap();
    complete(&store, upload, &[1, 2]).unwrap();
    store.close();
    drop(store);
    let store = open(&fs);
    assert_eq!(get(&store, "b", "k").unwrap(), [&all[10..300_000], &all[..5]].concat());
}

#[test]
fn a_source_that_is_gone_at_the_commit_is_not_copied() {
    let store = store_with_bucket(&SimFs::new());
    put(&store, "b", "source", b"x").unwrap();
    let found = store.find("b", "source", Selector::Current).unwrap();
    delete(&store, "b", "source", Selector::Current).unwrap();
    let source =
        CopyRange { bucket: found.bucket.id, key: "source".into(), version: found.version, range: 0..1 };
    assert_eq!(store.copy(source, "b", "copy", commit_of(b"")), Err(StoreError::NoSuchVersion));
}

#[test]
fn copying_onto_itself_changes_the_attributes_and_keeps_the_bytes() {
    let fs = SimFs::new();
    let store = store_with_bucket(&fs);
    put(&store, "b", "k", &bytes(1, 200_000)).unwrap();
    let found = store.find("b", "k", Selector::Current).unwrap();
    let source =
        CopyRange { bucket: found.bucket.id, key: "k".into(), version: found.version, range: 0..200_000 };
    let mut commit = commit_of(b"");
    commit.attributes.push("meta-a", "b");
    store.copy(source, "b", "k", commit).unwrap();
    drop(store);
    let store = open(&fs);
    assert_eq!(get(&store, "b", "k").unwrap(), bytes(1, 200_000));
    let version = store.find("b", "k", Selector::Current).unwrap().version;
    assert_eq!(version.attributes.get("meta-a"), Some("b"));
}

#[test]
fn tags_are_replaced_in_place_and_survive_a_copy_of_the_version() {
    let fs = SimFs::new();
    let store = store_with_bucket(&fs);
    store.set_versioning("b", Versioning::Enabled).unwrap();
    let old = put(&store, "b", "k", b"old").unwrap();
    put(&store, "b", "k", b"new").unwrap();
    let version = store.find("b", "k", Selector::Id(old.id)).unwrap().version;
    let tags = vec![("colour".to_owned(), "grün".to_owned())];
    store.set_tags("b", "k", version.clone(), tags.clone()).unwrap();
    assert_eq!(get(&store, "b", "k").unwrap(), b"new");
    let source = CopyRange { bucket: store.bucket("b").unwrap().id, key: "k".into(), version, range: 0..3 };
    store.copy(source, "b", "copy", commit_of(b"")).unwrap();
    drop(store);
    let store = open(&fs);
    assert_eq!(store.find("b", "k", Selector::Id(old.id)).unwrap().version.tags, tags);
}

/// The least of many times that something took: what disturbs a run makes it longer.
fn least_time(mut work: impl FnMut()) -> Duration {
    let once = |_| {
        let begun = Instant::now();
        work();
        begun.elapsed()
    };
    (0..200).map(once).min().unwrap()
}

#[test]
fn many_uploads_make_the_health_of_the_store_no_dearer_to_tell() {
    let store = store_with_bucket(&SimFs::new());
    let tell = || least_time(|| assert!(std::hint::black_box(store.health()).read_only.is_none()));
    let few = tell();
    for _ in 0..3_000 {
        store.create_upload("b", "k", new_upload()).unwrap();
    }
    let many = tell();
    // To walk them, which takes hundreds of times as long, is what this is about.
    assert!(many < 20 * few, "{few:?} without uploads, {many:?} with 3,000");
}
