//! What happens while a sync takes its time: nothing is seen, nobody is answered, and those who
//! come meanwhile share the next group.

use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use super::*;
use crate::fs::sim::{CrashPolicy, Op, OpKind, SyncGate};

/// Long enough to notice an answer that comes too early; a slow machine notices less, and fails
/// nothing.
const A_MOMENT: Duration = Duration::from_millis(50);

const BOTH: [&str; 2] = ["data/", "meta/"];

/// A store with a bucket, an object and a segment, which commits nothing by itself.
fn store_with_an_object(fs: &SimFs) -> Arc<Store> {
    let store = Arc::new(open(fs));
    store.create_bucket("b", "admin").unwrap();
    put(&store, "b", "old", b"old").unwrap();
    store
}

/// Does something in a thread, which answers when it is done.
pub(super) fn begin<T: Send + 'static>(
    store: &Arc<Store>,
    act: impl FnOnce(&Store) -> T + Send + 'static,
) -> Receiver<T> {
    let (done, answer) = mpsc::channel();
    let store = store.clone();
    thread::spawn(move || done.send(act(&store)));
    answer
}

pub(super) fn hold(fs: &SimFs, prefix: &str, act: impl FnOnce()) -> SyncGate {
    let gate = fs.hold_syncs(prefix);
    act();
    assert!(gate.wait_until_held(1), "a sync of {prefix} was asked for");
    gate
}

fn syncs_of(trace: &[Op], prefix: &str) -> usize {
    trace.iter().filter(|op| op.kind == OpKind::SyncData && op.path.starts_with(prefix)).count()
}

#[test]
fn a_put_is_neither_seen_nor_answered_before_both_syncs_are_done() {
    for prefix in BOTH {
        let fs = SimFs::new();
        let store = store_with_an_object(&fs);
        let mut answer = None;
        let gate = hold(&fs, prefix, || answer = Some(begin(&store, |store| put(store, "b", "new", b"new"))));
        let answer = answer.unwrap();
        assert_eq!(answer.recv_timeout(A_MOMENT), Err(RecvTimeoutError::Timeout));
        assert_eq!(get(&store, "b", "new"), Err(StoreError::NoSuchKey));
        assert_eq!(keys(&store, "b"), ["old"]);
        assert_eq!(store.health().versions, 1);
        drop(gate);
        answer.recv().unwrap().unwrap();
        assert_eq!(get(&store, "b", "new").unwrap(), b"new");
        assert_eq!(keys(&store, "b"), ["new", "old"]);
    }
}

#[test]
fn a_delete_and_a_bucket_are_neither_seen_nor_answered_before_the_log_is_synced() {
    let fs = SimFs::new();
    let store = store_with_an_object(&fs);
    let mut answer = None;
    let gate =
        hold(&fs, "meta/", || answer = Some(begin(&store, |s| delete(s, "b", "old", Selector::Current))));
    let created = begin(&store, |store| store.create_bucket("new", "admin"));
    let answer = answer.unwrap();
    assert_eq!(answer.recv_timeout(A_MOMENT), Err(RecvTimeoutError::Timeout));
    assert_eq!(created.recv_timeout(A_MOMENT), Err(RecvTimeoutError::Timeout));
    assert_eq!(get(&store, "b", "old").unwrap(), b"old");
    assert_eq!(store.buckets().len(), 1);
    drop(gate);
    answer.recv().unwrap().unwrap();
    created.recv().unwrap().unwrap();
    assert_eq!(get(&store, "b", "old"), Err(StoreError::NoSuchKey));
    assert_eq!(store.buckets().len(), 2);
}

#[test]
fn a_large_object_is_synced_before_its_entry_is_written() {
    let fs = SimFs::new();
    let store = store_with_an_object(&fs);
    let before = fs.trace().len();
    put(&store, "b", "large", &bytes(1, 200_000)).unwrap();
    let trace = &fs.trace()[before..];
    let entry = trace.iter().position(|op| op.kind == OpKind::Write && op.path.starts_with("meta/")).unwrap();
    let (first, then) = trace.split_at(entry);
    assert!(syncs_of(first, "data/") > 0, "{first:?}");
    assert!(
        first.iter().rev().find(|op| op.path.ends_with(".segment.new")).unwrap().kind == OpKind::SyncData
    );
    assert_eq!(syncs_of(then, "meta/"), 1);
}

#[test]
fn those_who_come_while_a_group_is_synced_share_the_next_one() {
    const WRITERS: usize = 40;
    let fs = SimFs::new();
    let store = store_with_an_object(&fs);
    let mut first = None;
    let gate = hold(&fs, "", || first = Some(begin(&store, |store| put(store, "b", "first", b"1"))));
    assert!(gate.wait_until_held(2), "both of its syncs have begun");
    let answers: Vec<_> = (0..WRITERS)
        .map(|at| begin(&store, move |store| put(store, "b", &format!("k{at}"), &bytes(at as u64, 4096))))
        .collect();
    while store.committer.queued() < WRITERS {
        thread::yield_now();
    }
    let before = fs.trace().len();
    let sequence = store.health().sequence;
    drop(gate);
    first.unwrap().recv().unwrap().unwrap();
    assert!(answers.into_iter().all(|answer| answer.recv().unwrap().is_ok()));
    assert_eq!(store.health().sequence, sequence + 2, "the first one, and all others");
    let trace = &fs.trace()[before..];
    assert_eq!(BOTH.map(|prefix| syncs_of(trace, prefix)), [1, 1], "{trace:?}");
    for at in 0..WRITERS {
        assert_eq!(get(&store, "b", &format!("k{at}")).unwrap(), bytes(at as u64, 4096));
    }
}

/// Puts without saying what the MD5 is.
fn put_by_md5(store: &Store, key: &str, bytes: &[u8]) -> CommittedVersion {
    let mut writer = store.writer("b", key, None).unwrap();
    writer.write(bytes).unwrap();
    writer.commit_with_md5(Commit { etag: ETag::Crc(7), ..commit_of(bytes) }).unwrap()
}

#[test]
fn whatever_a_group_packs_has_its_own_md5_for_a_tag_where_that_is_wanted() {
    const WRITERS: usize = 40;
    let fs = SimFs::new();
    let store = store_with_an_object(&fs);
    let content = |at: usize| bytes(at as u64, [0, 1, 64, 4096, 9_000, 65_536, 65_537][at % 7]);
    let mut first = None;
    let gate = hold(&fs, "", || first = Some(begin(&store, |store| put_by_md5(store, "first", b"1"))));
    let answers: Vec<_> = (0..WRITERS)
        .map(|at| {
            begin(&store, move |store| match at % 3 {
                0 => put(store, "b", &format!("k{at}"), &content(at)).unwrap(),
                _ => put_by_md5(store, &format!("k{at}"), &content(at)),
            })
        })
        .collect();
    drop(gate);
    assert_eq!(first.unwrap().recv().unwrap().etag, ETag::Md5(Md5::of(b"1")));
    for (at, answer) in answers.into_iter().enumerate() {
        let is_known = at % 3 != 0 && content(at).len() > 65_536;
        let etag = if is_known { ETag::Crc(7) } else { ETag::Md5(Md5::of(&content(at))) };
        assert_eq!(answer.recv().unwrap().etag, etag, "the answer to writer {at}");
        let found = store.find("b", &format!("k{at}"), Selector::Current).unwrap();
        assert_eq!(found.version.etag, etag, "the version of writer {at}");
    }
}

#[test]
fn the_power_may_go_while_everybody_waits() {
    let fs = SimFs::new();
    let store = store_with_an_object(&fs);
    let mut answer = None;
    let _gate = hold(&fs, "meta/", || answer = Some(begin(&store, |store| put(store, "b", "new", b"new"))));
    let rebooted = fs.crash(CrashPolicy::DropAll);
    assert!(answer.unwrap().recv().unwrap().is_err(), "nobody was told that it was done");
    assert_eq!(keys(&open(&rebooted), "b"), ["old"]);
}

#[test]
fn nobody_is_told_that_it_is_done_once_any_sync_has_failed() {
    let fs = SimFs::new();
    let store = store_with_an_object(&fs);
    put(&store, "b", "large", &bytes(1, 200_000)).unwrap();
    let before = syncs_of(&fs.trace(), "data/");
    let mut small = None;
    let gate = hold(&fs, "meta/", || small = Some(begin(&store, |store| put(store, "b", "new", b"new"))));
    while syncs_of(&fs.trace(), "data/") == before {
        thread::yield_now();
    }
    fs.fail_sync_at(fs.syncs() + 1);
    let large = put(&store, "b", "large", &bytes(2, 200_000));
    assert!(matches!(large, Err(StoreError::ReadOnly(_))), "{large:?}");
    drop(gate);
    let small = small.unwrap().recv().unwrap();
    assert!(matches!(small, Err(StoreError::ReadOnly(_))), "{small:?}");
    assert_eq!(get(&store, "b", "large").unwrap(), bytes(1, 200_000));
}

#[test]
fn a_sync_that_does_not_return_is_a_wait_that_grows_and_ends() {
    for prefix in BOTH {
        let fs = SimFs::new();
        let clock = Arc::new(ManualClock::new(Timestamp::from_millis(1_700_000_000_000)));
        let disk = Arc::new(fs.clone());
        let store =
            Store::open(disk, Arc::clone(&clock) as Arc<dyn Clock>, &SeededEntropy::new(1), options());
        let store = Arc::new(store.unwrap());
        store.create_bucket("b", "admin").unwrap();
        put(&store, "b", "first", b"first").unwrap();
        assert_eq!(store.disk_wait(), None, "nobody commits");
        let mut answer = None;
        let gate = hold(&fs, prefix, || answer = Some(begin(&store, |store| put(store, "b", "new", b"new"))));
        assert_eq!(store.disk_wait(), Some(Duration::ZERO), "{prefix}");
        clock.advance(Duration::from_secs(100));
        assert_eq!(store.disk_wait(), Some(Duration::from_secs(100)), "{prefix}");
        drop(gate);
        answer.unwrap().recv().unwrap().unwrap();
        assert_eq!(store.disk_wait(), None, "{prefix}");
    }
}
