//! Syncs that fail, disks that are full, and syncs that take their time.

use super::disks::path_in_store;
use super::model::Model;
use super::script::{CHURN, Halt, InDoubt, MORE_WORK, WORK, work};
use super::steps::Step;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use super::*;
use crate::base::test_scope::points;
use crate::fs::sim::{CrashPolicy, Op, OpKind};

/// A store that has met a failed sync takes no more writes, and goes on reading.
fn check_latched(halt: &Halt) {
    let Some(store) = &halt.store else {
        return;
    };
    assert!(matches!(halt.error, Some(StoreError::ReadOnly(_) | StoreError::Io(_))), "{:?}", halt.error);
    let refused = |answer: Result<(), StoreError>| matches!(answer, Err(StoreError::ReadOnly(_)));
    assert!(store.health().read_only.is_some(), "the store goes on after {:?}", halt.error);
    assert!(refused(store.create_bucket("new", "admin").map(|_| ())));
    assert!(refused(store.checkpoint()));
    if store.bucket("a").is_ok() {
        assert!(refused(put(store, "a", "small", b"more").map(|_| ())));
        assert!(refused(put(store, "a", "small", &bytes(1, 100_000)).map(|_| ())));
        assert!(refused(delete(store, "a", "small", Selector::Current).map(|_| ())));
    }
    assert!(halt.doubt.before.agrees_with(&Model::of(store)), "readers see what was acknowledged");
}

/// Lets syncs of the work fail ([`points`]), one after the other.
pub(super) fn sweep_of_failed_syncs(options: StoreOptions) {
    for failing in points(1) {
        let fs = SimFs::new();
        fs.fail_sync_at(failing);
        let outcome = work(&fs, options, WORK, Model::default());
        if fs.syncs() < failing {
            assert!(outcome.is_ok(), "no sync failed");
            println!("the work takes {} syncs", fs.syncs());
            return;
        }
        let failed = nth_sync(&fs, failing);
        println!("sync {failing} failed: {failed:?}");
        let doubt = match outcome {
            Ok(done) => {
                // Closing continues without its checkpoint, its log file and empty group, or the
                // state of segments. Recovery below shows that none of them was needed.
                let expendable = [".checkpoint.new", "reclaim.new", ".log", ".log.new"];
                let expendable = expendable.iter().any(|end| failed.path.ends_with(end));
                assert!(expendable || failed.kind == OpKind::SyncDir);
                InDoubt::nothing(done)
            }
            Err(halt) => {
                check_latched(&halt);
                let told = halt.store.as_ref().and_then(|store| store.health().read_only);
                let named = told.as_deref().and_then(|why| why.strip_prefix("syncing "));
                let path = path_in_store(&failed.path).trim_end_matches(".new");
                assert!(named.is_none_or(|named| named.starts_with(path)), "{told:?}");
                halt.doubt
            }
        };
        for policy in [CrashPolicy::DropAll, CrashPolicy::KeepAll, CrashPolicy::Random(failing)] {
            doubt.recover(&fs.crash(policy), options).expect("the store opens");
        }
        // Where the sync of a directory fails no process can go on: the file system turns
        // read-only.
        if failed.kind == OpKind::SyncData {
            restart_without_a_crash(&fs, options, &doubt);
        }
    }
}

fn nth_sync(fs: &SimFs, nth: u64) -> Op {
    let is_sync = |op: &Op| matches!(op.kind, OpKind::SyncData | OpKind::SyncDir);
    fs.trace().into_iter().filter(is_sync).nth(nth as usize - 1).expect("it was counted")
}

/// The operator starts the store anew, while the cache still shows what the disk does not hold.
fn restart_without_a_crash(fs: &SimFs, options: StoreOptions, doubt: &InDoubt) {
    let next = fs.kill();
    let (store, found) = doubt.recover(&next, options).expect("the store opens");
    drop(store);
    let Ok(done) = work(&next, options, MORE_WORK, found) else {
        panic!("the disk works again");
    };
    let crashed = next.crash(CrashPolicy::DropAll);
    InDoubt::nothing(done).recover(&crashed, options).expect("the store opens");
}

#[test]
fn a_failed_sync_ends_all_writing_and_loses_nothing_that_was_acknowledged() {
    sweep_of_failed_syncs(options());
}

#[test]
fn it_does_so_too_where_segments_are_sealed_and_checkpoints_written_meanwhile() {
    sweep_of_failed_syncs(StoreOptions {
        segment_max_bytes: 100_000,
        checkpoint_after_bytes: 8_192,
        ..options()
    });
}

/// Does the work while some openings in a row fail for want of descriptors, and says whether any
/// did.
fn work_without_descriptors(options: StoreOptions, steps: &[Step], from: u64) -> bool {
    let fs = SimFs::new();
    let store = open_with(&fs, options).unwrap();
    // What is tried again at once fails again.
    let refused = fs.opens() + from..fs.opens() + from + 3;
    fs.fail_opens(refused.clone());
    let mut model = Model::default();
    for step in steps.iter().filter(|step| !step.is_reopen()) {
        // Where a step before had no descriptor, what builds on it would be refused.
        let Ok(after) = model.after(step) else { continue };
        match step.run(&store) {
            Ok(()) => model = after,
            Err(StoreError::Exhausted(why)) => println!("opening {from}, {step:?}: {why}"),
            Err(error) => panic!("opening {from}, {step:?}: {error}"),
        }
    }
    model.learn_ids(&store);
    assert_eq!((store.health().read_only, store.health().damage), (None, vec![]), "opening {from}");
    let any = fs.opens() >= refused.start;
    fs.fail_opens(0..0);
    store.create_bucket("more", "admin").unwrap();
    store.delete_bucket("more").unwrap();
    model.learn_ids(&store);
    assert!(model.agrees_with(&Model::of(&store)), "opening {from}");
    drop(store);
    for policy in [CrashPolicy::DropAll, CrashPolicy::KeepAll, CrashPolicy::Random(from)] {
        InDoubt::nothing(model.clone()).recover(&fs.crash(policy), options).expect("the store opens");
    }
    any
}

#[test]
fn where_no_file_can_be_opened_a_request_fails_and_the_store_takes_writes_again() {
    let options = StoreOptions {
        segment_max_bytes: 100_000,
        checkpoint_after_bytes: 8_192,
        log_file_max_bytes: 20_000,
        segments_open_max: 1,
        ..options()
    };
    for steps in [WORK, CHURN] {
        let end = points(1).find(|from| !work_without_descriptors(options, steps, *from)).unwrap();
        println!("{end} openings");
        assert!(end > 30);
    }
}

/// A clock that panics in a commit.
#[derive(Default)]
struct Trap(AtomicBool);

impl Clock for Trap {
    fn now(&self) -> Timestamp {
        assert!(!self.0.load(Ordering::Relaxed), "the trap has closed");
        Timestamp::from_millis(1_700_000_000_000)
    }
}

fn open_with_trap(fs: &SimFs) -> (Store, Arc<Trap>) {
    let trap = Arc::new(Trap::default());
    let store = Store::open(Arc::new(fs.clone()), trap.clone(), &SeededEntropy::new(1), options()).unwrap();
    store.create_bucket("a", "admin").unwrap();
    put(&store, "a", "before", b"before").unwrap();
    (store, trap)
}

/// After a panic in a commit the store is read-only, even with the trap open again.
fn check_refusing(store: &Store, trap: &Trap) {
    trap.0.store(false, Ordering::Relaxed);
    assert_eq!(store.health().read_only_reason, Some(ReadOnlyReason::Panicked));
    assert!(matches!(put(store, "a", "more", b"more"), Err(StoreError::ReadOnly(_))));
    let refused = store.create_bucket("more", "admin");
    assert!(matches!(refused, Err(StoreError::ReadOnly(_) | StoreError::Closed)), "{refused:?}");
    assert!(matches!(store.checkpoint(), Err(StoreError::ReadOnly(_))));
    assert_eq!(get(store, "a", "before").unwrap(), b"before");
}

#[test]
fn a_panic_in_a_commit_makes_the_store_read_only_and_is_reported() {
    let fs = SimFs::new();
    let (store, trap) = open_with_trap(&fs);
    // The committer thread may hold the lock for a while after its last reply.
    while !store.committer.is_idle() {
        std::thread::yield_now();
    }
    trap.0.store(true, Ordering::Relaxed);
    let delete = || delete(&store, "a", "before", Selector::Current);
    assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(delete)).is_err());
    check_refusing(&store, &trap);
    store.close();
    drop(store);
    assert_eq!(get(&open(&fs.crash(CrashPolicy::DropAll)), "a", "before").unwrap(), b"before");
}

#[test]
fn so_does_one_in_the_thread_that_commits_for_others() {
    let fs = SimFs::new();
    let (store, trap) = open_with_trap(&fs);
    let gate = fs.hold_syncs("meta/");
    std::thread::scope(|scope| {
        let first = scope.spawn(|| put(&store, "a", "first", b"first"));
        assert!(gate.wait_until_held(1));
        let second = scope.spawn(|| delete(&store, "a", "before", Selector::Current));
        while store.committer.queued() == 0 {
            std::thread::yield_now();
        }
        trap.0.store(true, Ordering::Relaxed);
        drop(gate);
        first.join().unwrap().unwrap();
        assert_eq!(second.join().unwrap(), Err(StoreError::Closed));
    });
    // Who asked is told while the thread still unwinds, before the store knows.
    while store.health().read_only_reason.is_none() {
        std::thread::yield_now();
    }
    check_refusing(&store, &trap);
}

/// A clock that panics in the checkpointer.
struct CheckpointerTrap;

impl Clock for CheckpointerTrap {
    fn now(&self) -> Timestamp {
        assert_ne!(std::thread::current().name(), Some("checkpointer"));
        Timestamp::from_millis(1_700_000_000_000)
    }
}

#[test]
fn a_panic_in_the_checkpointer_is_reported_and_stops_no_put() {
    let fs = SimFs::new();
    let options = StoreOptions { checkpoint_after_bytes: 1, ..options() };
    let store =
        Store::open(Arc::new(fs.clone()), Arc::new(CheckpointerTrap), &SeededEntropy::new(1), options)
            .unwrap();
    assert_eq!(store.health().stopped_thread, None);
    store.create_bucket("a", "admin").unwrap();
    for _ in 0..1000 {
        if store.health().stopped_thread.is_some() {
            break;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    assert_eq!(store.health().stopped_thread, Some("checkpointer"));
    assert_eq!(store.health().read_only_reason, None);
    put(&store, "a", "after", b"after").unwrap();
    assert!(matches!(store.checkpoint(), Err(StoreError::Io(_))));
    store.close();
    drop(store);
    assert_eq!(get(&open(&fs.crash(CrashPolicy::DropAll)), "a", "after").unwrap(), b"after");
}

#[test]
fn a_watched_thread_that_panics_is_reported_and_one_that_ends_is_not() {
    let store = open(&SimFs::new());
    let ended = store.watch_thread("one that ends");
    std::thread::spawn(move || drop(ended)).join().unwrap();
    assert_eq!(store.health().stopped_thread, None);
    let panics = store.watch_thread("maintenance");
    let thread = std::thread::spawn(move || {
        let _watch = panics;
        panic!("on purpose");
    });
    assert!(thread.join().is_err());
    assert_eq!(store.health().stopped_thread, Some("maintenance"));
}
