//! The steps: each is done to the store and to the world, and what the store answers is what the
//! world expects.

use std::cell::Cell;
use std::collections::HashSet;

use super::checks::check;
use super::world::World;
use super::*;
use crate::format::RemoteMark;
use crate::fs::Fs as _;
use crate::remote::sim::SimRemote;

/// Copies go soon after they were dropped.
const TIER: TierOptions = TierOptions {
    local_max_bytes: u64::MAX,
    keep_local: Duration::ZERO,
    keep_dropped: Duration::from_secs(1),
    scrub_percent: 0,
    abandons_log: false,
};

/// A version as it was once: its bucket's id, its key, its record.
pub(super) type Known = (u64, String, VersionRecord);

pub(super) struct Run {
    pub(super) draw: SeededEntropy,
    pub(super) clock: Arc<ManualClock>,
    pub(super) options: StoreOptions,
    pub(super) fs: SimFs,
    /// The remote of a store with a tier.
    pub(super) remote: Option<SimRemote>,
    pub(super) store: Option<Store>,
    pub(super) world: World,
    /// The highest stamp that was told.
    pub(super) last: u64,
    pub(super) known: Vec<Known>,
    /// Uploads that there were once: bucket, key, id.
    pub(super) ended: Vec<(String, String, UploadId)>,
    /// Parts as they were before they were replaced.
    pub(super) replaced: Vec<(UploadId, PartRecord)>,
    /// The ids of all versions that were ever acknowledged.
    pub(super) acknowledged: HashSet<VersionId>,
    pub(super) room: Room,
    /// How much was refused because there was no room.
    pub(super) refused: Cell<u64>,
}

/// How much room the disk has, and so what may be refused for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Room {
    /// For everything.
    Plenty,
    /// For the log, but not for what objects must leave free.
    Kept,
    /// For little or nothing.
    None,
}

fn open_at(fs: &SimFs, clock: &Arc<ManualClock>, options: StoreOptions, remote: Option<&SimRemote>) -> Store {
    let fs = Arc::new(fs.clone());
    let clock = clock.clone();
    let entropy = SeededEntropy::new(1);
    let store = match remote {
        None => Store::open(fs, clock, &entropy, options),
        Some(remote) => Store::open_tiered(fs, clock, &entropy, options, Arc::new(remote.clone()), TIER),
    };
    let store = store.expect("the store opens");
    if let Some(remote) = remote {
        let mark =
            RemoteMark { store: store.shared.store, made: Timestamp::from_millis(0), decides_races: true };
        remote.place(RemoteMark::NAME, &mark.encode());
    }
    store
}

/// A part as it is compared: without what tells where it lies.
pub(super) fn bare(part: &PartRecord) -> PartRecord {
    PartRecord { extents: vec![], ..part.clone() }
}

impl Run {
    pub(super) fn start(seed: u64, options: StoreOptions, remote: Option<SimRemote>) -> Self {
        let fs = SimFs::new();
        let clock = Arc::new(ManualClock::new(Timestamp::from_millis(1_700_000_000_000)));
        let store = Some(open_at(&fs, &clock, options, remote.as_ref()));
        let draw = SeededEntropy::new(seed);
        let world = World::default();
        let known = vec![];
        let ended = vec![];
        let replaced = vec![];
        let acknowledged = HashSet::new();
        let room = Room::Plenty;
        let refused = Cell::new(0);
        let mut run = Self {
            draw,
            clock,
            options,
            fs,
            remote,
            store,
            world,
            last: 0,
            known,
            ended,
            replaced,
            acknowledged,
            room,
            refused,
        };
        for (name, versioning) in BUCKETS {
            run.create_bucket(name);
            run.set_versioning(name, *versioning);
        }
        run
    }

    pub(super) fn store(&self) -> &Store {
        self.store.as_ref().expect("it is open between steps")
    }

    pub(super) fn check(&self) {
        check(self.store(), &self.world, &self.draw);
    }

    /// What the store answered, where the world expects it to be done.
    pub(super) fn agreed<T: std::fmt::Debug>(
        &self,
        answered: Result<T, StoreError>,
        expected: Result<(), StoreError>,
    ) -> Option<T> {
        match (answered, expected) {
            (Err(StoreError::DiskFull), _) if self.room == Room::None => self.count_refused(),
            (Ok(done), Ok(())) => Some(done),
            (Err(error), Err(refusal)) => {
                assert_eq!(error, refusal);
                None
            }
            (answered, expected) => panic!("answered {answered:?}, expected {expected:?}"),
        }
    }

    /// The same of what is refused as soon as no more than the room that is kept is left.
    pub(super) fn written<T: std::fmt::Debug>(
        &self,
        answered: Result<T, StoreError>,
        expected: Result<(), StoreError>,
    ) -> Option<T> {
        match answered {
            Err(StoreError::DiskFull) if self.room == Room::Kept => self.count_refused(),
            answered => self.agreed(answered, expected),
        }
    }

    pub(super) fn count_refused<T>(&self) -> Option<T> {
        println!("there is no room");
        self.refused.set(self.refused.get() + 1);
        None
    }

    /// Ends the store and opens it again; what can be seen is the same, to the last extent.
    pub(super) fn restart(&mut self, how: Restart) {
        println!("{how:?}");
        let before = everything(self.store(), &self.world);
        match how {
            Restart::Drop => {}
            Restart::Close => self.store().close(),
            Restart::Kill => self.fs = self.fs.kill(),
            Restart::Crash(policy) => self.fs = self.fs.crash(policy),
        }
        self.store = None;
        self.store = Some(open_at(&self.fs, &self.clock, self.options, self.remote.as_ref()));
        let health = self.store().health();
        assert_eq!((health.read_only, health.damage, health.torn_groups), (None, vec![], 0));
        assert_eq!(everything(self.store(), &self.world), before);
    }

    /// Does something.
    pub(super) fn step(&mut self) {
        self.tick();
        let bucket = self.draw.one_of(BUCKETS).0;
        let key = *self.draw.one_of(KEYS);
        match self.draw.below(200) {
            0..60 => self.put(bucket, key),
            60..95 => self.delete(bucket),
            95..103 => self.create_upload(bucket, key),
            103..130 => self.change_upload(bucket, key),
            130..150 => self.copy(bucket, key),
            150..157 => self.set_tags(bucket),
            157..159 => self.set_acl(bucket),
            159..161 => self.change_class(bucket),
            161..165 => self.configure(bucket),
            165..180 => self.create_bucket(bucket),
            180..185 => self.delete_bucket(bucket),
            185..187 => self.change_versioning(bucket),
            187..189 => self.empty(bucket),
            189..191 => self.reclaim(),
            191..193 => drop(self.written(self.store().checkpoint(), Ok(()))),
            193..195 => self.fill_the_disk(),
            _ => self.restart(Restart::drawn(&self.draw)),
        }
    }

    fn reclaim(&self) {
        println!("reclaim");
        self.written(reclaim_all(self.store()), Ok(()));
        if self.remote.is_some() {
            // Small segments become full seldom.
            self.store().shared.segments.retire(|_| true);
            self.written(reclaim_all(self.store()), Ok(()));
            self.written(tier::work(self.store()).map(drop), Ok(()));
        }
    }

    /// Goes on for some steps on a disk that has no room left, or no more than is kept; then there
    /// is room again.
    fn fill_the_disk(&mut self) {
        if self.room != Room::Plenty {
            return println!("it is full already");
        }
        self.room = *self.draw.one_of(&[Room::Kept, Room::None]);
        let kept = if self.room == Room::Kept { self.options.keep_free_bytes } else { 0 };
        let left = kept + self.draw.below(40_000);
        println!("{left} bytes are left");
        let space = self.fs.space().expect("it can be told");
        self.fs.set_capacity(space.total_bytes - space.free_bytes + left);
        for _ in 0..1 + self.draw.below(15) {
            print!("in a narrow place: ");
            self.step();
        }
        self.check();
        self.fs.set_capacity(space.total_bytes);
        self.room = Room::Plenty;
    }

    /// The clock goes on, stands, and is set back.
    fn tick(&self) {
        let now = self.clock.now().as_millis();
        let now = match self.draw.below(20) {
            0 => now - self.draw.below(5_000),
            1..10 => now,
            _ => now + self.draw.below(1_000),
        };
        self.clock.set(Timestamp::from_millis(now));
    }

    /// A stamp that was never given before.
    pub(super) fn fresh(&mut self, stamp: u64) {
        assert!(stamp > self.last, "{stamp} after {}", self.last);
        self.last = stamp;
    }
}

/// All records of a store as they are, and what it counts.
fn everything(store: &Store, world: &World) -> impl PartialEq + std::fmt::Debug + use<> {
    let mut versions = Vec::new();
    let mut uploads = Vec::new();
    for (name, bucket) in &world.buckets {
        versions.extend(bucket.all().map(|(key, object)| store.find(name, key, object.selector()).unwrap()));
        uploads.extend(bucket.uploads.keys().map(|(key, id)| store.upload(name, key, *id).unwrap()));
    }
    let health = store.health();
    (store.buckets(), versions, uploads, health.buckets, health.versions, health.live_bytes)
}
