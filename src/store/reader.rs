//! Reading objects.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

use crate::format::ExtentRef;
use crate::log::{ExtentReader, Pins};
use crate::store::StoreError;
use crate::store::shared::Shared;

/// What is wanted of one extent.
struct Piece {
    extent: ExtentRef,
    /// The next byte of the payload.
    position: u64,
    /// Behind the last byte of the payload that is wanted.
    end: u64,
}

/// Reads a range of the bytes of a version, front to back. Whatever it hands out has been verified.
pub struct ObjectReader {
    shared: Arc<Shared>,
    pieces: VecDeque<Piece>,
    /// The reader of the first piece.
    current: Option<ExtentReader>,
    /// Segments are opened one after the other; none of them goes before its turn.
    _pins: Pins,
}

impl ObjectReader {
    /// A reader of a range of what lies in `extents`, which `pins` keep.
    pub(super) fn open(
        shared: Arc<Shared>,
        extents: &[ExtentRef],
        range: Range<u64>,
        pins: Pins,
    ) -> Result<Self, StoreError> {
        let mut pieces = VecDeque::new();
        let mut start = 0;
        for extent in extents {
            let end = start + u64::from(extent.take);
            let (from, to) = (range.start.max(start), range.end.min(end));
            if from < to {
                let skip = u64::from(extent.skip);
                pieces.push_back(Piece {
                    extent: *extent,
                    position: skip + from - start,
                    end: skip + to - start,
                });
            }
            start = end;
        }
        let mut reader = Self { shared, pieces, current: None, _pins: pins };
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
        while filled < buf.len() && !self.pieces.is_empty() {
            filled += self.read_some(&mut buf[filled..])?;
        }
        Ok(filled)
    }

    fn read_some(&mut self, buf: &mut [u8]) -> Result<usize, StoreError> {
        let (Some(piece), Some(reader)) = (self.pieces.front_mut(), self.current.as_mut()) else {
            return Ok(0);
        };
        let len = reader.read(piece.position, piece.end, buf).map_err(|error| self.shared.failed(error))?;
        piece.position += len as u64;
        if piece.position == piece.end {
            self.pieces.pop_front();
            self.open_first()?;
        }
        Ok(len)
    }

    fn open_first(&mut self) -> Result<(), StoreError> {
        self.current = match self.pieces.front() {
            Some(piece) => {
                let segment = self.shared.segments.get(piece.extent.segment);
                let segment = segment.map_err(|error| self.shared.failed(error))?;
                Some(ExtentReader::new(segment, piece.extent))
            }
            None => None,
        };
        Ok(())
    }
}
