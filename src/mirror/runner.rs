//! The threads of a mirror, and its figures.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use super::due_keys::{DueKey, DueKeys, DueWork, TakenKey};
use super::key_copy::{KeyCopied, KeyCopy};
use super::refusals::{MirrorRefusal, Refusals};
use super::settings::MirrorSettings;
use super::target::{HttpTarget, MirrorTarget};
use super::target_buckets::TargetBuckets;
use crate::base::{Clock, Entropy as _, OsEntropy, SeededEntropy, Timestamp};
use crate::client::{CircuitBreaker, RateLimit};
use crate::store::{
    Beginning, Change, ChangeBatch, ChangeKind, DepartedBuckets, FollowPosition, Follower, Store, StoreError,
    Versioning,
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
/// The longest silence of the target.
const SILENCE_MAX: Duration = Duration::from_secs(30);

/// The state of a mirror.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum MirrorState {
    /// It copies what is due.
    #[default]
    Running,
    /// It is not an hour at which it copies.
    Paused,
    /// It is new, and the target has objects: a resync takes them over.
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
    /// Keys that the target refused, and that are not tried before they change, or before a start or a resync.
    pub refused_keys: u64,
    /// The refused keys, as far as they are listed.
    pub refused: Vec<MirrorRefusal>,
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
    refusals: Refusals,
    pub(super) rate: Option<RateLimit>,
    breaker: Mutex<CircuitBreaker>,
    jitter: SeededEntropy,
    figures: Mutex<MirrorFigures>,
    resync: AtomicBool,
    stopped: AtomicBool,
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
    /// The beginning was allowed.
    begun: bool,
    pub(super) buckets: TargetBuckets,
    /// The keys of a batch, which become due when the target has the buckets before them.
    read: Option<ReadKeys>,
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
        let mirror = |settings: MirrorSettings| {
            let name = settings.name.clone();
            Mirror::new(settings, Arc::clone(clock)).map(Arc::new).map_err(|why| format!("{name}: {why}"))
        };
        settings.into_iter().map(mirror).collect::<Result<_, _>>().map(Self)
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
            refusals: Refusals::default(),
            rate: RateLimit::new(settings.rate),
            breaker: Mutex::default(),
            jitter: SeededEntropy::new(OsEntropy.next_u64()),
            figures: Mutex::new(figures),
            resync: AtomicBool::new(false),
            stopped: AtomicBool::new(false),
            settings,
        })
    }

    /// Its name, which is that of its follower.
    pub fn name(&self) -> &str {
        &self.settings.name
    }

    /// Its figures.
    pub fn figures(&self) -> MirrorFigures {
        let (due_keys, failing_keys) = (self.keys.len() as u64, self.keys.failing() as u64);
        let (refused, unlisted) = self.refusals.shown();
        let refused_keys = refused.len() as u64 + unlisted;
        MirrorFigures { due_keys, failing_keys, refused_keys, refused, ..self.counted().clone() }
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

    /// Lets it start over: every key is compared, and what only the target has is removed there.
    pub fn resync(&self) {
        self.resync.store(true, Ordering::Release);
    }

    /// Lets [`Mirror::run`] return.
    pub fn stop(&self) {
        self.stopped.store(true, Ordering::Release);
        self.keys.close();
    }

    /// Mirrors until [`Mirror::stop`].
    pub fn run(&self, store: &Store) {
        let begun = self.clock.now();
        thread::scope(|scope| {
            for _ in 0..self.settings.workers {
                scope.spawn(move || self.run_worker(store, begun));
            }
            let (mut feed, mut target) = (self.feed(store), HttpTarget::new(&self.peer, begun));
            while !self.is_stopped() {
                match feed.step(self, store, &mut target) {
                    Ok(true) => {}
                    Ok(false) if self.counted().state == MirrorState::Occupied => {
                        thread::sleep(LOOK_EVERY * 10);
                    }
                    Ok(false) => thread::sleep(LOOK_EVERY),
                    Err(error) => {
                        self.note(error.text());
                        thread::sleep(LOOK_EVERY * 10);
                    }
                }
            }
            feed.end(self, store);
        });
    }

    fn run_worker(&self, store: &Store, begun: Timestamp) {
        let mut target = HttpTarget::new(&self.peer, begun);
        while !self.is_stopped() {
            if !self.work(store, &mut target, LOOK_EVERY) {
                thread::sleep(self.pause());
            }
        }
    }

    /// The pause of a worker that copied nothing: none where it has waited for a key.
    pub(super) fn pause(&self) -> Duration {
        if self.keys.len() == 0 && self.is_active_hour() { Duration::ZERO } else { LOOK_EVERY }
    }

    pub(super) fn feed(&self, store: &Store) -> MirrorFeed {
        let follower = store.follower(&self.settings.name, Beginning::Snapshot);
        self.refusals.restore(store, follower.refused());
        self.try_refused();
        let mut buckets = TargetBuckets::default();
        buckets.want_all(store);
        MirrorFeed {
            follower,
            names: HashMap::new(),
            departed: DepartedBuckets::default(),
            search: None,
            begun: false,
            buckets,
            read: None,
        }
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
        if self.breaker().admit(Instant::now()).is_err() {
            self.keys.not_tried(taken);
            return false;
        }
        match self.copy(store, target, &taken) {
            Ok(copied) => {
                self.breaker().succeeded();
                self.count(copied);
                self.refusals.remove(&taken.due);
                self.keys.copied(taken, copied.is_there);
            }
            Err(error) => self.not_copied(taken, error),
        }
        true
    }

    fn not_copied(&self, taken: TakenKey, error: PeerError) {
        let is_outage = matches!(error, PeerError::Passing(_));
        let is_refused = matches!(error, PeerError::Lasting(_) | PeerError::Unsupported(_));
        let why = error.text();
        match is_outage {
            true => self.breaker().failed(Instant::now(), &why),
            false => self.breaker().succeeded(),
        }
        self.note(format!("{}/{}: {why}", taken.due.bucket.1, taken.due.key));
        let was_refused = || self.refusals.contains(&taken.due);
        if is_refused && (was_refused() || self.keys.is_refused_for_good(&taken)) {
            // The list comes first: the position may be saved as soon as the key is done.
            self.refusals.add(&taken.due, self.clock.now(), &why);
            self.keys.set_aside(taken);
        } else {
            self.keys.failed(taken, self.jitter.next_u64());
        }
    }

    fn copy(
        &self,
        store: &Store,
        target: &mut dyn MirrorTarget,
        taken: &TakenKey,
    ) -> Result<KeyCopied, PeerError> {
        let (bucket, name) = &taken.due.bucket;
        let Some(place) = self.settings.place(name, &taken.due.key) else { return Ok(KeyCopied::default()) };
        KeyCopy::new((store, target, self.rate.as_ref()), taken, &place).run(*bucket, &taken.work)
    }

    fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::Acquire)
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

    fn set_state(&self, state: MirrorState) {
        self.counted().state = state;
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
        self.figures.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn breaker(&self) -> MutexGuard<'_, CircuitBreaker> {
        self.breaker.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl MirrorFeed {
    /// Reads the next changes, and tells the follower how far the copies are; `false` if there is nothing to do at once.
    pub(super) fn step(
        &mut self,
        mirror: &Mirror,
        store: &Store,
        target: &mut dyn MirrorTarget,
    ) -> Result<bool, FeedError> {
        if let Some(end) = mirror.keys.done() {
            self.follower.set_refused(mirror.refusals.saved());
            self.follower.done_through(store, end)?;
        }
        if mirror.resync.load(Ordering::Acquire) {
            mirror.refusals.count_again();
            self.follower.set_refused(mirror.refusals.saved());
            self.follower.walk_again(store)?;
            mirror.try_refused();
            mirror.resync.store(false, Ordering::Release);
            (self.begun, self.search, self.read) = (true, None, None);
            mirror.set_state(MirrorState::Running);
            mirror.keys.retry_now();
        }
        self.make_buckets(mirror, store, target)?;
        if !self.may_begin(mirror, store, target)? || mirror.keys.len() >= DUE_MAX {
            return Ok(false);
        }
        if let Some(ReadKeys { due, end, is_end_of_walk }) = self.read.take() {
            match is_end_of_walk {
                true => self.search = Some(end),
                false => mirror.keys.add(due, Some(end)),
            }
            return Ok(true);
        }
        if self.search.is_some() {
            return self.search_target(mirror, store, target);
        }
        let Some(batch) = self.follower.next(store, BATCH)? else { return Ok(false) };
        self.read = Some(self.due_keys(mirror, store, batch)?);
        Ok(true)
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

    /// Makes the buckets that the target lacks. One that was lost there is filled again by comparing everything.
    fn make_buckets(
        &mut self,
        mirror: &Mirror,
        store: &Store,
        target: &mut dyn MirrorTarget,
    ) -> Result<(), FeedError> {
        let done = self.buckets.make(&mirror.settings, store, target)?;
        for (bucket, was_there) in &done.made {
            log::info!("mirror {}: made the bucket {bucket} at the target", mirror.name());
            if *was_there && store.has_follower(mirror.name()) {
                mirror.resync();
            }
        }
        done.refusal.into_iter().for_each(|why| mirror.note(why));
        Ok(())
    }

    /// A new mirror begins only where the target has nothing that would be taken for its own.
    fn may_begin(
        &mut self,
        mirror: &Mirror,
        store: &Store,
        target: &mut dyn MirrorTarget,
    ) -> Result<bool, FeedError> {
        if self.begun || store.has_follower(mirror.name()) {
            self.begun = true;
            return Ok(true);
        }
        for (_, bucket, prefix) in places(mirror, store) {
            let mut is_empty = true;
            let prefix = format!("{}{prefix}", mirror.settings.target_prefix);
            target.visit(&bucket, (&prefix, false), &mut |_| {
                is_empty = false;
                false
            })?;
            if !is_empty {
                mirror.set_state(MirrorState::Occupied);
                let what = "it is new, and the target has objects: `siltstone mirror resync` takes them over";
                mirror.note(format!("{what} ({bucket}/{prefix})"));
                return Ok(false);
            }
        }
        mirror.set_state(MirrorState::Running);
        self.begun = true;
        Ok(true)
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
        let due = |change| self.due_key(mirror, store, change, compare).transpose();
        let due = batch.changes.into_iter().filter_map(due).collect::<Result<_, _>>()?;
        Ok(ReadKeys { due, end: batch.end, is_end_of_walk })
    }

    fn due_key(
        &mut self,
        mirror: &Mirror,
        store: &Store,
        change: Change,
        compare: bool,
    ) -> Result<Option<(DueKey, DueWork)>, StoreError> {
        let work = match &change.kind {
            ChangeKind::BucketPut(record) => {
                self.names.insert(change.bucket, record.name.clone());
                self.buckets.want(change.bucket);
                return Ok(None);
            }
            ChangeKind::BucketDeleted => {
                self.names.remove(&change.bucket);
                self.departed.forget(change.bucket);
                return Ok(None);
            }
            ChangeKind::Put(_) | ChangeKind::Deleted(_) => DueWork { versions: true, ..DueWork::default() },
            ChangeKind::Amended(record) if is_of_tags(&change) => {
                DueWork { retagged: vec![record.id], ..DueWork::default() }
            }
            _ => return Ok(None),
        };
        let Some(name) = self.name_of(store, change.bucket)? else { return Ok(None) };
        let Ok(key) = String::from_utf8(change.key) else { return Ok(None) };
        let due = DueKey { bucket: (change.bucket, name), key };
        let is_mirrored = mirror.settings.place(&due.bucket.1, &due.key).is_some();
        Ok(is_mirrored.then_some((due, DueWork { compare, ..work })))
    }

    /// The name of a bucket, which may be gone; `None` where the log does not tell it, as that of an earlier version of the server.
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
        for (id, bucket, prefix) in places(mirror, store) {
            let Some(source) = store.followed_bucket(id) else { continue };
            let (name, all_versions) = (source.name.clone(), source.versioning != Versioning::Unset);
            let there = format!("{}{prefix}", mirror.settings.target_prefix);
            target.visit(&bucket, (&there, all_versions), &mut |found| {
                let key = found.strip_prefix(&*mirror.settings.target_prefix).unwrap_or(found);
                let is_known =
                    store.followed_key(id, key.as_bytes()).is_some_and(|it| !it.versions.is_empty());
                if !is_known {
                    let due = DueKey { bucket: (id, name.clone()), key: key.to_owned() };
                    extra.push((due, DueWork::of_comparison()));
                }
                extra.len() < EXTRA_MAX
            })?;
        }
        let is_all = extra.len() < EXTRA_MAX;
        let end = self.search.take_if(|_| is_all);
        mirror.keys.add(extra, end);
        Ok(true)
    }
}

/// Whether a change of metadata is one of tags: others do not concern the target.
fn is_of_tags(change: &Change) -> bool {
    change.cause.as_ref().is_some_and(|cause| cause.operation.ends_with("ObjectTagging"))
}

/// The id of each bucket, its bucket at the target, and the beginning of its keys.
fn places(mirror: &Mirror, store: &Store) -> Vec<(u64, String, String)> {
    let settings = &mirror.settings;
    let of_bucket = |bucket: crate::store::BucketInfo| {
        let target = settings.bucket_for(&bucket.name);
        let prefixes = settings.prefixes_of(&bucket.name).into_iter();
        prefixes.map(|prefix| (bucket.id, target.clone(), prefix)).collect::<Vec<_>>()
    };
    store.buckets().into_iter().flat_map(of_bucket).collect()
}
