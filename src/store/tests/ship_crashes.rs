//! Hosts that write, ship, send segments, delete on the remote, take over from one another and go
//! back, with a remote that fails; and what is left where all of them lose their power at any
//! moment.
//!
//! A run sets *crash points* aside: copies of the disks of the host and of the standby, and of the
//! remote, before an operation of a disk or a call of the remote. From each of them one host comes
//! up again by the ordinary open: the old one, the standby, or one that is restored, to now or to
//! an earlier time. On its way it may crash again. All objects are read then, so that what was
//! deleted on the remote too early is missed.
//!
//! | variable | default | |
//! |---|---|---|
//! | `SILTSTONE_CRASH_SECONDS` | none | how long all processors go on; without it a few points are looked at |
//! | `SILTSTONE_TEST_SEED` | 1 | of the first run |

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Instant;

use super::ship::{LITTLE_LOCAL, ship, standby_on};
use super::ship_window::{WINDOW, ship_options};
use super::tier::Tiered;
use super::*;
use crate::base::{Clock as _, Entropy as _};
use crate::fs::Fs as _;
use crate::fs::sim::CrashPolicy;
use crate::remote::sim::RemoteCall;

const KEYS: u64 = 8;
/// The steps of a run.
const STEPS: u64 = 300;
/// Tries with a remote that fails, before it fails no more.
const TRIES_MAX: u32 = 20;

/// The seed of the bytes of a key; `None` where there is no object.
type Value = Option<u64>;

/// What was answered.
#[derive(Clone, Default)]
struct Answers {
    /// What each key may hold on the disk of the host.
    here: BTreeMap<String, BTreeSet<Value>>,
    /// What it may hold after another host has taken over.
    there: BTreeMap<String, BTreeSet<Value>>,
}

/// What each key may hold.
type MayBe = BTreeMap<String, BTreeSet<Value>>;
/// A time, and the keys whose values were known then.
type Moment = (Timestamp, Rc<BTreeMap<String, Value>>);

impl Answers {
    fn begin_write(&mut self, key: &str, value: Value) {
        for side in [&mut self.here, &mut self.there] {
            side.entry(key.to_owned()).or_insert_with(|| [None].into()).insert(value);
        }
    }

    /// What may be true in the middle of what led from these answers to others.
    fn with(&self, later: &Self) -> Self {
        Self { here: union(&self.here, &later.here), there: union(&self.there, &later.there) }
    }

    /// The keys whose values are known.
    fn known(&self) -> BTreeMap<String, Value> {
        let known = |(key, values): (&String, &BTreeSet<Value>)| {
            let only = values.first().filter(|_| values.len() == 1)?;
            Some((key.clone(), *only))
        };
        self.here.iter().filter_map(known).collect()
    }
}

fn union(one: &MayBe, two: &MayBe) -> MayBe {
    let mut all = one.clone();
    for (key, values) in two {
        all.entry(key.clone()).or_insert_with(|| [None].into()).extend(values);
    }
    all
}

fn len_of(seed: u64) -> usize {
    let len = match seed % 16 {
        0 => seed % 1_200_000,
        1..4 => seed % 150_000,
        _ => seed % 3000,
    };
    len as usize
}

thread_local! {
    /// The bytes of some seeds.
    static VALUES: RefCell<HashMap<u64, Rc<Vec<u8>>>> = RefCell::default();
}

fn value_of(seed: u64) -> Rc<Vec<u8>> {
    VALUES.with_borrow_mut(|values| {
        if values.len() >= 100 {
            values.clear();
        }
        Rc::clone(values.entry(seed).or_insert_with(|| Rc::new(bytes(seed, len_of(seed)))))
    })
}

fn is_value(found: Option<&[u8]>, value: Value) -> bool {
    match (found, value) {
        (None, None) => true,
        (Some(found), Some(seed)) => found.len() == len_of(seed) && found == value_of(seed).as_slice(),
        _ => false,
    }
}

/// Copies of the disks and of the remote, as a loss of power leaves them.
struct CrashPoint {
    /// The remote, and the disk of the host.
    world: Tiered,
    standby: SimFs,
}

/// A host that was taken over.
struct StalledHost {
    fs: SimFs,
    store: Store,
    /// What each key may hold on its disk.
    here: MayBe,
}

struct ShipRun {
    tiered: Tiered,
    mode: ShipMode,
    fs: SimFs,
    store: Store,
    /// Hosts that were taken over and do not know it, each with its disk.
    stalled: Vec<StalledHost>,
    /// A standby with its directory: it follows, lags, crashes and takes over.
    standby: (SimFs, Standby),
    draw: SeededEntropy,
    answers: Answers,
    /// All values that were put to each key.
    put: MayBe,
    /// What was shipped, by its time.
    moments: Vec<Moment>,
    /// The crash points of the step that is under way, and how many it may have.
    caught: Arc<Mutex<Vec<CrashPoint>>>,
    points_of_a_step: u64,
    /// Disks with planned calls.
    armed: Vec<SimFs>,
    restores: u64,
    /// What each key may hold on the disk of the standby, where that is a host that came back.
    returned: Option<MayBe>,
    /// Hosts that came back.
    returns: u64,
}

impl ShipRun {
    fn new(seed: u64, mode: ShipMode) -> Self {
        let tiered = Tiered::new(LITTLE_LOCAL);
        let fs = tiered.fs.clone();
        let store = shipping(&tiered, &fs, mode);
        ship(&store).unwrap();
        store.create_bucket("b", "admin").unwrap();
        ship(&store).unwrap();
        Self {
            standby: fresh_standby(&tiered),
            tiered,
            mode,
            fs,
            store,
            stalled: Vec::new(),
            draw: SeededEntropy::new(seed),
            answers: Answers::default(),
            put: MayBe::new(),
            moments: Vec::new(),
            caught: Arc::default(),
            points_of_a_step: 0,
            armed: Vec::new(),
            restores: 0,
            returned: None,
            returns: 0,
        }
    }

    /// Makes a step, and returns what was caught in the middle of it.
    fn step(&mut self) -> Vec<(CrashPoint, Expected)> {
        let before = self.answers.clone();
        let moments = self.moments.len();
        let returned = self.returned.clone();
        let takes_over = self.arm_and(Self::any_step);
        let caught = std::mem::take(&mut *self.caught.lock().unwrap());
        let expected = || Expected {
            mode: self.mode,
            answers: before.with(&self.answers),
            // A host that came back may go on with groups of earlier times.
            moments: match returned {
                None => self.moments[..moments.min(self.moments.len())].to_vec(),
                Some(_) => Vec::new(),
            },
            has_rival: takes_over,
            returned: returned.clone().or_else(|| self.returned.clone()),
        };
        caught.into_iter().map(|point| (point, expected())).collect()
    }

    fn arm_and<T>(&mut self, step: impl FnOnce(&mut Self) -> T) -> T {
        self.arm();
        let done = step(self);
        self.armed.drain(..).for_each(|fs| fs.forget_calls());
        self.tiered.remote.forget_calls();
        done
    }

    /// Plans crash points from now on.
    fn arm(&mut self) {
        let host = self.fs.clone();
        let standby = self.standby.0.clone();
        let mut remaining = self.points_of_a_step;
        while remaining > 0 {
            remaining -= 1;
            let tiered = self.tiered.handle(&host);
            let caught = Arc::clone(&self.caught);
            let disk = standby.clone();
            let catch = move || {
                let world = tiered.copy();
                let standby = disk.copy();
                caught.lock().unwrap_or_else(PoisonError::into_inner).push(CrashPoint { world, standby });
            };
            let ahead = 1 + self.draw.below(4 << self.draw.below(5));
            match self.draw.below(5) {
                0 | 1 => host.call_before(host.operations() + ahead, catch),
                2 => standby.call_before(standby.operations() + ahead, catch),
                _ => self.tiered.remote.call_before(self.tiered.remote.all_calls() + ahead, catch),
            }
        }
        self.armed.extend([host, standby]);
    }

    /// Returns whether another host takes over in it.
    fn any_step(&mut self) -> bool {
        match self.draw.below(54) {
            0..14 => self.write(),
            14..22 => self.ship(),
            22..26 => drop(self.store.tier_step(&self.draw)),
            26..29 => drop(reclaim_all(&self.store)),
            29 => self.store.shared.segments.retire(|_| true),
            30..34 => self.tiered.clock.advance(Duration::from_secs(self.draw.below(6000))),
            34..37 => drop(self.store.cleanup_step()),
            37 => drop(self.store.checkpoint()),
            38 => self.stalled_step(),
            39 => self.tiered.remote.land_late_writes(),
            40 | 41 => self.crash(),
            42..46 => self.let_follow(),
            46 => self.crash_standby(),
            47 => self.check_a_moment(),
            52 | 53 => self.let_return(),
            step => {
                match step {
                    48 => self.take_over(None),
                    49 if self.draw.below(3) == 0 => self.go_back(),
                    _ => self.promote(),
                }
                return true;
            }
        }
        false
    }

    fn write(&mut self) {
        let key = format!("k{}", self.draw.below(KEYS));
        let value = (self.draw.below(4) > 0).then(|| self.draw.next_u64());
        self.answers.begin_write(&key, value);
        self.put.entry(key.clone()).or_insert_with(|| [None].into()).insert(value);
        let done = match value {
            Some(seed) => put(&self.store, "b", &key, &value_of(seed)).map(|_| ()),
            None => delete(&self.store, "b", &key, Selector::Current).map(|_| ()),
        };
        match done {
            Ok(()) => {
                self.answers.here.insert(key.clone(), [value].into());
                if self.mode == ShipMode::Sync {
                    self.answers.there.insert(key, [value].into());
                }
            }
            Err(StoreError::RemoteUnavailable(_) | StoreError::InDoubt(_) | StoreError::DiskFull) => {}
            Err(error) => panic!("{key}: {error}"),
        }
    }

    fn ship(&mut self) {
        if ship(&self.store).is_ok() {
            self.answers.there.clone_from(&self.answers.here);
            self.tiered.clock.advance(Duration::from_millis(2));
            self.moments.push((self.tiered.clock.now(), Rc::new(self.answers.known())));
            self.tiered.clock.advance(Duration::from_millis(2));
        }
    }

    /// A host that was taken over may be about to delete, and in sync mode answers no write.
    fn stalled_step(&mut self) {
        if let Some(StalledHost { store, .. }) = self.stalled.pop() {
            let done = put(&store, "b", "k0", &value_of(4));
            assert!(self.mode == ShipMode::Async || done.is_err(), "a fenced host answered");
            let _ = store.cleanup_step();
            let _ = ship(&store);
            let late = put(&store, "b", "k0", &value_of(5));
            let shipped = ship(&store);
            assert!(shipped.is_err() || late.is_err(), "a fenced host ships");
        }
    }

    fn crash(&mut self) {
        self.fs = self.fs.crash(policy(&self.draw));
        self.arm();
        self.store = shipping(&self.tiered, &self.fs, self.mode);
        assert!(begins(&self.tiered, &self.store), "nobody else epochs");
        self.answers.there.clone_from(&self.answers.here);
        self.learn();
    }

    fn take_over(&mut self, at: Option<Timestamp>) {
        let (fs, new) = loop {
            let fs = SimFs::new();
            let remote = &self.tiered.remote;
            let clock = self.tiered.clock.as_ref();
            let restored = match at {
                Some(at) => {
                    restore_from_remote_at(self.tiered.reached().as_ref(), &fs, clock, at, &mut |_| ())
                }
                None => restore_from_remote(self.tiered.reached().as_ref(), &fs, clock, &mut |_| ()),
            };
            if restored.is_ok() {
                let new = shipping(&self.tiered, &fs, self.mode);
                if begins(&self.tiered, &new) {
                    break (fs, new);
                }
            }
            // The claim may have fenced the old host, so that one of the next has to begin.
            remote.fail_at_random(0, 0);
        };
        self.taken_over_by(fs, new);
    }

    fn taken_over_by(&mut self, fs: SimFs, new: Store) {
        let store = std::mem::replace(&mut self.store, new);
        let fs = std::mem::replace(&mut self.fs, fs);
        self.stalled.push(StalledHost { fs, store, here: self.answers.here.clone() });
        self.answers.here.clone_from(&self.answers.there);
        self.learn();
    }

    /// Goes on from a moment within the window; all after it is given up.
    fn go_back(&mut self) {
        let Some((at, values)) = a_moment(&self.moments, self.tiered.clock.now(), &self.draw) else { return };
        self.tiered.remote.fail_at_random(0, 0);
        let known = |key: &String| values.get(key).map(|value| [*value].into());
        let then = |(key, put): (&String, &BTreeSet<Value>)| (key.clone(), known(key).unwrap_or(put.clone()));
        self.answers.there = self.put.iter().map(then).collect();
        self.moments.retain(|(time, _)| *time <= at);
        self.take_over(Some(at));
    }

    fn let_follow(&mut self) {
        for _ in 0..self.draw.below(12) {
            let stepped = self.standby.1.step(&mut |_| ());
            assert!(!matches!(&stepped, Err(error) if error.lasts()), "{stepped:?}");
        }
    }

    fn crash_standby(&mut self) {
        let fs = self.standby.0.crash(policy(&self.draw));
        let standby = standby_on(&self.tiered, &fs);
        self.standby = (fs, standby);
    }

    /// A host that was taken over starts again, and is the standby from then on.
    fn let_return(&mut self) {
        let Some(StalledHost { fs, store, here }) = self.stalled.pop() else { return };
        drop(store);
        let fs = fs.crash(policy(&self.draw));
        let standby = standby_on(&self.tiered, &fs);
        self.standby = (fs, standby);
        self.returned = Some(here);
        self.returns += 1;
    }

    /// The standby takes over from wherever it is, while the old host goes on.
    fn promote(&mut self) {
        let (fs, mut standby) = std::mem::replace(&mut self.standby, fresh_standby(&self.tiered));
        let returned = self.returned.take();
        let mut tries = 0;
        let (taken, goes_on) = loop {
            tries += 1;
            let _ = standby.step(&mut |_| ());
            let goes_on = standby.watches();
            if tries == TRIES_MAX {
                self.tiered.remote.fail_at_random(0, 0);
            }
            match standby.take_over(&self.draw, &mut |_| ()) {
                Ok(Some(taken)) => break (taken, goes_on),
                Err(error) if error.lasts() => panic!("{error}"),
                failed => assert!(tries < 2 * TRIES_MAX, "no takeover: {:?}", failed.map(|_| ())),
            }
            if tries < TRIES_MAX && self.draw.below(4) == 0 {
                self.ship();
            }
        };
        let new = self.tiered.open_on(&fs);
        new.ship_log_from(ship_options(self.mode), Some(taken));
        assert!(begins(&self.tiered, &new), "its claim is the newest, and its directory ends with its cut");
        // A host that came back may have groups that it had not shipped, and goes on with them.
        if let Some(returned) = returned.filter(|_| goes_on) {
            self.answers.there = union(&self.answers.there, &returned);
            // They are of earlier times than those that were remembered.
            self.moments.clear();
        }
        self.taken_over_by(fs, new);
    }

    fn check_a_moment(&mut self) {
        let Some((at, values)) = a_moment(&self.moments, self.tiered.clock.now(), &self.draw) else { return };
        self.tiered.remote.fail_at_random(0, 0);
        has_moment(&self.tiered, at, &values);
        self.restores += 1;
    }

    /// Reads all keys: what is there stays.
    fn learn(&mut self) {
        for (key, may_be) in &mut self.answers.here {
            let found = read(&self.store, key);
            may_be.retain(|value| is_value(found.as_deref(), *value));
            assert!(!may_be.is_empty(), "{key} has lost what was answered");
        }
        self.answers.there.clone_from(&self.answers.here);
    }
}

/// Where a random test draws how much of what was not synced survives.
fn policy(draw: &SeededEntropy) -> CrashPolicy {
    match draw.below(8) {
        0 => CrashPolicy::DropAll,
        1 => CrashPolicy::KeepAll,
        _ => CrashPolicy::Random(draw.next_u64()),
    }
}

fn fresh_standby(tiered: &Tiered) -> (SimFs, Standby) {
    let fs = SimFs::new();
    let standby = standby_on(tiered, &fs);
    (fs, standby)
}

fn shipping(tiered: &Tiered, fs: &SimFs, mode: ShipMode) -> Store {
    let store = tiered.open_on(fs);
    store.ship_log_from(ship_options(mode), None);
    store
}

/// Begins an epoch. The remote fails for a while only: a whole log takes many requests. Returns
/// `false` where another host epochs, or a parcel of the old one has landed since the restore.
fn begins(tiered: &Tiered, store: &Store) -> bool {
    for tries in 0..=TRIES_MAX {
        if tries == TRIES_MAX {
            tiered.remote.fail_at_random(0, 0);
        }
        match ship(store) {
            Ok(()) => return true,
            Err(StoreError::RemoteUnavailable(_)) => {}
            Err(StoreError::ReadOnly(_)) => return false,
            Err(other) => panic!("no epoch begins: {other}"),
        }
    }
    panic!("no epoch begins although the remote answers");
}

/// The bytes of a key.
fn read(store: &Store, key: &str) -> Option<Vec<u8>> {
    let mut tries = 0;
    loop {
        tries += 1;
        match get(store, "b", key) {
            Err(StoreError::RemoteUnavailable(_)) => {}
            Err(StoreError::NoSuchKey) => return None,
            // The remote may have answered twice with other bytes.
            Err(StoreError::Corrupt(_)) if tries < 4 => {}
            found => return Some(found.unwrap_or_else(|error| panic!("{key}: {error}"))),
        }
    }
}

/// One of the moments that a restore reaches.
fn a_moment(moments: &[Moment], now: Timestamp, draw: &SeededEntropy) -> Option<Moment> {
    let first = moments.partition_point(|(at, _)| now.since(*at) >= WINDOW);
    let within = &moments[first..];
    let nth = draw.below(within.len().max(1) as u64);
    within.get(nth as usize).cloned()
}

/// Restores a moment, and compares all that was known then.
fn has_moment(tiered: &Tiered, at: Timestamp, values: &BTreeMap<String, Value>) -> Store {
    let fs = SimFs::new();
    let remote = tiered.reached();
    restore_from_remote_at(remote.as_ref(), &fs, tiered.clock.as_ref(), at, &mut |_| ()).unwrap();
    let store = tiered.open_on(&fs);
    for (key, value) in values {
        assert!(is_value(read(&store, key).as_deref(), *value), "{key} is not as it was at {at:?}");
    }
    assert_eq!(store.health().damage, []);
    store
}

/// What has to be there after a crash.
struct Expected {
    mode: ShipMode,
    answers: Answers,
    moments: Vec<Moment>,
    /// Whether another host was about to take over.
    has_rival: bool,
    /// What each key may hold on the disk of the standby, where that is a host that came back.
    returned: Option<MayBe>,
}

/// How a store comes up again.
#[derive(Debug, Clone, Copy)]
enum Way {
    Restart,
    Boot,
    TakeOver,
    Restore,
    GoBack,
}

/// The error of a recovery that was interrupted by a loss of power.
struct Interrupted(String);

fn interrupted(error: impl std::fmt::Display) -> Interrupted {
    Interrupted(error.to_string())
}

/// The recovery from one crash point.
struct CrashRecovery<'r> {
    world: Tiered,
    standby: SimFs,
    expected: &'r Expected,
    draw: &'r SeededEntropy,
}

impl CrashRecovery<'_> {
    /// Returns how many times the power was lost on the way.
    fn run(mut self) -> u64 {
        let way = match self.draw.below(16) {
            0..3 => Way::Restart,
            3..6 => Way::Boot,
            6..11 => Way::TakeOver,
            11..14 => Way::Restore,
            _ => Way::GoBack,
        };
        if self.draw.below(4) == 0 {
            self.world.remote.fail_at_random(self.draw.next_u64(), 20);
        }
        self.standby = self.standby.crash(policy(self.draw));
        self.world.fs = self.world.fs.crash(policy(self.draw));
        let mut losses = 0;
        loop {
            let fs = match way {
                Way::Restart | Way::Boot => self.world.fs.clone(),
                Way::TakeOver => self.standby.clone(),
                Way::Restore | Way::GoBack => SimFs::new(),
            };
            let stop =
                (losses < 2 && self.draw.below(3) == 0).then(|| 1 + self.draw.below(4 << self.draw.below(5)));
            stop.iter().for_each(|stop| fs.stop_at(*stop));
            let recovered = match way {
                Way::Restart => self.restart(&fs),
                Way::Boot => self.boot(&fs, &self.expected.answers.here),
                Way::TakeOver => match &self.expected.returned {
                    Some(here) => self.boot(&fs, here),
                    None => self.take_over(&fs),
                },
                Way::Restore => self.restore(&fs),
                Way::GoBack => self.go_back(),
            };
            let Err(Interrupted(why)) = recovered else { return losses };
            assert!(
                stop.is_some_and(|stop| fs.operations() >= stop),
                "{way:?} ended before the power went: {why}"
            );
            losses += 1;
            match way {
                Way::Restart | Way::Boot => self.world.fs = fs.crash(policy(self.draw)),
                Way::TakeOver => self.standby = fs.crash(policy(self.draw)),
                Way::Restore | Way::GoBack => {}
            }
        }
    }

    fn restart(&self, fs: &SimFs) -> Result<(), Interrupted> {
        let store = self.open(fs)?;
        store.ship_log_from(ship_options(self.expected.mode), None);
        let begun = self.begin(&store)?;
        assert!(begun || self.expected.has_rival, "nobody else epochs");
        self.compare(&store, &self.expected.answers.here)?;
        if begun { self.go_on(&store) } else { Ok(()) }
    }

    /// The old host starts as one of several: it goes on where no other host has taken over, and
    /// else it follows, and takes over later.
    fn boot(&self, fs: &SimFs, here: &MayBe) -> Result<(), Interrupted> {
        let mut standby = standby_on(&self.world, fs);
        let mut tries = 0;
        let (taken, goes_on) = loop {
            tries += 1;
            if tries >= TRIES_MAX {
                self.world.remote.fail_at_random(0, 0);
            }
            let stepped = standby.step(&mut |_| ());
            let goes_on = standby.watches();
            match stepped.and_then(|_| standby.take_over(self.draw, &mut |_| ())) {
                Ok(Some(taken)) => break (taken, goes_on),
                Err(ShipError::Disk(why)) => return Err(Interrupted(why)),
                Err(error) if error.lasts() => panic!("{error}"),
                taken => assert!(tries < 2 * TRIES_MAX, "no takeover: {:?}", taken.map(drop)),
            }
        };
        let store = self.open(fs)?;
        store.ship_log_from(ship_options(self.expected.mode), Some(taken));
        assert!(self.begin(&store)?, "its directory has the end of the log that its claim adopts");
        let there = &self.expected.answers.there;
        self.compare(&store, &if goes_on { union(here, there) } else { there.clone() })?;
        self.go_on(&store)
    }

    fn take_over(&self, fs: &SimFs) -> Result<(), Interrupted> {
        let is_writer = !follows(fs).map_err(interrupted)? && has_log(fs)?;
        let mut taken = None;
        let mut standby = standby_on(&self.world, fs);
        let mut tries = 0;
        while !is_writer && taken.is_none() {
            tries += 1;
            if tries >= TRIES_MAX {
                self.world.remote.fail_at_random(0, 0);
            }
            taken = match standby.take_over(self.draw, &mut |_| ()) {
                Err(ShipError::Disk(why)) => return Err(Interrupted(why)),
                Err(error) if error.lasts() => panic!("{error}"),
                taken if tries < 2 * TRIES_MAX => taken.ok().flatten(),
                taken => panic!("no takeover: {:?}", taken.map(drop)),
            };
        }
        let store = self.open(fs)?;
        store.ship_log_from(ship_options(self.expected.mode), taken);
        assert!(self.begin(&store)?, "its directory ends with the cut of its claim");
        self.compare(&store, &self.expected.answers.there)?;
        self.go_on(&store)
    }

    fn restore(&self, fs: &SimFs) -> Result<(), Interrupted> {
        let mut fs = fs.clone();
        loop {
            let remote = self.world.reached();
            match restore_from_remote(remote.as_ref(), &fs, self.world.clock.as_ref(), &mut |_| ()) {
                Ok(_) => {
                    let store = self.open(&fs)?;
                    store.ship_log_from(ship_options(self.expected.mode), None);
                    if self.begin(&store)? {
                        self.compare(&store, &self.expected.answers.there)?;
                        return self.go_on(&store);
                    }
                }
                Err(ShipError::Disk(why)) => return Err(Interrupted(why)),
                Err(_) => {}
            }
            // The remote has failed, or a late parcel of the old host has landed.
            self.world.remote.fail_at_random(0, 0);
            fs = SimFs::new();
        }
    }

    fn go_back(&self) -> Result<(), Interrupted> {
        self.world.remote.fail_at_random(0, 0);
        if let Some((at, values)) = a_moment(&self.expected.moments, self.world.clock.now(), self.draw) {
            has_moment(&self.world, at, &values);
        }
        Ok(())
    }

    fn open(&self, fs: &SimFs) -> Result<Store, Interrupted> {
        self.world.try_open_on(fs).map_err(interrupted)
    }

    /// As [`begins`], for a disk that may lose its power.
    fn begin(&self, store: &Store) -> Result<bool, Interrupted> {
        for tries in 0..=TRIES_MAX {
            if tries == TRIES_MAX {
                self.world.remote.fail_at_random(0, 0);
            }
            match ship(store) {
                Ok(()) => return Ok(true),
                Err(StoreError::RemoteUnavailable(_)) => {}
                Err(StoreError::ReadOnly(_))
                    if store.health().read_only_reason == Some(ReadOnlyReason::Fenced) =>
                {
                    return Ok(false);
                }
                Err(error) => return Err(interrupted(error)),
            }
        }
        panic!("no epoch begins although the remote answers");
    }

    /// Reads all keys.
    fn compare(&self, store: &Store, may_be: &MayBe) -> Result<(), Interrupted> {
        self.world.remote.fail_at_random(0, 0);
        for (key, values) in may_be {
            let found = match get(store, "b", key) {
                Err(StoreError::NoSuchKey) => None,
                found => Some(found.map_err(|error| Interrupted(format!("{key}: {error}")))?),
            };
            let is_known = values.iter().any(|value| is_value(found.as_deref(), *value));
            assert!(is_known, "{key} has lost what was answered");
        }
        assert_eq!(store.health().damage, []);
        Ok(())
    }

    /// The recovered store writes and ships, and nothing is missing on the remote.
    fn go_on(&self, store: &Store) -> Result<(), Interrupted> {
        if self.draw.below(4) > 0 {
            return Ok(());
        }
        put(store, "b", "after", b"the crash").map_err(interrupted)?;
        ship(store).map_err(interrupted)?;
        let audit = audit_remote(self.world.reached().as_ref()).unwrap();
        assert_eq!(audit.missing, []);
        Ok(())
    }
}

fn has_log(fs: &SimFs) -> Result<bool, Interrupted> {
    let names = fs.list("meta").map_err(interrupted)?;
    Ok(names.iter().any(|name| name.ends_with(".log")))
}

/// What a thread has done.
#[derive(Debug, Default)]
struct Figures {
    runs: AtomicU64,
    steps: AtomicU64,
    /// Crash points from which a store came up and had what it has to have.
    points: AtomicU64,
    /// Crashes on the way there.
    losses: AtomicU64,
}

/// Makes a run with up to so many crash points in each step.
fn run(
    seed: u64,
    steps: u64,
    points_of_a_step: u64,
    figures: &Figures,
    goes_on: &dyn Fn() -> bool,
) -> ShipRun {
    let mode = if seed.is_multiple_of(2) { ShipMode::Sync } else { ShipMode::Async };
    println!("seed {seed}, {mode:?}");
    let mut run = ShipRun::new(seed, mode);
    run.points_of_a_step = points_of_a_step;
    let draw = SeededEntropy::new(seed);
    for step in 0..steps {
        run.tiered.remote.fail_at_random(seed + step, if step / 40 % 2 == 0 { 60 } else { 0 });
        for (CrashPoint { world, standby }, expected) in run.step() {
            let recovery = CrashRecovery { world, standby, expected: &expected, draw: &draw };
            figures.losses.fetch_add(recovery.run(), Ordering::Relaxed);
            figures.points.fetch_add(1, Ordering::Relaxed);
        }
        figures.steps.fetch_add(1, Ordering::Relaxed);
        if !goes_on() {
            break;
        }
    }
    figures.runs.fetch_add(1, Ordering::Relaxed);
    run.tiered.remote.fail_at_random(0, 0);
    run.tiered.remote.land_late_writes();
    run
}

#[test]
pub(super) fn whatever_fails_what_was_answered_is_on_the_remote() {
    let first = seed();
    let runs = std::env::var("SILTSTONE_SHIP_RUNS").map_or(4, |runs| runs.parse().unwrap());
    let mut restores = 0;
    let mut deletes = 0;
    let mut returns = 0;
    for seed in first..first + runs {
        let mut run = run(seed, STEPS, 0, &Figures::default(), &|| true);
        run.check_a_moment();
        run.take_over(None);
        assert_eq!(run.store.health().damage, []);
        restores += run.restores;
        returns += run.returns;
        deletes += run.tiered.remote.calls(RemoteCall::Delete);
    }
    println!("{restores} restores, {deletes} deletes, {returns} hosts that came back");
    assert!(restores > 0 && deletes > 0 && returns > 0);
}

#[test]
fn from_every_crash_point_a_host_comes_up_with_what_was_answered() {
    let first = seed();
    let figures = Figures::default();
    let begun = Instant::now();
    let named = std::env::var("SILTSTONE_CRASH_SECONDS").ok();
    if let Some(seconds) = named.map(|seconds| Duration::from_secs(seconds.parse().unwrap())) {
        let threads = thread::available_parallelism().unwrap().get() as u64;
        let goes_on = || begun.elapsed() < seconds;
        thread::scope(|scope| {
            for nth in 0..threads {
                let figures = &figures;
                scope.spawn(move || {
                    let mut seeds = (first + nth..).step_by(threads as usize);
                    while goes_on() {
                        drop(run(seeds.next().unwrap(), STEPS, 12, figures, &goes_on));
                    }
                });
            }
        });
    } else {
        (first..first + 2).for_each(|seed| drop(run(seed, 60, 2, &figures, &|| true)));
    }
    let minutes = begun.elapsed().as_secs_f64() / 60.0;
    let points = figures.points.load(Ordering::Relaxed);
    println!("{figures:?}: {:.0} crash points a minute", points as f64 / minutes);
    assert!(points > 40);
}
