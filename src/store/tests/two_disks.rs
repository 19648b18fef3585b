//! A store on two disks: what is where, what moves, and the tests of crashes and failed syncs.

use super::crashes::{sweep, sweep_of, tiny_segments};
use super::disks::{BULK, FAST, disk, on_encrypted_disk, on_two_disks};
use super::faults::sweep_of_failed_syncs;
use super::model::Model;
use super::script::{CHURN, WORK, work};
use super::tier::{NOTHING_LOCAL, Tiered, check, work as work_of_tier};
use super::*;
use crate::base::limits::MIB;
use crate::fs::sim::OpKind;
use crate::fs::{Fs, SplitFs};
use crate::offline::verify::verify;

/// Options with which every sealed segment of the fast disk moves.
fn moving(options: StoreOptions) -> StoreOptions {
    StoreOptions { fast_free_percent: 100, ..options }
}

fn small_segments() -> StoreOptions {
    StoreOptions { segment_max_bytes: 100_000, ..options() }
}

fn segments_on(fs: &SimFs, place: &str) -> Vec<String> {
    let prefix = format!("{place}/data/");
    let paths = fs.files().into_iter().map(|(path, _)| path).filter(|path| path.starts_with(&prefix));
    paths.map(|path| path[prefix.len()..].to_owned()).collect()
}

/// Puts small objects until some segments of them are full.
fn fill_small(store: &Store, bucket: &str) {
    for number in 0..60 {
        put(store, bucket, &format!("small-{number}"), &[number; 9_000]).unwrap();
    }
}

fn assert_is_there(store: &Store, bucket: &str) {
    for number in 0..60 {
        assert_eq!(get(store, bucket, &format!("small-{number}")).unwrap(), [number; 9_000], "{number}");
    }
}

#[test]
fn small_objects_and_the_log_are_on_the_fast_disk_and_large_ones_on_the_other() {
    on_two_disks(|| {
        let fs = SimFs::new();
        let store = open(&fs);
        store.create_bucket("b", "admin").unwrap();
        put(&store, "b", "small", b"small").unwrap();
        assert_eq!((segments_on(&fs, FAST).len(), segments_on(&fs, BULK).len()), (1, 0));
        put(&store, "b", "large", &[1; 300_000]).unwrap();
        assert_eq!((segments_on(&fs, FAST).len(), segments_on(&fs, BULK).len()), (1, 1));
        assert!(fs.files().iter().all(|(path, _)| !path.starts_with("bulk/meta/")), "{:?}", fs.files());
        drop(store);

        let store = open(&fs);
        put(&store, "b", "small2", b"small").unwrap();
        put(&store, "b", "large2", &[2; 300_000]).unwrap();
        assert_eq!((segments_on(&fs, FAST).len(), segments_on(&fs, BULK).len()), (1, 1), "both go on");
        assert_eq!(get(&store, "b", "large").unwrap(), [1; 300_000]);
    });
}

#[test]
fn a_small_put_waits_for_the_fast_disk_alone_also_after_a_large_segment_was_filled() {
    on_two_disks(|| {
        let fs = SimFs::new();
        let store = open_with(&fs, small_segments()).unwrap();
        store.create_bucket("b", "admin").unwrap();
        put(&store, "b", "small", b"small").unwrap();
        put(&store, "b", "large", &[1; 90_000]).unwrap();
        // It goes to the next segment, so that the one before is to be sealed.
        let mut writer = store.writer("b", "larger", Some(90_000)).unwrap();
        writer.write(&[2; 90_000]).unwrap();
        let before = fs.trace().len();
        put(&store, "b", "small2", b"small").unwrap();
        let trace = fs.trace().split_off(before);
        let on_bulk: Vec<_> = trace.iter().filter(|op| op.path.starts_with(BULK)).collect();
        assert!(on_bulk.is_empty(), "{on_bulk:?}");
        assert!(trace.iter().any(|op| op.kind == OpKind::SyncData), "{trace:?}");
        drop(writer);
    });
}

#[test]
fn sealed_segments_of_small_objects_move_where_the_fast_disk_is_short_of_space() {
    on_two_disks(|| {
        let fs = SimFs::new();
        let store = open_with(&fs, small_segments()).unwrap();
        store.create_bucket("b", "admin").unwrap();
        fill_small(&store, "b");
        reclaim_all(&store).unwrap();
        let before = segments_on(&fs, FAST);
        assert!(before.len() > 4 && segments_on(&fs, BULK).is_empty(), "there is space: nothing moves");
        drop(store);

        let store = open_with(&fs, moving(small_segments())).unwrap();
        let found = store.find("b", "small-0", Selector::Current).unwrap();
        let was_open = store.read(&found, 0..9_000).unwrap();
        reclaim_all(&store).unwrap();
        assert_eq!(segments_on(&fs, FAST).len(), 1, "the one that is written to stays");
        assert_eq!(segments_on(&fs, BULK).len(), before.len() - 1);
        let figures = store.fast_disk().unwrap();
        assert_eq!(figures.moved_segments, before.len() as u64 - 1);
        assert!(figures.moved_bytes > 400_000, "{figures:?}");
        assert_is_there(&store, "b");
        assert_eq!(to_end(was_open).unwrap(), [0; 9_000]);
        drop(store);

        assert_is_there(&open(&fs), "b");
        let verified = verify(disk(&fs).as_ref(), &mut |_| {}).unwrap();
        assert!(verified.findings.is_empty(), "{:?}", verified.findings);
    });
}

#[test]
fn a_segment_that_a_backup_has_named_stays_until_it_has_not() {
    on_two_disks(|| {
        let fs = SimFs::new();
        let store = open_with(&fs, moving(small_segments())).unwrap();
        store.create_bucket("b", "admin").unwrap();
        fill_small(&store, "b");
        let disk = disk(&fs);
        disk.create_dir("backup").unwrap();
        let first = store.shared.segments.immutable_segments()[0];
        let path = crate::format::segment_path(first);
        disk.link(&path, "backup/one").unwrap();
        reclaim_all(&store).unwrap();
        assert_eq!(segments_on(&fs, FAST).len(), 2, "that one, and the one that is written to");
        disk.remove("backup/one").unwrap();
        reclaim_all(&store).unwrap();
        assert_eq!(segments_on(&fs, FAST).len(), 1);
        assert_is_there(&store, "b");
    });
}

#[test]
fn a_segment_that_cannot_be_read_stays_and_the_store_goes_on() {
    on_two_disks(|| {
        let fs = SimFs::new();
        let store = open_with(&fs, moving(small_segments())).unwrap();
        store.create_bucket("b", "admin").unwrap();
        fill_small(&store, "b");
        let first = store.shared.segments.immutable_segments()[0];
        let path = format!("{FAST}/{}", crate::format::segment_path(first));
        fs.make_unreadable(&path, 8192..12_288).unwrap();
        reclaim_all(&store).unwrap();
        assert_eq!(segments_on(&fs, FAST).len(), 2, "that one, and the one that is written to");
        assert!(fs.files().iter().any(|(found, _)| *found == path), "{:?}", fs.files());
        put(&store, "b", "later", b"later").unwrap();
    });
}

#[test]
fn segments_that_a_remote_has_move_with_what_is_here_of_them() {
    on_two_disks(|| {
        let (tiered, store) = Tiered::filled(TierOptions { local_max_bytes: 20 * MIB, ..NOTHING_LOCAL });
        put(&store, "b", "fresh", &bytes(50, 300)).unwrap();
        store.shared.segments.retire(|_| true);
        put(&store, "b", "last", b"x").unwrap();
        store.shared.segments.seal_retired().unwrap();
        work_of_tier(&store).unwrap();
        check(&store);
        let before = segments_on(&tiered.fs, FAST);
        assert_eq!(before.len(), 2, "{before:?}");
        let sealed = u64::from_str_radix(&before[0][..16], 16).unwrap();
        assert!(store.shared.index().remote_copy(sealed).is_some());
        store.close();
        drop(store);
        let store = tiered.open_moving();
        store.shared.segments.seal_immutable(sealed).unwrap();
        while store.move_segment().unwrap().more {}
        assert_eq!(store.fast_disk().unwrap().moved_segments, 1);
        assert!(segments_on(&tiered.fs, BULK).contains(&before[0]), "{before:?}");
        tiered.remote.set_down(true);
        assert_eq!(get(&store, "b", "fresh").unwrap(), bytes(50, 300), "it is here, and was before");
        tiered.remote.set_down(false);
        check(&store);
        // What goes from here goes from the file that has moved.
        drop(store);
        let store = tiered.with(NOTHING_LOCAL).open();
        work_of_tier(&store).unwrap();
        check(&store);
    });
}

#[test]
fn segments_of_small_objects_begin_on_the_large_disk_where_the_fast_one_has_no_room() {
    let fast = SimFs::with_capacity(3 * MIB);
    let bulk = SimFs::new();
    let both = || -> Arc<dyn Fs> { Arc::new(SplitFs::new(Arc::new(fast.clone()), Arc::new(bulk.clone()))) };
    let options = StoreOptions { segment_max_bytes: MIB, ..options() };
    let open = || {
        let clock = Arc::new(ManualClock::new(Timestamp::from_millis(1_700_000_000_000)));
        Store::open(both(), clock, &SeededEntropy::new(1), options).unwrap()
    };
    let store = open();
    store.create_bucket("b", "admin").unwrap();
    for number in 0..100 {
        put(&store, "b", &format!("small-{number}"), &[1; 50_000]).unwrap();
    }
    let on_bulk = bulk.files().iter().filter(|(path, _)| path.starts_with("data/")).count();
    assert!(on_bulk >= 2, "{:?}", bulk.files());
    assert!(!store.health().disk_full);
    drop(store);
    let store = open();
    assert_eq!(get(&store, "b", "small-99").unwrap(), [1; 50_000]);
}

#[test]
fn what_was_acknowledged_survives_a_crash_on_two_disks() {
    on_two_disks(|| sweep(moving(options()), 5));
}

#[test]
fn it_survives_too_where_segments_are_emptied_and_move() {
    on_two_disks(|| {
        sweep_of(CHURN, moving(tiny_segments()), 3);
        let options = StoreOptions { segment_max_bytes: 100_000, checkpoint_after_bytes: 8_192, ..options() };
        sweep(moving(options), 7);
    });
}

#[test]
fn it_survives_too_where_both_are_encrypted() {
    on_two_disks(|| on_encrypted_disk(|| sweep_of(CHURN, moving(tiny_segments()), 11)));
}

#[test]
fn it_survives_too_where_a_sync_fails() {
    on_two_disks(|| sweep_of_failed_syncs(moving(options())));
}

#[test]
fn the_work_of_a_store_is_the_same_on_two_disks() {
    on_two_disks(|| {
        let fs = SimFs::new();
        let options = moving(tiny_segments());
        work(&fs, options, WORK, Model::default()).map_err(|halt| halt.error).unwrap();
        let verified = verify(disk(&fs).as_ref(), &mut |_| {}).unwrap();
        assert!(verified.findings.is_empty(), "{:?}", verified.findings);
        assert!(!segments_on(&fs, BULK).is_empty());
    });
}
