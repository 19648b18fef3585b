//! The disk fills up: reads and deletes go on, a start needs no free byte, and nothing is lost.

use super::model::Model;
use super::script::{InDoubt, WORK};
use super::*;
use crate::base::limits::{KIB, LOG_FILE_MAX_BYTES, MIB};
use crate::fs::sim::CrashPolicy;

/// With the room in the log that a store has by default.
fn roomy() -> Options {
    Options { log_file_max_bytes: LOG_FILE_MAX_BYTES, ..options() }
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
    let options = Options { keep_free_bytes: MIB, ..roomy() };
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

#[test]
fn a_group_that_did_not_fit_is_followed_by_smaller_ones_that_do_and_leaves_no_trace() {
    let fs = SimFs::new();
    let store = open_with(&fs, roomy()).unwrap();
    store.create_bucket("b", "admin").unwrap();
    store.set_versioning("b", Versioning::Enabled).unwrap();
    leave_nothing_free(&fs);
    fs.set_capacity(fs.space().unwrap().total_bytes + 12_288);
    let three_pages = || {
        let deletion = |at| Deletion { key: format!("{at:0100}"), which: Selector::Current, if_match: None };
        store.delete("b", (0..70).map(deletion).collect())
    };
    let large = (0..).find(|_| three_pages().is_err()).unwrap();
    assert!(large > 50);
    store.set_versioning("b", Versioning::Suspended).unwrap();
    let sequence = store.health().sequence;
    drop(store);
    let health = open_with(&fs.crash(CrashPolicy::KeepAll), roomy()).unwrap().health();
    assert_eq!(
        (health.torn_groups, health.sequence),
        (0, sequence + 1),
        "one group says that all is durable"
    );
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
    for capacity in (300 * KIB..1500 * KIB).step_by(14_867) {
        println!("{capacity} bytes");
        let fs = SimFs::with_capacity(capacity);
        let Ok(store) = try_open(&fs) else {
            continue;
        };
        let model = work_as_far_as_it_fits(&store, Model::default());
        assert_eq!(store.health().read_only, None);
        drop(store);
        let doubt = InDoubt::nothing(model);
        refused += u64::from(free_bytes(&fs) < 4096);
        for policy in [CrashPolicy::DropAll, CrashPolicy::KeepAll, CrashPolicy::Random(capacity)] {
            let fs = fs.crash(policy);
            let (store, found) = doubt.recover(&fs, options()).expect("a start needs no room");
            fs.set_capacity(capacity + 4 * MIB);
            let model = work_as_far_as_it_fits(&store, found);
            drop(store);
            InDoubt::nothing(model).recover(&fs.crash(policy), options()).expect("the store opens");
        }
    }
    assert!(refused > 10, "the disk was full {refused} times");
}
