//! Reading objects.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

use crate::format::ExtentRef;
use crate::log::{ExtentReader, SegmentPins};
use crate::store::StoreError;
use crate::store::shared::SharedStore;

/// What is wanted of one extent.
struct ExtentRange {
    extent: ExtentRef,
    /// The next byte of the payload.
    position: u64,
    /// Behind the last byte of the payload that is wanted.
    end: u64,
}

/// Reads a range of the bytes of a version, front to back. Whatever it hands out has been verified.
pub struct ObjectReader {
    shared: Arc<SharedStore>,
    ranges: VecDeque<ExtentRange>,
    /// The reader of the first range.
    current: Option<ExtentReader>,
    /// Segments are opened one after the other; none of them goes before its turn.
    _pins: SegmentPins,
}

impl ObjectReader {
    /// A reader of a range of what lies in `extents`, which `pins` keep.
    pub(super) fn open(
        shared: Arc<SharedStore>,
        extents: &[ExtentRef],
        range: Range<u64>,
        pins: SegmentPins,
    ) -> Result<Self, StoreError> {
        let mut ranges = VecDeque::new();
        let mut start = 0;
        for extent in extents {
            let end = start + u64::from(extent.take);
            let (from, to) = (range.start.max(start), range.end.min(end));
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

    /// Fills `buf` with the next bytes, as far as there are any, and says how many; 0 is the end. A `buf` of whole blocks
    /// spares a copy.
    ///
    /// # Errors
    /// [`StoreError::Corrupt`]: what stands in `buf` must not be used.
    pub fn read(&mut self, buf: &mut [u8]) -> Result<usize, StoreError> {
        let mut filled = 0;
        while filled < buf.len() && !self.ranges.is_empty() {
            filled += self.read_some(&mut buf[filled..])?;
        }
        Ok(filled)
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
        self.current = match self.ranges.front() {
            Some(range) => {
                let segment = self.shared.segments.get(range.extent.segment);
                let segment = segment.map_err(|error| self.shared.failed(error))?;
                Some(ExtentReader::new(segment, range.extent))
            }
            None => None,
        };
        Ok(())
    }
}
