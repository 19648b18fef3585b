//! What a start reads of the log: how much there is left to read, and that many groups at once add
//! up to what one after the other does.

use super::script::WORK;
use super::steps::Step;
use super::*;
use crate::base::limits::{LOG_FILE_MAX_BYTES, PAGE_BYTES};
use crate::format::{Entry, FileKind, Group, GroupHeader, log_path};
use crate::fs::sim::CrashPolicy;
use crate::index::{Cursor, Index};
use crate::log::{LogError, LogVolume, Replay, ReplayStart, Reserve, list_numbers};
use crate::store::open::bulk_apply;
use crate::store::open::loader::store_id;
use crate::store::shared::backlog::Backlog;

/// The entries of the log from its beginning, group by group.
fn groups_of(fs: &SimFs) -> Vec<Group> {
    let store = store_id(fs).unwrap().unwrap();
    let mut groups = Vec::new();
    let replay =
        Replay { fs, store, start: ReplayStart::default(), pack_is_good: &|_| Ok::<_, LogError>(true) };
    let take = &mut |group| {
        groups.push(group);
        Ok(())
    };
    replay.run(take).unwrap();
    groups
}

fn applied_in_turn(groups: &[Group]) -> Index {
    let mut index = Index::bulk_loading();
    for entry in groups.iter().flat_map(|group| &group.entries) {
        index.apply(entry).unwrap();
    }
    index.finish_loading();
    index
}

fn applied_in_bulk(groups: &[Group]) -> Index {
    let mut index = Index::bulk_loading();
    let (mut sender, receiver) = bulk_apply::channel();
    std::thread::scope(|scope| {
        let applier = scope.spawn(|| receiver.apply_to(&mut index));
        groups.iter().for_each(|group| assert!(sender.send_group(group.clone())));
        sender.finish();
        applier.join().unwrap().unwrap();
    });
    index.finish_loading();
    index
}

/// All that an index holds, in order.
fn contents(index: &Index) -> (Vec<Entry>, Vec<(u64, u64)>, u64, u64) {
    let mut cursor = Cursor::Start;
    let mut entries = Vec::new();
    loop {
        let some = index.walk(&mut cursor, 1_000);
        if some.is_empty() {
            let live = index.liveness().iter().collect();
            return (entries, live, index.version_count(), index.last_stamp());
        }
        entries.extend(some);
    }
}

/// A log of everything that changes a store, and of keys that change many times among others.
fn busy_log() -> SimFs {
    let fs = SimFs::new();
    let one_file = StoreOptions { log_file_max_bytes: LOG_FILE_MAX_BYTES, ..options() };
    let store = open_with(&fs, StoreOptions { checkpoint_after_bytes: u64::MAX, ..one_file }).unwrap();
    // Some steps need what others, which restart the store, would have left.
    let once = WORK.iter().filter(|step| !step.is_reopen() && !matches!(step, Step::Checkpoint));
    once.for_each(|step| drop(step.run(&store)));
    store.create_bucket("many", "admin").unwrap();
    for round in 0..8 {
        let versioning = [Versioning::Enabled, Versioning::Suspended][round % 2];
        store.set_versioning("many", versioning).unwrap();
        for at in (0..60).map(|at| at * 37 % 60) {
            put(&store, "many", &format!("key-{at}"), &bytes(round as u64, 100)).unwrap();
            if (at + round) % 3 == 0 {
                delete(&store, "many", &format!("key-{}", (at + 7) % 60), Selector::Current).unwrap();
            }
        }
    }
    fs
}

#[test]
fn many_groups_at_once_add_up_to_what_one_after_the_other_does() {
    let fs = busy_log();
    let groups = groups_of(&fs);
    assert!(groups.len() > 500);
    let turn = contents(&applied_in_turn(&groups));
    let bulk = contents(&applied_in_bulk(&groups));
    assert!(turn == bulk, "the same entries add up to something else");
    let store = open_with(&fs.crash(CrashPolicy::DropAll), options()).unwrap();
    assert!(contents(&store.shared.index()) == turn, "a start finds something else");
}

#[test]
fn of_a_group_that_does_not_fit_it_is_told_which_and_what_stands_before_it_is_kept() {
    let fs = busy_log();
    let mut groups = groups_of(&fs);
    let wrong = groups.len() - 40;
    groups[wrong].entries.insert(0, Entry::BucketDelete { id: 4_711 });
    let last_file = *list_numbers(&fs, FileKind::Log).unwrap().last().unwrap();
    rewrite(&fs, last_file, &groups, wrong);
    let store = open_with(&fs, options()).unwrap();
    let health = store.health();
    let what = &health.damage[0].what;
    let sequence = groups[wrong].header.sequence;
    assert!(what.starts_with(&format!("group {sequence}: ")) && what.contains("does not exist"), "{what}");
    assert!(health.read_only.is_some());
    assert!(contents(&store.shared.index()) == contents(&applied_in_turn(&groups[..wrong])));
}

/// Writes the groups from the one `from` on over those of the log file `number`, with everything
/// that confirms them.
fn rewrite(fs: &SimFs, number: u64, groups: &[Group], from: usize) {
    let store = store_id(fs).unwrap().unwrap();
    let first = groups.iter().position(|group| group.header.sequence == number).unwrap();
    assert!(first <= from, "the group is in this file");
    let mut position = PAGE_BYTES;
    let mut previous_crc = groups[first].header.previous_crc;
    for (at, group) in groups.iter().enumerate().skip(first) {
        let mut body = Vec::new();
        group.entries.iter().for_each(|entry| entry.encode(&mut body));
        let header = GroupHeader { previous_crc, ..group.header };
        let (bytes, crc) = header.encode_group(&store, group.entries.len() as u32, &body);
        if at >= from {
            fs.overwrite(&log_path(number), position, &bytes).unwrap();
        }
        (position, previous_crc) = (position + bytes.len() as u64, crc);
    }
}

#[test]
fn a_checkpoint_is_due_when_a_start_would_take_too_long_however_short_the_log_is() {
    let volume = |groups, entries| LogVolume { groups, entries, entry_bytes: 1, log_bytes: 1 };
    let reserve = Reserve::new(0);
    let is_due = |checkpoint_len, groups, entries| {
        let backlog = Backlog::default();
        backlog.start(checkpoint_len, volume(groups, entries), &reserve);
        backlog.is_due(1 << 30)
    };
    assert!(!is_due(1 << 40, 1_000, 100_000));
    assert!(is_due(1 << 40, 1_000, 2_000_000), "two million entries take seconds");
    assert!(is_due(1 << 40, 600_000, 600_000), "and so do as many groups");
}

#[test]
fn a_store_that_is_closed_writes_no_checkpoint_where_the_next_start_is_quick() {
    let fs = SimFs::new();
    let quick = StoreOptions { replay_after_close_max: Duration::from_secs(3600), ..options() };
    let checkpoints = || list_numbers(&fs, FileKind::Checkpoint).unwrap().len();
    for round in 0..3 {
        let store = open_with(&fs, quick).unwrap();
        let made = store.create_bucket(&format!("b{round}"), "admin");
        made.unwrap();
        store.close();
        assert_eq!(checkpoints(), 0);
    }
    // At the end of each, the last group is made known to be durable.
    let sequence = open_with(&fs, quick).unwrap().health().sequence;
    assert_eq!(sequence, 9, "three buckets, a group at each end, and one at each start but the first");
    let store = open_with(&fs, options()).unwrap();
    store.create_bucket("last", "admin").unwrap();
    store.close();
    drop(store);
    assert_eq!((checkpoints(), open_with(&fs, options()).unwrap().buckets().len()), (1, 4));
}

#[test]
fn a_checkpoint_for_which_no_time_is_left_is_given_up_and_leaves_nothing_behind() {
    let fs = SimFs::new();
    let store = open(&fs);
    store.create_bucket("b", "admin").unwrap();
    (0..100).for_each(|at| assert!(put(&store, "b", &format!("{at}"), b"bytes").is_ok()));
    store.close_by(Instant::now());
    assert_eq!(store.health().read_only, None);
    drop(store);
    let left: Vec<_> =
        fs.files().into_iter().map(|(path, _)| path).filter(|path| path.contains("checkpoint")).collect();
    assert!(left.is_empty(), "{left:?}");
    assert_eq!(keys(&open(&fs), "b").len(), 100);
}
