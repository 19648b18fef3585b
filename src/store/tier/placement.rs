//! Where the pieces of segments should lie: by the placement of their bucket, and by the storage
//! class of the versions in them.
//!
//! A version of the class COLD wishes to be on the remote alone. Any other one wishes what the
//! placement of its bucket says. A piece follows the warmest of the versions whose bytes it has.
//! The wishes are found by a walk over the index, before a segment is listed and when a placement
//! or the amount of COLD bytes has changed; another change, such as a copy, is found within an
//! hour. A walk takes at most a twentieth of the time. Without placements and COLD versions there
//! is no walk, and nothing is kept.

use std::collections::BTreeMap;
use std::io;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::Tier;
use super::segment_cache::{LocalCache, LocalPieces, PieceWish, numbers};
use crate::base::NOT_POISONED;
use crate::format::{
    BucketConfigurationKind, Entry, ExtentHeader, ExtentRef, StorageClass, UNIT_BYTES, segment_path,
};
use crate::index::{BucketConfiguration, ContentTotal, Cursor, Index};
use crate::store::Store;

/// Keys in one step of a walk.
const KEYS_PER_WALK: usize = 256;
/// The longest time without a walk.
const WALK_INTERVAL: Duration = Duration::from_secs(60 * 60);
/// The time between two walks, in multiples of the time that the last one took.
const REST: u32 = 20;

/// The place where the bytes of a bucket should lie.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BucketPlacement {
    /// The disk: its bytes are copied to the remote, and stay here.
    Local,
    /// The remote: its bytes leave the disk as soon as they may.
    Remote,
}

impl BucketPlacement {
    const MEMBER: &str = "placement";

    /// The name in documents and commands.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Local => "local",
            Self::Remote => "remote",
        }
    }

    /// The placement with that name.
    pub fn named(name: &str) -> Option<Self> {
        [Self::Local, Self::Remote].into_iter().find(|placement| placement.as_str() == name)
    }

    /// The document to be stored.
    pub fn document(self) -> Vec<u8> {
        json!({ Self::MEMBER: self.as_str() }).to_string().into_bytes()
    }

    /// Reads a document as [`Self::document`] writes it; `None` if it is not one.
    pub fn from_document(bytes: &[u8]) -> Option<Self> {
        let document: Value = serde_json::from_slice(bytes).ok()?;
        Self::named(document.get(Self::MEMBER)?.as_str()?)
    }

    /// The placement in a stored configuration.
    pub fn of(stored: &BucketConfiguration) -> Option<Self> {
        *stored.parsed(Self::from_document)
    }

    fn wish(self) -> PieceWish {
        match self {
            Self::Local => PieceWish::Local,
            Self::Remote => PieceWish::Remote,
        }
    }
}

/// The state of an index that wishes depend on.
#[derive(PartialEq, Eq)]
struct WishBasis {
    /// By the ids of buckets.
    placements: BTreeMap<u64, BucketPlacement>,
    cold: ContentTotal,
}

/// The last walk.
pub(super) struct LastWalk {
    basis: WishBasis,
    end: Instant,
    took: Duration,
}

impl WishBasis {
    fn of(index: &Index) -> Self {
        let mut placements = BTreeMap::new();
        for bucket in index.buckets() {
            let stored = index.configuration(bucket.id, BucketConfigurationKind::Placement);
            if let Some(placement) = stored.and_then(|stored| BucketPlacement::of(stored)) {
                placements.insert(bucket.id, placement);
            }
        }
        let cold = index.usages().fold(ContentTotal::default(), |sum, (_, usage)| ContentTotal {
            count: sum.count + usage.cold.count,
            bytes: sum.bytes + usage.cold.bytes,
        });
        Self { placements, cold }
    }

    fn wishes_nothing(&self) -> bool {
        self.placements.is_empty() && self.cold.count == 0
    }

    fn wish(&self, bucket: u64, class: StorageClass) -> PieceWish {
        match class {
            StorageClass::Cold => PieceWish::Remote,
            StorageClass::Standard => {
                self.placements.get(&bucket).map_or(PieceWish::None, |placement| placement.wish())
            }
        }
    }
}

/// The wishes for each piece of some segments, as sets of bits.
struct WishSets(BTreeMap<u64, Vec<u8>>);

impl WishSets {
    fn add(&mut self, extent: &ExtentRef, wish: PieceWish) {
        let Some(pieces) = self.0.get_mut(&extent.segment) else { return };
        let len = u64::from(extent.payload_len);
        let end = extent.offset + UNIT_BYTES + len + ExtentHeader::table_len(len);
        for number in numbers(&(extent.offset..end)) {
            if let Some(piece) = pieces.get_mut(number as usize) {
                *piece |= 1 << wish as u8;
            }
        }
    }

    /// The wish of the warmest bytes; none for a piece without.
    fn warmest(set: u8) -> PieceWish {
        let by_warmth = [PieceWish::Local, PieceWish::None, PieceWish::Remote];
        by_warmth.into_iter().find(|wish| set & 1 << *wish as u8 != 0).unwrap_or(PieceWish::None)
    }
}

impl Store {
    /// Sees to it that the pieces of all listed segments, and of those that are `about` to be, lie
    /// where they should. Returns the bytes that left; `None` if another walk is too early, so that
    /// `about` may not be listed yet.
    pub(super) fn place_pieces(&self, tier: &Tier, about: &[u64]) -> io::Result<Option<u64>> {
        let index = self.shared.index();
        let basis = WishBasis::of(&index);
        let mut last = tier.last_walk.lock().expect(NOT_POISONED);
        if basis.wishes_nothing() && last.is_none() {
            return Ok(Some(0));
        }
        let begun = self.shared.clock.instant();
        let since = last.as_ref().map(|last| begun.duration_since(last.end));
        let is_known = last.as_ref().is_some_and(|last| last.basis == basis) && about.is_empty();
        if is_known && since.is_some_and(|since| since < WALK_INTERVAL) {
            return Ok(Some(0));
        }
        // Too early. With segments that are about to be listed the answer is "not yet" and not
        // "nothing left": listed without their wishes they would lose pieces that are to stay here.
        if last.as_ref().zip(since).is_some_and(|(last, since)| since < last.took * REST) {
            return Ok(about.is_empty().then_some(0));
        }
        let wishes = wishes(&index, &basis, tier, about);
        let mut left = 0;
        for (segment, sets) in &wishes.0 {
            left += tier.place(&tier.cache(*segment), sets)?;
        }
        let end = self.shared.clock.instant();
        *last = (!basis.wishes_nothing()).then(|| LastWalk { basis, end, took: end.duration_since(begun) });
        Ok(Some(left))
    }
}

/// The wishes for the pieces of the listed segments and of those that are about to be.
fn wishes(index: &Index, basis: &WishBasis, tier: &Tier, about: &[u64]) -> WishSets {
    let caches = tier.caches.read().expect(NOT_POISONED);
    let mut sets = WishSets(BTreeMap::new());
    for known in caches.values() {
        let is_wanted = known.is_listed.load(Ordering::Acquire) || about.contains(&known.segment);
        if let Some(copy) = known.copy().filter(|_| is_wanted) {
            sets.0.insert(known.segment, vec![0; copy.count() as usize]);
        }
    }
    // The walk takes as long as the index is large, and a reader that opens a segment for the first
    // time needs the lock for writing.
    drop(caches);
    let mut cursor = Cursor::Start;
    while !basis.wishes_nothing() {
        let entries = index.walk(&mut cursor, KEYS_PER_WALK);
        if entries.is_empty() {
            break;
        }
        for entry in &entries {
            let wish = match entry {
                Entry::VersionPut { bucket, record, .. } => basis.wish(*bucket, record.storage_class),
                Entry::PartPut { bucket, .. } => basis.wish(*bucket, StorageClass::Standard),
                _ => continue,
            };
            for extent in entry.extents() {
                sets.add(extent, wish);
            }
        }
    }
    sets
}

impl Tier {
    /// Takes over the wishes for the pieces of a segment. Returns the bytes of those that left at
    /// once.
    fn place(&self, cache: &LocalCache, sets: &[u8]) -> io::Result<u64> {
        let Some(copy) = cache.copy() else { return Ok(0) };
        let mut leaving = Vec::new();
        // Where the copy is not there, its pieces stay as they are until a later walk.
        let may_leave = !self.has_to_leave(copy, sets) || self.check_copy(cache, copy).is_ok();
        {
            // No reader may count pages meanwhile.
            let _alone = cache.bytes.write().expect(NOT_POISONED);
            for (number, set) in (0..copy.count()).zip(sets) {
                let wish = WishSets::warmest(*set);
                if copy.wish(number) != wish && (may_leave || wish != PieceWish::Remote) {
                    self.set_wish(cache, copy, number, wish);
                    leaving.extend((wish == PieceWish::Remote).then_some(number));
                }
            }
        }
        // The pieces of a segment that is not listed leave once it is.
        leaving.into_iter().map(|number| self.leave(cache, copy, number)).sum()
    }

    /// Whether pieces would leave by these wishes that do not wish to yet.
    fn has_to_leave(&self, copy: &LocalPieces, sets: &[u8]) -> bool {
        (0..copy.count()).zip(sets).any(|(number, set)| {
            let is_new = copy.wish(number) != PieceWish::Remote && copy.pages_of(number) > 0;
            is_new && WishSets::warmest(*set) == PieceWish::Remote
        })
    }

    /// Lists the pieces of a segment, and has those leave that wish to be on the remote alone.
    /// `None` where the copy of such a segment is not there: it is not listed for now.
    pub(super) fn list_and_leave(&self, cache: &LocalCache) -> io::Result<Option<u64>> {
        let Some(copy) = cache.copy() else { return self.list(cache).map(|()| Some(0)) };
        if (0..copy.count()).any(|number| copy.wish(number) == PieceWish::Remote)
            && (self.is_suspect(cache.segment) || self.check_copy(cache, copy).is_err())
        {
            return Ok(None);
        }
        // Listed before its pieces leave: a punch takes counted pages off the totals, and those of
        // an unlisted segment are in none.
        self.list(cache)?;
        let mut left = 0;
        for number in 0..copy.count() {
            if copy.wish(number) == PieceWish::Remote {
                left += self.leave(cache, copy, number)?;
            }
        }
        Ok(Some(left))
    }

    /// Gives a piece back at once. One that a backup holds has no wish until the next walk.
    fn leave(&self, cache: &LocalCache, copy: &LocalPieces, number: u32) -> io::Result<u64> {
        if copy.pages_of(number) == 0 {
            return Ok(0);
        }
        // Where the copy is not there any more, the piece is queued.
        if self.check_copy(cache, copy).is_err() {
            return Ok(0);
        }
        if let Some(bytes) = self.punch(cache, copy, number)? {
            return Ok(bytes);
        }
        log::info!(
            "{}: a backup keeps bytes that should be on the remote alone",
            segment_path(cache.segment)
        );
        let _alone = cache.bytes.write().expect(NOT_POISONED);
        self.set_wish(cache, copy, number, PieceWish::None);
        Ok(0)
    }

    /// Sets the wish of a piece, by which its pages are counted and queued. The caller holds the
    /// bytes exclusively.
    fn set_wish(&self, cache: &LocalCache, copy: &LocalPieces, number: u32, wish: PieceWish) {
        let pages = u64::from(copy.pages_of(number));
        self.count_of(copy.wish(number)).fetch_sub(pages, Ordering::AcqRel);
        self.count_of(wish).fetch_add(pages, Ordering::AcqRel);
        copy.set_wish(number, wish);
        if pages > 0 {
            self.enqueue(cache, copy, number);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_piece_follows_the_warmest_of_its_bytes() {
        let set = |wishes: &[PieceWish]| wishes.iter().fold(0, |set, wish| set | 1 << *wish as u8);
        let none = PieceWish::None;
        let local = PieceWish::Local;
        let remote = PieceWish::Remote;
        for (wishes, warmest) in [
            (&[][..], none),
            (&[remote], remote),
            (&[remote, none], none),
            (&[remote, local], local),
            (&[none, local], local),
        ] {
            assert_eq!(WishSets::warmest(set(wishes)), warmest, "{wishes:?}");
        }
    }

    #[test]
    fn placements_are_stored_by_their_names() {
        for placement in [BucketPlacement::Local, BucketPlacement::Remote] {
            assert_eq!(BucketPlacement::from_document(&placement.document()), Some(placement));
        }
        assert_eq!(BucketPlacement::Local.document(), br#"{"placement":"local"}"#);
        for other in ["", "{}", r#"{"placement":"there"}"#, r#"{"placement":1}"#, "[]"] {
            assert_eq!(BucketPlacement::from_document(other.as_bytes()), None, "{other}");
        }
    }
}
