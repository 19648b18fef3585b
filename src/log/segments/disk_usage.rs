//! The disk space of all segments.

use std::collections::HashSet;
use std::io::ErrorKind;
use std::sync::atomic::{AtomicU64, Ordering};

use super::Segments;
use crate::base::NOT_POISONED;
use crate::format::segment_path;
use crate::log::LogError;

/// Segments that one call measures at most, which bounds the time that it takes.
const MEASURED_AT_ONCE_MAX: usize = 256;
/// Nothing is known.
const UNKNOWN: u64 = u64::MAX;
/// A measurement runs, and nothing has changed since it began.
const BEING_MEASURED: u64 = u64::MAX - 1;

/// The allocated bytes of one segment, as far as they are known.
#[derive(Debug)]
pub(super) struct MeasuredBytes(AtomicU64);

impl Default for MeasuredBytes {
    fn default() -> Self {
        Self(AtomicU64::new(UNKNOWN))
    }
}

impl MeasuredBytes {
    fn known(&self) -> Option<u64> {
        Some(self.0.load(Ordering::Acquire)).filter(|bytes| *bytes < BEING_MEASURED)
    }

    fn begin(&self) {
        self.0.store(BEING_MEASURED, Ordering::Release);
    }

    /// Keeps the result, unless the segment changed meanwhile.
    fn end(&self, bytes: u64) {
        let _ = self.0.compare_exchange(BEING_MEASURED, bytes, Ordering::AcqRel, Ordering::Relaxed);
    }

    fn forget(&self) {
        self.0.store(UNKNOWN, Ordering::Release);
    }
}

impl Segments {
    /// The bytes that all segments take up on the disk: with preallocated space, without holes.
    /// `None` while segments are left that further calls have to measure.
    ///
    /// # Errors
    /// Of the disk.
    pub fn allocated_bytes(&self) -> Result<Option<u64>, LogError> {
        let immutable: HashSet<u64> = self.immutable_segments().into_iter().collect();
        let mut sum = 0;
        let mut unknown = Vec::new();
        for (id, entry) in self.known.read().expect(NOT_POISONED).iter() {
            match entry.allocated_bytes.known() {
                Some(bytes) => sum += bytes,
                None => unknown.push(*id),
            }
        }
        for id in unknown.iter().copied().take(MEASURED_AT_ONCE_MAX) {
            sum += self.measure(id, immutable.contains(&id))?;
        }
        Ok((unknown.len() <= MEASURED_AT_ONCE_MAX).then_some(sum))
    }

    /// Has the disk space of a segment measured again, after it was sealed or punched.
    pub fn forget_allocated_bytes(&self, id: u64) {
        self.with_measured(id, MeasuredBytes::forget);
    }

    /// The allocated bytes of a segment; 0 if it is missing. They are remembered if no writer
    /// changes them.
    fn measure(&self, id: u64, is_immutable: bool) -> Result<u64, LogError> {
        if is_immutable {
            // 1. Marked before it is measured: a hole that is punched in between ends the mark, and
            //    the result is not kept.
            self.with_measured(id, MeasuredBytes::begin);
        }
        // Not by way of the cache: that is for readers.
        let bytes = match self.fs.open_read(&segment_path(id)) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(0),
            file => file?.usage()?.allocated_bytes,
        };
        // 2. Kept only where the mark still stands.
        self.with_measured(id, |measured| measured.end(bytes));
        Ok(bytes)
    }

    /// A clone of the entry would count as a pin.
    fn with_measured(&self, id: u64, act: impl FnOnce(&MeasuredBytes)) {
        let known = self.known.read().expect(NOT_POISONED);
        if let Some(entry) = known.get(&id) {
            act(&entry.allocated_bytes);
        }
    }
}
