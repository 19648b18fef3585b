//! Rebuilding the log from the segments alone. [`super::random`] does so after long random work.

use std::path::Path;

use super::model::Model;
use super::random::{rebuild_log, segments_of};
use super::script::WORK;
use super::waiting::{begin, hold};
use super::*;
use crate::base::limits::PAGE_BYTES;
use crate::base::test_scope::points;
use crate::format::{FileKind, log_path, segment_path};
use crate::fs::OsFs;
use crate::fs::sim::CrashPolicy;
use crate::log::list_numbers;
use crate::offline::rebuild::{RebuildError, RebuildOptions, RebuildReport};

fn try_rebuild(fs: &SimFs, replace: bool) -> Result<RebuildReport, RebuildError> {
    let clock = ManualClock::new(Timestamp::from_millis(1_800_000_000_000));
    rebuild(fs, &clock, &RebuildOptions { replace, owner: "nobody".into() }, &mut |_| {})
}

/// A store after the loss and rebuild of its log.
fn without_log(fs: &SimFs) -> (Store, RebuildReport) {
    let fs = segments_of(fs);
    let rebuilt = rebuild_log(&fs);
    (open(&fs), rebuilt)
}

/// The sizes of all versions of a key, newest first.
fn sizes(store: &Store, key: &str) -> Vec<u64> {
    let id = store.bucket("b").unwrap().id;
    store.shared.index().summaries(id, key.as_bytes()).map(|version| version.size).collect()
}

#[test]
fn an_existing_log_is_replaced_only_with_the_option_and_moved_aside() {
    let fs = SimFs::new();
    let store = open(&fs);
    store.create_bucket("b", "admin").unwrap();
    put(&store, "b", "k", b"abc").unwrap();
    store.close();
    drop(store);
    let before = damage::everything(&fs);
    let refused = try_rebuild(&fs, false).unwrap_err();
    assert!(matches!(&refused, RebuildError::HasLog(path) if *path == log_path(1)), "{refused}");
    assert!(damage::everything(&fs) == before);

    let rebuilt = try_rebuild(&fs, true).unwrap();
    assert_eq!(rebuilt.moved.len(), 2, "{:?}", rebuilt.moved);
    for (path, bytes) in before.iter().filter(|(path, _)| path.starts_with("meta/")) {
        let aside = rebuilt.moved.iter().find(|aside| aside.starts_with(path)).unwrap();
        assert!(fs.contents(aside).unwrap() == *bytes);
    }
    assert_eq!(get(&open(&fs), "b", "k").unwrap(), b"abc");
}

#[test]
fn a_checkpoint_saves_the_next_start_the_replay_of_the_new_log() {
    let fs = SimFs::new();
    let store = open(&fs);
    store.create_bucket("b", "admin").unwrap();
    put(&store, "b", "k", b"abc").unwrap();
    drop(store);
    let fs = segments_of(&fs);
    rebuild_log(&fs);
    let checkpoints = list_numbers(&fs, FileKind::Checkpoint).unwrap();
    assert_eq!(verify(&fs, &mut |_| {}).unwrap().findings, []);
    let store = open(&fs);
    assert_eq!(checkpoints, [store.health().sequence]);
    assert_eq!((get(&store, "b", "k").unwrap(), store.health().damage), (b"abc".to_vec(), vec![]));
    put(&store, "b", "more", b"def").unwrap();
    drop(store);
    assert_eq!(get(&open(&fs.crash(CrashPolicy::DropAll)), "b", "more").unwrap(), b"def");

    // Without space for it, the log alone is a complete store.
    let fs = segments_of(&fs);
    let used: u64 = fs.files().iter().map(|(_, len)| len).sum();
    let full = (4096..200_000).step_by(4096).find_map(|more| {
        let fs = segments_of(&fs);
        fs.set_capacity(used.next_multiple_of(4096) + more);
        let done = try_rebuild(&fs, false).is_ok();
        (done && list_numbers(&fs, FileKind::Checkpoint).unwrap().is_empty()).then_some(fs)
    });
    let full = full.expect("somewhere the room ends between the log and the checkpoint");
    full.set_capacity(1 << 30);
    assert_eq!(get(&open(&full), "b", "k").unwrap(), b"abc");
}

#[test]
fn an_open_store_and_one_without_segments_are_not_rebuilt() {
    let fs = SimFs::new();
    assert!(matches!(try_rebuild(&fs, true), Err(RebuildError::NoSegment)));
    assert!(fs.files().is_empty());
    let store = open(&fs);
    store.create_bucket("b", "admin").unwrap();
    put(&store, "b", "k", b"abc").unwrap();
    assert!(matches!(try_rebuild(&fs, true), Err(RebuildError::Locked)));
}

#[test]
fn a_crash_at_any_operation_of_a_rebuild_leaves_the_old_log_or_none_or_the_whole_new_one() {
    let fs = SimFs::new();
    let options = StoreOptions { log_file_max_bytes: 16_384, checkpoint_after_bytes: 30_000, ..options() };
    drop(script::work(&fs, options, WORK, Model::default()).map_err(|_| ()).unwrap());
    let before = everything_in(&fs);
    let after = {
        let fs = segments_of(&fs);
        rebuild_log(&fs);
        everything_in(&fs)
    };
    for policy in [CrashPolicy::DropAll, CrashPolicy::KeepAll, CrashPolicy::Random(seed())] {
        for stop in points(1) {
            let copy = copy_of(&fs);
            copy.stop_at(stop);
            let done = try_rebuild(&copy, true).is_ok();
            let crashed = copy.crash(policy);
            match try_open(&crashed) {
                Ok(store) => {
                    assert!(store.health().damage.is_empty());
                    let found = Model::of(&store);
                    assert!(found == before || found == after, "at operation {stop}");
                }
                Err(OpenError::Damaged(_)) => {
                    try_rebuild(&crashed, true).unwrap();
                    assert!(everything_in(&crashed) == after, "at operation {stop}");
                }
                Err(error) => panic!("{error}"),
            }
            if done {
                break;
            }
        }
    }
}

fn everything_in(fs: &SimFs) -> Model {
    Model::of(&open(fs))
}

/// Another disk with the same files, all durable.
fn copy_of(fs: &SimFs) -> SimFs {
    let copy = segments_of(fs);
    copy.create_dir("meta").unwrap();
    for (path, _) in fs.files().iter().filter(|(path, _)| path.starts_with("meta/")) {
        copy.create(path).unwrap().write_all_at(&fs.contents(path).unwrap(), 0).unwrap();
    }
    for (path, _) in copy.files() {
        copy.open(&path).unwrap().sync_data().unwrap();
    }
    ["", "data", "meta"].iter().for_each(|dir| copy.sync_dir(dir).unwrap());
    copy
}

#[test]
fn a_put_that_was_refused_does_not_come_back() {
    let fs = SimFs::new();
    let store = open(&fs);
    store.create_bucket("b", "admin").unwrap();
    put(&store, "b", "k", b"first").unwrap();
    let refused = put_if(&store, "b", "k", &bytes(1, 200_000), WriteCondition::IfAbsent);
    assert_eq!(refused, Err(StoreError::PreconditionFailed));
    let (rebuilt, report) = without_log(&fs);
    assert_eq!(sizes(&rebuilt, "k"), [5]);
    assert_eq!((report.damage, report.skipped.unfinished), (vec![], 1));
}

#[test]
fn of_racing_puts_the_last_committed_is_the_newest() {
    let fs = SimFs::new();
    let store = Arc::new(open(&fs));
    store.create_bucket("b", "admin").unwrap();
    put(&store, "b", "other", &bytes(1, 100_000)).unwrap();
    // The large one gets its id before the small one, and is committed after it.
    let mut large = None;
    let written = bytes(2, 200_000);
    let gate = hold(&fs, &stream_segment(&store), || {
        large = Some(begin(&store, move |store| put(store, "b", "k", &written)));
    });
    assert!(gate.wait_until_held(1));
    put(&store, "b", "k", b"small").unwrap();
    drop(gate);
    large.unwrap().recv().unwrap().unwrap();
    assert_eq!(get(&store, "b", "k").unwrap(), bytes(2, 200_000));
    let (rebuilt, _) = without_log(&fs);
    assert_eq!(get(&rebuilt, "b", "k").unwrap(), bytes(2, 200_000));
    assert_eq!(sizes(&rebuilt, "k"), [200_000]);
}

#[test]
fn a_version_is_null_or_not_as_it_was_committed() {
    let fs = SimFs::new();
    let store = Arc::new(open(&fs));
    store.create_bucket("b", "admin").unwrap();
    put(&store, "b", "k", &bytes(1, 100_000)).unwrap();
    let mut large = None;
    let written = bytes(2, 200_000);
    let gate = hold(&fs, &stream_segment(&store), || {
        large = Some(begin(&store, move |store| put(store, "b", "k", &written)));
    });
    assert!(gate.wait_until_held(1));
    store.set_versioning("b", Versioning::Enabled).unwrap();
    drop(gate);
    let id = large.unwrap().recv().unwrap().unwrap().id;
    let (rebuilt, _) = without_log(&fs);
    assert_eq!(sizes(&rebuilt, "k"), [200_000, 100_000]);
    assert!(rebuilt.find("b", "k", Selector::Id(id)).is_ok(), "it is no null version");
    assert_eq!(rebuilt.bucket("b").unwrap().versioning, Versioning::Enabled);
}

/// The path of the segment for large objects.
fn stream_segment(store: &Store) -> String {
    let index = store.shared.index();
    let bucket = index.bucket("b").unwrap().id;
    let found = ["other", "k"].iter().find_map(|key| index.newest(bucket, key.as_bytes()));
    segment_path(found.expect("a large object was put").extents[0].segment)
}

#[test]
fn objects_with_missing_bytes_are_named_unless_they_were_replaced() {
    let fs = SimFs::new();
    let store = open(&fs);
    store.create_bucket("b", "admin").unwrap();
    put(&store, "b", "gone", &bytes(1, 200_000)).unwrap();
    put(&store, "b", "replaced", &bytes(2, 200_000)).unwrap();
    let places =
        ["gone", "replaced"].map(|key| store.find("b", key, Selector::Current).unwrap().version.extents[0]);
    put(&store, "b", "replaced", b"later").unwrap();
    drop(store);
    // The remains of a punched hole: the header may still be there.
    fs.overwrite(&segment_path(places[0].segment), places[0].offset + PAGE_BYTES, &[0; 150_000]).unwrap();
    fs.overwrite(&segment_path(places[1].segment), places[1].offset, &[0; 190_000]).unwrap();
    let (rebuilt, report) = without_log(&fs);
    assert_eq!(keys(&rebuilt, "b"), ["replaced"]);
    assert_eq!((report.lost.len(), report.skipped.replaced), (1, 1));
    let lost = &report.lost[0];
    assert_eq!((lost.owner.bucket.as_str(), lost.owner.key.as_str()), ("b", "gone"));
    assert_eq!(lost.damage.as_ref().unwrap().file, segment_path(places[0].segment));
}

#[test]
fn an_extent_in_relocation_appears_twice_and_counts_once() {
    let fs = SimFs::new();
    let store = open(&fs);
    store.create_bucket("b", "admin").unwrap();
    put(&store, "b", "k", b"abc").unwrap();
    let extent = store.find("b", "k", Selector::Current).unwrap().version.extents[0];
    let segment = store.shared.segments.get(extent.segment).unwrap();
    let mut header = segment.extent(&store.shared.store, extent.offset).unwrap();
    let mut bytes = vec![0; header.extent_len() as usize];
    segment.file.read_exact_at(&mut bytes, extent.offset).unwrap();
    header.offset = 20 * PAGE_BYTES;
    bytes[..64].copy_from_slice(&header.encode(&store.shared.store));
    drop(store);
    fs.overwrite(&segment_path(extent.segment), header.offset, &bytes).unwrap();
    let (rebuilt, report) = without_log(&fs);
    assert_eq!((report.restored.versions, report.skipped.replaced), (1, 0));
    assert_eq!(get(&rebuilt, "b", "k").unwrap(), b"abc");
}

#[test]
fn objects_of_a_deleted_and_recreated_bucket_are_not_restored() {
    let fs = SimFs::new();
    let store = open(&fs);
    store.create_bucket("b", "admin").unwrap();
    put(&store, "b", "old", b"abc").unwrap();
    delete(&store, "b", "old", Selector::Current).unwrap();
    store.delete_bucket("b").unwrap();
    store.create_bucket("b", "camera").unwrap();
    put(&store, "b", "new", b"abc").unwrap();
    let (rebuilt, report) = without_log(&fs);
    assert_eq!(keys(&rebuilt, "b"), ["new"]);
    assert_eq!(rebuilt.bucket("b").unwrap(), store.bucket("b").unwrap());
    assert_eq!(report.skipped.in_deleted_buckets, 1);
}

#[test]
fn a_segment_with_a_bad_first_page_is_searched_and_one_of_another_store_is_not() {
    let fs = SimFs::new();
    let store = open(&fs);
    store.create_bucket("b", "admin").unwrap();
    put(&store, "b", "small", b"abc").unwrap();
    put(&store, "b", "large", &bytes(1, 200_000)).unwrap();
    drop(store);
    fs.damage(&segment_path(1), 100, 1).unwrap();
    let foreign = damage::foreign(&damage::Sample::new(options()), &segment_path(1));
    fs.create(&segment_path(9)).unwrap().write_all_at(&foreign, 0).unwrap();
    let fs = segments_of(&fs);
    let report = rebuild_log(&fs);
    assert_eq!((report.restored.versions, report.lost.len()), (2, 0));
    let files: Vec<_> = report.damage.iter().map(|damage| damage.file.clone()).collect();
    assert_eq!(files, [segment_path(1), segment_path(9)]);
}

/// Stores from before records named their bucket and sources are restored as far as possible.
#[test]
fn a_store_of_siltstone_0_1_0_is_rebuilt_as_far_as_its_segments_allow() {
    let fs = SimFs::new();
    fs.create_dir("data").unwrap();
    let fixture = OsFs::new(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/format/v1-mixed"));
    for id in list_numbers(&fixture, FileKind::Segment).unwrap() {
        let file = fixture.open_read(&segment_path(id)).unwrap();
        let mut bytes = vec![0; file.len().unwrap() as usize];
        file.read_exact_at(&mut bytes, 0).unwrap();
        fs.create(&segment_path(id)).unwrap().write_all_at(&bytes, 0).unwrap();
    }
    let report = rebuild_log(&fs);
    let store = open(&fs);
    assert_eq!(keys(&store, "plain"), ["large", "tagged"]);
    assert_eq!(keys(&store, "versioned"), ["gone", "k"]);
    assert_eq!(get(&store, "plain", "large").unwrap(), bytes(1, 200_000));
    assert_eq!(get(&store, "versioned", "k").unwrap(), b"second");
    let versioned = store.bucket("versioned").unwrap();
    assert_eq!((versioned.owner.as_str(), versioned.versioning), ("nobody", Versioning::Enabled));
    let lost: Vec<_> = report.lost.iter().map(|lost| lost.owner.key.as_str()).collect();
    assert_eq!(lost, ["film", "slice"], "{:#?}", report.lost);
    assert_eq!(report.assumptions.len(), 2);
}

/// With a clock that was set back, two starts in a row give out the same numbers if nothing is
/// committed in between.
#[test]
fn bytes_of_a_refused_write_with_the_same_number_do_not_pass_for_those_of_another_key() {
    for before in [5, 200_000, 400_000] {
        let fs = SimFs::new();
        let store = open(&fs);
        store.create_bucket("b", "admin").unwrap();
        put(&store, "b", "a", &bytes(1, before)).unwrap();
        drop(store);
        let store = open(&fs);
        let refused = put_if(&store, "b", "a", &bytes(2, 200_000), WriteCondition::IfAbsent);
        assert_eq!(refused.map(|_| ()), Err(StoreError::PreconditionFailed));
        let number = store.shared.ids.last();
        drop(store);
        let store = open(&fs);
        put(&store, "b", "c", &bytes(3, 200_000)).unwrap();
        assert_eq!(store.shared.ids.last(), number, "the numbers are the same");
        drop(store);
        let (store, rebuilt) = without_log(&fs);
        assert_eq!((rebuilt.lost, rebuilt.damage), (vec![], vec![]));
        assert!(get(&store, "b", "a").unwrap() == bytes(1, before));
        assert!(get(&store, "b", "c").unwrap() == bytes(3, 200_000), "after {before} bytes");
    }
}
