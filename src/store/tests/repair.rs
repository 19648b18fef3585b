//! Bad local bytes of segments that the remote has: they are read from there, the file is written
//! anew without them, and whatever fails meanwhile, nothing else is lost.

use std::ops::Range;

use super::newer::set;
use super::tier::{NOTHING_LOCAL, Tiered, check, work};
use super::*;
use crate::base::limits::{BLOCK_BYTES, MIB, PAGE_BYTES};
use crate::format::{ExtentRef, UNIT_BYTES, segment_path, unfinished};
use crate::fs::Fs;
use crate::fs::sim::CrashPolicy;
use crate::remote::sim::{RemoteCall, RemoteFault};

/// Everything stays here.
const ALL_LOCAL: TierOptions = TierOptions { local_max_bytes: u64::MAX, ..NOTHING_LOCAL };

/// A store whose sealed segments are on the remote, and all their bytes here.
pub(super) fn sent() -> (Tiered, Store) {
    let (tiered, store) = Tiered::filled(ALL_LOCAL);
    work(&store).unwrap();
    assert!(store.tier_figures().unwrap().cached_bytes > 4 * MIB);
    (tiered, store)
}

pub(super) fn extent_of(store: &Store, key: &str) -> ExtentRef {
    store.find("b", key, Selector::Current).unwrap().version.extents[0]
}

/// Damages a byte in the second block of an object. Returns its segment.
fn damage_second_block(tiered: &Tiered, store: &Store, key: &str) -> u64 {
    let extent = extent_of(store, key);
    let at = extent.offset + UNIT_BYTES + BLOCK_BYTES + 10_000;
    tiered.fs.damage(&segment_path(extent.segment), at, 0x10).unwrap();
    extent.segment
}

/// The bytes of movable pages that the files of remote segments have.
fn data_here(tiered: &Tiered, store: &Store) -> u64 {
    let index = store.shared.index();
    let copies = index.remote_copies(None);
    copies
        .map(|(segment, copy)| {
            let file = tiered.fs.open_read(&segment_path(segment)).unwrap();
            let end = copy.length - PAGE_BYTES;
            let mut at = PAGE_BYTES;
            let mut data = 0;
            while at < end {
                let hole = file.next_hole(at..end).unwrap().unwrap_or(end..end);
                data += hole.start - at;
                at = hole.end;
            }
            data
        })
        .sum()
}

#[test]
fn a_bad_block_is_read_from_the_remote_and_its_file_is_written_anew_without_it() {
    let (tiered, store) = sent();
    let segment = damage_second_block(&tiered, &store, "k3");
    let path = segment_path(segment);
    let before = tiered.fs.contents(&path).unwrap();
    let fetched = || store.tier_figures().unwrap().fetched_bytes;
    check(&store);
    assert_eq!(fetched(), BLOCK_BYTES, "good blocks are not asked for");
    assert!(tiered.fs.contents(&path).unwrap() == before, "nothing is dropped before its copy is here");
    let figures = store.repair_figures().unwrap();
    assert_eq!((figures.served_reads, figures.repaired_segments), (1, 0));
    let waiting = &figures.waiting[0];
    assert_eq!((waiting.file.as_str(), waiting.repaired), (path.as_str(), None));
    let place = extent_of(&store, "k3").offset + UNIT_BYTES + BLOCK_BYTES;
    assert!(waiting.offset == place && waiting.what.contains("CRC"), "{waiting:?}");

    work(&store).unwrap();
    let figures = store.repair_figures().unwrap();
    assert_eq!((figures.waiting.len(), figures.repaired_segments), (0, 1));
    assert_eq!(figures.repaired[0].repaired, Some(tiered.clock.now()));
    assert_eq!(store.tier_figures().unwrap().cached_bytes, data_here(&tiered, &store));
    // All others of the segment are here.
    tiered.remote.set_down(true);
    for at in (0..10).filter(|at| *at != 3) {
        let key = format!("k{at}");
        let shares_page = extent_of(&store, &key).segment == segment && (at == 2 || at == 4);
        assert!(shares_page || get(&store, "b", &key).is_ok(), "{key}");
    }
    tiered.remote.set_down(false);
    check(&store);
    check(&store);
    let figures = store.repair_figures().unwrap();
    assert_eq!((figures.served_reads, figures.waiting.len()), (1, 0), "what was fetched is good");
    assert_eq!(store.tier_figures().unwrap().cached_bytes, data_here(&tiered, &store));
    store.close();
}

#[test]
fn what_the_disk_cannot_read_is_read_from_the_remote_too() {
    let (tiered, store) = sent();
    let extent = extent_of(&store, "k5");
    let path = segment_path(extent.segment);
    tiered.fs.make_unreadable(&path, extent.offset + 200_000..extent.offset + 200_100).unwrap();
    check(&store);
    work(&store).unwrap();
    assert_eq!(store.repair_figures().unwrap().repaired_segments, 1);
    check(&store);
    assert_eq!(store.repair_figures().unwrap().served_reads, 1);
    store.close();
}

#[test]
fn where_the_copy_is_bad_too_it_is_damage_and_the_file_stays() {
    let (tiered, store) = sent();
    let segment = damage_second_block(&tiered, &store, "k3");
    for name in tiered.copies() {
        for at in (0..tiered.remote.bytes(&name).unwrap().len()).step_by(1_000) {
            assert!(tiered.remote.damage(&name, at));
        }
    }
    let before = tiered.fs.contents(&segment_path(segment)).unwrap();
    assert!(matches!(get(&store, "b", "k3"), Err(StoreError::Corrupt(_))));
    work(&store).unwrap();
    assert!(tiered.fs.contents(&segment_path(segment)).unwrap() == before);
    assert_eq!(store.repair_figures().unwrap(), RepairFigures::default());
    store.close();
}

#[test]
fn where_the_copy_is_gone_nothing_is_written_anew() {
    let (tiered, store) = sent();
    let segment = damage_second_block(&tiered, &store, "k3");
    check(&store);
    let before = tiered.fs.contents(&segment_path(segment)).unwrap();
    let copy = *store.shared.index().remote_copy(segment).unwrap();
    tiered.remote.remove(&copy.name(segment));
    tiered.clock.advance(Duration::from_secs(10));
    work(&store).unwrap();
    assert!(tiered.fs.contents(&segment_path(segment)).unwrap() == before, "it may be the only one");
    assert_eq!(store.health().read_only, None);
    assert_eq!(store.repair_figures().unwrap().waiting.len(), 1);
    store.close();
}

#[test]
fn while_the_remote_is_away_reads_of_bad_bytes_say_so_and_go_on_after_it() {
    let (tiered, store) = sent();
    damage_second_block(&tiered, &store, "k3");
    tiered.remote.set_down(true);
    assert!(matches!(get(&store, "b", "k3"), Err(StoreError::RemoteUnavailable(_))));
    assert_eq!(store.health().damage, []);
    tiered.remote.set_down(false);
    check(&store);
    tiered.clock.advance(Duration::from_secs(10));
    tiered.remote.set_down(true);
    assert!(work(&store).is_err());
    assert_eq!(store.repair_figures().unwrap().waiting.len(), 1);
    tiered.remote.set_down(false);
    tiered.clock.advance(Duration::from_secs(60));
    work(&store).unwrap();
    assert_eq!(store.repair_figures().unwrap().repaired_segments, 1);
    store.close();
}

#[test]
fn the_file_of_a_newer_siltstone_is_not_written_anew() {
    let (tiered, store) = sent();
    let path = segment_path(damage_second_block(&tiered, &store, "k3"));
    check(&store);
    set(&tiered.fs, &path, 40, &(1u64 << 40).to_le_bytes());
    let before = tiered.fs.contents(&path).unwrap();
    work(&store).unwrap();
    assert!(tiered.fs.contents(&path).unwrap() == before, "the file is the same");
    let figures = store.repair_figures().unwrap();
    assert_eq!((figures.waiting.len(), figures.repaired_segments), (1, 0));
    // It was no failed write, and no damage.
    put(&store, "b", "another", b"x").unwrap();
    assert_eq!(store.health().damage, []);
    store.close();
}

#[test]
fn bad_first_and_last_pages_come_from_the_remote() {
    let (tiered, store) = sent();
    let segment = extent_of(&store, "k3").segment;
    let length = store.shared.index().remote_copy(segment).unwrap().length;
    store.close();
    drop(store);
    let path = segment_path(segment);
    tiered.fs.damage(&path, 20, 0xff).unwrap();
    tiered.fs.damage(&path, length - PAGE_BYTES + 20, 0xff).unwrap();
    let store = tiered.open();
    store.begin_epoch(&SeededEntropy::new(7)).unwrap();
    check(&store);
    assert!(store.repair_figures().unwrap().waiting[0].what.contains("file header"));
    work(&store).unwrap();
    assert_eq!(store.repair_figures().unwrap().repaired_segments, 1);
    store.close();
    drop(store);
    // A start needs no remote for them.
    tiered.remote.set_down(true);
    let store = tiered.open_unmarked(&tiered.fs);
    assert!(get(&store, "b", "k3").is_ok());
    assert_eq!(store.repair_figures().unwrap().waiting, []);
    let found = store.shared.segments.get(segment).unwrap().footer(&store.shared.store);
    assert!(found.unwrap().is_some());
    store.close();
}

#[test]
fn another_segment_under_the_name_is_left_alone() {
    let (tiered, store) = sent();
    let one = extent_of(&store, "k0").segment;
    let other = extent_of(&store, "k9").segment;
    assert_ne!(one, other);
    store.close();
    drop(store);
    tiered.fs.rename(&segment_path(one), "data/aside").unwrap();
    tiered.fs.rename(&segment_path(other), &segment_path(one)).unwrap();
    tiered.fs.rename("data/aside", &segment_path(other)).unwrap();
    let before = tiered.fs.contents(&segment_path(one)).unwrap();
    let store = tiered.open();
    store.begin_epoch(&SeededEntropy::new(7)).unwrap();
    assert!(matches!(get(&store, "b", "k0"), Err(StoreError::Corrupt(_))));
    work(&store).unwrap();
    assert!(tiered.fs.contents(&segment_path(one)).unwrap() == before);
    store.close();
}

#[test]
fn readers_of_the_old_file_go_on_and_what_they_fetch_counts_for_nothing() {
    let (tiered, store) = Tiered::filled(TierOptions { local_max_bytes: 11 * MIB, ..NOTHING_LOCAL });
    work(&store).unwrap();
    // Some is here, and some is not.
    let key = "k9";
    get(&store, "b", key).unwrap();
    let before = tiered.remote.calls(RemoteCall::Get);
    get(&store, "b", key).unwrap();
    assert_eq!(tiered.remote.calls(RemoteCall::Get), before);
    let segment = damage_second_block(&tiered, &store, key);
    let old = store.shared.segments.get(segment).unwrap();
    get(&store, "b", key).unwrap();
    work(&store).unwrap();
    assert_eq!(store.repair_figures().unwrap().repaired_segments, 1);
    let new = store.shared.segments.get(segment).unwrap();
    assert!(!Arc::ptr_eq(&old, &new));
    for at in 0..10 {
        let extent = extent_of(&store, &format!("k{at}"));
        if extent.segment == segment {
            old.check_payload(&extent).unwrap();
        }
    }
    assert_eq!(store.tier_figures().unwrap().cached_bytes, data_here(&tiered, &store));
    assert_eq!(store.repair_figures().unwrap().waiting, [], "the old file is as bad as it was");
    check(&store);
    assert_eq!(store.tier_figures().unwrap().cached_bytes, data_here(&tiered, &store));
    store.close();
}

#[test]
fn a_crash_or_a_failed_sync_leaves_the_old_file_or_the_new_one() {
    let (tiered, store) = sent();
    let segment = damage_second_block(&tiered, &store, "k3");
    store.close();
    drop(store);
    let whole = repair_on(&tiered.copy());
    assert!(whole.done.is_ok() && whole.operations.clone().count() > 10, "{:?}", whole.operations);
    assert_eq!(whole.store.repair_figures().unwrap().repaired_segments, 1);
    for at in whole.operations {
        for policy in [CrashPolicy::DropAll, CrashPolicy::KeepAll] {
            let twin = tiered.copy();
            twin.fs.stop_at(at);
            let run = repair_on(&twin);
            assert!(run.done.is_err(), "{at}");
            drop(run);
            let rebooted = twin.fs.crash(policy);
            let store = twin.open_unmarked(&rebooted);
            check(&store);
            let files = rebooted.files();
            assert!(!files.iter().any(|(name, _)| *name == unfinished(&segment_path(segment))), "{files:?}");
            store.close();
        }
    }
    for at in whole.syncs {
        let twin = tiered.copy();
        twin.fs.fail_sync_at(at);
        let run = repair_on(&twin);
        assert!(run.done.is_err(), "{at}");
        assert!(run.store.health().read_only.is_some(), "after a failed sync no write follows: {at}");
        check(&run.store);
    }
}

/// A repair of the segment of `k3`.
struct RepairRun {
    store: Store,
    done: Result<TierProgress, StoreError>,
    /// The numbers of its operations on the disk, and of its syncs.
    operations: Range<u64>,
    syncs: Range<u64>,
}

fn repair_on(tiered: &Tiered) -> RepairRun {
    let store = tiered.open_unmarked(&tiered.fs);
    store.begin_epoch(&SeededEntropy::new(7)).unwrap();
    assert!(get(&store, "b", "k3").is_ok());
    let before = tiered.fs.operations();
    let syncs_before = tiered.fs.syncs();
    let done = work(&store);
    let operations = before + 1..tiered.fs.operations() + 1;
    let syncs = syncs_before + 1..tiered.fs.syncs() + 1;
    RepairRun { store, done, operations, syncs }
}

#[test]
fn without_room_for_a_new_file_reads_go_on_and_it_is_tried_again() {
    let (tiered, store) = sent();
    damage_second_block(&tiered, &store, "k3");
    check(&store);
    tiered.fs.set_capacity(1);
    work(&store).unwrap();
    assert_eq!(store.health().read_only, None);
    assert_eq!(store.repair_figures().unwrap().waiting.len(), 1);
    check(&store);
    tiered.fs.set_capacity(u64::MAX);
    tiered.clock.advance(Duration::from_secs(60));
    work(&store).unwrap();
    assert_eq!(store.repair_figures().unwrap().repaired_segments, 1);
    check(&store);
    store.close();
}

#[test]
fn a_copy_that_is_bad_once_is_no_damage() {
    let (tiered, store) = sent();
    damage_second_block(&tiered, &store, "k3");
    tiered.remote.fail_next(RemoteCall::Get, RemoteFault::Status(503));
    assert!(matches!(get(&store, "b", "k3"), Err(StoreError::RemoteUnavailable(_))));
    check(&store);
    store.close();
}
