//! How many bytes of each segment are still wanted.

use std::collections::BTreeMap;

use crate::format::{ExtentHeader, ExtentRef};

/// Bytes of extents (header, payload and block table) that versions refer to, by segment.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Liveness(BTreeMap<u64, u64>);

impl Liveness {
    /// The live bytes of every segment that has any.
    pub fn iter(&self) -> impl Iterator<Item = (u64, u64)> {
        self.0.iter().map(|(segment, bytes)| (*segment, *bytes))
    }

    /// The live bytes of one segment.
    pub fn of(&self, segment: u64) -> u64 {
        self.0.get(&segment).copied().unwrap_or(0)
    }

    pub(super) fn add(&mut self, extents: &[ExtentRef]) {
        for extent in extents {
            *self.0.entry(extent.segment).or_default() += size_of(extent);
        }
    }

    pub(super) fn remove(&mut self, extents: &[ExtentRef]) {
        for extent in extents {
            let live = self.0.entry(extent.segment).or_default();
            *live = live.checked_sub(size_of(extent)).expect("what is removed had been added");
            if *live == 0 {
                self.0.remove(&extent.segment);
            }
        }
    }
}

fn size_of(extent: &ExtentRef) -> u64 {
    let payload_len = u64::from(extent.payload_len);
    ExtentHeader::BYTES as u64 + payload_len + ExtentHeader::table_len(payload_len)
}
