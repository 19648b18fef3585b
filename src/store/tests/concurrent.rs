//! Many at once, and the power goes.

use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use super::*;
use crate::fs::sim::CrashPolicy;

/// What one thread did to one key: the round of its last put or delete that was acknowledged, and
/// whether another one was under way. Rounds that can be divided by 5 delete.
#[derive(Debug, Clone, Copy)]
struct Told {
    acknowledged: Option<u64>,
    under_way: Option<u64>,
}

fn deletes(round: u64) -> bool {
    round % 5 == 4
}

/// Small ones share packs; every seventh is large.
fn content(thread: u64, round: u64) -> Vec<u8> {
    let len = if round % 7 == 3 { 70_000 } else { 100 + (round as usize * 37) % 3_000 };
    let mut bytes = bytes(thread << 32 | round, len);
    bytes[..8].copy_from_slice(&thread.to_le_bytes());
    bytes[8..16].copy_from_slice(&round.to_le_bytes());
    bytes
}

/// Which thread and round made these bytes; they are whole.
fn maker(bytes: &[u8]) -> (u64, u64) {
    let number = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap());
    let thread = number(0);
    let round = number(8);
    assert_eq!(bytes, content(thread, round), "an object is mixed of several");
    (thread, round)
}

/// Puts and deletes `key` round after round until the store refuses.
fn hammer(store: &Store, thread: u64, key: &str) -> Told {
    let mut told = Told { acknowledged: None, under_way: None };
    for round in 0..1_000 {
        let done = match deletes(round) {
            true => delete(store, "b", key, Selector::Current).is_ok(),
            false => put(store, "b", key, &content(thread, round)).is_ok(),
        };
        if !done {
            told.under_way = Some(round);
            break;
        }
        told.acknowledged = Some(round);
    }
    told
}

/// Whether a key of which one thread was `told` may hold what was found.
fn may_hold(told: Told, thread: u64, found: Option<&[u8]>) -> bool {
    let found = found.map(maker);
    let is = |round: u64| match found {
        None => deletes(round),
        Some(made) => made == (thread, round),
    };
    let nothing = told.acknowledged.is_none() && found.is_none();
    nothing || told.acknowledged.is_some_and(is) || told.under_way.is_some_and(is)
}

const THREADS: u64 = 4;

fn crash_in_the_middle(stop: u64, seed: u64) {
    println!("power lost at operation {stop} from the start");
    let fs = SimFs::new();
    let options = StoreOptions { segment_max_bytes: 400_000, checkpoint_after_bytes: 40_000, ..options() };
    let store = open_with(&fs, options).unwrap();
    store.create_bucket("b", "admin").unwrap();
    fs.stop_at(fs.operations() + stop);
    let own = |thread| format!("own-{thread}");
    let (alone, shared): (Vec<_>, Vec<_>) = thread::scope(|scope| {
        let store = &store;
        let alone: Vec<_> = (0..THREADS).map(|t| scope.spawn(move || hammer(store, t, &own(t)))).collect();
        let shared: Vec<_> =
            (THREADS..THREADS + 2).map(|t| scope.spawn(move || hammer(store, t, "shared"))).collect();
        let join = |threads: Vec<thread::ScopedJoinHandle<'_, Told>>| {
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        };
        (join(alone), join(shared))
    });
    drop(store);
    for policy in [CrashPolicy::DropAll, CrashPolicy::KeepAll, CrashPolicy::Random(seed + stop)] {
        let store = open_with(&fs.crash(policy), options).unwrap();
        assert_eq!((store.health().read_only, store.health().damage), (None, vec![]));
        for (thread, told) in alone.iter().enumerate() {
            let found = get(&store, "b", &own(thread as u64)).ok();
            assert!(
                may_hold(*told, thread as u64, found.as_deref()),
                "{policy:?} {thread} {told:?} {found:?}"
            );
        }
        // The last one to be acknowledged is not known, but it is one of the last of its thread.
        let found = get(&store, "b", "shared").ok();
        let of_one = |at: usize| may_hold(shared[at], THREADS + at as u64, found.as_deref());
        assert!(of_one(0) || of_one(1), "{policy:?} {shared:?} {found:?}");
    }
}

#[test]
fn of_many_threads_each_finds_what_it_was_told_after_a_crash() {
    let seed = seed();
    for stop in (1..400).step_by(13) {
        crash_in_the_middle(stop, seed);
    }
}

/// Had a checkpoint shown a group that it does not say of, that group could not be replayed.
#[test]
fn a_checkpoint_taken_while_buckets_come_and_go_is_good() {
    for _ in 0..20 {
        let fs = SimFs::new();
        let store = open(&fs);
        let done = AtomicBool::new(false);
        thread::scope(|scope| {
            scope.spawn(|| {
                while !done.load(Ordering::Relaxed) {
                    store.checkpoint().unwrap();
                }
            });
            for _ in 0..25 {
                store.create_bucket("b", "admin").unwrap();
                put(&store, "b", "k", b"x").unwrap();
                delete(&store, "b", "k", Selector::Current).unwrap();
                store.delete_bucket("b").unwrap();
            }
            done.store(true, Ordering::Relaxed);
        });
        drop(store);
        let health = open(&fs).health();
        assert_eq!((health.read_only, health.damage), (None, vec![]));
    }
}

/// Races of two puts; before each, both have seen the same.
const RACES: u64 = 2_000;

/// Every other race is for a key that is absent, and the next one for the object that the first one
/// left there.
fn condition_of(store: &Store, race: u64, key: &str) -> WriteCondition {
    match race % 2 {
        0 => WriteCondition::IfAbsent,
        _ => {
            let found = store.find("b", key, Selector::Current).unwrap();
            WriteCondition::IfMatch(found.version.etag.to_string())
        }
    }
}

/// Takes part in every race and tells how each ended.
fn racer(store: &Store, start: &Barrier, thread: u64) -> Vec<Result<(), StoreError>> {
    let race = |race: u64| {
        let key = format!("k-{}", race / 2);
        let bytes = content(thread, race);
        start.wait();
        let condition = condition_of(store, race, &key);
        start.wait();
        put_if(store, "b", &key, &bytes, condition).map(|_| ())
    };
    (0..RACES).map(race).collect()
}

#[test]
fn of_two_conditional_puts_that_race_exactly_one_wins() {
    let store = open(&SimFs::new());
    store.create_bucket("b", "admin").unwrap();
    let start = Barrier::new(2);
    let (ours, theirs) = thread::scope(|scope| {
        let other = scope.spawn(|| racer(&store, &start, 1));
        (racer(&store, &start, 0), other.join().unwrap())
    });
    for (race, ends) in (0..).zip(ours.into_iter().zip(theirs)) {
        let winner = match ends {
            (Ok(()), Err(StoreError::PreconditionFailed)) => 0,
            (Err(StoreError::PreconditionFailed), Ok(())) => 1,
            ends => panic!("race {race}: {ends:?}"),
        };
        if race % 2 == 1 {
            let found = get(&store, "b", &format!("k-{}", race / 2)).unwrap();
            assert_eq!(maker(&found), (winner, race));
        }
    }
}
