//! The disk fills up: reads and deletes go on, a start needs no free byte, and nothing is lost.

use super::model::Model;
use super::script::{InDoubt, WORK};
use super::*;
use crate::base::limits::{KIB, LOG_FILE_MAX_BYTES, MIB};
use crate::base::test_scope::points;
use crate::format::{Entry, FileKind, StoreId, checkpoint_path};
use crate::fs::sim::CrashPolicy;
use crate::log::{CheckpointPlan, CheckpointWriter, LogError, LogWriter, Replay, ReplayStart, list_numbers};

/// With the room in the log that a store has by default.
fn roomy() -> StoreOptions {
    StoreOptions { log_file_max_bytes: LOG_FILE_MAX_BYTES, ..options() }
}

/// Puts objects of `len` bytes until the disk is full, and says how many there are.
fn fill(store: &Store, bucket: &str, len: usize) -> usize {
    let full = |at: &usize| match put(store, bucket, &format!("{len}-{at}"), &bytes(*at as u64, len)) {
        Ok(_) => false,
        Err(StoreError::DiskFull) => true,
        Err(other) => panic!("{other}"),
    };
    (0..).find(full).expect("the disk ends somewhere")
}

fn check_filled(store: &Store, bucket: &str, count: usize, len: usize) {
    for at in 0..count {
        assert_eq!(get(store, bucket, &format!("{len}-{at}")).unwrap(), bytes(at as u64, len));
    }
}

fn free_bytes(fs: &SimFs) -> u64 {
    fs.space().unwrap().free_bytes
}

/// Takes away what is free.
fn leave_nothing_free(fs: &SimFs) {
    fs.set_capacity(fs.space().unwrap().total_bytes - free_bytes(fs));
    assert_eq!(free_bytes(fs), 0);
}

#[test]
fn on_a_full_disk_reads_and_deletes_go_on_and_with_more_room_so_do_writes() {
    let fs = SimFs::with_capacity(8 * MIB);
    let options = StoreOptions { keep_free_bytes: MIB, ..roomy() };
    let store = open_with(&fs, options).unwrap();
    store.create_bucket("b", "admin").unwrap();
    let large = fill(&store, "b", 300_000);
    let small = fill(&store, "b", 20_000);
    assert!(large > 5 && small > 0);
    assert!(free_bytes(&fs) >= MIB, "what is kept back is free");
    check_filled(&store, "b", large, 300_000);
    check_filled(&store, "b", small, 20_000);
    for at in 1..large {
        delete(&store, "b", &format!("300000-{at}"), Selector::Current).unwrap();
    }
    store.checkpoint().unwrap();
    assert_eq!(put(&store, "b", "one more", &bytes(1, 300_000)), Err(StoreError::DiskFull));
    assert_eq!(store.health().read_only, None);

    fs.set_capacity(16 * MIB);
    put(&store, "b", "one more", &bytes(1, 300_000)).unwrap();
    fill(&store, "b", 20_001);
    drop(store);
    let store = open_with(&fs.crash(CrashPolicy::DropAll), options).unwrap();
    check_filled(&store, "b", 1, 300_000);
    check_filled(&store, "b", small, 20_000);
    assert_eq!(get(&store, "b", "one more").unwrap(), bytes(1, 300_000));
}

#[test]
fn a_start_needs_no_free_byte_and_deletes_still_have_room_in_the_log() {
    let fs = SimFs::with_capacity(6 * MIB);
    let store = open_with(&fs, roomy()).unwrap();
    store.create_bucket("b", "admin").unwrap();
    let count = fill(&store, "b", 10_000);
    leave_nothing_free(&fs);
    store.close();
    drop(store);
    let store = open_with(&fs, roomy()).unwrap();
    check_filled(&store, "b", count, 10_000);
    for at in 1..count.min(100) {
        delete(&store, "b", &format!("10000-{at}"), Selector::Current).unwrap();
    }
    drop(store);
    for policy in [CrashPolicy::DropAll, CrashPolicy::KeepAll, CrashPolicy::Random(1)] {
        let fs = fs.crash(policy);
        leave_nothing_free(&fs);
        let store = open_with(&fs, roomy()).unwrap();
        check_filled(&store, "b", 1, 10_000);
        assert_eq!(get(&store, "b", "10000-1"), Err(StoreError::NoSuchKey));
        fs.set_capacity(8 * MIB);
        put(&store, "b", "one more", &bytes(1, 300_000)).unwrap();
    }
}

#[test]
fn where_even_the_log_has_no_room_left_the_store_opens_and_goes_on_once_there_is_some() {
    for spare in [0, 100, 700, 4_095, 5_000] {
        let fs = SimFs::new();
        let store = open_with(&fs, roomy()).unwrap();
        store.create_bucket("b", "admin").unwrap();
        leave_nothing_free(&fs);
        fs.set_capacity(fs.space().unwrap().total_bytes + spare);
        let mut states = [Versioning::Enabled, Versioning::Suspended].into_iter().cycle();
        let refused = states.find(|state| store.set_versioning("b", *state).is_err());
        assert_eq!(store.set_versioning("b", Versioning::Enabled), Err(StoreError::DiskFull));
        drop(store);
        for policy in [CrashPolicy::DropAll, CrashPolicy::KeepAll, CrashPolicy::Random(spare)] {
            let fs = fs.crash(policy);
            let store = open_with(&fs, roomy()).unwrap();
            assert_ne!(Some(store.bucket("b").unwrap().versioning), refused);
            assert_eq!(store.set_versioning("b", Versioning::Enabled), Err(StoreError::DiskFull));
            fs.set_capacity(8 * MIB);
            store.create_bucket("c", "admin").unwrap();
            drop(store);
            let store = open_with(&fs.crash(CrashPolicy::DropAll), roomy()).unwrap();
            assert_eq!(store.buckets().len(), 2);
            assert_eq!(store.health().torn_groups, 0);
        }
    }
}

/// An entry that can be put as often as one likes, encoded `count` times.
fn entries(count: u32) -> Vec<u8> {
    let bucket = BucketInfo {
        id: 1,
        name: "b".repeat(60),
        owner: "admin".into(),
        created: Timestamp::default(),
        versioning: Versioning::Unset,
    };
    let mut body = Vec::new();
    (0..count).for_each(|_| Entry::BucketPut(bucket.clone()).encode(&mut body));
    body
}

#[test]
fn a_group_that_did_not_fit_is_followed_by_smaller_ones_that_do_and_leaves_no_trace() {
    let mut followed = 0;
    for spare in [4_096, 4_196, 8_192, 9_000, 12_287] {
        let fs = SimFs::new();
        fs.create_dir(FileKind::Log.dir()).unwrap();
        let clock = Arc::new(ManualClock::new(Timestamp::default()));
        let id = StoreId([1; 16]);
        let mut log_writer = LogWriter::create(Arc::new(fs.clone()), clock, id, LOG_FILE_MAX_BYTES).unwrap();
        let mut write = |count: u32| {
            let written = log_writer.write(count, &entries(count), None)?;
            log_writer.file().sync_data()?;
            log_writer.mark_durable(&written);
            Ok::<_, LogError>(())
        };
        // Nobody has asked whether there is room, or somebody else has taken it since.
        fs.set_capacity(fs.space().unwrap().total_bytes - free_bytes(&fs) + spare);
        let mut written = 0;
        let failed = (0..).find_map(|_| write(120).map(|()| written += 1).err());
        assert!(matches!(failed, Some(LogError::DiskFull(_))), "{failed:?}");
        // Sometimes the last large one leaves no page.
        if write(1).is_err() {
            continue;
        }
        followed += 1;
        let replay = Replay {
            fs: &fs.crash(CrashPolicy::KeepAll),
            store: id,
            start: ReplayStart::default(),
            pack_is_good: &|_| Ok(true),
        };
        let tail = replay.run(&mut |_| Ok(())).unwrap();
        assert_eq!((tail.torn, tail.damage, tail.sequence - 1), (None, None, written + 1), "{spare}");
    }
    assert!(followed > 1);
}

/// Does what the disk has room for.
fn work_as_far_as_it_fits(store: &Store, mut model: Model) -> Model {
    for step in WORK.iter().filter(|step| !step.is_reopen()) {
        match (step.run(store), model.after(step)) {
            (Ok(()), Ok(after)) => model = after,
            (Err(StoreError::DiskFull), _) => {}
            (Err(error), Err(refusal)) if error == refusal => {}
            (done, expected) => panic!("{step:?}: {done:?} and not {expected:?}"),
        }
    }
    model.learn_ids(store);
    model
}

#[test]
fn wherever_the_disk_ends_nothing_that_was_acknowledged_is_lost() {
    let mut refused = 0;
    // Odd steps, so that it ends within pages and sectors, too.
    for capacity in points(14_867).map(|more| 300 * KIB + more).take_while(|at| *at < 1500 * KIB) {
        println!("{capacity} bytes");
        let fs = SimFs::with_capacity(capacity);
        let Ok(store) = try_open(&fs) else {
            continue;
        };
        let model = work_as_far_as_it_fits(&store, Model::default());
        assert_eq!(store.health().read_only, None);
        drop(store);
        let doubt = InDoubt::nothing(model);
        // What is kept free for a checkpoint is free.
        refused += u64::from(free_bytes(&fs) < 64 * KIB);
        for policy in [CrashPolicy::DropAll, CrashPolicy::KeepAll, CrashPolicy::Random(capacity)] {
            let fs = fs.crash(policy);
            let (store, found) = doubt.recover(&fs, options()).expect("a start needs no room");
            fs.set_capacity(capacity + 4 * MIB);
            let model = work_as_far_as_it_fits(&store, found);
            drop(store);
            InDoubt::nothing(model).recover(&fs.crash(policy), options()).expect("the store opens");
        }
    }
    assert!(refused > 0, "the disk was never full");
}

/// A key of some hundred bytes, so that the metadata outweighs the objects.
fn long_key(at: usize) -> String {
    format!("{at:05}{}", "k".repeat(800))
}

/// Puts empty objects with long keys until the disk is full, and says how many there are.
fn fill_with_keys(store: &Store, bucket: &str) -> usize {
    let full = |at: &usize| match put(store, bucket, &long_key(*at), b"") {
        Ok(_) => false,
        Err(StoreError::DiskFull) => true,
        Err(other) => panic!("{other}"),
    };
    (0..).find(full).expect("the disk ends somewhere")
}

/// What is left of checkpoints that were not finished.
fn unfinished_files(fs: &SimFs) -> Vec<String> {
    fs.files().into_iter().map(|(path, _)| path).filter(|path| path.ends_with(".new")).collect()
}

/// A small disk on which the log and the checkpoints are most of what there is.
fn metadata_alone() -> StoreOptions {
    StoreOptions { keep_free_bytes: 2 * MIB, checkpoint_after_bytes: MIB, segment_max_bytes: MIB, ..roomy() }
}

#[test]
fn on_a_disk_full_of_keys_all_can_be_deleted_without_a_restart_and_then_there_is_room_again() {
    let fs = SimFs::with_capacity(24 * MIB);
    let store = open_with(&fs, metadata_alone()).unwrap();
    store.create_bucket("b", "admin").unwrap();
    let count = fill_with_keys(&store, "b");
    assert!(count > 500, "{count} keys");
    for at in 0..count {
        let deleted = delete(&store, "b", &long_key(at), Selector::Current);
        deleted.unwrap_or_else(|error| panic!("delete {at} of {count}: {error}"));
    }
    reclaim_all(&store).unwrap();
    let again = fill_with_keys(&store, "b");
    assert!(again >= count * 3 / 4, "{again} keys after {count}");
    for at in 0..again {
        delete(&store, "b", &long_key(at), Selector::Current).unwrap();
    }
    assert_eq!((keys(&store, "b").len(), store.health().read_only), (0, None));
    drop(store);
    let store = open_with(&fs.crash(CrashPolicy::DropAll), metadata_alone()).unwrap();
    assert!(keys(&store, "b").is_empty());
}

/// As on a file system of another host: what there is no room for is noticed at a sync.
#[test]
fn where_nothing_can_be_set_aside_a_full_disk_is_noticed_before_bytes_go_there() {
    let fs = SimFs::with_capacity(8 * MIB);
    fs.allocate_at_sync();
    let store = open_with(&fs, roomy()).unwrap();
    store.create_bucket("b", "admin").unwrap();
    put(&store, "b", "before", &bytes(1, 5_000)).unwrap();
    let mut writer = store.writer("b", "large", Some(300_000)).unwrap();
    writer.write(&bytes(2, 300_000)[..200_000]).unwrap();
    leave_nothing_free(&fs);
    writer.write(&bytes(2, 300_000)[200_000..]).unwrap();
    let large = writer.commit(commit_of(&bytes(2, 300_000)));
    let full = (0..4_000).find(|at| put(&store, "b", &format!("{at}"), &bytes(*at, 5_000)).is_err());
    assert!(full.is_some(), "nothing is free");
    assert_eq!(store.health().read_only, None);
    assert_eq!(get(&store, "b", "before").unwrap(), bytes(1, 5_000));
    assert_eq!(large.is_ok(), get(&store, "b", "large").is_ok());
    delete(&store, "b", "before", Selector::Current).unwrap();
    fs.set_capacity(16 * MIB);
    put(&store, "b", "after", &bytes(3, 5_000)).unwrap();
    let store = open_with(&fs.crash(CrashPolicy::DropAll), roomy()).unwrap();
    assert_eq!(get(&store, "b", "after").unwrap(), bytes(3, 5_000));
    assert_eq!(large.is_ok(), get(&store, "b", "large").is_ok());
}

#[test]
fn where_others_take_the_last_byte_a_checkpoint_fails_at_once_and_leaves_nothing_behind() {
    let fs = SimFs::with_capacity(24 * MIB);
    let store = open_with(&fs, metadata_alone()).unwrap();
    store.create_bucket("b", "admin").unwrap();
    (0..300).for_each(|at| assert!(put(&store, "b", &long_key(at), b"").is_ok()));
    leave_nothing_free(&fs);
    // The puts may have had the checkpointer make room. When it comes late it covers all groups and
    // frees their log: a deletion makes another group, and nothing is left free again.
    let is_refused = |at: usize| {
        delete(&store, "b", &long_key(at), Selector::Current).unwrap();
        leave_nothing_free(&fs);
        let before = fs.operations();
        store.checkpoint() == Err(StoreError::DiskFull) && fs.operations() == before
    };
    assert!((1..10).any(is_refused));
    assert_eq!(unfinished_files(&fs), [] as [String; 0]);
    // Room that goes between the question and the writing.
    for spare in [5_000, 100_000, 200_000] {
        let file = || {
            CheckpointWriter::write(
                &fs,
                store.shared.store,
                Timestamp::from_millis(1),
                &CheckpointPlan::covering(1),
                &mut |writer| {
                    let bucket = store.bucket("b").unwrap();
                    for _ in 0..10_000 {
                        writer.put(&Entry::BucketPut(bucket.clone()))?;
                    }
                    Ok(writer.end(1, 1))
                },
            )
        };
        fs.set_capacity(fs.space().unwrap().total_bytes - free_bytes(&fs) + spare);
        assert!(matches!(file(), Err(LogError::DiskFull(_))));
        assert_eq!((unfinished_files(&fs), free_bytes(&fs)), (vec![], spare));
    }
    assert_eq!(store.health().read_only, None);
    delete(&store, "b", &long_key(0), Selector::Current).unwrap();
}

#[test]
fn of_two_checkpoints_the_older_one_goes_where_room_is_short_and_the_newer_one_is_good() {
    let options = StoreOptions { checkpoint_after_bytes: u64::MAX, ..metadata_alone() };
    for damaged in [false, true] {
        let fs = SimFs::with_capacity(64 * MIB);
        let store = open_with(&fs, options).unwrap();
        store.create_bucket("b", "admin").unwrap();
        let mut checkpoints = Vec::new();
        for round in 0..2 {
            (0..500).for_each(|at| assert!(put(&store, "b", &long_key(round * 500 + at), b"").is_ok()));
            store.checkpoint().unwrap();
            checkpoints = list_numbers(&fs, FileKind::Checkpoint).unwrap();
        }
        assert_eq!(checkpoints.len(), 2);
        if damaged {
            fs.damage(&checkpoint_path(checkpoints[1]), 5_000, 1).unwrap();
        }
        put(&store, "b", "one more", b"").unwrap();
        fs.set_capacity(fs.space().unwrap().total_bytes - free_bytes(&fs) + 700_000);
        assert_eq!(store.checkpoint().is_ok(), !damaged);
        let left = list_numbers(&fs, FileKind::Checkpoint).unwrap();
        match damaged {
            true => assert_eq!(left, checkpoints, "neither goes for what is damaged"),
            false => assert!(left.len() == 1 && left[0] > checkpoints[1], "{left:?}"),
        }
    }
}

#[test]
fn without_inodes_the_store_says_that_the_disk_is_full_until_there_are_some() {
    let fs = SimFs::new();
    let store = open(&fs);
    store.create_bucket("b", "admin").unwrap();
    for len in [1_000, 300_000] {
        store.shared.segments.retire(|_| true);
        assert!(!store.health().disk_full);
        fs.lack_inodes(true);
        assert!(store.health().disk_full, "before the first refusal");
        assert_eq!(put(&store, "b", "k", &bytes(1, len)), Err(StoreError::DiskFull));
        let health = store.health();
        assert!(
            health.disk_full && health.disk.unwrap().0 > MIB,
            "there are free bytes, and every put of {len} fails"
        );
        assert_eq!((health.read_only, store.health().disk_full), (None, true));
        fs.lack_inodes(false);
        assert!(!store.health().disk_full);
        put(&store, "b", "k", &bytes(1, len)).unwrap();
        assert!(!store.health().disk_full);
    }
}

#[test]
fn a_file_system_that_does_not_tell_its_space_holds_writes_up_and_does_not_end_them() {
    let fs = SimFs::new();
    let store = open(&fs);
    store.create_bucket("b", "admin").unwrap();
    for len in [1_000, 300_000] {
        store.shared.segments.retire(|_| true);
        fs.hide_space(true);
        let refused = put(&store, "b", "k", &bytes(1, len));
        assert!(matches!(refused, Err(StoreError::Exhausted(_))), "{refused:?}");
        let health = store.health();
        assert!(health.disk_full && health.disk.is_none());
        assert_eq!(health.read_only, None);
        fs.hide_space(false);
        put(&store, "b", "k", &bytes(2, len)).unwrap();
        assert_eq!((store.health().disk_full, get(&store, "b", "k").unwrap()), (false, bytes(2, len)));
    }
}

#[test]
fn without_inodes_the_segments_at_hand_are_written_on() {
    let fs = SimFs::new();
    let store = open(&fs);
    store.create_bucket("b", "admin").unwrap();
    for len in [1_000, 300_000] {
        put(&store, "b", &format!("{len}"), &bytes(1, len)).unwrap();
        delete(&store, "b", &format!("{len}"), Selector::Current).unwrap();
    }
    fs.lack_inodes(true);
    let before = store.shared.segments.active_segments();
    store.shared.segments.replace(|_| true).unwrap();
    assert_eq!(store.shared.segments.active_segments(), before);
    for len in [1_000, 300_000] {
        put(&store, "b", "k", &bytes(2, len)).unwrap();
        assert_eq!(get(&store, "b", "k").unwrap(), bytes(2, len));
    }
    fs.lack_inodes(false);
    store.shared.segments.replace(|_| true).unwrap();
    assert!(store.shared.segments.active_segments().iter().all(|id| !before.contains(id)));
}
