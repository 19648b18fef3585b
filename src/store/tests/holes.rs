//! Large dead extents in sealed segments become holes, and readers skip them.

use super::*;
use crate::base::limits::MIB;
use crate::format::{FileKind, RECLAIM, segment_path};
use crate::fs::Fs;
use crate::fs::sim::{CrashPolicy, OpKind};
use crate::log::{Scanned, SegmentRecord, SegmentScan, list_numbers};

const LEN: usize = 1_500_000;

fn wide() -> StoreOptions {
    StoreOptions { segment_max_bytes: 8 * MIB, ..options() }
}

/// Five large objects side by side with a small live one between them, all in one sealed segment.
fn filled(fs: &SimFs) -> Store {
    let store = open_with(fs, wide()).unwrap();
    store.create_bucket("b", "admin").unwrap();
    for at in 0..5 {
        put(&store, "b", &format!("k{at}"), &bytes(at, LEN)).unwrap();
        put(&store, "b", &format!("s{at}"), &bytes(at, 70_000)).unwrap();
    }
    store.shared.segments.retire(|_| true);
    put(&store, "b", "last", b"x").unwrap();
    store
}

fn delete_two(store: &Store) {
    for key in ["k1", "k3"] {
        delete(store, "b", key, Selector::Current).unwrap();
    }
}

fn check(store: &Store) {
    for at in 0..5 {
        if at % 2 == 0 {
            assert_eq!(get(store, "b", &format!("k{at}")).unwrap(), bytes(at, LEN));
        }
        assert_eq!(get(store, "b", &format!("s{at}")).unwrap(), bytes(at, 70_000));
    }
    assert_eq!(store.health().damage, []);
}

fn punched(fs: &SimFs) -> usize {
    fs.trace().iter().filter(|op| op.kind == OpKind::Punch).count()
}

#[test]
fn the_space_of_large_dead_extents_is_reclaimed_and_live_extents_stay() {
    let fs = SimFs::new();
    let store = filled(&fs);
    reclaim_all(&store).unwrap();
    assert_eq!(punched(&fs), 0, "all of it lives");
    delete_two(&store);
    let free = fs.space().unwrap().free_bytes;
    reclaim_all(&store).unwrap();
    assert_eq!((punched(&fs), store.health().moved_bytes), (2, 0));
    let won = fs.space().unwrap().free_bytes - free;
    assert!(won > 2 * LEN as u64 - 100_000, "{won}");
    let told = store.health().reclaimed_bytes;
    assert!(told.abs_diff(won) < 10_000, "{told} told of {won} bytes");
    check(&store);
    reclaim_all(&store).unwrap();
    assert_eq!(punched(&fs), 2, "once is enough");
    drop(store);
    let report = verify(&fs, &mut |_| {}).unwrap();
    assert_eq!(report.findings, []);
    let fs = fs.crash(CrashPolicy::DropAll);
    check(&open_with(&fs, wide()).unwrap());
}

/// The allocated bytes of all segments, as the disk tells.
fn on_disk(fs: &SimFs) -> Option<u64> {
    let ids = list_numbers(fs, FileKind::Segment).unwrap();
    let of = |id| fs.open_read(&segment_path(id)).unwrap().usage().unwrap().allocated_bytes;
    Some(ids.into_iter().map(of).sum())
}

#[test]
fn the_disk_space_of_segments_is_known_while_they_grow_are_sealed_and_punched() {
    let fs = SimFs::new();
    let store = filled(&fs);
    let full = store.segment_bytes();
    assert!(full == on_disk(&fs) && full > Some(5 * LEN as u64), "{full:?}");
    put(&store, "b", "more", &bytes(9, LEN)).unwrap();
    assert_eq!(store.segment_bytes(), on_disk(&fs));
    store.shared.segments.retire(|_| true);
    put(&store, "b", "last", b"x").unwrap();
    assert_eq!(store.segment_bytes(), on_disk(&fs));
    delete_two(&store);
    reclaim_all(&store).unwrap();
    assert_eq!(punched(&fs), 2);
    assert_eq!(store.segment_bytes(), on_disk(&fs), "segments with holes are measured again");
}

#[test]
fn a_scan_continues_after_a_hole_and_finds_nothing_partial() {
    let fs = SimFs::new();
    let store = filled(&fs);
    delete_two(&store);
    reclaim_all(&store).unwrap();
    let extent = store.find("b", "k4", Selector::Current).unwrap().version.extents[0];
    let segment = store.shared.segments.get(extent.segment).unwrap();
    let mut seen = 0;
    for found in SegmentScan::new(segment.clone(), store.shared.store).unwrap() {
        match found.unwrap() {
            (_, Scanned::Record(SegmentRecord::Extent(header))) => {
                segment.descriptor(&header).unwrap();
                segment.check_payload(&header.to_ref()).unwrap();
                seen += usize::from((header.segment, header.offset) == (extent.segment, extent.offset));
            }
            (_, Scanned::Record(SegmentRecord::Footer(_))) => {}
            (at, Scanned::Unread { damaged, .. }) => assert!(!damaged, "at {at}"),
        }
    }
    assert_eq!(seen, 1);
}

/// A process that has given the file another name may read dead bytes by it.
#[test]
fn a_file_with_another_name_and_one_with_a_reader_get_no_hole() {
    let fs = SimFs::new();
    let store = filled(&fs);
    let found = store.find("b", "k1", Selector::Current).unwrap();
    let path = segment_path(found.version.extents[0].segment);
    delete_two(&store);
    reclaim_all(&store).unwrap();
    assert_eq!(punched(&fs), 0);
    assert_eq!(to_end(store.read(&found, 0..LEN as u64).unwrap()).unwrap(), bytes(1, LEN));
    drop(found);
    fs.link(&path, "data/backup").unwrap();
    reclaim_all(&store).unwrap();
    assert_eq!(punched(&fs), 0);
    fs.remove("data/backup").unwrap();
    reclaim_all(&store).unwrap();
    assert_eq!(punched(&fs), 2);
    check(&store);
}

#[test]
fn a_power_cut_while_a_hole_is_punched_harms_no_live_extent() {
    let made = SimFs::new();
    let store = filled(&made);
    delete_two(&store);
    drop(store);
    for stop in 1.. {
        let fs = made.crash(CrashPolicy::KeepAll);
        let store = open_with(&fs, wide()).unwrap();
        fs.stop_at(fs.operations() + stop);
        if reclaim_all(&store).is_ok() {
            assert!(stop > 2);
            return;
        }
        drop(store);
        let policies = [CrashPolicy::DropAll, CrashPolicy::KeepAll, CrashPolicy::Random(stop)];
        for fs in policies.map(|policy| fs.crash(policy)) {
            assert_eq!(verify(&fs, &mut |_| {}).unwrap().findings, []);
            let store = open_with(&fs, wide()).unwrap();
            reclaim_all(&store).unwrap();
            check(&store);
            let id = store.find("b", "k0", Selector::Current).unwrap().version.extents[0].segment;
            let used = fs.open_read(&segment_path(id)).unwrap().usage().unwrap().allocated_bytes;
            assert!(used < 6_000_000, "{used} bytes");
        }
    }
}

/// Many segments with three large objects in each, all live.
fn many(fs: &SimFs) -> Store {
    let store = open_with(fs, StoreOptions { segment_max_bytes: 4 * MIB, ..options() }).unwrap();
    store.create_bucket("b", "admin").unwrap();
    for at in 0..3 * SEGMENTS {
        put(&store, "b", &format!("k{at}"), &large(at)).unwrap();
    }
    store.shared.segments.retire(|_| true);
    put(&store, "b", "last", b"x").unwrap();
    reclaim_all(&store).unwrap();
    store
}

const SEGMENTS: u64 = 18;
const SIZE: usize = 1_250_000;

fn large(at: u64) -> Vec<u8> {
    bytes(at, 1250).repeat(1000)
}

fn delete_one_in_each(store: &Store) {
    for at in 0..SEGMENTS {
        delete(store, "b", &format!("k{}", 3 * at + 1), Selector::Current).unwrap();
    }
}

fn walks(store: &Store) -> u64 {
    store.reclaimer.lock().unwrap().walks
}

#[test]
fn one_walk_over_the_index_finds_the_holes_of_all_segments_and_without_dead_bytes_there_is_none() {
    let fs = SimFs::new();
    let store = many(&fs);
    assert_eq!(walks(&store), 0, "nothing has died");
    delete_one_in_each(&store);
    let free = fs.space().unwrap().free_bytes;
    reclaim_all(&store).unwrap();
    assert_eq!((walks(&store), punched(&fs) as u64), (1, SEGMENTS));
    assert!(fs.space().unwrap().free_bytes - free > SEGMENTS * (SIZE as u64 - 50_000));
    reclaim_all(&store).unwrap();
    assert_eq!(walks(&store), 1, "all is known");
    for at in (0..3 * SEGMENTS).filter(|at| at % 3 != 1).step_by(7) {
        assert_eq!(get(&store, "b", &format!("k{at}")).unwrap(), large(at));
    }
    // The result survives an orderly restart and a crash.
    store.close();
    drop(store);
    for fs in [fs.crash(CrashPolicy::KeepAll), fs.crash(CrashPolicy::DropAll)] {
        let store = open_with(&fs, StoreOptions { segment_max_bytes: 4 * MIB, ..options() }).unwrap();
        reclaim_all(&store).unwrap();
        assert_eq!((walks(&store), punched(&fs)), (0, 0));
    }
}

/// It takes several calls to learn which segments are sealed.
#[test]
fn a_walk_after_a_start_waits_until_all_segments_are_known() {
    let fs = SimFs::new();
    let count = 136;
    let options = StoreOptions { segment_max_bytes: 2_800_000, ..options() };
    let store = open_with(&fs, options).unwrap();
    store.create_bucket("b", "admin").unwrap();
    let len = |at: u64| if at.is_multiple_of(2) { 1_070_000 } else { 1_650_000 };
    for at in 0..count {
        put(&store, "b", &format!("k{at}"), &bytes(at, 1000).repeat(len(at) / 1000)).unwrap();
    }
    store.shared.segments.retire(|_| true);
    put(&store, "b", "last", b"x").unwrap();
    reclaim_all(&store).unwrap();
    store.close();
    drop(store);
    let store = open_with(&fs, options).unwrap();
    for at in (0..count).step_by(2) {
        delete(&store, "b", &format!("k{at}"), Selector::Current).unwrap();
    }
    reclaim_all(&store).unwrap();
    assert_eq!((walks(&store), punched(&fs) as u64), (1, count / 2));
}

#[test]
fn extents_that_died_before_a_crash_are_found_after_it() {
    let fs = SimFs::new();
    let store = many(&fs);
    store.close();
    drop(store);
    let options = StoreOptions { segment_max_bytes: 4 * MIB, ..options() };
    let store = open_with(&fs, options).unwrap();
    delete_one_in_each(&store);
    let fs = fs.kill();
    let store = open_with(&fs, options).unwrap();
    reclaim_all(&store).unwrap();
    assert_eq!((walks(&store), punched(&fs) as u64), (1, SEGMENTS));
}

#[test]
fn lost_findings_are_made_again_and_damaged_ones_are_reported() {
    for damaged in [false, true] {
        let fs = SimFs::new();
        let store = many(&fs);
        delete_one_in_each(&store);
        store.close();
        drop(store);
        if damaged {
            fs.damage(RECLAIM, 20, 1).unwrap();
            let found = verify(&fs, &mut |_| {}).unwrap().findings;
            assert_eq!(found.iter().map(|f| f.damage.file.as_str()).collect::<Vec<_>>(), [RECLAIM]);
        } else {
            fs.remove(RECLAIM).unwrap();
        }
        let store = open_with(&fs, StoreOptions { segment_max_bytes: 4 * MIB, ..options() }).unwrap();
        assert_eq!(store.health().damage.len(), usize::from(damaged));
        assert!(store.health().read_only.is_none());
        reclaim_all(&store).unwrap();
        assert_eq!((walks(&store), punched(&fs) as u64), (1, SEGMENTS));
        store.close();
        drop(store);
        assert_eq!(verify(&fs, &mut |_| {}).unwrap().findings, []);
    }
}

#[test]
fn a_segment_with_readers_waits_and_needs_no_other_walk() {
    let fs = SimFs::new();
    let store = many(&fs);
    let found = store.find("b", "k1", Selector::Current).unwrap();
    delete_one_in_each(&store);
    for _ in 0..12 {
        reclaim_all(&store).unwrap();
        assert_eq!((walks(&store), punched(&fs) as u64), (1, SEGMENTS - 1));
    }
    assert_eq!(to_end(store.read(&found, 0..SIZE as u64).unwrap()).unwrap(), large(1));
    drop(found);
    reclaim_all(&store).unwrap();
    assert_eq!((walks(&store), punched(&fs) as u64), (1, SEGMENTS));
}

/// A waiting hole survives a crash.
#[test]
fn a_segment_that_waited_before_a_crash_gets_its_hole_after_it() {
    let fs = SimFs::new();
    let store = many(&fs);
    let found = store.find("b", "k1", Selector::Current).unwrap();
    delete_one_in_each(&store);
    reclaim_all(&store).unwrap();
    let fs = fs.crash(CrashPolicy::DropAll);
    drop(found);
    let store = open_with(&fs, StoreOptions { segment_max_bytes: 4 * MIB, ..options() }).unwrap();
    reclaim_all(&store).unwrap();
    assert_eq!((walks(&store), punched(&fs)), (1, 1));
}

/// Few dead bytes per key are not worth a walk over all keys, until space is short.
#[test]
fn the_index_is_not_walked_for_few_dead_bytes_unless_space_is_short() {
    let fs = SimFs::new();
    let store = many(&fs);
    // Delete markers are keys that take up no space.
    store.create_bucket("c", "admin").unwrap();
    store.set_versioning("c", Versioning::Enabled).unwrap();
    let marker = |at| Deletion {
        key: format!("{at}"),
        which: Selector::Current,
        condition: DeleteCondition::default(),
    };
    store.delete("c", (0..LITTLE_KEYS).map(marker).collect()).unwrap();
    delete(&store, "b", "k1", Selector::Current).unwrap();
    reclaim_all(&store).unwrap();
    assert_eq!((walks(&store), punched(&fs)), (0, 0));
    let used = 4 * 1024 * MIB - fs.space().unwrap().free_bytes;
    fs.set_capacity(used);
    reclaim_all(&store).unwrap();
    assert_eq!(punched(&fs), 1);
}

const LITTLE_KEYS: u64 = SIZE as u64 / crate::base::limits::HOLES_DEAD_BYTES_PER_KEY;

#[test]
fn if_space_is_short_relocation_comes_before_holes() {
    let fs = SimFs::new();
    let store = many(&fs);
    // The last segments are mostly dead, and all others have space for a hole.
    delete_one_in_each(&store);
    for at in 3 * (SEGMENTS - 4)..3 * SEGMENTS {
        if at % 3 == 0 {
            delete(&store, "b", &format!("k{at}"), Selector::Current).unwrap();
        }
    }
    let used = 4 * 1024 * MIB - fs.space().unwrap().free_bytes;
    // More is available after the write head has released its preallocated space.
    fs.set_capacity(used - MIB);
    let mut calls = 0;
    while store.health().moved_bytes == 0 {
        let done = store.reclaim().unwrap();
        assert!(done.urgent && done.more, "there is no nap before the first byte has moved");
        calls += 1;
    }
    assert_eq!(punched(&fs), 0);
    assert!(calls <= 3, "{calls}");
    reclaim_all(&store).unwrap();
    assert_eq!(punched(&fs) as u64, SEGMENTS - 4);
}
