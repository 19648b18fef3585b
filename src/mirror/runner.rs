//! The threads of a mirror, and its figures.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, RecvTimeoutError};

use super::due_keys::{DueKey, DueKeys, DueWork, LatestChange, TakenKey};
use super::key_copy::{KeyCopied, KeyCopy};
use super::members::{Members, OccupiedBucket};
use super::refusals::{MirrorRefusal, Refusals};
use super::rule_copy::NotCopied;
use super::rules::{CopyProgress, MirrorRules, ReadPlace};
use super::settings::{MirrorPlace, MirrorSettings};
use super::target::{HttpTarget, MirrorTarget};
use super::target_buckets::{BucketContext, TargetBuckets};
use crate::base::{Clock, Entropy as _, NOT_POISONED, OsEntropy, SeededEntropy, Timestamp};
use crate::client::{CircuitBreaker, RateLimit};
use crate::store::{
    Beginning, BucketConfigurationKind, Change, ChangeBatch, ChangeKind, DepartedBuckets, FollowPosition,
    Follower, MirroredPlace, Store, StoreError, TargetOrigin, VersionId, Versioning,
};
use crate::transfer::{Peer, PeerError};

/// Changes that are read at a time.
const BATCH: usize = 500;
/// Keys that are due before no more changes are read.
const DUE_MAX: usize = 20_000;
/// Keys that the target has in addition, of one step.
const EXTRA_MAX: usize = 5_000;
/// The interval of looks for changes, and of looks at the end of a pause.
const LOOK_EVERY: Duration = Duration::from_millis(200);
/// The interval of looks after what the target could not take before.
const LOOK_AGAIN: Duration = Duration::from_secs(60);
/// The longest silence of the target.
const SILENCE_MAX: Duration = Duration::from_secs(30);

/// The state of a mirror.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum MirrorState {
    /// It copies what is due.
    #[default]
    Running,
    /// The target does not answer, or is not able to: what is due is tried again.
    Unreachable,
    /// It is not an hour at which it copies.
    Paused,
    /// The target has objects in all of its buckets that it did not send: a resync takes them over.
    Occupied,
}

/// The figures of a mirror, counted since the start of the server.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MirrorFigures {
    /// Its name.
    pub name: String,
    /// The server and the bucket of the target.
    pub target: String,
    /// Its state.
    pub state: MirrorState,
    /// Keys that are due.
    pub due_keys: u64,
    /// Keys that failed, and are tried again.
    pub failing_keys: u64,
    /// Keys that the target refused, and that are not tried before they change, or before a start
    /// or a resync.
    pub refused_keys: u64,
    /// The refused keys, as far as they are listed.
    pub refused: Vec<MirrorRefusal>,
    /// The buckets whose counterparts have objects that it did not send. They wait for a resync.
    pub occupied: Vec<OccupiedBucket>,
    /// Objects that were sent.
    pub objects: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Objects, versions and delete markers that were removed.
    pub removed: u64,
    /// The last error, and its time.
    pub last_error: Option<(Timestamp, String)>,
}

/// A mirror.
pub struct Mirror {
    settings: MirrorSettings,
    peer: Peer,
    clock: Arc<dyn Clock>,
    keys: DueKeys,
    /// The place in the log up to which keys were made due.
    read_place: ReadPlace,
    refusals: Refusals,
    pub(super) members: Members,
    pub(super) rate: Option<RateLimit>,
    breaker: Mutex<CircuitBreaker>,
    /// Whether the last step of the feed did not reach the target.
    feed_fails: AtomicBool,
    jitter: SeededEntropy,
    figures: Mutex<MirrorFigures>,
    /// Whether the operator asked to start over.
    resync: AtomicBool,
    /// Whether a bucket joined whose keys may have been passed over.
    walk: AtomicBool,
}

/// The pauses of the threads of a mirror, which a stop ends.
#[derive(Debug, Clone, Copy)]
pub(super) struct MirrorPauses {
    /// Where there is nothing to do.
    pub(super) look: Duration,
    /// After an error.
    pub(super) error: Duration,
}

/// The mirrors of a server.
#[derive(Default)]
pub struct Mirrors(Vec<Arc<Mirror>>);

/// The reading side of a mirror.
pub(super) struct MirrorFeed {
    pub(super) follower: Follower,
    names: HashMap<u64, String>,
    departed: DepartedBuckets,
    /// The end of a walk, after which the target is searched for keys that the store does not have.
    search: Option<FollowPosition>,
    /// Whether the walk sends what the target lacks, wherever it came from.
    refills: bool,
    /// The beginning was allowed.
    begun: bool,
    pub(super) buckets: TargetBuckets,
    /// The keys of a batch, which become due when it is known what the buckets before them are to
    /// the mirror.
    read: Option<ReadKeys>,
    /// The time of the next look after what the target could not take before.
    next_look: Instant,
    /// The last group before this feed: what an earlier process did of it, in whole or in part, is
    /// not known.
    before: u64,
}

/// The keys of a batch.
struct ReadKeys {
    due: Vec<(DueKey, DueWork)>,
    end: FollowPosition,
    is_end_of_walk: bool,
}

/// Why a feed could not go on.
#[derive(Debug)]
pub(super) enum FeedError {
    Store(StoreError),
    Target(PeerError),
}

impl From<StoreError> for FeedError {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

impl From<PeerError> for FeedError {
    fn from(error: PeerError) -> Self {
        Self::Target(error)
    }
}

impl FeedError {
    fn text(self) -> String {
        match self {
            Self::Store(error) => error.to_string(),
            Self::Target(error) => error.text(),
        }
    }
}

impl Mirrors {
    /// The mirrors, none of which runs yet.
    ///
    /// # Errors
    /// A message that names the mirror.
    pub fn new(settings: Vec<MirrorSettings>, clock: &Arc<dyn Clock>) -> Result<Self, String> {
        let mut mirrors = Vec::new();
        for settings in settings {
            let name = settings.name.clone();
            let mirror = Mirror::new(settings, Arc::clone(clock)).map_err(|why| format!("{name}: {why}"))?;
            mirrors.push(Arc::new(mirror));
        }
        Ok(Self(mirrors))
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<Mirror>> {
        self.0.iter()
    }

    /// The mirror of that name.
    pub fn get(&self, name: &str) -> Option<&Mirror> {
        self.0.iter().map(AsRef::as_ref).find(|mirror| mirror.settings.name == name)
    }
}

impl Mirror {
    /// A mirror that does not run yet.
    ///
    /// # Errors
    /// No authority for certificates is known.
    pub fn new(settings: MirrorSettings, clock: Arc<dyn Clock>) -> Result<Self, String> {
        let endpoint = settings.server.unresolved()?.with_patience(SILENCE_MAX);
        let signer = settings.server.signer();
        let figures = MirrorFigures {
            name: settings.name.clone(),
            target: settings.target(),
            ..MirrorFigures::default()
        };
        Ok(Self {
            peer: Peer { endpoint, signer, bucket: String::new() },
            clock,
            keys: DueKeys::default(),
            read_place: ReadPlace::default(),
            refusals: Refusals::default(),
            members: Members::new(&settings.name),
            rate: RateLimit::new(settings.rate),
            breaker: Mutex::default(),
            feed_fails: AtomicBool::default(),
            jitter: SeededEntropy::new(OsEntropy.next_u64()),
            figures: Mutex::new(figures),
            resync: AtomicBool::new(false),
            walk: AtomicBool::new(false),
            settings,
        })
    }

    /// Its name, which is its follower's, too.
    pub fn name(&self) -> &str {
        &self.settings.name
    }

    /// Its figures.
    pub fn figures(&self) -> MirrorFigures {
        let due_keys = self.keys.len() as u64;
        let failing_keys = self.keys.failing() as u64;
        let (refused, unlisted) = self.refusals.shown();
        let refused_keys = refused.len() as u64 + unlisted;
        let occupied = self.members.occupied();
        let counted = self.counted().clone();
        let is_away = self.breaker().has_failed() || self.feed_fails.load(Ordering::Relaxed);
        let state = match counted.state {
            MirrorState::Running if is_away => MirrorState::Unreachable,
            state => state,
        };
        MirrorFigures { state, due_keys, failing_keys, refused_keys, refused, occupied, ..counted }
    }

    /// The public ids of the stores that changes reach by this mirror, as far as it knows them.
    pub fn reached_stores(&self) -> Vec<String> {
        self.members.reached()
    }

    /// Whether it sends objects of a bucket, whatever the rules of that say.
    pub fn sends(&self, bucket: &str) -> bool {
        !self.settings.replication && !self.settings.prefixes_of(bucket).is_empty()
    }

    /// Whether the rules of buckets say what it sends.
    pub fn follows_rules(&self) -> bool {
        self.settings.replication
    }

    /// How far a version is that rules send to it. `last_group` is the last one of the
    /// log that its commit can be in ([`Store::last_group_of`]).
    pub fn progress(
        &self,
        bucket: (u64, &str),
        key: &str,
        version: VersionId,
        last_group: u64,
    ) -> CopyProgress {
        let due = DueKey { bucket: (bucket.0, bucket.1.to_owned()), key: key.to_owned() };
        // The place comes first: a key that becomes due in between is found then.
        let is_read = self.read_place.includes(last_group);
        if !is_read || self.members.is_occupied(bucket.0) || self.keys.has_version(&due, version) {
            return CopyProgress::Due;
        }
        // A key is in the list before it is not due any more.
        match self.refusals.has_version(&due, version) {
            true => CopyProgress::Refused,
            false => CopyProgress::Done,
        }
    }

    /// The places at the target of a bucket; none where rules send nothing of it.
    fn places_of(&self, store: &Store, id: u64, name: &str) -> Vec<MirroredPlace> {
        self.settings.places_here(store, id, name)
    }

    /// The server of the target.
    pub fn peer(&self) -> &Peer {
        &self.peer
    }

    /// Lets everything that waits try again now.
    #[cfg(test)]
    pub(super) fn retry_now(&self) {
        self.breaker().succeeded();
        self.keys.retry_now();
    }

    /// Lets it start over: every key is compared, what only the target has is removed there, and
    /// occupied buckets are taken over.
    pub fn resync(&self) {
        self.resync.store(true, Ordering::Release);
    }

    /// Mirrors until `stopped` is disconnected.
    pub fn run(&self, store: &Store, stopped: &Receiver<()>) {
        self.run_with(store, stopped, MirrorPauses { look: LOOK_EVERY, error: LOOK_EVERY * 10 });
    }

    pub(super) fn run_with(&self, store: &Store, stopped: &Receiver<()>, pauses: MirrorPauses) {
        let begun = self.clock.now();
        thread::scope(|scope| {
            for _ in 0..self.settings.workers {
                scope.spawn(move || self.run_worker(store, begun, stopped, pauses));
            }
            let mut feed = self.feed(store);
            let mut target = HttpTarget::new(&self.peer, begun);
            let mut pause = Duration::ZERO;
            while stopped.recv_timeout(pause) == Err(RecvTimeoutError::Timeout) {
                let step = feed.step(self, store, &mut target);
                // An error of the own store, or a refusal, does not call the target unreachable.
                let fails = matches!(step, Err(FeedError::Target(PeerError::Passing(_))));
                self.feed_fails.store(fails, Ordering::Relaxed);
                pause = match step {
                    Ok(true) => Duration::ZERO,
                    Ok(false) => pauses.look,
                    Err(error) => {
                        self.note(error.text());
                        pauses.error
                    }
                };
            }
            // Workers that wait for a key look whether they are stopped.
            self.keys.close();
            feed.end(self, store);
        });
    }

    fn run_worker(&self, store: &Store, begun: Timestamp, stopped: &Receiver<()>, pauses: MirrorPauses) {
        let mut target = HttpTarget::new(&self.peer, begun);
        let mut pause = Duration::ZERO;
        while stopped.recv_timeout(pause) == Err(RecvTimeoutError::Timeout) {
            let has_tried = self.work(store, &mut target, pauses.look);
            pause = if has_tried || self.has_waited() { Duration::ZERO } else { pauses.look };
        }
    }

    /// Whether a worker that copied nothing has waited for a key.
    pub(super) fn has_waited(&self) -> bool {
        self.keys.len() == 0 && self.is_active_hour()
    }

    pub(super) fn feed(&self, store: &Store) -> MirrorFeed {
        let follower = store.follower(&self.settings.name, Beginning::Snapshot);
        // What earlier runs noted is known before any key is due: workers wait for keys already.
        self.refusals.restore(store, follower.refused());
        self.members.load(store);
        if self.follows_rules() {
            self.read_place.begin(store, self.name());
        }
        self.try_refused();
        self.try_uploads(store);
        let mut buckets = TargetBuckets::default();
        buckets.want_all(store);
        MirrorFeed {
            follower,
            names: HashMap::new(),
            departed: DepartedBuckets::default(),
            search: None,
            refills: false,
            begun: false,
            buckets,
            read: None,
            next_look: Instant::now(),
            before: store.health().sequence,
        }
    }

    /// Makes the keys due whose uploads in parts an earlier run left at the target.
    fn try_uploads(&self, store: &Store) {
        let mut due = Vec::new();
        for left in self.members.left_uploads() {
            let live = store.bucket(&left.source).map_or(left.id, |bucket| bucket.id);
            due.push((DueKey { bucket: (live, left.source), key: left.key }, DueWork::of_comparison()));
        }
        self.keys.add(due, None);
    }

    /// Makes the refused keys of the list due again. One more refusal sets them aside.
    fn try_refused(&self) {
        let again = self.refusals.keys().into_iter().map(|due| (due, DueWork::of_comparison()));
        self.keys.add(again.collect(), None);
    }

    /// Copies a key that is due; `false` if there is none, or none may be tried now.
    pub(super) fn work(&self, store: &Store, target: &mut dyn MirrorTarget, wait: Duration) -> bool {
        if !self.is_active_hour() {
            return false;
        }
        let Some(taken) = self.keys.take(wait) else { return false };
        if self.awaits_bucket(store, &taken) {
            self.keys.failed(taken, &self.jitter);
            return true;
        }
        // An outage is no failure of the key, which stays the next one.
        if self.breaker().admit(Instant::now()).is_err() {
            self.keys.not_tried(taken);
            return false;
        }
        match self.copy(store, target, &taken) {
            Ok(copied) => {
                self.breaker().succeeded();
                self.count(copied);
                // The list comes first here, too, so that it is saved without the key. By rules,
                // only the versions that were due have been sent.
                let sent = taken.work.oldest.filter(|_| self.follows_rules());
                self.refusals.copied_since(&taken.due, sent.unwrap_or(VersionId(0)));
                self.keys.copied(taken, copied.is_there);
            }
            Err(error) => self.not_copied(taken, error),
        }
        true
    }

    fn not_copied(&self, taken: TakenKey, NotCopied { error, first }: NotCopied) {
        let is_outage = matches!(error, PeerError::Passing(_));
        let is_refused = matches!(error, PeerError::Lasting(_) | PeerError::Unsupported(_));
        let why = error.text();
        match is_outage {
            true => self.breaker().failed(Instant::now(), &why),
            false => self.breaker().succeeded(),
        }
        self.note(format!("{}/{}: {why}", taken.due.bucket.1, taken.due.key));
        // A key that rules send is set aside only where the list shows it.
        let may_set_aside = !self.follows_rules() || self.refusals.has_room_for(&taken.due);
        let is_lasting = self.refusals.contains(&taken.due) || self.keys.is_refused_for_good(&taken);
        if is_refused && may_set_aside && is_lasting {
            // The list comes first: the position may be saved as soon as the key is done.
            let oldest = taken.work.oldest.unwrap_or(VersionId(0));
            self.refusals.add(&taken.due, oldest..first.max(oldest), self.clock.now(), &why);
            self.keys.set_aside(taken);
        } else {
            self.keys.failed(taken, &self.jitter);
        }
    }

    fn copy(
        &self,
        store: &Store,
        target: &mut dyn MirrorTarget,
        taken: &TakenKey,
    ) -> Result<KeyCopied, NotCopied> {
        let due = &taken.due;
        let (id, name) = &due.bucket;
        for left in self.members.left_of(name, &due.key) {
            let place = MirrorPlace { bucket: left.bucket.clone(), key: left.target_key.clone() };
            match target.abort_uploads(&place) {
                Ok(()) => self.members.end_upload(store, &left)?,
                // Its user may not do so. The key itself is copied all the same.
                Err(PeerError::Lasting(why)) => self.note(format!("an upload is left at the target: {why}")),
                Err(error) => return Err(error.into()),
            }
        }
        let done = KeyCopied::default();
        let Some(place) = self.settings.place(name, &due.key) else { return Ok(done) };
        let is_gone = store.followed_bucket(*id).is_none();
        if self.members.is_occupied(*id) || (is_gone && !self.members.had_joined(*id, &place.bucket)) {
            return Ok(done);
        }
        let members = &self.members;
        let rate = self.rate.as_ref();
        let copy = KeyCopy { store, target, members, rate, place: &place, due, done };
        if !self.follows_rules() {
            return Ok(copy.run(&taken.work)?);
        }
        match MirrorRules::of(store, name, self.name()) {
            Some(rules) if !is_gone => copy.run_by_rules(&taken.work, &rules),
            _ => Ok(done),
        }
    }

    /// Whether the bucket of a key has not joined yet. Those that are gone had joined, or their
    /// keys were not due.
    fn awaits_bucket(&self, store: &Store, taken: &TakenKey) -> bool {
        let (id, name) = &taken.due.bucket;
        let places = self.places_of(store, *id, name);
        store.followed_bucket(*id).is_some()
            && !self.members.is_occupied(*id)
            && !self.members.have_joined(&places)
    }

    fn is_active_hour(&self) -> bool {
        let is_active = self.settings.hours.include(self.clock.now());
        let mut figures = self.counted();
        match (is_active, figures.state) {
            (false, MirrorState::Running) => figures.state = MirrorState::Paused,
            (true, MirrorState::Paused) => figures.state = MirrorState::Running,
            _ => {}
        }
        is_active
    }

    fn set_occupied(&self, is_occupied: bool) {
        let mut figures = self.counted();
        match (is_occupied, figures.state) {
            (true, _) => figures.state = MirrorState::Occupied,
            (false, MirrorState::Occupied) => figures.state = MirrorState::Running,
            _ => {}
        }
    }

    fn count(&self, copied: KeyCopied) {
        let mut figures = self.counted();
        figures.objects += copied.objects;
        figures.bytes += copied.bytes;
        figures.removed += copied.removed;
    }

    /// Remembers an error, and logs it unless the last one said the same.
    fn note(&self, why: String) {
        let now = self.clock.now();
        let mut figures = self.counted();
        if figures.last_error.as_ref().is_none_or(|(_, last)| *last != why) {
            log::warn!("mirror {}: {why}", self.settings.name);
        }
        figures.last_error = Some((now, why));
    }

    fn counted(&self) -> MutexGuard<'_, MirrorFigures> {
        self.figures.lock().expect(NOT_POISONED)
    }

    fn breaker(&self) -> MutexGuard<'_, CircuitBreaker> {
        self.breaker.lock().expect(NOT_POISONED)
    }
}

impl MirrorFeed {
    /// Reads the next changes, and informs the follower how far the copies are; `false` if there is
    /// nothing to do at once.
    pub(super) fn step(
        &mut self,
        mirror: &Mirror,
        store: &Store,
        target: &mut dyn MirrorTarget,
    ) -> Result<bool, FeedError> {
        // The list of refused keys comes before the position, and is saved with it. A position
        // without them would pass over keys that were neither copied nor listed.
        if let Some(end) = mirror.keys.done() {
            self.follower.set_refused(mirror.refusals.saved());
            self.follower.done_through(store, end)?;
        }
        self.begin_notes(mirror, store)?;
        // A bucket that takes the place of another one is looked for when the keys of that are
        // done.
        if let Some(read) = self.read.take_if(|_| self.buckets.wants_any()) {
            self.read = Some(self.held_back(mirror, store, read));
        }
        self.make_buckets(mirror, store, target)?;
        self.start_over(mirror, store)?;
        // Keys are read from the log no faster than they are copied: the memory for those that are
        // due is bounded.
        if !self.may_begin(mirror, store) || mirror.keys.len() >= DUE_MAX {
            return Ok(false);
        }
        if let Some(read) = self.read.take() {
            return Ok(self.hand_out(mirror, read));
        }
        if self.search.is_some() {
            return self.search_target(mirror, store, target);
        }
        // The groups that are published before the look: it finds no change only where it has read
        // all of them, also those that hold positions alone.
        let published = store.published_sequence();
        let Some(batch) = self.follower.next(store, BATCH)? else {
            mirror.read_place.advance(published);
            self.look_after(mirror, store, target)?;
            return Ok(false);
        };
        self.read = Some(self.due_keys(mirror, store, batch)?);
        Ok(true)
    }

    /// Notes the buckets of a mirror that earlier versions of the server began: they stay as they
    /// are.
    fn begin_notes(&self, mirror: &Mirror, store: &Store) -> Result<(), StoreError> {
        if mirror.members.is_begun() {
            return Ok(());
        }
        if !store.has_follower(mirror.name()) {
            return mirror.members.begin(store, 0, Vec::new());
        }
        let buckets = store.buckets().into_iter();
        let joined = buckets.flat_map(|bucket| mirror.places_of(store, bucket.id, &bucket.name));
        mirror.members.begin(store, store.health().sequence, joined.collect())
    }

    /// Starts over, as the operator or a bucket with unknown keys asks. The operator confirms the
    /// buckets that are occupied.
    fn start_over(&mut self, mirror: &Mirror, store: &Store) -> Result<(), FeedError> {
        let is_confirmed = mirror.resync.load(Ordering::Acquire);
        if !is_confirmed && !mirror.walk.load(Ordering::Acquire) {
            return Ok(());
        }
        if is_confirmed {
            for id in mirror.members.occupied_ids() {
                let Some(bucket) = store.followed_bucket(id) else { continue };
                log::info!("mirror {}: {} is taken over at the target", mirror.name(), bucket.name);
                let places = mirror.places_of(store, id, &bucket.name);
                mirror.members.join(store, &places, TargetOrigin::Found)?;
            }
        }
        mirror.refusals.count_again();
        self.follower.set_refused(mirror.refusals.saved());
        self.follower.walk_again(store)?;
        mirror.try_refused();
        // Forgotten only once the walk is durable: after an error of the store the next step tries
        // again.
        mirror.walk.store(false, Ordering::Release);
        mirror.read_place.forget();
        if is_confirmed {
            mirror.resync.store(false, Ordering::Release);
        }
        (self.search, self.read, self.refills) = (None, None, true);
        mirror.keys.retry_now();
        Ok(())
    }

    /// Makes keys due, except keys of buckets that are still looked for, which are returned.
    /// Nobody looks for one that is gone.
    fn held_back(&self, mirror: &Mirror, store: &Store, read: ReadKeys) -> ReadKeys {
        let (held, ready): (Vec<_>, Vec<_>) = read.due.into_iter().partition(|(due, _)| {
            let id = due.bucket.0;
            self.buckets.wants(id) && store.followed_bucket(id).is_some()
        });
        mirror.keys.add(ready, None);
        ReadKeys { due: held, ..read }
    }

    /// Makes all keys due; `false` if some of their buckets are still looked for.
    fn hand_out(&mut self, mirror: &Mirror, read: ReadKeys) -> bool {
        if read.due.iter().any(|(due, _)| self.buckets.wants(due.bucket.0)) {
            self.read = Some(read);
            return false;
        }
        if read.is_end_of_walk {
            self.search = Some(read.end);
            self.refills = false;
        } else {
            let place = read.end.read_through();
            mirror.keys.add(read.due, Some(read.end));
            mirror.read_place.advance(place);
        }
        true
    }

    /// What there is to do while nothing changes.
    fn look_after(
        &mut self,
        mirror: &Mirror,
        store: &Store,
        target: &mut dyn MirrorTarget,
    ) -> Result<(), FeedError> {
        let is_due = Instant::now() >= self.next_look;
        if !mirror.members.take_richer() && !is_due {
            return Ok(());
        }
        // Set before the requests: a target that answers with errors is not asked at each step.
        self.next_look = Instant::now() + LOOK_AGAIN;
        if let Some(place) = joined_places(mirror, store).first() {
            let there = target.store(&place.bucket)?;
            mirror.members.learn_store(there.as_ref(), &store.public_id());
        }
        let mut richer = Vec::new();
        for id in mirror.members.partial() {
            let Some(bucket) = store.followed_bucket(id) else { continue };
            if target.keeps_versions(&mirror.settings.bucket_for(&bucket.name), true)? {
                richer.push(id);
            }
        }
        if !richer.is_empty() {
            // The walk is durable before the reason for it is forgotten.
            mirror.walk.store(true, Ordering::Release);
            self.start_over(mirror, store)?;
            mirror.members.clear_partial(store, &richer)?;
        }
        if mirror.keys.len() == 0 && store.is_followed(mirror.name()) {
            // The position comes first: changes of a bucket that is gone, read once more after a
            // restart, would find no place.
            self.follower.save(store)?;
            mirror.members.forget_departed(store)?;
        }
        Ok(())
    }

    /// Saves the position that is done.
    pub(super) fn end(&mut self, mirror: &Mirror, store: &Store) {
        let end = mirror.keys.done();
        self.follower.set_refused(mirror.refusals.saved());
        let done = end.map_or(Ok(()), |end| self.follower.done_through(store, end));
        if let Err(error) = done.and_then(|()| self.follower.save(store)) {
            log::info!("mirror {}: its position is not saved: {error}", mirror.name());
        }
    }

    /// Looks for the buckets at the target, and makes those that it lacks. One that was lost there
    /// is filled again by comparing everything.
    fn make_buckets(
        &mut self,
        mirror: &Mirror,
        store: &Store,
        target: &mut dyn MirrorTarget,
    ) -> Result<(), FeedError> {
        let Mirror { settings, members, keys, .. } = mirror;
        let context = BucketContext { settings, members, keys, store };
        let done = self.buckets.make(&context, target)?;
        for (bucket, has_keys) in &done.joined {
            log::info!("mirror {}: the bucket {bucket} at the target has joined", mirror.name());
            if *has_keys && store.has_follower(mirror.name()) {
                mirror.walk.store(true, Ordering::Release);
            }
        }
        if !done.joined.is_empty() {
            mirror.keys.retry_now();
        }
        if let Some(why) = done.refusal {
            mirror.note(why);
        }
        Ok(())
    }

    /// A new mirror whose buckets are all occupied does not begin.
    fn may_begin(&mut self, mirror: &Mirror, store: &Store) -> bool {
        let is_occupied = mirror.members.is_empty() && !mirror.members.occupied_ids().is_empty();
        mirror.set_occupied(is_occupied);
        self.begun = self.begun || store.has_follower(mirror.name()) || !is_occupied;
        self.begun
    }

    /// The keys that a batch makes due.
    fn due_keys(
        &mut self,
        mirror: &Mirror,
        store: &Store,
        batch: ChangeBatch,
    ) -> Result<ReadKeys, StoreError> {
        let is_end_of_walk = batch.range.as_ref().is_some_and(|range| range.through.is_none());
        let compare = batch.end.is_in_snapshot();
        let mut due = Vec::new();
        for change in batch.changes {
            due.extend(self.due_key(mirror, store, change, compare)?);
        }
        Ok(ReadKeys { due, end: batch.end, is_end_of_walk })
    }

    fn due_key(
        &mut self,
        mirror: &Mirror,
        store: &Store,
        change: Change,
        compare: bool,
    ) -> Result<Option<(DueKey, DueWork)>, StoreError> {
        if mirror.follows_rules()
            && let Some(own) = self.due_by_rules(mirror, &change)
        {
            let Some(work) = own else { return Ok(None) };
            return self.due_of(mirror, store, change, work, compare);
        }
        let work = match &change.kind {
            ChangeKind::BucketPut(record) => {
                self.names.insert(change.bucket, record.name.clone());
                let is_new = !compare && !mirror.members.is_occupied(change.bucket);
                self.buckets.want(change.bucket, is_new);
                // The bucket may keep versions now, and so may its counterpart.
                self.next_look = Instant::now();
                return Ok(None);
            }
            ChangeKind::BucketDeleted => {
                self.names.remove(&change.bucket);
                self.departed.forget(change.bucket);
                mirror.members.release(change.bucket);
                return Ok(None);
            }
            ChangeKind::Put(record) => {
                // A null version takes the place of another one, which may be far below.
                let of_version = of_versions(mirror, &change, Some(record.id));
                DueWork { is_deep: record.null || change.sequence <= self.before, ..of_version }
            }
            ChangeKind::Deleted(_) => of_versions(mirror, &change, None),
            ChangeKind::Amended(record) if is_of_tags(&change) => {
                if mirror.members.is_from_target(origins_of(&change)) {
                    return Ok(None);
                }
                DueWork { retagged: vec![record.id], ..DueWork::default() }
            }
            _ => return Ok(None),
        };
        self.due_of(mirror, store, change, work, compare)
    }

    /// The work of a change for a mirror that follows rules: `Some(None)` for none, and `None`
    /// where the change is one of a bucket, which concerns all mirrors alike.
    fn due_by_rules(&mut self, mirror: &Mirror, change: &Change) -> Option<Option<DueWork>> {
        match &change.kind {
            ChangeKind::BucketPut(_) | ChangeKind::BucketDeleted => None,
            ChangeKind::BucketConfigured(BucketConfigurationKind::Replication) => {
                // Other objects may be selected now, also of those that are there.
                self.buckets.want(change.bucket, false);
                mirror.walk.store(true, Ordering::Release);
                Some(None)
            }
            ChangeKind::Put(record) if origins_of(change).is_empty() => {
                Some(Some(DueWork { versions: true, oldest: Some(record.id), ..DueWork::default() }))
            }
            ChangeKind::Amended(record) if is_of_tags(change) && origins_of(change).is_empty() => {
                let retagged = vec![record.id];
                Some(Some(DueWork { retagged, oldest: Some(record.id), ..DueWork::default() }))
            }
            // A version that is gone here stays at the target.
            _ => Some(None),
        }
    }

    /// The key of a change, if it is mirrored, with the work of it.
    fn due_of(
        &mut self,
        mirror: &Mirror,
        store: &Store,
        change: Change,
        work: DueWork,
        compare: bool,
    ) -> Result<Option<(DueKey, DueWork)>, StoreError> {
        let Some(name) = self.name_of(store, change.bucket)? else { return Ok(None) };
        let Some(id) = member_of(mirror, store, &name, &change) else { return Ok(None) };
        let Ok(key) = String::from_utf8(change.key) else { return Ok(None) };
        let due = DueKey { bucket: (id, name), key };
        let is_mirrored = match mirror.follows_rules() {
            true => MirrorRules::of(store, &due.bucket.1, mirror.name())
                .is_some_and(|rules| rules.may_send(&due.key)),
            false => mirror.settings.place(&due.bucket.1, &due.key).is_some(),
        };
        let refill = compare && self.refills;
        let latest = work.latest.clone().filter(|_| !compare);
        let oldest = if compare { Some(VersionId(0)) } else { work.oldest };
        Ok(is_mirrored.then_some((due, DueWork { compare, refill, latest, oldest, ..work })))
    }

    /// The name of a bucket, which may be gone; `None` where the log does not name it, as for
    /// an earlier version of the server.
    fn name_of(&mut self, store: &Store, id: u64) -> Result<Option<String>, StoreError> {
        if let Some(name) = self.names.get(&id) {
            return Ok(Some(name.clone()));
        }
        let name = match store.followed_bucket(id) {
            Some(present) => Some(present.name.clone()),
            None => self.departed.get(store, &self.follower, id)?.map(|gone| gone.record.name.clone()),
        };
        self.names.extend(name.clone().map(|name| (id, name)));
        Ok(name)
    }

    /// Makes the keys due that only the target has. The walk is done after them.
    fn search_target(
        &mut self,
        mirror: &Mirror,
        store: &Store,
        target: &mut dyn MirrorTarget,
    ) -> Result<bool, FeedError> {
        // Other keys that are due are not there yet, or not gone.
        if mirror.keys.unrefused() > 0 {
            return Ok(false);
        }
        let mut extra = Vec::new();
        // In a circle, what only the target has may be new there, and on its way to this store.
        // Rules remove nothing there.
        let is_left = mirror.members.is_in_cycle() || mirror.follows_rules();
        let places = if is_left { Vec::new() } else { joined_places(mirror, store) };
        for place in places {
            let id = place.id;
            let Some(source) = store.followed_bucket(id) else { continue };
            let name = source.name.clone();
            let all_versions = source.versioning != Versioning::Unset;
            target.visit(&place.bucket, &place.prefix, all_versions, &mut |found| {
                let key = found.strip_prefix(&*mirror.settings.target_prefix).unwrap_or(found);
                let newest = store.followed_versions(id, key.as_bytes(), 1);
                let is_known = newest.is_some_and(|it| !it.versions.is_empty());
                if !is_known {
                    let due = DueKey { bucket: (id, name.clone()), key: key.to_owned() };
                    extra.push((due, DueWork::of_comparison()));
                }
                extra.len() < EXTRA_MAX
            })?;
        }
        let is_all = extra.len() < EXTRA_MAX;
        let end = self.search.take_if(|_| is_all);
        if let Some(end) = &end {
            mirror.read_place.advance(end.read_through());
        }
        mirror.keys.add(extra, end);
        Ok(true)
    }
}

/// Whether a change of metadata is one of tags: others do not concern the target.
fn is_of_tags(change: &Change) -> bool {
    change.cause.as_ref().is_some_and(|cause| cause.operation.ends_with("ObjectTagging"))
}

/// The work that a change of versions makes.
fn of_versions(mirror: &Mirror, change: &Change, version: Option<VersionId>) -> DueWork {
    let origins = origins_of(change).to_vec();
    // It is remembered that the target's changes come here.
    let is_from_target = mirror.members.is_from_target(&origins);
    let made_here = version.is_some() && !is_from_target;
    let latest = Some(LatestChange { version, origins });
    DueWork { versions: true, is_deep: version.is_none(), made_here, latest, ..DueWork::default() }
}

fn origins_of(change: &Change) -> &[String] {
    change.cause.as_ref().map_or(&[], |cause| &cause.origins)
}

/// The bucket that a change concerns at the target; `None` for one that has not joined.
fn member_of(mirror: &Mirror, store: &Store, name: &str, change: &Change) -> Option<u64> {
    let id = change.bucket;
    let members = &mirror.members;
    if store.followed_bucket(id).is_some() {
        return Some(id).filter(|id| !members.is_occupied(*id));
    }
    // A bucket with the same counterpart has taken the place of one that is gone: two keys must not
    // be copied to one place.
    let live = store.bucket(name).ok().map(|bucket| bucket.id);
    let live = live.filter(|id| members.have_joined(&mirror.places_of(store, *id, name)));
    members.trust_former(id, change.sequence);
    live.or_else(|| Some(id).filter(|id| members.had_joined(*id, &mirror.settings.bucket_for(name))))
}

/// The places at the target of the buckets that have joined.
fn joined_places(mirror: &Mirror, store: &Store) -> Vec<MirroredPlace> {
    let buckets = store.buckets().into_iter();
    let places = buckets.map(|bucket| mirror.places_of(store, bucket.id, &bucket.name));
    places.filter(|places| mirror.members.have_joined(places)).flatten().collect()
}
