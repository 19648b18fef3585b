//! The last requests, whatever came of them, in memory, for the page of the activity.
//!
//! Every request is written here, so a write waits for nobody and allocates nothing: a slot is a row
//! of atomic words, and its turn is odd while a thread writes it. A reader that finds the turn odd,
//! or another one after it has read the words, leaves the slot out.

use std::net::{IpAddr, Ipv6Addr};
use std::sync::atomic::{AtomicU64, Ordering, fence};
use std::time::Duration;

use super::access_log::AccessRecord;
use super::recent::NotedRequest;
use crate::base::{Timestamp, beginning_of};

/// Requests that the ring keeps.
const SLOTS: usize = 256;

/// The words of a slot before its texts.
const TIME: usize = 0;
const TOOK: usize = 1;
const RECEIVED: usize = 2;
const SENT: usize = 3;
/// The address of the client, in the form of IPv6; zeros for none.
const PEER_HIGH: usize = 4;
const PEER_LOW: usize = 5;
/// The status and the lengths of the texts.
const SHAPE: usize = 6;
const HEAD_WORDS: usize = 7;
/// Words for the texts: id, operation, error, user and path, one after the other.
const TEXT_WORDS: usize = 36;
const WORDS: usize = HEAD_WORDS + TEXT_WORDS;

const WORD_BYTES: usize = size_of::<u64>();
const TEXT_BYTES: usize = TEXT_WORDS * WORD_BYTES;
/// Bytes of each text that are kept. Clients choose users and paths; of a path the rest of the slot
/// is kept, 128 bytes at least.
const ID_MAX_BYTES: usize = 16;
const NAME_MAX_BYTES: usize = 48;
/// A length takes a byte.
const PATH_MAX_BYTES: usize = 255;

/// The ring.
pub(super) struct RequestRing {
    slots: Box<[RequestSlot]>,
    /// Requests that were written since the start.
    written: AtomicU64,
}

struct RequestSlot {
    /// Odd while a thread writes the words; 0 before the first.
    turn: AtomicU64,
    words: [AtomicU64; WORDS],
}

/// The texts of a request, one after the other.
struct SlotTexts {
    bytes: [u8; TEXT_BYTES],
    len: usize,
}

impl SlotTexts {
    /// Adds the beginning of a text. Returns the length of what was added.
    fn push(&mut self, text: &str, max: usize) -> u64 {
        let kept = beginning_of(text, max.min(TEXT_BYTES - self.len)).as_bytes();
        self.bytes[self.len..self.len + kept.len()].copy_from_slice(kept);
        self.len += kept.len();
        kept.len() as u64
    }
}

impl Default for RequestRing {
    fn default() -> Self {
        let slot = || RequestSlot { turn: AtomicU64::new(0), words: [const { AtomicU64::new(0) }; WORDS] };
        Self { slots: (0..SLOTS).map(|_| slot()).collect(), written: AtomicU64::new(0) }
    }
}

impl RequestRing {
    /// Keeps a request in place of the oldest. `place` stands for its path, where that does not name
    /// the bucket and the key.
    pub(super) fn note(&self, record: &AccessRecord<'_>, place: Option<&str>) {
        let mut texts = SlotTexts { bytes: [0; TEXT_BYTES], len: 0 };
        let id = texts.push(record.id, ID_MAX_BYTES);
        let operation = texts.push(record.operation, NAME_MAX_BYTES);
        let error = texts.push(record.error.unwrap_or_default(), NAME_MAX_BYTES);
        let user = texts.push(record.user.unwrap_or_default(), NAME_MAX_BYTES);
        let path = texts.push(place.unwrap_or(record.path), PATH_MAX_BYTES);
        let shape =
            u64::from(record.status) | id << 16 | operation << 24 | error << 32 | user << 40 | path << 48;
        let peer = record.peer.map_or(0, |peer| bits(peer.ip()));
        let mut head = [0; HEAD_WORDS];
        head[TIME] = record.time.as_millis();
        head[TOOK] = record.took.as_micros() as u64;
        head[RECEIVED] = record.received;
        head[SENT] = record.sent;
        head[PEER_HIGH] = (peer >> 64) as u64;
        head[PEER_LOW] = peer as u64;
        head[SHAPE] = shape;
        let at = self.written.fetch_add(1, Ordering::Relaxed) as usize % SLOTS;
        self.slots[at].write(&head, &texts);
    }

    /// The requests that are kept, the one that came last first.
    pub(super) fn snapshot(&self) -> Vec<NotedRequest> {
        let mut kept: Vec<_> = self.slots.iter().filter_map(RequestSlot::read).collect();
        kept.sort_by_key(|request| std::cmp::Reverse(request.time));
        kept
    }
}

impl RequestSlot {
    fn write(&self, head: &[u64; HEAD_WORDS], texts: &SlotTexts) {
        let turn = self.turn.load(Ordering::Relaxed);
        let next = turn + 1;
        // A thread that stands still in here for a whole round of the ring keeps its slot, and the
        // request that comes round is left out.
        let is_free = turn.is_multiple_of(2)
            && self.turn.compare_exchange(turn, next, Ordering::Acquire, Ordering::Relaxed).is_ok();
        if !is_free {
            return;
        }
        // A reader that sees a word of this request sees the odd turn, too.
        fence(Ordering::Release);
        for (word, value) in self.words.iter().zip(head) {
            word.store(*value, Ordering::Relaxed);
        }
        let (text, _) = texts.bytes.as_chunks::<WORD_BYTES>();
        let used = texts.len.div_ceil(WORD_BYTES);
        for (word, bytes) in self.words[HEAD_WORDS..].iter().zip(&text[..used]) {
            word.store(u64::from_le_bytes(*bytes), Ordering::Relaxed);
        }
        self.turn.store(next + 1, Ordering::Release);
    }

    /// The request in the slot; `None` without one, and while it is written.
    fn read(&self) -> Option<NotedRequest> {
        let turn = self.turn.load(Ordering::Acquire);
        if turn == 0 || !turn.is_multiple_of(2) {
            return None;
        }
        let words = self.words.each_ref().map(|word| word.load(Ordering::Relaxed));
        fence(Ordering::Acquire);
        (self.turn.load(Ordering::Relaxed) == turn).then(|| noted(&words))
    }
}

/// The request of the words of a slot.
fn noted(words: &[u64; WORDS]) -> NotedRequest {
    let bytes: Vec<u8> = words[HEAD_WORDS..].iter().flat_map(|word| word.to_le_bytes()).collect();
    let shape = words[SHAPE];
    let mut rest = bytes.as_slice();
    let mut next = |shift: u32| {
        let length = (shape >> shift & 0xff) as usize;
        let (text, further) = rest.split_at(length.min(rest.len()));
        rest = further;
        String::from_utf8_lossy(text).into_owned()
    };
    let id = next(16);
    let operation = next(24);
    let error = next(32);
    let user = next(40);
    let path = next(48);
    let peer = u128::from(words[PEER_HIGH]) << 64 | u128::from(words[PEER_LOW]);
    NotedRequest {
        time: Timestamp::from_millis(words[TIME]),
        id,
        peer: (peer != 0).then(|| Ipv6Addr::from_bits(peer).to_canonical()),
        user: Some(user).filter(|user| !user.is_empty()),
        operation,
        path,
        status: shape as u16,
        error: Some(error).filter(|error| !error.is_empty()),
        received: words[RECEIVED],
        sent: words[SENT],
        took: Duration::from_micros(words[TOOK]),
    }
}

fn bits(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(address) => address.to_ipv6_mapped().to_bits(),
        IpAddr::V6(address) => address.to_bits(),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;
    use std::thread;

    use super::*;

    fn record<'r>(number: u64, path: &'r str, user: &'r str) -> AccessRecord<'r> {
        AccessRecord {
            time: Timestamp::from_millis(number),
            id: "0123456789ABCDEF",
            peer: Some("192.0.2.7:5".parse().unwrap()),
            user: Some(user).filter(|user| !user.is_empty()),
            operation: "GetObject",
            method: "GET",
            path,
            query: "X-Amz-Signature=secret",
            status: 200,
            error: None,
            received: number,
            sent: number,
            took: Duration::from_micros(number),
            secure: false,
            agent: "",
        }
    }

    #[test]
    fn a_request_comes_back_as_it_was_noted() {
        let ring = RequestRing::default();
        assert!(ring.snapshot().is_empty());
        ring.note(&record(1, "/b/first", "ada"), None);
        let refused = AccessRecord {
            status: 403,
            error: Some("AccessDenied"),
            peer: Some("[2001:db8::1]:5".parse().unwrap()),
            ..record(7, "/k", "")
        };
        ring.note(&refused, Some("/site/k"));
        let [last, first] = ring.snapshot().try_into().unwrap();
        let expected = NotedRequest {
            time: Timestamp::from_millis(7),
            id: "0123456789ABCDEF".to_owned(),
            peer: Some("2001:db8::1".parse().unwrap()),
            user: None,
            operation: "GetObject".to_owned(),
            path: "/site/k".to_owned(),
            status: 403,
            error: Some("AccessDenied".to_owned()),
            received: 7,
            sent: 7,
            took: Duration::from_micros(7),
        };
        assert_eq!(last, expected);
        assert_eq!((first.user.as_deref(), first.path.as_str()), (Some("ada"), "/b/first"));
        assert_eq!(first.peer, Some("192.0.2.7".parse().unwrap()));
    }

    #[test]
    fn texts_of_clients_are_cut_between_characters() {
        let ring = RequestRing::default();
        let path = format!("/{}", "ü".repeat(5_000));
        let user = "ö".repeat(400);
        ring.note(&record(1, &path, &user), None);
        ring.note(&record(2, "/-/console/s3", ""), Some(&path));
        for noted in ring.snapshot() {
            assert!(noted.path.len() >= 128 && noted.path.ends_with('ü'), "{}", noted.path);
            assert!(noted.user.is_none_or(|user| user == "ö".repeat(NAME_MAX_BYTES / 2)));
        }
    }

    #[test]
    fn the_newest_requests_take_the_place_of_the_oldest() {
        let ring = RequestRing::default();
        let written = SLOTS as u64 + 44;
        for number in 0..written {
            ring.note(&record(number, "/b/k", "ada"), None);
        }
        let times: Vec<_> = ring.snapshot().iter().map(|noted| noted.time.as_millis()).collect();
        assert_eq!(times, (44..written).rev().collect::<Vec<_>>());
    }

    #[test]
    fn a_reader_beside_writers_sees_whole_requests_alone() {
        let ring = RequestRing::default();
        let is_over = AtomicBool::new(false);
        thread::scope(|threads| {
            for writer in 0..3 {
                let ring = &ring;
                let is_over = &is_over;
                threads.spawn(move || {
                    let mut number = writer;
                    // Bounded, so that a reader that fails ends the test.
                    while !is_over.load(Ordering::Relaxed) && number < 50_000_000 {
                        let path = format!("/b/{}", number.to_string().repeat(9));
                        ring.note(&record(number, &path, &number.to_string()), None);
                        number += 3;
                    }
                });
            }
            let mut seen = 0;
            while seen < 20_000 {
                for noted in ring.snapshot() {
                    let number = noted.time.as_millis();
                    let text = number.to_string();
                    assert_eq!((noted.received, noted.sent), (number, number));
                    assert_eq!(noted.user.as_deref(), Some(&*text));
                    assert_eq!(noted.path, format!("/b/{}", text.repeat(9)));
                    seen += 1;
                }
            }
            is_over.store(true, Ordering::Relaxed);
        });
    }
}
