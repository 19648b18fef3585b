//! Bytes of a remote segment that are on their way: a fetch that is read while it comes.

use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::base::NOT_POISONED;
use crate::remote::PartBytes;

/// Bytes of the remote segment.
pub(super) struct FetchedBytes {
    pub(super) range: Range<u64>,
    pub(super) bytes: Vec<u8>,
}

impl FetchedBytes {
    /// For a range, which is a part of theirs.
    pub(super) fn of(&self, range: &Range<u64>) -> &[u8] {
        &self.bytes[(range.start - self.range.start) as usize..(range.end - self.range.start) as usize]
    }
}

/// A fetch with one or many readers. The reader whose bytes are missing takes them from the
/// connection; where none reads, it waits.
pub(super) struct InFlightFetch {
    pub(super) range: Range<u64>,
    rest: Mutex<InFlightBytes>,
}

/// The bytes that no reader has taken, and the last ones that one has.
pub(super) struct InFlightBytes {
    start: u64,
    end: u64,
    /// `None` after the last byte, and after an error.
    source: Option<Box<dyn PartBytes>>,
    /// The last bytes that were taken. The file gets them before the next ones are taken, or after
    /// the last reader: their reader hands them out first.
    pub(super) last: Option<FetchedBytes>,
}

impl InFlightFetch {
    /// The bytes of `range` of a copy, which come from `source`.
    pub(super) fn new(range: Range<u64>, source: Box<dyn PartBytes>) -> Self {
        let rest = InFlightBytes { start: range.start, end: range.end, source: Some(source), last: None };
        Self { range, rest: Mutex::new(rest) }
    }

    /// Waits until no other reader takes bytes.
    pub(super) fn lock(&self) -> MutexGuard<'_, InFlightBytes> {
        self.rest.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The fetches of a segment that are read, each with the number of its readers.
#[derive(Default)]
pub(super) struct InFlightFetches {
    all: Mutex<Vec<CountedFetch>>,
}

struct CountedFetch {
    fetch: Arc<InFlightFetch>,
    readers: usize,
}

impl InFlightFetches {
    fn lock(&self) -> MutexGuard<'_, Vec<CountedFetch>> {
        self.all.lock().expect(NOT_POISONED)
    }

    /// Adds a fetch with one reader.
    pub(super) fn add(&self, fetch: &Arc<InFlightFetch>) {
        self.lock().push(CountedFetch { fetch: Arc::clone(fetch), readers: 1 });
    }

    /// The fetch with the byte at `offset`, which has one reader more then.
    pub(super) fn join(&self, offset: u64) -> Option<Arc<InFlightFetch>> {
        let mut all = self.lock();
        let counted = all.iter_mut().find(|counted| counted.fetch.range.contains(&offset))?;
        // Under the lock of the list: the last reader, who leaves meanwhile, sees this one.
        counted.readers += 1;
        Some(Arc::clone(&counted.fetch))
    }

    /// Takes a reader away. Returns whether it was the last: it keeps the last bytes and calls
    /// [`Self::remove_unread`].
    pub(super) fn leave(&self, fetch: &Arc<InFlightFetch>) -> bool {
        let mut all = self.lock();
        let counted = all.iter_mut().find(|counted| Arc::ptr_eq(&counted.fetch, fetch));
        counted.is_some_and(|counted| {
            counted.readers -= 1;
            counted.readers == 0
        })
    }

    /// Removes a fetch, unless another reader has joined it meanwhile.
    pub(super) fn remove_unread(&self, fetch: &Arc<InFlightFetch>) {
        self.lock().retain(|counted| counted.readers > 0 || !Arc::ptr_eq(&counted.fetch, fetch));
    }
}

impl InFlightBytes {
    /// Whether a reader has taken the byte at `offset`.
    pub(super) fn has_passed(&self, offset: u64) -> bool {
        offset < self.start
    }

    /// Copies the bytes from `offset` on that are among the last ones. Returns the end of those
    /// that it copied.
    pub(super) fn copy_last(&self, buf: &mut [u8], offset: u64) -> Option<u64> {
        let last = self.last.as_ref().filter(|last| last.range.contains(&offset))?;
        let end = last.range.end.min(offset + buf.len() as u64);
        buf[..(end - offset) as usize].copy_from_slice(last.of(&(offset..end)));
        Some(end)
    }

    /// Takes the bytes up to `end`, if that at `needed` is among them. `None` if it is not, or if
    /// the connection has ended: it can be fetched anew.
    pub(super) fn take(
        &mut self,
        needed: u64,
        end: u64,
        within: impl Fn(u64) -> Duration,
    ) -> Option<FetchedBytes> {
        let range = self.start..end.min(self.end);
        // Taken out while it is read: after an error nobody knows how much has come, and the rest
        // is fetched anew.
        let mut source = self.source.take_if(|_| range.contains(&needed))?;
        let mut bytes = vec![0; (range.end - range.start) as usize];
        let read = source.read(&mut bytes, within(range.end - range.start));
        read.inspect_err(|why| log::debug!("bytes {range:?} of a segment are fetched anew: {why}")).ok()?;
        self.start = range.end;
        self.source = Some(source).filter(|_| self.start < self.end);
        Some(FetchedBytes { range, bytes })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::remote::RemoteError;

    struct NoBytes;

    impl PartBytes for NoBytes {
        fn read(&mut self, _: &mut [u8], _: Duration) -> Result<(), RemoteError> {
            Err(RemoteError::Missing)
        }
    }

    #[test]
    fn a_fetch_is_found_until_its_last_reader_has_kept_its_bytes() {
        let fetches = InFlightFetches::default();
        let fetch = Arc::new(InFlightFetch::new(4096..8192, Box::new(NoBytes)));
        fetches.add(&fetch);
        assert!(fetches.join(8192).is_none());
        let joined = fetches.join(4096).unwrap();
        assert!(!fetches.leave(&fetch), "the one who joined reads on");
        assert!(fetches.leave(&joined));
        // The last one keeps its bytes: who comes then joins it, and the fetch stays.
        let late = fetches.join(5000).unwrap();
        fetches.remove_unread(&joined);
        assert!(fetches.join(5000).is_some() && !fetches.leave(&fetch));
        assert!(fetches.leave(&late));
        fetches.remove_unread(&late);
        assert!(fetches.join(4096).is_none());
    }
}
