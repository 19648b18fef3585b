//! The file of a segment whose bytes may be on the remote.

use std::any::Any;
use std::io;
use std::ops::Range;
use std::sync::atomic::Ordering;
use std::sync::{Arc, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::Tier;
use super::fetch_lock::FetchLock;
use super::in_flight::{FetchedBytes, InFlightBytes, InFlightFetch};
use super::segment_cache::{LocalCache, LocalPieces, READ_AHEAD_MAX_BYTES, numbers};
use crate::base::NOT_POISONED;
use crate::base::limits::{KIB, MIB, PAGE_BYTES};
use crate::fs::{BytesElsewhere, File, ReadAhead, VerifiedCopy, forward_file};
use crate::remote::{PartBytes, RemoteError};
use crate::store::remote_log::request::TimeLimit;

/// The longest wait of a reader for the remote, beside the time that the bytes take.
const PATIENCE: Duration = Duration::from_secs(2);
/// The limit of requests that a reader waits for.
const READER: TimeLimit = TimeLimit { small: PATIENCE, least_bytes_per_second: MIB };
/// Bytes that are waited for at a time: a remote that falls silent is noticed before the time for
/// all bytes has passed.
const WAITED_FOR_BYTES: u64 = 64 * KIB;

/// The file of a segment.
#[derive(Clone)]
pub(super) struct ColdFile {
    pub(super) file: Arc<dyn File>,
    /// Whether fetched bytes are kept. Readers of large amounts open files for reading only, and
    /// leave the cache alone.
    pub(super) is_writable: bool,
    pub(super) cache: Arc<LocalCache>,
    /// The generation of the file, as of [`LocalCache::generation`].
    pub(super) generation: u64,
    pub(super) tier: Arc<Tier>,
}

impl ColdFile {
    /// Reads what is here. Returns the first hole among the bytes, if there is one and the remote
    /// has its bytes: those before it are read.
    fn read_local(&self, buf: &mut [u8], offset: u64) -> io::Result<Option<Range<u64>>> {
        // Held from the look for a hole to the end of the read: with a punch in between the reader
        // would get zeros. Readers share it.
        let _here = self.cache.bytes.read().expect(NOT_POISONED);
        let wanted_end = offset + buf.len() as u64;
        let hole = match self.cache.copy() {
            Some(copy) if wanted_end <= copy.length => {
                let wanted = offset..wanted_end;
                copy.visit(&wanted);
                // Where the file belongs to another thread, the copy is read in place of it.
                if self.tier.leaves_files_alone { Some(wanted) } else { self.file.next_hole(wanted)? }
            }
            _ => None,
        };
        let here = hole.as_ref().map_or(wanted_end, |hole| hole.start) - offset;
        self.file.read_exact_at(&mut buf[..here as usize], offset)?;
        Ok(hole)
    }

    /// Fills the holes among the bytes from the remote, for a reader that has arrived then.
    fn fetch(
        &self,
        copy: &LocalPieces,
        buf: &mut [u8],
        offset: u64,
        hole: &Range<u64>,
        arrived: Instant,
    ) -> io::Result<()> {
        // 1. One reader fetches at a place. The others find its bytes in step 2, or its failure in
        //    step 3, so that a remote that is away is waited for once and not by each in turn.
        let mut lock = self.tier.fetch_lock(self.cache.segment, hole.start);
        // 2. The file is looked at again under the lock.
        // Another reader may have fetched it meanwhile, or failed to.
        let Some(hole) = self.read_local(buf, offset)? else { return Ok(()) };
        // 3. A failure counts for those who waited for it alone: a later reader asks anew.
        lock.check(self.cache.segment, arrived)?;
        let range = self.range_to_fetch(copy, hole.start..offset + buf.len() as u64);
        // 4. The wait of a reader counts from the last answer to another one, if that is later than
        //    its arrival: a queue in front of a remote that answers is no outage.
        let since = lock.waits_since(arrived);
        let bytes = self.tier.fetch_since(self.cache.segment, &copy.name, range.clone(), since);
        let bytes = lock.note(self.cache.segment, Instant::now(), bytes)?;
        // 5. The lock is released before the bytes are kept. Making room for them may ask the
        //    remote for the copies of other segments, and a reader that waits for the lock would
        //    wait for that too.
        drop(lock);
        let fetched = FetchedBytes { range, bytes };
        let missing = hole.start..offset + buf.len() as u64;
        buf[(missing.start - offset) as usize..].copy_from_slice(fetched.of(&missing));
        if self.is_writable { self.keep(&fetched) } else { Ok(()) }
    }

    /// Asks for what is missing of a range, if there is room to keep it, or joins those who have.
    fn fetch_ahead(&self, copy: &LocalPieces, range: Range<u64>) -> io::Result<Option<FetchReader>> {
        // A reader of what is here takes no fetch lock, which may be held as long as a fetch lasts.
        if self.file.next_hole(range.clone())?.is_none() {
            return Ok(None);
        }
        let arrived = Instant::now();
        let mut lock = self.tier.fetch_lock(self.cache.segment, range.start);
        let Some(hole) = self.file.next_hole(range.clone())? else { return Ok(None) };
        let hole = match self.join_in_flight(hole.start) {
            None => hole,
            Some(reader) if reader.fetch.range.end >= range.end => return Ok(Some(reader)),
            Some(reader) => {
                self.keep_in_flight(&reader.fetch, hole.start)?;
                let Some(hole) = self.file.next_hole(range.clone())? else { return Ok(None) };
                hole
            }
        };
        // Whole pages, since holes are reported by pages: a part of one would turn the rest of the
        // page into zeros that pass for bytes of the segment.
        let start = hole.start - hole.start % PAGE_BYTES;
        let end = range.end.next_multiple_of(PAGE_BYTES).min(start + READ_AHEAD_MAX_BYTES).min(copy.length);
        if !self.tier.may_make_room(end - start) {
            return Ok(None);
        }
        lock.check(self.cache.segment, arrived)?;
        let since = lock.waits_since(arrived);
        let source = self.tier.open_stream(self.cache.segment, &copy.name, &(start..end), since);
        let source = lock.note(self.cache.segment, Instant::now(), source)?;
        let fetch = Arc::new(InFlightFetch::new(start..end, source));
        self.cache.in_flight.add(&fetch);
        Ok(Some(FetchReader { file: self.clone(), fetch }))
    }

    /// Joins the readers of the byte at `offset`, if it is on its way.
    fn join_in_flight(&self, offset: u64) -> Option<FetchReader> {
        let fetch = self.cache.in_flight.join(offset)?;
        Some(FetchReader { file: self.clone(), fetch })
    }

    /// Takes bytes that are on their way from `offset` on. Returns the end of those in `buf`:
    /// `offset` where the file has got the first of them meanwhile; `None` if it does not come.
    fn take_in_flight(&self, fetch: &InFlightFetch, buf: &mut [u8], offset: u64) -> io::Result<Option<u64>> {
        let mut rest = fetch.lock();
        if let Some(end) = rest.copy_last(buf, offset) {
            return Ok(Some(end));
        }
        self.keep_last(&mut rest)?;
        // It may have been kept meanwhile.
        if rest.has_passed(offset) && self.file.next_hole(offset..offset + 1)?.is_none() {
            return Ok(Some(offset));
        }
        let end = (offset + buf.len() as u64).next_multiple_of(PAGE_BYTES);
        rest.last = rest.take(offset, end, |bytes| READER.of_bytes(bytes));
        let Some(last) = &rest.last else { return Ok(None) };
        self.tier.fetched_bytes.fetch_add(last.bytes.len() as u64, Ordering::Relaxed);
        Ok(rest.copy_last(buf, offset))
    }

    /// Takes all bytes that are on their way, from `offset` on, and keeps them.
    fn keep_in_flight(&self, fetch: &InFlightFetch, offset: u64) -> io::Result<()> {
        let mut rest = fetch.lock();
        self.keep_last(&mut rest)?;
        let Some(taken) = rest.take(offset, fetch.range.end, |bytes| READER.of_bytes(bytes)) else {
            return Ok(());
        };
        self.tier.fetched_bytes.fetch_add(taken.bytes.len() as u64, Ordering::Relaxed);
        self.keep(&taken)
    }

    /// Keeps the last bytes that were taken. Others that wait for the lock look for them in the
    /// file.
    fn keep_last(&self, rest: &mut InFlightBytes) -> io::Result<()> {
        rest.last.take().map_or(Ok(()), |last| self.keep(&last))
    }

    /// Whole pages from the hole to the end, and more for a sequential reader.
    fn range_to_fetch(&self, copy: &LocalPieces, wanted: Range<u64>) -> Range<u64> {
        // Whole pages, as in `fetch_ahead`.
        let start = wanted.start - wanted.start % PAGE_BYTES;
        let end = wanted.end.next_multiple_of(PAGE_BYTES);
        let ahead = if self.is_writable { self.cache.read_ahead(&(start..end)) } else { 0 };
        start..(end + ahead).min(copy.length)
    }

    /// Keeps fetched bytes where they are missing, as far as there is room.
    fn keep(&self, fetched: &FetchedBytes) -> io::Result<()> {
        let Some(copy) = self.cache.copy() else { return Ok(()) };
        // Before the lock below is taken: making room punches pieces, maybe of this segment, and
        // takes the lock exclusively for that.
        if !self.tier.make_room(fetched.bytes.len() as u64) {
            return Ok(());
        }
        let _here = self.cache.bytes.read().expect(NOT_POISONED);
        if self.cache.generation.load(Ordering::Acquire) != self.generation {
            // The file was written anew meanwhile, and this is the old one, whose pages count for
            // nothing.
            return Ok(());
        }
        let kept = numbers(&fetched.range).try_for_each(|number| self.keep_piece(copy, number, fetched));
        // Without room the bytes are fetched again another time.
        match kept {
            Err(error) if error.kind() == io::ErrorKind::StorageFull => Ok(()),
            kept => kept,
        }
    }

    /// Writes fetched bytes into the holes of a piece.
    fn keep_piece(&self, copy: &LocalPieces, number: u32, fetched: &FetchedBytes) -> io::Result<()> {
        let piece = copy.piece(number);
        let mut at = piece.start.max(fetched.range.start);
        let end = piece.end.min(fetched.range.end);
        let mut pages = 0;
        while at < end
            && let Some(hole) = self.file.next_hole(at..end)?
        {
            self.file.write_all_at(fetched.of(&hole), hole.start)?;
            pages += ((hole.end - hole.start) / PAGE_BYTES) as u16;
            at = hole.end;
        }
        if pages > 0 {
            self.tier.add_pages(&self.cache, number, pages);
        }
        Ok(())
    }
}

/// A reader of bytes that are on their way.
struct FetchReader {
    file: ColdFile,
    fetch: Arc<InFlightFetch>,
}

impl Drop for FetchReader {
    fn drop(&mut self) {
        let in_flight = &self.file.cache.in_flight;
        if !in_flight.leave(&self.fetch) {
            return;
        }
        // The fetch is found until its last bytes are in the file: a reader that sees neither would
        // fetch them again.
        let kept = self.file.keep_last(&mut self.fetch.lock());
        in_flight.remove_unread(&self.fetch);
        if let Err(error) = kept {
            log::warn!("fetched bytes are not kept: {error}");
        }
    }
}

/// The error of a reader: bytes that the remote has not got are damage.
pub(super) fn failure(name: &str, error: RemoteError) -> io::Error {
    match error {
        RemoteError::Missing | RemoteError::Wrong(_) => {
            io::Error::new(io::ErrorKind::InvalidData, format!("its copy on the remote, {name}: {error}"))
        }
        error => io::Error::new(io::ErrorKind::HostUnreachable, format!("{name} on the remote: {error}")),
    }
}

impl Tier {
    /// The lock for fetches at a place. Fetches of other readers there have ended then.
    fn fetch_lock(&self, segment: u64, offset: u64) -> MutexGuard<'_, FetchLock> {
        // Multiplied by 2^64 divided by the golden ratio, so that the pieces of neighbouring
        // segments fall on different locks.
        let piece =
            segment.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ (offset / super::segment_cache::PIECE_BYTES);
        let lock = &self.fetch_locks[(piece % self.fetch_locks.len() as u64) as usize];
        lock.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Bytes of a copy.
    pub(super) fn fetch(&self, segment: u64, name: &str, range: Range<u64>) -> io::Result<Vec<u8>> {
        let len = range.end - range.start;
        let within = self.check_mark_within(READER.of_bytes(len))?;
        let bytes =
            self.remote.get(name, range, within).map_err(|error| self.failed(segment, name, error))?;
        self.fetches.fetch_add(1, Ordering::Relaxed);
        self.fetched_bytes.fetch_add(len, Ordering::Relaxed);
        Ok(bytes)
    }

    /// Bytes of a copy for a reader that waits since then. A remote that falls silent is given up
    /// after [`PATIENCE`], however many bytes are missing; one that ends in the midst is asked for
    /// the rest.
    fn fetch_since(
        &self,
        segment: u64,
        name: &str,
        range: Range<u64>,
        since: Instant,
    ) -> io::Result<Vec<u8>> {
        let mut bytes = vec![0; (range.end - range.start) as usize];
        let whole_by = since + READER.of_bytes(bytes.len() as u64);
        let mut at = 0;
        let mut progress = since;
        loop {
            let begun = at;
            let rest = range.start + at as u64..range.end;
            let mut source = self.open_stream(segment, name, &rest, progress)?;
            let ended = loop {
                let piece = (bytes.len() - at).min(WAITED_FOR_BYTES as usize);
                if piece == 0 {
                    self.fetched_bytes.fetch_add(bytes.len() as u64, Ordering::Relaxed);
                    return Ok(bytes);
                }
                let left = whole_by.saturating_duration_since(Instant::now());
                let within = READER.of_bytes(piece as u64).min(left);
                match source.read(&mut bytes[at..at + piece], within) {
                    Ok(()) => at += piece,
                    Err(error) => break error,
                }
                progress = Instant::now();
            };
            // A connection that broke after some bytes is worth another one. After none the remote
            // would be asked without end, and a copy that is missing or wrong stays so.
            let may_go_on = matches!(ended, RemoteError::Unavailable(_)) && at > begun;
            let now = Instant::now();
            if !may_go_on || progress + PATIENCE <= now || whole_by <= now {
                return Err(self.failed(segment, name, ended));
            }
        }
    }

    /// Bytes of a copy that come while they are read, for a reader that waits since then.
    fn open_stream(
        &self,
        segment: u64,
        name: &str,
        range: &Range<u64>,
        since: Instant,
    ) -> io::Result<Box<dyn PartBytes>> {
        self.mark.pass(self.remote.as_ref(), PATIENCE.saturating_sub(since.elapsed()))?;
        let within = PATIENCE.saturating_sub(since.elapsed());
        if within.is_zero() {
            let why = "others waited for it so long that no time is left".to_owned();
            return Err(failure(name, RemoteError::Unavailable(why)));
        }
        let stream = self.remote.open_stream(name, range.clone(), within);
        let stream = stream.map_err(|error| self.failed(segment, name, error))?;
        if stream.object_length < range.end {
            let wrong = format!("it has {} bytes, and {range:?} was asked for", stream.object_length);
            return Err(self.failed(segment, name, RemoteError::Wrong(wrong)));
        }
        self.fetches.fetch_add(1, Ordering::Relaxed);
        Ok(stream.bytes)
    }

    /// The error of a reader. A copy that is gone or changed is looked at soon.
    fn failed(&self, segment: u64, name: &str, error: RemoteError) -> io::Error {
        if let RemoteError::Missing | RemoteError::Wrong(_) = error {
            self.suspect(segment);
        }
        failure(name, error)
    }

    /// Fails unless the remote belongs to this store. Returns the time that is left then.
    fn check_mark_within(&self, within: Duration) -> io::Result<Duration> {
        let began = Instant::now();
        self.mark.pass(self.remote.as_ref(), PATIENCE)?;
        Ok(within.saturating_sub(began.elapsed()))
    }
}

impl File for ColdFile {
    forward_file!(file: len, write_all_at, write_zeros, reserve, truncate, next_hole, lock_shared, has_shared_lock);
    forward_file!(file: usage, start_writeback, sync_data, evict);

    fn read_exact_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        let arrived = Instant::now();
        let mut at = offset;
        let end = offset + buf.len() as u64;
        while at < end {
            let missing = &mut buf[(at - offset) as usize..];
            let Some(hole) = self.read_local(missing, at)? else { return Ok(()) };
            let Some(copy) = self.cache.copy() else { return Ok(()) };
            let taken = match self.join_in_flight(hole.start) {
                Some(reader) => {
                    let missing = &mut missing[(hole.start - at) as usize..];
                    self.take_in_flight(&reader.fetch, missing, hole.start)?
                }
                None => None,
            };
            match taken {
                None => return self.fetch(copy, missing, at, &hole, arrived),
                Some(end) => at = end,
            }
        }
        Ok(())
    }

    fn punch(&self, offset: u64, len: u64) -> io::Result<()> {
        // Its space is asked for again.
        self.cache.pinned_bytes.store(0, Ordering::Relaxed);
        self.file.punch(offset, len)
    }

    fn elsewhere(&self) -> Option<&dyn BytesElsewhere> {
        Some(self)
    }
}

impl BytesElsewhere for ColdFile {
    fn read_copy(&self, out: &mut [u8], offset: u64) -> io::Result<bool> {
        let range = offset..offset + out.len() as u64;
        let Some(copy) = self.cache.copy().filter(|copy| range.end <= copy.length) else { return Ok(false) };
        // Bytes on their way may be the bad ones. Whoever joins the fetch next would write them
        // into the file.
        if let Some(reader) = self.join_in_flight(offset) {
            reader.fetch.lock().last = None;
        }
        let arrived = Instant::now();
        // Others that wait for a remote that is away share its failure.
        let mut lock = self.tier.fetch_lock(self.cache.segment, offset);
        lock.check(self.cache.segment, arrived)?;
        let since = lock.waits_since(arrived);
        let bytes = self.tier.fetch_since(self.cache.segment, &copy.name, range, since);
        match lock.note(self.cache.segment, Instant::now(), bytes) {
            Ok(bytes) => out.copy_from_slice(&bytes),
            // The copy is gone or changed, which is looked at soon: there is none for now.
            Err(error) if error.kind() == io::ErrorKind::InvalidData => return Ok(false),
            Err(error) => return Err(error),
        }
        Ok(true)
    }

    fn note_bad(&self, offset: u64, what: &str, _: VerifiedCopy<'_>) {
        let is_own = self.cache.generation.load(Ordering::Acquire) == self.generation;
        match is_own && !self.tier.leaves_files_alone {
            true => self.tier.note_bad(self.cache.segment, offset, what),
            // The file was written anew meanwhile, and this is the old one.
            false => self.tier.count_served(),
        }
    }

    fn will_read(&self, range: Range<u64>) -> io::Result<ReadAhead> {
        match self.cache.copy().filter(|_| self.is_writable) {
            Some(copy) if range.end <= copy.length => {
                let reader = self.fetch_ahead(copy, range)?;
                Ok(reader.map(|reader| Arc::new(reader) as Arc<dyn Any + Send + Sync>))
            }
            _ => Ok(None),
        }
    }

    fn read_aside(&self, range: Range<u64>) -> Option<Vec<u8>> {
        self.cache.copy().filter(|copy| range.end <= copy.length)?;
        let mut bytes = vec![0; (range.end - range.start) as usize];
        match self.read_local(&mut bytes, range.start) {
            Ok(None) => Some(bytes),
            _ => self.tier.read_table(self.cache.segment, &range),
        }
    }

    fn keep_aside(&self, bytes: &[u8], offset: u64) {
        if self.is_writable && self.cache.copy().is_some() {
            self.tier.keep_tables(self.cache.segment, [(offset, bytes)]);
        }
    }
}
