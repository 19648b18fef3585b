//! The tier: sealed segments are copied to a [`Remote`], and their local bytes are given back when
//! room is wanted.
//!
//! # From here to there
//!
//! Each step is durable before the next.
//!
//! 1. A segment is sealed: it never changes again. All its live extents are read. One with damage
//!    is not sent: the damage is listed with the findings of the scrub, and stays here, where it
//!    can be looked at.
//! 2. A group says that the segment is *leaving*, with a nonce. From now on no hole is punched in
//!    it, so that every try sends the same bytes. This is an intent: it counts for nothing.
//! 3. The segment is put, under a name with the nonce.
//! 4. Length, nonce and MD5 are asked for and compared; where the remote knows no MD5, samples are
//!    read back.
//! 5. A group says that the segment is *remote*.
//! 6. Only now may its local pages go, piece by piece, the first and the last page never: so a
//!    start reads headers and footers without the remote.
//!
//! The block tables are copied to a file beside the segment (`tables`) before step 5, so that a
//! cold range is one request. This file is a cache: where a table is missing, its first reader
//! fetches and keeps it.
//!
//! After a crash between 2 and 5 the intent is repeated under the same name.
//!
//! # Reading
//!
//! [`TieredFs`] opens segments as [`ColdFile`]s, so that all readers of segments read cold bytes
//! alike. A hole in a remote segment is a byte range to fetch. Fetched bytes are written into the
//! hole without a sync. A crash may leave zeros there, or a part: every block is verified before it
//! is served, and a bad one is read from the remote. Only a second failure is damage. The file is
//! written anew without bad bytes ([`repair`]).
//!
//! A range that is read in order is one request, whose bytes are handed out while they come
//! ([`in_flight`]): the first block waits for none after it. Readers of one place share the fetch.
//! Where it is cut, its rest is fetched anew.
//!
//! The first fetch asks for the mark of the remote before: the bytes of another store, or bytes of
//! a key that is not given, are no damage.
//!
//! # Placements and classes
//!
//! Buckets may be placed on the disk or on the remote, and versions of the class COLD belong on the
//! remote (`placement`). A piece that should stay is in no queue, and counts as pinned. One that
//! should leave is punched once its segment is listed; what readers fetch of it later is the first
//! to go.
//!
//! # Copies that somebody deletes
//!
//! Local bytes go after their copy was asked for a moment ago. All copies are listed once a day;
//! one that is gone or changed is sent again, or reported as lost ([`inspection`]).
//!
//! # Leaving the remote
//!
//! When no version refers to a remote segment, its file is removed as any other. A group
//! then says that the copy is *dropped*. A day later the copy is deleted, and then a group forgets
//! it. A restored backup of that day still finds it.

mod cold_file;
pub(super) mod epoch;
mod fetch_lock;
mod in_flight;
mod inspection;
mod mark;
mod placement;
mod probe;
mod repair;
mod segment_cache;
mod sieve;
mod tables;
mod tiered_fs;
mod transfer;

use std::collections::{BTreeMap, BTreeSet};
use std::io::ErrorKind;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, RwLock};
use std::time::Duration;

use crate::base::limits::{KEEP_DROPPED_SECS, PAGE_BYTES, SCRUB_REMOTE_PERCENT};
use crate::base::{Clock, Entropy, NOT_POISONED};
use crate::format::{CopyPhase, RemoteCopy, segment_path};
use crate::fs::{DiskPlace, File, Fs, ReadOnlyFs};
use crate::index::Index;
use crate::log::LogFollower;
use crate::remote::{Remote, RemoteCall, RemoteView, RequestFigures};
use crate::store::commit::committer::Committer;
use crate::store::commit::mutation::Mutation;
use crate::store::open::recovery;
use crate::store::remote_log::right::{RemoteRefusal, RemoteRight};
use crate::store::shared::Published;
use crate::store::{Store, StoreError, StoreOptions};
use fetch_lock::FetchLock;
pub use inspection::CopyFindings;
use inspection::Inspection;
use mark::MarkCheck;
pub use placement::BucketPlacement;
use placement::LastWalk;
pub use probe::RemoteProbed;
use probe::WeeklyProbe;
pub use repair::RepairFigures;
use repair::Repairs;
use segment_cache::{LocalCache, LocalPieces, PieceWish};
use sieve::Sieve;
pub(super) use tiered_fs::TieredFs;
use transfer::SegmentChecks;

/// Readers that fetch at the same time from different places.
const FETCHES_AT_ONCE_MAX: usize = 64;

/// Settings of the tier.
#[derive(Debug, Clone, Copy)]
pub struct TierOptions {
    /// The local bytes of segments, at most: what is not on the remote counts first. Beyond it
    /// writes are refused.
    pub local_max_bytes: u64,
    /// The time for which the local bytes of a segment stay after it has reached the remote.
    pub keep_local: Duration,
    /// The time for which a copy stays on the remote after the last version that referred to it is
    /// gone.
    pub keep_dropped: Duration,
    /// Percent of the bytes on the remote that the scrub reads in 30 days.
    pub scrub_percent: u64,
    /// Whether a store that ships no log may write although the remote has one: that log ends.
    pub abandons_log: bool,
}

impl Default for TierOptions {
    fn default() -> Self {
        Self {
            local_max_bytes: u64::MAX,
            keep_local: Duration::ZERO,
            keep_dropped: Duration::from_secs(KEEP_DROPPED_SECS),
            scrub_percent: SCRUB_REMOTE_PERCENT,
            abandons_log: false,
        }
    }
}

/// The state of the tier.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TierFigures {
    /// Segments whose bytes the remote has.
    pub remote_segments: u64,
    /// Their bytes.
    pub remote_bytes: u64,
    /// Their bytes that are here, as far as they may be given back.
    pub cached_bytes: u64,
    /// Bytes of segments that may not be given back.
    pub pinned_bytes: u64,
    /// Sealed segments that the remote does not have yet.
    pub waiting_segments: u64,
    /// Copies that no version refers to, which are still there.
    pub dropped_segments: u64,
    /// Bytes that were fetched since the start.
    pub fetched_bytes: u64,
    /// Fetches since the start.
    pub fetches: u64,
    /// Bytes that were sent since the start.
    pub sent_bytes: u64,
    /// The epoch in which the remote is changed; 0 without one.
    pub epoch: u64,
    /// Why there is none.
    pub refusal: Option<RemoteRefusal>,
}

/// The work of one call.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TierProgress {
    /// Segments that reached the remote.
    pub sent: u64,
    /// Bytes that were given back.
    pub given_back_bytes: u64,
    /// Copies that were deleted on the remote.
    pub deleted: u64,
    /// Whether another call has work to do at once.
    pub more: bool,
}

/// The tier of one store.
pub(super) struct Tier {
    remote: Arc<dyn RemoteView>,
    right: Arc<RemoteRight>,
    /// The file system below [`TieredFs`].
    fs: Arc<dyn Fs>,
    clock: Arc<dyn Clock>,
    options: TierOptions,
    /// Bytes of the disk that fetched bytes leave free.
    keep_free_bytes: u64,
    /// Whether the files belong to another thread: bad bytes of remote segments cannot be
    /// discarded there, so that none are read.
    leaves_files_alone: bool,
    /// The segments that were opened or are remote.
    caches: RwLock<BTreeMap<u64, Arc<LocalCache>>>,
    sieve: Mutex<Sieve>,
    /// Pieces that should be on the remote alone, and were fetched: the first to go.
    departing: Mutex<BTreeSet<sieve::PieceId>>,
    /// The last walk that found wishes; `None` while there are none.
    last_walk: Mutex<Option<LastWalk>>,
    /// A reader that finds a hole takes the fetch lock of its piece, so that others with the same
    /// wish find its bytes.
    fetch_locks: Vec<Mutex<FetchLock>>,
    /// Bytes that may not be given back, as of the last call.
    pinned_bytes: AtomicU64,
    cached_pages: AtomicU64,
    /// Pages of listed segments that stay here in any case.
    held_pages: AtomicU64,
    fetched_bytes: AtomicU64,
    fetches: AtomicU64,
    sent_bytes: AtomicU64,
    /// Locked while a segment is checked and sent.
    checks: Mutex<SegmentChecks>,
    mark: MarkCheck,
    probes: Mutex<WeeklyProbe>,
    inspection: Mutex<Inspection>,
    repairs: Mutex<Repairs>,
}

impl Tier {
    fn new(
        remote: Arc<dyn RemoteView>,
        right: RemoteRight,
        fs: Arc<dyn Fs>,
        clock: Arc<dyn Clock>,
        options: TierOptions,
        keep_free_bytes: u64,
    ) -> Self {
        Self {
            remote,
            right: Arc::new(right),
            fs,
            clock,
            options,
            keep_free_bytes,
            leaves_files_alone: false,
            caches: RwLock::default(),
            sieve: Mutex::default(),
            departing: Mutex::default(),
            last_walk: Mutex::default(),
            fetch_locks: (0..FETCHES_AT_ONCE_MAX).map(|_| Mutex::default()).collect(),
            pinned_bytes: AtomicU64::new(0),
            cached_pages: AtomicU64::new(0),
            held_pages: AtomicU64::new(0),
            fetched_bytes: AtomicU64::new(0),
            fetches: AtomicU64::new(0),
            sent_bytes: AtomicU64::new(0),
            checks: Mutex::default(),
            mark: MarkCheck::default(),
            probes: Mutex::default(),
            inspection: Mutex::default(),
            repairs: Mutex::default(),
        }
    }

    /// A tier from which bytes are read, and which keeps none.
    pub(super) fn to_look(
        remote: Arc<dyn RemoteView>,
        fs: Arc<dyn Fs>,
        clock: Arc<dyn Clock>,
        keep_free_bytes: u64,
    ) -> Arc<Self> {
        let options = TierOptions::default();
        Arc::new(Self::new(remote, RemoteRight::none(), fs, clock, options, keep_free_bytes))
    }

    /// The file system whose segments may have their bytes on the remote of a tier.
    pub(super) fn over(tier: &Arc<Self>, fs: Arc<dyn Fs>) -> Arc<dyn Fs> {
        Arc::new(TieredFs::new(fs, tier.clone()))
    }

    /// The remote.
    pub(super) fn remote(&self) -> Arc<dyn RemoteView> {
        self.remote.clone()
    }

    /// The right to change it.
    pub(super) fn right(&self) -> Arc<RemoteRight> {
        self.right.clone()
    }

    /// Whether a store without the log there may use it.
    pub(super) fn abandons_log(&self) -> bool {
        self.options.abandons_log
    }

    /// Whether the remote decides races, once its mark has passed.
    pub(super) fn decides_races(&self) -> bool {
        self.mark.passed().is_some_and(|mark| mark.decides_races)
    }

    /// Whether the remote has answered with another mark than the store's.
    pub(super) fn is_foreign(&self) -> bool {
        self.mark.is_foreign()
    }

    /// The time for which a copy stays after it was dropped.
    pub(super) fn keep_dropped(&self) -> Duration {
        self.options.keep_dropped
    }

    /// Learns of the complete copies, as of the group `sequence`. Reads of remote segments find
    /// their bytes after it.
    pub(in crate::store) fn learn(&self, index: &Index, sequence: u64) {
        for (segment, copy) in index.remote_copies(None).filter(|(_, copy)| copy.phase != CopyPhase::Leaving)
        {
            self.cache(segment).set_copy(copy, sequence);
        }
    }

    /// What is here of a segment.
    fn cache(&self, segment: u64) -> Arc<LocalCache> {
        if let Some(known) = self.caches.read().expect(NOT_POISONED).get(&segment) {
            return known.clone();
        }
        let mut all = self.caches.write().expect(NOT_POISONED);
        all.entry(segment).or_insert_with(|| Arc::new(LocalCache::new(segment))).clone()
    }

    /// Forgets a segment whose file is gone.
    fn forget(&self, segment: u64) {
        let gone = self.caches.write().expect(NOT_POISONED).remove(&segment);
        if let Some(copy) = gone.as_ref().and_then(|gone| gone.copy()) {
            for wish in [PieceWish::None, PieceWish::Local, PieceWish::Remote] {
                self.count_of(wish).fetch_sub(copy.pages(wish), Ordering::AcqRel);
            }
        }
    }

    /// Percent of the bytes on the remote that the scrub reads in 30 days.
    pub(super) fn scrub_percent(&self) -> u64 {
        self.options.scrub_percent
    }

    /// Bytes of the copy of a remote segment, also where they are here, and without keeping them.
    ///
    /// # Errors
    /// `InvalidData` where the remote has not got them; others where it does not answer.
    pub(super) fn read_copy(&self, segment: u64, range: std::ops::Range<u64>) -> std::io::Result<Vec<u8>> {
        match self.cache(segment).copy() {
            Some(copy) => self.fetch(segment, &copy.name, range),
            None => Err(ErrorKind::NotFound.into()),
        }
    }

    /// Bytes that may still be written.
    fn available_bytes(&self) -> u64 {
        self.options.local_max_bytes.saturating_sub(self.pinned_bytes())
    }

    /// Bytes that may not be given back.
    fn pinned_bytes(&self) -> u64 {
        let held = self.held_pages.load(Ordering::Acquire) * PAGE_BYTES;
        self.pinned_bytes.load(Ordering::Acquire) + held
    }

    /// The count that the pages of a piece with that wish belong to.
    fn count_of(&self, wish: PieceWish) -> &AtomicU64 {
        match wish {
            PieceWish::Local => &self.held_pages,
            PieceWish::None | PieceWish::Remote => &self.cached_pages,
        }
    }

    fn cached_bytes(&self) -> u64 {
        self.cached_pages.load(Ordering::Acquire) * PAGE_BYTES
    }

    /// Counts pages that were fetched into a piece.
    fn add_pages(&self, cache: &LocalCache, number: u32, pages: u16) {
        let Some(copy) = cache.copy().filter(|_| cache.is_listed.load(Ordering::Acquire)) else {
            return;
        };
        self.count_of(copy.wish(number)).fetch_add(u64::from(pages), Ordering::AcqRel);
        copy.add_pages(number, pages);
        self.enqueue(cache, copy, number);
    }

    /// Queues a piece with local pages, unless it is queued or stays in any case.
    fn enqueue(&self, cache: &LocalCache, copy: &LocalPieces, number: u32) {
        let piece = (cache.segment, number);
        match copy.wish(number) {
            PieceWish::Local => {}
            PieceWish::Remote => drop(self.departing.lock().expect(NOT_POISONED).insert(piece)),
            PieceWish::None if copy.enter_sieve(number) => {
                self.sieve.lock().expect(NOT_POISONED).insert(piece);
            }
            PieceWish::None => {}
        }
    }

    /// Lists the pieces of a remote segment, so that they may be given back.
    fn list(&self, cache: &LocalCache) -> std::io::Result<()> {
        let Some(copy) = cache.copy() else { return Ok(()) };
        let file = self.fs.open_read(&segment_path(cache.segment))?;
        // 1. Readers wait: one that counted pages before the loop would have them counted twice.
        // No reader may count pages before they are counted here.
        let _alone = cache.bytes.write().expect(NOT_POISONED);
        // 2. Set before the loop: `add_pages` counts nothing of a segment that is not listed.
        cache.is_listed.store(true, Ordering::Release);
        for number in 0..copy.count() {
            let piece = copy.piece(number);
            let pages = (data_bytes(file.as_ref(), piece)? / PAGE_BYTES) as u16;
            if pages > 0 {
                self.add_pages(cache, number, pages);
            }
        }
        Ok(())
    }

    /// Gives local pieces back until `bytes` more fit. Returns whether they do.
    fn make_room(&self, bytes: u64) -> bool {
        while self.lacks_room(bytes) {
            match self.give_back_one() {
                Some(freed) if freed > 0 => {}
                // No piece is left, or the next one has to stay and was queued again: going on
                // would meet the same pieces without end.
                _ => return !self.lacks_room(bytes),
            }
        }
        true
    }

    /// Whether there will be room for `bytes` of fetched bytes, once other pieces are given back.
    /// No reader waits for that.
    fn may_make_room(&self, bytes: u64) -> bool {
        bytes <= self.available_bytes()
    }

    /// Whether there is no room for `bytes` more of fetched bytes: the limit would be passed, or
    /// the disk is nearly full.
    fn lacks_room(&self, bytes: u64) -> bool {
        if self.cached_bytes().saturating_add(bytes) > self.available_bytes() {
            return true;
        }
        self.fs
            .space_on(DiskPlace::Bulk)
            .is_ok_and(|space| space.free_bytes < self.keep_free_bytes.saturating_add(bytes))
    }

    /// Gives the next piece back. Returns its bytes; `None` if there is no piece.
    fn give_back_one(&self) -> Option<u64> {
        loop {
            let (segment, number) = self.next_piece()?;
            // The segment may have died, and the piece may have left by itself.
            let known = self.caches.read().expect(NOT_POISONED).get(&segment).cloned();
            let Some(cache) = known else { continue };
            let has_pages = cache
                .copy()
                .is_some_and(|copy| copy.wish(number) != PieceWish::Local && copy.pages_of(number) > 0);
            // The pieces of a suspect stay, and are queued again once its copy is there.
            if has_pages && !self.is_suspect(segment) {
                return Some(self.give_back(&cache, number));
            }
        }
    }

    /// Takes the next piece from its queue.
    fn next_piece(&self) -> Option<sieve::PieceId> {
        if let Some(piece) = self.departing.lock().expect(NOT_POISONED).pop_first() {
            return Some(piece);
        }
        let caches = self.caches.read().expect(NOT_POISONED);
        let copy = |segment: u64| caches.get(&segment).and_then(|known| known.copy());
        let spare =
            |(segment, number): sieve::PieceId| copy(segment).is_some_and(|copy| copy.take_visit(number));
        let (segment, number) = self.sieve.lock().expect(NOT_POISONED).evict(spare)?;
        if let Some(copy) = copy(segment) {
            copy.leave_sieve(number);
        }
        Some((segment, number))
    }

    /// Punches a piece that was taken from its queue. Returns the bytes; 0 if it has to stay, and
    /// is queued again.
    fn give_back(&self, cache: &LocalCache, number: u32) -> u64 {
        let Some(copy) = cache.copy() else { return 0 };
        match self.punch(cache, copy, number) {
            Ok(Some(bytes)) => return bytes,
            Ok(None) => {}
            // The thread of the tier reports an outage, and a copy that is gone.
            Err(error) if matches!(error.kind(), ErrorKind::HostUnreachable | ErrorKind::InvalidData) => {}
            Err(error) => {
                log::warn!("{}: no room could be given back: {error}", segment_path(cache.segment));
            }
        }
        self.enqueue(cache, copy, number);
        0
    }

    /// Punches a piece. Returns its bytes; `None` if it stays in any case, its copy is not there,
    /// or a backup holds the file, since it may outlive the copy.
    fn punch(&self, cache: &LocalCache, copy: &LocalPieces, number: u32) -> std::io::Result<Option<u64>> {
        // 1. The copy is asked for before the lock: no reader of the segment waits for the remote.
        self.check_copy(cache, copy).map_err(|error| cold_file::failure(&copy.name, error))?;
        let file = self.fs.open(&segment_path(cache.segment))?;
        let piece = copy.piece(number);
        // 2. Readers hold the lock from the look for a hole to the end of the read. A punch in
        //    between would hand them zeros.
        let _alone = cache.bytes.write().expect(NOT_POISONED);
        // Who has lost the epoch does not know for how long the copy stays.
        let may_leave = self.right.epoch().is_some() && copy.wish(number) != PieceWish::Local;
        if !may_leave || file.usage()?.links > 1 || file.has_shared_lock()? {
            return Ok(None);
        }
        // 3. The comparison is looked at again under the lock. Who sends the segment again clears
        //    it first and takes the lock then, so that no bytes leave that are about to be sent.
        if !self.is_compared(cache) {
            return Ok(None);
        }
        file.punch(piece.start, piece.end - piece.start)?;
        // 4. The pages are counted under the same lock: a reader could add some before, and they
        //    would be taken for punched ones.
        let pages = u64::from(copy.take_pages(number));
        self.cached_pages.fetch_sub(pages, Ordering::AcqRel);
        self.departing.lock().expect(NOT_POISONED).remove(&(cache.segment, number));
        Ok(Some(pages * PAGE_BYTES))
    }
}

/// The bytes of a range that are not in holes.
fn data_bytes(file: &dyn File, range: std::ops::Range<u64>) -> std::io::Result<u64> {
    let mut at = range.start;
    let mut data = 0;
    while at < range.end {
        let hole = file.next_hole(at..range.end)?.unwrap_or(range.end..range.end);
        data += hole.start - at;
        at = hole.end;
    }
    Ok(data)
}

impl Store {
    /// As [`Store::open`], with a tier: sealed segments go to `remote`. Those whose files are missing
    /// here, and which the remote has, get their files again.
    ///
    /// # Errors
    /// As of [`Store::open`].
    pub fn open_tiered(
        fs: Arc<dyn Fs>,
        clock: Arc<dyn Clock>,
        entropy: &dyn Entropy,
        options: StoreOptions,
        remote: Arc<dyn Remote>,
        tier_options: TierOptions,
    ) -> Result<Self, crate::store::OpenError> {
        let tier = Arc::new(Tier::new(
            remote.clone(),
            RemoteRight::new(remote),
            fs.clone(),
            clock.clone(),
            tier_options,
            // A segment more than writes leave free: the cache gives way before a write head looks
            // for the space of its next segment.
            options.keep_free_bytes + options.segment_max_bytes,
        ));
        let fs = Tier::over(&tier, fs);
        let lock = recovery::lock(fs.as_ref())?;
        let recovered = recovery::open(fs, clock, entropy, options, Some(tier.remote.as_ref()))?;
        tier.note_placed(&recovered.placed_segments);
        let mut store = Self::start(recovered, lock)?;
        store.tier = Some(tier);
        store.let_tier_learn();
        Ok(store)
    }

    /// Gives the tier the store that is open: no byte of a remote is read before.
    pub(in crate::store) fn let_tier_learn(&self) {
        let Some(tier) = &self.tier else { return };
        let Published { index, sequence, .. } = self.shared.published();
        tier.mark.set_store(self.shared.store);
        tier.learn(&index, sequence);
    }

    /// The store of a directory that another thread extends, for reads alone, and the place after
    /// its last group. Cold bytes come from `remote`, and are not kept. Nothing is written, and
    /// every change is refused.
    pub(in crate::store) fn open_for_reads(
        fs: Arc<dyn Fs>,
        clock: Arc<dyn Clock>,
        options: StoreOptions,
        remote: Arc<dyn RemoteView>,
    ) -> Result<(Self, LogFollower), crate::store::OpenError> {
        let right = RemoteRight::none();
        let keep_free = options.keep_free_bytes;
        let tier = Tier::new(remote, right, fs.clone(), clock.clone(), TierOptions::default(), keep_free);
        let tier = Arc::new(Tier { leaves_files_alone: true, ..tier });
        // Below it segments are opened for reading, so that the tier keeps nothing.
        let tiered = ReadOnlyFs::new(Tier::over(&tier, fs));
        let (shared, log) = recovery::read(Arc::new(tiered), clock, options)?;
        let committer = Committer::start(shared.clone(), None)?;
        let mut store = Self::new(shared, committer, None);
        store.tier = Some(tier);
        store.let_tier_learn();
        Ok((store, log))
    }

    /// Works for the tier: sends a sealed segment to the remote, gives local bytes back, deletes
    /// copies that are not needed any more. Nothing without a tier.
    ///
    /// # Errors
    /// [`StoreError::RemoteUnavailable`]: a later call may succeed; the errors of the commit.
    pub fn tier_step(&self, entropy: &dyn Entropy) -> Result<TierProgress, StoreError> {
        let Some(tier) = &self.tier else { return Ok(TierProgress::default()) };
        self.shared.check_writable()?;
        let mut done = TierProgress::default();
        let begun = self.keep_epoch(tier, entropy);
        let worked = match tier.right.epoch() {
            None => Ok(()),
            Some(_) => {
                let deleted = self.delete_dropped(tier, &mut done);
                let repaired = self.repair_next(tier, &mut done);
                deleted.and(repaired).and(self.send_next(tier, entropy, &mut done))
            }
        };
        // Room is made also where the remote does not answer.
        let left = self.list_aged(tier)?;
        let cached = tier.cached_bytes();
        tier.make_room(0);
        done.given_back_bytes = left + cached.saturating_sub(tier.cached_bytes());
        begun.and(worked)?;
        Ok(done)
    }

    /// The state of the tier; `None` without one.
    pub fn tier_figures(&self) -> Option<TierFigures> {
        let tier = self.tier.as_ref()?;
        let index = self.shared.index();
        let mut figures = TierFigures {
            cached_bytes: tier.cached_bytes(),
            pinned_bytes: tier.pinned_bytes(),
            waiting_segments: self.waiting(&index).count() as u64,
            fetched_bytes: tier.fetched_bytes.load(Ordering::Relaxed),
            fetches: tier.fetches.load(Ordering::Relaxed),
            sent_bytes: tier.sent_bytes.load(Ordering::Relaxed),
            epoch: tier.right.epoch().unwrap_or(0),
            refusal: tier.right.refusal(),
            ..TierFigures::default()
        };
        for (_, copy) in index.remote_copies(None) {
            match copy.phase {
                CopyPhase::Leaving => {}
                CopyPhase::Remote => {
                    figures.remote_segments += 1;
                    figures.remote_bytes += copy.length;
                }
                CopyPhase::Dropped => figures.dropped_segments += 1,
            }
        }
        Some(figures)
    }

    /// The requests to the remote since the start, by kind; zeros without one.
    pub fn remote_requests(&self) -> [(&'static str, RequestFigures); RemoteCall::ALL.len()] {
        let figures = self.tier.as_ref().map(|tier| tier.remote.requests()).unwrap_or_default();
        RemoteCall::ALL.map(|call| (call.name(), figures[call as usize]))
    }

    /// The number of segments whose bytes may be on a remote alone.
    pub fn remote_segments(&self) -> u64 {
        let index = self.shared.index();
        index.remote_copies(None).filter(|(_, copy)| copy.phase == CopyPhase::Remote).count() as u64
    }

    /// The local bytes of segments, at most; `None` without a remote, which others could go to.
    pub fn local_max_bytes(&self) -> Option<u64> {
        self.tier.as_ref().map(|tier| tier.options.local_max_bytes)
    }

    /// Lists the segments that have been remote for long enough, and counts the bytes of all
    /// others. Returns the bytes that left.
    fn list_aged(&self, tier: &Tier) -> Result<u64, StoreError> {
        let (mut aged, mut pinned) = self.aged_segments(tier);
        if tier.right.epoch().is_none() {
            // Without an epoch the copy may be deleted by the host that has one, so that nothing
            // more leaves.
            aged.clear();
        }
        let about: Vec<u64> = aged.iter().map(|cache| cache.segment).collect();
        let mut left = 0;
        match self.place_pieces(tier, &about).map_err(|error| self.shared.failed(error.into()))? {
            Some(bytes) => {
                left += bytes;
                for cache in &aged {
                    match tier.list_and_leave(cache).map_err(|error| self.shared.failed(error.into()))? {
                        Some(bytes) => left += bytes,
                        None => pinned += self.unlisted_bytes(tier, cache, false),
                    }
                }
            }
            None => {
                let bytes = aged.iter().map(|cache| self.unlisted_bytes(tier, cache, false));
                pinned += bytes.sum::<u64>();
            }
        }
        tier.pinned_bytes.store(pinned, Ordering::Release);
        self.shared.segments.reserve().set_growth_left(tier.available_bytes());
        Ok(left)
    }

    /// The segments that are to be listed, and the bytes of those that may not be.
    fn aged_segments(&self, tier: &Tier) -> (Vec<Arc<LocalCache>>, u64) {
        let index = self.shared.index();
        let now = self.acts_time();
        let mut aged = Vec::new();
        let mut pinned = 0;
        let active = self.shared.segments.active_segments();
        for id in self.shared.segments.ids() {
            let cache = tier.cache(id);
            if cache.is_listed.load(Ordering::Acquire) {
                continue;
            }
            let known_by = cache.known_by.load(Ordering::Relaxed);
            let is_told = self.shared.is_shipped(known_by) && self.shadow_has(known_by);
            let copy = index.remote_copy(id).filter(|copy| copy.phase == CopyPhase::Remote);
            let age = copy.zip(now).map(|(copy, now)| now.since(copy.since));
            if is_told && age.is_some_and(|age| age >= tier.options.keep_local) {
                aged.push(cache);
            } else {
                pinned += self.unlisted_bytes(tier, &cache, active.contains(&id));
            }
        }
        (aged, pinned)
    }

    /// The space of a segment that is not listed. A sealed one's is asked for once.
    fn unlisted_bytes(&self, tier: &Tier, cache: &LocalCache, is_active: bool) -> u64 {
        match cache.pinned_bytes.load(Ordering::Relaxed) {
            0 => {}
            known => return known,
        }
        let usage = tier.fs.open_read(&segment_path(cache.segment)).and_then(|file| file.usage());
        // A segment that was removed a moment ago takes no space.
        let bytes = usage.map_or(0, |usage| usage.allocated_bytes);
        if !is_active {
            cache.pinned_bytes.store(bytes, Ordering::Relaxed);
        }
        bytes
    }

    /// Commits a change of a copy.
    pub(super) fn set_remote_copy(&self, segment: u64, copy: Option<RemoteCopy>) -> Result<(), StoreError> {
        self.committer.submit(|reply| Mutation::RemoteSegment { segment, copy, reply })
    }
}
