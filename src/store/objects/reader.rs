//! Reading objects.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

use crate::format::ExtentRef;
use crate::log::{ExtentReader, SegmentPins};
use crate::store::StoreError;
use crate::store::shared::SharedStore;

/// The range of an extent that is to be read.
struct ExtentRange {
    extent: ExtentRef,
    /// The next byte of the payload.
    position: u64,
    /// The end of the range in the payload.
    end: u64,
}

/// Reads a range of the bytes of a version in order. It verifies all bytes before it returns them.
pub struct ObjectReader {
    shared: Arc<SharedStore>,
    ranges: VecDeque<ExtentRange>,
    /// The reader of the first range; at the end the last one's, which may hold bytes that
    /// are still to be kept.
    current: Option<ExtentReader>,
    /// Keeps all segments until the end, since they are opened one after the other.
    _pins: SegmentPins,
}

impl ObjectReader {
    /// A reader of a range of the bytes in `extents`, which `pins` keep.
    pub(in crate::store) fn open(
        shared: Arc<SharedStore>,
        extents: &[ExtentRef],
        range: Range<u64>,
        pins: SegmentPins,
    ) -> Result<Self, StoreError> {
        let mut ranges = VecDeque::new();
        let mut start = 0;
        for extent in extents {
            let end = start + u64::from(extent.take);
            let from = range.start.max(start);
            let to = range.end.min(end);
            if from < to {
                let skip = u64::from(extent.skip);
                ranges.push_back(ExtentRange {
                    extent: *extent,
                    position: skip + from - start,
                    end: skip + to - start,
                });
            }
            start = end;
        }
        let mut reader = Self { shared, ranges, current: None, _pins: pins };
        reader.open_first()?;
        Ok(reader)
    }

    /// Fills `buf` with the next bytes and returns their number; fewer than its length, or 0, at
    /// the end. A `buf` of whole blocks saves a copy.
    ///
    /// # Errors
    /// [`StoreError::Corrupt`]: the content of `buf` must not be used.
    pub fn read(&mut self, buf: &mut [u8]) -> Result<usize, StoreError> {
        let mut filled = 0;
        while filled < buf.len() && !self.ranges.is_empty() {
            filled += self.read_some(&mut buf[filled..])?;
        }
        Ok(filled)
    }

    /// Whether the next bytes come from another host.
    pub fn is_coming(&self) -> bool {
        self.current.as_ref().is_some_and(ExtentReader::is_coming)
    }

    fn read_some(&mut self, buf: &mut [u8]) -> Result<usize, StoreError> {
        let (Some(range), Some(reader)) = (self.ranges.front_mut(), self.current.as_mut()) else {
            return Ok(0);
        };
        let len = reader.read(range.position, range.end, buf).map_err(|error| self.shared.failed(error))?;
        range.position += len as u64;
        if range.position == range.end {
            self.ranges.pop_front();
            self.open_first()?;
        }
        Ok(len)
    }

    fn open_first(&mut self) -> Result<(), StoreError> {
        let Some(range) = self.ranges.front() else { return Ok(()) };
        let segment = self.shared.segments.get(range.extent.segment);
        let segment = segment.map_err(|error| self.shared.failed(error))?;
        let mut reader = ExtentReader::new(segment, range.extent);
        let told = reader.will_read(range.position, range.end);
        told.map_err(|error| self.shared.failed(error))?;
        self.current = Some(reader);
        Ok(())
    }
}
