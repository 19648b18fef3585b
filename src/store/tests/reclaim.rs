//! Space is reclaimed, and no byte that is still needed.

use super::*;
use crate::base::limits::MIB;
use crate::format::FileKind;
use crate::format::segment_path;
use crate::fs::Fs;
use crate::fs::sim::CrashPolicy;
use crate::log::{Segment, list_numbers};

/// A few objects fill a segment.
pub(super) fn small_segments() -> StoreOptions {
    StoreOptions { segment_max_bytes: 100_000, ..options() }
}

fn segments(fs: &SimFs) -> Vec<u64> {
    list_numbers(fs, FileKind::Segment).unwrap()
}

fn segment_of(store: &Store, key: &str) -> u64 {
    store.find("b", key, Selector::Current).unwrap().version.extents[0].segment
}

/// A store of many segments; each object of 40,000 bytes, two in a segment.
fn filled(fs: &SimFs) -> Store {
    let store = open_with(fs, small_segments()).unwrap();
    store.create_bucket("b", "admin").unwrap();
    for at in 0..10 {
        put(&store, "b", &format!("k{at}"), &bytes(at, 40_000)).unwrap();
    }
    store
}

fn delete_keys(store: &Store, keys: Range<u64>) {
    for at in keys {
        delete(store, "b", &format!("k{at}"), Selector::Current).unwrap();
    }
}

fn check_keys(store: &Store, keys: Range<u64>) {
    for at in keys {
        assert_eq!(get(store, "b", &format!("k{at}")).unwrap(), bytes(at, 40_000));
    }
}

#[test]
fn dead_segments_are_removed_for_good() {
    let fs = SimFs::new();
    let store = filled(&fs);
    let before = segments(&fs);
    let gone = [segment_of(&store, "k0"), segment_of(&store, "k2")];
    assert_eq!(store.reclaim().unwrap(), Reclaimed::default());
    delete_keys(&store, 0..4);
    let done = store.reclaim().unwrap();
    assert_eq!((done.segments, done.more), (2, false));
    assert!(done.bytes >= 160_000);
    let expected: Vec<_> = before.into_iter().filter(|id| !gone.contains(id)).collect();
    assert_eq!(segments(&fs), expected);
    let health = store.health();
    assert_eq!((health.reclaimed_segments, health.reclaimed_bytes), (2, done.bytes));
    check_keys(&store, 4..10);
    for policy in [CrashPolicy::DropAll, CrashPolicy::KeepAll] {
        let fs = fs.crash(policy);
        let store = open_with(&fs, small_segments()).unwrap();
        assert_eq!(segments(&fs), expected);
        check_keys(&store, 4..10);
    }
}

#[test]
fn a_segment_stays_while_it_has_or_may_get_readers() {
    let fs = SimFs::new();
    let store = filled(&fs);
    let first = segment_of(&store, "k0");
    let second = segment_of(&store, "k2");
    let found = store.find("b", "k0", Selector::Current).unwrap();
    let other = store.find("b", "k2", Selector::Current).unwrap();
    let mut reader = store.read(&other, 0..40_000).unwrap();
    drop(other);
    reader.read(&mut [0; 10]).unwrap();
    delete_keys(&store, 0..4);
    assert_eq!(store.reclaim().unwrap().segments, 0);
    assert!(segments(&fs).contains(&first) && segments(&fs).contains(&second));
    assert_eq!(to_end(store.read(&found, 0..40_000).unwrap()).unwrap(), bytes(0, 40_000));
    assert_eq!(to_end(reader).unwrap(), bytes(2, 40_000)[10..]);
    assert_eq!(store.reclaim().unwrap().segments, 1);
    drop(found);
    assert_eq!(store.reclaim().unwrap().segments, 1);
    check_keys(&store, 4..10);
}

#[test]
fn bytes_of_writes_in_progress_do_not_pass_for_dead() {
    let fs = SimFs::new();
    let store = open_with(&fs, small_segments()).unwrap();
    store.create_bucket("b", "admin").unwrap();
    let whole = bytes(1, 500_000);
    let mut writer = store.writer("b", "slow", None).unwrap();
    for piece in whole.chunks(90_000) {
        writer.write(piece).unwrap();
        put(&store, "b", "other", &bytes(2, 90_000)).unwrap();
        store.reclaim().unwrap();
    }
    writer.commit(commit_of(&whole)).unwrap();
    reclaim_all(&store).unwrap();
    assert_eq!(get(&store, "b", "slow").unwrap(), whole);
    assert_eq!(get(&store, "b", "other").unwrap(), bytes(2, 90_000));
    let live = store.health().live_bytes;
    let used: u64 =
        segments(&fs).iter().map(|id| fs.contents(&segment_path(*id)).unwrap().len() as u64).sum();
    assert!(used < 2 * live + 3 * 100_000, "{used} bytes for {live}");
}

#[test]
fn an_aborted_put_leaves_nothing_behind() {
    let fs = SimFs::new();
    let store = filled(&fs);
    let before = segments(&fs).len();
    for _ in 0..5 {
        let mut writer = store.writer("b", "never", None).unwrap();
        writer.write(bytes(3, 300_000)).unwrap();
    }
    assert!(segments(&fs).len() > before);
    // The committer seals them at the next commit.
    put(&store, "b", "small", b"x").unwrap();
    reclaim_all(&store).unwrap();
    assert!(segments(&fs).len() <= before + 1);
    check_keys(&store, 0..10);
}

/// Recovery reads the pack of the last group, even if all of it is dead.
#[test]
fn the_pack_of_the_last_group_stays_until_another_group_follows() {
    let fs = SimFs::new();
    let options = StoreOptions { segment_max_bytes: 8_192, ..options() };
    let store = open_with(&fs, options).unwrap();
    store.create_bucket("b", "admin").unwrap();
    let gate = fs.hold_syncs("meta/");
    // A put and the deletion of its object share a group.
    std::thread::scope(|scope| {
        scope.spawn(|| put(&store, "b", "first", b"x").unwrap());
        assert!(gate.wait_until_held(1));
        scope.spawn(|| put(&store, "b", "k", &bytes(1, 3_000)).unwrap());
        while store.committer.queued() < 1 {
            std::thread::yield_now();
        }
        scope.spawn(|| delete(&store, "b", "k", Selector::Current).unwrap());
        while store.committer.queued() < 2 {
            std::thread::yield_now();
        }
        drop(gate);
    });
    assert_eq!(store.health().sequence, 3);
    let last = *segments(&fs).last().unwrap();
    store.shared.segments.retire(|_| true);
    store.shared.segments.roll(crate::log::WriteHead::Small).unwrap();
    store.reclaim().unwrap();
    assert!(segments(&fs).contains(&last));
    let again = open_with(&fs.crash(CrashPolicy::DropAll), options).unwrap();
    assert_eq!((again.health().read_only, again.health().torn_groups), (None, 0));
    assert_eq!(get(&again, "b", "first").unwrap(), b"x");
}

#[test]
fn unsealed_segments_of_an_earlier_process_are_sealed_or_removed() {
    let fs = SimFs::new();
    let store = filled(&fs);
    // Each of them has a segment of its own, which stays unsealed while a write to it is in
    // progress.
    let writers: Vec<_> = (0..6)
        .map(|at| {
            let mut writer = store.writer("b", &format!("never{at}"), Some(90_000)).unwrap();
            writer.write(bytes(at, 80_000)).unwrap();
            writer
        })
        .collect();
    put(&store, "b", "large", &bytes(1, 90_000)).unwrap();
    let next = fs.kill();
    drop(writers);
    let id = store.shared.store;
    let open = |fs: &SimFs| {
        let is_open = |at: &u64| Segment::open(fs, id, *at).unwrap().footer(&id).unwrap().is_none();
        segments(fs).into_iter().filter(is_open).count()
    };
    let store = open_with(&next, small_segments()).unwrap();
    assert!(open(&next) > 6, "a restart seals nothing");
    reclaim_all(&store).unwrap();
    assert!(open(&next) <= 3, "there is one for each lane");
    assert!(store.health().reclaimed_segments >= 4);
    check_keys(&store, 0..10);
    assert_eq!(get(&store, "b", "large").unwrap(), bytes(1, 90_000));
    drop(store);
    assert_eq!(verify(&next.crash(CrashPolicy::DropAll), &mut |_| {}).unwrap().findings, []);
}

/// The index lacks the damaged groups: bytes that look dead may be live.
#[test]
fn a_read_only_store_is_not_reclaimed() {
    let fs = SimFs::new();
    let store = filled(&fs);
    delete_keys(&store, 0..4);
    fs.fail_sync_at(fs.syncs() + 1);
    assert!(store.create_bucket("c", "admin").is_err());
    let before = fs.files();
    assert!(matches!(store.reclaim(), Err(StoreError::ReadOnly(_))));
    assert_eq!(fs.files(), before);
}

#[test]
fn a_foreign_file_in_place_of_a_segment_is_left_alone() {
    let fs = SimFs::new();
    let store = filled(&fs);
    let id = segment_of(&store, "k0");
    delete_keys(&store, 0..10);
    drop(store);
    fs.damage(&segment_path(id), 20, 1).unwrap();
    let store = open_with(&fs, small_segments()).unwrap();
    reclaim_all(&store).unwrap();
    assert!(segments(&fs).contains(&id) && segments(&fs).len() <= 4, "{:?}", segments(&fs));
    assert_eq!(store.health().damage[0].file, segment_path(id));
    assert_eq!(store.health().read_only, None);
}

#[test]
fn an_id_never_means_two_segments() {
    let fs = SimFs::new();
    let mut highest = 0;
    for _ in 0..4 {
        let store = open_with(&fs, small_segments()).unwrap();
        let _ = store.create_bucket("b", "admin");
        for at in 0..4 {
            put(&store, "b", &format!("k{at}"), &bytes(at, 90_000)).unwrap();
            let id = segment_of(&store, &format!("k{at}"));
            assert!(id > highest, "{id} was there before");
            highest = id;
        }
        delete_keys(&store, 0..4);
        store.shared.segments.retire(|_| true);
        reclaim_all(&store).unwrap();
        assert_eq!(segments(&fs), [highest]);
    }
}

#[test]
fn a_full_disk_takes_writes_again_when_something_was_deleted() {
    let fs = SimFs::with_capacity(8 * MIB);
    let options = StoreOptions { keep_free_bytes: MIB, ..options() };
    let store = open_with(&fs, options).unwrap();
    let wanted = store.room_wanted();
    store.create_bucket("b", "admin").unwrap();
    for round in 0..3 {
        let mut count = 0;
        while put(&store, "b", &format!("k{count}"), &bytes(count, 40_000)).is_ok() {
            count += 1;
        }
        assert!(count > 50 && wanted.try_recv().is_ok(), "round {round}: {count}");
        check_keys(&store, 0..count);
        delete_keys(&store, 0..count);
        reclaim_all(&store).unwrap();
        store.checkpoint().unwrap();
        store.set_versioning("b", Versioning::Unset).unwrap();
        store.checkpoint().unwrap();
        assert!(fs.space().unwrap().free_bytes > 6 * MIB);
        assert_eq!(store.health().read_only, None);
    }
}

#[test]
fn an_active_segment_that_holds_more_dead_bytes_than_are_free_is_left() {
    let fs = SimFs::with_capacity(8 * MIB);
    let store = open_with(&fs, StoreOptions { keep_free_bytes: MIB, ..options() }).unwrap();
    store.create_bucket("b", "admin").unwrap();
    for at in 0..100 {
        put(&store, "b", &format!("k{at}"), &bytes(at, 40_000)).unwrap();
    }
    delete_keys(&store, 0..100);
    let free = || fs.space().unwrap().free_bytes;
    let before = free();
    assert!(before > 3 * MIB, "space is not short: {before}");
    reclaim_all(&store).unwrap();
    assert!(free() > before + 3 * MIB, "{before} {}", free());
}
