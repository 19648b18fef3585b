//! The weekly probe of the remote, on a clock that the test moves.

use super::tier::{NOTHING_LOCAL, Tiered};
use super::*;
use crate::format::{Claim, RemoteMark};
use crate::remote::sim::{RemoteCall, RemoteFault};

const MINUTE: Duration = Duration::from_secs(60);
const HOUR: Duration = Duration::from_secs(60 * 60);
const DAY: Duration = Duration::from_secs(24 * 60 * 60);

fn probe_after(tiered: &Tiered, store: &Store, time: Duration) -> Option<RemoteProbed> {
    tiered.clock.advance(time);
    store.probe_remote(&SeededEntropy::new(9))
}

/// A store after its first look.
fn started() -> (Tiered, Store) {
    let tiered = Tiered::new(NOTHING_LOCAL);
    let store = tiered.open_on(&tiered.fs);
    store.begin_epoch(&SeededEntropy::new(7)).unwrap();
    assert_eq!(probe_after(&tiered, &store, Duration::ZERO), None);
    (tiered, store)
}

#[test]
fn a_remote_is_probed_some_minutes_after_the_start_and_every_week() {
    let (tiered, store) = started();
    let before = tiered.remote.all_calls();
    assert_eq!(probe_after(&tiered, &store, 5 * MINUTE), None);
    assert_eq!((tiered.remote.all_calls(), store.remote_probed()), (before, None));
    let probed = probe_after(&tiered, &store, 5 * MINUTE).unwrap();
    let now = tiered.clock.now();
    assert_eq!(probed, RemoteProbed { at: now, keeps_objects: true, decides_races: true, problem: None });
    assert_eq!(store.remote_probed(), Some(probed));
    assert_eq!(tiered.remote.names(), [RemoteMark::NAME, &Claim::name(1)], "nothing is left");
    let calls = tiered.remote.all_calls();
    assert!(calls < 240, "{calls} requests");
    assert_eq!(probe_after(&tiered, &store, 7 * DAY - MINUTE), None);
    assert_eq!(tiered.remote.all_calls(), calls);
    assert!(probe_after(&tiered, &store, DAY + 2 * MINUTE).is_some());
    let without =
        Store::open(Arc::new(SimFs::new()), tiered.clock.clone(), &SeededEntropy::new(1), options());
    assert_eq!(probe_after(&tiered, &without.unwrap(), 30 * DAY), None);
}

#[test]
fn what_a_remote_has_lost_is_told_and_looked_at_again_in_an_hour() {
    let (tiered, store) = started();
    assert!(probe_after(&tiered, &store, 10 * MINUTE).is_some());
    tiered.remote.set_ignores_conditions(true);
    let lost = probe_after(&tiered, &store, 9 * DAY).unwrap();
    assert!(lost.keeps_objects && !lost.decides_races, "{lost:?}");
    assert!(lost.problem.as_ref().unwrap().contains("create"), "{lost:?}");
    assert_eq!(store.remote_probed(), Some(lost));
    assert_eq!(probe_after(&tiered, &store, HOUR - MINUTE), None);
    // A probe that sees no bad race was lucky: what was seen counts.
    tiered.remote.set_ignores_conditions(false);
    let again = probe_after(&tiered, &store, 2 * MINUTE).unwrap();
    assert!(again.keeps_objects && !again.decides_races && again.problem.is_some(), "{again:?}");
}

#[test]
fn a_remote_that_did_not_keep_objects_for_a_while_is_fit_again() {
    let (tiered, store) = started();
    assert!(probe_after(&tiered, &store, 10 * MINUTE).is_some());
    (0..2).for_each(|_| tiered.remote.fail_next(RemoteCall::List, RemoteFault::Status(501)));
    (0..2).for_each(|_| tiered.remote.fail_next(RemoteCall::Delete, RemoteFault::Status(403)));
    assert!(!probe_after(&tiered, &store, 9 * DAY).unwrap().keeps_objects);
    assert_eq!(probe_after(&tiered, &store, HOUR + MINUTE).unwrap().problem, None);
}

#[test]
fn a_remote_that_is_away_for_a_moment_or_longer_has_lost_nothing() {
    let (tiered, store) = started();
    tiered.remote.fail_next(RemoteCall::List, RemoteFault::Status(503));
    assert_eq!(probe_after(&tiered, &store, 10 * MINUTE).unwrap().problem, None);
    let before = store.remote_probed();
    tiered.remote.set_down(true);
    assert_eq!(probe_after(&tiered, &store, 9 * DAY), None);
    assert_eq!(store.remote_probed(), before);
    tiered.remote.set_down(false);
    assert_eq!(probe_after(&tiered, &store, HOUR - MINUTE), None);
    assert!(probe_after(&tiered, &store, 2 * MINUTE).is_some());
}

#[test]
fn nothing_is_written_to_the_remote_of_another_store() {
    let tiered = Tiered::new(NOTHING_LOCAL);
    let store = tiered.open_on(&tiered.fs);
    tiered.remote.place(RemoteMark::NAME, b"siltstone");
    assert!(store.begin_epoch(&SeededEntropy::new(7)).is_err());
    assert_eq!(probe_after(&tiered, &store, Duration::ZERO), None);
    assert_eq!(probe_after(&tiered, &store, 10 * MINUTE), None);
    assert_eq!(tiered.remote.calls(RemoteCall::Put), 0);
}
