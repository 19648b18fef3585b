//! What is written to the disk is counted, all of it, by what it was written for.

use super::model::Model;
use super::script::{CHURN, WORK, work};
use super::steps::{If, Step};
use super::*;
use crate::format::WrittenBytes;
use crate::fs::sim::OpKind;

/// What the disk was asked to write of all paths that `of` accepts.
fn traced(fs: &SimFs, of: impl Fn(&str) -> bool) -> u64 {
    fs.trace().iter().filter(|op| op.kind == OpKind::Write && of(&op.path)).map(|op| op.len).sum()
}

#[test]
fn every_byte_that_reaches_the_disk_is_counted_once() {
    let fs = SimFs::new();
    let store = open_with(&fs, StoreOptions { segment_max_bytes: 100_000, ..options() }).unwrap();
    let mut put_bytes = 0;
    for step in CHURN.iter().filter(|step| !step.is_reopen()) {
        let done = step.run(&store).is_ok();
        put_bytes += match step {
            Step::Put(.., len, If::Always) | Step::Part(.., len) if done => *len as u64,
            _ => 0,
        };
    }
    let written = store.health().written;
    let WrittenBytes { payload, objects, log, zeros, checkpoints, moved } = written;
    assert_eq!(written.total(), traced(&fs, |_| true));
    assert_eq!(payload, put_bytes);
    assert!(objects > payload && moved > 0 && zeros > 0, "{written:?}");
    assert_eq!(checkpoints, traced(&fs, |path| path.contains(".checkpoint")));
    assert!(objects + moved <= traced(&fs, |path| path.starts_with("data/")));
    assert!(log < traced(&fs, |path| path.contains(".log")), "some of it are zeros");
    assert!(moved >= store.health().moved_bytes);
}

#[test]
fn the_sum_is_kept_with_checkpoints_over_restarts() {
    let fs = SimFs::new();
    assert!(work(&fs, options(), WORK, Model::default()).is_ok());
    let all = || {
        let clock = ManualClock::new(Timestamp::from_millis(1_700_000_000_000));
        stats(&fs, &clock, 1).unwrap().written
    };
    let first = all();
    assert!(first.payload > 500_000 && first.total() > first.payload, "{first:?}");
    let store = open(&fs);
    assert_eq!(store.health().written.payload, 0, "since the start");
    put(&store, "a", "more", &bytes(1, 1_000)).unwrap();
    store.checkpoint().unwrap();
    let second = all();
    assert_eq!(second.payload, first.payload + 1_000);
    assert!(second.objects > first.objects && second.log > first.log && second.zeros >= first.zeros);
    drop(store);
    let store = open(&fs);
    put(&store, "a", "more", &bytes(1, 500)).unwrap();
    store.close();
    assert_eq!(all().payload, second.payload + 500);
}

#[test]
fn syncs_of_segments_and_the_newest_checkpoint_are_known() {
    let fs = SimFs::new();
    let store = open(&fs);
    assert_eq!(store.health().newest_checkpoint, None);
    store.create_bucket("b", "admin").unwrap();
    let before = store.commit_figures().segment_syncs.count;
    put(&store, "b", "small", b"x").unwrap();
    assert_eq!(store.commit_figures().segment_syncs.count, before + 1, "the pack");
    put(&store, "b", "large", &bytes(1, 1_000_000)).unwrap();
    assert!(store.commit_figures().segment_syncs.count > before + 1, "the extents");
    store.checkpoint().unwrap();
    let created = store.health().newest_checkpoint;
    assert!(created.is_some());
    drop(store);
    assert_eq!(open(&fs).health().newest_checkpoint, created, "after a start");
}
