//! Large dead extents in sealed segments become holes, and everybody who reads goes on behind them.

use super::*;
use crate::base::limits::MIB;
use crate::format::segment_path;
use crate::fs::Fs;
use crate::fs::sim::{CrashPolicy, OpKind};
use crate::log::{Found as Scanned, SegmentRecord, SegmentScan};

const LEN: usize = 1_500_000;

fn wide() -> Options {
    Options { segment_max_bytes: 8 * MIB, ..options() }
}

/// Five large objects side by side, with a small one that lives between them, all in one sealed segment.
fn filled(fs: &SimFs) -> Store {
    let store = open_with(fs, wide()).unwrap();
    store.create_bucket("b", "admin").unwrap();
    for at in 0..5 {
        put(&store, "b", &format!("k{at}"), &bytes(at, LEN)).unwrap();
        put(&store, "b", &format!("s{at}"), &bytes(at, 70_000)).unwrap();
    }
    store.shared.segments.leave(|_| true);
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
fn the_room_of_large_dead_extents_comes_back_and_what_lives_stays() {
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

#[test]
fn a_scan_goes_on_behind_a_hole_and_finds_no_half_of_anything() {
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

/// Whoever has given the file another name may read by it what was dead for us.
#[test]
fn a_file_with_another_name_and_one_that_is_read_from_get_no_hole() {
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
fn a_power_cut_while_a_hole_is_punched_harms_nothing_that_lives() {
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
