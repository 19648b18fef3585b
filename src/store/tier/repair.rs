//! Bad local bytes of segments that the remote has: they are read from there, and then the file is
//! written anew without them.
//!
//! A reader that finds a bad block reads its copy on the remote, verifies it, hands it out, and
//! notes the segment here. The thread of the tier then replaces the file:
//!
//! 1. The live extents that lie here are read. What verifies is copied to a new file beside the
//!    old one, in whole pages; what does not verify becomes a hole, which the next reader fills
//!    from the remote. A first or last page that is bad is fetched, since a start reads it without
//!    the remote.
//! 2. The new file is synced, and what was copied is read back from the disk and verified.
//! 3. It takes the name of the old one, and readers open it from then on.
//!
//! A segment whose file is missing as a whole gets it again at the next start, with its first and
//! last page alone (`open::recovery`).
//!
//! So no page is written twice (data-format.md, section 1), and good extents beside a bad one, and
//! readers of the old file, are not risked. A crash leaves the old file, or the new one.

use std::collections::{BTreeMap, VecDeque};
use std::io::ErrorKind;
use std::ops::Range;
use std::sync::atomic::Ordering;
use std::sync::{Arc, MutexGuard, PoisonError, TryLockError};
use std::time::Instant;

use super::segment_cache::{LocalCache, LocalPieces};
use super::{Tier, TierProgress, data_bytes};
use crate::base::limits::{MIB, PAGE_BYTES};
use crate::base::{NOT_POISONED, Timestamp, push_latest};
use crate::format::{CopyPhase, ExtentHeader, FileKind, StoreId, page_ceil, segment_path, unfinished};
use crate::fs::{File, Fs};
use crate::log::{LogError, Segment};
use crate::remote::RemoteError;
use crate::store::remote_log::request::TRIED_AGAIN_AFTER;
use crate::store::shared::health::BadFile;
use crate::store::sweep::Sweep;
use crate::store::sweep::batch::LiveExtent;
use crate::store::sweep::sealed::SealedExtents;
use crate::store::{Store, StoreError};

/// Repaired segments that are listed, the latest ones.
const LISTED_MAX: usize = 100;

/// Bytes that are copied at a time.
const COPIED_BYTES: u64 = MIB;

/// The local bytes that were found bad in segments that the remote has.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RepairFigures {
    /// Reads of bad bytes since the start that the remote served in their place.
    pub served_reads: u64,
    /// Files that were written anew since the start.
    pub repaired_segments: u64,
    /// Segments whose files are to be written anew.
    pub waiting: Vec<BadFile>,
    /// The latest of those that were, the oldest first.
    pub repaired: Vec<BadFile>,
}

/// The segments with bad bytes.
#[derive(Default)]
pub(super) struct Repairs {
    served_reads: u64,
    repaired_segments: u64,
    waiting: BTreeMap<u64, WaitingRepair>,
    repaired: VecDeque<BadFile>,
}

struct WaitingRepair {
    bad: BadFile,
    /// The time of the next try.
    due: Instant,
}

impl Repairs {
    /// Notes bad bytes. Returns whether they are the first of their segment.
    fn note(&mut self, segment: u64, offset: u64, what: &str, found: Timestamp, due: Instant) -> bool {
        self.served_reads += 1;
        if self.waiting.contains_key(&segment) {
            return false;
        }
        let file = segment_path(segment);
        let bad = BadFile { file, offset, what: what.to_owned(), found, repaired: None };
        self.waiting.insert(segment, WaitingRepair { bad, due });
        true
    }

    fn next(&self, now: Instant) -> Option<u64> {
        self.waiting.iter().find(|(_, waiting)| now >= waiting.due).map(|(segment, _)| *segment)
    }

    fn put_off(&mut self, segment: u64, due: Instant) {
        if let Some(waiting) = self.waiting.get_mut(&segment) {
            waiting.due = due;
        }
    }

    fn set_repaired(&mut self, segment: u64, at: Timestamp) {
        let Some(WaitingRepair { bad, .. }) = self.waiting.remove(&segment) else { return };
        self.list_repaired(BadFile { repaired: Some(at), ..bad });
    }

    fn list_repaired(&mut self, bad: BadFile) {
        self.repaired_segments += 1;
        push_latest(&mut self.repaired, bad, LISTED_MAX);
    }
}

impl Tier {
    fn repairs(&self) -> MutexGuard<'_, Repairs> {
        self.repairs.lock().expect(NOT_POISONED)
    }

    /// Counts a read of bad bytes that the remote has served.
    pub(super) fn count_served(&self) {
        self.repairs().served_reads += 1;
    }

    /// Notes that bytes here are bad and good on the remote: the file is written anew soon.
    pub(super) fn note_bad(&self, segment: u64, offset: u64, what: &str) {
        let is_first = {
            let mut repairs = self.repairs();
            repairs.note(segment, offset, what, self.clock.now(), self.clock.instant())
        };
        if is_first {
            log::warn!(
                "{} at offset {offset}: {what}; its copy on the remote is good, and is read in its place",
                segment_path(segment)
            );
        }
    }

    /// Notes segments whose files were missing, and were placed again at the start.
    pub(super) fn note_placed(&self, segments: &[u64]) {
        let now = self.clock.now();
        for segment in segments {
            let what = "the file was missing".to_owned();
            let file = segment_path(*segment);
            self.repairs().list_repaired(BadFile { file, offset: 0, what, found: now, repaired: Some(now) });
        }
    }

    /// Has `copy` write the file of a segment beside it, and puts that in its place. Returns what
    /// `copy` has; `None`, and nothing is done, while a segment is checked or sent.
    ///
    /// # Errors
    /// Of `copy`, and of the disk.
    pub(in crate::store) fn replace_file<T>(
        &self,
        segment: u64,
        copy: impl FnOnce(&dyn Fs) -> Result<T, LogError>,
    ) -> Result<Option<T>, LogError> {
        let _one_at_a_time = match self.checks.try_lock() {
            Err(TryLockError::WouldBlock) => return Ok(None),
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Ok(locked) => locked,
        };
        let copied = copy(self.fs.as_ref())?;
        self.take_new_file(&self.cache(segment))?;
        Ok(Some(copied))
    }

    /// Replaces the file of a segment by the new one beside it. Old handles keep what they have.
    fn take_new_file(&self, cache: &LocalCache) -> Result<(), LogError> {
        let path = segment_path(cache.segment);
        // Readers wait: one that fetched meanwhile would count pages of the old file.
        let _alone = cache.bytes.write().expect(NOT_POISONED);
        self.fs.rename(&unfinished(&path), &path)?;
        self.fs.sync_dir(FileKind::Segment.dir())?;
        cache.generation.fetch_add(1, Ordering::AcqRel);
        cache.pinned_bytes.store(0, Ordering::Relaxed);
        let listed = cache.copy().filter(|_| cache.is_listed.load(Ordering::Acquire));
        let Some(copy) = listed else { return Ok(()) };
        let file = self.fs.open_read(&path)?;
        for number in 0..copy.count() {
            let forgotten = copy.take_pages(number).into();
            self.count_of(copy.wish(number)).fetch_sub(forgotten, Ordering::AcqRel);
            let pages = (data_bytes(file.as_ref(), copy.piece(number))? / PAGE_BYTES) as u16;
            if pages > 0 {
                self.add_pages(cache, number, pages);
            }
        }
        Ok(())
    }
}

impl Store {
    /// The local bytes of segments on the remote that were found bad; `None` without a tier.
    pub fn repair_figures(&self) -> Option<RepairFigures> {
        let repairs = self.tier.as_ref()?.repairs();
        Some(RepairFigures {
            served_reads: repairs.served_reads,
            repaired_segments: repairs.repaired_segments,
            waiting: repairs.waiting.values().map(|waiting| waiting.bad.clone()).collect(),
            repaired: repairs.repaired.iter().cloned().collect(),
        })
    }

    /// Writes the file of one segment with bad bytes anew. Another one may wait on return.
    ///
    /// # Errors
    /// [`StoreError::RemoteUnavailable`], and a failed write or sync. The segment waits in either
    /// case.
    pub(super) fn repair_next(&self, tier: &Tier, done: &mut TierProgress) -> Result<(), StoreError> {
        let now = self.shared.clock.instant();
        let Some(segment) = tier.repairs().next(now) else { return Ok(()) };
        let copy = self.shared.index().remote_copy(segment).copied();
        let cache = tier.cache(segment);
        let pieces = cache.copy().filter(|_| copy.is_some_and(|copy| copy.phase == CopyPhase::Remote));
        let Some(pieces) = pieces else {
            // It has died.
            tier.repairs().waiting.remove(&segment);
            return Ok(());
        };
        // Set before the work, which may end at each line: a segment that cannot be written anew
        // does not keep the others from it.
        tier.repairs().put_off(segment, now + TRIED_AGAIN_AFTER);
        done.more |= tier.repairs().next(now).is_some();
        if tier.is_suspect(segment) {
            // What is here may be the only bytes.
            return Ok(());
        }
        // The file would come back under its name if it were removed meanwhile.
        let Some(_pin) = self.shared.segments.pin_segment(segment) else { return Ok(()) };
        let _one_at_a_time = tier.checks.lock().unwrap_or_else(PoisonError::into_inner);
        match tier.check_copy(&cache, pieces) {
            Ok(()) => {}
            // The copy is looked at soon, and sent again from here as far as that can be.
            Err(RemoteError::Missing | RemoteError::Wrong(_)) => return Ok(()),
            Err(error) => return Err(self.remote_failed(segment, error)),
        }
        let old = tier.fs.open_uncached(&segment_path(segment));
        let old =
            Arc::new(Segment { id: segment, file: old.map_err(|error| self.shared.failed(error.into()))? });
        // Before anything is written: an error of these reads is none of the new file, after which
        // no write would be taken.
        let ends = match EndPages::read(tier, &old, pieces, &self.shared.store) {
            Ok(ends) => ends,
            Err(LogError::Unreachable(error)) => {
                return Err(StoreError::RemoteUnavailable(error.to_string()));
            }
            Err(error) if error.is_newer() => {
                log::error!("a segment with bad bytes is not written anew: {error}");
                return Ok(());
            }
            Err(LogError::Damaged(damage)) => {
                log::error!("the file of a segment with bad bytes stays as it is for now: {damage}");
                return Ok(());
            }
            Err(error) => return Err(self.shared.failed(error)),
        };
        let extents = SealedExtents::find(&self.shared, &[segment]);
        let kept = KeptPages::find(&old, &self.shared.store, extents.of(segment));
        let kept = kept.map_err(|error| self.shared.failed(error))?;
        let written = self.write_new_file(tier, &old, &ends, &kept);
        match written.and_then(|()| tier.take_new_file(&cache)) {
            Ok(()) => {}
            Err(LogError::Damaged(damage)) => {
                log::error!("the file of a segment with bad bytes stays as it is for now: {damage}");
                return Ok(());
            }
            Err(LogError::DiskFull(error)) => {
                log::warn!("{} is not written anew for now: {error}", segment_path(segment));
                return Ok(());
            }
            Err(error) => return Err(self.shared.write_failed(error)),
        }
        self.shared.segments.reopen(segment);
        tier.repairs().set_repaired(segment, self.shared.clock.now());
        log::warn!(
            "{} was written anew without its bad bytes: {} of its extents are read from the remote as far as \
             they are not here",
            segment_path(segment),
            kept.dropped
        );
        Ok(())
    }

    /// Writes the new file beside the old one, and verifies what the disk has of it. Nothing is
    /// left of it after a failure.
    fn write_new_file(
        &self,
        tier: &Tier,
        old: &Arc<Segment>,
        ends: &EndPages,
        kept: &KeptPages,
    ) -> Result<(), LogError> {
        let path = unfinished(&segment_path(old.id));
        // An earlier try may have left one of the name.
        let _ = tier.fs.remove(&path);
        let written = self.write_and_verify(tier, old, ends, kept, &path);
        if written.is_err() {
            // The first error is the one to report. What is left a start removes.
            let _ = tier.fs.remove(&path);
        }
        written
    }

    fn write_and_verify(
        &self,
        tier: &Tier,
        old: &Arc<Segment>,
        ends: &EndPages,
        kept: &KeptPages,
        path: &str,
    ) -> Result<(), LogError> {
        let file = tier.fs.create(path)?;
        file.write_all_at(&ends.first, 0)?;
        for range in &kept.ranges {
            copy_bytes(old, file.as_ref(), range)?;
        }
        // It comes last, so that the file has its length.
        let last_at = ends.last_at;
        file.write_all_at(&ends.last, last_at)?;
        for gap in kept.gaps(last_at) {
            file.punch(gap.start, gap.end - gap.start)?;
        }
        file.sync_data()?;
        drop(file);
        let file = tier.fs.open_uncached(path)?;
        file.evict()?;
        let new = Arc::new(Segment { id: old.id, file });
        let mut sweep = Sweep::new(new.clone(), self.shared.store)?;
        for at in 0..kept.good.len() {
            if !sweep.is_good(&kept.good[at..], u64::MAX)? {
                return Err(new.damage(kept.good[at].offset, "what was written does not verify").into());
            }
        }
        if new.footer(&self.shared.store)?.is_none() {
            return Err(new.damage(last_at, "the footer that was written is missing").into());
        }
        let written = kept.ranges.iter().map(|range| range.end - range.start).sum::<u64>();
        if data_bytes(new.file.as_ref(), PAGE_BYTES..last_at)? > written {
            // Zeros would pass for bytes of the segment.
            return Err(new.damage(PAGE_BYTES, "the file system does not report holes").into());
        }
        Ok(())
    }
}

/// The pages of a segment that a start reads without the remote.
struct EndPages {
    first: Vec<u8>,
    last: Vec<u8>,
    last_at: u64,
}

impl EndPages {
    fn read(tier: &Tier, old: &Segment, copy: &LocalPieces, store: &StoreId) -> Result<Self, LogError> {
        let first = good_page(tier, old, copy, 0, "file header", |page| old.check_first_page(store, page))?;
        let last_at = copy.length - PAGE_BYTES;
        let last =
            good_page(tier, old, copy, last_at, "footer", |page| old.check_last_page(store, last_at, page))?;
        Ok(Self { first, last, last_at })
    }
}

/// A page with a structure of the file, from the remote where the own one is bad. `what` names the
/// structure. One of a newer siltstone is not bad, and is not replaced.
fn good_page(
    tier: &Tier,
    old: &Segment,
    copy: &LocalPieces,
    at: u64,
    what: &str,
    check: impl Fn(&[u8]) -> Result<(), LogError>,
) -> Result<Vec<u8>, LogError> {
    let mut page = vec![0; PAGE_BYTES as usize];
    match old.read_at(&mut page, at).and_then(|()| check(&page)) {
        Ok(()) => return Ok(page),
        Err(error) if error.is_newer() => return Err(error),
        Err(_) => {}
    }
    let page = fetch_page(tier, old, copy, at)?;
    match check(&page) {
        Ok(()) => Ok(page),
        Err(LogError::Damaged(_)) => {
            Err(old.damage(at, format!("the {what} is bad here and on the remote")).into())
        }
        Err(error) => Err(error),
    }
}

/// The pages of a segment that a new file keeps.
struct KeptPages {
    /// In order, without gaps between neighbours.
    ranges: Vec<Range<u64>>,
    /// The extents that lie in them.
    good: Vec<LiveExtent>,
    /// The extents that do not, or in part.
    dropped: u64,
}

impl KeptPages {
    /// Reads the live extents of a segment that lie here as a whole.
    fn find(old: &Arc<Segment>, store: &StoreId, extents: &[LiveExtent]) -> Result<Self, LogError> {
        let mut sweep = Sweep::new(old.clone(), *store)?;
        let mut good = Vec::new();
        let mut bad = Vec::new();
        let mut dropped = 0;
        for (at, extent) in extents.iter().enumerate() {
            let pages = pages_of(old, store, extent);
            if data_bytes(old.file.as_ref(), pages.clone())? < pages.end - pages.start {
                dropped += 1;
            } else if sweep.is_good(&extents[at..], u64::MAX)? {
                good.push((*extent, pages));
            } else {
                dropped += 1;
                bad.push(pages);
            }
        }
        // A page that a bad extent shares with a good one would be found bad again.
        let is_clean =
            |pages: &Range<u64>| !bad.iter().any(|bad| bad.start < pages.end && pages.start < bad.end);
        let mut ranges: Vec<Range<u64>> = Vec::new();
        let mut kept = Vec::new();
        for (extent, pages) in good {
            if !is_clean(&pages) {
                dropped += 1;
                continue;
            }
            kept.push(extent);
            match ranges.last_mut() {
                Some(last) if pages.start <= last.end => last.end = last.end.max(pages.end),
                _ => ranges.push(pages),
            }
        }
        Ok(Self { ranges, good: kept, dropped })
    }
}

impl KeptPages {
    /// The pages that are not kept, but for the first one of the file, and those from `end` on.
    fn gaps(&self, end: u64) -> Vec<Range<u64>> {
        let mut gaps = Vec::new();
        let mut at = PAGE_BYTES;
        for range in &self.ranges {
            gaps.push(at..range.start);
            at = range.end;
        }
        gaps.push(at..end);
        gaps.retain(|gap| gap.start < gap.end);
        gaps
    }
}

/// The pages of an extent and its descriptor, without the last page of the segment. Where its
/// header is bad, the length of the descriptor is not known.
fn pages_of(old: &Segment, store: &StoreId, extent: &LiveExtent) -> Range<u64> {
    let mut bytes = [0; ExtentHeader::BYTES];
    let header = match old.read_at(&mut bytes, extent.offset) {
        Ok(()) => extent.header(store, &bytes),
        Err(_) => None,
    };
    let descriptor_len = header.map_or(0, |header| u64::from(header.descriptor_len));
    let end = page_ceil(extent.offset + extent.len() + descriptor_len);
    extent.offset - extent.offset % PAGE_BYTES..end
}

/// A page of the copy of a segment.
fn fetch_page(tier: &Tier, old: &Segment, copy: &LocalPieces, at: u64) -> Result<Vec<u8>, LogError> {
    tier.fetch(old.id, &copy.name, at..at + PAGE_BYTES).map_err(|error| match error.kind() {
        ErrorKind::InvalidData => old.damage(at, error.to_string()).into(),
        _ => error.into(),
    })
}

/// Copies bytes to the same place of another file.
fn copy_bytes(old: &Segment, new: &dyn File, range: &Range<u64>) -> Result<(), LogError> {
    let mut piece = vec![0; COPIED_BYTES.min(range.end - range.start) as usize];
    let mut at = range.start;
    while at < range.end {
        let len = COPIED_BYTES.min(range.end - at) as usize;
        old.read_at(&mut piece[..len], at)?;
        new.write_all_at(&piece[..len], at)?;
        at += len as u64;
    }
    Ok(())
}
