//! Compaction leaves a store with its smallest size, and a complete one at every moment.

use super::model::Model;
use super::script::{CHURN, InDoubt, work};
use super::*;
use crate::base::limits::{KIB, MIB};
use crate::base::test_scope::points;
use crate::format::FileKind;
use crate::fs::Fs;
use crate::fs::sim::CrashPolicy;
use crate::log::list_numbers;
use crate::offline::compact::{CompactError, Compacted};

const SEGMENT_BYTES: u64 = 200_000;

fn compact_while(fs: &SimFs, go_on: &mut dyn FnMut() -> bool) -> Result<Compacted, CompactError> {
    let clock = Arc::new(ManualClock::new(Timestamp::from_millis(1_700_000_000_000)));
    compact(&(Arc::new(fs.clone()) as Arc<dyn Fs>), clock, &SeededEntropy::new(1), SEGMENT_BYTES, &mut |_| {
        go_on()
    })
}

fn compact_all(fs: &SimFs) -> Result<Compacted, CompactError> {
    compact_while(fs, &mut || true)
}

/// A store with one live object in three in each segment, small and large ones.
fn sparse(fs: &SimFs) {
    let store = open_with(fs, StoreOptions { segment_max_bytes: SEGMENT_BYTES, ..options() }).unwrap();
    store.create_bucket("b", "admin").unwrap();
    for round in 0..3 {
        for at in 0..12 {
            put(&store, "b", &format!("small-{at}"), &bytes(at + round, 6_000)).unwrap();
            put(&store, "b", &format!("large-{at}"), &bytes(at + round, 70_000)).unwrap();
        }
    }
    for at in 0..6 {
        delete(&store, "b", &format!("large-{at}"), Selector::Current).unwrap();
    }
    store.close();
}

fn check_sparse(fs: &SimFs) {
    let store = open(fs);
    for at in 0..12 {
        assert_eq!(get(&store, "b", &format!("small-{at}")).unwrap(), bytes(at + 2, 6_000));
    }
    for at in 6..12 {
        assert_eq!(get(&store, "b", &format!("large-{at}")).unwrap(), bytes(at + 2, 70_000));
    }
    assert_eq!(keys(&store, "b").len(), 18);
}

#[test]
fn live_extents_are_side_by_side_and_the_log_is_short() {
    let fs = SimFs::new();
    sparse(&fs);
    let done = compact_all(&fs).unwrap();
    assert!(!done.stopped && done.damage.is_empty());
    assert!(done.before.data_bytes > 2 * done.live_bytes, "{done:?}");
    assert!(done.after.data_bytes * 2 <= done.live_bytes * 3, "{done:?}");
    assert!(done.after.segments <= done.live_bytes / SEGMENT_BYTES + 2, "{done:?}");
    assert!(done.after.metadata_bytes <= 256 * KIB, "{done:?}");
    assert_eq!(list_numbers(&fs, FileKind::Checkpoint).unwrap().len(), 2);
    let report = verify(&fs, &mut |_| {}).unwrap();
    assert_eq!((report.findings, report.notes), (vec![], vec![]));
    assert!(report.segments.iter().all(|segment| segment.sealed));
    check_sparse(&fs);
    let again = compact_all(&fs).unwrap();
    assert_eq!((again.moved_bytes, again.after.data_bytes), (0, done.after.data_bytes), "once is enough");
}

#[test]
fn an_emptied_store_takes_up_next_to_nothing() {
    let fs = SimFs::new();
    sparse(&fs);
    let store = open(&fs);
    for key in keys(&store, "b") {
        delete(&store, "b", &key, Selector::Current).unwrap();
    }
    drop(store);
    let done = compact_all(&fs).unwrap();
    assert_eq!((done.after.segments, done.after.data_bytes), (1, 4096));
}

#[test]
fn it_may_be_interrupted_between_any_two_steps_and_continues() {
    let fs = SimFs::new();
    sparse(&fs);
    let mut attempts = 0;
    // One more step each time.
    loop {
        let mut steps = 0;
        let stop_soon = &mut || {
            steps += 1;
            steps <= attempts
        };
        let done = compact_while(&fs, stop_soon).unwrap();
        check_sparse(&fs);
        attempts += 1;
        if !done.stopped {
            break;
        }
    }
    assert!(attempts > 2, "{attempts}");
    let done = compact_all(&fs).unwrap();
    assert!(done.after.data_bytes * 2 <= done.live_bytes * 3, "{done:?}");
}

#[test]
fn a_power_cut_at_any_operation_loses_nothing_and_the_next_attempt_finishes() {
    let made = SimFs::new();
    let options = StoreOptions { segment_max_bytes: 20_000, ..options() };
    let model = work(&made, options, CHURN, Model::default()).map_err(|halt| halt.error).unwrap();
    let seed = seed();
    for stop in points(1) {
        let fs = made.crash(CrashPolicy::KeepAll);
        fs.stop_at(stop);
        if compact_all(&fs).is_ok() {
            assert!(stop > 50, "it takes {stop} operations");
            return;
        }
        for policy in [CrashPolicy::DropAll, CrashPolicy::KeepAll, CrashPolicy::Random(seed + stop)] {
            println!("power lost at operation {stop}, {policy:?}");
            let fs = fs.crash(policy);
            let doubt = InDoubt::nothing(model.clone());
            doubt.recover(&fs, options).expect("the store opens");
            let done = compact_all(&fs).unwrap();
            assert!(!done.stopped && done.damage.is_empty());
            doubt.recover(&fs, options).expect("the store opens");
        }
    }
}

#[test]
fn it_is_refused_without_space_without_a_store_and_on_damage() {
    let fs = SimFs::new();
    assert!(matches!(compact_all(&fs), Err(CompactError::NotAStore)));
    assert_eq!(fs.files(), []);
    sparse(&fs);
    let before = fs.space().unwrap();
    fs.set_capacity(before.total_bytes - before.free_bytes + MIB);
    let files = fs.files();
    assert!(matches!(compact_all(&fs), Err(CompactError::NoRoom { .. })));
    assert_eq!(fs.files(), files);
    fs.set_capacity(before.total_bytes);
    let store = open(&fs);
    assert!(matches!(compact_all(&fs), Err(CompactError::Open(OpenError::Locked))));
    drop(store);
    let last = *list_numbers(&fs, FileKind::Segment).unwrap().last().unwrap();
    fs.remove(&crate::format::segment_path(last)).unwrap();
    assert!(matches!(compact_all(&fs), Err(CompactError::Damaged(_))));
}
