//! Clocks that are wrong: what goes on, what waits, and what is never done by them.

use super::ship::{LITTLE_LOCAL, ship, shipping_with};
use super::ship_window::ship_options;
use super::tier::Tiered;
use super::*;
use crate::base::Clock as _;
use crate::format::Claim;

const MINUTE: Duration = Duration::from_secs(60);
const DAY: Duration = Duration::from_secs(24 * 60 * 60);
const YEAR: Duration = Duration::from_secs(365 * 24 * 60 * 60);

/// Sets the wall clock back, and nothing else.
fn set_back(clock: &ManualClock, by: Duration) {
    clock.set_wall(Timestamp::from_millis(clock.now().as_millis() - by.as_millis() as u64));
}

#[test]
fn a_follower_saves_its_position_however_far_the_clock_is_set_back() {
    let (fs, clock) = (SimFs::new(), Arc::new(ManualClock::new(Timestamp::from_millis(1_700_000_000_000))));
    let store = Store::open(Arc::new(fs.clone()), clock.clone(), &SeededEntropy::new(1), options()).unwrap();
    store.create_bucket("b", "admin").unwrap();
    let mut follower = store.follower("away", Beginning::Snapshot);
    let follow = |follower: &mut Follower| {
        while let Some(batch) = follower.next(&store, 100).unwrap() {
            follower.done_through(&store, batch.end).unwrap();
        }
    };
    follow(&mut follower);
    let saved = || store.shared.index().follower("away").unwrap().position.sequence;
    set_back(&clock, 10 * YEAR);
    for at in 0..3 {
        let before = saved();
        put(&store, "b", &format!("k{at}"), b"x").unwrap();
        clock.advance(Duration::from_secs(6));
        follow(&mut follower);
        assert!(saved() > before, "the position after k{at} is saved");
    }
}

#[test]
fn a_writer_finds_its_successor_however_far_the_clock_is_set_back() {
    let tiered = Tiered::new(LITTLE_LOCAL);
    let store = shipping_with(&tiered, &tiered.fs, ship_options(ShipMode::Async));
    ship(&store).unwrap();
    set_back(&tiered.clock, 10 * YEAR);
    let claim = Claim { store: store.shared.store, epoch: 2, made: tiered.clock.now() };
    tiered.remote.place(&Claim::name(2), &claim.encode());
    tiered.clock.advance(Duration::from_secs(10));
    assert!(ship(&store).is_err(), "it does not go on beside the next claim");
}

#[test]
fn roots_and_the_looks_of_the_deleter_come_at_their_intervals_after_the_clock_is_set_back() {
    let tiered = Tiered::new(LITTLE_LOCAL);
    let options = ship_options(ShipMode::Async);
    let store = shipping_with(&tiered, &tiered.fs, options);
    ship(&store).unwrap();
    store.create_bucket("b", "admin").unwrap();
    store.retention_step().unwrap();
    set_back(&tiered.clock, 10 * YEAR);
    let figures = || store.ship_figures().unwrap();
    for round in 0..3 {
        let roots = figures().roots;
        put(&store, "b", "k", &bytes(round, 1000)).unwrap();
        tiered.clock.advance(options.root_every);
        assert!(figures().lag < options.root_every + MINUTE, "{:?}", figures().lag);
        ship(&store).unwrap();
        assert_eq!(figures().roots, roots + 1, "round {round}");
        let requests = tiered.remote.all_calls();
        store.retention_step().unwrap();
        assert!(tiered.remote.all_calls() > requests, "the deleter looks, round {round}");
    }
}

#[test]
fn a_remote_is_probed_each_week_after_the_clock_is_set_back() {
    let tiered = Tiered::new(LITTLE_LOCAL);
    let store = tiered.open_on(&tiered.fs);
    let probe = || store.probe_remote(&SeededEntropy::new(9)).is_some();
    assert!(!probe());
    tiered.clock.advance(10 * MINUTE);
    assert!(probe());
    set_back(&tiered.clock, 10 * YEAR);
    tiered.clock.advance(9 * DAY);
    assert!(probe());
}
