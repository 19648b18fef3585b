//! The live extents of mostly dead segments are relocated, while clients use them.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use super::reclaim::small_segments;
use super::*;
use crate::base::limits::{MIB, SEGMENTS_BESIDE_MAX};
use crate::format::{FileKind, segment_path};
use crate::fs::Fs;
use crate::fs::sim::CrashPolicy;
use crate::log::list_numbers;

fn used(fs: &SimFs) -> u64 {
    let ids = list_numbers(fs, FileKind::Segment).unwrap();
    ids.iter().map(|id| fs.open_read(&segment_path(*id)).unwrap().usage().unwrap().allocated_bytes).sum()
}

fn nothing_found(fs: &SimFs) {
    assert_eq!(verify(fs, &mut |_| {}).unwrap().findings, []);
}

/// A store with every fifth object left, in segments without other live extents.
fn sparse(fs: &SimFs, options: StoreOptions) -> Store {
    let store = open_with(fs, options).unwrap();
    store.create_bucket("b", "admin").unwrap();
    for at in 0..50 {
        put(&store, "b", &format!("k{at}"), &bytes(at, 10_000 + at as usize)).unwrap();
    }
    for at in (0..50).filter(|at| at % 5 != 0) {
        delete(&store, "b", &format!("k{at}"), Selector::Current).unwrap();
    }
    store
}

fn check_sparse(store: &Store) {
    for at in (0..50).step_by(5) {
        assert_eq!(get(store, "b", &format!("k{at}")).unwrap(), bytes(at, 10_000 + at as usize));
    }
}

#[test]
fn live_extents_are_moved_together_and_the_segments_removed() {
    let fs = SimFs::new();
    let store = sparse(&fs, small_segments());
    let before = used(&fs);
    reclaim_all(&store).unwrap();
    let health = store.health();
    assert!(health.moved_bytes > 50_000 && health.reclaimed_segments >= 4, "{health:?}");
    assert!(used(&fs) <= 2 * health.live_bytes + 2 * 100_000 && used(&fs) < before, "{}", used(&fs));
    check_sparse(&store);
    let moved = health.moved_bytes;
    reclaim_all(&store).unwrap();
    assert_eq!(store.health().moved_bytes, moved, "once is enough");
    drop(store);
    for policy in [CrashPolicy::DropAll, CrashPolicy::KeepAll, CrashPolicy::Random(1)] {
        let fs = fs.crash(policy);
        let store = open_with(&fs, small_segments()).unwrap();
        check_sparse(&store);
        drop(store);
        nothing_found(&fs);
    }
}

#[test]
fn relocated_extents_are_the_same_to_the_last_bit() {
    let fs = SimFs::new();
    let options = StoreOptions { segment_max_bytes: 2_000_000, ..options() };
    let store = open_with(&fs, options).unwrap();
    store.create_bucket("b", "admin").unwrap();
    for (key, len) in [("small", 500), ("blocks", 200_000), ("large", 400_000)] {
        put(&store, "b", key, &bytes(7, len)).unwrap();
        put(&store, "b", "gone", &bytes(8, 1_000_000)).unwrap();
    }
    delete(&store, "b", "gone", Selector::Current).unwrap();
    let extents = |key: &str| {
        let version = store.find("b", key, Selector::Current).unwrap().version;
        let raw = |extent: &crate::format::ExtentRef| {
            let segment = store.shared.segments.get(extent.segment).unwrap();
            let header = segment.extent(&store.shared.store, extent.offset).unwrap();
            let mut bytes = vec![0; header.extent_len() as usize - 64];
            segment.file.read_exact_at(&mut bytes, extent.offset + 64).unwrap();
            (header.payload_len, header.check, header.descriptor_crc, bytes)
        };
        let spots: Vec<_> = version.extents.iter().map(|extent| (extent.segment, extent.offset)).collect();
        (version.extents.iter().map(raw).collect::<Vec<_>>(), spots)
    };
    let keys = ["small", "blocks", "large"];
    let before = keys.map(extents);
    store.shared.segments.retire(|_| true);
    reclaim_all(&store).unwrap();
    let after = keys.map(extents);
    let count =
        |pairs: &[(Vec<_>, Vec<(u64, u64)>)]| pairs.iter().map(|(_, spots)| spots.len()).sum::<usize>();
    assert_eq!(count(&before), count(&after));
    for ((raw, spots), (moved, moved_to)) in before.iter().zip(&after) {
        assert_eq!(raw, moved);
        assert!(spots.iter().zip(moved_to).all(|(from, to)| from != to), "{spots:?} {moved_to:?}");
    }
}

#[test]
fn shared_extents_are_moved_once_for_all_their_records() {
    let fs = SimFs::new();
    let store = open_with(&fs, small_segments()).unwrap();
    store.create_bucket("b", "admin").unwrap();
    put(&store, "b", "source", &bytes(1, 30_000)).unwrap();
    put(&store, "b", "gone", &bytes(2, 60_000)).unwrap();
    for at in 0..600 {
        let found = store.find("b", "source", Selector::Current).unwrap();
        let bucket = found.bucket.id;
        let range = 100..20_000 + at;
        let source = CopyRange { bucket, key: "source".into(), version: found.version, range };
        store.copy(source, "b", &format!("{at:03}"), commit_of(b"")).unwrap();
    }
    delete(&store, "b", "source", Selector::Current).unwrap();
    delete(&store, "b", "gone", Selector::Current).unwrap();
    let spot = || {
        let extent = store.find("b", "000", Selector::Current).unwrap().version.extents[0];
        assert!(extent.shared);
        (extent.segment, extent.offset)
    };
    let before = spot();
    reclaim_all(&store).unwrap();
    let after = spot();
    assert_ne!(before, after);
    for at in 0..600 {
        let found = store.find("b", &format!("{at:03}"), Selector::Current).unwrap();
        assert_eq!((found.version.extents[0].segment, found.version.extents[0].offset), after);
        let read = to_end(store.read(&found, 0..found.version.size).unwrap()).unwrap();
        assert_eq!(read, bytes(1, 30_000)[100..20_000 + at as usize]);
    }
    assert!(!list_numbers(&fs, FileKind::Segment).unwrap().contains(&before.0));
    drop(store);
    nothing_found(&fs);
}

#[test]
fn a_bad_extent_is_reported_and_stays_while_the_others_are_moved() {
    let fs = SimFs::new();
    let store = sparse(&fs, small_segments());
    let extent = store.find("b", "k5", Selector::Current).unwrap().version.extents[0];
    fs.damage(&segment_path(extent.segment), extent.offset + 64 + 3_000, 1).unwrap();
    reclaim_all(&store).unwrap();
    let after = store.find("b", "k5", Selector::Current).unwrap().version.extents[0];
    assert_eq!(after, extent);
    assert_eq!(store.health().damage[0].file, segment_path(extent.segment));
    assert_eq!(store.health().read_only, None);
    assert_eq!(store.shared.index().liveness().of(extent.segment), 64 + 10_005, "the others have gone");
    assert_eq!(get(&store, "b", "k10").unwrap(), bytes(10, 10_010));
    let moved = store.health().moved_bytes;
    reclaim_all(&store).unwrap();
    assert_eq!(store.health().moved_bytes, moved, "there is no use in trying again");
}

/// Small objects with long keys look half dead while all of them live. They must not be relocated
/// for ever.
#[test]
fn small_objects_with_long_keys_are_not_moved_again_and_again() {
    let fs = SimFs::new();
    let store = open_with(&fs, small_segments()).unwrap();
    store.create_bucket("b", "admin").unwrap();
    for at in 0..400 {
        put(&store, "b", &format!("{at:0900}"), b"x").unwrap();
    }
    reclaim_all(&store).unwrap();
    // Each had a page of its own.
    let moved = store.health().moved_bytes;
    assert!(used(&fs) < 400 * 3_000, "{}", used(&fs));
    reclaim_all(&store).unwrap();
    assert_eq!(store.health().moved_bytes, moved);
    store.close();
    drop(store);
    let store = open_with(&fs, small_segments()).unwrap();
    reclaim_all(&store).unwrap();
    assert_eq!(store.health().moved_bytes, 0, "not after a restart either");
}

/// Every change that may happen to a record while its extents are copied.
fn change(store: &Store, thread: u64, round: u64) {
    let key = format!("{thread}-{}", round % 7);
    let expected = bytes(round, 9_000);
    put(store, "b", &key, &expected).unwrap();
    let found = store.find("b", &key, Selector::Current).unwrap();
    let bucket = found.bucket.id;
    let version = found.version.clone();
    let twin = format!("{key}-twin");
    store.set_tags("b", &key, version.clone(), vec![("a".into(), "b".into())]).unwrap();
    let source = CopyRange { bucket, key: key.clone(), range: 0..9_000, version };
    store.copy(source, "b", &twin, commit_of(b"")).unwrap();
    assert_eq!(to_end(store.read(&found, 0..9_000).unwrap()).unwrap(), expected);
    let now = store.find("b", &key, Selector::Current).unwrap();
    assert_eq!(now.version.tags, [("a".to_owned(), "b".to_owned())]);
    if round.is_multiple_of(3) {
        delete(store, "b", &key, Selector::Current).unwrap();
    }
    assert_eq!(get(store, "b", &twin).unwrap(), expected);
}

/// A record that changes while its extents are copied keeps its change.
#[test]
fn of_a_racing_move_and_change_both_hold_or_only_the_change() {
    let fs = SimFs::new();
    let store = open_with(&fs, small_segments()).unwrap();
    store.create_bucket("b", "admin").unwrap();
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                store.reclaim().unwrap();
            }
        });
        let changers: Vec<_> = (0..2)
            .map(|thread| {
                scope.spawn({
                    let store = &store;
                    move || (0..300).for_each(|round| change(store, thread, round))
                })
            })
            .collect();
        let ended: Vec<_> = changers.into_iter().map(thread::ScopedJoinHandle::join).collect();
        done.store(true, Ordering::Relaxed);
        ended.into_iter().for_each(Result::unwrap);
    });
    assert!(store.health().moved_bytes > 0);
    reclaim_all(&store).unwrap();
    assert_eq!((store.health().damage, store.health().read_only), (vec![], None));
    drop(store);
    nothing_found(&fs);
}

#[test]
fn parts_of_uploads_in_progress_are_moved_too() {
    let fs = SimFs::new();
    let store = open_with(&fs, small_segments()).unwrap();
    store.create_bucket("b", "admin").unwrap();
    let upload = begin_upload(&store, "b", "film").unwrap();
    let mut parts = vec![];
    for number in 1..=4 {
        let content = bytes(u64::from(number), 8_000);
        let mut writer = store.part_writer("b", "film", upload, number, None).unwrap();
        writer.write(&content).unwrap();
        parts.push(writer.commit(Md5::of(&content), None).unwrap());
        put(&store, "b", "gone", &bytes(9, 60_000)).unwrap();
        put(&store, "b", "gone", &bytes(9, 60_000)).unwrap();
    }
    delete(&store, "b", "gone", Selector::Current).unwrap();
    let before = store.upload("b", "film", upload).unwrap().parts;
    reclaim_all(&store).unwrap();
    let after = store.upload("b", "film", upload).unwrap().parts;
    assert!(before.iter().zip(&after).any(|(before, after)| before.extents != after.extents));
    for part in &before {
        // A part that was looked up before the relocation can be read, and the upload completed.
        let reader = store.read_part("b", "film", upload, part).unwrap();
        assert_eq!(to_end(reader).unwrap(), bytes(u64::from(part.number), 8_000));
    }
    store.complete_upload("b", "film", Completion { upload, parts: before, commit: commit_of(b"") }).unwrap();
    let whole: Vec<u8> = (1..=4).flat_map(|number| bytes(number, 8_000)).collect();
    assert_eq!(get(&store, "b", "film").unwrap(), whole);
}

/// Five in seven of the objects of a segment are live: too many to relocate them for their own
/// sake.
#[test]
fn segments_are_merged_if_there_are_too_many() {
    let fs = SimFs::new();
    let store = open_with(&fs, small_segments()).unwrap();
    store.create_bucket("b", "admin").unwrap();
    let segments = |fs: &SimFs| list_numbers(fs, FileKind::Segment).unwrap().len() as u64;
    let mut moved = 0;
    for at in 0..1200 {
        put(&store, "b", &format!("k{at}"), &bytes(at, 12_000)).unwrap();
        if at % 7 < 2 {
            delete(&store, "b", &format!("k{at}"), Selector::Current).unwrap();
        }
        if at % 100 == 99 {
            reclaim_all(&store).unwrap();
            let live = store.health().live_bytes;
            let health = store.health();
            assert!(
                segments(&fs) <= live / 100_000 + SEGMENTS_BESIDE_MAX + 3,
                "{} for {live}",
                segments(&fs)
            );
            moved = health.moved_bytes;
            assert!(at >= 400 || moved == 0, "before there are too many nothing is moved: {at}");
        }
    }
    assert!(moved > 0 && moved < 1200 * 12_000, "{moved}");
    drop(store);
    let store = open_with(&fs, small_segments()).unwrap();
    reclaim_all(&store).unwrap();
    assert!(store.health().moved_bytes < 500_000, "{} after a restart", store.health().moved_bytes);
    for at in (0..1200).filter(|at| at % 7 >= 2) {
        assert_eq!(get(&store, "b", &format!("k{at}")).unwrap(), bytes(at, 12_000));
    }
    drop(store);
    nothing_found(&fs);
}

/// Each of them leaves nearly half of a segment empty, in any order.
#[test]
fn segments_that_cannot_be_fuller_stay_as_they_are() {
    let fs = SimFs::new();
    let store = open_with(&fs, small_segments()).unwrap();
    store.create_bucket("b", "admin").unwrap();
    for at in 0..120 {
        put(&store, "b", &format!("k{at}"), &bytes(at, 75_000)).unwrap();
    }
    let files = || list_numbers(&fs, FileKind::Segment).unwrap().len();
    reclaim_all(&store).unwrap();
    assert_eq!((store.health().moved_bytes, files() >= 120), (0, true));
    assert_eq!(store.reclaim().unwrap(), Reclaimed::default(), "nor are they looked at again");
}

/// The disk has space for little more than the live bytes; the space reserved for the log is not
/// used.
#[test]
fn on_a_full_disk_there_is_space_for_relocation() {
    let fs = SimFs::with_capacity(8 * MIB);
    let options = StoreOptions { keep_free_bytes: MIB, segment_max_bytes: MIB, ..options() };
    let store = open_with(&fs, options).unwrap();
    store.create_bucket("b", "admin").unwrap();
    for round in 0..4 {
        let mut count = 0;
        while put(&store, "b", &format!("{round}-{count}"), &bytes(count, 40_000)).is_ok() {
            count += 1;
        }
        assert!(count > 40, "round {round}: {count}");
        for at in (0..count).filter(|at| at % 20 != 3) {
            delete(&store, "b", &format!("{round}-{at}"), Selector::Current).unwrap();
        }
        store.checkpoint().unwrap();
        reclaim_all(&store).unwrap();
        assert!(fs.space().unwrap().free_bytes >= MIB / 2);
        assert_eq!(store.health().read_only, None);
    }
    for at in [3, 23] {
        for round in 0..4 {
            assert_eq!(get(&store, "b", &format!("{round}-{at}")).unwrap(), bytes(at, 40_000));
        }
    }
    drop(store);
    nothing_found(&fs);
}

/// Empty objects and completed uploads have extents with only a descriptor. These live and die with
/// their records.
#[test]
fn extents_with_only_a_record_take_up_no_more_than_live_ones() {
    let fs = SimFs::new();
    let store = open_with(&fs, small_segments()).unwrap();
    store.create_bucket("b", "admin").unwrap();
    for round in 0..40 {
        for at in 0..30 {
            put(&store, "b", &format!("{at:0900}"), b"").unwrap();
        }
        reclaim_all(&store).unwrap();
        // Each has a page of its own until it is relocated.
        assert!(used(&fs) <= 30 * 4096 + 5 * 100_000, "{} in round {round}", used(&fs));
    }
    assert!(store.health().live_bytes >= 30 * 64 && store.health().reclaimed_segments > 20);
    for at in 0..30 {
        delete(&store, "b", &format!("{at:0900}"), Selector::Current).unwrap();
    }
    put(&store, "b", "other", &bytes(1, 90_000)).unwrap();
    store.shared.segments.retire(|_| true);
    reclaim_all(&store).unwrap();
    assert!(list_numbers(&fs, FileKind::Segment).unwrap().len() <= 2, "nothing of them is left");
    drop(store);
    nothing_found(&fs);
}
