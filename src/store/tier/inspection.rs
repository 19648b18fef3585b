//! The copies on the remote, compared with what the index says of them: somebody may delete or
//! replace them while this disk has all bytes.
//!
//! Local bytes go only after their copy was asked for a moment ago. Beside that, all copies are
//! listed once a day, so that one that is gone is noticed while it can be sent again: with the same
//! name and the bytes that live. A copy whose live bytes are not all here is lost, which is
//! reported until it is there again.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::Ordering;
use std::sync::{Arc, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::Tier;
use super::segment_cache::{LocalCache, LocalPieces};
use super::transfer::send;
use crate::base::{NOT_POISONED, Timestamp};
use crate::format::{CopyPhase, RemoteCopy, RemoteMark, segment_path};
use crate::index::Index;
use crate::log::Segment;
use crate::remote::{NewObject, RemoteError, RemoteObject, read_mark};
use crate::store::remote_log::request::{PATIENCE, TRIED_AGAIN_AFTER};
use crate::store::sweep::sealed::SealedExtents;
use crate::store::{Store, StoreError};

/// The time for which a comparison counts: as long as giving back the pieces of one segment.
const RECENT: Duration = Duration::from_secs(5);
/// The longest wait for a comparison. Readers wait for it where they need room.
const COMPARED_WITHIN: Duration = Duration::from_secs(2);
/// The time between two listings of all copies.
const LISTING_INTERVAL: Duration = Duration::from_secs(24 * 60 * 60);

/// The time between two looks at a copy that is lost: somebody may bring it back.
const LOST_INTERVAL: Duration = Duration::from_secs(60 * 60);
/// Names on a full page of a listing.
const PAGE_LEN: usize = 1000;

/// What the comparisons of the copies on the remote have found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CopyFindings {
    /// The end of the last listing; `None` before the first since the start.
    pub listed: Option<Timestamp>,
    /// The copies that are gone or changed, and whose live bytes are not all on this disk, each
    /// with its fault.
    pub lost: Vec<(String, String)>,
    /// The copies that were gone or changed and were sent again since the start, the mark among
    /// them.
    pub resent: u64,
}

/// The copies to be looked at.
#[derive(Default)]
pub(super) struct Inspection {
    /// The time of the next listing; unknown before the first look.
    due: Option<Instant>,
    listed: Option<Timestamp>,
    /// The mark, as it was found last.
    mark: Option<RemoteMark>,
    /// Segments whose copy was not found as it should be by someone.
    suspects: BTreeSet<u64>,
    lost: BTreeMap<u64, LostCopy>,
    resent: u64,
}

/// A copy that cannot be sent again.
struct LostCopy {
    name: String,
    why: String,
    seen: Timestamp,
}

impl Store {
    /// Lists the copies once a day, and sends those again that are gone or changed, as far as their
    /// bytes are here. Nothing without a tier. Returns whether another call has work to do at once.
    ///
    /// # Errors
    /// [`StoreError::RemoteUnavailable`]: a later call goes on; the errors of the disk.
    pub fn inspect_copies(&self) -> Result<bool, StoreError> {
        let Some(tier) = &self.tier else { return Ok(false) };
        self.shared.check_writable()?;
        if tier.right.epoch().is_none() {
            return Ok(false);
        }
        let now = self.shared.clock.now();
        let instant = self.shared.clock.instant();
        if tier.inspection().due.is_none_or(|due| instant >= due) {
            // Set before the work, which may fail at each line: the remote is not asked without
            // end.
            tier.inspection().due = Some(instant + TRIED_AGAIN_AFTER);
            self.check_remote_mark()?;
            self.keep_mark(tier)?;
            self.list_copies(tier)?;
            let mut inspection = tier.inspection();
            inspection.listed = Some(self.shared.clock.now());
            inspection.due = Some(instant + LISTING_INTERVAL);
        }
        self.forget_found(tier);
        let Some(segment) = tier.inspection().next(now) else { return Ok(false) };
        self.judge_copy(tier, segment)?;
        Ok(tier.inspection().next(now).is_some())
    }

    /// What the comparisons have found; `None` without a tier.
    pub fn copy_findings(&self) -> Option<CopyFindings> {
        let inspection = self.tier.as_ref()?.inspection();
        let lost = inspection.lost.values().map(|lost| (lost.name.clone(), lost.why.clone()));
        Some(CopyFindings { listed: inspection.listed, lost: lost.collect(), resent: inspection.resent })
    }

    /// Reads the mark again, which passed before. One that somebody deleted is put again; that of
    /// another store ends all use of the remote.
    fn keep_mark(&self, tier: &Tier) -> Result<(), StoreError> {
        let unavailable =
            |error: RemoteError| StoreError::RemoteUnavailable(format!("{}: {error}", RemoteMark::NAME));
        let found = read_mark(tier.remote.as_ref(), PATIENCE).map_err(unavailable)?;
        if let Some(found) = found {
            if found.store == self.shared.store {
                tier.inspection().mark = Some(found);
                return Ok(());
            }
            tier.mark.forget();
            return self.check_remote_mark();
        }
        let Some(known) = tier.inspection().mark else { return Ok(()) };
        log::warn!("somebody deleted the mark of the remote, {}: it is put again", RemoteMark::NAME);
        let bytes = known.encode();
        let name = RemoteMark::NAME;
        let nonce = known.made.as_millis().to_string();
        let object = NewObject { name, body: &bytes.as_slice(), nonce: &nonce, create_only: true };
        tier.right.writer()?.put(&object, PATIENCE).map_err(unavailable)?;
        tier.inspection().resent += 1;
        Ok(())
    }

    /// Compares the copies with a listing.
    fn list_copies(&self, tier: &Tier) -> Result<(), StoreError> {
        let index = self.shared.index();
        let remote = index.remote_copies(None).filter(|(_, copy)| copy.phase == CopyPhase::Remote);
        let mut missing: BTreeMap<String, (u64, u64)> =
            remote.map(|(segment, copy)| (copy.name(segment), (segment, copy.length))).collect();
        let mut after = String::new();
        loop {
            let page = tier.remote.list(RemoteCopy::PREFIX, &after, PATIENCE);
            let page = page.map_err(|error| {
                StoreError::RemoteUnavailable(format!("the listing of the copies: {error}"))
            })?;
            for object in &page {
                if let Some((segment, length)) = missing.remove(&object.name) {
                    tier.compare_listed(segment, object, length);
                }
            }
            match page.last() {
                // A remote whose pages do not go on would be asked without end.
                Some(last) if page.len() >= PAGE_LEN && last.name > after => after.clone_from(&last.name),
                _ => break,
            }
        }
        // One that was dropped meanwhile is no suspect any more when it is judged.
        tier.inspection().suspects.extend(missing.values().map(|(segment, _)| *segment));
        Ok(())
    }

    /// Forgets what is said of segments that have no complete copy any more.
    fn forget_found(&self, tier: &Tier) {
        let index = self.shared.index();
        let mut inspection = tier.inspection();
        inspection.suspects.retain(|id| is_remote(&index, *id));
        inspection.lost.retain(|id, _| is_remote(&index, *id));
    }

    /// Asks for a suspect, and sends it again where it is not as it should be.
    fn judge_copy(&self, tier: &Tier, segment: u64) -> Result<(), StoreError> {
        let cache = tier.cache(segment);
        let Some(pieces) = cache.copy() else {
            tier.inspection().suspects.remove(&segment);
            return Ok(());
        };
        let why = match tier.compare_copy(&cache, pieces) {
            Ok(()) => {
                tier.found_again(&cache, pieces);
                return Ok(());
            }
            Err(error @ (RemoteError::Missing | RemoteError::Wrong(_))) => error,
            Err(error) => return Err(self.remote_failed(segment, error)),
        };
        let is_missing = matches!(why, RemoteError::Missing);
        if self.send_again(tier, &cache, is_missing)? {
            log::warn!(
                "{}: its copy on the remote, {}, was sent again: {why}",
                segment_path(segment),
                pieces.name
            );
            tier.inspection().resent += 1;
            tier.found_again(&cache, pieces);
        } else {
            self.count_as_lost(tier, segment, pieces, &why);
        }
        Ok(())
    }

    fn count_as_lost(&self, tier: &Tier, segment: u64, pieces: &LocalPieces, why: &RemoteError) {
        let seen = self.shared.clock.now();
        let lost = LostCopy { name: pieces.name.clone(), why: why.to_string(), seen };
        let mut inspection = tier.inspection();
        inspection.suspects.remove(&segment);
        if inspection.lost.insert(segment, lost).is_none() {
            log::error!(
                "{}: its copy on the remote, {}, is lost, and its bytes are not all here: {why}",
                segment_path(segment),
                pieces.name
            );
        }
    }

    /// Sends a segment again, if its live bytes are all here. Returns whether they are.
    fn send_again(&self, tier: &Tier, cache: &LocalCache, is_missing: bool) -> Result<bool, StoreError> {
        let id = cache.segment;
        let _one_at_a_time = tier.checks.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(copy) = self.shared.index().remote_copy(id).copied() else { return Ok(false) };
        // 1. No local bytes leave from here on: they may be the last ones.
        tier.hold_pieces(cache);
        // 2. All live bytes are found here, and sent. Before step 1 some could leave after they
        //    were found.
        let sent = self.send_whole(tier, id, &copy, is_missing);
        // 3. Bytes may leave again, once the new copy was compared.
        cache.compared.lock().expect(NOT_POISONED).is_resent = false;
        sent
    }

    fn send_whole(
        &self,
        tier: &Tier,
        id: u64,
        copy: &RemoteCopy,
        is_missing: bool,
    ) -> Result<bool, StoreError> {
        let file = tier.fs.open_read(&segment_path(id)).map_err(|error| self.shared.failed(error.into()))?;
        let segment = Arc::new(Segment { id, file });
        let extents = SealedExtents::find(&self.shared, &[id]);
        let length = segment.file.len().map_err(|error| self.shared.failed(error.into()))?;
        if length != copy.length || !self.has_all(&segment, &extents)? {
            return Ok(false);
        }
        send(tier, id, copy, segment.file.as_ref(), is_missing)
            .map_err(|error| self.remote_failed(id, error))?;
        Ok(true)
    }
}

fn is_remote(index: &Index, segment: u64) -> bool {
    index.remote_copy(segment).is_some_and(|copy| copy.phase == CopyPhase::Remote)
}

impl Inspection {
    /// The next segment to be judged.
    fn next(&self, now: Timestamp) -> Option<u64> {
        let again = self.lost.iter().find(|(_, lost)| now.distance(lost.seen) >= LOST_INTERVAL);
        let again = again.map(|(segment, _)| *segment);
        self.suspects.first().copied().or(again)
    }
}

impl Tier {
    pub(super) fn inspection(&self) -> MutexGuard<'_, Inspection> {
        self.inspection.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Has a copy looked at soon.
    pub(super) fn suspect(&self, segment: u64) {
        let mut inspection = self.inspection();
        if !inspection.lost.contains_key(&segment) {
            inspection.suspects.insert(segment);
        }
    }

    /// Whether a copy is known not to be as it should be.
    pub(super) fn is_suspect(&self, segment: u64) -> bool {
        let inspection = self.inspection();
        inspection.lost.contains_key(&segment) || inspection.suspects.contains(&segment)
    }

    /// Whether local bytes of a segment may go: its copy was found as it should be a moment ago, or
    /// is asked for now.
    ///
    /// # Errors
    /// As of [`Tier::compare_copy`].
    pub(super) fn check_copy(&self, cache: &LocalCache, pieces: &LocalPieces) -> Result<(), RemoteError> {
        if self.is_compared(cache) { Ok(()) } else { self.compare_copy(cache, pieces) }
    }

    /// Whether the copy of a segment was found as it should be a moment ago.
    pub(super) fn is_compared(&self, cache: &LocalCache) -> bool {
        let now = self.clock.now();
        let last = cache.compared.lock().expect(NOT_POISONED);
        // A clock that was set back makes no comparison recent: `at` would lie in the future for as
        // long as it was set back.
        !last.is_resent && last.at.is_some_and(|at| now >= at && now.since(at) < RECENT)
    }

    /// Asks for a copy. Its length, its nonce and, where the remote stated one before, its MD5 are
    /// to be the same.
    ///
    /// # Errors
    /// [`RemoteError::Missing`], and [`RemoteError::Wrong`] where it differs; others where the
    /// remote does not say.
    fn compare_copy(&self, cache: &LocalCache, pieces: &LocalPieces) -> Result<(), RemoteError> {
        let passed = self.mark.pass(self.remote.as_ref(), COMPARED_WITHIN);
        passed.map_err(|error| RemoteError::Unavailable(error.to_string()))?;
        let found = self.remote.head(&pieces.name, COMPARED_WITHIN).and_then(|found| {
            let found = found.ok_or(RemoteError::Missing)?;
            match found.nonce.as_deref() == Some(pieces.nonce.as_str()) {
                true => self.check_attributes(cache, &found, pieces.length),
                false => Err(RemoteError::Wrong(format!("it has the nonce {:?}", found.nonce))),
            }
        });
        if let Err(RemoteError::Missing | RemoteError::Wrong(_)) = found {
            self.suspect(cache.segment);
        }
        found
    }

    /// Compares a copy as a listing shows it, which has no nonce.
    fn compare_listed(&self, segment: u64, object: &RemoteObject, length: u64) {
        let cache = self.cache(segment);
        if self.check_attributes(&cache, object, length).is_err() {
            self.suspect(segment);
        }
    }

    fn check_attributes(
        &self,
        cache: &LocalCache,
        found: &RemoteObject,
        length: u64,
    ) -> Result<(), RemoteError> {
        if found.length != length {
            return Err(RemoteError::Wrong(format!("it has {} of {length} bytes", found.length)));
        }
        let mut last = cache.compared.lock().expect(NOT_POISONED);
        // Only two stated digests can differ: some remotes state one for an object on one request
        // and none on the next.
        if last.md5.zip(found.md5).is_some_and(|(before, now)| before != now) {
            return Err(RemoteError::Wrong("it has another MD5 than before".to_owned()));
        }
        last.md5 = found.md5.or(last.md5);
        // A listing does not say whose put it was.
        if found.nonce.is_some() {
            last.at = Some(self.clock.now());
        }
        Ok(())
    }

    /// Notes that a copy was put and compared.
    pub(super) fn note_sent(&self, segment: u64) {
        let cache = self.cache(segment);
        let mut last = cache.compared.lock().expect(NOT_POISONED);
        last.md5 = None;
        last.at = Some(self.clock.now());
    }

    /// Has no local bytes of a segment go while it is sent again. A reader that is giving some back
    /// has done so on return.
    fn hold_pieces(&self, cache: &LocalCache) {
        {
            let mut last = cache.compared.lock().expect(NOT_POISONED);
            last.is_resent = true;
            last.at = None;
        }
        // Who punches looks at the comparison under this lock: either it has punched by now, or it
        // finds none.
        drop(cache.bytes.write().expect(NOT_POISONED));
    }

    /// Clears a segment whose copy is as it should be. Its pieces were in no queue.
    fn found_again(&self, cache: &LocalCache, pieces: &LocalPieces) {
        {
            let mut inspection = self.inspection();
            inspection.suspects.remove(&cache.segment);
            inspection.lost.remove(&cache.segment);
        }
        if cache.is_listed.load(Ordering::Acquire) {
            let here = (0..pieces.count()).filter(|number| pieces.pages_of(*number) > 0);
            for number in here {
                self.enqueue(cache, pieces, number);
            }
        }
    }
}
