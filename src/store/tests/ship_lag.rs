//! How long writes go on while the remote lacks older ones, and what `/-/ready` is told of it.

use std::sync::Mutex;
use std::time::Instant;

use super::ship::{HOUR, LITTLE_LOCAL, begun, restored, ship};
use super::tier::Tiered;
use super::*;
use crate::base::Clock;
use crate::base::limits::MIB;

/// A clock whose monotonic time is moved by hand, apart from the time of day.
struct SteppedClock {
    of_day: Arc<ManualClock>,
    begun: Instant,
    passed: Mutex<Duration>,
}

impl SteppedClock {
    fn pass(&self, time: Duration) {
        *self.passed.lock().unwrap() += time;
    }
}

impl Clock for SteppedClock {
    fn now(&self) -> Timestamp {
        self.of_day.now()
    }

    fn instant(&self) -> Instant {
        self.begun + *self.passed.lock().unwrap()
    }
}

const BOUND: Duration = Duration::from_secs(15);

/// A store that ships in that mode, with that bound.
fn shipping(mode: ShipMode, lag_max: Option<Duration>) -> (Tiered, Arc<SteppedClock>, Store) {
    let tiered = Tiered::new(LITTLE_LOCAL);
    let of_day = tiered.clock.clone();
    let clock = Arc::new(SteppedClock { of_day, begun: Instant::now(), passed: Mutex::default() });
    let options = StoreOptions { segment_max_bytes: 4 * MIB, ..options() };
    let fs = Arc::new(tiered.fs.clone());
    let entropy = SeededEntropy::new(1);
    let remote = tiered.reached();
    let store = Store::open_tiered(fs, clock.clone(), &entropy, options, remote, LITTLE_LOCAL).unwrap();
    store.ship_log_from(ShipOptions { mode, root_every: HOUR, window: HOUR, lag_max }, None);
    (tiered, clock, store)
}

fn is_refused<T>(result: &Result<T, StoreError>) -> bool {
    matches!(result, Err(StoreError::RemoteUnavailable(why)) if why.contains("--ship-lag-max"))
}

#[test]
fn writes_end_at_the_bound_and_go_on_once_the_remote_has_caught_up() {
    for lag_max in [Some(BOUND), None] {
        let (tiered, clock, store) = shipping(ShipMode::Async, lag_max);
        tiered.mark(&store);
        ship(&store).unwrap();
        store.create_bucket("b", "admin").unwrap();
        ship(&store).unwrap();
        tiered.remote.set_down(true);
        clock.pass(BOUND);
        put(&store, "b", "k", b"v").unwrap();
        // The time of day tells nothing.
        tiered.clock.set(Timestamp::from_millis(1));
        assert!(ship(&store).is_err());
        clock.pass(Duration::from_millis(1));
        let late = put(&store, "b", "late", b"v");
        assert_eq!(is_refused(&late), lag_max.is_some(), "{late:?}");
        let obstacle = store.ship_obstacle();
        assert_eq!(obstacle.is_some_and(|why| why.contains("last 15 s")), lag_max.is_some());
        let figures = store.ship_figures().unwrap();
        assert!(figures.waiting_groups > 0 && figures.lag > BOUND, "{figures:?}");
        assert_eq!(figures.lag_max, lag_max.unwrap_or_default());
        tiered.remote.set_down(false);
        ship(&store).unwrap();
        put(&store, "b", "late", b"v").unwrap();
        assert_eq!((store.ship_obstacle(), store.ship_figures().unwrap().lag < BOUND), (None, true));
    }
}

#[test]
fn an_idle_host_that_is_cut_off_answers_no_write_long_after_another_has_taken_over() {
    let (tiered, clock, old) = shipping(ShipMode::Async, Some(BOUND));
    tiered.mark(&old);
    ship(&old).unwrap();
    old.create_bucket("b", "admin").unwrap();
    ship(&old).unwrap();
    let new = begun(&tiered, &restored(&tiered), ShipMode::Async);
    put(&new, "b", "k", b"new").unwrap();
    // The old host reaches nothing, and has nothing to send.
    clock.pass(BOUND + Duration::from_millis(1));
    assert!(is_refused(&put(&old, "b", "k", b"old")));
    // Without a look for the next claim, what the remote has is no proof.
    assert_eq!(old.ship_figures().unwrap().waiting_groups, 0);
    assert!(matches!(ship(&old), Err(StoreError::ReadOnly(_))));
}

#[test]
fn an_idle_host_in_touch_goes_on() {
    let (tiered, clock, store) = shipping(ShipMode::Async, Some(BOUND));
    tiered.mark(&store);
    ship(&store).unwrap();
    store.create_bucket("b", "admin").unwrap();
    for _ in 0..60 {
        ship(&store).unwrap();
        clock.pass(Duration::from_secs(5));
        assert_eq!(store.ship_obstacle(), None);
    }
    put(&store, "b", "k", b"v").unwrap();
}

#[test]
fn what_keeps_every_write_from_being_taken_is_told() {
    let (tiered, clock, store) = shipping(ShipMode::Sync, None);
    let told = |what: &str| store.ship_obstacle().is_some_and(|why| why.contains(what));
    assert!(told("not sent to the remote yet"));
    assert!(ship(&store).is_err());
    assert!(told("siltstone-tools remote init"), "{:?}", store.ship_obstacle());
    tiered.mark(&store);
    tiered.remote.set_down(true);
    assert!(ship(&store).is_err());
    assert!(told("does not answer"), "{:?}", store.ship_obstacle());
    tiered.remote.set_down(false);
    ship(&store).unwrap();
    assert_eq!(store.ship_obstacle(), None);
    store.create_bucket("b", "admin").unwrap();
    // Each write waits for the remote.
    tiered.remote.set_down(true);
    assert!(put(&store, "b", "k", b"v").is_err());
    assert!(told("each write waits for it"), "{:?}", store.ship_obstacle());
    tiered.remote.set_down(false);
    // A load balancer sends no write to a host that is not ready: the next look tells.
    clock.pass(Duration::from_secs(10));
    ship(&store).unwrap();
    assert_eq!(store.ship_obstacle(), None);
    // So it does where nothing is written.
    tiered.remote.set_full(true);
    assert!(put(&store, "b", "l", b"v").is_err());
    assert!(store.ship_obstacle().is_some());
}
