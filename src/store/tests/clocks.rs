//! Clocks that are wrong: what goes on, what waits, and what is never done by them.

use super::ship::{LITTLE_LOCAL, ship, shipping_with};
use super::ship_window::ship_options;
use super::tier::Tiered;
use super::*;
use crate::base::Clock as _;
use crate::format::{CLOCK, Claim};
use crate::fs::Fs as _;

const HOUR: Duration = Duration::from_secs(60 * 60);
const MINUTE: Duration = Duration::from_secs(60);
const DAY: Duration = Duration::from_secs(24 * 60 * 60);
const YEAR: Duration = Duration::from_secs(365 * 24 * 60 * 60);

/// Sets the wall clock back, and nothing else.
fn set_back(clock: &ManualClock, by: Duration) {
    clock.set_wall(Timestamp::from_millis(clock.now().as_millis() - by.as_millis() as u64));
}

#[test]
fn a_follower_saves_its_position_however_far_the_clock_is_set_back() {
    let fs = SimFs::new();
    let clock = Arc::new(ManualClock::new(Timestamp::from_millis(1_700_000_000_000)));
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
    let claim = Claim { store: store.shared.store, epoch: 2, made: tiered.clock.now(), of_tier: false };
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
    store.cleanup_step().unwrap();
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
        store.cleanup_step().unwrap();
        assert!(tiered.remote.all_calls() > requests, "the deleter looks, round {round}");
    }
}

#[test]
fn a_remote_is_probed_each_week_after_the_clock_is_set_back() {
    let tiered = Tiered::new(LITTLE_LOCAL);
    let store = tiered.open_on(&tiered.fs);
    store.check_remote_mark().unwrap();
    store.begin_epoch(&SeededEntropy::new(7)).unwrap();
    let probe = || store.probe_remote(&SeededEntropy::new(9)).is_some();
    assert!(!probe());
    tiered.clock.advance(10 * MINUTE);
    assert!(probe());
    set_back(&tiered.clock, 10 * YEAR);
    tiered.clock.advance(9 * DAY);
    assert!(probe());
}

fn start() -> Timestamp {
    Timestamp::from_millis(1_700_000_000_000)
}

/// A host with a store, whose bucket `b` has object lock, and whose idle uploads go after a week.
struct Host {
    fs: SimFs,
    clock: Arc<ManualClock>,
    store: Store,
}

impl Host {
    fn new() -> Self {
        let fs = SimFs::new();
        let clock = Arc::new(ManualClock::new(start()));
        let store = Self::open(&fs, &clock);
        let configurations = vec![(BucketConfigurationKind::ObjectLock, b"<x/>".to_vec())];
        let name = "b".into();
        let owner = "admin".into();
        let versioning = Versioning::Enabled;
        store.create_configured_bucket(NewBucket { name, owner, versioning, configurations }).unwrap();
        store.create_bucket("plain", "admin").unwrap();
        store.watch_clock().unwrap();
        Self { fs, clock, store }
    }

    fn open(fs: &SimFs, clock: &Arc<ManualClock>) -> Store {
        let options = StoreOptions { abort_uploads_after: Some(7 * DAY), ..options() };
        let store = Store::open(Arc::new(fs.clone()), clock.clone(), &SeededEntropy::new(1), options);
        let store = store.unwrap();
        store.watch_clock().unwrap();
        store
    }

    /// Stops the host for a while, and starts it again.
    fn restart(self, stopped: Duration) -> Self {
        let Self { fs, clock, store } = self;
        store.close();
        drop(store);
        clock.advance(stopped);
        let store = Self::open(&fs, &clock);
        Self { fs, clock, store }
    }

    /// Sets the wall clock ahead, and nothing else.
    fn jump(&self, by: Duration) {
        self.clock.set_wall(self.clock.now().plus(by));
    }

    /// Lets time pass while the host runs.
    fn run(&self, time: Duration) {
        self.clock.advance(time);
        self.store.watch_clock().unwrap();
    }

    /// A version that is retained for some days from the time at which such a retention begins.
    fn put_retained(&self, mode: RetentionMode, days: u32) -> Selector {
        let until = self.store.retention_start(mode).plus(DAY * days);
        let controls =
            ObjectControls { retention: Some(Retention { mode, until }), ..ObjectControls::default() };
        let mut writer = self.store.writer("b", "k", Some(3)).unwrap();
        writer.write(b"abc").unwrap();
        Selector::Id(writer.commit(Commit { controls, ..commit_of(b"abc") }).unwrap().id)
    }

    fn delete(&self, which: Selector) -> Result<Deleted, StoreError> {
        delete(&self.store, "b", "k", which)
    }

    fn is_held(&self) -> bool {
        let is_held = self.store.clock_figures().is_held;
        assert_eq!(self.store.acts_time().is_none(), is_held);
        is_held
    }

    fn abort_idle(&self) -> u64 {
        self.store.abort_idle_uploads(&|_, _, _| false).unwrap()
    }
}

#[test]
fn a_clock_that_is_ten_years_ahead_for_seconds_changes_nothing() {
    let host = Host::new();
    let kept = [RetentionMode::Compliance, RetentionMode::Governance].map(|mode| host.put_retained(mode, 30));
    let upload = upload_expiry::begin(&host.store, "plain", "k");
    host.jump(10 * YEAR);
    assert!(host.is_held());
    assert_eq!(host.abort_idle(), 0);
    for version in kept {
        assert_eq!(host.delete(version), Err(StoreError::Locked));
    }
    host.clock.advance(Duration::from_secs(20));
    set_back(&host.clock, 10 * YEAR);
    assert!(!host.is_held());
    assert!(host.store.upload_record("plain", "k", upload).is_ok());
    host.run(29 * DAY);
    for version in kept {
        assert_eq!(host.delete(version), Err(StoreError::Locked));
    }
    assert_eq!(host.abort_idle(), 1, "a week after its beginning the upload is idle");
    host.run(DAY);
    for version in kept {
        host.delete(version).unwrap();
    }
}

#[test]
fn a_put_while_the_clock_is_ahead_moves_no_retention_of_others() {
    let host = Host::new();
    let kept = host.put_retained(RetentionMode::Compliance, 30);
    host.jump(10 * YEAR);
    put(&host.store, "plain", "k", b"x").unwrap();
    set_back(&host.clock, 10 * YEAR);
    {
        let host = host.restart(Duration::ZERO).restart(HOUR);
        assert_eq!(host.delete(kept), Err(StoreError::Locked));
        assert_eq!(host.store.clock_figures().behind, Duration::ZERO);
        let mode = RetentionMode::Compliance;
        assert_eq!(host.store.retention_start(mode), host.clock.now(), "new ones begin now");
        assert!(host.store.lock_time(mode) <= host.clock.now(), "tomorrow is in the future");
        host.run(30 * DAY);
        host.delete(kept).unwrap();
    }
}

#[test]
fn a_clock_that_is_ahead_for_long_is_believed_after_a_day_and_not_before() {
    let host = Host::new();
    let kept = host.put_retained(RetentionMode::Compliance, 30);
    host.jump(10 * YEAR);
    assert!(host.is_held());
    assert_eq!(host.store.clock_figures().believed_in, Some(DAY));
    host.run(DAY - MINUTE);
    assert!(host.is_held());
    assert_eq!(host.delete(kept), Err(StoreError::Locked));
    host.run(MINUTE);
    assert!(!host.is_held());
    host.delete(kept).unwrap();
}

#[test]
fn a_clock_that_is_synchronised_is_believed_at_once() {
    let host = Host::new();
    let kept = host.put_retained(RetentionMode::Compliance, 30);
    host.jump(100 * DAY);
    assert!(host.is_held());
    host.clock.set_synchronized(true);
    assert!(!host.is_held());
    host.delete(kept).unwrap();
    host.jump(100 * DAY);
    assert!(!host.is_held());
}

#[test]
fn the_operator_accepts_a_clock_for_all_but_compliance() {
    let host = Host::new();
    let [compliance, governance] =
        [RetentionMode::Compliance, RetentionMode::Governance].map(|mode| host.put_retained(mode, 30));
    let upload = upload_expiry::begin(&host.store, "plain", "k");
    host.jump(100 * DAY);
    assert_eq!(host.abort_idle(), 0);
    assert_eq!(host.delete(governance), Err(StoreError::Locked));
    let figures = host.store.accept_clock().unwrap();
    assert!(!figures.is_held && figures.locks_wait, "{figures:?}");
    assert_eq!(host.abort_idle(), 1);
    assert!(host.store.upload_record("plain", "k", upload).is_err());
    host.delete(governance).unwrap();
    assert_eq!(host.delete(compliance), Err(StoreError::Locked));
    // The answer outlives a crash and a restart, and so does the doubt about the other mode.
    let Host { fs, clock, store } = host;
    drop(store);
    let host = Host { store: Host::open(&fs, &clock), fs, clock };
    assert!(!host.is_held());
    assert_eq!(host.delete(compliance), Err(StoreError::Locked));
    host.run(DAY);
    host.delete(compliance).unwrap();
}

#[test]
fn a_clock_that_is_set_back_while_the_store_runs_ends_nothing_and_keeps_the_locks_that_are_made() {
    let host = Host::new();
    let kept = host.put_retained(RetentionMode::Compliance, 30);
    set_back(&host.clock, 10 * YEAR);
    assert!(!host.is_held());
    let made = host.put_retained(RetentionMode::Compliance, 30);
    host.run(29 * DAY);
    let host = host.restart(Duration::ZERO);
    for version in [kept, made] {
        assert_eq!(host.delete(version), Err(StoreError::Locked));
        let found = host.store.find("b", "k", version).unwrap().version;
        assert!(found.modified >= start(), "it states the time that has passed: {}", found.modified);
    }
    // Right again, by hand: what was made meanwhile is a month old, and not ten years.
    let upload = upload_expiry::begin(&host.store, "plain", "k");
    host.clock.set_wall(start().plus(29 * DAY));
    assert!(!host.is_held());
    assert_eq!(host.abort_idle(), 0);
    assert!(host.store.upload_record("plain", "k", upload).is_ok());
    host.run(DAY);
    for version in [kept, made] {
        host.delete(version).unwrap();
    }
}

#[test]
fn a_host_without_a_hardware_clock_that_boots_in_1970_waits_until_its_clock_is_known() {
    for synchronised in [true, false] {
        let host = Host::new();
        let kept = host.put_retained(RetentionMode::Compliance, 30);
        host.clock.set_hardware(None);
        let Host { fs, clock, store } = host;
        store.close();
        drop(store);
        clock.set_wall(Timestamp::from_millis(0));
        let host = Host { store: Host::open(&fs, &clock), fs, clock };
        let made = host.put_retained(RetentionMode::Compliance, 30);
        assert_eq!(host.delete(kept), Err(StoreError::Locked));
        assert_eq!(host.delete(made), Err(StoreError::Locked));
        host.run(HOUR);
        // The clock is set. The host was off for 100 days.
        host.clock.set_wall(start().plus(100 * DAY));
        assert!(host.is_held());
        assert_eq!(host.delete(kept), Err(StoreError::Locked));
        match synchronised {
            true => host.clock.set_synchronized(true),
            false => host.run(DAY),
        }
        assert!(!host.is_held());
        host.delete(kept).unwrap();
    }
}

#[test]
fn a_long_stop_is_no_jump_where_the_hardware_clock_agrees() {
    let host = Host::new();
    let kept = host.put_retained(RetentionMode::Compliance, 30);
    upload_expiry::begin(&host.store, "plain", "k");
    let host = host.restart(100 * DAY);
    assert!(!host.is_held());
    assert_eq!(host.abort_idle(), 1);
    host.delete(kept).unwrap();
    // Without one, it waits.
    host.clock.set_hardware(None);
    let host = host.restart(100 * DAY);
    assert!(host.is_held());
    host.run(DAY);
    assert!(!host.is_held());
    assert!(!host.restart(2 * HOUR).is_held(), "a restart is no jump");
}

#[test]
fn a_boot_with_a_clock_that_is_ten_years_ahead_is_held() {
    let ahead: [fn(&ManualClock); 2] = [
        // The wall clock alone, and both.
        |clock| clock.set_wall(clock.now().plus(10 * YEAR)),
        |clock| {
            clock.set_wall(clock.now().plus(10 * YEAR));
            clock.set_hardware(Some(clock.now()));
        },
    ];
    for set_ahead in ahead {
        let host = Host::new();
        let kept = host.put_retained(RetentionMode::Compliance, 30);
        upload_expiry::begin(&host.store, "plain", "k");
        set_ahead(&host.clock);
        let host = host.restart(MINUTE);
        assert!(host.is_held());
        assert_eq!(host.abort_idle(), 0);
        assert_eq!(host.delete(kept), Err(StoreError::Locked));
        // The next start knows of the doubt, and no hardware clock ends it.
        host.clock.set_hardware(Some(host.clock.now()));
        let host = host.restart(MINUTE);
        assert!(host.is_held());
        set_back(&host.clock, 10 * YEAR);
        assert!(!host.is_held());
        assert_eq!(host.delete(kept), Err(StoreError::Locked));
    }
}

#[test]
fn a_clock_that_was_believed_wrongly_is_set_right_by_the_operator() {
    let host = Host::new();
    host.jump(10 * YEAR);
    assert!(host.is_held());
    host.run(DAY);
    set_back(&host.clock, 10 * YEAR);
    let behind = host.store.clock_figures().behind;
    assert!(behind > 9 * YEAR, "{behind:?}");
    assert!(!host.is_held(), "what is old by both clocks is old");
    let figures = host.store.accept_clock().unwrap();
    assert_eq!((figures.behind, figures.lock_time), (Duration::ZERO, host.clock.now()));
    assert_eq!(host.restart(MINUTE).store.clock_figures().behind, Duration::ZERO);
}

#[test]
fn a_store_of_an_earlier_version_goes_on_from_its_newest_change() {
    let host = Host::new();
    let kept = host.put_retained(RetentionMode::Compliance, 30);
    let Host { fs, clock, store } = host;
    drop(store);
    fs.remove(CLOCK).unwrap();
    clock.set_hardware(None);
    clock.set_wall(clock.now().plus(100 * DAY));
    let host = Host { store: Host::open(&fs, &clock), fs, clock };
    assert!(host.is_held());
    assert_eq!(host.delete(kept), Err(StoreError::Locked));
    // A file with damage is reported, and the store opens.
    host.store.close();
    host.fs.damage(CLOCK, 20, 1).unwrap();
    let host = host.restart(MINUTE);
    assert_eq!(host.store.health().damage.len(), 1);
    assert_eq!(host.store.health().read_only, None);
}

#[test]
fn copies_on_the_remote_outlive_a_clock_that_is_ahead() {
    let tiered = Tiered::new(LITTLE_LOCAL);
    let store = tiered.open_on(&tiered.fs);
    store.create_bucket("b", "admin").unwrap();
    for at in 0..8 {
        put(&store, "b", &format!("k{at}"), &bytes(at, 700_000)).unwrap();
    }
    while tier::work(&store).unwrap().more {}
    for at in 0..8 {
        delete(&store, "b", &format!("k{at}"), Selector::Current).unwrap();
    }
    reclaim_all(&store).unwrap();
    tier::work(&store).unwrap();
    let copies = || tiered.remote.names().len();
    let before = copies();
    tiered.clock.set_wall(tiered.clock.now().plus(10 * YEAR));
    for _ in 0..4 {
        tier::work(&store).unwrap();
    }
    assert_eq!(copies(), before);
    set_back(&tiered.clock, 10 * YEAR);
    tiered.clock.advance(LITTLE_LOCAL.keep_dropped * 2);
    for _ in 0..4 {
        tier::work(&store).unwrap();
    }
    assert!(copies() < before, "they go in their time");
}

#[test]
fn the_deleter_on_the_remote_rests_while_the_clock_is_ahead() {
    let tiered = Tiered::new(LITTLE_LOCAL);
    let options = ship_options(ShipMode::Async);
    let store = shipping_with(&tiered, &tiered.fs, options);
    ship(&store).unwrap();
    store.create_bucket("b", "admin").unwrap();
    for round in 0..40 {
        put(&store, "b", "k", &bytes(round, 1000)).unwrap();
        tiered.clock.advance(options.root_every);
        ship(&store).unwrap();
    }
    tiered.clock.set_wall(tiered.clock.now().plus(YEAR));
    tiered.clock.advance(options.root_every);
    assert_eq!(store.cleanup_step(), Ok(CleanupProgress::default()));
    assert_eq!(tiered.remote.calls(crate::remote::sim::RemoteCall::Delete), 0);
    set_back(&tiered.clock, YEAR);
    tiered.clock.advance(options.window * 2);
    assert!((0..9).any(|_| store.cleanup_step().unwrap().deleted > 0));
}
