//! Deletes on the remote and restores to earlier times: within the window each state that was shipped comes back, before it nothing is kept.

use super::ship::{LITTLE_LOCAL, restored, ship, shipping_with};
use super::tier::{Tiered, work};
use super::*;
use crate::base::Clock as _;
use crate::format::{Claim, Root};
use crate::remote::sim::RemoteCall;

/// Roots that may become a base come every two hours.
const ROOT_EVERY: Duration = Duration::from_secs(5 * 60);
const WINDOW: Duration = Duration::from_secs(6 * 3600);

fn begun(tiered: &Tiered, fs: &SimFs) -> Store {
    let store = shipping_with(tiered, fs, ship_options(ShipMode::Async));
    ship(&store).unwrap();
    store
}

fn ship_options(mode: ShipMode) -> ShipOptions {
    ShipOptions { mode, root_every: ROOT_EVERY, window: WINDOW }
}

fn sweep(store: &Store) -> u64 {
    let mut deleted = 0;
    loop {
        let done = store.retention_step().unwrap();
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
    for window in 0..6 {
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
        // A new reign goes on with what the last one left.
        store.close();
        drop(store);
        store = begun(&tiered, &tiered.fs);
    }
    assert!(peaks[5] < peaks[2] * 5 / 4, "space grows without end: {peaks:?}");
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
    let mark = Claim { store: store.shared.store, epoch: 2, made: tiered.clock.now() };
    tiered.remote.place(&Claim::name(2), &mark.encode());
    let before = tiered.remote.names().len();
    assert_eq!(store.retention_step().unwrap().deleted, 0);
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
