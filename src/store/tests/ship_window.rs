//! Deletes on the remote and restores to earlier times: within the window each state that was
//! shipped comes back, before it nothing is kept.

use std::collections::BTreeMap;

use super::ship::{LITTLE_LOCAL, restored, ship, shipping_with};
use super::tier::{Tiered, work};
use super::*;
use crate::base::Clock as _;
use crate::base::test_scope::{is_long, points};
use crate::format::{Claim, CopyPhase, RETURN, Root};
use crate::fs::Fs as _;
use crate::fs::sim::CrashPolicy;
use crate::remote::Remote as _;
use crate::remote::sim::RemoteCall;

const MINUTE: Duration = Duration::from_secs(60);
/// Roots that may become a base come every two hours.
const ROOT_EVERY: Duration = Duration::from_secs(5 * 60);
pub(super) const WINDOW: Duration = Duration::from_secs(6 * 3600);

fn begun(tiered: &Tiered, fs: &SimFs) -> Store {
    let store = shipping_with(tiered, fs, ship_options(ShipMode::Async));
    ship(&store).unwrap();
    store
}

pub(super) fn ship_options(mode: ShipMode) -> ShipOptions {
    ShipOptions { mode, root_every: ROOT_EVERY, window: WINDOW, lag_max: None }
}

fn sweep(store: &Store) -> u64 {
    let mut deleted = 0;
    loop {
        let done = store.cleanup_step().unwrap();
        deleted += done.deleted;
        if done.deleted == 0 {
            return deleted;
        }
    }
}

/// Overwrites some objects, and does all background work once.
fn churn(tiered: &Tiered, store: &Store, round: u64) {
    for at in 0..2 {
        let key = (round * 2 + at) % 16;
        put(store, "b", &format!("k{key}"), &bytes(round, 250_000)).unwrap();
        put(store, "b", &format!("s{key}"), &bytes(round, 2_000)).unwrap();
    }
    tiered.clock.advance(ROOT_EVERY);
    ship(store).unwrap();
    reclaim_all(store).unwrap();
    work(store).unwrap();
    sweep(store);
}

fn bytes_on(tiered: &Tiered, prefix: &str) -> u64 {
    let names = tiered.remote.names().into_iter().filter(|name| name.starts_with(prefix));
    names.map(|name| tiered.remote.bytes(&name).unwrap().len() as u64).sum()
}

#[test]
fn the_space_on_the_remote_is_that_of_the_window() {
    let tiered = Tiered::new(LITTLE_LOCAL);
    let mut store = begun(&tiered, &tiered.fs);
    store.create_bucket("b", "admin").unwrap();
    let mut peaks = Vec::new();
    let rounds_of_a_window = WINDOW.as_secs() / ROOT_EVERY.as_secs();
    for window in 0..4 {
        let mut peak = 0;
        for round in 0..rounds_of_a_window {
            churn(&tiered, &store, window * rounds_of_a_window + round);
            peak = peak.max(bytes_on(&tiered, ""));
        }
        let [all, log, segments, checkpoints] =
            ["", "log/", "segment/", "checkpoint/"].map(|prefix| bytes_on(&tiered, prefix));
        let live = store.health().live_bytes;
        println!(
            "window {window}: {all} bytes for {live} live ones; log {log}, segments {segments}, checkpoints {checkpoints}, peak {peak}"
        );
        peaks.push(peak);
        // A new epoch goes on with what the last one left.
        store.close();
        drop(store);
        store = begun(&tiered, &tiered.fs);
    }
    assert!(peaks[3] < peaks[1] * 5 / 4, "space grows without end: {peaks:?}");
    let roots = tiered.remote.names().iter().filter(|name| name.starts_with("root/")).count();
    assert!(roots < 120, "{roots} roots");
    sweep(&store);
    let oldest = store.ship_figures().unwrap().oldest.unwrap();
    let reach = tiered.clock.now().since(oldest);
    assert!(reach >= WINDOW && reach < 2 * WINDOW, "{reach:?}");
    let there = begun(&tiered, &restored(&tiered));
    for key in keys(&store, "b") {
        assert!(get(&there, "b", &key).unwrap() == get(&store, "b", &key).unwrap(), "{key}");
    }
    assert_eq!(there.health().damage, []);
}

#[test]
fn a_deleter_whose_successor_has_claimed_deletes_nothing() {
    let tiered = Tiered::new(LITTLE_LOCAL);
    let store = begun(&tiered, &tiered.fs);
    store.create_bucket("b", "admin").unwrap();
    for round in 0..30 {
        put(&store, "b", "k", &bytes(round, 1000)).unwrap();
        tiered.clock.advance(ROOT_EVERY);
        ship(&store).unwrap();
    }
    tiered.clock.advance(3 * WINDOW);
    let mark = Claim { store: store.shared.store, epoch: 2, made: tiered.clock.now(), of_tier: false };
    tiered.remote.place(&Claim::name(2), &mark.encode());
    let before = tiered.remote.names().len();
    assert_eq!(store.cleanup_step().unwrap().deleted, 0);
    // The floor is there, and nothing is gone.
    assert_eq!(tiered.remote.names().len(), before + 1);
    assert_eq!(tiered.remote.calls(RemoteCall::Delete), 0);
}

#[test]
fn nothing_goes_before_the_window_has_passed() {
    let tiered = Tiered::new(LITTLE_LOCAL);
    let store = begun(&tiered, &tiered.fs);
    store.create_bucket("b", "admin").unwrap();
    for round in 0..WINDOW.as_secs() / ROOT_EVERY.as_secs() - 1 {
        churn(&tiered, &store, round);
    }
    assert_eq!(tiered.remote.calls(RemoteCall::Delete), 0);
    assert!(tiered.remote.bytes(&Root::name(1, 1)).is_some());
    tiered.clock.advance(WINDOW);
    assert!(sweep(&store) > 0);
    // The base is the newest root that may be one.
    assert_eq!(tiered.remote.bytes(&Root::name(1, 1)), None);
}

type KeyedBytes = BTreeMap<String, Vec<u8>>;

/// The state of all keys.
fn state_of(store: &Store) -> KeyedBytes {
    keys(store, "b").into_iter().map(|key| (key.clone(), get(store, "b", &key).unwrap())).collect()
}

fn restored_at(tiered: &Tiered, at: Timestamp) -> Result<SimFs, ShipError> {
    let fs = SimFs::new();
    restore_from_remote_at(&tiered.remote, &fs, tiered.clock.as_ref(), at, &mut |_| ()).map(|_| fs)
}

/// A store with some windows of history, and its shipped states with their times.
fn with_history(tiered: &Tiered, rounds: u64) -> (Store, Vec<(Timestamp, KeyedBytes)>) {
    let mut store = begun(tiered, &tiered.fs);
    store.create_bucket("b", "admin").unwrap();
    let mut states = Vec::new();
    for round in 0..rounds {
        churn(tiered, &store, round);
        if round == rounds / 2 {
            store.close();
            drop(store);
            store = begun(tiered, &tiered.fs);
        }
        // A time between two parcels.
        tiered.clock.advance(Duration::from_millis(5));
        states.push((tiered.clock.now(), state_of(&store)));
        tiered.clock.advance(Duration::from_millis(5));
        put(&store, "b", "last", &round.to_be_bytes()).unwrap();
        tiered.clock.advance(Duration::from_millis(5));
        // One parcel with groups of both times.
        put(&store, "b", "later", &round.to_be_bytes()).unwrap();
    }
    ship(&store).unwrap();
    (store, states)
}

#[test]
fn each_state_within_the_window_comes_back() {
    let tiered = Tiered::new(LITTLE_LOCAL);
    let (store, states) = with_history(&tiered, 110);
    let now = tiered.clock.now();
    sweep(&store);
    let oldest = store.ship_figures().unwrap().oldest.unwrap();
    let mut restored = 0;
    let mut refused = 0;
    // Those at the beginning of the window, and a part of the others.
    let first = states.iter().position(|(at, _)| *at >= oldest).unwrap();
    let (early, late) = states.split_at(first + 2);
    let late: Vec<_> = points(1).map_while(|point| late.get(point as usize - 1)).collect();
    let tried = early.iter().chain(late.iter().copied());
    for (nth, (at, state)) in tried.enumerate() {
        match restored_at(&tiered, *at) {
            Ok(fs) if nth % 8 == 0 || *at == oldest => {
                let there = tiered.open_on(&fs);
                assert!(state_of(&there) == *state, "{at:?}");
                assert_eq!(there.health().damage, []);
                restored += 1;
            }
            Ok(_) => restored += 1,
            Err(ShipError::BeforeWindow(named)) => {
                assert!(*at < oldest && named == oldest && now.since(*at) > WINDOW, "{at:?} {named:?}");
                refused += 1;
            }
            Err(error) => panic!("{at:?}: {error}"),
        }
    }
    let least = if is_long() { 70 } else { late.len() };
    assert!(restored > least && refused > 5, "{restored} restored, {refused} refused");
}

#[test]
fn a_store_that_went_back_goes_on_as_an_epoch_of_its_own() {
    let tiered = Tiered::new(LITTLE_LOCAL);
    let (store, states) = with_history(&tiered, 60);
    let (at, state) = &states[40];
    let back = restored_at(&tiered, *at).unwrap();
    let twin = restored_at(&tiered, *at).unwrap();
    assert!(back.open_read(RETURN).is_ok());
    let there = begun(&tiered, &back);
    assert!(back.open_read(RETURN).is_err());
    assert!(state_of(&there) == *state);
    put(&there, "b", "after", b"the return").unwrap();
    ship(&there).unwrap();
    tiered.clock.advance(ROOT_EVERY);
    assert!(matches!(ship(&store), Err(StoreError::ReadOnly(_))));
    drop(store);
    // Neither the old directory nor a second one that was restored to that time goes on with
    // another log.
    for other in [tiered.fs.crash(CrashPolicy::DropAll), twin] {
        let other = shipping_with(&tiered, &other, ship_options(ShipMode::Async));
        assert!(matches!(ship(&other), Err(StoreError::ReadOnly(_))), "{:?}", ship(&other));
    }
    // Those have claimed, so that the new epoch is fenced, and goes on by a restart.
    there.close();
    drop(there);
    let there = begun(&tiered, &back);
    let newest = tiered.open_on(&restored(&tiered));
    assert!(state_of(&newest) == state_of(&there));
    assert_eq!(get(&newest, "b", "after").unwrap(), b"the return");
    // What was given up does not come back, and times before the return still do.
    let between = tiered.open_on(&restored_at(&tiered, states[50].0).unwrap());
    assert!(state_of(&between) == *state);
    let before = tiered.open_on(&restored_at(&tiered, states[30].0).unwrap());
    assert!(state_of(&before) == states[30].1);
}

#[test]
fn an_audit_names_what_is_missing_and_what_nothing_needs() {
    let tiered = Tiered::new(LITTLE_LOCAL);
    let (store, states) = with_history(&tiered, 60);
    let audit = audit_remote(&tiered.remote).unwrap();
    assert!(audit.missing.is_empty() && audit.orphans.is_empty(), "{audit:?}");
    // An epoch that goes back leaves the log after its point, and the segments of that time.
    store.close();
    drop(store);
    let back = restored_at(&tiered, states[40].0).unwrap();
    let there = begun(&tiered, &back);
    let audit = audit_remote(&tiered.remote).unwrap();
    assert_eq!(audit.missing, []);
    for kind in ["log/", "segment/"] {
        assert!(audit.orphans.iter().any(|object| object.name.starts_with(kind)), "{kind}: {audit:?}");
    }
    delete_orphans(&tiered.remote, &audit).unwrap();
    assert!(audit_remote(&tiered.remote).unwrap().orphans.is_empty());
    // No state that can be restored has lost anything.
    for (at, state) in &states[20..=40] {
        let fs = restored_at(&tiered, *at).unwrap();
        if at.as_millis() % 4 == 0 {
            assert!(state_of(&tiered.open_on(&fs)) == *state);
        }
    }
    assert!(state_of(&there) == states[40].1);
    let reach = remote_reach(&tiered.remote).unwrap().unwrap();
    assert!(reach.newest <= tiered.clock.now() && reach.oldest < states[0].0, "{reach:?}");
    // Each segment and each checkpoint that goes is missed.
    let is_needed = |name: &String| name.starts_with("segment/") || name.starts_with("checkpoint/");
    for name in tiered.remote.names().into_iter().filter(is_needed) {
        let bytes = tiered.remote.bytes(&name).unwrap();
        tiered.remote.delete(&name, MINUTE).unwrap();
        let found = audit_remote(&tiered.remote);
        let is_told = found.is_ok_and(|audit| audit.missing.iter().any(|(missing, _)| *missing == name));
        let is_read = name.starts_with("checkpoint/");
        let is_dropped = !is_told && !is_read;
        assert!(is_told || is_read || is_dropped_copy(&there, &name) && is_dropped, "{name}");
        tiered.remote.place(&name, &bytes);
    }
}

/// Whether a copy is kept for restores to earlier times alone.
fn is_dropped_copy(store: &Store, name: &str) -> bool {
    let index = store.shared.index();
    let is_live =
        index.remote_copies(None).any(|(id, copy)| copy.name(id) == name && copy.phase == CopyPhase::Remote);
    !is_live
}

#[test]
fn a_return_that_crashes_goes_back_to_the_same_point() {
    let tiered = Tiered::new(LITTLE_LOCAL);
    let (store, states) = with_history(&tiered, 30);
    store.close();
    drop(store);
    let (at, state) = &states[20];
    let back = restored_at(&tiered, *at).unwrap();
    let mut fs = back;
    for calls in [3, 6, 9, 12, 15] {
        let there = shipping_with(&tiered, &fs, ship_options(ShipMode::Async));
        tiered.remote.down_at(tiered.remote.all_calls() + calls);
        assert!(ship(&there).is_err());
        tiered.remote.down_at(u64::MAX);
        tiered.remote.set_down(false);
        fs = fs.crash(CrashPolicy::Random(calls));
    }
    let there = begun(&tiered, &fs);
    assert!(state_of(&there) == *state);
    put(&there, "b", "after", b"the return").unwrap();
    ship(&there).unwrap();
    assert_eq!(get(&tiered.open_on(&restored(&tiered)), "b", "after").unwrap(), b"the return");
}

#[test]
fn a_time_that_leaves_the_window_before_the_start_is_refused() {
    let tiered = Tiered::new(LITTLE_LOCAL);
    let (store, states) = with_history(&tiered, 100);
    sweep(&store);
    let oldest = store.ship_figures().unwrap().oldest.unwrap();
    let (at, _) = states.iter().find(|(at, _)| *at > oldest).unwrap();
    let back = restored_at(&tiered, *at).unwrap();
    for round in 100..160 {
        churn(&tiered, &store, round);
    }
    let there = shipping_with(&tiered, &back, ship_options(ShipMode::Async));
    let refused = ship(&there);
    assert!(
        matches!(&refused, Err(StoreError::ReadOnly(why)) if why.contains("a later time")),
        "{refused:?}"
    );
}
