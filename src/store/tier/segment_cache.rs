//! The cache of a remote segment: which of its bytes are here.

use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU16, AtomicU64, Ordering};
use std::sync::{Mutex, OnceLock, RwLock};

use super::in_flight::InFlightFetches;
use crate::base::limits::{MIB, PAGE_BYTES};
use crate::base::{NOT_POISONED, Timestamp};
use crate::format::RemoteCopy;

/// The unit in which local bytes are given back.
pub(super) const PIECE_BYTES: u64 = MIB;
/// The longest read ahead of a sequential reader.
pub(super) const READ_AHEAD_MAX_BYTES: u64 = 8 * MIB;
/// The first one.
const READ_AHEAD_MIN_BYTES: u64 = MIB / 4;

/// A segment, and which of its bytes are here.
pub(super) struct LocalCache {
    pub(super) segment: u64,
    /// Set once the remote has every byte.
    copy: OnceLock<LocalPieces>,
    /// A group that says so, or a later one: where the log is shipped, local bytes stay until the
    /// remote has it.
    pub(super) known_by: AtomicU64,
    /// Held shared while local bytes are read, and exclusively while they are given back.
    pub(super) bytes: RwLock<()>,
    /// Whether its pieces may be given back.
    pub(super) is_listed: AtomicBool,
    /// The space of a sealed segment that is not listed; 0 if it is not known.
    pub(super) pinned_bytes: AtomicU64,
    /// Bytes that come to readers.
    pub(super) in_flight: InFlightFetches,
    /// How often the file was written anew since the start. Changed under the exclusive lock.
    pub(super) generation: AtomicU64,
    /// The end of the last fetch, and its length ahead of what was asked for.
    sequence: Mutex<(u64, u64)>,
    /// The last comparison of the copy; locked while it is made.
    pub(super) compared: Mutex<LastComparison>,
}

/// The last time that a copy was found as it should be.
#[derive(Default)]
pub(super) struct LastComparison {
    pub(super) at: Option<Timestamp>,
    /// The MD5 of the copy, if the remote has stated one since the start.
    pub(super) md5: Option<[u8; 16]>,
    /// Whether it is sent again: the copy counts for nothing meanwhile.
    pub(super) is_resent: bool,
}

/// The remote copy of a segment, and its local pieces.
pub(super) struct LocalPieces {
    /// The name of the copy.
    pub(super) name: String,
    /// The nonce that its put had.
    pub(super) nonce: String,
    /// Bytes of the segment.
    pub(super) length: u64,
    /// The pages that each piece has here, as far as it is listed.
    pages: Box<[AtomicU16]>,
    /// Whether each was read since the hand of the sieve passed it.
    visited: Box<[AtomicBool]>,
    /// Whether each is in the sieve.
    queued: Box<[AtomicBool]>,
    /// The wish of each, as soon as one has any.
    wishes: OnceLock<Box<[AtomicU8]>>,
}

/// The place where a piece should lie.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PieceWish {
    /// Here, as long as there is room.
    None,
    /// Here in any case.
    Local,
    /// On the remote. What a reader fetched is the first to go.
    Remote,
}

impl LocalCache {
    pub(super) fn new(segment: u64) -> Self {
        Self {
            segment,
            copy: OnceLock::new(),
            known_by: AtomicU64::new(0),
            bytes: RwLock::default(),
            is_listed: AtomicBool::new(false),
            pinned_bytes: AtomicU64::new(0),
            in_flight: InFlightFetches::default(),
            generation: AtomicU64::new(0),
            sequence: Mutex::default(),
            compared: Mutex::default(),
        }
    }

    /// The remote copy, if it is complete.
    pub(super) fn copy(&self) -> Option<&LocalPieces> {
        self.copy.get()
    }

    /// Remembers that the remote copy is complete by the group `sequence`.
    pub(super) fn set_copy(&self, copy: &RemoteCopy, sequence: u64) {
        self.known_by.store(sequence, Ordering::Relaxed);
        let pieces = copy.length.div_ceil(PIECE_BYTES) as usize;
        self.copy.get_or_init(|| LocalPieces {
            name: copy.name(self.segment),
            nonce: copy.put_nonce(),
            length: copy.length,
            pages: (0..pieces).map(|_| AtomicU16::new(0)).collect(),
            visited: (0..pieces).map(|_| AtomicBool::new(false)).collect(),
            queued: (0..pieces).map(|_| AtomicBool::new(false)).collect(),
            wishes: OnceLock::new(),
        });
    }

    /// The bytes to fetch ahead for a reader of `wanted`: none at first, and more with each fetch
    /// that begins where the last one ended.
    pub(super) fn read_ahead(&self, wanted: &Range<u64>) -> u64 {
        let mut sequence = self.sequence.lock().expect(NOT_POISONED);
        let (end, last) = *sequence;
        let ahead = match end == wanted.start {
            // Doubled each time: a reader of a few blocks in order costs little, one of a whole
            // object soon has few requests.
            true => (last * 2).clamp(READ_AHEAD_MIN_BYTES, READ_AHEAD_MAX_BYTES),
            false => 0,
        };
        *sequence = (wanted.end + ahead, ahead);
        ahead
    }
}

impl LocalPieces {
    /// The pages that may be given back: all but the first, with the header, and the last, with the
    /// footer.
    pub(super) fn movable(&self) -> Range<u64> {
        PAGE_BYTES..self.length.saturating_sub(PAGE_BYTES).max(PAGE_BYTES)
    }

    /// The bytes of a piece that may be given back.
    pub(super) fn piece(&self, number: u32) -> Range<u64> {
        let start = u64::from(number) * PIECE_BYTES;
        let movable = self.movable();
        let end = (start + PIECE_BYTES).min(movable.end);
        start.max(movable.start).min(end)..end
    }

    /// The number of pieces.
    pub(super) fn count(&self) -> u32 {
        self.pages.len() as u32
    }

    /// Remembers that pieces were read.
    pub(super) fn visit(&self, range: &Range<u64>) {
        for number in numbers(range) {
            if let Some(visited) = self.visited.get(number as usize)
                // Looked at before it is set: the readers of a hot piece would otherwise pass its
                // cache line from core to core with each read.
                && !visited.load(Ordering::Relaxed)
            {
                visited.store(true, Ordering::Relaxed);
            }
        }
    }

    /// Whether a piece was read since the last call.
    pub(super) fn take_visit(&self, number: u32) -> bool {
        self.visited.get(number as usize).is_some_and(|visited| visited.swap(false, Ordering::Relaxed))
    }

    /// The wish of a piece.
    pub(super) fn wish(&self, number: u32) -> PieceWish {
        let wish = self.wishes.get().map_or(0, |wishes| wishes[number as usize].load(Ordering::Acquire));
        match wish {
            0 => PieceWish::None,
            1 => PieceWish::Local,
            _ => PieceWish::Remote,
        }
    }

    /// Sets the wish of a piece.
    pub(super) fn set_wish(&self, number: u32, wish: PieceWish) {
        let wishes = self.wishes.get_or_init(|| (0..self.pages.len()).map(|_| AtomicU8::new(0)).collect());
        wishes[number as usize].store(wish as u8, Ordering::Release);
    }

    /// The pages that a piece has here.
    pub(super) fn pages_of(&self, number: u32) -> u16 {
        self.pages[number as usize].load(Ordering::Acquire)
    }

    /// Counts pages that a piece has got.
    pub(super) fn add_pages(&self, number: u32, pages: u16) {
        self.pages[number as usize].fetch_add(pages, Ordering::AcqRel);
    }

    /// Marks a piece as one in the sieve. Returns whether it is to be added there.
    pub(super) fn enter_sieve(&self, number: u32) -> bool {
        !self.queued[number as usize].swap(true, Ordering::AcqRel)
    }

    /// Notes that a piece was taken from the sieve.
    pub(super) fn leave_sieve(&self, number: u32) {
        self.queued[number as usize].store(false, Ordering::Release);
    }

    /// Forgets all pages of a piece. Returns their number.
    pub(super) fn take_pages(&self, number: u32) -> u16 {
        self.pages[number as usize].swap(0, Ordering::AcqRel)
    }

    /// The listed pages of the pieces with that wish.
    pub(super) fn pages(&self, wish: PieceWish) -> u64 {
        let wanted = (0..self.count()).filter(|number| self.wish(*number) == wish);
        wanted.map(|number| u64::from(self.pages_of(number))).sum()
    }
}

/// The numbers of the pieces that a range touches.
pub(super) fn numbers(range: &Range<u64>) -> impl Iterator<Item = u32> + use<> {
    (range.start / PIECE_BYTES) as u32..range.end.div_ceil(PIECE_BYTES) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sequential_reader_gets_more_ahead_each_time_and_others_nothing() {
        let cache = LocalCache::new(1);
        let mut at = MIB;
        let ahead: Vec<u64> = (0..8)
            .map(|_| {
                let ahead = cache.read_ahead(&(at..at + 4096));
                at += 4096 + ahead;
                ahead >> 10
            })
            .collect();
        assert_eq!(ahead, [0, 256, 512, 1024, 2048, 4096, 8192, 8192]);
        assert_eq!(cache.read_ahead(&(0..4096)), 0);
    }

    #[test]
    fn the_first_and_the_last_page_of_a_segment_stay() {
        let cache = LocalCache::new(1);
        let since = Timestamp::from_millis(0);
        let phase = crate::format::CopyPhase::Remote;
        cache.set_copy(&RemoteCopy { phase, epoch: 1, nonce: 2, length: 2 * MIB + 8192, since }, 1);
        let copy = cache.copy().unwrap();
        assert_eq!(copy.count(), 3);
        assert_eq!([0, 1, 2].map(|n| copy.piece(n)), [4096..MIB, MIB..2 * MIB, 2 * MIB..2 * MIB + 4096]);
    }
}
