//! Bytes of a remote segment that are on their way: a fetch that is read while it comes.

use std::ops::Range;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::remote::PartBytes;

/// A fetch with one or many readers. The reader whose bytes are missing takes them from the connection; where none reads, it waits.
pub(super) struct ComingBytes {
    pub(super) range: Range<u64>,
    rest: Mutex<ComingRest>,
}

/// The bytes that no reader has taken.
pub(super) struct ComingRest {
    start: u64,
    end: u64,
    /// `None` after the last byte, and after an error.
    source: Option<Box<dyn PartBytes>>,
}

impl ComingBytes {
    /// The bytes of `range` of a copy, which come from `source`.
    pub(super) fn new(range: Range<u64>, source: Box<dyn PartBytes>) -> Self {
        let rest = ComingRest { start: range.start, end: range.end, source: Some(source) };
        Self { range, rest: Mutex::new(rest) }
    }

    /// Waits until no other reader takes bytes.
    pub(super) fn lock(&self) -> MutexGuard<'_, ComingRest> {
        self.rest.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ComingRest {
    /// Takes the bytes up to `end`, if that at `needed` is among them. `None` if it is not, or if the connection has ended: it can be fetched
    /// anew.
    pub(super) fn take(
        &mut self,
        needed: u64,
        end: u64,
        within: impl Fn(u64) -> Duration,
    ) -> Option<(Range<u64>, Vec<u8>)> {
        let range = self.start..end.min(self.end);
        let mut source = self.source.take_if(|_| range.contains(&needed))?;
        let mut bytes = vec![0; (range.end - range.start) as usize];
        let read = source.read(&mut bytes, within(range.end - range.start));
        read.inspect_err(|why| log::debug!("bytes {range:?} of a segment are fetched anew: {why}")).ok()?;
        self.start = range.end;
        self.source = Some(source).filter(|_| self.start < self.end);
        Some((range, bytes))
    }
}
