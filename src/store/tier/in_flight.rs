//! Bytes of a remote segment that are on their way: a fetch that is read while it comes.

use std::io;
use std::ops::Range;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

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

/// Keeps bytes in the file that they were fetched for.
pub(super) type KeepBytes = Box<dyn Fn(&FetchedBytes) -> io::Result<()> + Send + Sync>;

/// A fetch with one or many readers. The reader whose bytes are missing takes them from the
/// connection; where none reads, it waits.
pub(super) struct InFlightFetch {
    pub(super) range: Range<u64>,
    rest: Mutex<InFlightBytes>,
    keep: KeepBytes,
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
    /// The bytes of `range` of a copy, which come from `source`. `keep` gets the last ones that no
    /// reader was there to keep.
    pub(super) fn new(range: Range<u64>, source: Box<dyn PartBytes>, keep: KeepBytes) -> Self {
        let rest = InFlightBytes { start: range.start, end: range.end, source: Some(source), last: None };
        Self { range, rest: Mutex::new(rest), keep }
    }

    /// Waits until no other reader takes bytes.
    pub(super) fn lock(&self) -> MutexGuard<'_, InFlightBytes> {
        self.rest.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for InFlightFetch {
    fn drop(&mut self) {
        let last = self.rest.get_mut().unwrap_or_else(PoisonError::into_inner).last.take();
        if let Some(Err(error)) = last.map(|last| (self.keep)(&last)) {
            log::warn!("fetched bytes are not kept: {error}");
        }
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
        let mut source = self.source.take_if(|_| range.contains(&needed))?;
        let mut bytes = vec![0; (range.end - range.start) as usize];
        let read = source.read(&mut bytes, within(range.end - range.start));
        read.inspect_err(|why| log::debug!("bytes {range:?} of a segment are fetched anew: {why}")).ok()?;
        self.start = range.end;
        self.source = Some(source).filter(|_| self.start < self.end);
        Some(FetchedBytes { range, bytes })
    }
}
